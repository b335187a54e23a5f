//! Changes of the system clock: forward, back, small and large, with restarts in between.

use std::sync::Arc;

use overdue::channels;
use overdue::domain::alert::{AlertEvent, HoldReason, NotificationState, Outage};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check::CheckState;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::flip::{Flip, FlipCause};
use overdue::domain::ids::{ChannelId, CheckId, ProjectId};
use overdue::domain::number::{FailureThreshold, Seconds};
use overdue::domain::ping::PingKind;
use overdue::domain::project::ChannelName;
use overdue::domain::status::Status;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandOutcome, NewChannel};
use overdue::store::Medium;
use overdue::util::clock::ManualClock;
use uuid::Uuid;

use crate::support::commands::{create_check, ping};
use crate::support::disk::Disk;
use crate::support::engine::{self, TestEngine, log_lines_with};

const BEGINNING: Timestamp = Timestamp::from_secs(1_800_000_000);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn start(medium: Medium, clock: &Arc<ManualClock>) -> TestEngine {
    let (handle, writer) = engine::open(medium, clock, |_| {}).unwrap();
    TestEngine {
        handle,
        writer,
        clock: Arc::clone(clock),
    }
}

/// Stops as at SIGTERM or as at a crash, and starts again.
fn restart(mut engine: TestEngine, medium: Medium, cleanly: bool) -> TestEngine {
    if cleanly {
        engine.handle.close();
        while engine.writer.step(false).unwrap() {}
    }
    let clock = Arc::clone(&engine.clock);
    drop(engine);
    start(medium, &clock)
}

fn idle(engine: &mut TestEngine) {
    (0..20).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
}

/// Advances the clock by `secs`. The writer runs every minute and at the end.
fn wait(engine: &mut TestEngine, secs: i64) {
    let end = engine.handle.now().plus_secs(secs);
    while engine.handle.now() < end {
        engine
            .clock
            .set(engine.handle.now().plus_secs(MINUTE).min(end));
        idle(engine);
    }
}

/// Shifts the clock forward or back.
fn shift_clock(engine: &mut TestEngine, micros: i64) {
    engine
        .clock
        .jump_to(engine.handle.now().plus_micros(micros));
    idle(engine);
}

fn check_state(engine: &TestEngine, id: CheckId) -> CheckState {
    engine.read_check(id).state
}

/// Flips of a check, newest first.
fn flips(engine: &TestEngine, id: CheckId) -> Vec<Flip> {
    engine
        .handle
        .flips(&engine.read_check(id), Timestamp::from_micros(i64::MIN))
        .unwrap()
}

#[test]
fn a_check_that_is_pinged_after_a_clock_correction_is_monitored_as_before() {
    for (restarts, cleanly) in [(false, false), (true, false), (true, true)] {
        let disk = Disk::default();
        let mut engine = start(
            disk.medium(),
            &ManualClock::at(BEGINNING.plus_secs(120 * DAY)),
        );
        engine.create_project(100);
        let id = engine.create_check(7);
        engine.execute(ping(7, PingKind::Success, ""));
        engine.clock.jump_to(BEGINNING);
        if restarts {
            engine = restart(engine, disk.medium(), cleanly);
        }
        wait(&mut engine, 10);
        engine.execute(ping(7, PingKind::Success, ""));
        let pinged = BEGINNING.plus_secs(10);
        assert_eq!(
            check_state(&engine, id).last_ping,
            Some(pinged),
            "{restarts} {cleanly}"
        );
        let times: Vec<_> = engine
            .handle
            .pings(&engine.read_check(id))
            .unwrap()
            .iter()
            .map(|ping| (ping.n, ping.at))
            .collect();
        assert_eq!(times, [(2, pinged), (1, BEGINNING.plus_secs(120 * DAY))]);
        if restarts {
            engine = restart(engine, disk.medium(), cleanly);
        }
        wait(&mut engine, DAY + HOUR - 1);
        assert_eq!(
            check_state(&engine, id).status,
            Status::Up,
            "{restarts} {cleanly}"
        );
        wait(&mut engine, 2);
        assert_eq!(
            check_state(&engine, id).status,
            Status::Down,
            "{restarts} {cleanly}"
        );
        let deadline = pinged.plus_secs(DAY + HOUR);
        let Flip {
            at,
            from,
            to,
            cause,
            awaited_since: _,
        } = flips(&engine, id)[0];
        assert_eq!(
            (at, from, to, cause),
            (deadline, Status::Up, Status::Down, FlipCause::MissedPing)
        );
        assert!(engine.writer.covers_all_deadlines());
    }
}

