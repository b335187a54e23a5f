//! What has to be done so that there is what files declare. It depends on the state, the time and the declaration alone: whoever asks what
//! would change and the writer that changes it come to the same.
//!
//! A plan either has no conflict, and then each of its steps can be taken, or nothing is done.

mod checks;
mod objects;
mod projects;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::state::State;
use crate::domain::check::CheckSettings;
use crate::domain::declared::object_fields::{ObjectFields, diff_fields};
use crate::domain::declared::{
    ApplyConflict, ApplyOptions, ChangeOperation, ConfigSource, DeclaredConfig, ObjectKind, ObjectPath, PlannedChange,
};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{Channel, Project};
use crate::domain::timestamp::Timestamp;
use crate::engine::command::user::{NewUser, UserChanges};
use crate::engine::command::{CheckUuids, NewKey};

/// What is to be done.
#[derive(Debug)]
pub struct ConfigPlan {
    /// What changes, for people.
    pub changes: Vec<PlannedChange>,
    /// Random names that are needed for what is made.
    pub uuid_count: usize,
    /// What the writer does, in this order.
    pub(super) steps: Vec<PlanStep>,
    /// The next free number after all of them.
    pub(super) next_id: u64,
}

impl ConfigPlan {
    /// Whether something would be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Something that can be done without asking again.
#[derive(Debug)]
pub(super) enum PlanStep {
    PutProject(Project),
    PutChannel(Channel),
    CreateCheck { id: CheckId, names: CheckUuids, project: ProjectId, settings: Box<CheckSettings> },
    UpdateCheck(CheckId, Box<CheckSettings>),
    PauseCheck(CheckId),
    ResumeCheck(CheckId),
    PutWindow(MaintenanceWindow),
    CreateKey(KeyId, Box<NewKey>),
    CreateUser { id: UserId, user: Box<NewUser>, disabled: bool },
    UpdateUser(UserId, Box<UserChanges>),
    Delete(ExistingObject),
    SetSource(u64, Option<ConfigSource>),
}

/// An object that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExistingObject {
    Channel(ChannelId),
    Check(CheckId),
    Window(ProjectId, WindowId),
    Key(KeyId),
    User(UserId),
}

/// Plans what makes `declared` the real state. `next_id` is the next free number, and `names` are what is drawn for new objects: with fewer
/// than the plan [needs](Plan::names) it can be shown, but not carried out.
///
/// # Errors
/// Everything that stands in the way.
pub fn plan_config(
    state: &State,
    wanted: &DeclaredConfig,
    manner: ApplyOptions,
    now: Timestamp,
    next_id: u64,
    names: &[Uuid],
) -> Result<ConfigPlan, Vec<ApplyConflict>> {
    let mut planner = ConfigPlanner {
        state,
        source: wanted.source.as_ref(),
        options: manner,
        now,
        next_id,
        uuids: names,
        uuids_drawn: 0,
        new_uuids: BTreeSet::new(),
        declared_ids: BTreeSet::new(),
        changes: Vec::new(),
        steps: Vec::new(),
        conflicts: Vec::new(),
        projects: BTreeMap::new(),
    };
    for project in &wanted.projects {
        planner.plan_project(project);
    }
    planner.plan_users(&wanted.users);
    planner.plan_deletions();
    let ConfigPlanner { changes, uuids_drawn: names, steps, next_id, conflicts, .. } = planner;
    if conflicts.is_empty() { Ok(ConfigPlan { changes, uuid_count: names, steps, next_id }) } else { Err(conflicts) }
}

struct ConfigPlanner<'a> {
    state: &'a State,
    source: Option<&'a ConfigSource>,
    options: ApplyOptions,
    now: Timestamp,
    next_id: u64,
    uuids: &'a [Uuid],
    uuids_drawn: usize,
    /// UUIDs that new objects are to have.
    new_uuids: BTreeSet<Uuid>,
    /// Numbers of what there is and is declared.
    declared_ids: BTreeSet<u64>,
    changes: Vec<PlannedChange>,
    steps: Vec<PlanStep>,
    conflicts: Vec<ApplyConflict>,
    /// The declared projects by name.
    projects: BTreeMap<Box<str>, ProjectId>,
}

