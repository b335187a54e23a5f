//! Builds the entries of a log from pings and flips: single pings, or whole runs.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::domain::flip::Flip;
use crate::domain::ping::{Ping, PingKind, run_durations};
use crate::domain::timestamp::Timestamp;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum LogEntry<'a> {
    /// A ping, and the duration of the run that it ended in microseconds.
    Ping(&'a Ping, Option<i64>),
    /// A change of status.
    Flip(Flip),
    /// All pings of a run.
    Run(LoggedRun<'a>),
}

/// Pings of a run from its start to its end, if it has ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LoggedRun<'a> {
    /// Ping that started the run.
    pub(crate) start: &'a Ping,
    /// Success or failure that ended the run. `None` if the run did not end or still goes on.
    pub(crate) end: Option<&'a Ping>,
    /// Duration in microseconds.
    pub(crate) took: Option<i64>,
    /// Number of log pings in between.
    pub(crate) notes: usize,
}

impl LogEntry<'_> {
    /// Time of the entry. For a run it is its end, or its start if it did not end.
    pub(crate) fn time(&self) -> Timestamp {
        match self {
            Self::Ping(ping, _) => ping.at,
            Self::Flip(flip) => flip.at,
            Self::Run(run) => run.end.unwrap_or(run.start).at,
        }
    }

    /// Number of the newest ping of the entry.
    pub(crate) fn newest_ping(&self) -> Option<u64> {
        match self {
            Self::Ping(ping, _) => Some(ping.n),
            Self::Flip(_) => None,
            Self::Run(run) => Some(run.end.unwrap_or(run.start).n),
        }
    }

    /// Kind of the entry, as named by the filter.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Ping(ping, _) => ping.kind.name(),
            Self::Flip(_) => FLIP_KIND,
            Self::Run(run) => run.end.map_or(PingKind::Start, |end| end.kind).name(),
        }
    }
}

/// Name of flips among the kinds of entries.
pub(crate) const FLIP_KIND: &str = "flip";

/// Pings, newest first, each with the duration of the run that it ended.
pub(crate) fn ping_entries(newest_first: &[Ping]) -> Vec<LogEntry<'_>> {
    newest_first
        .iter()
        .zip(run_durations(newest_first))
        .map(|(ping, took)| LogEntry::Ping(ping, took))
        .collect()
}

/// Like `ping_entries`, with the pings of each run as one entry.
pub(crate) fn run_entries<'a>(newest_first: &'a [Ping]) -> Vec<LogEntry<'a>> {
    let took = run_durations(newest_first);
    // Runs that have not ended yet.
    let mut open = HashMap::<Option<Uuid>, LoggedRun<'a>>::new();
    // Runs that have ended or never will.
    let mut finished_runs = Vec::new();
    // Numbers of the pings of all runs.
    let mut run_ping_numbers = HashSet::new();
    for (ping, took) in newest_first.iter().zip(took).rev() {
        match ping.kind {
            PingKind::Start => {
                run_ping_numbers.insert(ping.n);
                let run = LoggedRun {
                    start: ping,
                    end: None,
                    took: None,
                    notes: 0,
                };
                finished_runs.extend(open.insert(ping.rid, run));
            }
            PingKind::Log => {
                if let Some(run) = open.get_mut(&ping.rid) {
                    run_ping_numbers.insert(ping.n);
                    run.notes += 1;
                }
            }
            PingKind::Success | PingKind::Fail => {
                if let Some(run) = open.remove(&ping.rid) {
                    run_ping_numbers.insert(ping.n);
                    finished_runs.push(LoggedRun {
                        end: Some(ping),
                        took,
                        ..run
                    });
                }
            }
            PingKind::Ignored => {}
        }
    }
    finished_runs.extend(open.into_values());
    let runs: HashMap<u64, LoggedRun<'a>> = finished_runs
        .into_iter()
        .map(|run| (run.end.unwrap_or(run.start).n, run))
        .collect();
    let entry = |ping: &'a Ping| match runs.get(&ping.n) {
        Some(run) => Some(LogEntry::Run(*run)),
        None if run_ping_numbers.contains(&ping.n) => None,
        None => Some(LogEntry::Ping(ping, None)),
    };
    newest_first.iter().filter_map(entry).collect()
}

