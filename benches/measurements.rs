//! Rows of the table: the load of each on a server, and its result.

mod alerts;
mod backup;
mod detection;
mod disk;
mod growth;
mod imports;
mod lists;
mod memory;
mod pings;
mod sampler;
mod setup;
mod start;
mod waiting;

use std::fmt;

use clap::ValueEnum;

use crate::driver::Result;
pub(crate) use setup::BenchSetup;

/// A measurement that can be selected.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measurement {
    /// Durable pings against a server that does nothing
    Pings,
    /// Pings with many checks against pings with few
    Scale,
    /// The list of 1,000 checks
    List,
    /// Latency of a ping at half the peak rate, and one fdatasync of this disk
    Latency,
    /// Resident memory
    Memory,
    /// Time to the first answer after a clean stop
    Start,
    /// Time to the first answer after SIGKILL under load
    Kill,
    /// Bytes written for each ping at peak, with full logs
    Writes,
    /// Size of the file while full logs turn over (20,000,000 pings, about 8 minutes; see
    /// --turnovers)
    Turnovers,
    /// Delay of 10,000 checks that are due in the same second, without channels and with one each
    /// (6 minutes)
    Detection,
    /// Time from a failure, and from a deadline, to the alert, and 10,000 alerts at once (3
    /// minutes)
    Alerts,
    /// Latency of pings while backups are made of 1,100,000 pings
    Backup,
    /// Imports of 100,000 and of 1,000,000 pings, and the latency of other pings meanwhile (3
    /// minutes)
    Import,
    /// Memory while 100,000 alerts wait for a channel that is dead, and how long they take once it
    /// is back (3 minutes)
    Waiting,
    /// Time to the first answer after SIGKILL under load, with the journal and without it, in turns
    Journal,
    /// Memory, disk and start at 1,000 to 1,000,000 checks, plotted in benches/growth.svg (2
    /// minutes)
    Growth,
}

impl Measurement {
    /// Default measurements.
    pub(crate) const DEFAULT: [Self; 8] = [
        Self::Pings,
        Self::Scale,
        Self::List,
        Self::Latency,
        Self::Memory,
        Self::Start,
        Self::Kill,
        Self::Writes,
    ];

    /// Runs the measurement.
    pub(crate) fn measure(self, setup: &BenchSetup) -> Result<Vec<TableRow>> {
        match self {
            Self::Pings => pings::against_baseline(setup),
            Self::Scale => pings::many_against_few(setup),
            Self::List => lists::lists(setup),
            Self::Latency => pings::latency(setup),
            Self::Memory => memory::memory(setup),
            Self::Start => start::after_stop(setup),
            Self::Kill => start::after_kill(setup),
            Self::Writes => disk::writes(setup),
            Self::Turnovers => disk::turnovers(setup),
            Self::Detection => detection::detection(setup),
            Self::Alerts => alerts::alerts(setup),
            Self::Backup => backup::backup(setup),
            Self::Import => imports::imports(setup),
            Self::Waiting => waiting::waiting(setup),
            Self::Journal => start::with_and_without_journal(setup),
            Self::Growth => growth::growth(setup),
        }
    }
}

/// One line of the table.
pub(crate) struct TableRow {
    /// Measured quantity.
    pub(crate) what: String,
    /// Target value.
    pub(crate) target: &'static str,
    /// Measured value.
    pub(crate) measured: String,
}

impl TableRow {
    fn new(what: impl fmt::Display, target: &'static str, measured: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            target,
            measured: measured.to_string(),
        }
    }
}

/// Returns the median, or the upper one of two; 0 for no values.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Formats a count with separators between thousands.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let head = digits.len() % 3;
    let groups = digits.as_bytes().split_at(head);
    let groups = std::iter::once(groups.0)
        .chain(groups.1.chunks(3))
        .filter(|group| !group.is_empty());
    groups
        .map(String::from_utf8_lossy)
        .collect::<Vec<_>>()
        .join(",")
}

/// Formats bytes as megabytes (10^6).
fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}
