//! The threads on which doors wait for the disk, write long lists and read long bodies. No thread is made for a request, and whoever
//! pings waits for none of these.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// Pieces of work that may wait for a thread.
const MAX_QUEUED: usize = 4096;
/// How long whoever asked waits for one.
const RUN_TIMEOUT: Duration = Duration::from_secs(20);

type BlockingTask = Box<dyn FnOnce() + Send>;

/// So many threads, from the start until this is dropped.
pub struct BlockingThreads(SyncSender<BlockingTask>);

/// The work was not done: too much waits already, it took too long, or it panicked, which is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockingTaskError;

impl BlockingThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(count: usize) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..count {
            let receiver = Arc::clone(&receiver);
            std::thread::Builder::new().name(format!("blocking-{number}")).spawn(move || run_worker(&receiver))?;
        }
        Ok(Self(sender))
    }

    /// Has a thread do this, and waits for it. It is done even if nobody waits any more.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, BlockingTaskError> {
        let (tell, done) = oneshot::channel();
        let work = move || {
            // Nobody waits for it any more only when its connection is gone.
            let _ = tell.send(work());
        };
        self.0.try_send(Box::new(work)).map_err(|_| BlockingTaskError)?;
        timeout(RUN_TIMEOUT, done).await.map_err(|_| BlockingTaskError)?.map_err(|_| BlockingTaskError)
    }
}

fn run_worker(receiver: &Mutex<Receiver<BlockingTask>>) {
    loop {
        // Held while the thread waits for work. The others wait for the lock.
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = next else { return };
        // Whatever it had in its hands is gone. The hook has logged the panic.
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
        assert_eq!(threads.run(|| panic!("a panic of the test")).await, Err::<(), _>(BlockingTaskError));
        assert_eq!(threads.run(name).await, Ok(Some("blocking-0".to_owned())));
    }

    #[tokio::test]
    async fn so_much_may_wait() {
        let threads = BlockingThreads::start(1).unwrap();
        let (tell, wait) = std::sync::mpsc::channel::<()>();
        threads.0.send(Box::new(move || assert!(wait.recv().is_err()))).unwrap();
        while threads.0.try_send(Box::new(|| ())).is_ok() {}
        assert_eq!(threads.run(|| ()).await, Err(BlockingTaskError));
        drop(tell);
        // There is room once the first of those that wait have been taken.
        while threads.run(|| 1).await != Ok(1) {
            tokio::task::yield_now().await;
        }
    }
}
