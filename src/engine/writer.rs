//! The one thread that changes anything: it takes what waits, applies it, writes it in one transaction, commits, publishes, answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::alarm::Alarm;
use super::apply::{Effects, WorkingState};
use super::command::{Answer, Command, Unavailable};
use super::housekeeping::{Housekeeping, LogPlace, Thresholds};
use super::load::{Loaded, load};
use super::queue::{Entry, Queue};
use super::replies::ReplyRoutes;
use super::report;
use super::state::{Change, State};
use super::{Config, Handle, Shared};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::moment::{MICROS, Moment};
use crate::random::Random;
use crate::store::{Batch, Mark, Medium, Store, StoreError};

/// Checks whose deadlines are looked at in one batch.
const MOST_EXPIRED: usize = 128;
/// What the first project, check, channel or key of a database is numbered.
const FIRST_ID: u64 = 1;
/// The longest the writer waits without looking at the time: clocks are set.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits before it tries again to reopen a database that failed.
const RECOVERY_PAUSE: Duration = Duration::from_millis(250);

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
    /// A database that failed, out of reach for new readers, until the last one gives it back.
    failed: Option<Arc<Store>>,
    /// The last failure was for want of space: what is dead has to go before more is taken.
    is_full: bool,
    memory: Memory,
}

/// What is derived from the file, at start and again after a failure.
struct Memory {
    working: WorkingState,
    alarm: Alarm,
    housekeeping: Housekeeping,
    /// The time of the newest command; no later one is stamped earlier.
    last_stamp: Moment,
    /// More deadlines have passed than one batch looks at.
    more_due: bool,
}

impl Memory {
    /// Reads the file at `now`; also gives the state to be published.
    fn read(store: &Store, body_limit: usize, thresholds: Thresholds, now: Moment, random: &Random) -> Result<(Self, State), StoreError> {
        let Loaded { working, last_stamp, checkpoint, size } = load(store, body_limit)?;
        let mut published = working.state.clone();
        published.epoch = u64::from_le_bytes(random.bytes());
        let alarm = alarm_of(&working.state, now.max(last_stamp));
        let housekeeping = Housekeeping::new(thresholds, checkpoint, size);
        Ok((Self { working, alarm, housekeeping, last_stamp, more_due: false }, published))
    }
}

