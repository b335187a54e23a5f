//! A disk that loses power, fails on demand and fills up, for tests of durability.
//!
//! It keeps the visible state apart from the state after a power cut. The latter is the state at
//! the last sync with any subset of the later writes, each of them complete, torn between sectors
//! or missing.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdue::store::{BackendLog, Medium};

use super::seeded_rng::SeededRng;

/// Number of bytes that a power cut leaves whole.
const SECTOR: usize = 512;

/// An operation of a database on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskOperation {
    Read,
    Write,
    SetLen,
    Sync,
}

/// Returns the number of disk operations after which a fault begins, below `bound`. An append to the
/// journal has two operations, a sync of the database many.
pub(crate) fn operations_before_fault(rng: &SeededRng, bound: u64) -> u32 {
    let bound = if rng.chance(60) { 2 } else { bound };
    rng.below(bound) as u32
}

impl DiskOperation {
    pub(crate) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::SetLen, Self::Sync];
}

/// Operations that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FailingOperations {
    pub(crate) operation: DiskOperation,
    /// File whose operations fail; `None` for both files.
    pub(crate) file: Option<FileOnDisk>,
    /// True if the error is that of a full disk.
    pub(crate) is_disk_full: bool,
}

/// Effect of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SyncMode {
    #[default]
    Durable,
    /// No effect: any subset of all writes may survive a power cut.
    Ignored,
    /// Syncs take effect one sync late: a power cut leaves a consistent database without its latest
    /// writes.
    Delayed,
}

/// Size of the journal in bytes. It is small, so that the database is synced often.
const JOURNAL_BYTES: u64 = 128 << 10;

/// A disk with a database. Clones share its contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(
    Arc<Mutex<DiskState>>,
    Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>,
);

/// One of the two files on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileOnDisk {
    Database,
    Journal,
}

/// Storage of a file on a disk.
#[derive(Clone, Debug)]
struct DiskFile(Disk, FileOnDisk);

/// Syncs hang until this is dropped.
pub(crate) struct HangingSyncs {
    _release: std::sync::mpsc::Sender<()>,
}

#[derive(Debug, Default)]
struct DiskState {
    database: FileState,
    journal: FileState,
    syncs: SyncMode,
    /// Number of syncs.
    synced: u64,
    /// Number of bytes read.
    read: u64,
    fault: Option<DiskFault>,
    /// Maximum number of bytes of the database.
    capacity: Option<u64>,
    /// Byte ranges of the database whose reads fail.
    unreadable: Vec<std::ops::Range<usize>>,
    /// Number of reads that failed because of them.
    failed_reads: u64,
    /// Total number of bytes written.
    written: u64,
    /// See [`Disk::has_lost_writes`].
    has_lost_writes: Arc<AtomicBool>,
}

#[derive(Clone, Debug, Default)]
struct FileState {
    /// Bytes that survive each power cut.
    durable: Vec<u8>,
    /// Bytes that reads return.
    visible: Vec<u8>,
    /// Writes since the last sync, in order.
    unsynced: Vec<UnsyncedWrite>,
    /// Writes that `SyncMode::Delayed` has not made durable yet.
    delayed: Vec<UnsyncedWrite>,
}

#[derive(Clone, Debug)]
enum UnsyncedWrite {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Debug)]
enum DiskFault {
    /// These operations fail after a number of successful ones.
    FailsAfter(FailingOperations, u32),
    /// The power fails after a number of writes, changes of length and syncs.
    PowerLossAfter(u32),
    /// Every operation fails.
    PoweredOff,
}

impl UnsyncedWrite {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::SetLen(len) => bytes.resize(*len, 0),
            Self::Write(at, data) => {
                bytes.resize(bytes.len().max(at + data.len()), 0);
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
        }
    }

    /// Returns the parts that survive a power cut.
    fn torn(&self, rng: &SeededRng) -> Vec<Self> {
        match self {
            Self::SetLen(len) => vec![Self::SetLen(*len)],
            Self::Write(at, data) => {
                let sectors = data.chunks(SECTOR).enumerate().filter(|_| rng.chance(50));
                sectors
                    .map(|(number, sector)| Self::Write(at + number * SECTOR, sector.to_vec()))
                    .collect()
            }
        }
    }
}

impl Disk {
    /// Creates a disk that may report syncs that it has not done.
    pub(crate) fn with_sync_mode(syncs: SyncMode) -> Self {
        let disk = Self::default();
        disk.lock_state().syncs = syncs;
        disk
    }

    /// Storage of the database alone.
    pub(crate) fn database(&self) -> impl redb::StorageBackend + use<> {
        DiskFile(self.clone(), FileOnDisk::Database)
    }

