//! A server on a disk that loses power, with few checks and channels to which much happens while
//! time passes; beside it the rules.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use overdue::domain::alert::{HoldReason, NotificationState};
use overdue::domain::ids::{DeliveryNumber, FlipNumber};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandError, CommandOutcome, Unavailable};
use overdue::engine::{Handle, Writer};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;

use super::super::model::ExpectedAnswer;
use super::super::verify::{self, same};
use super::message_log::StoredMessage;
use super::random_events;
use super::rules::{AlertModel, AnnouncementState, HoldCause};
use crate::support::disk::Disk;
use crate::support::engine;
use crate::support::seeded_rng::SeededRng;

/// 2026-11-20T00:00:00.31Z: nothing happens just when a window opens or closes.
const BEGINNING: i64 = 1_795_132_800_310_000;
const SECOND: i64 = 1_000_000;
/// Microseconds after which the engine has noticed a deadline by itself.
const TICK: i64 = 70_000;

/// What is said of what happened before a difference was found.
const MAX_REMEMBERED_EVENTS: usize = 60;

type ScenarioResult = Result<(), String>;
type Answers = Vec<Result<ExpectedAnswer, CommandError>>;

/// See the module.
pub(crate) struct AlertScenario {
    dice: SeededRng,
    disk: Disk,
    clock: Arc<ManualClock>,
    engine: Option<(Handle, Writer)>,
    alerts: AlertModel,
    /// Flips of the engine, each with its place among those of its check.
    flip_indexes: BTreeMap<FlipNumber, usize>,
    /// Power cuts, those of them that left a batch in doubt, and those of these after which it was
    /// not there.
    pub(crate) cuts: [u32; 3],
    /// What happened last, for whoever looks for a difference.
    recent_events: VecDeque<String>,
}

impl AlertScenario {
    pub(crate) fn new(seed: u64) -> Result<Self, String> {
        let dice = SeededRng::seeded(seed);
        let disk = Disk::default();
        let clock = ManualClock::at(Timestamp::from_micros(BEGINNING));
        let alerts = AlertModel::default();
        let places = BTreeMap::new();
        let happened = VecDeque::new();
        let mut scenario = Self {
            dice,
            disk,
            clock,
            engine: None,
            alerts,
            flip_indexes: places,
            cuts: [0; 3],
            recent_events: happened,
        };
        scenario.open()?;
        for command in random_events::first_command(&scenario.dice) {
            scenario.carry_out(&[command])?;
        }
        for _ in 0..random_events::CHECKS + random_events::CHANNELS {
            let command = random_events::create_missing(&scenario.dice, &scenario.alerts.model);
            scenario.carry_out(&[command])?;
        }
        Ok(scenario)
    }

    /// What has happened so far, and how often.
    pub(crate) fn cases(&self) -> impl Iterator<Item = (String, u32)> {
        self.alerts
            .cases
            .iter()
            .map(|(case, count)| (format!("{case:?}"), *count))
    }

    pub(crate) fn rows(&self) -> u32 {
        self.alerts.log.rows.len() as u32
    }

    /// Lets time pass and something happen; the error also says what happened before.
    pub(crate) fn step(&mut self) -> ScenarioResult {
        self.act().map_err(|difference| {
            let happened: Vec<_> = self.recent_events.iter().map(String::as_str).collect();
            let checks = self.alerts.describe().join("\n");
            format!(
                "{difference}\nwhat happened last, with seconds since the \
                 beginning:\n{}\nchecks:\n{checks}",
                happened.join("\n")
            )
        })
    }

