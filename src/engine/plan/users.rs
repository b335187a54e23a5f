//! Declared users of the dashboard.

use std::collections::BTreeMap;

use super::{Planner, Step};
use crate::domain::ids::UserId;
use crate::domain::user::{Grant, Projects, User};
use crate::domain::wanted::fields::{Fields, Value, differences};
use crate::domain::wanted::{ObjectKind, ObjectPath, Op, PlannedChange, WantedGrant, WantedUser};
use crate::engine::apply::MOST_USERS;
use crate::engine::command::user::{NewUser, UserChanges};

impl Planner<'_> {
    pub(super) fn users(&mut self, wanted: &[WantedUser]) {
        let mut added = 0;
        // Who will be an owner that may sign in.
        let can_own = |user: &User| user.grant.is_owner() && !user.disabled;
        let mut owners: BTreeMap<u64, bool> = self.state.users.iter().map(|user| (user.id.0, can_own(user))).collect();
        let had_owner = owners.values().any(|owns| *owns);
        let (mut last, mut later) = (None, Vec::new());
        for user in wanted {
            let at = ObjectPath { project: None, kind: ObjectKind::User, name: user.name.as_str().into() };
            let Some(grant) = self.granted(&at, &user.grant) else { continue };
            let owns = grant == Grant::Owner && user.disabled != Some(true);
            match self.state.users.by_name(&user.name).cloned() {
                Some(there) => {
                    owners.insert(there.id.0, grant == Grant::Owner && !user.disabled.unwrap_or(there.disabled));
                    let step = self.known_user(user, &there, grant, &at);
                    // Somebody has to be an owner at each moment.
                    let (first, second) = if owns { (step, None) } else { (None, step) };
                    self.steps.extend(first);
                    later.extend(second);
                }
                None => {
                    added += 1;
                    let id = self.new_user(user, grant, &at);
                    owners.insert(id.0, owns);
                }
            }
            last = Some(at);
        }
        self.steps.extend(later);
        let Some(at) = last else { return };
        owners.retain(|id, _| !self.is_leaving(*id));
        if had_owner && !owners.values().any(|owns| *owns) {
            self.conflict(&at, None, "no owner who may sign in would be left; declare one with owner = true");
        }
        if self.state.users.len() + added > MOST_USERS {
            self.conflict(&at, None, format!("there are at most {MOST_USERS} users"));
        }
    }

    /// What a user may do, its projects by number.
    fn granted(&mut self, at: &ObjectPath, wanted: &WantedGrant) -> Option<Grant> {
        let WantedGrant::Projects(named) = wanted else { return Some(Grant::Owner) };
        let mut projects = Vec::new();
        for (name, membership) in named {
            let there = || self.state.projects().find(|project_state| project_state.project.name == *name).map(|found| found.project.id);
            let Some(id) = self.projects.get(name.as_str()).copied().or_else(there) else {
                self.conflict(at, Some("projects"), format!("there is no project {:?}", name.as_str()));
                return None;
            };
            projects.push((id, *membership));
        }
        Some(Grant::Projects(Projects::new(projects)))
    }

    fn user_fields(&self, grant: &Grant, disabled: bool, password: &str) -> Fields {
        let mut fields = Fields::new();
        match grant {
            Grant::Owner => fields.push(("owner".into(), Value::Flag(true))),
            Grant::Projects(projects) => {
                let name = |id| {
                    let declared = self.projects.iter().find(|(_, declared)| **declared == id).map(|(name, _)| name.clone());
                    declared.or_else(|| Some(self.state.project(id)?.project.name.as_str().into()))
                };
                let named = projects.iter().filter_map(|(id, kind)| Some((name(id)?, Value::Text(kind.name().into()))));
                fields.push(("projects".into(), Value::Table(named.collect())));
            }
        }
        fields.push(("disabled".into(), Value::Flag(disabled)));
        fields.push(("password-hash".into(), Value::Secret(password.into())));
        fields
    }

    fn known_user(&mut self, wanted: &WantedUser, there: &User, grant: Grant, at: &ObjectPath) -> Option<Step> {
        let disabled = wanted.disabled.unwrap_or(there.disabled);
        let password = wanted.password.clone().filter(|password| there.password.as_ref() != Some(password));
        let old = self.user_fields(&there.grant, there.disabled, "");
        let new = self.user_fields(&grant, disabled, if password.is_some() { "other" } else { "" });
        self.there(there.id.0, at, &old, &new, None).then(|| {
            let changes = UserChanges { password, grant: Some(grant), disabled: Some(disabled), ..UserChanges::default() };
            Step::User(there.id, Box::new(changes))
        })
    }

    fn new_user(&mut self, wanted: &WantedUser, grant: Grant, at: &ObjectPath) -> UserId {
        let id = UserId(self.new_id());
        let mut fields = self.user_fields(&grant, wanted.disabled == Some(true), "");
        fields.retain(|(_, value)| !matches!(value, Value::Secret(_) | Value::Flag(false)));
        let user = NewUser { uuid: self.draw(), name: wanted.name.clone(), password: wanted.password.clone(), grant };
        self.steps.push(Step::NewUser { id, user: Box::new(user), disabled: wanted.disabled == Some(true) });
        let needs_link = wanted.password.is_none() && wanted.disabled != Some(true);
        let fields = differences(&Fields::new(), &fields);
        self.changes.push(PlannedChange { op: Op::Add, at: at.clone(), fields, uuid: None, needs_link });
        self.kept.insert(id.0);
        if let Some(source) = self.source {
            self.steps.push(Step::Managed(id.0, Some(source.clone())));
        }
        id
    }
}
