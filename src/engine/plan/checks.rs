//! Declared checks of a project: what they will be set to, with the channels and the parents that they name.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::objects::NamedChannels;
use super::projects::Within;
use super::{Planner, Step};
use crate::domain::check::{Check, Settings};
use crate::domain::edit::ChannelChoice;
use crate::domain::ids::{ChannelId, CheckId};
use crate::domain::parents::Parents;
use crate::domain::status::Status;
use crate::domain::text::Slug;
use crate::domain::wanted::fields::{self, Fields, Value};
use crate::domain::wanted::{ObjectKind, ObjectName, ObjectPath, WantedCheck};
use crate::engine::command::CheckNames;

/// A declared check, and which of those that are there it is.
struct Placed<'a> {
    wanted: &'a WantedCheck,
    at: ObjectPath,
    there: Option<&'a Check>,
    id: CheckId,
    uuid: Uuid,
    slug: Slug,
}

/// The checks that a project will have, as files may name them.
#[derive(Default)]
struct Names {
    slugs: BTreeMap<Slug, Vec<CheckId>>,
    uuids: BTreeMap<Uuid, CheckId>,
    /// How each is shown.
    shown: BTreeMap<CheckId, Box<str>>,
}

impl<'a> Planner<'a> {
    pub(super) fn checks(&mut self, within: &Within<'a>, wanted: &'a [WantedCheck], channels: &NamedChannels) {
        let placed: Vec<_> = wanted.iter().filter_map(|check| self.placed(within, check)).collect();
        self.expect_room(within, &placed);
        let mut names = Names::default();
        for check in &placed {
            names.slugs.entry(check.slug.clone()).or_default().push(check.id);
            names.uuids.insert(check.uuid, check.id);
            names.shown.insert(check.id, shown(&check.slug, check.uuid));
        }
        let mut parents = BTreeMap::new();
        for check in &placed {
            let named = self.parents(within, check, &names);
            parents.insert(check.id, named);
        }
        self.expect_no_circle(within, &placed, &parents);
        // What is new is there before anything else is looked at again: others may depend on it.
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for check in placed {
            let parents = parents.get(&check.id).cloned().unwrap_or_default();
            let steps = if check.there.is_none() { &mut new } else { &mut old };
            self.check(within, check, parents, channels, &names, steps);
        }
        let (made, paused): (Vec<_>, Vec<_>) = new.into_iter().partition(|step| matches!(step, Step::NewCheck { .. }));
        self.steps.extend(made.into_iter().chain(paused).chain(old));
    }

