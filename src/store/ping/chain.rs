//! Reads the pings of one check along their chain: each row names the arrival of the previous ping.

use redb::{AccessGuard, TableDefinition};

use super::row::PingRecord;
use super::{BODIES, KEPT_BODIES, KEPT_PINGS, PINGS, lock_if_large};
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::ping::Ping;
use crate::store::{Snapshot, StoreError, chunks, record};

/// Position in the chain of a check: a ping number and its arrival.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ChainPosition {
    n: u64,
    arrival: Arrival,
}

/// Row in the log, with its arrival.
type LoggedRow = (Arrival, AccessGuard<'static, &'static [u8]>);

impl Snapshot {
    /// Returns the pings of one check, newest first, from the newest (number `n` at `arrival`) down
    /// to number `down_to`. Stops at the first gap.
    pub fn pings_of(
        &self,
        check: CheckId,
        n: u64,
        arrival: Arrival,
        down_to: u64,
    ) -> Result<Vec<Ping>, StoreError> {
        let down_to = down_to.max(1);
        let mut position = ChainPosition { n, arrival };
        let mut chain = Vec::new();
        // The sweep leaves rows in the log that it could not read, and moves later ones.
        loop {
            let before = position;
            self.read_logged(check, &mut position, down_to, &mut chain)?;
            self.read_kept(check, &mut position, down_to, &mut chain)?;
            if position == before || position.n < down_to {
                return Ok(chain);
            }
        }
    }

    /// Reads pings from the log, up to the first that is not there.
    fn read_logged(
        &self,
        check: CheckId,
        position: &mut ChainPosition,
        down_to: u64,
        chain: &mut Vec<Ping>,
    ) -> Result<(), StoreError> {
        let pings = self.transaction.open_table(PINGS)?;
        while position.n >= down_to
            && let Some(bytes) = pings.get(position.arrival.0)?
        {
            chain.push(read_next(check, position, bytes.value())?);
        }
        Ok(())
    }

    /// Reads kept pings, up to the first that is not there.
    fn read_kept(
        &self,
        check: CheckId,
        position: &mut ChainPosition,
        down_to: u64,
        chain: &mut Vec<Ping>,
    ) -> Result<(), StoreError> {
        if position.n < down_to {
            return Ok(());
        }
        let kept = self.transaction.open_table(KEPT_PINGS)?;
        for row in kept
            .range((check.0, down_to)..=(check.0, position.n))?
            .rev()
        {
            let (key, bytes) = row?;
            // A raised log limit leaves a gap above the pings that were kept before.
            if key.value().1 != position.n {
                break;
            }
            chain.push(read_next(check, position, bytes.value())?);
        }
        Ok(())
    }

    /// Returns the number of the ping of a check at this arrival. `None` if it is no longer in the
    /// log.
    pub fn number_at(&self, check: CheckId, arrival: Arrival) -> Result<Option<u64>, StoreError> {
        let pings = self.transaction.open_table(PINGS)?;
        let Some(bytes) = pings.get(arrival.0)? else {
            return Ok(None);
        };
        let row: PingRecord<'_> = record::decode(bytes.value())?;
        Ok((row.check == check.0).then_some(row.n))
    }

    /// Returns ping `number` of a check whose newest ping is number `n` at `arrival`. `None` if
    /// there is no such ping. Newer pings are read but not collected.
    pub fn ping_of(
        &self,
        check: CheckId,
        n: u64,
        arrival: Arrival,
        number: u64,
    ) -> Result<Option<Ping>, StoreError> {
        self.with_ping_row(check, (n, arrival), number, |bytes, _| {
            PingRecord::read(bytes)
        })
    }

    /// Returns the body of ping `number` of a check whose newest ping is number `n` at `arrival`.
    /// `None` if there is no such ping or its body is empty.
    pub fn body_of(
        &self,
        check: CheckId,
        n: u64,
        arrival: Arrival,
        number: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let body = self.with_ping_row(check, (n, arrival), number, |bytes, in_log| {
            let row: PingRecord<'_> = record::decode(bytes)?;
            let _large_read_guard = lock_if_large(&row);
            match in_log {
                Some(arrival) => self.body(&row, BODIES, arrival.0),
                None => self.body(&row, KEPT_BODIES, (check.0, number)),
            }
        });
        body.map(Option::flatten)
    }

