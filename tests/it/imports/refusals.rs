//! Reasons to refuse an import: identifiers in use, local changes, invalid content. A refusal
//! changes nothing.

use overdue::domain::number::FailureThreshold;
use overdue::domain::parents::Parents;
use overdue::domain::ping::MAX_BODY_BYTES;
use overdue::engine::command::import::{LocalChanges, MAX_ONLINE_IMPORT_CHECKS};
use overdue::util::clock::ManualClock;

use super::*;
use crate::support::commands::{create_check, create_project};
use crate::support::engine;

#[test]
fn an_identifier_in_use_is_refused_and_both_objects_are_named() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    ImportFixture::new().import(&mut engine, LIVE).unwrap();
    engine.execute(create_check(ProjectId(1), 41, CheckEdit::default()));
    let taken = create_project(engine.handle.random(), "Taken", 100);
    engine.execute(taken);
    let other = ImportFixture {
        uuid: 501,
        name: "Other",
        key: 2,
        channel: 901,
        checks: vec![imported_check(31, Status::Up)],
        pings: 0,
    };
    let before = visible_state(&engine);
    let with_badge = |badge: u128| ImportedCheck {
        badge: Some(Uuid::from_u128(badge)),
        ..imported_check(32, Status::Up)
    };
    for (source, sentence) in [
        (
            ImportFixture {
                name: "Taken",
                ..other.clone()
            },
            r#"a project "Taken" with another UUID exists on this server; it has no checks: run"#,
        ),
        (
            ImportFixture {
                name: "default",
                ..other.clone()
            },
            r#"a project "default" with another UUID exists on this server; rename"#,
        ),
        (
            ImportFixture {
                key: 1,
                ..other.clone()
            },
            r#"the key abcd… of the project "Other" is already a key of the project "Homelab""#,
        ),
        (
            ImportFixture {
                channel: 900,
                ..other.clone()
            },
            "the channel \"hook\" of the project \"Other\" has the UUID of the existing channel \
             \"hook\" of the project \"Homelab\"",
        ),
        (
            ImportFixture {
                checks: vec![imported_check(21, Status::Up)],
                ..other.clone()
            },
            "the check \"check 21\" of the project \"Other\" has the UUID of the existing check \
             \"check 21\" of the project \"Homelab\"",
        ),
        (
            ImportFixture {
                checks: vec![imported_check(41, Status::Up)],
                ..other.clone()
            },
            r#"of the project "default""#,
        ),
        (
            ImportFixture {
                checks: vec![with_badge(21 + (1 << 64))],
                ..other.clone()
            },
            "the check \"check 32\" of the project \"Other\" has the UUID of the existing check \
             \"check 21\"",
        ),
        (
            ImportFixture {
                checks: vec![imported_check(31, Status::Up); 2],
                ..other.clone()
            },
            r#"the check "check 31" of the project "Other" is imported twice"#,
        ),
    ] {
        match source.import(&mut engine, LIVE) {
            Err(ImportStepError::Conflicts(sentences)) => {
                assert!(sentences[0].contains(sentence), "{sentence}: {sentences:?}");
            }
            other => panic!("{sentence}: {other:?}"),
        }
        assert_eq!(visible_state(&engine), before, "{sentence}");
        let first = engine
            .handle
            .with_state(|state| state.imports.iter().next().unwrap().0);
        step(&mut engine, ImportStep::Abandon { import: first }).unwrap();
    }
    // At most ten conflicts are listed.
    let many = ImportFixture {
        checks: vec![imported_check(21, Status::Up); 30],
        pings: 0,
        ..other.clone()
    };
    let refused = many.import(&mut engine, LIVE);
    assert!(
        matches!(&refused, Err(ImportStepError::Conflicts(sentences)) if sentences.len() == 10),
        "{refused:?}"
    );
    assert_eq!(other.import(&mut engine, LIVE), Ok(0));
}

