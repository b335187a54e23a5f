//! A trial sends no alerts. A live import sends the alerts that are due, and no false alarm at the
//! switch.

use overdue::domain::alert::{AlertEvent, DeliveryResult, HoldReason, NotificationState};
use overdue::domain::ids::DeliveryNumber;
use overdue::util::clock::ManualClock;

use super::*;
use crate::support::engine;

fn notifications(engine: &TestEngine) -> Vec<(u128, AlertEvent)> {
    engine.handle.with_state(|state| {
        state
            .outbox
            .rows()
            .map(|row| {
                (
                    state
                        .check(row.check)
                        .map_or(0, |check| check.uuid.as_u128()),
                    row.event,
                )
            })
            .collect()
    })
}

fn advance(engine: &mut TestEngine, secs: i64) {
    engine.clock.advance_secs(secs);
    idle(engine);
}

fn release(engine: &mut TestEngine) -> Result<CommandOutcome, ImportStepError> {
    let project = check_by_uuid(engine, 21).project;
    step(engine, ImportStep::EndTrial(project))
}

#[test]
fn a_trial_sends_no_alerts_until_it_is_released() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    ImportFixture::new()
        .import(&mut engine, ImportMode::Trial)
        .unwrap();
    // It was down and alerted: its recovery notifies no channel.
    engine.execute(ping(22, PingKind::Success, ""));
    engine.execute(ping(22, PingKind::Fail, ""));
    advance(&mut engine, 3 * 86_400);
    drop(engine);
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.advance_secs(3 * 86_400);
    advance(&mut engine, 3600);
    assert_eq!(notifications(&engine), []);
    for uuid in [21, 22] {
        let state = check_by_uuid(&engine, uuid).state;
        assert!(
            matches!(
                (state.status, state.notification),
                (
                    Status::Down,
                    NotificationState::Pending {
                        reason: HoldReason::Trial,
                        ..
                    }
                )
            ),
            "{uuid}: {state:?}"
        );
    }
    let log = engine
        .handle
        .deliveries(DeliveryNumber(u64::MAX), 10, |_| true)
        .unwrap();
    let log: Vec<_> = log
        .iter()
        .map(|delivery| (delivery.event, delivery.result, &*delivery.reason))
        .collect();
    assert_eq!(
        log,
        [(
            AlertEvent::Up,
            DeliveryResult::Skipped,
            "its project is on trial"
        )]
    );
    release(&mut engine).unwrap();
    assert_eq!(
        notifications(&engine),
        [(21, AlertEvent::Down), (22, AlertEvent::Down)]
    );
    assert_eq!(release(&mut engine), Err(ImportStepError::NotOnTrial));
}

#[test]
fn alerts_that_the_old_server_sent_are_not_repeated() {
    for mode in [ImportMode::Trial, LIVE] {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        ImportFixture::new().import(&mut engine, mode).unwrap();
        if mode == ImportMode::Trial {
            release(&mut engine).unwrap();
        }
        advance(&mut engine, 3600);
        assert_eq!(notifications(&engine), []);
        engine.execute(ping(22, PingKind::Success, ""));
        assert_eq!(notifications(&engine), [(22, AlertEvent::Up)]);
    }
}

#[test]
fn a_live_import_alerts_failures_at_once_and_missed_pings_after_extra_time() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let mut source = ImportFixture::new();
    // Checks that were due between the last entry of the source and now, or before it; and one that
    // is not due yet.
    let silent = |uuid, ago: i64| {
        let mut check = imported_check(uuid, Status::Up);
        check.state.last_ping = Some(Timestamp::from_secs(NOW - ago));
        check
    };
    source.checks = vec![
        silent(21, 86_400 + 3600 + 300),
        silent(22, 86_400 + 3600 + 300),
        silent(23, 60),
    ];
    source.pings = 0;
    let live = ImportMode::Live {
        newest: Some(Timestamp::from_secs(NOW - 600)),
    };
    source.import(&mut engine, live).unwrap();
    advance(&mut engine, 1);
    for uuid in [21, 22] {
        let state = check_by_uuid(&engine, uuid).state;
        assert!(
            matches!(
                state.notification,
                NotificationState::Pending {
                    reason: HoldReason::ServerOutage,
                    ..
                }
            ),
            "{uuid}: {state:?}"
        );
    }
    assert_eq!(notifications(&engine), []);
    // One check reports here: its ping was lost at the switch.
    engine.execute(ping(21, PingKind::Success, ""));
    engine.execute(ping(23, PingKind::Fail, ""));
    assert_eq!(notifications(&engine), [(23, AlertEvent::Down)]);
    advance(&mut engine, 15 * 60);
    assert_eq!(
        notifications(&engine),
        [(23, AlertEvent::Down), (22, AlertEvent::Down)]
    );
    // The next missed ping alerts at once.
    advance(&mut engine, 86_400 + 3600);
    assert_eq!(notifications(&engine).last(), Some(&(21, AlertEvent::Down)));
}

