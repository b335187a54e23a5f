//! Backup files. A file gets its final name once it is complete, synced to disk and verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::encryption::{AGE_MAGIC, BackupKeys, BackupRecipient, EncryptedOutput};
use super::{BackupError, path_with_suffix, verify_stream};
use crate::engine::Throttle;
use crate::store::NO_FOLLOW;

/// First bytes of a compressed file (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A fast level that already reduces logs and rows to a quarter.
const COMPRESSION_LEVEL: i32 = 3;
/// Number of written bytes after which the file is synced. One sync of the whole file would delay
/// the syncs of the database on the same disk.
const SYNC_BYTES: usize = 2 << 20;
/// Number of attempts to create the partial file if other processes remove it meanwhile.
const CREATE_ATTEMPTS: usize = 3;

/// A backup in progress, stored as `<name>.partial`. The partial file is removed on drop unless it
/// is kept.
pub struct BackupFileWriter {
    path: PathBuf,
    partial: PathBuf,
    out: Option<BackupOutput>,
    /// Keys that open the file if it is encrypted.
    keys: BackupKeys,
    is_kept: bool,
}

enum BackupOutput {
    Plain(EncryptedOutput<SyncingFile>),
    Compressed(zstd::Encoder<'static, EncryptedOutput<SyncingFile>>),
}

/// A file that is synced in steps.
struct SyncingFile {
    file: File,
    /// Number of bytes written since the last sync.
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

impl BackupFileWriter {
    /// Creates a backup file that only its owner can read. It is compressed if the name ends with
    /// `.zst` or `.zst.age`, and encrypted if there are recipients.
    ///
    /// # Errors
    /// Returns an error if the system refuses, or if another backup to this name is in progress.
    pub fn create(path: &Path, recipients: &[BackupRecipient]) -> io::Result<Self> {
        let partial = path_with_suffix(path, ".partial");
        let file = create_locked(&partial)?;
        let file = SyncingFile {
            file,
            unsynced_bytes: 0,
        };
        let (out, keys) = EncryptedOutput::begin(file, recipients)?;
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let out = if name
            .strip_suffix(b".age")
            .unwrap_or(name)
            .ends_with(b".zst")
        {
            BackupOutput::Compressed(zstd::Encoder::new(out, COMPRESSION_LEVEL)?)
        } else {
            BackupOutput::Plain(out)
        };
        Ok(Self {
            path: path.into(),
            partial,
            out: Some(out),
            keys,
            is_kept: false,
        })
    }

    /// Reads the file again from the beginning, throttled by `throttle`, and gives it its final
    /// name. Returns the bytes of the file and the number of its rows.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or is not what was written.
    pub fn verify_and_rename(
        mut self,
        throttle: &mut Throttle<'_>,
    ) -> Result<(u64, u64), BackupError> {
        let out = match self.out.take() {
            Some(BackupOutput::Plain(out)) => out,
            Some(BackupOutput::Compressed(encoder)) => encoder.finish()?,
            None => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        };
        let SyncingFile { file, .. } = out.finish()?;
        file.sync_all()?;
        // The partial name may belong to another file by now.
        let mut reader_file = file.try_clone()?;
        reader_file.rewind()?;
        let rows = verify_stream(read_backup(reader_file, &self.keys)?, throttle)?;
        let bytes = file.metadata()?.len();
        fs::rename(&self.partial, &self.path)?;
        self.is_kept = true;
        let parent = self
            .path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
        Ok((bytes, rows))
    }
}

impl Write for BackupFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Some(BackupOutput::Plain(file)) => file.write(bytes),
            Some(BackupOutput::Compressed(encoder)) => encoder.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // The file is flushed by `verify_and_rename`.
        Ok(())
    }
}

