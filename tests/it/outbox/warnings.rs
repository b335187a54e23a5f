//! Warnings about checks that are late and about runs that pass the limits of their check.

use std::collections::BTreeSet;

use overdue::domain::check::{RunLimit, WarningKind};
use proptest::prelude::*;

use super::parents::set_parents;
use super::windows::window;
use super::*;

const ALL_EVENTS: &[(&str, &str)] = &[
    ("down-url", "http://a/"),
    ("up-url", "http://a/"),
    ("send", "down,up,late,limits"),
];

fn limit(secs: i64) -> Option<RunLimit> {
    Some(RunLimit::parse(secs).unwrap())
}

/// Creates a check with an hourly ping, ten minutes of grace and these limits, and pings it.
fn create_limited(
    engine: &mut TestEngine,
    uuid: u128,
    [latest, longest, shortest]: [i64; 3],
) -> CheckId {
    let id = create_periodic_check(engine, uuid, 3600, 600);
    engine.execute(Command::UpdateCheck(
        id,
        Box::new(CheckEdit {
            latest_start: limit(latest),
            longest_run: limit(longest),
            shortest_run: limit(shortest),
            ..CheckEdit::default()
        }),
    ));
    engine.execute(ping(uuid, PingKind::Success, ""));
    id
}

fn warnings(engine: &TestEngine) -> Vec<(ChannelId, WarningKind)> {
    let rows = waiting(engine).into_iter();
    rows.filter_map(|(channel, _, event)| match event {
        AlertEvent::Warning(kind) => Some((channel, kind)),
        _ => None,
    })
    .collect()
}

/// Stops an engine and opens its database again.
fn restart(mut engine: TestEngine, disk: &Disk) -> TestEngine {
    engine.handle.close();
    while engine.writer.step(false).unwrap() {}
    let clock = Arc::clone(&engine.clock);
    drop(engine);
    let (handle, writer) = open(disk.medium(), &clock, |_| ()).unwrap();
    TestEngine {
        handle,
        writer,
        clock,
    }
}

#[test]
fn a_late_check_warns_the_channels_that_choose_it_once_for_each_expected_ping() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let mail = channel(
        &mut engine,
        2,
        "email",
        &[("to", "a@example.org"), ("send", "late")],
    );
    channel(
        &mut engine,
        3,
        "email",
        &[("to", "a@example.org"), ("send", "limits")],
    );
    channel(&mut engine, 4, "pd", &[("key", &"0".repeat(32))]);
    create_limited(&mut engine, 7, [0, 0, 0]);
    wait(&mut engine, 3659);
    assert_eq!(waiting(&engine), []);
    wait(&mut engine, 2);
    assert_eq!(warnings(&engine), [(mail, WarningKind::Late)]);
    // A restart does not repeat it.
    let mut engine = restart(engine, &disk);
    wait(&mut engine, 60);
    assert_eq!(warnings(&engine).len(), 1);
    engine.execute(ping(7, PingKind::Success, ""));
    wait(&mut engine, 3661);
    assert_eq!(warnings(&engine).len(), 2);
    assert_eq!(outcomes(&engine), []);
}

#[test]
fn runs_outside_their_limits_warn() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", ALL_EVENTS);
    create_limited(&mut engine, 7, [120, 300, 30]);
    // The run that starts three minutes late was announced after two.
    wait(&mut engine, 3600);
    wait(&mut engine, 61);
    wait(&mut engine, 60);
    let expected = [(hook, WarningKind::Late), (hook, WarningKind::NotStarted)];
    assert_eq!(warnings(&engine), expected);
    wait(&mut engine, 60);
    engine.execute(ping(7, PingKind::Start, ""));
    wait(&mut engine, 299);
    assert_eq!(warnings(&engine).len(), 2);
    wait(&mut engine, 2);
    assert_eq!(warnings(&engine)[2..], [(hook, WarningKind::RanLong)]);
    wait(&mut engine, 10);
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(warnings(&engine).len(), 3);
    // A short run: only a success is suspicious.
    for (kind, expected) in [(PingKind::Fail, 3), (PingKind::Success, 4)] {
        engine.execute(ping(7, PingKind::Start, ""));
        wait(&mut engine, 29);
        engine.execute(ping(7, kind, ""));
        assert_eq!(warnings(&engine).len(), expected, "{kind:?}");
    }
    let row = engine
        .handle
        .with_state(|state| state.outbox.rows().last().cloned().unwrap());
    assert_eq!(
        (row.event, row.limit.secs()),
        (AlertEvent::Warning(WarningKind::RanShort), Some(30))
    );
}

