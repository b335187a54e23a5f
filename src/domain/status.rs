//! Status of a check: the stored one, and the one that is shown.

/// Stored status. Grace is never stored: it follows from the time of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The check was never pinged, or was resumed.
    New,
    /// The last completion was a success and its deadline has not passed.
    Up,
    /// The last completion was a failure, or a deadline has passed.
    Down,
    /// The check is not monitored.
    Paused,
}

impl Status {
    /// Word for the status in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => VisibleStatus::New,
            Self::Up => VisibleStatus::Up,
            Self::Down => VisibleStatus::Down,
            Self::Paused => VisibleStatus::Paused,
        }
        .name()
    }
}

/// Status that is shown: see [protocol](crate::docs::protocol).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the five words of the API")]
pub enum VisibleStatus {
    New,
    Up,
    Grace,
    Down,
    Paused,
}

impl VisibleStatus {
    /// Every status, the most urgent first.
    pub const BY_URGENCY: [Self; 5] = [Self::Down, Self::Grace, Self::Up, Self::New, Self::Paused];

    /// Word for the status in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Up => "up",
            Self::Grace => "grace",
            Self::Down => "down",
            Self::Paused => "paused",
        }
    }
}
