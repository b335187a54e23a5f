//! The door for whoever administers the service: projects, keys, channels, checks and users, asked for by the command line.
//!
//! While a server runs it listens on a Unix socket in the data directory; without one the command opens the database itself. Both ways
//! end in [`perform()`]. On the socket each request is one JSON object on a line, its version first, and is answered
//! by one line or by several. A connection takes one request after another.

mod client;
mod line;
mod perform;
mod request;
mod socket;

pub use client::{AskError, Session, ask, backup, declare, export_lines, is_served};
pub use perform::{Answer, Rest, perform};
pub use request::{CheckLimit, KeyRow, MadeKey, OfCheck, ProjectRow, Reply, Request};
pub use request::{channel, check, declare as declared, import, user, window};
pub use socket::{Addresses, MOST_CONNECTIONS, Socket, SocketError};

pub use crate::store::owner::SOCKET_NAME;
