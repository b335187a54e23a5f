//! Converts the rows of a Healthchecks server; a row that is not imported is reported with the
//! reason. The result depends only on the rows, the options and the time.

mod badge;
mod channel;
mod channel_report;
mod check;
mod log;
mod project;
mod secret_verification;
mod value_conversion;

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::environment::{self, ServeFlags};
use super::report::{
    ImportReport, ImportTally, LateCheck, ReportRemarks, ReportedChannel, ReportedKind,
};
use super::source_row::{RowError, SourceRow, SourceTable};
use super::{ImportLogEntry, ImportOptions, ImportSource, MAX_ROW_ERRORS};
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::flip::FlipCause;
use crate::domain::import_contents::{ImportContents, ImportedSettings};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use badge::tally_badges;
use channel::ConvertedChannel;
use channel_report::{ChannelReportBuilder, channel_warnings};
use log::{CheckLog, LastFlip};
use project::{ProjectConverter, UserProfiles};
pub(super) use secret_verification::MAX_SESSIONS;
use secret_verification::SecretVerdict;

/// Converter of a Healthchecks server whose logs are still to be read.
pub(super) struct HealthchecksConverter<'a> {
    options: &'a ImportOptions,
    now: Timestamp,
    tally: ImportTally,
    contents: ImportContents,
    /// Logs of the imported checks, by the numbers of the checks.
    check_logs: HashMap<i64, CheckLog>,
    /// Numbers of the checks that are not imported.
    skipped_checks: HashSet<i64>,
    channel_report: ChannelReportBuilder,
    secret_verdict: SecretVerdict,
}

/// Error that ends the conversion of tables.
enum ConversionError {
    /// A necessary row is invalid.
    Row(RowError),
    /// A selected object does not exist.
    Missing(String),
}

impl From<RowError> for ConversionError {
    fn from(error: RowError) -> Self {
        Self::Row(error)
    }
}

/// Imported channels by their numbers: position of the project, order and UUID.
type ImportedChannelIndex = HashMap<i64, (usize, usize, Uuid)>;

/// Rows of tables that are read completely.
#[derive(Default)]
struct SourceTables(HashMap<SourceTable, Vec<SourceRow>>);

