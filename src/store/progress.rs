//! Progress of long scans of the file: a start after an unclean stop, and a recovery, read all of
//! it.

use std::sync::Arc;

/// Receiver of progress reports. Cheap to clone. The default one ignores them.
#[derive(Clone, Default)]
pub struct ProgressReporter(Option<Arc<ProgressCallback>>);

type ProgressCallback = dyn Fn(&'static str, u64) + Send + Sync;

impl ProgressReporter {
    /// Returns a reporter that calls `tell` with the activity and the percentage, at most 99. Calls
    /// are frequent.
    pub fn with_callback(tell: impl Fn(&'static str, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Reports that `done` of `of` units are done.
    pub fn report(&self, what: &'static str, done: u64, of: u64) {
        if let Some(tell) = &self.0 {
            tell(what, (100 * done / of.max(1)).min(99));
        }
    }
}

impl std::fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}
