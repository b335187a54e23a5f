//! The writer, its callers, readers of the published state, subscribers and the watchdog, with a
//! database in memory.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use shuttle::future::block_on;
use uuid::Uuid;

use crate::domain::check_edit::CheckEdit;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::project::ProjectName;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::{
    CheckUuids, Command, CommandReply, CreateCheckRequest, NewProject, Unavailable,
};
use crate::engine::{EngineConfig, Handle, Leadership, Writer, WriterExit, open_as_leader};
use crate::store::{Medium, SharedLog, Store};
use crate::util::clock::{Clock, ManualClock};
use crate::util::interleavings::check;
use crate::util::random::Random;
use crate::util::sync::atomic::{AtomicUsize, Ordering};
use crate::util::sync::thread::{self, JoinHandle};
use crate::util::sync::{Condvar, Mutex, ignore_poison, lock};

pub(super) const BEGINNING: Timestamp = Timestamp::from_secs(1_800_000_000);
const PROJECT: ProjectId = ProjectId(1);

/// Log of the batches. What is not in it is not durable.
#[derive(Default)]
struct TestLog {
    state: Mutex<TestLogState>,
    resumed: Condvar,
}

#[derive(Default)]
struct TestLogState {
    bytes: Vec<u8>,
    /// Number of the first record that cannot be written, if any.
    fails_at: Option<u64>,
    /// True while the disk hangs.
    hangs: bool,
}

struct TestAppender(Arc<TestLog>);

impl SharedLog for TestAppender {
    fn append(&mut self, place: u64, record: &[u8]) -> io::Result<()> {
        let state = lock(&self.0.state);
        let mut state = ignore_poison(self.0.resumed.wait_while(state, |state| state.hangs));
        if state.fails_at.is_some_and(|first| place >= first) {
            return Err(io::Error::other("on purpose"));
        }
        state.bytes.extend_from_slice(record);
        drop(state);
        thread::yield_now();
        Ok(())
    }
}

impl TestLog {
    fn contains(&self, name: &str) -> bool {
        let state = lock(&self.state);
        let mut texts = state.bytes.windows(name.len());
        texts.any(|text| text == name.as_bytes())
    }

    fn set_hangs(&self, hangs: bool) {
        lock(&self.state).hangs = hangs;
        self.resumed.notify_all();
    }
}

fn open(log: &Arc<TestLog>) -> (Handle, Writer, Arc<ManualClock>) {
    let medium = Medium::memory();
    Store::create_cluster(&medium, 1).unwrap();
    let clock = ManualClock::at(BEGINNING);
    let config = EngineConfig {
        clock: Clock::Manual(Arc::clone(&clock)),
        random: Random::seeded(1),
        ..EngineConfig::new(medium, 100)
    };
    let leadership = Leadership {
        epoch: 1,
        log: Box::new(TestAppender(Arc::clone(log))),
    };
    let (handle, writer) = open_as_leader(config, leadership).unwrap();
    (handle, writer, clock)
}

/// Runs the writer without its watchdog.
fn start(mut writer: Writer) -> JoinHandle<WriterExit> {
    thread::spawn(move || {
        loop {
            match writer.step(true) {
                Ok(true) => {}
                Ok(false) => return WriterExit::Closed,
                Err(exit) => return exit,
            }
        }
    })
}

fn new_project(name: &str) -> Command {
    Command::CreateProject(Box::new(NewProject {
        uuid: Uuid::from_u128(name.bytes().map(u128::from).sum()),
        name: ProjectName::parse(name).unwrap(),
        check_limit: None,
        ping_log_limit: 10,
        badge_key: name.into(),
    }))
}

fn new_check(number: u128) -> Command {
    let uuids = CheckUuids {
        uuid: Uuid::from_u128(number),
        badge: Uuid::from_u128(number + 100),
    };
    Command::CreateCheck(Box::new(CreateCheckRequest {
        project: PROJECT,
        edit: CheckEdit::default(),
        unique: Vec::new(),
        uuids,
    }))
}

fn is_done(reply: &CommandReply) -> bool {
    matches!(reply, Ok(Ok(_)))
}

fn visible_names(handle: &Handle) -> Vec<String> {
    handle.with_state(|state| {
        let projects = state.projects();
        projects
            .map(|project| project.project.name.as_str().to_owned())
            .collect()
    })
}

fn visible_checks(handle: &Handle) -> BTreeSet<CheckId> {
    handle.with_state(|state| {
        let checks = state.checks_after(PROJECT, None);
        checks.map(|check| check.id).collect()
    })
}

