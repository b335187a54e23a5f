//! What the doors on the network do alike: accept connections until the service stops, then wait a little for those that are open.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long open connections are waited for at shutdown.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long to wait when the system has no more sockets to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs `hold` as a task for every connection (`None`: it was turned away) until `stop` holds true, then lets those that are open end,
/// for five seconds at the most. A connection that panics ends alone.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    door: &'static str,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
    hold: impl Fn(TcpStream, SocketAddr) -> Option<F>,
) {
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
            Some(ended) = open.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a request panicked; its {door} connection is closed");
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(connection) = hold(stream, peer) {
                    open.spawn(connection);
                }
            }
            Err(error) => {
                tracing::warn!("no {door} connection can be accepted: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    let drained = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME, drained).await.is_err() {
        tracing::warn!("{door} connections that did not end in time are closed");
    }
}

/// Waits until the service is to stop; a sender that is gone says so too.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
