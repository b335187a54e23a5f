//! The life of a check: how pings, the passing of time, pause and resume change it, and what it shows at a given moment.

mod settings;

use std::sync::Arc;

use uuid::Uuid;

use super::alert::{Away, Held, Telling};
use super::flip::{Cause, Flip};
use super::ids::{Arrival, CheckId, FlipNumber, ProjectId};
use super::moment::Moment;
use super::outcomes::{Outcomes, RunOutcome};
use super::ping::{Kind, Meaning};
use super::status::{Status, VisibleStatus};
use super::text::{Name, Slug, Tags};
pub use settings::{Filters, Settings};

/// A run that a start ping began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// When it began.
    pub start: Moment,
    /// The run id of the start ping.
    pub rid: Option<Uuid>,
}

/// What pings and time have made of a check. Small and `Copy`: it changes with every ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckState {
    /// The stored status.
    pub status: Status,
    /// When the stored status last changed.
    pub changed: Moment,
    /// The last success or fail.
    pub last_ping: Option<Moment>,
    /// The run that is going on.
    pub run: Option<Run>,
    /// Microseconds of the last run, when the last completion ended a measured one.
    pub last_duration: Option<i64>,
    /// When grace begins; derived from `last_ping` and the settings, set only while up.
    pub grace_start: Option<Moment>,
    /// Pings ever logged.
    pub n_pings: u64,
    /// Where the newest logged ping lies.
    pub last_arrival: Arrival,
    /// Where the newest flip lies.
    pub last_flip: FlipNumber,
    /// How the last runs ended.
    pub outcomes: Outcomes,
    /// Failures and missed deadlines since the last success; at 65,535 it stays.
    pub failures: u16,
    /// Whether the downtime that it is in has been told.
    pub telling: Telling,
    /// It came by an import, and since then nobody has pinged or changed it here.
    pub untouched: bool,
    /// Pings that came with it by an import. The others arrived here.
    pub brought: u64,
}

impl CheckState {
    /// A check created then.
    pub fn new(created: Moment) -> Self {
        Self {
            status: Status::New,
            changed: created,
            last_ping: None,
            run: None,
            last_duration: None,
            grace_start: None,
            n_pings: 0,
            last_arrival: Arrival(0),
            last_flip: FlipNumber(0),
            outcomes: Outcomes::default(),
            failures: 0,
            telling: Telling::Quiet,
            untouched: false,
            brought: 0,
        }
    }

    /// When the check goes down unless something happens; `None` when it is down or waits for nothing.
    pub fn deadline(&self, settings: &Settings) -> Option<Moment> {
        match self.status {
            Status::Down => None,
            _ => self.awaited().map(|(from, _)| from.plus_secs(settings.grace.get())),
        }
    }

    /// Whether it is to be decided by now whether its downtime is told.
    pub fn is_due_to_tell(&self, now: Moment) -> bool {
        matches!(self.telling, Telling::Due { at, .. } if at <= now)
    }

    /// When it has to be looked at again unless something happens: at its deadline, or when it is decided whether its downtime is told.
    pub fn next_look(&self, settings: &Settings) -> Option<Moment> {
        match self.telling {
            Telling::Due { at, .. } => Some(self.deadline(settings).map_or(at, |deadline| deadline.min(at))),
            Telling::Quiet | Telling::Told | Telling::Unheard => self.deadline(settings),
        }
    }

    /// The moment from which grace counts, which is the expected ping or the start of the run, whichever is earlier; and what it means
    /// if grace passes.
    fn awaited(&self) -> Option<(Moment, Cause)> {
        let expected = self.grace_start.map(|expected| (expected, Cause::Late));
        let run = self.run.map(|run| (run.start, Cause::Overrun));
        expected.into_iter().chain(run).min_by_key(|(from, _)| *from)
    }

    /// The status shown at `now`. After [`CheckState::settle`] for that moment it is the stored one, or grace while that is up.
    pub fn visible_status(&self, settings: &Settings, now: Moment) -> VisibleStatus {
        let grace = settings.grace.get();
        if self.run.is_some_and(|run| now >= run.start.plus_secs(grace)) {
            return VisibleStatus::Down;
        }
        match (self.status, self.grace_start) {
            (Status::New, _) => VisibleStatus::New,
            (Status::Paused, _) => VisibleStatus::Paused,
            (Status::Down, _) => VisibleStatus::Down,
            (Status::Up, Some(expected)) if now >= expected.plus_secs(grace) => VisibleStatus::Down,
            (Status::Up, Some(expected)) if now >= expected => VisibleStatus::Grace,
            (Status::Up, _) => VisibleStatus::Up,
        }
    }

