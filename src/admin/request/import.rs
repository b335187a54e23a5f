//! What can be asked of imports, as it stands on the socket.

use serde::{Deserialize, Serialize};

use crate::domain::import_item::ImportItemCounts;
use crate::import::item_rows::{ImportFlipRow, ImportItemRow, ImportPingRow};

/// What can be asked of imports.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ImportRequest {
    /// One begins with so many things; answered with its number, the first of as many in a row.
    Begin {
        /// How many numbers it needs.
        ids: u64,
        /// How many checks there are.
        checks: u64,
    },
    /// Entries of logs.
    Log {
        /// Of which import.
        import: u64,
        /// Pings.
        pings: Vec<ImportPingRow>,
        /// Flips.
        flips: Vec<ImportFlipRow>,
    },
    /// A ping with a body that is too long for a line: it came in parts before.
    LongPing {
        /// Of which import.
        import: u64,
        /// The ping, without its body.
        ping: ImportPingRow,
        /// Bytes of the body.
        bytes: usize,
    },
    /// Things.
    Objects {
        /// Of which import.
        import: u64,
        /// Which.
        objects: Vec<ImportItemRow>,
    },
    /// All of it is shown, or only looked at.
    Finish {
        /// Nothing is shown: what would come of it is answered.
        look: bool,
        /// Which import.
        import: u64,
        /// It tells from now on; else it is on trial.
        live: bool,
        /// The latest moment in the source; microseconds.
        newest: Option<i64>,
        /// Secrets of old servers by which hashed keys are known, in the places that keys name.
        #[serde(default)]
        secrets: Vec<String>,
        /// What signed badge URLs there, in base64, if it was an overdue.
        #[serde(default)]
        signing: Option<String>,
        /// How much was handed over.
        expected: ImportCountsRow,
        /// It takes the place of projects whose checks were pinged or changed here, too.
        replace: bool,
    },
    /// It is forgotten.
    Abandon {
        /// Which.
        import: u64,
    },
    /// Imports under way, and projects on trial.
    List,
    /// A project is no longer on trial.
    Release {
        /// Its name or UUID.
        project: String,
    },
}

/// How much was handed over.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::staged::StagedCounts`")]
pub struct ImportCountsRow {
    pub projects: u64,
    pub keys: u64,
    pub channels: u64,
    pub windows: u64,
    pub checks: u64,
    pub users: u64,
    pub pings: u64,
    pub flips: u64,
}

impl From<ImportItemCounts> for ImportCountsRow {
    fn from(counts: ImportItemCounts) -> Self {
        let ImportItemCounts { projects, keys, channels, windows, checks, users, pings, flips } = counts;
        Self { projects, keys, channels, windows, checks, users, pings, flips }
    }
}

impl From<ImportCountsRow> for ImportItemCounts {
    fn from(counts: ImportCountsRow) -> Self {
        let ImportCountsRow { projects, keys, channels, windows, checks, users, pings, flips } = counts;
        Self { projects, keys, channels, windows, checks, users, pings, flips }
    }
}

/// An import under way, or a project on trial.
#[derive(Serialize, Deserialize)]
pub struct ImportRow {
    /// `staged` or `trial`.
    pub state: String,
    /// What `import abandon` takes, or the name of the project.
    pub name: String,
    /// Checks that it has by now.
    pub checks: u64,
    /// When it began; of a trial nothing.
    pub begun: Option<String>,
}
