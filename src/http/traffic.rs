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
    /// The answer that goes out has no end.
    endless: AtomicBool,
    /// Bytes that have gone out.
    pub(super) written: AtomicU64,
}

/// A request is being carried out.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Traffic {
    /// A request is being carried out until what this gives is dropped.
    pub(super) fn begin(&self) -> impl Drop {
        self.busy.store(true, Ordering::Relaxed);
        self.endless.store(false, Ordering::Relaxed);
        Busy(&self.busy)
    }

    /// The answer that goes out has no end.
    pub(super) fn never_ends(&self) {
        self.endless.store(true, Ordering::Relaxed);
    }

    /// Whether the answer that goes out has no end: nobody waits for it, neither its client nor a stop.
    pub(super) fn is_endless(&self) -> bool {
        self.endless.load(Ordering::Relaxed)
    }

    /// Waits until the connection is quiet: its client is idle, sends a header too slowly, or takes nothing of an answer.
    pub(super) async fn quiet(&self) {
        let mut before = None;
        loop {
            if self.is_endless() && !self.busy.load(Ordering::Relaxed) {
                return;
            }
            let now = (!self.busy.load(Ordering::Relaxed)).then(|| self.written.load(Ordering::Relaxed));
            if now.is_some() && now == before {
                return;
            }
            before = now;
            tokio::time::sleep(QUIET).await;
        }
    }
}