#[test]
fn a_check_without_a_ping_since_a_clock_correction_is_monitored_after_an_hour() {
    let disk = Disk::default();
    let mut engine = start(
        disk.medium(),
        &ManualClock::at(BEGINNING.plus_secs(120 * DAY)),
    );
    engine.create_project(100);
    let pinged = engine.create_check(7);
    let started = engine.create_check(8);
    let other = engine.create_check(9);
    engine.execute(ping(7, PingKind::Success, ""));
    engine.execute(ping(8, PingKind::Start, ""));
    engine.clock.jump_to(BEGINNING);
    engine.execute(ping(9, PingKind::Success, ""));
    wait(&mut engine, HOUR - 1);
    // The clock may have been set back by mistake. Nothing is discarded until it has shown the same
    // time for an hour.
    assert_eq!(
        check_state(&engine, pinged).last_ping,
        Some(BEGINNING.plus_secs(120 * DAY))
    );
    wait(&mut engine, 1);
    let brought_back = BEGINNING.plus_secs(HOUR);
    for _ in 0..2 {
        assert_eq!(check_state(&engine, pinged).last_ping, Some(brought_back));
        assert_eq!(
            check_state(&engine, started).run.unwrap().start,
            brought_back
        );
        assert_eq!(check_state(&engine, other).last_ping, Some(BEGINNING));
        assert!(engine.writer.covers_all_deadlines());
        engine = restart(engine, disk.medium(), false);
    }
    wait(&mut engine, DAY + HOUR + 1);
    assert_eq!(
        flips(&engine, pinged)[0].at,
        brought_back.plus_secs(DAY + HOUR)
    );
    assert_eq!(flips(&engine, started)[0].at, brought_back.plus_secs(HOUR));
}

#[test]
fn times_that_a_start_finds_in_the_future_are_corrected_after_an_hour_too() {
    let disk = Disk::default();
    let mut engine = start(
        disk.medium(),
        &ManualClock::at(BEGINNING.plus_secs(120 * DAY)),
    );
    engine.create_project(100);
    let id = engine.create_check(7);
    engine.execute(ping(7, PingKind::Success, ""));
    engine.clock.jump_to(BEGINNING);
    engine = restart(engine, disk.medium(), true);
    wait(&mut engine, HOUR);
    assert_eq!(
        check_state(&engine, id).last_ping,
        Some(BEGINNING.plus_secs(HOUR))
    );
    wait(&mut engine, DAY + HOUR + 1);
    assert_eq!(check_state(&engine, id).status, Status::Down);
}

#[test]
fn no_clock_jump_prunes_flips() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING));
        engine.create_project(100);
        let id = engine.create_check(7);
        for _ in 0..10 {
            engine.batch([PingKind::Fail, PingKind::Success].map(|kind| ping(7, kind, "")));
            wait(&mut engine, HOUR);
        }
        let count = flips(&engine, id).len();
        // A server that restarts again and again under the wrong clock does not trust it any
        // sooner.
        engine
            .clock
            .jump_to(engine.handle.now().plus_secs(120 * DAY));
        for _ in 0..3 {
            if restarts {
                engine = restart(engine, disk.medium(), true);
            }
            idle(&mut engine);
            engine.execute(ping(7, PingKind::Success, ""));
            wait(&mut engine, 19 * MINUTE);
        }
        let ahead = flips(&engine, id);
        assert_eq!(ahead.len(), count + 2, "down in the silence, and up again");
        shift_clock(&mut engine, -120 * DAY * 1_000_000);
        if restarts {
            engine = restart(engine, disk.medium(), true);
        }
        wait(&mut engine, 10 * HOUR);
        assert_eq!(flips(&engine, id), ahead);
        // Passing time prunes them, except the two whose times were in the future.
        wait(&mut engine, 2 * DAY);
        engine.clock.advance_secs(95 * DAY);
        idle(&mut engine);
        let remaining = flips(&engine, id);
        assert!(
            remaining
                .iter()
                .all(|flip| flip.at > BEGINNING.plus_secs(2 * DAY)),
            "{remaining:?}"
        );
    }
}

