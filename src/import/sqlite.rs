//! Reader for the SQLite file that Healthchecks uses by default. It reads a copy, because rolling
//! back an unfinished change writes to the file.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::RowVisitor;
use super::source_row::{MAX_ROW_BYTES, SourceRow, SourceTable, SourceValue};

/// Number of rows between two progress reports.
const ROWS_PER_PROGRESS: u64 = 256;

/// Minimum size of a row in bytes: its size, its number, a column and its pointer in the page.
const MIN_ROW_BYTES: usize = 5;

/// Maximum time to wait for a change in progress.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Offset of the write version in a file, and the value for a write-ahead log (section 1.3.3 of the
/// format).
const WRITE_VERSION_OFFSET: u64 = 19;
const WAL_VERSION: u8 = 2;

/// Lock that keeps other processes from changing a database that they have open.
pub(super) struct ReadLock(#[allow(dead_code, reason = "it is held")] Connection);

impl ReadLock {
    /// Takes the lock; `None` if that would write next to the file, or is impossible. The lock
    /// holds until any descriptor of the file in this process is closed, as is usual for file
    /// locks.
    pub(super) fn acquire(path: &Path) -> Option<Self> {
        let mut version = [0];
        File::open(path)
            .and_then(|file| file.read_exact_at(&mut version, WRITE_VERSION_OFFSET))
            .ok()?;
        if version == [WAL_VERSION] {
            return None;
        }
        let connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .ok()?;
        connection.busy_timeout(BUSY_TIMEOUT).ok()?;
        connection
            .set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES as i32)
            .ok()?;
        connection
            .execute_batch("PRAGMA trusted_schema = OFF; BEGIN")
            .ok()?;
        connection
            .query_row("PRAGMA schema_version", [], |_| Ok(()))
            .ok()?;
        Some(Self(connection))
    }
}

/// A snapshot of a database.
pub(super) struct SqliteDatabase {
    connection: Connection,
    /// Total size of its pages in bytes.
    total_bytes: usize,
}

impl SqliteDatabase {
    /// Opens a file that no other process uses, with its write-ahead log or journal. Afterwards the
    /// files may be removed.
    ///
    /// # Errors
    /// Returns an error if the file is not a database or is damaged.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let opened = || {
            let connection = Connection::open_with_flags(
                path,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES as i32)?;
            // Nothing in the file may run functions or refer to other files.
            connection.execute_batch(
                "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = \
                 ON; BEGIN",
            )?;
            let pragma =
                |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            let bytes = pragma("page_count")?.saturating_mul(pragma("page_size")?);
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(Self {
                connection,
                total_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            })
        };
        opened().map_err(error_text)
    }

    /// Reads the needed tables.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or if a table has another type.
    pub(super) fn read_tables(&self, visit: &mut dyn RowVisitor) -> Result<(), String> {
        for table in SourceTable::OBJECTS
            .into_iter()
            .chain(SourceTable::LOGS)
            .filter(|table| visit.wants_table(*table))
            .collect::<Vec<_>>()
        {
            if self.has_table(table)?
                && self
                    .read_rows(table, visit)
                    .map_err(|error| format!("{}: {}", table.name(), error_text(error)))?
                    .is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn has_table(&self, table: SourceTable) -> Result<bool, String> {
        let schema_row = self.connection.query_row(
            "SELECT type, rootpage FROM sqlite_schema WHERE name = ?1",
            [table.name()],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)),
        );
        match schema_row {
            // A view may compute endlessly, and a virtual table runs a program.
            Ok((kind, page)) if kind == "table" && page > 0 => Ok(true),
            Ok(_) => Err(format!("{} is not an ordinary table", table.name())),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(false),
            Err(error) => Err(error_text(error)),
        }
    }

    fn read_rows(
        &self,
        table: SourceTable,
        visit: &mut dyn RowVisitor,
    ) -> rusqlite::Result<ControlFlow<()>> {
        // Damaged pages may refer to each other in a cycle. A text may have more bytes in UTF-8
        // than in UTF-16.
        let mut remaining_bytes = self.total_bytes.saturating_mul(2);
        let mut statement = self
            .connection
            .prepare(&format!("SELECT * FROM {}", table.name()))?;
        let columns = self.column_names(table)?;
        if columns.len() != statement.column_count() {
            return Err(damage_error(
                "it is damaged: the columns of a table do not match its schema",
            ));
        }
        let mut rows = statement.query([])?;
        let mut read = 0_u64;
        while let Some(row) = rows.next()? {
            let values = (0..columns.len())
                .map(|column| Ok(to_source_value(row.get_ref(column)?)))
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let size = values.iter().map(value_bytes).sum::<usize>() + MIN_ROW_BYTES;
            remaining_bytes = remaining_bytes.checked_sub(size).ok_or_else(|| {
                damage_error("it is damaged: it has more rows than fit into the file")
            })?;
            if visit
                .visit_row(SourceRow::new(table, Rc::clone(&columns), values))
                .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            read += 1;
            if read.is_multiple_of(ROWS_PER_PROGRESS) {
                visit.report_progress(read);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the names of the columns. The library's own function panics if a name is not UTF-8.
    fn column_names(&self, table: SourceTable) -> rusqlite::Result<Rc<[Box<str>]>> {
        let mut statement = self
            .connection
            .prepare("SELECT name FROM pragma_table_info(?1)")?;
        let mut rows = statement.query([table.name()])?;
        let mut columns = Vec::new();
        while let Some(row) = rows.next()? {
            let name = row
                .get_ref(0)?
                .as_bytes()
                .ok()
                .and_then(|name| std::str::from_utf8(name).ok());
            columns.push(
                name.ok_or_else(|| damage_error("it is damaged: a column name is not UTF-8"))?
                    .into(),
            );
        }
        Ok(columns.into())
    }

    /// Maximum number of rows of a log.
    pub(super) fn max_log_rows(&self) -> u64 {
        let count = |table: SourceTable| {
            let sql = format!("SELECT max(id) - min(id) + 1 FROM {}", table.name());
            self.connection
                .query_row(&sql, [], |row| row.get::<_, Option<i64>>(0))
                .ok()
                .flatten()
                .and_then(|rows| u64::try_from(rows).ok())
        };
        SourceTable::LOGS
            .into_iter()
            .filter_map(count)
            .max()
            .unwrap_or(0)
    }
}

fn to_source_value(value: ValueRef<'_>) -> SourceValue {
    match value {
        ValueRef::Null => SourceValue::Null,
        ValueRef::Integer(number) => SourceValue::Integer(number),
        ValueRef::Text(text) => std::str::from_utf8(text)
            .map_or(SourceValue::Other, |text| SourceValue::Text(text.into())),
        ValueRef::Blob(bytes) => SourceValue::Bytes(bytes.into()),
        ValueRef::Real(_) => SourceValue::Other,
    }
}

fn value_bytes(value: &SourceValue) -> usize {
    match value {
        SourceValue::Text(text) => text.len(),
        SourceValue::Bytes(bytes) => bytes.len(),
        SourceValue::Null | SourceValue::Bool(_) | SourceValue::Integer(_) | SourceValue::Other => {
            0
        }
    }
}

fn damage_error(problem: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some(problem.to_owned()),
    )
}

fn error_text(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