#[test]
fn warnings_that_would_mislead_are_logged_instead() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", ALL_EVENTS);
    let parent = create_periodic_check(&mut engine, 5, 86_400, 600);
    let child = create_limited(&mut engine, 7, [0, 0, 0]);
    set_parents(&mut engine, child, &[parent]).unwrap();
    let mut expected = Vec::new();
    let mut expect_skipped = |engine: &TestEngine, reason: &str| {
        let kind = AlertEvent::Warning(WarningKind::Late);
        expected.push((kind, DeliveryResult::Skipped, reason.to_owned()));
        assert_eq!(outcomes(engine), expected);
        assert_eq!(warnings(engine), []);
    };
    // A window.
    wait(&mut engine, 3000);
    window(&mut engine, 20, "");
    wait(&mut engine, 661);
    expect_skipped(&engine, "a maintenance window was open");
    wait(&mut engine, 3);
    engine.execute(ping(7, PingKind::Success, ""));
    // An outage of the server.
    wait(&mut engine, 3590);
    sleep(&mut engine, 75);
    expect_skipped(
        &engine,
        "its ping may have been lost while the server could not receive pings",
    );
    engine.execute(ping(7, PingKind::Success, ""));
    // A parent that is down.
    engine.execute(ping(5, PingKind::Success, ""));
    engine.execute(ping(5, PingKind::Fail, ""));
    wait(&mut engine, 3661);
    expect_skipped(&engine, "a parent was down");
}

#[test]
fn a_parent_that_goes_down_first_prevents_a_warning_after_one_that_no_channel_takes() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(
        &mut engine,
        1,
        "email",
        &[("to", "a@example.org"), ("send", "down,up,limits")],
    );
    // The child is older than the parent: its warning would come first.
    let child = create_periodic_check(&mut engine, 7, 3600, 1200);
    let parent = create_periodic_check(&mut engine, 5, 3600, 600);
    let edit = CheckEdit {
        latest_start: limit(600),
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(child, Box::new(edit)));
    set_parents(&mut engine, child, &[parent]).unwrap();
    for uuid in [5, 7] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    // The child is late, which no channel wants to know.
    wait(&mut engine, 3661);
    // At the same time the parent goes down, and the child should have started.
    wait(&mut engine, 540);
    assert_eq!(engine.read_check(parent).state.status, Status::Down);
    assert_eq!(warnings(&engine), []);
    let kind = AlertEvent::Warning(WarningKind::NotStarted);
    let reason = "a parent was down".to_owned();
    assert_eq!(outcomes(&engine), [(kind, DeliveryResult::Skipped, reason)]);
}

#[test]
fn a_warning_that_fell_due_before_a_ping_takes_its_parent_down_is_sent() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", ALL_EVENTS);
    let parent = create_periodic_check(&mut engine, 5, 86400, 600);
    let child = create_limited(&mut engine, 7, [0, 0, 0]);
    set_parents(&mut engine, child, &[parent]).unwrap();
    engine.execute(ping(5, PingKind::Success, ""));
    let last = engine.handle.now();
    wait(&mut engine, 3590);
    // The engine notices by itself at the end of the tick that the child is late.
    engine.clock.set(last.plus_secs(3660));
    engine.execute(ping(5, PingKind::Fail, ""));
    assert_eq!(engine.read_check(parent).state.status, Status::Down);
    assert_eq!(warnings(&engine), [(hook, WarningKind::Late)]);
    assert_eq!(outcomes(&engine), []);
}

#[test]
fn a_short_run_causes_no_warning_from_the_deadline_of_a_parent_on() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let settings = [("to", "a@example.org"), ("send", "down,up,limits")];
    channel(&mut engine, 1, "email", &settings);
    let parent = create_periodic_check(&mut engine, 5, 3600, 600);
    let child = create_limited(&mut engine, 7, [0, 0, 30]);
    set_parents(&mut engine, child, &[parent]).unwrap();
    engine.execute(ping(5, PingKind::Success, ""));
    let last = engine.handle.now();
    wait(&mut engine, 4190);
    engine.execute(ping(7, PingKind::Success, ""));
    engine.execute(ping(7, PingKind::Start, ""));
    // The engine notices the deadline by itself at the end of the tick.
    engine.clock.set(last.plus_secs(4200));
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(engine.read_check(parent).state.status, Status::Down);
    assert_eq!(warnings(&engine), []);
    let skipped = outcomes(&engine).pop();
    let kind = AlertEvent::Warning(WarningKind::RanShort);
    let reason = "a parent was down".to_owned();
    assert_eq!(skipped, Some((kind, DeliveryResult::Skipped, reason)));
}

