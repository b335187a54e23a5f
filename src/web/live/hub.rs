//! One for each project that somebody looks at: takes what the engine noted, makes one frame of it for all who look, and keeps the last
//! ones for those who were away for a moment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::Live;
use super::frame::{Draft, Frame, MOST_ROWS, mark, row};
use super::seen::{News, Seen};
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::moment::Moment;
use crate::engine::{Noted, Watch};

/// Time between two frames, and how much more it is for each stream, up to the longest: see [limits](crate::docs::limits).
const TICK: Duration = Duration::from_millis(250);
const TICK_OF_STREAM: Duration = Duration::from_millis(1);
const LONGEST_TICK: Duration = Duration::from_secs(2);
/// A hub that nobody has asked for so long ends. Tabs that nobody sees ask once a minute.
const IDLE: Duration = Duration::from_secs(120);
/// The longest wait for a change by time: clocks are set.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Frames that are kept, and their bytes: see [limits](crate::docs::limits).
const MOST_FRAMES: usize = 64;
const MOST_BYTES: usize = 256 << 10;
/// Checks that are read at once: the writer waits so long.
const READ_AT_ONCE: usize = 1000;

/// See the module.
pub(super) struct Hub {
    pub(super) project: ProjectId,
    /// Tells its frames from those of an earlier hub.
    pub(super) epoch: u32,
    watch: Watch,
    /// When it began: what has changed by time alone until it first looks has changed since then.
    begun: Moment,
    ring: Mutex<Ring>,
    /// The number of the newest frame.
    newest: watch::Sender<u64>,
    streams: AtomicUsize,
    /// Rings when somebody comes, goes or asks, and when a clock was set by hand.
    pub(super) asked: Notify,
    /// Somebody has asked since it was looked at.
    pub(super) is_used: AtomicBool,
}

/// The last frames.
#[derive(Default)]
struct Ring {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
}

/// What comes after a frame.
#[derive(Debug)]
pub(super) enum After {
    /// Nothing yet.
    Nothing,
    /// This one.
    Frame(Arc<Frame>),
    /// What came after it is not kept any more. This is the number of the newest frame.
    Lost(u64),
}

impl Ring {
    fn push(&mut self, frame: Frame) {
        self.bytes += frame.event.len();
        self.frames.push_back(Arc::new(frame));
        while self.frames.len() > MOST_FRAMES || self.bytes > MOST_BYTES {
            let Some(oldest) = self.frames.pop_front() else { return };
            self.bytes -= oldest.event.len();
        }
    }

    fn after(&self, number: u64, newest: u64) -> After {
        if number == newest {
            return After::Nothing;
        }
        let place = self.frames.front().and_then(|oldest| number.checked_add(1)?.checked_sub(oldest.number));
        let frame = place.and_then(|place| self.frames.get(usize::try_from(place).ok()?));
        frame.map_or(After::Lost(newest), |frame| After::Frame(Arc::clone(frame)))
    }
}

