//! Requests about imports on the socket.

use serde::{Deserialize, Serialize};

use crate::domain::import_item::ImportItemCounts;
use crate::import::item_rows::{ImportFlipRow, ImportItemRow, ImportPingRow};

/// Request about an import.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ImportRequest {
    /// Begins an import of this size. The reply is the first of `ids` consecutive numbers; it is
    /// also the number of the import.
    Begin {
        /// Number of ids that it needs.
        ids: u64,
        /// Number of checks.
        checks: u64,
    },
    /// Adds log entries.
    Log {
        /// Number of the import.
        import: u64,
        /// Pings of the log.
        pings: Vec<ImportPingRow>,
        /// Flips of the log.
        flips: Vec<ImportFlipRow>,
    },
    /// Adds a ping with a body that is too long for a line. The body was sent before, in parts.
    LongPing {
        /// Number of the import.
        import: u64,
        /// Ping without its body.
        ping: ImportPingRow,
        /// Length of the body in bytes.
        bytes: usize,
    },
    /// Adds objects.
    Objects {
        /// Number of the import.
        import: u64,
        /// Objects to add.
        objects: Vec<ImportItemRow>,
    },
    /// Finishes the import, or makes a dry run of that.
    Finish {
        /// True for a dry run: the reply describes the result, and nothing becomes visible.
        look: bool,
        /// Number of the import.
        import: u64,
        /// True if alerts are sent from now on; false if the projects are on trial.
        live: bool,
        /// Latest timestamp in the source, in microseconds.
        newest: Option<i64>,
        /// Secrets of old servers, by which hashed keys are recognized. Keys refer to them by
        /// index.
        #[serde(default)]
        secrets: Vec<String>,
        /// Key that signed badge URLs on the source, in base64, if that was an overdue server.
        #[serde(default)]
        signing: Option<String>,
        /// Number of items that were sent.
        expected: ImportCountsRow,
        /// True to replace even projects whose checks were pinged or changed here.
        replace: bool,
    },
    /// Discards an import.
    Abandon {
        /// Number of the import.
        import: u64,
    },
    /// Lists open imports and projects on trial.
    List,
    /// Ends the trial of a project.
    Release {
        /// Name or UUID of the project.
        project: String,
    },
}

/// Numbers of items that were sent.
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
        let ImportItemCounts {
            projects,
            keys,
            channels,
            windows,
            checks,
            users,
            pings,
            flips,
        } = counts;
        Self {
            projects,
            keys,
            channels,
            windows,
            checks,
            users,
            pings,
            flips,
        }
    }
}

impl From<ImportCountsRow> for ImportItemCounts {
    fn from(counts: ImportCountsRow) -> Self {
        let ImportCountsRow {
            projects,
            keys,
            channels,
            windows,
            checks,
            users,
            pings,
            flips,
        } = counts;
        Self {
            projects,
            keys,
            channels,
            windows,
            checks,
            users,
            pings,
            flips,
        }
    }
}

/// An open import, or a project on trial.
#[derive(Serialize, Deserialize)]
pub struct ImportRow {
    /// `staged` or `trial`.
    pub state: String,
    /// Number that `import abandon` takes, or the name of the project.
    pub name: String,
    /// Number of checks so far.
    pub checks: u64,
    /// Time at which the import began; `None` for a trial.
    pub begun: Option<String>,
}
