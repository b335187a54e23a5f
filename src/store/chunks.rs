//! Long bodies, which are written in pieces over several commits, ahead of the pings that they belong to: so no commit is long.
//!
//! An upload is unreferred from its first piece on, until the commit that logs its pings; and again when the last of them has gone. What is
//! unreferred when nobody writes it belongs to nobody and is removed, piece by piece.

use std::collections::HashMap;

use redb::{ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use super::ping::BodyPart;
use super::{Batch, StoreError};

/// `pieces`: (upload, place) -> bytes of a body, the first place is 0.
pub(super) const CHUNKS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("pieces");
/// `uploads`: upload -> how many pings have it as their body.
pub(super) const UPLOADS: TableDefinition<'_, u64, u64> = TableDefinition::new("uploads");
/// `unreferred`: uploads that no ping has as its body.
pub(super) const UNREFERENCED: TableDefinition<'_, u64, ()> = TableDefinition::new("unreferred");

/// Makes the tables, so that readers find them.
pub(super) fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(CHUNKS)?;
    transaction.open_table(UPLOADS)?;
    transaction.open_table(UNREFERENCED)?;
    Ok(())
}

impl Batch {
    /// Begins an upload; its number.
    pub fn begin_upload(&self) -> Result<u64, StoreError> {
        let last = self.transaction.open_table(UPLOADS)?.last()?.map_or(0, |(number, _)| number.value());
        let mut unreferred = self.transaction.open_table(UNREFERENCED)?;
        let number = unreferred.last()?.map_or(0, |(number, _)| number.value()).max(last) + 1;
        unreferred.insert(number, ())?;
        Ok(number)
    }

    /// Adds a piece to an upload.
    pub fn put_chunk(&self, upload: u64, place: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.transaction.open_table(CHUNKS)?.insert((upload, place), bytes)?;
        Ok(())
    }

    /// So many pings have this upload as their body from now on.
    pub(super) fn add_references(&self, upload: u64, pings: u64) -> Result<(), StoreError> {
        self.transaction.open_table(UNREFERENCED)?.remove(upload)?;
        self.transaction.open_table(UPLOADS)?.insert(upload, pings)?;
        Ok(())
    }

    /// For each of these, which may repeat, one ping less has it as its body; whether some are unreferred now.
    pub(super) fn remove_references(&self, gone: &[u64]) -> Result<bool, StoreError> {
        if gone.is_empty() {
            return Ok(false);
        }
        let mut uploads = self.transaction.open_table(UPLOADS)?;
        let mut unreferred = self.transaction.open_table(UNREFERENCED)?;
        let mut some = false;
        for upload in gone {
            let left = uploads.get(upload)?.map_or(0, |pings| pings.value());
            if left > 1 {
                uploads.insert(upload, left - 1)?;
            } else {
                uploads.remove(upload)?;
                unreferred.insert(upload, ())?;
                some = true;
            }
        }
        Ok(some)
    }

    /// Each upload has so many pings, or none; whether that is news.
    pub(super) fn set_reference_counts(&self, counts: &HashMap<u64, u64>) -> Result<bool, StoreError> {
        let mut uploads = self.transaction.open_table(UPLOADS)?;
        let mut unreferred = self.transaction.open_table(UNREFERENCED)?;
        let rows = uploads.iter()?.map(|row| row.map(|(upload, pings)| (upload.value(), pings.value())));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let mut news = false;
        for (upload, pings) in rows {
            match counts.get(&upload) {
                Some(counted) if *counted == pings => continue,
                Some(counted) => drop(uploads.insert(upload, *counted)?),
                None => {
                    uploads.remove(upload)?;
                    unreferred.insert(upload, ())?;
                }
            }
            news = true;
        }
        Ok(news)
    }

    /// The first unreferred upload from a number on, apart from the one that is being written.
    pub fn first_unreferenced(&self, from: u64, written: Option<u64>) -> Result<Option<u64>, StoreError> {
        let unreferred = self.transaction.open_table(UNREFERENCED)?;
        for row in unreferred.range(from..)? {
            let number = row?.0.value();
            if Some(number) != written {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Removes pieces of an unreferred upload, one at least, and none more once `most_bytes` are gone; with the last it is forgotten. How many.
    pub fn remove_chunks(&self, upload: u64, most_bytes: u64) -> Result<usize, StoreError> {
        let mut pieces = self.transaction.open_table(CHUNKS)?;
        let (mut removed, mut bytes) = (0, 0);
        while removed == 0 || bytes < most_bytes {
            // One after the other: looking at a place reads its piece.
            let next = pieces.range((upload, 0)..=(upload, u64::MAX))?.next().transpose()?.map(|(place, _)| place.value());
            let Some(place) = next else {
                self.transaction.open_table(UNREFERENCED)?.remove(upload)?;
                break;
            };
            bytes += pieces.remove(place)?.map_or(0, |piece| piece.value().len() as u64);
            removed += 1;
        }
        Ok(removed)
    }
}

/// Puts the pieces of an upload together in `body`, as many as it has room for.
pub(super) fn read_upload(transaction: &ReadTransaction, upload: u64, len: usize, body: &mut Vec<u8>) -> Result<(), StoreError> {
    for row in transaction.open_table(CHUNKS)?.range((upload, 0)..=(upload, u64::MAX))? {
        let (_, piece) = row?;
        if body.len() + piece.value().len() > len {
            break;
        }
        body.extend_from_slice(piece.value());
    }
    Ok(())
}

/// Returns a part of the body in an upload. No more pieces are read than hold it.
pub(super) fn read_upload_part(transaction: &ReadTransaction, upload: u64, part: BodyPart) -> Result<Vec<u8>, StoreError> {
    let pieces = transaction.open_table(CHUNKS)?;
    let mut rows = pieces.range((upload, 0)..=(upload, u64::MAX))?;
    let (mut found, mut len) = (Vec::new(), 0);
    loop {
        let (row, most) = match part {
            BodyPart::First(most) => (rows.next(), most),
            BodyPart::Last(most) => (rows.next_back(), most),
        };
        let Some(row) = row.filter(|_| len < most).transpose()? else { break };
        len += row.1.value().len();
        found.push(row.1.value().to_vec());
    }
    if let BodyPart::Last(_) = part {
        found.reverse();
    }
    let mut body = found.concat();
    match part {
        BodyPart::First(most) => body.truncate(most),
        BodyPart::Last(most) => drop(body.drain(..body.len().saturating_sub(most))),
    }
    Ok(body)
}
