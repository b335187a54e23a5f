//! Writer: the only thread that changes the state. It takes queued commands, applies them, writes
//! them in one transaction, commits, publishes and replies.

mod availability;
mod batch;
mod body_upload;
mod recovery;
mod time;
mod write;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::apply::WorkingState;
use super::batch_messages;
use super::clock_jump::ClockJumpDetector;
use super::command::{Command, Unavailable, import::ImportStep, user::UserCommand};
use super::command_queue::{CommandQueue, ReplyTarget, TakenCommands};
use super::deadline_wheel::{DeadlineWheel, DueWork};
use super::housekeeping::{Housekeeping, HousekeepingLimits, PingLogPosition};
use super::load::{FileTimestamps, LoadedDatabase, load};
use super::state::State;
use super::writer_watchdog::WATCH_INTERVAL;
use super::{EngineConfig, Handle, Shared};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::store::{Medium, SharedLog, Store, StoreError, catch_panic, remove_leftovers};
use crate::util::random::Random;
use crate::util::sync::atomic::{AtomicBool, Ordering};
use availability::PingAvailability;
use body_upload::BodyUpload;
use recovery::Recovery;

/// Maximum number of checks whose deadlines are evaluated in one batch.
const MAX_EVALUATED_CHECKS: usize = 128;
/// Seconds between two log lines about trials.
const TRIAL_LOG_SECS: i64 = 86_400;
/// Number of the first object of a database.
const FIRST_ID: u64 = 1;

/// Reason why the writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterExit {
    /// The queue was closed and all of its commands got a reply.
    Closed,
    /// A command caused a panic. Its batch is not written, and the process should be restarted.
    Panicked,
    /// The server led a cluster, and cannot write to its log or to its database. Another machine
    /// should lead.
    Unable,
}

/// Applies commands and writes them to the file.
pub struct Writer {
    shared: Arc<Shared>,
    medium: Medium,
    limits: HousekeepingLimits,
    /// State of the recovery from failures of the database.
    recovery: Recovery,
    /// True if the server leads a cluster. A failure then ends the writer: another server leads.
    is_leader: bool,
    /// True if the last failure was a full disk: dead entries must be removed before commands are
    /// accepted.
    is_disk_full: bool,
    /// Detector of clock jumps.
    clock_jumps: ClockJumpDetector,
    /// Times during which pings could be received.
    availability: PingAvailability,
    /// True if the file contains the time since which the clock had no jump.
    is_steady_time_stored: bool,
    /// Uptime since which the log is ahead of the synced file.
    log_ahead_since: Option<Duration>,
    /// Uptime from which the file of the log is checked again.
    log_check_due_at: Duration,
    /// Set if times may run backwards between flips up to this number and later ones. Not stored
    /// in the file yet.
    flips_out_of_order: Option<FlipNumber>,
    /// Time of the last log line about trials.
    trials_logged_at: Option<Timestamp>,
    /// Command whose body is being uploaded, with the target of its reply.
    upload: Option<(BodyUpload, ReplyTarget)>,
    memory: WriterMemory,
}

/// Leadership of a cluster.
pub struct Leadership {
    /// Epoch of this leader.
    pub epoch: u64,
    /// Log of the cluster. The database contains all of its records.
    pub log: Box<dyn SharedLog>,
}

/// Data derived from the file, at startup and again after a failure.
struct WriterMemory {
    working: WorkingState,
    deadlines: DeadlineWheel,
    housekeeping: Housekeeping,
    /// Time of the newest command, or of the last check for due work.
    last_timestamp: Timestamp,
    /// True if more deadlines have passed than one batch evaluates, or more checks have times in
    /// the future.
    more_due: bool,
    /// Checks with times in the future that are still to be clamped. `None` if they were not
    /// searched since the last clock jump.
    future_checks: Option<Vec<CheckId>>,
}

impl WriterMemory {
    /// Loads the file at `now`. Also returns the state to publish.
    fn load(
        store: &Store,
        ping_body_limit: usize,
        limits: HousekeepingLimits,
        now: Timestamp,
        random: &Random,
    ) -> Result<(Self, State, FileTimestamps), StoreError> {
        let LoadedDatabase {
            working,
            timestamps,
            checkpoint,
            log_size,
            has_import_leftovers,
        } = catch_panic(|| load(store, (ping_body_limit, limits), now))?;
        let mut published = working.state.clone();
        published.epoch = u64::from_le_bytes(random.bytes());
        let last_timestamp = now.not_before(timestamps.latest_past);
        let deadlines = deadlines_of(&working.state, last_timestamp);
        let housekeeping = Housekeeping::new(limits, checkpoint, log_size, has_import_leftovers);
        Ok((
            Self {
                working,
                deadlines,
                housekeeping,
                last_timestamp,
                more_due: false,
                future_checks: None,
            },
            published,
            timestamps,
        ))
    }
}

