//! The simulated world: a clock, a disk and an engine, random events, and the model that the engine
//! is compared with.

use std::sync::Arc;

use overdue::domain::alert::{HoldReason, NotificationState};
use overdue::domain::audit::Actor;
use overdue::domain::check::Check;
use overdue::domain::ids::{Arrival, ProjectId};
use overdue::domain::project::{KeyLabel, KeySecret, SecretHash};
use overdue::domain::status::Status;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandError, CommandOutcome, NewKey, Unavailable};
use overdue::engine::state::State;
use overdue::engine::{Handle, HousekeepingLimits, Writer};
use overdue::store::{MetaKey, Store, StoreError};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;
use tokio::sync::oneshot::error::TryRecvError;

use super::cluster::{self, SimulatedCluster};
use super::commands;
use super::config_documents;
use super::delivery_tracker::DeliveryTracker;
use super::file_faults::FaultScope;
use super::imports::ModelImports;
use super::model::{self, BODY_LIMIT, ExpectedAnswer, Model};
use super::model_clock::ModelClock;
use super::replay::CLOCK_JUMP;
use super::verify::{self, same};
use crate::support::disk::{Disk, DiskOperation, operations_before_fault};
use crate::support::engine;
use crate::support::seeded_rng::SeededRng;

/// 2026-11-20T00:00:00Z in seconds.
const BEGINNING: i64 = 1_795_132_800;
const SECOND: i64 = 1_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Seconds before the writer reopens a database after a read error.
const DAMAGE_PAUSE_SECS: i64 = 2;

pub(crate) type WorldResult = Result<(), String>;

/// Number of events of each kind.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SimulationCounts {
    pub(crate) commands: u32,
    pub(crate) batches: u32,
    pub(crate) cuts: u32,
    pub(crate) clean_stops: u32,
    pub(crate) failures: u32,
    /// Batches without answers, and those of them that turned out to be missing on disk.
    pub(crate) in_doubt: u32,
    pub(crate) missing: u32,
    /// Restarts that found a checkpoint, a log with its old end removed, and entries that this
    /// removal had kept.
    pub(crate) checkpoints: u32,
    pub(crate) swept: u32,
    pub(crate) kept_entries: u32,
    /// Commands that took several commits, and those of them that a failure or a power cut
    /// interrupted after the first commit.
    pub(crate) multi_commit: u32,
    pub(crate) interrupted: u32,
    /// Flips with a channel to notify.
    pub(crate) notified: u32,
    /// Batches that a journal refused although the database worked, steps while a file failed, and
    /// starts that a failing file prevented.
    pub(crate) journal_failures: u32,
    pub(crate) refused_steps: u32,
    pub(crate) refused_starts: u32,
}

impl SimulationCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            commands,
            batches,
            cuts,
            clean_stops,
            failures,
            in_doubt,
            missing,
            checkpoints,
            swept,
            kept_entries,
            multi_commit,
            interrupted,
            notified,
            journal_failures,
            refused_steps,
            refused_starts,
        } = self;
        for (count, increment) in [
            (commands, other.commands),
            (batches, other.batches),
            (cuts, other.cuts),
            (clean_stops, other.clean_stops),
            (failures, other.failures),
            (in_doubt, other.in_doubt),
            (missing, other.missing),
            (checkpoints, other.checkpoints),
            (swept, other.swept),
            (kept_entries, other.kept_entries),
            (multi_commit, other.multi_commit),
            (interrupted, other.interrupted),
            (notified, other.notified),
            (journal_failures, other.journal_failures),
            (refused_steps, other.refused_steps),
            (refused_starts, other.refused_starts),
        ] {
            *count += increment;
        }
    }
}

