//! Life cycle of a check: how pings, the passing of time, pause and resume change it, and the
//! status that it shows at a given time.

mod pause;
mod settings;
mod warnings;

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
pub use pause::{PauseEnd, PauseInput};
pub use settings::{CheckSettings, KeywordFilters};
pub use warnings::{RunLimit, RunLimits, Warning, WarningKind, WarningSet};

/// Run that a start ping began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OngoingRun {
    /// Time of the start ping.
    pub start: Timestamp,
    /// Run id of the start ping.
    pub rid: Option<Uuid>,
}

/// State of a check, as changed by pings and time. Small and `Copy`: it changes with every ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckState {
    /// Stored status.
    pub status: Status,
    /// Time of the last change of the stored status.
    pub changed: Timestamp,
    /// Time of the last success or fail ping.
    pub last_ping: Option<Timestamp>,
    /// Ongoing run.
    pub run: Option<OngoingRun>,
    /// Duration of the last run in microseconds, if the last completion ended a run that was
    /// measured.
    pub last_duration: Option<i64>,
    /// Time at which grace begins. Derived from `last_ping` and the settings; set only while up.
    pub grace_start: Option<Timestamp>,
    /// Number of pings ever logged.
    pub n_pings: u64,
    /// Position of the newest logged ping.
    pub last_arrival: Arrival,
    /// Position of the newest flip.
    pub last_flip: FlipNumber,
    /// Outcomes of the last runs.
    pub outcomes: RecentOutcomes,
    /// Number of failures and missed deadlines since the last success; saturates at 65,535.
    pub failures: u16,
    /// Notification state of the current downtime.
    pub notification: NotificationState,
    /// True if the check was imported and has not been pinged or changed on this server since.
    pub unused_since_import: bool,
    /// Number of imported pings. The others arrived on this server.
    pub imported_pings: u64,
    /// End of the pause, if it was given one. Set only while paused.
    pub pause_end: Option<PauseEnd>,
    /// Time at which a pause ended by itself, until the next completion. Pings that were expected
    /// before it do not count as missed.
    pub expected_from: Option<Timestamp>,
    /// Warnings that were given about the present expectation and run.
    pub given_warnings: WarningSet,
}

