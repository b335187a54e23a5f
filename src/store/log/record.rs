//! Bytes of a record.

use sha2::{Digest as _, Sha256};

/// First bytes of a record. The last one is the version of the encoding.
const MAGIC: [u8; 4] = *b"odl1";
/// Size in bytes of the part before the changes.
pub(super) const HEADER_BYTES: usize = 48;
/// Size in bytes of the part before the hash of the header.
const HASHED_HEADER_BYTES: usize = 40;
/// Epoch of the records of a database with one server. In a cluster, each leader has a higher one.
pub(super) const SINGLE_EPOCH: u64 = 0;

/// Position in a log: the number of a record, and a hash of all records up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::store) struct LogMark {
    /// Number of the record. The first one has number 1.
    pub(in crate::store) place: u64,
    /// First 8 bytes of a SHA-256 of the number of the database, the chain before and the record.
    pub(in crate::store) chain: u64,
}

impl LogMark {
    /// Returns the mark of the next record in the log of a database. Clients choose parts of the
    /// changes, but do not know the number of the database: they cannot choose bytes that look like
    /// a record.
    pub(in crate::store) fn next(self, (database, epoch): (u64, u64), changes: &[u8]) -> Self {
        let place = self.place.wrapping_add(1);
        let mut hash = Sha256::new();
        for number in [database, self.chain, epoch, place] {
            hash.update(number.to_le_bytes());
        }
        hash.update(changes);
        Self {
            place,
            chain: first_number(hash),
        }
    }

    /// Returns a mark that no record has. After it, the record that would follow this mark is one
    /// of the past.
    pub(in crate::store) fn without_record(self, database: u64) -> Self {
        self.next((database, SINGLE_EPOCH), &[])
    }
}

/// Record of one batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) struct LogRecord {
    /// Epoch in which it was appended.
    pub(in crate::store) epoch: u64,
    /// Mark of the record before.
    pub(in crate::store) previous: LogMark,
    /// Mark of this record.
    pub(in crate::store) mark: LogMark,
    /// Encoded changes of rows.
    pub(in crate::store) changes: Vec<u8>,
}

impl LogRecord {
    /// Length of the encoded record in bytes.
    pub(super) fn encoded_len(&self) -> usize {
        HEADER_BYTES + self.changes.len()
    }
}

/// Appends the encoded record after `previous` in the log of a database.
pub(super) fn encode(
    (database, epoch): (u64, u64),
    previous: LogMark,
    mark: LogMark,
    changes: &[u8],
    bytes: &mut Vec<u8>,
) {
    let start = bytes.len();
    bytes.extend_from_slice(&MAGIC);
    // No log has room for a record of 4 GiB.
    bytes.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    for number in [epoch, mark.place, previous.chain, mark.chain] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let header = bytes.get(start..).unwrap_or_default();
    let header_hash = header_hash(database, header);
    bytes.extend_from_slice(&header_hash.to_le_bytes());
    bytes.extend_from_slice(changes);
}

/// First 8 bytes of a hash.
fn first_number(hash: Sha256) -> u64 {
    let hash: [u8; 32] = hash.finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = hash;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Hash of the header. Without it, bytes that a client sends could make a start hash megabytes for
/// each of thousands of places.
fn header_hash(database: u64, header: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(database.to_le_bytes());
    hash.update(header);
    first_number(hash)
}

/// Decodes the record at the beginning of the bytes. `None` if there is no whole record of this
/// database.
pub(in crate::store) fn decode(database: u64, bytes: &[u8]) -> Option<LogRecord> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let (hashed, mut stored_hash) = header.split_at_checked(HASHED_HEADER_BYTES)?;
    let mut header = hashed;
    if take(&mut header) != MAGIC
        || u64::from_le_bytes(take(&mut stored_hash)) != header_hash(database, hashed)
    {
        return None;
    }
    let len = u32::from_le_bytes(take(&mut header)) as usize;
    let [epoch, place, previous_chain, chain] =
        std::array::from_fn(|_| u64::from_le_bytes(take(&mut header)));
    let previous = LogMark {
        place: place.wrapping_sub(1),
        chain: previous_chain,
    };
    let mark = LogMark { place, chain };
    let changes = rest.get(..len)?;
    let is_valid = previous.next((database, epoch), changes) == mark;
    is_valid.then(|| LogRecord {
        epoch,
        previous,
        mark,
        changes: changes.to_vec(),
    })
}

/// Length of the record whose header is at the beginning of the bytes, in bytes, as far as the
/// header can be believed.
pub fn declared_len(bytes: &[u8]) -> Option<usize> {
    let mut header = bytes.strip_prefix(&MAGIC)?;
    Some(HEADER_BYTES + u32::from_le_bytes(take(&mut header)) as usize)
}

/// Takes bytes off the front; zeros if there are too few.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_first_chunk::<N>().unwrap_or((&[0; N], &[]));
    *bytes = rest;
    *taken
}