pub(crate) struct SimulatedWorld {
    pub(super) rng: SeededRng,
    pub(super) disk: Disk,
    faults: FaultScope,
    /// Cluster whose leader the engine is. `None`: the engine is on the disk above.
    pub(super) cluster: Option<SimulatedCluster>,
    /// True if the leader may lose its leadership during a batch.
    pub(super) may_lose_leadership: bool,
    pub(super) clock: Arc<ManualClock>,
    /// Latest time that the clock has shown.
    latest_time: i64,
    pub(super) thresholds: HousekeepingLimits,
    pub(super) engine: Option<(Handle, Writer)>,
    pub(super) model: Model,
    /// Possible states of the model after commands without answers, the most likely one first.
    pub(super) in_doubt: Vec<Model>,
    deliveries: DeliveryTracker,
    model_clock: ModelClock,
    /// True if the latest commands took several commits.
    took_several_commits: bool,
    pub(crate) tally: SimulationCounts,
}

/// Commands that are submitted together, their expected answers and the expected states before and
/// after them.
pub(super) struct CommandBatch {
    now: i64,
    commands: Vec<Command>,
    /// Upper bound for the number of commits.
    pub(super) max_commits: usize,
    answers: Vec<(
        Result<ExpectedAnswer, CommandError>,
        Option<model::ModelCheck>,
    )>,
    /// State after the engine's housekeeping and before the commands.
    model_before: Model,
    pub(super) model_after: Model,
}

impl CommandBatch {
    fn add(&mut self, command: Command) {
        let mut deleted = if let Command::DeleteCheck(id) = &command {
            self.model_after.checks.get(&id.0).cloned()
        } else {
            None
        };
        deleted.iter_mut().for_each(|check| check.settle(self.now));
        let answer = self.model_after.apply(&command, self.now);
        let check = match &answer {
            Ok(ExpectedAnswer::Check(id) | ExpectedAnswer::Created(id)) => {
                self.model_after.checks.get(id).cloned().or(deleted)
            }
            _ => None,
        };
        self.commands.push(command);
        self.answers.push((answer, check));
    }
}

impl SimulatedWorld {
    pub(crate) fn new(seed: u64, disk: Disk, faults: FaultScope) -> Result<Self, String> {
        Self::with(seed, disk, faults, |_| Ok(None))
    }

    /// Returns a world with a cluster, if there is one.
    pub(super) fn with(
        seed: u64,
        disk: Disk,
        faults: FaultScope,
        cluster: impl FnOnce(&SeededRng) -> Result<Option<SimulatedCluster>, String>,
    ) -> Result<Self, String> {
        let rng = SeededRng::seeded(seed);
        let clock = ManualClock::at(Timestamp::from_secs(BEGINNING));
        let model = Model::default();
        let in_doubt = Vec::new();
        let tally = SimulationCounts::default();
        let thresholds = HousekeepingLimits {
            slice_rows: rng.pick(&[1, 4, 64]),
            min_tail: rng.pick(&[3, 20, 100]),
            tail_per_check: rng.pick(&[0, 2]),
            slack_entries: rng.pick(&[2, 6, 20]),
            checkpoint_bytes: rng.pick(&[1, 1000, 1 << 20]),
            sweep_bytes: rng.pick(&[1, 50, 1 << 20]),
            tail_bytes: rng.pick(&[30, 300, 1 << 20]),
            slack_bytes: rng.pick(&[50, 500, 1 << 20]),
            upload_threshold_bytes: rng.pick(&[1000, 3000, 6000]),
            chunk_bytes: rng.pick(&[700, 2000, 10_000]),
            ..HousekeepingLimits::default()
        };
        let latest_time = BEGINNING * SECOND;
        let cluster = cluster(&rng)?;
        let mut world = Self {
            rng,
            disk,
            faults,
            cluster,
            may_lose_leadership: false,
            clock,
            latest_time,
            thresholds,
            engine: None,
            model,
            in_doubt,
            deliveries: DeliveryTracker::default(),
            model_clock: ModelClock::new(BEGINNING * SECOND),
            took_several_commits: false,
            tally,
        };
        world.open()?;
        let mut batch = world.empty_batch();
        commands::create_witness(&world.rng)
            .into_iter()
            .for_each(|command| batch.add(command));
        world.execute(batch)?;
        Ok(world)
    }

