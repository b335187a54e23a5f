//! A disk that loses power, fails on demand and fills up, for tests of what survives.
//!
//! It keeps apart what reads see and what is there after a power cut: the state at the last sync,
//! with any subset of the later writes, each of them whole, torn between sectors, or not there at
//! all.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdue::store::Medium;

use super::seeded_rng::SeededRng;

/// Bytes that a power cut leaves whole.
const SECTOR: usize = 512;

/// What a database asks of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskOperation {
    Read,
    Write,
    SetLen,
    Sync,
}

impl DiskOperation {
    pub(crate) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::SetLen, Self::Sync];
}

/// What a disk makes of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SyncMode {
    #[default]
    Durable,
    /// Nothing: what a power cut leaves is any of all that was ever written.
    Ignored,
    /// What was to be done at the sync before: a power cut leaves a whole database that has
    /// forgotten the end.
    Delayed,
}

/// Two handles of a disk are one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(
    Arc<Mutex<DiskState>>,
    Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>,
);

/// Syncs hang as long as this is there.
pub(crate) struct HangingSyncs {
    _hold: std::sync::mpsc::Sender<()>,
}

#[derive(Debug, Default)]
struct DiskState {
    /// What is there after a power cut in any case.
    durable: Vec<u8>,
    /// What reads see.
    visible: Vec<u8>,
    /// What happened since the last sync, in order.
    unsynced: Vec<UnsyncedWrite>,
    syncs: SyncMode,
    /// How many syncs there were.
    synced: u64,
    /// Bytes that were read.
    read: u64,
    /// What `Syncs::Delayed` has not made durable yet.
    delayed: Vec<UnsyncedWrite>,
    fault: Option<DiskFault>,
    /// Bytes that fit.
    capacity: Option<u64>,
    /// Reads that touch these bytes fail.
    unreadable: Vec<std::ops::Range<usize>>,
    /// Reads that met them.
    failed_reads: u64,
    /// Bytes that were ever written.
    written: u64,
}

#[derive(Debug)]
enum UnsyncedWrite {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Debug)]
enum DiskFault {
    /// Operations of this kind fail after so many that do not.
    FailsAfter(DiskOperation, u32),
    /// The power goes after so many writes, changes of length and syncs.
    PowerLossAfter(u32),
    /// Nothing works.
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

    /// What a power cut makes of it.
    fn torn(&self, dice: &SeededRng) -> Vec<Self> {
        match self {
            Self::SetLen(len) => vec![Self::SetLen(*len)],
            Self::Write(at, data) => {
                let sectors = data.chunks(SECTOR).enumerate().filter(|_| dice.chance(50));
                sectors
                    .map(|(number, sector)| Self::Write(at + number * SECTOR, sector.to_vec()))
                    .collect()
            }
        }
    }
}

impl Disk {
    /// A disk that may say that it has synced when it has not.
    pub(crate) fn with_sync_mode(syncs: SyncMode) -> Self {
        let disk = Self::default();
        disk.locked().syncs = syncs;
        disk
    }

    pub(crate) fn medium(&self) -> Medium {
        Medium::Backend(Arc::new(self.clone()))
    }

    /// Lets operations of a kind fail after so many more that succeed.
    pub(crate) fn fail_after(&self, operation: DiskOperation, after: u32) {
        self.locked().fault = Some(DiskFault::FailsAfter(operation, after));
    }

    /// Lets the power go after so many more operations that change something.
    pub(crate) fn lose_power_after(&self, after: u32) {
        self.locked().fault = Some(DiskFault::PowerLossAfter(after));
    }

    /// Sets how many bytes fit.
    pub(crate) fn set_capacity(&self, capacity: Option<u64>) {
        self.locked().capacity = capacity;
    }

    pub(crate) fn len(&self) -> u64 {
        self.locked().visible.len() as u64
    }

