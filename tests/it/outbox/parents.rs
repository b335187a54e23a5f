//! A check behind a parent that is down and was alerted sends an alert only if it reports a
//! failure, or stays down after the parent is up.

use overdue::domain::parents::{Parents, ParentsError};
use overdue::engine::command::CommandError;

use super::*;

const PERIOD: i64 = 60;

/// Creates a check with a period of one minute, `grace` and parents.
fn create_dependent_check(
    engine: &mut TestEngine,
    uuid: u128,
    grace: i64,
    parents: &[CheckId],
) -> CheckId {
    let [timeout, grace] = [PERIOD, grace].map(|secs| Some(Seconds::parse(secs).unwrap()));
    let edit = CheckEdit {
        channels: Some(ChannelSelection::All),
        timeout,
        grace,
        ..CheckEdit::default()
    };
    let id = match engine.execute(create_check(MAIN, uuid, edit)) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    };
    set_parents(engine, id, parents).unwrap();
    id
}

pub(super) fn set_parents(
    engine: &mut TestEngine,
    check: CheckId,
    parents: &[CheckId],
) -> Result<CommandOutcome, CommandError> {
    let parents = Some(Parents::new(parents.to_vec()).unwrap());
    engine
        .batch([Command::UpdateAlertSettings {
            check,
            failure_threshold: None,
            parents,
        }])
        .remove(0)
        .unwrap()
}

fn advance(engine: &mut TestEngine, secs: i64) {
    for _ in 0..secs {
        engine.clock.advance_secs(1);
        engine.writer.step(false).unwrap();
    }
}

/// Moves the clock from one second before a deadline to just after it, in a tick that the wheel has
/// not reached.
fn between_ticks(engine: &mut TestEngine) {
    engine.clock.set(engine.handle.now().plus_micros(1_000_001));
}

fn waiting_events(engine: &TestEngine) -> Vec<(CheckId, AlertEvent)> {
    waiting(engine)
        .into_iter()
        .map(|(_, check, event)| (check, event))
        .collect()
}

fn hold_reason(engine: &TestEngine, id: CheckId) -> Option<HoldReason> {
    match engine.read_check(id).state.notification {
        NotificationState::Pending { reason: held, .. } => Some(held),
        _ => None,
    }
}

/// A router, a host behind it and a job behind the host. All are up.
fn dependency_chain() -> (TestEngine, ChannelId, [CheckId; 3]) {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 60, &[]);
    let host = create_dependent_check(&mut engine, 8, 120, &[router]);
    let job = create_dependent_check(&mut engine, 9, 180, &[host]);
    for uuid in [7, 8, 9] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    (engine, hook, [router, host, job])
}

#[test]
fn a_child_of_a_parent_that_is_down_and_alerted_sends_no_alert() {
    let (mut engine, _, [router, host, job]) = dependency_chain();
    advance(&mut engine, 500);
    assert_eq!(waiting_events(&engine), [(router, AlertEvent::Down)]);
    assert_eq!(
        (hold_reason(&engine, host), hold_reason(&engine, job)),
        (
            Some(HoldReason::ParentDown(router)),
            Some(HoldReason::ParentDown(host))
        )
    );
    // The alert stays held, regardless of the duration.
    advance(&mut engine, 3 * HoldReason::RECHECK_SECS);
    assert_eq!(waiting_events(&engine), [(router, AlertEvent::Down)]);
    // A child that is up soon after its parent sends no alert. Any other child alerts after its
    // grace.
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(
        (hold_reason(&engine, host), hold_reason(&engine, job)),
        (
            Some(HoldReason::ParentPending),
            Some(HoldReason::ParentPending)
        )
    );
    engine.execute(ping(8, PingKind::Success, ""));
    for _ in 0..19 {
        advance(&mut engine, 10);
        engine.execute(ping(7, PingKind::Success, ""));
        engine.execute(ping(8, PingKind::Success, ""));
    }
    assert_eq!(
        waiting_events(&engine),
        [
            (router, AlertEvent::Down),
            (router, AlertEvent::Up),
            (job, AlertEvent::Down)
        ]
    );
    let skip_reason = "it was up again while it waited for a parent".to_owned();
    assert_eq!(
        outcomes(&engine),
        [(AlertEvent::Down, DeliveryResult::Skipped, skip_reason)]
    );
}

#[test]
fn a_reported_failure_alerts_despite_its_parents() {
    let (mut engine, _, [router, host, _]) = dependency_chain();
    advance(&mut engine, 300);
    engine.execute(ping(8, PingKind::Fail, ""));
    assert_eq!(
        waiting_events(&engine),
        [(router, AlertEvent::Down), (host, AlertEvent::Down)]
    );
}

