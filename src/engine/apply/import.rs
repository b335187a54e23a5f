//! Imports: objects and logs are checked and staged invisibly, then one command publishes all of
//! them.

mod conflicts;
mod finish;
mod sorted_import;

use std::collections::HashMap;

use bytes::Bytes;

use super::super::command::import::{
    ImportStep, ImportStepError, ImportStepOutcome, MAX_ONLINE_IMPORT_CHECKS,
};
use super::super::command::{CommandError, CommandOutcome};
use super::super::state::{Change, ImportChange, OpenImport};
use super::{ApplyResult, WorkingState};
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::Check;
use crate::domain::flip::{Flip, LoggedFlip};
use crate::domain::ids::{Arrival, FlipNumber, ProjectId};
use crate::domain::import_item::{ImportId, ImportItem, NumberedFlip, NumberedPing};
use crate::domain::ping::{MAX_BODY_BYTES, Ping};
use crate::domain::project::Project;
use crate::domain::timestamp::Timestamp;

/// Maximum number of open imports: see [limits](crate::docs::limits).
const MAX_IMPORTS: usize = 4;
/// Maximum number of objects of an import, without logs: see [limits](crate::docs::limits).
const MAX_IMPORT_OBJECTS: u64 = 1_000_000;
/// Approximate maximum number of bytes of the objects of all imports: see
/// [limits](crate::docs::limits).
const MAX_IMPORT_BYTES: usize = 256 << 20;
/// Maximum number of log entries in one command.
pub const MAX_IMPORT_ENTRIES: usize = 256;
/// Maximum number of bytes of bodies in one command. A single body may be as long as any: see
/// [limits](crate::docs::limits).
pub const MAX_IMPORT_BODY_BYTES: usize = 1 << 20;
/// Seconds without activity after which an import is abandoned: see [limits](crate::docs::limits).
const IDLE_IMPORT_SECS: i64 = 3600;

impl WorkingState {
    pub(super) fn apply_import_step(&mut self, command: ImportStep, now: Timestamp) -> ApplyResult {
        let result = match command {
            ImportStep::Begin {
                object_count,
                check_count,
            } => self.begin_import(object_count, check_count, now),
            ImportStep::Log {
                import,
                pings,
                flips,
            } => self.import_logs(import, pings, flips, now),
            ImportStep::Items { import, objects } => self.import_objects(import, objects, now),
            ImportStep::DryRun { import, options } => self.preview_import(import, &options, now),
            ImportStep::Finish { import, options } => self.finish_import(import, &options, now),
            ImportStep::Abandon { import } => self
                .find_import(import)
                .map(|open_import| open_import.checks_with_logs().next().is_some())
                .map(|has_leftovers| {
                    self.record_change(Change::Import(
                        ImportChange::Ended {
                            import,
                            has_leftovers,
                        },
                        now,
                    ));
                    CommandOutcome::Completed
                }),
            ImportStep::EndTrial(project) => return self.end_trial(project, now),
        };
        result.map_err(CommandError::Import)
    }

    fn find_import(&self, import: ImportId) -> Result<&OpenImport, ImportStepError> {
        self.state
            .imports
            .get(import)
            .ok_or(ImportStepError::UnknownImport)
    }

    fn begin_import(
        &mut self,
        object_count: u64,
        check_count: u64,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        if self.state.imports.len() >= MAX_IMPORTS {
            return Err(ImportStepError::TooManyImports);
        }
        if object_count == 0 {
            return Err(ImportStepError::Invalid("it contains no objects".into()));
        }
        if object_count > MAX_IMPORT_OBJECTS {
            return Err(ImportStepError::TooLarge);
        }
        self.ensure_few_checks(check_count)?;
        let first = self.numbers.id;
        self.numbers.id += object_count;
        self.record_change(Change::Import(
            ImportChange::Begun(first..first + object_count),
            now,
        ));
        Ok(CommandOutcome::Import(ImportStepOutcome::Begun(ImportId(
            first,
        ))))
    }