#[test]
fn a_clock_that_is_stable_for_an_hour_prunes_despite_frequent_restarts() {
    let disk = Disk::default();
    let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING));
    engine.create_project(100);
    let id = engine.create_check(7);
    engine.batch([PingKind::Fail, PingKind::Success].map(|kind| ping(7, kind, "")));
    shift_clock(&mut engine, 120 * DAY * 1_000_000);
    for _ in 0..2 {
        engine.execute(ping(7, PingKind::Success, ""));
        assert!(flips(&engine, id).len() >= 3);
        wait(&mut engine, 29 * MINUTE);
        engine = restart(engine, disk.medium(), false);
        idle(&mut engine);
    }
    wait(&mut engine, 3 * MINUTE);
    engine = restart(engine, disk.medium(), false);
    idle(&mut engine);
    assert!(
        flips(&engine, id)
            .iter()
            .all(|flip| flip.at > BEGINNING.plus_secs(DAY))
    );
}

#[test]
fn times_never_decrease_when_the_clock_is_set_back_under_five_seconds() {
    let disk = Disk::default();
    let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING));
    engine.create_project(1000);
    let id = engine.create_check(7);
    for round in 0..30 {
        engine.execute(ping(
            7,
            [
                PingKind::Success,
                PingKind::Fail,
                PingKind::Start,
                PingKind::Log,
            ][round % 4],
            "",
        ));
        if round % 5 == 0 {
            engine
                .clock
                .jump_to(engine.handle.now().plus_micros(-4_999_999));
            engine = restart(engine, disk.medium(), round % 2 == 0);
        } else if round % 5 == 2 {
            shift_clock(&mut engine, -4_999_999);
        } else {
            engine.clock.set(engine.handle.now().plus_secs(6));
        }
    }
    let mut times: Vec<_> = engine
        .handle
        .pings(&engine.read_check(id))
        .unwrap()
        .iter()
        .map(|ping| ping.at)
        .collect();
    assert!(
        times.is_sorted_by(|newer, older| newer >= older),
        "{times:?}"
    );
    let changes = flips(&engine, id);
    assert!(
        changes.is_sorted_by(|newer, older| newer.at >= older.at),
        "{changes:?}"
    );
    // A jump counts at once.
    engine.clock.set(times.remove(0).plus_secs(10));
    engine.execute(ping(7, PingKind::Success, ""));
    shift_clock(&mut engine, -5_000_000);
    let now = engine.handle.now();
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(check_state(&engine, id).last_ping, Some(now));
}

#[test]
fn flips_are_found_by_their_times_in_any_order_of_arrival() {
    let mut engine = start(Medium::memory(), &ManualClock::at(BEGINNING));
    engine.create_project(100);
    let id = engine.create_check(7);
    engine.batch([PingKind::Success, PingKind::Fail].map(|kind| ping(7, kind, "")));
    // The clock is far behind for a while.
    shift_clock(&mut engine, -200 * DAY * 1_000_000);
    engine.batch([PingKind::Success, PingKind::Fail].map(|kind| ping(7, kind, "")));
    shift_clock(&mut engine, (200 * DAY + HOUR) * 1_000_000);
    engine.execute(ping(7, PingKind::Success, ""));
    let counts = |engine: &TestEngine| {
        let times = [0, HOUR, -200 * DAY].map(|secs| BEGINNING.plus_secs(secs));
        times.map(|from| {
            engine
                .handle
                .flips(&engine.read_check(id), from)
                .unwrap()
                .len()
        })
    };
    assert_eq!(counts(&engine), [3, 1, 5]);
    // Flips that are far too old precede others that are not.
    wait(&mut engine, 10 * HOUR);
    assert_eq!(counts(&engine), [3, 1, 5]);
}

