//! What another server kept, read from its database, a dump of it or an export: as things of this house, and as a report of what becomes of
//! each. Nothing is changed, there or here. The export is written here, too.
//!
//! `source` knows what it reads from; `sqlite`, `copy` and `dumpdata` make `rows` of it. What the rows mean is decided in `healthchecks`
//! alone. Logs are read one row at a time and not kept.

pub mod api;
mod copy;
mod dumpdata;
pub mod environment;
pub mod flip_order;
mod healthchecks;
pub mod numbering;
pub mod overdue;
pub mod report;
mod rows;
mod source;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod staged;

use std::fmt;
use std::ops::ControlFlow;

use crate::domain::imported::{Imported, ImportedFlip, ImportedPing};
use crate::domain::moment::Moment;
use crate::domain::project::ProjectName;
use crate::domain::timezone::Timezone;
use environment::Environment;
use healthchecks::{Healthchecks, MOST_SESSIONS};
pub use report::Report;
pub use rows::Complaint;
use rows::{Row, Table};
pub use source::{Form, Source};

/// Things that are wrong that are told at once: see [limits](crate::docs::limits).
const MOST_COMPLAINTS: usize = 50;

/// Rows that are held at once, which are all but those of logs: see [limits](crate::docs::limits).
const MOST_ROWS: usize = 4_000_000;
/// Characters of what is said of a piece of JSON.
const LONGEST_PROBLEM: usize = 200;

/// Which pings come along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logs {
    /// All, with their bodies.
    All,
    /// All, without bodies.
    Heads,
    /// None. Checks keep their status and their times.
    None,
}

/// A project that is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its name in the source, or its UUID.
    pub old: String,
    /// Its name here, if it is to have another one.
    pub new: Option<ProjectName>,
}

/// What whoever imports has said.
#[derive(Clone, Debug)]
pub struct Options {
    /// The projects that are asked for; none: all.
    pub projects: Vec<Chosen>,
    /// Names, slugs or UUIDs of checks that stay behind.
    pub skip: Vec<String>,
    /// Names of zones in the source, and the zones that take their place.
    pub zones: Vec<(String, Timezone)>,
    /// Which pings come along.
    pub logs: Logs,
    /// Users come along.
    pub users: bool,
    /// What the old server was configured with.
    pub environment: Environment,
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
        complaints: Vec<Complaint>,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(problem) => f.write_str(problem),
            Self::Rows { source, complaints } => {
                complaints.iter().try_for_each(|complaint| writeln!(f, "{source}: {complaint}"))?;
                match complaints.len() {
                    MOST_COMPLAINTS => writeln!(f, "these are the first {MOST_COMPLAINTS} things that are wrong"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ImportError {}

/// What is wrong with a piece of JSON, without the place within it, which people would take for one of the file. It may quote all of it.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).chars().take(LONGEST_PROBLEM).collect()
}

/// Takes the rows of a source.
trait Visit {
    /// Whether rows of this table are wanted.
    fn wants(&self, table: Table) -> bool;

    /// Takes a row. After a break nothing more is wanted.
    fn row(&mut self, row: Row) -> ControlFlow<()>;

    /// So much of the source has been read.
    fn at(&mut self, done: u64);
}

/// How far reading is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The logs are being read, which come last.
    pub logs: bool,
    /// How much has been read.
    pub done: u64,
    /// How much there is.
    pub total: u64,
}

/// One way through the source.
struct Pass<'a> {
    tables: &'static [Table],
    take: &'a mut dyn FnMut(Row) -> Result<ControlFlow<()>, Complaint>,
    complaints: &'a mut Vec<Complaint>,
    tell: &'a mut dyn FnMut(u64),
}

impl Visit for Pass<'_> {
    fn wants(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    fn row(&mut self, row: Row) -> ControlFlow<()> {
        match (self.take)(row) {
            Ok(ControlFlow::Break(())) => return ControlFlow::Break(()),
            Ok(ControlFlow::Continue(())) => {}
            Err(complaint) => self.complaints.push(complaint),
        }
        if self.complaints.len() < MOST_COMPLAINTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn at(&mut self, done: u64) {
        (self.tell)(done);
    }
}

/// An entry of a log that comes along.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A ping. Those of a check come in any order.
    Ping(ImportedPing),
    /// A flip. Those of a check come in any order, with numbers that rise with their age there; see [`flip_order`].
    Flip(ImportedFlip, i64),
    /// A flip. Those of a check come in the order in which they were logged.
    NextFlip(ImportedFlip),
}

/// A source that is read as it would be imported at a moment: things first, then logs, which are not kept.
pub struct Reading<'a> {
    source: &'a mut Source,
    healthchecks: Healthchecks<'a>,
}

