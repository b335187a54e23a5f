//! Pings of checks that are being imported. They never arrived at this server and are stored as
//! kept pings from the beginning.

use super::row::PingRecord;
use super::{KEPT_BODIES, KEPT_PINGS};
use crate::domain::ping::Ping;
use crate::store::{Batch, StoreError, record};

/// Result of adding kept pings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptPutResult {
    /// Number of pings that did not exist before.
    pub pings: u64,
    /// Bytes of their bodies beyond the first 1,024 of each.
    pub bytes: u64,
    /// True if an upload became unreferenced.
    pub has_new_unreferenced: bool,
}

impl Batch {
    /// Adds kept pings with their bodies. An existing ping is overwritten. Pings with sharers have
    /// the `upload` as their body.
    pub fn put_kept_pings<B: AsRef<[u8]>>(
        &self,
        pings: &[(Ping, B)],
        upload: Option<u64>,
    ) -> Result<KeptPutResult, StoreError> {
        let mut kept_pings = self.table(KEPT_PINGS)?;
        let mut kept_bodies = self.table(KEPT_BODIES)?;
        let mut kept = KeptPutResult::default();
        let mut row = Vec::new();
        let mut checksum = None;
        let mut old_uploads = Vec::new();
        let mut rows: Vec<_> = pings
            .iter()
            .map(|(ping, body)| ((ping.check.0, ping.n), ping, body.as_ref()))
            .collect();
        // Sorted by key, the writes touch the fewest pages.
        rows.sort_by_key(|(key, ..)| *key);
        for (key, ping, body) in rows {
            record::encode(
                &PingRecord::new(ping, body, upload, &mut checksum),
                &mut row,
            )?;
            let old = kept_pings.insert(key, row.as_slice())?;
            let old = old.map(|old| {
                record::decode::<PingRecord<'_>>(old.value())
                    .map_or((0, None), |row| (row.excess_bytes(), row.upload))
            });
            kept.pings += u64::from(old.is_none());
            let (old_bytes, old_upload) = old.unwrap_or_default();
            kept.bytes = (kept.bytes + ping.excess_body_bytes()).saturating_sub(old_bytes);
            old_uploads.extend(old_upload.map(|(upload, _)| upload));
            if body.is_empty() || ping.body_sharers > 0 {
                kept_bodies.remove(key)?;
            } else {
                kept_bodies.insert(key, body)?;
            }
        }
        drop((kept_pings, kept_bodies));
        let sharing = pings
            .iter()
            .filter(|(ping, _)| ping.body_sharers > 0)
            .count();
        if let Some(upload) = upload.filter(|_| sharing > 0) {
            self.set_references(upload, sharing as u64)?;
        }
        kept.has_new_unreferenced = self.remove_references(&old_uploads)?;
        Ok(kept)
    }
}
