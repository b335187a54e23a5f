//! Keeps strangers from filling the log: of lines that anybody can cause, so many a second are written and the others counted.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Lines of one kind that are written in a second.
const MAX_LINES_PER_SECOND: u32 = 20;

/// The limit of one kind of line. Each kind has one, a `static` beside the place where it is written.
pub(crate) struct LogLimit(Mutex<LogLimitWindow>);

struct LogLimitWindow {
    second: i64,
    written: u32,
    suppressed: u64,
}

/// How many lines of a kind were left out before this one. Shows as nothing if there were none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SuppressedLines(u64);

impl LogLimit {
    /// A limit that nothing has counted against.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(LogLimitWindow { second: 0, written: 0, suppressed: 0 }))
    }

    /// Whether a line may be written now; with it goes how many were left out.
    pub(crate) fn admit(&self, now: Timestamp) -> Option<SuppressedLines> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now.micros() / MICROS_PER_SEC;
        if window.second != second {
            (window.second, window.written) = (second, 0);
        }
        if window.written == MAX_LINES_PER_SECOND {
            window.suppressed += 1;
            return None;
        }
        window.written += 1;
        Some(SuppressedLines(std::mem::take(&mut window.suppressed)))
    }
}

impl fmt::Display for SuppressedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " (and {count} more like it were not logged)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_and_the_others_are_counted() {
        let limit = LogLimit::new();
        let admitted = |at| (0..100).filter_map(|_| limit.admit(Timestamp::from_micros(at))).collect::<Vec<_>>();
        let first = admitted(5 * MICROS_PER_SEC);
        assert_eq!((first.len(), first.iter().all(|left_out| left_out.to_string().is_empty())), (20, true));
        assert!(admitted(6 * MICROS_PER_SEC - 1).is_empty());
        let next = limit.admit(Timestamp::from_micros(6 * MICROS_PER_SEC)).unwrap();
        assert_eq!(next.to_string(), " (and 180 more like it were not logged)");
        assert_eq!(limit.admit(Timestamp::from_micros(6 * MICROS_PER_SEC)), Some(SuppressedLines(0)));
        // A clock that is set back stops nothing.
        assert_eq!(admitted(0).len(), 20);
    }
}
