//! The channels notified do not depend on the command that notices a deadline. Each script is
//! played twice: once `EvaluateChecks` notices each deadline as soon as it has passed, once pings
//! and other commands notice them within the same tick of the timer wheel.

use overdue::domain::check::Check;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::ids::{CheckId, DeliveryNumber, FlipNumber, ProjectId};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::number::{FailureThreshold, Seconds};
use overdue::domain::parents::Parents;
use overdue::domain::ping::PingKind;
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{Name, Tags};
use overdue::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use overdue::domain::timezone::Timezone;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{Command, CommandOutcome, NewWindow};
use overdue::store::Medium;

use super::commands::random_pause_end;
use super::{are_default_seeds, seeds};
use crate::support::commands::{create_check, ping};
use crate::support::engine::TestEngine;
use crate::support::seeded_rng::SeededRng;

const MAIN: ProjectId = ProjectId(1);
const CHECKS: u128 = 6;
/// Number of scripts in a test run, and of rounds in each.
const SCENARIO_COUNT: u64 = 60;
const ROUNDS: u32 = 80;
/// Microseconds after which the engine has noticed a deadline by itself.
const TICK: i64 = 70_000;

/// Commands by time. An empty list is a tick of the engine.
type TimedCommands = Vec<(Timestamp, Vec<Command>)>;

/// Result of a flip for a channel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct FlipNotification {
    at: i64,
    check: u64,
    channel: u64,
    event: &'static str,
    outcome: &'static str,
    reason: String,
}

fn new_engine(rng: &SeededRng) -> (TestEngine, Vec<CheckId>) {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    for (number, kind, pairs) in [
        (
            1,
            "webhook",
            vec![("down-url", "http://a/"), ("up-url", "http://a/")],
        ),
        (2, "pd", vec![("key", PD_KEY)]),
    ] {
        crate::outbox::channel(&mut engine, number, kind, &pairs);
    }
    let mut ids: Vec<CheckId> = Vec::new();
    for uuid in 0..CHECKS {
        let seconds = |of: &[i64]| Some(Seconds::parse(rng.pick(of)).unwrap());
        let tags = Some(Tags::parse(rng.pick(&["", "", "a"])).unwrap());
        let timeout = seconds(&[60, 60, 90, 120]);
        let grace = seconds(&[60, 60, 75]);
        let edit = CheckEdit {
            channels: Some(ChannelSelection::All),
            tags,
            timeout,
            grace,
            ..CheckEdit::default()
        };
        let CommandOutcome::CheckCreated(check) = engine.execute(create_check(MAIN, uuid, edit))
        else {
            panic!()
        };
        let id = check.id;
        let parents = ids
            .iter()
            .copied()
            .filter(|_| rng.chance(25))
            .take(2)
            .collect();
        let after = Some(FailureThreshold::parse(rng.pick(&[1, 1, 1, 2, 3])).unwrap());
        let parents = Some(Parents::new(parents).unwrap());
        engine.execute(Command::UpdateAlertSettings {
            check: id,
            failure_threshold: after,
            parents,
        });
        ids.push(id);
    }
    for schedule in ["*/7 * * * *", "*/10 * * * *"]
        .into_iter()
        .take(rng.below(3) as usize)
    {
        let tags = Tags::parse("a").unwrap();
        let schedule = std::sync::Arc::new(Schedule::parse(schedule).unwrap());
        let times = WindowTimes::Recurring {
            schedule,
            tz: Timezone::utc(),
            minutes: rng.pick(&[1, 3]),
        };
        let window = NewWindow {
            uuid: rng.random().uuid(),
            project: MAIN,
            name: Name::default(),
            tags,
            times,
        };
        engine.execute(Command::CreateWindow(Box::new(window)));
    }
    // With this offset no deadline coincides with the start or end of a window.
    engine.clock.set(engine.handle.now().plus_micros(310_000));
    (engine, ids)
}

