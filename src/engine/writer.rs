//! The one thread that changes anything: it takes what waits, applies it, writes it in one transaction, commits, publishes, answers.

mod ahead;
mod presence;
mod recovery;
mod time;
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, mpsc};
use std::time::Duration;

use super::alarm::Alarm;
use super::apply::{Effects, WorkingState};
use super::command::{Command, Unavailable, stage::StageCommand, user::UserCommand};
use super::housekeeping::{Housekeeping, LogPlace, Thresholds};
use super::keys::KeyNews;
use super::load::{Loaded, Times, load};
use super::queue::{Caller, Entry, Queue, Taken};
use super::replies::ReplyRoutes;
use super::report;
use super::state::{Change, State};
use super::steps::Steps;
use super::store_slot::StoreSlot;
use super::trial::Trials;
use super::watch::{Doing, ROUND};
use super::{Config, Handle, Shared};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::moment::Moment;
use crate::domain::project::BadgeSecret;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::store::{Medium, Store, StoreError, caught, remove_leftovers};
use ahead::Ahead;
use presence::Presence;
use recovery::Recovery;

/// Checks whose deadlines are looked at in one batch.
const MOST_EXPIRED: usize = 128;
/// Seconds after which the log is told of trials again.
const DAY_SECS: i64 = 86_400;
/// What the first project, check, channel or key of a database is numbered.
const FIRST_ID: u64 = 1;

/// Why the writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The queue was closed and everything in it is answered.
    Closed,
    /// A command made it panic: its batch is not written, and the process should be restarted.
    Panicked,
}

/// See the module.
pub struct Writer {
    shared: Arc<Shared>,
    medium: Medium,
    thresholds: Thresholds,
    /// What of the database has failed, and has to be mended.
    recovery: Recovery,
    /// The last failure was for want of space: what is dead has to go before more is taken.
    is_full: bool,
    /// What is known of the clock.
    steps: Steps,
    /// When pings could be taken.
    presence: Presence,
    /// The file says since when the clock has gone without a step.
    steady_is_written: bool,
    /// Times may run backwards between flips up to this number and later ones, which the file does not say yet.
    flips_out_of_order: Option<FlipNumber>,
    /// When the log was last told of trials.
    trials_told: Option<Moment>,
    /// A command whose body is being written ahead of it, and who waits for it.
    ahead: Option<(Ahead, Caller)>,
    memory: Memory,
}

/// What is derived from the file, at start and again after a failure.
struct Memory {
    working: WorkingState,
    alarm: Alarm,
    housekeeping: Housekeeping,
    /// The time of the newest command, or of the last look at what there is to do.
    last_stamp: Moment,
    /// More deadlines have passed than one batch looks at, or more checks are to be brought back.
    more_due: bool,
    /// Checks that are still to be brought back; `None`: they have not been looked for since the last step of the clock.
    ahead: Option<Vec<CheckId>>,
}

impl Memory {
    /// Reads the file at `now`; also gives the state to be published.
    fn read(
        store: &Store,
        body_limit: usize,
        thresholds: Thresholds,
        now: Moment,
        random: &Random,
    ) -> Result<(Self, State, Times), StoreError> {
        let Loaded { working, times, checkpoint, size, staged } = caught(|| load(store, (body_limit, thresholds), now))?;
        let mut published = working.state.clone();
        published.epoch = u64::from_le_bytes(random.bytes());
        let last_stamp = now.following(times.last_stamp);
        let alarm = alarm_of(&working.state, last_stamp);
        let housekeeping = Housekeeping::new(thresholds, checkpoint, size, staged);
        Ok((Self { working, alarm, housekeeping, last_stamp, more_due: false, ahead: None }, published, times))
    }
}

