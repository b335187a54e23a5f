//! One for each project that somebody looks at: takes what the engine noted, makes one frame of it for all who look, and keeps the last
//! ones for those who were away for a moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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

/// Time between two frames, and how much more it is for each stream, up to the longest: see [limits](crate::docs::limits).
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
const FRAME_INTERVAL_PER_STREAM: Duration = Duration::from_millis(1);
const MAX_FRAME_INTERVAL: Duration = Duration::from_secs(2);
/// A hub that nobody has asked for so long ends. Tabs that nobody sees ask once a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest wait for a change by time: clocks are set.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Frames that are kept, and their bytes: see [limits](crate::docs::limits).
const MAX_FRAMES: usize = 64;
const MAX_FRAME_BYTES: usize = 256 << 10;
/// Checks that are read at once: the writer waits so long.
const CHECKS_PER_READ: usize = 1000;

/// See the module.
pub(super) struct UpdateHub {
    pub(super) project: ProjectId,
    /// Tells its frames from those of an earlier hub.
    pub(super) epoch: u32,
    watch: ProjectSubscription,
    /// When it began: what has changed by time alone until it first looks has changed since then.
    started: Timestamp,
    buffer: Mutex<FrameBuffer>,
    /// The number of the newest frame.
    newest_number: watch::Sender<u64>,
    streams: AtomicUsize,
    /// Rings when somebody comes, goes or asks, and when a clock was set by hand.
    pub(super) wakeup: Notify,
    /// Somebody has asked since it was looked at.
    pub(super) is_used: AtomicBool,
}

/// The last frames.
#[derive(Default)]
struct FrameBuffer {
    frames: VecDeque<Arc<UpdateFrame>>,
    bytes: usize,
}

/// What comes after a frame.
#[derive(Debug)]
pub(super) enum NextFrame {
    /// Nothing yet.
    Pending,
    /// This one.
    Ready(Arc<UpdateFrame>),
    /// What came after it is not kept any more. This is the number of the newest frame.
    Dropped(u64),
}

impl FrameBuffer {
    fn push(&mut self, frame: UpdateFrame) {
        self.bytes += frame.event.len();
        self.frames.push_back(Arc::new(frame));
        while self.frames.len() > MAX_FRAMES || self.bytes > MAX_FRAME_BYTES {
            let Some(oldest) = self.frames.pop_front() else { return };
            self.bytes -= oldest.event.len();
        }
    }

    fn frame_after(&self, number: u64, newest: u64) -> NextFrame {
        if number == newest {
            return NextFrame::Pending;
        }
        let place = self.frames.front().and_then(|oldest| number.checked_add(1)?.checked_sub(oldest.number));
        let frame = place.and_then(|place| self.frames.get(usize::try_from(place).ok()?));
        frame.map_or(NextFrame::Dropped(newest), |frame| NextFrame::Ready(Arc::clone(frame)))
    }
}

impl UpdateHub {
    pub(super) fn new(project: ProjectId, epoch: u32, watch: ProjectSubscription, begun: Timestamp) -> Self {
        Self {
            project,
            epoch,
            watch,
            started: begun,
            buffer: Mutex::default(),
            newest_number: watch::Sender::new(0),
            streams: AtomicUsize::new(0),
            wakeup: Notify::new(),
            is_used: AtomicBool::new(true),
        }
    }

    fn lock_buffer(&self) -> MutexGuard<'_, FrameBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes after the frame of this number.
    pub(super) fn frame_after(&self, number: u64) -> NextFrame {
        let ring = self.lock_buffer();
        ring.frame_after(number, *self.newest_number.borrow())
    }

    /// The name of the newest frame.
    pub(super) fn newest_frame_id(&self) -> String {
        frame_id(self.epoch, *self.newest_number.borrow())
    }

