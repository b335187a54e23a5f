//! Alerts that flips add to the outbox, and their results.

mod audience;
mod fair_shares;
mod hold_matrix;
mod parents;
mod warnings;
mod windows;

use std::sync::Arc;

use overdue::channels;
use overdue::domain::alert::{
    AlertEvent, DeliveryRecord, DeliveryResult, HoldReason, NotificationState,
};
use overdue::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use overdue::domain::check_edit::{ChannelSelection, CheckEdit};
use overdue::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId};
use overdue::domain::number::{FailureThreshold, Seconds};
use overdue::domain::ping::PingKind;
use overdue::domain::project::{ChannelName, KeyLabel, KeySecret, SecretHash};
use overdue::domain::schedule::Schedule;
use overdue::domain::status::Status;
use overdue::domain::text::Name;
use overdue::domain::timestamp::Timestamp;
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{
    CheckRestoration, Command, CommandError, CommandOutcome, DeliveryReport, NewChannel, NewKey,
    SendOutcome, Unavailable,
};
use overdue::store::Medium;
use overdue::util::clock::ManualClock;
use uuid::Uuid;

use crate::support::commands::{create_check, ping};
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::{TestEngine, open};

const MAIN: ProjectId = ProjectId(1);
const HOOK: &[(&str, &str)] = &[("down-url", "http://a/down"), ("up-url", "http://a/up")];

pub(crate) fn channel(
    engine: &mut TestEngine,
    uuid: u128,
    kind: &str,
    pairs: &[(&str, &str)],
) -> ChannelId {
    let settings =
        ChannelSettings::parse(channels::find_kind(kind).unwrap(), pairs.iter().copied()).unwrap();
    let uuid = Uuid::from_u128(uuid);
    let name = ChannelName::parse("").unwrap();
    let channel = NewChannel {
        uuid,
        project: MAIN,
        name,
        settings,
        set_by_operator: true,
    };
    match engine.execute(Command::CreateChannel(Box::new(channel))) {
        CommandOutcome::Channel(channel) => channel.id,
        outcome => panic!("{outcome:?}"),
    }
}

/// Creates a check that notifies every existing channel.
fn check(engine: &mut TestEngine, uuid: u128) -> CheckId {
    match engine.execute(create_check(
        MAIN,
        uuid,
        CheckEdit {
            channels: Some(ChannelSelection::All),
            ..CheckEdit::default()
        },
    )) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn waiting(engine: &TestEngine) -> Vec<(ChannelId, CheckId, AlertEvent)> {
    engine.handle.with_state(|state| {
        state
            .outbox
            .rows()
            .map(|row| (row.channel, row.check, row.event))
            .collect()
    })
}

fn numbers(engine: &TestEngine) -> Vec<DeliveryNumber> {
    engine
        .handle
        .with_state(|state| state.outbox.rows().map(|row| row.number).collect())
}

/// Returns the finished deliveries, oldest first.
fn finished(engine: &TestEngine) -> Vec<DeliveryRecord> {
    let mut deliveries = engine
        .handle
        .deliveries(DeliveryNumber(u64::MAX), 1000, |_| true)
        .unwrap();
    deliveries.reverse();
    deliveries
}

fn outcomes(engine: &TestEngine) -> Vec<(AlertEvent, DeliveryResult, String)> {
    finished(engine)
        .into_iter()
        .map(|delivery| (delivery.event, delivery.result, delivery.reason.into()))
        .collect()
}

fn begin(engine: &mut TestEngine, numbers: Vec<DeliveryNumber>) -> Vec<(u16, bool)> {
    match engine.execute(Command::StartAttempts {
        rows: numbers,
        last_row: None,
    }) {
        CommandOutcome::AttemptsStarted(rows) => rows
            .iter()
            .map(|row| (row.attempts, row.may_be_duplicate))
            .collect(),
        outcome => panic!("{outcome:?}"),
    }
}

fn report(
    engine: &mut TestEngine,
    channel: ChannelId,
    rows: Vec<DeliveryNumber>,
    sent: SendOutcome,
) {
    engine.execute(Command::RecordDeliveryReports(vec![DeliveryReport {
        recipients: Default::default(),
        channel,
        sent_to: None,
        merged_into: rows.first().copied(),
        rows,
        result: sent,
        status: 202,
    }]));
}

#[test]
fn a_downtime_notifies_every_channel_and_its_end_the_channels_that_were_notified() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let only_up = channel(&mut engine, 2, "webhook", &[("up-url", "http://a/")]);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(waiting(&engine), [], "new to up sends no alert");
    engine.clock.advance_secs(86_400 + 3600 + 1);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(
        (waiting(&engine), engine.read_check(id).state.notification),
        (
            vec![(hook, id, AlertEvent::Down)],
            NotificationState::Notified
        )
    );
    // A second failure of a check that is down sends no alert.
    engine.execute(ping(7, PingKind::Fail, ""));
    assert_eq!(waiting(&engine).len(), 1);
    engine.execute(ping(7, PingKind::Success, ""));
    let all = vec![
        (hook, id, AlertEvent::Down),
        (hook, id, AlertEvent::Up),
        (only_up, id, AlertEvent::Up),
    ];
    assert_eq!(
        (waiting(&engine), engine.read_check(id).state.notification),
        (all, NotificationState::NotNeeded)
    );
    engine.handle.with_state(|state| {
        let row = state.outbox.rows().next().unwrap();
        let flip = engine.handle.flip(row.flip).unwrap().unwrap();
        assert_eq!(
            (flip.check, flip.flip.at, row.queued),
            (id, row.at, row.at.plus_secs(1))
        );
    });
}

