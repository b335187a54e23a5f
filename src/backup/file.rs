//! The file of a backup: it has its name once it is whole, on disk, and has been read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{BackupError, count_rows, path_with_suffix};
use crate::engine::Throttle;
use crate::store::NO_FOLLOW;

/// What a compressed file begins with (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Fast, and already a quarter of what logs and rows take.
const COMPRESSION_LEVEL: i32 = 3;
/// Bytes after which what was written is synced. All of it at once would hold up for long what the database syncs on the same disk.
const SYNC_BYTES: usize = 2 << 20;
/// How often the file under way is made, if others remove it meanwhile.
const CREATE_ATTEMPTS: usize = 3;

/// A file under way, as `<name>.partial`. It is removed unless it is kept.
pub struct BackupFile {
    path: PathBuf,
    partial: PathBuf,
    out: Option<BackupOutput>,
    is_kept: bool,
}

enum BackupOutput {
    Plain(SyncingFile),
    Compressed(zstd::Encoder<'static, SyncingFile>),
}

/// A file that is synced some at a time.
struct SyncingFile {
    file: File,
    /// Bytes that were written since.
    unsynced_bytes: usize,
}

impl Write for SyncingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced_bytes += written;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced_bytes = 0;
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
        let partial = path_with_suffix(path, ".partial");
        let file = create_locked(&partial)?;
        let file = SyncingFile { file, unsynced_bytes: 0 };
        let out = match path.extension() {
            Some(extension) if extension == "zst" => BackupOutput::Compressed(zstd::Encoder::new(file, COMPRESSION_LEVEL)?),
            _ => BackupOutput::Plain(file),
        };
        Ok(Self { path: path.into(), partial, out: Some(out), is_kept: false })
    }

    /// Reads it again from its beginning, at this pace, and gives it its name. Bytes of the file, and how many rows are in it.
    ///
    /// # Errors
    /// When it cannot be written, or is not what was written.
    pub fn verify_and_keep(mut self, pace: &mut Throttle<'_>) -> Result<(u64, u64), BackupError> {
        let SyncingFile { file, .. } = match self.out.take() {
            Some(BackupOutput::Plain(file)) => file,
            Some(BackupOutput::Compressed(encoder)) => encoder.finish()?,
            None => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        };
        file.sync_all()?;
        // What has the name by now may be another file.
        let mut again = file.try_clone()?;
        again.rewind()?;
        let rows = count_rows(read_backup(again)?, pace)?;
        let bytes = file.metadata()?.len();
        fs::rename(&self.partial, &self.path)?;
        self.is_kept = true;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
        Ok((bytes, rows))
    }
}

impl Write for BackupFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Some(BackupOutput::Plain(file)) => file.write(bytes),
            Some(BackupOutput::Compressed(encoder)) => encoder.write(bytes),
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
        if !self.is_kept {
            // Nobody can be told; the next backup of the same name begins anew.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Makes the file under way and locks it: another backup to the same name is not written into. What an earlier one left is removed. A file
/// that was there is never written into: it may be somebody else's, who could then read what is written.
fn create_locked(partial: &Path) -> io::Result<File> {
    for _ in 0..CREATE_ATTEMPTS {
        let options = |new| OpenOptions::new().read(true).write(true).create_new(new).mode(0o600).custom_flags(NO_FOLLOW).open(partial);
        match options(true) {
            Ok(file) => {
                file.try_lock().map_err(io::Error::from)?;
                // Before it was locked, another process may have taken it for one that was left.
                if is_named(&file, partial)? {
                    return Ok(file);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(partial)?.is_file() {
                    return Err(io::Error::other(format!("{} is in the way and no file: remove it", partial.display())));
                }
                let left = options(false)?;
                left.try_lock().map_err(io::Error::from)?;
                if is_named(&left, partial)? {
                    fs::remove_file(partial)?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Whether a file still has this name.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let file = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (file.dev(), file.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Compresses what is written into `out`.
pub(super) fn write_compressed<W: Write>(
    mut out: W,
    write: impl FnOnce(&mut zstd::Encoder<'_, &mut W>) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let mut encoder = zstd::Encoder::new(&mut out, COMPRESSION_LEVEL)?;
    write(&mut encoder)?;
    encoder.finish()?;
    Ok(out.flush()?)
}

/// Opens a backup, compressed or not.
///
/// # Errors
/// When the file cannot be read.
pub fn open_backup(path: &Path) -> io::Result<Box<dyn Read>> {
    read_backup(File::open(path)?)
}

/// Reads a backup, compressed or not.
///
/// # Errors
/// When nothing can be read.
pub fn read_backup(mut input: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut begin = Vec::new();
    (&mut input).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut begin)?;
    let is_compressed = begin == ZSTD_MAGIC;
    let input = BufReader::with_capacity(1 << 17, io::Cursor::new(begin).chain(input));
    Ok(if is_compressed { Box::new(BufReader::new(zstd::Decoder::with_buffer(input)?)) } else { Box::new(input) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn what_lies_under_the_name_of_the_file_under_way_is_not_written_into() {
        let directory = tempfile::tempdir().unwrap();
        let (path, victim) = (directory.path().join("a.backup"), directory.path().join("victim"));
        let partial = path_with_suffix(&path, ".partial");
        fs::write(&victim, b"somebody's").unwrap();
        symlink(&victim, &partial).unwrap();
        let refused = BackupFile::create(&path).err().unwrap();
        assert!(refused.to_string().contains("no file: remove it"), "{refused}");
        assert_eq!(fs::read(&victim).unwrap(), b"somebody's");
        fs::remove_file(&partial).unwrap();
        // Open to all, and, where this is root, somebody else's.
        fs::write(&partial, b"left").unwrap();
        fs::set_permissions(&partial, fs::Permissions::from_mode(0o666)).unwrap();
        let _ = chown(&partial, Some(65534), Some(65534));
        let reader = File::open(&partial).unwrap();
        let mut made = BackupFile::create(&path).unwrap();
        made.write_all(b"secret").unwrap();
        let (found, own) = (fs::symlink_metadata(&partial).unwrap(), fs::metadata(directory.path()).unwrap());
        assert_eq!((found.mode() & 0o777, found.uid()), (0o600, own.uid()));
        assert_eq!(io::read_to_string(reader).unwrap(), "left");
        // One that is under way is left alone.
        assert!(BackupFile::create(&path).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        drop(made);
        assert!(!partial.exists());
    }
}
