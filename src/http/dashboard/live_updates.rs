//! Live updates: changes in a project are sent to open pages, as events while a page is visible, or
//! as JSON when a page polls.

mod hub;
mod snapshot;
mod stream;
mod stream_limit;
mod update_frame;

use std::collections::HashMap;
use std::sync::Arc;
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
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::response_body::{ResponseBody, ResponseWriter};
use crate::util::sync::atomic::Ordering;
use crate::util::sync::{Mutex, MutexGuard, lock};
use hub::{NextFrame, UpdateHub};
use stream::EventStream;
use stream_limit::StreamLimit;
use update_frame::{frame_id, parse_frame_id};

/// Last event that a browser received before it lost the connection (HTML Standard, section 9.2.4).
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");
/// Makes proxies like nginx forward events without buffering.
const ACCEL_BUFFERING_HEADER: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Maximum time that a poll waits for a frame with the latest changes.
const POLL_TIMEOUT: Duration = Duration::from_millis(300);

/// All hubs and streams.
pub(super) struct LiveUpdates {
    handle: Handle,
    response_writer: ResponseWriter,
    /// Runtime of the hubs, separate from the threads that answer pings.
    runtime: Option<runtime::Handle>,
    hubs: Mutex<HashMap<ProjectId, Arc<UpdateHub>>>,
    stream_limit: Arc<StreamLimit>,
}

/// Data that a page needs for live updates.
pub(crate) struct LiveSubscription {
    /// URL of its events.
    pub(crate) events: String,
    /// Id of the newest frame when the page was rendered.
    pub(crate) since: String,
}

impl LiveUpdates {
    /// Creates the state. Hubs run on the runtime of the caller.
    pub(super) fn new(handle: Handle, response_writer: ResponseWriter) -> Arc<Self> {
        let runtime = runtime::Handle::try_current().ok();
        let live = Arc::new(Self {
            handle,
            response_writer,
            runtime,
            hubs: Mutex::default(),
            stream_limit: Arc::default(),
        });
        let weak = Arc::downgrade(&live);
        live.handle.clock().on_move(move || {
            if let Some(live) = weak.upgrade() {
                live.lock_hubs()
                    .values()
                    .for_each(|hub| hub.wakeup.notify_one());
            }
        });
        live
    }

    fn lock_hubs(&self) -> MutexGuard<'_, HashMap<ProjectId, Arc<UpdateHub>>> {
        lock(&self.hubs)
    }

    /// Number of open streams.
    pub(super) fn stream_count(&self) -> usize {
        self.stream_limit.open_streams()
    }

    /// Returns the hub of a project. From now on the hub records changes. `None` if nothing can
    /// change, because the engine has no writer.
    fn hub(self: &Arc<Self>, project: ProjectId) -> Option<Arc<UpdateHub>> {
        if self.handle.as_of().is_some() {
            return None;
        }
        let runtime = self.runtime.as_ref()?;
        let mut hubs = self.lock_hubs();
        let hub = hubs.entry(project).or_insert_with(|| {
            let epoch = u32::from_le_bytes(self.handle.random().bytes());
            let hub = Arc::new(UpdateHub::new(
                project,
                epoch,
                self.handle.subscribe_to_project(project),
                self.handle.now(),
            ));
            runtime.spawn(hub::run_hub(Arc::downgrade(self), Arc::clone(&hub)));
            hub
        });
        hub.is_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(hub))
    }

    /// Removes a hub that is not in use. Returns false if it is in use.
    fn remove_idle_hub(&self, hub: &UpdateHub) -> bool {
        let mut hubs = self.lock_hubs();
        let ends = hub.stream_count() == 0 && !hub.is_used.swap(false, Ordering::Relaxed);
        if ends {
            hubs.remove(&hub.project);
        }
        ends
    }

    /// Duration until a time. `None` if there is no such time, or if the clock is manual and
    /// reports its own moves.
    fn time_until(&self, until: Option<Timestamp>) -> Option<Duration> {
        let until = until.filter(|_| self.handle.clock().is_system())?;
        Some(Duration::from_micros(
            until.micros_since(self.handle.now()).max(0).unsigned_abs(),
        ))
    }
}

