//! Signals that are forwarded to a job.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::timeout;

/// Forwarded signals.
const FORWARDED_SIGNALS: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

pub(super) struct ForwardedSignals(Vec<(Signal, unix::Signal)>);

impl ForwardedSignals {
    /// Starts listening: from now on these signals no longer end this process. Signals that were
    /// ignored before, as under `nohup`, stay ignored for the job too.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored_signal_mask();
        FORWARDED_SIGNALS
            .into_iter()
            .filter(|number| ignored & (1 << (number.as_raw() - 1)) == 0)
            .map(|number| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let received = self.0.iter_mut().find_map(|(number, signal)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            });
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for a signal that arrives later than `pause` from now.
    pub(super) async fn next_after(&mut self, pause: Duration) {
        let earlier = async {
            loop {
                self.next().await;
            }
        };
        let _: Result<(), _> = timeout(pause, earlier).await;
        self.next().await;
    }
}

/// Returns a bit for each ignored signal, as far as the system reports it (proc(5), `SigIgn`).
fn ignored_signal_mask() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
