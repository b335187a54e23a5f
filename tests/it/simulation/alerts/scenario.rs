//! A server on a disk that loses power, with few checks and channels to which much happens while time passes; beside it the rules.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use overdue::clock::{Clock, ManualClock};
use overdue::domain::alert::{Held, Telling};
use overdue::domain::ids::{DeliveryNumber, FlipNumber};
use overdue::domain::moment::Moment;
use overdue::engine::command::{Command, Outcome, Refusal, Unavailable};
use overdue::engine::{Handle, Writer};
use overdue::random::Random;

use super::super::model::Answered;
use super::super::verify::{self, same};
use super::chance;
use super::log::Found;
use super::rules::{Alerts, Told, Why};
use crate::support::dice::Dice;
use crate::support::disk::Disk;
use crate::support::engine;

/// 2026-11-20T00:00:00.31Z: nothing happens just when a window opens or closes.
const BEGINNING: i64 = 1_795_132_800_310_000;
const SECOND: i64 = 1_000_000;
/// Microseconds after which the engine has noticed a deadline by itself.
const TICK: i64 = 70_000;

/// What is said of what happened before a difference was found.
const REMEMBERED: usize = 60;

type Verdict = Result<(), String>;
type Answers = Vec<Result<Answered, Refusal>>;

/// See the module.
pub(crate) struct Scenario {
    dice: Dice,
    disk: Disk,
    clock: Arc<ManualClock>,
    engine: Option<(Handle, Writer)>,
    alerts: Alerts,
    /// Flips of the engine, each with its place among those of its check.
    places: BTreeMap<FlipNumber, usize>,
    /// Power cuts, those of them that left a batch in doubt, and those of these after which it was not there.
    pub(crate) cuts: [u32; 3],
    /// What happened last, for whoever looks for a difference.
    happened: VecDeque<String>,
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Result<Self, String> {
        let (dice, disk) = (Dice::seeded(seed), Disk::default());
        let clock = ManualClock::at(Moment::from_micros(BEGINNING));
        let (alerts, places, happened) = (Alerts::default(), BTreeMap::new(), VecDeque::new());
        let mut scenario = Self { dice, disk, clock, engine: None, alerts, places, cuts: [0; 3], happened };
        scenario.open()?;
        for command in chance::first(&scenario.dice) {
            scenario.carry_out(&[command])?;
        }
        for _ in 0..chance::CHECKS + chance::CHANNELS {
            let command = chance::thing(&scenario.dice, &scenario.alerts.model);
            scenario.carry_out(&[command])?;
        }
        Ok(scenario)
    }

    /// What has happened so far, and how often.
    pub(crate) fn cases(&self) -> impl Iterator<Item = (String, u32)> {
        self.alerts.cases.iter().map(|(case, count)| (format!("{case:?}"), *count))
    }

    pub(crate) fn rows(&self) -> u32 {
        self.alerts.log.rows.len() as u32
    }

    /// Lets time pass and something happen; the error also says what happened before.
    pub(crate) fn step(&mut self) -> Verdict {
        self.act().map_err(|difference| {
            let happened: Vec<_> = self.happened.iter().map(String::as_str).collect();
            let checks = self.alerts.in_words().join("\n");
            format!("{difference}\nwhat happened last, with seconds since the beginning:\n{}\nchecks:\n{checks}", happened.join("\n"))
        })
    }

    fn act(&mut self) -> Verdict {
        match self.dice.below(100) {
            0..60 => {
                self.wait(true)?;
                let commands = chance::reports(&self.dice, &self.alerts.model);
                self.happen(&commands)
            }
            60..82 => {
                self.wait(false)?;
                let command = chance::change(&self.dice, &self.alerts, self.now());
                self.happen(&[command])
            }
            82..92 => {
                let commands = chance::sending(&self.dice, &self.alerts);
                self.happen(&commands)
            }
            92..95 => {
                self.wait(false)?;
                self.sleep()
            }
            _ => {
                self.wait(false)?;
                self.stop_and_start()
            }
        }
    }