impl Writer {
    /// Opens the database. `leadership`: the cluster that this server leads, if any.
    pub(super) fn open(
        config: EngineConfig,
        leadership: Option<Leadership>,
    ) -> Result<(Handle, Self), StoreError> {
        let EngineConfig {
            medium,
            clock,
            random,
            ping_body_limit,
            accepts_pings,
            uses_log,
            holds_alerts_after_outage,
            housekeeping: limits,
            progress,
        } = config;
        let is_leader = leadership.is_some();
        let mut store = if is_leader {
            Store::open_of_cluster(&medium, &progress)?
        } else {
            Store::open_with_progress(&medium, &progress)?
        };
        if uses_log && !is_leader {
            store.begin_log(&medium, &random, false)?;
        } else if !is_leader {
            // Opening the database has replayed it.
            store.end_log(&medium)?;
        }
        remove_leftovers(&medium);
        let loaded = WriterMemory::load(&store, ping_body_limit, limits, clock.now(), &random);
        let (mut memory, published, timestamps) =
            loaded.map_err(|error| medium.explain_error(error))?;
        // Each machine itself sets apart rows that this release cannot read: these changes come
        // before the first record.
        if let Some(leadership) = leadership {
            store.begin_shared_log(leadership.epoch, leadership.log)?;
        }
        memory.working.accepts_pings = accepts_pings;
        store.tolerate_unreadable();
        // Reading may have taken a while, but no command has a timestamp yet.
        let reading = clock.read();
        Self::warn_of_future_records(&timestamps, reading.now);
        let clock_jumps =
            ClockJumpDetector::new(reading, timestamps.steady_since, timestamps.newest_ping);
        let mut availability = PingAvailability::new(
            timestamps.last_available(reading.now),
            reading,
            holds_alerts_after_outage,
        );
        if !accepts_pings && let Some(outage) = availability.stop_recording() {
            // Decisions until the next startup take it into account, and the next startup stores
            // it.
            let outages = memory
                .working
                .state
                .outages
                .iter()
                .copied()
                .chain([outage])
                .collect();
            memory.working.state.outages = outages;
        }
        let was_empty = memory.working.numbers.id == FIRST_ID;
        let shared = Arc::new(Shared {
            queue: CommandQueue::new(limits.upload_threshold_bytes),
            writable: AtomicBool::new(true),
            was_empty,
            ..Shared::new(store.into(), published, (clock, random), ping_body_limit)
        });
        let weak = Arc::downgrade(&shared);
        shared.clock.on_move(move || {
            if let Some(shared) = weak.upgrade() {
                shared.queue.wake();
                shared.channel_tests.work_available.notify_one();
            }
        });
        let recovery = Recovery::new(progress, uses_log, memory.working.numbers);
        let writer_shared = Arc::clone(&shared);
        let mut writer = Self {
            shared: writer_shared,
            medium,
            limits,
            recovery,
            is_leader,
            is_disk_full: false,
            clock_jumps,
            availability,
            is_steady_time_stored: false,
            log_ahead_since: None,
            log_check_due_at: Duration::ZERO,
            flips_out_of_order: None,
            trials_logged_at: None,
            upload: None,
            memory,
        };
        if timestamps.latest.is_ahead_of(reading.now) {
            writer.flips_out_of_order = Some(writer.log_end().flip);
        }
        let first_commands = initial_commands(&writer.memory.working.state, &shared.random);
        if !first_commands.is_empty() {
            writer.apply_and_write(first_commands, Vec::new(), None)?;
            writer.publish();
        }
        Ok((Handle(shared, None), writer))
    }

    /// Runs until the queue is closed or a command causes a panic. Blocks: needs a thread of its
    /// own.
    pub fn run(mut self) -> WriterExit {
        let shared = Arc::clone(&self.shared);
        std::thread::scope(|scope| {
            let (end_sender, end_receiver) = mpsc::channel::<()>();
            // Runs until the writer has ended.
            let observe = move || {
                while end_receiver.recv_timeout(WATCH_INTERVAL)
                    == Err(mpsc::RecvTimeoutError::Timeout)
                {
                    shared.observe_writer();
                }
            };
            if let Err(error) = std::thread::Builder::new()
                .name("watch".into())
                .spawn_scoped(scope, observe)
            {
                tracing::warn!("the watchdog of the writer cannot be started: {error}");
            }
            let reason = loop {
                match self.step(true) {
                    Ok(true) => {}
                    Ok(false) => break WriterExit::Closed,
                    Err(reason) => break reason,
                }
            };
            drop(end_sender);
            reason
        })
    }

