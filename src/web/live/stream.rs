//! The events of one page that is open: frames as its client takes them. It holds the number of a frame and no frame, so a slow client
//! costs no memory; who falls too far behind is told to look at everything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::hub::{After, Hub};
use super::seats::Seat;
use super::{Live, frame};
use crate::domain::ids::CheckId;
use crate::web::who::Viewer;
use crate::wire::outgoing::{Endless, Piece};

/// How often something is sent in any case, so that proxies keep the connection and a client that is gone is noticed. Then it is also looked
/// at whether the viewer may still look. See [limits](crate::docs::limits).
const BEAT: Duration = Duration::from_secs(20);
/// What a stream begins with: how long a browser waits before it connects again, in milliseconds, and a comment.
const GREETING: &str = "retry: 3000\n: overdue\n\n";
/// A comment.
const SIGN_OF_LIFE: &str = ":\n\n";

/// See the module.
pub(super) struct Stream {
    live: Arc<Live>,
    hub: Arc<Hub>,
    newest: watch::Receiver<u64>,
    people: watch::Receiver<u64>,
    viewer: Viewer,
    /// The number of the last frame that was sent or passed over.
    after: u64,
    /// The only check that is looked at.
    only: Option<CheckId>,
    is_greeted: bool,
    beat: Interval,
    seat: Seat,
}

impl Stream {
    pub(super) fn new(live: &Arc<Live>, hub: Arc<Hub>, viewer: Viewer, after: u64, only: Option<CheckId>, seat: Seat) -> Self {
        hub.join();
        let (newest, people) = (hub.newest(), live.handle.people());
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        Self { live: Arc::clone(live), hub, newest, people, viewer, after, only, is_greeted: false, beat, seat }
    }

    /// The next piece; `None`: the viewer may not look any more.
    async fn piece(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.is_greeted, true) {
            return Some(GREETING.into());
        }
        loop {
            if self.people.has_changed().ok()? {
                self.people.mark_unchanged();
                self.may_look()?;
            }
            match self.hub.after(self.after) {
                After::Frame(found) => {
                    self.after = found.number;
                    match self.only {
                        None => return Some(found.event.clone()),
                        Some(id) if found.touches(id) => return Some(frame::touched(self.hub.epoch, found.number)),
                        Some(_) => continue,
                    }
                }
                After::Lost(newest) => {
                    self.after = newest;
                    return Some(frame::lost(self.hub.epoch, newest));
                }
                After::Nothing => {}
            }
            tokio::select! {
                // Another page of the same browser takes its place.
                () = self.seat.lost() => return None,
                changed = self.newest.changed() => changed.ok()?,
                changed = self.people.changed() => {
                    changed.ok()?;
                    self.may_look()?;
                }
                _ = self.beat.tick() => {
                    self.may_look()?;
                    return Some(SIGN_OF_LIFE.into());
                }
            }
        }
    }

    fn may_look(&self) -> Option<()> {
        self.viewer.may_still_read(&self.live.handle, self.hub.project).then_some(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.hub.leave();
    }
}

impl Endless for Stream {
    fn next(mut self: Box<Self>) -> Piece {
        Box::pin(async move {
            let piece = self.piece().await?;
            Some((piece, self as Box<dyn Endless>))
        })
    }
}
