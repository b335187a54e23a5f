//! The life of a check: how pings, the passing of time, pause and resume change it, and what it shows at a given moment.

mod settings;

use std::sync::Arc;

use uuid::Uuid;

use super::alert::{HoldReason, NotificationState, Outage};
use super::flip::{Flip, FlipCause};
use super::ids::{Arrival, CheckId, FlipNumber, ProjectId};
use super::ping::{PingKind, PingMeaning};
use super::recent_outcomes::{RecentOutcomes, RunOutcome};
use super::status::{Status, VisibleStatus};
use super::text::{Name, Slug, Tags};
use super::timestamp::Timestamp;
pub use settings::{CheckSettings, KeywordFilters};

/// A run that a start ping began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OngoingRun {
    /// When it began.
    pub start: Timestamp,
    /// The run id of the start ping.
    pub rid: Option<Uuid>,
}

/// What pings and time have made of a check. Small and `Copy`: it changes with every ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckState {
    /// The stored status.
    pub status: Status,
    /// When the stored status last changed.
    pub changed: Timestamp,
    /// The last success or fail.
    pub last_ping: Option<Timestamp>,
    /// The run that is going on.
    pub run: Option<OngoingRun>,
    /// Microseconds of the last run, when the last completion ended a measured one.
    pub last_duration: Option<i64>,
    /// When grace begins; derived from `last_ping` and the settings, set only while up.
    pub grace_start: Option<Timestamp>,
    /// Pings ever logged.
    pub n_pings: u64,
    /// Where the newest logged ping lies.
    pub last_arrival: Arrival,
    /// Where the newest flip lies.
    pub last_flip: FlipNumber,
    /// How the last runs ended.
    pub outcomes: RecentOutcomes,
    /// Failures and missed deadlines since the last success; at 65,535 it stays.
    pub failures: u16,
    /// Whether the downtime that it is in has been told.
    pub notification: NotificationState,
    /// It came by an import, and since then nobody has pinged or changed it here.
    pub unused_since_import: bool,
    /// Pings that came with it by an import. The others arrived here.
    pub imported_pings: u64,
}