impl ConfigPlanner<'_> {
    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A random name.
    fn draw_uuid(&mut self) -> Uuid {
        let name = self.uuids.get(self.uuids_drawn).copied().unwrap_or_default();
        self.uuids_drawn += 1;
        name
    }

    fn add_conflict(&mut self, at: &ObjectPath, field: Option<&'static str>, reason: impl Into<String>) {
        self.conflicts.push(ApplyConflict { object: at.clone(), field, reason: reason.into() });
    }

    /// Whether the source owns something that it no longer names, and that is to be deleted.
    fn is_to_be_deleted(&self, id: u64) -> bool {
        self.options.prune_limit.is_some()
            && !self.declared_ids.contains(&id)
            && self.source.is_some()
            && self.state.declared.source(id) == self.source
    }

    /// Notes an object that is there and declared, and how it differs. Whether it may be changed.
    fn compare_existing(&mut self, id: u64, at: &ObjectPath, old: &ObjectFields, new: &ObjectFields, uuid: Option<Uuid>) -> bool {
        self.declared_ids.insert(id);
        let (fields, owner) = (diff_fields(old, new), self.state.declared.source(id));
        let is_free = owner.is_none() && self.source.is_some();
        match owner {
            Some(owner) if self.source.is_some_and(|source| source != owner) || self.source.is_none() && !fields.is_empty() => {
                let reason = format!("it belongs to the source {:?}; declare it there, or leave it out here", owner.as_str());
                self.add_conflict(at, None, reason);
                return false;
            }
            None if is_free && !fields.is_empty() && !self.options.adopt_unmanaged => {
                let names: Vec<_> = fields.iter().map(|(name, ..)| &**name).collect();
                let reason =
                    format!("it is there already, belongs to nobody and differs in {}; give --adopt to change it", names.join(", "));
                self.add_conflict(at, None, reason);
                return false;
            }
            _ => {}
        }
        let op = if fields.is_empty() { ChangeOperation::Adopt } else { ChangeOperation::Change };
        if is_free || op == ChangeOperation::Change {
            self.changes.push(PlannedChange { operation: op, object: at.clone(), fields, uuid, needs_password_link: false });
        }
        if is_free {
            self.steps.push(PlanStep::SetSource(id, self.source.cloned()));
        }
        op == ChangeOperation::Change
    }

    /// Notes an object that is made.
    fn note_new_object(&mut self, id: u64, at: &ObjectPath, fields: &ObjectFields, uuid: Option<Uuid>) {
        // Nothing has been drawn yet if this is only looked at.
        let uuid = uuid.filter(|uuid| !uuid.is_nil());
        let fields = diff_fields(&ObjectFields::new(), fields);
        self.changes.push(PlannedChange { operation: ChangeOperation::Add, object: at.clone(), fields, uuid, needs_password_link: false });
        self.declared_ids.insert(id);
        if let Some(source) = self.source {
            self.steps.push(PlanStep::SetSource(id, Some(source.clone())));
        }
    }

    /// What the source owns and does not name: it goes, if that is allowed, or is told.
    fn plan_deletions(&mut self) {
        let Some(source) = self.source else { return };
        let left: Vec<_> = self.state.declared.ids_of(source).filter(|id| !self.declared_ids.contains(id)).collect();
        let found: Vec<_> = left.into_iter().filter_map(|id| self.find_object(id)).collect();
        if let Some(most) = self.options.prune_limit.filter(|most| found.len() > *most)
            && let Some((at, ..)) = found.first()
        {
            let count = found.len();
            let reason = format!(
                "{count} objects that {:?} owns are no longer declared, and at most {most} are deleted; give --prune={count} if that is meant",
                source.as_str()
            );
            self.add_conflict(&at.clone(), None, reason);
            return;
        }
        for (at, found, uuid) in found {
            let goes = self.options.prune_limit.is_some();
            let op = if goes { ChangeOperation::Delete } else { ChangeOperation::Keep };
            self.changes.push(PlannedChange { operation: op, object: at, fields: Vec::new(), uuid, needs_password_link: false });
            if goes {
                self.steps.push(PlanStep::Delete(found));
            }
        }
    }

    /// The object of a number, and how a file would name it.
    fn find_object(&self, id: u64) -> Option<(ObjectPath, ExistingObject, Option<Uuid>)> {
        let path = |project: ProjectId, kind, name: &str, uuid: Uuid| {
            let project = self.state.project(project)?.project.name.as_str().into();
            let name = if name.is_empty() { uuid.to_string().into() } else { name.into() };
            Some(ObjectPath { project: Some(project), kind, name })
        };
        if let Some(check) = self.state.check(CheckId(id)) {
            let at = path(check.project, ObjectKind::Check, check.settings.slug.as_str(), check.uuid)?;
            return Some((at, ExistingObject::Check(check.id), Some(check.uuid)));
        }
        if let Some(channel) = self.state.channel(ChannelId(id)) {
            let at = path(channel.project, ObjectKind::Channel, channel.name.as_str(), channel.uuid)?;
            return Some((at, ExistingObject::Channel(channel.id), Some(channel.uuid)));
        }
        if let Some(key) = self.state.key(KeyId(id)) {
            let at = path(key.project, ObjectKind::Key, key.label.as_str(), Uuid::nil())?;
            return Some((at, ExistingObject::Key(key.id), None));
        }
        if let Some(user) = self.state.users.get(UserId(id)) {
            let at = ObjectPath { project: None, kind: ObjectKind::User, name: user.name.as_str().into() };
            return Some((at, ExistingObject::User(user.id), None));
        }
        let window = self.state.projects().find_map(|project_state| project_state.windows.get(&WindowId(id)))?;
        let at = path(window.project, ObjectKind::Window, window.name.as_str(), window.uuid)?;
        Some((at, ExistingObject::Window(window.project, window.id), Some(window.uuid)))
    }
}
