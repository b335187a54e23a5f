//! Channels.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::AdminContext;
use super::error::AdminError;
use super::field_format::SettingPairs;
use super::reply::{CreatedObject, Warnings};
use super::request::AdminRequest;
use super::{field_format, format_timestamp};
use crate::domain::alert::RefusedRecipient;
use crate::domain::channel::{ChannelKind, ChannelSettings, SettingsAuthor, SettingsUpdate};
use crate::domain::project::{Channel, ChannelName};
use crate::engine::ChannelTestResult;
use crate::operations::channel::{
    self, ChannelStatus, ChannelTestResults, CheckSelection, MemberTestResult,
};

/// Time in which a server must answer a request for a test. The test itself times out a little
/// earlier.
const CHANNEL_TEST_TIMEOUT: Duration = Duration::from_secs(75);

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

/// Lists the channels of a project or of all, oldest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListChannels {
    /// Project to list; `None` for all.
    pub project: Option<String>,
    /// True to include the settings, with secrets masked.
    #[serde(default)]
    pub show_settings: bool,
}

impl AdminRequest for ListChannels {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/channels";
    type Output = Vec<ChannelRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<ChannelRow>, AdminError> {
        let project = context.project_filter(self.project.as_deref())?;
        let handle = context.handle();
        let channels = channel::list(handle, project);
        handle.with_state(|state| {
            let rows = channels.into_iter().map(|(project, channel)| {
                let status = ChannelStatus::compute(state, &channel, handle.transports());
                let (since, last_error) = status.reason(true);
                ChannelRow {
                    uuid: channel.uuid,
                    project: project.name.as_str().into(),
                    kind: channel.settings.kind().name.into(),
                    name: channel.name.as_str().into(),
                    status: status.name().into(),
                    since: since.map(format_timestamp),
                    waiting: state.outbox.row_count_of(channel.id),
                    last_error: last_error.map(Into::into),
                    unsubscribed: channel
                        .health
                        .unsubscribed
                        .iter()
                        .map(|recipient| String::from(&**recipient))
                        .collect(),
                    refused: channel.health.refused.iter().map(refused_row).collect(),
                    settings: self.show_settings.then(|| {
                        state
                            .display_settings(&channel)
                            .masked()
                            .map(|(key, value)| (key.into(), value.into_owned()))
                            .collect()
                    }),
                }
            });
            Ok(rows.collect())
        })
    }
}

fn refused_row(refused: &RefusedRecipient) -> RefusedRow {
    RefusedRow {
        recipient: String::from(&*refused.address),
        since: format_timestamp(refused.since),
        error: String::from(&*refused.reason),
    }
}

/// Creates a channel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateChannel {
    /// Project of the channel; `None` if there is only one project.
    pub project: Option<String>,
    /// Name, may be empty.
    #[serde(with = "field_format::channel_name")]
    pub name: ChannelName,
    /// Kind of the channel.
    #[serde(with = "field_format::channel_kind")]
    pub kind: &'static ChannelKind,
    /// Settings of the kind.
    pub settings: SettingPairs,
}

impl AdminRequest for CreateChannel {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/channels";
    type Output = CreatedObject;

    async fn run(self, context: &AdminContext) -> Result<CreatedObject, AdminError> {
        let project = context.target_project(self.project.as_deref())?;
        let settings = ChannelSettings::parse(self.kind, self.settings.0)
            .map_err(|error| AdminError::invalid(error.to_string()))?;
        let author = SettingsAuthor::Operator;
        let channel =
            channel::create(context.handle(), project, self.name, settings, author).await?;
        Ok(CreatedObject { uuid: channel.uuid })
    }
}

/// Changes a channel; `None` leaves a field as it is. The settings replace all previous ones or,
/// with `keep`, only those with the same keys; `***` keeps a stored secret.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateChannel {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
    /// New name.
    #[serde(default, with = "field_format::optional_channel_name")]
    pub name: Option<ChannelName>,
    /// New settings.
    pub settings: Option<SettingPairs>,
    /// True to keep settings with other keys.
    #[serde(default)]
    pub keep: bool,
}

impl AdminRequest for UpdateChannel {
    const METHOD: Method = Method::PATCH;
    const PATH: &'static str = "/channels/{channel}";
    type Output = Warnings;

    async fn run(self, context: &AdminContext) -> Result<Warnings, AdminError> {
        let handle = context.handle();
        let id = context.channel(self.project.as_deref(), &self.channel)?.id;
        let update = if self.keep {
            SettingsUpdate::merge
        } else {
            SettingsUpdate::replace_all
        };
        let has_settings = self.settings.is_some();
        let settings = self.settings.map(|pairs| update(pairs.0));
        let author = SettingsAuthor::Operator;
        let channel = channel::update(handle, id, self.name, settings, author).await?;
        let warnings = has_settings.then(|| channel.settings.warnings());
        Ok(Warnings {
            warnings: warnings.unwrap_or_default(),
        })
    }
}

