//! Publishes all that an import has staged, in place of an earlier import: everything at once, or
//! nothing.

mod objects;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::super::super::command::CommandOutcome;
use super::super::super::command::import::{
    ImportFinishOptions, ImportStepError, ImportStepOutcome, LocalChanges,
};
use super::super::super::state::{Change, ImportChange, OpenImport, ProjectState};
use super::super::WorkingState;
use super::super::window::MAX_WINDOWS;
use super::conflicts::{ImportConflicts, existing_project_name, imported_key_secret};
use super::sorted_import::SortedImport;
use crate::domain::alert::{AlertEvent, DeliveryResult, NotificationState};
use crate::domain::check::Check;
use crate::domain::ids::ProjectId;
use crate::domain::import_contents::{ImportedKeySecret, ImportedProject, ImportedUser};
use crate::domain::import_item::ImportId;
use crate::domain::legacy_keys::{LegacySecret, LegacySecrets};
use crate::domain::project::{BadgeSecret, Channel, Project, resolve_stored_members};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::one_time_link::LinkPurpose;
use crate::domain::user::{Grant, ProjectMemberships, User};
use objects::{build_key, build_project, build_window};

/// Result recorded for queued messages that an import discards.
const CHECK_REPLACED: &str = "an import replaced the check";
/// Maximum number of conflicts and of checks that an error names.
pub(super) const MAX_CONFLICTS_SHOWN: usize = 10;

pub(super) fn invalid_import(problem: &str) -> ImportStepError {
    ImportStepError::Invalid(problem.into())
}

/// Existing projects that the import replaces, with the numbers of the import that created them.
#[derive(Default)]
pub(super) struct ReplacedProjects {
    by_uuid: HashMap<Uuid, ProjectId>,
    numbers: BTreeMap<ProjectId, Range<u64>>,
}

impl ReplacedProjects {
    /// True if this object of a project is removed. Keys and channels that were created here stay;
    /// all checks go.
    pub(super) fn is_removed(&self, project: ProjectId, number: u64) -> bool {
        self.numbers
            .get(&project)
            .is_some_and(|numbers| numbers.contains(&number))
    }

    pub(super) fn contains(&self, project: ProjectId) -> bool {
        self.numbers.contains_key(&project)
    }
}

/// Projects in which the imported ones are stored: existing ones keep their numbers.
fn target_projects(
    contents: &SortedImport<'_>,
    replaced: &ReplacedProjects,
) -> HashMap<ProjectId, ProjectId> {
    let pair = |(imported_id, project): &(ProjectId, &ImportedProject)| {
        let existing = replaced.by_uuid.get(&project.uuid);
        (*imported_id, existing.copied().unwrap_or(*imported_id))
    };
    contents.projects.iter().map(pair).collect()
}

/// Result of an import, prepared but not published.
struct PreparedImport<'a> {
    contents: SortedImport<'a>,
    replaced: ReplacedProjects,
    /// Local changes that are lost.
    lost_changes: LocalChanges,
    /// Legacy secrets after the import.
    legacy_secrets: LegacySecrets,
    /// Numbers of the imported legacy secrets, by index.
    secret_numbers: Vec<u8>,
    checks: Vec<Check>,
    users: Vec<(User, &'a ImportedUser)>,
    channels: Vec<Channel>,
}

impl PreparedImport<'_> {
    fn outcome(&self) -> CommandOutcome {
        CommandOutcome::Import(ImportStepOutcome::Finished {
            replaced: self.replaced.numbers.len(),
            lost_changes: self.lost_changes,
        })
    }
}

impl WorkingState {
    /// Dry run of `finish_import`; the import stays open.
    pub(super) fn preview_import(
        &self,
        import: ImportId,
        options: &ImportFinishOptions,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        Ok(self
            .prepare_import(self.find_import(import)?, options, now)?
            .outcome())
    }

