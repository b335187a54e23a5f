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
use crate::domain::check::Settings;
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::moment::Moment;
use crate::domain::project::{Channel, Project};
use crate::domain::wanted::fields::{Fields, differences};
use crate::domain::wanted::{Conflict, Manner, ObjectKind, ObjectPath, Op, PlannedChange, Source, Wanted};
use crate::domain::window::Window;
use crate::engine::command::user::{NewUser, UserChanges};
use crate::engine::command::{CheckNames, NewKey};

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    /// What changes, for people.
    pub changes: Vec<PlannedChange>,
    /// Random names that are needed for what is made.
    pub names: usize,
    /// What the writer does, in this order.
    pub(super) steps: Vec<Step>,
    /// The next free number after all of them.
    pub(super) next_id: u64,
}

impl Plan {
    /// Whether something would be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Something that can be done without asking again.
#[derive(Debug)]
pub(super) enum Step {
    Project(Project),
    Channel(Channel),
    NewCheck { id: CheckId, names: CheckNames, project: ProjectId, settings: Box<Settings> },
    Check(CheckId, Box<Settings>),
    Pause(CheckId),
    Resume(CheckId),
    Window(Window),
    Key(KeyId, Box<NewKey>),
    NewUser { id: UserId, user: Box<NewUser>, disabled: bool },
    User(UserId, Box<UserChanges>),
    Gone(Found),
    Managed(u64, Option<Source>),
}

/// An object that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Channel(ChannelId),
    Check(CheckId),
    Window(ProjectId, WindowId),
    Key(KeyId),
    User(UserId),
}

/// Plans what makes `wanted` the real state. `next_id` is the next free number, and `names` are what is drawn for new objects: with fewer
/// than the plan [needs](Plan::names) it can be shown, but not carried out.
///
/// # Errors
/// Everything that stands in the way.
pub fn plan(state: &State, wanted: &Wanted, manner: Manner, now: Moment, next_id: u64, names: &[Uuid]) -> Result<Plan, Vec<Conflict>> {
    let mut planner = Planner {
        state,
        source: wanted.source.as_ref(),
        manner,
        now,
        next_id,
        names,
        drawn: 0,
        uuids: BTreeSet::new(),
        kept: BTreeSet::new(),
        changes: Vec::new(),
        steps: Vec::new(),
        conflicts: Vec::new(),
        projects: BTreeMap::new(),
    };
    for project in &wanted.projects {
        planner.project(project);
    }
    planner.users(&wanted.users);
    planner.left_over();
    let Planner { changes, drawn: names, steps, next_id, conflicts, .. } = planner;
    if conflicts.is_empty() { Ok(Plan { changes, names, steps, next_id }) } else { Err(conflicts) }
}

struct Planner<'a> {
    state: &'a State,
    source: Option<&'a Source>,
    manner: Manner,
    now: Moment,
    next_id: u64,
    names: &'a [Uuid],
    drawn: usize,
    /// UUIDs that new objects are to have.
    uuids: BTreeSet<Uuid>,
    /// Numbers of what there is and is declared.
    kept: BTreeSet<u64>,
    changes: Vec<PlannedChange>,
    steps: Vec<Step>,
    conflicts: Vec<Conflict>,
    /// The declared projects by name.
    projects: BTreeMap<Box<str>, ProjectId>,
}

