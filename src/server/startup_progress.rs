//! Reports the progress of a long start or recovery to the log and the supervisor. systemd ends a
//! start that is silent for 90 seconds.

use std::time::Duration;

use sd_notify::NotifyState;

use super::notify_supervisor;
use super::watchdog::LastActivity;
use crate::store::ProgressReporter;
use crate::util::clock::Clock;
use crate::util::sync::{Mutex, lock};

/// Time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Time that each report requests from the supervisor, in microseconds.
const TIMEOUT_EXTENSION_MICROS: u32 = 60_000_000;

/// Creates the reporter of a server, which records the time of each report.
pub(super) fn startup_progress(last_activity: LastActivity) -> ProgressReporter {
    let report = |task: &'static str, percent| {
        tracing::info!("{task}: {percent} %");
        notify_supervisor(NotifyState::ExtendTimeoutUsec(TIMEOUT_EXTENSION_MICROS));
    };
    let limited = limit_reports(Clock::System, report);
    ProgressReporter::with_callback(move |task, percent| {
        last_activity.record(Clock::System.uptime());
        limited.report(task, percent, 100);
    })
}

/// Limits the reports to one in each interval. A short job makes none.
fn limit_reports(
    clock: Clock,
    report: impl Fn(&'static str, u64) + Send + Sync + 'static,
) -> ProgressReporter {
    let last = Mutex::new(clock.uptime());
    ProgressReporter::with_callback(move |task, percent| {
        let mut last = lock(&last);
        let now = clock.uptime();
        if now >= *last + REPORT_INTERVAL {
            *last = now;
            report(task, percent);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::Timestamp;
    use crate::store::{FILE_NAME, Medium, Store};
    use crate::util::clock::ManualClock;
    use std::sync::Arc;

    #[test]
    fn a_start_after_an_unclean_stop_reports_its_progress() {
        let directory = tempfile::tempdir().unwrap();
        let medium = Medium::Directory(directory.path().into());
        let path = directory.path().join(FILE_NAME);
        let store = Store::open(&medium).unwrap();
        for number in 0..50_u64 {
            let batch = store.batch().unwrap();
            batch
                .set_meta_value(crate::store::MetaKey::NextId, number)
                .unwrap();
            batch.commit().unwrap();
        }
        // The file as after a kill.
        let file_bytes = std::fs::read(&path).unwrap();
        drop(store);
        std::fs::write(&path, &file_bytes).unwrap();
        let clock = ManualClock::at(Timestamp::default());
        let reports = Arc::new(Mutex::new(Vec::new()));
        let shared_clock = Arc::clone(&clock);
        let report = {
            let reports = Arc::clone(&reports);
            move |task, percent| reports.lock().unwrap().push((task, percent))
        };
        let slow = limit_reports(Clock::Manual(Arc::clone(&clock)), report);
        drop(Store::open_with_progress(&medium, &slow).unwrap());
        assert!(reports.lock().unwrap().is_empty(), "it took no time");
        std::fs::write(&path, &file_bytes).unwrap();
        // Each report takes a second of the clock now.
        let slow = ProgressReporter::with_callback(move |task, percent| {
            shared_clock.advance_secs(1);
            slow.report(task, percent, 100);
        });
        drop(Store::open_with_progress(&medium, &slow).unwrap());
        let reports = reports.lock().unwrap();
        assert!(
            reports.len() > 2
                && reports
                    .iter()
                    .all(|(task, percent)| *task == "opening the database" && *percent <= 99),
            "{reports:?}"
        );
        assert!(
            reports.is_sorted_by_key(|(_, percent)| *percent),
            "{reports:?}"
        );
    }
}
