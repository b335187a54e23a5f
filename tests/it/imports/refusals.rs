//! What stands in the way of an import: what is taken, what was touched, what makes no sense. Each refusal leaves everything as it was.

use overdue::clock::ManualClock;
use overdue::domain::parents::Parents;
use overdue::domain::ping::LONGEST_BODY;
use overdue::domain::text::Failures;
use overdue::engine::command::stage::{Lost, MOST_SERVED_CHECKS};

use super::*;
use crate::support::build::{create_check, create_project};
use crate::support::engine;

#[test]
fn what_something_else_here_has_is_refused_with_both_sides() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    Source::new().import(&mut engine, LIVE).unwrap();
    engine.done(create_check(ProjectId(1), 41, Edit::default()));
    let taken = create_project(engine.handle.random(), "Taken", 100);
    engine.done(taken);
    let other = Source { uuid: 501, name: "Other", key: 2, channel: 901, checks: vec![imported_check(31, Status::Up)], pings: 0 };
    let before = seen(&engine);
    let with_badge = |badge: u128| ImportedCheck { badge: Some(Uuid::from_u128(badge)), ..imported_check(32, Status::Up) };
    for (source, sentence) in [
        (Source { name: "Taken", ..other.clone() }, r#"there is a project "Taken" here already"#),
        (Source { key: 1, ..other.clone() }, r#"the key abcd… of the project "Other" is a key of the project "Homelab" here"#),
        (
            Source { channel: 900, ..other.clone() },
            r#"the channel "hook" of the project "Other" has a UUID that the channel "hook" of the project "Homelab" has here"#,
        ),
        (
            Source { checks: vec![imported_check(21, Status::Up)], ..other.clone() },
            r#"the check "check 21" of the project "Other" has a UUID that the check "check 21" of the project "Homelab""#,
        ),
        (Source { checks: vec![imported_check(41, Status::Up)], ..other.clone() }, r#"of the project "default" has here"#),
        (
            Source { checks: vec![with_badge(21 + (1 << 64))], ..other.clone() },
            r#"the check "check 32" of the project "Other" has a UUID that the check "check 21""#,
        ),
        (
            Source { checks: vec![imported_check(31, Status::Up); 2], ..other.clone() },
            r#"the check "check 31" of the project "Other" is imported twice"#,
        ),
    ] {
        match source.import(&mut engine, LIVE) {
            Err(StageRefusal::Taken(sentences)) => assert!(sentences[0].contains(sentence), "{sentence}: {sentences:?}"),
            other => panic!("{sentence}: {other:?}"),
        }
        assert_eq!(seen(&engine), before, "{sentence}");
        let first = engine.handle.with_state(|state| state.stagings.iter().next().unwrap().0);
        step(&mut engine, StageCommand::Abandon { import: first }).unwrap();
    }
    // No more than ten are told.
    let many = Source { checks: vec![imported_check(21, Status::Up); 30], pings: 0, ..other.clone() };
    let refused = many.import(&mut engine, LIVE);
    assert!(matches!(&refused, Err(StageRefusal::Taken(sentences)) if sentences.len() == 10), "{refused:?}");
    assert_eq!(other.import(&mut engine, LIVE), Ok(0));
}

#[test]
fn a_project_that_was_made_here_is_not_replaced() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    engine.project(100);
    let uuid = engine.handle.with_state(|state| state.project(ProjectId(1)).unwrap().project.uuid.as_u128());
    let refused = Source { uuid, ..Source::new() }.import(&mut engine, LIVE);
    assert!(matches!(&refused, Err(StageRefusal::Taken(sentences)) if sentences[0].contains("which was made here")), "{refused:?}");
}

#[test]
fn what_was_pinged_or_changed_here_is_replaced_only_if_that_is_said() {
    // With the pings that each is.
    type Touch = fn(&mut Engine);
    let touches: [(Touch, u64); 8] = [
        (|engine| drop(engine.done(ping(21, Kind::Success, ""))), 1),
        (|engine| (0..12).for_each(|_| drop(engine.done(ping(21, Kind::Log, "")))), 12),
        (|engine| drop(engine.done(Command::Pause(found(engine, 21).id))), 0),
        (|engine| drop(engine.done(Command::UpdateCheck(found(engine, 21).id, Box::default()))), 0),
        (
            |engine| {
                let after = Some(Failures::parse(2).unwrap());
                engine.done(Command::SetAlerting { check: found(engine, 21).id, after, parents: None::<Parents> });
            },
            0,
        ),
        (
            |engine| {
                let check = found(engine, 21);
                engine.done(Command::AssignChannel { channel: check.settings.channels[0], checks: vec![check.id], assigned: false });
            },
            0,
        ),
        (
            |engine| {
                engine.done(create_check(found(engine, 21).project, 55, Edit::default()));
                (0..3).for_each(|_| drop(engine.done(ping(55, Kind::Success, ""))));
            },
            3,
        ),
        (
            |engine| {
                engine.done(ping(21, Kind::Success, ""));
                // Also when it was long ago.
                engine.clock.advance_secs(40 * 86_400);
                idle(engine);
            },
            1,
        ),
    ];
    for (number, (touch, pings)) in touches.into_iter().enumerate() {
        let disk = Disk::default();
        let mut engine = Engine::open(disk.medium(), Thresholds::default());
        let source = Source::new();
        source.import(&mut engine, LIVE).unwrap();
        touch(&mut engine);
        let before = seen(&engine);
        let first = source.hand_over(&mut engine);
        let refused = source.finish(&mut engine, first, LIVE, false);
        let name = if number == 6 { Uuid::from_u128(55).to_string() } else { "check 21".into() };
        let names = vec![format!("{name:?} of \"Homelab\"").into()];
        let touched = Err(StageRefusal::Touched { done: Lost { checks: 1, pings }, names });
        assert_eq!(refused, touched, "{number}");
        assert_eq!(seen(&engine), before, "{number}");
        drop(engine);
        // A start does not forget it.
        let mut engine = Engine::open(disk.medium(), Thresholds::default());
        let first = source.hand_over(&mut engine);
        assert_eq!(source.finish(&mut engine, first, LIVE, false), touched, "{number}");
        let ending = Ending { mode: LIVE, secrets: Vec::new(), signing: None, expected: source.counts(first), replace: true };
        let finished = step(&mut engine, StageCommand::Finish { import: ImportId(first), ending });
        let lost = Lost { checks: 1, pings };
        assert_eq!(finished, Ok(Outcome::Stage(StageOutcome::Finished { replaced: 1, lost })), "{number}");
        assert!(found(&engine, 21).state.untouched && engine.handle.with_state(|state| state.check_count()) == 2);
    }
}

#[test]
fn time_alone_touches_nothing() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    source.import(&mut engine, LIVE).unwrap();
    engine.clock.advance_secs(3 * 86_400);
    idle(&mut engine);
    assert_eq!(found(&engine, 21).state.status, Status::Down);
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let source = Source::new();
    let before = seen(&engine);
    let wrong = |refused: Result<Outcome, StageRefusal>, part: &str| match refused {
        Err(StageRefusal::Wrong(sentence)) => assert!(sentence.contains(part), "{part}: {sentence}"),
        other => panic!("{part}: {other:?}"),
    };
    wrong(step(&mut engine, StageCommand::Begin { ids: 0, checks: 0 }), "there is nothing in it");
    assert_eq!(step(&mut engine, StageCommand::Begin { ids: 1_000_001, checks: 0 }), Err(StageRefusal::TooLarge));
    let first = begin(&mut engine, source.numbers());
    let import = ImportId(first);
    let log = |pings, flips| StageCommand::Log { import, pings, flips };
    wrong(step(&mut engine, log(vec![staged_ping(CheckId(first + 5), 1)], Vec::new())), "of another import");
    wrong(step(&mut engine, log(vec![staged_ping(CheckId(first + 3), 0)], Vec::new())), "has the number 0");
    let many = (1..258).map(|n| staged_ping(CheckId(first + 3), n)).collect();
    wrong(step(&mut engine, log(many, Vec::new())), "more entries");
    let long = |bytes: usize, n| StagedPing { body: vec![0; bytes].into(), ..staged_ping(CheckId(first + 3), n) };
    wrong(step(&mut engine, log(vec![long(LONGEST_BODY + 1, 1)], Vec::new())), "more entries");
    wrong(step(&mut engine, log(vec![long(1 << 20, 1), long(1, 2)], Vec::new())), "more entries");
    wrong(step(&mut engine, StageCommand::Objects { import, objects: source.things(first + 3) }), "a number of another import");
    // Nothing of what was refused is counted.
    assert_eq!(engine.handle.with_state(|state| state.stagings.get(import).unwrap().counts), StagedCounts::default());
    let finish = |expected| StageCommand::Finish {
        import,
        ending: Ending { mode: LIVE, secrets: Vec::new(), signing: None, expected, replace: false },
    };
    wrong(step(&mut engine, finish(source.counts(first))), "not all of it has arrived");
    let mut counts = StagedCounts::default();
    let mut hand_over = |engine: &mut Engine, objects: Vec<Staged>| {
        objects.iter().for_each(|object| counts.count(object));
        step(engine, StageCommand::Objects { import, objects }).unwrap();
        counts
    };
    let things = source.things(first);
    let without_project = hand_over(&mut engine, things[1..].to_vec());
    wrong(step(&mut engine, finish(without_project)), "of a project that was not handed over");
    let twice = hand_over(&mut engine, vec![things[0].clone(), things[1].clone()]);
    wrong(step(&mut engine, finish(twice)), "handed over twice");
    step(&mut engine, StageCommand::Abandon { import }).unwrap();
    for (change, part) in [
        ((|check| check.state.last_ping = None) as fn(&mut ImportedCheck), "is up, but was never pinged"),
        (|check| check.state.n_pings = 6, "has a ping with a higher number than it has pings"),
        (|check| check.state.last_ping = Some(Moment::from_secs(NOW + 60)), "has times in the future"),
    ] {
        let mut source = Source::new();
        change(&mut source.checks[0]);
        let refused = source.import(&mut engine, LIVE).unwrap_err();
        assert!(refused.to_string().contains(part), "{refused:?}");
        assert_eq!(seen(&engine), before);
        let left = engine.handle.with_state(|state| state.stagings.iter().next().unwrap().0);
        step(&mut engine, StageCommand::Abandon { import: left }).unwrap();
    }
    assert_eq!(step(&mut engine, StageCommand::Abandon { import }), Err(StageRefusal::Unknown));
}

