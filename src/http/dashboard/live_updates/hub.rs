//! Hub of a project with open pages: takes the changes that the engine recorded, builds one frame
//! for all pages, and keeps the last frames for clients that reconnect.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::LiveUpdates;
use super::snapshot::{ProjectSnapshot, SnapshotChange};
use super::update_frame::{FrameDraft, MAX_ROWS, UpdateFrame, frame_id, row_json};
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::timestamp::Timestamp;
use crate::engine::{ChangeSet, ProjectSubscription};
use crate::http::common::work_owner::WorkOwner;
use crate::util::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::util::sync::{Mutex, MutexGuard, lock};

/// Time between two frames, its increase for each stream, and its maximum: see
/// [limits](crate::docs::limits).
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
const FRAME_INTERVAL_PER_STREAM: Duration = Duration::from_millis(1);
const MAX_FRAME_INTERVAL: Duration = Duration::from_secs(2);
/// Time without requests after which a hub ends. Tabs in the background ask once a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time to wait for a change that depends on time alone, because clocks can be set.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of frames that are kept, and of their bytes: see [limits](crate::docs::limits).
const MAX_FRAMES: usize = 64;
const MAX_FRAME_BYTES: usize = 256 << 10;
/// Maximum number of checks read under one lock, which the writer waits for.
const CHECKS_PER_READ: usize = 1000;

/// Hub of a project.
pub(super) struct UpdateHub {
    pub(super) project: ProjectId,
    /// Random number that distinguishes its frames from the frames of an earlier hub.
    pub(super) epoch: u32,
    subscription: ProjectSubscription,
    /// Start time. Changes by time alone before the first read count from here.
    started: Timestamp,
    buffer: Mutex<FrameBuffer>,
    /// Number of the newest frame.
    newest_number: watch::Sender<u64>,
    streams: AtomicUsize,
    /// Notified when a stream begins or ends, when a client asks, and when a manual clock was
    /// moved.
    pub(super) wakeup: Notify,
    /// True if a client has asked since the last test of this flag.
    pub(super) is_used: AtomicBool,
}

/// Last frames.
#[derive(Default)]
struct FrameBuffer {
    frames: VecDeque<Arc<UpdateFrame>>,
    bytes: usize,
}

/// Result of asking for the frame after a given one.
#[derive(Debug)]
pub(super) enum NextFrame {
    /// No newer frame exists yet.
    Pending,
    /// The next frame.
    Ready(Arc<UpdateFrame>),
    /// The next frame is no longer kept. This is the number of the newest frame.
    Dropped(u64),
}

impl FrameBuffer {
    fn push(&mut self, frame: UpdateFrame) {
        self.bytes += frame.event.len();
        self.frames.push_back(Arc::new(frame));
        while self.frames.len() > MAX_FRAMES || self.bytes > MAX_FRAME_BYTES {
            let Some(oldest) = self.frames.pop_front() else {
                return;
            };
            self.bytes -= oldest.event.len();
        }
    }

    fn frame_after(&self, number: u64, newest: u64) -> NextFrame {
        if number == newest {
            return NextFrame::Pending;
        }
        let place = self
            .frames
            .front()
            .and_then(|oldest| number.checked_add(1)?.checked_sub(oldest.number));
        let frame = place.and_then(|place| self.frames.get(usize::try_from(place).ok()?));
        frame.map_or(NextFrame::Dropped(newest), |frame| {
            NextFrame::Ready(Arc::clone(frame))
        })
    }
}

impl UpdateHub {
    pub(super) fn new(
        project: ProjectId,
        epoch: u32,
        subscription: ProjectSubscription,
        started: Timestamp,
    ) -> Self {
        Self {
            project,
            epoch,
            subscription,
            started,
            buffer: Mutex::default(),
            newest_number: watch::Sender::new(0),
            streams: AtomicUsize::new(0),
            wakeup: Notify::new(),
            is_used: AtomicBool::new(true),
        }
    }

