//! What waits to be sent to channels, and the log of what has become of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::alert::{Delivery, DeliveryOutcome, Event, GoneCheck, OutboxRow, Part, Recipient, RecipientResult};
use crate::domain::check::NameSet;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, FlipNumber, UniqueKey};
use crate::domain::moment::Moment;
use crate::domain::text::{Name, Slug, Tags};

/// `outbox`: delivery number -> `WaitingRow`.
pub(super) const OUTBOX: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("outbox");
/// `deliveries`: delivery number -> `DeliveryRow`. The number is that of the outbox, so rows are added near the new end.
pub(super) const DELIVERIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("deliveries");

#[derive(Serialize, Deserialize)]
struct WaitingRow<'a> {
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
    /// Name and unique key.
    #[serde(borrow)]
    gone: Option<(&'a str, [u8; 20])>,
    /// Version 2 from here on. Slug and tags of one that is gone.
    #[serde(borrow, default)]
    gone_labels: (&'a str, &'a str),
    /// Name, slug and tags.
    #[serde(borrow, default)]
    told_as: Option<(&'a str, &'a str, &'a str)>,
    /// The row that begins last, and its attempts before.
    #[serde(default)]
    part: Option<(u64, u16)>,
    /// Address, 0 taken, 1 refused, 2 doubtful, 3 open, and the error if it is refused.
    #[serde(borrow, default)]
    recipients: Vec<(&'a str, u8, &'a str)>,
}

impl<'a> Record<'a> for WaitingRow<'a> {
    const TABLE: &'static str = "outbox";
    const VERSION: u8 = 2;
}

#[derive(Serialize, Deserialize)]
struct DeliveryRow<'a> {
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
    /// Version 2 from here on.
    #[serde(default)]
    doubtful: bool,
}

impl<'a> Record<'a> for DeliveryRow<'a> {
    const TABLE: &'static str = "deliveries";
    const VERSION: u8 = 2;
}

fn event_number(event: Event) -> u8 {
    match event {
        Event::Down => 0,
        Event::Up => 1,
        Event::Closed => 2,
        Event::Test => 3,
        Event::Still => 4,
        Event::Notice => 5,
    }
}

fn event_of(number: u8) -> Option<Event> {
    Some(match number {
        0 => Event::Down,
        1 => Event::Up,
        2 => Event::Closed,
        3 => Event::Test,
        4 => Event::Still,
        5 => Event::Notice,
        _ => return None,
    })
}

fn recipient_numbers(result: &RecipientResult) -> (u8, &str) {
    match result {
        RecipientResult::Taken => (0, ""),
        RecipientResult::Refused(error) => (1, error),
        RecipientResult::Doubtful => (2, ""),
        RecipientResult::Open => (3, ""),
    }
}

fn recipient_result_of(number: u8, error: &str) -> Option<RecipientResult> {
    Some(match number {
        0 => RecipientResult::Taken,
        1 => RecipientResult::Refused(error.into()),
        2 => RecipientResult::Doubtful,
        3 => RecipientResult::Open,
        _ => return None,
    })
}

/// Names as rows have them.
pub(super) fn names_of((name, slug, tags): (&str, &str, &str)) -> NameSet {
    NameSet { name: Name::stored(name), slug: Slug::stored(slug), tags: Tags::stored(tags) }
}

fn outcome_number(outcome: DeliveryOutcome) -> u8 {
    match outcome {
        DeliveryOutcome::Delivered => 0,
        DeliveryOutcome::Failed => 1,
        DeliveryOutcome::Superseded => 2,
        DeliveryOutcome::Skipped => 3,
    }
}

fn outcome_of(number: u8) -> Option<DeliveryOutcome> {
    Some(match number {
        0 => DeliveryOutcome::Delivered,
        1 => DeliveryOutcome::Failed,
        2 => DeliveryOutcome::Superseded,
        3 => DeliveryOutcome::Skipped,
        _ => return None,
    })
}

/// Makes the tables, so that readers find them.
pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    for table in [OUTBOX, DELIVERIES] {
        transaction.open_table(table)?;
    }
    Ok(())
}

