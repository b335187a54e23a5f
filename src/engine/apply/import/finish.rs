//! Publishes all that an import has staged, in place of an earlier import: everything at once, or
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::super::super::command::CommandOutcome;
use super::super::super::command::import::{
    ImportFinishOptions, ImportStepError, ImportStepOutcome, LocalChanges,
};
use super::super::super::state::{Change, ImportChange, OpenImport, ProjectState};
use super::super::WorkingState;
use super::super::user::MAX_USERS;
use super::super::window::MAX_WINDOWS;
use super::conflicts::{ImportConflicts, existing_project_name, imported_key_secret};
use super::sorted_import::SortedImport;
use crate::domain::alert::{
    AlertEvent, ChannelHealth, DeliveryResult, HoldReason, NotificationState, Outage,
};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{ChannelId, ProjectId, UserId};
use crate::domain::import_contents::{
    ImportedChannel, ImportedKeySecret, ImportedProject, ImportedSettings, ImportedUser,
    ImportedWindow,
};
use crate::domain::import_item::{ImportId, ImportMode, ProjectImport};
use crate::domain::legacy_keys::{LegacySecret, LegacySecrets};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{Channel, KeyUse, Project, ProjectKey, resolve_group_members};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::one_time_link::LinkPurpose;
use crate::domain::user::{Grant, ProjectMemberships, User};

/// Result recorded for queued messages that an import discards.
const CHECK_REPLACED: &str = "an import took the place of the check";
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