impl Hub {
    pub(super) fn new(project: ProjectId, epoch: u32, watch: Watch, begun: Moment) -> Self {
        Self {
            project,
            epoch,
            watch,
            begun,
            ring: Mutex::default(),
            newest: watch::Sender::new(0),
            streams: AtomicUsize::new(0),
            asked: Notify::new(),
            is_used: AtomicBool::new(true),
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes after the frame of this number.
    pub(super) fn after(&self, number: u64) -> After {
        let ring = self.ring();
        ring.after(number, *self.newest.borrow())
    }

    /// The name of the newest frame.
    pub(super) fn mark(&self) -> String {
        mark(self.epoch, *self.newest.borrow())
    }

    /// Tells of new frames.
    pub(super) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// A stream begins.
    pub(super) fn join(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.asked.notify_one();
    }

    /// A stream has ended.
    pub(super) fn leave(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
        self.asked.notify_one();
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn push(&self, draft: Draft) {
        let mut ring = self.ring();
        let number = *self.newest.borrow() + 1;
        ring.push(draft.frame(self.epoch, number));
        // Whoever learns of the number finds the frame.
        self.newest.send_replace(number);
    }

    /// Takes what was noted, and makes a frame of it.
    async fn step(&self, live: &Live, seen: &mut Option<Seen>) {
        let (noted, now) = (self.watch.take(), live.handle.now());
        let Some(known) = seen.as_mut().filter(|_| !noted.whole) else {
            *seen = self.look(live, &noted, now).await;
            return;
        };
        let mut ids: Vec<_> = noted.checks.into_iter().chain(known.due(now)).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut draft = Draft::new(now);
        for ids in ids.chunks(READ_AT_ONCE) {
            for (id, check) in self.read(live, ids) {
                note(&mut draft, known, (id, check.as_ref()));
            }
        }
        if !draft.is_empty() {
            draft.counts = Some(known.counts());
            self.push(draft);
        }
    }

    /// Reads every check, at first and when any of them may have changed. `noted` was taken before that.
    async fn look(&self, live: &Live, noted: &Noted, now: Moment) -> Option<Seen> {
        let (handle, project, begun) = (live.handle.clone(), self.project, self.begun);
        let looked = live.outgoing.run(move || {
            let (mut seen, mut turned) = (Seen::default(), Vec::new());
            handle.each_check(project, |check| {
                let status = |at| check.state.visible_status(&check.settings, at);
                if status(begun) != status(now) && turned.len() <= MOST_ROWS {
                    turned.push(check.id);
                }
                seen.put(&check, now);
            });
            handle.wait_for_notes();
            (seen, turned)
        });
        let (mut seen, turned) = looked.await.ok().unzip();
        // A check that was made or edited since `noted` was taken may be among those that were read. No page shows it yet.
        let late = self.watch.take();
        let late_ids: Vec<_> = late.checks.iter().copied().collect();
        for ids in late_ids.chunks(READ_AT_ONCE) {
            for (id, check) in self.read(live, ids) {
                match (&mut seen, check) {
                    (Some(seen), Some(check)) => drop(seen.put(&check, now)),
                    (Some(seen), None) => drop(seen.remove(id)),
                    (None, _) => {}
                }
            }
        }
        let mut draft = Draft::new(now);
        draft.counts = seen.as_ref().map(Seen::counts);
        draft.whole = noted.whole || late.whole || seen.is_none();
        // How they were before is not known.
        draft.edited = noted.checks.iter().copied().chain(late_ids).chain(turned.into_iter().flatten()).collect();
        if !draft.is_empty() {
            self.push(draft);
        }
        if late.whole {
            // What was read may be out of date. It is read again at once.
            self.asked.notify_one();
            return None;
        }
        seen
    }

    /// These checks as they are now; `None`: it is deleted or belongs to another project.
    fn read(&self, live: &Live, ids: &[CheckId]) -> Vec<(CheckId, Option<Check>)> {
        // Under the lock they are copied, and no more.
        live.handle.with_state(|state| {
            ids.iter().map(|id| (*id, state.check(*id).filter(|check| check.project == self.project).cloned())).collect()
        })
    }
}

/// Notes in a frame what has become of a check.
fn note(draft: &mut Draft, seen: &mut Seen, (id, check): (CheckId, Option<&Check>)) {
    match check {
        None if seen.remove(id) => draft.gone.push(id),
        // It belongs to another project.
        None => {}
        Some(check) => match seen.put(check, draft.now) {
            News::New | News::Edited => draft.edited.push(id),
            News::Turned | News::Same => draft.rows.push((id, row(check, draft.now))),
        },
    }
}

/// Works until nobody has asked for a while, or the pages are gone.
pub(super) async fn run(live: Weak<Live>, hub: Arc<Hub>) {
    let mut seen: Option<Seen> = None;
    loop {
        if hub.streams() == 0 {
            // Nobody takes frames. What changes stays noted until somebody does.
            if timeout(IDLE, hub.asked.notified()).await.is_err() {
                match live.upgrade() {
                    Some(live) if !live.forget(&hub) => continue,
                    _ => return,
                }
            }
        } else {
            let wait = live.upgrade().and_then(|live| live.wait(seen.as_ref().and_then(Seen::next)));
            tokio::select! {
                () = hub.watch.changed() => {}
                () = hub.asked.notified() => {}
                () = pause(wait) => {}
            }
        }
        let Some(now) = live.upgrade() else { return };
        hub.step(&now, &mut seen).await;
        drop(now);
        // A change is shown at once, and those that come soon after it together.
        let more = TICK_OF_STREAM.saturating_mul(u32::try_from(hub.streams()).unwrap_or(u32::MAX));
        sleep((TICK + more).min(LONGEST_TICK)).await;
    }
}

/// Waits so long, or for ever.
async fn pause(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait.min(LONGEST_WAIT)).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::blocking_threads::BlockingThreads;
    use crate::domain::edit::Edit;
    use crate::domain::project::ProjectName;
    use crate::engine::command::{CheckNames, Command, CreateCheck, NewProject};
    use crate::engine::{self, Handle};
    use crate::store::Medium;
    use crate::wire::outgoing::Outgoing;

    fn frame(number: u64, rows: usize) -> Frame {
        let mut draft = Draft::new(Moment::from_secs(1));
        draft.rows = vec![(CheckId(1), "[1]".repeat(1000)); rows];
        draft.frame(1, number)
    }

    fn numbers(ring: &Ring, newest: u64) -> Vec<Option<u64>> {
        let number = |number| match ring.after(number, newest) {
            After::Frame(frame) => Some(frame.number),
            After::Nothing => Some(0),
            After::Lost(_) => None,
        };
        (0..=newest + 1).map(number).collect()
    }

    /// The data of the frames after this one.
    fn frames(hub: &Hub, mut number: u64) -> Vec<String> {
        let mut found = Vec::new();
        while let After::Frame(frame) = hub.after(number) {
            number = frame.number;
            found.push(String::from_utf8(frame.data().to_vec()).unwrap());
        }
        found
    }

    async fn make_check(handle: &Handle, uuid: u128) {
        let names = CheckNames { uuid: Uuid::from_u128(uuid), badge: Uuid::from_u128(uuid + 100) };
        let new = CreateCheck { project: ProjectId(1), edit: Edit::default(), unique: Vec::new(), names };
        handle.call(Command::CreateCheck(Box::new(new))).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_check_that_is_made_while_all_are_read_is_new_to_pages() {
        let (handle, writer) = engine::open(engine::Config::new(Medium::memory(), 0)).unwrap();
        let writer = std::thread::spawn(|| writer.run());
        let name = ProjectName::parse("p").unwrap();
        let new = NewProject { uuid: Uuid::nil(), name, check_limit: None, ping_log_limit: 10, badge_key: "b".into() };
        handle.call(Command::CreateProject(Box::new(new))).await.unwrap().unwrap();
        let blocking = Arc::new(BlockingThreads::start(1).unwrap());
        let live = Live::new(handle.clone(), Outgoing::new(Arc::clone(&blocking)));
        let hub = Hub::new(ProjectId(1), 1, handle.watch_project(ProjectId(1)), handle.now());
        let mut seen = None;
        // The notes are taken first, then the only thread is waited for. Meanwhile the check is made.
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let busy = blocking.run(move || wait.recv().is_err());
        let meanwhile = async {
            make_check(&handle, 1).await;
            drop(release);
        };
        let (_, (), ()) = tokio::join!(busy, hub.step(&live, &mut seen), meanwhile);
        hub.step(&live, &mut seen).await;
        assert!(frames(&hub, 0).iter().any(|data| data.contains("\"edited\":[2]")), "{:?}", frames(&hub, 0));
        assert_eq!(seen.unwrap().counts().iter().sum::<usize>(), 1);
        handle.close();
        writer.join().unwrap();
    }

    #[test]
    fn who_was_away_gets_what_came_meanwhile_or_learns_that_it_is_lost() {
        let mut ring = Ring::default();
        assert_eq!(numbers(&ring, 0), [Some(0), None]);
        (1..=3).for_each(|number| ring.push(frame(number, 1)));
        assert_eq!(numbers(&ring, 3), [Some(1), Some(2), Some(3), Some(0), None]);
        (4..=70).for_each(|number| ring.push(frame(number, 1)));
        assert_eq!((ring.frames.len(), ring.frames[0].number), (MOST_FRAMES, 7));
        let after = numbers(&ring, 70);
        assert_eq!(after[..8], [None, None, None, None, None, None, Some(7), Some(8)]);
        assert!(matches!(ring.after(u64::MAX, 70), After::Lost(70)));
    }

    #[test]
    fn frames_take_so_many_bytes() {
        let mut ring = Ring::default();
        for number in 1..=20 {
            ring.push(frame(number, 10));
            assert!(ring.bytes <= MOST_BYTES && ring.bytes == ring.frames.iter().map(|frame| frame.event.len()).sum::<usize>());
        }
        assert!((2..20).contains(&ring.frames.len()), "{}", ring.frames.len());
    }
}
