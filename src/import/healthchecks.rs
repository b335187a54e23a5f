//! Conversion of each row of a Healthchecks server, or the reason against it. The result depends
//! only on the rows, the options and the time.

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
use crate::domain::import_contents::{ImportContents, ImportedChannel, ImportedSettings};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::Membership;
use channel::ConvertedChannel;
use channel_report::ChannelReportBuilder;
use log::{CheckLog, LastFlip};
use project::{ProjectConverter, ProjectOwners};
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
    fn from(complaint: RowError) -> Self {
        Self::Row(complaint)
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
    /// Converts everything except the logs. Errors of rows are added to `complaints`.
    ///
    /// # Errors
    /// Returns an error if there is no project, or a selected object does not exist.
    pub(super) fn new(
        rows: Vec<SourceRow>,
        options: &'a ImportOptions,
        now: Timestamp,
        complaints: &mut Vec<RowError>,
    ) -> Result<Self, String> {
        let mut tables = SourceTables::default();
        for row in rows {
            tables.0.entry(row.table).or_default().push(row);
        }
        if !tables.0.contains_key(&SourceTable::Project) {
            return Err(match tables.0.contains_key(&SourceTable::Check) {
                true => "there are checks but no projects: upgrade that Healthchecks to a release \
                         of 2019 or later, or dump accounts too"
                    .into(),
                false => "there is no project of a Healthchecks in it".into(),
            });
        }
        let secret = options
            .environment
            .get("SECRET_KEY")
            .map(LegacySecret::parse)
            .transpose()
            .map_err(|problem| format!("SECRET_KEY: {problem}"))?;
        let imported = ImportContents {
            secrets: secret.into_iter().collect(),
            ..ImportContents::default()
        };
        let tally = ImportTally::default();
        let logs = HashMap::new();
        let left = HashSet::new();
        let channel_rows = ChannelReportBuilder::default();
        let proof = SecretVerdict::default();
        let mut made = Self {
            options,
            now,
            tally,
            contents: imported,
            check_logs: logs,
            skipped_checks: left,
            channel_report: channel_rows,
            secret_verdict: proof,
        };
        match made.convert_objects(&mut tables, complaints) {
            Ok(()) => Ok(made),
            Err(ConversionError::Row(complaint)) => {
                add_error(complaints, complaint);
                Ok(made)
            }
            Err(ConversionError::Missing(problem)) => Err(problem),
        }
    }

    fn convert_objects(
        &mut self,
        tables: &mut SourceTables,
        complaints: &mut Vec<RowError>,
    ) -> Result<(), ConversionError> {
        if let Some(secret) = self.contents.secrets.first() {
            let sessions = tables.0.remove(&SourceTable::Session).unwrap_or_default();
            self.secret_verdict = sessions.iter().fold(self.secret_verdict, |proof, row| {
                proof.with_signature(secret_verification::verify_session_signature(row, secret))
            });
        }
        let users = tables.take_rows(SourceTable::User)?;
        let owners = ProjectOwners::from_rows(&users, &tables.take_rows(SourceTable::Profile)?)?;
        let projects = tables.take_rows(SourceTable::Project)?;
        let places = self.convert_projects(&projects, &owners, complaints)?;
        let channels = self.convert_channels(
            &tables.take_rows(SourceTable::Channel)?,
            &places,
            complaints,
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
            &places,
            &channels,
            &assigned,
            complaints,
        )?;
        if self.options.with_users {
            self.convert_users(
                &users,
                &projects,
                &tables.take_rows(SourceTable::Member)?,
                &places,
                complaints,
            )?;
        }
        Ok(())
    }

    /// Converts projects. Returns the positions of imported ones by their numbers.
    fn convert_projects(
        &mut self,
        rows: &[SourceRow],
        owners: &ProjectOwners,
        complaints: &mut Vec<RowError>,
    ) -> Result<HashMap<i64, usize>, ConversionError> {
        let secret = self.contents.secrets.first().cloned();
        let secret = secret.as_ref();
        let proof = self.secret_verdict;
        let mut reader = ProjectConverter {
            options: self.options,
            owners,
            secret,
            secret_verdict: proof,
            used_names: BTreeSet::new(),
            matched: HashSet::new(),
        };
        let mut places = HashMap::new();
        for row in rows {
            match reader.convert_project(row, &mut self.tally) {
                Ok(None) => {}
                Ok(Some(project)) => {
                    places.insert(row.id("id")?, self.contents.projects.len());
                    self.contents.projects.push(project);
                }
                Err(complaint) => add_error(complaints, complaint),
            }
        }
        self.secret_verdict = reader.secret_verdict;
        let missed = self
            .options
            .projects
            .iter()
            .find(|chosen| !reader.matched.contains(&chosen.source_name));
        missed.map_or(Ok(places), |chosen| {
            Err(ConversionError::Missing(format!(
                "there is no project {:?} in it",
                chosen.source_name
            )))
        })
    }

    /// Converts channels. Returns imported ones by their numbers, with their projects, order and
    /// UUIDs.
    fn convert_channels(
        &mut self,
        rows: &[SourceRow],
        places: &HashMap<i64, usize>,
        complaints: &mut Vec<RowError>,
    ) -> Result<ImportedChannelIndex, ConversionError> {
        let mut known = HashMap::new();
        for row in rows {
            let Some(place) = places.get(&row.id("project_id")?).copied() else {
                self.tally
                    .add_dropped(ReportedKind::Channels, 1, "of projects that stay behind");
                continue;
            };
            let made = match channel::convert_channel(row, &self.options.environment, self.now) {
                Ok(made) => made,
                Err(complaint) => {
                    add_error(complaints, complaint);
                    continue;
                }
            };
            let Some(project) = self.contents.projects.get_mut(place) else {
                continue;
            };
            match made {
                ConvertedChannel::Imported { channel, changes } => {
                    known.insert(row.id("id")?, (place, known.len(), channel.uuid));
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
                    reason: why,
                } => {
                    self.tally
                        .add_dropped(ReportedKind::Channels, 1, why.clone());
                    self.channel_report.add_dropped(
                        row.id("id")?,
                        ReportedChannel::new(project, uuid, &name, &kind, vec![why]),
                    );
                }
            }
        }
        Ok(known)
    }

    fn convert_checks(
        &mut self,
        rows: &[SourceRow],
        places: &HashMap<i64, usize>,
        channels: &ImportedChannelIndex,
        assigned: &HashMap<i64, Vec<i64>>,
        complaints: &mut Vec<RowError>,
    ) -> Result<(), ConversionError> {
        let mut skipped = HashSet::new();
        for row in rows {
            let id = row.id("id")?;
            let place = places.get(&row.id("project_id")?).copied();
            let meant = |word: &&String| check::matches_identifier(row, word);
            let meant = self
                .options
                .skipped_checks
                .iter()
                .map(|word| meant(&word).map(|is_meant| is_meant.then_some(word)));
            let words: Vec<_> = meant
                .filter_map(Result::transpose)
                .collect::<Result<_, RowError>>()?;
            skipped.extend(words.iter().copied());
            let why = if words.is_empty() {
                "of projects that stay behind"
            } else {
                "left out by --skip"
            };
            let Some((place, project)) = place
                .filter(|_| words.is_empty())
                .and_then(|place| Some((place, self.contents.projects.get_mut(place)?)))
            else {
                self.tally.add_dropped(ReportedKind::Checks, 1, why);
                self.skipped_checks.insert(id);
                continue;
            };
            let check::ConvertedCheck {
                mut check,
                has_adjusted_times: is_changed,
                notes,
            } = match check::convert_check(row, self.options, self.now) {
                Ok(read) => read,
                Err(complaint) => {
                    add_error(complaints, complaint);
                    continue;
                }
            };
            let own = assigned
                .get(&id)
                .into_iter()
                .flatten()
                .filter_map(|channel| channels.get(channel))
                .filter(|(of, ..)| *of == place);
            let mut own: Vec<_> = own.map(|(_, order, uuid)| (*order, *uuid)).collect();
            own.sort_unstable();
            own.dedup();
            self.channel_report
                .add_check(assigned.get(&id).into_iter().flatten(), || {
                    check.settings.display_name(check.uuid)
                });
            check.channels = own.into_iter().map(|(_, uuid)| uuid).collect();
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
                "with times in the future: they become now",
            );
            self.tally.add_note(
                ReportedKind::Checks,
                Some(u64::from(check.badge.is_none())),
                "without a badge: they get a new one",
            );
            self.check_logs.insert(
                id,
                CheckLog::new(check.uuid, check.state.n_pings, project.ping_log_limit),
            );
            project.checks.push(check);
        }
        let missed = self
            .options
            .skipped_checks
            .iter()
            .find(|word| !skipped.contains(word));
        missed.map_or(Ok(()), |word| {
            Err(ConversionError::Missing(format!(
                "there is no check {word:?} in it"
            )))
        })
    }

    fn convert_users(
        &mut self,
        rows: &[SourceRow],
        projects: &[SourceRow],
        members: &[SourceRow],
        places: &HashMap<i64, usize>,
        complaints: &mut Vec<RowError>,
    ) -> Result<(), ConversionError> {
        let uuid = |number: i64| {
            places
                .get(&number)
                .and_then(|place| self.contents.projects.get(*place))
                .map(|project| project.uuid)
        };
        let mut grants: HashMap<i64, Vec<(Uuid, Membership)>> = HashMap::new();
        for row in projects {
            let member = uuid(row.id("id")?).map(|uuid| (uuid, Membership::Member));
            grants
                .entry(row.id("owner_id")?)
                .or_default()
                .extend(member);
        }
        for row in members {
            // An invitation from before projects existed has no project.
            let Some(number) = row.integer("project_id")? else {
                continue;
            };
            let membership = project::read_membership(row)?;
            grants
                .entry(row.id("user_id")?)
                .or_default()
                .extend(uuid(number).map(|uuid| (uuid, membership)));
        }
        let mut taken = BTreeSet::new();
        for row in rows {
            match project::convert_user(row, &grants, &mut taken, self.now, &mut self.tally) {
                Ok(user) => self.contents.users.extend(user),
                Err(complaint) => add_error(complaints, complaint),
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
            let what = if row.table == SourceTable::Flip {
                ReportedKind::Flips
            } else {
                ReportedKind::Pings
            };
            let why = if id.is_some_and(|id| self.skipped_checks.contains(&id)) {
                "of checks that stay behind"
            } else {
                "of checks that are not in it"
            };
            self.tally.add_dropped(what, 1, why);
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
            channel_report: channel_rows,
            secret_verdict: proof,
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
        tally_badges(&imported, proof, &mut tally);
        let ServeFlags {
            flags: serve_flags,
            mut advice,
        } = environment::serve_flags(&options.environment);
        advice.splice(..0, proof.advice());
        let mut remarks = ReportRemarks {
            newest: imported.newest,
            late,
            serve_flags,
            advice,
            ..ReportRemarks::default()
        };
        channel_rows.finish(&imported, &mut remarks);
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

/// Returns warnings about the settings of an imported channel.
fn channel_warnings(channel: &ImportedChannel) -> impl Iterator<Item = String> {
    let warnings = match &channel.settings {
        ImportedSettings::Complete(settings) => settings.warnings(),
        ImportedSettings::Incomplete { .. } => Vec::new(),
    };
    warnings
        .into_iter()
        .map(|warning| format!("{:?}: {warning}", channel.name.as_str()))
}

fn add_error(complaints: &mut Vec<RowError>, complaint: RowError) {
    if complaints.len() < MAX_ROW_ERRORS {
        complaints.push(complaint);
    }
}

/// Counts badge URLs. The URLs of projects and tags need the secret that signed them.
fn tally_badges(imported: &ImportContents, proof: SecretVerdict, tally: &mut ImportTally) {
    for project in &imported.projects {
        let own = project
            .checks
            .iter()
            .filter(|check| check.badge.is_some())
            .count() as u64;
        tally.add_carried(ReportedKind::Badges, own);
        let tags: HashSet<&str> = project
            .checks
            .iter()
            .flat_map(|check| check.settings.tags.iter())
            .collect();
        let signed = 1 + tags.len() as u64;
        match (project.legacy_badge, proof) {
            (None, _) => {
                let why = format!(
                    "of project {:?} and its tags: 404, unless --env-file or --secret-key-file \
                     give the SECRET_KEY of the old server; GET /api/v3/badges/ lists the URLs to \
                     use in place of them",
                    project.name.as_str()
                );
                tally.add_dropped(ReportedKind::Badges, signed, why);
            }
            (Some(_), SecretVerdict::Incorrect(_)) => {
                tally.add_carried(ReportedKind::Badges, signed);
                tally.add_note(
                    ReportedKind::Badges,
                    Some(signed),
                    "of projects and tags: 404, unless the old server ran with the given \
                     SECRET_KEY",
                );
            }
            (Some(_), _) => tally.add_carried(ReportedKind::Badges, signed),
        }
    }
}

#[cfg(test)]
mod tests;
