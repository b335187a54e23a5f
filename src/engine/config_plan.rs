//! Plans the changes that declared configuration requires. A plan depends only on the state, the
//! time and the declaration, so a preview and the writer get the same plan.
//!
//! Either a plan has no conflict and each of its steps succeeds, or nothing is done.

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
    ApplyConflict, ApplyOptions, ChangeOperation, ConfigSource, DeclaredConfig, ObjectKind,
    ObjectPath, PlannedChange,
};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{Channel, Project};
use crate::domain::timestamp::Timestamp;
use crate::engine::command::user::{NewUser, UserChanges};
use crate::engine::command::{CheckUuids, NewKey};

/// Plan of changes.
#[derive(Debug)]
pub struct ConfigPlan {
    /// Changes, for display.
    pub changes: Vec<PlannedChange>,
    /// Number of random UUIDs needed for new objects.
    pub uuid_count: usize,
    /// Steps for the writer, in this order.
    pub(super) steps: Vec<PlanStep>,
    /// Next free number after all steps.
    pub(super) next_id: u64,
}

impl ConfigPlan {
    /// True if nothing would change.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Step that the writer executes without further checks.
#[derive(Debug)]
pub(super) enum PlanStep {
    PutProject(Project),
    PutChannel(Channel),
    CreateCheck {
        id: CheckId,
        uuids: CheckUuids,
        project: ProjectId,
        settings: Box<CheckSettings>,
    },
    UpdateCheck(CheckId, Box<CheckSettings>),
    PauseCheck(CheckId),
    ResumeCheck(CheckId),
    PutWindow(MaintenanceWindow),
    CreateKey(KeyId, Box<NewKey>),
    CreateUser {
        id: UserId,
        user: Box<NewUser>,
        disabled: bool,
    },
    UpdateUser(UserId, Box<UserChanges>),
    Delete(ExistingObject),
    SetSource(u64, Option<ConfigSource>),
}

/// Existing object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExistingObject {
    Channel(ChannelId),
    Check(CheckId),
    Window(ProjectId, WindowId),
    Key(KeyId),
    User(UserId),
}

/// Plans the changes that make the state match `config`. `next_id` is the next free number, and
/// `uuids` are random UUIDs for new objects. With fewer UUIDs than the plan
/// [needs](ConfigPlan::uuid_count) it can be shown, but not executed.
///
/// # Errors
/// All conflicts.
pub fn plan_config(
    state: &State,
    config: &DeclaredConfig,
    options: ApplyOptions,
    now: Timestamp,
    next_id: u64,
    uuids: &[Uuid],
) -> Result<ConfigPlan, Vec<ApplyConflict>> {
    let mut planner = ConfigPlanner {
        state,
        source: config.source.as_ref(),
        options,
        now,
        next_id,
        uuids,
        uuids_drawn: 0,
        new_uuids: BTreeSet::new(),
        declared_ids: BTreeSet::new(),
        changes: Vec::new(),
        steps: Vec::new(),
        conflicts: Vec::new(),
        projects: BTreeMap::new(),
    };
    for project in &config.projects {
        planner.plan_project(project);
    }
    planner.plan_users(&config.users);
    planner.plan_deletions();
    let ConfigPlanner {
        changes,
        uuids_drawn,
        steps,
        next_id,
        conflicts,
        ..
    } = planner;
    if conflicts.is_empty() {
        Ok(ConfigPlan {
            changes,
            uuid_count: uuids_drawn,
            steps,
            next_id,
        })
    } else {
        Err(conflicts)
    }
}

struct ConfigPlanner<'a> {
    state: &'a State,
    source: Option<&'a ConfigSource>,
    options: ApplyOptions,
    now: Timestamp,
    next_id: u64,
    uuids: &'a [Uuid],
    uuids_drawn: usize,
    /// UUIDs declared for new objects.
    new_uuids: BTreeSet<Uuid>,
    /// Numbers of existing objects that are declared.
    declared_ids: BTreeSet<u64>,
    changes: Vec<PlannedChange>,
    steps: Vec<PlanStep>,
    conflicts: Vec<ApplyConflict>,
    /// Declared projects by name.
    projects: BTreeMap<Box<str>, ProjectId>,
}

