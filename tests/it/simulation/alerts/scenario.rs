//! A simulated server on a disk that loses power, with few checks and channels and frequent events,
//! and the model of its alerts.

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
use crate::support::disk::{Disk, operations_before_fault};
use crate::support::engine;
use crate::support::seeded_rng::SeededRng;

/// 2026-11-20T00:00:00.31Z: with this offset nothing coincides with the start or end of a window.
const BEGINNING: i64 = 1_795_132_800_310_000;
const SECOND: i64 = 1_000_000;
/// Microseconds after which the engine has noticed a deadline by itself.
const TICK: i64 = 70_000;

/// Number of recent events in a failure message.
const MAX_REMEMBERED_EVENTS: usize = 60;

type ScenarioResult = Result<(), String>;
type Answers = Vec<Result<ExpectedAnswer, CommandError>>;

/// See the module.
pub(crate) struct AlertScenario {
    rng: SeededRng,
    disk: Disk,
    clock: Arc<ManualClock>,
    engine: Option<(Handle, Writer)>,
    alerts: AlertModel,
    /// Index of each flip of the engine among those of its check.
    flip_indexes: BTreeMap<FlipNumber, usize>,
    /// Power cuts, those of them that left a batch in doubt, and those of these whose batch was
    /// lost.
    pub(crate) cuts: [u32; 3],
    /// Recent events for failure messages.
    recent_events: VecDeque<String>,
}

impl AlertScenario {
    pub(crate) fn new(seed: u64) -> Result<Self, String> {
        let rng = SeededRng::seeded(seed);
        let disk = Disk::default();
        let clock = ManualClock::at(Timestamp::from_micros(BEGINNING));
        let alerts = AlertModel::default();
        let mut scenario = Self {
            rng,
            disk,
            clock,
            engine: None,
            alerts,
            flip_indexes: BTreeMap::new(),
            cuts: [0; 3],
            recent_events: VecDeque::new(),
        };
        scenario.open()?;
        for command in random_events::first_command(&scenario.rng) {
            scenario.execute(&[command])?;
        }
        for _ in 0..random_events::CHECKS + random_events::CHANNELS {
            let command = random_events::create_missing(&scenario.rng, &scenario.alerts.model);
            scenario.execute(&[command])?;
        }
        Ok(scenario)
    }

    /// Returns the number of occurrences of each case so far.
    pub(crate) fn cases(&self) -> impl Iterator<Item = (String, u32)> {
        self.alerts
            .cases
            .iter()
            .map(|(case, count)| (format!("{case:?}"), *count))
    }

    pub(crate) fn rows(&self) -> u32 {
        self.alerts.log.rows.len() as u32
    }

    /// Simulates one event. The error contains the recent events.
    pub(crate) fn step(&mut self) -> ScenarioResult {
        self.simulate_event().map_err(|difference| {
            let recent_events: Vec<_> = self.recent_events.iter().map(String::as_str).collect();
            let checks = self.alerts.describe().join("\n");
            format!(
                "{difference}\nrecent events, with seconds since the \
                 beginning:\n{}\nchecks:\n{checks}",
                recent_events.join("\n")
            )
        })
    }

    fn simulate_event(&mut self) -> ScenarioResult {
        match self.rng.below(100) {
            0..60 => {
                self.wait(true)?;
                let commands =
                    random_events::random_reports(&self.rng, &self.alerts.model, self.now());
                self.execute_with_power_cuts(&commands)
            }
            60..82 => {
                self.wait(false)?;
                let command = random_events::random_change(&self.rng, &self.alerts, self.now());
                self.execute_with_power_cuts(&[command])
            }
            82..92 => {
                let commands = random_events::random_sending(&self.rng, &self.alerts);
                self.execute_with_power_cuts(&commands)
            }
            92..95 => {
                self.wait(false)?;
                self.suspend()
            }
            _ => {
                self.wait(false)?;
                self.stop_and_start()
            }
        }
    }

