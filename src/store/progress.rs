//! Progress of long scans of the file: a startup after an unclean shutdown, and a recovery, read
//! all of it.

use std::sync::Arc;

/// Receiver of progress reports. Cheap to clone. The default one ignores them.
#[derive(Clone, Default)]
pub struct ProgressReporter(Option<Arc<ProgressCallback>>);

type ProgressCallback = dyn Fn(&'static str, u64) + Send + Sync;

impl ProgressReporter {
    /// Returns a reporter that calls `callback` with the activity and the percentage, at most 99.
    /// Calls are frequent.
    pub fn with_callback(callback: impl Fn(&'static str, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    /// Reports that `done` of `total` units are done.
    pub fn report(&self, activity: &'static str, done: u64, total: u64) {
        if let Some(callback) = &self.0 {
            callback(activity, (100 * done / total.max(1)).min(99));
        }
    }
}

impl std::fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProgressReporter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::sync::{Mutex, lock};

    #[test]
    fn progress_is_a_percentage_below_one_hundred() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let reporter = ProgressReporter::with_callback({
            let reported = Arc::clone(&reported);
            move |activity, percent| lock(&reported).push((activity, percent))
        });
        for (done, total) in [(0, 0), (1, 4), (3, 4), (4, 4)] {
            reporter.report("copying", done, total);
        }
        let expected = [0, 25, 75, 99].map(|percent| ("copying", percent));
        assert_eq!(*lock(&reported), expected);
    }
}
