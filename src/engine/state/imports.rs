//! Open imports with their staged, invisible objects. They are lost when the process ends; the
//! client then begins again.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::State;
use crate::domain::ids::{CheckId, FlipNumber};
use crate::domain::import_item::{ImportId, ImportItem, ImportItemCounts};
use crate::domain::timestamp::Timestamp;

/// Single change of the open imports.
#[derive(Clone, Debug)]
pub enum ImportChange {
    /// An import has begun and reserved these numbers.
    Begun(Range<u64>),
    /// Log entries were written to the file.
    Logged {
        /// Import of the entries.
        import: ImportId,
        /// New log positions of the checks.
        logs: Vec<(CheckId, ImportLogPosition)>,
        /// Number of pings.
        pings: u64,
        /// Number of flips.
        flips: u64,
    },
    /// Objects were staged.
    Objects {
        /// Import of the objects.
        import: ImportId,
        /// Staged objects.
        objects: Arc<[ImportItem]>,
        /// Approximate size of the objects in bytes.
        bytes: usize,
    },
    /// An import has ended.
    Ended {
        /// Import that has ended.
        import: ImportId,
        /// True if the file contains log entries that now belong to no check.
        has_leftovers: bool,
    },
}

/// Log position of a check that is being imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportLogPosition {
    /// Highest number of a ping.
    pub last_ping: u64,
    /// Newest flip.
    pub last_flip: FlipNumber,
    /// Time of the newest flip.
    pub last_flip_at: Timestamp,
}

impl Default for ImportLogPosition {
    fn default() -> Self {
        Self {
            last_ping: 0,
            last_flip: FlipNumber(0),
            last_flip_at: Timestamp::from_micros(i64::MIN),
        }
    }
}

/// Import in progress.
#[derive(Clone, Debug)]
pub struct OpenImport {
    /// Numbers reserved for its objects.
    pub numbers: Range<u64>,
    /// Time of its beginning.
    pub begun_at: Timestamp,
    /// Time of its last step.
    pub last_activity: Timestamp,
    /// Staged objects.
    pub objects: Vec<Arc<[ImportItem]>>,
    /// Approximate size of the staged objects in bytes.
    pub bytes: usize,
    /// Number of staged items.
    pub counts: ImportItemCounts,
    logs: HashMap<CheckId, ImportLogPosition>,
}

impl OpenImport {
    /// Log position of a check.
    pub fn log_position(&self, check: CheckId) -> ImportLogPosition {
        self.logs.get(&check).copied().unwrap_or_default()
    }

    /// Checks with log entries.
    pub fn checks_with_logs(&self) -> impl Iterator<Item = CheckId> {
        self.logs.keys().copied()
    }
}

/// Open imports, by number.
#[derive(Clone, Debug, Default)]
pub struct OpenImports(BTreeMap<ImportId, OpenImport>);

impl OpenImports {
    /// Number of open imports.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no import is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Import with this number.
    pub fn get(&self, import: ImportId) -> Option<&OpenImport> {
        self.0.get(&import)
    }

    /// All open imports, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ImportId, &OpenImport)> {
        self.0
            .iter()
            .map(|(import, open_import)| (*import, open_import))
    }

    /// Approximate total size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|open_import| open_import.bytes).sum()
    }

    /// True if the number belongs to a check of an open import.
    pub fn contains_check(&self, check: CheckId) -> bool {
        self.0
            .values()
            .any(|open_import| open_import.numbers.contains(&check.0))
    }

    pub(super) fn apply(&mut self, change: &ImportChange, now: Timestamp) {
        let import = match change {
            ImportChange::Begun(numbers) => ImportId(numbers.start),
            ImportChange::Ended { import, .. } => return drop(self.0.remove(import)),
            ImportChange::Logged { import, .. } | ImportChange::Objects { import, .. } => *import,
        };
        if let ImportChange::Begun(numbers) = change {
            let open_import = OpenImport {
                numbers: numbers.clone(),
                begun_at: now,
                last_activity: now,
                objects: Vec::new(),
                bytes: 0,
                counts: ImportItemCounts::default(),
                logs: HashMap::new(),
            };
            self.0.insert(import, open_import);
        }
        let Some(open_import) = self.0.get_mut(&import) else {
            return;
        };
        open_import.last_activity = now;
        match change {
            ImportChange::Logged {
                logs, pings, flips, ..
            } => {
                open_import.logs.extend(logs.iter().copied());
                open_import.counts.pings += pings;
                open_import.counts.flips += flips;
            }
            ImportChange::Objects { objects, bytes, .. } => {
                objects
                    .iter()
                    .for_each(|object| open_import.counts.count(object));
                open_import.objects.push(Arc::clone(objects));
                open_import.bytes += bytes;
            }
            ImportChange::Begun(_) | ImportChange::Ended { .. } => {}
        }
    }
}

impl State {
    /// True if a check with this number exists or is being imported.
    pub fn is_known_or_imported(&self, id: CheckId) -> bool {
        self.check(id).is_some() || self.imports.contains_check(id)
    }
}
