//! A world with a clock, a disk and an engine in it, to which everything happens that can happen; beside it the model of what it is to be.

use std::sync::Arc;

use overdue::clock::{Clock, ManualClock};
use overdue::domain::alert::{Held, Telling};
use overdue::domain::check::Check;
use overdue::domain::ids::{Arrival, ProjectId};
use overdue::domain::moment::Moment;
use overdue::domain::project::{KeyHash, KeyLabel, Secret};
use overdue::domain::status::Status;
use overdue::engine::command::{Command, NewKey, Outcome, Refusal, Unavailable};
use overdue::engine::state::State;
use overdue::engine::{Handle, Thresholds, Writer};
use overdue::random::Random;
use overdue::store::{Mark, Store, StoreError};
use tokio::sync::oneshot::error::TryRecvError;

use super::commands;
use super::declared;
use super::imports::Stagings;
use super::model::{self, Answered, BODY_LIMIT, Model};
use super::outbox::Followed;
use super::steps::Steps;
use super::story::STEP;
use super::verify::{self, same};
use crate::support::dice::Dice;
use crate::support::disk::{Disk, Operation};
use crate::support::engine;

/// 2026-11-20T00:00:00Z in seconds.
const BEGINNING: i64 = 1_795_132_800;
const SECOND: i64 = 1_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Seconds after which the writer opens the database again in which pages could not be read.
const DAMAGE_PAUSE_SECS: i64 = 2;

type Verdict = Result<(), String>;

/// What has happened.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) commands: u32,
    pub(crate) batches: u32,
    pub(crate) cuts: u32,
    pub(crate) clean_stops: u32,
    pub(crate) failures: u32,
    /// Batches of which no answer said whether they are there, and how many were not.
    pub(crate) in_doubt: u32,
    pub(crate) missing: u32,
    /// Restarts that found a checkpoint, a log with its old end swept away, and entries that the sweep had kept.
    pub(crate) checkpoints: u32,
    pub(crate) swept: u32,
    pub(crate) kept: u32,
    /// Commands that took several commits, and those of them that a failure or a power cut ended after the first.
    pub(crate) in_pieces: u32,
    pub(crate) half_written: u32,
    /// Flips that a channel was to be told of.
    pub(crate) told: u32,
}

impl Tally {
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
            kept,
            in_pieces,
            half_written,
            told,
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
            (kept, other.kept),
            (in_pieces, other.in_pieces),
            (half_written, other.half_written),
            (told, other.told),
        ] {
            *count += more;
        }
    }
}

pub(crate) struct World {
    dice: Dice,
    disk: Disk,
    clock: Arc<ManualClock>,
    /// The latest that it has shown.
    latest: i64,
    thresholds: Thresholds,
    engine: Option<(Handle, Writer)>,
    model: Model,
    /// What the model was to become by commands whose callers were not told.
    in_doubt: Option<Model>,
    followed: Followed,
    steps: Steps,
    /// The latest commands took several commits.
    began: bool,
    pub(crate) tally: Tally,
}

/// Commands that are submitted together, what each is to answer, and what all come to.
struct Plan {
    now: i64,
    commands: Vec<Command>,
    /// Commits that they may take.
    pieces: usize,
    answers: Vec<(Result<Answered, Refusal>, Option<model::Check>)>,
    /// What is there before them.
    looked: Model,
    after: Model,
}

impl Plan {
    fn add(&mut self, command: Command) {
        let mut deleted = if let Command::DeleteCheck(id) = &command { self.after.checks.get(&id.0).cloned() } else { None };
        deleted.iter_mut().for_each(|check| check.settle(self.now));
        let answer = self.after.apply(&command, self.now);
        let check = match &answer {
            Ok(Answered::Check(id) | Answered::Created(id)) => self.after.checks.get(id).cloned().or(deleted),
            _ => None,
        };
        self.commands.push(command);
        self.answers.push((answer, check));
    }
}