    /// One round: waits for work (if `wait`) and does it. Returns `false` if the queue is closed
    /// and empty.
    ///
    /// # Errors
    /// [`WriterExit::Panicked`] if a command caused a panic. The writer cannot be used after that.
    pub fn step(&mut self, wait: bool) -> Result<bool, WriterExit> {
        let taken = self.shared.queue.take(
            if wait {
                self.wait_limit()
            } else {
                Duration::ZERO
            },
            self.upload.is_none(),
            |command| self.memory.working.state.project_of(command),
        );
        self.shared
            .writer_activity
            .begin_step(self.shared.clock.uptime());
        let result = self.process(taken);
        // The callers of the batch have their replies.
        if result == Ok(true) && self.shared.writable.load(Ordering::Relaxed) {
            self.maintain_log();
        }
        self.shared.writer_activity.end_step();
        if self.is_leader && result.is_ok() && !self.shared.writable.load(Ordering::Relaxed) {
            self.shared.queue.close();
            self.shared.queue.refuse_all(Unavailable::Stopping);
            return Err(WriterExit::Unable);
        }
        if wait && !self.shared.writable.load(Ordering::Relaxed) {
            // Callers wait for the next attempt: an attempt for each of them would keep the medium
            // busy.
            self.shared.queue.wait_until_closed(self.recovery.pause());
        }
        result
    }

    /// Processes the taken commands and due work, or tries to recover.
    fn process(&mut self, taken: TakenCommands) -> Result<bool, WriterExit> {
        self.detect_clock_jump();
        self.detect_missing_file();
        if !self.shared.writable.load(Ordering::Relaxed) {
            let closed = taken.closed;
            taken.refuse_all(Unavailable::StorageFailed);
            self.refuse_upload(Unavailable::StorageFailed);
            self.availability.begin_outage(self.shared.clock.now());
            self.recover();
            return Ok(!closed);
        }
        let TakenCommands {
            small: mut entries,
            large,
            closed,
        } = taken;
        entries.extend(large.and_then(|large| self.begin_upload(large)));
        self.reopen_if_readable_again();
        let now = self.next_timestamp();
        let due = self.take_due_work(now);
        self.availability.end_outage(now);
        let mut own_commands = self.commands_before_deadlines(now);
        if closed && entries.is_empty() && self.upload.is_none() {
            // Deadlines and housekeeping are left to the next startup.
            if !own_commands.is_empty() {
                self.process_batch(own_commands, Vec::new())?;
            }
            // After a failed batch memory is ahead of the file: a checkpoint of it would hide rows
            // that the next start has to replay.
            if self.shared.writable.load(Ordering::Relaxed) {
                self.write_final_checkpoint();
            }
            return Ok(false);
        }
        own_commands.extend(self.due_commands(&due, now));
        let uptime = self.shared.clock.uptime();
        let has_commands = !entries.is_empty() || !own_commands.is_empty() || self.upload.is_some();
        if !has_commands
            && !self.has_housekeeping()
            && !self.availability.is_store_due(uptime, false)
        {
            return Ok(true);
        }
        self.process_batch(own_commands, entries)?;
        self.arm_deadlines(due.checks);
        self.arm_unevaluated_checks(now);
        if self.shared.writable.load(Ordering::Relaxed) {
            self.availability.clear_pending();
        } else {
            self.availability.begin_outage(now);
        }
        Ok(true)
    }

    /// Takes the checks that are due at `now`, and begins the hourly work if that is due.
    fn take_due_work(&mut self, now: Timestamp) -> DueWork {
        let WriterMemory {
            working,
            deadlines,
            housekeeping,
            more_due,
            ..
        } = &mut self.memory;
        if deadlines.is_ahead_of(now) {
            // The clock was set back.
            *deadlines = deadlines_of(&working.state, now);
        }
        let mut due = deadlines.take_due(now, MAX_EVALUATED_CHECKS);
        *more_due = due.more;
        if !self.availability.accepts_pings() {
            due.checks.clear();
        }
        if due.housekeeping {
            housekeeping.begin_hourly_round(&working.state);
            let is_recent = |logged_at: Timestamp| {
                (logged_at..logged_at.plus_secs(TRIAL_LOG_SECS)).contains(&now)
            };
            if working.accepts_pings && !self.trials_logged_at.is_some_and(is_recent) {
                self.trials_logged_at =
                    batch_messages::write_trial_message(&working.state).then_some(now);
            }
        }
        due
    }

