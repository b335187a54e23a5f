//! Imports: what is handed over is checked and put where nobody sees it, until all of it is shown in one command.

mod finish;
mod free;
mod sorted;

use std::collections::HashMap;

use bytes::Bytes;

use super::super::command::stage::{MOST_SERVED_CHECKS, StageCommand, StageOutcome, StageRefusal};
use super::super::command::{Outcome, Refusal};
use super::super::state::{Change, Staging, StagingChange};
use super::{Applied, WorkingState};
use crate::domain::alert::{Held, Telling};
use crate::domain::check::Check;
use crate::domain::flip::{Flip, LoggedFlip};
use crate::domain::ids::{Arrival, FlipNumber, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::ping::{LONGEST_BODY, Ping};
use crate::domain::project::Project;
use crate::domain::staged::{ImportId, Staged, StagedFlip, StagedPing};

/// Imports at the same time: see [limits](crate::docs::limits).
const MOST_IMPORTS: usize = 4;
/// Things of an import, logs apart: see [limits](crate::docs::limits).
const MOST_THINGS: u64 = 1_000_000;
/// About how many bytes the things of all imports take: see [limits](crate::docs::limits).
const MOST_BYTES: usize = 256 << 20;
/// Entries of logs that come in one command.
pub const MOST_ENTRIES: usize = 256;
/// Bytes of bodies that come in one command, unless it is one body, which may be as long as any: see [limits](crate::docs::limits).
pub const MOST_BODY_BYTES: usize = 1 << 20;
/// Seconds after which one is abandoned of which nothing comes any more: see [limits](crate::docs::limits).
const IDLE_SECS: i64 = 3600;

impl WorkingState {
    pub(super) fn stage(&mut self, command: StageCommand, now: Moment) -> Applied {
        let done = match command {
            StageCommand::Begin { ids, checks } => self.begin_import(ids, checks, now),
            StageCommand::Log { import, pings, flips } => self.stage_logs(import, pings, flips, now),
            StageCommand::Objects { import, objects } => self.stage_objects(import, objects, now),
            StageCommand::Look { import, ending } => self.look_at_import(import, &ending, now),
            StageCommand::Finish { import, ending } => self.finish_import(import, &ending, now),
            StageCommand::Abandon { import } => self.staging(import).map(|staging| staging.logged().next().is_some()).map(|leaves| {
                self.change(Change::Staging(StagingChange::Gone { import, leaves }, now));
                Outcome::Done
            }),
            StageCommand::Release(project) => return self.release_project(project, now),
        };
        done.map_err(Refusal::Stage)
    }

    fn staging(&self, import: ImportId) -> Result<&Staging, StageRefusal> {
        self.state.stagings.get(import).ok_or(StageRefusal::Unknown)
    }

    fn begin_import(&mut self, ids: u64, checks: u64, now: Moment) -> Result<Outcome, StageRefusal> {
        if self.state.stagings.len() >= MOST_IMPORTS {
            return Err(StageRefusal::TooMany);
        }
        if ids == 0 {
            return Err(StageRefusal::Wrong("there is nothing in it".into()));
        }
        if ids > MOST_THINGS {
            return Err(StageRefusal::TooLarge);
        }
        self.expect_few(checks)?;
        let first = self.numbers.id;
        self.numbers.id += ids;
        self.change(Change::Staging(StagingChange::Begun(first..first + ids), now));
        Ok(Outcome::Stage(StageOutcome::Begun(ImportId(first))))
    }

    /// Refuses more checks at once than those who ping may wait for.
    fn expect_few(&self, checks: u64) -> Result<(), StageRefusal> {
        if self.is_served && checks > MOST_SERVED_CHECKS { Err(StageRefusal::TooManyChecks(checks)) } else { Ok(()) }
    }

    /// Puts entries of logs into the file, under the numbers that their checks will have.
    fn stage_logs(
        &mut self,
        import: ImportId,
        pings: Vec<StagedPing>,
        flips: Vec<StagedFlip>,
        now: Moment,
    ) -> Result<Outcome, StageRefusal> {
        let staging = self.staging(import)?;
        let bytes: usize = pings.iter().map(|ping| ping.body.len()).sum();
        let most = if pings.len() == 1 { LONGEST_BODY } else { MOST_BODY_BYTES };
        if pings.len() + flips.len() > MOST_ENTRIES || bytes > most {
            return Err(StageRefusal::Wrong("more entries of logs came at once than there may be".into()));
        }
        let is_ahead = self.ahead_of_log(&pings).is_some();
        let checks = pings.iter().map(|ping| ping.check).chain(flips.iter().map(|flip| flip.check));
        let mut logs = HashMap::new();
        for check in checks {
            if !staging.numbers.contains(&check.0) {
                return Err(StageRefusal::Wrong("an entry of a log is of another import".into()));
            }
            logs.entry(check).or_insert_with(|| staging.log(check));
        }
        let (mut number, mut out_of_order) = (self.numbers.flip, false);
        let (mut staged_pings, mut staged_flips) = (Vec::with_capacity(pings.len()), Vec::with_capacity(flips.len()));
        for ping in pings {
            let log = logs.entry(ping.check).or_default();
            if ping.n == 0 {
                return Err(StageRefusal::Wrong("a ping has the number 0".into()));
            }
            log.n = log.n.max(ping.n);
            staged_pings.push(kept(ping, is_ahead, now));
        }
        for StagedFlip { check, flip } in flips {
            let log = logs.entry(check).or_default();
            out_of_order |= flip.at < log.at;
            let flip = Flip { at: flip.at.min(now), ..flip };
            staged_flips.push((FlipNumber(number), LoggedFlip { check, previous: log.flip, arrival: Arrival(0), flip }));
            (log.flip, log.at) = (FlipNumber(number), flip.at);
            number += 1;
        }
        let (count, flip_count) = (staged_pings.len() as u64, staged_flips.len() as u64);
        let mut logs: Vec<_> = logs.into_iter().collect();
        logs.sort_unstable_by_key(|(check, _)| *check);
        self.numbers.flip = number;
        self.effects.staged_pings.extend(staged_pings);
        self.effects.staged_flips.extend(staged_flips);
        if out_of_order {
            // The clock was set back where they were logged.
            self.effects.flips_out_of_order = Some(FlipNumber(number - 1));
        }
        self.change(Change::Staging(StagingChange::Logged { import, logs, pings: count, flips: flip_count }, now));
        Ok(Outcome::Done)
    }

    /// What is written ahead of a command that logs these: the body of one that is long.
    pub(super) fn ahead_of_log(&self, pings: &[StagedPing]) -> Option<Bytes> {
        let [StagedPing { body, .. }] = pings else { return None };
        (body.len() > self.large).then(|| body.clone())
    }

    fn stage_objects(&mut self, import: ImportId, objects: Vec<Staged>, now: Moment) -> Result<Outcome, StageRefusal> {
        let staging = self.staging(import)?;
        let bytes = objects.iter().map(Staged::bytes).sum();
        if self.state.stagings.bytes().saturating_add(bytes) > MOST_BYTES {
            return Err(StageRefusal::TooLarge);
        }
        if objects.iter().any(|object| !staging.numbers.contains(&object.number())) {
            return Err(StageRefusal::Wrong("a thing has a number of another import".into()));
        }
        let is_check = |object: &&Staged| matches!(object, Staged::Check { .. });
        self.expect_few(staging.counts.checks + objects.iter().filter(is_check).count() as u64)?;
        self.change(Change::Staging(StagingChange::Objects { import, objects: objects.into(), bytes }, now));
        Ok(Outcome::Done)
    }

    /// What is down and was not told is decided on at once.
    fn release_project(&mut self, id: ProjectId, now: Moment) -> Applied {
        let project = &self.state.project(id).ok_or(Refusal::NotFound)?.project;
        let import = project.import.clone().filter(|import| import.held).ok_or(Refusal::Stage(StageRefusal::NotHeld))?;
        let import = crate::domain::staged::ProjectImport { held: false, ..import };
        let project = Project { import: Some(import), ..Project::clone(project) };
        let released = self.put_project(project);
        self.effects.imported.push(id);
        let is_held = |check: &&Check| matches!(check.state.telling, Telling::Due { held: Held::Trial, .. });
        let held: Vec<_> = self.state.checks_of(id).filter(is_held).map(|check| check.id).collect();
        for id in held {
            if let Ok(check) = self.existing(id) {
                self.put_check(check, &[], now);
            }
        }
        Ok(released)
    }

    /// The imports of which nothing has come for an hour.
    pub fn idle_imports(&self, now: Moment) -> Vec<ImportId> {
        let is_idle = |(_, staging): &(ImportId, &Staging)| staging.last.plus_secs(IDLE_SECS) <= now;
        self.state.stagings.iter().filter(is_idle).map(|(import, _)| import).collect()
    }
}

/// The ping as its check will have it. No arrival leads to it: it lies among the kept. `is_ahead`: its body was written ahead of it.
fn kept(ping: StagedPing, is_ahead: bool, now: Moment) -> (Ping, Bytes) {
    let StagedPing { check, n, at, kind, origin, rid, exit, body } = ping;
    let (body_len, sharers) = (body.len() as u32, u32::from(is_ahead));
    let ping = Ping { check, n, previous: Arrival(0), at: at.min(now), kind, origin, rid, exit, body_len, sharers };
    (ping, body)
}

impl StageCommand {
    /// About how many bytes it holds.
    pub(in crate::engine) fn weight(&self) -> usize {
        match self {
            Self::Log { pings, flips, .. } => {
                let bodies: usize = pings.iter().map(|ping| ping.body.len() + ping.origin.ua.len()).sum();
                bodies + size_of_val(&**pings) + size_of_val(&**flips)
            }
            Self::Objects { objects, .. } => objects.iter().map(Staged::bytes).sum(),
            Self::Begin { .. } | Self::Look { .. } | Self::Finish { .. } | Self::Abandon { .. } | Self::Release(_) => 0,
        }
    }
}