#[test]
fn a_child_waits_once_for_a_parent_with_a_longer_period() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 600, &[]);
    let host = create_dependent_check(&mut engine, 8, 60, &[router]);
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, 125);
    assert_eq!(
        (waiting_events(&engine), hold_reason(&engine, host)),
        (vec![], Some(HoldReason::ParentPending))
    );
    advance(&mut engine, 540);
    assert_eq!(
        (waiting_events(&engine), hold_reason(&engine, host)),
        (
            vec![(router, AlertEvent::Down)],
            Some(HoldReason::ParentDown(router))
        )
    );
    // This time the parent comes up in time.
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, 125);
    assert_eq!(hold_reason(&engine, host), Some(HoldReason::ParentPending));
    engine.execute(ping(7, PingKind::Success, ""));
    advance(&mut engine, 530);
    assert_eq!(hold_reason(&engine, host), Some(HoldReason::ParentPending));
    advance(&mut engine, 10);
    assert_eq!(
        waiting_events(&engine),
        [
            (router, AlertEvent::Down),
            (router, AlertEvent::Up),
            (host, AlertEvent::Down)
        ]
    );
}

#[test]
fn a_parent_without_channels_holds_no_alerts() {
    for change in 0..6 {
        let (mut engine, hook, [router, host, _]) = dependency_chain();
        advance(&mut engine, 300);
        assert_eq!(
            hold_reason(&engine, host),
            Some(HoldReason::ParentDown(router))
        );
        match change {
            0 => drop(engine.execute(Command::DeleteCheck(router))),
            1 => drop(engine.execute(Command::PauseCheck(router, None))),
            2 => drop(set_parents(&mut engine, host, &[]).unwrap()),
            3 => drop(engine.execute(Command::AssignChannel {
                channel: hook,
                checks: vec![router],
                assigned: false,
            })),
            4 => {
                let rows = numbers(&engine);
                begin(&mut engine, rows.clone());
                report(
                    &mut engine,
                    hook,
                    rows,
                    SendOutcome::Failed("refused".into()),
                );
                assert_eq!(
                    engine.read_check(router).state.notification,
                    NotificationState::Undelivered
                );
            }
            _ => {
                let second = channel(&mut engine, 2, "webhook", HOOK);
                engine.execute(Command::AssignChannel {
                    channel: second,
                    checks: vec![host],
                    assigned: true,
                });
                engine.execute(Command::DisableChannel {
                    channel: hook,
                    reason: "gone".into(),
                });
                advance(&mut engine, HoldReason::RECHECK_SECS);
            }
        }
        advance(&mut engine, 125);
        assert!(
            engine.read_check(host).state.notification == NotificationState::Notified,
            "{change}: {:?}",
            engine.read_check(host).state.notification
        );
    }
}

#[test]
fn a_renamed_child_keeps_the_grace_that_the_deletion_of_its_parent_gave_it() {
    let (mut engine, _, [router, host, job]) = dependency_chain();
    advance(&mut engine, 300);
    engine.execute(Command::DeleteCheck(router));
    let held = [host, job].map(|id| engine.read_check(id).state.notification);
    assert_eq!(
        [host, job].map(|id| hold_reason(&engine, id)),
        [Some(HoldReason::ParentPending); 2]
    );
    for _ in 0..2 {
        for id in [host, job] {
            let name = CheckEdit {
                name: Some(Name::from_stored("renamed")),
                ..CheckEdit::default()
            };
            engine.execute(Command::UpdateCheck(id, Box::new(name)));
        }
        assert_eq!(
            [host, job].map(|id| engine.read_check(id).state.notification),
            held
        );
    }
    // The removal of a parent that exists ends the grace.
    let sent = waiting_events(&engine);
    set_parents(&mut engine, job, &[]).unwrap();
    assert_eq!(
        waiting_events(&engine),
        [sent, vec![(job, AlertEvent::Down)]].concat()
    );
    engine.execute(ping(8, PingKind::Success, ""));
    assert_eq!(hold_reason(&engine, host), None);
    assert!(waiting_events(&engine).iter().all(|(id, _)| *id != host));
}

#[test]
fn a_shorter_grace_ends_the_wait_that_the_deletion_of_a_parent_gave_earlier() {
    let (mut engine, _, [router, host, _]) = dependency_chain();
    advance(&mut engine, 300);
    let set_grace = |engine: &mut TestEngine, secs: i64| {
        let grace = CheckEdit {
            grace: Some(Seconds::parse(secs).unwrap()),
            ..CheckEdit::default()
        };
        engine.execute(Command::UpdateCheck(host, Box::new(grace)));
    };
    set_grace(&mut engine, 86_400);
    engine.execute(Command::DeleteCheck(router));
    for (grace, wait) in [
        (86_400, 86_400),
        (3600, 3600),
        (7200, 3600),
        (60, HoldReason::RECHECK_SECS + 1),
    ] {
        set_grace(&mut engine, grace);
        let pending = NotificationState::Pending {
            at: engine.handle.now().plus_secs(wait),
            reason: HoldReason::ParentPending,
        };
        assert_eq!(
            engine.read_check(host).state.notification,
            pending,
            "{grace}"
        );
    }
}

