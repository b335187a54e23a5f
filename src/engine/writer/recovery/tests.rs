use std::time::Duration;

use super::super::super::command::{Command, NewProject};
use super::*;
use crate::domain::project::ProjectName;
use crate::domain::timestamp::Timestamp;
use crate::engine::EngineConfig;
use crate::store::{FILE_NAME, Medium};
use crate::util::clock::{Clock, ManualClock};
use crate::util::random::Random;

fn create(name: &str) -> Command {
    Command::CreateProject(Box::new(NewProject {
        uuid: uuid::Uuid::from_u128(name.len() as u128),
        name: ProjectName::parse(name).unwrap(),
        check_limit: None,
        ping_log_limit: 10,
        badge_key: name.into(),
    }))
}

#[test]
fn a_file_that_was_missing_while_the_database_had_failed_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
    let medium = Medium::Directory(directory.path().into());
    let config = EngineConfig {
        clock: Clock::Manual(clock.clone()),
        random: Random::seeded(1),
        ..EngineConfig::new(medium, 100)
    };
    let (handle, mut writer) = Writer::open(config, None).unwrap();
    // A batch fails, and memory is ahead of the file.
    let now = writer.next_timestamp();
    writer.memory.working.apply(create("ghost"), now).unwrap();
    writer.recovery.record_failed_batch(
        1,
        &StoreError::Damaged {
            reason: "on purpose".into(),
            panicked: false,
        },
        false,
    );
    writer.shared.writable.store(false, Ordering::Relaxed);
    let path = directory.path().join(FILE_NAME);
    let moved_path = directory.path().join("aside");
    std::fs::rename(&path, &moved_path).unwrap();
    clock.advance_secs(1);
    writer.step(false).unwrap();
    assert_eq!(
        (writer.recovery.fault, handle.is_writable()),
        (DatabaseFault::FileMissing, false)
    );
    std::fs::rename(&moved_path, &path).unwrap();
    for _ in 0..5 {
        clock.set(handle.now().plus_secs(2));
        writer.step(false).unwrap();
    }
    assert!(handle.is_writable(), "it recovers");
    assert!(
        writer.memory.working.effects.is_empty()
            && writer.memory.working.state.projects().next().is_none(),
        "nothing of the batch"
    );
    let receiver = handle.submit(create("one")).unwrap();
    writer.step(false).unwrap();
    assert!(matches!(receiver.blocking_recv(), Ok(Ok(Ok(_)))));
    assert_eq!(handle.with_state(|state| state.projects().count()), 1);
    assert!(writer.recovery.pause() >= Duration::from_millis(1));
}

#[test]
fn after_a_panic_of_the_library_the_database_is_reopened_once_the_page_that_caused_it_is_readable()
{
    for met_unreadable in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        let medium = Medium::Directory(directory.path().into());
        let config = EngineConfig {
            clock: Clock::Manual(clock),
            random: Random::seeded(1),
            ..EngineConfig::new(medium, 100)
        };
        let (handle, mut writer) = Writer::open(config, None).unwrap();
        writer.recovery.record_library_panic(
            &StoreError::Damaged {
                reason: "on purpose".into(),
                panicked: true,
            },
            met_unreadable,
        );
        writer
            .shared
            .is_page_readable_again
            .store(true, Ordering::Relaxed);
        writer.step(false).unwrap();
        // Without an unreadable page the database itself is damaged, and may not be opened again.
        assert_eq!(!writer.recovery.needs_repair_on_close, met_unreadable);
        assert_eq!(
            !writer.shared.is_page_readable_again.load(Ordering::Relaxed),
            met_unreadable
        );
        let answer = handle.submit(create("one")).unwrap();
        writer.step(false).unwrap();
        assert!(matches!(answer.blocking_recv(), Ok(Ok(Ok(_)))));
    }
}
