//! Listener on the socket. Only the owner of the data directory can connect.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::SOCKET_NAME;
use super::connection::serve_connection;
use super::context::{AdminContext, ServiceUrls};
use crate::engine::Handle;
use crate::runtime::accept::{Listener, accept_connections};

/// Maximum number of simultaneous connections. Further ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 16;
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
    pub async fn serve(
        self: Arc<Self>,
        handle: Handle,
        urls: ServiceUrls,
        stop: watch::Receiver<bool>,
    ) {
        let serve = |stream| {
            let context = AdminContext::new(&handle, Some(urls.clone()));
            Some(serve_connection(stream, context, stop.clone()))
        };
        accept_connections("admin", self, MAX_CONNECTIONS, stop.clone(), serve).await;
    }
}

impl Listener for AdminSocket {
    type Accepted = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}