impl World {
    pub(crate) fn new(seed: u64, disk: Disk) -> Result<Self, String> {
        let dice = Dice::seeded(seed);
        let clock = ManualClock::at(Moment::from_secs(BEGINNING));
        let (model, in_doubt, tally) = (Model::default(), None, Tally::default());
        let thresholds = Thresholds {
            slice: dice.pick(&[1, 4, 64]),
            least_tail: dice.pick(&[3, 20, 100]),
            tail_per_check: dice.pick(&[0, 2]),
            slack: dice.pick(&[2, 6, 20]),
            checkpoint_bytes: dice.pick(&[1, 1000, 1 << 20]),
            sweep_bytes: dice.pick(&[1, 50, 1 << 20]),
            tail_bytes: dice.pick(&[30, 300, 1 << 20]),
            slack_bytes: dice.pick(&[50, 500, 1 << 20]),
            large: dice.pick(&[1000, 3000, 6000]),
            piece: dice.pick(&[700, 2000, 10_000]),
            ..Thresholds::default()
        };
        let (engine, followed, steps) = (None, Followed::default(), Steps::from(BEGINNING * SECOND));
        let latest = BEGINNING * SECOND;
        let mut world = Self { dice, disk, clock, latest, thresholds, engine, model, in_doubt, followed, steps, began: false, tally };
        world.open()?;
        let mut plan = world.empty_plan();
        commands::witness(&world.dice).into_iter().for_each(|command| plan.add(command));
        world.carry_out(plan)?;
        Ok(world)
    }

    /// Lets one thing happen.
    pub(crate) fn step(&mut self) -> Verdict {
        if self.move_clock() {
            self.witness(false)?;
        }
        match self.dice.below(100) {
            0..58 => {
                let plan = self.plan();
                self.carry_out(plan)
            }
            58..66 => self.send(),
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
    pub(crate) fn finish(&mut self) -> Verdict {
        self.stop_and_start()?;
        self.tally.told = self.followed.told;
        // Nothing happens for so long that each check has missed as many pings as it may.
        for _ in 0..6 {
            self.clock.advance_secs(3 * 365 * DAY as i64);
            for _ in 0..3 {
                same!(self.engine().1.step(false), Ok(true), "a step in a quiet time");
            }
        }
        self.engine().0.with_state(|state| {
            let down = state.checks().filter(|check| check.state.status == Status::Down);
            let untold: Vec<_> = down.filter(|check| !is_known(state, check)).map(|check| (check.id, check.state)).collect();
            same!(untold, [], "checks that are down and not told");
            Ok::<(), String>(())
        })?;
        let mut synced = 0;
        for _ in 0..2000 {
            if std::mem::replace(&mut synced, self.disk.synced()) == self.disk.synced() {
                break;
            }
            self.idle()?;
        }
        self.engine = None;
        verify::pieces(&self.disk)
    }

    /// Stops, and gives the latest time that the clock has shown.
    pub(crate) fn leave(mut self) -> Result<Moment, String> {
        self.stop_and_start()?;
        Ok(Moment::from_micros(self.latest))
    }

    /// Lets those who send do something, and sometimes the power go meanwhile.
    fn send(&mut self) -> Verdict {
        let commands = self.followed.commands(&self.dice, &self.engine.as_ref().expect("the engine is open").0);
        let fails = self.dice.chance(15);
        if fails {
            self.disk.lose_power(self.dice.below(16) as u32);
        }
        let looked = self.empty_plan().looked;
        let answers = self.ask(&commands)?;
        if answers.is_empty() {
            self.followed.unanswered(&commands);
            self.in_doubt = Some(looked);
        } else {
            self.followed.answered(&commands, &answers);
            self.model = looked;
            self.note_flips(true)?;
        }
        if fails { self.power_on() } else { Ok(()) }
    }

    fn note_flips(&mut self, sure: bool) -> Verdict {
        self.followed.note(&self.engine.as_ref().expect("the engine is open").0, sure)
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
        self.steps.now(self.clock_micros())
    }

    /// See [`Steps::look`].
    fn look(&mut self) -> bool {
        self.steps.look(self.clock_micros(), self.uptime_micros())
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
                let stories = self.model.checks.values().map(model::Check::story);
                let deadlines: Vec<_> = stories.filter_map(|story| story.deadline()).chain([self.clock_micros()]).collect();
                dice.pick(&deadlines) - self.clock_micros() + dice.pick(&[-1, 0, 0, 1, 1000, 70_000])
            }
        };
        let now = self.clock_micros() + micros;
        self.latest = self.latest.max(now);
        if dice.chance(10) {
            self.clock.correct(Moment::from_micros(now));
        } else {
            self.clock.set(Moment::from_micros(now));
        }
        micros < 0
    }

    fn open(&mut self) -> Verdict {
        let random = Random::seeded(self.dice.below(u64::MAX));
        let opened = engine::open(self.disk.medium(), &self.clock, |config| {
            (config.random, config.ping_body_limit, config.thresholds) = (random, BODY_LIMIT, self.thresholds);
        });
        self.engine = Some(opened.map_err(|error| format!("the database cannot be opened: {error}"))?);
        self.forget_imports();
        let newest = self.in_doubt.iter().chain([&self.model]).map(|model| model.newest_ping);
        self.steps.open(self.clock_micros(), self.uptime_micros(), newest);
        Ok(())
    }