    /// Commands of the writer that must be applied before any deadline is evaluated.
    fn commands_before_deadlines(&self, now: Timestamp) -> Vec<Command> {
        let has_future_outage = self
            .memory
            .working
            .state
            .outages
            .iter()
            .any(|outage| outage.to.is_ahead_of(now));
        let mut commands = Vec::new();
        commands.extend(has_future_outage.then_some(Command::DropFutureOutages));
        commands.extend(
            self.availability
                .pending_outage()
                .map(Command::RecordOutage),
        );
        commands.extend(self.shared.key_updates.take_commands());
        commands
    }

    /// Commands of the writer for due work, and for work that earlier commands have left.
    fn due_commands(&mut self, due: &DueWork, now: Timestamp) -> Vec<Command> {
        let mut commands = Vec::new();
        if !due.checks.is_empty() {
            commands.push(Command::EvaluateChecks(due.checks.clone()));
        }
        let future_checks = if self.availability.accepts_pings() {
            self.take_future_checks(now)
        } else {
            Vec::new()
        };
        if !future_checks.is_empty() {
            commands.push(Command::ClampFutureTimes(future_checks));
        }
        if due.housekeeping && self.clock_jumps.is_confirmed() {
            commands.push(Command::User(Box::new(UserCommand::RemoveExpired)));
        }
        let working = &self.memory.working;
        commands.extend(working.continuation_commands());
        if due.housekeeping && working.state.legacy_secrets_in_use().is_some() {
            commands.push(Command::PruneLegacySecrets);
        }
        let idle_imports = working.idle_imports(now).into_iter();
        commands.extend(
            idle_imports.map(|import| Command::Import(Box::new(ImportStep::Abandon { import }))),
        );
        commands
    }

    /// True if every check with a deadline will be evaluated when it passes. For tests.
    pub fn covers_all_deadlines(&self) -> bool {
        self.memory
            .working
            .state
            .checks()
            .all(|check| self.memory.deadlines.covers(check))
    }

    /// Newest entries of both logs.
    fn log_end(&self) -> PingLogPosition {
        let numbers = self.memory.working.numbers;
        PingLogPosition {
            arrival: Arrival(numbers.arrival - 1),
            flip: FlipNumber(numbers.flip - 1),
            bytes: numbers.body_bytes,
        }
    }

    /// Removes dead entries, without commands of callers. The space is freed in the file, not on
    /// the disk. `removed` is the number of removed entries, also after an error.
    fn remove_dead(&mut self, removed: &mut u64) -> Result<(), StoreError> {
        let pings_before = self.memory.housekeeping.ping_count();
        let chunks_before = self.memory.housekeeping.removed_chunks();
        self.memory.housekeeping.request_full_round();
        while self.memory.housekeeping.is_pending() {
            self.apply_and_write(Vec::new(), Vec::new(), None)?;
            *removed = self.memory.housekeeping.removed_chunks() - chunks_before + pings_before
                - self.memory.housekeeping.ping_count();
        }
        Ok(())
    }

    /// Runs all housekeeping and ends: no dead entries are left in the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn run_all_housekeeping(mut self) -> Result<(), StoreError> {
        while self.memory.working.state.has_rows_to_remove() {
            self.apply_and_write(vec![Command::RemoveOrphans], Vec::new(), None)?;
            self.publish();
        }
        self.remove_dead(&mut 0)?;
        if self.recount_uploads()? {
            self.remove_dead(&mut 0)?;
        }
        self.write_full_checkpoint()
    }

    /// Updates all check rows and ends the log, so that the next startup has nothing to replay and
    /// the file is complete.
    fn write_final_checkpoint(&mut self) {
        let ended = self
            .write_full_checkpoint()
            .and_then(|()| self.shared.store.get()?.end_log(&self.medium));
        if let Err(error) = ended {
            tracing::warn!(
                "the checkpoint of a clean stop could not be written; the next start replays the \
                log: {error}"
            );
        }
    }
}

/// Commands that set the random values of a database that lacks them.
fn initial_commands(state: &State, random: &Random) -> Vec<Command> {
    let mut commands = Vec::new();
    if state.badge_secret.is_none() {
        commands.push(Command::SetBadgeSecret(BadgeSecret(random.bytes())));
    }
    if state.instance_id.is_none() {
        commands.push(Command::SetInstance(random.bytes()));
    }
    commands
}

/// Arms all checks, oldest first: checks that are due at the same time are then taken in the same
/// order on every machine.
fn deadlines_of(state: &State, now: Timestamp) -> DeadlineWheel {
    DeadlineWheel::new(state.checks(), now)
}
