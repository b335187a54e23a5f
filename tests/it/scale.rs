//! Operations whose cost must not depend on the number of checks.

use std::time::{Duration, Instant};

use overdue::channels;
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit, UniqueField};
use overdue::domain::ids::ProjectId;
use overdue::domain::ping::PingKind;
use overdue::domain::project::ChannelName;
use overdue::domain::text::{Name, Slug, Tags};
use overdue::engine::HousekeepingLimits;
use overdue::engine::command::{
    CheckUuids, Command, CommandOutcome, CreateCheckRequest, NewChannel,
};
use overdue::store::Medium;
use uuid::Uuid;

use crate::support::commands::{create_check, ping};
use crate::support::disk::Disk;
use crate::support::engine::TestEngine;

const MAIN: ProjectId = ProjectId(1);

/// Creates `count` checks, `check-0`, `check-1` and so on, with all channels of the project.
fn checks(engine: &mut TestEngine, count: u128) {
    let numbers: Vec<_> = (0..count).collect();
    for some in numbers.chunks(4000) {
        let answers = engine.batch(some.iter().map(|number| {
            let edit = CheckEdit {
                channels: Some(ChannelSelection::All),
                ..named_edit(*number)
            };
            create_check(MAIN, *number, edit)
        }));
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer, Ok(Ok(CommandOutcome::CheckCreated(_)))))
        );
    }
}

/// Ten of a hundred have the same tags.
fn named_edit(number: u128) -> CheckEdit {
    CheckEdit {
        name: Some(Name::parse(&format!("check {number}")).unwrap()),
        slug: Some(Slug::parse(&format!("check-{number}")).unwrap()),
        tags: Some(Tags::from_stored(&format!("tag{}", number % 10))),
        ..CheckEdit::default()
    }
}

fn time(work: impl FnOnce()) -> Duration {
    #[allow(
        clippy::disallowed_methods,
        reason = "how long it takes is what is asked"
    )]
    let begin = Instant::now();
    work();
    begin.elapsed()
}

#[test]
fn a_request_with_unique_costs_the_same_whatever_the_number_of_checks() {
    use UniqueField::{Grace, Name, Slug, Tags, Timeout};
    const FEW: u128 = 100;
    const MANY: u128 = 20_000;
    let mut engines = [FEW, MANY].map(|count| {
        let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
        engine.create_project(100);
        checks(&mut engine, count);
        (engine, count)
    });
    for (unique, by_number) in [
        (vec![Slug], true),
        (vec![Name], true),
        (vec![Name, Tags], true),
        (vec![Slug, Name, Tags], true),
        (vec![Tags], false),
    ] {
        // Takes the best of a few rounds to exclude other work of the machine. A scan of every
        // check would take hundreds of times as long.
        let times = [0, 1].map(|which| {
            let (engine, count) = &mut engines[which];
            let rounds = (0..8).map(|round| {
                let requests: Vec<_> = (0..500)
                    .map(|request| (request * 7919 + round) % *count)
                    .collect();
                let upserts = requests.iter().map(|number| {
                    let names = CheckUuids {
                        uuid: Uuid::from_u128(1 << 100),
                        badge: Uuid::from_u128(1 << 101),
                    };
                    Command::CreateCheck(Box::new(CreateCheckRequest {
                        project: MAIN,
                        edit: named_edit(*number),
                        unique: unique.clone(),
                        uuids: names,
                    }))
                });
                let upserts: Vec<_> = upserts.collect();
                let mut answers = Vec::new();
                let taken = time(|| answers = engine.batch(upserts));
                for (number, answer) in requests.iter().zip(answers) {
                    let Ok(Ok(CommandOutcome::Check(check))) = answer else {
                        panic!("{unique:?} {number}: {answer:?}")
                    };
                    // Once updated by their tags alone, the first checks have other names.
                    assert!(
                        !by_number || check.uuid == Uuid::from_u128(*number),
                        "{unique:?} {number}"
                    );
                }
                taken
            });
            rounds.min().unwrap()
        });
        assert!(
            times[1] < 20 * times[0],
            "{unique:?}: {times:?} for {FEW} and {MANY} checks"
        );
    }
    // A name that does not exist is not found, and only one check is created for it.
    let (engine, count) = &mut engines[1];
    let names = CheckUuids {
        uuid: Uuid::from_u128(1 << 102),
        badge: Uuid::from_u128(1 << 103),
    };
    let edit = CheckEdit {
        timeout: Some(overdue::domain::number::Seconds::DAY),
        ..named_edit(*count)
    };
    let upsert = CreateCheckRequest {
        project: MAIN,
        edit,
        unique: vec![Timeout, Grace],
        uuids: names,
    };
    assert!(matches!(
        engine.execute(Command::CreateCheck(Box::new(upsert))),
        CommandOutcome::CheckCreated(_)
    ));
}

