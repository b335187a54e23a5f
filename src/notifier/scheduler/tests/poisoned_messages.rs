//! Messages that their receiver refuses while it accepts others, and receivers that accept nothing.

use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60_000;

/// Receiver that refuses messages about some checks.
struct PoisonedMessages<'a> {
    checks: &'a [u64],
    /// Responses to these, the last one repeated.
    answers: Vec<(SendOutcome, u16)>,
    attempts: usize,
    /// Time at which each message was accepted, by check, in milliseconds since the beginning.
    accepted_at: BTreeMap<u64, u64>,
    attempted_at: Vec<u64>,
}

impl<'a> PoisonedMessages<'a> {
    fn new(checks: &'a [u64], answers: Vec<(SendOutcome, u16)>) -> Self {
        Self {
            checks,
            answers,
            attempts: 0,
            accepted_at: BTreeMap::new(),
            attempted_at: Vec::new(),
        }
    }

    /// Lets time pass while checks go down at the given milliseconds.
    fn run(&mut self, world: &mut SchedulerTester, millis: u64, downs: &[(u64, u64)]) {
        let end = world.elapsed() + millis;
        let mut downs: Vec<_> = downs
            .iter()
            .copied()
            .filter(|(at, _)| *at >= world.elapsed())
            .collect();
        downs.sort_unstable();
        loop {
            while downs.first().is_some_and(|(at, _)| *at <= world.elapsed()) {
                world.queue(downs.remove(0).1, AlertEvent::Down);
            }
            let (messages, wake_in) = world.step();
            for message in &messages {
                self.answer(world, message);
            }
            if !messages.is_empty() {
                continue;
            }
            let next = downs.first().map_or(end, |(at, _)| *at).min(end);
            let wait = wake_in
                .unwrap_or(u64::MAX)
                .max(1)
                .min(next.saturating_sub(world.elapsed()));
            if wait == 0 {
                return;
            }
            world.pass(wait);
        }
    }

    fn answer(&mut self, world: &mut SchedulerTester, message: &Message) {
        let now = world.elapsed();
        if message
            .items
            .iter()
            .any(|item| self.checks.contains(&item.row.check.0))
        {
            let (result, status) = self.answers[self.attempts.min(self.answers.len() - 1)].clone();
            self.attempts += 1;
            self.attempted_at.push(now);
            world.answered(message, result, status);
        } else {
            self.accepted_at
                .extend(message.items.iter().map(|item| (item.row.check.0, now)));
            world.answered(message, SendOutcome::Delivered, 200);
        }
    }
}

impl SchedulerTester {
    /// Milliseconds since the beginning.
    fn elapsed(&self) -> u64 {
        self.now.uptime.as_millis() as u64 - 100_000
    }

    fn is_over(&self, number: u64) -> Option<&String> {
        let begins = format!("{number} ");
        self.results
            .iter()
            .find(|result| result.starts_with(&begins) && !result.ends_with("Retry"))
    }
}

#[test]
fn a_refused_message_delays_no_other_and_gets_five_attempts() {
    for policy in [PEOPLE, machine(), incident()] {
        let mut world = SchedulerTester::new(policy);
        let mut poison = PoisonedMessages::new(&[1], vec![(refused(), 400)]);
        poison.run(&mut world, 20 * MINUTE, &[(0, 1), (2_000, 2), (200_000, 3)]);
        assert!(
            poison.accepted_at[&2] <= 32_000 && poison.accepted_at[&3] <= 230_000,
            "{:?}",
            poison.accepted_at
        );
        assert_eq!(poison.attempts, 5, "{:?}", poison.attempted_at);
        assert_eq!(world.is_over(1).map(String::as_str), Some("1 Failed"));
        assert!(world.state.outbox.is_empty());
    }
}

