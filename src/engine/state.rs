//! State in memory: all checks, projects, keys, channels, windows and users, the outbox and the
//! open imports, with the lookups that requests and commands need.
//!
//! There are two instances: that of the writer, which changes with each command of a batch, and the
//! published one, to which the same [`Change`]s are applied after the commit. So reads never see
//! data that is not in the file yet.

mod audience;
mod change;
mod children;
mod command_project;
mod imports;
mod keys;
mod managed;
mod outbox;
mod project;
mod unique;
mod users;
mod windows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

// For values that the server has generated itself. Slugs and names come from outside and have the
// hasher that withstands chosen keys.
use foldhash::fast::RandomState;
use uuid::Uuid;

use super::command::{CommandError, PingTarget};
use crate::domain::alert::Outage;
use crate::domain::audit::{AuditEntry, AuditScope};
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
use children::{ChildIndex, ParentHoldIndex};
pub use imports::{ImportChange, ImportLogPosition, OpenImport, OpenImports};
use keys::KeyIndex;
pub use managed::ManagedObjects;
pub use outbox::Outbox;
use unique::UniqueIndexes;
pub use users::{UserChange, UserIndex};
use windows::WindowPhases;

/// Project with the objects that belong to it.
#[derive(Clone, Debug)]
pub struct ProjectState {
    /// Project without the objects that belong to it.
    pub project: Arc<Project>,
    /// Checks, oldest first.
    pub checks: BTreeSet<CheckId>,
    /// Channels, oldest first.
    pub channels: BTreeMap<ChannelId, Arc<Channel>>,
    /// Maintenance windows, oldest first.
    pub windows: BTreeMap<WindowId, Arc<MaintenanceWindow>>,
    /// Open windows of the project. Empty in the published state.
    window_phases: WindowPhases,
    /// Checks by slug. Checks without a slug are left out.
    slugs: HashMap<Slug, Vec<CheckId>>,
    /// Checks by the fields that requests list in `unique`. Empty in the published state, where it
    /// is not needed.
    uniques: UniqueIndexes,
    /// Checks by their parents.
    children: ChildIndex,
    /// Checks whose alerts are held because a parent is down.
    held_by_parent: ParentHoldIndex,
    /// Members of the groups among the channels.
    groups: GroupIndex,
    /// Checks that are down and whose downtime was notified.
    notified_downtimes: BTreeSet<CheckId>,
    keys: BTreeSet<KeyId>,
    /// Number of changes of its checks and channels, including pings.
    pub version: u64,
}

/// State in memory: all objects with their lookups, the outbox and the open imports.
#[derive(Clone, Debug, Default)]
pub struct State {
    checks: HashMap<CheckId, Check, RandomState>,
    by_uuid: HashMap<Uuid, CheckId, RandomState>,
    by_badge: HashMap<Uuid, CheckId, RandomState>,
    /// Checks of deleted projects: invisible, and removed a few at a time.
    orphans: BTreeSet<CheckId>,
    /// Deleted projects: their lookups are removed together with the checks, since that takes a
    /// while, too.
    deleted_projects: BTreeMap<ProjectId, ProjectState>,
    projects: BTreeMap<ProjectId, ProjectState>,
    by_badge_key: HashMap<Box<str>, ProjectId>,
    by_channel: HashMap<ChannelId, ProjectId, RandomState>,
    /// Queued alerts, one row for each event, check and channel.
    pub outbox: Outbox,
    /// Latest outages of the server, oldest first.
    pub outages: Arc<[Outage]>,
    /// Deleted or disabled channels with queued rows, which are removed a few at a time.
    unsendable_channels: BTreeSet<ChannelId>,
    keys: KeyIndex,
    /// Secrets of other servers for keys that have not been used here yet.
    pub legacy_secrets: Arc<LegacySecrets>,
    /// Users of the dashboard.
    pub users: UserIndex,
    /// Objects that declared configuration manages.
    pub managed: ManagedObjects,
    /// Number of the newest entry of each audit log, with the entry if it was added since the
    /// start.
    newest_audit_entries: BTreeMap<AuditScope, (u64, Option<Arc<AuditEntry>>)>,
    /// Open imports.
    pub imports: OpenImports,
    /// Secret that signs badge URLs. `None` only until a new database has got one.
    pub badge_secret: Option<BadgeSecret>,
    /// Number that distinguishes this database from others. `None` only until it has got one.
    pub instance_id: Option<[u8; 4]>,
    /// Random number, drawn whenever the state is read from the file: the versions of projects
    /// restart from there.
    pub epoch: u64,
}

