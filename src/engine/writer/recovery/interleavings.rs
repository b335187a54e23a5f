//! Callers and readers during a recovery.

use shuttle::future::block_on;

use super::*;
use crate::domain::project::ProjectName;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::{Command, NewProject, Unavailable};
use crate::engine::writer::WriterExit;
use crate::engine::{EngineConfig, Handle};
use crate::store::Medium;
use crate::util::clock::{Clock, ManualClock};
use crate::util::interleavings::check;
use crate::util::random::Random;
use crate::util::sync::thread;

/// Project of a batch that fails.
const UNSTORED: &str = "unstored";

fn create(name: &str) -> Command {
    Command::CreateProject(Box::new(NewProject {
        uuid: uuid::Uuid::from_u128(name.len() as u128),
        name: ProjectName::parse(name).unwrap(),
        check_limit: None,
        ping_log_limit: 10,
        badge_key: name.into(),
    }))
}

fn is_visible(handle: &Handle, name: &str) -> bool {
    handle.with_state(|state| {
        let mut projects = state.projects();
        projects.any(|project| project.project.name.as_str() == name)
    })
}

/// Runs the writer, whose second batch fails, until the queue is closed.
fn run_with_failure(mut writer: Writer, clock: &ManualClock) -> WriterExit {
    // Without a wake-up it would wait for a command.
    writer.shared.queue.wake();
    writer.step(false).unwrap();
    let now = writer.next_timestamp();
    let unstored = writer.memory.working.apply(create(UNSTORED), now);
    assert!(unstored.is_ok());
    let error = StoreError::Reopening;
    writer.recovery.record_failed_batch(1, &error, false);
    writer.shared.writable.store(false, Ordering::Relaxed);
    while !writer.shared.writable.load(Ordering::Relaxed) {
        clock.advance_secs(1);
        writer.step(false).unwrap();
        thread::yield_now();
    }
    while writer.step(true).unwrap() {}
    WriterExit::Closed
}

#[test]
fn acknowledged_data_stays_visible_during_a_recovery_and_other_data_never_is() {
    check(|| {
        let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        let config = EngineConfig {
            clock: Clock::Manual(clock.clone()),
            random: Random::seeded(1),
            ..EngineConfig::new(Medium::memory(), 100)
        };
        let (handle, writer) = Writer::open(config, None).unwrap();
        let writer = thread::spawn(move || run_with_failure(writer, &clock));
        let callers = ["first", "second"].map(|name| {
            let handle = handle.clone();
            thread::spawn(move || match block_on(handle.call(create(name))) {
                Ok(reply) => {
                    assert!(reply.is_ok());
                    assert!(is_visible(&handle, name));
                    thread::yield_now();
                    assert!(is_visible(&handle, name));
                }
                Err(error) => assert_eq!(error, Unavailable::StorageFailed),
            })
        });
        let reader = thread::spawn({
            let handle = handle.clone();
            move || {
                for _ in 0..2 {
                    handle.file_bytes();
                    assert!(!is_visible(&handle, UNSTORED));
                }
            }
        });
        for thread in callers.into_iter().chain([reader]) {
            thread.join().unwrap();
        }
        // It has recovered.
        handle.close();
        assert_eq!(writer.join().unwrap(), WriterExit::Closed);
        assert!(handle.is_writable() && handle.file_bytes().is_some());
    });
}
