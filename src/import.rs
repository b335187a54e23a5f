//! Import of data of another server, read from its database, a dump or an export. The result is
//! domain objects and a report about each kind of object. Neither server is changed here. This
//! module also writes the export.
//!
//! `source` detects the format; `sqlite`, `pg_dump` and `dumpdata` parse it into rows of
//! `source_row`. Only `healthchecks` interprets the rows. Logs are read one row at a time and are
//! not kept in memory.

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
pub mod transfer;
mod upload;

use std::fmt;
use std::ops::ControlFlow;

use crate::domain::import_contents::{ImportContents, ImportedFlip, ImportedPing};
use crate::domain::project::ProjectName;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use environment::ServerEnvironment;
use healthchecks::{HealthchecksConverter, MAX_SESSIONS};
pub use report::ImportReport;
pub use source::{ImportSource, SourceFormat, create_unnamed_file};
pub use source_row::RowError;
use source_row::{SourceRow, SourceTable};
pub use upload::{UploadError, UploadedSource};

/// Maximum number of row errors in one report: see [limits](crate::docs::limits).
const MAX_ROW_ERRORS: usize = 50;

/// Maximum number of rows in memory, which are all rows except logs: see
/// [limits](crate::docs::limits).
const MAX_ROWS: usize = 4_000_000;
/// Maximum number of characters of an error text about JSON.
const MAX_JSON_ERROR_CHARS: usize = 200;

/// Pings to import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingLogSelection {
    /// All pings with their bodies.
    All,
    /// All pings without bodies.
    WithoutBodies,
    /// No pings. Checks keep their status and their times.
    None,
}

/// A project to import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectSelection {
    /// Name of the project in the source, or its UUID.
    pub source_name: String,
    /// Name of the project on this server, if it is to be renamed.
    pub new_name: Option<ProjectName>,
}

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Projects to import; all if empty.
    pub projects: Vec<ProjectSelection>,
    /// Names, slugs or UUIDs of checks to leave out.
    pub skipped_checks: Vec<String>,
    /// Names of time zones in the source, with their replacements.
    pub timezone_map: Vec<(String, Timezone)>,
    /// Pings to import.
    pub logs: PingLogSelection,
    /// True if users are imported.
    pub with_users: bool,
    /// Configuration of the old server.
    pub environment: ServerEnvironment,
}

/// Error that prevents an import.
#[derive(Debug)]
pub enum ImportError {
    /// The source cannot be read, or a selected object is missing.
    Source(String),
    /// Rows are invalid or cannot be represented on this server.
    Rows {
        /// Name of the source.
        source: String,
        /// Errors in the order of the source.
        errors: Vec<RowError>,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(problem) => f.write_str(problem),
            Self::Rows { source, errors } => {
                errors
                    .iter()
                    .try_for_each(|error| writeln!(f, "{source}: {error}"))?;
                match errors.len() {
                    MAX_ROW_ERRORS => {
                        writeln!(f, "only the first {MAX_ROW_ERRORS} errors are listed")
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ImportError {}

/// Returns the text of a JSON error, without the position within the JSON, which users would take
/// for one in the file. The text is cut, because it may quote the whole JSON.
fn json_error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or(text.as_str(), |(problem, _)| problem)
        .chars()
        .take(MAX_JSON_ERROR_CHARS)
        .collect()
}

/// Receiver of the rows of a source.
trait RowVisitor {
    /// True if rows of this table are needed.
    fn wants_table(&self, table: SourceTable) -> bool;

    /// Handles a row. After a break no further rows are needed.
    fn visit_row(&mut self, row: SourceRow) -> ControlFlow<()>;

    /// Reports the amount of the source that has been read.
    fn report_progress(&mut self, done: u64);
}

/// Progress of reading a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportProgress {
    /// True while the logs are read, which come last.
    pub is_reading_logs: bool,
    /// Amount that has been read.
    pub done: u64,
    /// Total amount.
    pub total: u64,
}

/// One pass through the source.
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
            Err(error) => self.errors.push(error),
        }
        if self.errors.len() < MAX_ROW_ERRORS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn report_progress(&mut self, done: u64) {
        (self.on_progress)(done);
    }
}

/// An entry of a log to import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportLogEntry {
    /// A ping. The pings of a check come in any order.
    Ping(ImportedPing),
    /// A flip with its number in the source. The flips of a check come in any order; greater
    /// numbers are newer. See [`flip_order`].
    Flip(ImportedFlip, i64),
    /// A flip. The flips of a check come in the order in which they were logged.
    OrderedFlip(ImportedFlip),
}

/// Reader of a source that converts it as of a given time: objects first, then logs, which are not
/// kept.
pub struct SourceReader<'a> {
    source: &'a mut ImportSource,
    converter: HealthchecksConverter<'a>,
}