    /// Refuses more checks at once than a server can import without delaying pings for too long.
    fn ensure_few_checks(&self, checks: u64) -> Result<(), ImportStepError> {
        if self.accepts_pings && checks > MAX_ONLINE_IMPORT_CHECKS {
            Err(ImportStepError::TooManyChecks(checks))
        } else {
            Ok(())
        }
    }

    /// Writes log entries into the file, under the numbers that their checks will have.
    fn import_logs(
        &mut self,
        import: ImportId,
        pings: Vec<NumberedPing>,
        flips: Vec<NumberedFlip>,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        let open_import = self.find_import(import)?;
        let bytes: usize = pings.iter().map(|ping| ping.body.len()).sum();
        let max_bytes = if pings.len() == 1 {
            MAX_BODY_BYTES
        } else {
            MAX_IMPORT_BODY_BYTES
        };
        if pings.len() + flips.len() > MAX_IMPORT_ENTRIES || bytes > max_bytes {
            return Err(ImportStepError::Invalid(
                "a step has too many log entries or bytes".into(),
            ));
        }
        let is_uploaded = self.imported_body_to_upload(&pings).is_some();
        let checks = pings
            .iter()
            .map(|ping| ping.check)
            .chain(flips.iter().map(|flip| flip.check));
        let mut logs = HashMap::new();
        for check in checks {
            if !open_import.numbers.contains(&check.0) {
                return Err(ImportStepError::Invalid(
                    "a log entry belongs to another import".into(),
                ));
            }
            logs.entry(check)
                .or_insert_with(|| open_import.log_position(check));
        }
        let mut number = self.numbers.flip;
        let mut out_of_order = false;
        let mut staged_pings = Vec::with_capacity(pings.len());
        let mut staged_flips = Vec::with_capacity(flips.len());
        for ping in pings {
            let log = logs.entry(ping.check).or_default();
            if ping.n == 0 {
                return Err(ImportStepError::Invalid("a ping has the number 0".into()));
            }
            log.last_ping = log.last_ping.max(ping.n);
            staged_pings.push(build_kept_ping(ping, is_uploaded, now));
        }
        for NumberedFlip { check, flip } in flips {
            let log = logs.entry(check).or_default();
            out_of_order |= flip.at < log.last_flip_at;
            let flip = Flip {
                at: flip.at.min(now),
                ..flip
            };
            staged_flips.push((
                FlipNumber(number),
                LoggedFlip {
                    check,
                    previous: log.last_flip,
                    arrival: Arrival(0),
                    flip,
                },
            ));
            (log.last_flip, log.last_flip_at) = (FlipNumber(number), flip.at);
            number += 1;
        }
        let count = staged_pings.len() as u64;
        let flip_count = staged_flips.len() as u64;
        let mut logs: Vec<_> = logs.into_iter().collect();
        logs.sort_unstable_by_key(|(check, _)| *check);
        self.numbers.flip = number;
        self.effects.imported_pings.extend(staged_pings);
        self.effects.imported_flips.extend(staged_flips);
        if out_of_order {
            // The clock was set back on the server that logged them.
            self.effects.flips_out_of_order = Some(FlipNumber(number - 1));
        }
        self.record_change(Change::Import(
            ImportChange::Logged {
                import,
                logs,
                pings: count,
                flips: flip_count,
            },
            now,
        ));
        Ok(CommandOutcome::Completed)
    }

    /// Body to write before a command that logs these pings: that of a single long one.
    pub(super) fn imported_body_to_upload(&self, pings: &[NumberedPing]) -> Option<Bytes> {
        let [NumberedPing { body, .. }] = pings else {
            return None;
        };
        (body.len() > self.upload_threshold_bytes).then(|| body.clone())
    }

