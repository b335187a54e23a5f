//! What an import has handed over, by what it is: each thing once, and all that one names there.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::super::super::command::stage::StageRefusal;
use super::super::super::state::Staging;
use super::finish::wrong;
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::imported::{ImportedChannel, ImportedCheck, ImportedKey, ImportedProject, ImportedUser, ImportedWindow};
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::staged::Staged;
use crate::domain::wanted::Source;

/// What was handed over, sorted.
#[derive(Default)]
pub(super) struct Sorted<'a> {
    pub(super) projects: Vec<(ProjectId, &'a ImportedProject)>,
    pub(super) keys: Vec<(KeyId, ProjectId, &'a ImportedKey)>,
    pub(super) channels: Vec<(ChannelId, ProjectId, &'a ImportedChannel)>,
    pub(super) windows: Vec<(WindowId, ProjectId, &'a ImportedWindow)>,
    pub(super) checks: Vec<(CheckId, ProjectId, Uuid, &'a ImportedCheck)>,
    pub(super) users: Vec<(UserId, Uuid, &'a ImportedUser)>,
    /// The numbers of checks by their projects and UUIDs.
    places: HashMap<(ProjectId, Uuid), CheckId>,
}

impl<'a> Sorted<'a> {
    /// Each number may come once, and must be of a project that was handed over.
    pub(super) fn new(staging: &'a Staging) -> Result<Self, StageRefusal> {
        let mut sorted = Self::default();
        let (mut numbers, mut owners) = (BTreeSet::new(), BTreeSet::new());
        for object in staging.objects.iter().flat_map(|objects| objects.iter()) {
            if !numbers.insert(object.number()) {
                return Err(wrong("a thing was handed over twice"));
            }
            match object {
                Staged::Project { id, project } => sorted.projects.push((*id, project)),
                Staged::Key { id, project, key } => sorted.keys.push((*id, *project, key)),
                Staged::Channel { id, project, channel } => sorted.channels.push((*id, *project, channel)),
                Staged::Window { id, project, window } => sorted.windows.push((*id, *project, window)),
                Staged::Check { id, project, badge, check } => sorted.checks.push((*id, *project, *badge, check)),
                Staged::User { id, uuid, user } => sorted.users.push((*id, *uuid, user)),
            }
        }
        owners.extend(sorted.keys.iter().map(|(_, project, _)| *project));
        owners.extend(sorted.channels.iter().map(|(_, project, _)| *project));
        owners.extend(sorted.windows.iter().map(|(_, project, _)| *project));
        owners.extend(sorted.checks.iter().map(|(_, project, ..)| *project));
        let known: BTreeSet<_> = sorted.projects.iter().map(|(id, _)| *id).collect();
        let checks: BTreeSet<_> = sorted.checks.iter().map(|(id, ..)| *id).collect();
        if !owners.is_subset(&known) {
            return Err(wrong("a thing is of a project that was not handed over"));
        }
        if staging.logged().any(|check| !checks.contains(&check)) {
            return Err(wrong("a log is of a check that was not handed over"));
        }
        sorted.places = sorted.checks.iter().map(|(id, project, _, check)| ((*project, check.uuid), *id)).collect();
        Ok(sorted)
    }

    /// The number of a check of a project.
    pub(super) fn check(&self, project: ProjectId, uuid: Uuid) -> Option<CheckId> {
        self.places.get(&(project, uuid)).copied()
    }

    /// What checks depend on, of those that depend on something.
    pub(super) fn parents(&self) -> Result<HashMap<CheckId, Parents>, StageRefusal> {
        let mut all = HashMap::new();
        let refused = |check: &ImportedCheck, problem: &dyn std::fmt::Display| {
            StageRefusal::Wrong(format!("the check {:?} cannot depend on what it does: {problem}", check.settings.name.as_str()).into())
        };
        let dependent = || self.checks.iter().filter(|(.., check)| !check.parents.is_empty());
        for (id, project, _, check) in dependent() {
            let parents = check.parents.iter().map(|uuid| self.check(*project, *uuid)).collect::<Option<Vec<_>>>();
            let parents = parents.ok_or_else(|| refused(check, &ParentsError::NotFound))?;
            all.insert(*id, Parents::new(parents).map_err(|problem| refused(check, &problem))?);
        }
        let none = Parents::default();
        for (id, _, _, check) in dependent() {
            let parents = all.get(id).unwrap_or(&none);
            parents.allowed_for(*id, |check| Some(all.get(&check).unwrap_or(&none))).map_err(|problem| refused(check, &problem))?;
        }
        Ok(all)
    }

    /// What files own, but for users.
    pub(super) fn managed(&self) -> impl Iterator<Item = (u64, &'a Source)> {
        let keys = self.keys.iter().map(|(id, _, key)| (id.0, &key.managed));
        let channels = self.channels.iter().map(|(id, _, channel)| (id.0, &channel.managed));
        let windows = self.windows.iter().map(|(id, _, window)| (id.0, &window.managed));
        let checks = self.checks.iter().map(|(id, .., check)| (id.0, &check.managed));
        let all = keys.chain(channels).chain(windows).chain(checks);
        all.filter_map(|(id, source)| Some((id, source.as_ref()?)))
    }
}
