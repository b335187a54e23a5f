//! Activity of a connection, so that a stop waits only for responses that are still being read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time without a request in progress and without an outgoing byte after which a connection is
/// idle.
const QUIET_TIME: Duration = Duration::from_millis(250);

/// Activity of one connection so far.
#[derive(Default)]
pub(super) struct ConnectionActivity {
    /// True while a request is handled.
    is_busy: AtomicBool,
    /// True if the current response is endless.
    is_endless: AtomicBool,
    /// Total bytes sent.
    pub(super) bytes_written: AtomicU64,
}

/// Marks a request as in progress until the guard is dropped.
struct RequestGuard<'a>(&'a AtomicBool);

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl ConnectionActivity {
    /// Marks a request as in progress until the returned guard is dropped.
    pub(super) fn begin_request(&self) -> impl Drop {
        self.is_busy.store(true, Ordering::Relaxed);
        self.is_endless.store(false, Ordering::Relaxed);
        RequestGuard(&self.is_busy)
    }

    /// Marks the current response as endless.
    pub(super) fn mark_endless(&self) {
        self.is_endless.store(true, Ordering::Relaxed);
    }

    /// True if the current response is endless: neither its client nor a stop waits for its end.
    pub(super) fn is_endless(&self) -> bool {
        self.is_endless.load(Ordering::Relaxed)
    }

    /// Waits until the connection is quiet: its client is idle, sends a header too slowly, or reads
    /// nothing of a response.
    pub(super) async fn wait_until_quiet(&self) {
        let mut before = None;
        loop {
            if self.is_endless() && !self.is_busy.load(Ordering::Relaxed) {
                return;
            }
            let now = (!self.is_busy.load(Ordering::Relaxed))
                .then(|| self.bytes_written.load(Ordering::Relaxed));
            if now.is_some() && now == before {
                return;
            }
            before = now;
            tokio::time::sleep(QUIET_TIME).await;
        }
    }
}
