//! Space of the database file: reserved when the file grows, and filled with zeros before it is
//! used.
//!
//! ext4 marks reserved space as unwritten, and changes that mark after it has written data there.
//! If it cannot, because the disk fails at that moment, `fdatasync` may report no error, and the
//! data are zeros after the next mount. Therefore zeros are written first, and the mark is
//! examined.
//!
//! After the first write to unwritten space has failed, ext4 takes the pages in its cache as
//! written: later writes to them succeed, but the mark stays. Therefore the cache is dropped before
//! the mark is examined; pages in the cache hide it, too.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::Errno;

use super::storage::is_full;
use crate::util::sync::{Mutex, lock};

/// Size of the parts of the file that are filled at once, in bytes. Each part costs one sync.
const PART_BYTES: u64 = 4 << 20;

/// Number of zeros that are written at a time.
const ZEROS_BYTES: usize = 256 << 10;

/// Space of a file.
#[derive(Debug)]
pub(super) struct FileSpace {
    file: File,
    /// True if space has to be filled before it is used.
    needs_filling: bool,
    /// Numbers of the parts without holes.
    filled: Mutex<BTreeSet<u64>>,
}

impl FileSpace {
    /// Returns the space of a file that no other process writes to.
    ///
    /// # Errors
    /// Returns an error if writes of an earlier process cannot be synced.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let needs_filling = is_on_ext4(&file);
        if needs_filling {
            file.sync_data()?;
        }
        Ok(Self {
            needs_filling,
            file,
            filled: Mutex::default(),
        })
    }

    /// Reserves the disk space by which the file is to grow. A full disk then fails here. Otherwise
    /// it would fail at a later write in the middle of the file, and then nothing could be changed
    /// any more, not even to free space.
    pub(super) fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if !range.is_empty() {
            use rustix::fs::{FallocateFlags, fallocate};
            let len = range.end - range.start;
            match fallocate(&self.file, FallocateFlags::empty(), range.start, len) {
                // On a file system without this feature the file grows without a reservation.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(error) => {
                    // A part of the space may have been reserved.
                    self.file.set_len(range.start)?;
                    return Err(error.into());
                }
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
        Ok(())
    }

    /// Records that the file has another length now. The part at its former or new end may have
    /// holes again.
    pub(super) fn record_length(&self, former_len: u64, len: u64) {
        let end = former_len.min(len) / PART_BYTES;
        lock(&self.filled).split_off(&end);
    }

    /// Fills all holes of the parts that contain this range with zeros, and syncs them, where the
    /// file system requires it. Data in these parts are not changed. `len` is the length of the
    /// file.
    ///
    /// # Errors
    /// Returns an error if a write or the sync fails, or if the space is still marked as unwritten.
    pub(super) fn fill(
        &self,
        range: Range<u64>,
        len: u64,
        sync: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.needs_filling {
            return Ok(());
        }
        let first = range.start / PART_BYTES;
        let last = range.end.saturating_sub(1) / PART_BYTES;
        // The lock is kept: nothing is written into a hole between its search and its filling.
        let mut filled = lock(&self.filled);
        for part in first..=last {
            if filled.contains(&part) {
                continue;
            }
            let start = part * PART_BYTES;
            let part_range = start..(start + PART_BYTES).min(len);
            drop_cached(&self.file, part_range.clone())?;
            match fill_holes(&self.file, part_range.clone()) {
                Ok(false) => {}
                Ok(true) => {
                    sync()?;
                    self.verify_written(part_range)?;
                }
                // Data are replaced even on a full disk.
                Err(error)
                    if is_full(&error) && next_hole(&self.file, range.clone())?.is_none() =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            }
            filled.insert(part);
        }
        Ok(())
    }

    /// Writes to this range, which the cache contains, and syncs it, where the file system requires
    /// it. Writes it again if the first write had no effect.
    ///
    /// # Errors
    /// Returns an error if a write or a sync fails, or if the space is still marked as unwritten.
    pub(super) fn write_cached(
        &self,
        range: Range<u64>,
        write: impl Fn() -> io::Result<()>,
        sync: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        write()?;
        if !self.needs_filling {
            return Ok(());
        }
        sync()?;
        if self.verify_written(range.clone()).is_ok() {
            return Ok(());
        }
        write()?;
        sync()?;
        self.verify_written(range)
    }

    /// Returns an error if the file system still has a part of this range as unwritten, where it
    /// may have reported nothing. Everything in the range must have been written and synced.
    pub(super) fn verify_written(&self, range: Range<u64>) -> io::Result<()> {
        if !self.needs_filling {
            return Ok(());
        }
        drop_cached(&self.file, range.clone())?;
        match next_hole(&self.file, range)? {
            Some(hole) => Err(io::Error::other(format!(
                "the file system lost bytes {} to {} of the file",
                hole.start, hole.end
            ))),
            None => Ok(()),
        }
    }
}

/// Drops synced pages of this range from the cache.
fn drop_cached(file: &File, range: Range<u64>) -> io::Result<()> {
    let len = NonZeroU64::new(range.end - range.start);
    Ok(fadvise(file, range.start, len, Advice::DontNeed)?)
}

#[cfg(target_os = "linux")]
fn is_on_ext4(file: &File) -> bool {
    const EXT4_MAGIC: u64 = 0xef53;
    rustix::fs::fstatfs(file).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(EXT4_MAGIC))
}

#[cfg(not(target_os = "linux"))]
const fn is_on_ext4(_file: &File) -> bool {
    false
}

