//! Requests about channels and deliveries on the socket, and the rows of their lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Action on one channel.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChannelAction {
    /// Sends a test. The reply comes with its result.
    Test {
        /// True for the message of a check that is up again, false for that of a check that is
        /// down.
        up: bool,
    },
    /// Enables the channel.
    Enable,
    /// Disables the channel.
    Disable,
    /// Assigns checks of the project. The reply is the number of checks that were not assigned
    /// before.
    Assign(CheckSelectionRow),
    /// Unassigns checks. The reply is the number of checks that were assigned before.
    Unassign(CheckSelectionRow),
}

/// Selection of checks of a project.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSelectionRow {
    /// Every check.
    All,
    /// Checks that have all of these tags.
    Tagged(Vec<String>),
    /// Checks with these UUIDs, slugs or names.
    Named(Vec<String>),
}

/// A channel in a list.
#[derive(Serialize, Deserialize)]
pub struct ChannelRow {
    /// UUID, by which checks and commands name it.
    pub uuid: Uuid,
    /// Name of its project.
    pub project: String,
    /// Kind, as the command line writes it.
    pub kind: String,
    /// Name of the channel, may be empty.
    pub name: String,
    /// `ok`: messages arrive; `untested`, `test failed`, `failing`, `disabled`, or
    /// `cannot deliver`: something that the channel needs is missing.
    pub status: String,
    /// Time since which it is failing or disabled, RFC 3339.
    pub since: Option<String>,
    /// Number of messages that wait for it.
    pub waiting: usize,
    /// Reason for any status but `ok` and `untested`.
    pub last_error: Option<String>,
    /// Recipients that have unsubscribed. They get no messages until the channel is enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsubscribed: Vec<String>,
    /// Recipients whose last mail was refused permanently, while others accepted it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedRow>,
    /// Settings with secrets masked, if the request asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<BTreeMap<String, String>>,
}

/// A recipient that refuses the messages of a channel.
#[derive(Serialize, Deserialize)]
pub struct RefusedRow {
    /// Address of the recipient.
    pub recipient: String,
    /// Time of the first refusal, RFC 3339.
    pub since: String,
    /// Reason for the last refusal.
    pub error: String,
}

/// Result of a test.
#[derive(Serialize, Deserialize)]
pub struct TestRow {
    /// True if the channel accepted it, for at least one of several recipients.
    pub delivered: bool,
    /// Duration of the test in milliseconds.
    pub millis: u64,
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Reason why the channel or some of its recipients refused it.
    pub error: Option<String>,
}

/// Result of the test of a channel in a group.
#[derive(Serialize, Deserialize)]
pub struct MemberTestRow {
    /// UUID of the channel.
    pub uuid: Uuid,
    /// Name of the channel, or its kind if it has none.
    pub name: String,
    /// Result of the test.
    #[serde(flatten)]
    pub test: TestRow,
}

/// A delivery in a list.
#[derive(Serialize, Deserialize)]
pub struct DeliveryRow {
    /// Number that `deliveries retry` takes.
    pub number: u64,
    /// Time at which it was finished, RFC 3339.
    pub time: String,
    /// Time at which the alert was queued, RFC 3339.
    pub queued: String,
    /// Check that it was about; `None` if about no check.
    pub check: Option<NamedObject>,
    /// Channel that it was sent to; `None` if the decision was to notify no channel.
    pub channel: Option<NamedObject>,
    /// Event that the message reports.
    pub event: String,
    /// Delivery result.
    pub outcome: String,
    /// Number of attempts that were begun.
    pub attempts: u16,
    /// Status of the last response, if there was one.
    pub status: Option<u16>,
    /// Reason why it was not delivered, may be empty.
    pub reason: String,
    /// Number of the delivery whose message included this one.
    pub told_with: Option<u64>,
}

/// A check or a channel that a row is about.
#[derive(Serialize, Deserialize)]
pub struct NamedObject {
    /// UUID; `None` if it was deleted.
    pub uuid: Option<Uuid>,
    /// Name, or a note that it was deleted.
    pub name: String,
}