    /// When what [`CheckState::visible_status`] says will next change by time alone.
    pub fn next_change(&self, settings: &Settings, now: Moment) -> Option<Moment> {
        let grace = settings.grace.get();
        let run = self.run.map(|run| run.start.plus_secs(grace));
        let expected = self.grace_start.into_iter().flat_map(|start| [start, start.plus_secs(grace)]);
        run.into_iter().chain(expected).filter(|at| *at > now).min()
    }

    /// When the next ping is expected (`next_ping` in the API): a running check shows the start of its run.
    pub fn next_ping(&self) -> Option<Moment> {
        match self.status {
            Status::Down => None,
            _ => self.awaited().map(|(from, _)| from),
        }
    }

    /// Takes the check down if its deadline has passed at `now`. The flip bears the deadline. That lies after the last change: otherwise
    /// the check would have gone down with it. An earlier one means that the clock was set back since.
    pub fn settle(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        if let (Some((from, cause)), Some(deadline)) = (self.awaited(), self.passed(settings, now)) {
            self.turn(Status::Down, cause, deadline, Some(from), flips);
        }
    }

    /// The same after something has happened at `now` that may have put the deadline before the last change: the flip is not earlier than
    /// that, unless the change lies ahead of the clock.
    fn settle_after(&mut self, cause: Option<Cause>, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        if let (Some((from, own)), Some(deadline)) = (self.awaited(), self.passed(settings, now)) {
            let at = if self.changed > now { deadline } else { deadline.max(self.changed) };
            self.turn(Status::Down, cause.unwrap_or(own), at, Some(from), flips);
        }
    }

    fn passed(&self, settings: &Settings, now: Moment) -> Option<Moment> {
        self.deadline(settings).filter(|deadline| *deadline <= now)
    }

    /// Whether it waits for something that counts from a time ahead of the clock.
    pub fn is_ahead_of(&self, settings: &Settings, now: Moment) -> bool {
        let is_told_late = || self.due_from(settings, now).is_some_and(|(at, due)| at.is_ahead_of(due));
        self.last_ping.into_iter().chain(self.run.map(|run| run.start)).any(|at| at.is_ahead_of(now)) || is_told_late()
    }

    /// When it is decided whether its downtime is told, and when that would be at the latest if it was put off now.
    fn due_from(&self, settings: &Settings, now: Moment) -> Option<(Moment, Moment)> {
        let Telling::Due { at, held } = self.telling else { return None };
        let due = match held {
            Held::Away => now.plus_secs(Away::CHANCE_SECS),
            Held::Failures => settings.missed_after(self.last_sign().min(now), now).unwrap_or(now),
            Held::Parent => now.plus_secs(Held::LOOK_SECS.max(settings.grace.get())),
            Held::Behind(_) | Held::Window | Held::Trial => now.plus_secs(Held::LOOK_SECS),
        };
        Some((at, due))
    }

    /// What its further expected moments count from while it is down.
    pub fn last_sign(&self) -> Moment {
        self.last_ping.unwrap_or(self.changed)
    }

    /// Lets what counts from a time ahead of the clock count from `now`: it was logged while the clock stood ahead, and nobody knows when.
    pub fn bring_back(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(settings, now, flips);
        let due = self.due_from(settings, now);
        if let (Telling::Due { at, .. }, Some((_, due))) = (&mut self.telling, due) {
            *at = due.min(*at);
        }
        let back = |at: Moment| if at.is_ahead_of(now) { now } else { at };
        self.last_ping = self.last_ping.map(back);
        self.run = self.run.map(|run| Run { start: back(run.start), ..run });
        self.expect(settings);
    }

    /// Logs a ping with this meaning and applies it.
    pub fn ping(&mut self, settings: &Settings, meaning: Meaning, rid: Option<Uuid>, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(settings, now, flips);
        self.record(meaning.kind(), rid, now);
        let (to, cause) = match meaning {
            Meaning::Success => (Status::Up, Cause::Success),
            Meaning::Fail(cause) => (Status::Down, cause),
            Meaning::Start | Meaning::Log | Meaning::Ignored => return,
        };
        self.turn(to, cause, now, None, flips);
        self.expect(settings);
        // The run that goes on may be overdue already.
        self.settle_after(None, settings, now, flips);
    }

    /// Applies a logged ping and the flips that were logged with it. No deadline is looked at: what it led to is in the log.
    /// [`CheckState::expect`] has to be called after the last one.
    pub fn replay(&mut self, kind: Kind, rid: Option<Uuid>, at: Moment, flips: &[Flip]) {
        // A deadline that the ping found passed comes before it; after it only that of a run that goes on.
        let before = flips.iter().take_while(|flip| flip.cause.is_by_time()).count();
        let (before, after) = flips.split_at(before);
        before.iter().for_each(|flip| self.apply_flip(flip));
        self.record(kind, rid, at);
        after.iter().for_each(|flip| self.apply_flip(flip));
    }

