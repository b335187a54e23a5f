//! Administration: projects, keys, channels, checks and users, as requested by the command line.
//!
//! A running server listens on a Unix socket in the data directory. Without a server the command
//! opens the database itself. Both end in [`handle_request()`]. On the socket each request is one
//! JSON object on a line, with the version first, and the reply is one line or several. A
//! connection takes one request after another.

mod client;
mod framing;
mod handlers;
mod request;
mod socket;

pub use client::{
    AdminClient, AdminClientError, is_server_running, receive_backup, receive_export,
    send_config_request, send_request,
};
pub use handlers::{AdminResponse, ReplyStream, handle_request};
pub use request::{
    AdminReply, AdminRequest, CheckAction, CheckLimit, CreatedKeyRow, KeyRow, ProjectRow,
};
pub use request::{channel, check, declare as declared, import, user, window};
pub use socket::{AdminSocket, AdminSocketError, MAX_CONNECTIONS, ServiceUrls};

pub use crate::store::owner::SOCKET_NAME;
