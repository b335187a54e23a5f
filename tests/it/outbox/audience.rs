//! Channels that are added to a check, or removed from it, while the check is down.

use overdue::channels;
use overdue::domain::declared::{
    ApplyOptions, DeclaredChannel, DeclaredCheck, DeclaredConfig, DeclaredProject, ObjectName,
};
use overdue::engine::command::apply_config::ApplyConfigRequest;

use super::*;

const PAGER: &[(&str, &str)] = &[("key", "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")];

fn assign(engine: &mut TestEngine, channel: ChannelId, check: CheckId, assigned: bool) {
    engine.execute(Command::AssignChannel {
        channel,
        checks: vec![check],
        assigned,
    });
}

fn set(engine: &mut TestEngine, channel: ChannelId, pairs: &[(&str, &str)]) {
    let update = SettingsUpdate::replace_all(
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
    );
    engine.execute(Command::UpdateChannel {
        channel,
        name: None,
        settings: Some(update),
        author: SettingsAuthor::Operator,
    });
}

fn waiting_events(engine: &TestEngine) -> Vec<(ChannelId, AlertEvent)> {
    waiting(engine)
        .into_iter()
        .map(|(channel, _, event)| (channel, event))
        .collect()
}

#[test]
fn a_channel_that_missed_the_downtime_is_not_notified_of_its_end() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let [first, disabled, moved] =
            [1, 2, 3].map(|uuid| channel(&mut engine, uuid, "webhook", HOOK));
        let id = check(&mut engine, 7);
        let late_channel = channel(&mut engine, 4, "webhook", HOOK);
        engine.execute(Command::DisableChannel {
            channel: disabled,
            reason: "no".into(),
        });
        engine.execute(ping(7, PingKind::Fail, ""));
        engine.execute(Command::EnableChannel(disabled));
        assign(&mut engine, late_channel, id, true);
        let every = channel(
            &mut engine,
            5,
            "webhook",
            &[HOOK, &[("every", "on")]].concat(),
        );
        assert_eq!(
            waiting_events(&engine),
            [first, moved].map(|channel| (channel, AlertEvent::Down))
        );
        if restarts {
            let now = engine.handle.now();
            drop(engine);
            engine = reopened(&disk, now);
        } else {
            assign(&mut engine, moved, id, false);
            assign(&mut engine, moved, id, true);
        }
        engine.execute(ping(7, PingKind::Success, ""));
        let recoveries = [(first, AlertEvent::Up), (moved, AlertEvent::Up)];
        assert_eq!(
            waiting_events(&engine)[2..],
            recoveries,
            "restarts: {restarts}"
        );
        // All of them are notified of the next downtime.
        engine.execute(ping(7, PingKind::Fail, ""));
        let all = [first, disabled, moved, late_channel, every]
            .map(|channel| (channel, AlertEvent::Down));
        assert_eq!(waiting_events(&engine)[4..], all);
        engine.execute(ping(7, PingKind::Success, ""));
        assert_eq!(waiting_events(&engine).len(), 14);
    }
}

#[test]
fn incidents_end_when_their_channel_leaves_a_group_or_no_longer_covers_every_check() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let every = channel(&mut engine, 1, "pd", &[PAGER, &[("every", "on")]].concat());
    let member = channel(&mut engine, 2, "pd", PAGER);
    let group = channel(
        &mut engine,
        3,
        "group",
        &[("channels", "00000000-0000-0000-0000-000000000002")],
    );
    let id = match engine.execute(create_check(MAIN, 7, CheckEdit::default())) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    };
    assign(&mut engine, group, id, true);
    engine.execute(ping(7, PingKind::Fail, ""));
    assert_eq!(
        waiting_events(&engine),
        [every, member].map(|channel| (channel, AlertEvent::Down))
    );
    set(&mut engine, every, &[PAGER, &[("every", "off")]].concat());
    engine.execute(Command::DeleteChannel(group));
    assert_eq!(
        waiting_events(&engine)[2..],
        [every, member].map(|channel| (channel, AlertEvent::Closed))
    );
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(
        waiting_events(&engine).len(),
        4,
        "no further alert is queued"
    );
}