#[test]
fn a_pause_sends_no_alert_and_a_failure_of_a_paused_check_does() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down)]);
    for command in [
        Command::PauseCheck(id, None),
        Command::ResumeCheck(id),
        ping(7, PingKind::Success, ""),
        Command::PauseCheck(id, None),
    ] {
        engine.execute(command);
    }
    assert_eq!(
        (
            waiting(&engine).len(),
            engine.read_check(id).state.notification
        ),
        (1, NotificationState::NotNeeded)
    );
    engine.execute(ping(7, PingKind::Fail, ""));
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down); 2]);
}

#[test]
fn a_check_that_was_down_alerts_again_when_its_pause_ends_or_is_undone() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let until = engine.handle.now().plus_secs(60);
    engine.execute(Command::PauseCheck(id, Some(until)));
    engine.clock.advance_secs(59);
    engine.writer.step(false).unwrap();
    assert_eq!(waiting(&engine).len(), 1);
    engine.clock.advance_secs(2);
    engine.writer.step(false).unwrap();
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down); 2]);
    let earlier = engine.read_check(id).state;
    engine.execute(Command::PauseCheck(id, None));
    let paused = engine.read_check(id).state;
    let restoration = CheckRestoration {
        check: id,
        earlier,
        newest: (paused.last_arrival, paused.last_flip),
    };
    let undo = Command::RestoreCheck(Box::new(restoration));
    engine.execute(undo.clone());
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down); 3]);
    // A second time, the check has changed since.
    let refused = engine.batch([undo]).remove(0).unwrap();
    assert_eq!(refused, Err(CommandError::Outdated));
}

#[test]
fn an_incident_ends_when_its_channel_is_removed_from_the_check() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let pager = channel(&mut engine, 2, "pd", &[("key", &"k".repeat(32))]);
    let id = check(&mut engine, 7);
    let assign = |channel, assigned| Command::AssignChannel {
        channel,
        checks: vec![id],
        assigned,
    };
    engine.execute(assign(pager, false));
    assert_eq!(waiting(&engine), [], "it was never told");
    engine.execute(assign(pager, true));
    engine.execute(ping(7, PingKind::Fail, ""));
    engine.execute(assign(hook, false));
    engine.execute(assign(pager, false));
    // The service has been sent the recovery.
    engine.execute(assign(pager, true));
    let closed = CheckEdit {
        channels: Some(ChannelSelection::Listed(Vec::new())),
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(id, Box::new(closed)));
    let again = [(pager, AlertEvent::Down), (pager, AlertEvent::Closed)];
    let expected = [(hook, AlertEvent::Down)]
        .into_iter()
        .chain(again)
        .chain(again)
        .collect::<Vec<_>>();
    assert_eq!(
        waiting(&engine),
        expected
            .into_iter()
            .map(|(channel, event)| (channel, id, event))
            .collect::<Vec<_>>()
    );
}

#[test]
fn attempts_are_counted_and_interrupted_ones_are_marked() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let all = numbers(&engine);
    assert_eq!(
        begin(&mut engine, vec![all[0], DeliveryNumber(99)]),
        [(1, false)],
        "a missing row is not begun"
    );
    report(
        &mut engine,
        hook,
        all.clone(),
        SendOutcome::Retry {
            reason: "no answer".into(),
            may_have_arrived: false,
        },
    );
    let failing = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.channel(hook).unwrap().health.failing.clone())
    };
    assert_eq!(
        failing(&engine),
        Some((engine.handle.now(), "no answer".into()))
    );
    assert_eq!(begin(&mut engine, all.clone()), [(2, false)]);
    for round in 1..=3 {
        // The process ends without a clean stop.
        drop(engine);
        engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        let begun = begin(&mut engine, all.clone());
        assert_eq!(
            begun,
            if round < 3 {
                vec![(2 + round, true)]
            } else {
                vec![]
            }
        );
    }
    assert_eq!(waiting(&engine), []);
    assert_eq!(
        outcomes(&engine),
        [(
            AlertEvent::Down,
            DeliveryResult::Failed,
            "sending it ended the server three times".into()
        )]
    );
    // The next message has a number of its own, also after a restart.
    drop(engine);
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Up)]);
    assert!(numbers(&engine)[0] > all[0]);
}

#[test]
fn deliveries_are_logged_and_a_channel_that_refuses_gets_no_further_alerts() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = check(&mut engine, 7);
    for kind in [PingKind::Fail, PingKind::Success, PingKind::Fail] {
        engine.execute(ping(7, kind, ""));
    }
    let all = numbers(&engine);
    begin(&mut engine, all.clone());
    report(
        &mut engine,
        hook,
        vec![all[2], all[0]],
        SendOutcome::Delivered,
    );
    let found = finished(&engine);
    let events: Vec<_> = found
        .iter()
        .map(|delivery| {
            (
                delivery.number,
                delivery.status,
                delivery.attempts,
                delivery.merged_into,
            )
        })
        .collect();
    assert_eq!(
        events,
        [(all[0], 202, 1, Some(all[2])), (all[2], 202, 1, None)]
    );
    assert!(found.iter().all(
        |delivery| (delivery.check, delivery.channel, delivery.finished)
            == (id, hook, engine.handle.now())
    ));
    report(
        &mut engine,
        hook,
        vec![all[1]],
        SendOutcome::ChannelRejected("410 Gone".into()),
    );
    let channel = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.channel(hook).unwrap().clone())
    };
    assert_eq!(
        channel(&engine).health.disabled,
        Some((engine.handle.now(), "410 Gone".into()))
    );
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(
        (waiting(&engine), outcomes(&engine)[3].2.as_str()),
        (vec![], "the channel is disabled")
    );
    engine.execute(Command::EnableChannel(hook));
    engine.execute(ping(7, PingKind::Fail, ""));
    assert_eq!(
        (waiting(&engine), channel(&engine).health.is_healthy()),
        (vec![(hook, id, AlertEvent::Down)], true)
    );
    // The channel is disabled again: pending messages are discarded.
    engine.execute(Command::DisableChannel {
        channel: hook,
        reason: "enough".into(),
    });
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(waiting(&engine), []);
}

