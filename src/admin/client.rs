//! Client of the server that runs on a data directory. Opens the database itself if no server runs.

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

use super::framing;
use super::request::channel::ChannelAction;
use super::request::import::ImportRequest;
use super::request::{AdminReply, AdminRequest};
use super::{SOCKET_NAME, handlers};
use crate::backup::{self, BackupError};
use crate::engine::{self, Handle, Writer, WriterExit};
use crate::notifier;
use crate::store::path_access::{SERVICE_DIRECTORY, explain_path_error};
use crate::store::{FILE_NAME, Medium, StoreError};

/// Time in which a server must answer, and time for which a command waits for a server that is
/// starting or stopping.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a server must answer a request that first sends to others. A test gives up a
/// little earlier.
const CHANNEL_TEST_TIMEOUT: Duration = Duration::from_secs(75);
/// Time in which a server must answer a request that reads, compares or writes everything.
const BULK_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a part of a document, which is sent as a line in base64.
const PART_BYTES: usize = 128 << 10;
/// Interval between two attempts to find a server.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum bytes of a line of a reply. Checks from release 0.1 can make a line longer than the size
/// at which lists are split.
const MAX_REPLY_LINE_BYTES: u64 = 16 << 20;

/// Reason why there is no reply.
#[derive(Debug)]
pub enum AdminClientError {
    /// There is no database, and only creating a project creates one.
    NoDatabase(PathBuf),
    /// A server holds the database, and did not answer for ten seconds.
    NotResponding(PathBuf),
    /// A server accepted the request and closed the connection.
    Disconnected,
    /// A server sent a reply that this release cannot read.
    UnreadableReply(String),
    /// The socket cannot be used.
    Socket(PathBuf, io::Error),
    /// The database cannot be opened.
    Store(StoreError),
    /// There is no backup, or the backup or the export cannot be written.
    Backup(BackupError),
    /// No thread could be started, or it ended.
    Thread,
}

impl fmt::Display for AdminClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDatabase(directory) => {
                let shown = directory.display();
                if directory != Path::new(SERVICE_DIRECTORY)
                    && Path::new(SERVICE_DIRECTORY).is_dir()
                {
                    return write!(
                        f,
                        "there is no database in {shown}: the service has its database in \
                         {SERVICE_DIRECTORY}; run `sudo -u overdue overdue … --data \
                         {SERVICE_DIRECTORY}`"
                    );
                }
                write!(
                    f,
                    "there is no database in {shown}: give its directory with --data, or create \
                     one with `overdue serve` or `overdue project create`"
                )
            }
            Self::NotResponding(directory) => write!(
                f,
                "a server is running on {} but does not respond: look at its log, or stop it and \
                 try again; a change may or may not have been made",
                directory.display()
            ),
            Self::Disconnected => f.write_str(
                "the server stopped before it responded: a change may or may not have been made",
            ),
            Self::UnreadableReply(reason) => f.write_str(reason),
            Self::Socket(path, error) => f.write_str(&explain_path_error(path, error)),
            Self::Store(error) => error.fmt(f),
            Self::Backup(error) => error.fmt(f),
            Self::Thread => f.write_str("the thread that writes the database failed"),
        }
    }
}

impl std::error::Error for AdminClientError {}

/// Target of requests.
enum AdminTarget {
    Server(UnixStream),
    Database(Handle, Box<Writer>),
}

/// Sends one request to the server of this directory. If none runs, opens the database for the time
/// of the request. `sending`: transports that send channel tests then.
pub async fn send_request(
    directory: &Path,
    request: AdminRequest,
    sending: Option<notifier::NotifierConfig>,
) -> Result<AdminReply, AdminClientError> {
    send_with_document(directory, request, Vec::new(), sending).await
}

/// Sends a request about a document. Creates the database if there is none.
pub async fn send_config_request(
    directory: &Path,
    request: AdminRequest,
    document: String,
) -> Result<AdminReply, AdminClientError> {
    send_with_document(directory, request, document.into_bytes(), None).await
}

async fn send_with_document(
    directory: &Path,
    request: AdminRequest,
    document: Vec<u8>,
    sending: Option<notifier::NotifierConfig>,
) -> Result<AdminReply, AdminClientError> {
    let may_make = matches!(
        request,
        AdminRequest::CreateProject { .. } | AdminRequest::Declare { dry: false, .. }
    );
    let mut session = AdminClient::open(directory, may_make).await?;
    let reply = session
        .send_with_options(request, document, sending)
        .await?;
    session.close()?;
    Ok(reply)
}