impl Drop for BackupFileWriter {
    fn drop(&mut self) {
        if !self.is_kept {
            // The error cannot be reported here. The next backup of the same name removes the file.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Creates and locks the partial file, so that no other backup to the same name writes into it. A
/// file that an earlier backup left is removed. An existing file is never written into: it may
/// belong to another user, who could then read the backup.
fn create_locked(partial: &Path) -> io::Result<File> {
    for _ in 0..CREATE_ATTEMPTS {
        let options = |new| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(new)
                .mode(0o600)
                .custom_flags(NO_FOLLOW)
                .open(partial)
        };
        match options(true) {
            Ok(file) => {
                file.try_lock().map_err(io::Error::from)?;
                // Before the lock, another process may have removed the file as a leftover.
                if is_named(&file, partial)? {
                    return Ok(file);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(partial)?.is_file() {
                    return Err(io::Error::other(format!(
                        "{} exists and is not a regular file: remove it",
                        partial.display()
                    )));
                }
                let leftover = options(false)?;
                leftover.try_lock().map_err(io::Error::from)?;
                if is_named(&leftover, partial)? {
                    fs::remove_file(partial)?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// True if `path` still names this file.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let file = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named_file) => Ok((named_file.dev(), named_file.ino()) == (file.dev(), file.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Compresses the output of `write` into `out`.
pub(super) fn write_compressed<W: Write>(
    mut out: W,
    write: impl FnOnce(&mut zstd::Encoder<'_, &mut W>) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let mut encoder = zstd::Encoder::new(&mut out, COMPRESSION_LEVEL)?;
    write(&mut encoder)?;
    encoder.finish()?;
    Ok(out.flush()?)
}

/// Opens a backup, compressed and encrypted or not.
///
/// # Errors
/// Returns an error if the file cannot be read, or is encrypted for none of the keys.
pub fn open_backup(path: &Path, keys: &BackupKeys) -> Result<Box<dyn Read>, BackupError> {
    read_backup(File::open(path)?, keys)
}

/// Reads a backup, compressed and encrypted or not.
///
/// # Errors
/// Returns an error if the input cannot be read, or is encrypted for none of the keys.
pub fn read_backup(
    input: impl Read + 'static,
    keys: &BackupKeys,
) -> Result<Box<dyn Read>, BackupError> {
    let (begin, input) = peek(input, AGE_MAGIC.len())?;
    if begin == AGE_MAGIC {
        decompress(keys.decrypt(input)?)
    } else {
        decompress(input)
    }
}

/// Decompresses an input if it is compressed.
fn decompress(input: impl Read + 'static) -> Result<Box<dyn Read>, BackupError> {
    let (begin, input) = peek(input, ZSTD_MAGIC.len())?;
    Ok(if begin == ZSTD_MAGIC {
        Box::new(BufReader::new(zstd::Decoder::with_buffer(input)?))
    } else {
        Box::new(input)
    })
}

/// Returns the first bytes of an input, and the whole input.
fn peek<R: Read>(mut input: R, len: usize) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut begin = Vec::new();
    (&mut input).take(len as u64).read_to_end(&mut begin)?;
    let whole = io::Cursor::new(begin.clone()).chain(input);
    Ok((begin, BufReader::with_capacity(1 << 17, whole)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn an_existing_file_at_the_temporary_path_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.backup");
        let victim = directory.path().join("victim");
        let partial = path_with_suffix(&path, ".partial");
        fs::write(&victim, b"of another user").unwrap();
        symlink(&victim, &partial).unwrap();
        let refused = BackupFileWriter::create(&path, &[]).err().unwrap();
        assert!(
            refused
                .to_string()
                .contains("not a regular file: remove it"),
            "{refused}"
        );
        assert_eq!(fs::read(&victim).unwrap(), b"of another user");
        fs::remove_file(&partial).unwrap();
        // Readable by all and, if the test runs as root, owned by another user.
        fs::write(&partial, b"left").unwrap();
        fs::set_permissions(&partial, fs::Permissions::from_mode(0o666)).unwrap();
        let _ = chown(&partial, Some(65534), Some(65534));
        let reader = File::open(&partial).unwrap();
        let mut made = BackupFileWriter::create(&path, &[]).unwrap();
        made.write_all(b"secret").unwrap();
        let found = fs::symlink_metadata(&partial).unwrap();
        let own = fs::metadata(directory.path()).unwrap();
        assert_eq!((found.mode() & 0o777, found.uid()), (0o600, own.uid()));
        assert_eq!(io::read_to_string(reader).unwrap(), "left");
        // A backup in progress is left alone.
        assert!(
            BackupFileWriter::create(&path, &[])
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        );
        drop(made);
        assert!(!partial.exists());
    }
}