#[test]
fn flips_are_read_no_further_back_than_requested_unless_the_clock_was_set_back() {
    let disk = Disk::default();
    let clock = ManualClock::at(BEGINNING);
    let mut engine = start(disk.medium(), &clock);
    engine.create_project(100);
    let id = engine.create_check(7);
    for _ in 0..12 {
        engine.batch(
            (0..100)
                .flat_map(|_| [PingKind::Success, PingKind::Fail].map(|kind| ping(7, kind, ""))),
        );
    }
    // True if the log continues with older flips than the request asked for.
    let goes_on = |engine: &TestEngine| {
        let check = engine.read_check(id);
        let (flips, older) = engine
            .handle
            .flips_page(&check, check.state.last_flip, BEGINNING.plus_secs(DAY))
            .unwrap();
        assert_eq!(flips.len(), 0);
        older.is_some()
    };
    assert!(!goes_on(&engine));
    drop(engine);
    let mut engine = start(disk.medium(), &clock);
    assert!(!goes_on(&engine));
    shift_clock(&mut engine, -HOUR * 1_000_000);
    engine.execute(ping(7, PingKind::Success, ""));
    assert!(goes_on(&engine));
    drop(engine);
    assert!(goes_on(&start(disk.medium(), &clock)));
}

#[test]
fn a_run_that_ends_before_its_start_by_the_clock_has_no_duration() {
    let mut engine = start(Medium::memory(), &ManualClock::at(BEGINNING));
    engine.create_project(100);
    let id = engine.create_check(7);
    engine.execute(ping(7, PingKind::Start, ""));
    shift_clock(&mut engine, -MINUTE * 1_000_000);
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(
        (
            check_state(&engine, id).last_duration,
            check_state(&engine, id).run
        ),
        (None, None)
    );
    let pings = engine.handle.pings(&engine.read_check(id)).unwrap();
    assert_eq!(overdue::domain::ping::run_durations(&pings), [None, None]);
}

#[test]
fn every_jump_is_one_line_in_the_log() {
    let disk = Disk::default();
    let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING));
    engine.create_project(100);
    let id = engine.create_check(7);
    engine.execute(Command::UpdateCheck(
        id,
        Box::new(CheckEdit {
            timeout: Some(Seconds::parse(MINUTE).unwrap()),
            ..CheckEdit::default()
        }),
    ));
    for (micros, words) in [
        (4_999_999, None),
        (-4_999_999, None),
        (5_000_000, Some("forward by 5 s")),
        (-5_000_000, Some("back by 5 s")),
        (120 * DAY * 1_000_000, Some("forward by 10368000 s")),
        (-120 * DAY * 1_000_000, Some("back by 10368000 s")),
    ] {
        let lines = log_lines_with("clock", || {
            shift_clock(&mut engine, micros);
            engine.execute(ping(7, PingKind::Success, ""));
            wait(&mut engine, 2 * HOUR);
        });
        assert_eq!(
            lines.len(),
            usize::from(words.is_some()),
            "{micros}: {lines:?}"
        );
        assert!(
            lines.iter().all(|line| line.contains(words.unwrap())),
            "{lines:?}"
        );
        engine.execute(ping(7, PingKind::Success, ""));
    }
    // Passing time is no jump.
    assert_eq!(
        log_lines_with("clock", || wait(&mut engine, DAY)),
        <[&str; 0]>::default()
    );
    engine.execute(ping(7, PingKind::Success, ""));
    let clock = Arc::clone(&engine.clock);
    let now = engine.handle.now();
    drop(engine);
    clock.jump_to(now.plus_secs(-100));
    let mut started = None;
    let lines = log_lines_with("clock", || started = Some(start(disk.medium(), &clock)));
    assert!(
        matches!(lines.as_slice(), [line] if line.contains("100 s ahead")),
        "{lines:?}"
    );
    let mut engine = started.unwrap();
    assert_eq!(
        log_lines_with("clock", || wait(&mut engine, 10)),
        <[&str; 0]>::default()
    );
}

fn webhook(engine: &mut TestEngine) -> ChannelId {
    let pairs = [("down-url", "http://a/down"), ("up-url", "http://a/up")];
    let settings = ChannelSettings::parse(
        channels::find_kind("webhook").unwrap(),
        pairs.iter().copied(),
    )
    .unwrap();
    let uuid = Uuid::from_u128(1);
    let name = ChannelName::parse("").unwrap();
    let channel = NewChannel {
        uuid,
        project: ProjectId(1),
        name,
        settings,
        set_by_operator: true,
    };
    match engine.execute(Command::CreateChannel(Box::new(channel))) {
        CommandOutcome::Channel(channel) => channel.id,
        outcome => panic!("{outcome:?}"),
    }
}

