//! Any events in any order.

use proptest::prelude::*;

use super::*;

fn outcome() -> impl Strategy<Value = SendOutcome> {
    prop_oneof![
        4 => Just(SendOutcome::Delivered),
        1 => Just(SendOutcome::Skipped("".into())),
        1 => Just(refused()),
        2 => any::<bool>().prop_map(|may_have_arrived| SendOutcome::Retry {
            reason: "".into(),
            may_have_arrived,
        }),
    ]
}

proptest! {
    /// Any events in any order: a check has one message in flight at a time, rows are sent in
    /// order, each once, and in the end nothing waits.
    #[test]
    fn everything_is_sent_once_and_in_order(
        policy in prop_oneof![Just(PEOPLE), Just(machine()), Just(incident())],
        moves in proptest::collection::vec(
            (
                0_u8..4,
                1_u64..9,
                any::<proptest::sample::Index>(),
                outcome(),
                any::<bool>(),
            ),
            1..150
        ),
    ) {
        let mut world = SchedulerTester::new(policy.clone());
        let mut under_way = Vec::<Message>::new();
        let mut next_event = HashMap::new();
        let mut last_sent = HashMap::<CheckId, u64>::new();
        let mut queued = 0;
        for (what, check, index, outcome, is_answered) in moves {
            match what {
                0 => {
                    let event = next_event.entry(check).or_insert(AlertEvent::Down);
                    let now = *event;
                    *event = if now == AlertEvent::Down {
                        AlertEvent::Up
                    } else {
                        AlertEvent::Down
                    };
                    world.queue(check, now);
                    queued += 1;
                }
                1 if !under_way.is_empty() => {
                    let message = under_way.remove(index.index(under_way.len()));
                    world.answered(&message, outcome, if is_answered { 500 } else { 0 });
                }
                _ => world.pass(check * 1000),
            }
            for message in world.step().0 {
                for item in &message.items {
                    let others = under_way.iter().flat_map(|message| &message.items);
                    prop_assert!(others.clone().all(|other| other.row.check != item.row.check));
                    let last = last_sent.entry(item.row.check).or_default();
                    prop_assert!(item.row.number.0 >= *last, "an older row after a newer one");
                    *last = item.row.number.0;
                }
                under_way.push(message);
            }
            prop_assert!(under_way.len() <= policy.max_parallel);
            prop_assert_eq!(world.plan.in_flight_count(), under_way.len());
        }
        for _ in 0..2000 {
            under_way
                .drain(..)
                .for_each(|message| world.done(&message, SendOutcome::Delivered));
            world.pass(600_000);
            under_way = world.step().0;
        }
        let row_count = world.state.outbox.len();
        prop_assert!(world.state.outbox.is_empty(), "{} rows are left", row_count);
        let over = world.results.iter().filter(|result| !result.ends_with("Retry")).count();
        prop_assert_eq!(over, queued);
    }
}
