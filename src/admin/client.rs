//! Asks the server that runs on a data directory, or opens the database when none does.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::line;
use super::request::channel::OfChannel;
use super::request::import::ImportRequest;
use super::request::{Reply, Request};
use super::{SOCKET_NAME, perform};
use crate::backup::{self, BackupError};
use crate::engine::{self, Ended, Handle, Writer};
use crate::notify;
use crate::store::access::{SERVICE_DIRECTORY, refusal};
use crate::store::{FILE_NAME, Medium, StoreError};

/// How long a server may take to answer, and how long a command waits for one that is starting or stopping.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to answer what has to be sent to others first: a test is given up a little earlier.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(75);
/// How long a server may take to read, compare or write all that there is.
const PATIENCE_WITH_MUCH: Duration = Duration::from_secs(60);
/// Bytes of a part of a document, which is a line in base64.
const PART_BYTES: usize = 128 << 10;
/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a line of a reply. What release 0.1 took of a check makes longer ones than lists are cut into.
const MOST_BYTES: u64 = 16 << 20;

/// Why there is no reply.
#[derive(Debug)]
pub enum AskError {
    /// The database is not there, and only making a project makes one.
    NoDatabase(PathBuf),
    /// A server holds the database, and was silent for ten seconds.
    Silent(PathBuf),
    /// A server took the request and went away.
    HungUp,
    /// A server answered what this release cannot read.
    Unreadable(String),
    /// The socket cannot be used.
    Socket(PathBuf, io::Error),
    /// The database cannot be opened.
    Store(StoreError),
    /// There is no backup, or nowhere to write that or an export.
    Backup(BackupError),
    /// No thread can be started, or it died.
    Thread,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDatabase(directory) => {
                let shown = directory.display();
                if directory != Path::new(SERVICE_DIRECTORY) && Path::new(SERVICE_DIRECTORY).is_dir() {
                    return write!(
                        f,
                        "there is no database in {shown}: that of the service is in {SERVICE_DIRECTORY}, as in `sudo -u overdue overdue … --data {SERVICE_DIRECTORY}`"
                    );
                }
                write!(
                    f,
                    "there is no database in {shown}: give its directory with --data, or make one with `overdue serve` or `overdue project create`"
                )
            }
            Self::Silent(directory) => write!(
                f,
                "a server is running on {} but does not answer: look at its log, or stop it and try again; a change may or may not have been made",
                directory.display()
            ),
            Self::HungUp => f.write_str("the server stopped before it answered: a change may or may not have been made"),
            Self::Unreadable(reason) => f.write_str(reason),
            Self::Socket(path, error) => f.write_str(&refusal(path, error)),
            Self::Store(error) => error.fmt(f),
            Self::Backup(error) => error.fmt(f),
            Self::Thread => f.write_str("the thread that writes the database could not do its work"),
        }
    }
}

impl std::error::Error for AskError {}

/// Who can answer.
enum Way {
    Server(UnixStream),
    Database(Handle, Box<Writer>),
}

/// Asks whoever holds the database of this directory; if nobody does, opens it for as long as it takes. `sending`: what tests of channels
/// are sent with then.
pub async fn ask(directory: &Path, request: Request, sending: Option<notify::Config>) -> Result<Reply, AskError> {
    ask_about(directory, request, Vec::new(), sending).await
}

/// Asks about a document, for which a database is made if there is none.
pub async fn declare(directory: &Path, request: Request, document: String) -> Result<Reply, AskError> {
    ask_about(directory, request, document.into_bytes(), None).await
}

async fn ask_about(directory: &Path, request: Request, document: Vec<u8>, sending: Option<notify::Config>) -> Result<Reply, AskError> {
    let may_make = matches!(request, Request::CreateProject { .. } | Request::Declare { dry: false, .. });
    let mut session = Session::open(directory, may_make).await?;
    let reply = session.ask_about(request, document, sending).await?;
    session.close()?;
    Ok(reply)
}

/// A server, or the database itself, for several requests. What is open is closed when this is dropped.
pub struct Session {
    directory: PathBuf,
    end: OtherEnd,
}

enum OtherEnd {
    Server(BufReader<UnixStream>),
    /// The writer's thread; `None` once it has ended.
    Database(Handle, Option<JoinHandle<Ended>>),
}

impl Session {
    /// Finds whoever holds the database of this directory; if nobody does, opens it, or makes one if it may.
    ///
    /// # Errors
    /// When there is no database, or whoever holds it does not answer.
    pub async fn open(directory: &Path, may_make: bool) -> Result<Self, AskError> {
        let found = timeout(PATIENCE, way(directory, may_make)).await.map_err(|_| AskError::Silent(directory.into()))??;
        let end = match found {
            Way::Server(stream) => OtherEnd::Server(BufReader::new(stream)),
            Way::Database(handle, writer) => {
                let running = std::thread::Builder::new().spawn(|| writer.run()).map_err(|_| AskError::Thread)?;
                OtherEnd::Database(handle, Some(running))
            }
        };
        Ok(Self { directory: directory.into(), end })
    }