impl Writer {
    pub(super) fn open(config: Config) -> Result<(Handle, Self), StoreError> {
        let Config { medium, clock, random, ping_body_limit, takes_pings, holds_after_outage, thresholds, progress } = config;
        let store = Store::open_telling(&medium, &progress)?;
        remove_leftovers(&medium);
        let read = Memory::read(&store, ping_body_limit, thresholds, clock.now(), &random);
        let (mut memory, published, times) = read.map_err(|error| medium.broken(error))?;
        memory.working.is_served = takes_pings;
        store.tolerate_unreadable();
        // Reading may have taken a while, but no command has been stamped yet.
        let reading = clock.reading();
        Self::tell_ahead(&times, reading.now);
        let steps = Steps::new(reading, times.steady_since, times.newest);
        let mut presence = Presence::new(times.last_taken(reading.now), reading, holds_after_outage);
        if !takes_pings && let Some(away) = presence.leave() {
            // What is decided meanwhile knows of it, and the next start keeps it.
            let away = memory.working.state.away.iter().copied().chain([away]).collect();
            memory.working.state.away = away;
        }
        let shared = Arc::new(Shared {
            queue: Queue::new(thresholds.large),
            published: RwLock::new(published),
            store: StoreSlot::new(store),
            writable: AtomicBool::new(true),
            doing: Doing::default(),
            healed: AtomicBool::new(false),
            told_damaged: Mutex::default(),
            reply_routes: ReplyRoutes::default(),
            key_news: KeyNews::default(),
            trials: Trials::default(),
            feed: Arc::default(),
            clock,
            random,
            ping_body_limit,
            metrics: Metrics::new(reading.now),
            transports: OnceLock::new(),
            new: memory.working.numbers.id == FIRST_ID,
        });
        let weak = Arc::downgrade(&shared);
        shared.clock.on_move(move || {
            if let Some(shared) = weak.upgrade() {
                shared.queue.nudge();
                shared.trials.bell.notify_one();
            }
        });
        let recovery = Recovery::new(progress, memory.working.numbers);
        let shared_too = Arc::clone(&shared);
        let mut writer = Self {
            shared: shared_too,
            medium,
            thresholds,
            recovery,
            is_full: false,
            steps,
            presence,
            steady_is_written: false,
            flips_out_of_order: None,
            trials_told: None,
            ahead: None,
            memory,
        };
        if times.latest.is_ahead_of(reading.now) {
            writer.flips_out_of_order = Some(writer.newest().flip);
        }
        let state = &writer.memory.working.state;
        let secret = state.badge_secret.is_none().then(|| Command::SetBadgeSecret(BadgeSecret(shared.random.bytes())));
        let instance = state.instance.is_none().then(|| Command::SetInstance(shared.random.bytes()));
        let first: Vec<_> = secret.into_iter().chain(instance).collect();
        if !first.is_empty() {
            writer.apply_and_write(first, Vec::new(), None)?;
            writer.publish();
        }
        Ok((Handle(shared), writer))
    }

    /// Works until the queue is closed, or a command makes it panic. Blocks: give it a thread.
    pub fn run(mut self) -> Ended {
        let shared = Arc::clone(&self.shared);
        std::thread::scope(|scope| {
            let (ended, watch) = mpsc::channel::<()>();
            // It watches until the writer has ended.
            let watch = move || {
                while watch.recv_timeout(ROUND) == Err(mpsc::RecvTimeoutError::Timeout) {
                    shared.watch();
                }
            };
            if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn_scoped(scope, watch) {
                tracing::warn!("nobody watches the writer: {error}");
            }
            let reason = loop {
                match self.step(true) {
                    Ok(true) => {}
                    Ok(false) => break Ended::Closed,
                    Err(reason) => break reason,
                }
            };
            drop(ended);
            reason
        })
    }

    /// One round: waits for something to do (unless it must not wait) and does it. `false` when there will never be more.
    ///
    /// # Errors
    /// [`Ended::Panicked`] when a command made it panic; nothing can be done with the writer then.
    pub fn step(&mut self, wait: bool) -> Result<bool, Ended> {
        let taken = self.shared.queue.take(if wait { self.patience() } else { Duration::ZERO }, self.ahead.is_none());
        self.shared.doing.begin(self.shared.clock.uptime());
        let done = self.work(taken);
        self.shared.doing.end();
        if wait && !self.shared.writable.load(Ordering::Relaxed) {
            // Callers that come meanwhile wait for the next attempt: one for each of them would keep the medium busy.
            self.shared.queue.rest(self.recovery.pause());
        }
        done
    }

