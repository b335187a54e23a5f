//! Conflicts of an import: values that an existing object has, or that the import contains twice.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::super::super::command::import::ImportStepError;
use super::super::super::state::State;
use super::super::WorkingState;
use super::finish::{MAX_CONFLICTS_SHOWN, ReplacedProjects};
use super::sorted_import::SortedImport;
use crate::domain::ids::ProjectId;
use crate::domain::import_contents::{ImportedKey, ImportedKeySecret, ImportedProject};
use crate::domain::legacy_keys::LegacyKey;
use crate::domain::project::{KeyAccess, KeySecret};

/// Conflicts, as sentences.
#[derive(Default)]
pub(super) struct ImportConflicts(pub(super) Vec<Box<str>>);

impl ImportConflicts {
    pub(super) fn add(&mut self, sentence: impl FnOnce() -> String) {
        if self.0.len() < MAX_CONFLICTS_SHOWN {
            self.0.push(sentence().into());
        }
    }
}

impl WorkingState {
    /// Refuses values that another object has, or that the import contains twice.
    pub(super) fn ensure_no_conflicts(
        &self,
        sorted: &SortedImport<'_>,
        replaced: &ReplacedProjects,
        secret_numbers: &[u8],
    ) -> Result<(), ImportStepError> {
        let names = sorted
            .projects
            .iter()
            .map(|(id, project)| (*id, project.name.as_str()))
            .collect();
        let mut finder = ConflictFinder {
            state: &self.state,
            replaced,
            names,
            seen: BTreeSet::new(),
            conflicts: ImportConflicts::default(),
        };
        finder.find_project_conflicts(sorted);
        finder.find_key_conflicts(sorted, secret_numbers);
        let channels = self
            .state
            .projects()
            .flat_map(|project_state| project_state.channels.values());
        let channels = channels.map(|channel| {
            (
                channel.uuid,
                (channel.project, channel.id.0, channel.name.as_str()),
            )
        });
        let imported = sorted
            .channels
            .iter()
            .map(|(_, project, channel)| (*project, channel.uuid, channel.name.as_str()));
        finder.find_object_conflicts(
            "channel",
            UniqueProperty::Channel,
            &channels.collect(),
            imported,
        );
        let windows = self
            .state
            .projects()
            .flat_map(|project_state| project_state.windows.values());
        let windows = windows.map(|window| {
            (
                window.uuid,
                (window.project, window.id.0, window.name.as_str()),
            )
        });
        let imported = sorted
            .windows
            .iter()
            .map(|(_, project, window)| (*project, window.uuid, window.name.as_str()));
        finder.find_object_conflicts(
            "window",
            UniqueProperty::Window,
            &windows.collect(),
            imported,
        );
        finder.find_user_conflicts(sorted);
        finder.find_check_conflicts(sorted);
        if finder.conflicts.0.is_empty() {
            Ok(())
        } else {
            Err(ImportStepError::Conflicts(finder.conflicts.0))
        }
    }
}

/// Kinds of values that must be unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UniqueProperty {
    Project,
    ProjectName,
    BadgeKey,
    StatusPage,
    StatusPageAddress,
    StatusPageDomain,
    Key,
    Channel,
    Window,
    User,
    UserName,
    Check,
    Badge,
}

/// Compares the objects of an import with the existing ones and with its own earlier ones.
struct ConflictFinder<'a> {
    state: &'a State,
    replaced: &'a ReplacedProjects,
    /// Names of the imported projects.
    names: HashMap<ProjectId, &'a str>,
    seen: BTreeSet<(UniqueProperty, String)>,
    conflicts: ImportConflicts,
}

