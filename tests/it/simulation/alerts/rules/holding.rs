//! Reasons for holding an alert back: too few failures, maintenance windows, parents and pings that
//! may have been lost.

use super::*;

impl AlertModel {
    pub(super) fn hold(&mut self, check: u64, cause: HoldCause, until: i64) {
        if !matches!(self.announcements.get(&check), Some(AnnouncementState::Held { cause: old, .. }) if *old == cause)
        {
            self.count(AlertCase::Held(cause.kind()));
        }
        self.announcements
            .insert(check, AnnouncementState::Held { cause, until });
    }

    /// Shortens the wait for a parent after an edit of the grace.
    pub(super) fn limit_wait(&mut self, check: u64, until: i64, now: i64) {
        let grace = self.replayed_check(check).rules().grace * SECOND;
        let latest = now + grace.max(RECHECK_INTERVAL + SECOND);
        self.hold(check, HoldCause::Parent, until.min(latest));
    }

    /// Decides again on a held alert if that is due or if its reason has ended.
    pub(super) fn reconsider(&mut self, check: u64, change: CheckChange, now: i64) {
        let Some(AnnouncementState::Held { cause, until }) =
            self.announcements.get(&check).copied()
        else {
            return;
        };
        let is_due = until <= now;
        let outage = if is_due {
            self.outage(check, until, now)
        } else {
            None
        };
        if is_due
            && cause == HoldCause::Failures
            && outage.is_none()
            && self
                .next_missing(check, self.last_activity(check))
                .is_none_or(|at| at <= now)
        {
            *self.missed.entry(check).or_default() += 1;
        }
        let model_check = &self.model.checks[&check];
        let has_reported = self.replayed_check(check).outcomes.last() == Some(&RunOutcome::Fail);
        let is_free = match cause {
            HoldCause::Outage | HoldCause::Parent | HoldCause::HiddenBehind(_) if has_reported => {
                true
            }
            HoldCause::Outage => false,
            HoldCause::Failures => {
                self.failures(check) >= usize::from(model_check.failure_threshold.get())
            }
            HoldCause::Window => {
                change != CheckChange::Ping && self.window_end(check, now).is_none()
            }
            // The check keeps its grace after its last parent was deleted.
            HoldCause::Parent => change == CheckChange::ParentsRemoved,
            HoldCause::HiddenBehind(parent) => !model_check.parents.contains(&parent),
        };
        if cause == HoldCause::Outage
            && !is_free
            && let Some(new_deadline) = outage
                .and_then(|end| self.lost_ping_deadline(check, end, now))
                .filter(|at| *at > until)
        {
            self.hold(check, cause, new_deadline);
        } else if is_due || is_free {
            self.decide(check, Some(cause), now, now);
        }
    }

    /// Holds an alert back or announces the downtime. Pings that are overdue after `misses_from`
    /// count as missed.
    pub(super) fn decide(
        &mut self,
        check: u64,
        before: Option<HoldCause>,
        misses_from: i64,
        now: i64,
    ) {
        let model_check = &self.model.checks[&check];
        let next_missing = self.next_missing(check, misses_from);
        if self.failures(check) < usize::from(model_check.failure_threshold.get())
            && let Some(at) = next_missing
        {
            self.hold(check, HoldCause::Failures, at);
        } else if let Some(until) = self.window_end(check, now) {
            self.hold(check, HoldCause::Window, until.min(now + RECHECK_INTERVAL));
        } else if let Some((cause, until)) = self.parents(check, before, now) {
            self.hold(check, cause, until);
        } else {
            self.announce(check, before);
        }
    }

    /// Returns the number of failures since the last success, including missed pings.
    fn failures(&self, check: u64) -> usize {
        let outcomes = &self.replayed_check(check).outcomes;
        let failed = outcomes
            .iter()
            .rev()
            .take_while(|outcome| **outcome != RunOutcome::Success)
            .count();
        failed + self.missed.get(&check).copied().unwrap_or_default()
    }

    fn last_activity(&self, check: u64) -> i64 {
        let replay = self.replayed_check(check);
        replay
            .last_ping
            .max(replay.expected_from)
            .unwrap_or(replay.changed)
    }

    /// Returns the time of the next expected ping after `after`, counted from the last ping.
    fn next_expected(&self, check: u64, after: i64) -> Option<i64> {
        let last = self.last_activity(check);
        match self.replayed_check(check).rules().period {
            ModelPeriod::Seconds(period) => (1..)
                .map(|count| last + count * period * SECOND)
                .find(|at| *at > after),
            ModelPeriod::EveryFiveMinutes => {
                Some((after.max(last) / (300 * SECOND) + 1) * 300 * SECOND)
            }
            ModelPeriod::AtThree | ModelPeriod::Ended => None,
        }
    }

    /// Returns the time at which the next ping will be overdue.
    pub(super) fn next_missing(&self, check: u64, now: i64) -> Option<i64> {
        let grace = self.replayed_check(check).rules().grace * SECOND;
        self.next_expected(check, now - grace).map(|at| at + grace)
    }