    /// How many bytes were read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.locked().read
    }

    /// How often it was synced.
    pub(crate) fn sync_count(&self) -> u64 {
        self.locked().synced
    }

    /// Everything on it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.locked().visible.clone()
    }

    /// Another disk with what this one holds now.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::default();
        let bytes = self.bytes();
        *copy.locked() = DiskState {
            durable: bytes.clone(),
            visible: bytes,
            ..DiskState::default()
        };
        copy
    }

    /// Lets reads of these bytes fail until they are healed, or read as they were again if there
    /// are none.
    pub(crate) fn make_unreadable(&self, bad: Vec<std::ops::Range<usize>>) {
        self.locked().unreadable = bad;
    }

    /// Reads that met what was spoiled.
    pub(crate) fn failed_reads(&self) -> u64 {
        self.locked().failed_reads
    }

    /// Bytes that were ever written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.locked().written
    }

    /// Turns bits over, as a disk does that does not notice.
    pub(crate) fn flip_bits(&self, bytes: std::ops::Range<usize>) {
        self.locked().visible[bytes]
            .iter_mut()
            .for_each(|byte| *byte ^= 0xff);
    }

    /// Lets every sync hang until [`HangingSyncs`] is dropped.
    pub(crate) fn hang_syncs(&self) -> HangingSyncs {
        let (hold, held) = std::sync::mpsc::channel();
        self.1
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(held);
        HangingSyncs { _hold: hold }
    }

    /// Has other bytes on it from now on.
    pub(crate) fn replace_bytes(&self, bytes: Vec<u8>) {
        let platter = &mut *self.locked();
        platter.unsynced.clear();
        platter.durable.clone_from(&bytes);
        platter.visible = bytes;
    }

    /// Ends all trouble.
    pub(crate) fn heal(&self) {
        self.locked().fault = None;
    }

    /// From now on nothing works; whoever has the disk open can let go of it without another write.
    pub(crate) fn power_off(&self) {
        self.locked().fault = Some(DiskFault::PoweredOff);
    }

    /// Takes away of what was not synced whatever the dice say, and gives the power back.
    pub(crate) fn power_on(&self, dice: &SeededRng) {
        let platter = &mut *self.locked();
        let share = || dice.pick(&[0, 100, dice.below(101)]);
        let (whole, torn) = if platter.syncs == SyncMode::Delayed {
            (0, 0)
        } else {
            (share(), share())
        };
        platter.delayed.clear();
        for step in platter.unsynced.drain(..) {
            if dice.chance(whole) {
                step.apply(&mut platter.durable);
            } else if dice.chance(torn) {
                step.torn(dice)
                    .iter()
                    .for_each(|step| step.apply(&mut platter.durable));
            }
        }
        platter.visible.clone_from(&platter.durable);
        platter.fault = None;
    }

    fn locked(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskState {
    /// Counts an operation; the error that it meets.
    fn check_fault(&mut self, operation: DiskOperation) -> io::Result<()> {
        let failure = |what: &str| Err(io::Error::other(what));
        match &mut self.fault {
            Some(DiskFault::FailsAfter(failing, after)) if *failing == operation => {
                match after.checked_sub(1) {
                    Some(left) => *after = left,
                    None => return failure("input/output error"),
                }
            }
            Some(DiskFault::PowerLossAfter(after)) if operation != DiskOperation::Read => {
                match after.checked_sub(1) {
                    Some(left) => *after = left,
                    None => {
                        self.fault = Some(DiskFault::PoweredOff);
                        return failure("the power went");
                    }
                }
            }
            Some(DiskFault::PoweredOff) => return failure("there is no power"),
            _ => {}
        }
        Ok(())
    }

    fn record(&mut self, step: UnsyncedWrite) {
        step.apply(&mut self.visible);
        self.unsynced.push(step);
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let mut platter = self.locked();
        platter.check_fault(DiskOperation::Read)?;
        Ok(platter.visible.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut platter = self.locked();
        platter.check_fault(DiskOperation::Read)?;
        let from = offset as usize;
        if platter
            .unreadable
            .iter()
            .any(|bad| bad.start < from + out.len() && from < bad.end)
        {
            platter.failed_reads += 1;
            return Err(io::Error::other("input/output error"));
        }
        let bytes = platter
            .visible
            .get(from..from + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        platter.read += out.len() as u64;
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut platter = self.locked();
        platter.check_fault(DiskOperation::SetLen)?;
        if platter.capacity.is_some_and(|capacity| len > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        platter.record(UnsyncedWrite::SetLen(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let held = self.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(held) = held {
            // It ends when the other end is gone.
            let _ = held.recv();
        }
        let platter = &mut *self.locked();
        if let Err(error) = platter.check_fault(DiskOperation::Sync) {
            // What the system could not write it takes for written: reads see it, no later sync
            // writes it (fsyncgate).
            if matches!(platter.fault, Some(DiskFault::FailsAfter(..))) {
                platter.unsynced.clear();
            }
            return Err(error);
        }
        platter.synced += 1;
        let done = match platter.syncs {
            SyncMode::Durable => std::mem::take(&mut platter.unsynced),
            SyncMode::Delayed => {
                std::mem::replace(&mut platter.delayed, std::mem::take(&mut platter.unsynced))
            }
            SyncMode::Ignored => Vec::new(),
        };
        done.iter()
            .for_each(|step| step.apply(&mut platter.durable));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.locked();
        platter.written += data.len() as u64;
        // A write that fails may have been done all the same, and so may the one at which the power
        // goes.
        if !matches!(platter.fault, Some(DiskFault::PoweredOff)) {
            platter.record(UnsyncedWrite::Write(offset as usize, data.to_vec()));
        }
        platter.check_fault(DiskOperation::Write)
    }
}
