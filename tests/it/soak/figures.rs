//! Figures of a soak, which may not grow: memory, files and backups.

use std::fmt;
use std::path::Path;

/// Permitted growth from the second quarter to the last one, in percent.
const MAX_GROWTH_PERCENT: u64 = 20;

/// One figure at several times, at equal intervals.
pub(super) struct FlatFigure {
    name: &'static str,
    values: Vec<u64>,
}

impl FlatFigure {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            values: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, value: u64) {
        self.values.push(value);
    }

    /// Maximum in each quarter.
    fn quarters(&self) -> [u64; 4] {
        let len = self.values.len();
        [0, 1, 2, 3].map(|quarter| {
            let values = &self.values[len * quarter / 4..len * (quarter + 1) / 4];
            values
                .iter()
                .copied()
                .max()
                .expect("each quarter has a value")
        })
    }

    /// Checks that the last quarter needs no more than the second one, apart from
    /// [`MAX_GROWTH_PERCENT`].
    pub(super) fn assert_flat(&self) {
        let quarters = self.quarters();
        assert!(
            quarters[3] * 100 <= quarters[1] * (100 + MAX_GROWTH_PERCENT),
            "{self}; at most {MAX_GROWTH_PERCENT} % more in the last than in the second are permitted"
        );
    }
}

impl fmt::Display for FlatFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quarters = self.quarters();
        write!(f, "{} in the quarters: {quarters:?} bytes", self.name)
    }
}

/// Returns the bytes of the resident memory of this process, without the program itself.
pub(super) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.expect("the system reports it").parse::<u64>().unwrap() * 1024
}

/// Returns the bytes of all files in a directory.
pub(super) fn directory_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}