impl Writer {
    pub(super) fn open(config: Config) -> Result<(Handle, Self), StoreError> {
        let Config { medium, clock, random, ping_body_limit, thresholds } = config;
        let store = Store::open(&medium)?;
        let (memory, published) = Memory::read(&store, ping_body_limit, thresholds, clock.now(), &random)?;
        let behind = memory.last_stamp.micros_since(clock.now()) / MICROS;
        if behind > 60 {
            tracing::warn!(
                "the clock is {behind} s behind the newest record: until it has caught up, all that happens bears that record's time"
            );
        }
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            published: RwLock::new(published),
            store: RwLock::new(Some(Arc::new(store))),
            writable: AtomicBool::new(true),
            reply_routes: ReplyRoutes::default(),
            key_uses: Mutex::default(),
            clock,
            random,
            ping_body_limit,
            new: memory.working.numbers.id == FIRST_ID,
        });
        let weak = Arc::downgrade(&shared);
        shared.clock.on_move(move || {
            if let Some(shared) = weak.upgrade() {
                shared.queue.nudge();
            }
        });
        let mut writer = Self { shared: Arc::clone(&shared), medium, thresholds, failed: None, is_full: false, memory };
        if writer.memory.working.state.badge_secret.is_none() {
            let secret = Command::SetBadgeSecret(shared.random.bytes());
            writer.apply_and_write(vec![secret], Vec::new())?;
            writer.publish();
        }
        Ok((Handle(shared), writer))
    }

    /// Works until the queue is closed, or a command makes it panic. Blocks: give it a thread.
    pub fn run(mut self) -> Ended {
        loop {
            match self.step(true) {
                Ok(true) => {}
                Ok(false) => return Ended::Closed,
                Err(ended) => return ended,
            }
        }
    }

    /// One round: waits for something to do (unless it must not wait) and does it. `false` when there will never be more.
    ///
    /// # Errors
    /// [`Ended::Panicked`] when a command made it panic; nothing can be done with the writer then.
    pub fn step(&mut self, wait: bool) -> Result<bool, Ended> {
        let taken = self.shared.queue.take(if wait { self.patience() } else { Duration::ZERO });
        if !self.shared.writable.load(Ordering::Relaxed) {
            answer_all(taken.entries, Unavailable::Storage);
            self.recover();
            if wait && !self.shared.writable.load(Ordering::Relaxed) {
                // Callers that come meanwhile wait for the next attempt: one for each of them would keep the medium busy.
                self.shared.queue.rest(RECOVERY_PAUSE);
            }
            return Ok(!taken.closed);
        }
        let now = self.memory.last_stamp.max(self.shared.clock.now());
        let Memory { working, alarm, housekeeping, more_due, .. } = &mut self.memory;
        if alarm.is_ahead_of(now) {
            // The clock was set back, and no stamp is in the way.
            *alarm = alarm_of(&working.state, now);
        }
        let due = alarm.due(now, MOST_EXPIRED);
        *more_due = due.more;
        if due.housekeeping {
            housekeeping.hourly(&working.state);
        }
        if taken.closed && taken.entries.is_empty() {
            // Deadlines and housekeeping are for the next start to see to: nobody waits for them now.
            self.close();
            return Ok(false);
        }
        let mut own = Vec::new();
        if !due.checks.is_empty() {
            own.push(Command::Expire(due.checks.clone()));
        }
        let key_uses = std::mem::take(&mut *self.shared.key_uses.lock().unwrap_or_else(PoisonError::into_inner));
        if !key_uses.is_empty() {
            own.push(Command::NoteKeyUses(key_uses.into_iter().collect()));
        }
        if !working.state.orphans().is_empty() {
            own.push(Command::RemoveOrphans);
        }
        if taken.entries.is_empty() && own.is_empty() && !housekeeping.pending() {
            return Ok(true);
        }
        self.batch(own, taken.entries)?;
        self.arm(due.checks);
        Ok(true)
    }

    /// Whether every check that waits for a deadline will be looked at when it passes. For tests.
    pub fn covers_all_deadlines(&self) -> bool {
        self.memory.working.state.checks().all(|check| self.memory.alarm.covers(check))
    }

    fn patience(&self) -> Duration {
        let Memory { working, housekeeping, more_due, .. } = &self.memory;
        if !self.shared.writable.load(Ordering::Relaxed) || *more_due || housekeeping.pending() || !working.state.orphans().is_empty() {
            return Duration::ZERO;
        }
        let until_next = self.memory.alarm.micros_until_next(self.shared.clock.now()).map(Duration::from_micros);
        match until_next {
            // A clock that is moved by hand calls.
            Some(until_next) if self.shared.clock.is_system() => until_next.min(PATIENCE),
            _ => PATIENCE,
        }
    }

    /// Carries out the writer's own commands and then those of callers, in one transaction.
    fn batch(&mut self, own: Vec<Command>, entries: Vec<Entry>) -> Result<(), Ended> {
        let (commands, callers): (Vec<_>, Vec<_>) = entries.into_iter().map(|entry| (entry.command, (entry.route, entry.reply))).unzip();
        let work = catch_unwind(AssertUnwindSafe(|| self.apply_and_write(own, commands)));
        let answers = match work {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => {
                tracing::error!("a batch of {} commands could not be written: {error}", callers.len());
                self.is_full = error.is_full();
                // Unwritable first: whoever reads the answer must not find the service healthy.
                self.shared.writable.store(false, Ordering::Relaxed);
                callers.into_iter().for_each(|(_, caller)| drop(caller.send(Err(Unavailable::Storage))));
                return Ok(());
            }
            Err(_) => {
                tracing::error!("a command made the writer panic; its batch of {} is not written", callers.len());
                self.shared.queue.close();
                self.shared.writable.store(false, Ordering::Relaxed);
                callers.into_iter().for_each(|(_, caller)| drop(caller.send(Err(Unavailable::Storage))));
                answer_all(self.shared.queue.take(Duration::ZERO).entries, Unavailable::Stopping);
                return Err(Ended::Panicked);
            }
        };
        let changed = self.publish();
        let deliveries = callers.into_iter().zip(answers).map(|((route, caller), answer)| (route, (caller, answer)));
        self.shared.reply_routes.deliver(deliveries);
        self.arm(changed);
        Ok(())
    }

    /// Applies commands and writes what they come to; the answers to those of callers.
    fn apply_and_write(&mut self, own: Vec<Command>, commands: Vec<Command>) -> Result<Vec<Answer>, StoreError> {
        let ids_before = self.memory.working.numbers.id;
        for command in own {
            let now = self.stamp();
            // The writer's own commands are never refused.
            let _ = self.memory.working.apply(command, now);
        }
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let now = self.stamp();
            answers.push(Ok(self.memory.working.apply(command, now)));
        }
        if self.memory.working.effects.changes.is_empty() && !self.memory.housekeeping.pending() {
            // Refusals, and deadlines that pings have put off, cost no commit.
            return Ok(answers);
        }
        let (store, newest) = (self.store()?, self.newest());
        let Memory { working, housekeeping, last_stamp, .. } = &mut self.memory;
        let batch = store.batch()?;
        write(&batch, &working.effects)?;
        if working.numbers.id != ids_before {
            batch.set_mark(Mark::NextId, working.numbers.id)?;
        }
        let bytes = working.effects.pings.iter().map(|(.., body)| body.len() as u64).sum();
        let appended = (working.effects.pings.len() as u64, bytes);
        let cleaned = housekeeping.slice(&batch, &working.state, appended, newest, *last_stamp)?;
        // A look that finds nothing to write costs no commit.
        if cleaned || !working.effects.changes.is_empty() {
            batch.commit()?;
        }
        Ok(answers)
    }

    /// The time of the next command: never earlier than that of the one before, also when the clock is set back.
    fn stamp(&mut self) -> Moment {
        self.memory.last_stamp = self.memory.last_stamp.max(self.shared.clock.now());
        self.memory.last_stamp
    }

    /// The newest entries of both logs.
    fn newest(&self) -> LogPlace {
        let numbers = self.memory.working.numbers;
        LogPlace { arrival: Arrival(numbers.arrival - 1), flip: FlipNumber(numbers.flip - 1), bytes: numbers.bytes }
    }

    fn store(&self) -> Result<Arc<Store>, StoreError> {
        let store = self.shared.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        store.ok_or(StoreError::Reopening)
    }

    /// Shows what is on disk now to those who read; the checks that may have an earlier deadline.
    fn publish(&mut self) -> Vec<CheckId> {
        let Effects { changes, flips, .. } = std::mem::take(&mut self.memory.working.effects);
        let mut published = self.shared.published.write().unwrap_or_else(PoisonError::into_inner);
        changes.iter().for_each(|change| published.apply(change));
        drop(published);
        report::flips(&self.memory.working.state, &flips, self.memory.last_stamp);
        let sooner = changes.iter().filter_map(|change| match change {
            Change::Pinged { id, sooner: true, .. } => Some(*id),
            Change::Check(check) => Some(check.id),
            _ => None,
        });
        sooner.collect()
    }

    /// Sees to it that these checks are looked at when their deadlines pass.
    fn arm(&mut self, checks: Vec<CheckId>) {
        let Memory { working, alarm, .. } = &mut self.memory;
        checks.into_iter().filter_map(|id| working.state.check(id)).for_each(|check| alarm.arm(check));
    }

    /// After a failed write: once the medium takes writes again, the database is dropped and reopened, and memory is read anew.
    fn recover(&mut self) {
        if let Err(error) = self.medium.probe() {
            tracing::warn!("the data directory still takes no writes: {error}");
            return;
        }
        // From here on there are no new readers. The others give the file back within a request; until they have, it stays locked.
        let failed = self.failed.take().or_else(|| self.shared.store.write().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(failed) = failed
            && let Err(failed) = Arc::try_unwrap(failed)
        {
            self.failed = Some(failed);
            return;
        }
        let (now, body_limit) = (self.memory.last_stamp.max(self.shared.clock.now()), self.memory.working.body_limit);
        let reopened = Store::reopen(&self.medium)
            .and_then(|store| Ok((Memory::read(&store, body_limit, self.thresholds, now, &self.shared.random)?, store)));
        match reopened {
            Ok(((mut memory, published), store)) => {
                memory.last_stamp = memory.last_stamp.max(self.memory.last_stamp);
                *self.shared.store.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(store));
                *self.shared.published.write().unwrap_or_else(PoisonError::into_inner) = published;
                self.memory = memory;
                if self.is_full
                    && let Err(error) = self.make_room()
                {
                    tracing::warn!("there is no space for what was to be written, and none could be freed: {error}");
                    return;
                }
                self.shared.writable.store(true, Ordering::Relaxed);
                tracing::info!("the database is open again");
            }
            Err(error) => tracing::warn!("the database cannot be reopened yet: {error}"),
        }
    }

    /// Removes what is dead, beside no pings. The space goes back to the file, not to the disk.
    fn make_room(&mut self) -> Result<(), StoreError> {
        self.memory.housekeeping.everything();
        if self.is_full {
            self.memory.housekeeping.go_in_small_steps();
        }
        while self.memory.housekeeping.pending() {
            self.apply_and_write(Vec::new(), Vec::new())?;
        }
        self.memory.housekeeping.go_in_steps(self.thresholds);
        self.is_full = false;
        Ok(())
    }

    /// Does all the housekeeping that there is, and stops: nothing dead is left in the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn tidy(mut self) -> Result<(), StoreError> {
        while !self.memory.working.state.orphans().is_empty() {
            self.apply_and_write(vec![Command::RemoveOrphans], Vec::new())?;
            self.publish();
        }
        self.make_room()?;
        self.checkpoint_whole()
    }

    /// Brings the check rows up to date, so that the next start has nothing to replay.
    fn close(&mut self) {
        if let Err(error) = self.checkpoint_whole() {
            tracing::warn!("the checkpoint of a clean stop could not be written, the next start replays the log: {error}");
        }
    }

    fn checkpoint_whole(&self) -> Result<(), StoreError> {
        let batch = self.store()?.batch()?;
        let Memory { working, housekeeping, .. } = &self.memory;
        housekeeping.checkpoint_whole(&batch, &working.state, self.newest())?;
        batch.commit()
    }
}