    fn lock_buffer(&self) -> MutexGuard<'_, FrameBuffer> {
        lock(&self.buffer)
    }

    /// Returns the frame after the one of this number.
    pub(super) fn frame_after(&self, number: u64) -> NextFrame {
        let buffer = self.lock_buffer();
        buffer.frame_after(number, *self.newest_number.borrow())
    }

    /// Id of the newest frame.
    pub(super) fn newest_frame_id(&self) -> String {
        frame_id(self.epoch, *self.newest_number.borrow())
    }

    /// Receiver of the number of the newest frame.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest_number.subscribe()
    }

    /// Counts a new stream.
    pub(super) fn add_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.wakeup.notify_one();
    }

    /// Counts the end of a stream.
    pub(super) fn remove_stream(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
        self.wakeup.notify_one();
    }

    pub(super) fn stream_count(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn push_frame(&self, draft: FrameDraft) {
        let mut buffer = self.lock_buffer();
        let number = *self.newest_number.borrow() + 1;
        buffer.push(draft.into_frame(self.epoch, number));
        // A subscriber that sees the number must find the frame.
        self.newest_number.send_replace(number);
    }

    /// Takes the recorded changes and publishes them as a frame.
    async fn publish_changes(&self, live: &LiveUpdates, snapshot: &mut Option<ProjectSnapshot>) {
        let changes = self.subscription.take_changes();
        let now = live.handle.now();
        let Some(known) = snapshot.as_mut().filter(|_| !changes.is_everything) else {
            *snapshot = self.read_all(live, &changes, now).await;
            return;
        };
        let mut ids: Vec<_> = changes
            .checks
            .into_iter()
            .chain(known.due_checks(now))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let mut draft = FrameDraft::new(now);
        for ids in ids.chunks(CHECKS_PER_READ) {
            for (id, check) in self.read_checks(live, ids) {
                add_change(&mut draft, known, (id, check.as_ref()));
            }
        }
        if !draft.is_empty() {
            draft.counts = Some(known.counts());
            self.push_frame(draft);
        }
    }

    /// Reads every check: at first, and when any of them may have changed. `changes` was taken
    /// before that.
    async fn read_all(
        &self,
        live: &LiveUpdates,
        changes: &ChangeSet,
        now: Timestamp,
    ) -> Option<ProjectSnapshot> {
        let handle = live.handle.clone();
        let project = self.project;
        let started = self.started;
        let writer = live.response_writer.for_owner(WorkOwner::Project(project));
        let snapshot_result = writer.run_blocking(move || {
            let mut snapshot = ProjectSnapshot::default();
            let mut flipped = Vec::new();
            handle.for_each_check(project, |check| {
                let status = |at| check.state.visible_status(&check.settings, at);
                if status(started) != status(now) && flipped.len() <= MAX_ROWS {
                    flipped.push(check.id);
                }
                snapshot.update(&check, now);
            });
            handle.wait_for_publication();
            (snapshot, flipped)
        });
        let (mut snapshot, flipped) = snapshot_result.await.ok().unzip();
        // The read may include a check that was created or edited after `changes` was taken. No
        // page shows it yet.
        let later_changes = self.subscription.take_changes();
        let later_ids: Vec<_> = later_changes.checks.iter().copied().collect();
        for ids in later_ids.chunks(CHECKS_PER_READ) {
            for (id, check) in self.read_checks(live, ids) {
                match (&mut snapshot, check) {
                    (Some(snapshot), Some(check)) => drop(snapshot.update(&check, now)),
                    (Some(snapshot), None) => drop(snapshot.remove(id)),
                    (None, _) => {}
                }
            }
        }
        let mut draft = FrameDraft::new(now);
        draft.counts = snapshot.as_ref().map(ProjectSnapshot::counts);
        draft.reload_all =
            changes.is_everything || later_changes.is_everything || snapshot.is_none();
        // The previous state of these checks is not known.
        draft.edited = changes
            .checks
            .iter()
            .copied()
            .chain(later_ids)
            .chain(flipped.into_iter().flatten())
            .collect();
        if !draft.is_empty() {
            self.push_frame(draft);
        }
        if later_changes.is_everything {
            // The data may be out of date and is read again at once.
            self.wakeup.notify_one();
            return None;
        }
        snapshot
    }

    /// Current state of these checks. `None` if a check is deleted or belongs to another project.
    fn read_checks(&self, live: &LiveUpdates, ids: &[CheckId]) -> Vec<(CheckId, Option<Check>)> {
        // The checks are only copied under the lock.
        live.handle.with_state(|state| {
            ids.iter()
                .map(|id| {
                    (
                        *id,
                        state
                            .check(*id)
                            .filter(|check| check.project == self.project)
                            .cloned(),
                    )
                })
                .collect()
        })
    }
}

