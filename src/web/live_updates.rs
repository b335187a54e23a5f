//! Pages that change before one's eyes: what has changed in a project goes to everybody who looks at it, as events while a page is seen,
//! or as JSON to whoever asks now and then.

mod hub;
mod snapshot;
mod stream;
mod stream_limit;
mod update_frame;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::{ACCEPT, HeaderMap, HeaderName};
use tokio::runtime;
use tokio::time::timeout;

use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_routes::Page;
use crate::domain::ids::{CheckId, ProjectId, parse_path_uuid};
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::wire::reply::{self, HttpError, HttpReply};
use crate::wire::response_body::{ResponseBody, ResponseWriter};
use hub::{NextFrame, UpdateHub};
use stream::EventStream;
use stream_limit::StreamLimit;
use update_frame::{frame_id, parse_frame_id};

/// The last event that a browser got before it lost the connection (HTML Standard, section 9.2.4).
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");
/// Has proxies of the kind of nginx pass events on as they come.
const ACCEL_BUFFERING_HEADER: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How long who asks now and then waits for a frame of what has just changed.
const POLL_TIMEOUT: Duration = Duration::from_millis(300);

/// All hubs, and who listens.
pub(super) struct LiveUpdates {
    handle: Handle,
    outgoing: ResponseWriter,
    /// Where hubs work: not where pings are answered.
    runtime: Option<runtime::Handle>,
    hubs: Mutex<HashMap<ProjectId, Arc<UpdateHub>>>,
    stream_limit: Arc<StreamLimit>,
}

/// What a page needs to be kept up to date.
pub(crate) struct LiveSubscription {
    /// Where its events come from.
    pub(crate) events: String,
    /// The name of the frame after which the page was made.
    pub(crate) since: String,
    /// The zone of the times on it.
    pub(crate) zone: String,
}

impl LiveUpdates {
    /// Hubs work on the runtime on which this is made.
    pub(super) fn new(handle: Handle, outgoing: ResponseWriter) -> Arc<Self> {
        let runtime = runtime::Handle::try_current().ok();
        let live = Arc::new(Self { handle, outgoing, runtime, hubs: Mutex::default(), stream_limit: Arc::default() });
        let weak = Arc::downgrade(&live);
        live.handle.clock().on_move(move || {
            if let Some(live) = weak.upgrade() {
                live.lock_hubs().values().for_each(|hub| hub.wakeup.notify_one());
            }
        });
        live
    }

    fn lock_hubs(&self) -> MutexGuard<'_, HashMap<ProjectId, Arc<UpdateHub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many pages are kept up to date by a stream.
    pub(super) fn stream_count(&self) -> usize {
        self.stream_limit.open_streams()
    }

    /// The hub of a project. From now on it knows what changes.
    fn hub(self: &Arc<Self>, project: ProjectId) -> Option<Arc<UpdateHub>> {
        let runtime = self.runtime.as_ref()?;
        let mut hubs = self.lock_hubs();
        let hub = hubs.entry(project).or_insert_with(|| {
            let epoch = u32::from_le_bytes(self.handle.random().bytes());
            let hub = Arc::new(UpdateHub::new(project, epoch, self.handle.subscribe_to_project(project), self.handle.now()));
            runtime.spawn(hub::run_hub(Arc::downgrade(self), Arc::clone(&hub)));
            hub
        });
        hub.is_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(hub))
    }

    /// Lets a hub end that nobody has asked for. False if somebody has.
    fn remove_idle_hub(&self, hub: &UpdateHub) -> bool {
        let mut hubs = self.lock_hubs();
        let ends = hub.stream_count() == 0 && !hub.is_used.swap(false, Ordering::Relaxed);
        if ends {
            hubs.remove(&hub.project);
        }
        ends
    }

    /// How long it is until a moment; `None`: the clock tells when it moves, or there is none.
    fn time_until(&self, until: Option<Timestamp>) -> Option<Duration> {
        let until = until.filter(|_| self.handle.clock().is_system())?;
        Some(Duration::from_micros(until.micros_since(self.handle.now()).max(0).unsigned_abs()))
    }
}