/// Arms all checks, oldest first: what is due at the same time is then taken in the same order on every machine.
fn alarm_of(state: &State, now: Moment) -> Alarm {
    Alarm::new(state.projects().flat_map(|project_state| state.checks_of(project_state.project.id)), now)
}

fn answer_all(entries: Vec<Entry>, unavailable: Unavailable) {
    entries.into_iter().for_each(|entry| drop(entry.reply.send(Err(unavailable))));
}

/// Writes what a batch of commands has come to.
fn write(batch: &Batch, effects: &Effects) -> Result<(), StoreError> {
    if !effects.pings.is_empty() {
        batch.append_pings(&effects.pings)?;
    }
    if !effects.flips.is_empty() {
        batch.append_flips(&effects.flips)?;
    }
    for change in &effects.changes {
        match change {
            Change::Pinged { .. } => {}
            Change::Check(check) => drop(batch.put_checks([&**check])?),
            Change::CheckGone(id) => batch.remove_checks([*id])?,
            Change::Project(project) => batch.put_project(project)?,
            Change::ProjectGone(id) => batch.remove_project(*id)?,
            Change::Key(key) => batch.put_key(key)?,
            Change::KeyGone(id) => batch.remove_key(*id)?,
            Change::Channel(channel) => batch.put_channel(channel)?,
            Change::ChannelGone(id) => batch.remove_channel(*id)?,
            Change::BadgeSecret(secret) => batch.set_badge_secret(secret)?,
        }
    }
    Ok(())
}