    fn act(&mut self) -> ScenarioResult {
        match self.dice.below(100) {
            0..60 => {
                self.wait(true)?;
                let commands = random_events::random_reports(&self.dice, &self.alerts.model);
                self.happen(&commands)
            }
            60..82 => {
                self.wait(false)?;
                let command = random_events::random_change(&self.dice, &self.alerts, self.now());
                self.happen(&[command])
            }
            82..92 => {
                let commands = random_events::random_sending(&self.dice, &self.alerts);
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
    fn happen(&mut self, commands: &[Command]) -> ScenarioResult {
        if self.dice.chance(6) {
            return self.lose_power(commands);
        }
        self.carry_out(commands)
    }

    fn carry_out(&mut self, commands: &[Command]) -> ScenarioResult {
        let found = self
            .submit_commands(commands)?
            .ok_or("a sound disk has not taken what was written")?;
        let expected = self.expect(commands);
        same!(found, expected, "answers to {commands:?}");
        self.settle()
    }

    fn expect(&mut self, commands: &[Command]) -> Answers {
        let now = self.now();
        commands
            .iter()
            .map(|command| self.alerts.carry_out(command, now))
            .collect()
    }

    fn remember(&mut self, what: &str) {
        let since = self.now() - BEGINNING;
        self.recent_events
            .push_back(format!("{}.{:06} {what}", since / SECOND, since % SECOND));
        if self.recent_events.len() > MAX_REMEMBERED_EVENTS {
            self.recent_events.pop_front();
        }
    }

    fn now(&self) -> i64 {
        Clock::Manual(Arc::clone(&self.clock)).now().micros()
    }

    fn engine(&mut self) -> &mut (Handle, Writer) {
        self.engine.as_mut().expect("the engine is open")
    }

    fn look_at_clock(&mut self) -> ScenarioResult {
        for _ in 0..3 {
            same!(
                self.engine().1.step(false),
                Ok(true),
                "a step of the writer"
            );
        }
        Ok(())
    }

    /// Submits commands together; `None`: the disk has not taken what they come to.
    fn submit_commands(&mut self, commands: &[Command]) -> Result<Option<Answers>, String> {
        commands
            .iter()
            .for_each(|command| self.remember(&format!("{command:?}")));
        let (handle, writer) = self.engine();
        let replies: Vec<_> = commands
            .iter()
            .map(|command| handle.submit(command.clone()))
            .collect();
        same!(writer.step(false), Ok(true), "a step of the writer");
        let mut answers = Vec::new();
        for reply in replies {
            let mut reply =
                reply.map_err(|unavailable| format!("a command was not taken: {unavailable:?}"))?;
            match reply.try_recv().map_err(|error| error.to_string())? {
                Ok(answer) => {
                    answers.push(
                        answer
                            .as_ref()
                            .map(|outcome: &CommandOutcome| ExpectedAnswer::from(outcome))
                            .map_err(CommandError::clone),
                    );
                }
                Err(Unavailable::StorageFailed) => return Ok(None),
                Err(unavailable) => {
                    return Err(format!("a command was not carried out: {unavailable:?}"));
                }
            }
        }
        Ok(Some(answers))
    }

    /// Lets time pass. The engine notices what falls due on the way. `races`: deadlines that pass
    /// at the very end are left to whatever happens next.
    fn wait(&mut self, races: bool) -> ScenarioResult {
        let now = self.now();
        let deadlines: Vec<_> = self
            .alerts
            .deadlines()
            .filter(|at| *at > now && *at < now + 600 * SECOND)
            .collect();
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
            let near = self
                .alerts
                .decisions()
                .filter(|at| (target - SECOND..target + 2 * SECOND).contains(at));
            if let Some(at) = near.max() {
                target = (at / SECOND + 2) * SECOND + 310_000;
                continue;
            }
            let next = self
                .alerts
                .next_due()
                .map(|(at, _)| at)
                .filter(|at| *at < target - 2 * TICK);
            let Some(next) = next else { break };
            self.pass(next.max(self.now()))?;
        }
        if !races && self.alerts.next_due().is_some_and(|(at, _)| at <= target) {
            target += SECOND;
            self.pass(target)?;
        }
        self.clock
            .set(Timestamp::from_micros(target.max(self.now())));
        Ok(())
    }

    /// What falls due at a moment is noticed, a little later.
    fn pass(&mut self, at: i64) -> ScenarioResult {
        self.remember(&format!(
            "{:?} is due",
            self.alerts
                .next_due()
                .map(|(at, check)| (at - BEGINNING, check))
        ));
        self.clock.set(Timestamp::from_micros(at + TICK));
        self.look_at_clock()?;
        self.alerts.notice(at + TICK);
        self.settle()
    }

    /// What is due by now is noticed; then everything is compared.
    fn settle(&mut self) -> ScenarioResult {
        let mut now = self.now() + 2 * TICK;
        // What is due within a tick may have been noticed or not.
        while self
            .alerts
            .all_due()
            .any(|(at, _)| (now - TICK..=now).contains(&at))
        {
            now += TICK;
        }
        self.clock.set(Timestamp::from_micros(now));
        self.look_at_clock()?;
        self.alerts.notice(now);
        self.alerts.sweep();
        self.compare()
    }

    /// The machine sleeps, or the clock is set forward.
    fn sleep(&mut self) -> ScenarioResult {
        let slept = self.dice.pick(&[6, 29, 31, 600, 1200, 7200]) * SECOND;
        self.clock
            .jump_to(Timestamp::from_micros(self.now() + slept));
        self.look_at_clock()?;
        self.resume()
    }

    /// Takes over which times without pings the engine knows of, and what is due now.
    fn resume(&mut self) -> ScenarioResult {
        self.remember("awake");
        let away = self.engine().0.with_state(|state| state.outages.to_vec());
        self.alerts.outages = away
            .iter()
            .map(|away| (away.from.micros(), away.to.micros()))
            .collect();
        let now = self.now();
        self.alerts.notice(now);
        self.settle()
    }

    fn open(&mut self) -> ScenarioResult {
        let random = Random::seeded(self.dice.below(u64::MAX));
        let opened = engine::open(self.disk.medium(), &self.clock, |config| {
            config.random = random;
        });
        self.engine =
            Some(opened.map_err(|error| format!("the database cannot be opened: {error}"))?);
        self.look_at_clock()
    }

    fn stop_and_start(&mut self) -> ScenarioResult {
        let (handle, mut writer) = self.engine.take().expect("the engine is open");
        handle.close();
        while writer.step(false).map_err(|ended| format!("{ended:?}"))? {}
        drop((handle, writer));
        let stopped = self.now();
        self.power_off();
        self.open()?;
        self.alerts.restart();
        let is_long = self.now() - stopped >= 30 * SECOND;
        let known = self
            .engine()
            .0
            .with_state(|state| state.outages.last().map(|away| away.to.micros()));
        same!(
            known == Some(self.now()),
            is_long,
            "whether it is known that the server was away since {stopped}"
        );
        self.resume()
    }

    /// The power is off for a while.
    fn power_off(&mut self) {
        self.disk.power_off();
        self.engine = None;
        self.disk.power_on(&self.dice);
        let pause = self.dice.pick(&[0, 5, 20, 40, 300, 1500, 7200]) * SECOND;
        self.clock.set(Timestamp::from_micros(self.now() + pause));
    }

    /// Lets the power go while commands are carried out. What was answered is there; if nothing
    /// was, all of it is or nothing.
    fn lose_power(&mut self, commands: &[Command]) -> ScenarioResult {
        // What falls due just then would have been noticed or not.
        self.settle()?;
        self.cuts[0] += 1;
        let before = self.alerts.clone();
        self.disk.lose_power_after(self.dice.below(16) as u32);
        let answers = self.submit_commands(commands)?;
        let expected = self.expect(commands);
        if let Some(answers) = &answers {
            same!(*answers, expected, "answers to {commands:?}");
        }
        self.power_off();
        self.open()?;
        self.alerts.restart();
        if answers.is_some() {
            return self.resume();
        }
        self.cuts[1] += 1;
        let places = self.flip_indexes.clone();
        let Err(with) = self.resume() else {
            return Ok(());
        };
        self.cuts[2] += 1;
        (self.alerts, self.flip_indexes) = (before, places);
        self.alerts.restart();
        self.resume()
            .map_err(|without| format!("{with}\nand without what is in doubt: {without}"))
    }

    /// Compares what there is, what each check waits for, and what is there to be told and was
    /// told.
    fn compare(&mut self) -> ScenarioResult {
        let now = self.now();
        let (handle, _) = self.engine.as_ref().expect("the engine is open");
        verify::memory(&self.alerts.model, handle, now)?;
        handle.with_state(|state| {
            for check in state.checks() {
                let id = check.id.0;
                let own = &self.alerts.model.checks[&check.id.0];
                same!(
                    check.settings.failure_threshold,
                    own.failure_threshold,
                    "failures until check {id} is told"
                );
                let parents = check
                    .settings
                    .parents
                    .ids()
                    .iter()
                    .filter(|id| state.check(**id).is_some())
                    .map(|id| id.0);
                let expected = own
                    .parents
                    .iter()
                    .copied()
                    .filter(|id| self.alerts.model.checks.contains_key(id));
                same!(
                    parents.collect::<Vec<_>>(),
                    expected.collect::<Vec<_>>(),
                    "parents of check {id}"
                );
                let found = announcement_of(check.state.notification);
                // Of several parents that are down, the order of decisions in one batch settles
                // which one the check is recorded to be hidden behind.
                let is_known_parent = |parent: u64| {
                    own.parents.contains(&parent) && self.alerts.is_downtime_known(parent)
                };
                let is_hidden_either_way = match (found, self.alerts.announcements.get(&id)) {
                    (
                        Some(AnnouncementState::Held {
                            why: HoldCause::HiddenBehind(found),
                            until,
                        }),
                        Some(AnnouncementState::Held {
                            why: HoldCause::HiddenBehind(expected),
                            until: expected_until,
                        }),
                    ) => {
                        (until - expected_until).abs() < SECOND
                            && is_known_parent(found)
                            && is_known_parent(*expected)
                    }
                    _ => false,
                };
                let expected = self.alerts.announcements.get_mut(&id);
                match (found, expected) {
                    (Some(found), Some(expected)) if is_hidden_either_way => *expected = found,
                    // A decision that is put off is put off from the moment of the look. When a
                    // window opens again before it closes, it is looked at in
                    // between.
                    (
                        Some(AnnouncementState::Held { why, until }),
                        Some(AnnouncementState::Held {
                            why: same,
                            until: expected,
                        }),
                    ) if why == *same
                        && ((until - *expected).abs() < SECOND
                            || why == HoldCause::Window && until < *expected) =>
                    {
                        *expected = until;
                    }
                    (found, expected) => same!(
                        found,
                        expected.as_deref().copied(),
                        "what is told of check {id} at {now}"
                    ),
                }
            }
            for project_state in state.projects() {
                let windows: Vec<_> = project_state
                    .windows
                    .keys()
                    .map(|id| (project_state.project.id.0, id.0))
                    .collect();
                same!(
                    windows,
                    self.alerts
                        .model
                        .windows
                        .keys()
                        .copied()
                        .collect::<Vec<_>>(),
                    "windows"
                );
                for channel in project_state.channels.values() {
                    let health = (
                        channel.health.disabled.is_some(),
                        channel.health.failing.is_some(),
                    );
                    same!(
                        health,
                        self.alerts.health(channel.id.0),
                        "whether channel {} is disabled, and fails",
                        channel.id.0
                    );
                }
            }
            Ok::<(), String>(())
        })?;
        // The flips of a check that is deleted go with it.
        for last in handle.with_state(|state| {
            state
                .checks()
                .map(|check| check.state.last_flip)
                .collect::<Vec<_>>()
        }) {
            flip_index(handle, &mut self.flip_indexes, last)?;
        }
        let waiting: Vec<_> = handle.with_state(|state| state.outbox.rows().cloned().collect());
        let over = handle
            .deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true)
            .map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for row in &waiting {
            found.push(StoredMessage::waiting(
                row,
                flip_index(handle, &mut self.flip_indexes, row.flip)?,
            ));
        }
        for row in &over {
            found.push(StoredMessage::finished(
                row,
                flip_index(handle, &mut self.flip_indexes, row.flip)?,
            ));
        }
        found.sort_by_key(|found| found.number);
        self.alerts.log.compare(&found)
    }
}

fn announcement_of(telling: NotificationState) -> Option<AnnouncementState> {
    let why = |held| match held {
        HoldReason::ServerOutage => HoldCause::Outage,
        HoldReason::BelowThreshold => HoldCause::Failures,
        HoldReason::ParentPending => HoldCause::Parent,
        HoldReason::ParentDown(parent) => HoldCause::HiddenBehind(parent.0),
        HoldReason::MaintenanceWindow => HoldCause::Window,
        HoldReason::Trial => panic!("no project is on trial"),
    };
    match telling {
        NotificationState::NotNeeded => None,
        NotificationState::Pending { at, reason: held } => Some(AnnouncementState::Held {
            why: why(held),
            until: at.micros(),
        }),
        NotificationState::Notified => Some(AnnouncementState::Announced { heard: true }),
        NotificationState::Undelivered => Some(AnnouncementState::Announced { heard: false }),
    }
}

/// The place of a flip among those of its check, counted from 1.
fn flip_index(
    handle: &Handle,
    places: &mut BTreeMap<FlipNumber, usize>,
    flip: FlipNumber,
) -> Result<usize, String> {
    if flip == FlipNumber(0) {
        return Ok(0);
    }
    if let Some(place) = places.get(&flip) {
        return Ok(*place);
    }
    let logged = handle
        .flip(flip)
        .map_err(|error| error.to_string())?
        .ok_or(format!("{flip:?} is not logged"))?;
    let place = flip_index(handle, places, logged.previous)? + 1;
    places.insert(flip, place);
    Ok(place)
}
