//! Feeds the watchdog of the supervisor while the writer and the notifier make progress
//! (`WatchdogSec=`, systemd.service(5)).
//!
//! Success does not matter: on a full disk the writer tries again and again, and a restart would
//! not help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::notify_supervisor;
use crate::engine::Handle;
use crate::util::clock::Clock;

/// Maximum time of one step of the writer without a progress report.
const MAX_STEP_TIME: Duration = Duration::from_secs(60);
/// Maximum time of a round of the notifier. It begins one at least every 30 seconds, and waits for
/// the writer in it.
const MAX_ROUND_TIME: Duration = Duration::from_secs(120);

/// Uptime at the last recorded activity.
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
pub(super) fn start(handle: Handle, last_progress: LastActivity, last_round: LastActivity) {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return;
    };
    tokio::spawn(async move {
        loop {
            let uptime = Clock::System.uptime();
            match stuck_component(
                handle.step_age(),
                last_progress.age(uptime),
                last_round.age(uptime),
            ) {
                None => notify_supervisor(NotifyState::Watchdog),
                Some(component) => {
                    tracing::error!(
                        "{component} makes no progress: the supervisor's watchdog is not notified"
                    );
                }
            }
            sleep(interval / 4).await;
        }
    });
}

/// Feeds the watchdog, if there is one, while a machine follows its cluster and makes progress.
pub(super) fn start_following(last_progress: LastActivity) -> JoinHandle<()> {
    last_progress.record(Clock::System.uptime());
    tokio::spawn(async move {
        let Some(interval) = sd_notify::watchdog_enabled() else {
            return;
        };
        loop {
            if last_progress.age(Clock::System.uptime()) < MAX_STEP_TIME {
                notify_supervisor(NotifyState::Watchdog);
            } else {
                tracing::error!(
                    "this machine makes no progress: the supervisor's watchdog is not notified"
                );
            }
            sleep(interval / 4).await;
        }
    })
}

/// Returns the component that makes no progress. The arguments are the time of the writer's current
/// step, and the times since its last progress report and since the notifier began a round.
fn stuck_component(
    step_age: Duration,
    progress_age: Duration,
    round_age: Duration,
) -> Option<&'static str> {
    if step_age.min(progress_age) >= MAX_STEP_TIME {
        return Some("the writer");
    }
    (round_age >= MAX_ROUND_TIME).then_some("the notifier")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_progress_feeds_the_watchdog() {
        let short = Duration::from_secs(1);
        let long = Duration::from_secs(61);
        let hour = Duration::from_secs(3600);
        for (step_age, progress_age, round_age, expected) in [
            // Idle, or at work.
            (Duration::ZERO, hour, short, None),
            (short, hour, short, None),
            // A long recovery reports its progress.
            (hour, short, short, None),
            (long, hour, short, Some("the writer")),
            (short, short, hour, Some("the notifier")),
        ] {
            assert_eq!(stuck_component(step_age, progress_age, round_age), expected);
        }
        let activity = LastActivity::default();
        activity.record(long);
        assert_eq!(activity.age(hour), hour - long);
    }
}
