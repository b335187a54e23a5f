//! What the engine notes for those who look at a project: their own project, no more than there is room for, and nothing while nobody looks.

use overdue::domain::ids::ProjectId;
use overdue::domain::ping::Kind;
use overdue::engine::command::Command;
use overdue::engine::{Noted, Thresholds};
use overdue::store::Medium;

use crate::support::build::{create_check, create_project, ping};
use crate::support::disk::{Disk, Operation};
use crate::support::engine::{Engine, create};

fn noted(noted: &Noted) -> (Vec<u64>, bool) {
    let mut ids: Vec<_> = noted.checks.iter().map(|id| id.0).collect();
    ids.sort_unstable();
    (ids, noted.whole)
}

#[test]
fn what_changes_is_noted_for_those_who_look_at_its_project() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let other = create_project(engine.handle.random(), "other", 100);
    engine.done(other);
    let first = engine.check(1);
    let watch = engine.handle.watch_project(ProjectId(1));
    assert_eq!(noted(&watch.take()), (vec![], false), "what came before");
    let second = engine.check(2);
    engine.done(create_check(ProjectId(2), 3, Default::default()));
    engine.batch([ping(1, Kind::Success, ""), ping(1, Kind::Success, ""), ping(3, Kind::Success, "")]);
    assert_eq!(noted(&watch.take()), (vec![first.0, second.0], false));
    assert_eq!(noted(&watch.take()), (vec![], false), "taken once");
    // By time: late alone writes nothing, down does.
    engine.clock.advance_secs(86_400 + 3601);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(noted(&watch.take()), (vec![first.0], false));
    engine.done(Command::DeleteCheck(second));
    assert_eq!(noted(&watch.take()), (vec![second.0], false));
    let again = engine.handle.watch_project(ProjectId(1));
    drop(watch);
    engine.done(ping(1, Kind::Fail, ""));
    assert_eq!(noted(&again.take()), (vec![first.0], false));
}

#[test]
fn more_than_can_be_noted_is_everything() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let watch = engine.handle.watch_project(ProjectId(1));
    engine.batch((1..=4096).map(create));
    let (ids, whole) = noted(&watch.take());
    assert!(ids.len() == 4096 && !whole);
    engine.batch((5001..=9097).map(create));
    assert_eq!(noted(&watch.take()), (vec![], true));
    engine.done(create(10_000));
    assert_eq!(noted(&watch.take()).0.len(), 1);
}

#[test]
fn after_a_recovery_everything_may_be_other_than_it_was() {
    let disk = Disk::default();
    let mut engine = Engine::open(disk.medium(), Thresholds::default());
    engine.project(100);
    engine.check(1);
    let watch = engine.handle.watch_project(ProjectId(1));
    disk.fail(Operation::Write, 0);
    assert!(engine.batch([ping(1, Kind::Success, "")]).remove(0).is_err());
    assert_eq!(noted(&watch.take()), (vec![], false), "nothing was published");
    disk.heal();
    for _ in 0..2 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert!(engine.handle.is_writable());
    assert_eq!(noted(&watch.take()), (vec![], true));
}
