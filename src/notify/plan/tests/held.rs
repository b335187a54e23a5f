//! How much is looked at while the state is locked.

use std::cell::Cell;

use super::*;
use crate::engine::state::LOOKED_UP;

/// A state that counts the rows that are looked up: the most at once, and all.
struct Counted<'s> {
    state: &'s State,
    most: Cell<usize>,
    all: Cell<usize>,
}

impl View for Counted<'_> {
    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        let before = LOOKED_UP.get();
        let result = look(self.state);
        let rows = LOOKED_UP.get() - before;
        self.most.set(self.most.get().max(rows));
        self.all.set(self.all.get() + rows);
        result
    }
}

/// A step: the messages that it begins, and the rows that it looks up, at once and in all.
fn step(world: &mut World) -> (Vec<Job>, usize, usize) {
    let view = Counted { state: &world.state, most: Cell::default(), all: Cell::default() };
    let rules = world.rules.clone();
    let jobs = world.plan.step(&view, |_| rules.clone(), world.now).jobs;
    (jobs, view.most.get(), view.all.get())
}

#[test]
fn a_digest_is_looked_at_in_parts_and_not_again_while_it_waits_for_more() {
    const CHECKS: u64 = 10_000;
    let mut world = World::new(PEOPLE);
    (1..=CHECKS).for_each(|check| _ = world.queue(check, Event::Down));
    for round in 0..5 {
        let (jobs, most, all) = step(&mut world);
        assert!(jobs.is_empty() && most <= 300, "{most}");
        // The first look finds that there are many. The next ones ask for the newest alone.
        assert!(if round == 0 { all >= CHECKS as usize } else { all <= 2 }, "{round}: {all}");
        world.pass(200);
        world.queue(CHECKS + 1 + round, Event::Down);
    }
    let (jobs, most, all) = step(&mut world);
    assert!(most <= 300 && all <= 2 * CHECKS as usize, "{most} {all}");
    assert_eq!(jobs.iter().map(|job| job.items.len()).collect::<Vec<_>>(), [CHECKS as usize + 5]);
}

#[test]
fn of_more_than_a_message_holds_the_newest_about_each_check_is_told() {
    const CHECKS: u64 = 20_000;
    let mut world = World::new(PEOPLE);
    (1..=CHECKS).for_each(|check| _ = world.queue(check, Event::Down));
    [1, CHECKS, CHECKS + 1].into_iter().for_each(|check| _ = world.queue(check, if check <= CHECKS { Event::Up } else { Event::Down }));
    world.pass(1000);
    let (jobs, most, _) = step(&mut world);
    assert!(most <= 600, "{most}");
    let items = &jobs[0].items;
    let ups: Vec<_> = items.iter().filter(|item| item.row.event == Event::Up).map(|item| item.row.check.0).collect();
    assert_eq!((ups, jobs[0].superseded.len()), (vec![1, CHECKS], 2));
    assert!(items.len() == CHECKS as usize && items.iter().all(|item| item.row.check.0 != 2 || item.row.event == Event::Down));
}
