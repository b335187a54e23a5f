//! Imports: items are sent in steps, and become visible together at the end. An import belongs to
//! its connection, and is abandoned when that ends.

use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};

use super::config::MAX_DOCUMENT_BYTES;
use super::context::AdminContext;
use super::error::AdminError;
use super::request::AdminRequest;
use super::{field_format, format_timestamp};
use crate::domain::import_item::{ImportId, ImportItemCounts, ImportMode, NumberedPing};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::engine::command::import::{ImportFinishOptions, LocalChanges};
use crate::import::item_rows::{ImportFlipRow, ImportItemRow, ImportPingRow, decode_bytes};
use crate::operations::import::{self, ImportListEntry};

/// Maximum bytes of a request with items: see [limits](crate::docs::limits).
const MAX_STEP_BYTES: usize = 2 << 20;
/// Time in which a server must finish an import, or take a long body.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// [`ImportItemCounts`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ImportItemCounts", deny_unknown_fields)]
struct ItemCounts {
    projects: u64,
    keys: u64,
    channels: u64,
    windows: u64,
    checks: u64,
    users: u64,
    pings: u64,
    flips: u64,
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

/// Lists open imports and projects on trial.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListImports {}

impl AdminRequest for ListImports {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/imports";
    type Output = Vec<ImportRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<ImportRow>, AdminError> {
        let entries = import::list(context.handle());
        Ok(entries.into_iter().map(import_row).collect())
    }
}

fn import_row(listed: ImportListEntry) -> ImportRow {
    match listed {
        ImportListEntry::Open(ImportId(import), begun, checks) => ImportRow {
            state: "staged".into(),
            name: import.to_string(),
            checks,
            begun: Some(format_timestamp(begun)),
        },
        ImportListEntry::Trial(name, checks) => ImportRow {
            state: "trial".into(),
            name,
            checks,
            begun: None,
        },
    }
}

/// An import that was begun.
#[derive(Serialize, Deserialize)]
pub struct BegunImport {
    /// Number of the import, and first of its consecutive ids.
    pub import: u64,
}

/// Begins an import of this size: the number of ids that it needs, and of checks. A connection has
/// one at a time.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginImport {
    /// Number of ids that the import needs.
    pub ids: u64,
    /// Number of its checks.
    pub checks: u64,
}

impl AdminRequest for BeginImport {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/imports";
    type Output = BegunImport;

    async fn run(self, context: &AdminContext) -> Result<BegunImport, AdminError> {
        if context.has_import() {
            let reason = "an import is already in progress on this connection";
            return Err(AdminError::conflict(reason));
        }
        let import = import::begin(context.handle(), self.ids, self.checks).await?;
        context.record_import(import);
        Ok(BegunImport { import: import.0 })
    }
}

/// Adds log entries to an import.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddLogEntries {
    /// Number of the import.
    #[serde(with = "field_format::number")]
    pub import: u64,
    /// Pings to add.
    #[serde(default)]
    pub pings: Vec<ImportPingRow>,
    /// Flips to add.
    #[serde(default)]
    pub flips: Vec<ImportFlipRow>,
}

impl AdminRequest for AddLogEntries {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/imports/{import}/log";
    const MAX_BYTES: usize = MAX_STEP_BYTES;
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let pings = self.pings.into_iter().map(ImportPingRow::into_ping);
        let pings = pings
            .collect::<Result<_, _>>()
            .map_err(AdminError::invalid)?;
        let flips = self.flips.into_iter().map(ImportFlipRow::into_flip);
        let flips = flips
            .collect::<Result<_, _>>()
            .map_err(AdminError::invalid)?;
        let import = ImportId(self.import);
        Ok(import::add_log_entries(context.handle(), import, pings, flips).await?)
    }
}

/// Adds a ping whose body is too long for JSON. The body of the request is the body of the ping.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddLongPing {
    /// Number of the import.
    #[serde(with = "field_format::number")]
    pub import: u64,
    /// The ping without its body.
    #[serde(with = "field_format::import_ping")]
    pub ping: ImportPingRow,
    /// Body of the ping.
    #[serde(skip)]
    pub body: Vec<u8>,
}