/// Connection to a server, or an open database, for several requests. It is closed when this is
/// dropped.
pub struct AdminClient {
    directory: PathBuf,
    connection: AdminConnection,
}

enum AdminConnection {
    Server(BufReader<UnixStream>),
    /// Handle of the writer's thread; `None` once it has ended.
    Database(Handle, Option<JoinHandle<WriterExit>>),
}

impl AdminClient {
    /// Connects to the server of this directory. If none runs, opens the database, or creates one
    /// if `may_make`.
    ///
    /// # Errors
    /// If there is no database, or its server does not answer.
    pub async fn open(directory: &Path, may_make: bool) -> Result<Self, AdminClientError> {
        let found = timeout(SERVER_TIMEOUT, open_target(directory, may_make))
            .await
            .map_err(|_| AdminClientError::NotResponding(directory.into()))??;
        let end = match found {
            AdminTarget::Server(stream) => AdminConnection::Server(BufReader::new(stream)),
            AdminTarget::Database(handle, writer) => {
                let running = std::thread::Builder::new()
                    .spawn(|| writer.run())
                    .map_err(|_| AdminClientError::Thread)?;
                AdminConnection::Database(handle, Some(running))
            }
        };
        Ok(Self {
            directory: directory.into(),
            connection: end,
        })
    }

    /// Connects to the server of this directory; `None` if none runs. Does not open a database.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub async fn connect_to_server(directory: &Path) -> Result<Option<Self>, AdminClientError> {
        let found = timeout(SERVER_TIMEOUT, find_server(directory))
            .await
            .map_err(|_| AdminClientError::NotResponding(directory.into()))??;
        Ok(found.map(|stream| Self {
            directory: directory.into(),
            connection: AdminConnection::Server(BufReader::new(stream)),
        }))
    }

    /// True if a server answers the requests.
    pub fn is_connected_to_server(&self) -> bool {
        matches!(self.connection, AdminConnection::Server(_))
    }

    /// Sends one request.
    ///
    /// # Errors
    /// If there is no reply.
    pub async fn send(&mut self, request: AdminRequest) -> Result<AdminReply, AdminClientError> {
        self.send_with_document(request, Vec::new()).await
    }

    /// Sends one request, after the parts of the document that it is about.
    ///
    /// # Errors
    /// If there is no reply.
    pub async fn send_with_document(
        &mut self,
        request: AdminRequest,
        document: Vec<u8>,
    ) -> Result<AdminReply, AdminClientError> {
        self.send_with_options(request, document, None).await
    }

    async fn send_with_options(
        &mut self,
        request: AdminRequest,
        document: Vec<u8>,
        sending: Option<notifier::NotifierConfig>,
    ) -> Result<AdminReply, AdminClientError> {
        match &mut self.connection {
            AdminConnection::Server(stream) => {
                for part in document.chunks(PART_BYTES) {
                    match exchange(
                        stream,
                        &AdminRequest::Part(STANDARD.encode(part)),
                        &self.directory,
                    )
                    .await?
                    {
                        AdminReply::Done => {}
                        other => return Ok(other),
                    }
                }
                exchange(stream, &request, &self.directory).await
            }
            AdminConnection::Database(handle, _) => {
                let performing = handlers::handle_request(handle, request, document);
                let (mut reply, mut rest) = match sending {
                    None => performing.await,
                    Some(sending) => tokio::select! {
                        answer = performing => answer,
                        never = notifier::run_channel_tests(handle, sending) => match never {},
                    },
                };
                while let Some(following) = rest {
                    let (next, after) = following.next_reply(handle).await;
                    append_reply(&mut reply, next)?;
                    rest = after;
                }
                Ok(reply)
            }
        }
    }

    /// Closes the connection or the database.
    ///
    /// # Errors
    /// If the writer has died.
    pub fn close(mut self) -> Result<(), AdminClientError> {
        self.connection.close()
    }
}

impl AdminConnection {
    fn close(&mut self) -> Result<(), AdminClientError> {
        let Self::Database(handle, running) = self else {
            return Ok(());
        };
        handle.close();
        running.take().map_or(Ok(()), |running| {
            running
                .join()
                .map(drop)
                .map_err(|_| AdminClientError::Thread)
        })
    }
}

