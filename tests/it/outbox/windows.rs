//! A check that goes down in an open maintenance window alerts when the window closes, if it is
//! still down.

use overdue::domain::ids::WindowId;
use overdue::domain::maintenance_window::WindowTimesInput;
use overdue::domain::text::{Name, Tags};
use overdue::engine::command::{CommandError, NewWindow};

use super::*;

/// Creates a window that begins now.
pub(super) fn window(engine: &mut TestEngine, minutes: u64, tags: &str) -> WindowId {
    let now = engine.handle.now();
    let times = WindowTimesInput {
        minutes: Some(minutes),
        ..WindowTimesInput::default()
    }
    .parse(now)
    .unwrap();
    let uuid = engine.handle.random().uuid();
    let name = Name::parse("move").unwrap();
    let tags = Tags::parse(tags).unwrap();
    match engine.execute(Command::CreateWindow(Box::new(NewWindow {
        uuid,
        project: MAIN,
        name,
        tags,
        times,
    }))) {
        CommandOutcome::Window(window) => window.id,
        outcome => panic!("{outcome:?}"),
    }
}

pub(super) fn tag(engine: &mut TestEngine, id: CheckId, tags: &str) {
    engine.execute(Command::UpdateCheck(
        id,
        Box::new(CheckEdit {
            tags: Some(Tags::parse(tags).unwrap()),
            ..CheckEdit::default()
        }),
    ));
}

fn advance(engine: &mut TestEngine, secs: i64) {
    for _ in 0..secs {
        engine.clock.advance_secs(1);
        engine.writer.step(false).unwrap();
    }
}

fn waiting_events(engine: &TestEngine) -> Vec<(CheckId, AlertEvent)> {
    waiting(engine)
        .into_iter()
        .map(|(_, check, event)| (check, event))
        .collect()
}

fn is_held(engine: &TestEngine, id: CheckId) -> bool {
    matches!(
        engine.read_check(id).state.notification,
        NotificationState::Pending {
            reason: HoldReason::MaintenanceWindow,
            ..
        }
    )
}

#[test]
fn a_downtime_in_a_window_alerts_when_the_window_closes() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let [early, moved, other, brief] = [7, 8, 9, 10].map(|uuid| check(&mut engine, uuid));
    for id in [early, moved, brief] {
        tag(&mut engine, id, "db prod");
    }
    engine.execute(ping(7, PingKind::Fail, ""));
    window(&mut engine, 40, "db");
    for uuid in [8, 9, 10] {
        engine.execute(ping(uuid, PingKind::Fail, ""));
    }
    assert_eq!(
        waiting_events(&engine),
        [(early, AlertEvent::Down), (other, AlertEvent::Down)]
    );
    // A recovery is sent even in an open window.
    engine.execute(ping(7, PingKind::Success, ""));
    engine.execute(ping(10, PingKind::Success, ""));
    advance(&mut engine, 40 * 60 - 1);
    assert!(is_held(&engine, moved) && !is_held(&engine, brief));
    assert_eq!(
        waiting_events(&engine),
        [
            (early, AlertEvent::Down),
            (other, AlertEvent::Down),
            (early, AlertEvent::Up)
        ]
    );
    advance(&mut engine, 2);
    assert_eq!(
        waiting_events(&engine).last(),
        Some(&(moved, AlertEvent::Down))
    );
    let skip_reason = "it was up again within a maintenance window".to_owned();
    assert_eq!(
        outcomes(&engine),
        [(AlertEvent::Down, DeliveryResult::Skipped, skip_reason)]
    );
}

#[test]
fn a_deleted_window_holds_no_alerts() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    let [first, second] = [600, 60].map(|minutes| window(&mut engine, minutes, ""));
    engine.execute(ping(7, PingKind::Fail, ""));
    engine.execute(Command::DeleteWindow(MAIN, first));
    assert!(is_held(&engine, id), "another window is open");
    engine.execute(Command::DeleteWindow(MAIN, second));
    assert_eq!(waiting_events(&engine), [(id, AlertEvent::Down)]);
    let second_window = engine
        .batch([Command::DeleteWindow(MAIN, second)])
        .remove(0)
        .unwrap();
    assert_eq!(second_window, Err(CommandError::NotFound));
}

#[test]
fn a_check_that_leaves_a_window_by_its_tags_alerts() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    tag(&mut engine, id, "db");
    window(&mut engine, 600, "db");
    engine.execute(ping(7, PingKind::Fail, ""));
    assert!(is_held(&engine, id));
    tag(&mut engine, id, "web");
    assert_eq!(waiting_events(&engine), [(id, AlertEvent::Down)]);
}

