//! Outbox of alerts to channels, and the log of their delivery results.

use std::collections::BTreeSet;
use std::sync::Arc;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::alert::{
    AlertEvent, DeletedCheck, DeliveryRecord, DeliveryResult, MessagePart, OutboxRow, Recipient,
    RecipientResult,
};
use crate::domain::check::{CheckLabels, RunLimit, WarningKind};
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use crate::domain::text::{Name, Slug, Tags};
use crate::domain::timestamp::Timestamp;

/// `outbox`: delivery number -> `OutboxRecord`.
pub(super) const OUTBOX: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("outbox");
/// `deliveries`: delivery number -> `DeliveryLogRecord`. The number is that of the outbox, so rows
/// are added near the new end.
pub(super) const DELIVERIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("deliveries");

#[derive(Serialize, Deserialize)]
struct OutboxRecord<'a> {
    channel: u64,
    check: u64,
    flip: u64,
    event: u8,
    at: i64,
    queued: i64,
    attempts: u16,
    begun: Option<i64>,
    interrupted: u8,
    doubtful: bool,
    away: bool,
    skipped: u16,
    /// Name and unique key of a deleted check.
    #[serde(borrow)]
    gone: Option<(&'a str, [u8; 20])>,
    /// Since version 2. Slug and tags of a deleted check.
    #[serde(borrow, default)]
    gone_labels: (&'a str, &'a str),
    /// Name, slug and tags.
    #[serde(borrow, default)]
    told_as: Option<(&'a str, &'a str, &'a str)>,
    /// Last row of the message, and the number of its earlier attempts.
    #[serde(default)]
    part: Option<(u64, u16)>,
    /// Address, then 0 accepted, 1 refused, 2 possibly delivered, 3 pending, and the error if the
    /// address was refused.
    #[serde(borrow, default)]
    recipients: Vec<(&'a str, u8, &'a str)>,
    /// Since version 3. Limit of a warning in seconds; 0 for none.
    #[serde(default)]
    limit: u32,
}

impl<'a> Record<'a> for OutboxRecord<'a> {
    const TABLE: &'static str = "outbox";
    const VERSION: u8 = 3;
}

#[derive(Serialize, Deserialize)]
struct DeliveryLogRecord<'a> {
    channel: u64,
    check: u64,
    flip: u64,
    event: u8,
    queued: i64,
    finished: i64,
    /// 0 delivered, 1 failed, 2 superseded, 3 skipped
    outcome: u8,
    attempts: u16,
    status: u16,
    reason: &'a str,
    told_with: Option<u64>,
    /// Since version 2.
    #[serde(default)]
    doubtful: bool,
}

impl<'a> Record<'a> for DeliveryLogRecord<'a> {
    const TABLE: &'static str = "deliveries";
    const VERSION: u8 = 2;
}

/// Returns the stored number of an event.
fn event_number(event: AlertEvent) -> u8 {
    match event {
        AlertEvent::Down => 0,
        AlertEvent::Up => 1,
        AlertEvent::Closed => 2,
        AlertEvent::Test => 3,
        AlertEvent::StillDown => 4,
        AlertEvent::Notice => 5,
        AlertEvent::Warning(WarningKind::Late) => 6,
        AlertEvent::Warning(WarningKind::NotStarted) => 7,
        AlertEvent::Warning(WarningKind::RanLong) => 8,
        AlertEvent::Warning(WarningKind::RanShort) => 9,
    }
}

/// Returns the event of a stored number.
fn event_from_number(number: u8) -> Option<AlertEvent> {
    Some(match number {
        0 => AlertEvent::Down,
        1 => AlertEvent::Up,
        2 => AlertEvent::Closed,
        3 => AlertEvent::Test,
        4 => AlertEvent::StillDown,
        5 => AlertEvent::Notice,
        6 => AlertEvent::Warning(WarningKind::Late),
        7 => AlertEvent::Warning(WarningKind::NotStarted),
        8 => AlertEvent::Warning(WarningKind::RanLong),
        9 => AlertEvent::Warning(WarningKind::RanShort),
        _ => return None,
    })
}

