//! Tells the log and the supervisor how far a long start or recovery is: systemd ends a start that says nothing for 90 seconds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sd_notify::NotifyState;

use super::tell_supervisor;
use super::watchdog::Noted;
use crate::clock::Clock;
use crate::store::Progress;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(2);
/// The time that the supervisor is asked for each time, in microseconds.
const EXTENSION: u32 = 60_000_000;

/// What a server tells, and when it last did so.
pub(super) fn told(noted: Noted) -> Progress {
    let tell = |what: &'static str, percent| {
        tracing::info!("{what}: {percent} %");
        tell_supervisor(NotifyState::ExtendTimeoutUsec(EXTENSION));
    };
    let told = at_intervals(Clock::System, tell);
    Progress::to(move |what, percent| {
        noted.note(Clock::System.uptime());
        told.tell(what, percent, 100);
    })
}

/// Passes on what comes after a while of work.
fn at_intervals(clock: Clock, tell: impl Fn(&'static str, u64) + Send + Sync + 'static) -> Progress {
    let last = Mutex::new(clock.uptime());
    Progress::to(move |what, percent| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.uptime();
        if now >= *last + INTERVAL {
            *last = now;
            tell(what, percent);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::moment::Moment;
    use crate::store::{FILE_NAME, Medium, Store};
    use std::sync::Arc;

    #[test]
    fn a_start_after_an_unclean_stop_tells_how_far_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let medium = Medium::Directory(directory.path().into());
        let path = directory.path().join(FILE_NAME);
        let store = Store::open(&medium).unwrap();
        for number in 0..50_u64 {
            let batch = store.batch().unwrap();
            batch.set_mark(crate::store::Mark::NextId, number).unwrap();
            batch.commit().unwrap();
        }
        // What a kill leaves.
        let left = std::fs::read(&path).unwrap();
        drop(store);
        std::fs::write(&path, &left).unwrap();
        let clock = ManualClock::at(Moment::default());
        let (told, shown) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&clock));
        let tell = {
            let told = Arc::clone(&told);
            move |what, percent| told.lock().unwrap().push((what, percent))
        };
        let slow = at_intervals(Clock::Manual(Arc::clone(&clock)), tell);
        drop(Store::open_telling(&medium, &slow).unwrap());
        assert!(told.lock().unwrap().is_empty(), "it took no time");
        std::fs::write(&path, &left).unwrap();
        // Every look at the file takes a second now.
        let slow = Progress::to(move |what, percent| {
            shown.advance_secs(1);
            slow.tell(what, percent, 100);
        });
        drop(Store::open_telling(&medium, &slow).unwrap());
        let told = told.lock().unwrap();
        assert!(told.len() > 2 && told.iter().all(|(what, percent)| *what == "opening the database" && *percent <= 99), "{told:?}");
        assert!(told.is_sorted_by_key(|(_, percent)| *percent), "{told:?}");
    }
}
