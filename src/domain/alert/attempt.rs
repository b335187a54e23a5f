//! What a row of the outbox keeps of earlier attempts to send it.

use crate::domain::ids::DeliveryNumber;
use crate::domain::timestamp::Timestamp;

/// A row that began as a part of a message whose rows begin one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchPart {
    /// The row that begins last. Nothing is sent before.
    pub last_row: DeliveryNumber,
    /// How often sending that row was begun before.
    pub attempts: u16,
}

/// A recipient of a message that is sent again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// The address.
    pub address: Box<str>,
    /// The result of the attempts so far.
    pub result: RecipientResult,
}

impl Recipient {
    /// The same after an attempt of which nothing was reported.
    pub fn after_interruption(self) -> Self {
        match self.result {
            RecipientResult::Pending => Self { result: RecipientResult::PossiblyDelivered, ..self },
            _ => self,
        }
    }
}

/// The result of the attempts to send a message to one of its recipients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecipientResult {
    /// It was taken.
    Accepted,
    /// It was refused for good, with this error of at most [`Delivery::LONGEST_REASON`](super::Delivery::LONGEST_REASON) bytes.
    Refused(Box<str>),
    /// It may have arrived.
    PossiblyDelivered,
    /// It has not arrived.
    Pending,
}

impl RecipientResult {
    /// True if nothing more is sent to the recipient.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Accepted | Self::Refused(_))
    }
}

/// A recipient of a channel that is refused for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRecipient {
    /// The address.
    pub address: Box<str>,
    /// The time of the first refusal after the last mail that was taken.
    pub since: Timestamp,
    /// The reason for the last refusal, of at most [`Delivery::LONGEST_REASON`](super::Delivery::LONGEST_REASON) bytes.
    pub reason: Box<str>,
}