#[test]
fn a_project_that_was_created_here_is_not_replaced() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    engine.create_project(100);
    let uuid = engine
        .handle
        .with_state(|state| state.project(ProjectId(1)).unwrap().project.uuid.as_u128());
    let refused = ImportFixture {
        uuid,
        ..ImportFixture::new()
    }
    .import(&mut engine, LIVE);
    assert!(
        matches!(
            &refused,
            Err(ImportStepError::Conflicts(sentences))
                if sentences[0].contains("which was not imported")
        ),
        "{refused:?}"
    );
}

#[test]
fn locally_pinged_or_changed_objects_are_replaced_only_on_request() {
    // Each with its number of pings.
    type LocalChange = fn(&mut TestEngine);
    let touches: [(LocalChange, u64); 8] = [
        (
            |engine| drop(engine.execute(ping(21, PingKind::Success, ""))),
            1,
        ),
        (
            |engine| (0..12).for_each(|_| drop(engine.execute(ping(21, PingKind::Log, "")))),
            12,
        ),
        (
            |engine| drop(engine.execute(Command::PauseCheck(check_by_uuid(engine, 21).id, None))),
            0,
        ),
        (
            |engine| {
                drop(engine.execute(Command::UpdateCheck(
                    check_by_uuid(engine, 21).id,
                    Box::default(),
                )));
            },
            0,
        ),
        (
            |engine| {
                let after = Some(FailureThreshold::parse(2).unwrap());
                engine.execute(Command::UpdateAlertSettings {
                    check: check_by_uuid(engine, 21).id,
                    failure_threshold: after,
                    parents: None::<Parents>,
                });
            },
            0,
        ),
        (
            |engine| {
                let check = check_by_uuid(engine, 21);
                engine.execute(Command::AssignChannel {
                    channel: check.settings.channels[0],
                    checks: vec![check.id],
                    assigned: false,
                });
            },
            0,
        ),
        (
            |engine| {
                engine.execute(create_check(
                    check_by_uuid(engine, 21).project,
                    55,
                    CheckEdit::default(),
                ));
                (0..3).for_each(|_| drop(engine.execute(ping(55, PingKind::Success, ""))));
            },
            3,
        ),
        (
            |engine| {
                engine.execute(ping(21, PingKind::Success, ""));
                // The age of the change does not matter.
                engine.clock.advance_secs(40 * 86_400);
                idle(engine);
            },
            1,
        ),
    ];
    for (number, (touch, pings)) in touches.into_iter().enumerate() {
        let disk = Disk::default();
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        let source = ImportFixture::new();
        source.import(&mut engine, LIVE).unwrap();
        touch(&mut engine);
        let before = visible_state(&engine);
        let first = source.upload(&mut engine);
        let refused = source.finish(&mut engine, first, LIVE, false);
        let name = if number == 6 {
            Uuid::from_u128(55).to_string()
        } else {
            "check 21".into()
        };
        let names = vec![format!("{name:?} of \"Homelab\"").into()];
        let touched = Err(ImportStepError::ChangedLocally {
            changes: LocalChanges { checks: 1, pings },
            names,
        });
        assert_eq!(refused, touched, "{number}");
        assert_eq!(visible_state(&engine), before, "{number}");
        drop(engine);
        // The change is remembered after a restart.
        let mut engine = TestEngine::open(disk.medium(), HousekeepingLimits::default());
        let first = source.upload(&mut engine);
        assert_eq!(
            source.finish(&mut engine, first, LIVE, false),
            touched,
            "{number}"
        );
        let options = ImportFinishOptions {
            mode: LIVE,
            legacy_secrets: Vec::new(),
            badge_secret: None,
            expected_counts: source.counts(first),
            replace: true,
        };
        let finished = step(
            &mut engine,
            ImportStep::Finish {
                import: ImportId(first),
                options,
            },
        );
        let lost = LocalChanges { checks: 1, pings };
        assert_eq!(
            finished,
            Ok(CommandOutcome::Import(ImportStepOutcome::Finished {
                replaced: 1,
                lost_changes: lost
            })),
            "{number}"
        );
        assert!(
            check_by_uuid(&engine, 21).state.unused_since_import
                && engine.handle.with_state(|state| state.check_count()) == 2
        );
    }
}

