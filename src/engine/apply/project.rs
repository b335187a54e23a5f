//! Projects, keys and channels: made and removed by whoever administers the service.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::command::{NewChannel, NewKey, NewProject, Outcome, Refusal};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelSettings, GivenSettings, Maker};
use crate::domain::ids::{ChannelId, KeyId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::project::{Access, Channel, ChannelName, Key, KeyHash, KeyLabel, KeyUse, Project, ProjectName, Secret};

/// Checks of a project that is gone whose rows are removed in one batch: see [limits](crate::docs::limits).
const MOST_ORPHANS: usize = 512;
/// Channels of a project beyond which the API makes no more: see [limits](crate::docs::limits).
const MOST_CHANNELS: usize = 1000;
/// Keys of a project, of all kinds together: see [limits](crate::docs::limits).
const MOST_KEYS: usize = 1000;

impl WorkingState {
    pub(super) fn create_project(&mut self, request: NewProject) -> Applied {
        let NewProject { uuid, name, check_limit, ping_log_limit, badge_key } = request;
        self.free_name(&name)?;
        let id = ProjectId(self.next_id());
        Ok(self.put_project(Project { id, uuid, name, check_limit, ping_log_limit, badge_key, old_badge: None, import: None }))
    }

    pub(super) fn set_project(
        &mut self,
        id: ProjectId,
        name: Option<ProjectName>,
        check_limit: Option<Option<u32>>,
        ping_log_limit: Option<u32>,
    ) -> Applied {
        let mut project = Project::clone(&self.state.project(id).ok_or(Refusal::NotFound)?.project);
        if let Some(name) = name.filter(|name| *name != project.name) {
            self.free_name(&name)?;
            project.name = name;
        }
        project.check_limit = check_limit.unwrap_or(project.check_limit);
        project.ping_log_limit = ping_log_limit.unwrap_or(project.ping_log_limit);
        Ok(self.put_project(project))
    }

    /// Its checks are gone for everybody from here on; their rows go a few at a time.
    pub(super) fn delete_project(&mut self, id: ProjectId) -> Applied {
        let project_state = self.state.project(id).ok_or(Refusal::NotFound)?;
        let channels = project_state.channels.keys().copied().map(Change::ChannelGone);
        let keys = project_state.keys().map(Change::KeyGone);
        let windows = project_state.windows.keys().map(|window| Change::WindowGone(id, *window));
        let gone: Vec<_> = channels.chain(keys).chain(windows).chain([Change::ProjectGone(id)]).collect();
        self.audience_notes.forget_project(id);
        gone.into_iter().for_each(|change| self.change(change));
        Ok(Outcome::Done)
    }

    pub(super) fn remove_orphans(&mut self, now: Moment) -> Outcome {
        let gone: Vec<_> = self.state.orphans().iter().copied().take(MOST_ORPHANS).collect();
        for id in gone {
            self.change(Change::CheckGone(id));
        }
        self.remove_unsendable(now);
        Outcome::Done
    }

    pub(super) fn create_key(&mut self, request: NewKey, now: Moment) -> Applied {
        // Each has a rate of its own.
        if self.state.project(request.project).ok_or(Refusal::NotFound)?.key_count() >= MOST_KEYS {
            return Err(Refusal::KeyLimit);
        }
        let id = KeyId(self.next_id());
        Ok(Outcome::Key(Box::new(self.insert_key(id, request, now))))
    }

    pub(super) fn insert_key(&mut self, id: KeyId, request: NewKey, now: Moment) -> Key {
        let NewKey { project, secret, label, hint } = request;
        let key = Key { id, project, secret, label, hint, created: now, used: None };
        self.change(Change::Key(Arc::new(key.clone())));
        key
    }

    pub(super) fn set_key(&mut self, id: KeyId, label: KeyLabel) -> Applied {
        let key = Key { label, ..Key::clone(self.state.key(id).ok_or(Refusal::NotFound)?) };
        self.change(Change::Key(Arc::new(key.clone())));
        Ok(Outcome::Key(Box::new(key)))
    }

    pub(super) fn note_key_uses(&mut self, uses: Vec<(KeyId, KeyUse)>) -> Outcome {
        for (id, KeyUse { at, from }) in uses {
            self.note_key_use(id, at, from);
        }
        Outcome::Done
    }

    pub(super) fn note_key_use(&mut self, id: KeyId, at: Moment, from: IpAddr) {
        if let Some(key) = self.state.key(id).filter(|key| !key.is_noted(at)) {
            let key = Key { used: Some(KeyUse { at, from }), ..Key::clone(key) };
            self.change(Change::Key(Arc::new(key)));
        }
    }

    /// Nobody else has the hash, unless it was made a key of its own meanwhile.
    pub(super) fn rehash_key(&mut self, id: KeyId, hash: KeyHash) -> Outcome {
        if let Some(key) = self.state.key(id)
            && let Secret::Hashed(_) = key.secret
            && self.state.key_by_hash(&hash).is_none()
        {
            let secret = if key.secret.access() == Access::ReadOnly { Secret::ReadOnly(hash) } else { Secret::ReadWrite(hash) };
            let key = Key { secret, ..Key::clone(key) };
            self.change(Change::Key(Arc::new(key)));
        }
        Outcome::Done
    }

    pub(super) fn forget_secrets(&mut self) -> Outcome {
        if let Some(kept) = self.state.secrets_to_keep() {
            self.change(Change::Adopted(Arc::new(kept)));
        }
        Outcome::Done
    }

    pub(super) fn revoke_key(&mut self, id: KeyId) -> Applied {
        self.state.key(id).ok_or(Refusal::NotFound)?;
        self.change(Change::KeyGone(id));
        Ok(Outcome::Done)
    }

    pub(super) fn create_channel(&mut self, request: NewChannel) -> Applied {
        let NewChannel { uuid, project, name, settings, operator } = request;
        let channels = self.state.project(project).ok_or(Refusal::NotFound)?.channels.len();
        if !operator && channels >= MOST_CHANNELS {
            return Err(Refusal::ChannelLimit);
        }
        let settings = self.with_members_found(project, &settings, None)?;
        let id = ChannelId(self.next_id());
        Ok(self.put_channel(Channel { id, uuid, project, name, settings, operator, health: ChannelHealth::default() }))
    }

    /// What only the operator may set is refused to others, unless it is there already.
    pub(super) fn set_channel(
        &mut self,
        id: ChannelId,
        name: Option<ChannelName>,
        settings: Option<GivenSettings>,
        maker: Maker,
    ) -> Applied {
        let channel = self.state.channel(id).ok_or(Refusal::NotFound)?;
        let mut channel = Channel::clone(channel);
        channel.name = name.unwrap_or(channel.name);
        if let Some(given) = settings {
            let settings = given.applied(&channel.settings).map_err(Refusal::Settings)?;
            let settings = self.with_members_found(channel.project, &settings, Some(&channel.settings))?;
            if settings != channel.settings {
                settings.allowed_by(maker).map_err(Refusal::Settings)?;
            }
            channel.give(settings, maker);
        }
        Ok(self.put_channel(channel))
    }

    /// Nobody gives this setting, so that nothing is allowed or forbidden in anyone's name.
    pub(super) fn adopt_setting(&mut self, sent_to: &Channel, key: &'static str, value: &str) -> Applied {
        let channel = self.state.channel(sent_to.id).ok_or(Refusal::NotFound)?;
        if channel.settings != sent_to.settings {
            return Ok(Outcome::Done);
        }
        let settings = channel.settings.with(key, value).map_err(Refusal::Settings)?;
        let health = ChannelHealth { disabled: None, failing: None, ..channel.health.clone() };
        let channel = Channel { settings, health, ..Channel::clone(channel) };
        Ok(self.put_channel(channel))
    }

    /// Settings with the UUIDs of the members of a group in place of their names. Members that `stored` lists stay as they are.
    fn with_members_found(
        &self,
        project: ProjectId,
        settings: &ChannelSettings,
        stored: Option<&ChannelSettings>,
    ) -> Result<ChannelSettings, Refusal> {
        let found = settings.with_members_found(stored, |text| self.state.find_member(project, text));
        found.map(Cow::into_owned).map_err(Refusal::Settings)
    }

    /// Checks that are assigned to it keep its number until they are written for another reason. Nobody sees it, and no other channel
    /// ever gets it. Groups lose it.
    pub(super) fn delete_channel(&mut self, id: ChannelId) -> Applied {
        let channel = Arc::clone(self.state.channel(id).ok_or(Refusal::NotFound)?);
        self.change_channel(&channel, |working| {
            let groups: Vec<_> = working.state.groups_of(&channel).cloned().collect();
            for group in groups {
                let settings = group.settings.with_members_kept(|member| member != channel.uuid).into_owned();
                working.change(Change::Channel(Arc::new(Channel { settings, ..Channel::clone(&group) })));
            }
            working.change(Change::ChannelGone(id));
        });
        Ok(Outcome::Done)
    }

    fn free_name(&self, name: &ProjectName) -> Result<(), Refusal> {
        if self.state.projects().any(|project_state| project_state.project.name == *name) { Err(Refusal::ProjectNameTaken) } else { Ok(()) }
    }

    pub(super) fn put_project(&mut self, project: Project) -> Outcome {
        self.change(Change::Project(Arc::new(project.clone())));
        Outcome::Project(Box::new(project))
    }

    pub(super) fn put_channel(&mut self, channel: Channel) -> Outcome {
        let new = Change::Channel(Arc::new(channel.clone()));
        self.change_channel(&channel, |working| working.change(new));
        Outcome::Channel(Box::new(channel))
    }
}
