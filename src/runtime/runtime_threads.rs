//! Threads that answer requests. A connection stays on one thread: one core reads a request, waits
//! for its result and answers it, and no other thread is woken.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::engine;

/// Interval of the timer that each thread keeps pending: shorter than any time limit of a request.
const TIMER_INTERVAL: Duration = Duration::from_secs(1);

/// Threads with a single-threaded runtime each, which run until this is dropped. Without threads,
/// connections run on the runtime that accepts them.
#[derive(Default)]
pub struct RuntimeThreads {
    threads: Vec<ConnectionThread>,
    next: AtomicUsize,
}

/// A connection that moves from one thread to another. A socket belongs to the runtime that created
/// it.
pub(crate) trait MovableConnection: Send + Sized + 'static {
    /// Form of the connection between two runtimes.
    type Detached: Send + 'static;

    /// Detaches the connection from the runtime of this thread.
    ///
    /// # Errors
    /// If the system refuses it.
    fn detach(self) -> io::Result<Self::Detached>;

    /// Attaches a connection to the runtime of this thread.
    ///
    /// # Errors
    /// If the system refuses it.
    fn attach(detached: Self::Detached) -> io::Result<Self>;
}

impl MovableConnection for TcpStream {
    type Detached = std::net::TcpStream;

    fn detach(self) -> io::Result<Self::Detached> {
        self.into_std()
    }

    fn attach(detached: Self::Detached) -> io::Result<Self> {
        Self::from_std(detached)
    }
}

struct ConnectionThread {
    runtime: runtime::Handle,
    /// Ends the thread when dropped.
    _open: oneshot::Sender<()>,
}

impl RuntimeThreads {
    /// Starts `count` threads named `NAME-0` and so on. The engine delivers its replies to them.
    ///
    /// # Errors
    /// If the system creates no threads.
    pub fn start(name: &str, count: usize, engine: &engine::Handle) -> io::Result<Self> {
        let threads = (0..count)
            .map(|number| ConnectionThread::start(format!("{name}-{number}"), engine.clone()));
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            next: AtomicUsize::new(0),
        })
    }

    /// Runs a connection on the next thread. The future ends with the connection and returns its
    /// result.
    ///
    /// # Errors
    /// If the connection cannot be moved to the thread.
    pub(crate) async fn run<S, F>(
        &self,
        detached: S::Detached,
        connection: impl FnOnce(S) -> F + Send + 'static,
    ) -> io::Result<F::Output>
    where
        S: MovableConnection,
        F: Future<Output: Send> + Send + 'static,
    {
        // Wraps around only after more connections than there will ever be.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(thread) = number
            .checked_rem(self.threads.len())
            .and_then(|number| self.threads.get(number))
        else {
            return Ok(connection(S::attach(detached)?).await);
        };
        match thread
            .runtime
            .spawn(async move { Ok(connection(S::attach(detached)?).await) })
            .await
        {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl ConnectionThread {
    fn start(name: String, engine: engine::Handle) -> io::Result<Self> {
        let local = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let runtime = local.handle().clone();
        let (open, mut closed) = oneshot::channel();
        std::thread::Builder::new().name(name).spawn(move || {
            let inbox = engine.create_reply_inbox();
            // The handle of this thread must not keep the engine running.
            drop(engine);
            local.block_on(async move {
                tokio::select! {
                    () = inbox.run() => {}
                    () = keep_timer_pending() => {}
                    _ = &mut closed => {}
                }
            });
            local.shutdown_background();
        })?;
        Ok(Self {
            runtime,
            _open: open,
        })
    }
}

/// Keeps a timer pending that expires before the timers of requests. Each request sets a timer for
/// its header. Without an earlier timer, setting it interrupts the wait of the runtime by a system
/// call.
async fn keep_timer_pending() {
    let mut near = tokio::time::interval(TIMER_INTERVAL);
    loop {
        near.tick().await;
    }
}