    /// Returns the end of the last open window of a check.
    pub(super) fn window_end(&self, check: u64, now: i64) -> Option<i64> {
        let model_check = &self.model.checks[&check];
        let has_tag = |tag: &str| model_check.labels.tags.split(' ').any(|other| other == tag);
        let windows = self
            .model
            .windows
            .values()
            .filter(|window| window.tags.iter().all(&has_tag));
        windows.filter_map(|window| window.closes_at(now)).max()
    }

    /// Returns the parent that hides a check, or the end of the wait for its parents. A check that
    /// reports a failure is not hidden.
    fn parents(&self, check: u64, before: Option<HoldCause>, now: i64) -> Option<(HoldCause, i64)> {
        let model_check = &self.model.checks[&check];
        if self.replayed_check(check).outcomes.last() != Some(&RunOutcome::Missed) {
            return None;
        }
        let parents: Vec<_> = model_check
            .parents
            .iter()
            .copied()
            .filter(|parent| self.model.checks.contains_key(parent))
            .collect();
        if let Some(parent) = parents
            .iter()
            .find(|parent| self.is_downtime_known(**parent))
        {
            return Some((HoldCause::HiddenBehind(*parent), now + RECHECK_INTERVAL));
        }
        if matches!(before, Some(HoldCause::Parent | HoldCause::HiddenBehind(_))) {
            return None;
        }
        let deadlines =
            parents
                .into_iter()
                .filter_map(|parent| match self.announcements.get(&parent) {
                    Some(AnnouncementState::Held { until, .. }) => {
                        Some((*until).min(now + RECHECK_INTERVAL))
                    }
                    Some(AnnouncementState::Announced { .. }) => None,
                    None => {
                        let replay = self.replayed_check(parent);
                        let has_reported = replay
                            .last_ping
                            .is_some_and(|at| at > self.replayed_check(check).changed);
                        replay
                            .deadline()
                            .filter(|deadline| !has_reported && *deadline <= now + RECHECK_INTERVAL)
                    }
                });
        deadlines
            .max()
            .map(|at| (HoldCause::Parent, at.max(now) + SECOND))
    }

    /// True if channels were notified that a check or one above it is down.
    pub(in crate::simulation::alerts) fn is_downtime_known(&self, check: u64) -> bool {
        match self.announcements.get(&check) {
            Some(AnnouncementState::Announced { reached: true }) => self
                .audience(check, AlertEvent::Down)
                .into_iter()
                .any(|channel| !self.is_disabled(channel)),
            Some(AnnouncementState::Held {
                cause: HoldCause::HiddenBehind(parent),
                ..
            }) => self.is_downtime_known(*parent),
            _ => false,
        }
    }

    /// Lets the checks behind a parent that hides them no longer report within their grace.
    pub(super) fn release_children(&mut self, parent: u64, now: i64) {
        if self.is_downtime_known(parent) {
            return;
        }
        let is_hidden = |announcement: &AnnouncementState| matches!(announcement, AnnouncementState::Held { cause: HoldCause::HiddenBehind(of), .. } if *of == parent);
        let hidden: Vec<_> = self
            .announcements
            .iter()
            .filter(|(_, announcement)| is_hidden(announcement))
            .map(|(check, _)| *check)
            .collect();
        for check in hidden {
            self.count(AlertCase::Released);
            let until = now + self.replayed_check(check).rules().grace * SECOND;
            self.announcements.insert(
                check,
                AnnouncementState::Held {
                    cause: HoldCause::Parent,
                    until,
                },
            );
            self.release_children(check, now);
        }
    }

    /// Returns the end of the latest outage in which the ping before that deadline may have been
    /// lost.
    pub(super) fn outage(&self, check: u64, deadline: i64, now: i64) -> Option<i64> {
        let expected = deadline - self.replayed_check(check).rules().grace * SECOND;
        self.outage_between(expected, deadline, now)
    }

    /// Returns the end of the latest outage that touches this period.
    pub(super) fn outage_between(&self, from: i64, until: i64, now: i64) -> Option<i64> {
        let past_outages = self
            .outages
            .iter()
            .rev()
            .filter(|(from, _)| *from <= now)
            .map(|(from, to)| (*from, now.min(*to)));
        past_outages
            .filter(|(begin, end)| from <= *end && until >= *begin)
            .map(|(_, to)| to)
            .next()
    }

    /// Returns the deadline for repeating a ping that may have been lost in an outage, or `None` if
    /// it has passed.
    pub(super) fn lost_ping_deadline(&self, check: u64, outage: i64, now: i64) -> Option<i64> {
        let replay = self.replayed_check(check);
        let end = outage + LOST_PING_GRACE;
        let expected = match replay.rules().period {
            ModelPeriod::Seconds(period) => Some(outage + period * SECOND),
            _ => self.next_expected(check, outage),
        };
        let next = expected
            .filter(|_| self.last_activity(check) <= outage)
            .map(|at| at + replay.rules().grace * SECOND);
        (now < end).then(|| {
            next.filter(|at| *at < end)
                .unwrap_or(outage + SHORT_PARENT_WAIT)
        })
    }
}
