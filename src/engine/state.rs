//! All checks, projects, keys and channels in memory, with the lookups that doors and commands need.
//!
//! Two of these exist: the writer's own, which a batch changes as it goes, and the published one, which takes over the same
//! [`ImportedChange`]s after the commit. So nothing that is read is ahead of the file.

mod audience;
mod change;
mod children;
mod command_project;
mod declared;
mod imports;
mod keys;
mod outbox;
mod project;
mod unique;
mod users;
mod windows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

// For what we have drawn or counted ourselves. Slugs and names come from outside and have the hasher that withstands chosen keys.
use foldhash::fast::RandomState;
use uuid::Uuid;

use super::command::{CommandError, PingTarget};
use crate::domain::alert::Outage;
use crate::domain::check::Check;
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, WindowId};
use crate::domain::legacy_keys::LegacySecrets;
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{BadgeSecret, Channel, Project};
use crate::domain::text::Slug;
use audience::GroupIndex;
pub(in crate::engine) use audience::choose_member;
pub use audience::{AudienceMembership, UnnotifiedReason};
pub use change::Change;
use children::{ChildIndex, HiddenChecks};
pub use declared::DeclaredObjects;
pub use imports::{ImportChange, ImportLogPosition, OpenImport, OpenImports};
use keys::KeyIndex;
pub use outbox::Outbox;
use unique::UniqueIndexes;
pub use users::{UserChange, UserIndex};
use windows::WindowPhases;

/// A project with what belongs to it.
#[derive(Clone, Debug)]
pub struct ProjectState {
    /// The project itself.
    pub project: Arc<Project>,
    /// Its checks, oldest first.
    pub checks: BTreeSet<CheckId>,
    /// Its channels, oldest first.
    pub channels: BTreeMap<ChannelId, Arc<Channel>>,
    /// Its maintenance windows, oldest first.
    pub windows: BTreeMap<WindowId, Arc<MaintenanceWindow>>,
    /// Which of its windows are open; empty in the published state.
    window_phases: WindowPhases,
    /// Its checks by slug; those without one are not here.
    slugs: HashMap<Slug, Vec<CheckId>>,
    /// Its checks by what requests with `unique` list; empty in the published state, where nobody asks.
    uniques: UniqueIndexes,
    /// Its checks by those that they depend on.
    children: ChildIndex,
    /// Its checks that are held behind a parent.
    hidden_checks: HiddenChecks,
    /// Which of its channels its groups stand for.
    groups: GroupIndex,
    /// Its checks of which somebody was told that they are down.
    alerted_down: BTreeSet<CheckId>,
    /// Its keys.
    keys: BTreeSet<KeyId>,
    /// Counts the changes of its checks and channels, pings included.
    pub version: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct State {
    checks: HashMap<CheckId, Check, RandomState>,
    by_uuid: HashMap<Uuid, CheckId, RandomState>,
    by_badge: HashMap<Uuid, CheckId, RandomState>,
    /// Checks whose project is gone: nobody sees them, and they are removed a few at a time.
    orphans: BTreeSet<CheckId>,
    /// Those projects: their look-ups are taken down with the checks, since that takes a while, too.
    deleted_projects: BTreeMap<ProjectId, ProjectState>,
    projects: BTreeMap<ProjectId, ProjectState>,
    by_badge_key: HashMap<Box<str>, ProjectId>,
    by_channel: HashMap<ChannelId, ProjectId, RandomState>,
    /// What waits to be sent.
    pub outbox: Outbox,
    /// The last times in which no pings could be taken, oldest first.
    pub outages: Arc<[Outage]>,
    /// Channels that are gone or disabled, for which something waits: it is removed a few rows at a time.
    unsendable_channels: BTreeSet<ChannelId>,
    keys: KeyIndex,
    /// Secrets of other servers, which keys need that nobody has used here yet.
    pub legacy_secrets: Arc<LegacySecrets>,
    /// Who may sign in.
    pub users: UserIndex,
    /// What files own.
    pub declared: DeclaredObjects,
    /// Imports under way.
    pub imports: OpenImports,
    /// What signs badge URLs; `None` only until a new database has been given one.
    pub badge_secret: Option<BadgeSecret>,
    /// What tells this database from every other one; `None` only until it has been given one.
    pub instance_id: Option<[u8; 4]>,
    /// Drawn at random whenever the state is read from the file: the versions of projects count anew from there.
    pub epoch: u64,
}

impl State {
    /// A check by its number.
    pub fn check(&self, id: CheckId) -> Option<&Check> {
        self.checks.get(&id).filter(|_| self.orphans.is_empty() || !self.orphans.contains(&id))
    }

