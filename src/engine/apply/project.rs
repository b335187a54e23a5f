//! Creates, changes and deletes projects, keys and channels.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::command::{CommandError, CommandOutcome, NewChannel, NewKey, NewProject};
use super::super::state::Change;
use super::{ApplyResult, WorkingState};
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelSettings, SettingsAuthor, SettingsUpdate};
use crate::domain::ids::{ChannelId, KeyId, ProjectId};
use crate::domain::project::{
    Channel, ChannelName, KeyAccess, KeyLabel, KeySecret, KeyUse, Project, ProjectKey, ProjectName,
    SecretHash,
};
use crate::domain::timestamp::Timestamp;

/// Maximum number of checks of deleted projects whose rows are removed in one batch: see
/// [limits](crate::docs::limits).
const MAX_ORPHANED_CHECKS: usize = 512;
/// Maximum number of channels of a project that the API creates: see [limits](crate::docs::limits).
const MAX_CHANNELS: usize = 1000;
/// Maximum number of keys of a project, of all kinds together: see [limits](crate::docs::limits).
const MAX_KEYS: usize = 1000;

impl WorkingState {
    pub(super) fn create_project(&mut self, request: NewProject) -> ApplyResult {
        let NewProject {
            uuid,
            name,
            check_limit,
            ping_log_limit,
            badge_key,
        } = request;
        self.ensure_project_name_free(&name)?;
        let id = ProjectId(self.next_id());
        Ok(self.put_project(Project {
            id,
            uuid,
            name,
            check_limit,
            ping_log_limit,
            allows_ping_settings: false,
            badge_key,
            legacy_badge: None,
            import: None,
            status_pages: Vec::new(),
        }))
    }

    pub(super) fn update_project(
        &mut self,
        id: ProjectId,
        name: Option<ProjectName>,
        check_limit: Option<Option<u32>>,
        ping_log_limit: Option<u32>,
        allows_ping_settings: Option<bool>,
    ) -> ApplyResult {
        let mut project = Project::clone(
            &self
                .state
                .project(id)
                .ok_or(CommandError::NotFound)?
                .project,
        );
        if let Some(name) = name.filter(|name| *name != project.name) {
            self.ensure_project_name_free(&name)?;
            project.name = name;
        }
        project.check_limit = check_limit.unwrap_or(project.check_limit);
        project.ping_log_limit = ping_log_limit.unwrap_or(project.ping_log_limit);
        project.allows_ping_settings = allows_ping_settings.unwrap_or(project.allows_ping_settings);
        Ok(self.put_project(project))
    }

    /// Deletes a project. Its checks disappear at once; their rows are removed a few at a time.
    pub(super) fn delete_project(&mut self, id: ProjectId) -> ApplyResult {
        let project_state = self.state.project(id).ok_or(CommandError::NotFound)?;
        let channels = project_state
            .channels
            .keys()
            .copied()
            .map(Change::ChannelDeleted);
        let keys = project_state.keys().map(Change::KeyDeleted);
        let windows = project_state
            .windows
            .keys()
            .map(|window| Change::WindowDeleted(id, *window));
        let changes: Vec<_> = channels
            .chain(keys)
            .chain(windows)
            .chain([Change::ProjectDeleted(id)])
            .collect();
        self.audience_states.remove_project(id);
        changes
            .into_iter()
            .for_each(|change| self.record_change(change));
        Ok(CommandOutcome::Completed)
    }

    pub(super) fn remove_orphans(&mut self, now: Timestamp) -> CommandOutcome {
        let ids: Vec<_> = self
            .state
            .orphans()
            .iter()
            .copied()
            .take(MAX_ORPHANED_CHECKS)
            .collect();
        for id in ids {
            self.record_change(Change::CheckDeleted(id));
        }
        self.remove_unsendable(now);
        CommandOutcome::Completed
    }