    /// Simulates one random event.
    pub(crate) fn step(&mut self) -> WorldResult {
        if self.move_clock() {
            self.resolve_doubt(false)?;
        }
        match self.rng.below(100) {
            0..58 => {
                let batch = self.random_batch();
                self.execute(batch)
            }
            58..66 => self.simulate_sender(),
            66..72 => {
                self.idle()?;
                self.verify()
            }
            72..76 => self.stop_and_start(),
            76..83 if self.faults == FaultScope::SingleFile => self.fail_file_for_a_while(),
            76..83 => self.fail_for_a_while(),
            _ => self.cut_power(),
        }
    }

    /// Restarts the engine once more and runs the final comparison.
    pub(crate) fn finish(&mut self) -> WorldResult {
        self.stop_and_start()?;
        self.tally.notified = self.deliveries.notified;
        // The quiet time is long enough for each check to miss its failure threshold of pings.
        for _ in 0..6 {
            self.clock.advance_secs(3 * 365 * DAY as i64);
            for _ in 0..3 {
                same!(
                    self.engine().1.step(false),
                    Ok(true),
                    "a step during a quiet time"
                );
            }
        }
        self.engine().0.with_state(|state| {
            let down = state
                .checks()
                .filter(|check| check.state.status == Status::Down);
            let unannounced: Vec<_> = down
                .filter(|check| !is_downtime_known(state, check))
                .map(|check| (check.id, check.state))
                .collect();
            same!(
                unannounced,
                [],
                "checks that are down without a notification"
            );
            Ok::<(), String>(())
        })?;
        if self.cluster.is_some() {
            return self.finish_cluster();
        }
        let mut synced = 0;
        for _ in 0..2000 {
            if std::mem::replace(&mut synced, self.disk.sync_count()) == self.disk.sync_count() {
                break;
            }
            self.idle()?;
        }
        self.engine = None;
        verify::body_chunks(&self.disk)
    }

    /// Stops the engine and returns the latest time that the clock has shown.
    pub(crate) fn stop_at(mut self) -> Result<Timestamp, String> {
        self.stop_and_start()?;
        Ok(Timestamp::from_micros(self.latest_time))
    }

    /// Runs the sender once, sometimes with a power cut.
    pub(super) fn simulate_sender(&mut self) -> WorldResult {
        let commands = self.deliveries.commands(
            &self.rng,
            &self.engine.as_ref().expect("the engine is open").0,
        );
        let cuts_power = self.rng.chance(15);
        if cuts_power {
            self.disk
                .lose_power_after(operations_before_fault(&self.rng, 16));
        }
        let ticked = self.empty_batch().model_before;
        let answers = self.submit_commands(&commands)?;
        if answers.is_empty() {
            self.deliveries.record_unanswered(&commands);
            self.in_doubt = vec![ticked];
        } else {
            self.deliveries.record_answers(&commands, &answers);
            self.model = ticked;
            self.track_flips(true)?;
        }
        if cuts_power {
            self.restart_after_power_cut()
        } else {
            Ok(())
        }
    }

    pub(super) fn track_flips(&mut self, channels_unchanged: bool) -> WorldResult {
        self.deliveries.track_flips(
            &self.engine.as_ref().expect("the engine is open").0,
            channels_unchanged,
        )
    }

    pub(super) fn engine(&mut self) -> &mut (Handle, Writer) {
        self.engine.as_mut().expect("the engine is open")
    }

    fn clock_micros(&self) -> i64 {
        Clock::Manual(Arc::clone(&self.clock)).now().micros()
    }

    fn uptime_micros(&self) -> i64 {
        Clock::Manual(Arc::clone(&self.clock)).uptime().as_micros() as i64
    }

    /// Returns the time of a command that is submitted now.
    fn now(&self) -> i64 {
        self.model_clock.now(self.clock_micros())
    }

    /// Runs [`ModelClock::tick`] with the current time.
    fn tick(&mut self) -> bool {
        self.model_clock
            .tick(self.clock_micros(), self.uptime_micros())
    }

