//! Messages that fail alone, and responses to requests with outdated settings of the channel.

use super::*;
use crate::channels;

/// Sends all messages and answers those about `refused` with 500. Returns the accepted ones.
fn accepted_items(world: &mut SchedulerTester, refused: u64) -> Vec<String> {
    let (messages, _) = world.step();
    let is_refused =
        |message: &Message| message.items.iter().any(|item| item.row.check.0 == refused);
    for message in &messages {
        let outcome = if is_refused(message) {
            later()
        } else {
            SendOutcome::Delivered
        };
        world.answered(
            message,
            outcome,
            if is_refused(message) { 500 } else { 200 },
        );
    }
    SchedulerTester::item_labels(
        &messages
            .into_iter()
            .filter(|message| !is_refused(message))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn a_message_that_fails_alone_delays_no_other() {
    for policy in [PEOPLE, machine(), incident()] {
        let mut world = SchedulerTester::new(policy);
        world.queue(1, AlertEvent::Down);
        assert!(accepted_items(&mut world, 1).is_empty());
        // It has failed for an hour.
        for _ in 0..12 {
            world.pass(400_000);
            accepted_items(&mut world, 1);
        }
        assert!(world.step().1.is_some_and(|millis| millis > 60_000));
        // Other messages arrive and are tried at once.
        for check in 2..5 {
            world.queue(check, AlertEvent::Down);
            assert_eq!(accepted_items(&mut world, 1), [format!("{check}down")]);
        }
        // It is retried by itself, and messages that arrive then are sent at once, too.
        let wake_in = world.step().1.unwrap();
        world.pass(wake_in);
        world.queue(5, AlertEvent::Down);
        let items = [accepted_items(&mut world, 1), accepted_items(&mut world, 1)].concat();
        assert_eq!(items, ["5down"]);
        world.pass(5_000_000);
        let (messages, _) = world.step();
        assert_eq!(SchedulerTester::item_labels(&messages), ["1down"]);
        world.done(&messages[0], SendOutcome::Delivered);
        assert!(world.state.outbox.is_empty());
    }
}

#[test]
fn a_receiver_that_returns_500_gets_one_more_attempt_than_a_silent_one() {
    let mut world = SchedulerTester::new(DeliveryPolicy {
        digest_above: None,
        ..PEOPLE
    });
    (1..=20).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    let mut attempted = Vec::new();
    for _ in 0..3 {
        loop {
            let (messages, _) = world.step();
            let Some(message) = messages.first() else {
                break;
            };
            attempted.extend(SchedulerTester::item_labels(&messages));
            world.answered(message, later(), 500);
        }
        world.pass(40_000);
    }
    assert_eq!(
        attempted,
        ["1down", "2down", "3down", "4down"],
        "each message has its turn"
    );
}

#[test]
fn parked_messages_are_in_no_digest() {
    let mut world = SchedulerTester::new(PEOPLE);
    world.queue(1, AlertEvent::Down);
    accepted_items(&mut world, 1);
    (2..=9).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    world.step();
    world.pass(500);
    assert_eq!(
        accepted_items(&mut world, 1).len(),
        1,
        "a digest of the others"
    );
    assert_eq!(world.state.outbox.len(), 1);
}

#[test]
fn a_parked_message_is_no_reason_to_try_a_failing_channel_earlier() {
    for policy in [PEOPLE, machine()] {
        let mut world = SchedulerTester::new(policy);
        world.queue(1, AlertEvent::Down);
        accepted_items(&mut world, 1);
        world.queue(2, AlertEvent::Down);
        assert_eq!(accepted_items(&mut world, 1), ["2down"]);
        // Before the parked message is due, another one fails, which delays the channel.
        world.pass(3_900);
        world.queue(3, AlertEvent::Down);
        let (messages, _) = world.step();
        assert_eq!(SchedulerTester::item_labels(&messages), ["3down"]);
        world.answered(&messages[0], later(), 500);
        assert_eq!(world.step().0, []);
        // Now the parked message is due, and the channel is not.
        world.pass(2_200);
        let (messages, wake_in) = world.step();
        assert_eq!(SchedulerTester::item_labels(&messages), [""; 0]);
        assert!(
            wake_in.is_some_and(|millis| (1_800..=3_800).contains(&millis)),
            "{wake_in:?}"
        );
    }
}

#[test]
fn newer_rows_of_a_parked_check_are_a_new_message_for_people_and_wait_for_programs() {
    for (policy, expected) in [(PEOPLE, vec!["1up".to_owned()]), (machine(), vec![])] {
        let mut world = SchedulerTester::new(policy);
        world.queue(1, AlertEvent::Down);
        let (messages, _) = world.step();
        world.answered(&messages[0], unanswered(), 500);
        world.queue(1, AlertEvent::Up);
        assert_eq!(SchedulerTester::item_labels(&world.step().0), expected);
    }
}

#[test]
fn a_failure_under_old_settings_does_not_affect_new_ones() {
    let mut world = SchedulerTester::new(machine());
    (1..=2).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    let (messages, _) = world.step();
    let mut channel = Channel::clone(world.state.channel(CHANNEL).unwrap());
    channel.settings = ChannelSettings::parse(
        channels::find_kind("email").unwrap(),
        [("to", "b@example.org")],
    )
    .unwrap();
    world.state.apply(&Change::Channel(Arc::new(channel)));
    assert!(world.step().0.is_empty(), "they are under way");
    world.done(&messages[0], later());
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["1down"]);
}

#[test]
fn notices_count_as_messages_and_respect_quiet_hours() {
    let mut world = SchedulerTester::new(DeliveryPolicy {
        daily_limit: Some(2),
        ..PEOPLE
    });
    let channel = Arc::clone(world.state.channel(CHANNEL).unwrap());
    world.policy.quiet_until = Some(world.now.wall.plus_secs(60));
    assert!(!world.plan.admit_notice(&channel, &world.policy, world.now));
    world.policy.quiet_until = None;
    assert!(world.plan.admit_notice(&channel, &world.policy, world.now));
    world.queue(1, AlertEvent::Down);
    let (messages, _) = world.step();
    assert!(
        !world.plan.admit_notice(&channel, &world.policy, world.now),
        "one at a time"
    );
    world.done(&messages[0], SendOutcome::Delivered);
    assert!(
        !world.plan.admit_notice(&channel, &world.policy, world.now),
        "two have been sent today"
    );
}

#[test]
fn tests_count_toward_the_daily_limit_and_do_not_wait() {
    let mut world = SchedulerTester::new(DeliveryPolicy {
        daily_limit: Some(2),
        ..PEOPLE
    });
    let channel = Arc::clone(world.state.channel(CHANNEL).unwrap());
    world.policy.quiet_until = Some(world.now.wall.plus_secs(60));
    assert!(
        world
            .plan
            .admit_channel_test(&channel, &world.policy, world.now)
    );
    assert!(
        world
            .plan
            .admit_channel_test(&channel, &world.policy, world.now)
    );
    assert!(
        !world
            .plan
            .admit_channel_test(&channel, &world.policy, world.now),
        "two have been sent today"
    );
    world.policy.quiet_until = None;
    world.queue(1, AlertEvent::Down);
    assert!(world.step().0.is_empty());
    world.now.uptime += std::time::Duration::from_secs(86_400);
    assert!(
        world
            .plan
            .admit_channel_test(&channel, &world.policy, world.now)
    );
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["1down"]);
}

