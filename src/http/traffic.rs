//! What moves on a connection, so that a stop waits for answers that are taken and for nothing else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A connection on which no request is carried out and no byte has gone out for so long is quiet.
const QUIET: Duration = Duration::from_millis(250);

/// What has moved so far.
#[derive(Default)]
pub(super) struct Traffic {
    /// A request is being carried out.
    busy: AtomicBool,
    /// Bytes that have gone out.
    pub(super) written: AtomicU64,
}

impl Traffic {
    /// Carries out a request.
    pub(super) async fn during<T>(&self, request: impl Future<Output = T>) -> T {
        self.busy.store(true, Ordering::Relaxed);
        let answer = request.await;
        self.busy.store(false, Ordering::Relaxed);
        answer
    }

    /// Waits until the connection is quiet: its client is idle, sends a header too slowly, or takes nothing of an answer.
    pub(super) async fn quiet(&self) {
        let mut before = None;
        loop {
            let now = (!self.busy.load(Ordering::Relaxed)).then(|| self.written.load(Ordering::Relaxed));
            if now.is_some() && now == before {
                return;
            }
            before = now;
            tokio::time::sleep(QUIET).await;
        }
    }
}