impl Drop for AdminConnection {
    fn drop(&mut self) {
        // A caller that needs the result has called `close` itself.
        let _ = self.close();
    }
}

/// Connects to the server of this directory, if one runs.
async fn find_server(directory: &Path) -> Result<Option<UnixStream>, AdminClientError> {
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NotADirectory, NotFound, WouldBlock};
    let path = directory.join(SOCKET_NAME);
    loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => return Ok(Some(stream)),
            // There is no socket, a stale one, or the path is too long for a socket.
            Err(error)
                if matches!(
                    error.kind(),
                    NotFound | NotADirectory | ConnectionRefused | InvalidInput
                ) =>
            {
                return Ok(None);
            }
            // More clients than the server can accept.
            Err(error) if error.kind() == WouldBlock => tokio::time::sleep(POLL_INTERVAL).await,
            Err(error) => return Err(AdminClientError::Socket(path, error)),
        }
    }
}

/// Finds the target. A server that is starting or stopping holds the database but has no socket, so
/// this waits for it.
async fn open_target(directory: &Path, may_make: bool) -> Result<AdminTarget, AdminClientError> {
    loop {
        if let Some(stream) = find_server(directory).await? {
            return Ok(AdminTarget::Server(stream));
        }
        if !may_make && matches!(directory.join(FILE_NAME).try_exists(), Ok(false)) {
            return Err(AdminClientError::NoDatabase(directory.into()));
        }
        match open_database(directory) {
            Err(StoreError::InUse(_)) => tokio::time::sleep(POLL_INTERVAL).await,
            opened => {
                return opened
                    .map(|(handle, writer)| AdminTarget::Database(handle, Box::new(writer)))
                    .map_err(AdminClientError::Store);
            }
        }
    }
}

fn open_database(directory: &Path) -> Result<(Handle, Writer), StoreError> {
    let medium = Medium::Directory(directory.into());
    engine::open(engine::EngineConfig::without_pings(medium))
}

