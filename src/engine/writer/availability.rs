//! When pings could be taken: every longer time in which they could not is kept, so that nobody is woken for pings that were lost in it.

use std::time::Duration;

use crate::clock::ClockReading;
use crate::domain::alert::Outage;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// How often the file is told that pings are taken, while others write; and by itself.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const MAX_ALIVE_INTERVAL: Duration = Duration::from_secs(600);

/// See the module. Pure: it is told what happens and when.
#[derive(Debug)]
pub(super) struct PingAvailability {
    /// No pings have been taken since then.
    unavailable_since: Option<Timestamp>,
    /// A time without pings that is still to be kept.
    pending_outage: Option<Outage>,
    /// The uptime of the start, and the one at which the file was last told.
    started: Duration,
    stored_at: Option<Duration>,
    /// Whether such times count at all.
    records_outages: bool,
    /// Whether pings are taken at all.
    accepts_pings: bool,
}

impl PingAvailability {
    /// A start at this reading of the clock, with a file in which something happened last at `last`. `records_outages`: whether times without pings
    /// are kept.
    pub(super) fn new(last: Option<Timestamp>, ClockReading { now, uptime }: ClockReading, counts: bool) -> Self {
        let mut presence = Self {
            unavailable_since: last,
            pending_outage: None,
            started: uptime,
            stored_at: None,
            records_outages: counts,
            accepts_pings: true,
        };
        presence.end_outage(now);
        presence
    }

    /// This process takes no pings: nothing is kept, and the file is told nothing. The time without pings up to its start.
    pub(super) fn stop_recording(&mut self) -> Option<Outage> {
        (self.records_outages, self.accepts_pings) = (false, false);
        self.pending_outage.take()
    }

    /// Whether pings are taken at all.
    pub(super) fn accepts_pings(&self) -> bool {
        self.accepts_pings
    }

    /// Pings cannot be taken, at least since `now`.
    pub(super) fn begin_outage(&mut self, now: Timestamp) {
        self.unavailable_since.get_or_insert(now);
    }

    /// They can.
    pub(super) fn end_outage(&mut self, now: Timestamp) {
        if let Some(since) = self.unavailable_since.take() {
            self.add_outage(since, now);
        }
    }

    /// They could not be taken between two moments.
    pub(super) fn add_outage(&mut self, from: Timestamp, to: Timestamp) {
        if self.records_outages && to.micros_since(from) >= Outage::MIN_SECS * MICROS_PER_SEC {
            let away = Outage { from, to };
            self.pending_outage =
                Some(self.pending_outage.map_or(away, |pending| Outage { from: pending.from.min(from), to: pending.to.max(to) }));
        }
    }

    /// The clock has gone so many microseconds further than the time that passed, to `now`.
    pub(super) fn adjust_to_clock_jump(&mut self, step: i64, now: Timestamp) {
        if step > 0 {
            return self.add_outage(now.plus_micros(-step), now);
        }
        // What lies ahead now was noted by the clock that stood ahead.
        self.unavailable_since = self.unavailable_since.map(|since| if since > now { since.plus_micros(step).min(now) } else { since });
        self.pending_outage = self.pending_outage.and_then(|away| away.clip_to(now));
        // So may what the file was told.
        self.stored_at = None;
    }

    /// A time without pings that is to be kept now.
    pub(super) fn pending_outage(&self) -> Option<Outage> {
        self.pending_outage
    }

    /// It is kept.
    pub(super) fn clear_pending(&mut self) {
        self.pending_outage = None;
    }

    /// Whether the file is to be told at this uptime that pings are taken: when something is written anyway, or because nothing has been
    /// for so long.
    pub(super) fn is_store_due(&self, uptime: Duration, written_anyway: bool) -> bool {
        match self.stored_at {
            _ if !self.accepts_pings => false,
            Some(told) if written_anyway => uptime >= told + ALIVE_INTERVAL,
            None if written_anyway => true,
            told => uptime >= told.unwrap_or(self.started) + MAX_ALIVE_INTERVAL,
        }
    }

    /// The file was told.
    pub(super) fn note_stored(&mut self, uptime: Duration) {
        self.stored_at = Some(uptime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    fn start(last: Option<Timestamp>, counts: bool) -> PingAvailability {
        PingAvailability::new(last, ClockReading { now: at(0), uptime: Duration::from_secs(50) }, counts)
    }

    #[test]
    fn only_longer_times_are_kept_and_those_that_meet_are_one() {
        for (last, kept) in [(None, false), (Some(-29), false), (Some(-30), true), (Some(5), false), (Some(-86_400), true)] {
            let presence = start(last.map(at), true);
            let away = last.filter(|_| kept).map(|last| Outage { from: at(last), to: at(0) });
            assert_eq!(presence.pending_outage(), away, "{last:?}");
        }
        assert_eq!(start(Some(at(-100)), false).pending_outage(), None);
        let mut presence = start(None, true);
        presence.begin_outage(at(10));
        presence.begin_outage(at(20));
        presence.end_outage(at(45));
        presence.end_outage(at(90));
        assert_eq!(presence.pending_outage(), Some(Outage { from: at(10), to: at(45) }));
        presence.add_outage(at(60), at(100));
        assert_eq!(presence.pending_outage(), Some(Outage { from: at(10), to: at(100) }));
        presence.clear_pending();
        assert_eq!(presence.pending_outage(), None);
    }

    #[test]
    fn an_outage_goes_on_when_the_clock_is_set_back_meanwhile() {
        let mut presence = start(None, true);
        presence.begin_outage(at(3600));
        presence.adjust_to_clock_jump(-3600 * MICROS_PER_SEC, at(20));
        presence.end_outage(at(60));
        assert_eq!(presence.pending_outage(), Some(Outage { from: at(0), to: at(60) }));
        // What was noted and not kept yet is no longer ahead.
        presence.adjust_to_clock_jump(-40 * MICROS_PER_SEC, at(20));
        assert_eq!(presence.pending_outage(), Some(Outage { from: at(0), to: at(20) }));
        presence.adjust_to_clock_jump(-40 * MICROS_PER_SEC, at(-20));
        assert_eq!(presence.pending_outage(), None);
    }

    #[test]
    fn the_file_is_told_every_ten_seconds_beside_others_and_every_ten_minutes_alone() {
        let mut presence = start(None, true);
        let secs = Duration::from_secs;
        for (uptime, alone) in [(50, false), (649, false), (650, true)] {
            assert_eq!((presence.is_store_due(secs(uptime), true), presence.is_store_due(secs(uptime), false)), (true, alone), "{uptime}");
        }
        presence.note_stored(secs(100));
        for (uptime, beside, alone) in [(109, false, false), (110, true, false), (699, true, false), (700, true, true)] {
            assert_eq!(
                (presence.is_store_due(secs(uptime), true), presence.is_store_due(secs(uptime), false)),
                (beside, alone),
                "{uptime}"
            );
        }
    }
}
