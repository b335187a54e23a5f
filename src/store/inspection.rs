//! Inspection of every row of a file or a backup: verifies that it can be read and that bodies
//! match the log, and counts dead rows.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crc32fast::Hasher;

use super::ping::LoggedBody;
use super::{StoreError, meta};
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::project::Project;

/// Maximum number of problems with a text; further ones are only counted.
const MAX_PROBLEMS_SHOWN: usize = 20;

/// Size of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableSize {
    /// Number of rows.
    pub rows: u64,
    /// Total size of keys and values in bytes.
    pub bytes: u64,
}

/// Result of an inspection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InspectionReport {
    /// Version of the layout.
    pub schema: u64,
    /// Size of each table, by its name.
    pub tables: BTreeMap<String, TableSize>,
    /// Number of bodies that match the log.
    pub intact_bodies: u64,
    /// Pings beyond the log limit of their check, or whose check is removed. The next sweep
    /// removes them.
    pub dead_pings: u64,
    /// Rows that this or an earlier release could not read and moved to quarantine.
    pub quarantined_rows: u64,
    /// Number of problems.
    pub problem_count: u64,
    /// Texts of the first problems.
    pub problems: Vec<String>,
}

/// Inspection in progress.
#[derive(Default)]
pub struct Inspection {
    report: InspectionReport,
    limits: HashMap<ProjectId, u64>,
    /// Project of each check, and the number of its newest ping.
    checks: HashMap<CheckId, (ProjectId, u64)>,
    pings: u64,
    /// Expected bodies of inspected pings, in the order of their locations.
    expected: VecDeque<(PingLocation, LoggedBody)>,
    /// Expected bodies in chunks, by upload, until these have been inspected.
    uploads: HashMap<u64, LoggedBody>,
    /// Upload whose chunks are being inspected: its number, and the length and checksum so far.
    upload: Option<(u64, usize, Hasher)>,
}

/// Location of the row of a ping, in the order of inspection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum PingLocation {
    /// In the log, with the arrival.
    Log(u64),
    /// Among the kept pings, with the check id and the number of the ping.
    Kept((u64, u64)),
}

impl Inspection {
    /// Returns the result once all rows have been inspected.
    pub fn finish(mut self) -> InspectionReport {
        self.end_upload();
        let missing: Vec<_> = self
            .expected
            .drain(..)
            .map(|(_, body)| body)
            .chain(self.uploads.drain().map(|(_, body)| body))
            .collect();
        missing
            .into_iter()
            .for_each(|body| self.add_problem(body.missing_message()));
        let limit = |project: &ProjectId| self.limits.get(project).copied().unwrap_or(0);
        let live: u64 = self
            .checks
            .values()
            .map(|(project, n)| (*n).min(limit(project)))
            .sum();
        self.report.dead_pings = self.pings.saturating_sub(live);
        self.report
    }

    /// Records a problem.
    pub(super) fn add_problem(&mut self, text: String) {
        self.report.problem_count += 1;
        if self.report.problems.len() < MAX_PROBLEMS_SHOWN {
            self.report.problems.push(text);
        }
    }

    /// Begins a table, which may have no rows.
    pub(super) fn begin_table(&mut self, table: &str) {
        if !self.report.tables.contains_key(table) {
            self.report
                .tables
                .insert(table.to_owned(), TableSize::default());
        }
    }

    /// Counts a row of a table that has begun.
    pub(super) fn count_row(&mut self, table: &str, bytes: usize) {
        if let Some(size) = self.report.tables.get_mut(table) {
            (size.rows, size.bytes) = (size.rows + 1, size.bytes + bytes as u64);
        }
    }

    /// Inspects a row of the `meta` table.
    pub(super) fn inspect_value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if let Some(schema) = meta::validate_value(name, bytes)? {
            self.report.schema = schema;
        }
        Ok(())
    }

    pub(super) fn inspect_project(&mut self, project: &Project) {
        self.limits
            .insert(project.id, project.ping_log_limit.into());
    }

    pub(super) fn inspect_check(&mut self, check: &Check) {
        self.checks
            .insert(check.id, (check.project, check.state.n_pings));
    }

    pub(super) fn count_quarantined(&mut self) {
        self.report.quarantined_rows += 1;
    }

    pub(super) fn inspect_ping(
        &mut self,
        location: PingLocation,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        self.pings += 1;
        let (ping, body) = LoggedBody::from_row(bytes)?;
        if let Some((_, newest)) = self.checks.get_mut(&ping.check) {
            *newest = ping.n.max(*newest);
        }
        match body.and_then(|body| body.upload).zip(body) {
            // Several pings may share the upload.
            Some((upload, body)) => drop(self.uploads.insert(upload, body)),
            None => self.expected.extend(body.map(|body| (location, body))),
        }
        Ok(())
    }

    /// Inspects a chunk. Chunks come in the order of uploads and of their positions.
    pub(super) fn inspect_chunk(&mut self, upload: u64, bytes: &[u8]) {
        if self
            .upload
            .as_ref()
            .is_none_or(|(number, ..)| *number != upload)
        {
            self.end_upload();
            self.upload = Some((upload, 0, Hasher::new()));
        }
        if let Some((_, len, checksum)) = &mut self.upload {
            *len += bytes.len();
            checksum.update(bytes);
        }
    }

    /// Ends an upload after its last chunk. An upload without pings is being written or removed.
    fn end_upload(&mut self) {
        let Some((number, len, checksum)) = self.upload.take() else {
            return;
        };
        match self
            .uploads
            .remove(&number)
            .map(|body| body.verify(len, checksum.finalize()))
        {
            Some(Ok(())) => self.report.intact_bodies += 1,
            Some(Err(error)) => self.add_problem(error.to_string()),
            None => {}
        }
    }

    /// Inspects the body of an inspected ping.
    pub(super) fn inspect_body(
        &mut self,
        location: PingLocation,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        while let Some((expected, body)) = self
            .expected
            .pop_front_if(|(expected, _)| *expected <= location)
        {
            if expected == location {
                body.verify(bytes.len(), crc32fast::hash(bytes))?;
                self.report.intact_bodies += 1;
                return Ok(());
            }
            self.add_problem(body.missing_message());
        }
        self.add_problem(format!("the body at {location:?} belongs to no ping"));
        Ok(())
    }
}
