//! Plans the declared checks of a project: their settings, channels and parents.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::objects::ChannelLookup;
use super::projects::ProjectScope;
use super::{ConfigPlanner, PlanStep};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::check_edit::ChannelSelection;
use crate::domain::declared::object_fields::{self, ObjectFields, ObjectValue};
use crate::domain::declared::{DeclaredCheck, ObjectKind, ObjectName, ObjectPath};
use crate::domain::ids::{ChannelId, CheckId};
use crate::domain::parents::Parents;
use crate::domain::status::VisibleStatus;
use crate::domain::text::Slug;
use crate::engine::command::CheckUuids;

/// Declared check and the existing check that it matches, if any.
struct MatchedCheck<'a> {
    declared: &'a DeclaredCheck,
    path: ObjectPath,
    existing: Option<&'a Check>,
    id: CheckId,
    uuid: Uuid,
    slug: Slug,
}

/// Checks that a project will have, by the names that declarations use.
#[derive(Default)]
struct CheckLookup {
    slugs: BTreeMap<Slug, Vec<CheckId>>,
    uuids: BTreeMap<Uuid, CheckId>,
    /// Displayed name of each check.
    display_names: BTreeMap<CheckId, Box<str>>,
}

impl<'a> ConfigPlanner<'a> {
    pub(super) fn plan_checks(
        &mut self,
        scope: &ProjectScope<'a>,
        declared_checks: &'a [DeclaredCheck],
        channels: &ChannelLookup,
    ) {
        let matched_checks: Vec<_> = declared_checks
            .iter()
            .filter_map(|check| self.match_check(scope, check))
            .collect();
        self.validate_check_count(scope, &matched_checks);
        let mut lookup = CheckLookup::default();
        for check in &matched_checks {
            lookup
                .slugs
                .entry(check.slug.clone())
                .or_default()
                .push(check.id);
            lookup.uuids.insert(check.uuid, check.id);
            lookup
                .display_names
                .insert(check.id, display_name(&check.slug, check.uuid));
        }
        let mut parents = BTreeMap::new();
        for check in &matched_checks {
            parents.insert(check.id, self.resolve_parents(scope, check, &lookup));
        }
        self.validate_parents(scope, &matched_checks, &parents);
        // New checks are created first, since others may depend on them.
        let mut new = Vec::new();
        let mut old = Vec::new();
        for check in matched_checks {
            let parents = parents.get(&check.id).cloned().unwrap_or_default();
            let steps = if check.existing.is_none() {
                &mut new
            } else {
                &mut old
            };
            self.plan_check(scope, check, parents, channels, &lookup, steps);
        }
        let (created, paused): (Vec<_>, Vec<_>) = new
            .into_iter()
            .partition(|step| matches!(step, PlanStep::CreateCheck { .. }));
        self.steps
            .extend(created.into_iter().chain(paused).chain(old));
    }