/// Writes zeros into the holes of this range. Returns true if there were any.
fn fill_holes(file: &File, range: Range<u64>) -> io::Result<bool> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut was_filled = false;
    let mut position = range.start;
    while let Some(hole) = next_hole(file, position..range.end)? {
        let mut offset = hole.start;
        while offset < hole.end {
            let count = usize::try_from(hole.end - offset)
                .map_or(ZEROS_BYTES, |rest| rest.min(ZEROS_BYTES));
            file.write_all_at(zeros.get(..count).unwrap_or_default(), offset)?;
            offset += count as u64;
        }
        was_filled = true;
        position = hole.end;
    }
    Ok(was_filled)
}

/// Returns the first hole in this range: space without data, reserved or not.
fn next_hole(file: &File, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
    if range.is_empty() {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Hole(range.start)) {
        Ok(start) if start < range.end => start,
        // The file ends before this range, or its file system reports no holes.
        Ok(_) | Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = match seek(file, SeekFrom::Data(start)) {
        Ok(end) => end.min(range.end),
        // No data follow.
        Err(Errno::NXIO) => range.end,
        Err(error) => return Err(error.into()),
    };
    Ok(Some(start..end))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::sync::Arc;

    use redb::StorageBackend as _;
    use redb::backends::FileBackend;

    use super::*;
    use crate::store::ProgressReporter;
    use crate::store::medium::LostWritesMark;
    use crate::store::storage::Storage;

    /// Returns a file of this length that has no data, and its space, as if it was on ext4.
    fn empty_file(len: u64) -> (File, FileSpace) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        let space = FileSpace {
            needs_filling: true,
            ..FileSpace::new(file.try_clone().unwrap()).unwrap()
        };
        (file, space)
    }

    fn holes(file: &File, len: u64) -> Vec<Range<u64>> {
        let mut holes = Vec::new();
        let mut position = 0;
        while let Some(hole) = next_hole(file, position..len).unwrap() {
            position = hole.end;
            holes.push(hole);
        }
        holes
    }

    #[test]
    fn a_part_has_no_holes_after_its_first_use_and_keeps_its_data() {
        let len = 3 * PART_BYTES;
        let (file, space) = empty_file(len);
        let data = [7; 4096];
        file.write_all_at(&data, PART_BYTES + 8192).unwrap();
        space
            .fill(PART_BYTES..PART_BYTES + 1, len, || file.sync_data())
            .unwrap();
        assert_eq!(
            holes(&file, len),
            [0..PART_BYTES, 2 * PART_BYTES..len],
            "only the second part is filled"
        );
        let mut read = [0; 4096];
        file.read_exact_at(&mut read, PART_BYTES + 8192).unwrap();
        assert_eq!(read, data);
        space
            .fill(PART_BYTES - 1..2 * PART_BYTES + 1, len, || file.sync_data())
            .unwrap();
        assert_eq!(holes(&file, len), []);
        assert_eq!(file.metadata().unwrap().len(), len);
    }

    #[test]
    fn the_last_part_is_filled_again_after_the_file_has_grown() {
        let len = PART_BYTES / 2;
        let grown = PART_BYTES;
        let (file, space) = empty_file(len);
        space.fill(0..1, len, || file.sync_data()).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len);
        space.reserve(len..grown).unwrap();
        space.record_length(len, grown);
        let reserved = next_hole(&file, 0..grown).unwrap();
        assert_eq!(reserved, Some(len..grown), "reserved space is a hole");
        space.fill(0..1, grown, || file.sync_data()).unwrap();
        assert_eq!(holes(&file, grown), []);
    }

    #[test]
    fn lost_zeros_are_an_error() {
        let (_, space) = empty_file(PART_BYTES);
        let lose_zeros = || {
            space.file.set_len(4096)?;
            space.file.set_len(PART_BYTES)
        };
        space.fill(0..1, PART_BYTES, lose_zeros).unwrap_err();
        // It is filled by the next attempt.
        let sync = || space.file.sync_data();
        space.fill(0..1, PART_BYTES, sync).unwrap();
        assert_eq!(holes(&space.file, PART_BYTES), []);
    }

    #[test]
    fn space_is_reserved_and_filled_unless_the_file_grows_sparsely() {
        let len = 2 * PART_BYTES;
        for is_sparse in [false, true] {
            let (file, space) = empty_file(0);
            let backend = FileBackend::new(file.try_clone().unwrap()).unwrap();
            let mark = LostWritesMark::Memory(Arc::default());
            let progress = ProgressReporter::default();
            let storage = Storage::new(Arc::new(backend), Some(space), mark, &progress).unwrap();
            if is_sparse {
                storage.grow_sparsely();
            }
            storage.set_len(len).unwrap();
            let is_reserved = file.metadata().unwrap().blocks() * 512 >= len;
            assert_eq!(is_reserved, !is_sparse);
            storage.write(PART_BYTES, &[7; 4096]).unwrap();
            let hole = next_hole(&file, PART_BYTES..len).unwrap();
            assert_eq!(hole, is_sparse.then_some(PART_BYTES + 4096..len));
        }
    }

    #[test]
    fn a_write_without_effect_is_repeated_once() {
        let (file, space) = empty_file(PART_BYTES);
        let sync = || file.sync_data();
        for (failures, is_written) in [(0, true), (1, true), (2, false)] {
            file.set_len(0).unwrap();
            file.set_len(PART_BYTES).unwrap();
            let writes = Cell::new(0);
            let write = || {
                writes.set(writes.get() + 1);
                if writes.get() > failures {
                    file.write_all_at(&[7; 4096], 4096)
                } else {
                    Ok(())
                }
            };
            let written = space.write_cached(4096..8192, write, sync);
            assert_eq!(written.is_ok(), is_written, "{failures} failures");
        }
    }
}