    /// A check by its UUID.
    pub fn check_by_uuid(&self, uuid: Uuid) -> Option<&Check> {
        self.check(*self.by_uuid.get(&uuid)?)
    }

    /// A check by its badge UUID.
    pub fn check_by_badge(&self, badge: Uuid) -> Option<&Check> {
        self.check(*self.by_badge.get(&badge)?)
    }

    /// Every check, in the order of projects and then of age.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.projects.keys().flat_map(|project| self.checks_of(*project))
    }

    /// How many checks there are.
    pub fn check_count(&self) -> usize {
        self.checks.len() - self.orphans.len()
    }

    /// Whether rows are still to be removed because what they belong to is gone.
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty() || !self.unsendable_channels.is_empty()
    }

    /// Checks whose rows are still to be removed, since their project is gone.
    pub fn orphans(&self) -> &BTreeSet<CheckId> {
        &self.orphans
    }

    /// A project with what belongs to it.
    pub fn project(&self, id: ProjectId) -> Option<&ProjectState> {
        self.projects.get(&id)
    }

    /// Every project, oldest first.
    pub fn projects(&self) -> impl Iterator<Item = &ProjectState> {
        self.projects.values()
    }

    /// A project by its segment in badge URLs.
    pub fn project_by_badge_key(&self, badge_key: &str) -> Option<ProjectId> {
        self.by_badge_key.get(badge_key).copied()
    }

    /// The channel of this number.
    pub fn channel(&self, id: ChannelId) -> Option<&Arc<Channel>> {
        self.project(*self.by_channel.get(&id)?)?.channels.get(&id)
    }

    /// The channels that a check is assigned to. A channel that is gone may stand in its settings until those are written again.
    pub fn channels_of<'a>(&'a self, check: &'a Check) -> impl Iterator<Item = &'a Arc<Channel>> {
        let channels = self.project(check.project).map(|project_state| &project_state.channels);
        channels.into_iter().flat_map(|channels| check.settings.channels.iter().filter_map(|id| channels.get(id)))
    }

    /// The oldest check of a project that equals a request on all of `fields`, which are in order and each once. The first request for
    /// a list of fields makes an index of the checks by them.
    pub fn check_by_unique(&mut self, project: ProjectId, edit: &CheckEdit, fields: &[UniqueField]) -> Option<CheckId> {
        let Self { projects, checks, .. } = self;
        let ProjectState { checks: own, uniques, slugs, .. } = projects.get_mut(&project)?;
        let slug = edit.slug.as_ref().filter(|slug| !slug.is_empty());
        if let ([UniqueField::Slug], Some(slug)) = (fields, slug) {
            return slugs.get(slug)?.first().copied();
        }
        let own = own.iter().filter_map(|id| checks.get(id));
        let equal = |id: &CheckId| checks.get(id).is_some_and(|check| edit.matches_unique(&check.settings, fields));
        uniques.candidates(edit, fields, own).find(equal)
    }

    /// The checks of a project, oldest first.
    pub fn checks_of(&self, project: ProjectId) -> impl Iterator<Item = &Check> {
        self.checks_after(project, None)
    }

    /// The checks of a project that are younger than this one, oldest first.
    pub fn checks_after(&self, project: ProjectId, older: Option<CheckId>) -> impl Iterator<Item = &Check> {
        let from = older.map_or(Bound::Unbounded, Bound::Excluded);
        let project_state = self.project(project).into_iter();
        project_state.flat_map(move |project_state| project_state.checks.range((from, Bound::Unbounded))).filter_map(|id| self.check(*id))
    }

    /// The checks of a project that have this slug, oldest first; none for the empty slug.
    pub fn checks_by_slug(&self, project: ProjectId, slug: &Slug) -> &[CheckId] {
        self.project(project).and_then(|project_state| project_state.slugs.get(slug)).map_or(&[], Vec::as_slice)
    }

    /// The check that a ping is for; `None`: its slug is free in the project of its key.
    ///
    /// # Errors
    /// When the UUID or the key is unknown, or several checks have the slug.
    pub fn find_ping_target(&self, target: &PingTarget) -> Result<Option<CheckId>, CommandError> {
        match target {
            PingTarget::Uuid(uuid) => self.check_by_uuid(*uuid).map(|check| Some(check.id)).ok_or(CommandError::NotFound),
            PingTarget::Slug { key, slug, .. } => {
                let project = self.project_by_ping_key(key).ok_or(CommandError::NotFound)?;
                match self.checks_by_slug(project, slug) {
                    [] => Ok(None),
                    [id] => Ok(Some(*id)),
                    _ => Err(CommandError::AmbiguousSlug),
                }
            }
        }
    }

    /// How many pings of a check are kept.
    pub fn ping_log_limit(&self, project: ProjectId) -> u64 {
        self.project(project).map_or(0, |project_state| u64::from(project_state.project.ping_log_limit))
    }

    /// Whether ping `n` of a check is within its log limit; of a check that is gone none is.
    pub fn is_ping_kept(&self, check: CheckId, n: u64) -> bool {
        n >= self.first_kept_ping(check)
    }

    /// The oldest ping of a check that is within its log limit; above all pings if the check is gone. One that is being imported keeps all.
    pub fn first_kept_ping(&self, id: CheckId) -> u64 {
        match self.check(id) {
            Some(check) => check.state.n_pings.saturating_sub(self.ping_log_limit(check.project)) + 1,
            None if self.imports.contains_check(id) => 0,
            None => u64::MAX,
        }
    }

    /// Makes a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Pinged { id, state, .. } => {
                if let Some(check) = self.checks.get_mut(id) {
                    debug_assert_eq!(check.state.notification, state.notification, "only a row of the check says what was told: {id:?}");
                    check.state = *state;
                    if let Some(project_state) = self.projects.get_mut(&check.project) {
                        project_state.version += 1;
                        project_state.update_alert_indexes(check);
                    }
                }
            }
            Change::Check(check) => self.put_check(check),
            Change::CheckGone(id) => self.remove_check(*id),
            Change::Source(id, source) => self.declared.put(*id, source.as_ref()),
            Change::Project(project) => self.put_project(project),
            Change::ProjectGone(id) => {
                if let Some(mut project_state) = self.projects.remove(id) {
                    self.by_badge_key.remove(&project_state.project.badge_key);
                    if !project_state.checks.is_empty() {
                        self.orphans.append(&mut project_state.checks);
                        self.deleted_projects.insert(*id, project_state);
                    }
                }
            }
            Change::Key(key) => {
                if let Some(project_state) = self.projects.get_mut(&key.project) {
                    project_state.keys.insert(key.id);
                }
                self.keys.put(key);
            }
            Change::KeyGone(id) => {
                self.remove_key(*id);
                self.declared.put(id.0, None);
            }
            Change::Channel(channel) => {
                if let Some(project_state) = self.projects.get_mut(&channel.project) {
                    let old = project_state.channels.insert(channel.id, Arc::clone(channel));
                    project_state.groups.put(old.as_deref(), Some(channel));
                    // Nobody is shown what exactly goes wrong with a channel: whoever polls lists need not read them anew for that.
                    if old.is_none_or(|old| !old.looks_same_as(channel)) {
                        project_state.version += 1;
                    }
                    self.by_channel.insert(channel.id, channel.project);
                }
                self.update_unsendable_channel(channel.id);
            }
            Change::Window(window) => {
                if let Some(project_state) = self.projects.get_mut(&window.project) {
                    project_state.windows.insert(window.id, Arc::clone(window));
                    project_state.window_phases.remove(window.id);
                }
            }
            Change::WindowGone(project, id) => {
                if let Some(project_state) = self.projects.get_mut(project) {
                    project_state.windows.remove(id);
                    project_state.window_phases.remove(*id);
                }
                self.declared.put(id.0, None);
            }
            Change::Import(change, at) => self.imports.apply(change, *at),
            Change::Outages(away) => self.outages = Arc::clone(away),
            Change::Queued(row) => {
                self.outbox.put(row, self.by_channel.get(&row.channel).copied());
                self.update_unsendable_channel(row.channel);
            }
            Change::Unqueued(number) => {
                if let Some(channel) = self.outbox.remove(*number) {
                    self.update_unsendable_channel(channel);
                }
            }
            Change::User(change) => {
                self.users.apply(change);
                if let UserChange::UserGone(id) = change {
                    self.declared.put(id.0, None);
                }
            }
            Change::LegacySecrets(adopted) => self.legacy_secrets = Arc::clone(adopted),
            Change::BadgeSecret(secret) => self.badge_secret = Some(*secret),
            Change::Instance(instance) => self.instance_id = Some(*instance),
            Change::ChannelGone(id) => {
                if let Some(project_state) = self.by_channel.remove(id).and_then(|project| self.projects.get_mut(&project)) {
                    let old = project_state.channels.remove(id);
                    project_state.groups.put(old.as_deref(), None);
                    project_state.version += 1;
                }
                self.update_unsendable_channel(*id);
                self.declared.put(id.0, None);
            }
        }
    }

    fn put_check(&mut self, check: &Check) {
        let old = self.checks.insert(check.id, check.clone());
        let Some(project_state) = self.projects.get_mut(&check.project) else {
            // Its row was not removed yet when the service stopped.
            self.orphans.insert(check.id);
            return;
        };
        project_state.version += 1;
        project_state.update_alert_indexes(check);
        let old = old.as_ref().map(|old| &*old.settings);
        if old.is_none() {
            project_state.checks.insert(check.id);
            self.by_uuid.insert(check.uuid, check.id);
            self.by_badge.insert(check.badge, check.id);
        }
        if old.is_none_or(|old| !std::ptr::eq(old, &*check.settings)) {
            project_state.update_lookups(check.id, old, Some(&check.settings));
        }
    }

    fn remove_check(&mut self, id: CheckId) {
        let is_orphan = self.orphans.remove(&id);
        self.declared.put(id.0, None);
        let Some(check) = self.checks.remove(&id) else { return };
        for (index, name) in [(&mut self.by_uuid, check.uuid), (&mut self.by_badge, check.badge)] {
            // Another check may have got the name of an orphan.
            if index.get(&name) == Some(&id) {
                index.remove(&name);
            }
        }
        let projects = if is_orphan { &mut self.deleted_projects } else { &mut self.projects };
        if let Some(project_state) = projects.get_mut(&check.project) {
            project_state.version += 1;
            project_state.checks.remove(&id);
            project_state.alerted_down.remove(&id);
            project_state.hidden_checks.update(id, None);
            project_state.update_lookups(id, Some(&check.settings), None);
        }
        if self.orphans.is_empty() {
            self.deleted_projects.clear();
        }
    }

    fn remove_key(&mut self, id: KeyId) {
        let Some(key) = self.keys.remove(id) else { return };
        if let Some(project_state) = self.projects.get_mut(&key.project) {
            project_state.keys.remove(&id);
        }
    }

    fn put_project(&mut self, project: &Arc<Project>) {
        if let Some(project_state) = self.projects.get_mut(&project.id) {
            let old = std::mem::replace(&mut project_state.project, Arc::clone(project));
            project_state.version += 1;
            if old.badge_key != project.badge_key {
                self.by_badge_key.remove(&old.badge_key);
                self.by_badge_key.insert(project.badge_key.clone(), project.id);
            }
        } else {
            let project_state = ProjectState {
                project: Arc::clone(project),
                checks: BTreeSet::new(),
                channels: BTreeMap::new(),
                windows: BTreeMap::new(),
                window_phases: WindowPhases::default(),
                slugs: HashMap::new(),
                uniques: UniqueIndexes::default(),
                children: ChildIndex::default(),
                hidden_checks: HiddenChecks::default(),
                groups: GroupIndex::default(),
                alerted_down: BTreeSet::new(),
                keys: BTreeSet::new(),
                version: 0,
            };
            self.projects.insert(project.id, project_state);
            self.by_badge_key.insert(project.badge_key.clone(), project.id);
        }
    }
}
