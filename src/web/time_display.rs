//! Moments as pages show them: as far as they are from now, exact to whoever looks closer, and readable for scripts.

use crate::domain::formatting::TimeFormatter;
use crate::domain::timestamp::Timestamp;

/// What a `<time>` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DisplayTime {
    /// RFC 3339, for scripts that keep the words true.
    pub(crate) stamp: String,
    /// To the second, with its zone.
    pub(crate) exact: String,
    /// As seen from now.
    pub(crate) words: String,
}

impl DisplayTime {
    /// As far as it is from now: `3 min ago`.
    pub(crate) fn relative(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        Self::from_words(at, times, times.relative(at))
    }

    /// As the clock shows it, to the second: `yesterday 03:41:12`.
    pub(crate) fn clock_time(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        Self::from_words(at, times, times.at_second(at))
    }

    fn from_words(at: Timestamp, times: &TimeFormatter<'_>, words: String) -> Self {
        let mut stamp = String::new();
        at.write_rfc3339_secs(&mut stamp);
        Self { stamp, exact: times.exact(at), words }
    }
}
