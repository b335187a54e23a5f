//! What an import may not have because something else here has it, or it has it twice.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::super::super::command::stage::StageRefusal;
use super::super::super::state::{ProjectState, State};
use super::super::WorkingState;
use super::finish::{MOST_NAMED, Replaced};
use super::sorted::Sorted;
use crate::domain::adopted::HashedKey;
use crate::domain::check::Check;
use crate::domain::ids::ProjectId;
use crate::domain::imported::{ImportedKey, ImportedSecret};
use crate::domain::project::{Access, Channel, Secret};
use crate::domain::window::Window;

/// What is taken, in sentences.
#[derive(Default)]
pub(super) struct Taken(pub(super) Vec<Box<str>>);

impl Taken {
    pub(super) fn tell(&mut self, sentence: impl FnOnce() -> String) {
        if self.0.len() < MOST_NAMED {
            self.0.push(sentence().into());
        }
    }
}

impl WorkingState {
    /// Refuses what something else here has, or what comes twice.
    pub(super) fn expect_free(&self, sorted: &Sorted<'_>, replaced: &Replaced, numbers: &[u8]) -> Result<(), StageRefusal> {
        let (state, mut taken) = (&self.state, Taken::default());
        let from: HashMap<ProjectId, &str> = sorted.projects.iter().map(|(id, project)| (*id, project.name.as_str())).collect();
        let from = |project: ProjectId| from.get(&project).copied().unwrap_or_default();
        let mut seen = BTreeSet::new();
        let stays: Vec<_> = state.projects().filter(|project_state| !replaced.has(project_state.project.id)).collect();
        let names: HashMap<&str, &ProjectState> =
            stays.iter().map(|project_state| (project_state.project.name.as_str(), *project_state)).collect();
        for (_, project) in &sorted.projects {
            let name = project.name.as_str();
            if names.contains_key(name) {
                taken.tell(|| {
                    format!("there is a project {name:?} here already, which another UUID has; give this one another name with --project {name:?}=NEW")
                });
            }
            let there = state.project_by_badge_key(&project.badge_key).filter(|id| !replaced.has(*id));
            if let Some(there) = there {
                taken.tell(|| format!("the badge key of the project {name:?} is that of the project {:?} here", name_of(state, there)));
            }
            if !seen.insert((0, project.uuid.to_string()))
                || !seen.insert((1, name.into()))
                || !seen.insert((2, project.badge_key.to_string()))
            {
                taken.tell(|| format!("two projects that are imported have the name, the UUID or the badge key of {name:?}"));
            }
        }
        for (_, project, ImportedKey { secret, hint, .. }) in &sorted.keys {
            let Some(secret) = own(secret, numbers) else { continue };
            let there = match &secret {
                Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => state.key_by_hash(hash),
                Secret::Ping(key) => state.ping_key(key),
                Secret::Hashed(hashed) => state.hashed_key(hashed),
            };
            if let Some(there) = there.filter(|there| !replaced.goes(there.project, there.id.0)) {
                taken.tell(|| {
                    format!(
                        "the key {hint}… of the project {:?} is a key of the project {:?} here",
                        from(*project),
                        name_of(state, there.project)
                    )
                });
            }
            let spelled = match &secret {
                Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => format!("{:?}", hash.0),
                Secret::Ping(key) => key.as_str().into(),
                Secret::Hashed(hashed) => format!("{:?}", hashed.digest.0),
            };
            if !seen.insert((3, spelled)) {
                taken.tell(|| format!("the key {hint}… of the project {:?} is imported twice", from(*project)));
            }
        }
        let channels = state.projects().flat_map(|project_state| project_state.channels.values());
        let channels: HashMap<Uuid, &Arc<Channel>> =
            channels.filter(|channel| !replaced.goes(channel.project, channel.id.0)).map(|channel| (channel.uuid, channel)).collect();
        for (_, project, channel) in &sorted.channels {
            if let Some(there) = channels.get(&channel.uuid) {
                taken.tell(|| both("channel", channel.name.as_str(), from(*project), there.name.as_str(), name_of(state, there.project)));
            }
            if !seen.insert((4, channel.uuid.to_string())) {
                taken.tell(|| format!("the channel {:?} of the project {:?} is imported twice", channel.name.as_str(), from(*project)));
            }
        }
        let windows = state.projects().flat_map(|project_state| project_state.windows.values());
        let windows: HashMap<Uuid, &Arc<Window>> =
            windows.filter(|window| !replaced.goes(window.project, window.id.0)).map(|window| (window.uuid, window)).collect();
        for (_, project, window) in &sorted.windows {
            if let Some(there) = windows.get(&window.uuid) {
                taken.tell(|| both("window", window.name.as_str(), from(*project), there.name.as_str(), name_of(state, there.project)));
            }
            if !seen.insert((7, window.uuid.to_string())) {
                taken.tell(|| format!("the window {:?} of the project {:?} is imported twice", window.name.as_str(), from(*project)));
            }
        }
        for (_, uuid, user) in &sorted.users {
            let name = user.name.as_str();
            if state.users.by_name(&user.name).is_none()
                && let Some(there) = state.users.by_uuid(*uuid)
            {
                taken.tell(|| format!("the user {name:?} has a UUID that the user {:?} has here", there.name.as_str()));
            }
            if !seen.insert((8, uuid.to_string())) || !seen.insert((9, user.name.folded().into())) {
                taken.tell(|| format!("the user {name:?} is imported twice"));
            }
        }
        for (_, project, drawn, check) in &sorted.checks {
            let badge = check.badge.unwrap_or(*drawn);
            for there in [state.check_by_uuid(check.uuid), state.check_by_badge(badge)].into_iter().flatten() {
                if !replaced.has(there.project) {
                    let name = check.settings.name.as_str();
                    taken.tell(|| both("check", name, from(*project), &called(there), name_of(state, there.project)));
                }
            }
            if !seen.insert((5, check.uuid.to_string())) || !seen.insert((6, badge.to_string())) {
                taken
                    .tell(|| format!("the check {:?} of the project {:?} is imported twice", check.settings.name.as_str(), from(*project)));
            }
        }
        if taken.0.is_empty() { Ok(()) } else { Err(StageRefusal::Taken(taken.0)) }
    }
}

/// What a key is recognised by. `numbers`: those of the secrets of old servers; without its own nothing is known of a hashed key.
pub(super) fn own(secret: &ImportedSecret, numbers: &[u8]) -> Option<Secret> {
    match secret {
        ImportedSecret::Own(secret) => Some(secret.clone()),
        ImportedSecret::Hashed { access, secret, digest } => {
            let read_only = *access == Access::ReadOnly;
            numbers.get(usize::from(*secret)).map(|number| Secret::Hashed(HashedKey { read_only, secret: *number, digest: *digest }))
        }
    }
}

/// Name, slug or UUID of a check.
pub(super) fn called(check: &Check) -> String {
    let names = [check.settings.name.as_str(), check.settings.slug.as_str()];
    names.into_iter().find(|name| !name.is_empty()).map_or_else(|| check.uuid.to_string(), str::to_owned)
}

pub(super) fn name_of(state: &State, project: ProjectId) -> &str {
    state.project(project).map_or("", |project_state| project_state.project.name.as_str())
}

fn both(kind: &str, name: &str, project: &str, there: &str, of: &str) -> String {
    format!("the {kind} {name:?} of the project {project:?} has a UUID that the {kind} {there:?} of the project {of:?} has here")
}
