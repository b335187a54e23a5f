//! What holds an alert back: failures that are too few, windows, parents, and pings that may have been lost.

use super::*;

impl Alerts {
    pub(super) fn hold(&mut self, check: u64, why: Why, until: i64) {
        if !matches!(self.told.get(&check), Some(Told::NotYet { why: old, .. }) if *old == why) {
            self.count(Case::Held(why.reason()));
        }
        self.told.insert(check, Told::NotYet { why, until });
    }

    /// An alert that is held back is decided on again when that is due, or when its reason is gone.
    pub(super) fn reconsider(&mut self, check: u64, changes_settings: bool, now: i64) {
        let Some(Told::NotYet { why, until }) = self.told.get(&check).copied() else { return };
        let is_due = until <= now;
        let outage = if is_due { self.outage(check, until, now) } else { None };
        if is_due && why == Why::Failures && outage.is_none() && self.next_missing(check, self.last_sign(check)).is_none_or(|at| at <= now)
        {
            *self.missed.entry(check).or_default() += 1;
        }
        let own = &self.model.checks[&check];
        let has_reported = self.story(check).outcomes.last() == Some(&RunOutcome::Fail);
        let is_free = match why {
            Why::Away | Why::Parent | Why::Behind(_) if has_reported => true,
            Why::Away => false,
            Why::Failures => self.failures(check) >= usize::from(own.after.get()),
            Why::Window => changes_settings && self.window(check, now).is_none(),
            Why::Parent => own.parents.is_empty(),
            Why::Behind(parent) => !own.parents.contains(&parent),
        };
        if why == Why::Away
            && !is_free
            && let Some(again) = outage.and_then(|end| self.chance(check, end, now)).filter(|at| *at > until)
        {
            self.hold(check, why, again);
        } else if is_due || is_free {
            self.decide(check, Some(why), now);
        }
    }

    /// Holds an alert back, or has it told.
    pub(super) fn decide(&mut self, check: u64, before: Option<Why>, now: i64) {
        let own = &self.model.checks[&check];
        let missing = self.next_missing(check, now);
        if self.failures(check) < usize::from(own.after.get())
            && let Some(at) = missing
        {
            self.hold(check, Why::Failures, at);
        } else if let Some(until) = self.window(check, now) {
            self.hold(check, Why::Window, until.min(now + LOOK));
        } else if let Some((why, until)) = self.parents(check, before, now) {
            self.hold(check, why, until);
        } else {
            self.tell(check, before);
        }
    }

    /// Failures since the last success, pings that are missing included.
    fn failures(&self, check: u64) -> usize {
        let outcomes = &self.story(check).outcomes;
        let failed = outcomes.iter().rev().take_while(|outcome| **outcome != RunOutcome::Success).count();
        failed + self.missed.get(&check).copied().unwrap_or_default()
    }

    fn last_sign(&self, check: u64) -> i64 {
        let story = self.story(check);
        story.last_ping.unwrap_or(story.changed)
    }

    /// When the next ping is expected after a moment, for a check that has sent none since its last one.
    fn expected(&self, check: u64, after: i64) -> Option<i64> {
        let last = self.last_sign(check);
        match self.story(check).rules().period {
            Period::Seconds(period) => (1..).map(|count| last + count * period * SECOND).find(|at| *at > after),
            Period::EveryFiveMinutes => Some((after.max(last) / (300 * SECOND) + 1) * 300 * SECOND),
            Period::AtThree | Period::Over => None,
        }
    }

    /// When one more ping will be missing, grace included.
    pub(super) fn next_missing(&self, check: u64, now: i64) -> Option<i64> {
        let grace = self.story(check).rules().grace * SECOND;
        self.expected(check, now - grace).map(|at| at + grace)
    }

    /// When the last window closes that is open for a check.
    fn window(&self, check: u64, now: i64) -> Option<i64> {
        let own = &self.model.checks[&check];
        let has = |tag: &str| own.labels.tags.split(' ').any(|other| other == tag);
        let windows = self.model.windows.values().filter(|window| window.tags.iter().all(&has));
        windows.filter_map(|window| window.closes(now)).max()
    }

    /// Behind which parent a check hides, or how long its parents are waited for. One that reports a failure does not hide.
    fn parents(&self, check: u64, before: Option<Why>, now: i64) -> Option<(Why, i64)> {
        let own = &self.model.checks[&check];
        if self.story(check).outcomes.last() != Some(&RunOutcome::Missed) {
            return None;
        }
        let parents: Vec<_> = own.parents.iter().copied().filter(|parent| self.model.checks.contains_key(parent)).collect();
        if let Some(parent) = parents.iter().find(|parent| self.hides(**parent)) {
            return Some((Why::Behind(*parent), now + LOOK));
        }
        if matches!(before, Some(Why::Parent | Why::Behind(_))) {
            return None;
        }
        let waited = parents.into_iter().filter_map(|parent| match self.told.get(&parent) {
            Some(Told::NotYet { until, .. }) => Some((*until).min(now + LOOK)),
            Some(Told::Yes { .. }) => None,
            None => {
                let story = self.story(parent);
                let has_reported = story.last_ping.is_some_and(|at| at > self.story(check).changed);
                story.deadline().filter(|deadline| !has_reported && *deadline <= now + LOOK)
            }
        });
        waited.max().map(|at| (Why::Parent, at.max(now) + SECOND))
    }

    /// Whether people know of a check, or of one above it, that it is down.
    pub(super) fn hides(&self, check: u64) -> bool {
        match self.told.get(&check) {
            Some(Told::Yes { heard: true }) => self.audience(check, Event::Down).into_iter().any(|channel| !self.is_disabled(channel)),
            Some(Told::NotYet { why: Why::Behind(parent), .. }) => self.hides(*parent),
            _ => false,
        }
    }

    /// What hides behind a check that hides nothing any more gets its grace to report.
    pub(super) fn release(&mut self, parent: u64, now: i64) {
        if self.hides(parent) {
            return;
        }
        let is_behind = |told: &Told| matches!(told, Told::NotYet { why: Why::Behind(of), .. } if *of == parent);
        let hidden: Vec<_> = self.told.iter().filter(|(_, told)| is_behind(told)).map(|(check, _)| *check).collect();
        for check in hidden {
            self.count(Case::Released);
            let until = now + self.story(check).rules().grace * SECOND;
            self.told.insert(check, Told::NotYet { why: Why::Parent, until });
            self.release(check, now);
        }
    }

    /// The end of the latest time without pings in which the one may have been lost that was missing at that deadline.
    pub(super) fn outage(&self, check: u64, deadline: i64, now: i64) -> Option<i64> {
        let expected = deadline - self.story(check).rules().grace * SECOND;
        let past = self.outages.iter().rev().filter(|(from, _)| *from <= now).map(|(from, to)| (*from, now.min(*to)));
        past.filter(|(from, to)| expected <= *to && deadline >= *from).map(|(_, to)| to).next()
    }

    /// Until when a check whose ping may have been lost has the chance to report; `None`: that has been over for long.
    pub(super) fn chance(&self, check: u64, outage: i64, now: i64) -> Option<i64> {
        let story = self.story(check);
        let end = outage + CHANCE;
        let expected = match story.rules().period {
            Period::Seconds(period) => Some(outage + period * SECOND),
            _ => self.expected(check, outage),
        };
        let next = expected.filter(|_| self.last_sign(check) <= outage).map(|at| at + story.rules().grace * SECOND);
        (now < end).then(|| next.filter(|at| *at < end).unwrap_or(outage + AT_ONCE))
    }
}
