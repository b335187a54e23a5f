//! Objects of an import, sorted by kind. Each object occurs once, and its references are resolved
//! within the import.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::super::super::command::import::ImportStepError;
use super::super::super::state::OpenImport;
use super::finish::invalid_import;
use crate::domain::declared::ConfigSource;
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::import_contents::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedProject, ImportedUser, ImportedWindow,
};
use crate::domain::import_item::ImportItem;
use crate::domain::parents::{Parents, ParentsError};

/// Objects of an import, by kind.
#[derive(Default)]
pub(super) struct SortedImport<'a> {
    pub(super) projects: Vec<(ProjectId, &'a ImportedProject)>,
    pub(super) keys: Vec<(KeyId, ProjectId, &'a ImportedKey)>,
    pub(super) channels: Vec<(ChannelId, ProjectId, &'a ImportedChannel)>,
    pub(super) windows: Vec<(WindowId, ProjectId, &'a ImportedWindow)>,
    pub(super) checks: Vec<(CheckId, ProjectId, Uuid, &'a ImportedCheck)>,
    pub(super) users: Vec<(UserId, Uuid, &'a ImportedUser)>,
    /// Numbers of checks by project and UUID.
    check_ids: HashMap<(ProjectId, Uuid), CheckId>,
}

impl<'a> SortedImport<'a> {
    /// Sorts the objects of an import. Refuses a number that occurs twice, and a project that the
    /// import does not contain.
    pub(super) fn new(open_import: &'a OpenImport) -> Result<Self, ImportStepError> {
        let mut sorted = Self::default();
        let mut numbers = BTreeSet::new();
        let mut referenced_projects = BTreeSet::new();
        for object in open_import
            .objects
            .iter()
            .flat_map(|objects| objects.iter())
        {
            if !numbers.insert(object.number()) {
                return Err(invalid_import("an object occurs twice"));
            }
            match object {
                ImportItem::Project { id, project } => sorted.projects.push((*id, project)),
                ImportItem::Key { id, project, key } => sorted.keys.push((*id, *project, key)),
                ImportItem::Channel {
                    id,
                    project,
                    channel,
                } => sorted.channels.push((*id, *project, channel)),
                ImportItem::Window {
                    id,
                    project,
                    window,
                } => sorted.windows.push((*id, *project, window)),
                ImportItem::Check {
                    id,
                    project,
                    badge,
                    check,
                } => sorted.checks.push((*id, *project, *badge, check)),
                ImportItem::User { id, uuid, user } => sorted.users.push((*id, *uuid, user)),
            }
        }
        referenced_projects.extend(sorted.keys.iter().map(|(_, project, _)| *project));
        referenced_projects.extend(sorted.channels.iter().map(|(_, project, _)| *project));
        referenced_projects.extend(sorted.windows.iter().map(|(_, project, _)| *project));
        referenced_projects.extend(sorted.checks.iter().map(|(_, project, ..)| *project));
        let project_ids: BTreeSet<_> = sorted.projects.iter().map(|(id, _)| *id).collect();
        let check_ids: BTreeSet<_> = sorted.checks.iter().map(|(id, ..)| *id).collect();
        if !referenced_projects.is_subset(&project_ids) {
            return Err(invalid_import(
                "an object belongs to a project that the import does not contain",
            ));
        }
        if open_import
            .checks_with_logs()
            .any(|check| !check_ids.contains(&check))
        {
            return Err(invalid_import(
                "a log belongs to a check that the import does not contain",
            ));
        }
        sorted.check_ids = sorted
            .checks
            .iter()
            .map(|(id, project, _, check)| ((*project, check.uuid), *id))
            .collect();
        Ok(sorted)
    }

    /// Number of a check of a project.
    pub(super) fn check_id(&self, project: ProjectId, uuid: Uuid) -> Option<CheckId> {
        self.check_ids.get(&(project, uuid)).copied()
    }

    /// Parents of all checks that have some.
    pub(super) fn parents(&self) -> Result<HashMap<CheckId, Parents>, ImportStepError> {
        let mut all = HashMap::new();
        let invalid_parents = |check: &ImportedCheck, problem: &dyn std::fmt::Display| {
            ImportStepError::Invalid(
                format!(
                    "the check {:?} has invalid parents: {problem}",
                    check.settings.name.as_str()
                )
                .into(),
            )
        };
        let dependent = || {
            self.checks
                .iter()
                .filter(|(.., check)| !check.parents.is_empty())
        };
        for (id, project, _, check) in dependent() {
            let parents = check
                .parents
                .iter()
                .map(|uuid| self.check_id(*project, *uuid))
                .collect::<Option<Vec<_>>>();
            let parents = parents.ok_or_else(|| invalid_parents(check, &ParentsError::NotFound))?;
            all.insert(
                *id,
                Parents::new(parents).map_err(|problem| invalid_parents(check, &problem))?,
            );
        }
        let none = Parents::default();
        for (id, _, _, check) in dependent() {
            let parents = all.get(id).unwrap_or(&none);
            parents
                .validate_for(*id, |check| Some(all.get(&check).unwrap_or(&none)))
                .map_err(|problem| invalid_parents(check, &problem))?;
        }
        Ok(all)
    }

    /// Objects that a configuration source manages, except for users.
    pub(super) fn managed_objects(&self) -> impl Iterator<Item = (u64, &'a ConfigSource)> {
        let keys = self.keys.iter().map(|(id, _, key)| (id.0, &key.managed_by));
        let channels = self
            .channels
            .iter()
            .map(|(id, _, channel)| (id.0, &channel.managed_by));
        let windows = self
            .windows
            .iter()
            .map(|(id, _, window)| (id.0, &window.managed_by));
        let checks = self
            .checks
            .iter()
            .map(|(id, .., check)| (id.0, &check.managed_by));
        let all = keys.chain(channels).chain(windows).chain(checks);
        all.filter_map(|(id, source)| Some((id, source.as_ref()?)))
    }
}
