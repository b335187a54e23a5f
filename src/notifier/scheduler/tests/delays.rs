//! Delayed messages: the reason that they give, and its cause.

use super::*;

/// Sends and answers a message; returns the delay of its only item.
fn sent(world: &mut SchedulerTester) -> Option<DelayReason> {
    let (messages, _) = world.step();
    let delay = messages[0].items[0].delay;
    world.done(&messages[0], SendOutcome::Delivered);
    delay
}

#[test]
fn a_message_names_the_reason_for_its_delay() {
    let quiet = |world: &mut SchedulerTester| {
        world.policy.quiet_until = Some(world.now.wall.plus_secs(300));
        world.step();
        world.pass(300_000);
        world.policy.quiet_until = None;
    };
    let undelivered = |world: &mut SchedulerTester| {
        let (messages, _) = world.step();
        world.done(&messages[0], later());
        world.pass(120_000);
    };
    let day_limit = |world: &mut SchedulerTester| {
        world.policy.daily_limit = Some(0);
        world.step();
        world.pass(90_000_000);
        world.policy.daily_limit = None;
    };
    let nothing = |world: &mut SchedulerTester| world.pass(120_000);
    type DelayCase<'a> = (&'a dyn Fn(&mut SchedulerTester), Option<DelayReason>);
    let all: [DelayCase<'_>; 4] = [
        (&quiet, Some(DelayReason::QuietHours)),
        (&undelivered, Some(DelayReason::Undelivered)),
        (&day_limit, Some(DelayReason::DailyLimit)),
        (&nothing, None),
    ];
    for (hold, delay) in all {
        for end in [None, Some(AlertEvent::Up)] {
            let mut world = SchedulerTester::new(PEOPLE);
            world.queue(1, AlertEvent::Down);
            hold(&mut world);
            end.into_iter().for_each(|event| _ = world.queue(1, event));
            assert_eq!(sent(&mut world), delay, "{end:?}");
            // Later messages are not delayed.
            world.pass(1_000);
            world.queue(2, AlertEvent::Down);
            assert_eq!(sent(&mut world), None);
        }
    }
}

#[test]
fn a_check_at_its_message_limit_names_that_reason() {
    let mut world = SchedulerTester::new(PEOPLE);
    for _ in 0..6 {
        world.queue(1, AlertEvent::Down);
        assert_eq!(sent(&mut world), None);
    }
    world.queue(1, AlertEvent::Down);
    assert!(world.step().0.is_empty());
    world.queue(1, AlertEvent::Up);
    world.pass(3_600_000);
    assert_eq!(sent(&mut world), Some(DelayReason::Flapping));
}

#[test]
fn digests_count_as_messages_about_their_checks() {
    let mut world = SchedulerTester::new(PEOPLE);
    let mut message_count = 0;
    for round in 0..120 {
        (1..=6).for_each(|check| {
            _ = world.queue(
                check,
                if round % 2 == 0 {
                    AlertEvent::Down
                } else {
                    AlertEvent::Up
                },
            );
        });
        for _ in 0..30 {
            world.pass(1_000);
            let (messages, _) = world.step();
            message_count += messages.len();
            messages
                .iter()
                .for_each(|message| world.done(message, SendOutcome::Delivered));
        }
    }
    assert!(
        (6..=12).contains(&message_count),
        "{message_count} in an hour"
    );
}

#[test]
fn the_daily_limit_is_reported_once() {
    let mut world = SchedulerTester::new(DeliveryPolicy {
        daily_limit: Some(0),
        ..PEOPLE
    });
    world.queue(1, AlertEvent::Down);
    let mut report_count = 0;
    for _ in 0..3 {
        let ScheduledWork {
            messages, reports, ..
        } = world
            .plan
            .schedule(&world.state, |_| world.policy.clone(), world.now);
        assert!(messages.is_empty());
        for report in reports {
            assert_eq!(
                report.result,
                SendOutcome::Retry {
                    reason: DAILY_LIMIT_TEXT.into(),
                    may_have_arrived: false
                }
            );
            report_count += 1;
            let mut channel = Channel::clone(world.state.channel(CHANNEL).unwrap());
            channel.health.failing = Some((world.now.wall, DAILY_LIMIT_TEXT.into()));
            world.state.apply(&Change::Channel(Arc::new(channel)));
        }
        world.pass(60_000);
    }
    assert_eq!(report_count, 1);
}

#[test]
fn after_quiet_hours_each_check_or_a_digest_is_sent_once() {
    for (checks, messages) in [(5, 5), (6, 1)] {
        let mut world = SchedulerTester::new(DeliveryPolicy {
            quiet_until: Some(Timestamp::from_secs(1_800_000_300)),
            ..PEOPLE
        });
        for event in [AlertEvent::Down, AlertEvent::Up, AlertEvent::Down] {
            (1..=checks).for_each(|check| _ = world.queue(check, event));
        }
        assert!(world.step().0.is_empty());
        world.policy.quiet_until = None;
        world.pass(300_000);
        let mut sent = Vec::new();
        while let [message] = &world.step().0[..] {
            sent.extend(
                message
                    .items
                    .iter()
                    .map(|item| (message.id, item.row.check.0, item.row.event)),
            );
            world.done(message, SendOutcome::Delivered);
        }
        assert_eq!(
            sent.iter()
                .map(|(message, ..)| message)
                .collect::<BTreeSet<_>>()
                .len(),
            messages
        );
        // Each check once, with its current status.
        assert!(sent.iter().all(|(.., event)| *event == AlertEvent::Down));
        assert_eq!(
            sent.iter().map(|(_, check, _)| *check).collect::<Vec<_>>(),
            (1..=checks).collect::<Vec<_>>()
        );
    }
}