    /// Has commands carried out, or sometimes the power go meanwhile; then compares everything.
    fn happen(&mut self, commands: &[Command]) -> Verdict {
        if self.dice.chance(6) {
            return self.lose_power(commands);
        }
        self.carry_out(commands)
    }

    fn carry_out(&mut self, commands: &[Command]) -> Verdict {
        let found = self.ask(commands)?.ok_or("a sound disk has not taken what was written")?;
        let expected = self.expect(commands);
        same!(found, expected, "answers to {commands:?}");
        self.settle()
    }

    fn expect(&mut self, commands: &[Command]) -> Answers {
        let now = self.now();
        commands.iter().map(|command| self.alerts.carry_out(command, now)).collect()
    }

    fn write_down(&mut self, what: &str) {
        let since = self.now() - BEGINNING;
        self.happened.push_back(format!("{}.{:06} {what}", since / SECOND, since % SECOND));
        if self.happened.len() > REMEMBERED {
            self.happened.pop_front();
        }
    }

    fn now(&self) -> i64 {
        Clock::Manual(Arc::clone(&self.clock)).now().micros()
    }

    fn engine(&mut self) -> &mut (Handle, Writer) {
        self.engine.as_mut().expect("the engine is open")
    }

    fn look(&mut self) -> Verdict {
        for _ in 0..3 {
            same!(self.engine().1.step(false), Ok(true), "a step of the writer");
        }
        Ok(())
    }

    /// Submits commands together; `None`: the disk has not taken what they come to.
    fn ask(&mut self, commands: &[Command]) -> Result<Option<Answers>, String> {
        commands.iter().for_each(|command| self.write_down(&format!("{command:?}")));
        let (handle, writer) = self.engine();
        let replies: Vec<_> = commands.iter().map(|command| handle.submit(command.clone())).collect();
        same!(writer.step(false), Ok(true), "a step of the writer");
        let mut answers = Vec::new();
        for reply in replies {
            let mut reply = reply.map_err(|unavailable| format!("a command was not taken: {unavailable:?}"))?;
            match reply.try_recv().map_err(|error| error.to_string())? {
                Ok(answer) => answers.push(answer.as_ref().map(|outcome: &Outcome| Answered::from(outcome)).map_err(Refusal::clone)),
                Err(Unavailable::Storage) => return Ok(None),
                Err(unavailable) => return Err(format!("a command was not carried out: {unavailable:?}")),
            }
        }
        Ok(Some(answers))
    }

    /// Lets time pass. The engine notices what falls due on the way. `races`: deadlines that pass at the very end are left to whatever
    /// happens next.
    fn wait(&mut self, races: bool) -> Verdict {
        let now = self.now();
        let deadlines: Vec<_> = self.alerts.deadlines().filter(|at| *at > now && *at < now + 600 * SECOND).collect();
        let mut target = if races && !deadlines.is_empty() && self.dice.chance(75) {
            let race = self.dice.pick(&[0, 1, 3000, 60_000]);
            self.dice.pick(&deadlines) + race
        } else {
            let later = now + self.dice.pick(&[1, 20, 60, 60, 120, 400]) * SECOND;
            later / SECOND * SECOND + 310_000
        };
        if target % SECOND > 850_000 {
            target += SECOND + 310_000 - target % SECOND;
        }
        loop {
            // Nothing but deadlines is decided just then.
            let near = self.alerts.decisions().filter(|at| (target - SECOND..target + 2 * SECOND).contains(at));
            if let Some(at) = near.max() {
                target = (at / SECOND + 2) * SECOND + 310_000;
                continue;
            }
            let next = self.alerts.next_due().map(|(at, _)| at).filter(|at| *at < target - 2 * TICK);
            let Some(next) = next else { break };
            self.pass(next.max(self.now()))?;
        }
        if !races && self.alerts.next_due().is_some_and(|(at, _)| at <= target) {
            target += SECOND;
            self.pass(target)?;
        }
        self.clock.set(Moment::from_micros(target.max(self.now())));
        Ok(())
    }

