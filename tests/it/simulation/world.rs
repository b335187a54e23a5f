//! A world with a clock, a disk and an engine in it, to which everything happens that can happen;
//! beside it the model of what it is to be.

use std::sync::Arc;

use overdue::domain::alert::{HoldReason, NotificationState};
use overdue::domain::check::Check;
use overdue::domain::ids::{Arrival, ProjectId};
use overdue::domain::project::{KeyHash, KeyLabel, KeySecret};
use overdue::domain::status::Status;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandError, CommandOutcome, NewKey, Unavailable};
use overdue::engine::state::State;
use overdue::engine::{Handle, HousekeepingLimits, Writer};
use overdue::store::{MetaKey, Store, StoreError};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;
use tokio::sync::oneshot::error::TryRecvError;

use super::commands;
use super::config_documents;
use super::delivery_tracker::DeliveryTracker;
use super::imports::ModelImports;
use super::model::{self, BODY_LIMIT, ExpectedAnswer, Model};
use super::model_clock::ModelClock;
use super::replay::CLOCK_JUMP;
use super::verify::{self, same};
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine;
use crate::support::seeded_rng::SeededRng;

/// 2026-11-20T00:00:00Z in seconds.
const BEGINNING: i64 = 1_795_132_800;
const SECOND: i64 = 1_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Seconds after which the writer opens the database again in which pages could not be read.
const DAMAGE_PAUSE_SECS: i64 = 2;

type WorldResult = Result<(), String>;

/// What has happened.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SimulationCounts {
    pub(crate) commands: u32,
    pub(crate) batches: u32,
    pub(crate) cuts: u32,
    pub(crate) clean_stops: u32,
    pub(crate) failures: u32,
    /// Batches of which no answer said whether they are there, and how many were not.
    pub(crate) in_doubt: u32,
    pub(crate) missing: u32,
    /// Restarts that found a checkpoint, a log with its old end swept away, and entries that the
    /// sweep had kept.
    pub(crate) checkpoints: u32,
    pub(crate) swept: u32,
    pub(crate) kept_entries: u32,
    /// Commands that took several commits, and those of them that a failure or a power cut ended
    /// after the first.
    pub(crate) multi_commit: u32,
    pub(crate) interrupted: u32,
    /// Flips that a channel was to be told of.
    pub(crate) notified: u32,
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
            kept_entries: kept,
            multi_commit: in_pieces,
            interrupted: half_written,
            notified: told,
        } = self;
        for (count, more) in [
            (commands, other.commands),
            (batches, other.batches),
            (cuts, other.cuts),
            (clean_stops, other.clean_stops),
            (failures, other.failures),
            (in_doubt, other.in_doubt),
            (missing, other.missing),
            (checkpoints, other.checkpoints),
            (swept, other.swept),
            (kept, other.kept_entries),
            (in_pieces, other.multi_commit),
            (half_written, other.interrupted),
            (told, other.notified),
        ] {
            *count += more;
        }
    }
}

pub(crate) struct SimulatedWorld {
    dice: SeededRng,
    disk: Disk,
    clock: Arc<ManualClock>,
    /// The latest that it has shown.
    latest: i64,
    thresholds: HousekeepingLimits,
    engine: Option<(Handle, Writer)>,
    model: Model,
    /// What the model may have become by commands whose callers were not told; the likeliest
    /// first.
    in_doubt: Vec<Model>,
    deliveries: DeliveryTracker,
    model_clock: ModelClock,
    /// The latest commands took several commits.
    began: bool,
    pub(crate) tally: SimulationCounts,
}