    /// Moves the clock, mostly forward, as time passes or as a jump. Returns true if it was set
    /// back.
    pub(super) fn move_clock(&mut self) -> bool {
        let rng = &self.rng;
        let fraction = rng.below(1_000_000) as i64;
        let micros = match rng.below(100) {
            0..20 => 0,
            20..50 => rng.below(90) as i64 * SECOND + fraction,
            50..60 => rng.below(HOUR) as i64 * SECOND + fraction,
            60..70 => rng.below(DAY) as i64 * SECOND + fraction,
            70..73 => rng.below(70 * DAY) as i64 * SECOND + fraction,
            73..76 => -(rng.below(HOUR) as i64) * SECOND - fraction,
            76..78 => -(rng.below(10) as i64) * SECOND - fraction,
            78..80 => -(rng.below(2 * DAY) as i64) * SECOND - fraction,
            // A deadline, exactly or nearly.
            _ => {
                let replays = self.model.checks.values().map(model::ModelCheck::replay);
                let deadlines: Vec<_> = replays
                    .filter_map(|check| check.next_evaluation())
                    .chain([self.clock_micros()])
                    .collect();
                rng.pick(&deadlines) - self.clock_micros() + rng.pick(&[-1, 0, 0, 1, 1000, 70_000])
            }
        };
        let now = self.clock_micros() + micros;
        self.latest_time = self.latest_time.max(now);
        if rng.chance(10) {
            self.clock.jump_to(Timestamp::from_micros(now));
        } else {
            self.clock.set(Timestamp::from_micros(now));
        }
        micros < 0
    }

    pub(super) fn open(&mut self) -> WorldResult {
        let random = Random::seeded(self.rng.below(u64::MAX));
        let opened = if self.cluster.is_some() {
            self.open_leader(&random)
        } else {
            let opened = engine::open(self.disk.medium(), &self.clock, |config| {
                (config.random, config.ping_body_limit, config.housekeeping) =
                    (random, BODY_LIMIT, self.thresholds);
            });
            opened.map_err(|error| error.to_string())
        };
        self.engine =
            Some(opened.map_err(|error| format!("the database cannot be opened: {error}"))?);
        self.forget_imports();
        let newest = self
            .in_doubt
            .iter()
            .chain([&self.model])
            .map(|model| model.newest_ping);
        self.model_clock
            .open(self.clock_micros(), self.uptime_micros(), newest);
        Ok(())
    }

    /// Drops open imports: they only exist in memory.
    pub(super) fn forget_imports(&mut self) {
        self.in_doubt
            .iter_mut()
            .chain([&mut self.model])
            .for_each(|model| model.imports = ModelImports::default());
    }

    fn empty_batch(&mut self) -> CommandBatch {
        let resumes_checks = self.tick();
        let mut ticked = self.model.clone();
        ticked.tick(self.model_clock.stamp, resumes_checks);
        CommandBatch {
            now: self.model_clock.stamp,
            commands: Vec::new(),
            max_commits: 1,
            answers: Vec::new(),
            model_after: ticked.clone(),
            model_before: ticked,
        }
    }

    pub(super) fn random_batch(&mut self) -> CommandBatch {
        let mut batch = self.empty_batch();
        if self.rng.chance(18) {
            let is_mail = self.rng.below(6) > 0;
            let command = if is_mail {
                commands::random_mail(&self.rng, &batch.model_after)
            } else {
                config_documents::random_document(&self.rng, &batch.model_after)
            };
            batch.max_commits = commands::max_commits(&command, &self.thresholds);
            batch.add(command);
            return batch;
        }
        for _ in 0..=self.rng.below(8) {
            let command = commands::random_command(&self.rng, &batch.model_after, self.now());
            let max_commits = commands::max_commits(&command, &self.thresholds);
            if max_commits == 1 {
                batch.add(command);
            } else if batch.commands.is_empty() {
                // The small commands before a large one are executed as a batch of their own.
                batch.max_commits = max_commits;
                batch.add(command);
                return batch;
            }
        }
        if batch.commands.is_empty() {
            batch.add(commands::witness_ping(&batch.model_after));
        }
        batch
    }

