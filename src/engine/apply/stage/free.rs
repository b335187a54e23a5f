//! What an import may not have because something else here has it, or it has it twice.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::super::super::command::stage::StageRefusal;
use super::super::super::state::State;
use super::super::WorkingState;
use super::finish::{MOST_NAMED, Replaced};
use super::sorted::Sorted;
use crate::domain::adopted::HashedKey;
use crate::domain::ids::ProjectId;
use crate::domain::imported::{ImportedKey, ImportedSecret};
use crate::domain::project::{Access, Secret};

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
        let names = sorted.projects.iter().map(|(id, project)| (*id, project.name.as_str())).collect();
        let mut claims = Claims { state: &self.state, replaced, names, seen: BTreeSet::new(), taken: Taken::default() };
        claims.projects(sorted);
        claims.keys(sorted, numbers);
        let channels = self.state.projects().flat_map(|project_state| project_state.channels.values());
        let channels = channels.map(|channel| (channel.uuid, (channel.project, channel.id.0, channel.name.as_str())));
        let named = sorted.channels.iter().map(|(_, project, channel)| (*project, channel.uuid, channel.name.as_str()));
        claims.belongings("channel", Unique::Channel, &channels.collect(), named);
        let windows = self.state.projects().flat_map(|project_state| project_state.windows.values());
        let windows = windows.map(|window| (window.uuid, (window.project, window.id.0, window.name.as_str())));
        let named = sorted.windows.iter().map(|(_, project, window)| (*project, window.uuid, window.name.as_str()));
        claims.belongings("window", Unique::Window, &windows.collect(), named);
        claims.users(sorted);
        claims.checks(sorted);
        if claims.taken.0.is_empty() { Ok(()) } else { Err(StageRefusal::Taken(claims.taken.0)) }
    }
}

/// What only one may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unique {
    Project,
    ProjectName,
    BadgeKey,
    Key,
    Channel,
    Window,
    User,
    UserName,
    Check,
    Badge,
}

/// What an import would have, held against what there is and what it has claimed before.
struct Claims<'a> {
    state: &'a State,
    replaced: &'a Replaced,
    /// Of the projects that are imported.
    names: HashMap<ProjectId, &'a str>,
    seen: BTreeSet<(Unique, String)>,
    taken: Taken,
}