    /// Medium whose commits sync the database.
    pub(crate) fn medium_without_log(&self) -> Medium {
        Medium::Backend {
            database: Arc::new(self.database()),
            log: BackendLog::None,
            has_lost_writes: self.has_lost_writes(),
        }
    }

    pub(crate) fn medium(&self) -> Medium {
        let file = |file| Arc::new(DiskFile(self.clone(), file));
        Medium::Backend {
            database: file(FileOnDisk::Database),
            log: BackendLog::Journal {
                storage: file(FileOnDisk::Journal),
                len: JOURNAL_BYTES,
            },
            has_lost_writes: self.has_lost_writes(),
        }
    }

    /// Mark that a process leaves for the next one. It is in memory, like the lost writes: a power
    /// cut removes both.
    fn has_lost_writes(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lock_state().has_lost_writes)
    }

    /// Makes operations of a kind fail after `after` successful ones.
    pub(crate) fn fail_after(&self, operation: DiskOperation, after: u32) {
        let failing = FailingOperations {
            operation,
            file: None,
            is_disk_full: false,
        };
        self.fail_operations_after(failing, after);
    }

    /// Makes operations fail after `after` successful ones.
    pub(crate) fn fail_operations_after(&self, failing: FailingOperations, after: u32) {
        self.lock_state().fault = Some(DiskFault::FailsAfter(failing, after));
    }

    /// Cuts the power after `after` more changes.
    pub(crate) fn lose_power_after(&self, after: u32) {
        self.lock_state().fault = Some(DiskFault::PowerLossAfter(after));
    }

    /// Sets the maximum number of bytes.
    pub(crate) fn set_capacity(&self, capacity: Option<u64>) {
        self.lock_state().capacity = capacity;
    }

    pub(crate) fn len(&self) -> u64 {
        self.lock_state().database.visible.len() as u64
    }

    /// Returns the number of bytes read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.lock_state().read
    }

    /// Returns the number of syncs.
    pub(crate) fn sync_count(&self) -> u64 {
        self.lock_state().synced
    }

    /// Returns the contents of the database.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock_state().database.visible.clone()
    }

    /// Returns another disk with the current contents.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::default();
        let state = self.lock_state();
        *copy.lock_state() = DiskState {
            database: FileState::with_bytes(state.database.visible.clone()),
            journal: FileState::with_bytes(state.journal.visible.clone()),
            ..DiskState::default()
        };
        drop(state);
        copy
    }

    /// Makes reads of these bytes fail. An empty list makes them succeed again.
    pub(crate) fn make_unreadable(&self, ranges: Vec<std::ops::Range<usize>>) {
        self.lock_state().unreadable = ranges;
    }

    /// Returns the number of reads that hit unreadable bytes.
    pub(crate) fn failed_reads(&self) -> u64 {
        self.lock_state().failed_reads
    }

    /// Total number of bytes written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.lock_state().written
    }

    /// Inverts bits silently.
    pub(crate) fn flip_bits(&self, bytes: std::ops::Range<usize>) {
        self.lock_state().database.visible[bytes]
            .iter_mut()
            .for_each(|byte| *byte ^= 0xff);
    }

    /// Makes every sync hang until [`HangingSyncs`] is dropped.
    pub(crate) fn hang_syncs(&self) -> HangingSyncs {
        let (release, released) = std::sync::mpsc::channel();
        self.1
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(released);
        HangingSyncs { _release: release }
    }

    /// Replaces the contents of the database.
    pub(crate) fn replace_bytes(&self, bytes: Vec<u8>) {
        self.lock_state().database = FileState::with_bytes(bytes);
    }

    /// Replaces the contents of the journal.
    pub(crate) fn replace_journal(&self, bytes: Vec<u8>) {
        self.lock_state().journal = FileState::with_bytes(bytes);
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.lock_state().fault = None;
    }

    /// True if the power was cut and is not restored.
    pub(crate) fn has_lost_power(&self) -> bool {
        matches!(self.lock_state().fault, Some(DiskFault::PoweredOff))
    }

    /// Makes every operation fail from now on. The owner can close the disk without another write.
    pub(crate) fn power_off(&self) {
        self.lock_state().fault = Some(DiskFault::PoweredOff);
    }

    /// Drops a random subset of the unsynced writes, and restores the power.
    pub(crate) fn power_on(&self, rng: &SeededRng) {
        let state = &mut *self.lock_state();
        let percentage = || rng.pick(&[0, 100, rng.below(101)]);
        let (whole, torn) = if state.syncs == SyncMode::Delayed {
            (0, 0)
        } else {
            (percentage(), percentage())
        };
        for file in [&mut state.database, &mut state.journal] {
            file.delayed.clear();
            for step in file.unsynced.drain(..) {
                if rng.chance(whole) {
                    step.apply(&mut file.durable);
                } else if rng.chance(torn) {
                    step.torn(rng)
                        .iter()
                        .for_each(|step| step.apply(&mut file.durable));
                }
            }
            file.visible.clone_from(&file.durable);
        }
        state.has_lost_writes.store(false, Ordering::Relaxed);
        state.fault = None;
    }

    fn lock_state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskState {
    /// Counts an operation. Returns an error if it fails.
    fn check_fault(&mut self, file: FileOnDisk, operation: DiskOperation) -> io::Result<()> {
        let failure = |what: &str| Err(io::Error::other(what));
        match &mut self.fault {
            Some(DiskFault::FailsAfter(failing, after))
                if failing.operation == operation
                    && failing.file.is_none_or(|failing| failing == file) =>
            {
                match after.checked_sub(1) {
                    Some(left) => *after = left,
                    None if failing.is_disk_full => {
                        return Err(io::ErrorKind::StorageFull.into());
                    }
                    None => return failure("input/output error"),
                }
            }
            Some(DiskFault::PowerLossAfter(after)) if operation != DiskOperation::Read => {
                match after.checked_sub(1) {
                    Some(left) => *after = left,
                    None => {
                        self.fault = Some(DiskFault::PoweredOff);
                        return failure("the power failed");
                    }
                }
            }
            Some(DiskFault::PoweredOff) => return failure("there is no power"),
            _ => {}
        }
        Ok(())
    }

    fn file(&mut self, file: FileOnDisk) -> &mut FileState {
        match file {
            FileOnDisk::Database => &mut self.database,
            FileOnDisk::Journal => &mut self.journal,
        }
    }
}