/// Adds the change of a check to a frame.
fn add_change(
    draft: &mut FrameDraft,
    snapshot: &mut ProjectSnapshot,
    (id, check): (CheckId, Option<&Check>),
) {
    match check {
        None if snapshot.remove(id) => draft.deleted.push(id),
        // The check belongs to another project.
        None => {}
        Some(check) => match snapshot.update(check, draft.now) {
            SnapshotChange::Added | SnapshotChange::Edited => draft.edited.push(id),
            SnapshotChange::StatusChanged | SnapshotChange::Unchanged => {
                draft.rows.push((id, row_json(check, draft.now)));
            }
        },
    }
}

/// Runs until the hub is idle for a while, or until the dashboard is dropped.
pub(super) async fn run_hub(live: Weak<LiveUpdates>, hub: Arc<UpdateHub>) {
    let mut snapshot: Option<ProjectSnapshot> = None;
    loop {
        if hub.stream_count() == 0 {
            // Without streams, changes stay recorded until a client asks.
            if timeout(IDLE_TIMEOUT, hub.wakeup.notified()).await.is_err() {
                match live.upgrade() {
                    Some(live) if !live.remove_idle_hub(&hub) => continue,
                    _ => return,
                }
            }
        } else {
            let wait = live.upgrade().and_then(|live| {
                live.time_until(snapshot.as_ref().and_then(ProjectSnapshot::next_change))
            });
            tokio::select! {
                () = hub.subscription.changed() => {}
                () = hub.wakeup.notified() => {}
                () = wait_at_most(wait) => {}
            }
        }
        let Some(live_updates) = live.upgrade() else {
            return;
        };
        hub.publish_changes(&live_updates, &mut snapshot).await;
        drop(live_updates);
        // The first change is sent at once. Changes shortly after it are sent together.
        let more = FRAME_INTERVAL_PER_STREAM
            .saturating_mul(u32::try_from(hub.stream_count()).unwrap_or(u32::MAX));
        sleep((FRAME_INTERVAL + more).min(MAX_FRAME_INTERVAL)).await;
    }
}

