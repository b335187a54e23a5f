//! Builds checks, channels, users and projects of an import as they will be stored.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::{ReplacedProjects, invalid_import};
use crate::domain::alert::{ChannelHealth, HoldReason, NotificationState, Outage};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{ChannelId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::import_contents::{
    ImportedChannel, ImportedKey, ImportedProject, ImportedSettings, ImportedUser, ImportedWindow,
};
use crate::domain::import_item::{ImportMode, ProjectImport};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{Channel, KeySecret, KeyUse, Project, ProjectKey};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::{Grant, ProjectMemberships, User};
use crate::engine::apply::WorkingState;
use crate::engine::apply::import::sorted_import::SortedImport;
use crate::engine::apply::user::MAX_USERS;
use crate::engine::command::import::ImportStepError;
use crate::engine::state::OpenImport;

impl WorkingState {
    /// Checks as they will be stored, still with the project number of the import.
    pub(super) fn build_checks(
        &self,
        sorted: &SortedImport<'_>,
        open_import: &OpenImport,
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
        for (id, project, random_badge, imported) in &sorted.checks {
            let log = open_import.log_position(*id);
            let mut state = imported.state;
            let problem = match () {
                () if state.status == Status::Up && state.last_ping.is_none() => {
                    Some("is up, but was never pinged")
                }
                () if log.last_ping > state.n_pings => {
                    Some("has a ping whose number exceeds its number of pings")
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
            let check_channels = imported
                .channels
                .iter()
                .map(|channel| channels.get(&(*project, *channel)).copied());
            let check_channels =
                check_channels
                    .collect::<Option<BTreeSet<_>>>()
                    .ok_or_else(|| {
                        invalid_import(
                            "a check has a channel that the import does not \
                                              contain",
                        )
                    })?;
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
                channels: check_channels.into_iter().collect(),
                parents,
                ..imported.settings.clone()
            };
            state.last_flip = log.last_flip;
            (state.unused_since_import, state.imported_pings) = (true, state.n_pings);
            state.update_grace_start(&settings);
            let replaced_check = self
                .state
                .check_by_uuid(imported.uuid)
                .filter(|check| replaced.contains(check.project));
            let badge = imported
                .badge
                .or(replaced_check.map(|check| check.badge))
                .unwrap_or(*random_badge);
            checks.push(Check {
                id: *id,
                uuid: imported.uuid,
                badge,
                project: *project,
                settings: Arc::new(settings),
                state,
                alerted_labels: None,
            });
        }
        Ok(checks)
    }

    /// Channel as it will be stored, still with the project number of the import. A channel that
    /// came without all settings and was completed or enabled here stays so.
    pub(super) fn build_channel(
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
                settings: incomplete,
                ..
            } => {
                let settings = ChannelSettings::from_incomplete(kind, incomplete.pairs())
                    .map_err(|error| ImportStepError::Invalid(error.to_string().into()))?;
                (settings, Some(kind.name))
            }
        };
        let clamp_to_now = |issue: &Option<(Timestamp, Box<str>)>| {
            issue
                .clone()
                .map(|(since, reason)| (since.min(now), reason))
        };
        let health = ChannelHealth {
            disabled: clamp_to_now(&imported.health.disabled),
            failing: clamp_to_now(&imported.health.failing),
            ..imported.health.clone()
        };
        let uuid = imported.uuid;
        let name = imported.name.clone();
        let set_by_operator = imported.set_by_operator;
        let channel = Channel {
            id,
            uuid,
            project,
            name,
            settings,
            set_by_operator,
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
    pub(super) fn build_users<'a>(
        &self,
        sorted: &SortedImport<'a>,
        now: Timestamp,
    ) -> Result<Vec<(User, &'a ImportedUser)>, ImportStepError> {
        let is_new = |imported: &ImportedUser| self.state.users.by_name(&imported.name).is_none();
        if self.state.users.len()
            + sorted
                .users
                .iter()
                .filter(|(.., user)| is_new(user))
                .count()
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
                    passkeys: imported.passkeys.clone(),
                    identity: imported
                        .identity
                        .clone()
                        .filter(|identity| self.state.users.by_identity(identity).is_none()),
                    grant: if imported.owner {
                        Grant::Owner
                    } else {
                        Grant::Projects(ProjectMemberships::default())
                    },
                    preferences: imported.preferences.clone(),
                    summary: imported.summary.clone(),
                    created: imported.created.min(now),
                    disabled: imported.disabled,
                    browsers_trusted_since: now,
                },
            };
            (user, *imported)
        };
        Ok(sorted.users.iter().map(user).collect())
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

pub(super) fn build_key(
    id: KeyId,
    project: ProjectId,
    secret: KeySecret,
    imported: &ImportedKey,
    now: Timestamp,
) -> ProjectKey {
    ProjectKey {
        id,
        project,
        secret,
        label: imported.label.clone(),
        hint: imported.hint.clone(),
        created: imported.created.unwrap_or(now).min(now),
        last_use: imported.last_use.map(|used| KeyUse {
            at: used.at.min(now),
            ..used
        }),
    }
}

pub(super) fn build_window(
    id: WindowId,
    project: ProjectId,
    imported: &ImportedWindow,
) -> MaintenanceWindow {
    let ImportedWindow {
        uuid,
        name,
        tags,
        times,
        ..
    } = imported.clone();
    MaintenanceWindow {
        id,
        uuid,
        project,
        name,
        tags,
        times,
    }
}

pub(super) fn build_project(
    id: ProjectId,
    imported: &ImportedProject,
    numbers: Range<u64>,
    mode: ImportMode,
    now: Timestamp,
) -> Project {
    let (is_on_trial, outage) = match mode {
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
        allows_ping_settings: imported.allows_ping_settings,
        badge_key: imported.badge_key.clone(),
        legacy_badge: imported.legacy_badge,
        import: Some(ProjectImport {
            id_range: numbers,
            is_on_trial,
            outage,
        }),
        status_pages: imported.status_pages.clone(),
    }
}