    /// Calls `read` with the bytes of the row of ping `number`, and with its arrival if the row is
    /// in the log and not among the kept pings.
    pub(super) fn with_ping_row<T>(
        &self,
        check: CheckId,
        (n, arrival): (u64, Arrival),
        number: u64,
        read: impl FnOnce(&[u8], Option<Arrival>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let number = number.max(1);
        if number > n {
            return Ok(None);
        }
        let newest = ChainPosition { n, arrival };
        if let Some((arrival, bytes)) = self.find_logged(check, newest, number)? {
            return read(bytes.value(), Some(arrival)).map(Some);
        }
        let kept = self.transaction.open_table(KEPT_PINGS)?;
        if let Some(bytes) = kept.get((check.0, number))? {
            verify_place(&record::decode(bytes.value())?, check, number)?;
            return read(bytes.value(), None).map(Some);
        }
        // The sweep leaves rows in the log that it could not read, and moves later ones.
        let Some(next) = kept
            .range((check.0, number)..=(check.0, n))?
            .next()
            .transpose()?
        else {
            return Ok(None);
        };
        let mut position = ChainPosition {
            n: next.0.value().1,
            arrival: Arrival(0),
        };
        read_next(check, &mut position, next.1.value())?;
        match self.find_logged(check, position, number)? {
            Some((arrival, bytes)) => read(bytes.value(), Some(arrival)).map(Some),
            None => Ok(None),
        }
    }

    /// Follows the chain from a position through the log to ping `number`. Returns its arrival and
    /// row; `None` if the chain leaves the log before.
    fn find_logged(
        &self,
        check: CheckId,
        mut position: ChainPosition,
        number: u64,
    ) -> Result<Option<LoggedRow>, StoreError> {
        let pings = self.transaction.open_table(PINGS)?;
        while position.n >= number
            && let Some(bytes) = pings.get(position.arrival.0)?
        {
            let row: PingRecord<'_> = record::decode(bytes.value())?;
            verify_place(&row, check, position.n)?;
            if position.n == number {
                return Ok(Some((position.arrival, bytes)));
            }
            position = ChainPosition {
                n: position.n - 1,
                arrival: Arrival(row.previous),
            };
        }
        Ok(None)
    }

    /// Returns the body of a ping. A body in a row of its own is in `table` at `key`.
    fn body<K: redb::Key + for<'k> redb::Value<SelfType<'k> = K>>(
        &self,
        row: &PingRecord<'_>,
        table: TableDefinition<'_, K, &'static [u8]>,
        key: K,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let read_chunks = |upload, len, body: &mut Vec<u8>| {
            chunks::read_upload(&self.transaction, upload, len, body)
        };
        row.body(read_chunks, || {
            Ok(self.transaction.open_table(table)?.get(key)?)
        })
    }
}

/// Reads the ping at a position, and moves the position to the previous ping.
fn read_next(
    check: CheckId,
    position: &mut ChainPosition,
    bytes: &[u8],
) -> Result<Ping, StoreError> {
    verify_place(&record::decode(bytes)?, check, position.n)?;
    let ping = PingRecord::read(bytes)?;
    *position = ChainPosition {
        n: position.n - 1,
        arrival: ping.previous,
    };
    Ok(ping)
}

/// Verifies that a step of a chain leads to the previous ping, so that no malformed row causes an
/// endless loop.
fn verify_place(row: &PingRecord<'_>, check: CheckId, n: u64) -> Result<(), StoreError> {
    if (CheckId(row.check), row.n) == (check, n) {
        Ok(())
    } else {
        Err(record::invalid_row::<PingRecord<'_>>(
            &"it does not continue the chain of its check",
        ))
    }
}