/// Waits for this time, or forever.
async fn wait_at_most(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait.min(MAX_WAIT)).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::check_edit::CheckEdit;
    use crate::domain::project::ProjectName;
    use crate::engine::command::{CheckUuids, Command, CreateCheckRequest, NewProject};
    use crate::engine::{self, Handle};
    use crate::http::common::response_body::ResponseWriter;
    use crate::runtime::blocking_threads::BlockingThreads;
    use crate::store::Medium;

    fn frame(number: u64, rows: usize) -> UpdateFrame {
        let mut draft = FrameDraft::new(Timestamp::from_secs(1));
        draft.rows = vec![(CheckId(1), "[1]".repeat(1000)); rows];
        draft.into_frame(1, number)
    }

    fn numbers(buffer: &FrameBuffer, newest: u64) -> Vec<Option<u64>> {
        let number = |number| match buffer.frame_after(number, newest) {
            NextFrame::Ready(frame) => Some(frame.number),
            NextFrame::Pending => Some(0),
            NextFrame::Dropped(_) => None,
        };
        (0..=newest + 1).map(number).collect()
    }

    /// Data of the frames after this one.
    fn frames(hub: &UpdateHub, mut number: u64) -> Vec<String> {
        let mut found = Vec::new();
        while let NextFrame::Ready(frame) = hub.frame_after(number) {
            number = frame.number;
            found.push(String::from_utf8(frame.data().to_vec()).unwrap());
        }
        found
    }

    async fn make_check(handle: &Handle, uuid: u128) {
        let names = CheckUuids {
            uuid: Uuid::from_u128(uuid),
            badge: Uuid::from_u128(uuid + 100),
        };
        let new = CreateCheckRequest {
            project: ProjectId(1),
            edit: CheckEdit::default(),
            unique: Vec::new(),
            uuids: names,
        };
        handle
            .call(Command::CreateCheck(Box::new(new)))
            .await
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn a_check_created_during_the_first_read_is_new_to_pages() {
        let (handle, writer) =
            engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
        let writer = std::thread::spawn(|| writer.run());
        let name = ProjectName::parse("p").unwrap();
        let new = NewProject {
            uuid: Uuid::nil(),
            name,
            check_limit: None,
            ping_log_limit: 10,
            badge_key: "b".into(),
        };
        handle
            .call(Command::CreateProject(Box::new(new)))
            .await
            .unwrap()
            .unwrap();
        let blocking = Arc::new(BlockingThreads::start(1).unwrap());
        let live = LiveUpdates::new(handle.clone(), ResponseWriter::new(Arc::clone(&blocking)));
        let hub = UpdateHub::new(
            ProjectId(1),
            1,
            handle.subscribe_to_project(ProjectId(1)),
            handle.now(),
        );
        let mut snapshot = None;
        // The changes are taken first, then the only thread is waited for. In the meantime the
        // check is created.
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let busy = blocking.run(move || wait.recv().is_err());
        let meanwhile = async {
            make_check(&handle, 1).await;
            drop(release);
        };
        let (_, (), ()) = tokio::join!(busy, hub.publish_changes(&live, &mut snapshot), meanwhile);
        hub.publish_changes(&live, &mut snapshot).await;
        assert!(
            frames(&hub, 0)
                .iter()
                .any(|data| data.contains("\"edited\":[2]")),
            "{:?}",
            frames(&hub, 0)
        );
        assert_eq!(snapshot.unwrap().counts().iter().sum::<usize>(), 1);
        handle.close();
        writer.join().unwrap();
    }

    #[test]
    fn a_reconnected_client_gets_the_missed_frames_or_a_reload() {
        let mut buffer = FrameBuffer::default();
        assert_eq!(numbers(&buffer, 0), [Some(0), None]);
        (1..=3).for_each(|number| buffer.push(frame(number, 1)));
        assert_eq!(
            numbers(&buffer, 3),
            [Some(1), Some(2), Some(3), Some(0), None]
        );
        (4..=70).for_each(|number| buffer.push(frame(number, 1)));
        assert_eq!(
            (buffer.frames.len(), buffer.frames[0].number),
            (MAX_FRAMES, 7)
        );
        let after = numbers(&buffer, 70);
        assert_eq!(
            after[..8],
            [None, None, None, None, None, None, Some(7), Some(8)]
        );
        assert!(matches!(
            buffer.frame_after(u64::MAX, 70),
            NextFrame::Dropped(70)
        ));
    }

    #[test]
    fn kept_frames_are_limited_in_bytes() {
        let mut buffer = FrameBuffer::default();
        for number in 1..=20 {
            buffer.push(frame(number, 10));
            assert!(
                buffer.bytes <= MAX_FRAME_BYTES
                    && buffer.bytes
                        == buffer
                            .frames
                            .iter()
                            .map(|frame| frame.event.len())
                            .sum::<usize>()
            );
        }
        assert!(
            (2..20).contains(&buffer.frames.len()),
            "{}",
            buffer.frames.len()
        );
    }
}

#[cfg(all(test, shuttle))]
mod interleavings {
    use shuttle::future::block_on;

    use super::*;
    use crate::engine::{self, EngineConfig};
    use crate::store::Medium;
    use crate::util::clock::{Clock, ManualClock};
    use crate::util::interleavings::check;
    use crate::util::random::Random;
    use crate::util::sync::thread;

    const FRAMES: u64 = 3;

    #[test]
    fn a_stream_gets_each_frame_once_and_in_order() {
        check(|| {
            let started = Timestamp::from_secs(1_800_000_000);
            let config = EngineConfig {
                clock: Clock::Manual(ManualClock::at(started)),
                random: Random::seeded(1),
                ..EngineConfig::without_pings(Medium::memory())
            };
            let (handle, _writer) = engine::open(config).unwrap();
            let subscription = handle.subscribe_to_project(ProjectId(1));
            let hub = Arc::new(UpdateHub::new(ProjectId(1), 1, subscription, started));
            let streams = [(), ()].map(|()| {
                let hub = Arc::clone(&hub);
                thread::spawn(move || {
                    hub.add_stream();
                    let mut newest = hub.subscribe();
                    let mut last = *newest.borrow_and_update();
                    while last < FRAMES {
                        match hub.frame_after(last) {
                            NextFrame::Ready(frame) => {
                                assert_eq!(frame.number, last + 1);
                                last = frame.number;
                            }
                            NextFrame::Pending => block_on(newest.changed()).unwrap(),
                            NextFrame::Dropped(_) => panic!("the number came before its frame"),
                        }
                    }
                    hub.remove_stream();
                })
            });
            for _ in 0..FRAMES {
                hub.push_frame(FrameDraft::new(started));
            }
            for stream in streams {
                stream.join().unwrap();
            }
            assert_eq!(hub.stream_count(), 0);
        });
    }
}