#[test]
fn too_many_queued_alerts_of_a_check_drop_the_oldest_and_mention_it() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let first = numbers(&engine);
    begin(&mut engine, first);
    for _ in 0..50 {
        engine.execute(ping(7, PingKind::Success, ""));
        engine.execute(ping(7, PingKind::Fail, ""));
    }
    engine.handle.with_state(|state| {
        let rows: Vec<_> = state
            .outbox
            .rows_of_channel(hook)
            .map(|row| (row.event, row.attempt_started.is_some()))
            .collect();
        assert!(
            rows.len() <= 8
                && rows[0] == (AlertEvent::Down, true)
                && rows[rows.len() - 1].0 == AlertEvent::Down,
            "{rows:?}"
        );
        assert!(
            rows.windows(2).all(|pair| pair[0].0 != pair[1].0),
            "down and up take turns: {rows:?}"
        );
        let skipped: u16 = state.outbox.rows().map(|row| row.dropped_before).sum();
        let left_out = finished(&engine)
            .iter()
            .filter(|delivery| delivery.result == DeliveryResult::Superseded)
            .count();
        assert_eq!(
            (usize::from(skipped), left_out + rows.len()),
            (left_out, 101)
        );
    });
}

#[test]
fn pending_alerts_are_removed_with_their_check_channel_or_project() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let one = channel(&mut engine, 1, "webhook", HOOK);
    let two = channel(&mut engine, 2, "webhook", HOOK);
    let ids = [7, 8].map(|uuid| check(&mut engine, uuid));
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Fail, ""));
    }
    engine.execute(Command::DeleteCheck(ids[0]));
    assert_eq!(
        waiting(&engine),
        [
            (one, ids[1], AlertEvent::Down),
            (two, ids[1], AlertEvent::Down)
        ]
    );
    engine.execute(Command::DeleteChannel(one));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(waiting(&engine), [(two, ids[1], AlertEvent::Down)]);
    engine.execute(Command::DeleteProject(MAIN));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(waiting(&engine), []);
    let reasons: Vec<_> = outcomes(&engine)
        .into_iter()
        .map(|(.., reason)| reason)
        .collect();
    assert_eq!(
        reasons,
        [
            "the check was deleted",
            "the check was deleted",
            "the channel was deleted",
            "the channel was deleted"
        ]
    );
}

#[test]
fn deliveries_are_kept_for_thirty_days() {
    let mut engine = TestEngine::open(
        Medium::memory(),
        HousekeepingLimits {
            slice_rows: 4,
            ..HousekeepingLimits::default()
        },
    );
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    for day in 0..40 {
        engine.execute(ping(
            7,
            if day % 2 == 0 {
                PingKind::Fail
            } else {
                PingKind::Success
            },
            "",
        ));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        report(&mut engine, hook, all, SendOutcome::Delivered);
        for _ in 0..24 {
            engine.clock.advance_secs(3600);
            assert_eq!(engine.writer.step(false), Ok(true));
        }
    }
    for _ in 0..10 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    let from = engine.handle.now().plus_secs(-31 * 86_400);
    let found = finished(&engine);
    assert!(
        found.len() >= 30 && found.iter().all(|delivery| delivery.finished >= from),
        "{}",
        found.len()
    );
}

/// Suspends the machine for a number of seconds.
fn sleep(engine: &mut TestEngine, secs: i64) {
    engine.clock.jump_to(engine.handle.now().plus_secs(secs));
    assert_eq!(engine.writer.step(false), Ok(true));
}