impl AdminRequest for AddLongPing {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/imports/{import}/long-ping";
    const MAX_BYTES: usize = MAX_DOCUMENT_BYTES;
    const SERVER_TIMEOUT: Duration = IMPORT_TIMEOUT;
    type Output = ();

    fn document(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.body)
    }

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let ping = NumberedPing {
            body: self.body.into(),
            ..self.ping.into_ping().map_err(AdminError::invalid)?
        };
        let import = ImportId(self.import);
        let pings = vec![ping];
        Ok(import::add_log_entries(context.handle(), import, pings, Vec::new()).await?)
    }
}

/// Adds objects to an import.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddObjects {
    /// Number of the import.
    #[serde(with = "field_format::number")]
    pub import: u64,
    /// Objects to add.
    pub objects: Vec<ImportItemRow>,
}

impl AdminRequest for AddObjects {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/imports/{import}/objects";
    const MAX_BYTES: usize = MAX_STEP_BYTES;
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let objects = self.objects.into_iter().map(ImportItemRow::into_item);
        let objects = objects
            .collect::<Result<_, _>>()
            .map_err(AdminError::invalid)?;
        let import = ImportId(self.import);
        Ok(import::add_items(context.handle(), import, objects).await?)
    }
}

/// Result of an import: projects that it replaced, and changes in them that are lost.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct FinishedImport {
    /// Number of projects that it replaced.
    pub replaced: usize,
    /// Number of their checks that were pinged or changed here.
    pub checks: usize,
    /// Number of pings that had arrived in them.
    pub pings: u64,
}

/// Finishes an import or, with `look`, returns the result that this would have. It is refused
/// with status 412 if it would replace checks that were pinged or changed here, unless `replace` is
/// true.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishImport {
    /// True for a dry run: the reply describes the result, and nothing becomes visible.
    #[serde(default)]
    pub look: bool,
    /// Number of the import.
    #[serde(with = "field_format::number")]
    pub import: u64,
    /// True if alerts are sent from now on; false if the projects are on trial.
    #[serde(default)]
    pub live: bool,
    /// Latest timestamp in the source, in microseconds.
    pub newest: Option<i64>,
    /// Secrets of old servers, by which hashed keys are recognized. Keys refer to them by
    /// index.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Key that signed badge URLs on the source, in base64, if that was an overdue server.
    #[serde(default)]
    pub signing: Option<String>,
    /// Number of items that were sent.
    #[serde(with = "ItemCounts")]
    pub expected: ImportItemCounts,
    /// True to replace even projects whose checks were pinged or changed here.
    #[serde(default)]
    pub replace: bool,
}

impl AdminRequest for FinishImport {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/imports/{import}/finish";
    const SERVER_TIMEOUT: Duration = IMPORT_TIMEOUT;
    type Output = FinishedImport;

    async fn run(self, context: &AdminContext) -> Result<FinishedImport, AdminError> {
        let secrets = self
            .secrets
            .iter()
            .map(|secret| LegacySecret::parse(secret))
            .collect::<Result<_, _>>()
            .map_err(AdminError::invalid)?;
        let badge_secret = self
            .signing
            .as_deref()
            .map(|text| decode_bytes(text).map(BadgeSecret))
            .transpose()
            .map_err(AdminError::invalid)?;
        let mode = if self.live {
            ImportMode::Live {
                newest: self.newest.map(Timestamp::from_micros),
            }
        } else {
            ImportMode::Trial
        };
        let options = ImportFinishOptions {
            mode,
            legacy_secrets: secrets,
            badge_secret,
            expected_counts: self.expected,
            replace: self.replace,
        };
        let import = ImportId(self.import);
        let (replaced, LocalChanges { checks, pings }) = if self.look {
            import::dry_run(context.handle(), import, options).await?
        } else {
            let finished = import::finish(context.handle(), import, options).await?;
            context.forget_import(import);
            finished
        };
        Ok(FinishedImport {
            replaced,
            checks,
            pings,
        })
    }
}

/// Discards an import.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbandonImport {
    /// Number of the import.
    #[serde(with = "field_format::number")]
    pub import: u64,
}

impl AdminRequest for AbandonImport {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/imports/{import}";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let import = ImportId(self.import);
        import::abandon(context.handle(), import).await?;
        context.forget_import(import);
        Ok(())
    }
}
