//! Feeds the watchdog of the supervisor while the writer and the notifier make progress
//! (`WatchdogSec=`, systemd.service(5)).
//!
//! Success does not matter: on a full disk the writer tries again and again, and a restart would
//! not help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;

use super::notify_supervisor;
use crate::clock::Clock;
use crate::engine::Handle;

/// Maximum time of one step of the writer without a progress report.
const MAX_STEP_TIME: Duration = Duration::from_secs(60);
/// Maximum time of a round of the notifier. It begins one at least every 30 seconds, and waits for
/// the writer in it.
const MAX_ROUND_TIME: Duration = Duration::from_secs(120);

/// Uptime of the last activity, updated now and then.
#[derive(Clone, Default)]
pub(super) struct LastActivity(pub(super) Arc<AtomicU64>);

impl LastActivity {
    pub(super) fn record(&self, uptime: Duration) {
        self.0.store(
            u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    fn age(&self, uptime: Duration) -> Duration {
        uptime.saturating_sub(Duration::from_micros(self.0.load(Ordering::Relaxed)))
    }
}

/// Feeds the watchdog, if there is one, four times in its interval.
pub(super) fn start(handle: Handle, told: LastActivity, round: LastActivity) {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return;
    };
    tokio::spawn(async move {
        loop {
            let uptime = Clock::System.uptime();
            match stuck_component(handle.step_age(), told.age(uptime), round.age(uptime)) {
                None => notify_supervisor(NotifyState::Watchdog),
                Some(who) => {
                    tracing::error!("{who} does not get on: the supervisor's watchdog is not fed")
                }
            }
            sleep(interval / 4).await;
        }
    });
}

/// Returns the component that makes no progress. The arguments are the time of the writer's current
/// step, and the times since its last progress report and since the notifier began a round.
fn stuck_component(step: Duration, told: Duration, round: Duration) -> Option<&'static str> {
    if step.min(told) >= MAX_STEP_TIME {
        return Some("the writer");
    }
    (round >= MAX_ROUND_TIME).then_some("what sends alerts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_gets_on_feeds_the_watchdog_and_nobody_else() {
        let short = Duration::from_secs(1);
        let long = Duration::from_secs(61);
        let hour = Duration::from_secs(3600);
        for (step, told, round, wanted) in [
            // Idle, or at work.
            (Duration::ZERO, hour, short, None),
            (short, hour, short, None),
            // A long recovery reports its progress.
            (hour, short, short, None),
            (long, hour, short, Some("the writer")),
            (short, short, hour, Some("what sends alerts")),
        ] {
            assert_eq!(stuck_component(step, told, round), wanted);
        }
        let noted = LastActivity::default();
        noted.record(long);
        assert_eq!(noted.age(hour), hour - long);
    }
}
