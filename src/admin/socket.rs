//! The listener on the socket, which only the owner of the data directory can connect to.

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

use super::line::{self, MOST_BYTES, MOST_STAGED_BYTES};
use super::request::import::ImportRequest;
use super::request::{Reply, Request};
use super::{SOCKET_NAME, perform};
use crate::accept::{Listener, accept, stopped};
use crate::domain::staged::ImportId;
use crate::engine::Handle;
use crate::engine::command::Command;
use crate::engine::command::stage::StageCommand;

/// Connections at the same time. More wait to be accepted.
pub const MOST_CONNECTIONS: usize = 16;
/// How long a client may take to send a request or to read a reply. A client waits longer for its turn, so one that idles costs no other
/// its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may take that imports something, since it reads what it hands over, or that exports everything, since it sends it on.
const PATIENCE_WITH_IMPORTS: Duration = Duration::from_secs(600);

/// Bytes of a document: the files it was made of, and room for what JSON adds.
const MOST_DOCUMENT: usize = 4 * crate::declare::MOST_BYTES;

/// How long it may take to read a line of a reply when the server stops.
const HASTE: Duration = Duration::from_millis(250);

/// Why there is no socket.
#[derive(Debug)]
pub enum SocketError {
    /// Its path does not fit an address of a socket.
    PathTooLong(PathBuf),
    /// Something else lies in its place.
    Occupied(PathBuf),
    /// The system refused it.
    Io(PathBuf, io::Error),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathTooLong(path) => {
                write!(
                    f,
                    "the path of the admin socket, {}, is too long for a socket: choose a shorter data directory with --data",
                    path.display()
                )
            }
            Self::Occupied(path) => write!(f, "{} is no socket and lies where the admin socket has to be: move it away", path.display()),
            Self::Io(path, error) => write!(f, "cannot listen on the admin socket {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for SocketError {}

/// Where the service is reached: what URLs in replies begin with.
#[derive(Clone)]
pub struct Addresses {
    /// Without a slash at its end.
    pub base_url: String,
    /// True if there are pages, so that links lead somewhere.
    pub has_pages: bool,
}

/// A socket that is listened on. Its file is removed when this is dropped.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("the admin socket {} cannot be removed: {error}", self.path.display());
        }
    }
}

impl Socket {
    /// Listens in this data directory. The caller has its database open, so a socket that is there already was left behind.
    pub fn bind(directory: &Path) -> Result<Self, SocketError> {
        let path = directory.join(SOCKET_NAME);
        let refused = |error| SocketError::Io(path.clone(), error);
        match fs::symlink_metadata(&path) {
            Ok(there) if there.file_type().is_socket() => fs::remove_file(&path).map_err(refused)?,
            Ok(_) => return Err(SocketError::Occupied(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(error)),
        }
        let listener = UnixListener::bind(&path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => SocketError::PathTooLong(path.clone()),
            _ => refused(error),
        })?;
        // Connecting takes the permission to write.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(refused)?;
        Ok(Self { listener, path })
    }

    /// Answers requests until `stop` holds true. Then those that are being carried out may be answered, within five seconds.
    pub async fn serve(self, handle: Handle, addresses: Addresses, stop: watch::Receiver<bool>) {
        let hold = |stream| Some(connection(stream, handle.clone(), addresses.clone(), stop.clone()));
        accept("admin", self, MOST_CONNECTIONS, stop.clone(), hold).await;
    }
}