/// Merges entries of pings with flips, all newest first. Flips older than the oldest ping are left
/// out unless `all` pings are present.
pub(crate) fn merge_flips<'a>(
    entries: Vec<LogEntry<'a>>,
    flips: &[Flip],
    all: bool,
) -> Vec<LogEntry<'a>> {
    let oldest = entries.iter().map(LogEntry::time).min().filter(|_| !all);
    let mut flips = flips
        .iter()
        .filter(|flip| oldest.is_none_or(|oldest| flip.at >= oldest))
        .peekable();
    let mut merged = Vec::with_capacity(entries.len() + flips.size_hint().0);
    for entry in entries {
        // A flip caused by a ping is shown above it.
        while let Some(flip) = flips.next_if(|flip| flip.at >= entry.time()) {
            merged.push(LogEntry::Flip(*flip));
        }
        merged.push(entry);
    }
    merged.extend(flips.map(|flip| LogEntry::Flip(*flip)));
    merged
}

#[derive(Debug)]
pub(crate) struct LogSlice<'a> {
    /// Entries of the slice, newest first.
    pub(crate) entries: Vec<LogEntry<'a>>,
    /// Number of the ping below which the next slice begins. `None` for the last slice.
    pub(crate) older: Option<u64>,
}

/// Returns the first `most` entries of pings below ping number `before`, with the flips between
/// them. Only `kinds` are included; an empty list includes all.
pub(crate) fn slice_log<'a>(
    entries: Vec<LogEntry<'a>>,
    kinds: &[&str],
    before: Option<u64>,
    most: usize,
) -> LogSlice<'a> {
    let is_shown = |entry: &LogEntry<'_>| kinds.is_empty() || kinds.contains(&entry.kind());
    // Skips the entries up to the end of the previous slice.
    let is_newer = |entry: &LogEntry<'_>| {
        before.is_some_and(|before| entry.newest_ping().is_none_or(|n| n >= before))
    };
    let mut rest = entries
        .into_iter()
        .skip_while(is_newer)
        .filter(is_shown)
        .peekable();
    let mut entries = Vec::new();
    let mut pings = 0;
    let mut last = None;
    while let Some(entry) = rest.next_if(|entry| pings < most || entry.newest_ping().is_none()) {
        if let Some(n) = entry.newest_ping() {
            (pings, last) = (pings + 1, Some(n));
        }
        entries.push(entry);
    }
    let older = rest.peek().and(last);
    LogSlice { entries, older }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::flip::FlipCause;
    use crate::domain::ids::{Arrival, CheckId};
    use crate::domain::ping::{PingMethod, PingOrigin, PingScheme};
    use crate::domain::status::Status;
    use crate::domain::timestamp::MICROS_PER_SEC;
    use proptest::prelude::*;

    /// Pings, newest first, from kinds, run ids and seconds given oldest first.
    fn log(pings: &[(PingKind, u128, i64)]) -> Vec<Ping> {
        let ping = |(n, (kind, rid, at)): (u64, &(PingKind, u128, i64))| Ping {
            check: CheckId(1),
            n,
            previous: Arrival(0),
            at: Timestamp::from_secs(*at),
            kind: *kind,
            origin: PingOrigin {
                scheme: PingScheme::Http,
                method: PingMethod::Get,
                remote_addr: None,
                user_agent: "".into(),
            },
            rid: (*rid > 0).then(|| Uuid::from_u128(*rid)),
            exit_status: None,
            body_len: 0,
            body_sharers: 0,
        };
        let mut log: Vec<_> = (1..).zip(pings).map(ping).collect();
        log.reverse();
        log
    }

    fn flip(at: i64) -> Flip {
        Flip {
            at: Timestamp::from_secs(at),
            from: Status::Up,
            to: Status::Down,
            cause: FlipCause::MissedPing,
            awaited_since: None,
        }
    }

    /// Short form of an entry.
    fn short(entry: &LogEntry<'_>) -> String {
        match entry {
            LogEntry::Ping(ping, _) => format!("{}", ping.n),
            LogEntry::Flip(flip) => format!("flip@{}", flip.at.secs()),
            LogEntry::Run(run) => {
                let end = run.end.map_or_else(|| "…".into(), |end| end.n.to_string());
                let took = run
                    .took
                    .map_or_else(String::new, |took| format!(" {}s", took / MICROS_PER_SEC));
                format!("{}-{end}{took} {}", run.start.n, run.notes)
            }
        }
    }

    #[test]
    fn pings_of_a_run_are_one_entry() {
        use PingKind::{Fail, Ignored, Log, Start, Success};
        for (pings, wanted) in [
            (
                &[(Start, 0, 0), (Log, 0, 1), (Log, 0, 2), (Success, 0, 9)][..],
                &["1-4 9s 2"][..],
            ),
            (
                &[(Start, 1, 0), (Start, 2, 1), (Fail, 1, 5), (Success, 2, 6)],
                &["2-4 5s 0", "1-3 5s 0"],
            ),
            (
                &[(Start, 0, 0), (Start, 0, 5), (Success, 0, 9)],
                &["2-3 4s 0", "1-… 0"],
            ),
            (
                &[(Success, 0, 0), (Log, 0, 1), (Ignored, 0, 2), (Start, 0, 3)],
                &["4-… 0", "3", "2", "1"],
            ),
            (
                &[(Start, 1, 0), (Log, 2, 1), (Success, 0, 2)],
                &["3", "2", "1-… 0"],
            ),
            (&[], &[]),
        ] {
            let log = log(pings);
            assert_eq!(
                run_entries(&log).iter().map(short).collect::<Vec<_>>(),
                wanted,
                "{pings:?}"
            );
        }
    }

    #[test]
    fn flips_are_between_pings_and_slices_follow_each_other() {
        let log = log(&[10, 20, 30, 40].map(|at| (PingKind::Success, 0, at)));
        let flips = [flip(45), flip(40), flip(25), flip(24), flip(5)];
        let all = |all| merge_flips(ping_entries(&log), &flips, all);
        let shorts =
            |entries: &[LogEntry<'_>]| entries.iter().map(short).collect::<Vec<_>>().join(" ");
        assert_eq!(
            shorts(&all(false)),
            "flip@45 flip@40 4 3 flip@25 flip@24 2 1"
        );
        assert_eq!(
            shorts(&all(true)),
            "flip@45 flip@40 4 3 flip@25 flip@24 2 1 flip@5"
        );
        let first = slice_log(all(true), &[], None, 2);
        assert_eq!(
            (shorts(&first.entries), first.older),
            ("flip@45 flip@40 4 3 flip@25 flip@24".into(), Some(3))
        );
        let second = slice_log(all(true), &[], Some(3), 2);
        assert_eq!(
            (shorts(&second.entries), second.older),
            ("2 1 flip@5".into(), None)
        );
        assert_eq!(
            shorts(&slice_log(all(true), &["flip"], None, 2).entries),
            "flip@45 flip@40 flip@25 flip@24 flip@5"
        );
        assert_eq!(
            shorts(&slice_log(all(true), &["success"], None, 9).entries),
            "4 3 2 1"
        );
    }

    proptest! {
        /// Slices contain every ping once, in order.
        #[test]
        fn slices_contain_every_ping(
            kinds in prop::collection::vec((0_usize..5, 0_u128..3), 0..60),
            most in 1_usize..20,
            grouped in any::<bool>(),
        ) {
            let all = [
                PingKind::Success,
                PingKind::Start,
                PingKind::Fail,
                PingKind::Log,
                PingKind::Ignored,
            ];
            let pings: Vec<_> = (0..)
                .zip(&kinds)
                .map(|(at, (kind, rid))| (all[*kind], *rid, at))
                .collect();
            let log = log(&pings);
            let entries = || if grouped { run_entries(&log) } else { ping_entries(&log) };
            let mut shown = Vec::new();
            let mut before = None;
            loop {
                let part = slice_log(entries(), &[], before, most);
                prop_assert!(part.entries.len() <= most);
                shown.extend(part.entries.iter().map(short));
                before = part.older;
                if before.is_none() { break; }
            }
            prop_assert_eq!(shown, entries().iter().map(short).collect::<Vec<_>>());
            if grouped {
                let counted: usize = entries().iter().map(|entry| match entry {
                    LogEntry::Run(run) => 1 + usize::from(run.end.is_some()) + run.notes,
                    _ => 1,
                }).sum();
                prop_assert_eq!(counted, log.len());
            }
        }
    }
}