/// Creates a check without channels.
fn unassigned(engine: &mut TestEngine, uuid: u128) -> CheckId {
    match engine.execute(create_check(MAIN, uuid, CheckEdit::default())) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

/// Stops the engine without a clean stop, and restarts it if `restarts`.
fn restart(engine: TestEngine, disk: &Disk, restarts: bool) -> TestEngine {
    if !restarts {
        return engine;
    }
    let now = engine.handle.now();
    drop(engine);
    reopened(disk, now)
}

#[test]
fn a_channel_that_keeps_incidents_is_notified_of_the_end_although_it_joined_late() {
    for (restarts, end) in [
        (false, 0),
        (true, 0),
        (false, 1),
        (true, 1),
        (false, 2),
        (true, 2),
    ] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let first = channel(&mut engine, 1, "pd", PAGER);
        let id = check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        report(&mut engine, first, all, SendOutcome::Delivered);
        // Both channels use the same service and key, so the second closes the incident that the
        // first has opened.
        engine.execute(Command::DeleteChannel(first));
        let second = channel(&mut engine, 2, "pd", PAGER);
        assign(&mut engine, second, id, true);
        let joined = (
            AlertEvent::Down,
            DeliveryResult::Skipped,
            "it was down already when the channel was assigned".to_owned(),
        );
        assert_eq!(outcomes(&engine)[1..], [joined]);
        let mut engine = restart(engine, &disk, restarts);
        match end {
            0 => engine.execute(ping(7, PingKind::Success, "")),
            1 => engine.execute(Command::PauseCheck(id, None)),
            _ => engine.execute(Command::DeleteCheck(id)),
        };
        assert_eq!(
            waiting_events(&engine),
            [(
                second,
                if end == 0 {
                    AlertEvent::Up
                } else {
                    AlertEvent::Closed
                }
            )],
            "{end}, restarts: {restarts}"
        );
    }
}

#[test]
fn an_alertmanager_that_joins_late_begins_to_fire_and_the_log_agrees() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let id = unassigned(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let before = outcomes(&engine);
        let late_channel = channel(&mut engine, 1, "alertmanager", &[("url", "http://a/")]);
        assign(&mut engine, late_channel, id, true);
        assert_eq!(
            (outcomes(&engine), waiting_events(&engine)),
            (before, vec![])
        );
        let mut engine = restart(engine, &disk, restarts);
        engine.execute(ping(7, PingKind::Success, ""));
        assert_eq!(
            waiting_events(&engine),
            [(late_channel, AlertEvent::Up)],
            "restarts: {restarts}"
        );
    }
}

#[test]
fn a_channel_that_joins_again_after_its_incident_was_closed_is_notified_again() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let pager = channel(&mut engine, 1, "pd", PAGER);
        let id = check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        assign(&mut engine, pager, id, false);
        let mut engine = restart(engine, &disk, restarts);
        assign(&mut engine, pager, id, true);
        let mut engine = restart(engine, &disk, restarts);
        engine.execute(ping(7, PingKind::Success, ""));
        let events = [
            AlertEvent::Down,
            AlertEvent::Closed,
            AlertEvent::Down,
            AlertEvent::Up,
        ];
        assert_eq!(
            waiting_events(&engine),
            events.map(|event| (pager, event)),
            "restarts: {restarts}"
        );
    }
}

/// A document with one channel of kind `pd` and one check that uses it.
fn document(engine: &TestEngine, every: bool, assigned: bool) -> Command {
    let channel = Uuid::from_u128(1);
    let check = Uuid::from_u128(7);
    let settings = [PAGER, &[("every", if every { "on" } else { "off" })]].concat();
    let settings = ChannelSettings::parse(channels::find_kind("pd").unwrap(), settings).unwrap();
    let name = ChannelName::parse("").unwrap();
    let channels = vec![DeclaredChannel {
        id: ObjectName::Uuid(channel),
        uuid: None,
        name,
        settings,
    }];
    let listed = assigned
        .then(|| channel.to_string().into())
        .into_iter()
        .collect();
    let edit = CheckEdit {
        channels: Some(ChannelSelection::Listed(listed)),
        ..CheckEdit::default()
    };
    let id = ObjectName::Uuid(check);
    let checks = vec![DeclaredCheck {
        id,
        uuid: None,
        previous_slug: None,
        edit,
        failure_threshold: FailureThreshold::ONE,
        parents: Vec::new(),
        paused: None,
    }];
    let name = engine
        .handle
        .with_state(|state| state.project(MAIN).unwrap().project.name.clone());
    let project = DeclaredProject {
        channels,
        checks,
        ..DeclaredProject::new(name)
    };
    let config = DeclaredConfig {
        source: None,
        projects: vec![project],
        users: Vec::new(),
    };
    let names = (0..5).map(|_| engine.handle.random().uuid()).collect();
    Command::ApplyConfig(Box::new(ApplyConfigRequest {
        config,
        options: ApplyOptions {
            prune_limit: None,
            adopt_unmanaged: true,
        },
        uuids: names,
    }))
}

