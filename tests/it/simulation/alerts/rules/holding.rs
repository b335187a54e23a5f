//! What holds an alert back: failures that are too few, windows, parents, and pings that may have
//! been lost.

use super::*;

impl AlertModel {
    pub(super) fn hold(&mut self, check: u64, why: HoldCause, until: i64) {
        if !matches!(self.announcements.get(&check), Some(AnnouncementState::Held { why: old, .. }) if *old == why)
        {
            self.count(AlertCase::Held(why.kind()));
        }
        self.announcements
            .insert(check, AnnouncementState::Held { why, until });
    }

    /// An alert that is held back is decided on again when that is due, or when its reason is gone.
    pub(super) fn reconsider(&mut self, check: u64, changes_settings: bool, now: i64) {
        let Some(AnnouncementState::Held { why, until }) = self.announcements.get(&check).copied()
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
            && why == HoldCause::Failures
            && outage.is_none()
            && self
                .next_missing(check, self.last_sign(check))
                .is_none_or(|at| at <= now)
        {
            *self.missed.entry(check).or_default() += 1;
        }
        let own = &self.model.checks[&check];
        let has_reported = self.replayed_check(check).outcomes.last() == Some(&RunOutcome::Fail);
        let is_free = match why {
            HoldCause::Outage | HoldCause::Parent | HoldCause::HiddenBehind(_) if has_reported => {
                true
            }
            HoldCause::Outage => false,
            HoldCause::Failures => self.failures(check) >= usize::from(own.failure_threshold.get()),
            HoldCause::Window => changes_settings && self.window_end(check, now).is_none(),
            // After its last parent was deleted, the check keeps its grace; a ping does not end it.
            HoldCause::Parent => changes_settings && own.parents.is_empty(),
            HoldCause::HiddenBehind(parent) => !own.parents.contains(&parent),
        };
        if why == HoldCause::Outage
            && !is_free
            && let Some(again) = outage
                .and_then(|end| self.lost_ping_deadline(check, end, now))
                .filter(|at| *at > until)
        {
            self.hold(check, why, again);
        } else if is_due || is_free {
            self.decide(check, Some(why), now);
        }
    }

    /// Holds an alert back, or has it told.
    pub(super) fn decide(&mut self, check: u64, before: Option<HoldCause>, now: i64) {
        let own = &self.model.checks[&check];
        let missing = self.next_missing(check, now);
        if self.failures(check) < usize::from(own.failure_threshold.get())
            && let Some(at) = missing
        {
            self.hold(check, HoldCause::Failures, at);
        } else if let Some(until) = self.window_end(check, now) {
            self.hold(check, HoldCause::Window, until.min(now + RECHECK_INTERVAL));
        } else if let Some((why, until)) = self.parents(check, before, now) {
            self.hold(check, why, until);
        } else {
            self.announce(check, before);
        }
    }

    /// Failures since the last success, pings that are missing included.
    fn failures(&self, check: u64) -> usize {
        let outcomes = &self.replayed_check(check).outcomes;
        let failed = outcomes
            .iter()
            .rev()
            .take_while(|outcome| **outcome != RunOutcome::Success)
            .count();
        failed + self.missed.get(&check).copied().unwrap_or_default()
    }

    fn last_sign(&self, check: u64) -> i64 {
        let story = self.replayed_check(check);
        story.last_ping.unwrap_or(story.changed)
    }