impl FileState {
    fn with_bytes(bytes: Vec<u8>) -> Self {
        Self {
            durable: bytes.clone(),
            visible: bytes,
            ..Self::default()
        }
    }

    fn record(&mut self, step: UnsyncedWrite) {
        step.apply(&mut self.visible);
        self.unsynced.push(step);
    }
}

impl redb::StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.0.lock_state();
        state.check_fault(self.1, DiskOperation::Read)?;
        Ok(state.file(self.1).visible.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.lock_state();
        state.check_fault(self.1, DiskOperation::Read)?;
        let from = offset as usize;
        let is_database = matches!(self.1, FileOnDisk::Database);
        if is_database
            && state
                .unreadable
                .iter()
                .any(|range| range.start < from + out.len() && from < range.end)
        {
            state.failed_reads += 1;
            return Err(io::Error::other("input/output error"));
        }
        let bytes = state
            .file(self.1)
            .visible
            .get(from..from + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        state.read += out.len() as u64;
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock_state();
        state.check_fault(self.1, DiskOperation::SetLen)?;
        let is_database = matches!(self.1, FileOnDisk::Database);
        if is_database && state.capacity.is_some_and(|capacity| len > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state
            .file(self.1)
            .record(UnsyncedWrite::SetLen(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let released = self
            .0
            .1
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(released) = released {
            // Returns when the other end is dropped.
            let _ = released.recv();
        }
        let state = &mut *self.0.lock_state();
        if let Err(error) = state.check_fault(self.1, DiskOperation::Sync) {
            // The system treats a failed write as done: reads see it, and no later sync writes it
            // (fsyncgate).
            if matches!(state.fault, Some(DiskFault::FailsAfter(..))) {
                state.file(self.1).unsynced.clear();
            }
            return Err(error);
        }
        state.synced += 1;
        let syncs = state.syncs;
        let file = state.file(self.1);
        let done = match syncs {
            SyncMode::Durable => std::mem::take(&mut file.unsynced),
            SyncMode::Delayed => {
                std::mem::replace(&mut file.delayed, std::mem::take(&mut file.unsynced))
            }
            SyncMode::Ignored => Vec::new(),
        };
        done.iter().for_each(|step| step.apply(&mut file.durable));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock_state();
        state.written += data.len() as u64;
        // A failed write may be done nevertheless, and so may the write during which the power
        // fails.
        if !matches!(state.fault, Some(DiskFault::PoweredOff)) {
            state
                .file(self.1)
                .record(UnsyncedWrite::Write(offset as usize, data.to_vec()));
        }
        state.check_fault(self.1, DiskOperation::Write)
    }
}