impl State {
    /// Check with this number.
    pub fn check(&self, id: CheckId) -> Option<&Check> {
        self.checks
            .get(&id)
            .filter(|_| self.orphans.is_empty() || !self.orphans.contains(&id))
    }

    /// Check with this UUID.
    pub fn check_by_uuid(&self, uuid: Uuid) -> Option<&Check> {
        self.check(*self.by_uuid.get(&uuid)?)
    }

    /// Check with this badge UUID.
    pub fn check_by_badge(&self, badge: Uuid) -> Option<&Check> {
        self.check(*self.by_badge.get(&badge)?)
    }

    /// All checks, ordered by project and age.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.projects
            .keys()
            .flat_map(|project| self.checks_of(*project))
    }

    /// Number of checks.
    pub fn check_count(&self) -> usize {
        self.checks.len() - self.orphans.len()
    }

    /// True if rows of deleted projects, or of channels that cannot be sent to, are still to be
    /// removed.
    pub fn has_rows_to_remove(&self) -> bool {
        !self.orphans.is_empty() || !self.unsendable_channels.is_empty()
    }

    /// Checks of deleted projects whose rows are still to be removed.
    pub fn orphans(&self) -> &BTreeSet<CheckId> {
        &self.orphans
    }

    /// Project with the objects that belong to it.
    pub fn project(&self, id: ProjectId) -> Option<&ProjectState> {
        self.projects.get(&id)
    }

    /// All projects, oldest first.
    pub fn projects(&self) -> impl Iterator<Item = &ProjectState> {
        self.projects.values()
    }

    /// Project with this segment in badge URLs.
    pub fn project_by_badge_key(&self, badge_key: &str) -> Option<ProjectId> {
        self.by_badge_key.get(badge_key).copied()
    }

    /// Channel with this number.
    pub fn channel(&self, id: ChannelId) -> Option<&Arc<Channel>> {
        self.project(*self.by_channel.get(&id)?)?.channels.get(&id)
    }

    /// Channels of a check. Its settings may still list deleted channels, until they are written
    /// again.
    pub fn channels_of<'a>(&'a self, check: &'a Check) -> impl Iterator<Item = &'a Arc<Channel>> {
        let channels = self
            .project(check.project)
            .map(|project_state| &project_state.channels);
        channels.into_iter().flat_map(|channels| {
            check
                .settings
                .channels
                .iter()
                .filter_map(|id| channels.get(id))
        })
    }

    /// Oldest check of a project that equals a request in all of `fields`, which are sorted and
    /// unique. The first request for a list of fields builds an index.
    pub fn check_by_unique(
        &mut self,
        project: ProjectId,
        edit: &CheckEdit,
        fields: &[UniqueField],
    ) -> Option<CheckId> {
        let Self {
            projects, checks, ..
        } = self;
        let ProjectState {
            checks: project_checks,
            uniques,
            slugs,
            ..
        } = projects.get_mut(&project)?;
        let slug = edit.slug.as_ref().filter(|slug| !slug.is_empty());
        if let ([UniqueField::Slug], Some(slug)) = (fields, slug) {
            return slugs.get(slug)?.first().copied();
        }
        let project_checks = project_checks.iter().filter_map(|id| checks.get(id));
        let equal = |id: &CheckId| {
            checks
                .get(id)
                .is_some_and(|check| edit.matches_unique(&check.settings, fields))
        };
        uniques.candidates(edit, fields, project_checks).find(equal)
    }

    /// Checks of a project, oldest first.
    pub fn checks_of(&self, project: ProjectId) -> impl Iterator<Item = &Check> {
        self.checks_after(project, None)
    }

    /// Checks of a project with a number above `after`, oldest first.
    pub fn checks_after(
        &self,
        project: ProjectId,
        after: Option<CheckId>,
    ) -> impl Iterator<Item = &Check> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let project_state = self.project(project).into_iter();
        project_state
            .flat_map(move |project_state| project_state.checks.range((from, Bound::Unbounded)))
            .filter_map(|id| self.check(*id))
    }

    /// Checks of a project with this slug, oldest first. Empty for the empty slug.
    pub fn checks_by_slug(&self, project: ProjectId, slug: &Slug) -> &[CheckId] {
        self.project(project)
            .and_then(|project_state| project_state.slugs.get(slug))
            .map_or(&[], Vec::as_slice)
    }

    /// Check that a ping is for. `None` if its slug is free in the project of its key.
    ///
    /// # Errors
    /// If the UUID or the key is unknown, or several checks have the slug.
    pub fn find_ping_target(&self, target: &PingTarget) -> Result<Option<CheckId>, CommandError> {
        match target {
            PingTarget::Uuid(uuid) => self
                .check_by_uuid(*uuid)
                .map(|check| Some(check.id))
                .ok_or(CommandError::NotFound),
            PingTarget::Slug { key, slug, .. } => {
                let project = self
                    .project_by_ping_key(key)
                    .ok_or(CommandError::NotFound)?;
                match self.checks_by_slug(project, slug) {
                    [] => Ok(None),
                    [id] => Ok(Some(*id)),
                    _ => Err(CommandError::AmbiguousSlug),
                }
            }
        }
    }

    /// Number of the newest entry of an audit log, or 0, with the entry if it was added since the
    /// start.
    pub fn newest_audit_entry(&self, scope: AuditScope) -> (u64, Option<&Arc<AuditEntry>>) {
        let newest = self.newest_audit_entries.get(&scope);
        newest.map_or((0, None), |(number, entry)| (*number, entry.as_ref()))
    }

    /// Sets the number of the newest entry of an audit log.
    pub fn set_newest_audit_number(&mut self, scope: AuditScope, number: u64) {
        self.newest_audit_entries.insert(scope, (number, None));
    }

    /// Number of pings that are kept for each check of a project.
    pub fn ping_log_limit(&self, project: ProjectId) -> u64 {
        self.project(project).map_or(0, |project_state| {
            u64::from(project_state.project.ping_log_limit)
        })
    }

    /// True if ping `n` of a check is within its log limit. False for a deleted check.
    pub fn is_ping_live(&self, check: CheckId, n: u64) -> bool {
        n >= self.first_live_ping(check)
    }

    /// Number of the oldest ping of a check within its log limit. Greater than all if the check was
    /// deleted. A check that is being imported keeps all pings.
    pub fn first_live_ping(&self, id: CheckId) -> u64 {
        match self.check(id) {
            Some(check) => {
                check
                    .state
                    .n_pings
                    .saturating_sub(self.ping_log_limit(check.project))
                    + 1
            }
            None if self.imports.contains_check(id) => 0,
            None => u64::MAX,
        }
    }

    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::CheckState { id, state, .. } => {
                if let Some(check) = self.checks.get_mut(id) {
                    debug_assert_eq!(
                        check.state.notification, state.notification,
                        "only a check row may change the notification state: {id:?}"
                    );
                    check.state = *state;
                    if let Some(project_state) = self.projects.get_mut(&check.project) {
                        project_state.version += 1;
                        project_state.update_alert_indexes(check);
                    }
                }
            }
            Change::Check(check) => self.put_check(check),
            Change::CheckDeleted(id) => self.remove_check(*id),
            Change::Source(id, source) => self.managed.put(*id, source.as_ref()),
            Change::Project(project) => self.put_project(project),
            Change::Audit(entry) => {
                self.newest_audit_entries
                    .insert(entry.scope, (entry.number, Some(Arc::clone(entry))));
            }
            Change::ProjectDeleted(id) => {
                self.newest_audit_entries.remove(&AuditScope::Project(*id));
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
            Change::KeyDeleted(id) => {
                self.remove_key(*id);
                self.managed.put(id.0, None);
            }
            Change::Channel(channel) => {
                if let Some(project_state) = self.projects.get_mut(&channel.project) {
                    let old = project_state
                        .channels
                        .insert(channel.id, Arc::clone(channel));
                    project_state.groups.put(old.as_deref(), Some(channel));
                    // Lists do not show the last error of a channel, so clients that poll them need
                    // not read them again.
                    if old.is_none_or(|old| !old.has_same_listing_as(channel)) {
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
            Change::WindowDeleted(project, id) => {
                if let Some(project_state) = self.projects.get_mut(project) {
                    project_state.windows.remove(id);
                    project_state.window_phases.remove(*id);
                }
                self.managed.put(id.0, None);
            }
            Change::Import(change, at) => self.imports.apply(change, *at),
            Change::Outages(outages) => self.outages = Arc::clone(outages),
            Change::OutboxRow(row) => {
                self.outbox
                    .put(row, self.by_channel.get(&row.channel).copied());
                self.update_unsendable_channel(row.channel);
            }
            Change::OutboxRowDeleted(number) => {
                if let Some(channel) = self.outbox.remove(*number) {
                    self.update_unsendable_channel(channel);
                }
            }
            Change::User(change) => {
                self.users.apply(change);
                if let UserChange::UserDeleted(id) = change {
                    self.managed.put(id.0, None);
                }
            }
            Change::LegacySecrets(secrets) => self.legacy_secrets = Arc::clone(secrets),
            Change::BadgeSecret(secret) => self.badge_secret = Some(*secret),
            Change::Instance(instance) => self.instance_id = Some(*instance),
            Change::ChannelDeleted(id) => {
                if let Some(project_state) = self
                    .by_channel
                    .remove(id)
                    .and_then(|project| self.projects.get_mut(&project))
                {
                    let old = project_state.channels.remove(id);
                    project_state.groups.put(old.as_deref(), None);
                    project_state.version += 1;
                }
                self.update_unsendable_channel(*id);
                self.managed.put(id.0, None);
            }
        }
    }

    fn put_check(&mut self, check: &Check) {
        let old = self.checks.insert(check.id, check.clone());
        let Some(project_state) = self.projects.get_mut(&check.project) else {
            // The service stopped before its row was removed.
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
        self.managed.put(id.0, None);
        let Some(check) = self.checks.remove(&id) else {
            return;
        };
        for (index, uuid) in [
            (&mut self.by_uuid, check.uuid),
            (&mut self.by_badge, check.badge),
        ] {
            // Another check may have got the UUID of an orphan.
            if index.get(&uuid) == Some(&id) {
                index.remove(&uuid);
            }
        }
        let projects = if is_orphan {
            &mut self.deleted_projects
        } else {
            &mut self.projects
        };
        if let Some(project_state) = projects.get_mut(&check.project) {
            project_state.version += 1;
            project_state.checks.remove(&id);
            project_state.notified_downtimes.remove(&id);
            project_state.held_by_parent.update(id, None);
            project_state.update_lookups(id, Some(&check.settings), None);
        }
        if self.orphans.is_empty() {
            self.deleted_projects.clear();
        }
    }

    fn remove_key(&mut self, id: KeyId) {
        let Some(key) = self.keys.remove(id) else {
            return;
        };
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
                self.by_badge_key
                    .insert(project.badge_key.clone(), project.id);
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
                held_by_parent: ParentHoldIndex::default(),
                groups: GroupIndex::default(),
                notified_downtimes: BTreeSet::new(),
                keys: BTreeSet::new(),
                version: 0,
            };
            self.projects.insert(project.id, project_state);
            self.by_badge_key
                .insert(project.badge_key.clone(), project.id);
        }
    }
}