    /// Executes commands, sometimes with a power cut, then compares everything.
    fn execute_with_power_cuts(&mut self, commands: &[Command]) -> ScenarioResult {
        if self.rng.chance(6) {
            return self.cut_power(commands);
        }
        self.execute(commands)
    }

    fn execute(&mut self, commands: &[Command]) -> ScenarioResult {
        let found = self
            .submit_commands(commands)?
            .ok_or("a healthy disk failed to store the batch")?;
        let expected = self.predict(commands);
        same!(found, expected, "answers to {commands:?}");
        self.settle()
    }

    fn predict(&mut self, commands: &[Command]) -> Answers {
        let now = self.now();
        commands
            .iter()
            .map(|command| self.alerts.execute(command, now))
            .collect()
    }

    fn record_event(&mut self, what: &str) {
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

    fn run_writer(&mut self) -> ScenarioResult {
        for _ in 0..3 {
            same!(
                self.engine().1.step(false),
                Ok(true),
                "a step of the writer"
            );
        }
        Ok(())
    }

    /// Submits commands together. Returns `None` if the disk failed to store their results.
    fn submit_commands(&mut self, commands: &[Command]) -> Result<Option<Answers>, String> {
        commands
            .iter()
            .for_each(|command| self.record_event(&format!("{command:?}")));
        let (handle, writer) = self.engine();
        let replies: Vec<_> = commands
            .iter()
            .map(|command| handle.submit(command.clone()))
            .collect();
        same!(writer.step(false), Ok(true), "a step of the writer");
        let mut answers = Vec::new();
        for reply in replies {
            let mut reply = reply
                .map_err(|unavailable| format!("a command was not accepted: {unavailable:?}"))?;
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
                    return Err(format!("a command was not executed: {unavailable:?}"));
                }
            }
        }
        Ok(Some(answers))
    }

    /// Lets time pass; the engine notices deadlines on the way. With `races`, deadlines that pass
    /// at the very end are left to the next event.
    fn wait(&mut self, races: bool) -> ScenarioResult {
        let now = self.now();
        let deadlines: Vec<_> = self
            .alerts
            .deadlines()
            .filter(|at| *at > now && *at < now + 600 * SECOND)
            .collect();
        let mut target = if races && !deadlines.is_empty() && self.rng.chance(75) {
            let race = self.rng.pick(&[0, 1, 3000, 60_000]);
            self.rng.pick(&deadlines) + race
        } else {
            let later = now + self.rng.pick(&[1, 20, 60, 60, 120, 400]) * SECOND;
            later / SECOND * SECOND + 310_000
        };
        if target % SECOND > 850_000 {
            target += SECOND + 310_000 - target % SECOND;
        }
        loop {
            // Only deadlines, no decisions, are due near the target.
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
            self.advance_past(next.max(self.now()))?;
        }
        if !races && self.alerts.next_due().is_some_and(|(at, _)| at <= target) {
            target += SECOND;
            self.advance_past(target)?;
        }
        self.clock
            .set(Timestamp::from_micros(target.max(self.now())));
        Ok(())
    }

    /// Advances the clock until just after `at`, so that the engine notices what is due then.
    fn advance_past(&mut self, at: i64) -> ScenarioResult {
        self.record_event(&format!(
            "{:?} is due",
            self.alerts
                .next_due()
                .map(|(at, check)| (at - BEGINNING, check))
        ));
        self.clock.set(Timestamp::from_micros(at + TICK));
        self.run_writer()?;
        self.alerts.process_all_due(at + TICK);
        self.settle()
    }

    /// Waits until everything due is noticed, then compares everything.
    fn settle(&mut self) -> ScenarioResult {
        let mut now = self.now() + 2 * TICK;
        // A deadline within the last tick may have been noticed or not.
        while self
            .alerts
            .all_due()
            .any(|(at, _)| (now - TICK..=now).contains(&at))
        {
            now += TICK;
        }
        self.clock.set(Timestamp::from_micros(now));
        self.run_writer()?;
        self.alerts.process_all_due(now);
        self.alerts.sweep();
        self.compare()
    }

    /// Suspends the machine or sets the clock forward.
    fn suspend(&mut self) -> ScenarioResult {
        let suspended = self.rng.pick(&[6, 20, 29, 31, 600, 1200, 7200]) * SECOND;
        self.clock
            .jump_to(Timestamp::from_micros(self.now() + suspended));
        self.run_writer()?;
        self.resume()
    }

    /// Copies the outages that the engine knows of, and processes everything due now.
    fn resume(&mut self) -> ScenarioResult {
        self.record_event("awake");
        let outages = self.engine().0.with_state(|state| state.outages.to_vec());
        self.alerts.outages = outages
            .iter()
            .map(|outage| (outage.from.micros(), outage.to.micros()))
            .collect();
        let now = self.now();
        self.alerts.process_all_due(now);
        self.settle()
    }

    fn open(&mut self) -> ScenarioResult {
        let random = Random::seeded(self.rng.below(u64::MAX));
        let opened = engine::open(self.disk.medium(), &self.clock, |config| {
            config.random = random;
        });
        self.engine =
            Some(opened.map_err(|error| format!("the database cannot be opened: {error}"))?);
        self.run_writer()
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
        let is_outage = self.now() - stopped >= 30 * SECOND;
        let known = self
            .engine()
            .0
            .with_state(|state| state.outages.last().map(|outage| outage.to.micros()));
        same!(
            known == Some(self.now()),
            is_outage,
            "the outage since {stopped} is recorded"
        );
        self.resume()
    }

    /// Turns the power off for a while.
    fn power_off(&mut self) {
        self.disk.power_off();
        self.engine = None;
        self.disk.power_on(&self.rng);
        let pause = self.rng.pick(&[0, 5, 20, 28, 40, 300, 1500, 7200]) * SECOND;
        self.clock.set(Timestamp::from_micros(self.now() + pause));
    }

    /// Cuts the power while commands are executed. Answered commands survive; without an answer,
    /// all of them survive or none.
    fn cut_power(&mut self, commands: &[Command]) -> ScenarioResult {
        // Otherwise a deadline in this tick would have been noticed or not.
        self.settle()?;
        self.cuts[0] += 1;
        let before = self.alerts.clone();
        self.disk
            .lose_power_after(operations_before_fault(&self.rng, 16));
        let answers = self.submit_commands(commands)?;
        let expected = self.predict(commands);
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
        let flip_indexes = self.flip_indexes.clone();
        let Err(with_batch) = self.resume() else {
            return Ok(());
        };
        self.cuts[2] += 1;
        (self.alerts, self.flip_indexes) = (before, flip_indexes);
        self.alerts.restart();
        self.resume().map_err(|without_batch| {
            format!("{with_batch}\nwithout the batch in doubt: {without_batch}")
        })
    }

    /// Compares objects, pending decisions and messages with the model.
    fn compare(&mut self) -> ScenarioResult {
        let now = self.now();
        let (handle, _) = self.engine.as_ref().expect("the engine is open");
        verify::memory(&self.alerts.model, handle, now)?;
        handle.with_state(|state| {
            for check in state.checks() {
                let id = check.id.0;
                let model_check = &self.alerts.model.checks[&check.id.0];
                same!(
                    check.settings.failure_threshold,
                    model_check.failure_threshold,
                    "failure threshold of check {id}"
                );
                let limits = &check.settings.limits;
                let expected = self.alerts.limits(id);
                let limits = [limits.latest_start, limits.longest_run, limits.shortest_run];
                same!(
                    limits.map(|limit| i64::from(limit.number())),
                    [
                        expected.latest_start,
                        expected.longest_run,
                        expected.shortest_run
                    ],
                    "limits of check {id}"
                );
                let parents = check
                    .settings
                    .parents
                    .ids()
                    .iter()
                    .filter(|id| state.check(**id).is_some())
                    .map(|id| id.0);
                let expected = model_check
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
                // If several parents are down, the order of decisions within a batch determines
                // which one hides the check.
                let is_known_parent = |parent: u64| {
                    model_check.parents.contains(&parent) && self.alerts.is_downtime_known(parent)
                };
                let is_hidden_either_way = match (found, self.alerts.announcements.get(&id)) {
                    (
                        Some(AnnouncementState::Held {
                            cause: HoldCause::HiddenBehind(found),
                            until,
                        }),
                        Some(AnnouncementState::Held {
                            cause: HoldCause::HiddenBehind(expected),
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
                    // A postponed decision is postponed from the time of the engine's look at it.
                    // If a window recurs before it ends, the engine looks again in between.
                    (
                        Some(AnnouncementState::Held { cause, until }),
                        Some(AnnouncementState::Held {
                            cause: same,
                            until: expected,
                        }),
                    ) if cause == *same && (until - *expected).abs() < SECOND => {
                        *expected = until;
                    }
                    (found, expected) => same!(
                        found,
                        expected.as_deref().copied(),
                        "alert state of check {id} at {now}"
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
                        "channel {} is disabled, and is failing",
                        channel.id.0
                    );
                }
            }
            Ok::<(), String>(())
        })?;
        // Deleting a check deletes its flips.
        for (check, last) in handle.with_state(|state| {
            state
                .checks()
                .map(|check| (check.id.0, check.state.last_flip))
                .collect::<Vec<_>>()
        }) {
            let count = flip_index(handle, &mut self.flip_indexes, last)?;
            same!(
                count,
                self.alerts.flip_count(check),
                "flips of check {check}"
            );
        }
        let waiting: Vec<_> = handle.with_state(|state| state.outbox.rows().cloned().collect());
        let finished = handle
            .deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true)
            .map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for row in &waiting {
            found.push(StoredMessage::waiting(
                row,
                flip_index(handle, &mut self.flip_indexes, row.flip)?,
            ));
        }
        for row in &finished {
            found.push(StoredMessage::finished(
                row,
                flip_index(handle, &mut self.flip_indexes, row.flip)?,
            ));
        }
        found.sort_by_key(|found| found.number);
        self.alerts.allow_uncertain_warnings(now);
        self.alerts.adopt_uncertain_warnings(&found);
        self.alerts.log.compare(&found)
    }
}

fn announcement_of(state: NotificationState) -> Option<AnnouncementState> {
    let cause_of = |reason| match reason {
        HoldReason::ServerOutage => HoldCause::Outage,
        HoldReason::BelowThreshold => HoldCause::Failures,
        HoldReason::ParentPending => HoldCause::Parent,
        HoldReason::ParentDown(parent) => HoldCause::HiddenBehind(parent.0),
        HoldReason::MaintenanceWindow => HoldCause::Window,
        HoldReason::Trial => panic!("no project is on trial"),
    };
    match state {
        NotificationState::NotNeeded => None,
        NotificationState::Pending { at, reason } => Some(AnnouncementState::Held {
            cause: cause_of(reason),
            until: at.micros(),
        }),
        NotificationState::Notified => Some(AnnouncementState::Announced { reached: true }),
        NotificationState::Undelivered => Some(AnnouncementState::Announced { reached: false }),
    }
}

/// Returns the index of a flip among those of its check, from 1.
fn flip_index(
    handle: &Handle,
    flip_indexes: &mut BTreeMap<FlipNumber, usize>,
    flip: FlipNumber,
) -> Result<usize, String> {
    if flip == FlipNumber(0) {
        return Ok(0);
    }
    if let Some(index) = flip_indexes.get(&flip) {
        return Ok(*index);
    }
    let logged = handle
        .flip(flip)
        .map_err(|error| error.to_string())?
        .ok_or(format!("{flip:?} is not logged"))?;
    let index = flip_index(handle, flip_indexes, logged.previous)? + 1;
    flip_indexes.insert(flip, index);
    Ok(index)
}