#[test]
fn windows_survive_a_restart_and_are_deleted_with_their_project() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    window(&mut engine, 60, "");
    engine.execute(ping(7, PingKind::Fail, ""));
    let before = engine.read_check(id);
    let now = engine.handle.now();
    let windows = |engine: &TestEngine| {
        engine.handle.with_state(|state| {
            state
                .project(MAIN)
                .map(|project_state| project_state.windows.clone())
        })
    };
    let remaining = windows(&engine);
    drop(engine);
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.set(now);
    assert_eq!(
        (engine.read_check(id), windows(&engine)),
        (before, remaining)
    );
    engine.execute(Command::DeleteProject(MAIN));
    drop(engine);
    let engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    assert_eq!(windows(&engine), None);
}

#[test]
fn the_windows_of_a_project_are_limited_and_old_ones_are_removed() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let count = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.project(MAIN).unwrap().windows.len())
    };
    for _ in 0..200 {
        window(&mut engine, 1, "");
    }
    let times = WindowTimesInput {
        minutes: Some(1),
        ..WindowTimesInput::default()
    }
    .parse(engine.handle.now())
    .unwrap();
    let uuid = engine.handle.random().uuid();
    let name = Name::default();
    let tags = Tags::default();
    let extra_window = Command::CreateWindow(Box::new(NewWindow {
        uuid,
        project: MAIN,
        name,
        tags,
        times,
    }));
    assert_eq!(
        engine.batch([extra_window.clone()]).remove(0).unwrap(),
        Err(CommandError::WindowLimitReached)
    );
    engine.clock.advance_secs(31 * 86_400);
    engine.execute(extra_window);
    assert_eq!(count(&engine), 1);
}

#[test]
fn a_ping_that_finds_its_deadline_passed_in_a_window_notifies_nobody() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let parent = create_periodic_check(&mut engine, 6, 86_400, 3600);
    let [muted, child] = [7, 8].map(|uuid| create_periodic_check(&mut engine, uuid, 60, 60));
    tag(&mut engine, muted, "db");
    window(&mut engine, 60, "db");
    let parents = Some(overdue::domain::parents::Parents::new(vec![parent]).unwrap());
    engine.execute(Command::UpdateAlertSettings {
        check: child,
        failure_threshold: None,
        parents,
    });
    engine.execute(ping(6, PingKind::Fail, ""));
    engine.batch([7, 8].map(|uuid| ping(uuid, PingKind::Success, "")));
    // Earlier than the engine notices the deadline by itself.
    let deadline = engine.handle.now().plus_secs(120);
    engine.clock.set(deadline.plus_micros(3000));
    engine.batch([7, 8].map(|uuid| ping(uuid, PingKind::Success, "")));
    assert_eq!(waiting_events(&engine), [(parent, AlertEvent::Down)]);
    let skipped = |reason: &str| (AlertEvent::Down, DeliveryResult::Skipped, reason.to_owned());
    let reasons = [
        "it was up again within a maintenance window",
        "it was up again before its parent, which was down too",
    ];
    assert_eq!(outcomes(&engine), reasons.map(skipped));
}

#[test]
fn the_alerts_of_a_deleted_window_are_sent_in_batches() {
    const CHECKS: u128 = 40;
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(
            disk.medium(),
            HousekeepingLimits {
                max_alert_rows: 10,
                ..HousekeepingLimits::default()
            },
        );
        engine.create_project(100);
        channel(&mut engine, 1, "webhook", HOOK);
        let other = window(&mut engine, 600, "db");
        let id = window(&mut engine, 600, "");
        let all: Vec<_> = (0..CHECKS)
            .map(|uuid| check(&mut engine, 100 + uuid))
            .collect();
        tag(&mut engine, all[0], "db");
        for uuid in 0..CHECKS {
            engine.execute(ping(100 + uuid, PingKind::Fail, ""));
        }
        engine.execute(Command::DeleteWindow(MAIN, id));
        assert_eq!(waiting_events(&engine).len(), 10);
        if restarts {
            let now = engine.handle.now();
            drop(engine);
            engine = reopened(&disk, now);
        }
        let mut before = waiting_events(&engine).len();
        for _ in 0..5 {
            engine.clock.advance_secs(1);
            assert_eq!(engine.writer.step(false), Ok(true));
            assert!(
                restarts || waiting_events(&engine).len() - before <= 10,
                "{} rows in one batch",
                waiting_events(&engine).len() - before
            );
            before = waiting_events(&engine).len();
        }
        assert_eq!(
            before,
            CHECKS as usize - 1,
            "within seconds; restarts: {restarts}"
        );
        assert!(is_held(&engine, all[0]), "by the other window");
        engine.execute(Command::DeleteWindow(MAIN, other));
        assert_eq!(waiting_events(&engine).len(), CHECKS as usize);
    }
}
