//! What lies between redb and its medium: it knows what has failed, and keeps a page that cannot be read from ending everything else.
//!
//! After one failed read redb refuses all that follows, and reopening reads the whole file, so it meets the same page again. Therefore a
//! page that cannot be read is handed over as one that leads nowhere: redb reports whatever needs it as damaged, and nothing else.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

use super::ProgressReporter;

/// Unreadable places that are remembered, and read again until they can be: see [limits](crate::docs::limits).
const MAX_UNREADABLE: usize = 1024;

thread_local! {
    /// The place that this thread has failed to read since [`Storage::clear_failed_place`].
    static FAILED_PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Two handles are one storage.
#[derive(Clone, Debug)]
pub(super) struct Storage(Arc<StorageInner>);

#[derive(Debug)]
struct StorageInner {
    backend: Arc<dyn StorageBackend>,
    /// The file behind the backend, if it is one.
    file: Option<File>,
    /// It grows also where its file system has less space than that.
    grows_sparsely: AtomicBool,
    /// Whether the backend ends with the database on it.
    owned: bool,
    /// The length it was told to have, which may not be the one that it has.
    len: AtomicU64,
    /// Whether a page that cannot be read is replaced. Until then the database is being opened.
    tolerant: AtomicBool,
    /// Bytes that were read while it was being opened, and who is told.
    read: AtomicU64,
    progress: ProgressReporter,
    /// A write, a sync or a change of length has failed.
    write_failed: AtomicBool,
    /// What was written before may not reach the disk. A write that found no space says nothing about those before it.
    may_have_lost_writes: AtomicBool,
    /// Lengths of the places that could not be read, by their offset.
    unreadable: Mutex<BTreeMap<u64, usize>>,
    /// The one that was read again last.
    retried: AtomicU64,
}

impl Storage {
    pub(super) fn new(backend: Arc<dyn StorageBackend>, file: Option<File>, owned: bool, progress: &ProgressReporter) -> io::Result<Self> {
        let len = AtomicU64::new(backend.len()?);
        let (tolerant, write_failed, unsure) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let (read, progress) = (AtomicU64::new(0), progress.clone());
        let (unreadable, retried) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self(Arc::new(StorageInner {
            backend,
            file,
            grows_sparsely: AtomicBool::new(false),
            owned,
            len,
            tolerant,
            read,
            progress,
            write_failed,
            may_have_lost_writes: unsure,
            unreadable,
            retried,
        })))
    }

    /// From now on a page that cannot be read costs only what needs it. A database that is being opened needs all that it reads.
    pub(super) fn tolerate(&self) {
        self.0.tolerant.store(true, Ordering::Relaxed);
    }

    /// Whether anything written may be lost, or anything after it refused.
    pub(super) fn write_failed(&self) -> bool {
        self.0.write_failed.load(Ordering::Relaxed)
    }

    /// Whether anything that was written without an error may be lost, so that the file has to be written again.
    pub(super) fn may_have_lost_writes(&self) -> bool {
        self.0.may_have_lost_writes.load(Ordering::Relaxed)
    }

    /// From now on the file grows by as much as redb likes, although its file system may have less space left.
    pub(super) fn grow_sparsely(&self) {
        self.0.grows_sparsely.store(true, Ordering::Relaxed);
    }

    /// The length that the medium should have.
    pub(super) fn expected_len(&self) -> u64 {
        self.0.len.load(Ordering::Relaxed)
    }

    /// Reads the places again that could not be read, until one of them still cannot; whether any can be now.
    pub(super) fn retry_unreadable(&self) -> bool {
        let mut healed = false;
        loop {
            let after = self.0.retried.load(Ordering::Relaxed);
            let unreadable = self.lock_unreadable();
            let next = unreadable.range(after.saturating_add(1)..).next().or_else(|| unreadable.first_key_value());
            let Some((offset, len)) = next.map(|(offset, len)| (*offset, *len)) else { return healed };
            drop(unreadable);
            if self.0.backend.read(offset, &mut vec![0; len]).is_err() {
                self.0.retried.store(offset, Ordering::Relaxed);
                return healed;
            }
            self.lock_unreadable().remove(&offset);
            healed = true;
        }
    }

    /// What this thread fails to read from now on is told by [`Storage::take_failed_place`].
    pub(super) fn clear_failed_place() {
        FAILED_PLACE.take();
    }

    /// The place that this thread could not read, in words.
    pub(super) fn take_failed_place() -> Option<String> {
        FAILED_PLACE.take()
    }

    fn lock_unreadable(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_write_result(&self, written: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &written {
            self.0.write_failed.store(true, Ordering::Relaxed);
            if !is_full(error) {
                self.0.may_have_lost_writes.store(true, Ordering::Relaxed);
            }
        }
        written
    }
}

impl StorageBackend for Storage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.expected_len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let tolerant = self.0.tolerant.load(Ordering::Relaxed);
        if !tolerant {
            let read = self.0.read.fetch_add(out.len() as u64, Ordering::Relaxed);
            // After an unclean stop every page is read twice.
            self.0.progress.report("opening the database", read, 2 * self.expected_len());
        }
        let Err(error) = self.0.backend.read(offset, out) else { return Ok(()) };
        let place = format!("{} bytes at byte {offset} of the file: {error}", out.len());
        FAILED_PLACE.set(Some(place.clone()));
        if !tolerant || !make_dangling_branch(out) {
            return Err(error);
        }
        let mut unreadable = self.lock_unreadable();
        if unreadable.len() < MAX_UNREADABLE {
            unreadable.insert(offset, out.len());
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if let Some(file) = &self.0.file
            && !self.0.grows_sparsely.load(Ordering::Relaxed)
        {
            self.note_write_result(allocate(file, self.expected_len(), len))?;
        }
        self.note_write_result(self.0.backend.set_len(len))?;
        self.0.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.note_write_result(self.0.backend.sync_data());
        if synced.is_err() {
            self.0.may_have_lost_writes.store(true, Ordering::Relaxed);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note_write_result(self.0.backend.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        if self.0.owned { self.0.backend.close() } else { Ok(()) }
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.query_lock_range(start, end)
    }
}

/// Has the file system set aside the space by which a file is to grow. A full disk then says so here. Otherwise it would say so at a
/// later write somewhere in the middle of the file, where nothing could be changed any more, not even to make room.
fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if to > from {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::empty(), from, to - from) {
            // A file system that cannot do that grows as it always did.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => {
                // Some of it may have been set aside.
                file.set_len(from)?;
                return Err(error.into());
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, from, to);
    Ok(())
}

/// Whether there was no space for what was to be written.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Makes of a page a branch of redb's trees with one empty key, whose children are pages of an order that does not exist: whoever steps
/// on is told that the tree is damaged. `false` for what is too short to be a page.
fn make_dangling_branch(page: &mut [u8]) -> bool {
    const CHILDREN: std::ops::Range<usize> = 40..56;
    const KEY_END: std::ops::Range<usize> = 56..60;
    page.fill(0);
    let [kind, _, keys, ..] = page else { return false };
    (*kind, *keys) = (2, 1);
    if let Some(children) = page.get_mut(CHILDREN) {
        children.fill(0xff);
    }
    let Some(key_end) = page.get_mut(KEY_END) else { return false };
    key_end.copy_from_slice(&(KEY_END.end as u32).to_le_bytes());
    true
}
