//! Plans declared users of the dashboard.

use std::collections::BTreeMap;

use super::{ConfigPlanner, PlanStep};
use crate::domain::declared::object_fields::{ObjectFields, ObjectValue, diff_fields};
use crate::domain::declared::{
    ChangeOperation, DeclaredGrant, DeclaredUser, ObjectKind, ObjectPath, PlannedChange,
};
use crate::domain::ids::UserId;
use crate::domain::user::{Grant, ProjectMemberships, User};
use crate::engine::apply::MAX_USERS;
use crate::engine::command::user::{NewUser, UserChanges};

impl ConfigPlanner<'_> {
    pub(super) fn plan_users(&mut self, declared_users: &[DeclaredUser]) {
        let mut added = 0;
        // Owners after the change, with permission to sign in.
        let can_own = |user: &User| user.grant.is_owner() && !user.disabled;
        let mut owners: BTreeMap<u64, bool> = self
            .state
            .users
            .iter()
            .map(|user| (user.id.0, can_own(user)))
            .collect();
        let had_owner = owners.values().any(|owns| *owns);
        let mut last = None;
        let mut deferred_steps = Vec::new();
        for user in declared_users {
            let path = ObjectPath {
                project: None,
                kind: ObjectKind::User,
                name: user.name.as_str().into(),
            };
            let Some(grant) = self.resolve_grant(&path, &user.grant) else {
                continue;
            };
            let owns = grant == Grant::Owner && user.disabled != Some(true);
            match self.state.users.by_name(&user.name).cloned() {
                Some(existing) => {
                    owners.insert(
                        existing.id.0,
                        grant == Grant::Owner && !user.disabled.unwrap_or(existing.disabled),
                    );
                    let step = self.plan_user_update(user, &existing, grant, &path);
                    // At least one owner must exist at any time.
                    let (first, second) = if owns { (step, None) } else { (None, step) };
                    self.steps.extend(first);
                    deferred_steps.extend(second);
                }
                None => {
                    added += 1;
                    let id = self.plan_new_user(user, grant, &path);
                    owners.insert(id.0, owns);
                }
            }
            last = Some(path);
        }
        self.steps.extend(deferred_steps);
        let Some(path) = last else { return };
        owners.retain(|id, _| !self.is_to_be_deleted(*id));
        if had_owner && !owners.values().any(|owns| *owns) {
            self.add_conflict(
                &path,
                None,
                "no owner with permission to sign in would remain; declare one with owner = true",
            );
        }
        if self.state.users.len() + added > MAX_USERS {
            self.add_conflict(
                &path,
                None,
                format!("at most {MAX_USERS} users are allowed"),
            );
        }
    }

    /// Permissions of a user, with the numbers of projects.
    fn resolve_grant(&mut self, path: &ObjectPath, declared: &DeclaredGrant) -> Option<Grant> {
        let DeclaredGrant::Projects(declared_projects) = declared else {
            return Some(Grant::Owner);
        };
        let mut projects = Vec::new();
        for (name, membership) in declared_projects {
            let existing = || {
                self.state
                    .projects()
                    .find(|project_state| project_state.project.name == *name)
                    .map(|found| found.project.id)
            };
            let Some(id) = self.projects.get(name.as_str()).copied().or_else(existing) else {
                self.add_conflict(
                    path,
                    Some("projects"),
                    format!("there is no project {:?}", name.as_str()),
                );
                return None;
            };
            projects.push((id, *membership));
        }
        Some(Grant::Projects(ProjectMemberships::new(projects)))
    }

    fn user_fields(&self, grant: &Grant, disabled: bool, password: &str) -> ObjectFields {
        let mut fields = ObjectFields::new();
        match grant {
            Grant::Owner => fields.push(("owner".into(), ObjectValue::Flag(true))),
            Grant::Projects(projects) => {
                let name = |id| {
                    let declared = self
                        .projects
                        .iter()
                        .find(|(_, declared)| **declared == id)
                        .map(|(name, _)| name.clone());
                    declared.or_else(|| Some(self.state.project(id)?.project.name.as_str().into()))
                };
                let entries = projects.iter().filter_map(|(id, kind)| {
                    Some((name(id)?, ObjectValue::Text(kind.name().into())))
                });
                fields.push(("projects".into(), ObjectValue::Table(entries.collect())));
            }
        }
        fields.push(("disabled".into(), ObjectValue::Flag(disabled)));
        fields.push(("password-hash".into(), ObjectValue::Secret(password.into())));
        fields
    }

    fn plan_user_update(
        &mut self,
        declared: &DeclaredUser,
        existing: &User,
        grant: Grant,
        path: &ObjectPath,
    ) -> Option<PlanStep> {
        let disabled = declared.disabled.unwrap_or(existing.disabled);
        let password = declared
            .password
            .clone()
            .filter(|password| existing.password.as_ref() != Some(password));
        let old = self.user_fields(&existing.grant, existing.disabled, "");
        let new = self.user_fields(
            &grant,
            disabled,
            if password.is_some() { "other" } else { "" },
        );
        self.compare_existing(existing.id.0, path, &old, &new, None)
            .then(|| {
                let changes = UserChanges {
                    password,
                    grant: Some(grant),
                    disabled: Some(disabled),
                    ..UserChanges::default()
                };
                PlanStep::UpdateUser(existing.id, Box::new(changes))
            })
    }

    fn plan_new_user(
        &mut self,
        declared: &DeclaredUser,
        grant: Grant,
        path: &ObjectPath,
    ) -> UserId {
        let id = UserId(self.new_id());
        let mut fields = self.user_fields(&grant, declared.disabled == Some(true), "");
        fields.retain(|(_, value)| {
            !matches!(value, ObjectValue::Secret(_) | ObjectValue::Flag(false))
        });
        let user = NewUser {
            uuid: self.generate_uuid(),
            name: declared.name.clone(),
            password: declared.password.clone(),
            grant,
        };
        self.steps.push(PlanStep::CreateUser {
            id,
            user: Box::new(user),
            disabled: declared.disabled == Some(true),
        });
        let needs_link = declared.password.is_none() && declared.disabled != Some(true);
        let fields = diff_fields(&ObjectFields::new(), &fields);
        self.changes.push(PlannedChange {
            operation: ChangeOperation::Add,
            object: path.clone(),
            fields,
            uuid: None,
            needs_password_link: needs_link,
        });
        self.declared_ids.insert(id.0);
        if let Some(source) = self.source {
            self.steps
                .push(PlanStep::SetSource(id.0, Some(source.clone())));
        }
        id
    }
}
