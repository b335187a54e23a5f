//! Where the log of pings goes on behind pages that cannot be read.

use redb::StorageError;

use super::ping::{BODIES, PINGS};
use super::{Snapshot, StoreError};
use crate::domain::ids::Arrival;

/// Rows among which one that cannot be read is searched.
const MAX_SEARCHED_ROWS: usize = 4096;

impl Snapshot {
    /// The first arrival, from a given one up to another, after everything in between that cannot be read; the given one if all can.
    pub fn first_readable_arrival(&self, from: Arrival, up_to: Arrival) -> Result<Arrival, StoreError> {
        let pings = self.transaction.open_table(PINGS)?;
        let bodies = self.transaction.open_table(BODIES)?;
        // The rows up to the first that cannot be read.
        let (mut last, mut damaged) = (from.0, false);
        for row in pings.range(from.0..=up_to.0)?.take(MAX_SEARCHED_ROWS) {
            match row.and_then(|(arrival, _)| bodies.get(arrival.value()).map(|_| arrival.value())) {
                Ok(arrival) => last = arrival,
                Err(StorageError::Corrupted(_)) => {
                    damaged = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !damaged {
            return Ok(from);
        }
        // A page holds few or many rows: steps that double find its end soon.
        let mut step = 1;
        while last.saturating_add(step) < up_to.0 {
            let next = last + step;
            let is_damaged = |found: Result<(), StorageError>| matches!(found, Err(StorageError::Corrupted(_)));
            let ping = pings.range(next..)?.next().transpose().map(drop);
            if !is_damaged(ping) && !is_damaged(bodies.get(next).map(drop)) {
                return Ok(Arrival(next));
            }
            step *= 2;
        }
        Ok(up_to)
    }
}
