//! Threads that wait for each other: callers and the writer, and the notifier and its tests.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use shuttle::future::block_on;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::channels;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::ChannelSettings;
use crate::domain::ids::{ChannelId, CheckId, ProjectId};
use crate::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};
use crate::domain::project::{Channel, ChannelName};
use crate::engine::command::{
    Command, CommandReply, PingRequest, PingSignal, PingTarget, Unavailable,
};
use crate::engine::command_queue::CommandQueue;
use crate::engine::{ChannelTestResult, EngineConfig, TestedChannel};
use crate::store::Medium;
use crate::util::clock::{Clock, ManualClock};
use crate::util::interleavings::check;
use crate::util::random::Random;
use crate::util::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::util::sync::{Mutex, lock, thread};

/// Waits never time out here.
const FOREVER: Duration = Duration::MAX;
/// Size above which a command is large.
const LARGE_BYTES: usize = 1 << 20;
/// Body of a large command. The queue has room for one of them, and not for two.
static LARGE_BODY: LazyLock<Bytes> = LazyLock::new(|| vec![0; 40 << 20].into());

fn large_ping() -> Command {
    Command::Ping(Box::new(PingRequest {
        target: PingTarget::Uuid(Uuid::nil()),
        signal: PingSignal::Http(PingKind::Success),
        origin: PingOrigin {
            scheme: PingScheme::Http,
            method: PingMethod::Get,
            remote_addr: None,
            user_agent: "".into(),
        },
        rid: None,
        body: LARGE_BODY.clone(),
    }))
}

fn small(number: u64) -> Command {
    Command::ResumeCheck(CheckId(number))
}

/// Takes commands as the writer does, until the queue is closed and empty. Returns the numbers of
/// the small ones in their order.
fn take_all(queue: &CommandQueue) -> Vec<u64> {
    let mut taken_numbers = Vec::new();
    let mut has_deferred = false;
    loop {
        let mut taken = queue.take(FOREVER, true, |_| ());
        let is_empty = taken.small.is_empty() && taken.large.is_none();
        if taken.closed && is_empty {
            return taken_numbers;
        }
        if taken.small.len() > 1 && !has_deferred {
            has_deferred = true;
            let deferred = taken.small.split_off(1);
            queue.put_back(deferred);
        }
        for entry in taken.small.into_iter().chain(taken.large) {
            if let Command::ResumeCheck(id) = entry.command {
                taken_numbers.push(id.0);
            }
            let _ = entry.reply.send(Err(Unavailable::StorageFailed));
        }
    }
}

/// Waits for the reply of [`take_all`].
fn is_refused(reply: oneshot::Receiver<CommandReply>) -> bool {
    matches!(block_on(reply), Ok(Err(Unavailable::StorageFailed)))
}

#[test]
fn each_accepted_command_is_taken_once_and_in_the_order_of_its_caller() {
    check(|| {
        let queue = Arc::new(CommandQueue::new(LARGE_BYTES));
        let callers = [1, 2].map(|caller| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let numbers = [10 * caller, 10 * caller + 1];
                let mut replies = Vec::from(
                    numbers.map(|number| queue.push(small(number), None).expect("small ones fit")),
                );
                replies.extend(queue.push(large_ping(), None));
                assert!(replies.into_iter().all(is_refused));
            })
        });
        let writer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || take_all(&queue)
        });
        assert!(queue.depth_and_bytes().1 < 2 * LARGE_BODY.len() as u64);
        for caller in callers {
            caller.join().unwrap();
        }
        queue.close();
        assert!(matches!(
            queue.push(small(0), None),
            Err(Unavailable::Stopping)
        ));
        let mut taken = writer.join().unwrap();
        for caller in [1, 2] {
            let of_caller = taken.iter().filter(|number| **number / 10 == caller);
            assert!(of_caller.is_sorted(), "{taken:?}");
        }
        taken.sort_unstable();
        assert_eq!(taken, [10, 11, 20, 21]);
        assert_eq!(queue.depth_and_bytes(), (0, 0));
    });
}

