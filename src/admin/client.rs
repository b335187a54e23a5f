//! Client of the server that runs on a data directory. Opens the database itself if no server runs.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, TE};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::context::AdminContext;
use super::error::AdminError;
use super::reply::ReplyStream;
use super::request::AdminRequest;
use super::{FAILURE_TRAILER, SOCKET_NAME, VERSION, VERSION_HEADER, encoding, version_mismatch};
use crate::backup::BackupError;
use crate::engine::{self, Handle, Writer, WriterExit};
use crate::notifier;
use crate::store::path_access::{SERVICE_DIRECTORY, explain_path_error};
use crate::store::{FILE_NAME, Medium, StoreError};

/// Time for which a command waits for a server that is starting or stopping, or for the next part
/// of a reply.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two attempts to find a server.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reason why there is no reply.
#[derive(Debug)]
pub enum AdminClientError {
    /// There is no database, and only creating a project creates one.
    NoDatabase(PathBuf),
    /// A server holds the database, and did not answer for ten seconds.
    NotResponding(PathBuf),
    /// The request was refused.
    Refused(AdminError),
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
            Self::Refused(error) => error.fmt(f),
            Self::UnreadableReply(reason) => f.write_str(reason),
            Self::Socket(path, error) => f.write_str(&explain_path_error(path, error)),
            Self::Store(error) => error.fmt(f),
            Self::Backup(error) => error.fmt(f),
            Self::Thread => f.write_str("the thread that writes the database failed"),
        }
    }
}

impl std::error::Error for AdminClientError {}

/// Sends one request to the server of this directory. If none runs, opens the database for the time
/// of the request. `tests`: configuration of the notifier that sends channel tests in that case.
///
/// # Errors
/// If the request is refused, or there is no reply.
pub async fn send_request<R>(
    directory: &Path,
    request: R,
    tests: Option<notifier::NotifierConfig>,
) -> Result<R::Output, AdminClientError>
where
    R: AdminRequest<Output: DeserializeOwned>,
{
    let mut client = AdminClient::open(directory, request.creates_database()).await?;
    let reply = client.send_with_tests(request, tests).await?;
    client.close()?;
    Ok(reply)
}

/// Writes a stream from this directory's database to `out`. The server sends it; without a server
/// the database is read directly. It may be read-only.
///
/// # Errors
/// If the request is refused, or the stream is incomplete or cannot be written.
pub async fn receive_stream<R>(
    directory: &Path,
    request: R,
    mut out: impl Write,
) -> Result<(), AdminClientError>
where
    R: AdminRequest<Output = ReplyStream>,
{
    let unwritten = |error: io::Error| AdminClientError::Backup(error.into());
    match &mut open_target_for_reading(directory).await? {
        AdminConnection::Server(sender) => {
            let mut body = send_http(sender, directory, request).await?.into_body();
            while let Some(chunk) = next_chunk(&mut body, directory).await? {
                out.write_all(&chunk).map_err(unwritten)?;
            }
        }
        // Nothing changes, so no writer runs.
        AdminConnection::Database { context, .. } => {
            let mut stream = request
                .run(context)
                .await
                .map_err(AdminClientError::Refused)?;
            while let Some(chunk) = stream.next_chunk().await {
                let chunk = chunk.map_err(AdminClientError::UnreadableReply)?;
                out.write_all(&chunk).map_err(unwritten)?;
            }
        }
    }
    out.flush().map_err(unwritten)
}

/// True if a server runs on this directory, even if its socket file is gone.
pub fn is_server_running(directory: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(directory.join(SOCKET_NAME)).is_ok()
}

/// Connection to a server, or an open database, for several requests. It is closed when this is
/// dropped.
pub struct AdminClient {
    directory: PathBuf,
    connection: AdminConnection,
}

enum AdminConnection {
    Server(SendRequest<Full<Bytes>>),
    Database {
        context: AdminContext,
        writer: DatabaseWriter,
    },
}

/// Writer of a database that this process has opened.
enum DatabaseWriter {
    /// Not started: nothing is written.
    Idle(Box<Writer>),
    Running(JoinHandle<WriterExit>),
    Ended,
}