impl ConfigPlanner<'_> {
    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Takes the next random UUID.
    fn generate_uuid(&mut self) -> Uuid {
        let uuid = self
            .uuids
            .get(self.uuids_drawn)
            .copied()
            .unwrap_or_default();
        self.uuids_drawn += 1;
        uuid
    }

    fn add_conflict(
        &mut self,
        path: &ObjectPath,
        field: Option<&'static str>,
        reason: impl Into<String>,
    ) {
        self.conflicts.push(ApplyConflict {
            object: path.clone(),
            field,
            reason: reason.into(),
        });
    }

    /// True if the source owns an object that it no longer declares, and that will be deleted.
    fn is_to_be_deleted(&self, id: u64) -> bool {
        self.options.prune_limit.is_some()
            && !self.declared_ids.contains(&id)
            && self.source.is_some()
            && self.state.managed.source(id) == self.source
    }

    /// Records an existing object that is declared, and its differences. Returns true if it differs
    /// and may be changed.
    fn compare_existing(
        &mut self,
        id: u64,
        path: &ObjectPath,
        old: &ObjectFields,
        new: &ObjectFields,
        uuid: Option<Uuid>,
    ) -> bool {
        self.declared_ids.insert(id);
        let fields = diff_fields(old, new);
        let owner = self.state.managed.source(id);
        let is_adopted = owner.is_none() && self.source.is_some();
        match owner {
            Some(owner)
                if self.source.is_some_and(|source| source != owner)
                    || self.source.is_none() && !fields.is_empty() =>
            {
                let reason = format!(
                    "it belongs to the source {:?}; declare it there, or leave it out here",
                    owner.as_str()
                );
                self.add_conflict(path, None, reason);
                return false;
            }
            None if is_adopted && !fields.is_empty() && !self.options.adopt_unmanaged => {
                let names: Vec<_> = fields.iter().map(|(name, ..)| &**name).collect();
                let reason = format!(
                    "it already exists, belongs to no source and differs in {}; use --adopt to \
                    change it",
                    names.join(", ")
                );
                self.add_conflict(path, None, reason);
                return false;
            }
            _ => {}
        }
        let op = if fields.is_empty() {
            ChangeOperation::Adopt
        } else {
            ChangeOperation::Change
        };
        if is_adopted || op == ChangeOperation::Change {
            self.changes.push(PlannedChange {
                operation: op,
                object: path.clone(),
                fields,
                uuid,
                needs_password_link: false,
            });
        }
        if is_adopted {
            self.steps
                .push(PlanStep::SetSource(id, self.source.cloned()));
        }
        op == ChangeOperation::Change
    }

    /// Records a new object.
    fn record_new_object(
        &mut self,
        id: u64,
        path: &ObjectPath,
        fields: &ObjectFields,
        uuid: Option<Uuid>,
    ) {
        // A preview has no random UUIDs.
        let uuid = uuid.filter(|uuid| !uuid.is_nil());
        let fields = diff_fields(&ObjectFields::new(), fields);
        self.changes.push(PlannedChange {
            operation: ChangeOperation::Add,
            object: path.clone(),
            fields,
            uuid,
            needs_password_link: false,
        });
        self.declared_ids.insert(id);
        if let Some(source) = self.source {
            self.steps
                .push(PlanStep::SetSource(id, Some(source.clone())));
        }
    }

    /// Plans the deletion of objects that the source owns but does not declare. If deletion is not
    /// allowed, only reports them.
    fn plan_deletions(&mut self) {
        let Some(source) = self.source else { return };
        let undeclared_ids: Vec<_> = self
            .state
            .managed
            .ids_of(source)
            .filter(|id| !self.declared_ids.contains(id))
            .collect();
        let objects: Vec<_> = undeclared_ids
            .into_iter()
            .filter_map(|id| self.find_object(id))
            .collect();
        if let Some(limit) = self
            .options
            .prune_limit
            .filter(|limit| objects.len() > *limit)
            && let Some((path, ..)) = objects.first()
        {
            let count = objects.len();
            let reason = format!(
                "{count} objects of the source {:?} are no longer declared, and at most {limit} \
                may be deleted; use --prune={count} to delete them",
                source.as_str()
            );
            self.add_conflict(&path.clone(), None, reason);
            return;
        }
        for (path, object, uuid) in objects {
            let is_deleted = self.options.prune_limit.is_some();
            let op = if is_deleted {
                ChangeOperation::Delete
            } else {
                ChangeOperation::Keep
            };
            self.changes.push(PlannedChange {
                operation: op,
                object: path,
                fields: Vec::new(),
                uuid,
                needs_password_link: false,
            });
            if is_deleted {
                self.steps.push(PlanStep::Delete(object));
            }
        }
    }

    /// Finds the object with a number, and its name in a declaration.
    fn find_object(&self, id: u64) -> Option<(ObjectPath, ExistingObject, Option<Uuid>)> {
        let path = |project: ProjectId, kind, name: &str, uuid: Uuid| {
            let project = self.state.project(project)?.project.name.as_str().into();
            let name = if name.is_empty() {
                uuid.to_string().into()
            } else {
                name.into()
            };
            Some(ObjectPath {
                project: Some(project),
                kind,
                name,
            })
        };
        if let Some(check) = self.state.check(CheckId(id)) {
            let path = path(
                check.project,
                ObjectKind::Check,
                check.settings.slug.as_str(),
                check.uuid,
            )?;
            return Some((path, ExistingObject::Check(check.id), Some(check.uuid)));
        }
        if let Some(channel) = self.state.channel(ChannelId(id)) {
            let path = path(
                channel.project,
                ObjectKind::Channel,
                channel.name.as_str(),
                channel.uuid,
            )?;
            return Some((
                path,
                ExistingObject::Channel(channel.id),
                Some(channel.uuid),
            ));
        }
        if let Some(key) = self.state.key(KeyId(id)) {
            let path = path(
                key.project,
                ObjectKind::Key,
                key.label.as_str(),
                Uuid::nil(),
            )?;
            return Some((path, ExistingObject::Key(key.id), None));
        }
        if let Some(user) = self.state.users.get(UserId(id)) {
            let path = ObjectPath {
                project: None,
                kind: ObjectKind::User,
                name: user.name.as_str().into(),
            };
            return Some((path, ExistingObject::User(user.id), None));
        }
        let window = self
            .state
            .projects()
            .find_map(|project_state| project_state.windows.get(&WindowId(id)))?;
        let path = path(
            window.project,
            ObjectKind::Window,
            window.name.as_str(),
            window.uuid,
        )?;
        Some((
            path,
            ExistingObject::Window(window.project, window.id),
            Some(window.uuid),
        ))
    }
}
