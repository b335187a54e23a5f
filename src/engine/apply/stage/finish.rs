//! All that an import has handed over is shown, in the place of what an earlier import brought: everything at once, or nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::super::super::command::Outcome;
use super::super::super::command::stage::{Ending, Lost, StageOutcome, StageRefusal};
use super::super::super::state::{Change, ProjectState, Staging, StagingChange};
use super::super::WorkingState;
use super::super::user::MOST_USERS;
use super::super::window::MOST_WINDOWS;
use super::free::{Taken, name_of, own};
use super::sorted::Sorted;
use crate::domain::adopted::{Adopted, ForeignSecret};
use crate::domain::alert::{Away, ChannelHealth, DeliveryOutcome, Event, Held, Telling};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::{Check, Settings};
use crate::domain::ids::{ChannelId, ProjectId, UserId};
use crate::domain::imported::{ImportedChannel, ImportedProject, ImportedSecret, ImportedSettings, ImportedUser, ImportedWindow};
use crate::domain::moment::Moment;
use crate::domain::project::{Channel, Key, KeyUse, Project, find_members};
use crate::domain::staged::{ImportId, ImportMode, ProjectImport};
use crate::domain::status::Status;
use crate::domain::user::link::Purpose;
use crate::domain::user::{Grant, Projects, User};
use crate::domain::window::Window;

/// What has become of what waited to be told of a check.
const REPLACED: &str = "an import took the place of the check";
/// Sentences about what is taken, and checks that are named.
pub(super) const MOST_NAMED: usize = 10;

pub(super) fn wrong(problem: &str) -> StageRefusal {
    StageRefusal::Wrong(problem.into())
}

/// Projects here whose place others take, with the numbers of the import that brought them.
#[derive(Default)]
pub(super) struct Replaced {
    by_uuid: HashMap<Uuid, ProjectId>,
    numbers: BTreeMap<ProjectId, Range<u64>>,
}

impl Replaced {
    /// Whether this thing of a project goes: keys and channels that were made here stay, checks go all.
    pub(super) fn goes(&self, project: ProjectId, number: u64) -> bool {
        self.numbers.get(&project).is_some_and(|numbers| numbers.contains(&number))
    }

    pub(super) fn has(&self, project: ProjectId) -> bool {
        self.numbers.contains_key(&project)
    }
}

/// What an import comes to, before any of it is shown.
struct Ready<'a> {
    sorted: Sorted<'a>,
    replaced: Replaced,
    /// What was done here and goes.
    lost: Lost,
    /// The secrets of old servers that are known then.
    adopted: Adopted,
    /// The numbers of those that come along.
    numbers: Vec<u8>,
    checks: Vec<Check>,
    users: Vec<(User, &'a ImportedUser)>,
    channels: Vec<Channel>,
}

impl Ready<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::Stage(StageOutcome::Finished { replaced: self.replaced.numbers.len(), lost: self.lost })
    }
}

impl WorkingState {
    /// What it would come to to finish an import, which goes on.
    pub(super) fn look_at_import(&self, import: ImportId, ending: &Ending, now: Moment) -> Result<Outcome, StageRefusal> {
        Ok(self.ready(self.staging(import)?, ending, now)?.outcome())
    }

