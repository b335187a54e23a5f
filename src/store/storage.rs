//! Storage layer between redb and its medium. It records failures and limits the effect of an
//! unreadable page.
//!
//! After one failed read redb refuses all operations. Reopening reads the whole file and meets the
//! same page again. Therefore an unreadable page is returned as a branch whose children do not
//! exist: redb reports only operations that need it as damaged.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::{BackendError, StorageBackend};

use super::ProgressReporter;
use super::file_space::FileSpace;
use super::medium::LostWritesMark;

use crate::util::sync::{Mutex, MutexGuard, lock};

/// Maximum number of remembered unreadable places. They are reread until they can be read: see
/// [limits](crate::docs::limits).
const MAX_UNREADABLE: usize = 1024;

thread_local! {
    /// Place that this thread has failed to read since [`Storage::clear_failed_read`].
    static FAILED_READ: Cell<Option<String>> = const { Cell::new(None) };
}

/// Storage of the database. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Storage(Arc<StorageInner>);

#[derive(Debug)]
struct StorageInner {
    backend: Arc<dyn StorageBackend>,
    /// Space of the file behind the backend, if it is one.
    space: Option<FileSpace>,
    /// True if the file may grow without reserving disk space.
    grows_sparsely: AtomicBool,
    /// Mark that is set once writes may be lost.
    lost_writes: LostWritesMark,
    /// Length that was requested, which may differ from the real length.
    len: AtomicU64,
    /// True if an unreadable page is replaced. False while the database is being opened.
    tolerant: AtomicBool,
    /// Bytes read while the database is being opened, and the receiver of the progress.
    read: AtomicU64,
    progress: ProgressReporter,
    /// True if a write, a sync or a change of length has failed.
    write_failed: AtomicBool,
    /// True if earlier writes may not reach the disk. A write that fails on a full disk does not
    /// affect earlier ones.
    may_have_lost_writes: AtomicBool,
    /// Lengths of the unreadable places, by offset.
    unreadable: Mutex<BTreeMap<u64, usize>>,
    /// Offset of the place that was reread last.
    retried: AtomicU64,
}

impl Storage {
    pub(super) fn new(
        backend: Arc<dyn StorageBackend>,
        space: Option<FileSpace>,
        lost_writes: LostWritesMark,
        progress: &ProgressReporter,
    ) -> io::Result<Self> {
        let len = AtomicU64::new(backend.len()?);
        let tolerant = AtomicBool::new(false);
        let write_failed = AtomicBool::new(false);
        let may_have_lost_writes = AtomicBool::new(false);
        let read = AtomicU64::new(0);
        let progress = progress.clone();
        let unreadable = Mutex::default();
        let retried = AtomicU64::new(0);
        Ok(Self(Arc::new(StorageInner {
            backend,
            space,
            grows_sparsely: AtomicBool::new(false),
            lost_writes,
            len,
            tolerant,
            read,
            progress,
            write_failed,
            may_have_lost_writes,
            unreadable,
            retried,
        })))
    }

    /// Makes an unreadable page fail only the operations that need it, from now on. A database that
    /// is being opened needs everything that it reads.
    pub(super) fn tolerate(&self) {
        self.0.tolerant.store(true, Ordering::Relaxed);
    }

    /// True if a write, a sync or a change of length has failed.
    pub(super) fn write_failed(&self) -> bool {
        self.0.write_failed.load(Ordering::Relaxed)
    }

    /// True if data that was written without an error may be lost, so that the file has to be
    /// rewritten.
    pub(super) fn may_have_lost_writes(&self) -> bool {
        self.0.may_have_lost_writes.load(Ordering::Relaxed)
    }

    /// Lets the file grow without reserving disk space, from now on, and leaves its holes as they
    /// are.
    pub(super) fn grow_sparsely(&self) {
        self.0.grows_sparsely.store(true, Ordering::Relaxed);
    }

    /// True if the file grows without reserving disk space.
    pub(super) fn grows_sparsely(&self) -> bool {
        self.0.grows_sparsely.load(Ordering::Relaxed)
    }

