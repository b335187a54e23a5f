//! Imports that are under way: what was handed over waits here, and nobody sees it. They do not outlive the process: whoever handed it over
//! begins again.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::State;
use crate::domain::ids::{CheckId, FlipNumber};
use crate::domain::moment::Moment;
use crate::domain::staged::{ImportId, Staged, StagedCounts};

/// One change of them.
#[derive(Clone, Debug)]
pub enum StagingChange {
    /// One has begun, which gives out these numbers.
    Begun(Range<u64>),
    /// Entries of logs are in the file.
    Logged {
        /// Of which import.
        import: ImportId,
        /// How far the logs of these checks are now.
        logs: Vec<(CheckId, StagedLog)>,
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
        objects: Arc<[Staged]>,
        /// About how many bytes they take.
        bytes: usize,
    },
    /// One is over.
    Gone {
        /// Which.
        import: ImportId,
        /// Entries of logs are in the file that belong to no check now.
        leaves: bool,
    },
}

/// How far the log of a check is that is being imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedLog {
    /// The highest number of a ping.
    pub n: u64,
    /// The newest flip.
    pub flip: FlipNumber,
    /// When that was.
    pub at: Moment,
}

impl Default for StagedLog {
    fn default() -> Self {
        Self { n: 0, flip: FlipNumber(0), at: Moment::from_micros(i64::MIN) }
    }
}

/// An import under way.
#[derive(Clone, Debug)]
pub struct Staging {
    /// The numbers that it gives out.
    pub numbers: Range<u64>,
    /// When it began.
    pub begun: Moment,
    /// When something was last handed over.
    pub last: Moment,
    /// What was handed over.
    pub objects: Vec<Arc<[Staged]>>,
    /// About how many bytes that takes.
    pub bytes: usize,
    /// How much it is.
    pub counts: StagedCounts,
    logs: HashMap<CheckId, StagedLog>,
}

impl Staging {
    /// How far the log of a check is.
    pub fn log(&self, check: CheckId) -> StagedLog {
        self.logs.get(&check).copied().unwrap_or_default()
    }

    /// The checks of which something was logged.
    pub fn logged(&self) -> impl Iterator<Item = CheckId> {
        self.logs.keys().copied()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Stagings(BTreeMap<ImportId, Staging>);

impl Stagings {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The import of this number.
    pub fn get(&self, import: ImportId) -> Option<&Staging> {
        self.0.get(&import)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ImportId, &Staging)> {
        self.0.iter().map(|(import, staging)| (*import, staging))
    }

    /// About how many bytes they take together.
    pub fn bytes(&self) -> usize {
        self.0.values().map(|staging| staging.bytes).sum()
    }

    /// Whether this is the number of a check of one of them.
    pub fn holds(&self, check: CheckId) -> bool {
        self.0.values().any(|staging| staging.numbers.contains(&check.0))
    }

    pub(super) fn apply(&mut self, change: &StagingChange, now: Moment) {
        let import = match change {
            StagingChange::Begun(numbers) => ImportId(numbers.start),
            StagingChange::Gone { import, .. } => return drop(self.0.remove(import)),
            StagingChange::Logged { import, .. } | StagingChange::Objects { import, .. } => *import,
        };
        if let StagingChange::Begun(numbers) = change {
            let staging = Staging {
                numbers: numbers.clone(),
                begun: now,
                last: now,
                objects: Vec::new(),
                bytes: 0,
                counts: StagedCounts::default(),
                logs: HashMap::new(),
            };
            self.0.insert(import, staging);
        }
        let Some(staging) = self.0.get_mut(&import) else { return };
        staging.last = now;
        match change {
            StagingChange::Logged { logs, pings, flips, .. } => {
                staging.logs.extend(logs.iter().copied());
                staging.counts.pings += pings;
                staging.counts.flips += flips;
            }
            StagingChange::Objects { objects, bytes, .. } => {
                objects.iter().for_each(|object| staging.counts.count(object));
                staging.objects.push(Arc::clone(objects));
                staging.bytes += bytes;
            }
            StagingChange::Begun(_) | StagingChange::Gone { .. } => {}
        }
    }
}

impl State {
    /// Whether there is a check of this number, or will be when an import has ended.
    pub fn may_show(&self, id: CheckId) -> bool {
        self.check(id).is_some() || self.stagings.holds(id)
    }
}