const PD_KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// Returns the checks whose deadline or decision is due at `now`, sorted by the time at which it
/// fell due.
fn due(engine: &TestEngine, now: Timestamp) -> Vec<(Timestamp, CheckId)> {
    let at = |check: &Check| {
        check
            .state
            .next_evaluation(&check.settings)
            .filter(|at| *at <= now)
    };
    let mut due: Vec<_> = engine.handle.with_state(|state| {
        state
            .checks()
            .filter_map(|check| Some((at(check)?, check.id)))
            .collect()
    });
    due.sort_unstable();
    due
}

/// Executes commands at a time, or a tick if there are none. With `expire`, the engine first
/// processes everything that is due.
fn run_at(engine: &mut TestEngine, at: Timestamp, commands: &[Command], expire: bool) {
    engine.clock.set(at);
    // One deadline may make another check due.
    for _ in 0..if expire { CHECKS } else { 0 } {
        let ids: Vec<_> = due(engine, at).into_iter().map(|(_, id)| id).collect();
        if ids.is_empty() {
            break;
        }
        engine.execute(Command::EvaluateChecks(ids));
    }
    if commands.is_empty() {
        (0..3).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
    } else {
        let _ = engine.batch(commands.iter().cloned());
    }
}

fn random_command(rng: &SeededRng, uuid: u128, id: CheckId, now: Timestamp) -> Command {
    match rng.below(100) {
        0..60 => ping(uuid, PingKind::Success, ""),
        60..75 => ping(uuid, PingKind::Fail, ""),
        75..83 => ping(uuid, PingKind::Start, ""),
        83..88 => ping(uuid, PingKind::Log, ""),
        88..91 => Command::PauseCheck(id, random_pause_end(rng, now.micros())),
        91..94 => Command::ResumeCheck(id),
        94..97 => {
            let tags = Some(Tags::parse(rng.pick(&["", "a"])).unwrap());
            Command::UpdateCheck(
                id,
                Box::new(CheckEdit {
                    tags,
                    ..CheckEdit::default()
                }),
            )
        }
        _ => Command::UpdateAlertSettings {
            check: id,
            failure_threshold: Some(FailureThreshold::parse(rng.pick(&[1, 2])).unwrap()),
            parents: None,
        },
    }
}

/// Creates a random script by playing it with each deadline noticed at once.
fn record_script(rng: &SeededRng, engine: &mut TestEngine, ids: &[CheckId]) -> TimedCommands {
    let mut script = TimedCommands::new();
    let mut play =
        |engine: &mut TestEngine, at: Timestamp, commands: Vec<Command>, ticks_again: bool| {
            run_at(engine, at, &commands, true);
            script.push((at, commands));
            // A deadline within a tick of these commands would be noticed in one of the two runs
            // only. With an open window, the next tick may be seconds later.
            if ticks_again {
                let again = at.plus_micros(2 * TICK);
                run_at(engine, again, &[], false);
                script.push((again, Vec::new()));
            }
        };
    for _ in 0..ROUNDS {
        let now = engine.handle.now();
        let deadlines: Vec<_> = engine.handle.with_state(|state| {
            let deadlines = state
                .checks()
                .filter_map(|check| check.state.deadline(&check.settings));
            deadlines
                .filter(|at| *at > now && *at < now.plus_secs(400))
                .collect()
        });
        let later = now.plus_secs(1 + rng.below(50) as i64);
        let target = if deadlines.is_empty() || rng.chance(20) {
            later
        } else {
            rng.pick(&deadlines)
        };
        // The engine notices deadlines before the target by itself.
        let mut at = now;
        loop {
            let ticks: Vec<_> = due(engine, Timestamp::from_secs(i64::MAX / MICROS_PER_SEC / 2))
                .into_iter()
                .map(|(at, _)| at)
                .collect();
            let next = ticks
                .into_iter()
                .filter(|tick| *tick > at && *tick < target.plus_micros(-3 * TICK))
                .min();
            let second = at.plus_secs(5);
            let is_decision = next.is_some_and(|next| next <= second);
            at = match next {
                Some(next) if is_decision => next.plus_micros(TICK),
                _ if second < target.plus_micros(-2 * TICK) => second,
                _ => break,
            };
            play(engine, at, Vec::new(), is_decision);
        }
        // Decisions are made before the commands; deadlines are noticed by the commands.
        let decisions = due(engine, target.plus_secs(2))
            .into_iter()
            .filter(|(at, id)| {
                let check = engine.read_check(*id);
                check.state.deadline(&check.settings) != Some(*at)
            });
        if let Some((at, _)) = decisions.last() {
            let at = at.max(engine.handle.now()).plus_secs(2);
            play(engine, at, Vec::new(), true);
            continue;
        }
        let at = target
            .max(engine.handle.now())
            .plus_micros(rng.pick(&[0, 1, 3000, 60_000]));
        let mut commands = Vec::new();
        for (uuid, id) in (0..).zip(ids) {
            let check = engine.read_check(*id);
            let is_overdue = check
                .state
                .deadline(&check.settings)
                .is_some_and(|deadline| deadline <= at);
            if rng.chance(if is_overdue { 70 } else { 25 }) {
                commands.push(random_command(rng, uuid, *id, at));
            }
        }
        if rng.chance(50) {
            commands.reverse();
        }
        play(engine, at, commands, true);
    }
    // Process all pending decisions.
    let end = engine.handle.now().plus_secs(3000);
    while engine.handle.now() < end {
        let later = engine.handle.now().plus_secs(15);
        let next = due(engine, later.plus_micros(TICK))
            .first()
            .map(|(at, _)| (*at).max(engine.handle.now()).plus_micros(TICK));
        play(engine, next.unwrap_or(later), Vec::new(), next.is_some());
    }
    script
}

