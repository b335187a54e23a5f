//! What another server kept, read from its database, a dump of it or an export: as things of this house, and as a report of what becomes of
//! each. Nothing is changed, there or here. The export is written here, too.
//!
//! `source` knows what it reads from; `sqlite`, `pg_dump` and `dumpdata` make `source_row` of it. What the rows mean is decided in `converter`
//! alone. Logs are read one row at a time and not kept.

pub mod api;
mod dumpdata;
pub mod environment;
pub mod export_format;
pub mod flip_order;
mod healthchecks;
pub mod item_rows;
pub mod numbering;
mod pg_dump;
pub mod report;
mod source;
mod source_row;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::ops::ControlFlow;

use crate::domain::import_contents::{ImportContents, ImportedFlip, ImportedPing};
use crate::domain::project::ProjectName;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use environment::ServerEnvironment;
use healthchecks::{HealthchecksConverter, MAX_SESSIONS};
pub use report::ImportReport;
pub use source::{ImportSource, SourceFormat};
pub use source_row::RowError;
use source_row::{SourceRow, SourceTable};

/// Things that are wrong that are told at once: see [limits](crate::docs::limits).
const MAX_ROW_ERRORS: usize = 50;

/// Rows that are held at once, which are all but those of logs: see [limits](crate::docs::limits).
const MAX_ROWS: usize = 4_000_000;
/// Characters of what is said of a piece of JSON.
const MAX_JSON_ERROR_CHARS: usize = 200;

/// Which pings come along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingLogSelection {
    /// All, with their bodies.
    All,
    /// All, without bodies.
    WithoutBodies,
    /// None. Checks keep their status and their times.
    None,
}

/// A project that is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectSelection {
    /// Its name in the source, or its UUID.
    pub source_name: String,
    /// Its name here, if it is to have another one.
    pub new_name: Option<ProjectName>,
}

/// What whoever imports has said.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The projects that are asked for; none: all.
    pub projects: Vec<ProjectSelection>,
    /// Names, slugs or UUIDs of checks that stay behind.
    pub skipped_checks: Vec<String>,
    /// Names of zones in the source, and the zones that take their place.
    pub timezone_map: Vec<(String, Timezone)>,
    /// Which pings come along.
    pub logs: PingLogSelection,
    /// Users come along.
    pub with_users: bool,
    /// What the old server was configured with.
    pub environment: ServerEnvironment,
}

/// Why nothing is imported.
#[derive(Debug)]
pub enum ImportError {
    /// The source cannot be read, or what was asked for is not in it.
    Source(String),
    /// Rows that are wrong, or that have no place here.
    Rows {
        /// What the source is called.
        source: String,
        /// What is wrong, in the order of the source.
        errors: Vec<RowError>,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(problem) => f.write_str(problem),
            Self::Rows { source, errors: complaints } => {
                complaints.iter().try_for_each(|complaint| writeln!(f, "{source}: {complaint}"))?;
                match complaints.len() {
                    MAX_ROW_ERRORS => writeln!(f, "these are the first {MAX_ROW_ERRORS} things that are wrong"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ImportError {}

/// What is wrong with a piece of JSON, without the place within it, which people would take for one of the file. It may quote all of it.
fn json_error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).chars().take(MAX_JSON_ERROR_CHARS).collect()
}

/// Takes the rows of a source.
trait RowVisitor {
    /// Whether rows of this table are wanted.
    fn wants_table(&self, table: SourceTable) -> bool;

    /// Takes a row. After a break nothing more is wanted.
    fn visit_row(&mut self, row: SourceRow) -> ControlFlow<()>;

    /// So much of the source has been read.
    fn report_progress(&mut self, done: u64);
}

/// How far reading is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportProgress {
    /// The logs are being read, which come last.
    pub is_reading_logs: bool,
    /// How much has been read.
    pub done: u64,
    /// How much there is.
    pub total: u64,
}

/// One way through the source.
struct SourcePass<'a> {
    tables: &'static [SourceTable],
    handle_row: &'a mut dyn FnMut(SourceRow) -> Result<ControlFlow<()>, RowError>,
    errors: &'a mut Vec<RowError>,
    on_progress: &'a mut dyn FnMut(u64),
}

impl RowVisitor for SourcePass<'_> {
    fn wants_table(&self, table: SourceTable) -> bool {
        self.tables.contains(&table)
    }

    fn visit_row(&mut self, row: SourceRow) -> ControlFlow<()> {
        match (self.handle_row)(row) {
            Ok(ControlFlow::Break(())) => return ControlFlow::Break(()),
            Ok(ControlFlow::Continue(())) => {}
            Err(complaint) => self.errors.push(complaint),
        }
        if self.errors.len() < MAX_ROW_ERRORS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn report_progress(&mut self, done: u64) {
        (self.on_progress)(done);
    }
}

/// An entry of a log that comes along.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportLogEntry {
    /// A ping. Those of a check come in any order.
    Ping(ImportedPing),
    /// A flip. Those of a check come in any order, with numbers that rise with their age there; see [`flip_order`].
    Flip(ImportedFlip, i64),
    /// A flip. Those of a check come in the order in which they were logged.
    OrderedFlip(ImportedFlip),
}