    pub(super) fn create_key(&mut self, request: NewKey, now: Timestamp) -> ApplyResult {
        // Each key has a rate limit of its own.
        if self
            .state
            .project(request.project)
            .ok_or(CommandError::NotFound)?
            .key_count()
            >= MAX_KEYS
        {
            return Err(CommandError::KeyLimitReached);
        }
        let id = KeyId(self.next_id());
        Ok(CommandOutcome::Key(Box::new(
            self.insert_key(id, request, now),
        )))
    }

    pub(super) fn insert_key(&mut self, id: KeyId, request: NewKey, now: Timestamp) -> ProjectKey {
        let NewKey {
            project,
            secret,
            label,
            hint,
        } = request;
        let key = ProjectKey {
            id,
            project,
            secret,
            label,
            hint,
            created: now,
            last_use: None,
        };
        self.record_change(Change::Key(Arc::new(key.clone())));
        key
    }

    pub(super) fn rename_key(&mut self, id: KeyId, label: KeyLabel) -> ApplyResult {
        let key = ProjectKey {
            label,
            ..ProjectKey::clone(self.state.key(id).ok_or(CommandError::NotFound)?)
        };
        self.record_change(Change::Key(Arc::new(key.clone())));
        Ok(CommandOutcome::Key(Box::new(key)))
    }

    pub(super) fn record_key_uses(&mut self, uses: Vec<(KeyId, KeyUse)>) -> CommandOutcome {
        for (id, KeyUse { at, from }) in uses {
            self.record_key_use(id, at, from);
        }
        CommandOutcome::Completed
    }

    pub(super) fn record_key_use(&mut self, id: KeyId, at: Timestamp, from: IpAddr) {
        if let Some(key) = self.state.key(id).filter(|key| !key.is_use_recorded(at)) {
            let key = ProjectKey {
                last_use: Some(KeyUse { at, from }),
                ..ProjectKey::clone(key)
            };
            self.record_change(Change::Key(Arc::new(key)));
        }
    }

    /// Sets the hash of a key of another server, unless another key has this hash by now.
    pub(super) fn rehash_key(&mut self, id: KeyId, hash: SecretHash) -> CommandOutcome {
        if let Some(key) = self.state.key(id)
            && let KeySecret::Legacy(_) = key.secret
            && self.state.key_by_hash(&hash).is_none()
        {
            let secret = if key.secret.access() == KeyAccess::ReadOnly {
                KeySecret::ReadOnly(hash)
            } else {
                KeySecret::ReadWrite(hash)
            };
            let key = ProjectKey {
                secret,
                ..ProjectKey::clone(key)
            };
            self.record_change(Change::Key(Arc::new(key)));
        }
        CommandOutcome::Completed
    }

    pub(super) fn prune_legacy_secrets(&mut self) -> CommandOutcome {
        if let Some(kept) = self.state.legacy_secrets_in_use() {
            self.record_change(Change::LegacySecrets(Arc::new(kept)));
        }
        CommandOutcome::Completed
    }

    pub(super) fn revoke_key(&mut self, id: KeyId) -> ApplyResult {
        self.state.key(id).ok_or(CommandError::NotFound)?;
        self.record_change(Change::KeyDeleted(id));
        Ok(CommandOutcome::Completed)
    }

    pub(super) fn create_channel(&mut self, request: NewChannel) -> ApplyResult {
        let NewChannel {
            uuid,
            project,
            name,
            settings,
            set_by_operator,
        } = request;
        let channels = self
            .state
            .project(project)
            .ok_or(CommandError::NotFound)?
            .channels
            .len();
        if !set_by_operator && channels >= MAX_CHANNELS {
            return Err(CommandError::ChannelLimitReached);
        }
        let settings = self.resolve_group_members(project, &settings, None)?;
        let id = ChannelId(self.next_id());
        Ok(self.put_channel(Channel {
            id,
            uuid,
            project,
            name,
            settings,
            set_by_operator,
            health: ChannelHealth::default(),
        }))
    }