    /// Which check is meant: by UUID, or by slug, or by the slug that it had before.
    fn placed(&mut self, within: &Within<'a>, wanted: &'a WantedCheck) -> Option<Placed<'a>> {
        let at = within.path(ObjectKind::Check, &wanted.id);
        let slug = wanted.edit.slug.clone().unwrap_or_default();
        let uuid = match &wanted.id {
            ObjectName::Uuid(uuid) => Some(*uuid),
            ObjectName::Text(_) => wanted.uuid,
        };
        let by_uuid = uuid.and_then(|uuid| self.state.check_by_uuid(uuid)).filter(|check| check.project == within.id);
        let mut there = by_uuid;
        if let ObjectName::Text(_) = wanted.id {
            let state = self.state;
            let of = |slug: &Slug| state.checks_by_slug(within.id, slug).iter().filter_map(|id| state.check(*id)).collect::<Vec<_>>();
            let found = match of(&slug) {
                found if found.is_empty() && by_uuid.is_none() => wanted.was.as_ref().map(of).unwrap_or_default(),
                found => found,
            };
            match found.as_slice() {
                [] => {}
                [one] if uuid.is_none_or(|uuid| uuid == one.uuid) => there = Some(one),
                [one] => {
                    let reason = format!("the check of this slug has the UUID {}, which cannot be changed", one.uuid);
                    self.conflict(&at, Some("uuid"), reason);
                    there = Some(one);
                }
                several if uuid.is_some_and(|uuid| several.iter().any(|one| one.uuid == uuid)) => {}
                several => {
                    let uuids: Vec<_> = several.iter().map(|one| one.uuid.to_string()).collect();
                    let reason = format!("several checks have this slug; write the UUID of one as the key: {}", uuids.join(", "));
                    self.conflict(&at, None, reason);
                    return None;
                }
            }
        }
        if let Some(check) = there {
            if !self.kept.insert(check.id.0) {
                self.conflict(&at, None, "it is declared twice, once by its slug and once by its UUID");
                return None;
            }
            return Some(Placed { wanted, at, there, id: check.id, uuid: check.uuid, slug });
        }
        let id = CheckId(self.new_id());
        let state = self.state;
        let uuid = self.new_uuid(&at, &wanted.id, wanted.uuid, move |uuid| state.check_by_uuid(uuid).is_some());
        Some(Placed { wanted, at, there: None, id, uuid, slug })
    }

    fn expect_room(&mut self, within: &Within<'_>, placed: &[Placed<'_>]) {
        let Some(last) = placed.iter().rfind(|check| check.there.is_none()) else { return };
        let project = within.there.map(|project_state| &project_state.project);
        let limit = self.steps.iter().rev().find_map(|step| match step {
            Step::Project(project) if project.id == within.id => Some(project.check_limit),
            _ => None,
        });
        let Some(limit) = limit.unwrap_or_else(|| project?.check_limit) else { return };
        let there = within.there.into_iter().flat_map(|project_state| &project_state.checks);
        let stay = there.filter(|id| !self.is_leaving(id.0)).count();
        let count = stay + placed.iter().filter(|check| check.there.is_none()).count();
        if count > limit as usize {
            let reason =
                format!("the project would have {count} checks, and at most {limit} are allowed; check-limit of the project says so");
            self.conflict(&last.at, None, reason);
        }
    }

    /// The checks that one names as its parents.
    fn parents(&mut self, within: &Within<'_>, check: &Placed<'_>, names: &Names) -> Parents {
        let mut ids = Vec::new();
        for parent in &check.wanted.parents {
            let found: Vec<CheckId> = match parent {
                ObjectName::Uuid(uuid) => {
                    let there = || self.state.check_by_uuid(*uuid).filter(|there| there.project == within.id).map(|there| there.id);
                    names.uuids.get(uuid).copied().or_else(there).into_iter().collect()
                }
                ObjectName::Text(text) => match Slug::stored(text) {
                    slug if !slug.is_empty() => {
                        let declared = names.slugs.get(&slug).cloned().unwrap_or_default();
                        let others = self.state.checks_by_slug(within.id, &slug).iter().copied();
                        declared.into_iter().chain(others.filter(|id| !names.shown.contains_key(id) && !self.is_leaving(id.0))).collect()
                    }
                    _ => Vec::new(),
                },
            };
            match found.as_slice() {
                [one] => ids.push(*one),
                [] => self.conflict(&check.at, Some("parents"), format!("the project has no check {:?}", parent.to_string())),
                _ => {
                    self.conflict(
                        &check.at,
                        Some("parents"),
                        format!("several checks have the slug {:?}; give a UUID", parent.to_string()),
                    );
                }
            }
        }
        Parents::new(ids).unwrap_or_else(|error| {
            self.conflict(&check.at, Some("parents"), error.to_string());
            Parents::default()
        })
    }

    fn expect_no_circle(&mut self, within: &Within<'_>, placed: &[Placed<'_>], parents: &BTreeMap<CheckId, Parents>) {
        let state = self.state;
        let none = Parents::default();
        let there = |id| state.check(id).filter(|check| check.project == within.id).map(|check| &check.settings.parents);
        let parents_of = |id: CheckId| parents.get(&id).or_else(|| there(id)).or(Some(&none));
        for check in placed {
            let Some(own) = parents.get(&check.id).filter(|own| !own.ids().is_empty()) else { continue };
            if let Err(error) = own.allowed_for(check.id, parents_of) {
                self.conflict(&check.at, Some("parents"), error.to_string());
            }
        }
    }

    /// The channels that one names.
    fn assigned(&mut self, at: &ObjectPath, choice: Option<&ChannelChoice>, channels: &NamedChannels) -> Box<[ChannelId]> {
        let mut assigned = BTreeSet::new();
        match choice {
            None => {}
            Some(ChannelChoice::All) => assigned.extend(channels.ids()),
            Some(ChannelChoice::Listed(items)) => {
                for item in items {
                    let fitting: Vec<_> = channels.named(item).into_iter().collect();
                    match fitting.as_slice() {
                        [one] => drop(assigned.insert(*one)),
                        [] => self.conflict(at, Some("channels"), format!("the project has no channel {item:?}")),
                        _ => self.conflict(at, Some("channels"), format!("several channels are named {item:?}; give the UUID of one")),
                    }
                }
            }
        }
        assigned.into_iter().collect()
    }

    /// What is to be done for a check.
    fn check(
        &mut self,
        within: &Within<'_>,
        placed: Placed<'_>,
        parents: Parents,
        channels: &NamedChannels,
        names: &Names,
        steps: &mut Vec<Step>,
    ) {
        let Placed { wanted, at, there, id, uuid, slug } = placed;
        let new = Settings::default();
        let stored = there.map_or(&new, |check| &check.settings);
        let mut edit = wanted.edit.clone();
        let choice = edit.channels.take();
        let assigned = self.assigned(&at, choice.as_ref(), channels);
        // A new check that is declared with its UUID has had its texts elsewhere.
        let is_moved = there.is_none() && (wanted.uuid.is_some() || wanted.id.text().is_none());
        if let Some(field) = edit.too_long(stored).filter(|_| !is_moved) {
            self.conflict(&at, Some(field), "it is over a limit of today, and the check has not had it so far");
        }
        // What has no meaning at the moment stays.
        let base = Settings { timeout: stored.timeout, tz: stored.tz.clone(), ..Settings::default() };
        let mut settings = edit.applied(&base, Some(assigned));
        (settings.after, settings.parents) = (wanted.after, parents);
        let written = |settings: &Settings| self.written(settings, channels, names);
        let mut fields = written(&settings);
        let Some(check) = there else {
            fields.extend(wanted.paused.filter(|paused| *paused).map(|paused| ("paused".into(), Value::Flag(paused))));
            let (names, settings) = (CheckNames { uuid, badge: self.draw() }, Box::new(settings));
            steps.push(Step::NewCheck { id, names, project: within.id, settings });
            if wanted.paused == Some(true) {
                steps.push(Step::Pause(id));
            }
            self.added(id.0, &at, &fields, Some(uuid));
            return;
        };
        let mut old = written(stored);
        let is_paused = check.state.status == Status::Paused;
        if let Some(paused) = wanted.paused {
            old.push(("paused".into(), Value::Flag(is_paused)));
            fields.push(("paused".into(), Value::Flag(paused)));
        }
        for (fields, slug) in [(&mut old, &stored.slug), (&mut fields, &slug)] {
            fields.push(("slug".into(), Value::Text(slug.as_str().into())));
        }
        if !self.there(id.0, &at, &old, &fields, Some(uuid)) {
            return;
        }
        if settings != *stored {
            steps.push(Step::Check(id, Box::new(settings)));
        }
        match wanted.paused {
            Some(true) if !is_paused => steps.push(Step::Pause(id)),
            Some(false) if is_paused => steps.push(Step::Resume(id)),
            _ => {}
        }
    }

    /// The fields of a check, whatever it is called by.
    fn written(&self, settings: &Settings, channels: &NamedChannels, names: &Names) -> Fields {
        let there = |id: &CheckId| self.state.check(*id).map(|check| shown(&check.settings.slug, check.uuid));
        let parent = |id: &CheckId| names.shown.get(id).cloned().or_else(|| there(id));
        let parents = settings.parents.ids().iter().filter_map(parent).collect();
        fields::check(settings, settings.channels.iter().filter_map(|id| channels.shown(*id)).collect(), parents)
    }
}

fn shown(slug: &Slug, uuid: Uuid) -> Box<str> {
    if slug.is_empty() { uuid.to_string().into() } else { slug.as_str().into() }
}