    /// Finds the server that runs on this directory; `None`: none does. A database is not opened.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn with_server(directory: &Path) -> Result<Option<Self>, AskError> {
        let found = timeout(PATIENCE, server(directory)).await.map_err(|_| AskError::Silent(directory.into()))??;
        Ok(found.map(|stream| Self { directory: directory.into(), end: OtherEnd::Server(BufReader::new(stream)) }))
    }

    /// Whether a server answers.
    pub fn is_served(&self) -> bool {
        matches!(self.end, OtherEnd::Server(_))
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn ask(&mut self, request: Request) -> Result<Reply, AskError> {
        self.ask_with(request, Vec::new()).await
    }

    /// Asks for one thing, about a document that goes before it in parts.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn ask_with(&mut self, request: Request, document: Vec<u8>) -> Result<Reply, AskError> {
        self.ask_about(request, document, None).await
    }

    async fn ask_about(&mut self, request: Request, document: Vec<u8>, sending: Option<notify::Config>) -> Result<Reply, AskError> {
        match &mut self.end {
            OtherEnd::Server(stream) => {
                for part in document.chunks(PART_BYTES) {
                    match exchange(stream, &Request::Part(STANDARD.encode(part)), &self.directory).await? {
                        Reply::Done => {}
                        other => return Ok(other),
                    }
                }
                exchange(stream, &request, &self.directory).await
            }
            OtherEnd::Database(handle, _) => {
                let performing = perform(handle, request, document);
                let (mut reply, mut rest) = match sending {
                    None => performing.await,
                    Some(sending) => tokio::select! {
                        answer = performing => answer,
                        never = notify::try_channels(handle, sending) => match never {},
                    },
                };
                while let Some(following) = rest {
                    let (next, after) = following.next(handle).await;
                    joined(&mut reply, next)?;
                    rest = after;
                }
                Ok(reply)
            }
        }
    }

    /// Closes what is open.
    ///
    /// # Errors
    /// When the writer has died.
    pub fn close(mut self) -> Result<(), AskError> {
        self.end.close()
    }
}

impl OtherEnd {
    fn close(&mut self) -> Result<(), AskError> {
        let Self::Database(handle, running) = self else { return Ok(()) };
        handle.close();
        running.take().map_or(Ok(()), |running| running.join().map(drop).map_err(|_| AskError::Thread))
    }
}

impl Drop for OtherEnd {
    fn drop(&mut self) {
        // Whoever wants to know whether it worked has closed it.
        let _ = self.close();
    }
}

/// The server that runs on this directory, if one does.
async fn server(directory: &Path) -> Result<Option<UnixStream>, AskError> {
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NotADirectory, NotFound, WouldBlock};
    let path = directory.join(SOCKET_NAME);
    loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => return Ok(Some(stream)),
            // No socket, one left behind, or a path that no socket can have.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | ConnectionRefused | InvalidInput) => return Ok(None),
            // More clients than it can accept.
            Err(error) if error.kind() == WouldBlock => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(AskError::Socket(path, error)),
        }
    }
}

/// Finds a way. A server that is starting or stopping holds the database but has no socket: that passes.
async fn way(directory: &Path, may_make: bool) -> Result<Way, AskError> {
    loop {
        if let Some(stream) = server(directory).await? {
            return Ok(Way::Server(stream));
        }
        if !may_make && matches!(directory.join(FILE_NAME).try_exists(), Ok(false)) {
            return Err(AskError::NoDatabase(directory.into()));
        }
        match open(directory) {
            Err(StoreError::InUse(_)) => tokio::time::sleep(PAUSE).await,
            opened => return opened.map(|(handle, writer)| Way::Database(handle, Box::new(writer))).map_err(AskError::Store),
        }
    }
}

fn open(directory: &Path) -> Result<(Handle, Writer), StoreError> {
    let medium = Medium::Directory(directory.into());
    engine::open(engine::Config::without_pings(medium))
}

