//! A flip: a change of a check's stored status, and which of them the contract shows.

use super::check::Status;
use super::ids::{CheckId, FlipNumber};
use super::moment::Moment;

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

impl Flip {
    /// Whether this is a flip in the contract's sense, and then whether it goes up (contract, Flip: "a change of status from down to
    /// up or from up to down").
    pub fn shown(self) -> Option<bool> {
        match (self.from, self.to) {
            (Status::Down, Status::Up) => Some(true),
            (Status::Up, Status::Down) => Some(false),
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
