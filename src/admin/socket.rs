//! Listener on the socket. Only the owner of the data directory can connect.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use super::framing::{self, MAX_IMPORT_LINE_BYTES, MAX_LINE_BYTES};
use super::request::import::ImportRequest;
use super::request::{AdminReply, AdminRequest};
use super::{SOCKET_NAME, handlers};
use crate::domain::import_item::ImportId;
use crate::engine::Handle;
use crate::engine::command::Command;
use crate::engine::command::import::ImportStep;
use crate::runtime::accept::{Listener, accept_connections, wait_for_stop};

/// Maximum number of simultaneous connections. More wait to be accepted.
pub const MAX_CONNECTIONS: usize = 16;
/// Time in which a client must send a request or read a reply. A client waits longer for its turn,
/// so an idle one costs no other its turn.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The same limit for a client that imports, because it reads its source meanwhile, or that exports
/// everything, because it forwards what it receives.
const BULK_CLIENT_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum bytes of a document: the files that it is made of, plus the overhead of JSON.
const MAX_DOCUMENT_BYTES: usize = 4 * crate::config::MAX_BYTES;

/// Time in which a client must read a line of a reply when the server stops.
const SHUTDOWN_WRITE_TIMEOUT: Duration = Duration::from_millis(250);

/// Reason why there is no socket.
#[derive(Debug)]
pub enum AdminSocketError {
    /// The path is too long for the address of a socket.
    PathTooLong(PathBuf),
    /// Another file has its path.
    Occupied(PathBuf),
    /// The system refused the operation.
    Io(PathBuf, io::Error),
}

impl fmt::Display for AdminSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathTooLong(path) => {
                write!(
                    f,
                    "the path of the admin socket, {}, is too long for a socket: choose a shorter \
                     data directory with --data",
                    path.display()
                )
            }
            Self::Occupied(path) => write!(
                f,
                "{} is not a socket, but the admin socket needs this path: move the file away",
                path.display()
            ),
            Self::Io(path, error) => write!(
                f,
                "cannot listen on the admin socket {}: {error}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for AdminSocketError {}

/// Address of the service: the start of URLs in replies.
#[derive(Clone)]
pub struct ServiceUrls {
    /// Base URL without a trailing slash.
    pub base_url: String,
    /// True if the dashboard is enabled, so that links to pages work.
    pub has_pages: bool,
}

/// A listening socket. Its file is removed when this is dropped.
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(
                "the admin socket {} cannot be removed: {error}",
                self.path.display()
            );
        }
    }
}

impl AdminSocket {
    /// Listens in this data directory. The caller has its database open, so an existing socket is
    /// stale.
    pub fn bind(directory: &Path) -> Result<Self, AdminSocketError> {
        let path = directory.join(SOCKET_NAME);
        let refused = |error| AdminSocketError::Io(path.clone(), error);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.file_type().is_socket() => {
                fs::remove_file(&path).map_err(refused)?;
            }
            Ok(_) => return Err(AdminSocketError::Occupied(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(error)),
        }
        let listener = UnixListener::bind(&path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => AdminSocketError::PathTooLong(path.clone()),
            _ => refused(error),
        })?;
        // Connecting requires write permission.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(refused)?;
        Ok(Self { listener, path })
    }

    /// Answers requests until `stop` holds true. Then requests in progress have up to five seconds
    /// to finish.
    pub async fn serve(self, handle: Handle, addresses: ServiceUrls, stop: watch::Receiver<bool>) {
        let hold = |stream| {
            Some(serve_connection(
                stream,
                handle.clone(),
                addresses.clone(),
                stop.clone(),
            ))
        };
        accept_connections("admin", self, MAX_CONNECTIONS, stop.clone(), hold).await;
    }
}

