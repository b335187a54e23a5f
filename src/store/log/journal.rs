//! Journal: the log as a file of fixed size next to the database, filled with zeros when it is
//! created. An append changes no metadata of the file system. The records of one use begin after
//! the header; once the database is synced, the next record is written there again.
//!
//! The numbers of records tell the end of the present use: a record of an earlier use has a smaller
//! number than the one before it. A record with a larger number after an unreadable one shows that
//! a durable record is damaged, since each is durable before the next one is written.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use super::record;
use super::{ChangeLog, LogError, LogMark, LogRecord};

/// Size of a new journal in bytes: see [limits](crate::docs::limits). The database is synced when
/// it is full, and pings wait meanwhile: with a larger journal that is rarer and takes longer.
pub(super) const JOURNAL_BYTES: u64 = 1 << 20;

/// Number of zeros that are written at a time.
const ZEROS_BYTES: u64 = 1 << 20;

/// Largest number of bytes that a device writes as a whole. No two records share a sector, so a
/// power cut during an append damages no earlier record.
const SECTOR_BYTES: usize = 4096;

/// First bytes of a journal.
const MAGIC: [u8; 16] = *b"overdue journal\n";
/// Version of the layout of the file.
const FORMAT: u32 = 1;
/// Size of the header without its padding, in bytes.
const HEADER_BYTES: usize = 40;

/// Journal in a file, or in storage that a test provides.
pub(in crate::store) struct Journal {
    storage: Arc<dyn StorageBackend>,
    database: u64,
    /// Size of the journal in bytes.
    len: u64,
    /// Offset of the next record.
    end: u64,
    /// Offset of the last record.
    last: Option<u64>,
    /// Encoded record, padded to whole sectors.
    buffer: Vec<u8>,
}

/// Result of opening a journal.
pub(in crate::store) enum OpenedJournal {
    /// The storage contains a journal.
    Journal(Journal),
    /// The storage contains no journal: it is empty, or the creation did not complete.
    Missing,
}

impl Journal {
    /// Creates the journal of a database with a size of `len` bytes, in place of what the storage
    /// contains.
    pub(in crate::store) fn create(
        storage: Arc<dyn StorageBackend>,
        database: u64,
        len: u64,
    ) -> io::Result<Self> {
        storage.set_len(len)?;
        // Each zero is written: the file system then has nothing to allocate for an append.
        let zeros = vec![0; ZEROS_BYTES.min(len) as usize];
        for offset in (0..len).step_by(zeros.len().max(1)) {
            let count = ((len - offset) as usize).min(zeros.len());
            storage.write(offset, zeros.get(..count).unwrap_or_default())?;
        }
        storage.sync_data()?;
        storage.write(0, &encode_header(database, len))?;
        storage.sync_data()?;
        Ok(Self::at_start(storage, database, len))
    }

    /// Opens the journal in the storage.
    pub(in crate::store) fn open(
        storage: Arc<dyn StorageBackend>,
    ) -> Result<OpenedJournal, LogError> {
        let mut header = [0; SECTOR_BYTES];
        let len = storage.len()?;
        if len >= SECTOR_BYTES as u64 {
            storage.read(0, &mut header)?;
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(OpenedJournal::Missing);
        }
        let (database, full_len) = decode_header(&header)?;
        if len < full_len {
            return Err(LogError::Damaged(format!(
                "it was truncated from {full_len} to {len} bytes"
            )));
        }
        Ok(OpenedJournal::Journal(Self::at_start(
            storage, database, full_len,
        )))
    }

    /// Makes the storage contain no journal.
    pub(in crate::store) fn erase(storage: &dyn StorageBackend) -> io::Result<()> {
        if storage.len()? >= SECTOR_BYTES as u64 {
            storage.write(0, &[0; SECTOR_BYTES])?;
            storage.sync_data()?;
        }
        Ok(())
    }

    fn at_start(storage: Arc<dyn StorageBackend>, database: u64, len: u64) -> Self {
        Self {
            storage,
            database,
            len,
            end: SECTOR_BYTES as u64,
            last: None,
            buffer: Vec::new(),
        }
    }
}

impl ChangeLog for Journal {
    fn database(&self) -> u64 {
        self.database
    }

    fn records_after(&self, mark: LogMark) -> Result<Vec<LogRecord>, LogError> {
        let (bytes, unreadable) = read_all(&*self.storage, self.len);
        records_after(self.database, &bytes, &unreadable, mark)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        let len = padded_len(bytes.saturating_add(record::HEADER_BYTES)) as u64;
        self.end.saturating_add(len) <= self.len
    }

    fn append(&mut self, previous: LogMark, changes: &[u8]) -> io::Result<LogMark> {
        let epoch = (self.database, record::SINGLE_EPOCH);
        let mark = previous.next(epoch, changes);
        self.buffer.clear();
        record::encode(epoch, previous, mark, changes, &mut self.buffer);
        self.buffer.resize(padded_len(self.buffer.len()), 0);
        self.storage.write(self.end, &self.buffer)?;
        self.storage.sync_data()?;
        self.last = Some(self.end);
        self.end += self.buffer.len() as u64;
        Ok(mark)
    }

