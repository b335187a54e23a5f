//! Backups: the database as a stream of its rows. A backup is written while the database is in use,
//! stored in a file, inspected, and restored as a database.
//!
//! A backup is not a copy of the database file. A copy would include free pages and could not go
//! through a pipe. Any later release can read the rows with the migrations that it uses for
//! database files. Each frame of the stream is verified as it is read.

mod bucket;
mod bucket_file;
mod directory;
mod encryption;
mod file;
mod hook;
mod scheduler;
mod stream;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::engine::{Handle, ServerLocation, Throttle};
use crate::store::{DatabaseRestore, Inspection, InspectionReport, StoreError};
use crate::util::random::Random;
pub use bucket::{BackupBucket, BucketConfig, StoredBackup};
pub use bucket_file::parse_bucket;
pub use encryption::{BackupKeys, BackupRecipient, EncryptedOutput};
pub use file::{BackupFileWriter, open_backup, read_backup};
pub use hook::BackupHook;
pub use scheduler::{BackupControl, BackupFile, BackupSchedule, BackupScheduler};
use stream::{BackupReader, BackupWriter};

/// Maximum duration of a backup, without its pauses. Pages that are freed during a backup are not
/// reused, so the file grows: see [limits](crate::docs::limits).
const MAX_DURATION: Duration = Duration::from_secs(3600);
/// Size of a chunk of a stream, in bytes.
const CHUNK_BYTES: usize = 128 << 10;
/// Maximum number of chunks that wait for the receiver.
const MAX_WAITING_CHUNKS: usize = 4;

/// Error of writing or reading a backup.
#[derive(Debug)]
pub enum BackupError {
    /// Error of the database.
    Store(StoreError),
    /// I/O error of the backup file or the pipe.
    Io(io::Error),
    /// The content is not what was written; the text gives the reason.
    Damaged(String),
    /// The backup took longer than the limit.
    TooSlow,
    /// The backup ended with a panic, which the log shows.
    Panicked,
    /// The backup was made, but the command that follows failed.
    Hook(String),
    /// The bucket or its server failed.
    Bucket(String),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Damaged(reason) | Self::Bucket(reason) => f.write_str(reason),
            Self::Panicked => {
                f.write_str("the program panicked while making the backup; the log shows where")
            }
            Self::Hook(reason) => write!(f, "--backup-command failed: {reason}"),
            Self::TooSlow => write!(
                f,
                "it took longer than {} minutes",
                MAX_DURATION.as_secs() / 60
            ),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Metadata of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupInfo {
    /// Time at which the backup began, RFC 3339.
    pub begun: String,
    /// Release that wrote the backup.
    pub release: String,
}

/// Writes the current database as one stream. Reading takes turns with incoming pings.
///
/// # Errors
/// Returns an error if the database cannot be read or the stream cannot be written. The stream then
/// has no end frame.
pub fn write_backup(handle: &Handle, out: impl Write) -> Result<(), BackupError> {
    let begun = handle.clock().uptime();
    let mut begun_text = String::new();
    handle.now().write_rfc3339_secs(&mut begun_text);
    let mut stream = BackupWriter::begin(
        out,
        &BackupInfo {
            begun: begun_text,
            release: env!("CARGO_PKG_VERSION").into(),
        },
    )?;
    let mut written = Ok(());
    let mut throttle = Throttle::new(ServerLocation::InProcess(handle));
    handle.visit_table_rows(|rows| {
        let is_slow = handle
            .clock()
            .uptime()
            .saturating_sub(begun + throttle.total_pause())
            > MAX_DURATION;
        written = if is_slow {
            Err(BackupError::TooSlow)
        } else {
            stream.write_rows(rows).map_err(BackupError::Io)
        };
        throttle.pause_if_due();
        written.is_ok()
    })?;
    written?;
    stream.finish()?.flush()?;
    Ok(())
}

/// Returns the database as chunks of a stream, optionally compressed: see [`stream_chunks`].
///
/// # Errors
/// Returns an error if the system cannot start a thread.
pub fn backup_chunks(
    handle: Handle,
    is_compressed: bool,
) -> io::Result<Receiver<Result<Vec<u8>, BackupError>>> {
    stream_chunks(move |mut out| {
        if is_compressed {
            file::write_compressed(&mut out, |out| write_backup(&handle, out))
        } else {
            write_backup(&handle, &mut out)
        }
    })
}

/// Runs `write` on its own thread and returns its output as chunks. Chunks are produced as fast as
/// the receiver takes them. An error of `write` is the last item.
///
/// # Errors
/// Returns an error if the system cannot start a thread.
pub fn stream_chunks<E: Send + 'static>(
    write: impl FnOnce(&mut dyn Write) -> Result<(), E> + Send + 'static,
) -> io::Result<Receiver<Result<Vec<u8>, E>>> {
    let (sender, receiver) = channel(MAX_WAITING_CHUNKS);
    std::thread::Builder::new()
        .name("stream".into())
        .spawn(move || {
            lower_thread_priority();
            let mut out = ChunkSender {
                sender: &sender,
                chunk: Vec::with_capacity(CHUNK_BYTES),
            };
            if let Err(error) = write(&mut out) {
                // This fails only if the receiver is gone, which then does not take chunks either.
                let _ = sender.blocking_send(Err(error));
            }
        })?;
    Ok(receiver)
}