impl<'a> SourceReader<'a> {
    /// Reads everything except the logs.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read, has invalid rows, or lacks a selected object.
    pub fn read_objects(
        source: &'a mut ImportSource,
        options: &'a ImportOptions,
        now: Timestamp,
        on_progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<Self, ImportError> {
        let total = source.total_progress();
        let mut errors = Vec::new();
        let mut objects = Vec::new();
        let mut sessions = 0;
        let mut pass = SourcePass {
            tables: &SourceTable::OBJECTS,
            handle_row: &mut |row| {
                // A part of the sessions is enough to verify the secret.
                let is_needed = row.table != SourceTable::Session || sessions < MAX_SESSIONS;
                sessions += usize::from(row.table == SourceTable::Session);
                objects.extend(is_needed.then_some(row));
                Ok(if objects.len() <= MAX_ROWS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            },
            errors: &mut errors,
            on_progress: &mut |done| {
                on_progress(ImportProgress {
                    is_reading_logs: false,
                    done,
                    total,
                });
            },
        };
        source.read_tables(&mut pass).map_err(ImportError::Source)?;
        if objects.len() > MAX_ROWS {
            return Err(ImportError::Source(format!(
                "{}: too many rows: more than {MAX_ROWS}, not counting logs",
                source.name()
            )));
        }
        let converter = HealthchecksConverter::new(objects, options, now, &mut errors);
        let converter = converter
            .map_err(|problem| ImportError::Source(format!("{}: {problem}", source.name())))?;
        let mut reader = Self { source, converter };
        if errors.is_empty() {
            return Ok(reader);
        }
        // Errors in logs are reported as well.
        reader.read_log_tables(&mut errors, on_progress, &mut |_| ControlFlow::Continue(()))?;
        Err(reader.rows_error(errors))
    }

    /// Returns the contents before the logs have been read.
    pub fn contents(&self) -> &ImportContents {
        self.converter.contents()
    }

    /// Reads the logs and calls `on_entry` with each entry to import, until it breaks.
    ///
    /// # Errors
    /// Returns an error if the source cannot be read or has invalid rows.
    pub fn read_logs(
        &mut self,
        on_progress: &mut dyn FnMut(ImportProgress),
        on_entry: &mut dyn FnMut(ImportLogEntry) -> ControlFlow<()>,
    ) -> Result<(), ImportError> {
        let mut errors = Vec::new();
        self.read_log_tables(&mut errors, on_progress, on_entry)?;
        if errors.is_empty() {
            Ok(())
        } else {
            Err(self.rows_error(errors))
        }
    }

    fn read_log_tables(
        &mut self,
        errors: &mut Vec<RowError>,
        on_progress: &mut dyn FnMut(ImportProgress),
        on_entry: &mut dyn FnMut(ImportLogEntry) -> ControlFlow<()>,
    ) -> Result<(), ImportError> {
        if errors.len() >= MAX_ROW_ERRORS {
            return Ok(());
        }
        let total = self.source.total_progress();
        let converter = &mut self.converter;
        let mut pass = SourcePass {
            tables: &SourceTable::LOGS,
            handle_row: &mut |row| {
                Ok(converter
                    .convert_log_row(&row)
                    .map_or(ControlFlow::Continue(()), &mut *on_entry))
            },
            errors,
            on_progress: &mut |done| {
                on_progress(ImportProgress {
                    is_reading_logs: true,
                    done,
                    total,
                });
            },
        };
        self.source
            .read_tables(&mut pass)
            .map_err(ImportError::Source)
    }

    fn rows_error(&self, mut errors: Vec<RowError>) -> ImportError {
        errors.truncate(MAX_ROW_ERRORS);
        ImportError::Rows {
            source: self.source.name().to_owned(),
            errors,
        }
    }

    /// Returns the contents without the logs, and the report, after the logs have been read.
    pub fn finish(self) -> (ImportContents, ImportReport) {
        self.converter.finish(self.source)
    }
}

/// Reads a source as an import at `now` would do.
///
/// # Errors
/// Returns an error if the source cannot be read, has invalid rows, or lacks a selected object.
pub fn dry_run(
    source: &mut ImportSource,
    options: &ImportOptions,
    now: Timestamp,
    on_progress: &mut dyn FnMut(ImportProgress),
) -> Result<(ImportContents, ImportReport), ImportError> {
    let mut reader = SourceReader::read_objects(source, options, now, on_progress)?;
    reader.read_logs(on_progress, &mut |_| ControlFlow::Continue(()))?;
    Ok(reader.finish())
}

#[cfg(test)]
mod tests;