/// Commands that are submitted together, what each is to answer, and what all come to.
struct CommandBatch {
    now: i64,
    commands: Vec<Command>,
    /// Commits that they may take.
    max_commits: usize,
    answers: Vec<(
        Result<ExpectedAnswer, CommandError>,
        Option<model::ModelCheck>,
    )>,
    /// What is there before them.
    model_before: Model,
    model_after: Model,
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
    pub(crate) fn new(seed: u64, disk: Disk) -> Result<Self, String> {
        let dice = SeededRng::seeded(seed);
        let clock = ManualClock::at(Timestamp::from_secs(BEGINNING));
        let model = Model::default();
        let in_doubt = Vec::new();
        let tally = SimulationCounts::default();
        let thresholds = HousekeepingLimits {
            slice_rows: dice.pick(&[1, 4, 64]),
            min_tail: dice.pick(&[3, 20, 100]),
            tail_per_check: dice.pick(&[0, 2]),
            slack_entries: dice.pick(&[2, 6, 20]),
            checkpoint_bytes: dice.pick(&[1, 1000, 1 << 20]),
            sweep_bytes: dice.pick(&[1, 50, 1 << 20]),
            tail_bytes: dice.pick(&[30, 300, 1 << 20]),
            slack_bytes: dice.pick(&[50, 500, 1 << 20]),
            large_body_bytes: dice.pick(&[1000, 3000, 6000]),
            chunk_bytes: dice.pick(&[700, 2000, 10_000]),
            ..HousekeepingLimits::default()
        };
        let engine = None;
        let followed = DeliveryTracker::default();
        let steps = ModelClock::new(BEGINNING * SECOND);
        let latest = BEGINNING * SECOND;
        let mut world = Self {
            dice,
            disk,
            clock,
            latest,
            thresholds,
            engine,
            model,
            in_doubt,
            deliveries: followed,
            model_clock: steps,
            began: false,
            tally,
        };
        world.open()?;
        let mut plan = world.empty_batch();
        commands::create_witness(&world.dice)
            .into_iter()
            .for_each(|command| plan.add(command));
        world.carry_out(plan)?;
        Ok(world)
    }

    /// Lets one thing happen.
    pub(crate) fn step(&mut self) -> WorldResult {
        if self.move_clock() {
            self.resolve_doubt(false)?;
        }
        match self.dice.below(100) {
            0..58 => {
                let plan = self.make_batch();
                self.carry_out(plan)
            }
            58..66 => self.simulate_sending(),
            66..72 => {
                self.idle()?;
                self.verify()
            }
            72..76 => self.stop_and_start(),
            76..83 => self.fail_for_a_while(),
            _ => self.cut_power(),
        }
    }