/// Gives this thread, and the threads that it starts, the lowest priority, so that pings go first.
pub fn lower_thread_priority() {
    // On other systems this would apply to the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!("cannot lower the priority of a background thread: {error}");
    }
}

/// Collects written bytes into chunks.
struct ChunkSender<'s, E> {
    sender: &'s Sender<Result<Vec<u8>, E>>,
    chunk: Vec<u8>,
}

impl<E> Write for ChunkSender<'_, E> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend(bytes.iter().take(length));
        if self.chunk.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        self.sender
            .blocking_send(Ok(piece))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Reads the whole stream, throttled by `throttle`, and returns the number of rows.
///
/// # Errors
/// Returns an error if the stream is not what was written.
fn verify_stream(input: impl Read, throttle: &mut Throttle<'_>) -> Result<u64, BackupError> {
    let mut reader = BackupReader::begin(input)?;
    let mut count = 0;
    while let Some(rows) = reader.next_rows()? {
        count += rows.iter().count() as u64;
        throttle.pause_if_due();
    }
    Ok(count)
}

/// Inspects every row of a stream.
///
/// # Errors
/// Returns an error if the stream is not what was written. Problems of single rows are reported as
/// findings.
pub fn inspect(input: impl Read) -> Result<(BackupInfo, InspectionReport), BackupError> {
    let mut reader = BackupReader::begin(input)?;
    let mut inspection = Inspection::default();
    while let Some(rows) = reader.next_rows()? {
        inspection.inspect_rows(&rows)?;
    }
    Ok((reader.info().clone(), inspection.finish()))
}

/// Restores a stream as the database of a directory: see [operations](crate::docs::operations).
///
/// # Errors
/// Returns an error if the stream is not what was written, or if the database cannot be written or
/// is in use. The directory is then unchanged.
pub fn restore(
    directory: &Path,
    force: bool,
    input: impl Read,
    random: &Random,
) -> Result<BackupInfo, BackupError> {
    // Fails before anything is created.
    let mut reader = BackupReader::begin(input)?;
    let mut restoration = DatabaseRestore::begin(directory, force)?;
    while let Some(rows) = reader.next_rows()? {
        restoration.add(&rows)?;
    }
    restoration.finish(random.bytes())?;
    Ok(reader.info().clone())
}

/// Replaces the database of a directory by the one in a stream, unchanged: a copy for another
/// machine of the same cluster.
///
/// # Errors
/// Returns an error if the stream is not what was written, or if the database cannot be written or
/// is in use. The directory is then unchanged.
pub fn receive_copy(directory: &Path, input: impl Read) -> Result<(), BackupError> {
    let mut reader = BackupReader::begin(input)?;
    let mut copy = DatabaseRestore::begin(directory, true)?;
    while let Some(rows) = reader.next_rows()? {
        copy.add(&rows)?;
    }
    Ok(copy.finish_copy()?)
}

/// Returns the path with `suffix` appended to its file name.
fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