fn create_periodic_check(engine: &mut TestEngine, uuid: u128, period: i64, grace: i64) -> CheckId {
    let seconds = |number| Some(Seconds::parse(number).unwrap());
    let edit = CheckEdit {
        channels: Some(ChannelSelection::All),
        timeout: seconds(period),
        grace: seconds(grace),
        ..CheckEdit::default()
    };
    match engine.execute(create_check(MAIN, uuid, edit)) {
        CommandOutcome::CheckCreated(check) => check.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn wait(engine: &mut TestEngine, secs: i64) {
    engine.clock.advance_secs(secs);
    assert_eq!(engine.writer.step(false), Ok(true));
}

#[test]
fn checks_whose_pings_may_have_been_lost_get_time_to_report_again() {
    // Period, grace, seconds from the end of the outage to the alert, and whether the outage delays
    // it.
    for (period, grace, due) in [
        (300, 60, 360),
        (60, 60, 120),
        (3600, 60, 120),
        (600, 600, 120),
    ] {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        engine.create_project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let id = create_periodic_check(&mut engine, 7, period, grace);
        engine.execute(ping(7, PingKind::Success, ""));
        // The outage begins just before the ping is expected and ends after the check is due.
        wait(&mut engine, period - 20);
        sleep(&mut engine, grace + 30);
        let check = engine.read_check(id);
        assert_eq!(
            check.state.status,
            Status::Down,
            "the status matches the contract"
        );
        let at = engine.handle.now().plus_secs(due);
        assert_eq!(
            (check.state.notification, waiting(&engine)),
            (
                NotificationState::Pending {
                    at,
                    reason: HoldReason::ServerOutage
                },
                vec![]
            ),
            "{period} {grace}"
        );
        wait(&mut engine, due - 1);
        assert_eq!(waiting(&engine), []);
        assert!(engine.writer.covers_all_deadlines());
        wait(&mut engine, 2);
        assert_eq!(
            waiting(&engine),
            [(hook, id, AlertEvent::Down)],
            "{period} {grace}"
        );
        assert!(
            engine
                .handle
                .with_state(|state| state.outbox.rows().all(|row| row.during_outage))
        );
    }
}

#[test]
fn checks_that_report_after_an_outage_send_no_alert_and_the_log_has_the_reason() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let ids = [7, 8, 9].map(|uuid| create_periodic_check(&mut engine, uuid, 300, 60));
    for uuid in [7, 8, 9] {
        engine.execute(ping(uuid, PingKind::Success, ""));
    }
    wait(&mut engine, 10);
    sleep(&mut engine, 590);
    wait(&mut engine, 60);
    engine.execute(ping(7, PingKind::Success, ""));
    // A reported failure alerts at once, outage or not.
    engine.execute(ping(8, PingKind::Fail, ""));
    let events: Vec<_> = waiting(&engine)
        .into_iter()
        .map(|(_, check, event)| (check, event))
        .collect();
    assert_eq!(events, [(ids[1], AlertEvent::Down)]);
    assert!(
        engine
            .handle
            .with_state(|state| state.outbox.rows().all(|row| !row.during_outage))
    );
    let reason =
        "it was up again soon after a time when the server could not receive pings".to_owned();
    assert_eq!(
        outcomes(&engine),
        [(AlertEvent::Down, DeliveryResult::Skipped, reason)]
    );
    // Long after the outage, the deadline of the check counts again.
    wait(&mut engine, 3600);
    assert_eq!(waiting(&engine).len(), 3);
}

#[test]
fn a_check_alerts_when_it_reaches_its_failure_threshold() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(3).unwrap()),
        parents: None,
    });
    // Reported failures count.
    for expected in [0, 0, 1, 1] {
        engine.execute(ping(7, PingKind::Fail, ""));
        assert_eq!(waiting(&engine).len(), expected);
    }
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(
        waiting(&engine),
        [(hook, id, AlertEvent::Down), (hook, id, AlertEvent::Up)]
    );
    // Missed pings count as failures, and so does each further expected ping.
    for (secs, expected) in [(361, 2), (299, 2), (2, 2), (300, 3)] {
        wait(&mut engine, secs);
        assert_eq!(waiting(&engine).len(), expected, "{secs}");
    }
    engine.execute(ping(7, PingKind::Success, ""));
    // A check that recovers before its threshold notifies no channel.
    wait(&mut engine, 400);
    assert!(matches!(
        engine.read_check(id).state.notification,
        NotificationState::Pending {
            reason: HoldReason::BelowThreshold,
            ..
        }
    ));
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!((waiting(&engine).len(), outcomes(&engine).len()), (4, 1));
    // The threshold is lowered while the check is down: the alert is due.
    wait(&mut engine, 400);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::ONE),
        parents: None,
    });
    assert_eq!(waiting(&engine).len(), 5);
}

#[test]
fn reasons_for_holding_an_alert_survive_a_restart() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(2).unwrap()),
        parents: None,
    });
    engine.execute(ping(7, PingKind::Fail, ""));
    let notification = engine.read_check(id).state.notification;
    assert_eq!(
        notification,
        NotificationState::Pending {
            at: engine.handle.now().plus_secs(360),
            reason: HoldReason::BelowThreshold
        }
    );
    let now = engine.handle.now();
    drop(engine);
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.clock.set(now);
    assert_eq!(engine.read_check(id).state.notification, notification);
    wait(&mut engine, 361);
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down)]);
}

/// Returns the outages that the engine remembers, in seconds before now.
fn known_outages(engine: &TestEngine) -> Vec<(i64, i64)> {
    let now = engine.handle.now();
    let ago = |at: Timestamp| now.micros_since(at) / 1_000_000;
    engine.handle.with_state(|state| {
        state
            .outages
            .iter()
            .map(|away| (ago(away.from), ago(away.to)))
            .collect()
    })
}