    /// What is in memory alone does not outlive it.
    fn forget_imports(&mut self) {
        self.in_doubt.iter_mut().chain([&mut self.model]).for_each(|model| model.stagings = Stagings::default());
    }

    fn empty_plan(&mut self) -> Plan {
        let (brings_back, mut looked) = (self.look(), self.model.clone());
        looked.look(self.steps.stamp, brings_back);
        Plan { now: self.steps.stamp, commands: Vec::new(), pieces: 1, answers: Vec::new(), after: looked.clone(), looked }
    }

    fn plan(&mut self) -> Plan {
        let mut plan = self.empty_plan();
        if self.dice.chance(18) {
            let is_mail = self.dice.below(6) > 0;
            let command = if is_mail { commands::mail(&self.dice, &plan.after) } else { declared::some_command(&self.dice, &plan.after) };
            plan.pieces = commands::pieces(&command, &self.thresholds);
            plan.add(command);
            return plan;
        }
        for _ in 0..=self.dice.below(8) {
            let command = commands::some_command(&self.dice, &plan.after);
            let pieces = commands::pieces(&command, &self.thresholds);
            if pieces == 1 {
                plan.add(command);
            } else if plan.commands.is_empty() {
                // Those that come with a large command are carried out before it: it has a plan of its own.
                plan.pieces = pieces;
                plan.add(command);
                return plan;
            }
        }
        if plan.commands.is_empty() {
            plan.add(commands::witness_ping(&plan.after));
        }
        plan
    }

    /// Submits commands together, and returns their answers; none at all when the disk does not take what they come to.
    fn ask(&mut self, commands: &[Command]) -> Result<Vec<Result<Outcome, Refusal>>, String> {
        self.tally.batches += 1;
        self.tally.commands += commands.len() as u32;
        let (handle, writer) = self.engine();
        let replies: Vec<_> = commands.iter().map(|command| handle.submit(command.clone())).collect();
        same!(writer.step(false), Ok(true), "a step of the writer");
        let mut answers = Vec::new();
        let mut steps = 1;
        for (reply, command) in replies.into_iter().zip(commands) {
            let mut reply = reply.map_err(|unavailable| format!("{command:?} was not taken: {unavailable:?}"))?;
            let mut found = reply.try_recv();
            while found == Err(TryRecvError::Empty) && steps < 50 {
                // The next piece of what is written ahead of it.
                same!(writer.step(false), Ok(true), "another step of the writer");
                steps += 1;
                found = reply.try_recv();
            }
            match found.map_err(|error| format!("{command:?} was left without an answer: {error}"))? {
                Ok(answer) => answers.push(answer),
                Err(Unavailable::Storage) => {}
                Err(unavailable) => return Err(format!("{command:?} was not carried out: {unavailable:?}")),
            }
        }
        if !answers.is_empty() {
            same!(answers.len(), commands.len(), "answers of a batch");
        }
        self.tally.in_pieces += u32::from(steps > 1);
        self.began = steps > 1;
        Ok(answers)
    }

    /// Submits what is planned; whether it was carried out, and was what the model says.
    fn submit(&mut self, plan: &Plan) -> Result<bool, String> {
        let answers = self.ask(&plan.commands)?;
        for ((answer, (expected, check)), command) in answers.iter().zip(&plan.answers).zip(&plan.commands) {
            same!(answer.as_ref().map(Answered::from).map_err(Refusal::clone), *expected, "answer to {command:?}");
            if let (Ok(Outcome::Check(found) | Outcome::Created(found)), Some(expected)) = (answer, check) {
                verify::check(found, expected, plan.now).map_err(|difference| format!("answer to {command:?}: {difference}"))?;
            }
        }
        if answers.is_empty() {
            self.steps.forget();
            if self.began {
                // What the writer did by itself beside the first piece is there for certain.
                self.tally.half_written += 1;
                self.model = plan.looked.clone();
            }
        }
        Ok(!answers.is_empty())
    }

    fn carry_out(&mut self, plan: Plan) -> Verdict {
        same!(self.submit(&plan)?, true, "whether a sound disk takes what is written");
        // Who is told of a flip depends on channels and on what a check is assigned to.
        let sure = plan.commands.iter().all(|command| matches!(command, Command::Ping(_) | Command::Pause(_) | Command::Resume(_)));
        self.model = plan.after;
        self.note_flips(sure)
    }