    /// What a ping changes besides the status.
    fn record(&mut self, kind: Kind, rid: Option<Uuid>, at: Moment) {
        (self.n_pings, self.untouched) = (self.n_pings + 1, false);
        match kind {
            Kind::Success | Kind::Fail => {
                self.last_ping = Some(at);
                let same = self.run.filter(|run| run.rid == rid);
                // A run whose start lies ahead was measured with a clock that was set back meanwhile.
                self.last_duration = same.map(|run| at.micros_since(run.start)).filter(|micros| *micros >= 0);
                // A success of another, named run leaves the one that is going on alone.
                if same.is_some() || rid.is_none() || kind == Kind::Fail {
                    self.run = None;
                }
                self.count(if kind == Kind::Fail { RunOutcome::Fail } else { RunOutcome::Success });
            }
            Kind::Start => self.run = Some(Run { start: at, rid }),
            Kind::Log | Kind::Ignored => {}
        }
    }

    /// Whether by now a ping is missing since its last sign of life. One of which none is expected misses it.
    pub fn misses_ping(&self, settings: &Settings, now: Moment) -> bool {
        let last = self.last_sign();
        settings.missed_after(last, last).is_none_or(|missed| missed <= now)
    }

    /// One more ping is missing of a check that is down already.
    pub fn note_missed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    fn count(&mut self, outcome: RunOutcome) {
        self.outcomes.push(outcome);
        self.failures = if outcome == RunOutcome::Success { 0 } else { self.failures.saturating_add(1) };
    }

    /// Stops monitoring and ends the run.
    pub fn pause(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(settings, now, flips);
        (self.run, self.untouched) = (None, false);
        self.turn(Status::Paused, Cause::Operator, now, None, flips);
    }

    /// Makes a paused check new again; `false`, and nothing changed, when it is not paused.
    pub fn resume(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) -> bool {
        self.settle(settings, now, flips);
        if self.status != Status::Paused {
            return false;
        }
        self.last_ping = None;
        (self.run, self.untouched) = (None, false);
        self.turn(Status::New, Cause::Operator, now, None, flips);
        true
    }

    /// Takes over new settings. What had passed its deadline under the old ones is down before they count.
    pub fn edit(&mut self, old: &Settings, new: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(old, now, flips);
        self.untouched = false;
        self.expect(new);
        let last = self.last_sign();
        if let Telling::Due { at, held: Held::Failures } = &mut self.telling
            && *at > now
            && (old.timeout, old.grace, &old.schedule, &old.tz) != (new.timeout, new.grace, &new.schedule, &new.tz)
        {
            *at = new.missed_after(last, now).unwrap_or(now);
        }
        self.settle_after(Some(Cause::Edited), new, now, flips);
    }

    /// Derives when grace begins.
    pub fn expect(&mut self, settings: &Settings) {
        self.grace_start = match (self.status, self.last_ping) {
            (Status::Up, Some(last_ping)) => settings.expected_after(last_ping),
            _ => None,
        };
    }

    fn turn(&mut self, to: Status, cause: Cause, at: Moment, awaited: Option<Moment>, flips: &mut Vec<Flip>) {
        if self.status != to {
            let flip = Flip { at, from: self.status, to, cause, awaited };
            self.apply_flip(&flip);
            flips.push(flip);
        }
    }

    /// Makes a change of status that has been decided.
    pub fn apply_flip(&mut self, flip: &Flip) {
        self.status = flip.to;
        self.changed = flip.at;
        if flip.to != Status::Up {
            self.grace_start = None;
        }
        if flip.cause.is_by_time() {
            self.count(RunOutcome::Missed);
        }
    }
}

/// What a check is called by receivers that know an incident by its labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameSet {
    /// Its name.
    pub name: Name,
    /// Its slug.
    pub slug: Slug,
    /// Its tags.
    pub tags: Tags,
}

impl NameSet {
    /// Returns the names in these settings.
    pub fn of(settings: &Settings) -> Self {
        Self { name: settings.name.clone(), slug: settings.slug.clone(), tags: settings.tags.clone() }
    }

    /// Returns settings of which nothing but the names is known.
    pub fn settings(self) -> Settings {
        let Self { name, slug, tags } = self;
        Settings { name, slug, tags, ..Settings::default() }
    }
}

/// A check: what names it, what its owner has set, and what has become of it. Cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Its number.
    pub id: CheckId,
    /// Its UUID, a secret: whoever knows it can ping.
    pub uuid: Uuid,
    /// What its badge URLs carry instead of its UUID.
    pub badge: Uuid,
    /// The project it belongs to.
    pub project: ProjectId,
    /// What its owner has set.
    pub settings: Arc<Settings>,
    /// What has become of it.
    pub state: CheckState,
    /// Its names before they were changed during the downtime that was told; `None`: it has them still.
    pub told_as: Option<Arc<NameSet>>,
}

#[cfg(test)]
mod tests;