/// Returns the stored form of a recipient's result: its number and its error.
fn recipient_result_fields(result: &RecipientResult) -> (u8, &str) {
    match result {
        RecipientResult::Accepted => (0, ""),
        RecipientResult::Refused(error) => (1, error),
        RecipientResult::PossiblyDelivered => (2, ""),
        RecipientResult::Pending => (3, ""),
    }
}

fn recipient_result_from_fields(number: u8, error: &str) -> Option<RecipientResult> {
    Some(match number {
        0 => RecipientResult::Accepted,
        1 => RecipientResult::Refused(error.into()),
        2 => RecipientResult::PossiblyDelivered,
        3 => RecipientResult::Pending,
        _ => return None,
    })
}

/// Returns stored labels as domain types.
pub(super) fn labels_from_stored((name, slug, tags): (&str, &str, &str)) -> CheckLabels {
    CheckLabels {
        name: Name::from_stored(name),
        slug: Slug::from_stored(slug),
        tags: Tags::from_stored(tags),
    }
}

/// Returns the stored number of a result.
fn delivery_result_number(result: DeliveryResult) -> u8 {
    match result {
        DeliveryResult::Delivered => 0,
        DeliveryResult::Failed => 1,
        DeliveryResult::Superseded => 2,
        DeliveryResult::Skipped => 3,
    }
}

/// Returns the result of a stored number.
fn delivery_result_from_number(number: u8) -> Option<DeliveryResult> {
    Some(match number {
        0 => DeliveryResult::Delivered,
        1 => DeliveryResult::Failed,
        2 => DeliveryResult::Superseded,
        3 => DeliveryResult::Skipped,
        _ => return None,
    })
}

/// Creates the tables so that readers can open them.
pub(super) fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    for table in [OUTBOX, DELIVERIES] {
        transaction.open_table(table)?;
    }
    Ok(())
}

