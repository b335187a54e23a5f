//! Listening sockets that are passed on to a program (sd_listen_fds(3)): by a supervisor to this
//! process, or by this process when it replaces its program. Connections wait in them meanwhile.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;

use command_fds::FdMapping;
use listenfd::ListenFd;

use super::ServeError;
use super::cluster::peer::PeerService;

use crate::util::sync::{Mutex, lock};

/// First descriptor of a passed socket.
const FIRST_PASSED: i32 = 3;
/// Name of a socket for mail.
const MAIL_NAME: &str = "smtp";
/// Name of a socket for HTTP.
const HTTP_NAME: &str = "http";

/// Sockets that were passed on.
#[derive(Default)]
pub(super) struct PassedSockets {
    pub(super) http: Vec<(TcpListener, SocketAddr)>,
    pub(super) smtp: Vec<(TcpListener, SocketAddr)>,
}

/// Listening sockets that stay open until the program of this process is replaced, or until they
/// are closed.
#[derive(Default)]
pub(super) struct KeptSockets(Mutex<Vec<(Arc<tokio::net::TcpListener>, PeerService)>>);

/// Descriptors and variables by which a program takes sockets over.
pub(super) struct SocketHandOver {
    pub(super) descriptors: Vec<FdMapping>,
    pub(super) variables: [(&'static str, String); 3],
}

/// Returns the number of sockets that were passed on to this process. They are the first
/// descriptors after the standard ones. The sockets are not taken.
pub(crate) fn passed_socket_count() -> i32 {
    let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
    let is_for_this =
        number("LISTEN_PID").is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()));
    number("LISTEN_FDS")
        .filter(|_| is_for_this)
        .unwrap_or_default()
        .max(0)
}

impl PassedSockets {
    /// Takes the sockets by their names (`FileDescriptorName=`): `smtp` is for mail, any other name
    /// for HTTP.
    ///
    /// # Errors
    /// If one of them does not listen for TCP.
    pub(super) fn take() -> Result<Self, ServeError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = ListenFd::from_env();
        let mut passed = Self::default();
        for number in 0..sockets.len() {
            let name = names.next().unwrap_or_default();
            let listener = sockets.take_tcp_listener(number).and_then(|socket| {
                let listener = socket.ok_or(io::ErrorKind::NotFound)?;
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                Ok((listener, address))
            });
            let listener =
                listener.map_err(|error| ServeError::PassedSocket(name.to_owned(), error))?;
            // A socket without a name of its own has the name of its unit.
            let is_mail = matches!(name, MAIL_NAME | "overdue-smtp.socket");
            if is_mail {
                passed.smtp.push(listener);
            } else {
                passed.http.push(listener);
            }
        }
        Ok(passed)
    }

    /// Number of the sockets.
    pub(super) fn count(&self) -> usize {
        self.http.len() + self.smtp.len()
    }
}

/// Opens files that occupy the first `count` descriptors after the standard ones.
///
/// A restart gives these numbers to the sockets while the threads still run. A thread that polls
/// one of them would panic.
///
/// # Errors
/// If no further descriptor can be opened.
pub(super) fn reserve_descriptors(count: usize) -> io::Result<Vec<File>> {
    let mut reserved = Vec::new();
    loop {
        let file = File::open("/dev/null")?;
        let number = file.as_raw_fd().saturating_sub(FIRST_PASSED);
        if usize::try_from(number).is_ok_and(|number| number >= count) {
            return Ok(reserved);
        }
        reserved.push(file);
    }
}

impl KeptSockets {
    /// Keeps these sockets open.
    pub(super) fn new(sockets: Vec<(Arc<tokio::net::TcpListener>, PeerService)>) -> Self {
        Self(Mutex::new(sockets))
    }

    /// Closes the sockets once their listeners are dropped.
    pub(super) fn close(&self) {
        lock(&self.0).clear();
    }

    /// Prepares the sockets for a program that replaces that of this process.
    ///
    /// # Errors
    /// If no further descriptor can be opened.
    pub(super) fn prepare_hand_over(&self) -> io::Result<SocketHandOver> {
        let sockets = lock(&self.0);
        let mut descriptors = Vec::new();
        let mut names = Vec::new();
        for ((listener, service), child_fd) in sockets.iter().zip(FIRST_PASSED..) {
            descriptors.push(FdMapping {
                parent_fd: listener.as_fd().try_clone_to_owned()?,
                child_fd,
            });
            names.push(match service {
                PeerService::Smtp => MAIL_NAME,
                _ => HTTP_NAME,
            });
        }
        Ok(SocketHandOver {
            descriptors,
            variables: [
                ("LISTEN_PID", std::process::id().to_string()),
                ("LISTEN_FDS", names.len().to_string()),
                ("LISTEN_FDNAMES", names.join(":")),
            ],
        })
    }
}