impl Planner<'_> {
    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A random name.
    fn draw(&mut self) -> Uuid {
        let name = self.names.get(self.drawn).copied().unwrap_or_default();
        self.drawn += 1;
        name
    }

    fn conflict(&mut self, at: &ObjectPath, field: Option<&'static str>, reason: impl Into<String>) {
        self.conflicts.push(Conflict { at: at.clone(), field, reason: reason.into() });
    }

    /// Whether the source owns something that it no longer names, and that is to be deleted.
    fn is_leaving(&self, id: u64) -> bool {
        self.manner.prune.is_some() && !self.kept.contains(&id) && self.source.is_some() && self.state.managed.source(id) == self.source
    }

    /// Notes an object that is there and declared, and how it differs. Whether it may be changed.
    fn there(&mut self, id: u64, at: &ObjectPath, old: &Fields, new: &Fields, uuid: Option<Uuid>) -> bool {
        self.kept.insert(id);
        let (fields, owner) = (differences(old, new), self.state.managed.source(id));
        let is_free = owner.is_none() && self.source.is_some();
        match owner {
            Some(owner) if self.source.is_some_and(|source| source != owner) || self.source.is_none() && !fields.is_empty() => {
                let reason = format!("it belongs to the source {:?}; declare it there, or leave it out here", owner.as_str());
                self.conflict(at, None, reason);
                return false;
            }
            None if is_free && !fields.is_empty() && !self.manner.adopts => {
                let names: Vec<_> = fields.iter().map(|(name, ..)| &**name).collect();
                let reason =
                    format!("it is there already, belongs to nobody and differs in {}; give --adopt to change it", names.join(", "));
                self.conflict(at, None, reason);
                return false;
            }
            _ => {}
        }
        let op = if fields.is_empty() { Op::Adopt } else { Op::Change };
        if is_free || op == Op::Change {
            self.changes.push(PlannedChange { op, at: at.clone(), fields, uuid, needs_link: false });
        }
        if is_free {
            self.steps.push(Step::Managed(id, self.source.cloned()));
        }
        op == Op::Change
    }

    /// Notes an object that is made.
    fn added(&mut self, id: u64, at: &ObjectPath, fields: &Fields, uuid: Option<Uuid>) {
        // Nothing has been drawn yet if this is only looked at.
        let uuid = uuid.filter(|uuid| !uuid.is_nil());
        let fields = differences(&Fields::new(), fields);
        self.changes.push(PlannedChange { op: Op::Add, at: at.clone(), fields, uuid, needs_link: false });
        self.kept.insert(id);
        if let Some(source) = self.source {
            self.steps.push(Step::Managed(id, Some(source.clone())));
        }
    }

    /// What the source owns and does not name: it goes, if that is allowed, or is told.
    fn left_over(&mut self) {
        let Some(source) = self.source else { return };
        let left: Vec<_> = self.state.managed.of(source).filter(|id| !self.kept.contains(id)).collect();
        let found: Vec<_> = left.into_iter().filter_map(|id| self.found(id)).collect();
        if let Some(most) = self.manner.prune.filter(|most| found.len() > *most)
            && let Some((at, ..)) = found.first()
        {
            let count = found.len();
            let reason = format!(
                "{count} objects that {:?} owns are no longer declared, and at most {most} are deleted; give --prune={count} if that is meant",
                source.as_str()
            );
            self.conflict(&at.clone(), None, reason);
            return;
        }
        for (at, found, uuid) in found {
            let goes = self.manner.prune.is_some();
            let op = if goes { Op::Delete } else { Op::Leave };
            self.changes.push(PlannedChange { op, at, fields: Vec::new(), uuid, needs_link: false });
            if goes {
                self.steps.push(Step::Gone(found));
            }
        }
    }

    /// The object of a number, and how a file would name it.
    fn found(&self, id: u64) -> Option<(ObjectPath, Found, Option<Uuid>)> {
        let path = |project: ProjectId, kind, name: &str, uuid: Uuid| {
            let project = self.state.project(project)?.project.name.as_str().into();
            let name = if name.is_empty() { uuid.to_string().into() } else { name.into() };
            Some(ObjectPath { project: Some(project), kind, name })
        };
        if let Some(check) = self.state.check(CheckId(id)) {
            let at = path(check.project, ObjectKind::Check, check.settings.slug.as_str(), check.uuid)?;
            return Some((at, Found::Check(check.id), Some(check.uuid)));
        }
        if let Some(channel) = self.state.channel(ChannelId(id)) {
            let at = path(channel.project, ObjectKind::Channel, channel.name.as_str(), channel.uuid)?;
            return Some((at, Found::Channel(channel.id), Some(channel.uuid)));
        }
        if let Some(key) = self.state.key(KeyId(id)) {
            let at = path(key.project, ObjectKind::Key, key.label.as_str(), Uuid::nil())?;
            return Some((at, Found::Key(key.id), None));
        }
        if let Some(user) = self.state.users.get(UserId(id)) {
            let at = ObjectPath { project: None, kind: ObjectKind::User, name: user.name.as_str().into() };
            return Some((at, Found::User(user.id), None));
        }
        let window = self.state.projects().find_map(|project_state| project_state.windows.get(&WindowId(id)))?;
        let at = path(window.project, ObjectKind::Window, window.name.as_str(), window.uuid)?;
        Some((at, Found::Window(window.project, window.id), Some(window.uuid)))
    }
}