/// Sends the request and reads all lines of the reply.
async fn exchange(
    stream: &mut BufReader<UnixStream>,
    request: &AdminRequest,
    directory: &Path,
) -> Result<AdminReply, AdminClientError> {
    let refused = |error| AdminClientError::Socket(directory.join(SOCKET_NAME), error);
    let silent = |_| AdminClientError::NotResponding(directory.into());
    let is_test = matches!(
        request,
        AdminRequest::OfChannel {
            what: ChannelAction::Test { .. },
            ..
        }
    );
    let patience = if is_test {
        CHANNEL_TEST_TIMEOUT
    } else {
        SERVER_TIMEOUT
    };
    let is_long_step = |step: &ImportRequest| {
        matches!(
            step,
            ImportRequest::Finish { .. } | ImportRequest::LongPing { .. }
        )
    };
    let takes_long = match request {
        AdminRequest::Import(step) => is_long_step(step),
        request => matches!(
            request,
            AdminRequest::Declare { .. } | AdminRequest::Export { .. }
        ),
    };
    let patience = if takes_long { BULK_TIMEOUT } else { patience };
    let request = framing::encode_request(request).map_err(|error| refused(error.into()))?;
    timeout(SERVER_TIMEOUT, stream.write_all(&request))
        .await
        .map_err(silent)?
        .map_err(refused)?;
    let mut answer: Option<AdminReply> = None;
    loop {
        let (reply, more) = next_line(stream, patience, directory).await?;
        match &mut answer {
            None => answer = Some(reply),
            Some(first) => append_reply(first, reply)?,
        }
        if !more && let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

/// Reads the next line of a reply, and returns true with it if another follows.
async fn next_line(
    stream: &mut BufReader<UnixStream>,
    patience: Duration,
    directory: &Path,
) -> Result<(AdminReply, bool), AdminClientError> {
    let mut line = Vec::new();
    let reading = async {
        stream
            .take(MAX_REPLY_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .await
    };
    let read = timeout(patience, reading)
        .await
        .map_err(|_| AdminClientError::NotResponding(directory.into()))?;
    read.map_err(|error| AdminClientError::Socket(directory.join(SOCKET_NAME), error))?;
    if line.ends_with(b"\n") {
        framing::decode_line(&line).map_err(AdminClientError::UnreadableReply)
    } else {
        Err(AdminClientError::Disconnected)
    }
}

/// Finds the target for reading. On a read-only file system, such as a snapshot, the database is
/// opened read-only.
async fn open_target_for_reading(directory: &Path) -> Result<AdminTarget, AdminClientError> {
    match timeout(SERVER_TIMEOUT, open_target(directory, false))
        .await
        .map_err(|_| AdminClientError::NotResponding(directory.into()))?
    {
        Err(AdminClientError::Store(error)) if error.is_read_only() => {
            let opened = Medium::read_only(directory)
                .and_then(|medium| engine::open(engine::EngineConfig::without_pings(medium)));
            opened
                .map(|(handle, writer)| AdminTarget::Database(handle, Box::new(writer)))
                .map_err(AdminClientError::Store)
        }
        found => found,
    }
}

/// Writes a backup of this directory's database to `out`. The server sends it; without a server the
/// database is read directly.
pub async fn receive_backup(directory: &Path, mut out: impl Write) -> Result<(), AdminClientError> {
    match open_target_for_reading(directory).await? {
        // Nothing changes, so no writer runs.
        AdminTarget::Database(handle, _writer) => {
            backup::write_backup(&handle, out).map_err(AdminClientError::Backup)
        }
        AdminTarget::Server(stream) => {
            receive_chunks(stream, &AdminRequest::Backup {}, directory, &mut out).await
        }
    }
}

/// Writes everything in this directory's database to `out` as lines, or one project without users.
/// The server sends it; without a server the database is read directly.
pub async fn receive_export(
    directory: &Path,
    project: Option<String>,
    logs: bool,
    mut out: impl Write,
) -> Result<(), AdminClientError> {
    let request = AdminRequest::ExportLines { project, logs };
    match open_target_for_reading(directory).await? {
        AdminTarget::Server(stream) => receive_chunks(stream, &request, directory, &mut out).await,
        // Nothing changes, so no writer runs.
        AdminTarget::Database(handle, _writer) => {
            let (mut reply, mut rest) =
                handlers::handle_request(&handle, request, Vec::new()).await;
            while !write_chunk(reply, &mut out)? {
                let following = rest.take().ok_or(AdminClientError::Disconnected)?;
                (reply, rest) = following.next_reply(&handle).await;
            }
            Ok(())
        }
    }
}

/// Requests a reply in pieces from a server, and writes them.
async fn receive_chunks(
    mut stream: UnixStream,
    request: &AdminRequest,
    directory: &Path,
    out: &mut impl Write,
) -> Result<(), AdminClientError> {
    let refused = |error| AdminClientError::Socket(directory.join(SOCKET_NAME), error);
    let request = framing::encode_request(request).map_err(|error| refused(error.into()))?;
    stream.write_all(&request).await.map_err(refused)?;
    let mut stream = BufReader::new(stream);
    while !write_chunk(
        next_line(&mut stream, SERVER_TIMEOUT, directory).await?.0,
        out,
    )? {}
    Ok(())
}

/// Writes a piece; returns `true` at the end.
fn write_chunk(reply: AdminReply, out: &mut impl Write) -> Result<bool, AdminClientError> {
    let unwritten = |error: io::Error| AdminClientError::Backup(error.into());
    match reply {
        AdminReply::Piece(piece) => {
            let piece = STANDARD.decode(piece).map_err(|_| {
                AdminClientError::UnreadableReply(
                    "a part of the response is not valid base64".into(),
                )
            })?;
            out.write_all(&piece).map_err(unwritten).map(|()| false)
        }
        AdminReply::Done => out.flush().map_err(unwritten).map(|()| true),
        AdminReply::Refused(reason) | AdminReply::Invalid(reason) => {
            Err(AdminClientError::UnreadableReply(reason))
        }
        _ => Err(AdminClientError::UnreadableReply(
            "the server sent an unexpected response".into(),
        )),
    }
}

/// True if a server runs on this directory, even if its socket file is gone.
pub fn is_server_running(directory: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(directory.join(SOCKET_NAME)).is_ok()
}

fn append_reply(first: &mut AdminReply, next: AdminReply) -> Result<(), AdminClientError> {
    first.append(next).map_err(|_| {
        AdminClientError::UnreadableReply("the parts of a response do not belong together".into())
    })
}
