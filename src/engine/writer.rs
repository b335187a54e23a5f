//! The one thread that changes anything: it takes what waits, applies it, writes it in one transaction, commits, publishes, answers.

mod availability;
mod body_upload;
mod recovery;
mod time;
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, mpsc};
use std::time::Duration;

use super::api_keys::KeyUpdates;
use super::apply::{Effects, WorkingState};
use super::batch_log;
use super::channel_test::ChannelTestQueue;
use super::clock_jump::ClockJumpDetector;
use super::command::{Command, Unavailable, import::ImportStep, user::UserCommand};
use super::command_queue::{CommandQueue, QueuedCommand, ReplyTarget, TakenCommands};
use super::deadline_wheel::DeadlineWheel;
use super::housekeeping::{Housekeeping, HousekeepingLimits, LogPosition};
use super::load::{FileTimestamps, LoadedDatabase, load};
use super::replies::ReplyRoutes;
use super::state::{Change, State};
use super::store_slot::StoreSlot;
use super::writer_watchdog::{WATCH_INTERVAL, WriterActivity};
use super::{EngineConfig, Handle, Shared};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::store::{Medium, Store, StoreError, catch_panic, remove_leftovers};
use availability::PingAvailability;
use body_upload::BodyUpload;
use recovery::Recovery;

/// Checks whose deadlines are looked at in one batch.
const MAX_EXPIRED_CHECKS: usize = 128;
/// Seconds after which the log is told of trials again.
const DAY_SECS: i64 = 86_400;
/// What the first project, check, channel or key of a database is numbered.
const FIRST_ID: u64 = 1;

/// Why the writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterExit {
    /// The queue was closed and everything in it is answered.
    Closed,
    /// A command made it panic: its batch is not written, and the process should be restarted.
    Panicked,
}

/// See the module.
pub struct Writer {
    shared: Arc<Shared>,
    medium: Medium,
    limits: HousekeepingLimits,
    /// What of the database has failed, and has to be mended.
    recovery: Recovery,
    /// The last failure was for want of space: what is dead has to go before more is taken.
    is_disk_full: bool,
    /// What is known of the clock.
    clock_jumps: ClockJumpDetector,
    /// When pings could be taken.
    availability: PingAvailability,
    /// The file says since when the clock has gone without a step.
    is_steady_time_stored: bool,
    /// Times may run backwards between flips up to this number and later ones, which the file does not say yet.
    flips_out_of_order: Option<FlipNumber>,
    /// When the log was last told of trials.
    trials_logged_at: Option<Timestamp>,
    /// A command whose body is being written ahead of it, and who waits for it.
    upload: Option<(BodyUpload, ReplyTarget)>,
    memory: WriterMemory,
}

/// What is derived from the file, at start and again after a failure.
struct WriterMemory {
    working: WorkingState,
    deadlines: DeadlineWheel,
    housekeeping: Housekeeping,
    /// The time of the newest command, or of the last look at what there is to do.
    last_timestamp: Timestamp,
    /// More deadlines have passed than one batch looks at, or more checks are to be brought back.
    more_due: bool,
    /// Checks that are still to be brought back; `None`: they have not been looked for since the last step of the clock.
    future_checks: Option<Vec<CheckId>>,
}

impl WriterMemory {
    /// Reads the file at `now`; also gives the state to be published.
    fn read(
        store: &Store,
        body_limit: usize,
        thresholds: HousekeepingLimits,
        now: Timestamp,
        random: &Random,
    ) -> Result<(Self, State, FileTimestamps), StoreError> {
        let LoadedDatabase { working, timestamps: times, checkpoint, log_size: size, has_import_leftovers: staged } =
            catch_panic(|| load(store, (body_limit, thresholds), now))?;
        let mut published = working.state.clone();
        published.epoch = u64::from_le_bytes(random.bytes());
        let last_stamp = now.not_before(times.latest_past);
        let alarm = deadlines_of(&working.state, last_stamp);
        let housekeeping = Housekeeping::new(thresholds, checkpoint, size, staged);
        Ok((
            Self { working, deadlines: alarm, housekeeping, last_timestamp: last_stamp, more_due: false, future_checks: None },
            published,
            times,
        ))
    }
}