    /// Length that the medium should have, in bytes.
    pub(super) fn expected_len(&self) -> u64 {
        self.0.len.load(Ordering::Relaxed)
    }

    /// Rereads the unreadable places until one of them still fails. Returns true if any can be read
    /// now.
    pub(super) fn retry_unreadable(&self) -> bool {
        let mut is_any_readable = false;
        loop {
            let after = self.0.retried.load(Ordering::Relaxed);
            let unreadable = self.lock_unreadable();
            let next = unreadable
                .range(after.saturating_add(1)..)
                .next()
                .or_else(|| unreadable.first_key_value());
            let Some((offset, len)) = next.map(|(offset, len)| (*offset, *len)) else {
                return is_any_readable;
            };
            drop(unreadable);
            if self.0.backend.read(offset, &mut vec![0; len]).is_err() {
                self.0.retried.store(offset, Ordering::Relaxed);
                return is_any_readable;
            }
            self.lock_unreadable().remove(&offset);
            is_any_readable = true;
        }
    }

    /// True if a place could not be read, and has not been read since.
    pub(super) fn has_unreadable(&self) -> bool {
        !self.lock_unreadable().is_empty()
    }

    /// Clears the failed place of this thread. [`Storage::take_failed_read`] then returns a later
    /// one.
    pub(super) fn clear_failed_read() {
        FAILED_READ.take();
    }

    /// Takes the description of the place that this thread could not read.
    pub(super) fn take_failed_read() -> Option<String> {
        FAILED_READ.take()
    }

    fn lock_unreadable(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        lock(&self.0.unreadable)
    }

    fn record_write_result(&self, written: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &written {
            self.0.write_failed.store(true, Ordering::Relaxed);
            if !is_full(error) {
                self.record_lost_writes();
            }
        }
        written
    }

    /// Records that writes may be lost, for this process and for the next one.
    fn record_lost_writes(&self) {
        if !self.0.may_have_lost_writes.swap(true, Ordering::Relaxed) {
            self.0.lost_writes.set();
        }
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
            // After an unclean shutdown every page is read twice.
            self.0
                .progress
                .report("opening the database", read, 2 * self.expected_len());
        }
        let Err(error) = self.0.backend.read(offset, out) else {
            return Ok(());
        };
        let place = format!("{} bytes at byte {offset} of the file: {error}", out.len());
        FAILED_READ.set(Some(place.clone()));
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
        let former_len = self.expected_len();
        if let Some(space) = &self.0.space {
            if !self.grows_sparsely() {
                self.record_write_result(space.reserve(former_len..len))?;
            }
            space.record_length(former_len, len);
        }
        self.record_write_result(self.0.backend.set_len(len))?;
        self.0.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.record_write_result(self.0.backend.sync_data());
        if synced.is_err() {
            self.record_lost_writes();
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(space) = &self.0.space
            && !self.grows_sparsely()
        {
            let range = offset..offset + data.len() as u64;
            let filled = space.fill(range, self.expected_len(), || self.sync_data());
            self.record_write_result(filled)?;
        }
        self.record_write_result(self.0.backend.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        // A backend of a test is used again.
        if self.0.space.is_some() {
            self.0.backend.close()
        } else {
            Ok(())
        }
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
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

/// True if a write failed because the disk is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Turns a page into a branch of redb's trees with one empty key, whose children are pages of a
/// nonexistent order. redb reports damage when it follows them. Returns false if the buffer is too
/// short for a page.
fn make_dangling_branch(page: &mut [u8]) -> bool {
    const CHILDREN: std::ops::Range<usize> = 40..56;
    const KEY_END: std::ops::Range<usize> = 56..60;
    page.fill(0);
    let [kind, _, keys, ..] = page else {
        return false;
    };
    (*kind, *keys) = (2, 1);
    if let Some(children) = page.get_mut(CHILDREN) {
        children.fill(0xff);
    }
    let Some(key_end) = page.get_mut(KEY_END) else {
        return false;
    };
    key_end.copy_from_slice(&(KEY_END.end as u32).to_le_bytes());
    true
}