    fn idle(&mut self) -> Verdict {
        let brings_back = self.look();
        self.model.look(self.steps.stamp, brings_back);
        for _ in 0..2 {
            same!(self.engine().1.step(false), Ok(true), "an idle step of the writer");
        }
        Ok(())
    }

    /// Compares everything.
    fn verify(&mut self) -> Verdict {
        let (now, pruned_at) = (self.now(), self.steps.pruned_at);
        let (handle, writer) = self.engine.as_ref().expect("the engine is open");
        same!(writer.covers_all_deadlines(), true, "whether every deadline is in the wheel");
        same!(handle.is_writable(), true, "whether the engine can write");
        handle.with_state(|state| self.model.believe(state));
        verify::everything(&self.model, handle, now, pruned_at)?;
        if self.steps.is_right() {
            verify::soon(&self.model, handle, now)?;
        }
        self.followed.verify(handle, pruned_at)
    }

    /// Finds out by a ping what time it is for the engine, by a key which number comes next, and so whether what is in doubt is there. An
    /// engine that was `opened` may have forgotten the time of what left no trace.
    fn witness(&mut self, opened: bool) -> Verdict {
        let brings_back = self.look();
        let secret = Secret::ReadOnly(KeyHash(self.dice.random().bytes()));
        let key = NewKey { project: ProjectId(1), secret, label: KeyLabel::default(), hint: "".into() };
        let commands = [commands::witness_ping(&self.model), Command::CreateKey(Box::new(key))];
        let answers: Vec<_> =
            self.ask(&commands)?.iter().map(|answer| answer.as_ref().map(Answered::from).map_err(Refusal::clone)).collect();
        let uuid = self.model.checks[&commands::WITNESS].names.uuid;
        let handle = &self.engine().0;
        let check = handle.with_state(|state| state.check_by_uuid(uuid).cloned());
        let pings = check.as_ref().map(|check| handle.pings(check)).transpose().map_err(|error| error.to_string())?;
        let stamp = pings.iter().flatten().next().ok_or("the ping just logged is not listed")?.at.micros();
        let clock = self.clock_micros();
        if !opened {
            same!(stamp, self.steps.stamp, "the time of a command at {clock}");
        } else if stamp < clock || stamp - clock >= STEP {
            return Err(format!("a command is stamped {stamp} at {clock}"));
        }
        self.steps.stamp = stamp;
        let (in_doubt, before) = (self.in_doubt.take(), self.model.clone());
        self.tally.in_doubt += u32::from(in_doubt.is_some());
        let mut differences = Vec::new();
        for model in in_doubt.into_iter().chain([before]) {
            match self.fits(model, &commands, &answers, (opened, brings_back)) {
                Ok(()) => {
                    self.tally.missing += differences.len() as u32;
                    return self.note_flips(false);
                }
                Err(difference) => differences.push(difference),
            }
        }
        Err(differences.join("\nand without what is in doubt: "))
    }

    /// Takes over a model that has yet to carry out the latest commands, and compares everything.
    fn fits(
        &mut self,
        model: Model,
        commands: &[Command],
        answers: &[Result<Answered, Refusal>],
        (opened, brings_back): (bool, bool),
    ) -> Verdict {
        let earlier = model.latest(self.clock_micros());
        self.model = model;
        if opened && self.steps.stamp < earlier {
            return Err(format!("a command is stamped {}, earlier than {earlier}", self.steps.stamp));
        }
        self.model.look(self.steps.stamp, brings_back);
        let expected: Vec<_> = commands.iter().map(|command| self.model.apply(command, self.steps.stamp)).collect();
        same!(answers, expected.as_slice(), "answers to {commands:?}");
        self.verify()
    }

    fn stop_and_start(&mut self) -> Verdict {
        self.tally.clean_stops += 1;
        let (handle, mut writer) = self.engine.take().expect("the engine is open");
        handle.close();
        same!(handle.submit(commands::witness_ping(&self.model)).err(), Some(Unavailable::Stopping), "a command to one who stops");
        let mut steps = 0;
        while writer.step(false).map_err(|ended| format!("{ended:?}"))? {
            steps += 1;
            same!(steps < 10_000, true, "whether the writer comes to an end");
        }
        let kept = verify::Kept::of(&handle);
        drop((handle, writer));
        // What a clean stop leaves needs no replay, and no further sync.
        self.disk.power_off();
        self.disk.power_on(&self.dice);
        let store = Store::open(&self.disk.medium()).map_err(|error| error.to_string())?;
        let left = || {
            let snapshot = store.snapshot()?;
            let checkpoint = Arrival(snapshot.mark(Mark::CheckpointArrival)?);
            Ok((checkpoint, snapshot.pings_after(checkpoint)?.count(), snapshot.log_len()?, snapshot.kept_len()?))
        };
        let (checkpoint, tail, log_len, kept_len) = left().map_err(|error: StoreError| error.to_string())?;
        same!(tail, 0, "pings beyond the checkpoint of a clean stop");
        self.tally.checkpoints += u32::from(checkpoint.0 > 0);
        self.tally.swept += u32::from(log_len < checkpoint.0);
        self.tally.kept += u32::from(kept_len > 0);
        drop(store);
        self.move_clock();
        self.open()?;
        same!(verify::Kept::of(&self.engine().0), kept, "what a start after a clean stop finds");
        self.witness(true)
    }