impl Writer {
    pub(super) fn open(config: EngineConfig) -> Result<(Handle, Self), StoreError> {
        let EngineConfig {
            medium,
            clock,
            random,
            ping_body_limit,
            accepts_pings: takes_pings,
            holds_alerts_after_outage: holds_after_outage,
            housekeeping: thresholds,
            progress,
        } = config;
        let store = Store::open_with_progress(&medium, &progress)?;
        remove_leftovers(&medium);
        let read = WriterMemory::read(&store, ping_body_limit, thresholds, clock.now(), &random);
        let (mut memory, published, times) = read.map_err(|error| medium.explain_error(error))?;
        memory.working.accepts_pings = takes_pings;
        store.tolerate_unreadable();
        // Reading may have taken a while, but no command has been stamped yet.
        let reading = clock.read();
        Self::warn_of_future_records(&times, reading.now);
        let steps = ClockJumpDetector::new(reading, times.steady_since, times.newest_ping);
        let mut presence = PingAvailability::new(times.last_available(reading.now), reading, holds_after_outage);
        if !takes_pings && let Some(away) = presence.stop_recording() {
            // What is decided meanwhile knows of it, and the next start keeps it.
            let away = memory.working.state.outages.iter().copied().chain([away]).collect();
            memory.working.state.outages = away;
        }
        let shared = Arc::new(Shared {
            queue: CommandQueue::new(thresholds.large_body_bytes),
            published: RwLock::new(published),
            store: StoreSlot::new(store),
            writable: AtomicBool::new(true),
            writer_activity: WriterActivity::default(),
            is_page_readable_again: AtomicBool::new(false),
            reported_damage: Mutex::default(),
            reply_routes: ReplyRoutes::default(),
            key_updates: KeyUpdates::default(),
            channel_tests: ChannelTestQueue::default(),
            feed: Arc::default(),
            clock,
            random,
            ping_body_limit,
            metrics: Metrics::new(reading.now),
            transports: OnceLock::new(),
            was_empty: memory.working.numbers.id == FIRST_ID,
        });
        let weak = Arc::downgrade(&shared);
        shared.clock.on_move(move || {
            if let Some(shared) = weak.upgrade() {
                shared.queue.wake();
                shared.channel_tests.work_available.notify_one();
            }
        });
        let recovery = Recovery::new(progress, memory.working.numbers);
        let shared_too = Arc::clone(&shared);
        let mut writer = Self {
            shared: shared_too,
            medium,
            limits: thresholds,
            recovery,
            is_disk_full: false,
            clock_jumps: steps,
            availability: presence,
            is_steady_time_stored: false,
            flips_out_of_order: None,
            trials_logged_at: None,
            upload: None,
            memory,
        };
        if times.latest.is_ahead_of(reading.now) {
            writer.flips_out_of_order = Some(writer.log_end().flip);
        }
        let state = &writer.memory.working.state;
        let secret = state.badge_secret.is_none().then(|| Command::SetBadgeSecret(BadgeSecret(shared.random.bytes())));
        let instance = state.instance_id.is_none().then(|| Command::SetInstance(shared.random.bytes()));
        let first: Vec<_> = secret.into_iter().chain(instance).collect();
        if !first.is_empty() {
            writer.apply_and_write(first, Vec::new(), None)?;
            writer.publish();
        }
        Ok((Handle(shared), writer))
    }