/// Deletes a channel, and unassigns it from all checks.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteChannel {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
}

impl AdminRequest for DeleteChannel {
    const METHOD: Method = Method::DELETE;
    const PATH: &'static str = "/channels/{channel}";
    type Output = Warnings;

    async fn run(self, context: &AdminContext) -> Result<Warnings, AdminError> {
        let handle = context.handle();
        let channel = context.channel(self.project.as_deref(), &self.channel)?;
        let warnings = handle.with_state(|state| channel::deletion_warnings(state, &channel));
        channel::delete(handle, channel.id).await?;
        Ok(Warnings { warnings })
    }
}

/// Result of a test: of a channel, or of each channel of a group.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum TestReply {
    /// Test of one channel.
    Channel(TestRow),
    /// Tests of the channels of a group.
    Group(Vec<MemberTestRow>),
}

/// Sends a test to a channel: the message of a check that is down or, with `up`, of one that is up
/// again. The reply comes with the result.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestChannel {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
    /// True to send the message of a check that is up again.
    #[serde(default)]
    pub up: bool,
}

impl AdminRequest for TestChannel {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/channels/{channel}/test";
    const SERVER_TIMEOUT: Duration = CHANNEL_TEST_TIMEOUT;
    type Output = TestReply;

    async fn run(self, context: &AdminContext) -> Result<TestReply, AdminError> {
        let channel = context.channel(self.project.as_deref(), &self.channel)?;
        Ok(
            match channel::test(context.handle(), &channel, self.up).await? {
                ChannelTestResults::Channel(result) => TestReply::Channel(test_row(result)),
                ChannelTestResults::Group(tests) => {
                    TestReply::Group(tests.into_iter().map(member_test_row).collect())
                }
            },
        )
    }
}

fn member_test_row(MemberTestResult { channel, result }: MemberTestResult) -> MemberTestRow {
    let test = result.map_or_else(
        |error| TestRow {
            delivered: false,
            millis: 0,
            status: None,
            error: Some(error.to_string()),
        },
        test_row,
    );
    MemberTestRow {
        uuid: channel.uuid,
        name: channel_label(&channel),
        test,
    }
}

fn test_row(result: ChannelTestResult) -> TestRow {
    let ChannelTestResult {
        duration: took,
        status,
        error: failed,
        missed,
    } = result;
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    TestRow {
        delivered: failed.is_none(),
        millis,
        status: response_status(status),
        error: failed.or(missed),
    }
}

/// Enables a channel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnableChannel {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
}

impl AdminRequest for EnableChannel {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/channels/{channel}/enable";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let channel = context.channel(self.project.as_deref(), &self.channel)?;
        channel::enable(context.handle(), channel.id).await?;
        Ok(())
    }
}

/// Disables a channel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisableChannel {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
}

impl AdminRequest for DisableChannel {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/channels/{channel}/disable";
    type Output = ();

    async fn run(self, context: &AdminContext) -> Result<(), AdminError> {
        let channel = context.channel(self.project.as_deref(), &self.channel)?;
        Ok(channel::disable(context.handle(), channel.id).await?)
    }
}

/// Number of checks whose assignment has changed.
#[derive(Serialize, Deserialize)]
pub struct AssignedChecks {
    /// Number of checks.
    pub checks: usize,
}

/// Assigns checks of the project to a channel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssignChecks {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
    /// Checks to assign.
    pub checks: CheckSelection,
}

impl AdminRequest for AssignChecks {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/channels/{channel}/assign";
    type Output = AssignedChecks;

    async fn run(self, context: &AdminContext) -> Result<AssignedChecks, AdminError> {
        let channel = context.channel(self.project.as_deref(), &self.channel)?;
        let checks = channel::assign(context.handle(), &channel, self.checks, true).await?;
        Ok(AssignedChecks { checks })
    }
}

/// Unassigns checks from a channel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnassignChecks {
    /// Project to search; `None` for all.
    pub project: Option<String>,
    /// UUID of the channel, or its name if only one has it.
    pub channel: String,
    /// Checks to unassign.
    pub checks: CheckSelection,
}

impl AdminRequest for UnassignChecks {
    const METHOD: Method = Method::POST;
    const PATH: &'static str = "/channels/{channel}/unassign";
    type Output = AssignedChecks;

    async fn run(self, context: &AdminContext) -> Result<AssignedChecks, AdminError> {
        let channel = context.channel(self.project.as_deref(), &self.channel)?;
        let checks = channel::assign(context.handle(), &channel, self.checks, false).await?;
        Ok(AssignedChecks { checks })
    }
}

/// Returns the name of a channel, or its kind if it has none.
pub(super) fn channel_label(channel: &Channel) -> String {
    let name = channel.name.as_str();
    if name.is_empty() {
        channel.settings.kind().name.into()
    } else {
        name.into()
    }
}

pub(super) fn response_status(status: u16) -> Option<u16> {
    Some(status).filter(|status| *status > 0)
}