#[test]
fn parents_belong_to_the_same_project_and_form_no_cycle() {
    let (mut engine, _, [router, host, job]) = dependency_chain();
    let other = create_dependent_check(&mut engine, 10, 60, &[]);
    let invalid_parents = |error| Err(CommandError::InvalidParents(error));
    for (check, parents, expected) in [
        (router, vec![job], invalid_parents(ParentsError::Cycle)),
        (router, vec![router], invalid_parents(ParentsError::Cycle)),
        (
            router,
            vec![other, host],
            invalid_parents(ParentsError::Cycle),
        ),
        (
            router,
            vec![CheckId(999)],
            invalid_parents(ParentsError::NotFound),
        ),
        (CheckId(999), vec![router], Err(CommandError::NotFound)),
    ] {
        assert_eq!(
            set_parents(&mut engine, check, &parents).map(drop),
            expected,
            "{check:?} {parents:?}"
        );
    }
    assert_eq!(
        Parents::new((1..=9).map(CheckId).collect()),
        Err(ParentsError::TooMany)
    );
    assert_eq!(
        Parents::new([1; 20].map(CheckId).to_vec()).unwrap().ids(),
        [CheckId(1)]
    );
    // A chain has at most 32 levels.
    let mut deepest = job;
    for level in 3..Parents::MAX_LEVELS {
        deepest = create_dependent_check(&mut engine, 100 + level as u128, 60, &[deepest]);
    }
    let last = create_dependent_check(&mut engine, 500, 60, &[]);
    set_parents(&mut engine, last, &[deepest])
        .map(drop)
        .unwrap_or_else(|error| panic!("{error:?}"));
    let too_deep = create_dependent_check(&mut engine, 501, 60, &[]);
    assert_eq!(
        set_parents(&mut engine, too_deep, &[last]).map(drop),
        invalid_parents(ParentsError::TooDeep)
    );
    // Deleted checks are removed from the list.
    engine.execute(Command::DeleteCheck(router));
    let CommandOutcome::Check(changed) = engine.execute(Command::PauseCheck(host, None)) else {
        panic!()
    };
    assert_eq!(changed.settings.parents, Parents::default());
}

#[test]
fn a_restart_keeps_alerts_held_by_their_parents() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 60, &[]);
    let host = create_dependent_check(&mut engine, 8, 120, &[router]);
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, 300);
    let before = engine.read_check(host);
    assert_eq!(
        hold_reason(&engine, host),
        Some(HoldReason::ParentDown(router))
    );
    let now = engine.handle.now();
    drop(engine);
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.set(now);
    assert_eq!(engine.read_check(host), before);
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(hold_reason(&engine, host), Some(HoldReason::ParentPending));
}

#[test]
fn a_parent_that_went_down_first_holds_its_children_in_any_order_of_examination() {
    let (mut engine, _, [router, host, _]) = dependency_chain();
    let grace = CheckEdit {
        grace: Some(Seconds::parse(60).unwrap()),
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(host, Box::new(grace)));
    let now = engine.handle.now();
    for (uuid, micros) in [(7, 1000), (8, 2000)] {
        engine.clock.set(now.plus_micros(micros));
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    // Both deadlines have passed, but the tick in which the engine notices that has not begun.
    engine.clock.set(now.plus_micros(3000).plus_secs(120));
    engine.execute(Command::EvaluateChecks(vec![host, router]));
    assert_eq!(
        (waiting_events(&engine), hold_reason(&engine, host)),
        (
            vec![(router, AlertEvent::Down)],
            Some(HoldReason::ParentDown(router))
        )
    );
}

#[test]
fn a_command_that_decides_about_a_child_first_applies_the_deadline_of_its_parent() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 600, &[]);
    let host = create_dependent_check(&mut engine, 8, 60, &[router]);
    super::windows::tag(&mut engine, host, "db");
    super::windows::window(&mut engine, 40, "db");
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, 125);
    assert_eq!(
        hold_reason(&engine, host),
        Some(HoldReason::MaintenanceWindow)
    );
    // The router has reported since the host went down, so the host does not wait for it.
    engine.execute(ping(7, PingKind::Success, ""));
    engine
        .clock
        .set(engine.handle.now().plus_secs(PERIOD + 600));
    super::windows::tag(&mut engine, host, "");
    assert_eq!(
        (waiting_events(&engine), hold_reason(&engine, host)),
        (
            vec![(router, AlertEvent::Down)],
            Some(HoldReason::ParentDown(router))
        )
    );
}