/// The row of the outbox in these bytes.
pub(super) fn read_waiting(number: u64, bytes: &[u8]) -> Result<OutboxRow, StoreError> {
    let row: WaitingRow<'_> = record::decode(bytes)?;
    let recipient = |(address, result, error): &(&str, u8, &str)| {
        let unknown = || record::corrupt::<WaitingRow<'_>>(&format_args!("result {result} of a recipient"));
        let result = recipient_result_of(*result, error).ok_or_else(unknown)?;
        Ok(Recipient { address: (*address).into(), result })
    };
    let recipients = row.recipients.iter().map(recipient).collect::<Result<Arc<[_]>, StoreError>>()?;
    let (slug, tags) = row.gone_labels;
    Ok(OutboxRow {
        number: DeliveryNumber(number),
        channel: ChannelId(row.channel),
        check: CheckId(row.check),
        flip: FlipNumber(row.flip),
        event: event_of(row.event).ok_or_else(|| record::corrupt::<WaitingRow<'_>>(&format_args!("event {}", row.event)))?,
        at: Moment::from_micros(row.at),
        queued: Moment::from_micros(row.queued),
        attempts: row.attempts,
        begun: row.begun.map(Moment::from_micros),
        interrupted: row.interrupted,
        doubtful: row.doubtful,
        away: row.away,
        skipped: row.skipped,
        gone: row
            .gone
            .map(|(name, key)| Box::new(GoneCheck { names: names_of((name, slug, tags)), unique_key: UniqueKey::from_bytes(key) })),
        told_as: row.told_as.map(|names| Arc::new(names_of(names))),
        part: row.part.map(|(last, attempts)| Part { last: DeliveryNumber(last), attempts }),
        recipients,
    })
}

/// The entry of the log of deliveries in these bytes.
pub(super) fn read_delivery(number: u64, bytes: &[u8]) -> Result<Delivery, StoreError> {
    let row: DeliveryRow<'_> = record::decode(bytes)?;
    let corrupt = |what, number: u8| record::corrupt::<DeliveryRow<'_>>(&format_args!("{what} {number}"));
    Ok(Delivery {
        number: DeliveryNumber(number),
        channel: ChannelId(row.channel),
        check: CheckId(row.check),
        flip: FlipNumber(row.flip),
        event: event_of(row.event).ok_or_else(|| corrupt("event", row.event))?,
        queued: Moment::from_micros(row.queued),
        finished: Moment::from_micros(row.finished),
        outcome: outcome_of(row.outcome).ok_or_else(|| corrupt("outcome", row.outcome))?,
        attempts: row.attempts,
        status: row.status,
        reason: row.reason.into(),
        told_with: row.told_with.map(DeliveryNumber),
        doubtful: row.doubtful,
    })
}

impl Batch {
    /// Writes rows of the outbox.
    pub fn put_waiting<'a>(&self, rows: impl IntoIterator<Item = &'a OutboxRow>) -> Result<(), StoreError> {
        let mut table = self.transaction.open_table(OUTBOX)?;
        let mut bytes = Vec::new();
        for waiting in rows {
            let recipient = |recipient: &'a Recipient| {
                let (result, error) = recipient_numbers(&recipient.result);
                (&*recipient.address, result, error)
            };
            let row = WaitingRow {
                channel: waiting.channel.0,
                check: waiting.check.0,
                flip: waiting.flip.0,
                event: event_number(waiting.event),
                at: waiting.at.micros(),
                queued: waiting.queued.micros(),
                attempts: waiting.attempts,
                begun: waiting.begun.map(Moment::micros),
                interrupted: waiting.interrupted,
                doubtful: waiting.doubtful,
                away: waiting.away,
                skipped: waiting.skipped,
                gone: waiting.gone.as_ref().map(|gone| (gone.names.name.as_str(), gone.unique_key.to_bytes())),
                gone_labels: waiting.gone.as_ref().map_or(("", ""), |gone| (gone.names.slug.as_str(), gone.names.tags.as_str())),
                told_as: waiting.told_as.as_ref().map(|names| (names.name.as_str(), names.slug.as_str(), names.tags.as_str())),
                part: waiting.part.map(|part| (part.last.0, part.attempts)),
                recipients: waiting.recipients.iter().map(recipient).collect(),
            };
            record::encode(&row, &mut bytes)?;
            table.insert(waiting.number.0, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Removes rows of the outbox.
    pub fn remove_waiting(&self, numbers: impl IntoIterator<Item = DeliveryNumber>) -> Result<(), StoreError> {
        let mut table = self.transaction.open_table(OUTBOX)?;
        numbers.into_iter().try_for_each(|number| table.remove(number.0).map(drop))?;
        Ok(())
    }

    /// Adds to the log of deliveries.
    pub fn append_deliveries(&self, deliveries: &[Delivery]) -> Result<(), StoreError> {
        let mut table = self.transaction.open_table(DELIVERIES)?;
        let mut bytes = Vec::new();
        for delivery in deliveries {
            let row = DeliveryRow {
                channel: delivery.channel.0,
                check: delivery.check.0,
                flip: delivery.flip.0,
                event: event_number(delivery.event),
                queued: delivery.queued.micros(),
                finished: delivery.finished.micros(),
                outcome: outcome_number(delivery.outcome),
                attempts: delivery.attempts,
                status: delivery.status,
                reason: &delivery.reason,
                told_with: delivery.told_with.map(|number| number.0),
                doubtful: delivery.doubtful,
            };
            record::encode(&row, &mut bytes)?;
            table.insert(delivery.number.0, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Returns the oldest deliveries, at most `most`, that were finished before a moment. A row that cannot be read counts as one.
    pub fn deliveries_finished_before(&self, before: Moment, most: usize) -> Result<Vec<DeliveryNumber>, StoreError> {
        let table = self.transaction.open_table(DELIVERIES)?;
        let mut old = Vec::new();
        for row in table.iter()?.take(most) {
            let (number, bytes) = row?;
            if read_delivery(number.value(), bytes.value()).is_ok_and(|delivery| delivery.finished >= before) {
                break;
            }
            old.push(DeliveryNumber(number.value()));
        }
        Ok(old)
    }

    /// Returns the number of deliveries in the log.
    pub fn delivery_count(&self) -> Result<u64, StoreError> {
        use redb::ReadableTableMetadata as _;
        Ok(self.transaction.open_table(DELIVERIES)?.len()?)
    }

    /// Shows `visit` every delivery, oldest first; `None` in place of one that cannot be read.
    pub fn each_delivery(&self, mut visit: impl FnMut(DeliveryNumber, Option<Delivery>)) -> Result<(), StoreError> {
        for row in self.transaction.open_table(DELIVERIES)?.iter()? {
            let (number, bytes) = row?;
            visit(DeliveryNumber(number.value()), read_delivery(number.value(), bytes.value()).ok());
        }
        Ok(())
    }

    /// Removes deliveries from the log.
    pub fn remove_deliveries(&self, numbers: &[DeliveryNumber]) -> Result<(), StoreError> {
        let mut table = self.transaction.open_table(DELIVERIES)?;
        numbers.iter().try_for_each(|number| table.remove(number.0).map(drop))?;
        Ok(())
    }
}

/// The channels to which something was delivered, as far as the log of deliveries goes back.
pub(super) fn channels_reached(transaction: &WriteTransaction) -> Result<BTreeSet<ChannelId>, StoreError> {
    let mut reached = BTreeSet::new();
    for row in transaction.open_table(DELIVERIES)?.iter()? {
        let (number, bytes) = row?;
        let delivery = read_delivery(number.value(), bytes.value()).ok();
        reached.extend(delivery.filter(|delivery| delivery.outcome == DeliveryOutcome::Delivered).map(|delivery| delivery.channel));
    }
    Ok(reached)
}

impl Snapshot {
    /// What waits, oldest first.
    pub fn outbox(&self) -> Result<impl Iterator<Item = Result<OutboxRow, StoreError>> + use<>, StoreError> {
        Ok(self.transaction.open_table(OUTBOX)?.range::<u64>(..)?.map(|row| {
            let (number, bytes) = row?;
            read_waiting(number.value(), bytes.value())
        }))
    }

    /// What has become of what was to be sent: numbers below `before`, newest first.
    pub fn deliveries_before(
        &self,
        before: DeliveryNumber,
    ) -> Result<impl Iterator<Item = Result<Delivery, StoreError>> + use<>, StoreError> {
        Ok(self.transaction.open_table(DELIVERIES)?.range(..before.0)?.rev().map(|row| {
            let (number, bytes) = row?;
            read_delivery(number.value(), bytes.value())
        }))
    }
}