impl CheckState {
    /// A check created then.
    pub fn new(created: Timestamp) -> Self {
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
            outcomes: RecentOutcomes::default(),
            failures: 0,
            notification: NotificationState::NotNeeded,
            unused_since_import: false,
            imported_pings: 0,
        }
    }

    /// When the check goes down unless something happens; `None` when it is down or waits for nothing.
    pub fn deadline(&self, settings: &CheckSettings) -> Option<Timestamp> {
        match self.status {
            Status::Down => None,
            _ => self.grace_origin().map(|(from, _)| from.plus_secs(settings.grace.get())),
        }
    }

    /// Whether it is to be decided by now whether its downtime is told.
    pub fn is_notification_due(&self, now: Timestamp) -> bool {
        matches!(self.notification, NotificationState::Pending { at, .. } if at <= now)
    }

    /// When it has to be looked at again unless something happens: at its deadline, or when it is decided whether its downtime is told.
    pub fn next_evaluation(&self, settings: &CheckSettings) -> Option<Timestamp> {
        match self.notification {
            NotificationState::Pending { at, .. } => Some(self.deadline(settings).map_or(at, |deadline| deadline.min(at))),
            NotificationState::NotNeeded | NotificationState::Notified | NotificationState::Undelivered => self.deadline(settings),
        }
    }

    /// The moment from which grace counts, which is the expected ping or the start of the run, whichever is earlier; and what it means
    /// if grace passes.
    fn grace_origin(&self) -> Option<(Timestamp, FlipCause)> {
        let expected = self.grace_start.map(|expected| (expected, FlipCause::Late));
        let run = self.run.map(|run| (run.start, FlipCause::Overrun));
        expected.into_iter().chain(run).min_by_key(|(from, _)| *from)
    }

    /// The status shown at `now`. After [`CheckState::apply_deadline`] for that moment it is the stored one, or grace while that is up.
    pub fn visible_status(&self, settings: &CheckSettings, now: Timestamp) -> VisibleStatus {
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
    pub fn next_change(&self, settings: &CheckSettings, now: Timestamp) -> Option<Timestamp> {
        let grace = settings.grace.get();
        let run = self.run.map(|run| run.start.plus_secs(grace));
        let expected = self.grace_start.into_iter().flat_map(|start| [start, start.plus_secs(grace)]);
        run.into_iter().chain(expected).filter(|at| *at > now).min()
    }

    /// When the next ping is expected (`next_ping` in the API): a running check shows the start of its run.
    pub fn next_ping(&self) -> Option<Timestamp> {
        match self.status {
            Status::Down => None,
            _ => self.grace_origin().map(|(from, _)| from),
        }
    }

    /// Takes the check down if its deadline has passed at `now`. The flip bears the deadline. That lies after the last change: otherwise
    /// the check would have gone down with it. An earlier one means that the clock was set back since.
    pub fn apply_deadline(&mut self, settings: &CheckSettings, now: Timestamp, flips: &mut Vec<Flip>) {
        if let (Some((from, cause)), Some(deadline)) = (self.grace_origin(), self.passed_deadline(settings, now)) {
            self.change_status(Status::Down, cause, deadline, Some(from), flips);
        }
    }

    /// The same after something has happened at `now` that may have put the deadline before the last change: the flip is not earlier than
    /// that, unless the change lies ahead of the clock.
    fn apply_deadline_after_change(&mut self, cause: Option<FlipCause>, settings: &CheckSettings, now: Timestamp, flips: &mut Vec<Flip>) {
        if let (Some((from, own)), Some(deadline)) = (self.grace_origin(), self.passed_deadline(settings, now)) {
            let at = if self.changed > now { deadline } else { deadline.max(self.changed) };
            self.change_status(Status::Down, cause.unwrap_or(own), at, Some(from), flips);
        }
    }

    fn passed_deadline(&self, settings: &CheckSettings, now: Timestamp) -> Option<Timestamp> {
        self.deadline(settings).filter(|deadline| *deadline <= now)
    }

    /// Whether it waits for something that counts from a time ahead of the clock.
    pub fn has_future_times(&self, settings: &CheckSettings, now: Timestamp) -> bool {
        let is_told_late = || self.notification_due(settings, now).is_some_and(|(at, due)| at.is_ahead_of(due));
        self.last_ping.into_iter().chain(self.run.map(|run| run.start)).any(|at| at.is_ahead_of(now)) || is_told_late()
    }

    /// When it is decided whether its downtime is told, and when that would be at the latest if it was put off now.
    fn notification_due(&self, settings: &CheckSettings, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let NotificationState::Pending { at, reason: held } = self.notification else { return None };
        let due = match held {
            HoldReason::ServerOutage => now.plus_secs(Outage::CATCH_UP_SECS),
            HoldReason::BelowThreshold => settings.next_miss_after(self.last_activity().min(now), now).unwrap_or(now),
            HoldReason::ParentPending => now.plus_secs(HoldReason::RECHECK_SECS.max(settings.grace.get())),
            HoldReason::ParentDown(_) | HoldReason::MaintenanceWindow | HoldReason::Trial => now.plus_secs(HoldReason::RECHECK_SECS),
        };
        Some((at, due))
    }

    /// What its further expected moments count from while it is down.
    pub fn last_activity(&self) -> Timestamp {
        self.last_ping.unwrap_or(self.changed)
    }

    /// Lets what counts from a time ahead of the clock count from `now`: it was logged while the clock stood ahead, and nobody knows when.
    pub fn clamp_future_times(&mut self, settings: &CheckSettings, now: Timestamp, flips: &mut Vec<Flip>) {
        self.apply_deadline(settings, now, flips);
        let due = self.notification_due(settings, now);
        if let (NotificationState::Pending { at, .. }, Some((_, due))) = (&mut self.notification, due) {
            *at = due.min(*at);
        }
        let back = |at: Timestamp| if at.is_ahead_of(now) { now } else { at };
        self.last_ping = self.last_ping.map(back);
        self.run = self.run.map(|run| OngoingRun { start: back(run.start), ..run });
        self.update_grace_start(settings);
    }

    /// Logs a ping with this meaning and applies it.
    pub fn apply_ping(&mut self, settings: &CheckSettings, meaning: PingMeaning, rid: Option<Uuid>, now: Timestamp, flips: &mut Vec<Flip>) {
        self.apply_deadline(settings, now, flips);
        self.record_ping(meaning.kind(), rid, now);
        let (to, cause) = match meaning {
            PingMeaning::Success => (Status::Up, FlipCause::Success),
            PingMeaning::Fail(cause) => (Status::Down, cause),
            PingMeaning::Start | PingMeaning::Log | PingMeaning::Ignored => return,
        };
        self.change_status(to, cause, now, None, flips);
        self.update_grace_start(settings);
        // The run that goes on may be overdue already.
        self.apply_deadline_after_change(None, settings, now, flips);
    }

    /// Applies a logged ping and the flips that were logged with it. No deadline is looked at: what it led to is in the log.
    /// [`CheckState::update_grace_start`] has to be called after the last one.
    pub fn replay(&mut self, kind: PingKind, rid: Option<Uuid>, at: Timestamp, flips: &[Flip]) {
        // A deadline that the ping found passed comes before it; after it only that of a run that goes on.
        let before = flips.iter().take_while(|flip| flip.cause.is_deadline()).count();
        let (before, after) = flips.split_at(before);
        before.iter().for_each(|flip| self.apply_flip(flip));
        self.record_ping(kind, rid, at);
        after.iter().for_each(|flip| self.apply_flip(flip));
    }

    /// What a ping changes besides the status.
    fn record_ping(&mut self, kind: PingKind, rid: Option<Uuid>, at: Timestamp) {
        (self.n_pings, self.unused_since_import) = (self.n_pings + 1, false);
        match kind {
            PingKind::Success | PingKind::Fail => {
                self.last_ping = Some(at);
                let same = self.run.filter(|run| run.rid == rid);
                // A run whose start lies ahead was measured with a clock that was set back meanwhile.
                self.last_duration = same.map(|run| at.micros_since(run.start)).filter(|micros| *micros >= 0);
                // A success of another, named run leaves the one that is going on alone.
                if same.is_some() || rid.is_none() || kind == PingKind::Fail {
                    self.run = None;
                }
                self.count_outcome(if kind == PingKind::Fail { RunOutcome::Fail } else { RunOutcome::Success });
            }
            PingKind::Start => self.run = Some(OngoingRun { start: at, rid }),
            PingKind::Log | PingKind::Ignored => {}
        }
    }

    /// Whether by now a ping is missing since its last sign of life. One of which none is expected misses it.
    pub fn has_missed_ping(&self, settings: &CheckSettings, now: Timestamp) -> bool {
        let last = self.last_activity();
        settings.next_miss_after(last, last).is_none_or(|missed| missed <= now)
    }

    /// One more ping is missing of a check that is down already.
    pub fn count_missed_ping(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    fn count_outcome(&mut self, outcome: RunOutcome) {
        self.outcomes.push(outcome);
        self.failures = if outcome == RunOutcome::Success { 0 } else { self.failures.saturating_add(1) };
    }

    /// Stops monitoring and ends the run.
    pub fn pause(&mut self, settings: &CheckSettings, now: Timestamp, flips: &mut Vec<Flip>) {
        self.apply_deadline(settings, now, flips);
        (self.run, self.unused_since_import) = (None, false);
        self.change_status(Status::Paused, FlipCause::PausedOrResumed, now, None, flips);
    }

    /// Makes a paused check new again; `false`, and nothing changed, when it is not paused.
    pub fn resume(&mut self, settings: &CheckSettings, now: Timestamp, flips: &mut Vec<Flip>) -> bool {
        self.apply_deadline(settings, now, flips);
        if self.status != Status::Paused {
            return false;
        }
        self.last_ping = None;
        (self.run, self.unused_since_import) = (None, false);
        self.change_status(Status::New, FlipCause::PausedOrResumed, now, None, flips);
        true
    }

    /// Takes over new settings. What had passed its deadline under the old ones is down before they count.
    pub fn change_settings(&mut self, old: &CheckSettings, new: &CheckSettings, now: Timestamp, flips: &mut Vec<Flip>) {
        self.apply_deadline(old, now, flips);
        self.unused_since_import = false;
        self.update_grace_start(new);
        let last = self.last_activity();
        if let NotificationState::Pending { at, reason: HoldReason::BelowThreshold } = &mut self.notification
            && *at > now
            && (old.timeout, old.grace, &old.schedule, &old.tz) != (new.timeout, new.grace, &new.schedule, &new.tz)
        {
            *at = new.next_miss_after(last, now).unwrap_or(now);
        }
        self.apply_deadline_after_change(Some(FlipCause::SettingsChanged), new, now, flips);
    }

    /// Derives when grace begins.
    pub fn update_grace_start(&mut self, settings: &CheckSettings) {
        self.grace_start = match (self.status, self.last_ping) {
            (Status::Up, Some(last_ping)) => settings.next_ping_after(last_ping),
            _ => None,
        };
    }

    fn change_status(&mut self, to: Status, cause: FlipCause, at: Timestamp, awaited: Option<Timestamp>, flips: &mut Vec<Flip>) {
        if self.status != to {
            let flip = Flip { at, from: self.status, to, cause, awaited_since: awaited };
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
        if flip.cause.is_deadline() {
            self.count_outcome(RunOutcome::Missed);
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
    pub fn from_settings(settings: &CheckSettings) -> Self {
        Self { name: settings.name.clone(), slug: settings.slug.clone(), tags: settings.tags.clone() }
    }

    /// Returns settings of which nothing but the names is known.
    pub fn into_settings(self) -> CheckSettings {
        let Self { name, slug, tags } = self;
        CheckSettings { name, slug, tags, ..CheckSettings::default() }
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
    pub settings: Arc<CheckSettings>,
    /// What has become of it.
    pub state: CheckState,
    /// Its names before they were changed during the downtime that was told; `None`: it has them still.
    pub alerted_names: Option<Arc<NameSet>>,
}

#[cfg(test)]
mod tests;
