//! All that an import has handed over is shown, in the place of what an earlier import brought: everything at once, or nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::super::super::command::Outcome;
use super::super::super::command::stage::{Ending, StageOutcome, StageRefusal};
use super::super::super::state::{Change, ProjectState, Staging, StagingChange, State};
use super::super::WorkingState;
use super::super::user::MOST_USERS;
use crate::domain::adopted::{Adopted, ForeignSecret, HashedKey};
use crate::domain::alert::{Away, ChannelHealth, DeliveryOutcome};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::{Check, Settings};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId};
use crate::domain::imported::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedProject, ImportedSecret, ImportedSettings, ImportedUser,
};
use crate::domain::moment::Moment;
use crate::domain::project::{Access, Channel, Key, KeyLabel, Project, Secret};
use crate::domain::staged::{ImportId, ImportMode, ProjectImport, Staged};
use crate::domain::status::Status;
use crate::domain::user::link::Purpose;
use crate::domain::user::{Grant, Projects, Taste, User};

/// What has become of what waited to be told of a check.
const REPLACED: &str = "an import took the place of the check";
/// Sentences about what is taken, and checks that are named.
const MOST_NAMED: usize = 10;

/// What was handed over, sorted.
#[derive(Default)]
struct Sorted<'a> {
    projects: Vec<(ProjectId, &'a ImportedProject)>,
    keys: Vec<(KeyId, ProjectId, &'a ImportedKey)>,
    channels: Vec<(ChannelId, ProjectId, &'a ImportedChannel)>,
    checks: Vec<(CheckId, ProjectId, Uuid, &'a ImportedCheck)>,
    users: Vec<(UserId, Uuid, &'a ImportedUser)>,
}

impl<'a> Sorted<'a> {
    /// Each number may come once, and must be of a project that was handed over.
    fn new(staging: &'a Staging) -> Result<Self, StageRefusal> {
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
                Staged::Check { id, project, badge, check } => sorted.checks.push((*id, *project, *badge, check)),
                Staged::User { id, uuid, user } => sorted.users.push((*id, *uuid, user)),
            }
        }
        owners.extend(sorted.keys.iter().map(|(_, project, _)| *project));
        owners.extend(sorted.channels.iter().map(|(_, project, _)| *project));
        owners.extend(sorted.checks.iter().map(|(_, project, ..)| *project));
        let known: BTreeSet<_> = sorted.projects.iter().map(|(id, _)| *id).collect();
        let checks: BTreeSet<_> = sorted.checks.iter().map(|(id, ..)| *id).collect();
        if !owners.is_subset(&known) {
            return Err(wrong("a thing is of a project that was not handed over"));
        }
        if staging.logged().any(|check| !checks.contains(&check)) {
            return Err(wrong("a log is of a check that was not handed over"));
        }
        Ok(sorted)
    }
}

fn wrong(problem: &str) -> StageRefusal {
    StageRefusal::Wrong(problem.into())
}

/// Projects here whose place others take, by UUID, with the numbers of the import that brought them.
struct Replaced(BTreeMap<Uuid, (ProjectId, Range<u64>)>);

impl Replaced {
    /// Whether this thing of a project goes: keys and channels that were made here stay, checks go all.
    fn goes(&self, project: ProjectId, number: u64) -> bool {
        self.0.values().any(|(id, numbers)| *id == project && numbers.contains(&number))
    }

    fn has(&self, project: ProjectId) -> bool {
        self.0.values().any(|(id, _)| *id == project)
    }
}

/// What is taken, in sentences.
#[derive(Default)]
struct Taken(Vec<Box<str>>);

impl Taken {
    fn tell(&mut self, sentence: impl FnOnce() -> String) {
        if self.0.len() < MOST_NAMED {
            self.0.push(sentence().into());
        }
    }
}

impl WorkingState {
    pub(super) fn finish_import(&mut self, import: ImportId, ending: &Ending, now: Moment) -> Result<Outcome, StageRefusal> {
        let Ending { mode, secret, expected, replace } = ending;
        // Cheap to clone apart from the map of logs, and it goes with this command.
        let staging = self.staging(import)?.clone();
        if staging.counts != *expected {
            return Err(wrong("not all of it has arrived; begin again"));
        }
        let sorted = Sorted::new(&staging)?;
        let replaced = self.replaced(&sorted)?;
        if !*replace {
            self.expect_untouched(&replaced)?;
        }
        let adopted = self.adopted(&sorted, secret.as_ref())?;
        let number = adopted.as_ref().map(|(_, number)| *number);
        self.expect_free(&sorted, &replaced, number)?;
        let checks = self.checks_to_be(&sorted, &staging, &replaced, now)?;
        let users = self.users_to_be(&sorted)?;
        let channels = sorted.channels.iter().map(|(id, project, channel)| self.channel_to_be(*id, *project, channel, &replaced, now));
        let channels = channels.collect::<Result<Vec<_>, StageRefusal>>()?;
        // From here on nothing is refused.
        if let Some((adopted, _)) = adopted {
            self.change(Change::Adopted(Arc::new(adopted)));
        }
        let here =
            |(staged, project): &(ProjectId, &ImportedProject)| (*staged, replaced.0.get(&project.uuid).map_or(*staged, |(id, _)| *id));
        let targets: HashMap<_, _> = sorted.projects.iter().map(here).collect();
        let target = |staged: ProjectId| targets.get(&staged).copied().unwrap_or(staged);
        for (id, numbers) in replaced.0.values() {
            self.remove_imported(*id, numbers, now);
        }
        for (id, project) in &sorted.projects {
            let project = project_to_be(target(*id), project, staging.numbers.clone(), *mode, now);
            self.put_project(project);
        }
        for (id, project, ImportedKey { secret, hint }) in &sorted.keys {
            let Some(secret) = own(secret, number) else { continue };
            let (project, label) = (target(*project), KeyLabel::default());
            let key = Key { id: *id, project, secret, label, hint: hint.clone(), created: now, used: None };
            self.change(Change::Key(Arc::new(key)));
        }
        for channel in channels {
            self.put_channel(Channel { project: target(channel.project), ..channel });
        }
        for check in checks {
            let check = Check { project: target(check.project), ..check };
            self.change(Change::Check(Box::new(check)));
        }
        for (user, imported) in users {
            self.grant_imported(user, imported);
        }
        let leaves = !replaced.0.is_empty();
        self.change(Change::Staging(StagingChange::Gone { import, leaves }, now));
        Ok(Outcome::Stage(StageOutcome::Finished { replaced: replaced.0.len() }))
    }

    /// The secrets of old servers with that of this one, and its number, if keys need it.
    fn adopted(&self, sorted: &Sorted<'_>, secret: Option<&ForeignSecret>) -> Result<Option<(Adopted, u8)>, StageRefusal> {
        let is_hashed = |secret: &ImportedSecret| matches!(secret, ImportedSecret::Hashed { .. });
        if !sorted.keys.iter().any(|(.., key)| is_hashed(&key.secret)) {
            return Ok(None);
        }
        let secret = secret.ok_or_else(|| wrong("a key is hashed by a server whose secret is not known"))?;
        self.state.adopted.with(secret).map(Some).map_err(|problem| StageRefusal::Taken(vec![problem.into()]))
    }

    fn replaced(&self, sorted: &Sorted<'_>) -> Result<Replaced, StageRefusal> {
        let here: HashMap<Uuid, &Arc<Project>> =
            self.state.projects().map(|project_state| (project_state.project.uuid, &project_state.project)).collect();
        let (mut replaced, mut taken) = (BTreeMap::new(), Taken::default());
        for (_, project) in &sorted.projects {
            let Some(there) = here.get(&project.uuid) else { continue };
            match &there.import {
                Some(import) => drop(replaced.insert(project.uuid, (there.id, import.numbers.clone()))),
                None => taken.tell(|| {
                    format!(
                        "the project {:?} has the UUID of the project {:?} here, which was made here; delete that one first",
                        project.name.as_str(),
                        there.name.as_str()
                    )
                }),
            }
        }
        if taken.0.is_empty() { Ok(Replaced(replaced)) } else { Err(StageRefusal::Taken(taken.0)) }
    }

    /// Refuses when somebody has pinged or changed checks that would go.
    fn expect_untouched(&self, replaced: &Replaced) -> Result<(), StageRefusal> {
        let mut names = Vec::new();
        let mut count = 0;
        for (id, _) in replaced.0.values() {
            for check in self.state.checks_of(*id).filter(|check| !check.state.untouched) {
                count += 1;
                if names.len() < MOST_NAMED {
                    names.push(format!("{:?} of {:?}", called(check), name_of(&self.state, *id)).into());
                }
            }
        }
        if count == 0 { Ok(()) } else { Err(StageRefusal::Touched { count, names }) }
    }

    /// Refuses what something else here has, or what comes twice.
    fn expect_free(&self, sorted: &Sorted<'_>, replaced: &Replaced, number: Option<u8>) -> Result<(), StageRefusal> {
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
        for (_, project, ImportedKey { secret, hint }) in &sorted.keys {
            let Some(secret) = own(secret, number) else { continue };
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

    /// The checks as they will be, each still with the number that its project has within the import.
    fn checks_to_be(&self, sorted: &Sorted<'_>, staging: &Staging, replaced: &Replaced, now: Moment) -> Result<Vec<Check>, StageRefusal> {
        let mut channels: HashMap<(ProjectId, Uuid), ChannelId> = HashMap::with_capacity(sorted.channels.len());
        channels.extend(sorted.channels.iter().map(|(id, project, channel)| ((*project, channel.uuid), *id)));
        let mut checks = Vec::with_capacity(sorted.checks.len());
        for (id, project, drawn, imported) in &sorted.checks {
            let (log, mut state) = (staging.log(*id), imported.state);
            let problem = match () {
                () if state.status == Status::Up && state.last_ping.is_none() => Some("is up, but was never pinged"),
                () if log.n > state.n_pings => Some("has a ping with a higher number than it has pings"),
                () if [Some(state.changed), state.last_ping, state.run.map(|run| run.start)]
                    .into_iter()
                    .flatten()
                    .any(|at| at.is_ahead_of(now)) =>
                {
                    Some("has times in the future")
                }
                () => None,
            };
            if let Some(problem) = problem {
                return Err(StageRefusal::Wrong(format!("the check {:?} {problem}", imported.settings.name.as_str()).into()));
            }
            let own = imported.channels.iter().map(|channel| channels.get(&(*project, *channel)).copied());
            let own = own.collect::<Option<BTreeSet<_>>>().ok_or_else(|| wrong("a check has a channel that was not handed over"))?;
            let settings = Settings { channels: own.into_iter().collect(), ..imported.settings.clone() };
            state.last_flip = log.flip;
            state.untouched = true;
            state.expect(&settings);
            let before = self.state.check_by_uuid(imported.uuid).filter(|check| replaced.has(check.project));
            let badge = imported.badge.or(before.map(|check| check.badge)).unwrap_or(*drawn);
            checks.push(Check { id: *id, uuid: imported.uuid, badge, project: *project, settings: Arc::new(settings), state });
        }
        Ok(checks)
    }

    /// A channel as it will be, still with the number that its project has within the import. What was missing and has been given here
    /// stays.
    fn channel_to_be(
        &self,
        id: ChannelId,
        project: ProjectId,
        imported: &ImportedChannel,
        replaced: &Replaced,
        now: Moment,
    ) -> Result<Channel, StageRefusal> {
        let (settings, kind) = match &imported.settings {
            ImportedSettings::Whole(settings) => (settings.clone(), None),
            ImportedSettings::Incomplete { kind, given, .. } => {
                let settings =
                    ChannelSettings::stored(kind, given.pairs()).map_err(|error| StageRefusal::Wrong(error.to_string().into()))?;
                (settings, Some(kind.name))
            }
        };
        let disabled = imported.disabled.as_ref().map(|reason| (now, reason.clone()));
        let health = ChannelHealth { disabled, failing: None };
        let channel = Channel { id, uuid: imported.uuid, project, name: imported.name.clone(), settings, operator: true, health };
        let of_replaced = replaced.0.values().filter_map(|(id, _)| self.state.project(*id));
        let before = of_replaced.flat_map(|project_state| project_state.channels.values()).find(|before| before.uuid == imported.uuid);
        let completed = before.filter(|before| kind == Some(before.settings.kind().name) && before.settings.lacks().is_none());
        Ok(match completed {
            Some(before) => {
                Channel { settings: before.settings.clone(), operator: before.operator, health: before.health.clone(), ..channel }
            }
            None => channel,
        })
    }

    /// Users that are there already stay as they are, and may see the projects.
    fn users_to_be<'a>(&self, sorted: &Sorted<'a>) -> Result<Vec<(User, &'a ImportedUser)>, StageRefusal> {
        let new = |imported: &ImportedUser| self.state.users.by_name(&imported.name).is_none();
        if self.state.users.len() + sorted.users.iter().filter(|(.., user)| new(user)).count() > MOST_USERS {
            return Err(StageRefusal::TooLarge);
        }
        let user = |(id, uuid, imported): &(UserId, Uuid, &'a ImportedUser)| {
            let user = match self.state.users.by_name(&imported.name) {
                Some(user) => User::clone(user),
                None => User {
                    id: *id,
                    uuid: *uuid,
                    name: imported.name.clone(),
                    password: imported.password.clone(),
                    second: None,
                    grant: if imported.owner { Grant::Owner } else { Grant::Projects(Projects::default()) },
                    taste: Taste::default(),
                    created: imported.created,
                    disabled: imported.disabled,
                },
            };
            (user, *imported)
        };
        Ok(sorted.users.iter().map(user).collect())
    }

    fn grant_imported(&mut self, user: User, imported: &ImportedUser) {
        let by_uuid = |uuid: Uuid| self.state.projects().map(|project_state| &project_state.project).find(|project| project.uuid == uuid);
        let grant = match &user.grant {
            Grant::Owner => Grant::Owner,
            Grant::Projects(projects) => {
                let more = imported.projects.iter().filter_map(|(uuid, membership)| Some((by_uuid(*uuid)?.id, *membership)));
                Grant::Projects(Projects::new(projects.iter().chain(more)))
            }
        };
        self.remove_link(Purpose::Setup);
        self.put_user(User { grant, ..user });
    }

    /// What an import brought of a project goes, with all checks. The project's number stays, and with it who may see it.
    fn remove_imported(&mut self, id: ProjectId, numbers: &Range<u64>, now: Moment) {
        let Some(project_state) = self.state.project(id) else { return };
        let outbox = &self.state.outbox;
        let waiting = project_state.checks.iter().flat_map(|check| outbox.of_check(*check)).filter(|row| !outbox.is_sending(row.number));
        let waiting: Vec<_> = waiting.cloned().collect();
        let is_imported = |number: u64| numbers.contains(&number);
        let channels = project_state.channels.keys().copied().filter(|id| is_imported(id.0)).map(Change::ChannelGone);
        let keys = project_state.keys().filter(|id| is_imported(id.0)).map(Change::KeyGone);
        let checks = project_state.checks.iter().copied().map(Change::CheckGone);
        let gone: Vec<_> = channels.chain(keys).chain(checks).collect();
        waiting.iter().for_each(|row| self.finish(row, DeliveryOutcome::Skipped, REPLACED, now));
        gone.into_iter().for_each(|change| self.change(change));
    }
}

fn project_to_be(id: ProjectId, imported: &ImportedProject, numbers: Range<u64>, mode: ImportMode, now: Moment) -> Project {
    let (held, away) = match mode {
        ImportMode::Trial => (true, None),
        ImportMode::Live { newest } => (false, Some(Away { from: newest.unwrap_or(now).min(now), to: now })),
    };
    Project {
        id,
        uuid: imported.uuid,
        name: imported.name.clone(),
        check_limit: None,
        ping_log_limit: imported.ping_log_limit,
        badge_key: imported.badge_key.clone(),
        old_badge: imported.old_badge,
        import: Some(ProjectImport { numbers, held, away }),
    }
}

/// What a key is recognised by. `number`: that of the secret of the old server; without it nothing is known of a hashed key.
fn own(secret: &ImportedSecret, number: Option<u8>) -> Option<Secret> {
    match secret {
        ImportedSecret::Own(secret) => Some(secret.clone()),
        ImportedSecret::Hashed { access, digest } => {
            let read_only = *access == Access::ReadOnly;
            number.map(|secret| Secret::Hashed(HashedKey { read_only, secret, digest: *digest }))
        }
    }
}

/// Name, slug or UUID of a check.
fn called(check: &Check) -> String {
    let names = [check.settings.name.as_str(), check.settings.slug.as_str()];
    names.into_iter().find(|name| !name.is_empty()).map_or_else(|| check.uuid.to_string(), str::to_owned)
}

fn name_of(state: &State, project: ProjectId) -> &str {
    state.project(project).map_or("", |project_state| project_state.project.name.as_str())
}

fn both(kind: &str, name: &str, project: &str, there: &str, of: &str) -> String {
    format!("the {kind} {name:?} of the project {project:?} has a UUID that the {kind} {there:?} of the project {of:?} has here")
}