    /// Tells of new frames.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest_number.subscribe()
    }

    /// A stream begins.
    pub(super) fn add_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.wakeup.notify_one();
    }

    /// A stream has ended.
    pub(super) fn remove_stream(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
        self.wakeup.notify_one();
    }

    pub(super) fn stream_count(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn push_frame(&self, draft: FrameDraft) {
        let mut ring = self.lock_buffer();
        let number = *self.newest_number.borrow() + 1;
        ring.push(draft.into_frame(self.epoch, number));
        // Whoever learns of the number finds the frame.
        self.newest_number.send_replace(number);
    }

    /// Takes what was noted, and makes a frame of it.
    async fn publish_changes(&self, live: &LiveUpdates, seen: &mut Option<ProjectSnapshot>) {
        let (noted, now) = (self.watch.take_changes(), live.handle.now());
        let Some(known) = seen.as_mut().filter(|_| !noted.is_everything) else {
            *seen = self.read_all(live, &noted, now).await;
            return;
        };
        let mut ids: Vec<_> = noted.checks.into_iter().chain(known.due_checks(now)).collect();
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

    /// Reads every check, at first and when any of them may have changed. `noted` was taken before that.
    async fn read_all(&self, live: &LiveUpdates, noted: &ChangeSet, now: Timestamp) -> Option<ProjectSnapshot> {
        let (handle, project, begun) = (live.handle.clone(), self.project, self.started);
        let looked = live.outgoing.run_blocking(move || {
            let (mut seen, mut turned) = (ProjectSnapshot::default(), Vec::new());
            handle.for_each_check(project, |check| {
                let status = |at| check.state.visible_status(&check.settings, at);
                if status(begun) != status(now) && turned.len() <= MAX_ROWS {
                    turned.push(check.id);
                }
                seen.update(&check, now);
            });
            handle.wait_for_publication();
            (seen, turned)
        });
        let (mut seen, turned) = looked.await.ok().unzip();
        // A check that was made or edited since `noted` was taken may be among those that were read. No page shows it yet.
        let late = self.watch.take_changes();
        let late_ids: Vec<_> = late.checks.iter().copied().collect();
        for ids in late_ids.chunks(CHECKS_PER_READ) {
            for (id, check) in self.read_checks(live, ids) {
                match (&mut seen, check) {
                    (Some(seen), Some(check)) => drop(seen.update(&check, now)),
                    (Some(seen), None) => drop(seen.remove(id)),
                    (None, _) => {}
                }
            }
        }
        let mut draft = FrameDraft::new(now);
        draft.counts = seen.as_ref().map(ProjectSnapshot::counts);
        draft.reload_all = noted.is_everything || late.is_everything || seen.is_none();
        // How they were before is not known.
        draft.edited = noted.checks.iter().copied().chain(late_ids).chain(turned.into_iter().flatten()).collect();
        if !draft.is_empty() {
            self.push_frame(draft);
        }
        if late.is_everything {
            // What was read may be out of date. It is read again at once.
            self.wakeup.notify_one();
            return None;
        }
        seen
    }

    /// These checks as they are now; `None`: it is deleted or belongs to another project.
    fn read_checks(&self, live: &LiveUpdates, ids: &[CheckId]) -> Vec<(CheckId, Option<Check>)> {
        // Under the lock they are copied, and no more.
        live.handle.with_state(|state| {
            ids.iter().map(|id| (*id, state.check(*id).filter(|check| check.project == self.project).cloned())).collect()
        })
    }
}

/// Notes in a frame what has become of a check.
fn add_change(draft: &mut FrameDraft, seen: &mut ProjectSnapshot, (id, check): (CheckId, Option<&Check>)) {
    match check {
        None if seen.remove(id) => draft.deleted.push(id),
        // It belongs to another project.
        None => {}
        Some(check) => match seen.update(check, draft.now) {
            SnapshotChange::Added | SnapshotChange::Edited => draft.edited.push(id),
            SnapshotChange::StatusChanged | SnapshotChange::Unchanged => draft.rows.push((id, row_json(check, draft.now))),
        },
    }
}

/// Works until nobody has asked for a while, or the pages are gone.
pub(super) async fn run_hub(live: Weak<LiveUpdates>, hub: Arc<UpdateHub>) {
    let mut seen: Option<ProjectSnapshot> = None;
    loop {
        if hub.stream_count() == 0 {
            // Nobody takes frames. What changes stays noted until somebody does.
            if timeout(IDLE_TIMEOUT, hub.wakeup.notified()).await.is_err() {
                match live.upgrade() {
                    Some(live) if !live.remove_idle_hub(&hub) => continue,
                    _ => return,
                }
            }
        } else {
            let wait = live.upgrade().and_then(|live| live.time_until(seen.as_ref().and_then(ProjectSnapshot::next_change)));
            tokio::select! {
                () = hub.watch.changed() => {}
                () = hub.wakeup.notified() => {}
                () = wait_at_most(wait) => {}
            }
        }
        let Some(now) = live.upgrade() else { return };
        hub.publish_changes(&now, &mut seen).await;
        drop(now);
        // A change is shown at once, and those that come soon after it together.
        let more = FRAME_INTERVAL_PER_STREAM.saturating_mul(u32::try_from(hub.stream_count()).unwrap_or(u32::MAX));
        sleep((FRAME_INTERVAL + more).min(MAX_FRAME_INTERVAL)).await;
    }
}

/// Waits so long, or for ever.
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
    use crate::blocking_threads::BlockingThreads;
    use crate::domain::check_edit::CheckEdit;
    use crate::domain::project::ProjectName;
    use crate::engine::command::{CheckUuids, Command, CreateCheckRequest, NewProject};
    use crate::engine::{self, Handle};
    use crate::store::Medium;
    use crate::wire::response_body::ResponseWriter;

    fn frame(number: u64, rows: usize) -> UpdateFrame {
        let mut draft = FrameDraft::new(Timestamp::from_secs(1));
        draft.rows = vec![(CheckId(1), "[1]".repeat(1000)); rows];
        draft.into_frame(1, number)
    }

    fn numbers(ring: &FrameBuffer, newest: u64) -> Vec<Option<u64>> {
        let number = |number| match ring.frame_after(number, newest) {
            NextFrame::Ready(frame) => Some(frame.number),
            NextFrame::Pending => Some(0),
            NextFrame::Dropped(_) => None,
        };
        (0..=newest + 1).map(number).collect()
    }

    /// The data of the frames after this one.
    fn frames(hub: &UpdateHub, mut number: u64) -> Vec<String> {
        let mut found = Vec::new();
        while let NextFrame::Ready(frame) = hub.frame_after(number) {
            number = frame.number;
            found.push(String::from_utf8(frame.data().to_vec()).unwrap());
        }
        found
    }

    async fn make_check(handle: &Handle, uuid: u128) {
        let names = CheckUuids { uuid: Uuid::from_u128(uuid), badge: Uuid::from_u128(uuid + 100) };
        let new = CreateCheckRequest { project: ProjectId(1), edit: CheckEdit::default(), unique: Vec::new(), uuids: names };
        handle.call(Command::CreateCheck(Box::new(new))).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_check_that_is_made_while_all_are_read_is_new_to_pages() {
        let (handle, writer) = engine::open(engine::EngineConfig::new(Medium::memory(), 0)).unwrap();
        let writer = std::thread::spawn(|| writer.run());
        let name = ProjectName::parse("p").unwrap();
        let new = NewProject { uuid: Uuid::nil(), name, check_limit: None, ping_log_limit: 10, badge_key: "b".into() };
        handle.call(Command::CreateProject(Box::new(new))).await.unwrap().unwrap();
        let blocking = Arc::new(BlockingThreads::start(1).unwrap());
        let live = LiveUpdates::new(handle.clone(), ResponseWriter::new(Arc::clone(&blocking)));
        let hub = UpdateHub::new(ProjectId(1), 1, handle.subscribe_to_project(ProjectId(1)), handle.now());
        let mut seen = None;
        // The notes are taken first, then the only thread is waited for. Meanwhile the check is made.
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let busy = blocking.run(move || wait.recv().is_err());
        let meanwhile = async {
            make_check(&handle, 1).await;
            drop(release);
        };
        let (_, (), ()) = tokio::join!(busy, hub.publish_changes(&live, &mut seen), meanwhile);
        hub.publish_changes(&live, &mut seen).await;
        assert!(frames(&hub, 0).iter().any(|data| data.contains("\"edited\":[2]")), "{:?}", frames(&hub, 0));
        assert_eq!(seen.unwrap().counts().iter().sum::<usize>(), 1);
        handle.close();
        writer.join().unwrap();
    }

    #[test]
    fn who_was_away_gets_what_came_meanwhile_or_learns_that_it_is_lost() {
        let mut ring = FrameBuffer::default();
        assert_eq!(numbers(&ring, 0), [Some(0), None]);
        (1..=3).for_each(|number| ring.push(frame(number, 1)));
        assert_eq!(numbers(&ring, 3), [Some(1), Some(2), Some(3), Some(0), None]);
        (4..=70).for_each(|number| ring.push(frame(number, 1)));
        assert_eq!((ring.frames.len(), ring.frames[0].number), (MAX_FRAMES, 7));
        let after = numbers(&ring, 70);
        assert_eq!(after[..8], [None, None, None, None, None, None, Some(7), Some(8)]);
        assert!(matches!(ring.frame_after(u64::MAX, 70), NextFrame::Dropped(70)));
    }

    #[test]
    fn frames_take_so_many_bytes() {
        let mut ring = FrameBuffer::default();
        for number in 1..=20 {
            ring.push(frame(number, 10));
            assert!(ring.bytes <= MAX_FRAME_BYTES && ring.bytes == ring.frames.iter().map(|frame| frame.event.len()).sum::<usize>());
        }
        assert!((2..20).contains(&ring.frames.len()), "{}", ring.frames.len());
    }
}