#[test]
fn files_that_move_a_channel_from_every_check_to_one_and_back_close_nothing() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let pager = channel(&mut engine, 1, "pd", &[PAGER, &[("every", "on")]].concat());
    let id = unassigned(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    for (every, assigned) in [(false, true), (true, false), (true, true), (false, true)] {
        let document = document(&engine, every, assigned);
        engine.execute(document);
        assert_eq!(
            engine.read_check(id).settings.channels.contains(&pager),
            assigned
        );
        assert_eq!(
            (waiting_events(&engine), outcomes(&engine)),
            (vec![(pager, AlertEvent::Down)], vec![]),
            "{every} {assigned}"
        );
    }
    let document = document(&engine, false, false);
    engine.execute(document);
    assert_eq!(waiting_events(&engine)[1..], [(pager, AlertEvent::Closed)]);
}

#[test]
fn an_incident_is_closed_by_the_edit_that_takes_its_channel_away_and_ends_the_downtime() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let pager = channel(&mut engine, 1, "pd", PAGER);
    let id = create_periodic_check(&mut engine, 7, 60, 60);
    engine.execute(ping(7, PingKind::Success, ""));
    wait(&mut engine, 121);
    assert_eq!(waiting_events(&engine), [(pager, AlertEvent::Down)]);
    let timeout = Some(Seconds::parse(86_400).unwrap());
    let edit = CheckEdit {
        channels: Some(ChannelSelection::Listed(Vec::new())),
        timeout,
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(id, Box::new(edit)));
    assert_eq!(
        waiting_events(&engine)[1..],
        [(pager, AlertEvent::Closed)],
        "{:?}",
        engine.read_check(id).state.status
    );
}

#[test]
fn a_reminder_makes_a_late_channel_one_that_is_notified_of_the_end() {
    for (restarts, sent) in [(false, true), (true, true), (false, false), (true, false)] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let id = unassigned(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let mail = channel(
            &mut engine,
            1,
            "email",
            &[("to", "a@example.org"), ("repeat", "1h")],
        );
        assign(&mut engine, mail, id, true);
        engine.clock.advance_secs(3600);
        engine.execute(Command::QueueReminder(mail));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        report(
            &mut engine,
            mail,
            all,
            if sent {
                SendOutcome::Delivered
            } else {
                SendOutcome::Failed("no".into())
            },
        );
        let mut engine = restart(engine, &disk, restarts);
        engine.execute(ping(7, PingKind::Success, ""));
        let expected = if sent {
            vec![(mail, AlertEvent::Up)]
        } else {
            vec![]
        };
        assert_eq!(
            waiting_events(&engine),
            expected,
            "sent: {sent}, restarts: {restarts}"
        );
    }
}

#[test]
fn a_channel_that_a_reminder_notified_stays_notified_while_it_leaves_and_joins_again() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let id = unassigned(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let mail = channel(
            &mut engine,
            1,
            "email",
            &[("to", "a@example.org"), ("repeat", "1h")],
        );
        assign(&mut engine, mail, id, true);
        engine.clock.advance_secs(3600);
        engine.execute(Command::QueueReminder(mail));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        report(&mut engine, mail, all, SendOutcome::Delivered);
        assign(&mut engine, mail, id, false);
        let mut engine = restart(engine, &disk, restarts);
        assign(&mut engine, mail, id, true);
        engine.execute(ping(7, PingKind::Success, ""));
        assert_eq!(
            waiting_events(&engine),
            [(mail, AlertEvent::Up)],
            "restarts: {restarts}"
        );
    }
}

