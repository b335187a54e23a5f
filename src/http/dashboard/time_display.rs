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
    /// Attribute that tells scripts how to update the text. Without one it is a relative time.
    pub(crate) attribute: &'static str,
}

impl DisplayTime {
    /// Relative time: `3 min ago`.
    pub(crate) fn relative(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        Self::from_words(at, times, times.relative(at), "")
    }

    /// Time of day to the second: `yesterday 03:41:12`.
    pub(crate) fn clock_time(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        Self::from_words(at, times, times.at_second(at), "data-fixed")
    }

    /// Time that has passed since: `3 min`.
    pub(crate) fn elapsed(at: Timestamp, times: &TimeFormatter<'_>) -> Self {
        let relative = times.relative(at);
        let words = match relative.strip_suffix(" ago") {
            Some(elapsed) => elapsed.to_owned(),
            None if relative == "just now" => relative,
            None => format!("since {relative}"),
        };
        Self::from_words(at, times, words, "data-elapsed")
    }

    fn from_words(
        at: Timestamp,
        times: &TimeFormatter<'_>,
        words: String,
        attribute: &'static str,
    ) -> Self {
        let mut stamp = String::new();
        at.write_rfc3339_secs(&mut stamp);
        Self {
            stamp,
            exact: times.exact(at),
            words,
            attribute,
        }
    }
}