#[test]
fn a_project_with_many_checks_disappears_at_once_and_is_removed_in_slices() {
    const MANY: u128 = 10_000;
    let disk = Disk::default();
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    engine.create_project(100);
    let settings = ChannelSettings::parse(
        channels::find_kind("email").unwrap(),
        [("to", "root@example.org")],
    )
    .unwrap();
    let name = ChannelName::parse("mail").unwrap();
    let channel = NewChannel {
        uuid: Uuid::from_u128(1),
        project: MAIN,
        name,
        settings,
        set_by_operator: true,
    };
    let CommandOutcome::Channel(channel) =
        engine.execute(Command::CreateChannel(Box::new(channel)))
    else {
        panic!("no channel")
    };
    checks(&mut engine, MANY);
    engine.execute(ping(5, PingKind::Success, "body"));
    let seen = |engine: &TestEngine| {
        engine
            .handle
            .with_state(|state| state.check_by_uuid(Uuid::from_u128(5)).cloned())
    };
    let check = seen(&engine).unwrap();
    assert_eq!(*check.settings.channels, [channel.id]);

    let taken = time(|| drop(engine.execute(Command::DeleteChannel(channel.id))));
    assert!(taken < Duration::from_millis(250), "{taken:?}");
    assert_eq!(
        engine
            .handle
            .with_state(|state| state.channels_of(&check).count()),
        0
    );
    let CommandOutcome::Check(changed) =
        engine.execute(Command::UpdateCheck(check.id, Box::default()))
    else {
        panic!("no check")
    };
    assert!(changed.settings.channels.is_empty());

    let taken = time(|| drop(engine.execute(Command::DeleteProject(MAIN))));
    assert!(taken < Duration::from_millis(250), "{taken:?}");
    assert_eq!(
        (
            seen(&engine),
            engine.handle.with_state(|state| state.check_count()),
            engine.handle.with_state(|state| state.checks().count())
        ),
        (None, 0, 0)
    );
    let refused = engine.batch([
        ping(5, PingKind::Success, ""),
        Command::PauseCheck(check.id, None),
    ]);
    assert!(
        refused.iter().all(|answer| matches!(answer, Ok(Err(_)))),
        "{refused:?}"
    );

    // Some are removed before a power cut, the others after the start.
    let remaining =
        |engine: &TestEngine| engine.handle.with_state(|state| state.orphans().len()) as u128;
    for _ in 0..3 {
        let taken = time(|| assert_eq!(engine.writer.step(false), Ok(true)));
        assert!(taken < Duration::from_millis(250), "{taken:?}");
    }
    assert!(
        remaining(&engine) > 0 && remaining(&engine) < MANY,
        "{} left",
        remaining(&engine)
    );
    disk.power_off();
    drop(engine);
    disk.power_on(&crate::support::seeded_rng::SeededRng::seeded(1));
    let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
    assert_eq!(
        (
            seen(&engine),
            engine.handle.with_state(|state| state.check_count())
        ),
        (None, 0)
    );
    assert!(
        remaining(&engine) > 0 && remaining(&engine) < MANY,
        "{} left",
        remaining(&engine)
    );
    let mut steps = 0;
    while remaining(&engine) > 0 {
        assert_eq!(engine.writer.step(false), Ok(true));
        steps += 1;
        assert!(steps < 100);
    }
    engine.handle.close();
    assert_eq!(engine.writer.step(false), Ok(false));
    drop(engine);
    let store = overdue::store::Store::open(&disk.medium()).unwrap();
    assert_eq!(store.snapshot().unwrap().checks().unwrap().count(), 0);
}
