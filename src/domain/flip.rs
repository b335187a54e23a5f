//! A flip: a change of a check's stored status, what caused it, and which of them the API shows.

use std::num::NonZeroU8;

use super::ids::{Arrival, CheckId, FlipNumber};
use super::status::Status;
use super::timestamp::Timestamp;

/// A change of the stored status. All are kept; the API shows those between up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flip {
    /// When: for a check that went down in silence the deadline, not the moment of noticing. Never runs backwards within a check, unless
    /// the clock does by 5 s or more.
    pub at: Timestamp,
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    /// What caused it.
    pub cause: FlipCause,
    /// If a deadline that passed is the cause: when the ping was expected, or when the run began. `None`: another cause, or the flip was
    /// logged before this was recorded.
    pub awaited_since: Option<Timestamp>,
}

/// What caused a change of status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlipCause {
    /// Not recorded: the flip was logged by release 0.1.
    Unknown,
    /// An expected ping did not come in time.
    Late,
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
    /// Somebody paused or resumed the check.
    PausedOrResumed,
}

impl FlipCause {
    /// Whether a deadline that passed is the cause.
    pub fn is_deadline(self) -> bool {
        matches!(self, Self::Late | Self::Overrun | Self::SettingsChanged)
    }
}

/// Which way a flip that the API shows goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlipDirection {
    /// From down to up.
    Up,
    /// From up to down.
    Down,
}

impl Flip {
    /// The direction of a flip between up and down. `None`: a change that the API does not show.
    pub fn direction(self) -> Option<FlipDirection> {
        match (self.from, self.to) {
            (Status::Down, Status::Up) => Some(FlipDirection::Up),
            (Status::Up, Status::Down) => Some(FlipDirection::Down),
            _ => None,
        }
    }
}

/// A flip as it lies in the log of flips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedFlip {
    /// Whose flip it is.
    pub check: CheckId,
    /// The place of the same check's flip before this one; 0 for the first.
    pub previous: FlipNumber,
    /// The ping of the same check during which it was decided; 0: no ping, but the time or an operator. Unknown causes have 0 too.
    pub arrival: Arrival,
    /// What happened.
    pub flip: Flip,
}