    /// Stops and starts once more, and compares everything for the last time.
    pub(crate) fn finish(&mut self) -> WorldResult {
        self.stop_and_start()?;
        self.tally.notified = self.deliveries.notified;
        // Nothing happens for so long that each check has missed as many pings as it may.
        for _ in 0..6 {
            self.clock.advance_secs(3 * 365 * DAY as i64);
            for _ in 0..3 {
                same!(
                    self.engine().1.step(false),
                    Ok(true),
                    "a step in a quiet time"
                );
            }
        }
        self.engine().0.with_state(|state| {
            let down = state
                .checks()
                .filter(|check| check.state.status == Status::Down);
            let untold: Vec<_> = down
                .filter(|check| !is_downtime_known(state, check))
                .map(|check| (check.id, check.state))
                .collect();
            same!(untold, [], "checks that are down and not told");
            Ok::<(), String>(())
        })?;
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

    /// Stops, and gives the latest time that the clock has shown.
    pub(crate) fn stop_at(mut self) -> Result<Timestamp, String> {
        self.stop_and_start()?;
        Ok(Timestamp::from_micros(self.latest))
    }

    /// Lets those who send do something, and sometimes the power go meanwhile.
    fn simulate_sending(&mut self) -> WorldResult {
        let commands = self.deliveries.commands(
            &self.dice,
            &self.engine.as_ref().expect("the engine is open").0,
        );
        let fails = self.dice.chance(15);
        if fails {
            self.disk.lose_power_after(self.dice.below(16) as u32);
        }
        let looked = self.empty_batch().model_before;
        let answers = self.submit_commands(&commands)?;
        if answers.is_empty() {
            self.deliveries.unanswered(&commands);
            self.in_doubt = vec![looked];
        } else {
            self.deliveries.answered(&commands, &answers);
            self.model = looked;
            self.note_flips(true)?;
        }
        if fails { self.power_on() } else { Ok(()) }
    }

    fn note_flips(&mut self, sure: bool) -> WorldResult {
        self.deliveries
            .track_flips(&self.engine.as_ref().expect("the engine is open").0, sure)
    }

    fn engine(&mut self) -> &mut (Handle, Writer) {
        self.engine.as_mut().expect("the engine is open")
    }

    fn clock_micros(&self) -> i64 {
        Clock::Manual(Arc::clone(&self.clock)).now().micros()
    }

    fn uptime_micros(&self) -> i64 {
        Clock::Manual(Arc::clone(&self.clock)).uptime().as_micros() as i64
    }

    /// The time at which a command would be stamped.
    fn now(&self) -> i64 {
        self.model_clock.now(self.clock_micros())
    }

    /// See [`Steps::look_at_clock`].
    fn look_at_clock(&mut self) -> bool {
        self.model_clock
            .look_at_clock(self.clock_micros(), self.uptime_micros())
    }

    /// Moves the clock, mostly forward, while time passes or not; whether it was set back.
    fn move_clock(&mut self) -> bool {
        let dice = &self.dice;
        let fraction = dice.below(1_000_000) as i64;
        let micros = match dice.below(100) {
            0..20 => 0,
            20..50 => dice.below(90) as i64 * SECOND + fraction,
            50..60 => dice.below(HOUR) as i64 * SECOND + fraction,
            60..70 => dice.below(DAY) as i64 * SECOND + fraction,
            70..73 => dice.below(70 * DAY) as i64 * SECOND + fraction,
            73..76 => -(dice.below(HOUR) as i64) * SECOND - fraction,
            76..78 => -(dice.below(10) as i64) * SECOND - fraction,
            78..80 => -(dice.below(2 * DAY) as i64) * SECOND - fraction,
            // A deadline, to the microsecond or about so.
            _ => {
                let stories = self.model.checks.values().map(model::ModelCheck::replay);
                let deadlines: Vec<_> = stories
                    .filter_map(|story| story.deadline())
                    .chain([self.clock_micros()])
                    .collect();
                dice.pick(&deadlines) - self.clock_micros()
                    + dice.pick(&[-1, 0, 0, 1, 1000, 70_000])
            }
        };
        let now = self.clock_micros() + micros;
        self.latest = self.latest.max(now);
        if dice.chance(10) {
            self.clock.jump_to(Timestamp::from_micros(now));
        } else {
            self.clock.set(Timestamp::from_micros(now));
        }
        micros < 0
    }

    fn open(&mut self) -> WorldResult {
        let random = Random::seeded(self.dice.below(u64::MAX));
        let opened = engine::open(self.disk.medium(), &self.clock, |config| {
            (config.random, config.ping_body_limit, config.housekeeping) =
                (random, BODY_LIMIT, self.thresholds);
        });
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

    /// What is in memory alone does not outlive it.
    fn forget_imports(&mut self) {
        self.in_doubt
            .iter_mut()
            .chain([&mut self.model])
            .for_each(|model| model.stagings = ModelImports::default());
    }

    fn empty_batch(&mut self) -> CommandBatch {
        let brings_back = self.look_at_clock();
        let mut looked = self.model.clone();
        looked.look_at_clock(self.model_clock.stamp, brings_back);
        CommandBatch {
            now: self.model_clock.stamp,
            commands: Vec::new(),
            max_commits: 1,
            answers: Vec::new(),
            model_after: looked.clone(),
            model_before: looked,
        }
    }

    fn make_batch(&mut self) -> CommandBatch {
        let mut plan = self.empty_batch();
        if self.dice.chance(18) {
            let is_mail = self.dice.below(6) > 0;
            let command = if is_mail {
                commands::random_mail(&self.dice, &plan.model_after)
            } else {
                config_documents::random_document(&self.dice, &plan.model_after)
            };
            plan.max_commits = commands::max_commits(&command, &self.thresholds);
            plan.add(command);
            return plan;
        }
        for _ in 0..=self.dice.below(8) {
            let command = commands::random_command(&self.dice, &plan.model_after);
            let pieces = commands::max_commits(&command, &self.thresholds);
            if pieces == 1 {
                plan.add(command);
            } else if plan.commands.is_empty() {
                // Those that come with a large command are carried out before it: it has a plan of
                // its own.
                plan.max_commits = pieces;
                plan.add(command);
                return plan;
            }
        }
        if plan.commands.is_empty() {
            plan.add(commands::witness_ping(&plan.model_after));
        }
        plan
    }

    /// Submits commands together, and returns their answers; none at all when the disk does not
    /// take what they come to.
    fn submit_commands(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<CommandOutcome, CommandError>>, String> {
        self.tally.batches += 1;
        self.tally.commands += commands.len() as u32;
        let (handle, writer) = self.engine();
        let replies: Vec<_> = commands
            .iter()
            .map(|command| handle.submit(command.clone()))
            .collect();
        same!(writer.step(false), Ok(true), "a step of the writer");
        let mut answers = Vec::new();
        let mut steps = 1;
        for (reply, command) in replies.into_iter().zip(commands) {
            let mut reply = reply
                .map_err(|unavailable| format!("{command:?} was not taken: {unavailable:?}"))?;
            let mut found = reply.try_recv();
            while found == Err(TryRecvError::Empty) && steps < 50 {
                // The next piece of what is written ahead of it.
                same!(writer.step(false), Ok(true), "another step of the writer");
                steps += 1;
                found = reply.try_recv();
            }
            match found
                .map_err(|error| format!("{command:?} was left without an answer: {error}"))?
            {
                Ok(answer) => answers.push(answer),
                Err(Unavailable::StorageFailed) => {}
                Err(unavailable) => {
                    return Err(format!("{command:?} was not carried out: {unavailable:?}"));
                }
            }
        }
        if !answers.is_empty() {
            same!(answers.len(), commands.len(), "answers of a batch");
        }
        self.tally.multi_commit += u32::from(steps > 1);
        self.began = steps > 1;
        Ok(answers)
    }

    /// Submits what is planned; whether it was carried out, and was what the model says.
    fn submit_batch(&mut self, plan: &CommandBatch) -> Result<bool, String> {
        let answers = self.submit_commands(&plan.commands)?;
        for ((answer, (expected, check)), command) in
            answers.iter().zip(&plan.answers).zip(&plan.commands)
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
                verify::check(found, expected, plan.now)
                    .map_err(|difference| format!("answer to {command:?}: {difference}"))?;
            }
        }
        if answers.is_empty() {
            self.model_clock.forget();
            if self.began {
                // What the writer did by itself beside the first piece is there for certain.
                self.tally.interrupted += 1;
                self.model = plan.model_before.clone();
            }
        }
        Ok(!answers.is_empty())
    }

    /// What a batch that was not answered may have come to, apart from nothing at all.
    fn outcomes_in_doubt(&self, plan: CommandBatch) -> Vec<Model> {
        // The first of several commits may be on disk although it failed; it has what the writer
        // did by itself.
        let first_commit = (plan.max_commits > 1 && !self.began).then_some(plan.model_before);
        [plan.model_after].into_iter().chain(first_commit).collect()
    }

    fn carry_out(&mut self, plan: CommandBatch) -> WorldResult {
        same!(
            self.submit_batch(&plan)?,
            true,
            "whether a sound disk takes what is written"
        );
        // Who is told of a flip depends on channels and on what a check is assigned to.
        let sure = plan.commands.iter().all(|command| {
            matches!(
                command,
                Command::Ping(_) | Command::PauseCheck(_) | Command::ResumeCheck(_)
            )
        });
        self.model = plan.model_after;
        self.note_flips(sure)
    }

    fn idle(&mut self) -> WorldResult {
        let brings_back = self.look_at_clock();
        self.model
            .look_at_clock(self.model_clock.stamp, brings_back);
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
    fn verify(&mut self) -> WorldResult {
        let now = self.now();
        let pruned_at = self.model_clock.pruned_at;
        let (handle, writer) = self.engine.as_ref().expect("the engine is open");
        same!(
            writer.covers_all_deadlines(),
            true,
            "whether every deadline is in the wheel"
        );
        same!(handle.is_writable(), true, "whether the engine can write");
        handle.with_state(|state| self.model.accept_noticed_deadlines(state));
        verify::everything(&self.model, handle, now, pruned_at)?;
        if self.model_clock.is_trusted() {
            verify::decision_times(&self.model, handle, now)?;
        }
        self.deliveries.verify(handle, pruned_at)
    }

    /// Finds out by a ping what time it is for the engine, by a key which number comes next, and so
    /// whether what is in doubt is there. An engine that was `opened` may have forgotten the
    /// time of what left no trace.
    fn resolve_doubt(&mut self, opened: bool) -> WorldResult {
        let brings_back = self.look_at_clock();
        let secret = KeySecret::ReadOnly(KeyHash(self.dice.random().bytes()));
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
        let uuid = self.model.checks[&commands::WITNESS_CHECK].names.uuid;
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
                "the time of a command at {clock}"
            );
        } else if stamp < clock || stamp - clock >= CLOCK_JUMP {
            return Err(format!("a command is stamped {stamp} at {clock}"));
        }
        self.model_clock.stamp = stamp;
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let before = self.model.clone();
        self.tally.in_doubt += u32::from(!in_doubt.is_empty());
        let mut differences = Vec::new();
        for model in in_doubt.into_iter().chain([before]) {
            match self.adopt_model(model, &commands, &answers, (opened, brings_back)) {
                Ok(()) => {
                    self.tally.missing += u32::from(!differences.is_empty());
                    return self.note_flips(false);
                }
                Err(difference) => differences.push(difference),
            }
        }
        Err(differences.join("\nand without what is in doubt: "))
    }