#[test]
fn a_message_that_resets_the_connection_and_then_gets_500_delays_no_other() {
    for policy in [PEOPLE, machine(), incident()] {
        let mut world = SchedulerTester::new(policy);
        let mut poison = PoisonedMessages::new(&[1], vec![(unanswered(), 0), (unanswered(), 500)]);
        poison.run(&mut world, 20 * MINUTE, &[(0, 1), (2_000, 2), (100_000, 3)]);
        assert!(
            poison.accepted_at[&2] <= 32_000 && poison.accepted_at[&3] <= 130_000,
            "{:?}",
            poison.accepted_at
        );
        assert!(
            world.is_over(1).is_none() && poison.attempts >= 5,
            "it is tried for a day"
        );
    }
}

#[test]
fn several_failing_messages_do_not_delay_others_for_long() {
    for policy in [
        DeliveryPolicy {
            digest_above: None,
            ..PEOPLE
        },
        machine(),
        incident(),
    ] {
        let mut world = SchedulerTester::new(policy);
        let mut poison = PoisonedMessages::new(&[1, 2, 3], vec![(unanswered(), 500)]);
        poison.run(
            &mut world,
            10 * MINUTE,
            &[(0, 1), (100, 2), (200, 3), (40_000, 4)],
        );
        assert!(
            poison.accepted_at[&4] <= 150_000,
            "{:?}",
            poison.accepted_at
        );
    }
}

#[test]
fn a_refused_digest_is_delivered_without_the_row_that_caused_the_refusal() {
    for (count, poisoned) in [(6, 1), (6, 6), (40, 1), (40, 17), (40, 40)] {
        let mut world = SchedulerTester::new(PEOPLE);
        let downs: Vec<_> = (1..=count).map(|check| (0, check)).collect();
        let poisoned = [poisoned];
        let mut poison = PoisonedMessages::new(&poisoned, vec![(refused(), 400)]);
        poison.run(&mut world, 20 * MINUTE, &downs);
        assert_eq!(
            poison.accepted_at.len() as u64,
            count - 1,
            "{count}: {:?}",
            poison.accepted_at
        );
        assert!(
            poison.accepted_at.values().all(|at| *at <= 30_000),
            "{count}: {:?}",
            poison.accepted_at
        );
        assert_eq!(
            world
                .is_over(poisoned[0])
                .map(|result| result.ends_with("Failed")),
            Some(true)
        );
    }
}

#[test]
fn a_receiver_that_refused_everything_gets_it_after_it_recovers() {
    for (policy, count) in [(PEOPLE, 1), (PEOPLE, 3), (PEOPLE, 40), (incident(), 3)] {
        let mut world = SchedulerTester::new(policy);
        let all: Vec<_> = (1..=count).collect();
        let downs: Vec<_> = all.iter().map(|check| (0, *check)).collect();
        let mut poison = PoisonedMessages::new(&all, vec![(refused(), 400)]);
        poison.run(&mut world, 6 * 60 * MINUTE, &downs);
        assert!(poison.attempts <= 20, "no storm: {:?}", poison.attempted_at);
        assert!(
            world.results.iter().all(|result| result.ends_with("Retry")),
            "{:?}",
            world.results
        );
        let mut recovered = PoisonedMessages::new(&[], vec![(refused(), 400)]);
        recovered.run(&mut world, 90 * MINUTE, &[]);
        assert_eq!(recovered.accepted_at.len() as u64, count);
        let messages: BTreeSet<_> = recovered.accepted_at.values().collect();
        assert!(messages.len() <= 3, "{count}: {messages:?}");
    }
}

