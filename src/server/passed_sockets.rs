//! Listening sockets that a supervisor holds and passes on (sd_listen_fds(3)). Connections wait in
//! them while the server is replaced.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

use super::ServeError;

/// Sockets that were passed on.
#[derive(Default)]
pub(super) struct PassedSockets {
    pub(super) http: Vec<(TcpListener, SocketAddr)>,
    pub(super) smtp: Vec<(TcpListener, SocketAddr)>,
}

/// Returns the number of sockets that a supervisor passes to this process (sd_listen_fds(3)). They
/// are the first descriptors after the standard ones. The sockets are not taken.
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
            let is_mail = matches!(name, "smtp" | "overdue-smtp.socket");
            if is_mail {
                passed.smtp.push(listener);
            } else {
                passed.http.push(listener);
            }
        }
        Ok(passed)
    }
}
