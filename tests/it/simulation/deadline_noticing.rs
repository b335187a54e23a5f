//! Whatever notices a deadline, the same channels are notified: each story is played twice. Once
//! every deadline is noticed by `ExpireChecks` as soon as it has passed, once by the pings and
//! other commands that come within the same tick of the wheel.

use overdue::domain::check::Check;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::ids::{CheckId, DeliveryNumber, FlipNumber, ProjectId};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::parents::Parents;
use overdue::domain::ping::PingKind;
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{FailureThreshold, Name, Seconds, Tags};
use overdue::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use overdue::domain::timezone::Timezone;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{Command, CommandOutcome, NewWindow};
use overdue::store::Medium;

use super::{are_default_seeds, seeds};
use crate::support::commands::{create_check, ping};
use crate::support::engine::TestEngine;
use crate::support::seeded_rng::SeededRng;

const MAIN: ProjectId = ProjectId(1);
const CHECKS: u128 = 6;
/// Stories of a test run, and what happens in each.
const SCENARIO_COUNT: u64 = 60;
const ROUNDS: u32 = 80;
/// Microseconds after which the engine has noticed a deadline by itself.
const TICK: i64 = 70_000;

/// Commands that are given at a time, or none: the engine looks at the clock.
type TimedCommands = Vec<(Timestamp, Vec<Command>)>;

/// What has become of a flip for a channel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct FlipNotification {
    at: i64,
    check: u64,
    channel: u64,
    event: &'static str,
    outcome: &'static str,
    reason: String,
}

fn new_engine(dice: &SeededRng) -> (TestEngine, Vec<CheckId>) {
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
        let seconds = |of: &[i64]| Some(Seconds::parse(dice.pick(of)).unwrap());
        let tags = Some(Tags::parse(dice.pick(&["", "", "a"])).unwrap());
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
            .filter(|_| dice.chance(25))
            .take(2)
            .collect();
        let after = Some(FailureThreshold::parse(dice.pick(&[1, 1, 1, 2, 3])).unwrap());
        let parents = Some(Parents::new(parents).unwrap());
        engine.execute(Command::SetAlerting {
            check: id,
            after,
            parents,
        });
        ids.push(id);
    }
    for schedule in ["*/7 * * * *", "*/10 * * * *"]
        .into_iter()
        .take(dice.below(3) as usize)
    {
        let tags = Tags::parse("a").unwrap();
        let schedule = std::sync::Arc::new(Schedule::parse(schedule).unwrap());
        let times = WindowTimes::Recurring {
            schedule,
            tz: Timezone::utc(),
            minutes: dice.pick(&[1, 3]),
        };
        let window = NewWindow {
            uuid: dice.random().uuid(),
            project: MAIN,
            name: Name::default(),
            tags,
            times,
        };
        engine.execute(Command::CreateWindow(Box::new(window)));
    }
    // Nothing falls due when a window opens or closes.
    engine.clock.set(engine.handle.now().plus_micros(310_000));
    (engine, ids)
}

const PD_KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

/// What is due at a moment or has been: each check with the time at which it fell due, in that
/// order.
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

/// Has the engine do something at a moment; before that, everything that is due is noticed if it is
/// to `expire`.
fn run_at(engine: &mut TestEngine, at: Timestamp, commands: &[Command], expire: bool) {
    engine.clock.set(at);
    // One may be due because of another.
    for _ in 0..if expire { CHECKS } else { 0 } {
        let ids: Vec<_> = due(engine, at).into_iter().map(|(_, id)| id).collect();
        if ids.is_empty() {
            break;
        }
        engine.execute(Command::ExpireChecks(ids));
    }
    if commands.is_empty() {
        (0..3).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
    } else {
        let _ = engine.batch(commands.iter().cloned());
    }
}

