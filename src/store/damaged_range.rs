//! Search for the first readable entry of the log of pings after unreadable pages.

use redb::StorageError;

use super::ping::{BODIES, PINGS};
use super::{Snapshot, StoreError};
use crate::domain::ids::Arrival;

/// Maximum number of rows that are searched for the first unreadable one.
const MAX_SEARCHED_ROWS: usize = 4096;

impl Snapshot {
    /// Returns the first arrival after all unreadable rows between `from` and `up_to`. Returns
    /// `from` if all rows can be read.
    pub fn first_readable_arrival(
        &self,
        from: Arrival,
        up_to: Arrival,
    ) -> Result<Arrival, StoreError> {
        let pings = self.transaction.open_table(PINGS)?;
        let bodies = self.transaction.open_table(BODIES)?;
        // Walks the rows up to the first unreadable one.
        let mut last = from.0;
        let mut damaged = false;
        for row in pings.range(from.0..=up_to.0)?.take(MAX_SEARCHED_ROWS) {
            match row.and_then(|(arrival, _)| bodies.get(arrival.value()).map(|_| arrival.value()))
            {
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
        // A page has few or many rows. Doubling steps find its end quickly.
        let mut step = 1;
        while last.saturating_add(step) < up_to.0 {
            let next = last + step;
            let is_damaged =
                |found: Result<(), StorageError>| matches!(found, Err(StorageError::Corrupted(_)));
            let ping = pings.range(next..)?.next().transpose().map(drop);
            if !is_damaged(ping) && !is_damaged(bodies.get(next).map(drop)) {
                return Ok(Arrival(next));
            }
            step *= 2;
        }
        Ok(up_to)
    }
}
