//! Log of flips: every change of a stored status in the order of recording, with a chain for each
//! check.

use std::num::NonZeroU8;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::check::{status_from_number, status_number};
use super::record::{self, Record};
use super::{Batch, MetaKey, Snapshot, StoreError};
use crate::domain::flip::{Flip, FlipCause, LoggedFlip};
use crate::domain::ids::{Arrival, CheckId, FlipNumber};
use crate::domain::timestamp::Timestamp;

/// `flips`: flip number -> `FlipRecord`. A row names the previous flip of its check. Reading
/// follows this chain; pruning cuts off its old end.
pub(super) const FLIPS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("flips");

#[derive(Serialize, Deserialize)]
struct FlipRecord {
    check: u64,
    previous: u64,
    at: i64,
    from: u8,
    to: u8,
    /// Since version 2. Arrival of the ping during which the flip was decided; 0 if none.
    #[serde(default)]
    arrival: u64,
    /// 0 unknown, 1 late, 2 overrun, 3 edited, 4 fail, 5 exit status, 6 keyword, 7 no keyword, 8
    /// success, 9 operator. Since version 4: 10 pause ended
    #[serde(default)]
    cause: u8,
    /// Exit status, if that is the cause; otherwise 0.
    #[serde(default)]
    detail: u8,
    /// Since version 3.
    #[serde(default)]
    awaited: Option<i64>,
}

impl Record<'_> for FlipRecord {
    const TABLE: &'static str = "flips";
    const VERSION: u8 = 4;
}

/// Returns the stored form of a cause: its number and its detail.
fn cause_numbers(cause: FlipCause) -> (u8, u8) {
    match cause {
        FlipCause::Unknown => (0, 0),
        FlipCause::MissedPing => (1, 0),
        FlipCause::Overrun => (2, 0),
        FlipCause::SettingsChanged => (3, 0),
        FlipCause::Fail => (4, 0),
        FlipCause::ExitStatus(status) => (5, status.get()),
        FlipCause::Keyword => (6, 0),
        FlipCause::NoKeyword => (7, 0),
        FlipCause::Success => (8, 0),
        FlipCause::PausedOrResumed => (9, 0),
        FlipCause::PauseEnded => (10, 0),
    }
}

/// Returns the cause of a stored number and its detail.
fn cause_from_numbers(number: u8, detail: u8) -> Option<FlipCause> {
    Some(match number {
        0 => FlipCause::Unknown,
        1 => FlipCause::MissedPing,
        2 => FlipCause::Overrun,
        3 => FlipCause::SettingsChanged,
        4 => FlipCause::Fail,
        5 => FlipCause::ExitStatus(NonZeroU8::new(detail)?),
        6 => FlipCause::Keyword,
        7 => FlipCause::NoKeyword,
        8 => FlipCause::Success,
        9 => FlipCause::PausedOrResumed,
        10 => FlipCause::PauseEnded,
        _ => return None,
    })
}

impl FlipRecord {
    fn read(bytes: &[u8]) -> Result<LoggedFlip, StoreError> {
        let row: Self = record::decode(bytes)?;
        let status = |number| {
            status_from_number(number)
                .ok_or_else(|| record::invalid_row::<Self>(&format_args!("status {number}")))
        };
        let cause = cause_from_numbers(row.cause, row.detail)
            .ok_or_else(|| record::invalid_row::<Self>(&format_args!("cause {}", row.cause)))?;
        Ok(LoggedFlip {
            check: CheckId(row.check),
            previous: FlipNumber(row.previous),
            arrival: Arrival(row.arrival),
            flip: Flip {
                at: Timestamp::from_micros(row.at),
                from: status(row.from)?,
                to: status(row.to)?,
                cause,
                awaited_since: row.awaited.map(Timestamp::from_micros),
            },
        })
    }
}

/// Reads the flip in a row.
pub(super) fn read_flip(bytes: &[u8]) -> Result<LoggedFlip, StoreError> {
    FlipRecord::read(bytes)
}

/// Creates the table so that readers can open it.
pub(super) fn create_table(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(FLIPS)?;
    Ok(())
}

/// Number of the newest flip; 0 if there is none.
pub(super) fn newest_flip_number(transaction: &WriteTransaction) -> Result<u64, StoreError> {
    Ok(transaction
        .open_table(FLIPS)?
        .last()?
        .map_or(0, |(number, _)| number.value()))
}

/// Result of one step of pruning flips.
#[derive(Debug, Default)]
pub struct FlipPruneResult {
    /// Number of removed rows.
    pub removed: usize,
    /// Error of an unreadable row, if there was one.
    pub unreadable_row: Option<StoreError>,
    /// Flip from which the next step continues; `None` at the end.
    pub next: Option<FlipNumber>,
}