    /// Takes over a model that has yet to carry out the latest commands, and compares everything.
    fn adopt_model(
        &mut self,
        model: Model,
        commands: &[Command],
        answers: &[Result<ExpectedAnswer, CommandError>],
        (opened, brings_back): (bool, bool),
    ) -> WorldResult {
        let earlier = model.latest(self.clock_micros());
        self.model = model;
        if opened && self.model_clock.stamp < earlier {
            return Err(format!(
                "a command is stamped {}, earlier than {earlier}",
                self.model_clock.stamp
            ));
        }
        self.model
            .look_at_clock(self.model_clock.stamp, brings_back);
        let expected: Vec<_> = commands
            .iter()
            .map(|command| self.model.apply(command, self.model_clock.stamp))
            .collect();
        same!(answers, expected.as_slice(), "answers to {commands:?}");
        self.verify()
    }

    fn stop_and_start(&mut self) -> WorldResult {
        self.tally.clean_stops += 1;
        let (handle, mut writer) = self.engine.take().expect("the engine is open");
        handle.close();
        same!(
            handle.submit(commands::witness_ping(&self.model)).err(),
            Some(Unavailable::Stopping),
            "a command to one who stops"
        );
        let mut steps = 0;
        while writer.step(false).map_err(|ended| format!("{ended:?}"))? {
            steps += 1;
            same!(steps < 10_000, true, "whether the writer comes to an end");
        }
        let kept = verify::RestartSnapshot::of(&handle);
        drop((handle, writer));
        // What a clean stop leaves needs no replay, and no further sync.
        self.disk.power_off();
        self.disk.power_on(&self.dice);
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
            "what a start after a clean stop finds"
        );
        self.resolve_doubt(true)
    }

    /// Lets some operations fail during a batch, and heals the disk after a while.
    fn fail_for_a_while(&mut self) -> WorldResult {
        let operation = self.dice.pick(&DiskOperation::ALL);
        let plan = self.make_batch();
        self.disk.fail_after(
            operation,
            self.dice.below(8 * plan.max_commits as u64) as u32,
        );
        if self.submit_batch(&plan)? {
            self.disk.heal();
            self.model = plan.model_after;
            self.note_flips(false)?;
            return if operation == DiskOperation::Read {
                self.read_again()
            } else {
                Ok(())
            };
        }
        self.tally.failures += 1;
        for _ in 0..=self.dice.below(3) {
            let (handle, writer) = self.engine.as_mut().expect("the engine is open");
            if handle.is_writable() {
                break;
            }
            // Nothing that can be read is ahead of what was answered, except for what the engine
            // has done by itself.
            let verdict = [&self.model, &plan.model_before].map(|model| {
                let mut model = model.clone();
                handle.with_state(|state| model.accept_noticed_deadlines(state));
                verify::memory(&model, handle, plan.now).map(drop)
            });
            // The state before the batch has to be there, or what the engine alone has made of it.
            let [before, looked] = verdict;
            before.or_else(|before| {
                looked.map_err(|looked| format!("while writes fail: {before}, or rather {looked}"))
            })?;
            same!(writer.step(false), Ok(true), "a step while writes fail");
        }
        self.disk.heal();
        self.in_doubt = self.outcomes_in_doubt(plan);
        if operation == DiskOperation::Read {
            self.watch_writer();
        }
        let (handle, writer) = self.engine();
        for _ in 0..2 {
            if !handle.is_writable() {
                same!(writer.step(false), Ok(true), "a step that recovers");
            }
        }
        same!(
            handle.is_writable(),
            true,
            "whether the service recovers with its disk"
        );
        self.forget_imports();
        self.resolve_doubt(false)
    }

    /// Lets the watch of the writer find that pages can be read again, and the writer open the
    /// database anew.
    fn read_again(&mut self) -> WorldResult {
        self.watch_writer();
        self.idle()
    }

    /// Runs the watch of the writer, at a time at which the database may be opened again.
    fn watch_writer(&mut self) {
        self.clock.advance_secs(DAMAGE_PAUSE_SECS);
        self.latest = self.latest.max(self.clock_micros());
        self.engine().0.check_writer();
    }

    /// Lets the power go, now or during a batch, or again while the database is being opened; then
    /// opens it.
    fn cut_power(&mut self) -> WorldResult {
        if self.dice.chance(80) {
            let plan = self.make_batch();
            self.disk
                .lose_power_after(self.dice.below(16 * plan.max_commits as u64) as u32);
            if self.submit_batch(&plan)? {
                self.model = plan.model_after;
            } else {
                self.in_doubt = self.outcomes_in_doubt(plan);
            }
        }
        self.power_on()
    }

    /// Lets the power go for a moment, and sometimes again.
    fn power_on(&mut self) -> WorldResult {
        // What was answered is what is found, unless something was not answered.
        let kept = self
            .engine
            .as_ref()
            .filter(|_| self.in_doubt.is_empty())
            .map(|(handle, _)| verify::RestartSnapshot::of(handle));
        loop {
            self.tally.cuts += 1;
            self.disk.power_off();
            self.engine = None;
            self.disk.power_on(&self.dice);
            self.move_clock();
            if !self.dice.chance(20) {
                break;
            }
            self.disk.lose_power_after(self.dice.below(12) as u32);
            let _ = self.open();
        }
        self.open()?;
        if let Some(kept) = kept {
            same!(
                verify::RestartSnapshot::of(&self.engine().0),
                kept,
                "what a start after a power cut finds"
            );
        }
        self.resolve_doubt(true)
    }
}

/// Whether it was told that a check is down, or that one is behind which it hides, or a window is
/// open for it.
fn is_downtime_known(state: &State, check: &Check) -> bool {
    match check.state.notification {
        // Parents make no circle.
        NotificationState::Pending {
            reason: HoldReason::ParentDown(parent),
            ..
        } => state
            .check(parent)
            .is_some_and(|parent| is_downtime_known(state, parent)),
        // One that opens again before it closes is never over.
        NotificationState::Pending {
            reason: HoldReason::MaintenanceWindow,
            ..
        } => state
            .project(check.project)
            .is_some_and(|project_state| !project_state.windows.is_empty()),
        telling => check.state.status == Status::Down && telling.is_notified(),
    }
}