impl Listener for Socket {
    type Connection = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

/// Has the client take a line in time; little time is left when the server stops.
async fn taken<T>(patience: Duration, writing: impl Future<Output = T>, stop: &mut watch::Receiver<bool>) -> Option<T> {
    let stopping = async {
        stopped(stop).await;
        tokio::time::sleep(HASTE).await;
    };
    tokio::select! {
        written = timeout(patience, writing) => written.ok(),
        () = stopping => None,
    }
}

/// Adds a part to the document of a connection.
fn gathered(document: &mut Vec<u8>, part: &str) -> Reply {
    match STANDARD.decode(part) {
        Ok(part) if document.len() + part.len() <= MOST_DOCUMENT => {
            document.extend(part);
            Reply::Done
        }
        Ok(_) => Reply::Invalid(format!("a document has at most {MOST_DOCUMENT} bytes")),
        Err(_) => Reply::Invalid("a part of a document is no base64".into()),
    }
}

/// Puts the address of the service before what the reply names of its paths.
fn address(reply: &mut Reply, addresses: &Addresses) {
    let ping_url = |uuid: Uuid| format!("{}/ping/{uuid}", addresses.base_url);
    let page = |path: &str| addresses.has_pages.then(|| format!("{}{path}", addresses.base_url));
    match reply {
        Reply::MadeLink(link) => link.url = page(&link.path),
        Reply::Checks(rows) => {
            for url in rows.iter_mut().filter_map(|row| row.ping_url.as_mut()) {
                url.insert_str(0, &addresses.base_url);
            }
        }
        Reply::Changes(rows) => {
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

/// The import that a connection has under way, which is one at the most. It is abandoned with the connection.
struct OwnImport {
    handle: Handle,
    import: Option<ImportId>,
}

impl OwnImport {
    /// Notes what a request came to, which might have ended an import.
    fn note(&mut self, ends: Option<ImportId>, reply: &Reply) {
        match reply {
            Reply::ImportBegun(import) => self.import = Some(ImportId(*import)),
            Reply::Imported(..) | Reply::Done if ends == self.import => self.import = None,
            _ => {}
        }
    }

    /// Bytes of a request, and how long it may take.
    fn limits(&self) -> (usize, Duration) {
        if self.import.is_some() { (MOST_STAGED_BYTES, PATIENCE_WITH_IMPORTS) } else { (MOST_BYTES, PATIENCE) }
    }
}

impl Drop for OwnImport {
    fn drop(&mut self) {
        if let Some(import) = self.import {
            // If it is not taken, an hour without news ends it.
            drop(self.handle.submit(Command::Stage(Box::new(StageCommand::Abandon { import }))));
        }
    }
}

/// Answers one request after another. A list is made as fast as it is read.
async fn connection(mut stream: UnixStream, handle: Handle, addresses: Addresses, mut stop: watch::Receiver<bool>) {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let mut document = Vec::new();
    let mut own_import = OwnImport { handle: handle.clone(), import: None };
    loop {
        let mut line = Vec::new();
        let (most, patience) = own_import.limits();
        let reading = async { timeout(patience, (&mut read).take(most as u64).read_until(b'\n', &mut line)).await };
        let arrived = tokio::select! {
            arrived = reading => matches!(arrived, Ok(Ok(_))),
            () = stopped(&mut stop) => false,
        };
        let mut to_take = PATIENCE;
        let (whole, too_long) = (line.ends_with(b"\n"), line.len() == most);
        let (mut reply, mut rest) = match arrived {
            true if whole => match line::decode::<Request>(&line) {
                Ok((Request::Part(part), _)) => (gathered(&mut document, &part), None),
                Ok((Request::Import(ImportRequest::Begin { .. }), _)) if own_import.import.is_some() => {
                    (Reply::Refused("an import is under way on this connection".into()), None)
                }
                Ok((request, _)) => {
                    let ends = match request {
                        Request::Import(ImportRequest::Abandon { import } | ImportRequest::Finish { look: false, import, .. }) => {
                            Some(ImportId(import))
                        }
                        _ => None,
                    };
                    if matches!(request, Request::ExportLines { .. }) {
                        to_take = PATIENCE_WITH_IMPORTS;
                    }
                    let answer = perform(&handle, request, std::mem::take(&mut document)).await;
                    own_import.note(ends, &answer.0);
                    answer
                }
                Err(reason) => (Reply::Invalid(reason), None),
            },
            true if too_long => (Reply::Invalid(format!("a request has at most {most} bytes")), None),
            _ => return,
        };
        address(&mut reply, &addresses);
        loop {
            let Ok(lines) = line::encode_reply(reply, rest.is_some()) else { return };
            for line in lines {
                if !matches!(taken(to_take, write.write_all(&line), &mut stop).await, Some(Ok(()))) {
                    return;
                }
            }
            let Some(following) = rest else { break };
            (reply, rest) = following.next(&handle).await;
        }
        if !whole {
            return;
        }
    }
}