    /// Lets some operations fail during a batch, and heals the disk after a while.
    fn fail_for_a_while(&mut self) -> Verdict {
        let operation = self.dice.pick(&Operation::ALL);
        let plan = self.plan();
        self.disk.fail(operation, self.dice.below(8 * plan.pieces as u64) as u32);
        if self.submit(&plan)? {
            self.disk.heal();
            self.model = plan.after;
            self.note_flips(false)?;
            return if operation == Operation::Read { self.read_again() } else { Ok(()) };
        }
        self.tally.failures += 1;
        for _ in 0..=self.dice.below(3) {
            let (handle, writer) = self.engine.as_mut().expect("the engine is open");
            if handle.is_writable() {
                break;
            }
            // Nothing that can be read is ahead of what was answered, except for what the engine has done by itself.
            let verdict = [&self.model, &plan.looked].map(|model| {
                let mut model = model.clone();
                handle.with_state(|state| model.believe(state));
                verify::memory(&model, handle, plan.now).map(drop)
            });
            // The state before the batch has to be there, or what the engine alone has made of it.
            let [before, looked] = verdict;
            before.or_else(|before| looked.map_err(|looked| format!("while writes fail: {before}, or rather {looked}")))?;
            same!(writer.step(false), Ok(true), "a step while writes fail");
        }
        self.disk.heal();
        self.in_doubt = Some(plan.after);
        let (handle, writer) = self.engine();
        for _ in 0..2 {
            if !handle.is_writable() {
                same!(writer.step(false), Ok(true), "a step that recovers");
            }
        }
        same!(handle.is_writable(), true, "whether the service recovers with its disk");
        self.forget_imports();
        self.witness(false)
    }

    /// Lets the watch of the writer find that pages can be read again, and the writer open the database anew.
    fn read_again(&mut self) -> Verdict {
        self.clock.advance_secs(DAMAGE_PAUSE_SECS);
        self.latest = self.latest.max(self.clock_micros());
        self.engine().0.watch();
        self.idle()
    }

    /// Lets the power go, now or during a batch, or again while the database is being opened; then opens it.
    fn cut_power(&mut self) -> Verdict {
        if self.dice.chance(80) {
            let plan = self.plan();
            self.disk.lose_power(self.dice.below(16 * plan.pieces as u64) as u32);
            if self.submit(&plan)? {
                self.model = plan.after;
            } else {
                self.in_doubt = Some(plan.after);
            }
        }
        self.power_on()
    }

    /// Lets the power go for a moment, and sometimes again.
    fn power_on(&mut self) -> Verdict {
        // What was answered is what is found, unless something was not answered.
        let kept = self.engine.as_ref().filter(|_| self.in_doubt.is_none()).map(|(handle, _)| verify::Kept::of(handle));
        loop {
            self.tally.cuts += 1;
            self.disk.power_off();
            self.engine = None;
            self.disk.power_on(&self.dice);
            self.move_clock();
            if !self.dice.chance(20) {
                break;
            }
            self.disk.lose_power(self.dice.below(12) as u32);
            let _ = self.open();
        }
        self.open()?;
        if let Some(kept) = kept {
            same!(verify::Kept::of(&self.engine().0), kept, "what a start after a power cut finds");
        }
        self.witness(true)
    }
}

/// Whether it was told that a check is down, or that one is behind which it hides, or a window is open for it.
fn is_known(state: &State, check: &Check) -> bool {
    match check.state.telling {
        // Parents make no circle.
        Telling::Due { held: Held::Behind(parent), .. } => state.check(parent).is_some_and(|parent| is_known(state, parent)),
        // One that opens again before it closes is never over.
        Telling::Due { held: Held::Window, .. } => {
            state.project(check.project).is_some_and(|project_state| !project_state.windows.is_empty())
        }
        telling => check.state.status == Status::Down && telling.is_told(),
    }
}
