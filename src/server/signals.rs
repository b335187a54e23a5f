//! Signals that stop the server, and signals that it must survive.

use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Signal of a write beyond the limit for the size of files (`RLIMIT_FSIZE`). The number is the
/// same on Linux, macOS and the BSDs.
const SIGXFSZ: i32 = 25;

/// Signals that request a stop.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next of them and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Number of hangup signals. A task that reads files again at a hangup waits for it to change.
pub(super) type HangupCount = watch::Receiver<u32>;

/// Makes sure that a terminal that hangs up and a limit for the size of files no longer end the
/// process. A write beyond that limit then fails like one on a full disk.
pub(super) fn install_handlers(runtime: &Runtime) -> io::Result<HangupCount> {
    let _within = runtime.enter();
    // The handler of a signal stays installed, even if no task waits for it any longer.
    drop(signal(SignalKind::from_raw(SIGXFSZ))?);
    let mut hangup = signal(SignalKind::hangup())?;
    let (sender, hangups) = watch::channel(0);
    runtime.spawn(async move {
        while hangup.recv().await.is_some() {
            sender.send_modify(|count: &mut u32| *count = count.wrapping_add(1));
        }
    });
    Ok(hangups)
}