#[test]
fn passing_time_alone_counts_as_no_change() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    source.import(&mut engine, LIVE).unwrap();
    engine.clock.advance_secs(3 * 86_400);
    idle(&mut engine);
    assert_eq!(check_by_uuid(&engine, 21).state.status, Status::Down);
    assert_eq!(source.import(&mut engine, LIVE), Ok(1));
}

#[test]
fn an_invalid_import_is_refused() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let source = ImportFixture::new();
    let before = visible_state(&engine);
    let wrong = |refused: Result<CommandOutcome, ImportStepError>, part: &str| match refused {
        Err(ImportStepError::Invalid(sentence)) => {
            assert!(sentence.contains(part), "{part}: {sentence}");
        }
        other => panic!("{part}: {other:?}"),
    };
    wrong(
        step(
            &mut engine,
            ImportStep::Begin {
                object_count: 0,
                check_count: 0,
            },
        ),
        "it contains no objects",
    );
    assert_eq!(
        step(
            &mut engine,
            ImportStep::Begin {
                object_count: 1_000_001,
                check_count: 0
            }
        ),
        Err(ImportStepError::TooLarge)
    );
    let first = begin(&mut engine, source.number_count());
    let import = ImportId(first);
    let log = |pings, flips| ImportStep::Log {
        import,
        pings,
        flips,
    };
    wrong(
        step(
            &mut engine,
            log(vec![staged_ping(CheckId(first + 5), 1)], Vec::new()),
        ),
        "to another import",
    );
    wrong(
        step(
            &mut engine,
            log(vec![staged_ping(CheckId(first + 3), 0)], Vec::new()),
        ),
        "has the number 0",
    );
    let many = (1..258)
        .map(|n| staged_ping(CheckId(first + 3), n))
        .collect();
    wrong(
        step(&mut engine, log(many, Vec::new())),
        "too many log entries",
    );
    let long = |bytes: usize, n| NumberedPing {
        body: vec![0; bytes].into(),
        ..staged_ping(CheckId(first + 3), n)
    };
    wrong(
        step(
            &mut engine,
            log(vec![long(MAX_BODY_BYTES + 1, 1)], Vec::new()),
        ),
        "too many log entries",
    );
    wrong(
        step(
            &mut engine,
            log(vec![long(1 << 20, 1), long(1, 2)], Vec::new()),
        ),
        "too many log entries",
    );
    wrong(
        step(
            &mut engine,
            ImportStep::Items {
                import,
                objects: source.objects(first + 3),
            },
        ),
        "a number of another import",
    );
    // A refused import is not counted.
    assert_eq!(
        engine
            .handle
            .with_state(|state| state.imports.get(import).unwrap().counts),
        ImportItemCounts::default()
    );
    let finish = |expected| ImportStep::Finish {
        import,
        options: ImportFinishOptions {
            mode: LIVE,
            legacy_secrets: Vec::new(),
            badge_secret: None,
            expected_counts: expected,
            replace: false,
        },
    };
    wrong(
        step(&mut engine, finish(source.counts(first))),
        "some of its items are missing",
    );
    let mut counts = ImportItemCounts::default();
    let mut hand_over = |engine: &mut TestEngine, objects: Vec<ImportItem>| {
        objects.iter().for_each(|object| counts.count(object));
        step(engine, ImportStep::Items { import, objects }).unwrap();
        counts
    };
    let items = source.objects(first);
    let without_project = hand_over(&mut engine, items[1..].to_vec());
    wrong(
        step(&mut engine, finish(without_project)),
        "to a project that the import does not contain",
    );
    let twice = hand_over(&mut engine, vec![items[0].clone(), items[1].clone()]);
    wrong(step(&mut engine, finish(twice)), "an object occurs twice");
    step(&mut engine, ImportStep::Abandon { import }).unwrap();
    for (change, part) in [
        (
            (|check| check.state.last_ping = None) as fn(&mut ImportedCheck),
            "is up, but was never pinged",
        ),
        (
            |check| check.state.n_pings = 6,
            "has a ping whose number exceeds its number of pings",
        ),
        (
            |check| check.state.last_ping = Some(Timestamp::from_secs(NOW + 60)),
            "has times in the future",
        ),
    ] {
        let mut source = ImportFixture::new();
        change(&mut source.checks[0]);
        let refused = source.import(&mut engine, LIVE).unwrap_err();
        assert!(refused.to_string().contains(part), "{refused:?}");
        assert_eq!(visible_state(&engine), before);
        let remaining = engine
            .handle
            .with_state(|state| state.imports.iter().next().unwrap().0);
        step(&mut engine, ImportStep::Abandon { import: remaining }).unwrap();
    }
    assert_eq!(
        step(&mut engine, ImportStep::Abandon { import }),
        Err(ImportStepError::UnknownImport)
    );
}