    /// Works until the queue is closed, or a command makes it panic. Blocks: give it a thread.
    pub fn run(mut self) -> WriterExit {
        let shared = Arc::clone(&self.shared);
        std::thread::scope(|scope| {
            let (ended, watch) = mpsc::channel::<()>();
            // It watches until the writer has ended.
            let watch = move || {
                while watch.recv_timeout(WATCH_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                    shared.check_writer();
                }
            };
            if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn_scoped(scope, watch) {
                tracing::warn!("nobody watches the writer: {error}");
            }
            let reason = loop {
                match self.step(true) {
                    Ok(true) => {}
                    Ok(false) => break WriterExit::Closed,
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
    /// [`Ended::WriterPanicked`] when a command made it panic; nothing can be done with the writer then.
    pub fn step(&mut self, wait: bool) -> Result<bool, WriterExit> {
        let taken = self.shared.queue.take(if wait { self.wait_limit() } else { Duration::ZERO }, self.upload.is_none());
        self.shared.writer_activity.begin_step(self.shared.clock.uptime());
        let done = self.process(taken);
        self.shared.writer_activity.end_step();
        if wait && !self.shared.writable.load(Ordering::Relaxed) {
            // Callers that come meanwhile wait for the next attempt: one for each of them would keep the medium busy.
            self.shared.queue.wait_until_closed(self.recovery.pause());
        }
        done
    }

    /// Does what there is to do, or to mend.
    fn process(&mut self, taken: TakenCommands) -> Result<bool, WriterExit> {
        self.check_clock();
        self.check_file_exists();
        if !self.shared.writable.load(Ordering::Relaxed) {
            let closed = taken.closed;
            taken.refuse_all(Unavailable::StorageFailed);
            self.refuse_upload(Unavailable::StorageFailed);
            self.availability.begin_outage(self.shared.clock.now());
            self.recover();
            return Ok(!closed);
        }
        let TakenCommands { small: mut entries, large, closed } = taken;
        entries.extend(large.and_then(|large| self.begin_upload(large)));
        self.reopen_if_readable_again();
        let now = self.next_timestamp();
        let WriterMemory { working, deadlines: alarm, housekeeping, more_due, .. } = &mut self.memory;
        if alarm.is_ahead_of(now) {
            // The clock was set back.
            *alarm = deadlines_of(&working.state, now);
        }
        let mut due = alarm.take_due(now, MAX_EXPIRED_CHECKS);
        *more_due = due.more;
        if !self.availability.accepts_pings() {
            due.checks.clear();
        }
        let removes_expired = due.housekeeping && self.clock_jumps.is_confirmed();
        if due.housekeeping {
            housekeeping.begin_hourly_round(&working.state);
            let is_recent = |told: Timestamp| (told..told.plus_secs(DAY_SECS)).contains(&now);
            if working.accepts_pings && !self.trials_logged_at.is_some_and(is_recent) {
                self.trials_logged_at = batch_log::log_trials(&working.state).then_some(now);
            }
        }
        self.availability.end_outage(now);
        // Before any deadline is looked at.
        let ahead = working.state.outages.iter().any(|away| away.to.is_ahead_of(now)).then_some(Command::DropFutureOutages);
        let mut own: Vec<_> = ahead.into_iter().chain(self.availability.pending_outage().map(Command::RecordOutage)).collect();
        own.extend(self.shared.key_updates.take_commands());
        if closed && entries.is_empty() && self.upload.is_none() {
            // Deadlines and housekeeping are for the next start to see to: nobody waits for them now.
            if !own.is_empty() {
                self.process_batch(own, Vec::new())?;
            }
            self.write_final_checkpoint();
            return Ok(false);
        }
        if !due.checks.is_empty() {
            own.push(Command::ExpireChecks(due.checks.clone()));
        }
        let ahead = if self.availability.accepts_pings() { self.take_future_checks(now) } else { Vec::new() };
        if !ahead.is_empty() {
            own.push(Command::RearmChecks(ahead));
        }
        if removes_expired {
            own.push(Command::User(Box::new(UserCommand::RemoveExpired)));
        }
        own.extend(self.memory.working.continuation_commands());
        if due.housekeeping && self.memory.working.state.legacy_secrets_in_use().is_some() {
            own.push(Command::PruneLegacySecrets);
        }
        let idle = self.memory.working.idle_imports(now).into_iter();
        own.extend(idle.map(|import| Command::Import(Box::new(ImportStep::Abandon { import }))));
        let uptime = self.shared.clock.uptime();
        let has_commands = !entries.is_empty() || !own.is_empty() || self.upload.is_some();
        if !has_commands && !self.has_housekeeping() && !self.availability.is_store_due(uptime, false) {
            return Ok(true);
        }
        self.process_batch(own, entries)?;
        self.arm_deadlines(due.checks);
        if self.shared.writable.load(Ordering::Relaxed) {
            self.availability.clear_pending();
        } else {
            self.availability.begin_outage(now);
        }
        Ok(true)
    }

    /// Whether every check that waits for a deadline will be looked at when it passes. For tests.
    pub fn covers_all_deadlines(&self) -> bool {
        self.memory.working.state.checks().all(|check| self.memory.deadlines.covers(check))
    }

    /// Carries out the writer's own commands and then those of callers, in one transaction.
    fn process_batch(&mut self, own: Vec<Command>, entries: Vec<QueuedCommand>) -> Result<(), WriterExit> {
        let (mut commands, mut callers): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|entry| (entry.command, (entry.route, entry.reply))).unzip();
        let (mut ahead, more) = self.join_upload(&mut commands, &mut callers);
        let count = callers.len();
        self.shared.writer_activity.set_batch_callers(callers);
        let work = catch_unwind(AssertUnwindSafe(|| self.apply_and_write(own, commands, ahead.as_mut())));
        let (answers, put_off) = match work {
            Ok(Ok(applied)) => applied,
            Ok(Err(error)) => {
                self.is_disk_full = error.is_full();
                self.recovery.note_failed_batch(count, &error);
                // Unwritable first: whoever reads the answer must not find the service healthy.
                self.shared.writable.store(false, Ordering::Relaxed);
                self.shared
                    .writer_activity
                    .take_batch_callers()
                    .into_iter()
                    .for_each(|(_, caller)| drop(caller.send(Err(Unavailable::StorageFailed))));
                return Ok(());
            }
            Err(_) => {
                tracing::error!("a command made the writer panic; its batch of {count} is not written");
                self.shared.queue.close();
                self.shared.writable.store(false, Ordering::Relaxed);
                self.shared
                    .writer_activity
                    .take_batch_callers()
                    .into_iter()
                    .for_each(|(_, caller)| drop(caller.send(Err(Unavailable::StorageFailed))));
                self.shared.queue.refuse_all(Unavailable::Stopping);
                return Err(WriterExit::Panicked);
            }
        };
        let feed = Arc::clone(&self.shared.feed);
        let publication = feed.begin_publication();
        let changes = self.publish();
        // Those who waited too long have been answered.
        let mut callers = self.shared.writer_activity.take_batch_callers();
        if let Some(ahead) = ahead {
            let caller = if more { callers.pop() } else { None };
            self.continue_upload(ahead, caller);
        }
        let (mut answers, mut put_off, mut later) = (answers.into_iter(), put_off.into_iter().peekable(), Vec::new());
        let deliveries = callers.into_iter().enumerate().filter_map(|(place, (route, reply))| {
            if let Some((_, command)) = put_off.next_if(|(put_off, _)| *put_off == place) {
                later.push(QueuedCommand { command, reply, route });
                return None;
            }
            answers.next().map(|answer| (route, (reply, answer)))
        });
        self.shared.reply_routes.deliver(deliveries);
        self.shared.queue.put_back(later);
        // Whoever looks on waits longer than whoever pings.
        feed.notify_subscribers(&changes, &self.memory.working.state);
        drop(publication);
        let (mut sooner, mut gone) = (Vec::new(), Vec::new());
        changes.iter().for_each(|change| match change {
            Change::Pinged { id, is_earlier_deadline: true, .. } => sooner.push(*id),
            Change::Check(check) => sooner.push(check.id),
            Change::CheckGone(id) => gone.push(*id),
            _ => {}
        });
        gone.into_iter().for_each(|id| self.memory.deadlines.disarm(id));
        self.arm_deadlines(sooner);
        Ok(())
    }

    /// The newest entries of both logs.
    fn log_end(&self) -> LogPosition {
        let numbers = self.memory.working.numbers;
        LogPosition { arrival: Arrival(numbers.arrival - 1), flip: FlipNumber(numbers.flip - 1), bytes: numbers.body_bytes }
    }

    /// Shows what is on disk now to those who read; what has changed with it.
    fn publish(&mut self) -> Vec<Change> {
        let effects = std::mem::take(&mut self.memory.working.effects);
        batch_log::count_batch(&self.shared.metrics, &self.memory.working.state, &effects, self.memory.last_timestamp);
        let Effects { changes, flips, full_projects: full, unnotified_checks: unnotified, imported_projects: imported, .. } = effects;
        self.recovery.set_acknowledged(self.memory.working.numbers);
        if !changes.is_empty() {
            // A batch of refusals keeps no reader waiting.
            let mut published = self.shared.published.write().unwrap_or_else(PoisonError::into_inner);
            changes.iter().for_each(|change| published.apply(change));
        }
        if changes.iter().any(|change| matches!(change, Change::Queued(_) | Change::Unqueued(_) | Change::Channel(_))) {
            self.shared.channel_tests.work_available.notify_one();
        }
        batch_log::log_flips(&self.memory.working.state, &flips, self.memory.last_timestamp);
        batch_log::log_unnotified(&self.memory.working.state, &unnotified, self.memory.last_timestamp);
        batch_log::log_full_projects(&self.memory.working.state, &full);
        if self.memory.working.accepts_pings {
            batch_log::log_imported_projects(&self.memory.working.state, &imported);
        }
        changes
    }

    /// Sees to it that these checks are looked at when their deadlines pass.
    fn arm_deadlines(&mut self, checks: Vec<CheckId>) {
        let WriterMemory { working, deadlines: alarm, .. } = &mut self.memory;
        checks.into_iter().filter_map(|id| working.state.check(id)).for_each(|check| alarm.arm(check));
        if alarm.has_stale_entries() {
            alarm.rebuild(working.state.checks());
        }
    }

    /// Removes what is dead, beside no pings. The space goes back to the file, not to the disk. `removed` counts, also up to an error.
    fn remove_dead(&mut self, removed: &mut u64) -> Result<(), StoreError> {
        let (before, pieces) = (self.memory.housekeeping.ping_count(), self.memory.housekeeping.removed_chunks());
        self.memory.housekeeping.request_full_round();
        while self.memory.housekeeping.is_pending() {
            self.apply_and_write(Vec::new(), Vec::new(), None)?;
            *removed = self.memory.housekeeping.removed_chunks() - pieces + before - self.memory.housekeeping.ping_count();
        }
        Ok(())
    }

    /// Does all the housekeeping that there is, and stops: nothing dead is left in the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn run_all_housekeeping(mut self) -> Result<(), StoreError> {
        while self.memory.working.state.has_orphans() {
            self.apply_and_write(vec![Command::RemoveOrphans], Vec::new(), None)?;
            self.publish();
        }
        self.remove_dead(&mut 0)?;
        if self.recount_uploads()? {
            self.remove_dead(&mut 0)?;
        }
        self.write_full_checkpoint()
    }

    /// Brings the check rows up to date, so that the next start has nothing to replay.
    fn write_final_checkpoint(&mut self) {
        if let Err(error) = self.write_full_checkpoint() {
            tracing::warn!("the checkpoint of a clean stop could not be written, the next start replays the log: {error}");
        }
    }
}

/// Arms all checks, oldest first: what is due at the same time is then taken in the same order on every machine.
fn deadlines_of(state: &State, now: Timestamp) -> DeadlineWheel {
    DeadlineWheel::new(state.checks(), now)
}
