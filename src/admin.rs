//! The door for whoever administers the service: projects, keys and channels, asked for by the command line.
//!
//! While a server runs it listens on a Unix socket in the data directory; without one the command opens the database itself. Both ways
//! end in [`perform()`]. On the socket each request and each reply is one JSON object on a line, its version first.

mod client;
mod line;
mod perform;
mod request;
mod socket;

pub use client::{AskError, ask};
pub use perform::perform;
pub use request::{ChannelRow, CheckLimit, KeyRow, ProjectRow, Reply, Request};
pub use socket::{Socket, SocketError};

/// The name of the socket within the data directory.
pub const SOCKET_NAME: &str = "admin.sock";
