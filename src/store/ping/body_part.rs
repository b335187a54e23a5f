//! Reads parts of bodies, so that a long body need not be read whole.

use super::row::PingRecord;
use super::{BODIES, KEPT_BODIES, lock_if_large};
use crate::domain::ids::{Arrival, CheckId};
use crate::store::{Snapshot, StoreError, chunks, record};

/// Part of a body to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyPart {
    /// First bytes of the body, at most this many.
    First(usize),
    /// Last bytes of the body, at most this many.
    Last(usize),
}

impl BodyPart {
    /// Returns this part of a body.
    pub(in crate::store) fn slice_of(self, body: &[u8]) -> &[u8] {
        match self {
            Self::First(limit) => body.get(..limit).unwrap_or(body),
            Self::Last(limit) => body.get(body.len().saturating_sub(limit)..).unwrap_or(body),
        }
    }
}

impl Snapshot {
    /// Returns a part of the body of ping `number` of a check whose newest ping is number `n` at
    /// `arrival`. `None` if the ping is gone or its body is empty. Of a body in chunks, only the
    /// chunks that contain the part are read. The checksum is not verified.
    pub fn part_of_body(
        &self,
        check: CheckId,
        (n, arrival): (u64, Arrival),
        number: u64,
        part: BodyPart,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let body = self.with_ping_row(check, (n, arrival), number, |bytes, in_log| {
            let row: PingRecord<'_> = record::decode(bytes)?;
            if let Some((upload, _)) = row.upload {
                return chunks::read_upload_part(&self.transaction, upload, part).map(Some);
            }
            let _large_read_guard = lock_if_large(&row);
            let slice = |bytes: &[u8]| part.slice_of(bytes).to_vec();
            Ok(match in_log {
                Some(arrival) => self
                    .transaction
                    .open_table(BODIES)?
                    .get(arrival.0)?
                    .map(|bytes| slice(bytes.value())),
                None => self
                    .transaction
                    .open_table(KEPT_BODIES)?
                    .get((check.0, number))?
                    .map(|bytes| slice(bytes.value())),
            })
        });
        body.map(Option::flatten)
    }
}