impl<'a> ConflictFinder<'a> {
    fn project_name(&self, project: ProjectId) -> &'a str {
        self.names.get(&project).copied().unwrap_or_default()
    }

    /// True if no earlier object of the import has this value.
    fn is_first(&mut self, property: UniqueProperty, value: &dyn ToString) -> bool {
        self.seen.insert((property, value.to_string()))
    }

    fn find_project_conflicts(&mut self, sorted: &SortedImport<'_>) {
        let state = self.state;
        let replaced = self.replaced;
        let remaining_names = state
            .projects()
            .map(|project_state| &project_state.project)
            .filter(|project| !replaced.contains(project.id));
        let remaining_names: BTreeSet<&str> = remaining_names
            .map(|project| project.name.as_str())
            .collect();
        for (_, project) in &sorted.projects {
            let name = project.name.as_str();
            if remaining_names.contains(name) {
                let is_empty = state.projects().any(|existing| {
                    existing.project.name.as_str() == name && existing.checks.is_empty()
                });
                let remedy = match is_empty {
                    true => format!(
                        "it has no checks: run `overdue project delete {name} --yes` and import \
                        again, or rename the imported project"
                    ),
                    false => "rename the imported project".into(),
                };
                self.conflicts.add(|| {
                    format!(
                        "a project {name:?} with another UUID exists on this server; {remedy} with \
                        --project {}=NEW",
                        project.uuid
                    )
                });
            }
            if let Some(existing) = state
                .project_by_badge_key(&project.badge_key)
                .filter(|id| !replaced.contains(*id))
            {
                self.conflicts.add(|| {
                    format!(
                        "the project {name:?} has the badge key of the existing project {:?}",
                        existing_project_name(state, existing)
                    )
                });
            }
            self.find_status_page_conflicts(project);
            let is_first = self.is_first(UniqueProperty::Project, &project.uuid)
                && self.is_first(UniqueProperty::ProjectName, &name)
                && self.is_first(UniqueProperty::BadgeKey, &project.badge_key);
            if !is_first {
                self.conflicts.add(|| {
                    format!(
                        "two imported projects share the name, the UUID or the badge key of \
                        {name:?}"
                    )
                });
            }
        }
    }

    /// Finds status pages whose UUID, address or domain another one has.
    fn find_status_page_conflicts(&mut self, project: &ImportedProject) {
        let name = project.name.as_str();
        for page in &project.status_pages {
            let mut existing = self
                .state
                .projects()
                .filter(|existing| !self.replaced.contains(existing.project.id))
                .flat_map(|existing| &existing.project.status_pages);
            let domain = page.domain.as_ref();
            let is_taken = existing.any(|other| {
                other.uuid == page.uuid
                    || other.address == page.address
                    || domain.is_some() && other.domain.as_ref() == domain
            });
            let is_first = self.is_first(UniqueProperty::StatusPage, &page.uuid)
                & self.is_first(UniqueProperty::StatusPageAddress, &page.address.as_str())
                & domain.is_none_or(|domain| {
                    self.is_first(UniqueProperty::StatusPageDomain, &domain.as_str())
                });
            if is_taken || !is_first {
                self.conflicts.add(|| {
                    format!(
                        "another status page has the UUID, the address or the domain of {:?} in \
                        the project {name:?}",
                        page.title.as_str()
                    )
                });
            }
        }
    }

    fn find_key_conflicts(&mut self, sorted: &SortedImport<'_>, secret_numbers: &[u8]) {
        for (_, project, ImportedKey { secret, hint, .. }) in &sorted.keys {
            let Some(secret) = imported_key_secret(secret, secret_numbers) else {
                continue;
            };
            let state = self.state;
            let project_name = self.project_name(*project);
            let existing = match &secret {
                KeySecret::ReadWrite(hash) | KeySecret::ReadOnly(hash) => state.key_by_hash(hash),
                KeySecret::Ping(key) => state.key_by_ping_key(key),
                KeySecret::Legacy(hashed) => state.legacy_key(hashed),
            };
            if let Some(existing) = existing
                .filter(|existing| !self.replaced.is_removed(existing.project, existing.id.0))
            {
                let existing_project = existing_project_name(state, existing.project);
                self.conflicts.add(|| {
                    format!(
                        "the key {hint}… of the project {project_name:?} is already a key of the \
                        project {existing_project:?}"
                    )
                });
            }
            let value = match &secret {
                KeySecret::ReadWrite(hash) | KeySecret::ReadOnly(hash) => format!("{:?}", hash.0),
                KeySecret::Ping(key) => key.as_str().into(),
                KeySecret::Legacy(hashed) => format!("{:?}", hashed.digest.0),
            };
            if !self.is_first(UniqueProperty::Key, &value) {
                self.conflicts.add(|| {
                    format!("the key {hint}… of the project {project_name:?} is imported twice")
                });
            }
        }
    }

    /// Finds conflicts of channels or windows. `existing`: the objects on this server, with their
    /// projects, numbers and names.
    fn find_object_conflicts<'i>(
        &mut self,
        kind: &str,
        property: UniqueProperty,
        existing: &HashMap<Uuid, (ProjectId, u64, &str)>,
        imported: impl Iterator<Item = (ProjectId, Uuid, &'i str)>,
    ) {
        for (project, uuid, name) in imported {
            let project_name = self.project_name(project);
            if let Some((existing_project, _, existing_name)) = existing
                .get(&uuid)
                .filter(|(project, number, _)| !self.replaced.is_removed(*project, *number))
            {
                self.conflicts.add(|| {
                    conflict_sentence(
                        kind,
                        name,
                        project_name,
                        existing_name,
                        existing_project_name(self.state, *existing_project),
                    )
                });
            }
            if !self.is_first(property, &uuid) {
                self.conflicts.add(|| {
                    format!("the {kind} {name:?} of the project {project_name:?} is imported twice")
                });
            }
        }
    }

    fn find_user_conflicts(&mut self, sorted: &SortedImport<'_>) {
        for (_, uuid, user) in &sorted.users {
            let state = self.state;
            let name = user.name.as_str();
            if state.users.by_name(&user.name).is_none()
                && let Some(existing) = state.users.by_uuid(*uuid)
            {
                self.conflicts.add(|| {
                    format!(
                        "the user {name:?} has the UUID of the existing user {:?}",
                        existing.name.as_str()
                    )
                });
            }
            if !(self.is_first(UniqueProperty::User, uuid)
                && self.is_first(UniqueProperty::UserName, &user.name.case_folded()))
            {
                self.conflicts
                    .add(|| format!("the user {name:?} is imported twice"));
            }
        }
    }

    fn find_check_conflicts(&mut self, sorted: &SortedImport<'_>) {
        for (_, project, random_badge, check) in &sorted.checks {
            let state = self.state;
            let project_name = self.project_name(*project);
            let name = check.settings.name.as_str();
            let badge = check.badge.unwrap_or(*random_badge);
            for existing in [state.check_by_uuid(check.uuid), state.check_by_badge(badge)]
                .into_iter()
                .flatten()
            {
                if !self.replaced.contains(existing.project) {
                    let existing_name = existing.settings.display_name(existing.uuid);
                    self.conflicts.add(|| {
                        conflict_sentence(
                            "check",
                            name,
                            project_name,
                            &existing_name,
                            existing_project_name(state, existing.project),
                        )
                    });
                }
            }
            if !(self.is_first(UniqueProperty::Check, &check.uuid)
                && self.is_first(UniqueProperty::Badge, &badge))
            {
                self.conflicts.add(|| {
                    format!("the check {name:?} of the project {project_name:?} is imported twice")
                });
            }
        }
    }
}