    /// What falls due at a moment is noticed, a little later.
    fn pass(&mut self, at: i64) -> Verdict {
        self.write_down(&format!("{:?} is due", self.alerts.next_due().map(|(at, check)| (at - BEGINNING, check))));
        self.clock.set(Moment::from_micros(at + TICK));
        self.look()?;
        self.alerts.notice(at + TICK);
        self.settle()
    }

    /// What is due by now is noticed; then everything is compared.
    fn settle(&mut self) -> Verdict {
        let mut now = self.now() + 2 * TICK;
        // What is due within a tick may have been noticed or not.
        while self.alerts.all_due().any(|(at, _)| (now - TICK..=now).contains(&at)) {
            now += TICK;
        }
        self.clock.set(Moment::from_micros(now));
        self.look()?;
        self.alerts.notice(now);
        self.alerts.sweep();
        self.compare()
    }

    /// The machine sleeps, or the clock is set forward.
    fn sleep(&mut self) -> Verdict {
        let slept = self.dice.pick(&[6, 29, 31, 600, 1200, 7200]) * SECOND;
        self.clock.correct(Moment::from_micros(self.now() + slept));
        self.look()?;
        self.awake()
    }

    /// Takes over which times without pings the engine knows of, and what is due now.
    fn awake(&mut self) -> Verdict {
        self.write_down("awake");
        let away = self.engine().0.with_state(|state| state.away.to_vec());
        self.alerts.outages = away.iter().map(|away| (away.from.micros(), away.to.micros())).collect();
        let now = self.now();
        self.alerts.notice(now);
        self.settle()
    }

    fn open(&mut self) -> Verdict {
        let random = Random::seeded(self.dice.below(u64::MAX));
        let opened = engine::open(self.disk.medium(), &self.clock, |config| config.random = random);
        self.engine = Some(opened.map_err(|error| format!("the database cannot be opened: {error}"))?);
        self.look()
    }

    fn stop_and_start(&mut self) -> Verdict {
        let (handle, mut writer) = self.engine.take().expect("the engine is open");
        handle.close();
        while writer.step(false).map_err(|ended| format!("{ended:?}"))? {}
        drop((handle, writer));
        let stopped = self.now();
        self.off();
        self.open()?;
        self.alerts.restart();
        let is_long = self.now() - stopped >= 30 * SECOND;
        let known = self.engine().0.with_state(|state| state.away.last().map(|away| away.to.micros()));
        same!(known == Some(self.now()), is_long, "whether it is known that the server was away since {stopped}");
        self.awake()
    }

    /// The power is off for a while.
    fn off(&mut self) {
        self.disk.power_off();
        self.engine = None;
        self.disk.power_on(&self.dice);
        let pause = self.dice.pick(&[0, 5, 20, 40, 300, 1500, 7200]) * SECOND;
        self.clock.set(Moment::from_micros(self.now() + pause));
    }

    /// Lets the power go while commands are carried out. What was answered is there; if nothing was, all of it is or nothing.
    fn lose_power(&mut self, commands: &[Command]) -> Verdict {
        // What falls due just then would have been noticed or not.
        self.settle()?;
        self.cuts[0] += 1;
        let before = self.alerts.clone();
        self.disk.lose_power(self.dice.below(16) as u32);
        let answers = self.ask(commands)?;
        let expected = self.expect(commands);
        if let Some(answers) = &answers {
            same!(*answers, expected, "answers to {commands:?}");
        }
        self.off();
        self.open()?;
        self.alerts.restart();
        if answers.is_some() {
            return self.awake();
        }
        self.cuts[1] += 1;
        let places = self.places.clone();
        let Err(with) = self.awake() else { return Ok(()) };
        self.cuts[2] += 1;
        (self.alerts, self.places) = (before, places);
        self.alerts.restart();
        self.awake().map_err(|without| format!("{with}\nand without what is in doubt: {without}"))
    }