impl PageRequest {
    /// What the page needs to be kept up to date; of one check if it is about one. To be asked for before anything is read for the page.
    pub(crate) fn live_subscription(&self) -> Option<LiveSubscription> {
        let project = self.project().ok()?;
        let hub = self.dashboard.live_updates.hub(project.id)?;
        let mut events = self.page_url(&Page::Events(project.uuid));
        if let Ok(check) = self.check() {
            events.push_str(&format!("?check={}", check.uuid));
        }
        Some(LiveSubscription { events, since: hub.newest_frame_id(), zone: self.viewer.zone.name().to_owned() })
    }
}

/// Answers who wants to be told of changes: with a stream of events, or, unless that is asked for, with what has changed since.
pub(super) async fn handle_request(visit: PageRequest, headers: &HeaderMap) -> Result<HttpReply, PageError> {
    let live = Arc::clone(&visit.dashboard.live_updates);
    let project = visit.project()?.id;
    let only = requested_check(&visit, project)?;
    let hub = live.hub(project).ok_or(HttpError::Unavailable)?;
    let header = headers.get(&LAST_EVENT_ID_HEADER).and_then(|value| value.to_str().ok());
    let since = header.unwrap_or_else(|| visit.query.get("since"));
    // Whoever names no frame begins with the next one. What another hub has sent is as good as lost.
    let since = if since.is_empty() {
        *hub.subscribe().borrow()
    } else {
        parse_frame_id(since).filter(|(epoch, _)| *epoch == hub.epoch).map_or(u64::MAX, |(_, number)| number)
    };
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if !accepted.any(|accepts| accepts.contains("text/event-stream")) {
        return Ok(reply::with_no_store(reply::json(poll_updates(&hub, since, only).await)));
    }
    let session = visit.viewer.signed_in.as_ref().and_then(|person| person.session.as_ref()).map(|session| session.id);
    let seat = live.stream_limit.acquire(session, visit.origin.client.addr).ok_or(HttpError::TooManyStreams)?;
    let stream = EventStream::new(&live, hub, visit.viewer.clone(), since, only, seat);
    let mut reply = reply::with_no_store(reply::content("text/event-stream", ResponseBody::from_endless(Box::new(stream))));
    reply::set_header(&mut reply, ACCEL_BUFFERING_HEADER, "no");
    Ok(reply)
}

/// Answers whoever wants events and is signed out. A browser takes nothing but events for an answer, and would ask again and again.
pub(super) fn session_ended_reply() -> HttpReply {
    reply::with_no_store(reply::content("text/event-stream", "event: over\ndata: signed out\n\n"))
}

/// The only check that is looked at, if one is named.
fn requested_check(visit: &PageRequest, project: ProjectId) -> Result<Option<CheckId>, PageError> {
    let named = visit.query.get("check");
    if named.is_empty() {
        return Ok(None);
    }
    visit.handle().with_state(|state| {
        let check = parse_path_uuid(named).and_then(|uuid| state.check_by_uuid(uuid)).filter(|check| check.project == project);
        Ok(Some(check.ok_or_else(PageError::not_found)?.id))
    })
}

/// What has changed since a frame, as JSON: the name of the newest frame, and the frames.
async fn poll_updates(hub: &UpdateHub, since: u64, only: Option<CheckId>) -> Vec<u8> {
    hub.wakeup.notify_one();
    if matches!(hub.frame_after(since), NextFrame::Pending) {
        let mut newest = hub.subscribe();
        newest.mark_unchanged();
        // What changes later is told next time.
        let _ = timeout(POLL_TIMEOUT, newest.changed()).await;
    }
    let (mut frames, mut after) = (Vec::new(), since);
    loop {
        let data = match hub.frame_after(after) {
            NextFrame::Pending => break,
            NextFrame::Dropped(newest) => {
                after = newest;
                br#"{"whole":true}"#.to_vec()
            }
            NextFrame::Ready(frame) => {
                after = frame.number;
                match only {
                    None => frame.data().to_vec(),
                    Some(id) if frame.concerns(id) => b"{}".to_vec(),
                    Some(_) => continue,
                }
            }
        };
        frames.push(data);
    }
    let id = frame_id(hub.epoch, after);
    [format!("{{\"id\":\"{id}\",\"frames\":[").as_bytes(), &frames.join(&b","[..]), b"]}"].concat()
}
