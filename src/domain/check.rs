//! The life of a check: how pings, the passing of time, pause and resume change it, and what it shows at a given moment.

use std::sync::Arc;

use uuid::Uuid;

use super::flip::Flip;
use super::ids::{Arrival, ChannelId, CheckId, FlipNumber, ProjectId};
use super::moment::Moment;
use super::ping::Kind;
use super::schedule::Schedule;
use super::status::{Status, VisibleStatus};
use super::text::{Keywords, Name, Seconds, Slug, Tags};
use super::timezone::Timezone;

/// When keyword filtering is on, and what no match means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filters {
    /// Search the subjects of mails.
    pub subject: bool,
    /// Search the bodies of mails.
    pub body: bool,
    /// Search the first 10 kB of HTTP bodies.
    pub http_body: bool,
    /// No match means failure; otherwise the ping is ignored.
    pub default_fail: bool,
}

/// What its owner has set of a check.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Its name.
    pub name: Name,
    /// Its slug.
    pub slug: Slug,
    /// Its tags.
    pub tags: Tags,
    /// Its description.
    pub desc: Box<str>,
    /// The period of a Simple check; kept, though unused, while there is a schedule.
    pub timeout: Seconds,
    /// How late it may be.
    pub grace: Seconds,
    /// The schedule of a Cron or OnCalendar check; `None`: Simple.
    pub schedule: Option<Arc<Schedule>>,
    /// The zone in which the schedule is read; kept, though unused, without one.
    pub tz: Timezone,
    /// Whether a paused check ignores pings.
    pub manual_resume: bool,
    /// Whether only POST counts as a ping.
    pub post_only: bool,
    /// Keywords that mean a start.
    pub start_kw: Keywords,
    /// Keywords that mean success.
    pub success_kw: Keywords,
    /// Keywords that mean failure.
    pub failure_kw: Keywords,
    /// Where keywords are searched.
    pub filters: Filters,
    /// The notification channels assigned, each once.
    pub channels: Box<[ChannelId]>,
}

impl Default for Settings {
    /// A new check that names nothing (contract, Create a check).
    fn default() -> Self {
        Self {
            name: Name::default(),
            slug: Slug::default(),
            tags: Tags::default(),
            desc: Box::default(),
            timeout: Seconds::DAY,
            grace: Seconds::HOUR,
            schedule: None,
            tz: Timezone::utc(),
            manual_resume: false,
            post_only: false,
            start_kw: Keywords::default(),
            success_kw: Keywords::default(),
            failure_kw: Keywords::default(),
            filters: Filters::default(),
            channels: Box::default(),
        }
    }
}

impl Settings {
    /// When the check that was last pinged then is expected again: for a schedule its first moment strictly later.
    /// `None` when the schedule has ended.
    pub fn expected_after(&self, last_ping: Moment) -> Option<Moment> {
        match &self.schedule {
            None => Some(last_ping.plus_secs(self.timeout.get())),
            Some(schedule) => schedule.next_after(last_ping, &self.tz),
        }
    }
}

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
        }
    }

    /// When the check goes down unless something happens; `None` when it is down or waits for nothing.
    pub fn deadline(&self, settings: &Settings) -> Option<Moment> {
        match self.status {
            Status::Down => None,
            _ => self.awaited().map(|from| from.plus_secs(settings.grace.get())),
        }
    }

    /// The moment from which grace counts: the expected ping or the start of the run, whichever is earlier.
    fn awaited(&self) -> Option<Moment> {
        let run = self.run.map(|run| run.start);
        match (self.grace_start, run) {
            (Some(expected), Some(start)) => Some(expected.min(start)),
            (expected, start) => expected.or(start),
        }
    }

    /// The status shown at `now`. It agrees with the stored one once [`CheckState::settle`] has been called for that moment, grace apart.
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

    /// When the next ping is expected (contract, `next_ping`): a running check shows the start of its run.
    pub fn next_ping(&self) -> Option<Moment> {
        match self.status {
            Status::Down => None,
            _ => self.awaited(),
        }
    }

    /// Takes the check down if its deadline has passed at `now`. The flip bears the deadline, but is never earlier than the last change.
    pub fn settle(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        if let Some(deadline) = self.deadline(settings).filter(|deadline| *deadline <= now) {
            self.turn(Status::Down, deadline.max(self.changed), flips);
        }
    }

    /// Logs a ping that was classified as `kind` and applies it. Also how the log is replayed.
    pub fn ping(&mut self, settings: &Settings, kind: Kind, rid: Option<Uuid>, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(settings, now, flips);
        self.n_pings += 1;
        match kind {
            Kind::Success => self.complete(settings, Status::Up, rid, now, flips),
            Kind::Fail => self.complete(settings, Status::Down, rid, now, flips),
            Kind::Start => self.run = Some(Run { start: now, rid }),
            Kind::Log | Kind::Ignored => {}
        }
    }

    fn complete(&mut self, settings: &Settings, to: Status, rid: Option<Uuid>, now: Moment, flips: &mut Vec<Flip>) {
        self.last_ping = Some(now);
        let same = self.run.filter(|run| run.rid == rid);
        self.last_duration = same.map(|run| now.micros_since(run.start));
        // A success of another, named run leaves the one that is going on alone.
        if same.is_some() || rid.is_none() || to == Status::Down {
            self.run = None;
        }
        self.turn(to, now, flips);
        self.expect(settings);
        // The run that goes on may be overdue already.
        self.settle(settings, now, flips);
    }

    /// Stops monitoring and ends the run.
    pub fn pause(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(settings, now, flips);
        self.run = None;
        self.turn(Status::Paused, now, flips);
    }

    /// Makes a paused check new again; `false`, and nothing changed, when it is not paused.
    pub fn resume(&mut self, settings: &Settings, now: Moment, flips: &mut Vec<Flip>) -> bool {
        self.settle(settings, now, flips);
        if self.status != Status::Paused {
            return false;
        }
        self.last_ping = None;
        self.run = None;
        self.turn(Status::New, now, flips);
        true
    }

    /// Takes over new settings. What had passed its deadline under the old ones is down before they count.
    pub fn edit(&mut self, old: &Settings, new: &Settings, now: Moment, flips: &mut Vec<Flip>) {
        self.settle(old, now, flips);
        self.expect(new);
        self.settle(new, now, flips);
    }

    /// Derives when grace begins.
    pub fn expect(&mut self, settings: &Settings) {
        self.grace_start = match (self.status, self.last_ping) {
            (Status::Up, Some(last_ping)) => settings.expected_after(last_ping),
            _ => None,
        };
    }

    fn turn(&mut self, to: Status, at: Moment, flips: &mut Vec<Flip>) {
        if self.status != to {
            flips.push(Flip { at, from: self.status, to });
            self.status = to;
            self.changed = at;
        }
        if to != Status::Up {
            self.grace_start = None;
        }
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
}

#[cfg(test)]
mod tests;