fn random_command(dice: &SeededRng, uuid: u128, id: CheckId) -> Command {
    match dice.below(100) {
        0..60 => ping(uuid, PingKind::Success, ""),
        60..75 => ping(uuid, PingKind::Fail, ""),
        75..83 => ping(uuid, PingKind::Start, ""),
        83..88 => ping(uuid, PingKind::Log, ""),
        88..91 => Command::PauseCheck(id),
        91..94 => Command::ResumeCheck(id),
        94..97 => {
            let tags = Some(Tags::parse(dice.pick(&["", "a"])).unwrap());
            Command::UpdateCheck(
                id,
                Box::new(CheckEdit {
                    tags,
                    ..CheckEdit::default()
                }),
            )
        }
        _ => Command::SetAlerting {
            check: id,
            after: Some(FailureThreshold::parse(dice.pick(&[1, 2])).unwrap()),
            parents: None,
        },
    }
}

/// Makes a story up while it is played, with every deadline noticed at once.
fn record_script(dice: &SeededRng, engine: &mut TestEngine, ids: &[CheckId]) -> TimedCommands {
    let mut script = TimedCommands::new();
    let mut say =
        |engine: &mut TestEngine, at: Timestamp, commands: Vec<Command>, looks_again: bool| {
            run_at(engine, at, &commands, true);
            script.push((at, commands));
            // What falls due within a tick of this look is noticed by one engine only. The next
            // look may be seconds later, when a window is open.
            if looks_again {
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
        let later = now.plus_secs(1 + dice.below(50) as i64);
        let target = if deadlines.is_empty() || dice.chance(20) {
            later
        } else {
            dice.pick(&deadlines)
        };
        // On the way there the engine notices what falls due.
        let mut at = now;
        loop {
            let looks: Vec<_> = due(engine, Timestamp::from_secs(i64::MAX / MICROS_PER_SEC / 2))
                .into_iter()
                .map(|(at, _)| at)
                .collect();
            let next = looks
                .into_iter()
                .filter(|look| *look > at && *look < target.plus_micros(-3 * TICK))
                .min();
            let second = at.plus_secs(5);
            let is_decision = next.is_some_and(|next| next <= second);
            at = match next {
                Some(next) if is_decision => next.plus_micros(TICK),
                _ if second < target.plus_micros(-2 * TICK) => second,
                _ => break,
            };
            say(engine, at, Vec::new(), is_decision);
        }
        // Decisions that are due are made before somebody pings; deadlines are noticed by pings.
        let about = due(engine, target.plus_secs(2))
            .into_iter()
            .filter(|(at, id)| {
                let check = engine.read_check(*id);
                check.state.deadline(&check.settings) != Some(*at)
            });
        if let Some((at, _)) = about.last() {
            let at = at.max(engine.handle.now()).plus_secs(2);
            say(engine, at, Vec::new(), true);
            continue;
        }
        let at = target
            .max(engine.handle.now())
            .plus_micros(dice.pick(&[0, 1, 3000, 60_000]));
        let mut commands = Vec::new();
        for (uuid, id) in (0..).zip(ids) {
            let check = engine.read_check(*id);
            let is_overdue = check
                .state
                .deadline(&check.settings)
                .is_some_and(|deadline| deadline <= at);
            if dice.chance(if is_overdue { 70 } else { 25 }) {
                commands.push(random_command(dice, uuid, *id));
            }
        }
        if dice.chance(50) {
            commands.reverse();
        }
        say(engine, at, commands, true);
    }
    // Everything that waits is decided.
    let end = engine.handle.now().plus_secs(3000);
    while engine.handle.now() < end {
        let later = engine.handle.now().plus_secs(15);
        let next = due(engine, later.plus_micros(TICK))
            .first()
            .map(|(at, _)| (*at).max(engine.handle.now()).plus_micros(TICK));
        say(engine, next.unwrap_or(later), Vec::new(), next.is_some());
    }
    script
}

/// What was told of all flips, in order.
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
                    "waits",
                    String::new(),
                )
            })
            .collect()
    });
    let over = engine
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
    let mut told: Vec<_> = waiting
        .into_iter()
        .chain(over)
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
    told.sort();
    told
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
            .filter(|told| told.outcome == "skipped")
            .count();
    }
    println!("{count} alerts, {skipped} of them skipped");
    assert!(
        !are_default_seeds(&seeds, SCENARIO_COUNT) || (count > 1000 && skipped > 100),
        "too little has happened: {count}, {skipped}"
    );
}
