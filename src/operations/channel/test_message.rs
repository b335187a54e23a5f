//! Tests of channels: sends a message at once and waits for its result.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::DISABLED_REASON;
use crate::domain::channel::ChannelClass;
use crate::domain::project::Channel;
use crate::engine::command::Unavailable;
use crate::engine::{ChannelTestResult, Handle, TestedChannel};
use crate::operations::OperationError;

/// Time for which a client over HTTP waits for a test. The slowest kinds give up after 60 s.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(75);
/// Time for the tests of all members of a group: a little less than [`TEST_TIMEOUT`].
const GROUP_TEST_TIMEOUT: Duration = Duration::from_secs(70);

/// Result of a test.
pub enum ChannelTestResults {
    /// Result for a channel.
    Channel(ChannelTestResult),
    /// Results for a group, one for each of its channels.
    Group(Vec<MemberTestResult>),
}

/// Result of the test of a channel in a group.
pub struct MemberTestResult {
    /// The channel that was tested.
    pub channel: Arc<Channel>,
    /// Result, or the reason why there is none.
    pub result: Result<ChannelTestResult, OperationError>,
}

/// Sends a test to a channel, or to the channels of a group one after the other, and waits for the
/// result, little more than a minute at most. `up`: sends the message of a check that is up again.
/// A test that arrives enables its channel, so the channels of a group that the operator disabled
/// are not tested with it.
///
/// # Errors
/// If it is a group without channels, too many tests wait, the channel is gone, or the server
/// stops.
pub async fn test(
    handle: &Handle,
    channel: &Arc<Channel>,
    up: bool,
) -> Result<ChannelTestResults, OperationError> {
    test_as(handle, channel, TestedChannel::Stored(channel.id), up).await
}

/// Sends a test to a channel as a form describes it, like [`test()`]. Nothing is stored.
///
/// # Errors
/// As for [`test()`].
pub async fn test_draft(
    handle: &Handle,
    channel: &Arc<Channel>,
) -> Result<ChannelTestResults, OperationError> {
    test_as(
        handle,
        channel,
        TestedChannel::Draft(Arc::clone(channel)),
        false,
    )
    .await
}

async fn test_as(
    handle: &Handle,
    channel: &Channel,
    tested: TestedChannel,
    up: bool,
) -> Result<ChannelTestResults, OperationError> {
    if channel.settings.kind().class != ChannelClass::Group {
        return test_one(handle, tested, up)
            .await
            .map(ChannelTestResults::Channel);
    }
    let members: Vec<_> =
        handle.with_state(|state| state.members_of(channel).map(Arc::clone).collect());
    if members.is_empty() {
        return Err(OperationError::EmptyGroup);
    }
    let deadline = handle.clock().uptime() + GROUP_TEST_TIMEOUT;
    let mut tests = Vec::with_capacity(members.len());
    for channel in members {
        let is_disabled = || {
            handle.with_state(|state| {
                state
                    .channel(channel.id)
                    .is_some_and(|now| is_disabled_by_operator(now))
            })
        };
        let result = match deadline.saturating_sub(handle.clock().uptime()) {
            _ if is_disabled() => Err(OperationError::DisabledByOperator),
            Duration::ZERO => Err(OperationError::NoTimeForTest),
            left => timeout(
                left,
                test_one(handle, TestedChannel::Stored(channel.id), up),
            )
            .await
            .unwrap_or(Err(OperationError::NoTestResult)),
        };
        tests.push(MemberTestResult { channel, result });
    }
    Ok(ChannelTestResults::Group(tests))
}

/// True if the operator disabled a channel, so that only the operator may enable it.
fn is_disabled_by_operator(channel: &Channel) -> bool {
    channel
        .health
        .disabled
        .as_ref()
        .is_some_and(|(_, reason)| **reason == *DISABLED_REASON)
}

async fn test_one(
    handle: &Handle,
    channel: TestedChannel,
    up: bool,
) -> Result<ChannelTestResult, OperationError> {
    let result = handle
        .queue_channel_test(channel.clone(), up)
        .map_err(OperationError::Unavailable)?;
    let is_gone = || channel.find(handle).is_none();
    // The notifier drops a test that can no longer be sent.
    result.await.map_err(|_| {
        if is_gone() {
            OperationError::Removed
        } else {
            OperationError::Unavailable(Unavailable::Stopping)
        }
    })
}