impl Listener for AdminSocket {
    type Accepted = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

/// Runs `writing` with a time limit. The limit becomes short when the server stops.
async fn with_timeout<T>(
    patience: Duration,
    writing: impl Future<Output = T>,
    stop: &mut watch::Receiver<bool>,
) -> Option<T> {
    let stopping = async {
        wait_for_stop(stop).await;
        tokio::time::sleep(SHUTDOWN_WRITE_TIMEOUT).await;
    };
    tokio::select! {
        written = timeout(patience, writing) => written.ok(),
        () = stopping => None,
    }
}

/// Appends a part to the document of a connection.
fn append_part(document: &mut Vec<u8>, part: &str) -> AdminReply {
    match STANDARD.decode(part) {
        Ok(part) if document.len() + part.len() <= MAX_DOCUMENT_BYTES => {
            document.extend(part);
            AdminReply::Done
        }
        Ok(_) => AdminReply::Invalid(format!("a document has at most {MAX_DOCUMENT_BYTES} bytes")),
        Err(_) => AdminReply::Invalid("a part of a document is not valid base64".into()),
    }
}

/// Puts the address of the service before each path in the reply.
fn complete_urls(reply: &mut AdminReply, addresses: &ServiceUrls) {
    let ping_url = |uuid: Uuid| format!("{}/ping/{uuid}", addresses.base_url);
    let page = |path: &str| {
        addresses
            .has_pages
            .then(|| format!("{}{path}", addresses.base_url))
    };
    match reply {
        AdminReply::MadeLink(link) => link.url = page(&link.path),
        AdminReply::Checks(rows) => {
            for url in rows.iter_mut().filter_map(|row| row.ping_url.as_mut()) {
                url.insert_str(0, &addresses.base_url);
            }
        }
        AdminReply::Changes(rows) => {
            for row in rows {
                if let Some(uuid) = row.uuid.filter(|_| row.op == "add" && row.kind == "check") {
                    row.url = Some(ping_url(uuid));
                }
                if let Some(link) = &mut row.link {
                    link.url = page(&link.path);
                }
            }
        }
        _ => {}
    }
}

/// Open import of a connection, at most one. It is abandoned when the connection ends.
struct ConnectionImport {
    handle: Handle,
    import: Option<ImportId>,
}

impl ConnectionImport {
    /// Records the reply to a request, which may have begun or ended an import.
    fn record_reply(&mut self, ends: Option<ImportId>, reply: &AdminReply) {
        match reply {
            AdminReply::ImportBegun(import) => self.import = Some(ImportId(*import)),
            AdminReply::Imported(..) | AdminReply::Done if ends == self.import => {
                self.import = None;
            }
            _ => {}
        }
    }

    /// Returns the maximum bytes of a request and its time limit.
    fn request_limits(&self) -> (usize, Duration) {
        if self.import.is_some() {
            (MAX_IMPORT_LINE_BYTES, BULK_CLIENT_TIMEOUT)
        } else {
            (MAX_LINE_BYTES, CLIENT_TIMEOUT)
        }
    }
}

impl Drop for ConnectionImport {
    fn drop(&mut self) {
        if let Some(import) = self.import {
            // If the command is not accepted, the import ends after an hour without activity.
            drop(
                self.handle
                    .submit(Command::Import(Box::new(ImportStep::Abandon { import }))),
            );
        }
    }
}

/// Answers one request after another. A list is generated as fast as the client reads it.
async fn serve_connection(
    mut stream: UnixStream,
    handle: Handle,
    addresses: ServiceUrls,
    mut stop: watch::Receiver<bool>,
) {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let mut document = Vec::new();
    let mut own_import = ConnectionImport {
        handle: handle.clone(),
        import: None,
    };
    loop {
        let mut line = Vec::new();
        let (max_bytes, patience) = own_import.request_limits();
        let reading = async {
            timeout(
                patience,
                (&mut read)
                    .take(max_bytes as u64)
                    .read_until(b'\n', &mut line),
            )
            .await
        };
        let arrived = tokio::select! {
            arrived = reading => matches!(arrived, Ok(Ok(_))),
            () = wait_for_stop(&mut stop) => false,
        };
        let mut to_take = CLIENT_TIMEOUT;
        let whole = line.ends_with(b"\n");
        let too_long = line.len() == max_bytes;
        let (mut reply, mut rest) = match arrived {
            true if whole => match framing::decode_line::<AdminRequest>(&line) {
                Ok((AdminRequest::Part(part), _)) => (append_part(&mut document, &part), None),
                Ok((AdminRequest::Import(ImportRequest::Begin { .. }), _))
                    if own_import.import.is_some() =>
                {
                    (
                        AdminReply::Refused(
                            "an import is already in progress on this connection".into(),
                        ),
                        None,
                    )
                }
                Ok((request, _)) => {
                    let ends = match request {
                        AdminRequest::Import(
                            ImportRequest::Abandon { import }
                            | ImportRequest::Finish {
                                look: false,
                                import,
                                ..
                            },
                        ) => Some(ImportId(import)),
                        _ => None,
                    };
                    if matches!(request, AdminRequest::ExportLines { .. }) {
                        to_take = BULK_CLIENT_TIMEOUT;
                    }
                    let answer =
                        handlers::handle_request(&handle, request, std::mem::take(&mut document))
                            .await;
                    own_import.record_reply(ends, &answer.0);
                    answer
                }
                Err(reason) => (AdminReply::Invalid(reason), None),
            },
            true if too_long => (
                AdminReply::Invalid(format!("a request has at most {max_bytes} bytes")),
                None,
            ),
            _ => return,
        };
        complete_urls(&mut reply, &addresses);
        loop {
            let Ok(lines) = framing::encode_reply(reply, rest.is_some()) else {
                return;
            };
            for line in lines {
                if !matches!(
                    with_timeout(to_take, write.write_all(&line), &mut stop).await,
                    Some(Ok(()))
                ) {
                    return;
                }
            }
            let Some(following) = rest else { break };
            (reply, rest) = following.next_reply(&handle).await;
        }
        if !whole {
            return;
        }
    }
}