#[test]
fn the_number_of_open_imports_is_limited() {
    let mut engine = TestEngine::open(Medium::memory(), HousekeepingLimits::default());
    let first: Vec<_> = (0..4).map(|_| begin(&mut engine, 2)).collect();
    assert_eq!(first, [1, 3, 5, 7]);
    assert_eq!(
        step(
            &mut engine,
            ImportStep::Begin {
                object_count: 2,
                check_count: 0
            }
        ),
        Err(ImportStepError::TooManyImports)
    );
    step(
        &mut engine,
        ImportStep::Abandon {
            import: ImportId(3),
        },
    )
    .unwrap();
    assert_eq!(begin(&mut engine, 2), 9, "no number is given twice");
}

#[test]
fn a_server_limits_the_checks_of_an_import_and_a_command_without_one_takes_more() {
    let limit = MAX_ONLINE_IMPORT_CHECKS;
    let checks = |first: u64| {
        let check = |number: u64| {
            let check = Box::new(imported_check(u128::from(number), Status::New));
            ImportItem::Check {
                id: CheckId(first + number),
                project: ProjectId(first),
                badge: Uuid::nil(),
                check,
            }
        };
        (0..=limit).map(check).collect::<Vec<_>>()
    };
    for takes_pings in [true, false] {
        let clock = ManualClock::at(Timestamp::from_secs(NOW));
        let (handle, writer) = engine::open(Medium::memory(), &clock, |config| {
            config.accepts_pings = takes_pings;
        })
        .unwrap();
        let mut engine = TestEngine {
            handle,
            writer,
            clock,
        };
        let begun = step(
            &mut engine,
            ImportStep::Begin {
                object_count: limit + 1,
                check_count: limit + 1,
            },
        );
        assert_eq!(begun.is_ok(), !takes_pings, "{begun:?}");
        if let Err(refusal) = begun {
            assert_eq!(refusal, ImportStepError::TooManyChecks(limit + 1));
            let advice = "stop the server and import again, or import some projects at a time with \
                          --project";
            assert_eq!(
                refusal.to_string(),
                format!(
                    "the import has 50001 checks, and a running server accepts at most 50000 at \
                     once: {advice}"
                )
            );
        }
        // An import that announced fewer checks than it uploads is refused during the upload.
        let first = begin(&mut engine, limit + 1);
        let import = ImportId(first);
        let mut objects = checks(first);
        let last = objects.pop().unwrap();
        step(&mut engine, ImportStep::Items { import, objects }).unwrap();
        let one_more = step(
            &mut engine,
            ImportStep::Items {
                import,
                objects: vec![last],
            },
        );
        let expected = if takes_pings {
            Err(ImportStepError::TooManyChecks(limit + 1))
        } else {
            Ok(CommandOutcome::Completed)
        };
        assert_eq!(one_more, expected);
    }
}