#[test]
fn a_writer_that_waits_takes_a_wake_up_and_one_that_pauses_the_end() {
    check(|| {
        let queue = Arc::new(CommandQueue::new(LARGE_BYTES));
        let is_due = Arc::new(AtomicBool::new(false));
        let (woken, has_woken) = oneshot::channel();
        let writer = thread::spawn({
            let queue = Arc::clone(&queue);
            let is_due = Arc::clone(&is_due);
            move || {
                while !is_due.load(Ordering::Relaxed) {
                    queue
                        .take(FOREVER, true, |_| ())
                        .refuse_all(Unavailable::StorageFailed);
                }
                woken.send(()).unwrap();
                // The database has failed.
                queue.wait_until_closed(FOREVER);
                take_all(&queue);
            }
        });
        let caller = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(small(1), None)
        });
        // A watchdog that refuses what waits at the same time.
        let watchdog = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.refuse_all(Unavailable::StorageFailed)
        });
        is_due.store(true, Ordering::Relaxed);
        queue.wake();
        block_on(has_woken).unwrap();
        let reply = caller.join().unwrap();
        queue.close();
        writer.join().unwrap();
        watchdog.join().unwrap();
        assert!(is_refused(reply.unwrap()));
        assert_eq!(queue.depth_and_bytes(), (0, 0));
    });
}

/// Channel of a project, which is not stored.
fn draft(project: u64) -> TestedChannel {
    let kind = channels::find_kind("ntfy").unwrap();
    let settings = ChannelSettings::parse(kind, [("topic", "t")].into_iter()).unwrap();
    TestedChannel::Draft(Arc::new(Channel {
        id: ChannelId(project),
        uuid: Uuid::nil(),
        project: ProjectId(project),
        name: ChannelName::parse("").unwrap(),
        settings,
        set_by_operator: false,
        health: ChannelHealth::default(),
    }))
}

#[test]
fn each_requested_test_of_a_channel_runs_and_one_of_a_project_at_a_time() {
    check(|| {
        let config = EngineConfig {
            clock: Clock::Manual(ManualClock::at(super::writing::BEGINNING)),
            random: Random::seeded(1),
            ..EngineConfig::without_pings(Medium::memory())
        };
        let (handle, _writer) = crate::engine::open(config).unwrap();
        let is_done = Arc::new(AtomicBool::new(false));
        let notifier = thread::spawn({
            let handle = handle.clone();
            let is_done = Arc::clone(&is_done);
            let running = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
            let results = Arc::new(Mutex::new(Vec::new()));
            move || {
                while !is_done.load(Ordering::Relaxed) {
                    while let Some(test) = handle.next_channel_test() {
                        let TestedChannel::Draft(channel) = &test.channel else {
                            panic!("only drafts are tested");
                        };
                        let running = Arc::clone(&running[channel.project.0 as usize]);
                        let sender = thread::spawn(move || {
                            assert_eq!(running.fetch_add(1, Ordering::Relaxed), 0);
                            running.fetch_sub(1, Ordering::Relaxed);
                            let _ = test.reply.send(ChannelTestResult {
                                duration: Duration::ZERO,
                                status: 200,
                                error: None,
                                missed: None,
                            });
                            drop(test.permit);
                        });
                        lock(&results).push(sender);
                    }
                    block_on(handle.wait_for_outgoing());
                }
                std::mem::take(&mut *lock(&results))
            }
        });
        let callers = [0, 0, 1].map(|project| {
            let handle = handle.clone();
            thread::spawn(move || {
                let result = handle.queue_channel_test(draft(project), false).unwrap();
                block_on(result).expect("the notifier replies");
            })
        });
        for caller in callers {
            caller.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        handle.0.channel_tests.work_available.notify_one();
        for sender in notifier.join().unwrap() {
            sender.join().unwrap();
        }
    });
}