    /// Does what there is to do, or to mend.
    fn work(&mut self, taken: Taken) -> Result<bool, Ended> {
        self.look_at_clock();
        self.find_file();
        if !self.shared.writable.load(Ordering::Relaxed) {
            let closed = taken.closed;
            taken.refuse(Unavailable::Storage);
            self.refuse_ahead(Unavailable::Storage);
            self.presence.lost(self.shared.clock.now());
            self.recover();
            return Ok(!closed);
        }
        let Taken { mut entries, large, closed } = taken;
        entries.extend(large.and_then(|large| self.begin_ahead(large)));
        self.reopen_healed();
        let now = self.stamp();
        let Memory { working, alarm, housekeeping, more_due, .. } = &mut self.memory;
        if alarm.is_ahead_of(now) {
            // The clock was set back.
            *alarm = alarm_of(&working.state, now);
        }
        let mut due = alarm.due(now, MOST_EXPIRED);
        *more_due = due.more;
        if !self.presence.takes_pings() {
            due.checks.clear();
        }
        let removes_expired = due.housekeeping && self.steps.is_confirmed();
        if due.housekeeping {
            housekeeping.hourly(&working.state);
            let is_recent = |told: Moment| (told..told.plus_secs(DAY_SECS)).contains(&now);
            if working.is_served && !self.trials_told.is_some_and(is_recent) {
                self.trials_told = report::trials(&working.state).then_some(now);
            }
        }
        self.presence.back(now);
        // Before any deadline is looked at.
        let ahead = working.state.away.iter().any(|away| away.to.is_ahead_of(now)).then_some(Command::ForgetAhead);
        let mut own: Vec<_> = ahead.into_iter().chain(self.presence.pending().map(Command::Away)).collect();
        own.extend(self.shared.key_news.take());
        if closed && entries.is_empty() && self.ahead.is_none() {
            // Deadlines and housekeeping are for the next start to see to: nobody waits for them now.
            if !own.is_empty() {
                self.batch(own, Vec::new())?;
            }
            self.close();
            return Ok(false);
        }
        if !due.checks.is_empty() {
            own.push(Command::Expire(due.checks.clone()));
        }
        let ahead = if self.presence.takes_pings() { self.some_ahead(now) } else { Vec::new() };
        if !ahead.is_empty() {
            own.push(Command::BringBack(ahead));
        }
        if removes_expired {
            own.push(Command::User(Box::new(UserCommand::RemoveExpired)));
        }
        own.extend(self.memory.working.unfinished());
        if due.housekeeping && self.memory.working.state.secrets_to_keep().is_some() {
            own.push(Command::ForgetSecrets);
        }
        let idle = self.memory.working.idle_imports(now).into_iter();
        own.extend(idle.map(|import| Command::Stage(Box::new(StageCommand::Abandon { import }))));
        let uptime = self.shared.clock.uptime();
        let has_commands = !entries.is_empty() || !own.is_empty() || self.ahead.is_some();
        if !has_commands && !self.has_housekeeping() && !self.presence.is_due(uptime, false) {
            return Ok(true);
        }
        self.batch(own, entries)?;
        self.arm(due.checks);
        if self.shared.writable.load(Ordering::Relaxed) {
            self.presence.kept();
        } else {
            self.presence.lost(now);
        }
        Ok(true)
    }

    /// Whether every check that waits for a deadline will be looked at when it passes. For tests.
    pub fn covers_all_deadlines(&self) -> bool {
        self.memory.working.state.checks().all(|check| self.memory.alarm.covers(check))
    }

