//! Deliveries: waiting alerts, and the results of sent ones.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{OperationError, read_blocking, submit};
use crate::domain::alert::{DeliveryRecord, DeliveryResult, OutboxRow};
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::command::Command;
use crate::store::StoreError;

/// Filter for deliveries; `None` matches all.
#[derive(Clone, Copy, Default)]
pub struct DeliveryFilter {
    /// Project whose channels and checks the deliveries belong to, as far as these still exist.
    pub project: Option<ProjectId>,
    /// Channel that they were sent to.
    pub channel: Option<ChannelId>,
    /// Check that they are about.
    pub check: Option<CheckId>,
    /// Result of the deliveries. A waiting delivery has none.
    pub result: Option<DeliveryResult>,
}

/// Delivery that waits for its first or another attempt.
pub struct WaitingDelivery {
    /// Its row in the outbox.
    pub row: Arc<OutboxRow>,
    /// Reason why its channel is failing; `None` if it is not.
    pub failure_reason: Option<Box<str>>,
}

/// Returns the newest deliveries that wait for their first or another attempt, newest first, at
/// most `limit`.
pub fn list_waiting(handle: &Handle, filter: DeliveryFilter, limit: usize) -> Vec<WaitingDelivery> {
    if filter.result.is_some() {
        return Vec::new();
    }
    handle.with_state(|state| {
        let fits = |row: &&Arc<OutboxRow>| {
            let of_project = |project| {
                let channel = state
                    .channel(row.channel)
                    .is_some_and(|channel| channel.project == project);
                channel
                    || state
                        .check(row.check)
                        .is_some_and(|check| check.project == project)
            };
            filter.channel.is_none_or(|channel| row.channel == channel)
                && filter.check.is_none_or(|check| row.check == check)
                && filter.project.is_none_or(of_project)
        };
        let message = |row: &Arc<OutboxRow>| {
            let channel = state.channel(row.channel);
            let reason = channel
                .and_then(|channel| channel.health.failing.as_ref())
                .map(|(_, reason)| reason.clone());
            WaitingDelivery {
                row: Arc::clone(row),
                failure_reason: reason,
            }
        };
        state
            .outbox
            .rows()
            .rev()
            .filter(fits)
            .take(limit)
            .map(message)
            .collect()
    })
}

impl DeliveryFilter {
    fn matches(&self, handle: &Handle, delivery: &DeliveryRecord) -> bool {
        let of_project = |project| {
            handle.with_state(|state| {
                let channel = state
                    .channel(delivery.channel)
                    .is_some_and(|channel| channel.project == project);
                channel
                    || state
                        .check(delivery.check)
                        .is_some_and(|check| check.project == project)
            })
        };
        self.channel
            .is_none_or(|channel| delivery.channel == channel)
            && self.check.is_none_or(|check| delivery.check == check)
            && self.result.is_none_or(|result| delivery.result == result)
            && self.project.is_none_or(of_project)
    }
}

/// Returns the newest deliveries with numbers below `before` that match a filter, newest first, at
/// most `limit`. It waits for the disk.
///
/// # Errors
/// If the file cannot be read.
pub fn list_before(
    handle: &Handle,
    filter: DeliveryFilter,
    before: DeliveryNumber,
    limit: usize,
) -> Result<Vec<DeliveryRecord>, StoreError> {
    handle.deliveries(before, limit, |delivery| filter.matches(handle, delivery))
}

/// Returns the newest deliveries that match a filter, newest first, at most `limit`.
///
/// # Errors
/// If the file cannot be read.
pub async fn list(
    handle: &Handle,
    filter: DeliveryFilter,
    limit: usize,
) -> Result<Vec<DeliveryRecord>, OperationError> {
    let newest = DeliveryNumber(u64::MAX);
    read_blocking(handle, move |handle| {
        list_before(handle, filter, newest, limit)
    })
    .await
}

/// Queues a failed delivery again. Returns its new number. `project`: the project that it must
/// belong to.
///
/// # Errors
/// If there is no such delivery, it did not fail or was about no check, its check or its channel is
/// gone, the channel is disabled, the check has changed since and the channel only gets the current
/// state, or the writer does not answer.
pub async fn retry(
    handle: &Handle,
    project: Option<ProjectId>,
    number: u64,
) -> Result<u64, OperationError> {
    let filter = DeliveryFilter {
        project,
        ..DeliveryFilter::default()
    };
    let before = DeliveryNumber(number.saturating_add(1));
    let newest = read_blocking(handle, move |handle| list_before(handle, filter, before, 1))
        .await?
        .pop();
    let delivery = newest
        .filter(|delivery| delivery.number.0 == number)
        .ok_or(OperationError::UnknownDelivery(number))?;
    if delivery.result != DeliveryResult::Failed {
        return Err(OperationError::DeliveryNotFailed {
            number,
            result: delivery.result.name(),
        });
    }
    if delivery.check == CheckId(0) {
        return Err(OperationError::DeliveryWithoutCheck(number));
    }
    let flip = delivery.flip;
    let at = read_blocking(handle, move |handle| handle.flip(flip))
        .await?
        .map_or(delivery.queued, |logged| logged.flip.at);
    let command = Command::RetryDelivery {
        delivery: Box::new(delivery),
        at,
    };
    let queued: DeliveryNumber = submit(handle, command).await?;
    Ok(queued.0)
}

/// Returns the time of the last delivery to each of these channels, as far back as the log reaches.
/// It may wait for the disk.
///
/// # Errors
/// If the file cannot be read.
pub fn last_delivered(
    handle: &Handle,
    channels: &[Arc<Channel>],
) -> Result<BTreeMap<ChannelId, Timestamp>, StoreError> {
    // No message is ever delivered to a group itself.
    let candidates = channels
        .iter()
        .filter(|channel| channel.settings.kind().class != ChannelClass::Group);
    let missing: RefCell<BTreeSet<_>> =
        RefCell::new(candidates.map(|channel| channel.id).collect());
    let limit = missing.borrow().len();
    let newest = handle.deliveries(DeliveryNumber(u64::MAX), limit, |delivery| {
        delivery.result == DeliveryResult::Delivered
            && missing.borrow_mut().remove(&delivery.channel)
    })?;
    Ok(newest
        .into_iter()
        .map(|delivery| (delivery.channel, delivery.finished))
        .collect())
}