#[test]
fn an_edit_that_takes_a_child_down_first_applies_the_deadline_of_its_parent() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 120, &[]);
    let host = create_dependent_check(&mut engine, 8, 600, &[router]);
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, PERIOD + 119);
    between_ticks(&mut engine);
    let edit = CheckEdit {
        grace: Some(Seconds::parse(60).unwrap()),
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(host, Box::new(edit)));
    assert_eq!(
        (waiting_events(&engine), hold_reason(&engine, host)),
        (
            vec![(router, AlertEvent::Down)],
            Some(HoldReason::ParentDown(router))
        )
    );
}

#[test]
fn a_held_alert_that_gets_a_parent_first_applies_the_deadline_of_that_parent() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 90, &[]);
    let host = create_dependent_check(&mut engine, 8, 60, &[]);
    let set = |after, parents: &[CheckId]| {
        let parents = Some(Parents::new(parents.to_vec()).unwrap());
        Command::UpdateAlertSettings {
            check: host,
            failure_threshold: Some(FailureThreshold::parse(after).unwrap()),
            parents,
        }
    };
    engine.execute(set(3, &[]));
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, PERIOD + 65);
    assert_eq!(hold_reason(&engine, host), Some(HoldReason::BelowThreshold));
    advance(&mut engine, 24);
    between_ticks(&mut engine);
    engine.execute(set(1, &[router]));
    assert_eq!(
        (waiting_events(&engine), hold_reason(&engine, host)),
        (
            vec![(router, AlertEvent::Down)],
            Some(HoldReason::ParentDown(router))
        )
    );
}

#[test]
fn each_parent_is_visited_once_regardless_of_the_number_of_paths() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(1000);
    channel(&mut engine, 1, "webhook", HOOK);
    let mut level = Vec::new();
    for number in 0..Parents::MAX_LEVELS as u128 {
        let uuids = (0..Parents::MAX_PARENTS as u128).map(|place| 100 + number * 10 + place);
        level = uuids
            .map(|uuid| create_dependent_check(&mut engine, uuid, 60, &level))
            .collect();
    }
    let [last, ..] = level[..] else {
        panic!("the level is empty")
    };
    let ping_last = || {
        ping(
            100 + (Parents::MAX_LEVELS as u128 - 1) * 10,
            PingKind::Success,
            "",
        )
    };
    engine.execute(ping_last());
    engine.clock.advance_secs(PERIOD + 60);
    // The ping comes when the check is due, so all checks above it are examined first.
    engine.execute(ping_last());
    assert_eq!(engine.read_check(last).state.n_pings, 2);
}

#[test]
fn the_deadlines_of_children_are_applied_before_a_ping_of_their_parent() {
    let notices = [false, true].map(|is_noticed_first| {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        engine.create_project(100);
        channel(&mut engine, 1, "webhook", HOOK);
        let router = create_dependent_check(&mut engine, 7, 600, &[]);
        let host = create_dependent_check(&mut engine, 8, 60, &[router]);
        engine.execute(ping(7, PingKind::Success, ""));
        engine.clock.advance_secs(60);
        for uuid in [7, 8] {
            engine.execute(ping(uuid, PingKind::Success, ""));
        }
        engine
            .clock
            .set(engine.handle.now().plus_secs(120).plus_micros(1));
        if is_noticed_first {
            engine.execute(Command::EvaluateChecks(vec![host]));
        }
        engine.execute(ping(7, PingKind::Success, ""));
        advance(&mut engine, 1);
        (waiting_events(&engine), hold_reason(&engine, host))
    });
    assert_eq!(
        notices,
        [
            (vec![], Some(HoldReason::ParentPending)),
            (vec![], Some(HoldReason::ParentPending))
        ]
    );
}

#[test]
fn a_parent_whose_alert_was_parked_after_crashes_holds_no_alerts() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let router = create_dependent_check(&mut engine, 7, 60, &[]);
    let host = create_dependent_check(&mut engine, 8, 120, &[router]);
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    advance(&mut engine, 300);
    let rows = numbers(&engine);
    let now = engine.handle.now();
    for _ in 0..3 {
        begin(&mut engine, rows.clone());
        drop(engine);
        engine = reopened(&disk, now);
    }
    assert_eq!(
        hold_reason(&engine, host),
        Some(HoldReason::ParentDown(router))
    );
    begin(&mut engine, rows);
    assert_eq!(
        engine.read_check(router).state.notification,
        NotificationState::Undelivered
    );
    assert_eq!(hold_reason(&engine, host), Some(HoldReason::ParentPending));
}