/// Returns the notifications of all flips, sorted.
fn notifications(engine: &TestEngine) -> Vec<FlipNotification> {
    let at = |flip: FlipNumber| {
        engine
            .handle
            .flip(flip)
            .unwrap()
            .map_or(0, |logged| logged.flip.at.micros())
    };
    let waiting: Vec<_> = engine.handle.with_state(|state| {
        state
            .outbox
            .rows()
            .map(|row| {
                (
                    row.flip,
                    row.check,
                    row.channel,
                    row.event,
                    "waiting",
                    String::new(),
                )
            })
            .collect()
    });
    let finished = engine
        .handle
        .deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true)
        .unwrap()
        .into_iter()
        .map(|delivery| {
            (
                delivery.flip,
                delivery.check,
                delivery.channel,
                delivery.event,
                delivery.result.name(),
                delivery.reason.to_string(),
            )
        });
    let mut notifications: Vec<_> = waiting
        .into_iter()
        .chain(finished)
        .map(
            |(flip, check, channel, event, outcome, reason)| FlipNotification {
                at: at(flip),
                check: check.0,
                channel: channel.0,
                event: event.name(),
                outcome,
                reason,
            },
        )
        .collect();
    notifications.sort();
    notifications
}

#[test]
fn whatever_notices_a_deadline_the_same_channels_are_notified() {
    let seeds = seeds(SCENARIO_COUNT);
    let mut count = 0;
    let mut skipped = 0;
    for seed in seeds.clone() {
        let (mut first, ids) = new_engine(&SeededRng::seeded(seed));
        let script = record_script(&SeededRng::seeded(seed), &mut first, &ids);
        let (mut second, _) = new_engine(&SeededRng::seeded(seed));
        for (at, commands) in &script {
            run_at(&mut second, *at, commands, false);
        }
        let [expected, found] = [&first, &second].map(notifications);
        let difference = expected
            .iter()
            .zip(&found)
            .find(|(expected, found)| expected != found);
        assert!(
            expected == found,
            "seed {seed}: noticed at once {:?}, by commands {:?}",
            difference.map(|pair| pair.0),
            difference.map(|pair| pair.1)
        );
        count += expected.len();
        skipped += expected
            .iter()
            .filter(|notification| notification.outcome == "skipped")
            .count();
    }
    println!("{count} alerts, {skipped} of them skipped");
    assert!(
        !are_default_seeds(&seeds, SCENARIO_COUNT) || (count > 1000 && skipped > 100),
        "too few cases: {count}, {skipped}"
    );
}
