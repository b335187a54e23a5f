//! Figures of a soak: memory and files at the end of each day.

use std::path::Path;

/// Permitted growth from the second quarter to the last one, in percent.
const MAX_GROWTH_PERCENT: u64 = 20;

/// One figure, at the end of each day.
pub(super) struct DailyFigure {
    name: &'static str,
    values: Vec<u64>,
}

impl DailyFigure {
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
    pub(super) fn quarters(&self) -> [u64; 4] {
        let len = self.values.len();
        [0, 1, 2, 3].map(|quarter| {
            let days = &self.values[len * quarter / 4..len * (quarter + 1) / 4];
            days.iter().copied().max().expect("a quarter has a day")
        })
    }

    /// Checks that the last quarter needs no more than the second one, apart from
    /// [`MAX_GROWTH_PERCENT`].
    pub(super) fn assert_flat(&self) {
        let quarters = self.quarters();
        assert!(
            quarters[3] * 100 <= quarters[1] * (100 + MAX_GROWTH_PERCENT),
            "{} grows: {quarters:?} bytes in the quarters, at most {MAX_GROWTH_PERCENT} % more in \
             the last than in the second are permitted",
            self.name
        );
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