impl<'a> Reading<'a> {
    /// Reads all but the logs.
    ///
    /// # Errors
    /// When the source cannot be read, has rows that are wrong, or lacks what was asked for.
    pub fn begin(source: &'a mut Source, options: &'a Options, now: Moment, tell: &mut dyn FnMut(Progress)) -> Result<Self, ImportError> {
        let total = source.size();
        let mut complaints = Vec::new();
        let (mut objects, mut sessions) = (Vec::new(), 0);
        let mut pass = Pass {
            tables: &Table::OBJECTS,
            take: &mut |row| {
                // Some of them show as much as all.
                let is_needed = row.table != Table::Session || sessions < MOST_SESSIONS;
                sessions += usize::from(row.table == Table::Session);
                objects.extend(is_needed.then_some(row));
                Ok(if objects.len() <= MOST_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            },
            complaints: &mut complaints,
            tell: &mut |done| tell(Progress { logs: false, done, total }),
        };
        source.read(&mut pass).map_err(ImportError::Source)?;
        if objects.len() > MOST_ROWS {
            return Err(ImportError::Source(format!("{}: there are more than {MOST_ROWS} rows beside those of logs", source.name())));
        }
        let made = Healthchecks::new(objects, options, now, &mut complaints);
        let healthchecks = made.map_err(|problem| ImportError::Source(format!("{}: {problem}", source.name())))?;
        let mut reading = Self { source, healthchecks };
        if complaints.is_empty() {
            return Ok(reading);
        }
        // What is wrong with logs is told as well.
        reading.pass(&mut complaints, tell, &mut |_| ControlFlow::Continue(()))?;
        Err(reading.refused(complaints))
    }

    /// What there is, before its logs have been read.
    pub fn imported(&self) -> &Imported {
        self.healthchecks.imported()
    }

    /// Reads the logs; `take` gets what comes along, until it breaks.
    ///
    /// # Errors
    /// When the source cannot be read, or has rows that are wrong.
    pub fn logs(&mut self, tell: &mut dyn FnMut(Progress), take: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), ImportError> {
        let mut complaints = Vec::new();
        self.pass(&mut complaints, tell, take)?;
        if complaints.is_empty() { Ok(()) } else { Err(self.refused(complaints)) }
    }

    fn pass(
        &mut self,
        complaints: &mut Vec<Complaint>,
        tell: &mut dyn FnMut(Progress),
        take: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), ImportError> {
        if complaints.len() >= MOST_COMPLAINTS {
            return Ok(());
        }
        let (total, healthchecks) = (self.source.size(), &mut self.healthchecks);
        let mut pass = Pass {
            tables: &Table::LOGS,
            take: &mut |row| Ok(healthchecks.log(&row).map_or(ControlFlow::Continue(()), &mut *take)),
            complaints,
            tell: &mut |done| tell(Progress { logs: true, done, total }),
        };
        self.source.read(&mut pass).map_err(ImportError::Source)
    }

    fn refused(&self, mut complaints: Vec<Complaint>) -> ImportError {
        complaints.truncate(MOST_COMPLAINTS);
        ImportError::Rows { source: self.source.name().to_owned(), complaints }
    }

    /// All of it but the logs, which have been read, and what becomes of it.
    pub fn end(self) -> (Imported, Report) {
        self.healthchecks.end(self.source)
    }
}

/// Reads a source as it would be imported at `now`.
///
/// # Errors
/// When it cannot be read, has rows that are wrong, or lacks what was asked for.
pub fn look(
    source: &mut Source,
    options: &Options,
    now: Moment,
    tell: &mut dyn FnMut(Progress),
) -> Result<(Imported, Report), ImportError> {
    let mut reading = Reading::begin(source, options, now, tell)?;
    reading.logs(tell, &mut |_| ControlFlow::Continue(()))?;
    Ok(reading.end())
}

#[cfg(test)]
mod tests;