/// Secret by which an imported key is recognised. `secret_numbers` are the numbers of the imported
/// legacy secrets, by index. `None` if the secret of a hashed key is missing.
pub(super) fn imported_key_secret(
    secret: &ImportedKeySecret,
    secret_numbers: &[u8],
) -> Option<KeySecret> {
    match secret {
        ImportedKeySecret::Native(secret) => Some(secret.clone()),
        ImportedKeySecret::Legacy {
            access,
            secret_index,
            digest,
        } => {
            let read_only = *access == KeyAccess::ReadOnly;
            secret_numbers
                .get(usize::from(*secret_index))
                .map(|number| {
                    KeySecret::Legacy(LegacyKey {
                        read_only,
                        secret_number: *number,
                        digest: *digest,
                    })
                })
        }
    }
}

pub(super) fn existing_project_name(state: &State, project: ProjectId) -> &str {
    state
        .project(project)
        .map_or("", |project_state| project_state.project.name.as_str())
}

fn conflict_sentence(
    kind: &str,
    name: &str,
    project: &str,
    existing_name: &str,
    existing_project: &str,
) -> String {
    format!(
        "the {kind} {name:?} of the project {project:?} has the UUID of the existing {kind} \
        {existing_name:?} of the project {existing_project:?}"
    )
}