/// Calls from a thread whose replies come through an inbox of its own, as in a listener.
fn call_through_inbox(handle: &Handle, command: Command) -> CommandReply {
    let inbox = handle.create_reply_inbox();
    let reply = handle.submit(command)?;
    // Ends with the engine.
    thread::spawn(move || block_on(inbox.run()));
    block_on(reply).unwrap_or(Err(Unavailable::StorageFailed))
}

#[test]
fn nothing_is_acknowledged_or_visible_before_it_is_stored() {
    check(|| check_storing(None));
}

#[test]
fn a_batch_that_is_not_stored_is_refused_and_never_visible() {
    check(|| check_storing(Some(3)));
}

fn check_storing(fails_at: Option<u64>) {
    let log = Arc::<TestLog>::default();
    let (handle, writer, _) = open(&log);
    lock(&log.state).fails_at = fails_at;
    let writer = start(writer);
    let callers = ["first", "second", "third"].map(|name| {
        let log = Arc::clone(&log);
        let handle = handle.clone();
        thread::spawn(move || {
            let command = new_project(name);
            let reply = if name == "third" {
                call_through_inbox(&handle, command)
            } else {
                block_on(handle.call(command))
            };
            let is_stored = log.contains(name);
            assert!(is_stored || !is_done(&reply), "{name} is acknowledged");
            assert!(fails_at.is_some() || is_done(&reply), "{name} is refused");
            let is_visible = visible_names(&handle).iter().any(|visible| visible == name);
            assert_eq!(is_visible, is_done(&reply), "{name}");
        })
    });
    for _ in 0..2 {
        for name in visible_names(&handle) {
            assert!(log.contains(&name), "{name} is visible");
        }
    }
    for caller in callers {
        caller.join().unwrap();
    }
    handle.close();
    let exit = writer.join().unwrap();
    assert!(fails_at.is_some() || exit == WriterExit::Closed);
    let late = handle.submit(new_project("late"));
    assert!(matches!(late, Err(Unavailable::Stopping)));
}

#[test]
fn a_subscriber_gets_every_change_that_it_has_not_read_before() {
    check(|| {
        let log = Arc::<TestLog>::default();
        let (handle, writer, _) = open(&log);
        let writer = start(writer);
        assert!(is_done(&block_on(handle.call(new_project("project")))));
        // One of them asks again and again, the other one waits.
        let subscribers = [true, false].map(|asks| {
            let handle = handle.clone();
            thread::spawn(move || {
                let subscription = handle.subscribe_to_project(PROJECT);
                let mut known = visible_checks(&handle);
                while known.len() < 2 {
                    if asks {
                        let visible = visible_checks(&handle);
                        handle.wait_for_publication();
                        known.extend(subscription.take_changes().checks);
                        assert!(visible.is_subset(&known), "not recorded");
                        thread::yield_now();
                        continue;
                    }
                    block_on(subscription.changed());
                    let changes = subscription.take_changes();
                    assert!(!changes.is_empty());
                    let visible = visible_checks(&handle);
                    assert!(changes.checks.iter().all(|id| visible.contains(id)));
                    known.extend(changes.checks);
                }
            })
        });
        for number in [1, 2] {
            assert!(is_done(&block_on(handle.call(new_check(number)))));
        }
        for subscriber in subscribers {
            subscriber.join().unwrap();
        }
        handle.close();
        assert_eq!(writer.join().unwrap(), WriterExit::Closed);
    });
}

#[test]
fn callers_get_a_reply_while_the_disk_hangs_and_the_server_is_writable_afterwards() {
    check(|| {
        let log = Arc::<TestLog>::default();
        let (handle, writer, clock) = open(&log);
        log.set_hangs(true);
        let writer = start(writer);
        let replies = Arc::new(AtomicUsize::new(0));
        let callers = ["first", "second"].map(|name| {
            let log = Arc::clone(&log);
            let handle = handle.clone();
            let replies = Arc::clone(&replies);
            thread::spawn(move || {
                let reply = block_on(handle.call(new_project(name)));
                replies.fetch_add(1, Ordering::Relaxed);
                match reply {
                    Ok(reply) => assert!(reply.is_ok() && log.contains(name)),
                    Err(error) => assert_eq!(error, Unavailable::StorageFailed),
                }
            })
        });
        // The watchdog.
        while replies.load(Ordering::Relaxed) < callers.len() {
            clock.advance_secs(5);
            handle.observe_writer();
            thread::yield_now();
        }
        log.set_hangs(false);
        for caller in callers {
            caller.join().unwrap();
        }
        assert!(is_done(&block_on(handle.call(new_project("later")))) && log.contains("later"));
        handle.observe_writer();
        assert!(handle.is_writable());
        handle.close();
        assert_eq!(writer.join().unwrap(), WriterExit::Closed);
    });
}
