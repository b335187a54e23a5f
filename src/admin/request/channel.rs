//! Channels and deliveries as they stand on the socket: what is asked of them, and the rows of their lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What is asked about one channel.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChannelAction {
    /// That a test is sent to it; answered when something has come of that.
    Test {
        /// What is sent when a check is up again, in place of what is sent when one is down.
        up: bool,
    },
    /// That it is told again.
    Enable,
    /// That it is told nothing more.
    Disable,
    /// That checks of its project are assigned to it; answered with how many were not before.
    Assign(CheckSelectionRow),
    /// That checks are no longer assigned to it; answered with how many were before.
    Unassign(CheckSelectionRow),
}

/// Which checks of a project.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSelectionRow {
    /// Every one.
    All,
    /// Those that have all of these tags.
    Tagged(Vec<String>),
    /// Those of these UUIDs, slugs or names.
    Named(Vec<String>),
}

/// A channel in a list.
#[derive(Serialize, Deserialize)]
pub struct ChannelRow {
    /// What checks and commands name it by.
    pub uuid: Uuid,
    /// The name of its project.
    pub project: String,
    /// The word of the command line.
    pub kind: String,
    /// Its name, maybe empty.
    pub name: String,
    /// `ok`: messages arrive; `untested`, `test failed`, `failing`, `disabled`, or `cannot deliver`: something that it needs is missing.
    pub status: String,
    /// Since when it is failing or disabled, RFC 3339.
    pub since: Option<String>,
    /// Messages that wait for it.
    pub waiting: usize,
    /// The reason for any status but `ok` and `untested`.
    pub last_error: Option<String>,
    /// Recipients that have unsubscribed, who get nothing until the channel is enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsubscribed: Vec<String>,
    /// Recipients whose last mail was refused for good, while others took it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedRow>,
    /// What it was set to, secrets masked, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<BTreeMap<String, String>>,
}

/// A recipient of a channel that is refused.
#[derive(Serialize, Deserialize)]
pub struct RefusedRow {
    /// The address.
    pub recipient: String,
    /// The time of the first refusal, RFC 3339.
    pub since: String,
    /// The reason for the last one.
    pub error: String,
}

/// What has come of a test.
#[derive(Serialize, Deserialize)]
pub struct TestRow {
    /// Whether the channel took it, for at least one of several recipients.
    pub delivered: bool,
    /// How long it took.
    pub millis: u64,
    /// The status of the answer, if it had one.
    pub status: Option<u16>,
    /// Why it was not taken, by the channel or by some of its recipients.
    pub error: Option<String>,
}

/// The result of the test of a channel in a group.
#[derive(Serialize, Deserialize)]
pub struct MemberTestRow {
    /// The UUID of the channel.
    pub uuid: Uuid,
    /// Its name, or its kind if it has none.
    pub name: String,
    /// The result.
    #[serde(flatten)]
    pub test: TestRow,
}

/// A delivery in a list.
#[derive(Serialize, Deserialize)]
pub struct DeliveryRow {
    /// What `deliveries retry` takes.
    pub number: u64,
    /// When it was finished, RFC 3339.
    pub time: String,
    /// When it was decided that it is told, RFC 3339.
    pub queued: String,
    /// What it was about; nothing if about no check.
    pub check: Option<NamedObject>,
    /// To whom it was sent; nothing if it was decided that nobody is told.
    pub channel: Option<NamedObject>,
    /// What was told.
    pub event: String,
    /// What has become of it.
    pub outcome: String,
    /// How often sending it was begun.
    pub attempts: u16,
    /// The status of the last answer, if it had one.
    pub status: Option<u16>,
    /// Why it was not delivered, maybe empty.
    pub reason: String,
    /// The number of the delivery that told it as well, in one message.
    pub told_with: Option<u64>,
}

/// A check or a channel that a row is about.
#[derive(Serialize, Deserialize)]
pub struct NamedObject {
    /// Nothing if it was deleted.
    pub uuid: Option<Uuid>,
    /// Its name, or that it was deleted.
    pub name: String,
}