    fn withdraw(&mut self) -> io::Result<()> {
        if let Some(last) = self.last.take() {
            self.end = last;
            self.storage.write(last, &[0; SECTOR_BYTES])?;
            self.storage.sync_data()?;
        }
        Ok(())
    }

    fn release(&mut self) {
        self.end = SECTOR_BYTES as u64;
        self.last = None;
        // Most records are short.
        self.buffer.shrink_to(64 << 10);
    }
}

/// Length of a record with its padding, in bytes.
fn padded_len(len: usize) -> usize {
    len.next_multiple_of(SECTOR_BYTES)
}

fn encode_header(database: u64, len: u64) -> [u8; SECTOR_BYTES] {
    let mut header = [0; SECTOR_BYTES];
    let fields = [
        MAGIC.as_slice(),
        &FORMAT.to_le_bytes(),
        &database.to_le_bytes(),
        &len.to_le_bytes(),
    ]
    .concat();
    let checksum = crc32fast::hash(&fields);
    let bytes = fields.into_iter().chain(checksum.to_le_bytes());
    header
        .iter_mut()
        .zip(bytes)
        .for_each(|(place, byte)| *place = byte);
    header
}

/// Returns the number of the database and the size of the journal in the header.
fn decode_header(header: &[u8; SECTOR_BYTES]) -> Result<(u64, u64), LogError> {
    let damaged = || LogError::Damaged("its header is unreadable".into());
    let header: &[u8; HEADER_BYTES] = header.first_chunk().ok_or_else(damaged)?;
    let (fields, checksum) = header.split_last_chunk::<4>().ok_or_else(damaged)?;
    let (rest, len) = fields.split_last_chunk::<8>().ok_or_else(damaged)?;
    let (rest, database) = rest.split_last_chunk::<8>().ok_or_else(damaged)?;
    let (magic, format) = rest.split_last_chunk::<4>().ok_or_else(damaged)?;
    if magic != MAGIC || crc32fast::hash(fields) != u32::from_le_bytes(*checksum) {
        return Err(damaged());
    }
    if u32::from_le_bytes(*format) != FORMAT {
        return Err(LogError::TooNew);
    }
    Ok((u64::from_le_bytes(*database), u64::from_le_bytes(*len)))
}

/// Returns the bytes of a journal, and the offsets of the sectors that cannot be read, which are
/// zeros.
fn read_all(storage: &dyn StorageBackend, len: u64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = vec![0; len as usize];
    let mut unreadable = Vec::new();
    if storage.read(0, &mut bytes).is_err() {
        for (sector, bytes) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
            let offset = sector * SECTOR_BYTES;
            if storage.read(offset as u64, bytes).is_err() {
                bytes.fill(0);
                unreadable.push(offset);
            }
        }
    }
    (bytes, unreadable)
}

/// Returns the records in the bytes of a journal after a mark. `unreadable`: offsets of sectors
/// that are not in the bytes.
fn records_after(
    database: u64,
    bytes: &[u8],
    unreadable: &[usize],
    mark: LogMark,
) -> Result<Vec<LogRecord>, LogError> {
    let record_at = |at: usize| {
        record::decode(database, bytes.get(at..).unwrap_or_default())
            .filter(|record| record.epoch == record::SINGLE_EPOCH)
    };
    let mut records: Vec<LogRecord> = Vec::new();
    // Mark of the last record of the present use, or of the database.
    let mut last = None;
    let mut at = SECTOR_BYTES;
    while let Some(record) = record_at(at) {
        if last.is_some_and(|last: LogMark| record.mark.place <= last.place) {
            // The present use ends here; the record belongs to an earlier one.
            break;
        }
        let expected = match last {
            Some(last) if !records.is_empty() || record.mark.place <= mark.place => last,
            None if record.mark.place <= mark.place => record.previous,
            _ => mark,
        };
        if record.previous != expected {
            return Err(LogError::Foreign(format!(
                "its record {} does not follow record {} of the database",
                record.mark.place, expected.place
            )));
        }
        last = Some(record.mark);
        at += padded_len(record.encoded_len());
        if record.mark.place > mark.place {
            records.push(record);
        }
    }
    let last = last.filter(|last| last.place > mark.place).unwrap_or(mark);
    let end = at;
    let next_len = record::declared_len(bytes.get(end..).unwrap_or_default()).unwrap_or(1);
    if let Some(sector) = unreadable
        .iter()
        .find(|sector| (end..end.saturating_add(next_len)).contains(sector))
    {
        return Err(LogError::Damaged(format!(
            "record {} is unreadable: byte {sector} cannot be read",
            last.place.wrapping_add(1)
        )));
    }
    while at < bytes.len() {
        if let Some(later) = record_at(at)
            && later.mark.place > last.place
        {
            return Err(LogError::Damaged(format!(
                "record {} at byte {end} is unreadable, although record {} at byte {at} was \
                 written after it",
                last.place.wrapping_add(1),
                later.mark.place
            )));
        }
        at += SECTOR_BYTES;
    }
    Ok(records)
}