impl SourceTables {
    /// Removes and returns the rows of a table, oldest first.
    fn take_rows(&mut self, table: SourceTable) -> Result<Vec<SourceRow>, RowError> {
        let rows = self.0.remove(&table).unwrap_or_default();
        let age = |row: SourceRow| Ok(((row.timestamp("created")?, row.id("id")?), row));
        let mut rows = rows
            .into_iter()
            .map(age)
            .collect::<Result<Vec<_>, RowError>>()?;
        rows.sort_by_key(|(age, _)| *age);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

impl<'a> HealthchecksConverter<'a> {
    /// Converts everything except the logs. Errors of rows are added to `errors`.
    ///
    /// # Errors
    /// Returns an error if there is no project, or a selected object does not exist.
    pub(super) fn new(
        rows: Vec<SourceRow>,
        options: &'a ImportOptions,
        now: Timestamp,
        errors: &mut Vec<RowError>,
    ) -> Result<Self, String> {
        let mut tables = SourceTables::default();
        for row in rows {
            tables.0.entry(row.table).or_default().push(row);
        }
        if !tables.0.contains_key(&SourceTable::Project) {
            return Err(match tables.0.contains_key(&SourceTable::Check) {
                true => "it has checks but no projects: upgrade Healthchecks to a release of 2019 \
                         or later, or include accounts in the dump"
                    .into(),
                false => "it has no Healthchecks project".into(),
            });
        }
        let secret = options
            .environment
            .get("SECRET_KEY")
            .map(LegacySecret::parse)
            .transpose()
            .map_err(|problem| format!("SECRET_KEY: {problem}"))?;
        let contents = ImportContents {
            secrets: secret.into_iter().collect(),
            ..ImportContents::default()
        };
        let tally = ImportTally::default();
        let check_logs = HashMap::new();
        let skipped_checks = HashSet::new();
        let channel_report = ChannelReportBuilder::default();
        let secret_verdict = SecretVerdict::default();
        let mut converter = Self {
            options,
            now,
            tally,
            contents,
            check_logs,
            skipped_checks,
            channel_report,
            secret_verdict,
        };
        match converter.convert_objects(&mut tables, errors) {
            Ok(()) => Ok(converter),
            Err(ConversionError::Row(error)) => {
                add_error(errors, error);
                Ok(converter)
            }
            Err(ConversionError::Missing(problem)) => Err(problem),
        }
    }

    fn convert_objects(
        &mut self,
        tables: &mut SourceTables,
        errors: &mut Vec<RowError>,
    ) -> Result<(), ConversionError> {
        if let Some(secret) = self.contents.secrets.first() {
            let sessions = tables.0.remove(&SourceTable::Session).unwrap_or_default();
            self.secret_verdict =
                sessions
                    .iter()
                    .fold(self.secret_verdict, |secret_verdict, row| {
                        secret_verdict.with_signature(
                            secret_verification::verify_session_signature(row, secret),
                        )
                    });
        }
        let users = tables.take_rows(SourceTable::User)?;
        let owners = UserProfiles::from_rows(&users, &tables.take_rows(SourceTable::Profile)?)?;
        let projects = tables.take_rows(SourceTable::Project)?;
        let project_indexes = self.convert_projects(&projects, &owners, errors)?;
        let channels = self.convert_channels(
            &tables.take_rows(SourceTable::Channel)?,
            &project_indexes,
            errors,
        )?;
        let mut assigned: HashMap<i64, Vec<i64>> = HashMap::new();
        for row in tables
            .0
            .remove(&SourceTable::Assignment)
            .unwrap_or_default()
        {
            assigned
                .entry(row.id("check_id")?)
                .or_default()
                .push(row.id("channel_id")?);
        }
        self.convert_checks(
            &tables.take_rows(SourceTable::Check)?,
            &project_indexes,
            &channels,
            &assigned,
            errors,
        )?;
        if self.options.with_users {
            self.convert_users(
                &users,
                &projects,
                &tables.take_rows(SourceTable::Member)?,
                &project_indexes,
                &owners,
                errors,
            )?;
        }
        Ok(())
    }

    /// Converts projects. Returns the positions of imported ones by their numbers.
    fn convert_projects(
        &mut self,
        rows: &[SourceRow],
        owners: &UserProfiles,
        errors: &mut Vec<RowError>,
    ) -> Result<HashMap<i64, usize>, ConversionError> {
        let secret = self.contents.secrets.first().cloned();
        let secret = secret.as_ref();
        let secret_verdict = self.secret_verdict;
        let mut converter = ProjectConverter {
            options: self.options,
            owners,
            secret,
            secret_verdict,
            used_names: BTreeSet::new(),
            matched: HashSet::new(),
        };
        let mut project_indexes = HashMap::new();
        for row in rows {
            match converter.convert_project(row, &mut self.tally) {
                Ok(None) => {}
                Ok(Some(project)) => {
                    project_indexes.insert(row.id("id")?, self.contents.projects.len());
                    self.contents.projects.push(project);
                }
                Err(error) => add_error(errors, error),
            }
        }
        self.secret_verdict = converter.secret_verdict;
        let missing = self
            .options
            .projects
            .iter()
            .find(|chosen| !converter.matched.contains(&chosen.source_name));
        missing.map_or(Ok(project_indexes), |chosen| {
            Err(ConversionError::Missing(format!(
                "it has no project {:?}",
                chosen.source_name
            )))
        })
    }

    /// Converts channels. Returns imported ones by their numbers, with their projects, order and
    /// UUIDs.
    fn convert_channels(
        &mut self,
        rows: &[SourceRow],
        project_indexes: &HashMap<i64, usize>,
        errors: &mut Vec<RowError>,
    ) -> Result<ImportedChannelIndex, ConversionError> {
        let mut imported = HashMap::new();
        for row in rows {
            let Some(project_index) = project_indexes.get(&row.id("project_id")?).copied() else {
                self.tally.add_dropped(
                    ReportedKind::Channels,
                    1,
                    "of projects that are not imported",
                );
                continue;
            };
            let converted = match channel::convert_channel(row, &self.options.environment, self.now)
            {
                Ok(converted) => converted,
                Err(error) => {
                    add_error(errors, error);
                    continue;
                }
            };
            let Some(project) = self.contents.projects.get_mut(project_index) else {
                continue;
            };
            match converted {
                ConvertedChannel::Imported { channel, changes } => {
                    imported.insert(row.id("id")?, (project_index, imported.len(), channel.uuid));
                    self.tally.add_carried(ReportedKind::Channels, 1);
                    for warning in channel_warnings(&channel) {
                        self.tally.add_note(ReportedKind::Channels, None, warning);
                    }
                    let is_incomplete =
                        matches!(channel.settings, ImportedSettings::Incomplete { .. });
                    self.tally.add_changed(
                        ReportedKind::Channels,
                        u64::from(is_incomplete || !changes.is_empty()),
                    );
                    self.channel_report.add_imported(project, &channel, changes);
                    project.channels.push(channel);
                }
                ConvertedChannel::Dropped {
                    name,
                    uuid,
                    kind,
                    reason,
                } => {
                    self.tally
                        .add_dropped(ReportedKind::Channels, 1, reason.clone());
                    self.channel_report.add_dropped(
                        row.id("id")?,
                        ReportedChannel::new(project, uuid, &name, &kind, vec![reason]),
                    );
                }
            }
        }
        Ok(imported)
    }

    fn convert_checks(
        &mut self,
        rows: &[SourceRow],
        project_indexes: &HashMap<i64, usize>,
        channels: &ImportedChannelIndex,
        assigned: &HashMap<i64, Vec<i64>>,
        errors: &mut Vec<RowError>,
    ) -> Result<(), ConversionError> {
        let mut skipped = HashSet::new();
        for row in rows {
            let id = row.id("id")?;
            let project_index = project_indexes.get(&row.id("project_id")?).copied();
            let matching_words = |word: &&String| check::matches_identifier(row, word);
            let matching_words = self
                .options
                .skipped_checks
                .iter()
                .map(|word| matching_words(&word).map(|is_match| is_match.then_some(word)));
            let words: Vec<_> = matching_words
                .filter_map(Result::transpose)
                .collect::<Result<_, RowError>>()?;
            skipped.extend(words.iter().copied());
            let reason = if words.is_empty() {
                "of projects that are not imported"
            } else {
                "skipped with --skip"
            };
            let Some((project_index, project)) = project_index
                .filter(|_| words.is_empty())
                .and_then(|project_index| {
                    Some((
                        project_index,
                        self.contents.projects.get_mut(project_index)?,
                    ))
                })
            else {
                self.tally.add_dropped(ReportedKind::Checks, 1, reason);
                self.skipped_checks.insert(id);
                continue;
            };
            let check::ConvertedCheck {
                mut check,
                has_adjusted_times: is_changed,
                notes,
            } = match check::convert_check(row, self.options, self.now) {
                Ok(read) => read,
                Err(error) => {
                    add_error(errors, error);
                    continue;
                }
            };
            let assigned_channels = assigned
                .get(&id)
                .into_iter()
                .flatten()
                .filter_map(|channel| channels.get(channel))
                .filter(|(of, ..)| *of == project_index);
            let mut assigned_channels: Vec<_> = assigned_channels
                .map(|(_, order, uuid)| (*order, *uuid))
                .collect();
            assigned_channels.sort_unstable();
            assigned_channels.dedup();
            self.channel_report
                .add_check(assigned.get(&id).into_iter().flatten(), || {
                    check.settings.display_name(check.uuid)
                });
            check.channels = assigned_channels
                .into_iter()
                .map(|(_, uuid)| uuid)
                .collect();
            self.tally.add_carried(ReportedKind::Checks, 1);
            self.tally.add_changed(
                ReportedKind::Checks,
                u64::from(is_changed || check.badge.is_none() || !notes.is_empty()),
            );
            notes
                .into_iter()
                .for_each(|note| self.tally.add_note(ReportedKind::Checks, Some(1), note));
            self.tally.add_note(
                ReportedKind::Checks,
                Some(u64::from(is_changed)),
                "with times in the future, changed to now",
            );
            self.tally.add_note(
                ReportedKind::Checks,
                Some(u64::from(check.badge.is_none())),
                "without a badge, given a new one",
            );
            self.check_logs.insert(
                id,
                CheckLog::new(check.uuid, check.state.n_pings, project.ping_log_limit),
            );
            project.checks.push(check);
        }
        let missing = self
            .options
            .skipped_checks
            .iter()
            .find(|word| !skipped.contains(word));
        missing.map_or(Ok(()), |word| {
            Err(ConversionError::Missing(format!(
                "it has no check {word:?}"
            )))
        })
    }

    fn convert_users(
        &mut self,
        rows: &[SourceRow],
        projects: &[SourceRow],
        members: &[SourceRow],
        project_indexes: &HashMap<i64, usize>,
        profiles: &UserProfiles,
        errors: &mut Vec<RowError>,
    ) -> Result<(), ConversionError> {
        let uuid = |number: i64| {
            project_indexes
                .get(&number)
                .and_then(|index| self.contents.projects.get(*index))
                .map(|project| project.uuid)
        };
        let grants = project::read_grants(projects, members, uuid)?;
        let mut used_names = BTreeSet::new();
        for row in rows {
            match project::convert_user(
                row,
                &grants,
                profiles,
                &mut used_names,
                self.now,
                &mut self.tally,
            ) {
                Ok(user) => self.contents.users.extend(user),
                Err(error) => add_error(errors, error),
            }
        }
        Ok(())
    }

    /// Returns the contents before the logs have been read.
    pub(super) fn contents(&self) -> &ImportContents {
        &self.contents
    }

    /// Converts a row of a log. An invalid row is left out and does not end the import.
    pub(super) fn convert_log_row(&mut self, row: &SourceRow) -> Option<ImportLogEntry> {
        let id = row.id("owner_id").ok();
        let Some(log) = id.and_then(|id| self.check_logs.get_mut(&id)) else {
            let kind = if row.table == SourceTable::Flip {
                ReportedKind::Flips
            } else {
                ReportedKind::Pings
            };
            let reason = if id.is_some_and(|id| self.skipped_checks.contains(&id)) {
                "of skipped checks"
            } else {
                "of checks that do not exist"
            };
            self.tally.add_dropped(kind, 1, reason);
            return None;
        };
        let entry = match row.table {
            SourceTable::Flip => log
                .convert_flip(row, self.now, &mut self.tally)
                .zip(row.id("id").ok())
                .map(|(flip, id)| ImportLogEntry::Flip(flip, id)),
            _ => log
                .convert_ping(row, self.options, self.now, &mut self.tally)
                .map(ImportLogEntry::Ping),
        };
        let at = entry.as_ref().map(|entry| match entry {
            ImportLogEntry::Ping(ping) => ping.at,
            ImportLogEntry::Flip(flip, _) | ImportLogEntry::OrderedFlip(flip) => {
                flip.flip.at.min(self.now)
            }
        });
        self.contents.newest = self.contents.newest.max(at);
        entry
    }

    /// Returns the contents and the report after the logs have been read.
    pub(super) fn finish(self, source: &ImportSource) -> (ImportContents, ImportReport) {
        let Self {
            options,
            now,
            mut tally,
            contents: mut imported,
            check_logs: logs,
            channel_report,
            secret_verdict,
            ..
        } = self;
        let logs: HashMap<Uuid, CheckLog> = logs.into_values().map(|log| (log.uuid, log)).collect();
        let mut late = Vec::new();
        for project in &mut imported.projects {
            for check in &mut project.checks {
                let last = logs.get(&check.uuid).and_then(CheckLog::last_flip);
                if let Some(log) = logs.get(&check.uuid) {
                    log.tally_pings(options.logs, &mut tally);
                }
                let state = &mut check.state;
                state.changed = last.map_or(check.created, |flip| flip.at);
                state.notification = initial_notification_state(state.status, last, now);
                imported.newest = imported
                    .newest
                    .max(state.last_ping)
                    .max(state.run.map(|run| run.start));
                if state
                    .deadline(&check.settings)
                    .is_some_and(|deadline| deadline <= now)
                {
                    let name = check.settings.display_name(check.uuid);
                    late.push(LateCheck {
                        project: project.name.as_str().to_owned(),
                        name,
                    });
                }
            }
        }
        tally_badges(&imported, secret_verdict, &mut tally);
        let ServeFlags {
            flags: serve_flags,
            mut advice,
        } = environment::serve_flags(&options.environment);
        advice.splice(..0, secret_verdict.advice());
        let mut remarks = ReportRemarks {
            newest: imported.newest,
            late,
            serve_flags,
            advice,
            ..ReportRemarks::default()
        };
        channel_report.finish(&imported, &mut remarks);
        (
            imported,
            ImportReport::new((source.name(), source.format().name()), tally, remarks),
        )
    }
}

/// Returns the notification state for a check with this status and newest flip: what the old server
/// has notified, and what is still pending.
fn initial_notification_state(
    status: Status,
    last: Option<LastFlip>,
    now: Timestamp,
) -> NotificationState {
    match (status, last.filter(|flip| !flip.is_notified)) {
        // Users were notified that it was down, but not that it is up again.
        (
            Status::Up,
            Some(LastFlip {
                from: Status::Down, ..
            }),
        ) => NotificationState::Notified,
        // A reported failure is notified at once; a late check gets time to report.
        (
            Status::Down,
            Some(LastFlip {
                cause: FlipCause::Fail,
                ..
            }),
        ) => NotificationState::Pending {
            at: now,
            reason: HoldReason::BelowThreshold,
        },
        (Status::Down, Some(_)) => NotificationState::Pending {
            at: now,
            reason: HoldReason::ServerOutage,
        },
        (Status::Down, None) => NotificationState::Notified,
        _ => NotificationState::NotNeeded,
    }
}

fn add_error(errors: &mut Vec<RowError>, error: RowError) {
    if errors.len() < MAX_ROW_ERRORS {
        errors.push(error);
    }
}

#[cfg(test)]
mod tests;