/// Creates a check with a period of five minutes and a minute of grace that notifies every channel.
fn create_watched_check(engine: &mut TestEngine, uuid: u128) -> CheckId {
    let seconds = |number| Some(Seconds::parse(number).unwrap());
    let edit = CheckEdit {
        channels: Some(ChannelSelection::All),
        timeout: seconds(300),
        grace: seconds(60),
        ..CheckEdit::default()
    };
    match engine.execute(create_check(ProjectId(1), uuid, edit)) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn waiting(engine: &TestEngine) -> Vec<AlertEvent> {
    engine
        .handle
        .with_state(|state| state.outbox.rows().map(|row| row.event).collect())
}

#[test]
fn a_missed_ping_alerts_in_time_after_the_clock_was_once_ahead() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING));
        engine.create_project(100);
        webhook(&mut engine);
        let id = create_watched_check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Success, ""));
        shift_clock(&mut engine, 120 * DAY * 1_000_000);
        wait(&mut engine, MINUTE);
        engine
            .clock
            .jump_to(engine.handle.now().plus_secs(-120 * DAY));
        if restarts {
            engine = restart(engine, disk.medium(), false);
        }
        idle(&mut engine);
        let now = engine.handle.now();
        assert!(
            engine.handle.with_state(|state| state
                .outages
                .iter()
                .all(|away| away.from <= away.to && away.to <= now)),
            "{restarts}"
        );
        wait(&mut engine, 3 * HOUR);
        engine.execute(ping(7, PingKind::Success, ""));
        let before = waiting(&engine).len();
        wait(&mut engine, 362);
        assert_eq!(waiting(&engine)[before..], [AlertEvent::Down], "{restarts}");
        assert_eq!(
            check_state(&engine, id).notification,
            NotificationState::Notified
        );
    }
}

#[test]
fn an_outage_is_known_although_the_file_once_stored_a_future_time() {
    for cleanly in [false, true] {
        let disk = Disk::default();
        let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING));
        engine.create_project(100);
        webhook(&mut engine);
        create_watched_check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Success, ""));
        engine.clock.jump_to(BEGINNING.plus_secs(DAY));
        if cleanly {
            engine.handle.close();
            while engine.writer.step(false).unwrap() {}
        } else {
            wait(&mut engine, 20);
            create_watched_check(&mut engine, 8);
        }
        drop(engine);
        let mut engine = start(disk.medium(), &ManualClock::at(BEGINNING.plus_secs(1800)));
        idle(&mut engine);
        assert_eq!(
            engine
                .handle
                .with_state(|state| state.outages.last().cloned()),
            Some(Outage {
                from: BEGINNING,
                to: BEGINNING.plus_secs(1800)
            }),
            "{cleanly}"
        );
        assert_eq!(waiting(&engine), [], "{cleanly}");
    }
}

#[test]
fn an_alert_that_was_held_while_the_clock_was_ahead_is_sent_in_time() {
    let mut engine = start(Medium::memory(), &ManualClock::at(BEGINNING));
    engine.create_project(100);
    webhook(&mut engine);
    let id = create_watched_check(&mut engine, 7);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(4).unwrap()),
        parents: None,
    });
    engine.execute(ping(7, PingKind::Fail, ""));
    wait(&mut engine, MINUTE);
    shift_clock(&mut engine, 120 * DAY * 1_000_000);
    let NotificationState::Pending {
        at,
        reason: HoldReason::BelowThreshold,
    } = check_state(&engine, id).notification
    else {
        panic!("{:?}", check_state(&engine, id).notification)
    };
    assert!(at > BEGINNING.plus_secs(120 * DAY));
    shift_clock(&mut engine, -120 * DAY * 1_000_000);
    wait(&mut engine, HOUR);
    // Pings that the check missed count neither for the time of the other clock nor twice.
    let CheckState {
        notification,
        failures,
        ..
    } = check_state(&engine, id);
    let now = engine.handle.now();
    assert!(
        matches!(
            notification,
            NotificationState::Pending { at, .. } if at > now && at <= now.plus_secs(360)
        ),
        "{notification:?}"
    );
    assert!(failures < 4, "{failures}");
    wait(&mut engine, 4 * 300 + 60);
    assert_eq!(
        (waiting(&engine), check_state(&engine, id).notification),
        (vec![AlertEvent::Down], NotificationState::Notified)
    );
}
