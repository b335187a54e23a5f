//! Accept loop that all listeners share. At shutdown it waits a short time for open connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Maximum time that shutdown waits for open connections.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before the next attempt if the system has no free sockets.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Minimum time between two warnings about missing sockets.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Source of connections. It is dropped when the accept loop ends.
pub trait Listener {
    /// A connection, with the details of its other end.
    type Accepted;

    /// Waits for the next connection.
    ///
    /// # Errors
    /// If the system gives no socket for it.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// True if another machine of the cluster accepted the connections.
    fn is_forwarded(&self) -> bool {
        false
    }
}

impl Listener for TcpListener {
    type Accepted = (TcpStream, SocketAddr);

    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send {
        Self::accept(self)
    }
}

/// A listener that another accept loop takes over later. It is closed with its last owner.
impl<L: Listener> Listener for Arc<L> {
    type Accepted = L::Accepted;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send {
        L::accept(self)
    }

    fn is_forwarded(&self) -> bool {
        L::is_forwarded(self)
    }
}

/// Source of connections of clients, each with the address of its client.
pub trait ClientListener:
    Listener<Accepted = (TcpStream, SocketAddr)> + Send + Sync + 'static
{
}

impl<L> ClientListener for L where
    L: Listener<Accepted = (TcpStream, SocketAddr)> + Send + Sync + 'static
{
}

/// Calls `serve` for each connection and runs its future as a task, until `stop` is true. Rejects
/// the connection if `serve` returns `None`. After that, open connections may end within five
/// seconds. A panic ends only its own connection.
///
/// At most `max_connections` connections are open at the same time. Others wait in the queue of the
/// system.
pub(crate) async fn accept_connections<L: Listener, F: Future<Output = ()> + Send + 'static>(
    protocol: &'static str,
    listener: L,
    max_connections: usize,
    mut stop: watch::Receiver<bool>,
    serve: impl Fn(L::Accepted) -> Option<F>,
) {
    let mut tasks = JoinSet::new();
    let mut warning_timer = std::pin::pin!(sleep(Duration::ZERO));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if tasks.len() < max_connections => accepted,
            () = wait_for_stop(&mut stop) => break,
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a request panicked; its {protocol} connection is closed");
                }
                continue;
            }
        };
        match accepted {
            Ok(connection) => {
                if let Some(connection) = serve(connection) {
                    tasks.spawn(connection);
                }
            }
            Err(error) => {
                if timeout(RETRY_DELAY, warning_timer.as_mut()).await.is_ok() {
                    tracing::warn!(
                        "cannot accept {protocol} connections: {error}; this is logged at most \
                         once a minute"
                    );
                    warning_timer.set(sleep(WARNING_INTERVAL));
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }
    drop(listener);
    let drained = async { while tasks.join_next().await.is_some() {} };
    if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
        tracing::warn!("{protocol} connections that did not end in time are closed");
    }
}

/// Waits until the service is to stop. A dropped sender means the same.
pub(crate) async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// Listener with endless connections. It counts them, and its drop can be observed.
    struct Endless {
        accepted: Arc<AtomicUsize>,
        _open: tokio::sync::oneshot::Sender<()>,
    }

    impl Listener for Endless {
        type Accepted = usize;

        async fn accept(&self) -> io::Result<usize> {
            Ok(self.accepted.fetch_add(1, Ordering::Relaxed))
        }
    }

    /// Runs the loop with connections that each end with a permit; the first one panics.
    #[tokio::test(start_paused = true)]
    async fn connections_up_to_the_limit_are_accepted_and_drained() {
        let accepted = Arc::new(AtomicUsize::new(0));
        let ends = Arc::new(Semaphore::new(0));
        let (open, closed) = tokio::sync::oneshot::channel();
        let listener = Endless {
            accepted: Arc::clone(&accepted),
            _open: open,
        };
        let (stop, stopping) = watch::channel(false);
        let ending = Arc::clone(&ends);
        let accepting = tokio::spawn(accept_connections(
            "test",
            listener,
            3,
            stopping,
            move |number| {
                let ends = Arc::clone(&ending);
                // Every second connection is rejected.
                (number % 2 == 0).then_some(async move {
                    ends.acquire().await.unwrap().forget();
                    assert!(number > 0, "the first one panics");
                })
            },
        ));
        for (ended, wanted) in [(0, 5), (1, 7), (2, 11)] {
            ends.add_permits(ended);
            tokio::time::sleep(RETRY_DELAY).await;
            assert_eq!(accepted.load(Ordering::Relaxed), wanted, "{ended}");
        }
        stop.send_replace(true);
        assert!(
            closed.await.is_err(),
            "the listener is dropped before the connections have ended"
        );
        ends.add_permits(2);
        tokio::time::sleep(DRAIN_TIMEOUT - RETRY_DELAY).await;
        assert!(!accepting.is_finished(), "one is still open");
        accepting.await.unwrap();
    }
}
