//! End of the service in order, and its end on a machine that hands over to another one of its
//! cluster.

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ServeError;
use super::cluster::Leader;
use crate::engine::{Handle, WriterExit};

/// Time within which the listeners must finish open requests. Their own time limit for clients is a
/// little shorter.
const LISTENERS_STOP_TIMEOUT: Duration = Duration::from_secs(6);
/// Time within which the writer must finish after that. The sum is less than the ten seconds after
/// which a supervisor kills the process.
const WRITER_STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which a machine that hands over waits for messages that are being sent.
const NOTIFIER_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a machine that hands over waits for requests that have begun. Meanwhile no
/// machine accepts new ones.
const HAND_OVER_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Lets another machine of the cluster take over: the one with this name, if there is a name.
/// Pings are answered until shortly before.
pub(super) async fn hand_over(
    (mut listeners, stop, notifier): (JoinSet<()>, watch::Sender<bool>, oneshot::Receiver<()>),
    (handle, writer_exit): (Handle, oneshot::Receiver<WriterExit>),
    leader: Option<&Leader>,
    to: Option<String>,
) {
    // Otherwise the other machine would send the messages that are being sent again.
    if timeout(NOTIFIER_STOP_TIMEOUT, notifier).await.is_err() {
        tracing::warn!("alerts that are being sent may be sent twice");
    }
    stop.send_replace(true);
    let closed = async { while listeners.join_next().await.is_some() {} };
    let _ = timeout(HAND_OVER_DRAIN_TIMEOUT, closed).await;
    if let Err(error) = stop_writer(&handle, writer_exit).await {
        tracing::warn!("{error}");
    }
    if let Some(leader) = leader {
        leader.hand_over(to).await;
    }
}

/// Waits until the listeners have answered everything that they accepted.
pub(super) async fn stop_listeners(
    mut listeners: JoinSet<()>,
    notifier: Option<oneshot::Receiver<()>>,
) {
    let closed = async {
        while listeners.join_next().await.is_some() {}
        // The results of messages in flight go to the same writer.
        if let Some(notifier) = notifier {
            let _ = notifier.await;
        }
    };
    if timeout(LISTENERS_STOP_TIMEOUT, closed).await.is_err() {
        tracing::warn!("requests and alerts that did not finish in time are dropped");
    }
}

/// Lets the writer finish its queue.
async fn stop_writer(
    handle: &Handle,
    writer_exit: oneshot::Receiver<WriterExit>,
) -> Result<(), ServeError> {
    handle.close();
    match timeout(WRITER_STOP_TIMEOUT, writer_exit).await {
        Ok(Ok(WriterExit::Closed)) => Ok(()),
        Ok(_) => Err(ServeError::WriterPanicked),
        Err(_) => Err(ServeError::WriterTimeout),
    }
}

/// Lets the writer finish its queue, and releases the lease of a machine that leads a cluster.
pub(super) async fn stop_writer_and_release(
    handle: &Handle,
    writer_exit: oneshot::Receiver<WriterExit>,
    leader: Option<&Leader>,
) -> Result<(), ServeError> {
    let stopped = stop_writer(handle, writer_exit).await;
    let Some(leader) = leader else {
        return stopped;
    };
    if let Some(reason) = leader.loss() {
        // What was not written was not acknowledged.
        tracing::warn!("this machine no longer leads the cluster: {reason}");
        return Ok(());
    }
    leader.release().await;
    stopped
}
