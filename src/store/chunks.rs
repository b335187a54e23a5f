//! Long bodies. They are written in chunks over several commits before the pings that they belong
//! to, so that no commit takes long.
//!
//! An upload is unreferenced from its first chunk until the commit that logs its pings, and again
//! once the last of these pings is removed. An unreferenced upload that is not being written is
//! removed chunk by chunk.

use std::collections::HashMap;

use redb::{ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use super::ping::BodyPart;
use super::{Batch, StoreError};

/// `pieces`: (upload, chunk number from 0) -> bytes of a body.
pub(super) const CHUNKS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("pieces");
/// `uploads`: upload -> number of pings with this body.
pub(super) const UPLOADS: TableDefinition<'_, u64, u64> = TableDefinition::new("uploads");
/// `unreferred`: uploads that are the body of no ping.
pub(super) const UNREFERENCED: TableDefinition<'_, u64, ()> = TableDefinition::new("unreferred");

/// Creates the tables so that readers can open them.
pub(super) fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(CHUNKS)?;
    transaction.open_table(UPLOADS)?;
    transaction.open_table(UNREFERENCED)?;
    Ok(())
}

impl Batch {
    /// Begins an upload and returns its number.
    pub fn begin_upload(&self) -> Result<u64, StoreError> {
        let last = self
            .table(UPLOADS)?
            .last()?
            .map_or(0, |(number, _)| number.value());
        let mut unreferenced = self.table(UNREFERENCED)?;
        let number = unreferenced
            .last()?
            .map_or(0, |(number, _)| number.value())
            .max(last)
            + 1;
        unreferenced.insert(number, ())?;
        Ok(number)
    }

    /// Adds a chunk to an upload.
    pub fn put_chunk(&self, upload: u64, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.table(CHUNKS)?.insert((upload, index), bytes)?;
        Ok(())
    }

    /// Sets the number of pings that have this upload as their body. The upload is then referenced.
    pub(super) fn set_references(&self, upload: u64, pings: u64) -> Result<(), StoreError> {
        self.table(UNREFERENCED)?.remove(upload)?;
        self.table(UPLOADS)?.insert(upload, pings)?;
        Ok(())
    }

    /// Removes one reference to each of these uploads, which may repeat. Returns true if an upload
    /// became unreferenced.
    pub(super) fn remove_references(&self, referenced: &[u64]) -> Result<bool, StoreError> {
        if referenced.is_empty() {
            return Ok(false);
        }
        let mut uploads = self.table(UPLOADS)?;
        let mut unreferenced = self.table(UNREFERENCED)?;
        let mut has_new_unreferenced = false;
        for upload in referenced {
            let count = uploads.get(upload)?.map_or(0, |pings| pings.value());
            if count > 1 {
                uploads.insert(upload, count - 1)?;
            } else {
                uploads.remove(upload)?;
                unreferenced.insert(upload, ())?;
                has_new_unreferenced = true;
            }
        }
        Ok(has_new_unreferenced)
    }

    /// Sets the number of references of each upload; uploads that are not listed have none. Returns
    /// true if a number changed.
    pub(super) fn set_reference_counts(
        &self,
        counts: &HashMap<u64, u64>,
    ) -> Result<bool, StoreError> {
        let mut uploads = self.table(UPLOADS)?;
        let mut unreferenced = self.table(UNREFERENCED)?;
        let rows = uploads
            .iter()?
            .map(|row| row.map(|(upload, pings)| (upload.value(), pings.value())));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let mut is_changed = false;
        for (upload, pings) in rows {
            match counts.get(&upload) {
                Some(counted) if *counted == pings => continue,
                Some(counted) => drop(uploads.insert(upload, *counted)?),
                None => {
                    uploads.remove(upload)?;
                    unreferenced.insert(upload, ())?;
                }
            }
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// Returns the first unreferenced upload from a number on, except the one that is being
    /// written.
    pub fn first_unreferenced(
        &self,
        from: u64,
        upload_in_progress: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let unreferenced = self.table(UNREFERENCED)?;
        for row in unreferenced.range(from..)? {
            let number = row?.0.value();
            if Some(number) != upload_in_progress {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Removes chunks of an unreferenced upload: at least one, and further ones until `max_bytes`
    /// are removed. The upload itself is removed with its last chunk. Returns the number of removed
    /// chunks.
    pub fn remove_chunks(&self, upload: u64, max_bytes: u64) -> Result<usize, StoreError> {
        let mut chunks = self.table(CHUNKS)?;
        let mut removed = 0;
        let mut bytes = 0;
        while removed == 0 || bytes < max_bytes {
            // One chunk at a time: looking up a key reads its chunk.
            let next = chunks
                .range((upload, 0)..=(upload, u64::MAX))?
                .next()
                .transpose()?
                .map(|(key, _)| key.value());
            let Some(key) = next else {
                self.table(UNREFERENCED)?.remove(upload)?;
                break;
            };
            bytes += chunks
                .remove(key)?
                .map_or(0, |chunk| chunk.value().len() as u64);
            removed += 1;
        }
        Ok(removed)
    }
}

/// Appends the chunks of an upload to `body`, up to a length of `len`.
pub(super) fn read_upload(
    transaction: &ReadTransaction,
    upload: u64,
    len: usize,
    body: &mut Vec<u8>,
) -> Result<(), StoreError> {
    for row in transaction
        .open_table(CHUNKS)?
        .range((upload, 0)..=(upload, u64::MAX))?
    {
        let (_, chunk) = row?;
        if body.len() + chunk.value().len() > len {
            break;
        }
        body.extend_from_slice(chunk.value());
    }
    Ok(())
}

/// Returns a part of the body in an upload. Reads only the chunks that contain the part.
pub(super) fn read_upload_part(
    transaction: &ReadTransaction,
    upload: u64,
    part: BodyPart,
) -> Result<Vec<u8>, StoreError> {
    let chunks = transaction.open_table(CHUNKS)?;
    let mut rows = chunks.range((upload, 0)..=(upload, u64::MAX))?;
    let mut parts = Vec::new();
    let mut len = 0;
    loop {
        let (row, limit) = match part {
            BodyPart::First(limit) => (rows.next(), limit),
            BodyPart::Last(limit) => (rows.next_back(), limit),
        };
        let Some(row) = row.filter(|_| len < limit).transpose()? else {
            break;
        };
        len += row.1.value().len();
        parts.push(row.1.value().to_vec());
    }
    if let BodyPart::Last(_) = part {
        parts.reverse();
    }
    let mut body = parts.concat();
    match part {
        BodyPart::First(limit) => body.truncate(limit),
        BodyPart::Last(limit) => drop(body.drain(..body.len().saturating_sub(limit))),
    }
    Ok(body)
}
