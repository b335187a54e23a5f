//! Administration: projects, keys, channels, checks and users, as requested by the command line.
//! Some requests also arrive over HTTP with the instance key.
//!
//! Each operation is a type that implements [`AdminRequest`]. A running server answers requests by
//! HTTP, with JSON, on a Unix socket in the data directory. Without a server the command opens the
//! database itself and runs the request. The operations of a resource, their rows and their
//! handlers are in one file, and each operation has a line in the table of `routes`.
//!
//! Requests and replies may hold secrets, so they have no `Debug`.

pub mod audit;
pub mod backup;
pub mod channels;
mod check_edit_form;
pub mod checks;
mod client;
pub mod config;
mod connection;
mod context;
mod deadline;
pub mod deliveries;
mod encoding;
mod error;
mod field_format;
pub mod imports;
mod instance;
pub mod keys;
pub mod openapi;
pub mod projects;
mod reply;
mod request;
mod routes;
mod socket;
pub mod status;
pub mod users;
pub mod windows;

pub use client::{AdminClient, AdminClientError, is_server_running, receive_stream, send_request};
pub use context::{AdminContext, ServiceUrls};
pub use error::AdminError;
pub use field_format::SettingPairs;
pub use instance::InstanceRequests;
pub use reply::{AdminReply, CreatedObject, ReplyBody, ReplyStream, RowStream, Warnings};
pub use request::AdminRequest;
pub use routes::{endpoints, instance_endpoints};
pub use socket::{AdminSocket, AdminSocketError, MAX_CONNECTIONS};

pub use crate::store::owner::SOCKET_NAME;

use crate::domain::timestamp::Timestamp;

/// Path below which the socket serves the requests.
pub const BASE_PATH: &str = "/api/overdue/v1/admin";

/// Header with the version of requests and replies.
pub(crate) const VERSION_HEADER: &str = "overdue-admin-version";
/// Version of requests and replies. Both ends must be of the same release.
pub(crate) const VERSION: &str = "4";
/// Trailer with the reason why a stream ended early, for clients that accept trailers.
const FAILURE_TRAILER: &str = "overdue-admin-failure";

/// Returns the error for an end of another version.
fn version_mismatch(version: &str) -> String {
    format!(
        "the other program uses version {version} of the admin protocol, and this one uses version \
         {VERSION}: use the same release of the command and the server"
    )
}

fn format_timestamp(at: Timestamp) -> String {
    let mut text = String::new();
    at.write_rfc3339_secs(&mut text);
    text
}

#[cfg(test)]
mod tests;