/// Sends the request and reads all lines of the answer.
async fn exchange(stream: &mut BufReader<UnixStream>, request: &Request, directory: &Path) -> Result<Reply, AskError> {
    let refused = |error| AskError::Socket(directory.join(SOCKET_NAME), error);
    let silent = |_| AskError::Silent(directory.into());
    let is_test = matches!(request, Request::OfChannel { what: OfChannel::Test { .. }, .. });
    let patience = if is_test { PATIENCE_WITH_OTHERS } else { PATIENCE };
    let is_long_step = |step: &ImportRequest| matches!(step, ImportRequest::Finish { .. } | ImportRequest::LongPing { .. });
    let takes_long = match request {
        Request::Import(step) => is_long_step(step),
        request => matches!(request, Request::Declare { .. } | Request::Export { .. }),
    };
    let patience = if takes_long { PATIENCE_WITH_MUCH } else { patience };
    let request = line::encode(request).map_err(|error| refused(error.into()))?;
    timeout(PATIENCE, stream.write_all(&request)).await.map_err(silent)?.map_err(refused)?;
    let mut answer: Option<Reply> = None;
    loop {
        let (reply, more) = next_line(stream, patience, directory).await?;
        match &mut answer {
            None => answer = Some(reply),
            Some(first) => joined(first, reply)?,
        }
        if !more && let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

/// Reads the next line of an answer, and whether another follows.
async fn next_line(stream: &mut BufReader<UnixStream>, patience: Duration, directory: &Path) -> Result<(Reply, bool), AskError> {
    let mut line = Vec::new();
    let reading = async { stream.take(MOST_BYTES).read_until(b'\n', &mut line).await };
    let read = timeout(patience, reading).await.map_err(|_| AskError::Silent(directory.into()))?;
    read.map_err(|error| AskError::Socket(directory.join(SOCKET_NAME), error))?;
    if line.ends_with(b"\n") { line::decode(&line).map_err(AskError::Unreadable) } else { Err(AskError::HungUp) }
}

/// Finds a way to read what a directory holds. On a read-only file system, such as a snapshot, the database is read as it is.
async fn way_to_read(directory: &Path) -> Result<Way, AskError> {
    match timeout(PATIENCE, way(directory, false)).await.map_err(|_| AskError::Silent(directory.into()))? {
        Err(AskError::Store(error)) if error.is_read_only() => {
            let opened = Medium::unchanged(directory).and_then(|medium| engine::open(engine::Config::without_pings(medium)));
            opened.map(|(handle, writer)| Way::Database(handle, Box::new(writer))).map_err(AskError::Store)
        }
        found => found,
    }
}

/// Has a backup of this directory's database written to `out`, by the server that runs on it or by ourselves.
pub async fn backup(directory: &Path, mut out: impl Write) -> Result<(), AskError> {
    match way_to_read(directory).await? {
        // Nothing is changed: nobody has to write.
        Way::Database(handle, _writer) => backup::write(&handle, out).map_err(AskError::Backup),
        Way::Server(stream) => pieces(stream, &Request::Backup {}, directory, &mut out).await,
    }
}

/// Has everything that this directory's database holds written to `out` as lines, or one project without users, by the server that runs on
/// it or by ourselves.
pub async fn export_lines(directory: &Path, project: Option<String>, logs: bool, mut out: impl Write) -> Result<(), AskError> {
    let request = Request::ExportLines { project, logs };
    match way_to_read(directory).await? {
        Way::Server(stream) => pieces(stream, &request, directory, &mut out).await,
        // Nothing is changed: nobody has to write.
        Way::Database(handle, _writer) => {
            let (mut reply, mut rest) = perform(&handle, request, Vec::new()).await;
            while !taken(reply, &mut out)? {
                let following = rest.take().ok_or(AskError::HungUp)?;
                (reply, rest) = following.next(&handle).await;
            }
            Ok(())
        }
    }
}

/// Has a server answer with pieces, and writes them.
async fn pieces(mut stream: UnixStream, request: &Request, directory: &Path, out: &mut impl Write) -> Result<(), AskError> {
    let refused = |error| AskError::Socket(directory.join(SOCKET_NAME), error);
    let request = line::encode(request).map_err(|error| refused(error.into()))?;
    stream.write_all(&request).await.map_err(refused)?;
    let mut stream = BufReader::new(stream);
    while !taken(next_line(&mut stream, PATIENCE, directory).await?.0, out)? {}
    Ok(())
}

/// Writes a piece; `true`: that was the end.
fn taken(reply: Reply, out: &mut impl Write) -> Result<bool, AskError> {
    let unwritten = |error: io::Error| AskError::Backup(error.into());
    match reply {
        Reply::Piece(piece) => {
            let piece = STANDARD.decode(piece).map_err(|_| AskError::Unreadable("a piece of the answer is no base64".into()))?;
            out.write_all(&piece).map_err(unwritten).map(|()| false)
        }
        Reply::Done => out.flush().map_err(unwritten).map(|()| true),
        Reply::Refused(reason) | Reply::Invalid(reason) => Err(AskError::Unreadable(reason)),
        _ => Err(AskError::Unreadable("the server answered something else than pieces".into())),
    }
}

/// Whether a server runs on this directory, also one whose file is gone.
pub fn is_served(directory: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(directory.join(SOCKET_NAME)).is_ok()
}

fn joined(first: &mut Reply, next: Reply) -> Result<(), AskError> {
    first.append(next).map_err(|_| AskError::Unreadable("the pieces of an answer do not belong together".into()))
}