    /// Finds the declared check: by UUID, by slug, or by its earlier slug.
    fn match_check(
        &mut self,
        scope: &ProjectScope<'a>,
        declared: &'a DeclaredCheck,
    ) -> Option<MatchedCheck<'a>> {
        let path = scope.path(ObjectKind::Check, &declared.id);
        let slug = declared.edit.slug.clone().unwrap_or_default();
        let uuid = declared.id.uuid_or(declared.uuid);
        let by_uuid = uuid
            .and_then(|uuid| self.state.check_by_uuid(uuid))
            .filter(|check| check.project == scope.id);
        let mut existing = by_uuid;
        if let ObjectName::Text(_) = declared.id {
            let state = self.state;
            let checks_with_slug = |slug: &Slug| {
                state
                    .checks_by_slug(scope.id, slug)
                    .iter()
                    .filter_map(|id| state.check(*id))
                    .collect::<Vec<_>>()
            };
            let found = match checks_with_slug(&slug) {
                found if found.is_empty() && by_uuid.is_none() => declared
                    .previous_slug
                    .as_ref()
                    .map(checks_with_slug)
                    .unwrap_or_default(),
                found => found,
            };
            match found.as_slice() {
                [] => {}
                [one] if uuid.is_none_or(|uuid| uuid == one.uuid) => existing = Some(one),
                [one] => {
                    let reason = format!(
                        "the check with this slug has the UUID {}, which cannot be changed",
                        one.uuid
                    );
                    self.add_conflict(&path, Some("uuid"), reason);
                    existing = Some(one);
                }
                several if uuid.is_some_and(|uuid| several.iter().any(|one| one.uuid == uuid)) => {}
                several => {
                    let uuids: Vec<_> = several.iter().map(|one| one.uuid.to_string()).collect();
                    let reason = format!(
                        "several checks have this slug; use the UUID of one as the key: {}",
                        uuids.join(", ")
                    );
                    self.add_conflict(&path, None, reason);
                    return None;
                }
            }
        }
        if let Some(check) = existing {
            if !self.declared_ids.insert(check.id.0) {
                self.add_conflict(
                    &path,
                    None,
                    "it is declared twice, once by its slug and once by its UUID",
                );
                return None;
            }
            return Some(MatchedCheck {
                declared,
                path,
                existing,
                id: check.id,
                uuid: check.uuid,
                slug,
            });
        }
        let id = CheckId(self.new_id());
        let state = self.state;
        let uuid = self.new_uuid(&path, &declared.id, declared.uuid, move |uuid| {
            state.check_by_uuid(uuid).is_some()
        });
        Some(MatchedCheck {
            declared,
            path,
            existing: None,
            id,
            uuid,
            slug,
        })
    }

    fn validate_check_count(
        &mut self,
        scope: &ProjectScope<'_>,
        matched_checks: &[MatchedCheck<'_>],
    ) {
        let Some(last) = matched_checks
            .iter()
            .rfind(|check| check.existing.is_none())
        else {
            return;
        };
        let project = scope.existing.map(|project_state| &project_state.project);
        let limit = self.steps.iter().rev().find_map(|step| match step {
            PlanStep::PutProject(project) if project.id == scope.id => Some(project.check_limit),
            _ => None,
        });
        let Some(limit) = limit.unwrap_or_else(|| project?.check_limit) else {
            return;
        };
        let existing_ids = scope
            .existing
            .into_iter()
            .flat_map(|project_state| &project_state.checks);
        let remaining_count = existing_ids
            .filter(|id| !self.is_to_be_deleted(id.0))
            .count();
        let count = remaining_count
            + matched_checks
                .iter()
                .filter(|check| check.existing.is_none())
                .count();
        if count > limit as usize {
            let reason =
                format!("the project would have {count} checks, but its check-limit is {limit}");
            self.add_conflict(&last.path, None, reason);
        }
    }

    /// Resolves the parents of a check.
    fn resolve_parents(
        &mut self,
        scope: &ProjectScope<'_>,
        check: &MatchedCheck<'_>,
        lookup: &CheckLookup,
    ) -> Parents {
        let mut ids = Vec::new();
        for parent in &check.declared.parents {
            let found: Vec<CheckId> = match parent {
                ObjectName::Uuid(uuid) => {
                    let existing = || {
                        self.state
                            .check_by_uuid(*uuid)
                            .filter(|existing| existing.project == scope.id)
                            .map(|existing| existing.id)
                    };
                    lookup
                        .uuids
                        .get(uuid)
                        .copied()
                        .or_else(existing)
                        .into_iter()
                        .collect()
                }
                ObjectName::Text(text) => match Slug::from_stored(text) {
                    slug if !slug.is_empty() => {
                        let declared = lookup.slugs.get(&slug).cloned().unwrap_or_default();
                        let others = self.state.checks_by_slug(scope.id, &slug).iter().copied();
                        declared
                            .into_iter()
                            .chain(others.filter(|id| {
                                !lookup.display_names.contains_key(id)
                                    && !self.is_to_be_deleted(id.0)
                            }))
                            .collect()
                    }
                    _ => Vec::new(),
                },
            };
            match found.as_slice() {
                [one] => ids.push(*one),
                [] => self.add_conflict(
                    &check.path,
                    Some("parents"),
                    format!("the project has no check {:?}", parent.to_string()),
                ),
                _ => {
                    self.add_conflict(
                        &check.path,
                        Some("parents"),
                        format!(
                            "several checks have the slug {:?}; give a UUID",
                            parent.to_string()
                        ),
                    );
                }
            }
        }
        Parents::new(ids).unwrap_or_else(|error| {
            self.add_conflict(&check.path, Some("parents"), error.to_string());
            Parents::default()
        })
    }

    /// Reports the declared parents that a check cannot have, also because of a check that is not
    /// declared and depends on it.
    fn validate_parents(
        &mut self,
        scope: &ProjectScope<'_>,
        matched_checks: &[MatchedCheck<'_>],
        parents: &BTreeMap<CheckId, Parents>,
    ) {
        let state = self.state;
        let none = Parents::default();
        let existing_parents = |id| {
            let check = state.check(id).filter(|check| check.project == scope.id);
            check.map(|check| &check.settings.parents).or(Some(&none))
        };
        let parents_of = |id| parents.get(&id).or_else(|| existing_parents(id));
        for check in matched_checks {
            let own_parents = parents.get(&check.id).unwrap_or(&none);
            if let Err(error) = own_parents.validate_for(check.id, parents_of) {
                self.add_conflict(&check.path, Some("parents"), error.to_string());
            }
        }
        let existing_checks = scope.existing.iter().flat_map(|project| &project.checks);
        for check in existing_checks.filter_map(|id| state.check(*id)) {
            let own_parents = &check.settings.parents;
            if own_parents.ids().is_empty()
                || parents.contains_key(&check.id)
                || self.is_to_be_deleted(check.id.0)
                || own_parents
                    .validate_for(check.id, existing_parents)
                    .is_err()
            {
                continue;
            }
            if let Err(error) = own_parents.validate_for(check.id, parents_of) {
                let name = display_name(&check.settings.slug, check.uuid);
                let path = scope.path(ObjectKind::Check, &name);
                let reason = format!("it depends on declared checks: {error}");
                self.add_conflict(&path, Some("parents"), reason);
            }
        }
    }

    /// Resolves the channels of a check.
    fn resolve_channels(
        &mut self,
        path: &ObjectPath,
        selection: Option<&ChannelSelection>,
        channels: &ChannelLookup,
    ) -> Box<[ChannelId]> {
        let mut assigned = BTreeSet::new();
        match selection {
            None => {}
            Some(ChannelSelection::All) => assigned.extend(channels.ids()),
            Some(ChannelSelection::Listed(items)) => {
                for item in items {
                    let matches: Vec<_> = channels.find(item).into_iter().collect();
                    match matches.as_slice() {
                        [one] => drop(assigned.insert(*one)),
                        [] => self.add_conflict(
                            path,
                            Some("channels"),
                            format!("the project has no channel {item:?}"),
                        ),
                        _ => self.add_conflict(
                            path,
                            Some("channels"),
                            format!("several channels are named {item:?}; give the UUID of one"),
                        ),
                    }
                }
            }
        }
        assigned.into_iter().collect()
    }

    /// Plans the steps for a check.
    fn plan_check(
        &mut self,
        scope: &ProjectScope<'_>,
        matched_check: MatchedCheck<'_>,
        parents: Parents,
        channels: &ChannelLookup,
        lookup: &CheckLookup,
        steps: &mut Vec<PlanStep>,
    ) {
        let MatchedCheck {
            declared,
            path,
            existing,
            id,
            uuid,
            slug,
        } = matched_check;
        let new = CheckSettings::default();
        let stored = existing.map_or(&new, |check| &check.settings);
        let mut edit = declared.edit.clone();
        let selection = edit.channels.take();
        let assigned = self.resolve_channels(&path, selection.as_ref(), channels);
        // A new check that is declared with its UUID comes from another server, which accepted its
        // texts.
        let is_moved =
            existing.is_none() && (declared.uuid.is_some() || declared.id.text().is_none());
        if let Some(field) = edit.first_overlong_field(stored).filter(|_| !is_moved) {
            self.add_conflict(
                &path,
                Some(field),
                "it is too long; only a check that already has this text may keep it",
            );
        }
        // The period of a check with a schedule, and the zone of one without, stay.
        let base = CheckSettings {
            timeout: stored.timeout,
            tz: stored.tz.clone(),
            ..CheckSettings::default()
        };
        let mut settings = edit.apply_to(&base, Some(assigned));
        (settings.failure_threshold, settings.parents) = (declared.failure_threshold, parents);
        let fields_of = |settings: &CheckSettings| self.check_fields(settings, channels, lookup);
        let mut fields = fields_of(&settings);
        let Some(check) = existing else {
            fields.extend(
                declared
                    .paused
                    .filter(|paused| *paused)
                    .map(|paused| ("paused".into(), ObjectValue::Flag(paused))),
            );
            let uuids = CheckUuids {
                uuid,
                badge: self.generate_uuid(),
            };
            let settings = Box::new(settings);
            steps.push(PlanStep::CreateCheck {
                id,
                uuids,
                project: scope.id,
                settings,
            });
            if declared.paused == Some(true) {
                steps.push(PlanStep::PauseCheck(id));
            }
            self.record_new_object(id.0, &path, &fields, Some(uuid));
            return;
        };
        let mut old = fields_of(stored);
        // The deadline of a run may have passed without being noticed yet.
        let is_paused =
            check.state.visible_status(&check.settings, self.now) == VisibleStatus::Paused;
        if let Some(paused) = declared.paused {
            old.push(("paused".into(), ObjectValue::Flag(is_paused)));
            fields.push(("paused".into(), ObjectValue::Flag(paused)));
        }
        for (fields, slug) in [(&mut old, &stored.slug), (&mut fields, &slug)] {
            fields.push(("slug".into(), ObjectValue::Text(slug.as_str().into())));
        }
        if !self.compare_existing(id.0, &path, &old, &fields, Some(uuid)) {
            return;
        }
        // Pausing and resuming end a run. Otherwise the new settings could make it overdue.
        match declared.paused {
            Some(true) if !is_paused => steps.push(PlanStep::PauseCheck(id)),
            Some(false) if is_paused => steps.push(PlanStep::ResumeCheck(id)),
            _ => {}
        }
        if settings != *stored {
            steps.push(PlanStep::UpdateCheck(id, Box::new(settings)));
        }
    }

    /// Fields of a check, by which two versions are compared.
    fn check_fields(
        &self,
        settings: &CheckSettings,
        channels: &ChannelLookup,
        lookup: &CheckLookup,
    ) -> ObjectFields {
        let existing_name = |id: &CheckId| {
            self.state
                .check(*id)
                .map(|check| display_name(&check.settings.slug, check.uuid))
        };
        let parent = |id: &CheckId| {
            lookup
                .display_names
                .get(id)
                .cloned()
                .or_else(|| existing_name(id))
        };
        let parents = settings.parents.ids().iter().filter_map(parent).collect();
        object_fields::check_fields(
            settings,
            settings
                .channels
                .iter()
                .filter_map(|id| channels.display_name(*id))
                .collect(),
            parents,
        )
    }
}

fn display_name(slug: &Slug, uuid: Uuid) -> Box<str> {
    if slug.is_empty() {
        uuid.to_string().into()
    } else {
        slug.as_str().into()
    }
}
