//! Pages that change before one's eyes: what has changed in a project goes to everybody who looks at it, as events while a page is seen,
//! or as JSON to whoever asks now and then.

mod frame;
mod hub;
mod seats;
mod seen;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::{ACCEPT, HeaderMap, HeaderName};
use tokio::runtime;
use tokio::time::timeout;

use super::error::Trouble;
use super::route::Page;
use super::visit::Visit;
use crate::domain::ids::{CheckId, ProjectId, path_uuid};
use crate::domain::moment::Moment;
use crate::engine::Handle;
use crate::wire::outgoing::{Content, Outgoing};
use crate::wire::reply::{self, Fault, Reply};
use frame::{mark, read_mark};
use hub::{After, Hub};
use seats::Seats;
use stream::Stream;

/// The last event that a browser got before it lost the connection (HTML Standard, section 9.2.4).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Has proxies of the kind of nginx pass events on as they come.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How long who asks now and then waits for a frame of what has just changed.
const PATIENCE: Duration = Duration::from_millis(300);

/// All hubs, and who listens.
pub(super) struct Live {
    handle: Handle,
    outgoing: Outgoing,
    /// Where hubs work: not where pings are answered.
    runtime: Option<runtime::Handle>,
    hubs: Mutex<HashMap<ProjectId, Arc<Hub>>>,
    seats: Arc<Seats>,
}

/// What a page needs to be kept up to date.
pub(crate) struct Place {
    /// Where its events come from.
    pub(crate) events: String,
    /// The name of the frame after which the page was made.
    pub(crate) since: String,
    /// The zone of the times on it.
    pub(crate) zone: String,
}

impl Live {
    /// Hubs work on the runtime on which this is made.
    pub(super) fn new(handle: Handle, outgoing: Outgoing) -> Arc<Self> {
        let runtime = runtime::Handle::try_current().ok();
        let live = Arc::new(Self { handle, outgoing, runtime, hubs: Mutex::default(), seats: Arc::default() });
        let weak = Arc::downgrade(&live);
        live.handle.clock().on_move(move || {
            if let Some(live) = weak.upgrade() {
                live.hubs().values().for_each(|hub| hub.asked.notify_one());
            }
        });
        live
    }

    fn hubs(&self) -> MutexGuard<'_, HashMap<ProjectId, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many pages are kept up to date by a stream.
    pub(super) fn streams(&self) -> usize {
        self.seats.taken()
    }

    /// The hub of a project. From now on it knows what changes.
    fn hub(self: &Arc<Self>, project: ProjectId) -> Option<Arc<Hub>> {
        let runtime = self.runtime.as_ref()?;
        let mut hubs = self.hubs();
        let hub = hubs.entry(project).or_insert_with(|| {
            let epoch = u32::from_le_bytes(self.handle.random().bytes());
            let hub = Arc::new(Hub::new(project, epoch, self.handle.watch_project(project), self.handle.now()));
            runtime.spawn(hub::run(Arc::downgrade(self), Arc::clone(&hub)));
            hub
        });
        hub.is_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(hub))
    }

    /// Lets a hub end that nobody has asked for. False if somebody has.
    fn forget(&self, hub: &Hub) -> bool {
        let mut hubs = self.hubs();
        let ends = hub.streams() == 0 && !hub.is_used.swap(false, Ordering::Relaxed);
        if ends {
            hubs.remove(&hub.project);
        }
        ends
    }

    /// How long it is until a moment; `None`: the clock tells when it moves, or there is none.
    fn wait(&self, until: Option<Moment>) -> Option<Duration> {
        let until = until.filter(|_| self.handle.clock().is_system())?;
        Some(Duration::from_micros(until.micros_since(self.handle.now()).max(0).unsigned_abs()))
    }
}

impl Visit {
    /// What the page needs to be kept up to date; of one check if it is about one. To be asked for before anything is read for the page.
    pub(crate) fn live(&self) -> Option<Place> {
        let project = self.project().ok()?;
        let hub = self.site.live.hub(project.id)?;
        let mut events = self.link(&Page::Events(project.uuid));
        if let Ok(check) = self.check() {
            events.push_str(&format!("?check={}", check.uuid));
        }
        Some(Place { events, since: hub.mark(), zone: self.viewer.zone.name().to_owned() })
    }
}

/// Answers who wants to be told of changes: with a stream of events, or, unless that is asked for, with what has changed since.
pub(super) async fn answer(visit: Visit, headers: &HeaderMap) -> Result<Reply, Trouble> {
    let live = Arc::clone(&visit.site.live);
    let project = visit.project()?.id;
    let only = only(&visit, project)?;
    let hub = live.hub(project).ok_or(Fault::Unavailable)?;
    let header = headers.get(&LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let since = header.unwrap_or_else(|| visit.query.get("since"));
    // Whoever names no frame begins with the next one. What another hub has sent is as good as lost.
    let since = if since.is_empty() {
        *hub.newest().borrow()
    } else {
        read_mark(since).filter(|(epoch, _)| *epoch == hub.epoch).map_or(u64::MAX, |(_, number)| number)
    };
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if !accepted.any(|accepts| accepts.contains("text/event-stream")) {
        return Ok(reply::never_cached(reply::json(polled(&hub, since, only).await)));
    }
    let session = visit.viewer.person.as_ref().and_then(|person| person.session.as_ref()).map(|session| session.id);
    let seat = live.seats.take(session, visit.came.client.addr).ok_or(Fault::TooManyStreams)?;
    let stream = Stream::new(&live, hub, visit.viewer.clone(), since, only, seat);
    let mut reply = reply::never_cached(reply::content("text/event-stream", Content::endless(Box::new(stream))));
    reply::set(&mut reply, ACCEL_BUFFERING, "no");
    Ok(reply)
}

/// Answers whoever wants events and is signed out. A browser takes nothing but events for an answer, and would ask again and again.
pub(super) fn over() -> Reply {
    reply::never_cached(reply::content("text/event-stream", "event: over\ndata: signed out\n\n"))
}

/// The only check that is looked at, if one is named.
fn only(visit: &Visit, project: ProjectId) -> Result<Option<CheckId>, Trouble> {
    let named = visit.query.get("check");
    if named.is_empty() {
        return Ok(None);
    }
    visit.handle().with_state(|state| {
        let check = path_uuid(named).and_then(|uuid| state.check_by_uuid(uuid)).filter(|check| check.project == project);
        Ok(Some(check.ok_or_else(Trouble::nothing_here)?.id))
    })
}

/// What has changed since a frame, as JSON: the name of the newest frame, and the frames.
async fn polled(hub: &Hub, since: u64, only: Option<CheckId>) -> Vec<u8> {
    hub.asked.notify_one();
    if matches!(hub.after(since), After::Nothing) {
        let mut newest = hub.newest();
        newest.mark_unchanged();
        // What changes later is told next time.
        let _ = timeout(PATIENCE, newest.changed()).await;
    }
    let (mut frames, mut after) = (Vec::new(), since);
    loop {
        let data = match hub.after(after) {
            After::Nothing => break,
            After::Lost(newest) => {
                after = newest;
                br#"{"whole":true}"#.to_vec()
            }
            After::Frame(frame) => {
                after = frame.number;
                match only {
                    None => frame.data().to_vec(),
                    Some(id) if frame.touches(id) => b"{}".to_vec(),
                    Some(_) => continue,
                }
            }
        };
        frames.push(data);
    }
    let id = mark(hub.epoch, after);
    [format!("{{\"id\":\"{id}\",\"frames\":[").as_bytes(), &frames.join(&b","[..]), b"]}"].concat()
}