#[test]
fn alerts_that_the_old_server_had_not_sent_are_sent() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let mut source = ImportFixture::new();
    source.checks[1].state.notification = NotificationState::Pending {
        at: Timestamp::from_secs(NOW),
        reason: HoldReason::ServerOutage,
    };
    source.import(&mut engine, LIVE).unwrap();
    advance(&mut engine, 16 * 60);
    assert_eq!(notifications(&engine), [(22, AlertEvent::Down)]);
}

#[test]
fn a_trial_becomes_live_by_another_import() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    source.import(&mut engine, ImportMode::Trial).unwrap();
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
    engine.execute(ping(21, PingKind::Fail, ""));
    assert_eq!(notifications(&engine), [(21, AlertEvent::Down)]);
    // And the other way round: queued alerts are no longer sent.
    let first = source.upload(&mut engine);
    source
        .finish(&mut engine, first, ImportMode::Trial, true)
        .unwrap();
    idle(&mut engine);
    assert_eq!(notifications(&engine), []);
}

#[test]
fn a_recovery_that_the_old_server_had_not_sent_is_sent_once() {
    let mut source = ImportFixture::new();
    let state = &mut source.checks[0].state;
    assert_eq!(state.status, Status::Up);
    state.notification = NotificationState::Notified;
    let uuid = source.checks[0].uuid.as_u128();
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    source.import(&mut engine, LIVE).unwrap();
    assert_eq!(
        (
            notifications(&engine),
            check_by_uuid(&engine, uuid).state.notification
        ),
        (vec![(uuid, AlertEvent::Up)], NotificationState::NotNeeded)
    );
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    source.import(&mut engine, ImportMode::Trial).unwrap();
    release(&mut engine).unwrap();
    assert_eq!(notifications(&engine), []);
}

#[test]
fn trials_are_logged_once_a_day() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    let lines = |engine: &mut TestEngine, hours: i64| {
        engine::log_lines_with("on trial", || {
            (0..hours).for_each(|_| advance(engine, 3601));
        })
    };
    assert_eq!(lines(&mut engine, 2), <[&str; 0]>::default());
    ImportFixture::new()
        .import(&mut engine, ImportMode::Trial)
        .unwrap();
    let logged = lines(&mut engine, 1);
    let line = "1 project is on trial: no alerts are sent for failures there until `overdue \
                project release`: \"Homelab\"";
    assert!(logged.len() == 1 && logged[0].ends_with(line), "{logged:?}");
    assert_eq!(lines(&mut engine, 23), <[&str; 0]>::default());
    assert_eq!(lines(&mut engine, 24).len(), 1);
    drop(engine);
    // A server logs it at startup. A command that opens the database without a server never does.
    let open = |takes_pings| {
        let clock = ManualClock::at(Timestamp::from_secs(NOW + 10 * 86_400));
        let set = |config: &mut overdue::engine::EngineConfig| config.accepts_pings = takes_pings;
        let (handle, writer) = engine::open(disk.medium(), &clock, set).unwrap();
        TestEngine {
            handle,
            writer,
            clock,
        }
    };
    let mut alone = open(false);
    assert_eq!(lines(&mut alone, 2), <[&str; 0]>::default());
    drop(alone);
    let mut engine = open(true);
    assert_eq!(
        engine::log_lines_with("on trial", || idle(&mut engine)).len(),
        1
    );
    let logged = engine::log_lines_with("from now on", || drop(release(&mut engine).unwrap()));
    assert!(
        logged.len() == 1
            && logged[0].ends_with(r#"1 imported project sends alerts from now on: "Homelab""#),
        "{logged:?}"
    );
    let logged = engine::log_lines_with("from now on", || {
        assert_eq!(ImportFixture::new().import(&mut engine, LIVE), Ok(1));
    });
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(lines(&mut engine, 26), <[&str; 0]>::default());
}
