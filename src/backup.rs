//! The database as a stream of its rows: taken while it is in use, kept in files, looked at, and made a database again.
//!
//! A backup is no copy of the file. A copy would have its dead pages, too, and could not go through a pipe. Rows can be read by any later
//! release, by the migrations by which it reads a file; and each piece of the stream is checked as it is read.

mod file;
mod scheduler;
mod stream;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::engine::{Handle, ServerLocation, Throttle};
use crate::random::Random;
use crate::store::{DatabaseRestore, Inspection, InspectionReport, StoreError};
pub use file::{BackupFile, open_backup, read_backup};
pub use scheduler::{BackupSchedule, BackupScheduler};
use stream::{BackupReader, BackupWriter};

/// How long a backup may take, without its rests. Pages that are freed meanwhile are not used again, so the file grows: see
/// [limits](crate::docs::limits).
const MAX_DURATION: Duration = Duration::from_secs(3600);
/// Bytes of a piece of a stream.
const CHUNK_BYTES: usize = 128 << 10;
/// Pieces that wait to be taken.
const MAX_WAITING_CHUNKS: usize = 4;

/// Why a backup could not be made or read.
#[derive(Debug)]
pub enum BackupError {
    /// The database.
    Store(StoreError),
    /// The file of the backup, or the pipe.
    Io(io::Error),
    /// It is not what was written.
    Damaged(String),
    /// It took too long.
    TooSlow,
    /// Making it ended with a panic, which the log shows.
    Panicked,
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Damaged(reason) => f.write_str(reason),
            Self::Panicked => f.write_str("the program panicked while it made the backup; the log has the place"),
            Self::TooSlow => write!(f, "it took longer than {} minutes", MAX_DURATION.as_secs() / 60),
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

/// What a backup says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupInfo {
    /// When it was begun, RFC 3339.
    pub begun: String,
    /// The release that made it.
    pub release: String,
}

/// Writes the database, as it is now, as one stream. While pings come it takes turns with them.
///
/// # Errors
/// When the database cannot be read, or the stream cannot be written: it has no end then.
pub fn write_backup(handle: &Handle, out: impl Write) -> Result<(), BackupError> {
    let begun = handle.clock().uptime();
    let mut made = String::new();
    handle.now().write_rfc3339_secs(&mut made);
    let mut stream = BackupWriter::begin(out, &BackupInfo { begun: made, release: env!("CARGO_PKG_VERSION").into() })?;
    let (mut written, mut pace) = (Ok(()), Throttle::new(ServerLocation::InProcess(handle)));
    handle.for_each_rows(|rows| {
        let is_slow = handle.clock().uptime().saturating_sub(begun + pace.total_pause()) > MAX_DURATION;
        written = if is_slow { Err(BackupError::TooSlow) } else { stream.write_rows(rows).map_err(BackupError::Io) };
        pace.pause_if_due();
        written.is_ok()
    })?;
    written?;
    stream.finish()?.flush()?;
    Ok(())
}

/// The database as pieces of a stream, compressed or not: see [`stream_chunks`].
///
/// # Errors
/// When the system gives no thread.
pub fn backup_chunks(handle: Handle, is_compressed: bool) -> io::Result<Receiver<Result<Vec<u8>, BackupError>>> {
    stream_chunks(move |mut out| {
        if is_compressed { file::write_compressed(&mut out, |out| write_backup(&handle, out)) } else { write_backup(&handle, &mut out) }
    })
}

/// What is written, as pieces of a stream, which are made as fast as they are taken, on a thread of their own. What went wrong comes last.
///
/// # Errors
/// When the system gives no thread.
pub fn stream_chunks<E: Send + 'static>(
    write: impl FnOnce(&mut dyn Write) -> Result<(), E> + Send + 'static,
) -> io::Result<Receiver<Result<Vec<u8>, E>>> {
    let (sender, receiver) = channel(MAX_WAITING_CHUNKS);
    std::thread::Builder::new().name("stream".into()).spawn(move || {
        lower_thread_priority();
        let mut out = ChunkSender { sender: &sender, chunk: Vec::with_capacity(CHUNK_BYTES) };
        if let Err(error) = write(&mut out) {
            // Nobody takes it any more only when nobody takes pieces either.
            let _ = sender.blocking_send(Err(error));
        }
    })?;
    Ok(receiver)
}

/// Lets everything else go before this thread and those that it starts: pings before all.
pub fn lower_thread_priority() {
    // Elsewhere it would be the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!("a thread that should give way goes as fast as all others: {error}");
    }
}

/// Gathers what is written into pieces.
struct ChunkSender<'s, E> {
    sender: &'s Sender<Result<Vec<u8>, E>>,
    chunk: Vec<u8>,
}

impl<E> Write for ChunkSender<'_, E> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend(bytes.iter().take(taken));
        if self.chunk.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        self.sender.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Reads all of a stream at this pace, and says how many rows it has.
///
/// # Errors
/// When it is not what was written.
fn count_rows(input: impl Read, pace: &mut Throttle<'_>) -> Result<u64, BackupError> {
    let mut reader = BackupReader::begin(input)?;
    let mut count = 0;
    while let Some(rows) = reader.next_rows()? {
        count += rows.iter().count() as u64;
        pace.pause_if_due();
    }
    Ok(count)
}

/// Looks at every row of a stream.
///
/// # Errors
/// When it is not what was written. What is wrong with single rows is among the findings.
pub fn inspect(input: impl Read) -> Result<(BackupInfo, InspectionReport), BackupError> {
    let mut reader = BackupReader::begin(input)?;
    let mut inspection = Inspection::default();
    while let Some(rows) = reader.next_rows()? {
        inspection.inspect_rows(&rows)?;
    }
    Ok((reader.info().clone(), inspection.finish()))
}

/// Makes a stream the database of a directory: see [operations](crate::docs::operations).
///
/// # Errors
/// When the stream is not what was written, or the database cannot be written or is in use: all is then as it was.
pub fn restore(directory: &Path, force: bool, input: impl Read, random: &Random) -> Result<BackupInfo, BackupError> {
    // Before anything is made.
    let mut reader = BackupReader::begin(input)?;
    let mut restoration = DatabaseRestore::begin(directory, force)?;
    while let Some(rows) = reader.next_rows()? {
        restoration.add(&rows)?;
    }
    restoration.finish(random.bytes())?;
    Ok(reader.info().clone())
}

/// The path with something added to its name.
fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
