//! Limits log lines that any client can cause: a number of lines per second are written, the others
//! are counted. A token bucket would allow twice as many lines within one second: a burst, and the
//! lines of the rate.

use std::fmt;

use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};
use crate::util::sync::{Mutex, lock};

/// Maximum number of lines of one kind written in a second.
const MAX_LINES_PER_SECOND: u32 = 20;

/// Limit of one kind of line. Each kind has its own `static` next to the code that logs it.
pub(crate) struct LogLimit(Mutex<LogLimitWindow>);

struct LogLimitWindow {
    second: i64,
    written: u32,
    suppressed: u64,
}

/// Number of lines of a kind that were suppressed before this line. Displayed as an empty text if
/// there were none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SuppressedLines(u64);

impl LogLimit {
    /// Limit that nothing has been counted against.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(LogLimitWindow {
            second: 0,
            written: 0,
            suppressed: 0,
        }))
    }

    /// Returns the number of suppressed lines if a line may be written now, otherwise `None`.
    pub(crate) fn admit(&self, now: Timestamp) -> Option<SuppressedLines> {
        let mut window = lock(&self.0);
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
    fn lines_above_the_limit_are_counted() {
        let limit = LogLimit::new();
        let admitted = |at| {
            (0..100)
                .filter_map(|_| limit.admit(Timestamp::from_micros(at)))
                .collect::<Vec<_>>()
        };
        let first = admitted(5 * MICROS_PER_SEC);
        assert_eq!(
            (
                first.len(),
                first.iter().all(|left_out| left_out.to_string().is_empty())
            ),
            (20, true)
        );
        assert!(admitted(6 * MICROS_PER_SEC - 1).is_empty());
        let next = limit
            .admit(Timestamp::from_micros(6 * MICROS_PER_SEC))
            .unwrap();
        assert_eq!(next.to_string(), " (and 180 more like it were not logged)");
        assert_eq!(
            limit.admit(Timestamp::from_micros(6 * MICROS_PER_SEC)),
            Some(SuppressedLines(0))
        );
        // Setting the clock back stops no line.
        assert_eq!(admitted(0).len(), 20);
    }
}