impl CheckState {
    /// State of a check created at this time.
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
            pause_end: None,
            expected_from: None,
            given_warnings: WarningSet::default(),
        }
    }

    /// Time at which the check goes down unless something happens. `None` if it is down or waits
    /// for nothing.
    pub fn deadline(&self, settings: &CheckSettings) -> Option<Timestamp> {
        match self.status {
            Status::Down => None,
            _ => self
                .grace_origin()
                .map(|(from, _)| from.plus_secs(settings.grace.get())),
        }
    }

    /// True if the alert about its downtime is held.
    pub fn is_alert_held(&self) -> bool {
        matches!(self.notification, NotificationState::Pending { .. })
    }

    /// True if the decision whether to alert about its downtime is due.
    pub fn is_notification_due(&self, now: Timestamp) -> bool {
        matches!(self.notification, NotificationState::Pending { at, .. } if at <= now)
    }

    /// Time of the next evaluation unless something happens: the deadline, the end of the pause, or
    /// the pending decision about an alert.
    pub fn next_evaluation(&self, settings: &CheckSettings) -> Option<Timestamp> {
        let decision = match self.notification {
            NotificationState::Pending { at, .. } => Some(at),
            NotificationState::NotNeeded
            | NotificationState::Notified
            | NotificationState::Undelivered => None,
        };
        let pause_end = self.pause_end.map(|end| end.at);
        let times = [self.deadline(settings), pause_end, decision];
        times.into_iter().flatten().min()
    }

    /// Time from which grace counts: the expected ping, or the start of the run if that is earlier.
    /// Also the cause of the flip if grace passes.
    fn grace_origin(&self) -> Option<(Timestamp, FlipCause)> {
        let expected = self
            .grace_start
            .map(|expected| (expected, FlipCause::MissedPing));
        let run = self.run.map(|run| (run.start, FlipCause::Overrun));
        expected
            .into_iter()
            .chain(run)
            .min_by_key(|(from, _)| *from)
    }

    /// Status shown at `now`. After [`CheckState::apply_deadline`] for that time it is the stored
    /// status, or grace while that is up.
    pub fn visible_status(&self, settings: &CheckSettings, now: Timestamp) -> VisibleStatus {
        let grace = settings.grace.get();
        if let Some(end) = self.due_pause_end(settings, now) {
            return self
                .after_pause(end, settings)
                .visible_status(settings, now);
        }
        if self
            .run
            .is_some_and(|run| now >= run.start.plus_secs(grace))
        {
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

    /// Time at which the result of [`CheckState::visible_status`] next changes by time alone.
    pub fn next_change(&self, settings: &CheckSettings, now: Timestamp) -> Option<Timestamp> {
        let grace = settings.grace.get();
        if let Some(end) = self.due_pause_end(settings, now) {
            return self.after_pause(end, settings).next_change(settings, now);
        }
        let run = self.run.map(|run| run.start.plus_secs(grace));
        let pause_end = self.pause_end.map(|end| end.at);
        let expected = self
            .grace_start
            .into_iter()
            .flat_map(|start| [start, start.plus_secs(grace)]);
        run.into_iter()
            .chain(expected)
            .chain(pause_end)
            .filter(|at| *at > now)
            .min()
    }

    /// Time at which the next ping is expected (`next_ping` in the API). During a run, the start of
    /// the run if that is earlier.
    pub fn next_ping(&self) -> Option<Timestamp> {
        match self.status {
            Status::Down => None,
            _ => self.grace_origin().map(|(from, _)| from),
        }
    }

    /// Ends a pause that is over at `now`, and sets the check to down if its deadline has passed.
    /// The times of the flips are the end of the pause and the deadline. The deadline is not before
    /// the last change, unless the clock was set back.
    pub fn apply_deadline(
        &mut self,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        self.end_due_pause(settings, now, flips);
        if let (Some((from, cause)), Some(deadline)) =
            (self.grace_origin(), self.passed_deadline(settings, now))
        {
            self.change_status(Status::Down, cause, deadline, Some(from), flips);
        }
    }

    /// Like `apply_deadline`, after a change at `now` that may have moved the deadline into the
    /// past. The flip then gets the time of the change, or of the deadline if the change is ahead
    /// of the clock.
    fn apply_deadline_after_change(
        &mut self,
        cause: Option<FlipCause>,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        if let (Some((from, origin_cause)), Some(deadline)) =
            (self.grace_origin(), self.passed_deadline(settings, now))
        {
            let at = if self.changed > now {
                deadline
            } else {
                deadline.max(self.changed)
            };
            self.change_status(
                Status::Down,
                cause.unwrap_or(origin_cause),
                at,
                Some(from),
                flips,
            );
        }
    }

    fn passed_deadline(&self, settings: &CheckSettings, now: Timestamp) -> Option<Timestamp> {
        self.deadline(settings).filter(|deadline| *deadline <= now)
    }

    /// True if the last ping, the start of the run or the pending decision is at a time that only a
    /// clock that was ahead can have set.
    pub fn has_future_times(&self, settings: &CheckSettings, now: Timestamp) -> bool {
        let is_decision_too_far = || {
            self.decision_bounds(settings, now)
                .is_some_and(|(at, latest)| at.is_ahead_of(latest))
        };
        self.last_ping
            .into_iter()
            .chain(self.run.map(|run| run.start))
            .chain(self.expected_from)
            .any(|at| at.is_ahead_of(now))
            || is_decision_too_far()
    }

    /// Time of the pending decision about an alert, and the latest time that it could get if it was
    /// postponed now.
    fn decision_bounds(
        &self,
        settings: &CheckSettings,
        now: Timestamp,
    ) -> Option<(Timestamp, Timestamp)> {
        let NotificationState::Pending { at, reason } = self.notification else {
            return None;
        };
        let latest = match reason {
            HoldReason::ServerOutage => now.plus_secs(Outage::CATCH_UP_SECS),
            HoldReason::BelowThreshold => settings
                .next_miss_after(self.last_activity().min(now), now)
                .unwrap_or(now),
            HoldReason::ParentPending => {
                now.plus_secs((HoldReason::RECHECK_SECS + 1).max(settings.grace.get()))
            }
            HoldReason::ParentDown(_) | HoldReason::MaintenanceWindow | HoldReason::Trial => {
                now.plus_secs(HoldReason::RECHECK_SECS)
            }
        };
        Some((at, latest))
    }

    /// Moves a pending decision to the latest time that a decision postponed at `now` could get, if
    /// it is later.
    fn limit_decision_time(&mut self, settings: &CheckSettings, now: Timestamp) {
        if let Some((_, latest)) = self.decision_bounds(settings, now)
            && let NotificationState::Pending { at, .. } = &mut self.notification
        {
            *at = latest.min(*at);
        }
    }

    /// Time of the last ping or of the end of a pause after it, or of the last flip if there was no
    /// ping. While the check is down, further expected pings count from it.
    pub fn last_activity(&self) -> Timestamp {
        self.last_ping
            .max(self.expected_from)
            .unwrap_or(self.changed)
    }

    /// Moves times that are ahead of the clock to `now`. They were logged while the clock was
    /// ahead, so the true times are unknown.
    pub fn clamp_future_times(
        &mut self,
        settings: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        self.apply_deadline(settings, now, flips);
        self.limit_decision_time(settings, now);
        let clamp = |at: Timestamp| if at.is_ahead_of(now) { now } else { at };
        self.last_ping = self.last_ping.map(clamp);
        self.expected_from = self.expected_from.map(clamp);
        self.run = self.run.map(|run| OngoingRun {
            start: clamp(run.start),
            ..run
        });
        self.update_grace_start(settings);
    }

    /// Logs a ping with this meaning and applies it.
    pub fn apply_ping(
        &mut self,
        settings: &CheckSettings,
        meaning: PingMeaning,
        rid: Option<Uuid>,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        self.apply_deadline(settings, now, flips);
        self.record_ping(meaning.kind(), rid, now);
        let (to, cause) = match meaning {
            PingMeaning::Success => (Status::Up, FlipCause::Success),
            PingMeaning::Fail(cause) => (Status::Down, cause),
            PingMeaning::Start | PingMeaning::Log | PingMeaning::Ignored => return,
        };
        self.change_status(to, cause, now, None, flips);
        self.update_grace_start(settings);
        // The ongoing run may be overdue already.
        self.apply_deadline_after_change(None, settings, now, flips);
    }

    /// Applies a logged ping and the flips that were logged with it. Deadlines are ignored, since
    /// their flips are in the log. The caller must call [`CheckState::update_grace_start`] after
    /// the last ping.
    pub fn replay(&mut self, kind: PingKind, rid: Option<Uuid>, at: Timestamp, flips: &[Flip]) {
        // Flips at deadlines that had passed when the ping came precede it. Of the deadlines, only
        // that of an ongoing run can follow it.
        let before = flips
            .iter()
            .take_while(|flip| flip.cause.is_deadline())
            .count();
        let (before, after) = flips.split_at(before);
        before.iter().for_each(|flip| self.apply_flip(flip));
        self.record_ping(kind, rid, at);
        after.iter().for_each(|flip| self.apply_flip(flip));
    }

    /// Applies the effects of a ping other than the status.
    fn record_ping(&mut self, kind: PingKind, rid: Option<Uuid>, at: Timestamp) {
        (self.n_pings, self.unused_since_import) = (self.n_pings + 1, false);
        match kind {
            PingKind::Success | PingKind::Fail => {
                (self.last_ping, self.expected_from) = (Some(at), None);
                self.given_warnings.remove(WarningKind::OF_EXPECTATION);
                let same = self.run.filter(|run| run.rid == rid);
                // A run whose start is ahead of `at` was measured by a clock that was set back
                // meanwhile.
                self.last_duration = same
                    .map(|run| at.micros_since(run.start))
                    .filter(|micros| *micros >= 0);
                // A success with the run id of another run leaves the ongoing run unchanged.
                if same.is_some() || rid.is_none() || kind == PingKind::Fail {
                    self.run = None;
                }
                self.count_outcome(if kind == PingKind::Fail {
                    RunOutcome::Fail
                } else {
                    RunOutcome::Success
                });
            }
            PingKind::Start => {
                self.run = Some(OngoingRun { start: at, rid });
                self.given_warnings.remove(&[WarningKind::RanLong]);
            }
            PingKind::Log | PingKind::Ignored => {}
        }
    }

    /// True if a ping is overdue at `now`. Always true for a check that expects none.
    pub fn has_missed_ping(&self, settings: &CheckSettings, now: Timestamp) -> bool {
        let last = self.last_activity();
        settings
            .next_miss_after(last, last)
            .is_none_or(|missed| missed <= now)
    }

    /// Counts a missed ping of a check that is already down.
    pub fn count_missed_ping(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    fn count_outcome(&mut self, outcome: RunOutcome) {
        self.outcomes.push(outcome);
        self.failures = if outcome == RunOutcome::Success {
            0
        } else {
            self.failures.saturating_add(1)
        };
    }

    /// Applies new settings. A deadline that has passed under the old settings sets the check to
    /// down first.
    pub fn change_settings(
        &mut self,
        old: &CheckSettings,
        new: &CheckSettings,
        now: Timestamp,
        flips: &mut Vec<Flip>,
    ) {
        self.apply_deadline(old, now, flips);
        self.unused_since_import = false;
        let expected_before = self.grace_start;
        self.update_grace_start(new);
        if self.grace_start != expected_before {
            self.given_warnings.remove(WarningKind::OF_EXPECTATION);
        }
        let last = self.last_activity();
        if let NotificationState::Pending {
            at,
            reason: HoldReason::BelowThreshold,
        } = &mut self.notification
            && *at > now
            && (old.timeout, old.grace, &old.schedule, &old.tz)
                != (new.timeout, new.grace, &new.schedule, &new.tz)
        {
            *at = new.next_miss_after(last, now).unwrap_or(now);
        }
        self.limit_decision_time(new, now);
        self.apply_deadline_after_change(Some(FlipCause::SettingsChanged), new, now, flips);
    }

    /// Derives the time at which grace begins.
    pub fn update_grace_start(&mut self, settings: &CheckSettings) {
        self.grace_start = match (self.status, self.last_ping) {
            (Status::Up, Some(last_ping)) => settings.next_ping_after(
                self.expected_from
                    .map_or(last_ping, |from| from.max(last_ping)),
            ),
            _ => None,
        };
    }

    fn change_status(
        &mut self,
        to: Status,
        cause: FlipCause,
        at: Timestamp,
        awaited_since: Option<Timestamp>,
        flips: &mut Vec<Flip>,
    ) {
        if self.status != to {
            let flip = Flip {
                at,
                from: self.status,
                to,
                cause,
                awaited_since,
            };
            self.apply_flip(&flip);
            flips.push(flip);
        }
    }

    /// Applies a change of status that was decided.
    pub fn apply_flip(&mut self, flip: &Flip) {
        self.status = flip.to;
        self.changed = flip.at;
        if flip.to != Status::Paused {
            self.pause_end = None;
        }
        if flip.cause == FlipCause::PauseEnded {
            self.expected_from = Some(flip.at);
        }
        if flip.to != Status::Up {
            self.grace_start = None;
            self.given_warnings = WarningSet::default();
        }
        if flip.cause.is_deadline() {
            self.count_outcome(RunOutcome::Missed);
        }
    }
}

/// Name, slug and tags of a check, for receivers that identify an incident by its labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckLabels {
    /// Name of the check.
    pub name: Name,
    /// Slug of the check.
    pub slug: Slug,
    /// Tags of the check.
    pub tags: Tags,
}

impl CheckLabels {
    /// Returns the labels in these settings.
    pub fn from_settings(settings: &CheckSettings) -> Self {
        Self {
            name: settings.name.clone(),
            slug: settings.slug.clone(),
            tags: settings.tags.clone(),
        }
    }

    /// Returns default settings with these labels.
    pub fn into_settings(self) -> CheckSettings {
        let Self { name, slug, tags } = self;
        CheckSettings {
            name,
            slug,
            tags,
            ..CheckSettings::default()
        }
    }
}

/// Check: identifiers, settings and state. Cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Number of the check.
    pub id: CheckId,
    /// UUID of the check. It is a secret: it suffices for pinging.
    pub uuid: Uuid,
    /// UUID for badge URLs, used in place of the secret one.
    pub badge: Uuid,
    /// Project of the check.
    pub project: ProjectId,
    /// Settings that its owner has chosen.
    pub settings: Arc<CheckSettings>,
    /// State of the check.
    pub state: CheckState,
    /// Labels with which channels were notified of the current downtime, if they were changed
    /// during it. `None` if they are unchanged.
    pub alerted_labels: Option<Arc<CheckLabels>>,
}

#[cfg(test)]
mod tests;