/// Result of an import, prepared but not published.
struct PreparedImport<'a> {
    contents: SortedImport<'a>,
    replaced: ReplacedProjects,
    /// Local changes that are lost.
    lost_changes: LocalChanges,
    /// Legacy secrets after the import.
    legacy_secrets: LegacySecrets,
    /// Numbers of the legacy secrets in the import.
    numbers: Vec<u8>,
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
        ending: &ImportFinishOptions,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        Ok(self
            .prepare_import(self.find_import(import)?, ending, now)?
            .outcome())
    }

    /// Checks the import and computes its result, or returns the reason for refusing it.
    fn prepare_import<'a>(
        &self,
        staging: &'a OpenImport,
        ending: &ImportFinishOptions,
        now: Timestamp,
    ) -> Result<PreparedImport<'a>, ImportStepError> {
        if staging.counts != ending.expected_counts {
            return Err(invalid_import("not all of it has arrived; begin again"));
        }
        let sorted = SortedImport::new(staging)?;
        let replaced = self.find_replaced_projects(&sorted)?;
        let lost = self.local_changes(&replaced, !ending.replace)?;
        let going = replaced
            .numbers
            .keys()
            .filter_map(|id| self.state.project(*id))
            .map(|project_state| project_state.checks.len() as u64);
        self.ensure_few_checks(going.sum())?;
        let (adopted, numbers) = self.merge_legacy_secrets(&sorted, &ending.legacy_secrets)?;
        self.ensure_no_conflicts(&sorted, &replaced, &numbers)?;
        self.ensure_window_limit(&sorted, &replaced)?;
        let checks = self.build_checks(&sorted, staging, &replaced, now)?;
        let users = self.build_users(&sorted, now)?;
        let channels = sorted.channels.iter().map(|(id, project, channel)| {
            self.build_channel(*id, *project, channel, &replaced, now)
        });
        let mut channels = channels.collect::<Result<Vec<_>, ImportStepError>>()?;
        resolve_group_members(&mut channels);
        Ok(PreparedImport {
            contents: sorted,
            replaced,
            lost_changes: lost,
            legacy_secrets: adopted,
            numbers,
            checks,
            users,
            channels,
        })
    }

    pub(super) fn finish_import(
        &mut self,
        import: ImportId,
        ending: &ImportFinishOptions,
        now: Timestamp,
    ) -> Result<CommandOutcome, ImportStepError> {
        // Cheap to clone, except for the map of logs, which ends with this command.
        let staging = self.find_import(import)?.clone();
        let ready = self.prepare_import(&staging, ending, now)?;
        let outcome = ready.outcome();
        let PreparedImport {
            contents: sorted,
            replaced,
            legacy_secrets: adopted,
            numbers,
            checks,
            users,
            channels,
            ..
        } = ready;
        let ImportFinishOptions {
            mode,
            badge_secret: signing,
            ..
        } = ending;
        // Nothing is refused from here on.
        if adopted != *self.state.legacy_secrets {
            self.record_change(Change::LegacySecrets(Arc::new(adopted)));
        }
        let is_bare = |project_state: &ProjectState| {
            replaced.contains(project_state.project.id) || project_state.checks.is_empty()
        };
        if let Some(signing) = signing.filter(|_| self.state.projects().all(is_bare)) {
            self.record_change(Change::BadgeSecret(signing));
        }
        let here = |(staged, project): &(ProjectId, &ImportedProject)| {
            (
                *staged,
                replaced
                    .by_uuid
                    .get(&project.uuid)
                    .copied()
                    .unwrap_or(*staged),
            )
        };
        let targets: HashMap<_, _> = sorted.projects.iter().map(here).collect();
        let target = |staged: ProjectId| targets.get(&staged).copied().unwrap_or(staged);
        for (id, numbers) in &replaced.numbers {
            self.remove_imported(*id, numbers, now);
        }
        for (id, project) in &sorted.projects {
            let project = build_project(target(*id), project, staging.numbers.clone(), *mode, now);
            self.effects.imported_projects.push(project.id);
            self.put_project(project);
        }
        for (id, project, imported) in &sorted.keys {
            let Some(secret) = imported_key_secret(&imported.secret, &numbers) else {
                continue;
            };
            let created = imported.created.unwrap_or(now).min(now);
            let used = imported.last_use.map(|used| KeyUse {
                at: used.at.min(now),
                ..used
            });
            let label = imported.label.clone();
            let hint = imported.hint.clone();
            self.record_change(Change::Key(Arc::new(ProjectKey {
                id: *id,
                project: target(*project),
                secret,
                label,
                hint,
                created,
                last_use: used,
            })));
        }
        for channel in channels {
            self.put_channel(Channel {
                project: target(channel.project),
                ..channel
            });
        }
        for (id, project, imported) in &sorted.windows {
            let ImportedWindow {
                uuid,
                name,
                tags,
                times,
                ..
            } = ImportedWindow::clone(imported);
            self.record_change(Change::Window(Arc::new(MaintenanceWindow {
                id: *id,
                uuid,
                project: target(*project),
                name,
                tags,
                times,
            })));
        }
        for check in checks {
            let mut check = Check {
                project: target(check.project),
                ..check
            };
            // The other server alerted that the check was down, but not that it is up again.
            let is_news = check.state.status == Status::Up
                && check.state.notification == NotificationState::Notified;
            if is_news {
                check.state.notification = NotificationState::NotNeeded;
            }
            let news = is_news.then(|| check.clone());
            self.record_change(Change::Check(Box::new(check)));
            if let Some(check) = news {
                self.queue_alerts(&check, AlertEvent::Up, check.state.changed, now);
            }
        }
        for (id, source) in sorted.declared_objects() {
            self.record_change(Change::Source(id, Some(source.clone())));
        }
        let brought = sorted
            .projects
            .iter()
            .map(|(id, project)| (project.uuid, target(*id)))
            .collect();
        for (user, imported) in users {
            self.grant_imported(user, imported, &brought);
        }
        let leaves = !replaced.numbers.is_empty();
        self.record_change(Change::Import(
            ImportChange::Ended {
                import,
                has_leftovers: leaves,
            },
            now,
        ));
        Ok(outcome)
    }

    /// Legacy secrets after the import, and the numbers of the imported ones, as far as keys need
    /// them.
    fn merge_legacy_secrets(
        &self,
        sorted: &SortedImport<'_>,
        secrets: &[LegacySecret],
    ) -> Result<(LegacySecrets, Vec<u8>), ImportStepError> {
        let place = |secret: &ImportedKeySecret| match secret {
            ImportedKeySecret::Legacy {
                secret_index: secret,
                ..
            } => Some(usize::from(*secret)),
            ImportedKeySecret::Native(_) => None,
        };
        let mut adopted = LegacySecrets::clone(&self.state.legacy_secrets);
        let mut numbers = Vec::new();
        let Some(last) = sorted
            .keys
            .iter()
            .filter_map(|(.., key)| place(&key.secret))
            .max()
        else {
            return Ok((adopted, numbers));
        };
        let needed = secrets.get(..=last).ok_or_else(|| {
            invalid_import("a key is hashed by a server whose secret is not known")
        })?;
        for secret in needed {
            let (more, number) = adopted
                .with_secret(secret)
                .map_err(|problem| ImportStepError::Conflicts(vec![problem.into()]))?;
            adopted = more;
            numbers.push(number);
        }
        Ok((adopted, numbers))
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
        for (staged, project) in &sorted.projects {
            let here = replaced
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
                .get(staged)
                .is_some_and(|count| count + here > MAX_WINDOWS)
            {
                return Err(ImportStepError::Invalid(
                    format!(
                        "the project {:?} has too many windows",
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
        let here: HashMap<Uuid, &Arc<Project>> = self
            .state
            .projects()
            .map(|project_state| (project_state.project.uuid, &project_state.project))
            .collect();
        let mut replaced = ReplacedProjects::default();
        let mut taken = ImportConflicts::default();
        for (_, project) in &sorted.projects {
            let Some(there) = here.get(&project.uuid) else {
                continue;
            };
            match &there.import {
                Some(import) => {
                    replaced.by_uuid.insert(project.uuid, there.id);
                    replaced.numbers.insert(there.id, import.id_range.clone());
                }
                None => taken.add(|| {
                    format!(
                        "the project {:?} has the UUID of the project {:?} here, which was made \
                         here; delete that one first",
                        project.name.as_str(),
                        there.name.as_str()
                    )
                }),
            }
        }
        if taken.0.is_empty() {
            Ok(replaced)
        } else {
            Err(ImportStepError::Conflicts(taken.0))
        }
    }

    /// Changes that users made here and that would be lost. Refuses them if `stays`.
    fn local_changes(
        &self,
        replaced: &ReplacedProjects,
        stays: bool,
    ) -> Result<LocalChanges, ImportStepError> {
        let mut names = Vec::new();
        let mut done = LocalChanges::default();
        for id in replaced.numbers.keys() {
            for check in self
                .state
                .checks_of(*id)
                .filter(|check| !check.state.unused_since_import)
            {
                done.checks += 1;
                done.pings += check
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
        if stays && done.checks > 0 {
            Err(ImportStepError::ChangedLocally {
                changes: done,
                names,
            })
        } else {
            Ok(done)
        }
    }

    /// Checks as they will be stored, still with the project number of the import.
    fn build_checks(
        &self,
        sorted: &SortedImport<'_>,
        staging: &OpenImport,
        replaced: &ReplacedProjects,
        now: Timestamp,
    ) -> Result<Vec<Check>, ImportStepError> {
        let mut channels: HashMap<(ProjectId, Uuid), ChannelId> =
            HashMap::with_capacity(sorted.channels.len());
        channels.extend(
            sorted
                .channels
                .iter()
                .map(|(id, project, channel)| ((*project, channel.uuid), *id)),
        );
        let parents = sorted.parents()?;
        let mut checks = Vec::with_capacity(sorted.checks.len());
        for (id, project, drawn, imported) in &sorted.checks {
            let log = staging.log_position(*id);
            let mut state = imported.state;
            let problem = match () {
                () if state.status == Status::Up && state.last_ping.is_none() => {
                    Some("is up, but was never pinged")
                }
                () if log.last_ping > state.n_pings => {
                    Some("has a ping with a higher number than it has pings")
                }
                () if [
                    Some(state.changed),
                    state.last_ping,
                    state.run.map(|run| run.start),
                ]
                .into_iter()
                .flatten()
                .any(|at| at.is_ahead_of(now)) =>
                {
                    Some("has times in the future")
                }
                () => None,
            };
            if let Some(problem) = problem {
                return Err(ImportStepError::Invalid(
                    format!("the check {:?} {problem}", imported.settings.name.as_str()).into(),
                ));
            }
            let own = imported
                .channels
                .iter()
                .map(|channel| channels.get(&(*project, *channel)).copied());
            let own = own
                .collect::<Option<BTreeSet<_>>>()
                .ok_or_else(|| invalid_import("a check has a channel that was not handed over"))?;
            let parents = parents.get(id).cloned().unwrap_or_default();
            if let NotificationState::Pending {
                at,
                reason: HoldReason::ParentDown(_),
            } = state.notification
            {
                let parent = imported
                    .down_parent
                    .and_then(|parent| sorted.check_id(*project, parent))
                    .filter(|parent| parents.ids().contains(parent));
                state.notification = NotificationState::Pending {
                    at,
                    reason: parent.map_or(HoldReason::ParentPending, HoldReason::ParentDown),
                };
            }
            let settings = CheckSettings {
                channels: own.into_iter().collect(),
                parents,
                ..imported.settings.clone()
            };
            state.last_flip = log.last_flip;
            (state.unused_since_import, state.imported_pings) = (true, state.n_pings);
            state.update_grace_start(&settings);
            let before = self
                .state
                .check_by_uuid(imported.uuid)
                .filter(|check| replaced.contains(check.project));
            let badge = imported
                .badge
                .or(before.map(|check| check.badge))
                .unwrap_or(*drawn);
            checks.push(Check {
                id: *id,
                uuid: imported.uuid,
                badge,
                project: *project,
                settings: Arc::new(settings),
                state,
                alerted_names: None,
            });
        }
        Ok(checks)
    }

    /// Channel as it will be stored, still with the project number of the import. A channel that
    /// came without all settings and was completed or enabled here stays so.
    fn build_channel(
        &self,
        id: ChannelId,
        project: ProjectId,
        imported: &ImportedChannel,
        replaced: &ReplacedProjects,
        now: Timestamp,
    ) -> Result<Channel, ImportStepError> {
        let (settings, kind) = match &imported.settings {
            ImportedSettings::Complete(settings) => (settings.clone(), None),
            ImportedSettings::Incomplete {
                kind,
                settings: given,
                ..
            } => {
                let settings = ChannelSettings::from_incomplete(kind, given.pairs())
                    .map_err(|error| ImportStepError::Invalid(error.to_string().into()))?;
                (settings, Some(kind.name))
            }
        };
        let past = |trouble: &Option<(Timestamp, Box<str>)>| {
            trouble
                .clone()
                .map(|(since, reason)| (since.min(now), reason))
        };
        let health = ChannelHealth {
            disabled: past(&imported.health.disabled),
            failing: past(&imported.health.failing),
            ..imported.health.clone()
        };
        let uuid = imported.uuid;
        let name = imported.name.clone();
        let operator = imported.set_by_operator;
        let channel = Channel {
            id,
            uuid,
            project,
            name,
            settings,
            set_by_operator: operator,
            health,
        };
        let completed = kind.and_then(|kind| {
            let of_replaced = replaced
                .numbers
                .keys()
                .filter_map(|id| self.state.project(*id));
            let before = of_replaced
                .flat_map(|project_state| project_state.channels.values())
                .find(|before| before.uuid == imported.uuid);
            before.filter(|before| {
                kind == before.settings.kind().name
                    && before.settings.missing_setting().is_none()
                    && !is_as_imported(before)
            })
        });
        Ok(match completed {
            Some(before) => Channel {
                settings: before.settings.clone(),
                set_by_operator: before.set_by_operator,
                health: before.health.clone(),
                ..channel
            },
            None => channel,
        })
    }

    /// Users of the import. Existing users stay as they are and get access to the projects.
    fn build_users<'a>(
        &self,
        sorted: &SortedImport<'a>,
        now: Timestamp,
    ) -> Result<Vec<(User, &'a ImportedUser)>, ImportStepError> {
        let new = |imported: &ImportedUser| self.state.users.by_name(&imported.name).is_none();
        if self.state.users.len() + sorted.users.iter().filter(|(.., user)| new(user)).count()
            > MAX_USERS
        {
            return Err(ImportStepError::TooLarge);
        }
        let user = |(id, uuid, imported): &(UserId, Uuid, &'a ImportedUser)| {
            let user = match self.state.users.by_name(&imported.name) {
                Some(user) => User::clone(user),
                None => User {
                    id: *id,
                    uuid: *uuid,
                    name: imported.name.clone(),
                    password: imported.password.clone(),
                    second_factor: imported.second_factor.clone(),
                    grant: if imported.owner {
                        Grant::Owner
                    } else {
                        Grant::Projects(ProjectMemberships::default())
                    },
                    preferences: imported.preferences.clone(),
                    created: imported.created.min(now),
                    disabled: imported.disabled,
                    browsers_trusted_since: now,
                },
            };
            (user, *imported)
        };
        Ok(sorted.users.iter().map(user).collect())
    }

    /// Grants a user access to the imported projects in `brought`. An import cannot grant access to
    /// other projects.
    fn grant_imported(
        &mut self,
        user: User,
        imported: &ImportedUser,
        brought: &HashMap<Uuid, ProjectId>,
    ) {
        let grant = match &user.grant {
            Grant::Owner => Grant::Owner,
            Grant::Projects(projects) => {
                let more = imported
                    .projects
                    .iter()
                    .filter_map(|(uuid, membership)| Some((*brought.get(uuid)?, *membership)));
                Grant::Projects(ProjectMemberships::new(projects.iter().chain(more)))
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
        let waiting = project_state
            .checks
            .iter()
            .flat_map(|check| outbox.rows_of_check(*check))
            .filter(|row| !outbox.is_sending(row.number));
        let waiting: Vec<_> = waiting.cloned().collect();
        let is_imported = |number: u64| numbers.contains(&number);
        let channels = project_state
            .channels
            .keys()
            .copied()
            .filter(|id| is_imported(id.0))
            .map(Change::ChannelGone);
        let keys = project_state
            .keys()
            .filter(|id| is_imported(id.0))
            .map(Change::KeyGone);
        let windows = project_state
            .windows
            .keys()
            .copied()
            .filter(|window| is_imported(window.0));
        let windows = windows.map(|window| Change::WindowGone(id, window));
        let checks = project_state.checks.iter().copied().map(Change::CheckGone);
        let gone: Vec<_> = checks.chain(channels).chain(keys).chain(windows).collect();
        waiting
            .iter()
            .for_each(|row| self.finish_row(row, DeliveryResult::Skipped, CHECK_REPLACED, now));
        gone.into_iter()
            .for_each(|change| self.record_change(change));
    }
}

/// True if the settings of a channel that an earlier import brought without all of them are
/// unchanged.
fn is_as_imported(channel: &Channel) -> bool {
    channel
        .health
        .disabled
        .as_ref()
        .is_some_and(|(_, reason)| reason.starts_with(ImportedSettings::DISABLED_REASON_PREFIX))
}

fn build_project(
    id: ProjectId,
    imported: &ImportedProject,
    numbers: Range<u64>,
    mode: ImportMode,
    now: Timestamp,
) -> Project {
    let (held, away) = match mode {
        ImportMode::Trial => (true, None),
        ImportMode::Live { newest } => (
            false,
            Some(Outage {
                from: newest.unwrap_or(now).min(now),
                to: now,
            }),
        ),
    };
    Project {
        id,
        uuid: imported.uuid,
        name: imported.name.clone(),
        check_limit: imported.check_limit,
        ping_log_limit: imported.ping_log_limit,
        badge_key: imported.badge_key.clone(),
        legacy_badge: imported.legacy_badge,
        import: Some(ProjectImport {
            id_range: numbers,
            is_on_trial: held,
            outage: away,
        }),
    }
}
