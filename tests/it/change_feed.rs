//! Change sets for subscribers: they cover only the subscriber's project, are bounded, and are not
//! collected without subscribers.

use overdue::domain::ids::ProjectId;
use overdue::domain::ping::PingKind;
use overdue::engine::command::Command;
use overdue::engine::{ChangeSet, HousekeepingLimits};
use overdue::store::Medium;

use crate::support::commands::{create_check, create_project, ping};
use crate::support::disk::{Disk, DiskOperation};
use crate::support::engine::{TestEngine, create_check_command};

fn listed_changes(changes: &ChangeSet) -> (Vec<u64>, bool) {
    let mut ids: Vec<_> = changes.checks.iter().map(|id| id.0).collect();
    ids.sort_unstable();
    (ids, changes.is_everything)
}

#[test]
fn changes_are_collected_for_subscribers_of_the_project() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let other = create_project(engine.handle.random(), "other", 100);
    engine.execute(other);
    let first = engine.create_check(1);
    let watch = engine.handle.subscribe_to_project(ProjectId(1));
    assert_eq!(
        listed_changes(&watch.take_changes()),
        (vec![], false),
        "what came before"
    );
    let second = engine.create_check(2);
    engine.execute(create_check(ProjectId(2), 3, Default::default()));
    engine.batch([
        ping(1, PingKind::Success, ""),
        ping(1, PingKind::Success, ""),
        ping(3, PingKind::Success, ""),
    ]);
    assert_eq!(
        listed_changes(&watch.take_changes()),
        (vec![first.0, second.0], false)
    );
    assert_eq!(
        listed_changes(&watch.take_changes()),
        (vec![], false),
        "taken once"
    );
    // By time: `late` alone writes nothing, `down` does.
    engine.clock.advance_secs(86_400 + 3601);
    assert_eq!(engine.writer.step(false), Ok(true));
    assert_eq!(
        listed_changes(&watch.take_changes()),
        (vec![first.0], false)
    );
    engine.execute(Command::DeleteCheck(second));
    assert_eq!(
        listed_changes(&watch.take_changes()),
        (vec![second.0], false)
    );
    let again = engine.handle.subscribe_to_project(ProjectId(1));
    drop(watch);
    engine.execute(ping(1, PingKind::Fail, ""));
    assert_eq!(
        listed_changes(&again.take_changes()),
        (vec![first.0], false)
    );
}

#[test]
fn an_overflowing_change_set_means_that_everything_may_have_changed() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let watch = engine.handle.subscribe_to_project(ProjectId(1));
    engine.batch((1..=4096).map(create_check_command));
    let (ids, whole) = listed_changes(&watch.take_changes());
    assert!(ids.len() == 4096 && !whole);
    engine.batch((5001..=9097).map(create_check_command));
    assert_eq!(listed_changes(&watch.take_changes()), (vec![], true));
    engine.execute(create_check_command(10_000));
    assert_eq!(listed_changes(&watch.take_changes()).0.len(), 1);
}

#[test]
fn a_recovery_means_that_everything_may_have_changed() {
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    engine.create_check(1);
    let watch = engine.handle.subscribe_to_project(ProjectId(1));
    disk.fail_after(DiskOperation::Write, 0);
    assert!(
        engine
            .batch([ping(1, PingKind::Success, "")])
            .remove(0)
            .is_err()
    );
    assert_eq!(
        listed_changes(&watch.take_changes()),
        (vec![], false),
        "nothing was published"
    );
    disk.heal();
    for _ in 0..2 {
        assert_eq!(engine.writer.step(false), Ok(true));
    }
    assert!(engine.handle.is_writable());
    assert_eq!(listed_changes(&watch.take_changes()), (vec![], true));
}
