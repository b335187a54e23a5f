//! Event stream of one open page. It holds the number of a frame but no frame, so a slow client
//! costs no memory. A client that falls too far behind gets an event to reload everything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::hub::{NextFrame, UpdateHub};
use super::stream_limit::StreamPermit;
use super::{LiveUpdates, update_frame};
use crate::domain::ids::CheckId;
use crate::http::common::response_body::{EndlessChunk, EndlessSource};
use crate::http::dashboard::viewer::Viewer;

/// Interval at which something is sent in any case, so that proxies keep the connection and a
/// closed connection is noticed. The access of the viewer is checked at the same time. See
/// [limits](crate::docs::limits).
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(20);
/// Start of a stream: the delay before a browser reconnects, in milliseconds, and a comment.
const STREAM_PREAMBLE: &str = "retry: 3000\n: overdue\n\n";
/// An empty comment.
const HEARTBEAT: &str = ":\n\n";

/// Event stream of one open page.
pub(super) struct EventStream {
    live: Arc<LiveUpdates>,
    hub: Arc<UpdateHub>,
    newest: watch::Receiver<u64>,
    access_changes: watch::Receiver<u64>,
    viewer: Viewer,
    /// Number of the last frame that was sent or skipped.
    last_frame: u64,
    /// The only check that the page shows.
    only_check: Option<CheckId>,
    has_sent_preamble: bool,
    heartbeat: Interval,
    permit: StreamPermit,
}

impl EventStream {
    pub(super) fn new(
        live: &Arc<LiveUpdates>,
        hub: Arc<UpdateHub>,
        viewer: Viewer,
        after: u64,
        only: Option<CheckId>,
        permit: StreamPermit,
    ) -> Self {
        hub.add_stream();
        let newest = hub.subscribe();
        let access_changes = live.handle.access_changes();
        let mut heartbeat = interval(HEARTBEAT_INTERVAL);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        Self {
            live: Arc::clone(live),
            hub,
            newest,
            access_changes,
            viewer,
            last_frame: after,
            only_check: only,
            has_sent_preamble: false,
            heartbeat,
            permit,
        }
    }

    /// Returns the next chunk. `None` if the viewer has lost access.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_sent_preamble, true) {
            return Some(STREAM_PREAMBLE.into());
        }
        loop {
            if self.access_changes.has_changed().ok()? {
                self.access_changes.mark_unchanged();
                self.check_access()?;
            }
            match self.hub.frame_after(self.last_frame) {
                NextFrame::Ready(found) => {
                    self.last_frame = found.number;
                    match self.only_check {
                        None => return Some(found.event.clone()),
                        Some(id) if found.concerns(id) => {
                            return Some(update_frame::check_changed_event(
                                self.hub.epoch,
                                found.number,
                            ));
                        }
                        Some(_) => continue,
                    }
                }
                NextFrame::Dropped(newest) => {
                    self.last_frame = newest;
                    return Some(update_frame::reload_all_event(self.hub.epoch, newest));
                }
                NextFrame::Pending => {}
            }
            tokio::select! {
                // Another page of the same browser takes its place.
                () = self.permit.wait_for_revocation() => return None,
                changed = self.newest.changed() => changed.ok()?,
                changed = self.access_changes.changed() => {
                    changed.ok()?;
                    self.check_access()?;
                }
                _ = self.heartbeat.tick() => {
                    self.check_access()?;
                    return Some(HEARTBEAT.into());
                }
            }
        }
    }

    fn check_access(&self) -> Option<()> {
        self.viewer
            .can_still_read(&self.live.handle, self.hub.project)
            .then_some(())
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.hub.remove_stream();
    }
}

impl EndlessSource for EventStream {
    fn next(mut self: Box<Self>) -> EndlessChunk {
        Box::pin(async move {
            let chunk = self.next_chunk().await?;
            Some((chunk, self as Box<dyn EndlessSource>))
        })
    }
}