    /// Carries out the writer's own commands and then those of callers, in one transaction.
    fn batch(&mut self, own: Vec<Command>, entries: Vec<Entry>) -> Result<(), Ended> {
        let (mut commands, mut callers): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|entry| (entry.command, (entry.route, entry.reply))).unzip();
        let (mut ahead, more) = self.join_ahead(&mut commands, &mut callers);
        let count = callers.len();
        self.shared.doing.hold(callers);
        let work = catch_unwind(AssertUnwindSafe(|| self.apply_and_write(own, commands, ahead.as_mut())));
        let (answers, put_off) = match work {
            Ok(Ok(applied)) => applied,
            Ok(Err(error)) => {
                self.is_full = error.is_full();
                self.recovery.batch_failed(count, &error);
                // Unwritable first: whoever reads the answer must not find the service healthy.
                self.shared.writable.store(false, Ordering::Relaxed);
                self.shared.doing.release().into_iter().for_each(|(_, caller)| drop(caller.send(Err(Unavailable::Storage))));
                return Ok(());
            }
            Err(_) => {
                tracing::error!("a command made the writer panic; its batch of {count} is not written");
                self.shared.queue.close();
                self.shared.writable.store(false, Ordering::Relaxed);
                self.shared.doing.release().into_iter().for_each(|(_, caller)| drop(caller.send(Err(Unavailable::Storage))));
                self.shared.queue.refuse_all(Unavailable::Stopping);
                return Err(Ended::Panicked);
            }
        };
        let feed = Arc::clone(&self.shared.feed);
        let publication = feed.publication();
        let changes = self.publish();
        // Those who waited too long have been answered.
        let mut callers = self.shared.doing.release();
        if let Some(ahead) = ahead {
            let caller = if more { callers.pop() } else { None };
            self.go_on_ahead(ahead, caller);
        }
        let (mut answers, mut put_off, mut later) = (answers.into_iter(), put_off.into_iter().peekable(), Vec::new());
        let deliveries = callers.into_iter().enumerate().filter_map(|(place, (route, reply))| {
            if let Some((_, command)) = put_off.next_if(|(put_off, _)| *put_off == place) {
                later.push(Entry { command, reply, route });
                return None;
            }
            answers.next().map(|answer| (route, (reply, answer)))
        });
        self.shared.reply_routes.deliver(deliveries);
        self.shared.queue.put_back(later);
        // Whoever looks on waits longer than whoever pings.
        feed.note(&changes, &self.memory.working.state);
        drop(publication);
        let (mut sooner, mut gone) = (Vec::new(), Vec::new());
        changes.iter().for_each(|change| match change {
            Change::Pinged { id, sooner: true, .. } => sooner.push(*id),
            Change::Check(check) => sooner.push(check.id),
            Change::CheckGone(id) => gone.push(*id),
            _ => {}
        });
        gone.into_iter().for_each(|id| self.memory.alarm.disarm(id));
        self.arm(sooner);
        Ok(())
    }

    /// The newest entries of both logs.
    fn newest(&self) -> LogPlace {
        let numbers = self.memory.working.numbers;
        LogPlace { arrival: Arrival(numbers.arrival - 1), flip: FlipNumber(numbers.flip - 1), bytes: numbers.bytes }
    }

    /// Shows what is on disk now to those who read; what has changed with it.
    fn publish(&mut self) -> Vec<Change> {
        let effects = std::mem::take(&mut self.memory.working.effects);
        report::measure(&self.shared.metrics, &self.memory.working.state, &effects, self.memory.last_stamp);
        let Effects { changes, flips, full, unnotified, imported, .. } = effects;
        self.recovery.acknowledged(self.memory.working.numbers);
        if !changes.is_empty() {
            // A batch of refusals keeps no reader waiting.
            let mut published = self.shared.published.write().unwrap_or_else(PoisonError::into_inner);
            changes.iter().for_each(|change| published.apply(change));
        }
        if changes.iter().any(|change| matches!(change, Change::Queued(_) | Change::Unqueued(_) | Change::Channel(_))) {
            self.shared.trials.bell.notify_one();
        }
        report::flips(&self.memory.working.state, &flips, self.memory.last_stamp);
        report::unnotified(&self.memory.working.state, &unnotified, self.memory.last_stamp);
        report::full(&self.memory.working.state, &full);
        if self.memory.working.is_served {
            report::imported(&self.memory.working.state, &imported);
        }
        changes
    }

    /// Sees to it that these checks are looked at when their deadlines pass.
    fn arm(&mut self, checks: Vec<CheckId>) {
        let Memory { working, alarm, .. } = &mut self.memory;
        checks.into_iter().filter_map(|id| working.state.check(id)).for_each(|check| alarm.arm(check));
        if alarm.has_litter() {
            alarm.rebuild(working.state.checks());
        }
    }

    /// Removes what is dead, beside no pings. The space goes back to the file, not to the disk. `removed` counts, also up to an error.
    fn remove_dead(&mut self, removed: &mut u64) -> Result<(), StoreError> {
        let (before, pieces) = (self.memory.housekeeping.pings(), self.memory.housekeeping.removed_pieces());
        self.memory.housekeeping.everything();
        while self.memory.housekeeping.pending() {
            self.apply_and_write(Vec::new(), Vec::new(), None)?;
            *removed = self.memory.housekeeping.removed_pieces() - pieces + before - self.memory.housekeeping.pings();
        }
        Ok(())
    }

    /// Does all the housekeeping that there is, and stops: nothing dead is left in the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn tidy(mut self) -> Result<(), StoreError> {
        while self.memory.working.state.has_orphans() {
            self.apply_and_write(vec![Command::RemoveOrphans], Vec::new(), None)?;
            self.publish();
        }
        self.remove_dead(&mut 0)?;
        if self.recount_uploads()? {
            self.remove_dead(&mut 0)?;
        }
        self.checkpoint_whole()
    }

    /// Brings the check rows up to date, so that the next start has nothing to replay.
    fn close(&mut self) {
        if let Err(error) = self.checkpoint_whole() {
            tracing::warn!("the checkpoint of a clean stop could not be written, the next start replays the log: {error}");
        }
    }
}

/// Arms all checks, oldest first: what is due at the same time is then taken in the same order on every machine.
fn alarm_of(state: &State, now: Moment) -> Alarm {
    Alarm::new(state.checks(), now)
}