#[test]
fn a_clock_that_is_set_back_delays_no_digest() {
    let mut world = SchedulerTester::new(PEOPLE);
    (1..=6).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    world.now.wall = world.now.wall.plus_secs(-3600);
    world.pass(1000);
    assert_eq!(world.step().0.len(), 1);
}

#[test]
fn a_parked_message_shows_that_its_channel_is_dead() {
    let mut world = SchedulerTester::new(machine());
    world.queue(1, AlertEvent::Down);
    assert!(accepted_items(&mut world, 1).is_empty());
    world.queue(2, AlertEvent::Down);
    assert_eq!(accepted_items(&mut world, 1), ["2down"]);
    // Reported reason for the channel after the next failures, with status 500 or without a
    // response.
    let mut failed = |status| {
        world.pass(4_000_000);
        let (messages, _) = world.step();
        assert_eq!(SchedulerTester::item_labels(&messages), ["1down"]);
        let reports = world.plan.record_result(
            messages[0].id,
            AttemptResult {
                status,
                ..AttemptResult::retry("no answer", false)
            },
            &world.policy,
            world.now,
            &world.random,
        );
        world.apply(&reports);
        world.plan.settle(messages[0].id);
        let [
            DeliveryReport {
                result: SendOutcome::Retry { reason, .. },
                ..
            },
        ] = reports.as_slice()
        else {
            panic!("{reports:?}")
        };
        reason.to_string()
    };
    // Others have been accepted since its last failure: the message may be the cause.
    assert_eq!(failed(0), "");
    assert_eq!(failed(500), "");
    assert_eq!(failed(0), "no answer");
}