#[test]
fn incidents_that_a_command_has_no_rows_for_are_closed_by_the_next_batches_and_after_a_crash() {
    const CHECKS: u128 = 35;
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
        let pager = channel(&mut engine, 1, "pd", &[PAGER, &[("every", "on")]].concat());
        for uuid in 0..CHECKS {
            unassigned(&mut engine, 100 + uuid);
            engine.execute(ping(100 + uuid, PingKind::Fail, ""));
        }
        let closed = |engine: &TestEngine| {
            waiting_events(engine)
                .iter()
                .filter(|row| **row == (pager, AlertEvent::Closed))
                .count()
        };
        set(&mut engine, pager, &[PAGER, &[("every", "off")]].concat());
        assert_eq!(closed(&engine), 10, "the rows of one command");
        let mut engine = restart(engine, &disk, restarts);
        let mut before = closed(&engine);
        for _ in 0..4 {
            assert_eq!(engine.writer.step(false), Ok(true));
            let after = closed(&engine);
            assert!(
                restarts || after - before <= 10,
                "{} rows in one batch",
                after - before
            );
            before = after;
        }
        assert_eq!(before, CHECKS as usize, "restarts: {restarts}");
        engine.execute(ping(100, PingKind::Success, ""));
        assert_eq!(waiting_events(&engine).len(), 2 * CHECKS as usize);
    }
}

#[test]
fn an_incident_is_closed_once_although_its_beginning_is_still_being_sent() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let pager = channel(&mut engine, 1, "pd", PAGER);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let down = numbers(&engine);
    begin(&mut engine, down.clone());
    assign(&mut engine, pager, id, false);
    let closed: Vec<_> = numbers(&engine)
        .into_iter()
        .filter(|number| !down.contains(number))
        .collect();
    begin(&mut engine, closed.clone());
    report(&mut engine, pager, closed, SendOutcome::Delivered);
    let engine = restart(engine, &disk, true);
    assert_eq!(waiting_events(&engine), [(pager, AlertEvent::Down)]);
}

#[test]
fn the_end_of_an_incident_of_a_deleted_check_is_not_sent_after_a_restart() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let pager = channel(&mut engine, 1, "pd", PAGER);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let down = numbers(&engine);
    begin(&mut engine, down.clone());
    report(&mut engine, pager, down, SendOutcome::Delivered);
    engine.execute(ping(7, PingKind::Success, ""));
    let up = numbers(&engine);
    begin(&mut engine, up);
    let mut engine = restart(engine, &disk, true);
    engine.execute(Command::DeleteCheck(id));
    assert_eq!(waiting_events(&engine), [(pager, AlertEvent::Closed)]);
    assert!(engine.handle.with_state(|state| {
        state
            .outbox
            .rows()
            .all(|row| row.attempt_started.is_none() && row.may_be_duplicate)
    }));
    engine.execute(Command::DisableChannel {
        channel: pager,
        reason: "no".into(),
    });
    engine.writer.step(false).unwrap();
    assert_eq!(
        waiting_events(&engine),
        [],
        "an unsent message is removed with its channel"
    );
}

#[test]
fn an_end_that_is_being_sent_when_its_check_is_deleted_is_sent_again_if_that_fails() {
    for restarts in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let pager = channel(&mut engine, 1, "pd", PAGER);
        let hook = channel(&mut engine, 2, "webhook", HOOK);
        let id = check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let down = numbers(&engine);
        begin(&mut engine, down.clone());
        report(
            &mut engine,
            pager,
            down[..1].to_vec(),
            SendOutcome::Delivered,
        );
        report(
            &mut engine,
            hook,
            down[1..].to_vec(),
            SendOutcome::Delivered,
        );
        engine.execute(ping(7, PingKind::Success, ""));
        let up = numbers(&engine);
        begin(&mut engine, up.clone());
        engine.execute(Command::DeleteCheck(id));
        assert_eq!(
            waiting_events(&engine),
            [(pager, AlertEvent::Up), (hook, AlertEvent::Up)]
        );
        let mut engine = restart(engine, &disk, restarts);
        let failure = SendOutcome::Retry {
            reason: "the connection was reset".into(),
            may_have_arrived: true,
        };
        if restarts {
            begin(&mut engine, up);
        } else {
            report(&mut engine, pager, up[..1].to_vec(), failure.clone());
            report(&mut engine, hook, up[1..].to_vec(), failure);
        }
        assert_eq!(waiting_events(&engine), [(pager, AlertEvent::Closed)]);
    }
}

#[test]
fn a_rename_leaves_an_interrupted_attempt_interrupted() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "alertmanager", &[("url", "http://a/")]);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let down = numbers(&engine);
    begin(&mut engine, down.clone());
    let mut engine = restart(engine, &disk, true);
    let edit = CheckEdit {
        name: Some(Name::parse("another name").unwrap()),
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(id, Box::new(edit)));
    let is_sending = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.outbox.is_sending(down[0]))
    };
    assert!(!is_sending(&engine));
    assert_eq!(begin(&mut engine, down.clone()), [(2, true)]);
    assert!(is_sending(&engine));
}