#[test]
fn a_message_that_fails_while_others_succeed_does_not_affect_the_channel() {
    let mut world = SchedulerTester::new(machine());
    (1..=2).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    let (messages, _) = world.step();
    let reason = |world: &mut SchedulerTester, message: &Message| {
        let done = AttemptResult::new(SendOutcome::Failed("the answer was 400".into()), 400);
        let reports =
            world
                .plan
                .record_result(message.id, done, &world.policy, world.now, &world.random);
        world.apply(&reports);
        world.plan.settle(message.id);
        match reports.into_iter().next_back().unwrap().result {
            SendOutcome::Retry { reason, .. } => reason.into_string(),
            sent => format!("{sent:?}"),
        }
    };
    // No message has been accepted yet, so the channel may be the cause.
    assert_eq!(reason(&mut world, &messages[0]), "the answer was 400");
    world.answered(&messages[1], SendOutcome::Delivered, 200);
    world.pass(7_000);
    let (messages, _) = world.step();
    assert_eq!(
        (
            SchedulerTester::item_labels(&messages),
            reason(&mut world, &messages[0])
        ),
        (vec!["1down".to_owned()], String::new())
    );
}

#[test]
fn programs_that_refuse_get_five_attempts_and_others_are_retried_as_after_failures() {
    for (policy, attempts) in [
        (machine(), 5..=5),
        (incident(), 25..=60),
        (PEOPLE, 150..=250),
    ] {
        let mut world = SchedulerTester::new(policy);
        world.queue(1, AlertEvent::Down);
        let mut times = 0;
        while !world.state.outbox.is_empty() {
            let (messages, wake_in) = world.step();
            if let Some(message) = messages.first() {
                times += 1;
                world.done(message, refused());
            }
            world.pass(wake_in.unwrap_or(1_000).max(1));
        }
        assert!(attempts.contains(&times), "{times}");
    }
}

proptest! {
    /// With one message that is refused, for any reason, every other one is accepted within 30
    /// seconds.
    #[test]
    fn one_undeliverable_message_delays_no_other(
        policy in prop_oneof![
            Just(PEOPLE),
            Just(DeliveryPolicy { digest_above: None, ..PEOPLE }),
            Just(DeliveryPolicy { max_parallel: 2, ..PEOPLE }),
            Just(machine()),
            Just(incident()),
        ],
        answers in proptest::collection::vec(
            prop_oneof![Just((refused(), 400)), Just((unanswered(), 500)), Just((unanswered(), 0))],
            1..4
        ),
        poisoned in 0_u64..600_000,
        downs in proptest::collection::btree_set(0_u64..600_000, 1..40),
    ) {
        let mut world = SchedulerTester::new(policy.clone());
        let mut poison = PoisonedMessages::new(&[1], answers);
        let downs: Vec<_> = downs.into_iter().zip(2..).collect();
        let all: Vec<_> = downs.iter().copied().chain([(poisoned, 1)]).collect();
        poison.run(&mut world, 11 * MINUTE, &all);
        for (at, check) in downs {
            let accepted_at = poison.accepted_at.get(&check);
            prop_assert!(
                accepted_at.is_some_and(|accepted_at| *accepted_at <= at + 30_000),
                "{check} of {at}: {accepted_at:?}, attempts {:?}",
                poison.attempted_at
            );
        }
    }
}

#[test]
fn a_flapping_check_does_not_flood_a_broken_receiver() {
    for policy in [PEOPLE, machine(), incident()] {
        let mut world = SchedulerTester::new(policy);
        let mut poison = PoisonedMessages::new(&[1], vec![(unanswered(), 500)]);
        let began = world.now;
        for minute in 0..1440 {
            let event = if minute % 2 == 0 {
                AlertEvent::Down
            } else {
                AlertEvent::Up
            };
            let number = world.queue(1, event);
            // As in the engine, at most eight wait.
            if number.0 > 8 {
                world
                    .state
                    .apply(&Change::OutboxRowDeleted(DeliveryNumber(number.0 - 8)));
            }
            poison.run(&mut world, MINUTE, &[]);
        }
        assert!(
            world.now.uptime - began.uptime == Duration::from_secs(86_400) && poison.attempts <= 45,
            "{}",
            poison.attempts
        );
    }
}