    /// Submits commands together and returns their answers, or none if the disk failed to store
    /// their results.
    fn submit_commands(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<CommandOutcome, CommandError>>, String> {
        self.tally.batches += 1;
        self.tally.commands += commands.len() as u32;
        let may_lose = self.may_lose_leadership;
        let (handle, writer) = self.engine();
        let handle = handle.with_actor(Actor::command_line());
        let replies: Vec<_> = commands
            .iter()
            .map(|command| handle.submit(command.clone()))
            .collect();
        let step = writer.step(false);
        same!(
            cluster::is_step_allowed(step, may_lose),
            true,
            "a step of the writer: {step:?}"
        );
        let mut answers = Vec::new();
        let mut steps = 1;
        for (reply, command) in replies.into_iter().zip(commands) {
            let mut reply = reply
                .map_err(|unavailable| format!("{command:?} was not accepted: {unavailable:?}"))?;
            let mut found = reply.try_recv();
            while found == Err(TryRecvError::Empty) && steps < 50 {
                // The next commit of a large command.
                let step = writer.step(false);
                same!(
                    cluster::is_step_allowed(step, may_lose),
                    true,
                    "another step of the writer: {step:?}"
                );
                steps += 1;
                found = reply.try_recv();
            }
            match found.map_err(|error| format!("{command:?} has no answer: {error}"))? {
                Ok(answer) => answers.push(answer),
                Err(Unavailable::StorageFailed) => {}
                Err(Unavailable::Stopping) if may_lose => {}
                Err(unavailable) => {
                    return Err(format!("{command:?} was not executed: {unavailable:?}"));
                }
            }
        }
        if !answers.is_empty() {
            same!(answers.len(), commands.len(), "answers of a batch");
        }
        self.tally.multi_commit += u32::from(steps > 1);
        self.took_several_commits = steps > 1;
        Ok(answers)
    }

    /// Submits a batch and compares its answers with the model. Returns false if it was not
    /// executed.
    pub(super) fn submit_batch(&mut self, batch: &CommandBatch) -> Result<bool, String> {
        let answers = self.submit_commands(&batch.commands)?;
        for ((answer, (expected, check)), command) in
            answers.iter().zip(&batch.answers).zip(&batch.commands)
        {
            same!(
                answer
                    .as_ref()
                    .map(ExpectedAnswer::from)
                    .map_err(CommandError::clone),
                *expected,
                "answer to {command:?}"
            );
            if let (
                Ok(CommandOutcome::Check(found) | CommandOutcome::CheckCreated(found)),
                Some(expected),
            ) = (answer, check)
            {
                verify::check(found, expected, batch.now)
                    .map_err(|difference| format!("answer to {command:?}: {difference}"))?;
            }
        }
        if answers.is_empty() {
            self.model_clock.forget();
            if self.took_several_commits {
                // The engine's own changes in the first commit are certainly on disk.
                self.tally.interrupted += 1;
                self.model = batch.model_before.clone();
            }
        }
        Ok(!answers.is_empty())
    }

    /// Returns the possible states after a batch without answers, apart from the state before it.
    pub(super) fn outcomes_in_doubt(&self, batch: CommandBatch) -> Vec<Model> {
        // The first of several commits may be on disk although it failed. It contains the engine's
        // own changes.
        let first_commit =
            (batch.max_commits > 1 && !self.took_several_commits).then_some(batch.model_before);
        [batch.model_after]
            .into_iter()
            .chain(first_commit)
            .collect()
    }

    pub(super) fn execute(&mut self, batch: CommandBatch) -> WorldResult {
        same!(
            self.submit_batch(&batch)?,
            true,
            "a healthy disk stores the batch"
        );
        // The recipients of a flip depend on channels and on their assignment to checks.
        let channels_unchanged = batch.commands.iter().all(|command| {
            matches!(
                command,
                Command::Ping(_) | Command::PauseCheck(..) | Command::ResumeCheck(_)
            )
        });
        self.model = batch.model_after;
        self.track_flips(channels_unchanged)
    }

    pub(super) fn idle(&mut self) -> WorldResult {
        let resumes_checks = self.tick();
        self.model.tick(self.model_clock.stamp, resumes_checks);
        for _ in 0..2 {
            same!(
                self.engine().1.step(false),
                Ok(true),
                "an idle step of the writer"
            );
        }
        Ok(())
    }

    /// Compares everything.
    pub(super) fn verify(&mut self) -> WorldResult {
        let now = self.now();
        let pruned_at = self.model_clock.pruned_at;
        let (handle, writer) = self.engine.as_ref().expect("the engine is open");
        same!(
            writer.covers_all_deadlines(),
            true,
            "every deadline is in the timer wheel"
        );
        same!(handle.is_writable(), true, "the engine can write");
        handle.with_state(|state| self.model.accept_noticed_deadlines(state));
        verify::everything(&self.model, handle, now, pruned_at)?;
        if self.model_clock.is_trusted() {
            verify::decision_times(&self.model, handle, now)?;
        }
        self.deliveries.verify(handle, pruned_at)
    }

    /// Finds the engine's time by a ping and the next free ID by a key, and so which batch in doubt
    /// is on disk. After `opened`, the engine may have forgotten the time of a command that left no
    /// trace.
    pub(super) fn resolve_doubt(&mut self, opened: bool) -> WorldResult {
        let resumes_checks = self.tick();
        let secret = KeySecret::ReadOnly(SecretHash(self.rng.random().bytes()));
        let key = NewKey {
            project: ProjectId(1),
            secret,
            label: KeyLabel::default(),
            hint: "".into(),
        };
        let commands = [
            commands::witness_ping(&self.model),
            Command::CreateKey(Box::new(key)),
        ];
        let answers: Vec<_> = self
            .submit_commands(&commands)?
            .iter()
            .map(|answer| {
                answer
                    .as_ref()
                    .map(ExpectedAnswer::from)
                    .map_err(CommandError::clone)
            })
            .collect();
        let uuid = self.model.checks[&commands::WITNESS_CHECK].uuids.uuid;
        let handle = &self.engine().0;
        let check = handle.with_state(|state| state.check_by_uuid(uuid).cloned());
        let pings = check
            .as_ref()
            .map(|check| handle.pings(check))
            .transpose()
            .map_err(|error| error.to_string())?;
        let stamp = pings
            .iter()
            .flatten()
            .next()
            .ok_or("the ping just logged is not listed")?
            .at
            .micros();
        let clock = self.clock_micros();
        if !opened {
            same!(
                stamp,
                self.model_clock.stamp,
                "time of a command at {clock}"
            );
        } else if stamp < clock || stamp - clock >= CLOCK_JUMP {
            return Err(format!("a command has the time {stamp} at {clock}"));
        }
        self.model_clock.stamp = stamp;
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let before = self.model.clone();
        self.tally.in_doubt += u32::from(!in_doubt.is_empty());
        let mut differences = Vec::new();
        for model in in_doubt.into_iter().chain([before]) {
            match self.adopt_model(model, &commands, &answers, (opened, resumes_checks)) {
                Ok(()) => {
                    self.tally.missing += u32::from(!differences.is_empty());
                    return self.track_flips(false);
                }
                Err(difference) => differences.push(difference),
            }
        }
        Err(differences.join("\nwithout the batch in doubt: "))
    }

    /// Replaces the model with a candidate, applies the latest commands to it and compares
    /// everything.
    fn adopt_model(
        &mut self,
        model: Model,
        commands: &[Command],
        answers: &[Result<ExpectedAnswer, CommandError>],
        (opened, resumes_checks): (bool, bool),
    ) -> WorldResult {
        let earlier = model.latest(self.clock_micros());
        self.model = model;
        if opened && self.model_clock.stamp < earlier {
            return Err(format!(
                "a command has the time {}, earlier than {earlier}",
                self.model_clock.stamp
            ));
        }
        self.model.tick(self.model_clock.stamp, resumes_checks);
        let expected: Vec<_> = commands
            .iter()
            .map(|command| self.model.apply(command, self.model_clock.stamp))
            .collect();
        same!(answers, expected.as_slice(), "answers to {commands:?}");
        self.verify()
    }

    pub(super) fn stop_and_start(&mut self) -> WorldResult {
        self.tally.clean_stops += 1;
        if self.cluster.is_some() {
            return self.hand_over();
        }
        let (handle, mut writer) = self.engine.take().expect("the engine is open");
        handle.close();
        same!(
            handle.submit(commands::witness_ping(&self.model)).err(),
            Some(Unavailable::Stopping),
            "answer to a command while the engine stops"
        );
        let mut steps = 0;
        while writer.step(false).map_err(|ended| format!("{ended:?}"))? {
            steps += 1;
            same!(steps < 10_000, true, "the writer stops");
        }
        let kept = verify::RestartSnapshot::of(&handle);
        drop((handle, writer));
        // The file after a clean stop needs no replay and no further sync.
        self.disk.power_off();
        self.disk.power_on(&self.rng);
        let store = Store::open(&self.disk.medium()).map_err(|error| error.to_string())?;
        let left = || {
            let snapshot = store.snapshot()?;
            let checkpoint = Arrival(snapshot.meta_value(MetaKey::CheckpointArrival)?);
            Ok((
                checkpoint,
                snapshot.pings_after(checkpoint)?.count(),
                snapshot.log_len()?,
                snapshot.kept_len()?,
            ))
        };
        let (checkpoint, tail, log_len, kept_len) =
            left().map_err(|error: StoreError| error.to_string())?;
        same!(tail, 0, "pings beyond the checkpoint of a clean stop");
        self.tally.checkpoints += u32::from(checkpoint.0 > 0);
        self.tally.swept += u32::from(log_len < checkpoint.0);
        self.tally.kept_entries += u32::from(kept_len > 0);
        drop(store);
        self.move_clock();
        self.open()?;
        same!(
            verify::RestartSnapshot::of(&self.engine().0),
            kept,
            "state after a clean stop and a start"
        );
        self.resolve_doubt(true)
    }

    /// Lets some disk operations fail during a batch, and repairs the disk after a while.
    fn fail_for_a_while(&mut self) -> WorldResult {
        let operation = self.rng.pick(&DiskOperation::ALL);
        let batch = self.random_batch();
        self.disk.fail_after(
            operation,
            operations_before_fault(&self.rng, 8 * batch.max_commits as u64),
        );
        if self.submit_batch(&batch)? {
            self.disk.heal();
            self.model = batch.model_after;
            self.track_flips(false)?;
            // The sync of the database after the batch may have failed.
            if !self.engine().0.is_writable() {
                if operation == DiskOperation::Read {
                    self.watch_writer();
                }
                self.recover()?;
                self.forget_imports();
                self.resolve_doubt(false)?;
            }
            return if operation == DiskOperation::Read {
                self.reopen_after_read_failure()
            } else {
                Ok(())
            };
        }
        self.tally.failures += 1;
        for _ in 0..=self.rng.below(3) {
            let (handle, writer) = self.engine.as_mut().expect("the engine is open");
            if handle.is_writable() {
                break;
            }
            // The readable state is never ahead of the answered commands, except for the engine's
            // own changes.
            let verdict = [&self.model, &batch.model_before].map(|model| {
                let mut model = model.clone();
                handle.with_state(|state| model.accept_noticed_deadlines(state));
                verify::memory(&model, handle, batch.now).map(drop)
            });
            // The readable state is the one before the batch, with or without the engine's own
            // changes.
            let [before, ticked] = verdict;
            before.or_else(|before| {
                ticked.map_err(|ticked| {
                    format!("while writes fail: {before}; after a tick: {ticked}")
                })
            })?;
            same!(writer.step(false), Ok(true), "a step while writes fail");
        }
        self.disk.heal();
        self.in_doubt = self.outcomes_in_doubt(batch);
        if operation == DiskOperation::Read {
            self.watch_writer();
        }
        self.recover()?;
        self.forget_imports();
        self.resolve_doubt(false)
    }

    /// Runs steps until the engine accepts commands again.
    pub(super) fn recover(&mut self) -> WorldResult {
        let (handle, writer) = self.engine();
        for _ in 0..2 {
            if !handle.is_writable() {
                same!(writer.step(false), Ok(true), "a step that recovers");
            }
        }
        same!(
            handle.is_writable(),
            true,
            "the engine recovers with its disk"
        );
        Ok(())
    }

    /// Lets the watchdog notice that pages are readable again, and the writer reopen the database.
    pub(super) fn reopen_after_read_failure(&mut self) -> WorldResult {
        self.watch_writer();
        self.idle()
    }

    /// Runs the writer's watchdog at a time at which the database may be reopened.
    pub(super) fn watch_writer(&mut self) {
        self.clock.advance_secs(DAMAGE_PAUSE_SECS);
        self.record_time();
        self.engine().0.observe_writer();
    }

    /// Records that the clock was advanced.
    pub(super) fn record_time(&mut self) {
        self.latest_time = self.latest_time.max(self.clock_micros());
    }

    /// Cuts the power, now, during a batch or while the database is being opened, then opens the
    /// database.
    fn cut_power(&mut self) -> WorldResult {
        if self.rng.chance(80) {
            let batch = self.random_batch();
            let after = operations_before_fault(&self.rng, 16 * batch.max_commits as u64);
            self.disk.lose_power_after(after);
            if self.submit_batch(&batch)? {
                self.model = batch.model_after;
            } else {
                self.in_doubt = self.outcomes_in_doubt(batch);
            }
        }
        self.restart_after_power_cut()
    }

    /// Cuts the power once or several times, then opens the database.
    pub(super) fn restart_after_power_cut(&mut self) -> WorldResult {
        if self.cluster.is_some() {
            return self.replace_random_leader();
        }
        // Unless a batch is in doubt, the restart finds the answered state.
        let kept = self
            .engine
            .as_ref()
            .filter(|_| self.in_doubt.is_empty())
            .map(|(handle, _)| verify::RestartSnapshot::of(handle));
        loop {
            self.tally.cuts += 1;
            self.disk.power_off();
            self.engine = None;
            self.disk.power_on(&self.rng);
            self.move_clock();
            if !self.rng.chance(20) {
                break;
            }
            self.disk.lose_power_after(self.rng.below(12) as u32);
            let _ = self.open();
        }
        let fails = self.faults == FaultScope::SingleFile && self.rng.chance(30);
        if !fails || !self.start_with_failing_file() {
            self.open()?;
        }
        if let Some(kept) = kept {
            same!(
                verify::RestartSnapshot::of(&self.engine().0),
                kept,
                "state after a power cut and a start"
            );
        }
        self.resolve_doubt(true)
    }
}

/// True if channels were notified that the check is down, or that the parent it is hidden behind is
/// down, or if a maintenance window covers it.
fn is_downtime_known(state: &State, check: &Check) -> bool {
    match check.state.notification {
        // Parents form no cycle.
        NotificationState::Pending {
            reason: HoldReason::ParentDown(parent),
            ..
        } => state
            .check(parent)
            .is_some_and(|parent| is_downtime_known(state, parent)),
        // A window that recurs before it ends is never over.
        NotificationState::Pending {
            reason: HoldReason::MaintenanceWindow,
            ..
        } => state
            .project(check.project)
            .is_some_and(|project_state| !project_state.windows.is_empty()),
        state => check.state.status == Status::Down && state.is_notified(),
    }
}
