//! Imports in the mix: what is handed over waits where nobody sees it, is shown all at once, and is forgotten with the engine's memory.

use std::collections::BTreeMap;

use bytes::Bytes;
use overdue::domain::check::{CheckState, Settings};
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::imported::{ImportedCheck, ImportedProject};
use overdue::domain::moment::Moment;
use overdue::domain::ping::{Kind, Method, Origin, Scheme};
use overdue::domain::project::ProjectName;
use overdue::domain::staged::{ImportId, ImportMode, Staged, StagedCounts, StagedPing};
use overdue::engine::command::stage::{Ending, StageCommand, StageRefusal};
use overdue::engine::command::{CheckNames, Command, Refusal};
use uuid::Uuid;

use super::model::{self, Answered, Model, Project};
use super::story::Entry;
use crate::support::dice::Dice;

/// Long before every simulation.
const CREATED: Moment = Moment::from_secs(1_400_000_000);
/// Microseconds without news after which one is abandoned.
const IDLE: i64 = 3600 * 1_000_000;
/// Projects that are imported, again and again.
const SOURCES: u64 = 3;

/// One under way.
#[derive(Clone)]
pub(crate) struct Staging {
    ids: u64,
    last: i64,
    pings: Vec<(StagedPing, i64)>,
    objects: Vec<Staged>,
}

#[derive(Clone, Default)]
pub(crate) struct Stagings(BTreeMap<u64, Staging>);

impl Stagings {
    /// Those of which nothing has come for an hour end.
    pub(crate) fn look(&mut self, now: i64) {
        self.0.retain(|_, staging| staging.last + IDLE > now);
    }
}

/// Some step of an import.
pub(crate) fn some_command(dice: &Dice, model: &Model, few: bool) -> Command {
    let under_way: Vec<_> = model.stagings.0.iter().collect();
    let command = match under_way.as_slice() {
        [.., (import, staging)] if !dice.chance(15) => next(dice, **import, staging, few),
        // Mostly one that is not there.
        _ if dice.chance(10) => StageCommand::Abandon { import: ImportId(dice.below(40)) },
        _ => StageCommand::Begin { ids: 1 + dice.below(3), checks: dice.below(3) },
    };
    Command::Stage(Box::new(command))
}

fn next(dice: &Dice, first: u64, staging: &Staging, few: bool) -> StageCommand {
    let import = ImportId(first);
    if staging.objects.is_empty() {
        if staging.ids > 1 && dice.chance(60) {
            return StageCommand::Log { import, pings: pings(dice, first, staging.ids), flips: Vec::new() };
        }
        return StageCommand::Objects { import, objects: things(dice, first, staging) };
    }
    let mut expected = StagedCounts { pings: staging.pings.len() as u64, ..StagedCounts::default() };
    staging.objects.iter().for_each(|object| expected.count(object));
    let mode = ImportMode::Live { newest: None };
    let ending = Ending { mode, secrets: Vec::new(), signing: None, expected, replace: true };
    if few && dice.chance(80) {
        if dice.chance(20) { StageCommand::Look { import, ending } } else { StageCommand::Finish { import, ending } }
    } else {
        StageCommand::Abandon { import }
    }
}

/// Pings of the checks, which have all numbers but the first.
fn pings(dice: &Dice, first: u64, ids: u64) -> Vec<StagedPing> {
    let check = CheckId(first + 1 + dice.below(ids - 1));
    let origin = Origin { scheme: Scheme::Http, method: Method::Put, remote_addr: None, ua: "".into() };
    let body = |n| if dice.chance(50) { Vec::new() } else { vec![n as u8; dice.pick(&[1, 50, 400])] };
    let at = |n| Moment::from_secs(CREATED.secs() + n as i64);
    let ping = |n| StagedPing { check, n, at: at(n), kind: Kind::Log, origin: origin.clone(), rid: None, exit: None, body: body(n).into() };
    if dice.chance(20) {
        // It goes in pieces.
        return vec![StagedPing { body: dice.random().bytes::<7000>().to_vec().into(), ..ping(1) }];
    }
    // The same again takes their place.
    (1..=1 + dice.below(6)).map(ping).collect()
}

