//! Pings of checks that are being imported: they never arrived here, and lie among the kept from the beginning.

use super::row::PingRow;
use super::{KEPT_BODIES, KEPT_PINGS};
use crate::domain::ping::Ping;
use crate::store::{Batch, StoreError, record};

/// What was put among the kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Pings that were not there before.
    pub pings: u64,
    /// Bytes of their bodies that count as long.
    pub bytes: u64,
}

impl Batch {
    /// Puts pings with their bodies among the kept. One that is there already is written anew.
    pub fn keep_pings<B: AsRef<[u8]>>(&self, pings: &[(Ping, B)]) -> Result<Kept, StoreError> {
        let (mut kept_pings, mut kept_bodies) = (self.transaction.open_table(KEPT_PINGS)?, self.transaction.open_table(KEPT_BODIES)?);
        let (mut kept, mut row) = (Kept::default(), Vec::new());
        let mut places: Vec<_> = pings.iter().map(|(ping, body)| ((ping.check.0, ping.n), ping, body.as_ref())).collect();
        // In the order of their places they touch the fewest pages.
        places.sort_by_key(|(place, ..)| *place);
        for (place, ping, body) in places {
            record::encode(&PingRow::new(ping, body, None, &mut None), &mut row)?;
            let old = kept_pings.insert(place, row.as_slice())?;
            let old = old.map(|old| record::decode::<PingRow<'_>>(old.value()).map_or(0, |row| row.long_bytes()));
            kept.pings += u64::from(old.is_none());
            kept.bytes = (kept.bytes + ping.long_bytes()).saturating_sub(old.unwrap_or(0));
            if body.is_empty() {
                kept_bodies.remove(place)?;
            } else {
                kept_bodies.insert(place, body)?;
            }
        }
        Ok(kept)
    }
}