#[test]
fn warnings_that_a_batch_has_no_rows_for_are_given_by_the_next_ones() {
    let limits = HousekeepingLimits {
        max_alert_rows: 10,
        ..HousekeepingLimits::default()
    };
    let mut engine = TestEngine::open(Medium::memory(), limits);
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", ALL_EVENTS);
    for uuid in 100..135 {
        create_limited(&mut engine, uuid, [0, 0, 0]);
    }
    wait(&mut engine, 3661);
    assert_eq!(warnings(&engine).len(), 10);
    for _ in 0..4 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert_eq!(warnings(&engine), [(hook, WarningKind::Late); 35]);
}

#[test]
fn a_warning_that_no_channel_takes_costs_nothing() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = create_limited(&mut engine, 7, [120, 300, 30]);
    wait(&mut engine, 3700);
    wait(&mut engine, 100);
    assert_eq!((waiting(&engine).len(), outcomes(&engine).len()), (0, 0));
    let state = engine.read_check(id).state;
    assert_eq!(state.given_warnings.bits(), 0);
    assert_eq!(state.last_arrival.0, 1);
    assert!(engine.writer.covers_all_deadlines());
    // The deadline is still noticed.
    wait(&mut engine, 401);
    assert_eq!(engine.read_check(id).state.status, Status::Down);
}

#[test]
fn waiting_warnings_are_few_and_displace_no_change_of_status() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", ALL_EVENTS);
    create_limited(&mut engine, 7, [0, 0, 30]);
    for _ in 0..4 {
        engine.execute(ping(7, PingKind::Fail, ""));
        engine.execute(ping(7, PingKind::Success, ""));
    }
    for _ in 0..6 {
        engine.execute(ping(7, PingKind::Start, ""));
        engine.execute(ping(7, PingKind::Success, ""));
    }
    let rows = waiting(&engine);
    assert_eq!((rows.len(), warnings(&engine).len()), (12, 4));
    let superseded = outcomes(&engine);
    assert_eq!(superseded.len(), 2);
    assert!(superseded.iter().all(|(event, result, reason)| {
        event.is_warning()
            && *result == DeliveryResult::Superseded
            && reason == "newer warnings about this check wait for this channel"
    }));
    let dropped = engine
        .handle
        .with_state(|state| state.outbox.rows().last().unwrap().dropped_before);
    assert_eq!(dropped, 1);
}

#[test]
fn a_warning_to_a_disabled_channel_replaces_no_other() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", ALL_EVENTS);
    create_limited(&mut engine, 7, [0, 0, 30]);
    for _ in 0..4 {
        engine.execute(ping(7, PingKind::Start, ""));
        engine.execute(ping(7, PingKind::Success, ""));
    }
    let disable = Command::DisableChannel {
        channel: hook,
        reason: "gone".into(),
    };
    let start = ping(7, PingKind::Start, "");
    engine.batch([disable, start, ping(7, PingKind::Success, "")]);
    wait(&mut engine, 1);
    let kind = AlertEvent::Warning(WarningKind::RanShort);
    let skipped = (
        kind,
        DeliveryResult::Skipped,
        "the channel is disabled".to_owned(),
    );
    assert_eq!(outcomes(&engine), vec![skipped; 5]);
}

#[test]
fn a_warning_is_not_sent_again_by_hand() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", ALL_EVENTS);
    create_limited(&mut engine, 7, [0, 0, 0]);
    wait(&mut engine, 3661);
    let rows = numbers(&engine);
    report(&mut engine, hook, rows, SendOutcome::Failed("gone".into()));
    let delivery = finished(&engine).remove(0);
    let at = engine.handle.now();
    let retry = Command::RetryDelivery {
        delivery: Box::new(delivery),
        at,
    };
    assert_eq!(
        engine.batch([retry]).remove(0).unwrap(),
        Err(CommandError::Outdated)
    );
}

/// Model of a check: its rules, applied second by second.
struct Model {
    period: i64,
    grace: i64,
    latest_start: i64,
    longest_run: i64,
    shortest_run: i64,
    last: Option<i64>,
    run: Option<i64>,
    is_down: bool,
    given: BTreeSet<WarningKind>,
    events: Vec<(AlertEvent, i64)>,
}

impl Model {
    fn expected(&self) -> Option<i64> {
        let last = self.last.filter(|_| !self.is_down)?;
        Some(last + self.period)
    }

