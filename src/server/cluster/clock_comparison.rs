//! Comparison of the clock of this machine with the clocks of the others, from their
//! announcements.

use std::collections::BTreeMap;
use std::time::Duration;

use super::follower::ANNOUNCE_INTERVAL;
use super::log::NodeRow;

/// Maximum difference between the clock of a leader and the clocks of the other machines.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// Clocks of the other machines. An announcement shows a clock only when it is new: the machine may
/// be gone later.
#[derive(Default)]
pub(super) struct ClockComparison {
    /// Last announced clock of each machine, and its age when it was first seen; `None` if it was
    /// there before. In microseconds.
    clocks: BTreeMap<String, (i64, Option<i64>)>,
}

impl ClockComparison {
    /// Records announcements that were read at this time. The previous ones were read an interval
    /// ago.
    pub(super) fn record(&mut self, nodes: &[(String, NodeRow)], now: i64) {
        let clocks = nodes.iter().map(|(name, node)| {
            let age = match self.clocks.get(name) {
                Some((clock, age)) if *clock == node.clock => *age,
                Some(_) => Some(now.saturating_sub(node.clock)),
                None => None,
            };
            (name.clone(), (node.clock, age))
        });
        self.clocks = clocks.collect();
    }

    /// Returns a machine whose clock differs too much, and the difference in seconds. `excluded`:
    /// names of machines that do not count.
    pub(super) fn far_machine(&self, excluded: [&str; 2]) -> Option<(&str, i64)> {
        let limit = i64::try_from(MAX_CLOCK_DIFFERENCE.as_micros()).ok()?;
        // An announcement may be as old as the pause between two reads.
        let oldest = i64::try_from(ANNOUNCE_INTERVAL.as_micros()).ok()? + limit;
        let clocks = self.clocks.iter();
        clocks
            .filter(|(name, _)| !excluded.contains(&name.as_str()))
            .filter_map(|(name, (_, age))| Some((name.as_str(), (*age)?)))
            .find(|(_, age)| !(-limit..=oldest).contains(age))
            .map(|(name, age)| (name, age / 1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(clocks: [i64; 2]) -> Vec<(String, NodeRow)> {
        let node = |secs: i64| NodeRow {
            clock: secs * 1_000_000,
            ..NodeRow::default()
        };
        let [one, two] = clocks.map(node);
        vec![("one".into(), one), ("two".into(), two)]
    }

    #[test]
    fn only_new_announcements_show_a_clock() {
        let mut comparison = ClockComparison::default();
        let mut read = |clocks, now: i64| {
            comparison.record(&nodes(clocks), now * 1_000_000);
            let far = comparison.far_machine(["self", ""]);
            far.map(|(name, difference)| (name.to_owned(), difference))
        };
        // Announcements of machines that ended long ago.
        assert_eq!(read([10, 20], 100), None);
        assert_eq!(read([10, 101], 102), None);
        assert_eq!(read([10, 101], 120), None, "it has ended");
        assert_eq!(read([113, 101], 120), None);
        assert_eq!(read([114, 101], 122), Some(("one".into(), 8)));
        assert_eq!(read([114, 101], 140), Some(("one".into(), 8)));
        assert_eq!(read([140, 101], 140), None);
        assert_eq!(read([140, 150], 144), Some(("two".into(), -6)));
        assert_eq!(comparison.far_machine(["self", "two"]), None);
    }
}