/// A source that is read as it would be imported at a moment: things first, then logs, which are not kept.
pub struct SourceReader<'a> {
    source: &'a mut ImportSource,
    converter: HealthchecksConverter<'a>,
}

impl<'a> SourceReader<'a> {
    /// Reads all but the logs.
    ///
    /// # Errors
    /// When the source cannot be read, has rows that are wrong, or lacks what was asked for.
    pub fn read_objects(
        source: &'a mut ImportSource,
        options: &'a ImportOptions,
        now: Timestamp,
        tell: &mut dyn FnMut(ImportProgress),
    ) -> Result<Self, ImportError> {
        let total = source.total_progress();
        let mut complaints = Vec::new();
        let (mut objects, mut sessions) = (Vec::new(), 0);
        let mut pass = SourcePass {
            tables: &SourceTable::OBJECTS,
            handle_row: &mut |row| {
                // Some of them show as much as all.
                let is_needed = row.table != SourceTable::Session || sessions < MAX_SESSIONS;
                sessions += usize::from(row.table == SourceTable::Session);
                objects.extend(is_needed.then_some(row));
                Ok(if objects.len() <= MAX_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            },
            errors: &mut complaints,
            on_progress: &mut |done| tell(ImportProgress { is_reading_logs: false, done, total }),
        };
        source.read_tables(&mut pass).map_err(ImportError::Source)?;
        if objects.len() > MAX_ROWS {
            return Err(ImportError::Source(format!("{}: there are more than {MAX_ROWS} rows beside those of logs", source.name())));
        }
        let made = HealthchecksConverter::new(objects, options, now, &mut complaints);
        let healthchecks = made.map_err(|problem| ImportError::Source(format!("{}: {problem}", source.name())))?;
        let mut reading = Self { source, converter: healthchecks };
        if complaints.is_empty() {
            return Ok(reading);
        }
        // What is wrong with logs is told as well.
        reading.read_log_tables(&mut complaints, tell, &mut |_| ControlFlow::Continue(()))?;
        Err(reading.rows_error(complaints))
    }

    /// What there is, before its logs have been read.
    pub fn contents(&self) -> &ImportContents {
        self.converter.contents()
    }

    /// Reads the logs; `handle_row` gets what comes along, until it breaks.
    ///
    /// # Errors
    /// When the source cannot be read, or has rows that are wrong.
    pub fn read_logs(
        &mut self,
        tell: &mut dyn FnMut(ImportProgress),
        take: &mut dyn FnMut(ImportLogEntry) -> ControlFlow<()>,
    ) -> Result<(), ImportError> {
        let mut complaints = Vec::new();
        self.read_log_tables(&mut complaints, tell, take)?;
        if complaints.is_empty() { Ok(()) } else { Err(self.rows_error(complaints)) }
    }

    fn read_log_tables(
        &mut self,
        complaints: &mut Vec<RowError>,
        tell: &mut dyn FnMut(ImportProgress),
        take: &mut dyn FnMut(ImportLogEntry) -> ControlFlow<()>,
    ) -> Result<(), ImportError> {
        if complaints.len() >= MAX_ROW_ERRORS {
            return Ok(());
        }
        let (total, healthchecks) = (self.source.total_progress(), &mut self.converter);
        let mut pass = SourcePass {
            tables: &SourceTable::LOGS,
            handle_row: &mut |row| Ok(healthchecks.convert_log_row(&row).map_or(ControlFlow::Continue(()), &mut *take)),
            errors: complaints,
            on_progress: &mut |done| tell(ImportProgress { is_reading_logs: true, done, total }),
        };
        self.source.read_tables(&mut pass).map_err(ImportError::Source)
    }

    fn rows_error(&self, mut complaints: Vec<RowError>) -> ImportError {
        complaints.truncate(MAX_ROW_ERRORS);
        ImportError::Rows { source: self.source.name().to_owned(), errors: complaints }
    }

    /// All of it but the logs, which have been read, and what becomes of it.
    pub fn finish(self) -> (ImportContents, ImportReport) {
        self.converter.finish(self.source)
    }
}

/// Reads a source as it would be imported at `now`.
///
/// # Errors
/// When it cannot be read, has rows that are wrong, or lacks what was asked for.
pub fn dry_run(
    source: &mut ImportSource,
    options: &ImportOptions,
    now: Timestamp,
    tell: &mut dyn FnMut(ImportProgress),
) -> Result<(ImportContents, ImportReport), ImportError> {
    let mut reading = SourceReader::read_objects(source, options, now, tell)?;
    reading.read_logs(tell, &mut |_| ControlFlow::Continue(()))?;
    Ok(reading.finish())
}

#[cfg(test)]
mod tests;
