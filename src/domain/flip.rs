//! A flip: a change of a check's stored status, and which of them the contract shows.

use super::ids::{CheckId, FlipNumber};
use super::moment::Moment;
use super::status::Status;

/// A change of the stored status. All are kept; the API shows those between up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flip {
    /// When: for a check that went down in silence the deadline, not the moment of noticing. Never runs backwards within a check.
    pub at: Moment,
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
}

/// Which way a flip that the API shows goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From down to up.
    Up,
    /// From up to down.
    Down,
}

impl Flip {
    /// The direction of a flip between up and down. `None`: a change that the API does not show.
    pub fn direction(self) -> Option<Direction> {
        match (self.from, self.to) {
            (Status::Down, Status::Up) => Some(Direction::Up),
            (Status::Up, Status::Down) => Some(Direction::Down),
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
    /// What happened.
    pub flip: Flip,
}