    fn import_objects(
        &mut self,
        import: ImportId,
        objects: Vec<ImportItem>,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        let open_import = self.find_import(import)?;
        let bytes = objects.iter().map(ImportItem::approximate_bytes).sum();
        if self.state.imports.bytes().saturating_add(bytes) > MAX_IMPORT_BYTES {
            return Err(ImportStepError::TooLarge);
        }
        if objects
            .iter()
            .any(|object| !open_import.numbers.contains(&object.number()))
        {
            return Err(ImportStepError::Invalid(
                "an object has a number of another import".into(),
            ));
        }
        let is_check = |object: &&ImportItem| matches!(object, ImportItem::Check { .. });
        self.ensure_few_checks(
            open_import.counts.checks + objects.iter().filter(is_check).count() as u64,
        )?;
        self.record_change(Change::Import(
            ImportChange::Objects {
                import,
                objects: objects.into(),
                bytes,
            },
            now,
        ));
        Ok(CommandOutcome::Completed)
    }

    /// Decides at once about held alerts of checks that are down.
    fn end_trial(&mut self, id: ProjectId, now: Timestamp) -> ApplyResult {
        let project = &self
            .state
            .project(id)
            .ok_or(CommandError::NotFound)?
            .project;
        let import = project
            .import
            .clone()
            .filter(|import| import.is_on_trial)
            .ok_or(CommandError::Import(ImportStepError::NotOnTrial))?;
        let import = crate::domain::import_item::ProjectImport {
            is_on_trial: false,
            ..import
        };
        let project = Project {
            import: Some(import),
            ..Project::clone(project)
        };
        let released = self.put_project(project);
        self.effects.imported_projects.push(id);
        let is_held = |check: &&Check| {
            matches!(
                check.state.notification,
                NotificationState::Pending {
                    reason: HoldReason::Trial,
                    ..
                }
            )
        };
        let held: Vec<_> = self
            .state
            .checks_of(id)
            .filter(is_held)
            .map(|check| check.id)
            .collect();
        for id in held {
            if let Ok(check) = self.find_check(id) {
                self.put_check(check, &[], now);
            }
        }
        Ok(released)
    }

    /// Imports without activity for an hour.
    pub fn idle_imports(&self, now: Timestamp) -> Vec<ImportId> {
        let is_idle = |(_, open_import): &(ImportId, &OpenImport)| {
            open_import.last_activity.plus_secs(IDLE_IMPORT_SECS) <= now
        };
        self.state
            .imports
            .iter()
            .filter(is_idle)
            .map(|(import, _)| import)
            .collect()
    }
}

/// Converts a ping to its stored form. It has no arrival, since it goes to the kept pings.
/// `is_uploaded`: its body was written before it.
fn build_kept_ping(ping: NumberedPing, is_uploaded: bool, now: Timestamp) -> (Ping, Bytes) {
    let NumberedPing {
        check,
        n,
        at,
        kind,
        origin,
        rid,
        exit_status,
        body,
    } = ping;
    let body_len = body.len() as u32;
    let body_sharers = u32::from(is_uploaded);
    let ping = Ping {
        check,
        n,
        previous: Arrival(0),
        at: at.min(now),
        kind,
        origin,
        rid,
        exit_status,
        body_len,
        body_sharers,
    };
    (ping, body)
}

impl ImportStep {
    /// Approximate size in bytes.
    pub(in crate::engine) fn approximate_bytes(&self) -> usize {
        match self {
            Self::Log { pings, flips, .. } => {
                let bodies: usize = pings
                    .iter()
                    .map(|ping| ping.body.len() + ping.origin.user_agent.len())
                    .sum();
                bodies + size_of_val(&**pings) + size_of_val(&**flips)
            }
            Self::Items { objects, .. } => objects.iter().map(ImportItem::approximate_bytes).sum(),
            Self::Begin { .. }
            | Self::DryRun { .. }
            | Self::Finish { .. }
            | Self::Abandon { .. }
            | Self::EndTrial(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests;
