//! A look at every row of a file or a backup: whether each can be read, whether bodies are what was logged, and what is dead.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crc32fast::Hasher;

use super::ping::LoggedBody;
use super::{StoreError, meta};
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::project::Project;

/// What is wrong is told so many times; the rest is counted.
const MAX_PROBLEMS_SHOWN: usize = 20;

/// What a table holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableSize {
    /// How many.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InspectionReport {
    /// The version of the layout.
    pub schema: u64,
    /// By the name of the table.
    pub tables: BTreeMap<String, TableSize>,
    /// Bodies that are what was logged.
    pub intact_bodies: u64,
    /// Pings that are beyond the log limit of their check, or whose check is gone: they leave with the next sweep.
    pub dead_pings: u64,
    /// Rows that a release could not read and put aside.
    pub quarantined_rows: u64,
    /// How much is wrong.
    pub problem_count: u64,
    /// The first of it, in words.
    pub problems: Vec<String>,
}

/// A look under way.
#[derive(Default)]
pub struct Inspection {
    report: InspectionReport,
    limits: HashMap<ProjectId, u64>,
    /// The project of each check and the number of its newest ping.
    checks: HashMap<CheckId, (ProjectId, u64)>,
    pings: u64,
    /// Bodies of pings that have been seen, in the order of their places, until they come themselves.
    expected: VecDeque<(PingLocation, LoggedBody)>,
    /// Bodies that lie in pieces, until these have come.
    uploads: HashMap<u64, LoggedBody>,
    /// The one whose pieces come: its number, and the length and the checksum of those that came.
    upload: Option<(u64, usize, Hasher)>,
}

/// Where the row of a ping lies, in the order in which they come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum PingLocation {
    /// In the log: its arrival.
    Log(u64),
    /// Among the kept: its check and its number.
    Kept((u64, u64)),
}

impl Inspection {
    /// What was found, once all rows have been looked at.
    pub fn finish(mut self) -> InspectionReport {
        self.end_upload();
        let missing: Vec<_> = self.expected.drain(..).map(|(_, body)| body).chain(self.uploads.drain().map(|(_, body)| body)).collect();
        missing.into_iter().for_each(|body| self.add_problem(body.missing_message()));
        let limit = |project: &ProjectId| self.limits.get(project).copied().unwrap_or(0);
        let live: u64 = self.checks.values().map(|(project, n)| (*n).min(limit(project))).sum();
        self.report.dead_pings = self.pings.saturating_sub(live);
        self.report
    }

    /// Something is wrong.
    pub(super) fn add_problem(&mut self, words: String) {
        self.report.problem_count += 1;
        if self.report.problems.len() < MAX_PROBLEMS_SHOWN {
            self.report.problems.push(words);
        }
    }

    /// Rows of this table come, if it has any.
    pub(super) fn begin_table(&mut self, table: &str) {
        if !self.report.tables.contains_key(table) {
            self.report.tables.insert(table.to_owned(), TableSize::default());
        }
    }

    /// A row of a table that has begun.
    pub(super) fn count_row(&mut self, table: &str, bytes: usize) {
        if let Some(size) = self.report.tables.get_mut(table) {
            (size.rows, size.bytes) = (size.rows + 1, size.bytes + bytes as u64);
        }
    }

    /// A single value.
    pub(super) fn inspect_value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if let Some(schema) = meta::validate_value(name, bytes)? {
            self.report.schema = schema;
        }
        Ok(())
    }

    pub(super) fn inspect_project(&mut self, project: &Project) {
        self.limits.insert(project.id, project.ping_log_limit.into());
    }

    pub(super) fn inspect_check(&mut self, check: &Check) {
        self.checks.insert(check.id, (check.project, check.state.n_pings));
    }

    pub(super) fn count_quarantined(&mut self) {
        self.report.quarantined_rows += 1;
    }

    pub(super) fn inspect_ping(&mut self, place: PingLocation, bytes: &[u8]) -> Result<(), StoreError> {
        self.pings += 1;
        let (ping, body) = LoggedBody::from_row(bytes)?;
        if let Some((_, newest)) = self.checks.get_mut(&ping.check) {
            *newest = ping.n.max(*newest);
        }
        match body.and_then(|body| body.upload).zip(body) {
            // Several pings may have it.
            Some((upload, body)) => drop(self.uploads.insert(upload, body)),
            None => self.expected.extend(body.map(|body| (place, body))),
        }
        Ok(())
    }

    /// A piece of a body, in the order of uploads and of places.
    pub(super) fn inspect_chunk(&mut self, upload: u64, bytes: &[u8]) {
        if self.upload.as_ref().is_none_or(|(number, ..)| *number != upload) {
            self.end_upload();
            self.upload = Some((upload, 0, Hasher::new()));
        }
        if let Some((_, len, checksum)) = &mut self.upload {
            *len += bytes.len();
            checksum.update(bytes);
        }
    }

    /// All pieces of an upload have come. One that no ping has is on its way in or out.
    fn end_upload(&mut self) {
        let Some((number, len, checksum)) = self.upload.take() else { return };
        match self.uploads.remove(&number).map(|body| body.verify(len, checksum.finalize())) {
            Some(Ok(())) => self.report.intact_bodies += 1,
            Some(Err(error)) => self.add_problem(error.to_string()),
            None => {}
        }
    }

    /// The body of a ping that has been seen.
    pub(super) fn inspect_body(&mut self, place: PingLocation, bytes: &[u8]) -> Result<(), StoreError> {
        while let Some((expected, body)) = self.expected.pop_front_if(|(expected, _)| *expected <= place) {
            if expected == place {
                body.verify(bytes.len(), crc32fast::hash(bytes))?;
                self.report.intact_bodies += 1;
                return Ok(());
            }
            self.add_problem(body.missing_message());
        }
        self.add_problem(format!("the body at {place:?} belongs to no ping"));
        Ok(())
    }
}
