//! Number of locks of the state, each for a part of the rows.

use std::cell::Cell;

use super::*;

/// State that counts its lookups.
struct LockCounter<'s>(&'s State, Cell<usize>);

impl StateView for LockCounter<'_> {
    fn read_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.1.set(self.1.get() + 1);
        read(self.0)
    }
}

/// Runs a round. Returns the messages that it begins, and the number of lookups.
fn step(world: &mut SchedulerTester) -> (Vec<Message>, usize) {
    let view = LockCounter(&world.state, Cell::default());
    let policy = world.policy.clone();
    let messages = world
        .plan
        .schedule(&view, |_| policy.clone(), world.now)
        .messages;
    (messages, view.1.get())
}

#[test]
fn a_digest_is_read_in_parts_and_not_again_while_it_waits() {
    const CHECKS: u64 = 10_000;
    let mut world = SchedulerTester::new(PEOPLE);
    (1..=CHECKS).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    for round in 0..5 {
        let (messages, looks) = step(&mut world);
        // The first round reads many rows, 256 at a time. The next ones ask only for the newest.
        assert!(
            messages.is_empty()
                && if round == 0 {
                    (40..50).contains(&looks)
                } else {
                    looks == 3
                },
            "{round}: {looks}"
        );
        world.pass(200);
        world.queue(CHECKS + 1 + round, AlertEvent::Down);
    }
    let (messages, looks) = step(&mut world);
    assert!((40..50).contains(&looks), "{looks}");
    assert_eq!(
        messages
            .iter()
            .map(|message| message.items.len())
            .collect::<Vec<_>>(),
        [CHECKS as usize + 5]
    );
}

#[test]
fn an_oversized_digest_contains_the_newest_row_of_each_check() {
    const CHECKS: u64 = 20_000;
    let mut world = SchedulerTester::new(PEOPLE);
    (1..=CHECKS).for_each(|check| _ = world.queue(check, AlertEvent::Down));
    [1, CHECKS, CHECKS + 1].into_iter().for_each(|check| {
        _ = world.queue(
            check,
            if check <= CHECKS {
                AlertEvent::Up
            } else {
                AlertEvent::Down
            },
        );
    });
    world.pass(1000);
    let (messages, looks) = step(&mut world);
    // Once for the rows, and once for newer rows about the same checks.
    assert!((2 * 79..2 * 79 + 10).contains(&looks), "{looks}");
    let items = &messages[0].items;
    let ups: Vec<_> = items
        .iter()
        .filter(|item| item.row.event == AlertEvent::Up)
        .map(|item| item.row.check.0)
        .collect();
    assert_eq!(
        (ups, items.len(), messages[0].superseded.len()),
        (vec![1, CHECKS], CHECKS as usize, 2)
    );
}
