//! Declared projects: which of those that are there each is, and the order in which what belongs to it is looked at.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{Planner, Step};
use crate::domain::ids::ProjectId;
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, Project, ProjectName};
use crate::domain::wanted::fields::{Fields, Value, differences};
use crate::domain::wanted::{ObjectKind, ObjectPath, Op, PlannedChange, WantedProject};
use crate::engine::state::ProjectState;

/// A declared project.
pub(super) struct Within<'a> {
    pub(super) id: ProjectId,
    /// Its name, as paths have it.
    pub(super) name: Box<str>,
    /// It, if it is there.
    pub(super) there: Option<&'a ProjectState>,
}

impl Within<'_> {
    pub(super) fn path(&self, kind: ObjectKind, name: &dyn std::fmt::Display) -> ObjectPath {
        ObjectPath { project: Some(self.name.clone()), kind, name: name.to_string().into() }
    }
}

fn limits(name: &ProjectName, check_limit: Option<u32>, ping_log_limit: u32) -> Fields {
    let mut fields: Fields = vec![("name".into(), Value::Text(name.as_str().into()))];
    fields.extend(check_limit.map(|limit| ("check-limit".into(), Value::Number(limit.into()))));
    fields.push(("ping-log-limit".into(), Value::Number(ping_log_limit.into())));
    fields
}

impl<'a> Planner<'a> {
    pub(super) fn project(&mut self, wanted: &'a WantedProject) {
        let name: Box<str> = wanted.name.as_str().into();
        let at = ObjectPath { project: Some(name.clone()), kind: ObjectKind::Project, name: name.clone() };
        let named = |name: &ProjectName| self.state.projects().find(|project_state| project_state.project.name == *name);
        let there = named(&wanted.name).or_else(|| named(wanted.was.as_ref()?));
        let id = match there {
            Some(project_state) => self.known_project(wanted, &project_state.project, &at),
            None => self.new_project(wanted, &at),
        };
        self.projects.insert(name.clone(), id);
        let within = Within { id, name, there };
        let channels = self.channels(&within, &wanted.channels);
        self.checks(&within, &wanted.checks, &channels);
        self.windows(&within, &wanted.windows);
        self.keys(&within, &wanted.keys);
    }

    fn known_project(&mut self, wanted: &WantedProject, there: &Project, at: &ObjectPath) -> ProjectId {
        if wanted.uuid.is_some_and(|uuid| uuid != there.uuid) {
            self.conflict(at, Some("uuid"), format!("the project has the UUID {}, which cannot be changed", there.uuid));
        }
        let changed = Project {
            name: wanted.name.clone(),
            check_limit: wanted.check_limit.unwrap_or(there.check_limit),
            ping_log_limit: wanted.ping_log_limit.unwrap_or(there.ping_log_limit),
            ..there.clone()
        };
        if changed != *there {
            let old = limits(&there.name, there.check_limit, there.ping_log_limit);
            let fields = differences(&old, &limits(&changed.name, changed.check_limit, changed.ping_log_limit));
            self.changes.push(PlannedChange { op: Op::Change, at: at.clone(), fields, uuid: Some(there.uuid), needs_link: false });
            self.steps.push(Step::Project(changed));
        }
        there.id
    }

    fn new_project(&mut self, wanted: &WantedProject, at: &ObjectPath) -> ProjectId {
        let id = ProjectId(self.new_id());
        let is_taken = |uuid: Uuid| self.state.projects().any(|project_state| project_state.project.uuid == uuid);
        if wanted.uuid.is_some_and(is_taken) {
            self.conflict(at, Some("uuid"), "another project has this UUID; give its name, or was = its name to rename it");
        }
        let drawn = self.draw();
        // 16 bytes are 22 characters, as many as such a key has.
        let badge_key = URL_SAFE_NO_PAD.encode(self.draw()).into();
        let (check_limit, ping_log_limit) =
            (wanted.check_limit.unwrap_or_default(), wanted.ping_log_limit.unwrap_or(DEFAULT_PING_LOG_LIMIT));
        let (uuid, name) = (wanted.uuid.unwrap_or(drawn), wanted.name.clone());
        let project = Project { id, uuid, name, check_limit, ping_log_limit, badge_key, old_badge: None, import: None };
        let mut fields = limits(&project.name, check_limit, ping_log_limit);
        fields.retain(|(name, value)| **name != *"name" && *value != Value::Number(DEFAULT_PING_LOG_LIMIT.into()));
        let fields = differences(&Fields::new(), &fields);
        self.changes.push(PlannedChange { op: Op::Add, at: at.clone(), fields, uuid: wanted.uuid, needs_link: false });
        self.steps.push(Step::Project(project));
        id
    }
}