impl AdminClient {
    /// Connects to the server of this directory. If none runs, opens the database, or creates one
    /// if `creates_database`.
    ///
    /// # Errors
    /// If there is no database, or its server does not answer.
    pub async fn open(directory: &Path, creates_database: bool) -> Result<Self, AdminClientError> {
        let opened = timeout(SERVER_TIMEOUT, open_target(directory, creates_database)).await;
        let mut connection =
            opened.map_err(|_| AdminClientError::NotResponding(directory.into()))??;
        connection.start_writer()?;
        Ok(Self {
            directory: directory.into(),
            connection,
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
        let Some(stream) = found else {
            return Ok(None);
        };
        Ok(Some(Self {
            directory: directory.into(),
            connection: AdminConnection::Server(connect(stream).await?),
        }))
    }

    /// True if a server answers the requests.
    pub fn is_connected_to_server(&self) -> bool {
        matches!(self.connection, AdminConnection::Server(_))
    }

    /// Sends one request.
    ///
    /// # Errors
    /// If the request is refused, or there is no reply.
    pub async fn send<R>(&mut self, request: R) -> Result<R::Output, AdminClientError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        self.send_with_tests(request, None).await
    }

    async fn send_with_tests<R>(
        &mut self,
        request: R,
        tests: Option<notifier::NotifierConfig>,
    ) -> Result<R::Output, AdminClientError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        match &mut self.connection {
            AdminConnection::Server(sender) => {
                let response = send_http(sender, &self.directory, request).await?;
                let body = read_body(response.into_body(), &self.directory).await?;
                parse_reply(&body)
            }
            AdminConnection::Database { context, .. } => {
                let running = request.run(context);
                let result = match tests {
                    None => running.await,
                    Some(config) => tokio::select! {
                        result = running => result,
                        never = notifier::run_channel_tests(context.handle(), config) => {
                            match never {}
                        }
                    },
                };
                result.map_err(AdminClientError::Refused)
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
    fn of_database((handle, writer): (Handle, Writer)) -> Self {
        Self::Database {
            context: AdminContext::new(&handle, None),
            writer: DatabaseWriter::Idle(Box::new(writer)),
        }
    }

    fn start_writer(&mut self) -> Result<(), AdminClientError> {
        let Self::Database { writer, .. } = self else {
            return Ok(());
        };
        if let DatabaseWriter::Idle(idle) = std::mem::replace(writer, DatabaseWriter::Ended) {
            let running = std::thread::Builder::new()
                .spawn(|| idle.run())
                .map_err(|_| AdminClientError::Thread)?;
            *writer = DatabaseWriter::Running(running);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), AdminClientError> {
        let Self::Database { context, writer } = self else {
            return Ok(());
        };
        context.handle().close();
        match std::mem::replace(writer, DatabaseWriter::Ended) {
            DatabaseWriter::Running(running) => running
                .join()
                .map(drop)
                .map_err(|_| AdminClientError::Thread),
            DatabaseWriter::Idle(_) | DatabaseWriter::Ended => Ok(()),
        }
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
async fn open_target(
    directory: &Path,
    creates_database: bool,
) -> Result<AdminConnection, AdminClientError> {
    loop {
        if let Some(stream) = find_server(directory).await? {
            return connect(stream).await.map(AdminConnection::Server);
        }
        if !creates_database && matches!(directory.join(FILE_NAME).try_exists(), Ok(false)) {
            return Err(AdminClientError::NoDatabase(directory.into()));
        }
        match open_database(directory) {
            Err(StoreError::InUse(_)) => tokio::time::sleep(POLL_INTERVAL).await,
            opened => {
                return opened
                    .map(AdminConnection::of_database)
                    .map_err(AdminClientError::Store);
            }
        }
    }
}

fn open_database(directory: &Path) -> Result<(Handle, Writer), StoreError> {
    let medium = Medium::Directory(directory.into());
    engine::open(engine::EngineConfig::without_pings(medium))
}

/// Finds the target for reading. On a read-only file system, such as a snapshot, the database is
/// opened read-only.
async fn open_target_for_reading(directory: &Path) -> Result<AdminConnection, AdminClientError> {
    match timeout(SERVER_TIMEOUT, open_target(directory, false))
        .await
        .map_err(|_| AdminClientError::NotResponding(directory.into()))?
    {
        Err(AdminClientError::Store(error)) if error.is_read_only() => {
            let opened = Medium::read_only(directory)
                .and_then(|medium| engine::open(engine::EngineConfig::without_pings(medium)));
            opened
                .map(AdminConnection::of_database)
                .map_err(AdminClientError::Store)
        }
        found => found,
    }
}

/// Begins HTTP on a stream.
async fn connect(stream: UnixStream) -> Result<SendRequest<Full<Bytes>>, AdminClientError> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| http_error(&error))?;
    // An error of the connection is also that of its request.
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends a request, and returns the response if it is a success.
async fn send_http<R: AdminRequest>(
    sender: &mut SendRequest<Full<Bytes>>,
    directory: &Path,
    request: R,
) -> Result<Response<Incoming>, AdminClientError> {
    let (target, body) = encoding::encode(request).map_err(AdminClientError::Refused)?;
    let request = Request::builder()
        .method(R::METHOD)
        .uri(target)
        .header(HOST, "localhost")
        .header(VERSION_HEADER, VERSION)
        .header(TE, "trailers")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body))
        .map_err(|error| {
            let reason = format!("the request is too long or invalid: {error}");
            AdminClientError::Refused(AdminError::invalid(reason))
        })?;
    let exchange = async {
        sender.ready().await?;
        sender.send_request(request).await
    };
    let response = timeout(R::SERVER_TIMEOUT, exchange)
        .await
        .map_err(|_| AdminClientError::NotResponding(directory.into()))?
        .map_err(|error| http_error(&error))?;
    let version = response.headers().get(VERSION_HEADER);
    if version.is_none_or(|version| version != VERSION) {
        let version = version.map_or_else(
            || "1 to 3".into(),
            |version| String::from_utf8_lossy(version.as_bytes()),
        );
        return Err(AdminClientError::UnreadableReply(version_mismatch(
            &version,
        )));
    }
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = read_body(response.into_body(), directory).await?;
    Err(AdminClientError::Refused(AdminError::from_response(
        status, &body,
    )))
}

/// Returns the next part of a body; `None` at its end.
async fn next_chunk(
    body: &mut Incoming,
    directory: &Path,
) -> Result<Option<Bytes>, AdminClientError> {
    let frame = timeout(SERVER_TIMEOUT, body.frame())
        .await
        .map_err(|_| AdminClientError::NotResponding(directory.into()))?;
    let Some(frame) = frame else {
        return Ok(None);
    };
    match frame.map_err(|error| http_error(&error))?.into_data() {
        Ok(data) => Ok(Some(data)),
        Err(frame) => match frame.trailers_ref().and_then(failure_reason) {
            Some(reason) => Err(AdminClientError::UnreadableReply(reason)),
            None => Ok(None),
        },
    }
}

/// Returns the reason why the server ended a stream early.
fn failure_reason(trailers: &HeaderMap) -> Option<String> {
    let reason = trailers.get(FAILURE_TRAILER)?;
    Some(percent_decode(reason.as_bytes()).decode_utf8_lossy().into())
}

async fn read_body(mut body: Incoming, directory: &Path) -> Result<Vec<u8>, AdminClientError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = next_chunk(&mut body, directory).await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Parses a reply. An empty body is the reply of an operation without a result.
fn parse_reply<T: DeserializeOwned>(body: &[u8]) -> Result<T, AdminClientError> {
    let json: &[u8] = if body.is_empty() { b"null" } else { body };
    serde_json::from_slice(json).map_err(|error| {
        AdminClientError::UnreadableReply(format!(
            "the server sent an unexpected response: {error}"
        ))
    })
}

fn http_error(error: &hyper::Error) -> AdminClientError {
    if error.is_parse() {
        AdminClientError::UnreadableReply(format!(
            "the server does not speak HTTP on its admin socket ({error}): use the same release of \
             the command and the server"
        ))
    } else {
        AdminClientError::Disconnected
    }
}
