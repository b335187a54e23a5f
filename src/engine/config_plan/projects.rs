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

fn project_fields(project: &Project) -> ObjectFields {
    let mut fields: ObjectFields = vec![(
        "name".into(),
        ObjectValue::Text(project.name.as_str().into()),
    )];
    let limit = project.check_limit;
    fields.extend(limit.map(|limit| ("check-limit".into(), ObjectValue::Number(limit.into()))));
    fields.push((
        "ping-log-limit".into(),
        ObjectValue::Number(project.ping_log_limit.into()),
    ));
    if project.allows_ping_settings {
        fields.push(("ping-settings".into(), ObjectValue::Flag(true)));
    }
    fields
}

impl<'a> ConfigPlanner<'a> {
    pub(super) fn plan_project(&mut self, declared: &'a DeclaredProject) {
        let name: Box<str> = declared.name.as_str().into();
        let path = ObjectPath {
            project: Some(name.clone()),
            kind: ObjectKind::Project,
            name: name.clone(),
        };
        let find_by_name = |name: &ProjectName| {
            self.state
                .projects()
                .find(|project_state| project_state.project.name == *name)
        };
        let existing =
            find_by_name(&declared.name).or_else(|| find_by_name(declared.previous_name.as_ref()?));
        let id = match existing {
            Some(project_state) => {
                self.plan_project_update(declared, &project_state.project, &path)
            }
            None => self.plan_new_project(declared, &path),
        };
        self.projects.insert(name.clone(), id);
        let scope = ProjectScope { id, name, existing };
        let channels = self.plan_channels(&scope, &declared.channels);
        self.plan_checks(&scope, &declared.checks, &channels);
        self.plan_windows(&scope, &declared.windows);
        self.plan_keys(&scope, &declared.keys);
    }

    fn plan_project_update(
        &mut self,
        declared: &DeclaredProject,
        existing: &Project,
        path: &ObjectPath,
    ) -> ProjectId {
        if declared.uuid.is_some_and(|uuid| uuid != existing.uuid) {
            self.add_conflict(
                path,
                Some("uuid"),
                format!(
                    "the project has the UUID {}, which cannot be changed",
                    existing.uuid
                ),
            );
        }
        let changed = Project {
            name: declared.name.clone(),
            check_limit: declared.check_limit.unwrap_or(existing.check_limit),
            ping_log_limit: declared.ping_log_limit.unwrap_or(existing.ping_log_limit),
            allows_ping_settings: declared
                .allows_ping_settings
                .unwrap_or(existing.allows_ping_settings),
            ..existing.clone()
        };
        if changed != *existing {
            let fields = diff_fields(&project_fields(existing), &project_fields(&changed));
            self.changes.push(PlannedChange {
                operation: ChangeOperation::Change,
                object: path.clone(),
                fields,
                uuid: Some(existing.uuid),
                needs_password_link: false,
            });
            self.steps.push(PlanStep::PutProject(changed));
        }
        existing.id
    }

    fn plan_new_project(&mut self, declared: &DeclaredProject, path: &ObjectPath) -> ProjectId {
        let id = ProjectId(self.new_id());
        let is_taken = |uuid: Uuid| {
            self.state
                .projects()
                .any(|project_state| project_state.project.uuid == uuid)
        };
        if declared.uuid.is_some_and(is_taken) {
            self.add_conflict(
                path,
                Some("uuid"),
                "another project has this UUID; use its name, or set was to its name to rename it",
            );
        }
        let random_uuid = self.generate_uuid();
        // 16 bytes are encoded in 22 characters, the length of a badge key.
        let badge_key = URL_SAFE_NO_PAD.encode(self.generate_uuid()).into();
        let check_limit = declared.check_limit.unwrap_or_default();
        let ping_log_limit = declared.ping_log_limit.unwrap_or(DEFAULT_PING_LOG_LIMIT);
        let uuid = declared.uuid.unwrap_or(random_uuid);
        let name = declared.name.clone();
        let project = Project {
            id,
            uuid,
            name,
            check_limit,
            ping_log_limit,
            allows_ping_settings: declared.allows_ping_settings.unwrap_or_default(),
            badge_key,
            legacy_badge: None,
            import: None,
            status_pages: Vec::new(),
        };
        let mut fields = project_fields(&project);
        fields.retain(|(name, value)| {
            **name != *"name" && *value != ObjectValue::Number(DEFAULT_PING_LOG_LIMIT.into())
        });
        let fields = diff_fields(&ObjectFields::new(), &fields);
        self.changes.push(PlannedChange {
            operation: ChangeOperation::Add,
            object: path.clone(),
            fields,
            uuid: declared.uuid,
            needs_password_link: false,
        });
        self.steps.push(PlanStep::PutProject(project));
        id
    }
}
