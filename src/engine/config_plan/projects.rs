//! Plans declared projects: matches them with existing ones, and plans their objects in order.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{ConfigPlanner, PlanStep};
use crate::domain::declared::object_fields::{ObjectFields, ObjectValue, diff_fields};
use crate::domain::declared::{
    ChangeOperation, DeclaredProject, ObjectKind, ObjectPath, PlannedChange,
};
use crate::domain::ids::ProjectId;
use crate::domain::project::{DEFAULT_PING_LOG_LIMIT, Project, ProjectName};
use crate::engine::state::ProjectState;

/// Declared project and its existing state.
pub(super) struct ProjectScope<'a> {
    pub(super) id: ProjectId,
    /// Name of the project in paths.
    pub(super) name: Box<str>,
    /// Existing project, if there is one.
    pub(super) existing: Option<&'a ProjectState>,
}

impl ProjectScope<'_> {
    pub(super) fn path(&self, kind: ObjectKind, name: &dyn std::fmt::Display) -> ObjectPath {
        ObjectPath {
            project: Some(self.name.clone()),
            kind,
            name: name.to_string().into(),
        }
    }
}

fn project_fields(
    name: &ProjectName,
    check_limit: Option<u32>,
    ping_log_limit: u32,
) -> ObjectFields {
    let mut fields: ObjectFields = vec![("name".into(), ObjectValue::Text(name.as_str().into()))];
    fields
        .extend(check_limit.map(|limit| ("check-limit".into(), ObjectValue::Number(limit.into()))));
    fields.push((
        "ping-log-limit".into(),
        ObjectValue::Number(ping_log_limit.into()),
    ));
    fields
}

impl<'a> ConfigPlanner<'a> {
    pub(super) fn plan_project(&mut self, wanted: &'a DeclaredProject) {
        let name: Box<str> = wanted.name.as_str().into();
        let at = ObjectPath {
            project: Some(name.clone()),
            kind: ObjectKind::Project,
            name: name.clone(),
        };
        let named = |name: &ProjectName| {
            self.state
                .projects()
                .find(|project_state| project_state.project.name == *name)
        };
        let there = named(&wanted.name).or_else(|| named(wanted.previous_name.as_ref()?));
        let id = match there {
            Some(project_state) => self.plan_project_update(wanted, &project_state.project, &at),
            None => self.plan_new_project(wanted, &at),
        };
        self.projects.insert(name.clone(), id);
        let within = ProjectScope {
            id,
            name,
            existing: there,
        };
        let channels = self.plan_channels(&within, &wanted.channels);
        self.plan_checks(&within, &wanted.checks, &channels);
        self.plan_windows(&within, &wanted.windows);
        self.plan_keys(&within, &wanted.keys);
    }

    fn plan_project_update(
        &mut self,
        wanted: &DeclaredProject,
        there: &Project,
        at: &ObjectPath,
    ) -> ProjectId {
        if wanted.uuid.is_some_and(|uuid| uuid != there.uuid) {
            self.add_conflict(
                at,
                Some("uuid"),
                format!(
                    "the project has the UUID {}, which cannot be changed",
                    there.uuid
                ),
            );
        }
        let changed = Project {
            name: wanted.name.clone(),
            check_limit: wanted.check_limit.unwrap_or(there.check_limit),
            ping_log_limit: wanted.ping_log_limit.unwrap_or(there.ping_log_limit),
            ..there.clone()
        };
        if changed != *there {
            let old = project_fields(&there.name, there.check_limit, there.ping_log_limit);
            let fields = diff_fields(
                &old,
                &project_fields(&changed.name, changed.check_limit, changed.ping_log_limit),
            );
            self.changes.push(PlannedChange {
                operation: ChangeOperation::Change,
                object: at.clone(),
                fields,
                uuid: Some(there.uuid),
                needs_password_link: false,
            });
            self.steps.push(PlanStep::PutProject(changed));
        }
        there.id
    }

    fn plan_new_project(&mut self, wanted: &DeclaredProject, at: &ObjectPath) -> ProjectId {
        let id = ProjectId(self.new_id());
        let is_taken = |uuid: Uuid| {
            self.state
                .projects()
                .any(|project_state| project_state.project.uuid == uuid)
        };
        if wanted.uuid.is_some_and(is_taken) {
            self.add_conflict(
                at,
                Some("uuid"),
                "another project has this UUID; give its name, or was = its name to rename it",
            );
        }
        let drawn = self.draw_uuid();
        // 16 bytes are encoded in 22 characters, the length of a badge key.
        let badge_key = URL_SAFE_NO_PAD.encode(self.draw_uuid()).into();
        let check_limit = wanted.check_limit.unwrap_or_default();
        let ping_log_limit = wanted.ping_log_limit.unwrap_or(DEFAULT_PING_LOG_LIMIT);
        let uuid = wanted.uuid.unwrap_or(drawn);
        let name = wanted.name.clone();
        let project = Project {
            id,
            uuid,
            name,
            check_limit,
            ping_log_limit,
            badge_key,
            legacy_badge: None,
            import: None,
        };
        let mut fields = project_fields(&project.name, check_limit, ping_log_limit);
        fields.retain(|(name, value)| {
            **name != *"name" && *value != ObjectValue::Number(DEFAULT_PING_LOG_LIMIT.into())
        });
        let fields = diff_fields(&ObjectFields::new(), &fields);
        self.changes.push(PlannedChange {
            operation: ChangeOperation::Add,
            object: at.clone(),
            fields,
            uuid: wanted.uuid,
            needs_password_link: false,
        });
        self.steps.push(PlanStep::PutProject(project));
        id
    }
}