impl Batch {
    /// Appends flips to the log.
    pub fn append_flips<'a>(
        &self,
        flips: impl IntoIterator<Item = &'a (FlipNumber, LoggedFlip)>,
    ) -> Result<(), StoreError> {
        let mut table = self.table(FLIPS)?;
        let mut bytes = Vec::new();
        for (
            number,
            LoggedFlip {
                check,
                previous,
                arrival,
                flip,
            },
        ) in flips
        {
            let (cause, detail) = cause_numbers(flip.cause);
            let row = FlipRecord {
                check: check.0,
                previous: previous.0,
                at: flip.at.micros(),
                from: status_number(flip.from),
                to: status_number(flip.to),
                arrival: arrival.0,
                cause,
                detail,
                awaited: flip.awaited_since.map(Timestamp::micros),
            };
            record::encode(&row, &mut bytes)?;
            table.insert(number.0, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Examines at most `limit` flips from number `from` to `up_to`, and removes those for which
    /// `is_dead` is true. Each flip is examined, because times may be out of order after the clock
    /// was set. A flip is kept if the previous flip of its check was kept and `blocks_successor` is
    /// true for that previous flip, so that a chain is cut only at its old end. An unreadable row
    /// is kept.
    pub fn prune_flips(
        &self,
        from: FlipNumber,
        up_to: FlipNumber,
        limit: usize,
        is_dead: impl Fn(&LoggedFlip) -> bool,
        blocks_successor: impl Fn(&LoggedFlip) -> bool,
    ) -> Result<FlipPruneResult, StoreError> {
        let mut pruned = FlipPruneResult::default();
        if from > up_to {
            return Ok(pruned);
        }
        let mut table = self.table(FLIPS)?;
        let mut removed = Vec::new();
        let is_blocked = |logged: &LoggedFlip, removed: &[u64]| -> Result<bool, StoreError> {
            if removed.binary_search(&logged.previous.0).is_ok() {
                return Ok(false);
            }
            let previous = table
                .get(logged.previous.0)?
                .and_then(|row| FlipRecord::read(row.value()).ok());
            Ok(previous.is_some_and(|previous| {
                previous.check == logged.check && blocks_successor(&previous)
            }))
        };
        for (count, row) in table.range(from.0..=up_to.0)?.enumerate() {
            let (number, bytes) = row?;
            if count == limit {
                pruned.next = Some(FlipNumber(number.value()));
                break;
            }
            match FlipRecord::read(bytes.value()) {
                Ok(logged) if is_dead(&logged) && !is_blocked(&logged, &removed)? => {
                    removed.push(number.value());
                }
                Ok(_) => {}
                Err(error) => pruned.unreadable_row = Some(error),
            }
        }
        pruned.removed = removed.len();
        if let (Some(first), Some(last)) = (removed.first(), removed.last()) {
            table.retain_in(*first..=*last, |number, _| {
                removed.binary_search(&number).is_err()
            })?;
        }
        Ok(pruned)
    }
}

impl Snapshot {
    /// Returns the flip of this number; `None` if it was pruned.
    pub fn flip(&self, number: FlipNumber) -> Result<Option<LoggedFlip>, StoreError> {
        let row = self.transaction.open_table(FLIPS)?.get(number.0)?;
        row.map(|bytes| FlipRecord::read(bytes.value())).transpose()
    }

    /// True if the times of the remaining flips of each check are in order.
    pub fn flips_are_in_order(&self) -> Result<bool, StoreError> {
        let first = self
            .transaction
            .open_table(FLIPS)?
            .first()?
            .map(|(number, _)| number.value());
        Ok(first.unwrap_or(u64::MAX) > self.meta_value(MetaKey::FlipsOutOfOrder)?)
    }

    /// Returns the flips after a number, oldest first.
    pub fn flips_after(
        &self,
        number: FlipNumber,
    ) -> Result<
        impl Iterator<Item = Result<(FlipNumber, LoggedFlip), StoreError>> + use<>,
        StoreError,
    > {
        Ok(self
            .transaction
            .open_table(FLIPS)?
            .range(number.0.saturating_add(1)..)?
            .map(|row| {
                let (number, bytes) = row?;
                Ok((FlipNumber(number.value()), FlipRecord::read(bytes.value())?))
            }))
    }

    /// Returns the flips of one check, newest first, from `last` on as far as they are kept.
    pub fn flips_of(
        &self,
        check: CheckId,
        last: FlipNumber,
    ) -> Result<impl Iterator<Item = Result<LoggedFlip, StoreError>> + use<>, StoreError> {
        let table = self.transaction.open_table(FLIPS)?;
        let mut next = last;
        Ok(std::iter::from_fn(move || {
            let number = std::mem::replace(&mut next, FlipNumber(0));
            let row = table.get(number.0).map_err(StoreError::from).transpose()?;
            match row.and_then(|bytes| FlipRecord::read(bytes.value())) {
                // The number of a pruned flip may be reused once no row names it. Another check
                // means that the chain has ended.
                Ok(row) if row.check != check => None,
                // Each step must lead further back, so that no malformed row causes an endless
                // loop.
                Ok(row) if row.previous >= number => Some(Err(record::invalid_row::<FlipRecord>(
                    &"its chain does not lead to an earlier flip",
                ))),
                Ok(row) => {
                    next = row.previous;
                    Some(Ok(row))
                }
                Err(error) => Some(Err(error)),
            }
        }))
    }
}
