//! What moves on a connection, so that a stop waits for answers that are taken and for nothing else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A connection on which no request is carried out and no byte has gone out for so long is quiet.
const QUIET_TIME: Duration = Duration::from_millis(250);

/// What has moved so far.
#[derive(Default)]
pub(super) struct ConnectionActivity {
    /// A request is being carried out.
    is_busy: AtomicBool,
    /// The answer that goes out has no end.
    is_endless: AtomicBool,
    /// Bytes that have gone out.
    pub(super) bytes_written: AtomicU64,
}

/// A request is being carried out.
struct RequestGuard<'a>(&'a AtomicBool);

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl ConnectionActivity {
    /// A request is being carried out until what this gives is dropped.
    pub(super) fn begin_request(&self) -> impl Drop {
        self.is_busy.store(true, Ordering::Relaxed);
        self.is_endless.store(false, Ordering::Relaxed);
        RequestGuard(&self.is_busy)
    }

    /// The answer that goes out has no end.
    pub(super) fn mark_endless(&self) {
        self.is_endless.store(true, Ordering::Relaxed);
    }

    /// Whether the answer that goes out has no end: nobody waits for it, neither its client nor a stop.
    pub(super) fn is_endless(&self) -> bool {
        self.is_endless.load(Ordering::Relaxed)
    }

    /// Waits until the connection is quiet: its client is idle, sends a header too slowly, or takes nothing of an answer.
    pub(super) async fn wait_until_quiet(&self) {
        let mut before = None;
        loop {
            if self.is_endless() && !self.is_busy.load(Ordering::Relaxed) {
                return;
            }
            let now = (!self.is_busy.load(Ordering::Relaxed)).then(|| self.bytes_written.load(Ordering::Relaxed));
            if now.is_some() && now == before {
                return;
            }
            before = now;
            tokio::time::sleep(QUIET_TIME).await;
        }
    }
}
