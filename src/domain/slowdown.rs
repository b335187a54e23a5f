//! Slowdown of a job: its runs in a period against its earlier ones.

use super::ping::{Ping, run_durations};
use super::timestamp::{MICROS_PER_SEC, Timestamp};

/// Minimum number of runs on each side of a comparison.
const MIN_RUNS: usize = 3;
/// Minimum difference of the medians, in microseconds. Shorter ones are noise.
const MIN_DIFFERENCE: i64 = 10 * MICROS_PER_SEC;

/// Medians of the durations of runs, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slowdown {
    /// Median of the earlier runs.
    pub before: i64,
    /// Median of the later runs.
    pub after: i64,
}

/// Compares the runs that ended from `start` to `end` with the earlier ones among `newest_first`.
/// If fewer than three earlier runs are given, compares the two halves of the period instead.
/// `None` unless the later runs usually took at least half as long again, and ten seconds longer.
pub fn detect_slowdown(
    newest_first: &[Ping],
    start: Timestamp,
    end: Timestamp,
) -> Option<Slowdown> {
    // Oldest first.
    let runs: Vec<(Timestamp, i64)> = newest_first
        .iter()
        .zip(run_durations(newest_first))
        .rev()
        .filter(|(ping, _)| ping.at < end)
        .filter_map(|(ping, duration)| Some((ping.at, duration?)))
        .collect();
    let earlier_count = runs.iter().take_while(|(at, _)| *at < start).count();
    let middle = if earlier_count >= MIN_RUNS {
        earlier_count
    } else {
        earlier_count + (runs.len() - earlier_count) / 2
    };
    let durations = |runs: &[(Timestamp, i64)]| runs.iter().map(|(_, took)| *took).collect();
    let compared = runs.split_at_checked(middle)?;
    let slowdown = Slowdown {
        before: median(durations(compared.0))?,
        after: median(durations(compared.1))?,
    };
    let difference = slowdown.after - slowdown.before;
    (difference >= MIN_DIFFERENCE && difference >= slowdown.before / 2).then_some(slowdown)
}

/// Median of at least three numbers; the greater of the two middle ones if their count is even.
fn median(mut numbers: Vec<i64>) -> Option<i64> {
    numbers.sort_unstable();
    let is_enough = numbers.len() >= MIN_RUNS;
    numbers
        .get(numbers.len() / 2)
        .copied()
        .filter(|_| is_enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Arrival, CheckId};
    use crate::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme};

    /// Runs that each end an hour after the one before, with these durations in seconds.
    fn runs(seconds: &[i64]) -> Vec<Ping> {
        let ping = |kind, at| Ping {
            check: CheckId(1),
            n: 1,
            previous: Arrival(0),
            at: Timestamp::from_secs(at),
            kind,
            origin: PingOrigin {
                scheme: PingScheme::Http,
                method: PingMethod::Get,
                remote_addr: None,
                user_agent: "".into(),
            },
            rid: None,
            exit_status: None,
            body_len: 0,
            body_sharers: 0,
        };
        let mut pings: Vec<_> = (1..)
            .zip(seconds)
            .flat_map(|(hour, took)| {
                [
                    ping(PingKind::Start, hour * 3600 - took),
                    ping(PingKind::Success, hour * 3600),
                ]
            })
            .collect();
        pings.reverse();
        pings
    }

    #[test]
    fn later_runs_are_compared_with_earlier_ones() {
        // The period begins with the fourth run and ends before the eighth.
        let start = Timestamp::from_secs(4 * 3600);
        let end = Timestamp::from_secs(8 * 3600);
        for (seconds, expected) in [
            (&[60, 60, 60, 90, 90, 90][..], Some((60, 90))),
            (&[60, 60, 60, 89, 89, 89], None),
            (&[60, 60, 60, 90, 60, 90, 60], Some((60, 90))),
            // One slow run is no slowdown.
            (&[60, 60, 60, 60, 900, 60], None),
            // Less than ten seconds.
            (&[5, 5, 5, 14, 14, 14], None),
            (&[5, 5, 5, 15, 15, 15], Some((5, 15))),
            // Too few runs.
            (&[60, 60, 60, 90, 90], None),
            // Runs after the period do not count.
            (&[60, 60, 60, 60, 60, 60, 60, 900, 900, 900, 900], None),
        ] {
            let expected = expected.map(|(before, after)| Slowdown {
                before: before * MICROS_PER_SEC,
                after: after * MICROS_PER_SEC,
            });
            assert_eq!(
                detect_slowdown(&runs(seconds), start, end),
                expected,
                "{seconds:?}"
            );
        }
    }

    #[test]
    fn without_earlier_runs_the_halves_of_the_period_are_compared() {
        let [start, end] = [0, 100 * 3600].map(Timestamp::from_secs);
        for (seconds, is_slower) in [
            (&[60, 60, 60, 120, 120, 120][..], true),
            (&[60, 60, 60, 60, 120, 120, 120], true),
            (&[60, 60, 120, 120, 120], false),
            (&[120, 120, 120, 60, 60, 60], false),
            (&[], false),
        ] {
            let found = detect_slowdown(&runs(seconds), start, end);
            assert_eq!(found.is_some(), is_slower, "{seconds:?}");
        }
    }
}
