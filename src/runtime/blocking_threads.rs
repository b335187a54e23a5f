//! Threads on which listeners wait for the disk, write long lists and read long bodies. No thread
//! is created for a request, and pings do not wait for these threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::util::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::util::sync::{Mutex, lock, thread};

/// Maximum number of tasks that wait for a thread.
const MAX_QUEUED: usize = 4096;
/// Maximum time that the caller waits for a task.
const RUN_TIMEOUT: Duration = Duration::from_secs(20);

type BlockingTask = Box<dyn FnOnce() + Send>;

/// A fixed number of threads, which run until this is dropped.
pub struct BlockingThreads(SyncSender<BlockingTask>);

/// The task was not completed: the queue is full, the task took too long, or it panicked, which is
/// logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockingTaskError;

impl BlockingThreads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// If the system creates no threads.
    pub fn start(count: usize) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..count {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new()
                .name(format!("blocking-{number}"))
                .spawn(move || run_worker(&receiver))?;
        }
        Ok(Self(sender))
    }

    /// Runs the task on a thread and waits for it. The task runs even if the caller stops waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingTaskError> {
        let (sender, result) = oneshot::channel();
        let work = move || {
            // Nothing receives the result if the connection has ended.
            let _ = sender.send(work());
        };
        self.0
            .try_send(Box::new(work))
            .map_err(|_| BlockingTaskError)?;
        timeout(RUN_TIMEOUT, result)
            .await
            .map_err(|_| BlockingTaskError)?
            .map_err(|_| BlockingTaskError)
    }
}

fn run_worker(receiver: &Mutex<Receiver<BlockingTask>>) {
    loop {
        // Held while the thread waits for a task. The other threads wait for the lock.
        let next = lock(receiver).recv();
        let Ok(work) = next else { return };
        // The state of the task is gone. The hook has logged the panic.
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_by_a_thread_that_outlives_a_panic() {
        let threads = BlockingThreads::start(1).unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(threads.run(name).await, Ok(Some("blocking-0".to_owned())));
        assert_eq!(
            threads.run(|| panic!("a panic of the test")).await,
            Err::<(), _>(BlockingTaskError)
        );
        assert_eq!(threads.run(name).await, Ok(Some("blocking-0".to_owned())));
    }

    #[tokio::test]
    async fn the_queue_is_limited() {
        let threads = BlockingThreads::start(1).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        threads
            .0
            .send(Box::new(move || assert!(receiver.recv().is_err())))
            .unwrap();
        while threads.0.try_send(Box::new(|| ())).is_ok() {}
        assert_eq!(threads.run(|| ()).await, Err(BlockingTaskError));
        drop(sender);
        // The queue has room once a thread has taken the first task.
        while threads.run(|| 1).await != Ok(1) {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(all(test, shuttle))]
mod interleavings {
    use shuttle::future::block_on;

    use super::*;
    use crate::util::interleavings::check;
    use crate::util::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_task_runs_once_and_the_threads_end_with_their_owner() {
        check(|| {
            let threads = Arc::new(BlockingThreads::start(2).unwrap());
            let runs = Arc::new(AtomicUsize::new(0));
            let callers = [1, 2, 3].map(|number| {
                let threads = Arc::clone(&threads);
                let runs = Arc::clone(&runs);
                thread::spawn(move || {
                    let work = move || runs.fetch_add(1, Ordering::Relaxed);
                    let result = block_on(threads.run(move || (work(), number)));
                    assert_eq!(result.unwrap().1, number);
                })
            });
            for caller in callers {
                caller.join().unwrap();
            }
            assert_eq!(runs.load(Ordering::Relaxed), 3);
        });
    }
}