#[test]
fn every_outage_is_noticed() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(ping(7, PingKind::Success, ""));
    assert_eq!(known_outages(&engine), []);
    // The process ends without a clean stop and starts again.
    wait(&mut engine, 100);
    engine.execute(ping(7, PingKind::Success, ""));
    let began = engine.handle.now().plus_secs(600);
    drop(engine);
    let reopen = |at: Timestamp| {
        let clock = ManualClock::at(at);
        let (handle, writer) = open(disk.medium(), &clock, |_| ()).unwrap();
        TestEngine {
            handle,
            writer,
            clock,
        }
    };
    let mut engine = reopen(began);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(known_outages(&engine), [(600, 0)]);
    let expected = NotificationState::Pending {
        at: began.plus_secs(360),
        reason: HoldReason::ServerOutage,
    };
    assert_eq!(
        (
            engine.read_check(id).state.status,
            engine.read_check(id).state.notification
        ),
        (Status::Down, expected)
    );
    // A short restart is no outage. Neither is a restart of a server that was idle for long.
    engine.execute(ping(7, PingKind::Success, ""));
    drop(engine);
    let mut engine = reopen(began.plus_secs(29));
    for _ in 0..20 {
        wait(&mut engine, 60);
    }
    assert_eq!(known_outages(&engine).len(), 1);
    // A clean stop stores its time.
    engine.handle.close();
    while engine.writer.step(false) == Ok(true) {}
    let stopped = engine.handle.now();
    drop(engine);
    let mut engine = reopen(stopped.plus_secs(45));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(known_outages(&engine).last(), Some(&(45, 0)));
    // The machine sleeps: the clock advances, and no time passes for the process.
    wait(&mut engine, 900);
    engine.clock.jump_to(engine.handle.now().plus_secs(3600));
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(known_outages(&engine).last(), Some(&(3600, 0)));
    // The disk refuses writes for a while.
    wait(&mut engine, 900);
    disk.fail_after(DiskOperation::Write, 0);
    assert_eq!(
        engine.batch([ping(7, PingKind::Success, "")]),
        [Err(Unavailable::StorageFailed)]
    );
    for _ in 0..5 {
        engine.clock.advance_secs(10);
        let _ = engine.writer.step(false);
    }
    disk.heal();
    for _ in 0..3 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert_eq!(known_outages(&engine).last(), Some(&(50, 0)));
    // At most sixteen outages are remembered.
    for _ in 0..20 {
        wait(&mut engine, 900);
        engine.clock.jump_to(engine.handle.now().plus_secs(60));
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    let outages = known_outages(&engine);
    drop(engine);
    assert_eq!(
        (outages.len(), known_outages(&reopen(stopped)).len()),
        (16, 16)
    );
}

#[test]
fn without_extra_time_after_an_outage_alerts_are_sent_at_once() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(ping(7, PingKind::Success, ""));
    let clock = ManualClock::at(engine.handle.now().plus_secs(600));
    drop(engine);
    let (handle, writer) = open(disk.medium(), &clock, |config| {
        config.holds_alerts_after_outage = false;
    })
    .unwrap();
    let mut engine = TestEngine {
        handle,
        writer,
        clock,
    };
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(
        (known_outages(&engine), waiting(&engine)),
        (vec![], vec![(hook, id, AlertEvent::Down)])
    );
}

/// Opens another engine on the same disk at this time.
fn reopened(disk: &Disk, at: Timestamp) -> TestEngine {
    let clock = ManualClock::at(at);
    let (handle, writer) = open(disk.medium(), &clock, |_| ()).unwrap();
    let mut engine = TestEngine {
        handle,
        writer,
        clock,
    };
    (0..3).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
    engine
}

#[test]
fn a_second_outage_gives_time_to_report_again() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(ping(7, PingKind::Success, ""));
    let began = engine.handle.now();
    for secs in [1800, 3600] {
        drop(engine);
        let now = began.plus_secs(secs);
        engine = reopened(&disk, now);
        let pending = NotificationState::Pending {
            at: now.plus_secs(360),
            reason: HoldReason::ServerOutage,
        };
        assert_eq!(
            (engine.read_check(id).state.notification, waiting(&engine)),
            (pending, vec![]),
            "{secs}"
        );
    }
    // Jobs had no time to report between the two outages.
    assert_eq!(known_outages(&engine), [(3600, 0)]);
    wait(&mut engine, 361);
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down)]);
}

#[test]
fn an_outage_counts_as_no_further_failure() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(2).unwrap()),
        parents: None,
    });
    engine.execute(ping(7, PingKind::Fail, ""));
    let began = engine.handle.now();
    drop(engine);
    let mut engine = reopened(&disk, began.plus_secs(3600));
    let state = engine.read_check(id).state;
    let pending = NotificationState::Pending {
        at: began.plus_secs(3660),
        reason: HoldReason::BelowThreshold,
    };
    assert_eq!(
        (state.notification, state.failures, waiting(&engine)),
        (pending, 1, vec![])
    );
    // The ping that was expected just after the outage may have been lost. The next one cannot be.
    wait(&mut engine, 61);
    assert_eq!(
        (engine.read_check(id).state.failures, waiting(&engine)),
        (1, vec![])
    );
    wait(&mut engine, 300);
    assert_eq!(waiting(&engine), [(hook, id, AlertEvent::Down)]);
}