fn things(dice: &Dice, first: u64, staging: &Staging) -> Vec<Staged> {
    let source = dice.below(SOURCES);
    let project = ImportedProject {
        uuid: Uuid::from_u128(1 + u128::from(source)),
        name: ProjectName::parse(&format!("source {source}")).unwrap(),
        badge_key: format!("source-{source}").into(),
        old_badge: None,
        check_limit: None,
        ping_log_limit: 1 + dice.below(8) as u32,
        keys: Vec::new(),
        channels: Vec::new(),
        windows: Vec::new(),
        checks: Vec::new(),
    };
    let id = ProjectId(first);
    let check = |number: u64| {
        let n_pings = staging.pings.iter().filter(|(ping, _)| ping.check.0 == number).map(|(ping, _)| ping.n).max().unwrap_or(0);
        let state = CheckState { n_pings, ..CheckState::new(CREATED) };
        let (uuid, badge) = (dice.random().uuid(), dice.random().uuid());
        let settings = Settings::default();
        let (badge_here, channels, parents, behind, managed) = (Some(badge), Box::default(), Box::default(), None, None);
        let check = ImportedCheck { uuid, badge: badge_here, created: CREATED, settings, channels, parents, state, behind, managed };
        Staged::Check { id: CheckId(number), project: id, badge, check: Box::new(check) }
    };
    let checks = (first + 1..first + staging.ids).map(check);
    std::iter::once(Staged::Project { id, project: Box::new(project) }).chain(checks).collect()
}

impl Model {
    pub(crate) fn stage(&mut self, command: &StageCommand, now: i64) -> Result<Answered, Refusal> {
        let unknown = || Refusal::Stage(StageRefusal::Unknown);
        match command {
            StageCommand::Begin { .. } if self.stagings.0.len() >= 4 => return Err(Refusal::Stage(StageRefusal::TooMany)),
            StageCommand::Begin { ids, .. } => {
                let staging = Staging { ids: *ids, last: now, pings: Vec::new(), objects: Vec::new() };
                self.stagings.0.insert(self.made + 1, staging);
                self.made += ids;
            }
            StageCommand::Log { import, pings, .. } => {
                let staging = self.stagings.0.get_mut(&import.0).ok_or_else(unknown)?;
                staging.last = now;
                staging.pings.extend(pings.iter().map(|ping| (ping.clone(), now)));
            }
            StageCommand::Objects { import, objects } => {
                let staging = self.stagings.0.get_mut(&import.0).ok_or_else(unknown)?;
                staging.last = now;
                staging.objects.extend(objects.iter().cloned());
            }
            StageCommand::Abandon { import } => drop(self.stagings.0.remove(&import.0).ok_or_else(unknown)?),
            StageCommand::Look { import, .. } => drop(self.stagings.0.get(&import.0).ok_or_else(unknown)?),
            StageCommand::Finish { import, .. } => {
                let staging = self.stagings.0.remove(&import.0).ok_or_else(unknown)?;
                self.show(&staging);
            }
            StageCommand::Release(_) => {}
        }
        Ok(Answered::Done)
    }

    fn show(&mut self, staging: &Staging) {
        let mut target = 0;
        for object in &staging.objects {
            match object {
                Staged::Project { id, project } => {
                    let before = self.projects.iter().find(|(_, own)| own.source == Some(project.uuid)).map(|(id, _)| *id);
                    target = before.unwrap_or(id.0);
                    self.checks.retain(|_, check| check.project != target);
                    let (name, log_limit) = (project.name.as_str().into(), project.ping_log_limit.into());
                    self.projects.insert(target, Project { name, check_limit: None, log_limit, source: Some(project.uuid) });
                }
                Staged::Check { id, check, .. } => {
                    let names = CheckNames { uuid: check.uuid, badge: check.badge.unwrap() };
                    let mut log = BTreeMap::new();
                    for (ping, now) in staging.pings.iter().filter(|(ping, _)| ping.check == *id) {
                        let body = Bytes::copy_from_slice(&ping.body);
                        let at = ping.at.micros().min(*now);
                        let (n, kind, method) = (ping.n, ping.kind, ping.origin.method);
                        log.insert(n, Entry { n, at, kind, method, rid: None, exit: None, body });
                    }
                    let check = model::Check::imported(names, target, CREATED.micros(), log.into_values().collect());
                    self.checks.insert(id.0, check);
                }
                Staged::Key { .. } | Staged::Channel { .. } | Staged::Window { .. } | Staged::User { .. } => {}
            }
        }
    }
}
