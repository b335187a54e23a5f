//! How far a long look at the file is: starts after an unclean stop, and recoveries, read all of it.

use std::sync::Arc;

/// Who is told. Cheap to clone; tells nobody by default.
#[derive(Clone, Default)]
pub struct ProgressReporter(Option<Arc<ProgressCallback>>);

type ProgressCallback = dyn Fn(&'static str, u64) + Send + Sync;

impl ProgressReporter {
    /// Has `report` called, very often, with what is being done and the percentage, at most 99.
    pub fn with_callback(tell: impl Fn(&'static str, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// So much is done of so much.
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
