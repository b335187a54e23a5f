//! Renders timestamps as relative text, with the exact time in a tooltip and in `datetime`.

use crate::domain::formatting::TimeFormatter;
use crate::domain::timestamp::Timestamp;

/// Content of a `<time>` element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DisplayTime {
    /// RFC 3339, for scripts that update the text.
    pub(crate) stamp: String,
    /// Time to the second, with its zone.
    pub(crate) exact: String,
    /// Text, as seen from now.
    pub(crate) words: String,
}

impl DisplayTime {
    /// Relative time: `3 min ago`.
    pub(crate) fn relative(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        Self::from_words(at, times, times.relative(at))
    }

    /// Time of day to the second: `yesterday 03:41:12`.
    pub(crate) fn clock_time(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        Self::from_words(at, times, times.at_second(at))
    }

    fn from_words(at: Timestamp, times: &TimeFormatter<'_>, words: String) -> Self {
        let mut stamp = String::new();
        at.write_rfc3339_secs(&mut stamp);
        Self {
            stamp,
            exact: times.exact(at),
            words,
        }
    }
}