#[test]
fn a_check_that_is_paused_or_deleted_while_its_alert_is_held_sends_none() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let schedule = Schedule::parse("5 4 * * *").ok().map(Arc::new);
    let edit = CheckEdit {
        schedule,
        channels: Some(ChannelSelection::All),
        ..CheckEdit::default()
    };
    let CommandOutcome::CheckCreated(check) = engine.execute(create_check(MAIN, 7, edit)) else {
        panic!()
    };
    engine.execute(Command::UpdateAlertSettings {
        check: check.id,
        failure_threshold: Some(FailureThreshold::parse(2).unwrap()),
        parents: None,
    });
    engine.execute(ping(7, PingKind::Fail, ""));
    assert!(matches!(
        engine.read_check(check.id).state.notification,
        NotificationState::Pending { .. }
    ));
    let began = engine.handle.now();
    drop(engine);
    crate::damaged_database::put_row(&disk, "checks", check.id.0, |row| {
        let at = row
            .windows(9)
            .position(|window| window == b"5 4 * * *")
            .unwrap();
        [&row[..at], b"5 4 * * X", &row[at + 9..]].concat()
    });
    let mut engine = reopened(&disk, began.plus_secs(5));
    assert_eq!(
        (
            engine.read_check(check.id).state.status,
            engine.read_check(check.id).state.notification
        ),
        (Status::Paused, NotificationState::NotNeeded)
    );
    (0..3).for_each(|_| wait(&mut engine, 86_400));
    assert_eq!((waiting(&engine), outcomes(&engine)), (vec![], vec![]));
}

#[test]
fn the_log_says_how_a_downtime_with_a_held_alert_ended() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(5).unwrap()),
        parents: None,
    });
    for end in [
        ping(7, PingKind::Success, ""),
        Command::PauseCheck(id, None),
        Command::DeleteCheck(id),
    ] {
        engine.execute(ping(7, PingKind::Fail, ""));
        engine.execute(end);
    }
    let ends = [
        "it was up again before it had failed often enough in a row",
        "it was paused before it had failed often enough in a row",
    ];
    let ends = ends
        .into_iter()
        .chain(["the check was deleted"])
        .map(|reason| (AlertEvent::Down, DeliveryResult::Skipped, reason.to_owned()));
    assert_eq!(outcomes(&engine), ends.collect::<Vec<_>>());
    let flips = finished(&engine)
        .into_iter()
        .map(|delivery| engine.handle.flip(delivery.flip).unwrap().unwrap().flip.to);
    assert_eq!(flips.collect::<Vec<_>>(), [Status::Down; 3]);
}

#[test]
fn a_new_period_counts_at_once_for_a_held_alert() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 86_400, 60);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(2).unwrap()),
        parents: None,
    });
    engine.execute(ping(7, PingKind::Fail, ""));
    let due = |engine: &TestEngine| match engine.read_check(id).state.notification {
        NotificationState::Pending {
            at,
            reason: HoldReason::BelowThreshold,
        } => at.micros_since(engine.handle.now()) / 1_000_000,
        telling => panic!("{telling:?}"),
    };
    assert_eq!(due(&engine), 86_460);
    let edit = CheckEdit {
        timeout: Some(Seconds::parse(300).unwrap()),
        ..CheckEdit::default()
    };
    engine.execute(Command::UpdateCheck(id, Box::new(edit)));
    assert_eq!(due(&engine), 360);
    assert!(engine.writer.covers_all_deadlines());
    wait(&mut engine, 361);
    assert_eq!(waiting(&engine).len(), 1);
}

#[test]
fn a_command_without_a_server_leaves_the_outage_to_the_next_start() {
    for command in [None, Some(false), Some(true)] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        channel(&mut engine, 1, "webhook", HOOK);
        let [id, other] = [7, 8].map(|uuid| create_periodic_check(&mut engine, uuid, 300, 60));
        engine.batch([7, 8].map(|uuid| ping(uuid, PingKind::Success, "")));
        engine.handle.close();
        while engine.writer.step(false).unwrap() {}
        let began = engine.handle.now();
        drop(engine);
        if let Some(tidies) = command {
            let clock = ManualClock::at(began.plus_secs(1800));
            let (handle, writer) =
                open(disk.medium(), &clock, |config| config.accepts_pings = false).unwrap();
            let mut engine = TestEngine {
                handle,
                writer,
                clock,
            };
            if tidies {
                engine.writer.run_all_housekeeping().unwrap();
            } else {
                // A command that examines the check finds that its deadline passed during an
                // outage.
                engine.execute(Command::UpdateAlertSettings {
                    check: other,
                    failure_threshold: Some(FailureThreshold::ONE),
                    parents: None,
                });
                (0..5).for_each(|_| wait(&mut engine, 1));
                assert_eq!(
                    (
                        engine.read_check(id).state.status,
                        engine.read_check(other).state.status
                    ),
                    (Status::Up, Status::Down)
                );
                assert!(matches!(
                    engine.read_check(other).state.notification,
                    NotificationState::Pending {
                        reason: HoldReason::ServerOutage,
                        ..
                    }
                ));
                let key = NewKey {
                    project: MAIN,
                    secret: KeySecret::ReadOnly(SecretHash([7; 32])),
                    label: KeyLabel::default(),
                    hint: "".into(),
                };
                engine.execute(Command::CreateKey(Box::new(key)));
                engine.handle.close();
                while engine.writer.step(false).unwrap() {}
            }
        }
        let engine = reopened(&disk, began.plus_secs(3600));
        let pending = NotificationState::Pending {
            at: began.plus_secs(3600 + 360),
            reason: HoldReason::ServerOutage,
        };
        let found = [id, other].map(|id| engine.read_check(id).state.notification);
        assert_eq!(
            (found, waiting(&engine), known_outages(&engine)),
            ([pending; 2], vec![], vec![(3600, 0)]),
            "{command:?}"
        );
    }
}

