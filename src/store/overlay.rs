//! Database file and journal on a read-only file system, such as a snapshot. Writes that opening
//! them needs, as after a crash, are kept in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;

use super::log::{JOURNAL_NAME, read_only_log};
use super::{FILE_NAME, Medium, StoreError};

use crate::util::sync::{Mutex, MutexGuard, lock};

/// Size of a page in bytes. Written pages are kept whole.
const PAGE_BYTES: u64 = 4096;

/// Read-only file with written pages on top.
#[derive(Debug)]
struct Overlay {
    file: File,
    written: Mutex<WrittenPages>,
}

/// Changes relative to the file.
#[derive(Debug)]
struct WrittenPages {
    pages: BTreeMap<u64, Box<[u8]>>,
    /// Length of the storage in bytes.
    len: u64,
    /// Number of bytes of the file that belong to the storage, which may have been truncated.
    file_len: u64,
}

impl Medium {
    /// Returns the database of a directory as a read-only medium. The file is not changed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or a server has it open.
    pub fn read_only(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(FILE_NAME);
        let failed = |error| StoreError::Path(path.clone(), error);
        let file = File::open(&path).map_err(failed)?;
        file.try_lock_shared()
            .map_err(|_| StoreError::InUse(path.clone()))?;
        let database = Overlay::new(file).map_err(failed)?;
        let journal = directory.join(JOURNAL_NAME);
        let log = read_only_log(&journal, |file| Ok(Arc::new(Overlay::new(file)?)))?;
        Ok(Self::Backend {
            database: Arc::new(database),
            log,
            has_lost_writes: Arc::default(),
        })
    }
}

impl Overlay {
    fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let written = Mutex::new(WrittenPages {
            pages: BTreeMap::new(),
            len,
            file_len: len,
        });
        Ok(Self { file, written })
    }

    fn lock_pages(&self) -> MutexGuard<'_, WrittenPages> {
        lock(&self.written)
    }

    /// Reads from the file; fills with zeros after its end.
    fn read_file(&self, file_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from_file = usize::try_from(file_len.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(out.len());
        let (from_file, rest) = out.split_at_mut(from_file);
        rest.fill(0);
        self.file.read_exact_at(from_file, offset)
    }
}

/// Splits a range into parts of one page each: the number of the page, the offset within it and the
/// bytes of the range.
fn page_parts(
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let position = offset + at as u64;
        // A page is small.
        let page_offset = (position % PAGE_BYTES) as usize;
        let end = len.min(at + PAGE_BYTES as usize - page_offset);
        let range = at..end;
        at = end;
        (!range.is_empty()).then_some((position / PAGE_BYTES, page_offset, range))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock_pages().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.lock_pages();
        if offset.saturating_add(out.len() as u64) > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(written.file_len, offset, out)?;
        if written.pages.is_empty() {
            return Ok(());
        }
        for (page, page_offset, range) in page_parts(offset, out.len()) {
            let page_part = written
                .pages
                .get(&page)
                .and_then(|page| page.get(page_offset..page_offset + range.len()));
            if let (Some(page_part), Some(out)) = (page_part, out.get_mut(range)) {
                out.copy_from_slice(page_part);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.lock_pages();
        written.file_len = written.file_len.min(len);
        written.pages.retain(|page, _| page * PAGE_BYTES < len);
        if let Some(last) = written.pages.get_mut(&(len / PAGE_BYTES)) {
            last.iter_mut()
                .skip((len % PAGE_BYTES) as usize)
                .for_each(|byte| *byte = 0);
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.lock_pages();
        for (page, page_offset, range) in page_parts(offset, data.len()) {
            if !written.pages.contains_key(&page) {
                let mut page_bytes = vec![0; PAGE_BYTES as usize];
                self.read_file(written.file_len, page * PAGE_BYTES, &mut page_bytes)?;
                written.pages.insert(page, page_bytes.into());
            }
            let page_part = written
                .pages
                .get_mut(&page)
                .and_then(|page| page.get_mut(page_offset..page_offset + range.len()));
            if let (Some(page_part), Some(data)) = (page_part, data.get(range)) {
                page_part.copy_from_slice(data);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::util::random::Random;

    #[test]
    fn an_overlay_reads_like_a_written_file_and_the_file_stays_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let random = Random::seeded(1);
        let mut initial = vec![0_u8; 20_000];
        initial
            .iter_mut()
            .for_each(|byte| *byte = random.bytes::<1>()[0]);
        std::fs::write(&path, &initial).unwrap();
        let Ok(Medium::Backend {
            database: overlay, ..
        }) = Medium::read_only(directory.path())
        else {
            panic!("it does not open")
        };
        let model = InMemoryBackend::new();
        model.set_len(initial.len() as u64).unwrap();
        model.write(0, &initial).unwrap();
        for _ in 0..2000 {
            let number = |most: u64| u64::from_le_bytes(random.bytes()) % most;
            let len = model.len().unwrap();
            let offset = number(len.max(1));
            let count = number(9000) as usize;
            match number(8) {
                0 => {
                    let len = number(40_000);
                    model.set_len(len).unwrap();
                    overlay.set_len(len).unwrap();
                }
                1..4 => {
                    let data =
                        vec![number(256) as u8; count.min(len.saturating_sub(offset) as usize)];
                    model.write(offset, &data).unwrap();
                    overlay.write(offset, &data).unwrap();
                }
                _ => {
                    let mut both = [vec![1; count], vec![2; count]];
                    let results = [
                        model.read(offset, &mut both[0]).is_ok(),
                        overlay.read(offset, &mut both[1]).is_ok(),
                    ];
                    assert_eq!(results[0], results[1]);
                    assert!(!results[0] || both[0] == both[1], "{offset} {count}");
                }
            }
            assert_eq!(overlay.len().unwrap(), model.len().unwrap());
        }
        assert_eq!(std::fs::read(&path).unwrap(), initial);
        // A server has it locked.
        let file = File::open(&path).unwrap();
        drop(overlay);
        file.try_lock().unwrap();
        assert!(matches!(
            Medium::read_only(directory.path()),
            Err(StoreError::InUse(_))
        ));
    }
}
