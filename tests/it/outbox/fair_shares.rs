//! Large numbers of alerts: no batch contains all of them, and other commands do not wait for all
//! of them.

use super::*;

const CHANNELS: usize = 5;
const CHECKS: u128 = 20;

/// Opens an engine whose batches contain about ten alert rows, with some channels that each check
/// notifies.
fn engine() -> TestEngine {
    let mut engine = TestEngine::open(
        Medium::memory(),
        HousekeepingLimits {
            max_alert_rows: 10,
            ..HousekeepingLimits::default()
        },
    );
    engine.create_project(100);
    for uuid in 1..=CHANNELS as u128 {
        channel(&mut engine, uuid, "webhook", HOOK);
    }
    engine
}

#[test]
fn deadlines_that_pass_together_alert_in_batches() {
    let mut engine = engine();
    for uuid in 0..CHECKS {
        check(&mut engine, 100 + uuid);
        engine.execute(ping(100 + uuid, PingKind::Success, ""));
    }
    engine.clock.advance_secs(86_400 + 3600 + 1);
    let mut before = 0;
    for _ in 0..CHECKS {
        assert_eq!(engine.writer.step(false), Ok(true));
        let count = waiting(&engine).len();
        assert!(
            count - before <= 10 + CHANNELS,
            "{} rows in one batch",
            count - before
        );
        assert!(engine.writer.covers_all_deadlines());
        before = count;
    }
    assert_eq!(before, CHANNELS * CHECKS as usize, "all alerts are queued");
}

#[test]
fn a_project_whose_alerts_fill_a_batch_waits_for_the_next_one_and_others_do_not() {
    let mut engine = engine();
    let create = crate::support::commands::create_project(engine.handle.random(), "other", 100);
    let CommandOutcome::Project(other) = engine.execute(create) else {
        panic!()
    };
    engine.execute(create_check(other.id, 900, CheckEdit::default()));
    let ids: Vec<_> = (0..CHECKS)
        .map(|uuid| check(&mut engine, 100 + uuid))
        .collect();
    let fails = (0..CHECKS).map(|uuid| {
        engine
            .handle
            .submit(ping(100 + uuid, PingKind::Fail, ""))
            .unwrap()
    });
    let mut fails: Vec<_> = fails.collect();
    let mut others: Vec<_> = (0..3)
        .map(|_| {
            engine
                .handle
                .submit(ping(900, PingKind::Success, ""))
                .unwrap()
        })
        .collect();
    assert_eq!(engine.writer.step(false), Ok(true));
    assert!(
        others
            .iter_mut()
            .all(|answer| answer.try_recv() == Ok(Ok(Ok(CommandOutcome::Pinged)))),
        "the pings waited for at most one batch"
    );
    assert!(
        waiting(&engine).len() <= 10 + CHANNELS,
        "{} rows in one batch",
        waiting(&engine).len()
    );
    let mut steps = 1;
    while engine.handle.queue_depth().0 > 0 {
        assert_eq!(engine.writer.step(false), Ok(true));
        steps += 1;
    }
    assert!(steps >= 10, "{steps}");
    assert!(
        fails
            .iter_mut()
            .all(|answer| answer.try_recv() == Ok(Ok(Ok(CommandOutcome::Pinged)))),
        "each ping is answered"
    );
    // In the order of their deadlines.
    let alerted: Vec<_> = waiting(&engine)
        .into_iter()
        .map(|(_, check, _)| check)
        .collect();
    assert!(
        alerted.len() == CHANNELS * ids.len() && alerted.is_sorted(),
        "{alerted:?}"
    );
}

#[test]
fn a_batch_of_refusals_does_not_block_readers() {
    let mut engine = engine();
    let id = check(&mut engine, 7);
    let handle = engine.handle.clone();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let refused = handle.with_state(|_| {
            scope.spawn(|| {
                let refused = engine.batch([Command::ResumeCheck(id)]).remove(0).unwrap();
                done.send(refused).unwrap();
            });
            is_done.recv_timeout(std::time::Duration::from_secs(60))
        });
        assert_eq!(
            refused,
            Ok(Err(overdue::engine::command::CommandError::NotPaused))
        );
    });
}

#[test]
fn a_ping_notices_no_more_children_than_a_batch_has_rows_for() {
    let mut engine = engine();
    let parent = check(&mut engine, 7);
    engine.execute(ping(7, PingKind::Success, ""));
    let children: Vec<_> = (0..CHECKS)
        .map(|uuid| create_periodic_check(&mut engine, 100 + uuid, 60, 60))
        .collect();
    for child in &children {
        let parents = Some(overdue::domain::parents::Parents::new(vec![parent]).unwrap());
        engine.execute(Command::UpdateAlertSettings {
            check: *child,
            failure_threshold: None,
            parents,
        });
    }
    engine.batch((0..CHECKS).map(|uuid| ping(100 + uuid, PingKind::Success, "")));
    // Earlier than the engine notices the deadline by itself.
    let deadline = engine.handle.now().plus_secs(120);
    engine.clock.set(deadline.plus_micros(3000));
    engine.execute(ping(7, PingKind::Fail, ""));
    let rows = waiting(&engine).len();
    assert!(
        (10..=10 + 2 * CHANNELS).contains(&rows),
        "{rows} rows in one batch"
    );
    engine.clock.advance_secs(1);
    assert_eq!(engine.writer.step(false), Ok(true));
    // The others are held behind their parent, which is down now.
    let alerted: std::collections::BTreeSet<_> = waiting(&engine)
        .into_iter()
        .map(|(_, check, _)| check)
        .collect();
    let hidden = children.iter().filter(|id| {
        matches!(
            engine.read_check(**id).state.notification,
            NotificationState::Pending {
                reason: HoldReason::ParentDown(_),
                ..
            }
        )
    });
    assert_eq!(
        (alerted.len() + hidden.count(), alerted.contains(&parent)),
        (CHECKS as usize + 1, true)
    );
}