#[test]
fn a_frozen_process_notices_the_outage() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.clock.act_as_system();
    assert_eq!(engine.writer.step(false), Ok(true));
    wait(&mut engine, 29);
    assert_eq!(known_outages(&engine), []);
    wait(&mut engine, 40);
    assert_eq!(known_outages(&engine), [(40, 0)]);
    // The process froze, and then the machine slept.
    wait(&mut engine, 1);
    engine.clock.advance_secs(1000);
    sleep(&mut engine, 2000);
    assert_eq!(known_outages(&engine), [(3041, 0)]);
}

#[test]
fn new_settings_enable_a_disabled_channel() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    engine.execute(Command::DisableChannel {
        channel: hook,
        reason: "410 Gone".into(),
    });
    let disabled = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.channel(hook).unwrap().health.disabled.is_some())
    };
    let set = |engine: &mut TestEngine, pairs: &[(&str, &str)]| {
        let update = SettingsUpdate::replace_all(
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
        );
        let name = Some(ChannelName::parse("hook").unwrap());
        engine.execute(Command::UpdateChannel {
            channel: hook,
            name,
            settings: Some(update),
            author: SettingsAuthor::Operator,
        });
    };
    set(&mut engine, HOOK);
    assert!(disabled(&engine));
    set(&mut engine, &[("down-url", "http://b/down")]);
    assert!(!disabled(&engine));
}

#[test]
fn a_result_under_old_settings_does_not_affect_the_status_under_new_ones() {
    let reason = || "410 Gone".into();
    // Result under the current settings: whether the channel is disabled, whether it fails, and the
    // number of finished deliveries.
    for (sent, expected) in [
        (SendOutcome::ChannelRejected(reason()), (true, false, 1)),
        (SendOutcome::Failed(reason()), (false, false, 1)),
        (
            SendOutcome::Retry {
                reason: reason(),
                may_have_arrived: false,
            },
            (false, true, 0),
        ),
    ] {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        engine.create_project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let rows = numbers(&engine);
        let sent_to = engine
            .handle
            .with_state(|state| state.channel(hook).cloned());
        begin(&mut engine, rows.clone());
        let update = SettingsUpdate::replace_all(vec![("down-url".into(), "http://b/down".into())]);
        engine.execute(Command::UpdateChannel {
            channel: hook,
            name: None,
            settings: Some(update),
            author: SettingsAuthor::Operator,
        });
        let report = |sent, sent_to| {
            vec![DeliveryReport {
                recipients: Default::default(),
                channel: hook,
                sent_to,
                rows: rows.clone(),
                merged_into: None,
                result: sent,
                status: 410,
            }]
        };
        engine.execute(Command::RecordDeliveryReports(report(
            sent.clone(),
            sent_to.clone(),
        )));
        let now = engine
            .handle
            .with_state(|state| state.channel(hook).cloned().unwrap());
        assert_eq!(
            (now.health.clone(), numbers(&engine)),
            (Default::default(), rows.clone()),
            "{sent:?}: it is sent again"
        );
        let adopt = |sent_to| Command::AdoptSetting {
            sent_to,
            key: "down-url",
            value: "http://c/".into(),
        };
        let url = |engine: &TestEngine| {
            engine.handle.with_state(|state| {
                state
                    .channel(hook)
                    .unwrap()
                    .settings
                    .urls()
                    .next()
                    .unwrap()
                    .to_owned()
            })
        };
        engine.execute(adopt(sent_to.unwrap()));
        assert_eq!(url(&engine), "http://b/down");
        engine.execute(adopt(Arc::clone(&now)));
        assert_eq!(url(&engine), "http://c/");
        // The current settings count.
        begin(&mut engine, rows.clone());
        let sent_to = engine
            .handle
            .with_state(|state| state.channel(hook).cloned());
        engine.execute(Command::RecordDeliveryReports(report(sent, sent_to)));
        let health = engine
            .handle
            .with_state(|state| state.channel(hook).unwrap().health.clone());
        assert_eq!(
            (
                health.disabled.is_some(),
                health.failing.is_some(),
                outcomes(&engine).len()
            ),
            expected
        );
    }
}

#[test]
fn a_message_in_progress_waits_for_its_result_after_its_check_or_channel_is_deleted() {
    for (disables, sent, expected) in [
        (false, SendOutcome::Delivered, DeliveryResult::Delivered),
        (true, SendOutcome::Delivered, DeliveryResult::Delivered),
        (
            false,
            SendOutcome::Retry {
                reason: "no".into(),
                may_have_arrived: true,
            },
            DeliveryResult::Skipped,
        ),
        (
            true,
            SendOutcome::Retry {
                reason: "no".into(),
                may_have_arrived: true,
            },
            DeliveryResult::Skipped,
        ),
    ] {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        engine.create_project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let id = check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let all = numbers(&engine);
        assert_eq!(begin(&mut engine, all.clone()).len(), 1);
        engine.execute(if disables {
            Command::DeleteChannel(hook)
        } else {
            Command::DeleteCheck(id)
        });
        (0..3).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
        assert_eq!(
            (waiting(&engine).len(), finished(&engine).len()),
            (1, 0),
            "{disables} {sent:?}"
        );
        assert!(
            !engine.handle.with_state(|state| state.has_rows_to_remove()),
            "nothing keeps the writer busy"
        );
        report(&mut engine, hook, all, sent);
        (0..2).for_each(|_| assert_eq!(engine.writer.step(false), Ok(true)));
        let outcomes: Vec<_> = finished(&engine)
            .iter()
            .map(|delivery| delivery.result)
            .collect();
        assert_eq!(
            (waiting(&engine), outcomes),
            (vec![], vec![expected]),
            "{disables}"
        );
    }
}