    /// Changes a channel. Settings reserved for the operator are refused to other authors, unless
    /// the channel has them already.
    pub(super) fn update_channel(
        &mut self,
        id: ChannelId,
        name: Option<ChannelName>,
        settings: Option<SettingsUpdate>,
        author: SettingsAuthor,
    ) -> ApplyResult {
        let channel = self.state.channel(id).ok_or(CommandError::NotFound)?;
        let mut channel = Channel::clone(channel);
        channel.name = name.unwrap_or(channel.name);
        if let Some(update) = settings {
            let settings = update
                .apply_to(&channel.settings)
                .map_err(CommandError::InvalidSettings)?;
            let settings =
                self.resolve_group_members(channel.project, &settings, Some(&channel.settings))?;
            if settings != channel.settings {
                settings
                    .validate_author(author)
                    .map_err(CommandError::InvalidSettings)?;
            }
            channel.replace_settings(settings, author);
        }
        Ok(self.put_channel(channel))
    }

    /// Adopts a setting that the receiver asks for. It has no author, so the restrictions on
    /// authors do not apply.
    pub(super) fn adopt_setting(
        &mut self,
        sent_to: &Channel,
        key: &'static str,
        value: &str,
    ) -> ApplyResult {
        let channel = self
            .state
            .channel(sent_to.id)
            .ok_or(CommandError::NotFound)?;
        if channel.settings != sent_to.settings {
            return Ok(CommandOutcome::Completed);
        }
        let settings = channel
            .settings
            .with_value(key, value)
            .map_err(CommandError::InvalidSettings)?;
        let health = ChannelHealth {
            disabled: None,
            failing: None,
            ..channel.health.clone()
        };
        let channel = Channel {
            settings,
            health,
            ..Channel::clone(channel)
        };
        Ok(self.put_channel(channel))
    }

    /// Settings with the UUIDs of the members of a group in place of their names. Members that
    /// `stored` lists stay as they are.
    fn resolve_group_members(
        &self,
        project: ProjectId,
        settings: &ChannelSettings,
        stored: Option<&ChannelSettings>,
    ) -> Result<ChannelSettings, CommandError> {
        let resolved =
            settings.with_resolved_members(stored, |text| self.state.find_member(project, text));
        resolved
            .map(Cow::into_owned)
            .map_err(CommandError::InvalidSettings)
    }

    /// Deletes a channel and removes it from groups. Checks keep its number until they are written
    /// for another reason. The number is not shown and never reused.
    pub(super) fn delete_channel(&mut self, id: ChannelId) -> ApplyResult {
        let channel = Arc::clone(self.state.channel(id).ok_or(CommandError::NotFound)?);
        self.change_channel(&channel, |working| {
            let groups: Vec<_> = working.state.groups_of(&channel).cloned().collect();
            for group in groups {
                let settings = group
                    .settings
                    .with_retained_members(|member| member != channel.uuid)
                    .into_owned();
                working.record_change(Change::Channel(Arc::new(Channel {
                    settings,
                    ..Channel::clone(&group)
                })));
            }
            working.record_change(Change::ChannelDeleted(id));
        });
        Ok(CommandOutcome::Completed)
    }

    fn ensure_project_name_free(&self, name: &ProjectName) -> Result<(), CommandError> {
        if self
            .state
            .projects()
            .any(|project_state| project_state.project.name == *name)
        {
            Err(CommandError::ProjectNameTaken)
        } else {
            Ok(())
        }
    }

    pub(super) fn put_project(&mut self, project: Project) -> CommandOutcome {
        self.record_change(Change::Project(Arc::new(project.clone())));
        CommandOutcome::Project(Box::new(project))
    }

    pub(super) fn put_channel(&mut self, channel: Channel) -> CommandOutcome {
        let new = Change::Channel(Arc::new(channel.clone()));
        self.change_channel(&channel, |working| working.record_change(new));
        CommandOutcome::Channel(Box::new(channel))
    }
}