    /// Checks the import and computes its result, or returns the reason for refusing it.
    fn prepare_import<'a>(
        &self,
        open_import: &'a OpenImport,
        options: &ImportFinishOptions,
        now: Timestamp,
    ) -> Result<PreparedImport<'a>, ImportStepError> {
        if open_import.counts != options.expected_counts {
            return Err(invalid_import("some of its items are missing; begin again"));
        }
        let contents = SortedImport::new(open_import)?;
        let replaced = self.find_replaced_projects(&contents)?;
        let lost_changes = self.local_changes(&replaced, !options.replace)?;
        let removed_counts = replaced
            .numbers
            .keys()
            .filter_map(|id| self.state.project(*id))
            .map(|project_state| project_state.checks.len() as u64);
        self.ensure_few_checks(removed_counts.sum())?;
        let (legacy_secrets, secret_numbers) =
            self.merge_legacy_secrets(&contents, &options.legacy_secrets)?;
        self.ensure_no_conflicts(&contents, &replaced, &secret_numbers)?;
        self.ensure_window_limit(&contents, &replaced)?;
        let checks = self.build_checks(&contents, open_import, &replaced, now)?;
        let users = self.build_users(&contents, now)?;
        let channels = contents.channels.iter().map(|(id, project, channel)| {
            self.build_channel(*id, *project, channel, &replaced, now)
        });
        let mut channels = channels.collect::<Result<Vec<_>, ImportStepError>>()?;
        resolve_stored_members(&mut channels);
        Ok(PreparedImport {
            contents,
            replaced,
            lost_changes,
            legacy_secrets,
            secret_numbers,
            checks,
            users,
            channels,
        })
    }

    pub(super) fn finish_import(
        &mut self,
        import: ImportId,
        options: &ImportFinishOptions,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        // Cheap to clone, except for the map of logs. The original is dropped by this command.
        let open_import = self.find_import(import)?.clone();
        let prepared = self.prepare_import(&open_import, options, now)?;
        let outcome = prepared.outcome();
        let PreparedImport {
            contents,
            replaced,
            legacy_secrets,
            secret_numbers,
            checks,
            users,
            channels,
            ..
        } = prepared;
        // Nothing is refused from here on.
        let ImportFinishOptions {
            mode, badge_secret, ..
        } = options;
        self.replace_secrets(legacy_secrets, *badge_secret, &replaced);
        let targets = target_projects(&contents, &replaced);
        let target =
            |imported_id: ProjectId| targets.get(&imported_id).copied().unwrap_or(imported_id);
        for (id, numbers) in &replaced.numbers {
            self.remove_imported(*id, numbers, now);
        }
        for (id, project) in &contents.projects {
            let numbers = open_import.numbers.clone();
            let project = build_project(target(*id), project, numbers, *mode, now);
            self.effects.imported_projects.push(project.id);
            self.put_project(project);
        }
        for (id, project, imported) in &contents.keys {
            if let Some(secret) = imported_key_secret(&imported.secret, &secret_numbers) {
                let key = build_key(*id, target(*project), secret, imported, now);
                self.record_change(Change::Key(Arc::new(key)));
            }
        }
        for channel in channels {
            self.put_channel(Channel {
                project: target(channel.project),
                ..channel
            });
        }
        for (id, project, imported) in &contents.windows {
            let window = build_window(*id, target(*project), imported);
            self.record_change(Change::Window(Arc::new(window)));
        }
        for check in checks {
            let project = target(check.project);
            self.put_imported_check(Check { project, ..check }, now);
        }
        for (id, source) in contents.managed_objects() {
            self.record_change(Change::Source(id, Some(source.clone())));
        }
        let imported_projects = contents
            .projects
            .iter()
            .map(|(id, project)| (project.uuid, target(*id)))
            .collect();
        for (user, imported) in users {
            self.grant_imported(user, imported, &imported_projects);
        }
        let has_leftovers = !replaced.numbers.is_empty();
        self.record_change(Change::Import(
            ImportChange::Ended {
                import,
                has_leftovers,
            },
            now,
        ));
        Ok(outcome)
    }

    /// Stores the secrets of old keys, and that of badge URLs if no badge exists here yet.
    fn replace_secrets(
        &mut self,
        legacy_secrets: LegacySecrets,
        badge_secret: Option<BadgeSecret>,
        replaced: &ReplacedProjects,
    ) {
        if legacy_secrets != *self.state.legacy_secrets {
            self.record_change(Change::LegacySecrets(Arc::new(legacy_secrets)));
        }
        let has_no_checks = |project_state: &ProjectState| {
            replaced.contains(project_state.project.id) || project_state.checks.is_empty()
        };
        if let Some(badge_secret) =
            badge_secret.filter(|_| self.state.projects().all(has_no_checks))
        {
            self.record_change(Change::BadgeSecret(badge_secret));
        }
    }

    /// Stores an imported check. The other server may have alerted that it was down, but not that
    /// it is up again.
    fn put_imported_check(&mut self, mut check: Check, now: Timestamp) {
        let is_unalerted_recovery = check.state.status == Status::Up
            && check.state.notification == NotificationState::Notified;
        if is_unalerted_recovery {
            check.state.notification = NotificationState::NotNeeded;
        }
        let recovered = is_unalerted_recovery.then(|| check.clone());
        self.record_change(Change::Check(Box::new(check)));
        if let Some(check) = recovered {
            self.queue_alerts(&check, AlertEvent::Up, check.state.changed, now);
        }
    }

    /// Legacy secrets after the import, and the numbers of the imported ones, as far as keys need
    /// them.
    fn merge_legacy_secrets(
        &self,
        sorted: &SortedImport<'_>,
        secrets: &[LegacySecret],
    ) -> Result<(LegacySecrets, Vec<u8>), ImportStepError> {
        let index_of = |secret: &ImportedKeySecret| match secret {
            ImportedKeySecret::Legacy { secret_index, .. } => Some(usize::from(*secret_index)),
            ImportedKeySecret::Native(_) => None,
        };
        let mut legacy_secrets = LegacySecrets::clone(&self.state.legacy_secrets);
        let mut secret_numbers = Vec::new();
        let Some(last) = sorted
            .keys
            .iter()
            .filter_map(|(.., key)| index_of(&key.secret))
            .max()
        else {
            return Ok((legacy_secrets, secret_numbers));
        };
        let needed = secrets.get(..=last).ok_or_else(|| {
            invalid_import(
                "a key is hashed with the secret of another server, and the import \
                           lacks that secret",
            )
        })?;
        for secret in needed {
            let (extended, number) = legacy_secrets
                .with_secret(secret)
                .map_err(|problem| ImportStepError::Conflicts(vec![problem.into()]))?;
            legacy_secrets = extended;
            secret_numbers.push(number);
        }
        Ok((legacy_secrets, secret_numbers))
    }

    /// Refuses if a project would have too many windows, including windows that were created here.
    fn ensure_window_limit(
        &self,
        sorted: &SortedImport<'_>,
        replaced: &ReplacedProjects,
    ) -> Result<(), ImportStepError> {
        let mut counts: HashMap<ProjectId, usize> = HashMap::new();
        sorted
            .windows
            .iter()
            .for_each(|(_, project, _)| *counts.entry(*project).or_default() += 1);
        for (imported_id, project) in &sorted.projects {
            let existing_count = replaced
                .by_uuid
                .get(&project.uuid)
                .and_then(|id| self.state.project(*id))
                .map_or(0, |project_state| {
                    project_state
                        .windows
                        .keys()
                        .filter(|window| !replaced.is_removed(project_state.project.id, window.0))
                        .count()
                });
            if counts
                .get(imported_id)
                .is_some_and(|count| count + existing_count > MAX_WINDOWS)
            {
                return Err(ImportStepError::Invalid(
                    format!(
                        "the project {:?} would have more than {MAX_WINDOWS} maintenance windows",
                        project.name.as_str()
                    )
                    .into(),
                ));
            }
        }
        Ok(())
    }

    fn find_replaced_projects(
        &self,
        sorted: &SortedImport<'_>,
    ) -> Result<ReplacedProjects, ImportStepError> {
        let existing_projects: HashMap<Uuid, &Arc<Project>> = self
            .state
            .projects()
            .map(|project_state| (project_state.project.uuid, &project_state.project))
            .collect();
        let mut replaced = ReplacedProjects::default();
        let mut conflicts = ImportConflicts::default();
        for (_, project) in &sorted.projects {
            let Some(existing) = existing_projects.get(&project.uuid) else {
                continue;
            };
            match &existing.import {
                Some(import) => {
                    replaced.by_uuid.insert(project.uuid, existing.id);
                    replaced
                        .numbers
                        .insert(existing.id, import.id_range.clone());
                }
                None => conflicts.add(|| {
                    format!(
                        "the project {:?} has the UUID of the existing project {:?}, which was not \
                        imported; delete that project first",
                        project.name.as_str(),
                        existing.name.as_str()
                    )
                }),
            }
        }
        if conflicts.0.is_empty() {
            Ok(replaced)
        } else {
            Err(ImportStepError::Conflicts(conflicts.0))
        }
    }

    /// Changes that users made here and that would be lost. If `refuses` is true, any such change
    /// is an error.
    fn local_changes(
        &self,
        replaced: &ReplacedProjects,
        refuses: bool,
    ) -> Result<LocalChanges, ImportStepError> {
        let mut names = Vec::new();
        let mut changes = LocalChanges::default();
        for id in replaced.numbers.keys() {
            for check in self
                .state
                .checks_of(*id)
                .filter(|check| !check.state.unused_since_import)
            {
                changes.checks += 1;
                changes.pings += check
                    .state
                    .n_pings
                    .saturating_sub(check.state.imported_pings);
                if names.len() < MAX_CONFLICTS_SHOWN {
                    names.push(
                        format!(
                            "{:?} of {:?}",
                            check.settings.display_name(check.uuid),
                            existing_project_name(&self.state, *id)
                        )
                        .into(),
                    );
                }
            }
        }
        if refuses && changes.checks > 0 {
            Err(ImportStepError::ChangedLocally { changes, names })
        } else {
            Ok(changes)
        }
    }

    /// Grants a user access to `imported_projects`. An import cannot grant access to other
    /// projects.
    fn grant_imported(
        &mut self,
        user: User,
        imported: &ImportedUser,
        imported_projects: &HashMap<Uuid, ProjectId>,
    ) {
        let grant = match &user.grant {
            Grant::Owner => Grant::Owner,
            Grant::Projects(projects) => {
                let added = imported.projects.iter().filter_map(|(uuid, membership)| {
                    Some((*imported_projects.get(uuid)?, *membership))
                });
                Grant::Projects(ProjectMemberships::new(projects.iter().chain(added)))
            }
        };
        self.remove_link(LinkPurpose::Setup);
        if self.state.users.get(user.id).is_none() && imported.managed_by.is_some() {
            self.record_change(Change::Source(user.id.0, imported.managed_by.clone()));
        }
        self.put_user(User { grant, ..user });
    }

    /// Removes what an import brought for a project, and all of its checks. The project keeps its
    /// number, and with it the access rights of its users.
    fn remove_imported(&mut self, id: ProjectId, numbers: &Range<u64>, now: Timestamp) {
        let Some(project_state) = self.state.project(id) else {
            return;
        };
        let outbox = &self.state.outbox;
        let queued_rows = project_state
            .checks
            .iter()
            .flat_map(|check| outbox.rows_of_check(*check))
            .filter(|row| !outbox.is_sending(row.number));
        let queued_rows: Vec<_> = queued_rows.cloned().collect();
        let is_imported = |number: u64| numbers.contains(&number);
        let channels = project_state
            .channels
            .keys()
            .copied()
            .filter(|id| is_imported(id.0))
            .map(Change::ChannelDeleted);
        let keys = project_state
            .keys()
            .filter(|id| is_imported(id.0))
            .map(Change::KeyDeleted);
        let windows = project_state
            .windows
            .keys()
            .copied()
            .filter(|window| is_imported(window.0));
        let windows = windows.map(|window| Change::WindowDeleted(id, window));
        let checks = project_state
            .checks
            .iter()
            .copied()
            .map(Change::CheckDeleted);
        let changes: Vec<_> = checks.chain(channels).chain(keys).chain(windows).collect();
        queued_rows
            .iter()
            .for_each(|row| self.finish_row(row, DeliveryResult::Skipped, CHECK_REPLACED, now));
        changes
            .into_iter()
            .for_each(|change| self.record_change(change));
    }
}