#[test]
fn a_message_that_a_crash_interrupted_is_removed_with_its_check_or_channel() {
    for disables in [false, true] {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        engine.create_project(100);
        let hook = channel(&mut engine, 1, "webhook", HOOK);
        let id = check(&mut engine, 7);
        engine.execute(ping(7, PingKind::Fail, ""));
        let all = numbers(&engine);
        begin(&mut engine, all.clone());
        engine.execute(if disables {
            Command::DisableChannel {
                channel: hook,
                reason: "no".into(),
            }
        } else {
            Command::DeleteCheck(id)
        });
        // No attempt begins for a disabled channel.
        assert_eq!(
            begin(&mut engine, if disables { all.clone() } else { vec![] }),
            []
        );
        let now = engine.handle.now();
        drop(engine);
        let mut engine = reopened(&disk, now);
        assert_eq!(begin(&mut engine, all), []);
        assert_eq!((waiting(&engine), outcomes(&engine).len()), (vec![], 1));
    }
}

#[test]
fn the_oldest_deliveries_beyond_the_limit_are_removed() {
    let mut engine = TestEngine::open(
        Medium::memory(),
        HousekeepingLimits {
            max_deliveries: 500,
            slice_rows: 4,
            ..HousekeepingLimits::default()
        },
    );
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    let count = |engine: &TestEngine| {
        engine
            .handle
            .deliveries(DeliveryNumber(u64::MAX), usize::MAX, |_| true)
            .unwrap()
            .len()
    };
    let mut largest = 0;
    for _ in 0..60 {
        engine.batch((0..40).map(|number| {
            ping(
                7,
                if number % 2 == 0 {
                    PingKind::Fail
                } else {
                    PingKind::Success
                },
                "",
            )
        }));
        largest = largest.max(count(&engine));
    }
    assert!((500..=560).contains(&largest), "{largest}");
}

#[test]
fn another_error_of_a_failing_channel_changes_no_list() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Fail, ""));
    let all = numbers(&engine);
    let version = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.project(MAIN).unwrap().version)
    };
    for (reason, changes) in [("no answer", 1), ("500", 0), ("502", 0)] {
        begin(&mut engine, all.clone());
        let before = version(&engine);
        report(
            &mut engine,
            hook,
            all.clone(),
            SendOutcome::Retry {
                reason: reason.into(),
                may_have_arrived: false,
            },
        );
        assert_eq!(version(&engine) - before, changes, "{reason}");
        assert_eq!(
            &*engine.handle.with_state(|state| state
                .channel(hook)
                .unwrap()
                .health
                .failing
                .as_ref()
                .unwrap()
                .1
                .clone()),
            reason
        );
    }
}

#[test]
fn a_failure_that_is_reported_in_time_does_not_count_as_a_missed_ping_too() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    channel(&mut engine, 1, "webhook", HOOK);
    let id = create_periodic_check(&mut engine, 7, 300, 60);
    engine.execute(Command::UpdateAlertSettings {
        check: id,
        failure_threshold: Some(FailureThreshold::parse(3).unwrap()),
        parents: None,
    });
    for (secs, failures) in [(0, 1), (290, 2)] {
        wait(&mut engine, secs);
        engine.execute(ping(7, PingKind::Fail, ""));
        assert_eq!(engine.read_check(id).state.failures, failures);
    }
    // The next ping was due 300 s and a minute of grace after the first, and arrived.
    wait(&mut engine, 71);
    assert_eq!(
        (engine.read_check(id).state.failures, waiting(&engine)),
        (2, vec![])
    );
    // The next ping is missing 360 s after the second.
    wait(&mut engine, 290);
    assert_eq!(
        (engine.read_check(id).state.failures, waiting(&engine).len()),
        (3, 1)
    );
}

#[test]
fn a_downtime_counts_the_same_missed_pings_whenever_it_is_noticed() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let hook = channel(&mut engine, 1, "webhook", HOOK);
    let create_and_ping = |engine: &mut TestEngine, uuid| {
        let id = create_periodic_check(engine, uuid, 300, 60);
        engine.execute(Command::UpdateAlertSettings {
            check: id,
            failure_threshold: Some(FailureThreshold::parse(2).unwrap()),
            parents: None,
        });
        engine.execute(ping(uuid, PingKind::Success, ""));
        id
    };
    let start = engine.handle.now();
    let ids = [7, 8].map(|uuid| create_and_ping(&mut engine, uuid));
    // The runs are overdue 3 ms before the next ping of each check is missing.
    engine.clock.set(start.plus_secs(300).plus_micros(-3000));
    for uuid in [7, 8] {
        engine.execute(ping(uuid, PingKind::Start, ""));
    }
    // The first downtime is noticed before that ping is missing, the other one after it.
    for (micros, id) in [(-2000, ids[0]), (2000, ids[1])] {
        engine.clock.set(start.plus_secs(360).plus_micros(micros));
        engine.execute(Command::EvaluateChecks(vec![id]));
    }
    engine.execute(Command::EvaluateChecks(ids.to_vec()));
    let mut sent = waiting(&engine);
    sent.sort_by_key(|(_, check, _)| *check);
    assert_eq!(sent, ids.map(|id| (hook, id, AlertEvent::Down)));
    assert_eq!(ids.map(|id| engine.read_check(id).state.failures), [2, 2]);
}