#[test]
fn so_many_imports_are_under_way_and_no_more() {
    let mut engine = Engine::open(Medium::memory(), Thresholds::default());
    let first: Vec<_> = (0..4).map(|_| begin(&mut engine, 2)).collect();
    assert_eq!(first, [1, 3, 5, 7]);
    assert_eq!(step(&mut engine, StageCommand::Begin { ids: 2, checks: 0 }), Err(StageRefusal::TooMany));
    step(&mut engine, StageCommand::Abandon { import: ImportId(3) }).unwrap();
    assert_eq!(begin(&mut engine, 2), 9, "no number is given twice");
}

#[test]
fn a_server_takes_so_many_checks_at_once_and_a_command_without_one_takes_more() {
    let most = MOST_SERVED_CHECKS;
    let checks = |first: u64| {
        let check = |number: u64| {
            let check = Box::new(imported_check(u128::from(number), Status::New));
            Staged::Check { id: CheckId(first + number), project: ProjectId(first), badge: Uuid::nil(), check }
        };
        (0..=most).map(check).collect::<Vec<_>>()
    };
    for takes_pings in [true, false] {
        let clock = ManualClock::at(Moment::from_secs(NOW));
        let (handle, writer) = engine::open(Medium::memory(), &clock, |config| config.takes_pings = takes_pings).unwrap();
        let mut engine = Engine { handle, writer, clock };
        let begun = step(&mut engine, StageCommand::Begin { ids: most + 1, checks: most + 1 });
        assert_eq!(begun.is_ok(), !takes_pings, "{begun:?}");
        if let Err(refusal) = begun {
            assert_eq!(refusal, StageRefusal::TooManyChecks(most + 1));
            let advice = "stop it and import again, or take some projects at a time with --project";
            assert_eq!(
                refusal.to_string(),
                format!("there are 50001 checks, and a server that runs takes at most 50000 at once: {advice}")
            );
        }
        // Whoever said that there are fewer is refused when they come.
        let first = begin(&mut engine, most + 1);
        let (import, mut objects) = (ImportId(first), checks(first));
        let last = objects.pop().unwrap();
        step(&mut engine, StageCommand::Objects { import, objects }).unwrap();
        let one_more = step(&mut engine, StageCommand::Objects { import, objects: vec![last] });
        let wanted = if takes_pings { Err(StageRefusal::TooManyChecks(most + 1)) } else { Ok(Outcome::Done) };
        assert_eq!(one_more, wanted);
    }
}