impl PageRequest {
    /// Subscription of the page, for a single check if the page is about one. Call it before any
    /// data is read for the page.
    pub(crate) fn live_subscription(&self) -> Option<LiveSubscription> {
        let project = self.project().ok()?;
        let hub = self.dashboard.live_updates.hub(project.id)?;
        let mut events = self.page_url(&Page::Events(project.uuid));
        if let Ok(check) = self.check() {
            events.push_str(&format!("?check={}", check.uuid));
        }
        Some(LiveSubscription {
            events,
            since: hub.newest_frame_id(),
        })
    }
}

/// Answers a request for changes: with a stream of events if the client accepts one, otherwise with
/// the changes since a frame.
pub(super) async fn handle_request(
    request: PageRequest,
    headers: &HeaderMap,
) -> Result<HttpReply, PageError> {
    let live = Arc::clone(&request.dashboard.live_updates);
    let project = request.project()?.id;
    let only = requested_check(&request, project)?;
    let hub = live.hub(project).ok_or(HttpError::Unavailable)?;
    let header = headers
        .get(&LAST_EVENT_ID_HEADER)
        .and_then(|value| value.to_str().ok());
    let since = header.unwrap_or_else(|| request.query.get("since"));
    // A client that names no frame starts with the next one. A frame of another hub counts as
    // dropped.
    let since = if since.is_empty() {
        *hub.subscribe().borrow()
    } else {
        parse_frame_id(since)
            .filter(|(epoch, _)| *epoch == hub.epoch)
            .map_or(u64::MAX, |(_, number)| number)
    };
    let mut accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    if !accepted.any(|accepts| accepts.contains("text/event-stream")) {
        return Ok(reply::with_no_store(reply::json(
            poll_updates(&hub, since, only).await,
        )));
    }
    let session = request
        .viewer
        .signed_in
        .as_ref()
        .and_then(|signed_in| signed_in.session.as_ref())
        .map(|session| session.id);
    let permit = live
        .stream_limit
        .acquire(session, request.origin.client.addr)
        .ok_or(HttpError::TooManyStreams)?;
    let stream = EventStream::new(&live, hub, request.viewer.clone(), since, only, permit);
    let mut reply = reply::with_no_store(reply::content(
        "text/event-stream",
        ResponseBody::from_endless(Box::new(stream)),
    ));
    reply::set_header(&mut reply, ACCEL_BUFFERING_HEADER, "no");
    Ok(reply)
}

/// Answers a request for events after the session has ended. Browsers accept only events as an
/// answer and would otherwise retry forever.
pub(super) fn session_ended_reply() -> HttpReply {
    reply::with_no_store(reply::content(
        "text/event-stream",
        "event: over\ndata: signed out\n\n",
    ))
}

/// The only check that the client asks for, if the request names one.
fn requested_check(
    request: &PageRequest,
    project: ProjectId,
) -> Result<Option<CheckId>, PageError> {
    let named = request.query.get("check");
    if named.is_empty() {
        return Ok(None);
    }
    request.handle().with_state(|state| {
        let check = parse_path_uuid(named)
            .and_then(|uuid| state.check_by_uuid(uuid))
            .filter(|check| check.project == project);
        Ok(Some(check.ok_or_else(PageError::not_found)?.id))
    })
}

/// Changes since a frame as JSON: the id of the newest frame, and the frames.
async fn poll_updates(hub: &UpdateHub, since: u64, only: Option<CheckId>) -> Vec<u8> {
    hub.wakeup.notify_one();
    if matches!(hub.frame_after(since), NextFrame::Pending) {
        let mut newest = hub.subscribe();
        newest.mark_unchanged();
        // Later changes are part of the next answer.
        let _ = timeout(POLL_TIMEOUT, newest.changed()).await;
    }
    let mut frames = Vec::new();
    let mut after = since;
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
    [
        format!("{{\"id\":\"{id}\",\"frames\":[").as_bytes(),
        &frames.join(&b","[..]),
        b"]}",
    ]
    .concat()
}
