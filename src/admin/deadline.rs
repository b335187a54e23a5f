//! Time by which the client of a connection must act.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::runtime::accept::wait_for_stop;

/// Time in which a client must act when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(250);

/// Time in which the client must send a request or take a part of a reply. There is none while a
/// request is carried out. Clones share it.
#[derive(Clone)]
pub(super) struct Deadline(Arc<watch::Sender<Option<Duration>>>);

impl Deadline {
    pub(super) fn new(limit: Duration) -> Self {
        Self(Arc::new(watch::Sender::new(Some(limit))))
    }

    /// Begins a time limit in place of the previous one.
    pub(super) fn begin(&self, limit: Duration) {
        self.0.send_replace(Some(limit));
    }

    /// Ends the time limit.
    pub(super) fn end(&self) {
        self.0.send_replace(None);
    }

    /// Waits until a time limit is exceeded. Limits become short when the server stops.
    pub(super) async fn wait(&self, mut stop: watch::Receiver<bool>) {
        let mut limits = self.0.subscribe();
        let mut is_stopping = false;
        loop {
            let limit = *limits.borrow_and_update();
            let expired = async {
                match limit {
                    Some(limit) if is_stopping => sleep(limit.min(SHUTDOWN_TIMEOUT)).await,
                    Some(limit) => sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expired => return,
                _ = limits.changed() => {}
                () = wait_for_stop(&mut stop), if !is_stopping => is_stopping = true,
            }
        }
    }
}
