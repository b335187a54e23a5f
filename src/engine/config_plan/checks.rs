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
use crate::domain::status::Status;
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
        within: &ProjectScope<'a>,
        wanted: &'a [DeclaredCheck],
        channels: &ChannelLookup,
    ) {
        let placed: Vec<_> = wanted
            .iter()
            .filter_map(|check| self.match_check(within, check))
            .collect();
        self.validate_check_count(within, &placed);
        let mut names = CheckLookup::default();
        for check in &placed {
            names
                .slugs
                .entry(check.slug.clone())
                .or_default()
                .push(check.id);
            names.uuids.insert(check.uuid, check.id);
            names
                .display_names
                .insert(check.id, display_name(&check.slug, check.uuid));
        }
        let mut parents = BTreeMap::new();
        for check in &placed {
            let named = self.resolve_parents(within, check, &names);
            parents.insert(check.id, named);
        }
        self.validate_no_cycle(within, &placed, &parents);
        // New checks are created first, since others may depend on them.
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for check in placed {
            let parents = parents.get(&check.id).cloned().unwrap_or_default();
            let steps = if check.existing.is_none() {
                &mut new
            } else {
                &mut old
            };
            self.plan_check(within, check, parents, channels, &names, steps);
        }
        let (made, paused): (Vec<_>, Vec<_>) = new
            .into_iter()
            .partition(|step| matches!(step, PlanStep::CreateCheck { .. }));
        self.steps.extend(made.into_iter().chain(paused).chain(old));
    }

    /// Finds the declared check: by UUID, by slug, or by its earlier slug.
    fn match_check(
        &mut self,
        within: &ProjectScope<'a>,
        wanted: &'a DeclaredCheck,
    ) -> Option<MatchedCheck<'a>> {
        let at = within.path(ObjectKind::Check, &wanted.id);
        let slug = wanted.edit.slug.clone().unwrap_or_default();
        let uuid = match &wanted.id {
            ObjectName::Uuid(uuid) => Some(*uuid),
            ObjectName::Text(_) => wanted.uuid,
        };
        let by_uuid = uuid
            .and_then(|uuid| self.state.check_by_uuid(uuid))
            .filter(|check| check.project == within.id);
        let mut there = by_uuid;
        if let ObjectName::Text(_) = wanted.id {
            let state = self.state;
            let of = |slug: &Slug| {
                state
                    .checks_by_slug(within.id, slug)
                    .iter()
                    .filter_map(|id| state.check(*id))
                    .collect::<Vec<_>>()
            };
            let found = match of(&slug) {
                found if found.is_empty() && by_uuid.is_none() => {
                    wanted.previous_slug.as_ref().map(of).unwrap_or_default()
                }
                found => found,
            };
            match found.as_slice() {
                [] => {}
                [one] if uuid.is_none_or(|uuid| uuid == one.uuid) => there = Some(one),
                [one] => {
                    let reason = format!(
                        "the check of this slug has the UUID {}, which cannot be changed",
                        one.uuid
                    );
                    self.add_conflict(&at, Some("uuid"), reason);
                    there = Some(one);
                }
                several if uuid.is_some_and(|uuid| several.iter().any(|one| one.uuid == uuid)) => {}
                several => {
                    let uuids: Vec<_> = several.iter().map(|one| one.uuid.to_string()).collect();
                    let reason = format!(
                        "several checks have this slug; write the UUID of one as the key: {}",
                        uuids.join(", ")
                    );
                    self.add_conflict(&at, None, reason);
                    return None;
                }
            }
        }
        if let Some(check) = there {
            if !self.declared_ids.insert(check.id.0) {
                self.add_conflict(
                    &at,
                    None,
                    "it is declared twice, once by its slug and once by its UUID",
                );
                return None;
            }
            return Some(MatchedCheck {
                declared: wanted,
                path: at,
                existing: there,
                id: check.id,
                uuid: check.uuid,
                slug,
            });
        }
        let id = CheckId(self.new_id());
        let state = self.state;
        let uuid = self.new_uuid(&at, &wanted.id, wanted.uuid, move |uuid| {
            state.check_by_uuid(uuid).is_some()
        });
        Some(MatchedCheck {
            declared: wanted,
            path: at,
            existing: None,
            id,
            uuid,
            slug,
        })
    }

    fn validate_check_count(&mut self, within: &ProjectScope<'_>, placed: &[MatchedCheck<'_>]) {
        let Some(last) = placed.iter().rfind(|check| check.existing.is_none()) else {
            return;
        };
        let project = within.existing.map(|project_state| &project_state.project);
        let limit = self.steps.iter().rev().find_map(|step| match step {
            PlanStep::PutProject(project) if project.id == within.id => Some(project.check_limit),
            _ => None,
        });
        let Some(limit) = limit.unwrap_or_else(|| project?.check_limit) else {
            return;
        };
        let there = within
            .existing
            .into_iter()
            .flat_map(|project_state| &project_state.checks);
        let stay = there.filter(|id| !self.is_to_be_deleted(id.0)).count();
        let count = stay
            + placed
                .iter()
                .filter(|check| check.existing.is_none())
                .count();
        if count > limit as usize {
            let reason = format!(
                "the project would have {count} checks, and at most {limit} are allowed; \
                 check-limit of the project says so"
            );
            self.add_conflict(&last.path, None, reason);
        }
    }

    /// Resolves the parents of a check.
    fn resolve_parents(
        &mut self,
        within: &ProjectScope<'_>,
        check: &MatchedCheck<'_>,
        names: &CheckLookup,
    ) -> Parents {
        let mut ids = Vec::new();
        for parent in &check.declared.parents {
            let found: Vec<CheckId> = match parent {
                ObjectName::Uuid(uuid) => {
                    let there = || {
                        self.state
                            .check_by_uuid(*uuid)
                            .filter(|there| there.project == within.id)
                            .map(|there| there.id)
                    };
                    names
                        .uuids
                        .get(uuid)
                        .copied()
                        .or_else(there)
                        .into_iter()
                        .collect()
                }
                ObjectName::Text(text) => match Slug::from_stored(text) {
                    slug if !slug.is_empty() => {
                        let declared = names.slugs.get(&slug).cloned().unwrap_or_default();
                        let others = self.state.checks_by_slug(within.id, &slug).iter().copied();
                        declared
                            .into_iter()
                            .chain(others.filter(|id| {
                                !names.display_names.contains_key(id)
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

    fn validate_no_cycle(
        &mut self,
        within: &ProjectScope<'_>,
        placed: &[MatchedCheck<'_>],
        parents: &BTreeMap<CheckId, Parents>,
    ) {
        let state = self.state;
        let none = Parents::default();
        let there = |id| {
            state
                .check(id)
                .filter(|check| check.project == within.id)
                .map(|check| &check.settings.parents)
        };
        let parents_of = |id: CheckId| parents.get(&id).or_else(|| there(id)).or(Some(&none));
        for check in placed {
            let Some(own) = parents.get(&check.id).filter(|own| !own.ids().is_empty()) else {
                continue;
            };
            if let Err(error) = own.validate_for(check.id, parents_of) {
                self.add_conflict(&check.path, Some("parents"), error.to_string());
            }
        }
    }

    /// Resolves the channels of a check.
    fn resolve_channels(
        &mut self,
        at: &ObjectPath,
        choice: Option<&ChannelSelection>,
        channels: &ChannelLookup,
    ) -> Box<[ChannelId]> {
        let mut assigned = BTreeSet::new();
        match choice {
            None => {}
            Some(ChannelSelection::All) => assigned.extend(channels.ids()),
            Some(ChannelSelection::Listed(items)) => {
                for item in items {
                    let fitting: Vec<_> = channels.find_by_name(item).into_iter().collect();
                    match fitting.as_slice() {
                        [one] => drop(assigned.insert(*one)),
                        [] => self.add_conflict(
                            at,
                            Some("channels"),
                            format!("the project has no channel {item:?}"),
                        ),
                        _ => self.add_conflict(
                            at,
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
        within: &ProjectScope<'_>,
        placed: MatchedCheck<'_>,
        parents: Parents,
        channels: &ChannelLookup,
        names: &CheckLookup,
        steps: &mut Vec<PlanStep>,
    ) {
        let MatchedCheck {
            declared: wanted,
            path: at,
            existing: there,
            id,
            uuid,
            slug,
        } = placed;
        let new = CheckSettings::default();
        let stored = there.map_or(&new, |check| &check.settings);
        let mut edit = wanted.edit.clone();
        let choice = edit.channels.take();
        let assigned = self.resolve_channels(&at, choice.as_ref(), channels);
        // A new check that is declared with its UUID had its texts on another server.
        let is_moved = there.is_none() && (wanted.uuid.is_some() || wanted.id.text().is_none());
        if let Some(field) = edit.first_overlong_field(stored).filter(|_| !is_moved) {
            self.add_conflict(
                &at,
                Some(field),
                "it is over a limit of today, and the check has not had it so far",
            );
        }
        // Fields that currently have no meaning stay.
        let base = CheckSettings {
            timeout: stored.timeout,
            tz: stored.tz.clone(),
            ..CheckSettings::default()
        };
        let mut settings = edit.apply_to(&base, Some(assigned));
        (settings.failure_threshold, settings.parents) = (wanted.failure_threshold, parents);
        let written = |settings: &CheckSettings| self.check_fields(settings, channels, names);
        let mut fields = written(&settings);
        let Some(check) = there else {
            fields.extend(
                wanted
                    .paused
                    .filter(|paused| *paused)
                    .map(|paused| ("paused".into(), ObjectValue::Flag(paused))),
            );
            let names = CheckUuids {
                uuid,
                badge: self.draw_uuid(),
            };
            let settings = Box::new(settings);
            steps.push(PlanStep::CreateCheck {
                id,
                names,
                project: within.id,
                settings,
            });
            if wanted.paused == Some(true) {
                steps.push(PlanStep::PauseCheck(id));
            }
            self.note_new_object(id.0, &at, &fields, Some(uuid));
            return;
        };
        let mut old = written(stored);
        let is_paused = check.state.status == Status::Paused;
        if let Some(paused) = wanted.paused {
            old.push(("paused".into(), ObjectValue::Flag(is_paused)));
            fields.push(("paused".into(), ObjectValue::Flag(paused)));
        }
        for (fields, slug) in [(&mut old, &stored.slug), (&mut fields, &slug)] {
            fields.push(("slug".into(), ObjectValue::Text(slug.as_str().into())));
        }
        if !self.compare_existing(id.0, &at, &old, &fields, Some(uuid)) {
            return;
        }
        if settings != *stored {
            steps.push(PlanStep::UpdateCheck(id, Box::new(settings)));
        }
        match wanted.paused {
            Some(true) if !is_paused => steps.push(PlanStep::PauseCheck(id)),
            Some(false) if is_paused => steps.push(PlanStep::ResumeCheck(id)),
            _ => {}
        }
    }

    /// Fields of a check, by which two versions are compared.
    fn check_fields(
        &self,
        settings: &CheckSettings,
        channels: &ChannelLookup,
        names: &CheckLookup,
    ) -> ObjectFields {
        let there = |id: &CheckId| {
            self.state
                .check(*id)
                .map(|check| display_name(&check.settings.slug, check.uuid))
        };
        let parent = |id: &CheckId| names.display_names.get(id).cloned().or_else(|| there(id));
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
