//! Availability for pings: records every longer outage of the server, so that no alerts are sent
//! for pings that were lost in it.

use std::time::Duration;

use crate::domain::alert::Outage;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::util::clock::ClockReading;

/// Interval at which the last available time is stored together with other data.
const INTERVAL_WITH_WRITES: Duration = Duration::from_secs(10);
/// Interval at which the last available time is stored if nothing else is written.
const INTERVAL_WITHOUT_WRITES: Duration = Duration::from_secs(600);

/// Availability for pings. Pure: the caller supplies events and times.
#[derive(Debug)]
pub(super) struct PingAvailability {
    /// Time since which no pings could be received.
    unavailable_since: Option<Timestamp>,
    /// Outage that is not stored yet.
    pending_outage: Option<Outage>,
    /// Uptime at the start, and at the last time at which availability was stored.
    started: Duration,
    stored_at: Option<Duration>,
    /// True if outages are recorded.
    records_outages: bool,
    /// True if this process accepts pings.
    accepts_pings: bool,
}

impl PingAvailability {
    /// Starts at this reading of the clock. `last` is the last time at which pings could be
    /// received, according to the file. `records_outages`: outages are recorded.
    pub(super) fn new(
        last: Option<Timestamp>,
        ClockReading { now, uptime }: ClockReading,
        records_outages: bool,
    ) -> Self {
        let mut availability = Self {
            unavailable_since: last,
            pending_outage: None,
            started: uptime,
            stored_at: None,
            records_outages,
            accepts_pings: true,
        };
        availability.end_outage(now);
        availability
    }

    /// Stops recording, for a process that accepts no pings. Returns the outage up to its start.
    pub(super) fn stop_recording(&mut self) -> Option<Outage> {
        (self.records_outages, self.accepts_pings) = (false, false);
        self.pending_outage.take()
    }

    /// True if this process accepts pings.
    pub(super) fn accepts_pings(&self) -> bool {
        self.accepts_pings
    }

    /// Records that pings cannot be received, at least since `now`.
    pub(super) fn begin_outage(&mut self, now: Timestamp) {
        self.unavailable_since.get_or_insert(now);
    }

    /// Records that pings can be received again.
    pub(super) fn end_outage(&mut self, now: Timestamp) {
        if let Some(since) = self.unavailable_since.take() {
            self.add_outage(since, now);
        }
    }

    /// Adds an outage between two times, if it is long enough.
    pub(super) fn add_outage(&mut self, from: Timestamp, to: Timestamp) {
        if self.records_outages && to.micros_since(from) >= Outage::MIN_SECS * MICROS_PER_SEC {
            let outage = Outage { from, to };
            self.pending_outage = Some(self.pending_outage.map_or(outage, |pending| Outage {
                from: pending.from.min(from),
                to: pending.to.max(to),
            }));
        }
    }

    /// Handles a clock jump by `jump` microseconds, to `now`.
    pub(super) fn adjust_to_clock_jump(&mut self, jump: i64, now: Timestamp) {
        if jump > 0 {
            return self.add_outage(now.plus_micros(-jump), now);
        }
        // Times that are now in the future come from the clock before the jump.
        self.unavailable_since = self.unavailable_since.map(|since| {
            if since > now {
                since.plus_micros(jump).min(now)
            } else {
                since
            }
        });
        self.pending_outage = self.pending_outage.and_then(|outage| outage.clip_to(now));
        // The stored time may be in the future, too.
        self.stored_at = None;
    }

    /// Outage to store now.
    pub(super) fn pending_outage(&self) -> Option<Outage> {
        self.pending_outage
    }

    /// Clears the outage, after it was stored.
    pub(super) fn clear_pending(&mut self) {
        self.pending_outage = None;
    }

    /// True if the last available time must be stored at this uptime: together with other data
    /// (`written_anyway`), or because nothing was stored for long.
    pub(super) fn is_store_due(&self, uptime: Duration, written_anyway: bool) -> bool {
        match self.stored_at {
            _ if !self.accepts_pings => false,
            Some(stored_at) if written_anyway => uptime >= stored_at + INTERVAL_WITH_WRITES,
            None if written_anyway => true,
            stored_at => uptime >= stored_at.unwrap_or(self.started) + INTERVAL_WITHOUT_WRITES,
        }
    }

    /// Records that the last available time was stored.
    pub(super) fn record_stored(&mut self, uptime: Duration) {
        self.stored_at = Some(uptime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + secs)
    }

    fn start(last: Option<Timestamp>, records_outages: bool) -> PingAvailability {
        PingAvailability::new(
            last,
            ClockReading {
                now: at(0),
                uptime: Duration::from_secs(50),
            },
            records_outages,
        )
    }

    #[test]
    fn short_outages_are_ignored_and_pending_ones_are_merged() {
        for (last, kept) in [
            (None, false),
            (Some(-29), false),
            (Some(-30), true),
            (Some(5), false),
            (Some(-86_400), true),
        ] {
            let availability = start(last.map(at), true);
            let outage = last.filter(|_| kept).map(|last| Outage {
                from: at(last),
                to: at(0),
            });
            assert_eq!(availability.pending_outage(), outage, "{last:?}");
        }
        assert_eq!(start(Some(at(-100)), false).pending_outage(), None);
        let mut availability = start(None, true);
        availability.begin_outage(at(10));
        availability.begin_outage(at(20));
        availability.end_outage(at(45));
        availability.end_outage(at(90));
        assert_eq!(
            availability.pending_outage(),
            Some(Outage {
                from: at(10),
                to: at(45)
            })
        );
        availability.add_outage(at(60), at(100));
        assert_eq!(
            availability.pending_outage(),
            Some(Outage {
                from: at(10),
                to: at(100)
            })
        );
        availability.clear_pending();
        assert_eq!(availability.pending_outage(), None);
    }

    #[test]
    fn an_outage_continues_when_the_clock_is_set_back() {
        let mut availability = start(None, true);
        availability.begin_outage(at(3600));
        availability.adjust_to_clock_jump(-3600 * MICROS_PER_SEC, at(20));
        availability.end_outage(at(60));
        assert_eq!(
            availability.pending_outage(),
            Some(Outage {
                from: at(0),
                to: at(60)
            })
        );
        // The outage not stored yet is no longer in the future.
        availability.adjust_to_clock_jump(-40 * MICROS_PER_SEC, at(20));
        assert_eq!(
            availability.pending_outage(),
            Some(Outage {
                from: at(0),
                to: at(20)
            })
        );
        availability.adjust_to_clock_jump(-40 * MICROS_PER_SEC, at(-20));
        assert_eq!(availability.pending_outage(), None);
    }

    #[test]
    fn availability_is_stored_every_ten_seconds_with_other_writes_and_every_ten_minutes_alone() {
        let mut availability = start(None, true);
        let secs = Duration::from_secs;
        for (uptime, alone) in [(50, false), (649, false), (650, true)] {
            assert_eq!(
                (
                    availability.is_store_due(secs(uptime), true),
                    availability.is_store_due(secs(uptime), false)
                ),
                (true, alone),
                "{uptime}"
            );
        }
        availability.record_stored(secs(100));
        for (uptime, with_writes, alone) in [
            (109, false, false),
            (110, true, false),
            (699, true, false),
            (700, true, true),
        ] {
            assert_eq!(
                (
                    availability.is_store_due(secs(uptime), true),
                    availability.is_store_due(secs(uptime), false)
                ),
                (with_writes, alone),
                "{uptime}"
            );
        }
    }
}