    /// All that has to be known, or why it is refused.
    fn ready<'a>(&self, staging: &'a Staging, ending: &Ending, now: Moment) -> Result<Ready<'a>, StageRefusal> {
        if staging.counts != ending.expected {
            return Err(wrong("not all of it has arrived; begin again"));
        }
        let sorted = Sorted::new(staging)?;
        let replaced = self.replaced(&sorted)?;
        let lost = self.done_here(&replaced, !ending.replace)?;
        let going = replaced.numbers.keys().filter_map(|id| self.state.project(*id)).map(|project_state| project_state.checks.len() as u64);
        self.expect_few(going.sum())?;
        let (adopted, numbers) = self.adopted(&sorted, &ending.secrets)?;
        self.expect_free(&sorted, &replaced, &numbers)?;
        self.expect_room_for_windows(&sorted, &replaced)?;
        let checks = self.checks_to_be(&sorted, staging, &replaced, now)?;
        let users = self.users_to_be(&sorted, now)?;
        let channels = sorted.channels.iter().map(|(id, project, channel)| self.channel_to_be(*id, *project, channel, &replaced, now));
        let mut channels = channels.collect::<Result<Vec<_>, StageRefusal>>()?;
        find_members(&mut channels);
        Ok(Ready { sorted, replaced, lost, adopted, numbers, checks, users, channels })
    }

    pub(super) fn finish_import(&mut self, import: ImportId, ending: &Ending, now: Moment) -> Result<Outcome, StageRefusal> {
        // Cheap to clone apart from the map of logs, and it goes with this command.
        let staging = self.staging(import)?.clone();
        let ready = self.ready(&staging, ending, now)?;
        let outcome = ready.outcome();
        let Ready { sorted, replaced, adopted, numbers, checks, users, channels, .. } = ready;
        let Ending { mode, signing, .. } = ending;
        // From here on nothing is refused.
        if adopted != *self.state.adopted {
            self.change(Change::Adopted(Arc::new(adopted)));
        }
        let is_bare = |project_state: &ProjectState| replaced.has(project_state.project.id) || project_state.checks.is_empty();
        if let Some(signing) = signing.filter(|_| self.state.projects().all(is_bare)) {
            self.change(Change::BadgeSecret(signing));
        }
        let here =
            |(staged, project): &(ProjectId, &ImportedProject)| (*staged, replaced.by_uuid.get(&project.uuid).copied().unwrap_or(*staged));
        let targets: HashMap<_, _> = sorted.projects.iter().map(here).collect();
        let target = |staged: ProjectId| targets.get(&staged).copied().unwrap_or(staged);
        for (id, numbers) in &replaced.numbers {
            self.remove_imported(*id, numbers, now);
        }
        for (id, project) in &sorted.projects {
            let project = project_to_be(target(*id), project, staging.numbers.clone(), *mode, now);
            self.effects.imported.push(project.id);
            self.put_project(project);
        }
        for (id, project, imported) in &sorted.keys {
            let Some(secret) = own(&imported.secret, &numbers) else { continue };
            let created = imported.created.unwrap_or(now).min(now);
            let used = imported.used.map(|used| KeyUse { at: used.at.min(now), ..used });
            let (label, hint) = (imported.label.clone(), imported.hint.clone());
            self.change(Change::Key(Arc::new(Key { id: *id, project: target(*project), secret, label, hint, created, used })));
        }
        for channel in channels {
            self.put_channel(Channel { project: target(channel.project), ..channel });
        }
        for (id, project, imported) in &sorted.windows {
            let ImportedWindow { uuid, name, tags, times, .. } = ImportedWindow::clone(imported);
            self.change(Change::Window(Arc::new(Window { id: *id, uuid, project: target(*project), name, tags, times })));
        }
        for check in checks {
            let mut check = Check { project: target(check.project), ..check };
            // That it was down was told where it came from; that it is up again was not.
            let is_news = check.state.status == Status::Up && check.state.telling == Telling::Told;
            if is_news {
                check.state.telling = Telling::Quiet;
            }
            let news = is_news.then(|| check.clone());
            self.change(Change::Check(Box::new(check)));
            if let Some(check) = news {
                self.queue_all(&check, Event::Up, check.state.changed, now);
            }
        }
        for (id, source) in sorted.managed() {
            self.change(Change::Managed(id, Some(source.clone())));
        }
        let brought = sorted.projects.iter().map(|(id, project)| (project.uuid, target(*id))).collect();
        for (user, imported) in users {
            self.grant_imported(user, imported, &brought);
        }
        let leaves = !replaced.numbers.is_empty();
        self.change(Change::Staging(StagingChange::Gone { import, leaves }, now));
        Ok(outcome)
    }

    /// The secrets of old servers that are known then, and the numbers of those that come along, as far as keys need them.
    fn adopted(&self, sorted: &Sorted<'_>, secrets: &[ForeignSecret]) -> Result<(Adopted, Vec<u8>), StageRefusal> {
        let place = |secret: &ImportedSecret| match secret {
            ImportedSecret::Hashed { secret, .. } => Some(usize::from(*secret)),
            ImportedSecret::Own(_) => None,
        };
        let (mut adopted, mut numbers) = (Adopted::clone(&self.state.adopted), Vec::new());
        let Some(last) = sorted.keys.iter().filter_map(|(.., key)| place(&key.secret)).max() else { return Ok((adopted, numbers)) };
        let needed = secrets.get(..=last).ok_or_else(|| wrong("a key is hashed by a server whose secret is not known"))?;
        for secret in needed {
            let (more, number) = adopted.with(secret).map_err(|problem| StageRefusal::Taken(vec![problem.into()]))?;
            adopted = more;
            numbers.push(number);
        }
        Ok((adopted, numbers))
    }

    /// Refuses more windows than a project may have, with those that were made here.
    fn expect_room_for_windows(&self, sorted: &Sorted<'_>, replaced: &Replaced) -> Result<(), StageRefusal> {
        let mut counts: HashMap<ProjectId, usize> = HashMap::new();
        sorted.windows.iter().for_each(|(_, project, _)| *counts.entry(*project).or_default() += 1);
        for (staged, project) in &sorted.projects {
            let here = replaced.by_uuid.get(&project.uuid).and_then(|id| self.state.project(*id)).map_or(0, |project_state| {
                project_state.windows.keys().filter(|window| !replaced.goes(project_state.project.id, window.0)).count()
            });
            if counts.get(staged).is_some_and(|count| count + here > MOST_WINDOWS) {
                return Err(StageRefusal::Wrong(format!("the project {:?} has too many windows", project.name.as_str()).into()));
            }
        }
        Ok(())
    }

    fn replaced(&self, sorted: &Sorted<'_>) -> Result<Replaced, StageRefusal> {
        let here: HashMap<Uuid, &Arc<Project>> =
            self.state.projects().map(|project_state| (project_state.project.uuid, &project_state.project)).collect();
        let (mut replaced, mut taken) = (Replaced::default(), Taken::default());
        for (_, project) in &sorted.projects {
            let Some(there) = here.get(&project.uuid) else { continue };
            match &there.import {
                Some(import) => {
                    replaced.by_uuid.insert(project.uuid, there.id);
                    replaced.numbers.insert(there.id, import.numbers.clone());
                }
                None => taken.tell(|| {
                    format!(
                        "the project {:?} has the UUID of the project {:?} here, which was made here; delete that one first",
                        project.name.as_str(),
                        there.name.as_str()
                    )
                }),
            }
        }
        if taken.0.is_empty() { Ok(replaced) } else { Err(StageRefusal::Taken(taken.0)) }
    }

    /// What somebody has done here that would go; refuses that if it `stays`.
    fn done_here(&self, replaced: &Replaced, stays: bool) -> Result<Lost, StageRefusal> {
        let mut names = Vec::new();
        let mut done = Lost::default();
        for id in replaced.numbers.keys() {
            for check in self.state.checks_of(*id).filter(|check| !check.state.untouched) {
                done.checks += 1;
                done.pings += check.state.n_pings.saturating_sub(check.state.brought);
                if names.len() < MOST_NAMED {
                    names.push(format!("{:?} of {:?}", check.settings.called(check.uuid), name_of(&self.state, *id)).into());
                }
            }
        }
        if stays && done.checks > 0 { Err(StageRefusal::Touched { done, names }) } else { Ok(done) }
    }

    /// The checks as they will be, each still with the number that its project has within the import.
    fn checks_to_be(&self, sorted: &Sorted<'_>, staging: &Staging, replaced: &Replaced, now: Moment) -> Result<Vec<Check>, StageRefusal> {
        let mut channels: HashMap<(ProjectId, Uuid), ChannelId> = HashMap::with_capacity(sorted.channels.len());
        channels.extend(sorted.channels.iter().map(|(id, project, channel)| ((*project, channel.uuid), *id)));
        let parents = sorted.parents()?;
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
            let parents = parents.get(id).cloned().unwrap_or_default();
            if let Telling::Due { at, held: Held::Behind(_) } = state.telling {
                let parent =
                    imported.behind.and_then(|parent| sorted.check(*project, parent)).filter(|parent| parents.ids().contains(parent));
                state.telling = Telling::Due { at, held: parent.map_or(Held::Parent, Held::Behind) };
            }
            let settings = Settings { channels: own.into_iter().collect(), parents, ..imported.settings.clone() };
            state.last_flip = log.flip;
            (state.untouched, state.brought) = (true, state.n_pings);
            state.expect(&settings);
            let before = self.state.check_by_uuid(imported.uuid).filter(|check| replaced.has(check.project));
            let badge = imported.badge.or(before.map(|check| check.badge)).unwrap_or(*drawn);
            checks.push(Check {
                id: *id,
                uuid: imported.uuid,
                badge,
                project: *project,
                settings: Arc::new(settings),
                state,
                told_as: None,
            });
        }
        Ok(checks)
    }

    /// A channel as it will be, still with the number that its project has within the import. If it came without all settings and was
    /// completed or enabled here, it stays so.
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
        let past = |trouble: &Option<(Moment, Box<str>)>| trouble.clone().map(|(since, reason)| (since.min(now), reason));
        let health =
            ChannelHealth { disabled: past(&imported.health.disabled), failing: past(&imported.health.failing), ..imported.health.clone() };
        let (uuid, name, operator) = (imported.uuid, imported.name.clone(), imported.operator);
        let channel = Channel { id, uuid, project, name, settings, operator, health };
        let completed = kind.and_then(|kind| {
            let of_replaced = replaced.numbers.keys().filter_map(|id| self.state.project(*id));
            let before = of_replaced.flat_map(|project_state| project_state.channels.values()).find(|before| before.uuid == imported.uuid);
            before.filter(|before| kind == before.settings.kind().name && before.settings.lacks().is_none() && !is_as_imported(before))
        });
        Ok(match completed {
            Some(before) => {
                Channel { settings: before.settings.clone(), operator: before.operator, health: before.health.clone(), ..channel }
            }
            None => channel,
        })
    }

    /// Users that are there already stay as they are, and may see the projects.
    fn users_to_be<'a>(&self, sorted: &Sorted<'a>, now: Moment) -> Result<Vec<(User, &'a ImportedUser)>, StageRefusal> {
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
                    second: imported.second.clone(),
                    grant: if imported.owner { Grant::Owner } else { Grant::Projects(Projects::default()) },
                    taste: imported.taste.clone(),
                    created: imported.created.min(now),
                    disabled: imported.disabled,
                    browsers_since: now,
                },
            };
            (user, *imported)
        };
        Ok(sorted.users.iter().map(user).collect())
    }

    /// `brought`: the projects that came with the import, for others of which it may not speak.
    fn grant_imported(&mut self, user: User, imported: &ImportedUser, brought: &HashMap<Uuid, ProjectId>) {
        let grant = match &user.grant {
            Grant::Owner => Grant::Owner,
            Grant::Projects(projects) => {
                let more = imported.projects.iter().filter_map(|(uuid, membership)| Some((*brought.get(uuid)?, *membership)));
                Grant::Projects(Projects::new(projects.iter().chain(more)))
            }
        };
        self.remove_link(Purpose::Setup);
        if self.state.users.get(user.id).is_none() && imported.managed.is_some() {
            self.change(Change::Managed(user.id.0, imported.managed.clone()));
        }
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
        let windows = project_state.windows.keys().copied().filter(|window| is_imported(window.0));
        let windows = windows.map(|window| Change::WindowGone(id, window));
        let checks = project_state.checks.iter().copied().map(Change::CheckGone);
        let gone: Vec<_> = checks.chain(channels).chain(keys).chain(windows).collect();
        waiting.iter().for_each(|row| self.finish(row, DeliveryOutcome::Skipped, REPLACED, now));
        gone.into_iter().for_each(|change| self.change(change));
    }
}

/// True if nobody has given anything here to a channel that an earlier import brought without all settings.
fn is_as_imported(channel: &Channel) -> bool {
    channel.health.disabled.as_ref().is_some_and(|(_, reason)| reason.starts_with(ImportedSettings::IMPORTED_WITHOUT))
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
        check_limit: imported.check_limit,
        ping_log_limit: imported.ping_log_limit,
        badge_key: imported.badge_key.clone(),
        old_badge: imported.old_badge,
        import: Some(ProjectImport { numbers, held, away }),
    }
}