impl<'a> Claims<'a> {
    fn name(&self, project: ProjectId) -> &'a str {
        self.names.get(&project).copied().unwrap_or_default()
    }

    /// Whether nothing before it had this.
    fn is_first(&mut self, what: Unique, value: &dyn ToString) -> bool {
        self.seen.insert((what, value.to_string()))
    }

    fn projects(&mut self, sorted: &Sorted<'_>) {
        let (state, replaced) = (self.state, self.replaced);
        let stays = state.projects().map(|project_state| &project_state.project).filter(|project| !replaced.has(project.id));
        let stays: BTreeSet<&str> = stays.map(|project| project.name.as_str()).collect();
        for (_, project) in &sorted.projects {
            let name = project.name.as_str();
            if stays.contains(name) {
                let is_empty = state.projects().any(|here| here.project.name.as_str() == name && here.checks.is_empty());
                let way_out = match is_empty {
                    true => format!(
                        "it has no checks: run `overdue project delete {name} --yes` and import again, or give this one another name"
                    ),
                    false => "give this one another name".into(),
                };
                self.taken.tell(|| {
                    format!("there is a project {name:?} here already, with another UUID; {way_out} with --project {}=NEW", project.uuid)
                });
            }
            if let Some(there) = state.project_by_badge_key(&project.badge_key).filter(|id| !replaced.has(*id)) {
                self.taken
                    .tell(|| format!("the badge key of the project {name:?} is that of the project {:?} here", name_of(state, there)));
            }
            let is_first = self.is_first(Unique::Project, &project.uuid)
                && self.is_first(Unique::ProjectName, &name)
                && self.is_first(Unique::BadgeKey, &project.badge_key);
            if !is_first {
                self.taken.tell(|| format!("two projects that are imported have the name, the UUID or the badge key of {name:?}"));
            }
        }
    }

    fn keys(&mut self, sorted: &Sorted<'_>, numbers: &[u8]) {
        for (_, project, ImportedKey { secret, hint, .. }) in &sorted.keys {
            let Some(secret) = own(secret, numbers) else { continue };
            let (state, of) = (self.state, self.name(*project));
            let there = match &secret {
                Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => state.key_by_hash(hash),
                Secret::Ping(key) => state.ping_key(key),
                Secret::Hashed(hashed) => state.hashed_key(hashed),
            };
            if let Some(there) = there.filter(|there| !self.replaced.goes(there.project, there.id.0)) {
                let here = name_of(state, there.project);
                self.taken.tell(|| format!("the key {hint}… of the project {of:?} is a key of the project {here:?} here"));
            }
            let spelled = match &secret {
                Secret::ReadWrite(hash) | Secret::ReadOnly(hash) => format!("{:?}", hash.0),
                Secret::Ping(key) => key.as_str().into(),
                Secret::Hashed(hashed) => format!("{:?}", hashed.digest.0),
            };
            if !self.is_first(Unique::Key, &spelled) {
                self.taken.tell(|| format!("the key {hint}… of the project {of:?} is imported twice"));
            }
        }
    }

    /// Channels or windows. `here`: those that there are, with their projects, numbers and names.
    fn belongings<'i>(
        &mut self,
        kind: &str,
        what: Unique,
        here: &HashMap<Uuid, (ProjectId, u64, &str)>,
        imported: impl Iterator<Item = (ProjectId, Uuid, &'i str)>,
    ) {
        for (project, uuid, name) in imported {
            let of = self.name(project);
            if let Some((there, _, called)) = here.get(&uuid).filter(|(project, number, _)| !self.replaced.goes(*project, *number)) {
                self.taken.tell(|| both(kind, name, of, called, name_of(self.state, *there)));
            }
            if !self.is_first(what, &uuid) {
                self.taken.tell(|| format!("the {kind} {name:?} of the project {of:?} is imported twice"));
            }
        }
    }

    fn users(&mut self, sorted: &Sorted<'_>) {
        for (_, uuid, user) in &sorted.users {
            let (state, name) = (self.state, user.name.as_str());
            if state.users.by_name(&user.name).is_none()
                && let Some(there) = state.users.by_uuid(*uuid)
            {
                self.taken.tell(|| format!("the user {name:?} has a UUID that the user {:?} has here", there.name.as_str()));
            }
            if !(self.is_first(Unique::User, uuid) && self.is_first(Unique::UserName, &user.name.folded())) {
                self.taken.tell(|| format!("the user {name:?} is imported twice"));
            }
        }
    }

    fn checks(&mut self, sorted: &Sorted<'_>) {
        for (_, project, drawn, check) in &sorted.checks {
            let (state, of, name) = (self.state, self.name(*project), check.settings.name.as_str());
            let badge = check.badge.unwrap_or(*drawn);
            for there in [state.check_by_uuid(check.uuid), state.check_by_badge(badge)].into_iter().flatten() {
                if !self.replaced.has(there.project) {
                    let called = there.settings.called(there.uuid);
                    self.taken.tell(|| both("check", name, of, &called, name_of(state, there.project)));
                }
            }
            if !(self.is_first(Unique::Check, &check.uuid) && self.is_first(Unique::Badge, &badge)) {
                self.taken.tell(|| format!("the check {name:?} of the project {of:?} is imported twice"));
            }
        }
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

pub(super) fn name_of(state: &State, project: ProjectId) -> &str {
    state.project(project).map_or("", |project_state| project_state.project.name.as_str())
}

fn both(kind: &str, name: &str, project: &str, there: &str, of: &str) -> String {
    format!("the {kind} {name:?} of the project {project:?} has a UUID that the {kind} {there:?} of the project {of:?} has here")
}
