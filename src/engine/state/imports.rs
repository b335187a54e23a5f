//! Imports that are under way: what was handed over waits here, and nobody sees it. They do not outlive the process: whoever handed it over
//! begins again.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::State;
use crate::domain::ids::{CheckId, FlipNumber};
use crate::domain::import_item::{ImportId, ImportItem, ImportItemCounts};
use crate::domain::timestamp::Timestamp;

/// One change of them.
#[derive(Clone, Debug)]
pub enum ImportChange {
    /// One has begun, which gives out these numbers.
    Begun(Range<u64>),
    /// Entries of logs are in the file.
    Logged {
        /// Of which import.
        import: ImportId,
        /// How far the logs of these checks are now.
        logs: Vec<(CheckId, ImportLogPosition)>,
        /// So many pings were among them.
        pings: u64,
        /// So many flips.
        flips: u64,
    },
    /// Things were handed over.
    Objects {
        /// Of which import.
        import: ImportId,
        /// What.
        objects: Arc<[ImportItem]>,
        /// About how many bytes they take.
        bytes: usize,
    },
    /// One is over.
    Ended {
        /// Which.
        import: ImportId,
        /// Entries of logs are in the file that belong to no check now.
        has_leftovers: bool,
    },
}

/// How far the log of a check is that is being imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportLogPosition {
    /// The highest number of a ping.
    pub last_ping: u64,
    /// The newest flip.
    pub last_flip: FlipNumber,
    /// When that was.
    pub last_flip_at: Timestamp,
}

impl Default for ImportLogPosition {
    fn default() -> Self {
        Self { last_ping: 0, last_flip: FlipNumber(0), last_flip_at: Timestamp::from_micros(i64::MIN) }
    }
}

/// An import under way.
#[derive(Clone, Debug)]
pub struct OpenImport {
    /// The numbers that it gives out.
    pub numbers: Range<u64>,
    /// When it began.
    pub begun_at: Timestamp,
    /// When something was last handed over.
    pub last_activity: Timestamp,
    /// What was handed over.
    pub objects: Vec<Arc<[ImportItem]>>,
    /// About how many bytes that takes.
    pub bytes: usize,
    /// How much it is.
    pub counts: ImportItemCounts,
    logs: HashMap<CheckId, ImportLogPosition>,
}

impl OpenImport {
    /// How far the log of a check is.
    pub fn log_position(&self, check: CheckId) -> ImportLogPosition {
        self.logs.get(&check).copied().unwrap_or_default()
    }

    /// The checks of which something was logged.
    pub fn checks_with_logs(&self) -> impl Iterator<Item = CheckId> {
        self.logs.keys().copied()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct OpenImports(BTreeMap<ImportId, OpenImport>);

impl OpenImports {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The import of this number.
    pub fn get(&self, import: ImportId) -> Option<&OpenImport> {
        self.0.get(&import)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ImportId, &OpenImport)> {
        self.0.iter().map(|(import, staging)| (*import, staging))
    }

    /// About how many bytes they take together.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|staging| staging.bytes).sum()
    }

    /// Whether this is the number of a check of one of them.
    pub fn contains_check(&self, check: CheckId) -> bool {
        self.0.values().any(|staging| staging.numbers.contains(&check.0))
    }

    pub(super) fn apply(&mut self, change: &ImportChange, now: Timestamp) {
        let import = match change {
            ImportChange::Begun(numbers) => ImportId(numbers.start),
            ImportChange::Ended { import, .. } => return drop(self.0.remove(import)),
            ImportChange::Logged { import, .. } | ImportChange::Objects { import, .. } => *import,
        };
        if let ImportChange::Begun(numbers) = change {
            let staging = OpenImport {
                numbers: numbers.clone(),
                begun_at: now,
                last_activity: now,
                objects: Vec::new(),
                bytes: 0,
                counts: ImportItemCounts::default(),
                logs: HashMap::new(),
            };
            self.0.insert(import, staging);
        }
        let Some(staging) = self.0.get_mut(&import) else { return };
        staging.last_activity = now;
        match change {
            ImportChange::Logged { logs, pings, flips, .. } => {
                staging.logs.extend(logs.iter().copied());
                staging.counts.pings += pings;
                staging.counts.flips += flips;
            }
            ImportChange::Objects { objects, bytes, .. } => {
                objects.iter().for_each(|object| staging.counts.count(object));
                staging.objects.push(Arc::clone(objects));
                staging.bytes += bytes;
            }
            ImportChange::Begun(_) | ImportChange::Ended { .. } => {}
        }
    }
}

impl State {
    /// Whether there is a check of this number, or will be when an import has ended.
    pub fn is_known_or_imported(&self, id: CheckId) -> bool {
        self.check(id).is_some() || self.imports.contains_check(id)
    }
}