/// Reads a row of the outbox.
pub(super) fn read_outbox_row(number: u64, bytes: &[u8]) -> Result<OutboxRow, StoreError> {
    let row: OutboxRecord<'_> = record::decode(bytes)?;
    let recipient = |(address, result, error): &(&str, u8, &str)| {
        let unknown = || {
            record::invalid_row::<OutboxRecord<'_>>(&format_args!("result {result} of a recipient"))
        };
        let result = recipient_result_from_fields(*result, error).ok_or_else(unknown)?;
        Ok(Recipient {
            address: (*address).into(),
            result,
        })
    };
    let recipients = row
        .recipients
        .iter()
        .map(recipient)
        .collect::<Result<Arc<[_]>, StoreError>>()?;
    let (slug, tags) = row.gone_labels;
    Ok(OutboxRow {
        number: DeliveryNumber(number),
        channel: ChannelId(row.channel),
        check: CheckId(row.check),
        flip: FlipNumber(row.flip),
        event: event_from_number(row.event).ok_or_else(|| {
            record::invalid_row::<OutboxRecord<'_>>(&format_args!("event {}", row.event))
        })?,
        at: Timestamp::from_micros(row.at),
        queued: Timestamp::from_micros(row.queued),
        attempts: row.attempts,
        attempt_started: row.begun.map(Timestamp::from_micros),
        interruptions: row.interrupted,
        may_be_duplicate: row.doubtful,
        during_outage: row.away,
        dropped_before: row.skipped,
        deleted_check: row.gone.map(|(name, key)| {
            Box::new(DeletedCheck {
                labels: labels_from_stored((name, slug, tags)),
                unique_key: UniqueKey::from_bytes(key),
            })
        }),
        alerted_labels: row.told_as.map(|names| Arc::new(labels_from_stored(names))),
        part: row.part.map(|(last, attempts)| MessagePart {
            last_row: DeliveryNumber(last),
            attempts,
        }),
        limit: RunLimit::parse(row.limit.into())
            .map_err(|_| record::invalid_row::<OutboxRecord<'_>>(&"limit"))?,
        recipients,
    })
}

/// Reads an entry of the log of deliveries.
pub(super) fn read_delivery(number: u64, bytes: &[u8]) -> Result<DeliveryRecord, StoreError> {
    let row: DeliveryLogRecord<'_> = record::decode(bytes)?;
    let invalid_row = |what, number: u8| {
        record::invalid_row::<DeliveryLogRecord<'_>>(&format_args!("{what} {number}"))
    };
    Ok(DeliveryRecord {
        number: DeliveryNumber(number),
        channel: ChannelId(row.channel),
        check: CheckId(row.check),
        flip: FlipNumber(row.flip),
        event: event_from_number(row.event).ok_or_else(|| invalid_row("event", row.event))?,
        queued: Timestamp::from_micros(row.queued),
        finished: Timestamp::from_micros(row.finished),
        result: delivery_result_from_number(row.outcome)
            .ok_or_else(|| invalid_row("outcome", row.outcome))?,
        attempts: row.attempts,
        status: row.status,
        reason: row.reason.into(),
        merged_into: row.told_with.map(DeliveryNumber),
        may_be_duplicate: row.doubtful,
    })
}

impl Batch {
    /// Writes rows of the outbox.
    pub fn put_outbox_rows<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a OutboxRow>,
    ) -> Result<(), StoreError> {
        let mut table = self.table(OUTBOX)?;
        let mut bytes = Vec::new();
        for outbox_row in rows {
            let recipient = |recipient: &'a Recipient| {
                let (result, error) = recipient_result_fields(&recipient.result);
                (&*recipient.address, result, error)
            };
            let row = OutboxRecord {
                channel: outbox_row.channel.0,
                check: outbox_row.check.0,
                flip: outbox_row.flip.0,
                event: event_number(outbox_row.event),
                at: outbox_row.at.micros(),
                queued: outbox_row.queued.micros(),
                attempts: outbox_row.attempts,
                begun: outbox_row.attempt_started.map(Timestamp::micros),
                interrupted: outbox_row.interruptions,
                doubtful: outbox_row.may_be_duplicate,
                away: outbox_row.during_outage,
                skipped: outbox_row.dropped_before,
                gone: outbox_row
                    .deleted_check
                    .as_ref()
                    .map(|deleted| (deleted.labels.name.as_str(), deleted.unique_key.to_bytes())),
                gone_labels: outbox_row
                    .deleted_check
                    .as_ref()
                    .map_or(("", ""), |deleted| {
                        (deleted.labels.slug.as_str(), deleted.labels.tags.as_str())
                    }),
                told_as: outbox_row.alerted_labels.as_ref().map(|names| {
                    (
                        names.name.as_str(),
                        names.slug.as_str(),
                        names.tags.as_str(),
                    )
                }),
                part: outbox_row.part.map(|part| (part.last_row.0, part.attempts)),
                recipients: outbox_row.recipients.iter().map(recipient).collect(),
                limit: outbox_row.limit.number(),
            };
            record::encode(&row, &mut bytes)?;
            table.insert(outbox_row.number.0, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Removes rows of the outbox.
    pub fn remove_outbox_rows(
        &self,
        numbers: impl IntoIterator<Item = DeliveryNumber>,
    ) -> Result<(), StoreError> {
        let mut table = self.table(OUTBOX)?;
        numbers
            .into_iter()
            .try_for_each(|number| table.remove(number.0).map(drop))?;
        Ok(())
    }

    /// Appends entries to the log of deliveries.
    pub fn append_deliveries(&self, deliveries: &[DeliveryRecord]) -> Result<(), StoreError> {
        let mut table = self.table(DELIVERIES)?;
        let mut bytes = Vec::new();
        for delivery in deliveries {
            let row = DeliveryLogRecord {
                channel: delivery.channel.0,
                check: delivery.check.0,
                flip: delivery.flip.0,
                event: event_number(delivery.event),
                queued: delivery.queued.micros(),
                finished: delivery.finished.micros(),
                outcome: delivery_result_number(delivery.result),
                attempts: delivery.attempts,
                status: delivery.status,
                reason: &delivery.reason,
                told_with: delivery.merged_into.map(|number| number.0),
                doubtful: delivery.may_be_duplicate,
            };
            record::encode(&row, &mut bytes)?;
            table.insert(delivery.number.0, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Returns the oldest deliveries that finished before a time, at most `limit`. An unreadable
    /// row counts as finished.
    pub fn deliveries_finished_before(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<DeliveryNumber>, StoreError> {
        let table = self.table(DELIVERIES)?;
        let mut old = Vec::new();
        for row in table.iter()?.take(limit) {
            let (number, bytes) = row?;
            if read_delivery(number.value(), bytes.value())
                .is_ok_and(|delivery| delivery.finished >= before)
            {
                break;
            }
            old.push(DeliveryNumber(number.value()));
        }
        Ok(old)
    }

    /// Returns the number of deliveries in the log.
    pub fn delivery_count(&self) -> Result<u64, StoreError> {
        use redb::ReadableTableMetadata as _;
        Ok(self.table(DELIVERIES)?.len()?)
    }

    /// Calls `visit` with every delivery, oldest first; with `None` for an unreadable one.
    pub fn for_each_delivery(
        &self,
        mut visit: impl FnMut(DeliveryNumber, Option<DeliveryRecord>),
    ) -> Result<(), StoreError> {
        for row in self.table(DELIVERIES)?.iter()? {
            let (number, bytes) = row?;
            visit(
                DeliveryNumber(number.value()),
                read_delivery(number.value(), bytes.value()).ok(),
            );
        }
        Ok(())
    }

    /// Removes deliveries from the log.
    pub fn remove_deliveries(&self, numbers: &[DeliveryNumber]) -> Result<(), StoreError> {
        let mut table = self.table(DELIVERIES)?;
        numbers
            .iter()
            .try_for_each(|number| table.remove(number.0).map(drop))?;
        Ok(())
    }
}

/// Channels with a successful delivery in the log.
pub(super) fn channels_reached(
    transaction: &WriteTransaction,
) -> Result<BTreeSet<ChannelId>, StoreError> {
    let mut reached = BTreeSet::new();
    for row in transaction.open_table(DELIVERIES)?.iter()? {
        let (number, bytes) = row?;
        let delivery = read_delivery(number.value(), bytes.value()).ok();
        reached.extend(
            delivery
                .filter(|delivery| delivery.result == DeliveryResult::Delivered)
                .map(|delivery| delivery.channel),
        );
    }
    Ok(reached)
}

impl Snapshot {
    /// Returns the rows of the outbox, oldest first.
    pub fn outbox(
        &self,
    ) -> Result<impl Iterator<Item = Result<OutboxRow, StoreError>> + use<>, StoreError> {
        Ok(self
            .transaction
            .open_table(OUTBOX)?
            .range::<u64>(..)?
            .map(|row| {
                let (number, bytes) = row?;
                read_outbox_row(number.value(), bytes.value())
            }))
    }

    /// Returns the deliveries with numbers below `before`, newest first.
    pub fn deliveries_before(
        &self,
        before: DeliveryNumber,
    ) -> Result<impl Iterator<Item = Result<DeliveryRecord, StoreError>> + use<>, StoreError> {
        Ok(self
            .transaction
            .open_table(DELIVERIES)?
            .range(..before.0)?
            .rev()
            .map(|row| {
                let (number, bytes) = row?;
                read_delivery(number.value(), bytes.value())
            }))
    }
}
