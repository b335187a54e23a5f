//! The file of a backup: it has its name once it is whole, on disk, and has been read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{BackupError, beside, count};
use crate::engine::Pace;

/// What a compressed file begins with (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Fast, and already a quarter of what logs and rows take.
const LEVEL: i32 = 3;
/// Bytes after which what was written is synced. All of it at once would hold up for long what the database syncs on the same disk.
const SYNCED_AT_ONCE: usize = 2 << 20;

/// A file under way, as `<name>.partial`. It is removed unless it is kept.
pub struct BackupFile {
    path: PathBuf,
    partial: PathBuf,
    out: Option<Out>,
    kept: bool,
}

enum Out {
    Plain(Synced),
    Compressed(zstd::Encoder<'static, Synced>),
}

/// A file that is synced some at a time.
struct Synced {
    file: File,
    /// Bytes that were written since.
    unsynced: usize,
}

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= SYNCED_AT_ONCE {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BackupFile {
    /// Begins one that only its owner can read; compressed if its name ends with `.zst`.
    ///
    /// # Errors
    /// When the system refuses it, or another is being made there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let partial = beside(path, ".partial");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&partial)?;
        // Another backup to the same name is not written into.
        file.try_lock().map_err(io::Error::from)?;
        file.set_len(0)?;
        let file = Synced { file, unsynced: 0 };
        let out = match path.extension() {
            Some(extension) if extension == "zst" => Out::Compressed(zstd::Encoder::new(file, LEVEL)?),
            _ => Out::Plain(file),
        };
        Ok(Self { path: path.into(), partial, out: Some(out), kept: false })
    }

    /// Reads it again from its beginning, at this pace, and gives it its name. Bytes of the file, and how many rows are in it.
    ///
    /// # Errors
    /// When it cannot be written, or is not what was written.
    pub fn keep(mut self, pace: &mut Pace<'_>) -> Result<(u64, u64), BackupError> {
        let Synced { file, .. } = match self.out.take() {
            Some(Out::Plain(file)) => file,
            Some(Out::Compressed(encoder)) => encoder.finish()?,
            None => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        };
        file.sync_all()?;
        let rows = count(open(&self.partial)?, pace)?;
        let bytes = file.metadata()?.len();
        fs::rename(&self.partial, &self.path)?;
        self.kept = true;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
        Ok((bytes, rows))
    }
}

impl Write for BackupFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Some(Out::Plain(file)) => file.write(bytes),
            Some(Out::Compressed(encoder)) => encoder.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // It is flushed when it is kept.
        Ok(())
    }
}

impl Drop for BackupFile {
    fn drop(&mut self) {
        if !self.kept {
            // Nobody can be told; the next backup of the same name begins anew.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Compresses what is written into `out`.
pub(super) fn compressed<W: Write>(
    mut out: W,
    write: impl FnOnce(&mut zstd::Encoder<'_, &mut W>) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let mut encoder = zstd::Encoder::new(&mut out, LEVEL)?;
    write(&mut encoder)?;
    encoder.finish()?;
    Ok(out.flush()?)
}

/// Opens a backup, compressed or not.
///
/// # Errors
/// When the file cannot be read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    read(File::open(path)?)
}

/// Reads a backup, compressed or not.
///
/// # Errors
/// When nothing can be read.
pub fn read(mut input: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut begin = Vec::new();
    (&mut input).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut begin)?;
    let is_compressed = begin == ZSTD_MAGIC;
    let input = BufReader::with_capacity(1 << 17, io::Cursor::new(begin).chain(input));
    Ok(if is_compressed { Box::new(BufReader::new(zstd::Decoder::with_buffer(input)?)) } else { Box::new(input) })
}