    /// Compares what there is, what each check waits for, and what is there to be told and was told.
    fn compare(&mut self) -> Verdict {
        let now = self.now();
        let (handle, _) = self.engine.as_ref().expect("the engine is open");
        verify::memory(&self.alerts.model, handle, now)?;
        handle.with_state(|state| {
            for check in state.checks() {
                let (id, own) = (check.id.0, &self.alerts.model.checks[&check.id.0]);
                same!(check.settings.after, own.after, "failures until check {id} is told");
                let parents = check.settings.parents.ids().iter().filter(|id| state.check(**id).is_some()).map(|id| id.0);
                let expected = own.parents.iter().copied().filter(|id| self.alerts.model.checks.contains_key(id));
                same!(parents.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "parents of check {id}");
                let expected = self.alerts.told.get_mut(&id);
                match (told(check.state.telling), expected) {
                    // A decision that is put off is put off from the moment of the look. When a window opens again before it closes, it is
                    // looked at in between.
                    (Some(Told::NotYet { why, until }), Some(Told::NotYet { why: same, until: expected }))
                        if why == *same && ((until - *expected).abs() < SECOND || why == Why::Window && until < *expected) =>
                    {
                        *expected = until;
                    }
                    (found, expected) => same!(found, expected.as_deref().copied(), "what is told of check {id} at {now}"),
                }
            }
            for project_state in state.projects() {
                let windows: Vec<_> = project_state.windows.keys().map(|id| (project_state.project.id.0, id.0)).collect();
                same!(windows, self.alerts.model.windows.keys().copied().collect::<Vec<_>>(), "windows");
                for channel in project_state.channels.values() {
                    let health = (channel.health.disabled.is_some(), channel.health.failing.is_some());
                    same!(health, self.alerts.health(channel.id.0), "whether channel {} is disabled, and fails", channel.id.0);
                }
            }
            Ok::<(), String>(())
        })?;
        // The flips of a check that is deleted go with it.
        for last in handle.with_state(|state| state.checks().map(|check| check.state.last_flip).collect::<Vec<_>>()) {
            place_of(handle, &mut self.places, last)?;
        }
        let waiting: Vec<_> = handle.with_state(|state| state.outbox.rows().cloned().collect());
        let over = handle.deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for row in &waiting {
            found.push(Found::waiting(row, place_of(handle, &mut self.places, row.flip)?));
        }
        for row in &over {
            found.push(Found::over(row, place_of(handle, &mut self.places, row.flip)?));
        }
        found.sort_by_key(|found| found.number);
        self.alerts.log.compare(&found)
    }
}

fn told(telling: Telling) -> Option<Told> {
    let why = |held| match held {
        Held::Away => Why::Away,
        Held::Failures => Why::Failures,
        Held::Parent => Why::Parent,
        Held::Behind(parent) => Why::Behind(parent.0),
        Held::Window => Why::Window,
        Held::Trial => panic!("no project is on trial"),
    };
    match telling {
        Telling::Quiet => None,
        Telling::Due { at, held } => Some(Told::NotYet { why: why(held), until: at.micros() }),
        Telling::Told => Some(Told::Yes { heard: true }),
        Telling::Unheard => Some(Told::Yes { heard: false }),
    }
}

/// The place of a flip among those of its check, counted from 1.
fn place_of(handle: &Handle, places: &mut BTreeMap<FlipNumber, usize>, flip: FlipNumber) -> Result<usize, String> {
    if flip == FlipNumber(0) {
        return Ok(0);
    }
    if let Some(place) = places.get(&flip) {
        return Ok(*place);
    }
    let logged = handle.flip(flip).map_err(|error| error.to_string())?.ok_or(format!("{flip:?} is not logged"))?;
    let place = place_of(handle, places, logged.previous)? + 1;
    places.insert(flip, place);
    Ok(place)
}
