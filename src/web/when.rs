//! Moments as pages show them: as far as they are from now, exact to whoever looks closer, and readable for scripts.

use crate::domain::moment::Moment;
use crate::domain::words::Times;

/// What a `<time>` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct When {
    /// RFC 3339, for scripts that keep the words true.
    pub(crate) stamp: String,
    /// To the second, with its zone.
    pub(crate) exact: String,
    /// As seen from now.
    pub(crate) words: String,
}

impl When {
    /// As far as it is from now: `3 min ago`.
    pub(crate) fn of(at: Moment, times: &Times<'_>) -> Self {
        Self::said(at, times, times.relative(at))
    }

    /// As the clock shows it, to the second: `yesterday 03:41:12`.
    pub(crate) fn clock(at: Moment, times: &Times<'_>) -> Self {
        Self::said(at, times, times.at_second(at))
    }

    fn said(at: Moment, times: &Times<'_>, words: String) -> Self {
        let mut stamp = String::new();
        at.write_seconds(&mut stamp);
        Self { stamp, exact: times.exact(at), words }
    }
}
