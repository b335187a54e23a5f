//! The door for whoever administers the service: projects, keys, channels, checks and users, asked for by the command line.
//!
//! While a server runs it listens on a Unix socket in the data directory; without one the command opens the database itself. Both ways
//! end in [`handlers()`]. On the socket each request is one JSON object on a line, its version first, and is answered
//! by one line or by several. A connection takes one request after another.

mod client;
mod framing;
mod handlers;
mod request;
mod socket;

pub use client::{AdminClient, AdminClientError, is_server_running, receive_backup, receive_export, send_config_request, send_request};
pub use handlers::{AdminResponse, ReplyStream, handle_request};
pub use request::{AdminReply, AdminRequest, CheckAction, CheckLimit, CreatedKeyRow, KeyRow, ProjectRow};
pub use request::{channel, check, declare as declared, import, user, window};
pub use socket::{AdminSocket, AdminSocketError, MAX_CONNECTIONS, ServiceUrls};

pub use crate::store::owner::SOCKET_NAME;
