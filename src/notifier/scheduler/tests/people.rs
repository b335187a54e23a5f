//! Messages to people: the current status only, digests, and the limit for a check.

use super::*;
use crate::domain::check::WarningKind;

#[test]
fn people_get_one_message_at_a_time_oldest_first() {
    let mut world = SchedulerTester::new(PEOPLE);
    world.queue(9, AlertEvent::Down);
    world.queue(3, AlertEvent::Down);
    let (messages, wake_in) = world.step();
    assert_eq!(
        (SchedulerTester::item_labels(&messages), wake_in),
        (vec!["9down".to_owned()], None)
    );
    assert_eq!(SchedulerTester::item_labels(&world.step().0), [""; 0]);
    world.done(&messages[0], SendOutcome::Delivered);
    let (messages, _) = world.step();
    assert_eq!(SchedulerTester::item_labels(&messages), ["3down"]);
    world.done(&messages[0], SendOutcome::Skipped("".into()));
    assert_eq!(world.results, ["1 Delivered", "2 Skipped"]);
}

#[test]
fn a_change_of_status_replaces_earlier_warnings_and_precedes_later_ones() {
    let [down, up] = [AlertEvent::Down, AlertEvent::Up];
    let [late, long] = [WarningKind::Late, WarningKind::RanLong].map(AlertEvent::Warning);
    // Rows, and the messages with the number of rows of their kind that each leaves out.
    for (events, expected) in [
        (&[late][..], &[("1late", 0)][..]),
        (&[late, long], &[("1ran-long", 1)]),
        (&[late, down], &[("1down", 0)]),
        (&[late, down, up], &[("1up+", 0)]),
        (&[down, late, up], &[("1up+", 0)]),
        (&[down, up, late], &[("1up+", 0), ("1late", 0)]),
        (&[up, late, down, long, late], &[("1down", 1), ("1late", 1)]),
    ] {
        let mut world = SchedulerTester::new(PEOPLE);
        events.iter().for_each(|event| _ = world.queue(1, *event));
        let mut messages = Vec::new();
        while !world.state.outbox.is_empty() {
            let (step, _) = world.step();
            for message in step {
                let label = SchedulerTester::item_labels(std::slice::from_ref(&message)).remove(0);
                messages.push((label, message.items[0].skipped));
                world.done(&message, SendOutcome::Delivered);
            }
            world.pass(60_000);
        }
        let messages: Vec<_> = messages
            .iter()
            .map(|(label, skipped)| (label.as_str(), *skipped))
            .collect();
        assert_eq!(messages, expected, "{events:?}");
        assert_eq!(world.results.len(), events.len(), "{events:?}");
    }
}

#[test]
fn people_get_only_the_current_status_of_a_check() {
    // Rows before the message, its content, and the number of changes that it leaves out.
    let down = AlertEvent::Down;
    let up = AlertEvent::Up;
    for (events, label, skipped) in [
        (&[down][..], "1down", 0),
        (&[up], "1up", 0),
        (&[down, up], "1up+", 0),
        (&[up, down], "1down", 1),
        (&[down, up, down], "1down", 2),
        (&[down, up, down, up], "1up+", 2),
    ] {
        let mut world = SchedulerTester::new(PEOPLE);
        events.iter().for_each(|event| _ = world.queue(1, *event));
        let (messages, _) = world.step();
        assert_eq!(
            (
                SchedulerTester::item_labels(&messages),
                messages[0].items[0].skipped
            ),
            (vec![label.to_owned()], skipped),
            "{events:?}"
        );
        assert_eq!(
            messages[0].items[0].up_since.is_some(),
            label == "1down" && events.len() > 1,
            "{events:?}"
        );
        world.done(&messages[0], SendOutcome::Delivered);
        assert!(
            world.state.outbox.is_empty() && world.results.len() == events.len(),
            "{:?}",
            world.results
        );
    }
}

#[test]
fn a_downtime_that_may_have_been_sent_does_not_count_as_unnotified() {
    let mut world = SchedulerTester::new(PEOPLE);
    world.queue(1, AlertEvent::Down);
    let (messages, _) = world.step();
    world.done(&messages[0], unanswered());
    world.queue(1, AlertEvent::Up);
    world.pass(10_000);
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["1up"]);
}

#[test]
fn many_checks_form_one_digest_that_waits_for_more() {
    let mut world = SchedulerTester::new(PEOPLE);
    for check in 1..=4 {
        world.queue(check, AlertEvent::Down);
    }
    world.queue(5, AlertEvent::Down);
    world.queue(6, AlertEvent::Down);
    assert_eq!(world.step().1, Some(500));
    for check in 7..=9 {
        world.pass(400);
        world.queue(check, AlertEvent::Down);
        let expected = if check == 7 { Some(500) } else { Some(200) };
        if check < 9 {
            assert_eq!(world.step().1, expected);
        }
    }
    let (messages, _) = world.step();
    assert_eq!(
        messages[0].items.len(),
        9,
        "a second after the first of them"
    );
    world.queue(10, AlertEvent::Down);
    world.done(&messages[0], SendOutcome::Delivered);
    assert_eq!(world.step().1, Some(10_000));
    world.pass(10_000);
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["10down"]);
}

#[test]
fn a_digest_that_is_not_accepted_is_composed_again() {
    let mut world = SchedulerTester::new(PEOPLE);
    (1..=6).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    world.pass(1000);
    let (messages, _) = world.step();
    world.queue(2, AlertEvent::Up);
    world.done(&messages[0], later());
    world.pass(6001);
    let (messages, _) = world.step();
    assert_eq!(
        SchedulerTester::item_labels(&messages),
        ["1down 3down 4down 5down 6down 2up+"]
    );
}

#[test]
fn people_get_at_most_six_messages_an_hour_about_a_check() {
    let mut world = SchedulerTester::new(PEOPLE);
    for round in 0..6 {
        world.queue(
            1,
            if round % 2 == 0 {
                AlertEvent::Down
            } else {
                AlertEvent::Up
            },
        );
        let (messages, _) = world.step();
        world.done(&messages[0], SendOutcome::Delivered);
        world.pass(60_000);
    }
    world.queue(1, AlertEvent::Down);
    world.queue(2, AlertEvent::Down);
    let (messages, _) = world.step();
    assert_eq!(
        SchedulerTester::item_labels(&messages),
        ["2down"],
        "others are notified"
    );
    world.done(&messages[0], SendOutcome::Delivered);
    world.queue(1, AlertEvent::Up);
    assert_eq!(world.step(), (vec![], Some(3_600_000 - 6 * 60_000)));
    world.pass(3_600_000 - 6 * 60_000);
    assert_eq!(SchedulerTester::item_labels(&world.step().0), ["1up+"]);
}