    fn evaluate(&mut self, now: i64) {
        if self.is_down {
            return;
        }
        let origins = self.expected().into_iter().chain(self.run);
        let Some(deadline) = origins.min().map(|origin| origin + self.grace) else {
            return;
        };
        if deadline <= now {
            self.is_down = true;
            self.given.clear();
            return self.events.push((AlertEvent::Down, deadline));
        }
        let expected = self.expected().filter(|_| self.run.is_none());
        let after = |from: Option<i64>, secs: i64| Some(from? + secs).filter(|_| secs > 0);
        let mut due: Vec<_> = [
            (after(expected, 60), WarningKind::Late),
            (after(expected, self.latest_start), WarningKind::NotStarted),
            (after(self.run, self.longest_run), WarningKind::RanLong),
        ]
        .into_iter()
        .filter_map(|(at, kind)| Some((at.filter(|at| *at <= now && *at < deadline)?, kind)))
        .collect();
        due.sort();
        for (at, kind) in due {
            if self.given.insert(kind) {
                self.events.push((AlertEvent::Warning(kind), at));
            }
        }
    }

    fn ping(&mut self, kind: PingKind, now: i64) {
        self.evaluate(now);
        match kind {
            PingKind::Start => {
                self.run = Some(now);
                self.given.remove(&WarningKind::RanLong);
            }
            PingKind::Fail => {
                if !std::mem::replace(&mut self.is_down, true) {
                    self.events.push((AlertEvent::Down, now));
                    self.given.clear();
                }
                (self.last, self.run) = (Some(now), None);
            }
            _ => {
                if std::mem::replace(&mut self.is_down, false) {
                    self.events.push((AlertEvent::Up, now));
                }
                let took = self.run.take().map(|start| now - start);
                if took.is_some_and(|took| took < self.shortest_run) {
                    self.events
                        .push((AlertEvent::Warning(WarningKind::RanShort), now));
                }
                self.last = Some(now);
                self.given.remove(&WarningKind::Late);
                self.given.remove(&WarningKind::NotStarted);
            }
        }
    }
}

/// What happens after a number of seconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ping(PingKind),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let step = prop_oneof![
        3 => Just(Step::Ping(PingKind::Success)),
        3 => Just(Step::Ping(PingKind::Start)),
        1 => Just(Step::Ping(PingKind::Fail)),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec((0..200_i64, step), 1..25)
}

/// Limit that is set in most cases.
fn limits() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0), 4 => 1..150_i64]
}

/// Takes the alerts that wait, as delivered.
fn take_events(engine: &mut TestEngine, hook: ChannelId, begin: i64) -> Vec<(AlertEvent, i64)> {
    let rows: Vec<_> = engine
        .handle
        .with_state(|state| state.outbox.rows().cloned().collect());
    if !rows.is_empty() {
        let numbers = rows.iter().map(|row| row.number).collect();
        report(engine, hook, numbers, SendOutcome::Delivered);
    }
    let since = |at: Timestamp| at.micros() / 1_000_000 - begin;
    rows.iter().map(|row| (row.event, since(row.at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn warnings_follow_the_rules_second_by_second(
        steps in steps(),
        (latest_start, longest_run, shortest_run) in (limits(), limits(), limits()),
        period in 60..180_i64,
        grace in 60..200_i64,
    ) {
        const BEGIN: i64 = 1_800_000_000;
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(1000);
        let hook = channel(&mut engine, 1, "webhook", ALL_EVENTS);
        let id = create_periodic_check(&mut engine, 7, period, grace);
        let edit = CheckEdit {
            latest_start: limit(latest_start),
            longest_run: limit(longest_run),
            shortest_run: limit(shortest_run),
            ..CheckEdit::default()
        };
        engine.execute(Command::UpdateCheck(id, Box::new(edit)));
        let mut model = Model {
            period,
            grace,
            latest_start,
            longest_run,
            shortest_run,
            last: None,
            run: None,
            is_down: false,
            given: BTreeSet::new(),
            events: Vec::new(),
        };
        let mut events = Vec::new();
        let mut now = 0;
        for (pause, step) in steps {
            for _ in 0..pause {
                now += 1;
                model.evaluate(now);
                // Entries of the wheel are due at the end of their tick.
                let tick = Timestamp::from_secs(BEGIN + now).plus_micros(100_000);
                engine.clock.set(tick);
                engine.writer.step(false).unwrap();
                events.extend(take_events(&mut engine, hook, BEGIN));
            }
            // A whole second, so that times are equal in the model.
            now += 1;
            engine.clock.set(Timestamp::from_secs(BEGIN + now));
            match step {
                Step::Ping(kind) => {
                    engine.execute(ping(7, kind, ""));
                    model.ping(kind, now);
                }
                Step::Restart => engine = restart(engine, &disk),
            }
            model.evaluate(now);
            engine.clock.set(Timestamp::from_secs(BEGIN + now).plus_micros(100_000));
            engine.writer.step(false).unwrap();
            events.extend(take_events(&mut engine, hook, BEGIN));
        }
        prop_assert_eq!(events, model.events);
    }
}
