//! Flips: changes of a check's stored status, their causes, and which of them the API shows.

use std::num::NonZeroU8;

use super::ids::{Arrival, CheckId, FlipNumber};
use super::status::Status;
use super::timestamp::Timestamp;

/// Change of the stored status. All are kept; the API shows changes between up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flip {
    /// Time of the flip. If a deadline passed, the deadline, not the time at which it was noticed.
    /// Times never decrease within a check, unless the clock is set back by 5 s or more.
    pub at: Timestamp,
    /// Status before the flip.
    pub from: Status,
    /// Status after the flip.
    pub to: Status,
    /// Cause of the flip.
    pub cause: FlipCause,
    /// If the cause is a deadline: the time at which the ping was expected, or at which the run
    /// began. `None` for another cause, or if the flip was logged before this was recorded.
    pub awaited_since: Option<Timestamp>,
}

/// Cause of a change of status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlipCause {
    /// Not recorded: the flip was logged by release 0.1.
    Unknown,
    /// An expected ping did not come in time.
    MissedPing,
    /// A run did not end in time.
    Overrun,
    /// A change of the settings put the deadline into the past.
    SettingsChanged,
    /// The job reported a failure.
    Fail,
    /// The job reported this exit status.
    ExitStatus(NonZeroU8),
    /// A failure keyword occurred.
    Keyword,
    /// No keyword occurred, where that means a failure.
    NoKeyword,
    /// The job reported a success.
    Success,
    /// A user paused or resumed the check.
    PausedOrResumed,
    /// A pause ended at the time that it was given.
    PauseEnded,
}

impl FlipCause {
    /// Word for the cause in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissedPing => "late",
            Self::Overrun => "overrun",
            Self::SettingsChanged => "edited",
            Self::Fail => "fail",
            Self::ExitStatus(_) => "exit",
            Self::Keyword => "keyword",
            Self::NoKeyword => "no_keyword",
            Self::Success => "success",
            Self::PausedOrResumed => "operator",
            Self::PauseEnded => "pause_ended",
            Self::Unknown => "unknown",
        }
    }

    /// True if the cause is a deadline that passed.
    pub fn is_deadline(self) -> bool {
        matches!(
            self,
            Self::MissedPing | Self::Overrun | Self::SettingsChanged
        )
    }
}

/// Direction of a flip that the API shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlipDirection {
    /// From down to up.
    Up,
    /// From up to down.
    Down,
}

impl Flip {
    /// Direction of a flip between up and down. `None` for changes that the API does not show.
    pub fn direction(self) -> Option<FlipDirection> {
        match (self.from, self.to) {
            (Status::Down, Status::Up) => Some(FlipDirection::Up),
            (Status::Up, Status::Down) => Some(FlipDirection::Down),
            _ => None,
        }
    }
}

/// Flip as stored in the log of flips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedFlip {
    /// Check that flipped.
    pub check: CheckId,
    /// Position of the previous flip of the same check; 0 for the first.
    pub previous: FlipNumber,
    /// Ping of the same check that caused the flip. 0 if the cause is the time, an operator or
    /// unknown.
    pub arrival: Arrival,
    /// Logged change.
    pub flip: Flip,
}
