//! Signals: which of them stop the server, and which it outlives.

use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A write went beyond the limit for the size of files (`RLIMIT_FSIZE`). The number is the same on Linux, macOS and the BSDs.
const SIGXFSZ: i32 = 25;

/// The signals that ask to stop.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next of them and names it.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// How often a hangup was heard. Whoever reads files again at one waits for it to change.
pub(super) type HangupCount = watch::Receiver<u32>;

/// From now on a terminal that hangs up and a limit for the size of files do not end the process. A write beyond that limit fails like
/// one on a full disk.
pub(super) fn handle_hangups(runtime: &Runtime) -> io::Result<HangupCount> {
    let _within = runtime.enter();
    // What handles a signal is never taken back, also when nobody waits for it any more.
    drop(signal(SignalKind::from_raw(SIGXFSZ))?);
    let mut hangup = signal(SignalKind::hangup())?;
    let (heard, hangups) = watch::channel(0);
    runtime.spawn(async move {
        while hangup.recv().await.is_some() {
            heard.send_modify(|count: &mut u32| *count = count.wrapping_add(1));
        }
    });
    Ok(hangups)
}
