//! When pings could be taken: every longer time in which they could not is kept, so that nobody is woken for pings that were lost in it.

use std::time::Duration;

use crate::clock::Reading;
use crate::domain::alert::Away;
use crate::domain::moment::{MICROS, Moment};

/// How often the file is told that pings are taken, while others write; and by itself.
const OFTEN: Duration = Duration::from_secs(10);
const AT_LEAST: Duration = Duration::from_secs(600);

/// See the module. Pure: it is told what happens and when.
#[derive(Debug)]
pub(super) struct Presence {
    /// No pings have been taken since then.
    since: Option<Moment>,
    /// A time without pings that is still to be kept.
    pending: Option<Away>,
    /// The uptime of the start, and the one at which the file was last told.
    started: Duration,
    told: Option<Duration>,
    /// Whether such times count at all.
    counts: bool,
    /// Whether pings are taken at all.
    takes_pings: bool,
}

impl Presence {
    /// A start at this reading of the clock, with a file in which something happened last at `last`. `counts`: whether times without pings
    /// are kept.
    pub(super) fn new(last: Option<Moment>, Reading { now, uptime }: Reading, counts: bool) -> Self {
        let mut presence = Self { since: last, pending: None, started: uptime, told: None, counts, takes_pings: true };
        presence.back(now);
        presence
    }

    /// This process takes no pings: nothing is kept, and the file is told nothing. The time without pings up to its start.
    pub(super) fn leave(&mut self) -> Option<Away> {
        (self.counts, self.takes_pings) = (false, false);
        self.pending.take()
    }

    /// Whether pings are taken at all.
    pub(super) fn takes_pings(&self) -> bool {
        self.takes_pings
    }

    /// Pings cannot be taken, at least since `now`.
    pub(super) fn lost(&mut self, now: Moment) {
        self.since.get_or_insert(now);
    }

    /// They can.
    pub(super) fn back(&mut self, now: Moment) {
        if let Some(since) = self.since.take() {
            self.passed(since, now);
        }
    }

    /// They could not be taken between two moments.
    pub(super) fn passed(&mut self, from: Moment, to: Moment) {
        if self.counts && to.micros_since(from) >= Away::LEAST_SECS * MICROS {
            let away = Away { from, to };
            self.pending = Some(self.pending.map_or(away, |pending| Away { from: pending.from.min(from), to: pending.to.max(to) }));
        }
    }

    /// The clock has gone so many microseconds further than the time that passed, to `now`.
    pub(super) fn stepped(&mut self, step: i64, now: Moment) {
        if step > 0 {
            return self.passed(now.plus_micros(-step), now);
        }
        // What lies ahead now was noted by the clock that stood ahead.
        self.since = self.since.map(|since| if since > now { since.plus_micros(step).min(now) } else { since });
        self.pending = self.pending.and_then(|away| away.until(now));
        // So may what the file was told.
        self.told = None;
    }

    /// A time without pings that is to be kept now.
    pub(super) fn pending(&self) -> Option<Away> {
        self.pending
    }

    /// It is kept.
    pub(super) fn kept(&mut self) {
        self.pending = None;
    }

    /// Whether the file is to be told at this uptime that pings are taken: when something is written anyway, or because nothing has been
    /// for so long.
    pub(super) fn is_due(&self, uptime: Duration, written_anyway: bool) -> bool {
        match self.told {
            _ if !self.takes_pings => false,
            Some(told) if written_anyway => uptime >= told + OFTEN,
            None if written_anyway => true,
            told => uptime >= told.unwrap_or(self.started) + AT_LEAST,
        }
    }

    /// The file was told.
    pub(super) fn told(&mut self, uptime: Duration) {
        self.told = Some(uptime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Moment {
        Moment::from_secs(1_800_000_000 + secs)
    }

    fn start(last: Option<Moment>, counts: bool) -> Presence {
        Presence::new(last, Reading { now: at(0), uptime: Duration::from_secs(50) }, counts)
    }

    #[test]
    fn only_longer_times_are_kept_and_those_that_meet_are_one() {
        for (last, kept) in [(None, false), (Some(-29), false), (Some(-30), true), (Some(5), false), (Some(-86_400), true)] {
            let presence = start(last.map(at), true);
            let away = last.filter(|_| kept).map(|last| Away { from: at(last), to: at(0) });
            assert_eq!(presence.pending(), away, "{last:?}");
        }
        assert_eq!(start(Some(at(-100)), false).pending(), None);
        let mut presence = start(None, true);
        presence.lost(at(10));
        presence.lost(at(20));
        presence.back(at(45));
        presence.back(at(90));
        assert_eq!(presence.pending(), Some(Away { from: at(10), to: at(45) }));
        presence.passed(at(60), at(100));
        assert_eq!(presence.pending(), Some(Away { from: at(10), to: at(100) }));
        presence.kept();
        assert_eq!(presence.pending(), None);
    }

    #[test]
    fn an_outage_goes_on_when_the_clock_is_set_back_meanwhile() {
        let mut presence = start(None, true);
        presence.lost(at(3600));
        presence.stepped(-3600 * MICROS, at(20));
        presence.back(at(60));
        assert_eq!(presence.pending(), Some(Away { from: at(0), to: at(60) }));
        // What was noted and not kept yet is no longer ahead.
        presence.stepped(-40 * MICROS, at(20));
        assert_eq!(presence.pending(), Some(Away { from: at(0), to: at(20) }));
        presence.stepped(-40 * MICROS, at(-20));
        assert_eq!(presence.pending(), None);
    }

    #[test]
    fn the_file_is_told_every_ten_seconds_beside_others_and_every_ten_minutes_alone() {
        let mut presence = start(None, true);
        let secs = Duration::from_secs;
        for (uptime, alone) in [(50, false), (649, false), (650, true)] {
            assert_eq!((presence.is_due(secs(uptime), true), presence.is_due(secs(uptime), false)), (true, alone), "{uptime}");
        }
        presence.told(secs(100));
        for (uptime, beside, alone) in [(109, false, false), (110, true, false), (699, true, false), (700, true, true)] {
            assert_eq!((presence.is_due(secs(uptime), true), presence.is_due(secs(uptime), false)), (beside, alone), "{uptime}");
        }
    }
}