    /// When the next ping is expected after a moment, for a check that has sent none since its last
    /// one.
    fn next_expected(&self, check: u64, after: i64) -> Option<i64> {
        let last = self.last_sign(check);
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

    /// When one more ping will be missing, grace included.
    pub(super) fn next_missing(&self, check: u64, now: i64) -> Option<i64> {
        let grace = self.replayed_check(check).rules().grace * SECOND;
        self.next_expected(check, now - grace).map(|at| at + grace)
    }

    /// When the last window closes that is open for a check.
    fn window_end(&self, check: u64, now: i64) -> Option<i64> {
        let own = &self.model.checks[&check];
        let has = |tag: &str| own.labels.tags.split(' ').any(|other| other == tag);
        let windows = self
            .model
            .windows
            .values()
            .filter(|window| window.tags.iter().all(&has));
        windows.filter_map(|window| window.closes_at(now)).max()
    }

    /// Behind which parent a check hides, or how long its parents are waited for. One that reports
    /// a failure does not hide.
    fn parents(&self, check: u64, before: Option<HoldCause>, now: i64) -> Option<(HoldCause, i64)> {
        let own = &self.model.checks[&check];
        if self.replayed_check(check).outcomes.last() != Some(&RunOutcome::Missed) {
            return None;
        }
        let parents: Vec<_> = own
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
        let waited =
            parents
                .into_iter()
                .filter_map(|parent| match self.announcements.get(&parent) {
                    Some(AnnouncementState::Held { until, .. }) => {
                        Some((*until).min(now + RECHECK_INTERVAL))
                    }
                    Some(AnnouncementState::Announced { .. }) => None,
                    None => {
                        let story = self.replayed_check(parent);
                        let has_reported = story
                            .last_ping
                            .is_some_and(|at| at > self.replayed_check(check).changed);
                        story
                            .deadline()
                            .filter(|deadline| !has_reported && *deadline <= now + RECHECK_INTERVAL)
                    }
                });
        waited
            .max()
            .map(|at| (HoldCause::Parent, at.max(now) + SECOND))
    }

    /// Whether people know of a check, or of one above it, that it is down.
    pub(in crate::simulation::alerts) fn is_downtime_known(&self, check: u64) -> bool {
        match self.announcements.get(&check) {
            Some(AnnouncementState::Announced { heard: true }) => self
                .audience(check, AlertEvent::Down)
                .into_iter()
                .any(|channel| !self.is_disabled(channel)),
            Some(AnnouncementState::Held {
                why: HoldCause::HiddenBehind(parent),
                ..
            }) => self.is_downtime_known(*parent),
            _ => false,
        }
    }

    /// What hides behind a check that hides nothing any more gets its grace to report.
    pub(super) fn release_children(&mut self, parent: u64, now: i64) {
        if self.is_downtime_known(parent) {
            return;
        }
        let is_behind = |told: &AnnouncementState| matches!(told, AnnouncementState::Held { why: HoldCause::HiddenBehind(of), .. } if *of == parent);
        let hidden: Vec<_> = self
            .announcements
            .iter()
            .filter(|(_, told)| is_behind(told))
            .map(|(check, _)| *check)
            .collect();
        for check in hidden {
            self.count(AlertCase::Released);
            let until = now + self.replayed_check(check).rules().grace * SECOND;
            self.announcements.insert(
                check,
                AnnouncementState::Held {
                    why: HoldCause::Parent,
                    until,
                },
            );
            self.release_children(check, now);
        }
    }

    /// The end of the latest time without pings in which the one may have been lost that was
    /// missing at that deadline.
    pub(super) fn outage(&self, check: u64, deadline: i64, now: i64) -> Option<i64> {
        let expected = deadline - self.replayed_check(check).rules().grace * SECOND;
        let past = self
            .outages
            .iter()
            .rev()
            .filter(|(from, _)| *from <= now)
            .map(|(from, to)| (*from, now.min(*to)));
        past.filter(|(from, to)| expected <= *to && deadline >= *from)
            .map(|(_, to)| to)
            .next()
    }

    /// Until when a check whose ping may have been lost has the chance to report; `None`: that has
    /// been over for long.
    pub(super) fn lost_ping_deadline(&self, check: u64, outage: i64, now: i64) -> Option<i64> {
        let story = self.replayed_check(check);
        let end = outage + LOST_PING_GRACE;
        let expected = match story.rules().period {
            ModelPeriod::Seconds(period) => Some(outage + period * SECOND),
            _ => self.next_expected(check, outage),
        };
        let next = expected
            .filter(|_| self.last_sign(check) <= outage)
            .map(|at| at + story.rules().grace * SECOND);
        (now < end).then(|| {
            next.filter(|at| *at < end)
                .unwrap_or(outage + SHORT_PARENT_WAIT)
        })
    }
}
