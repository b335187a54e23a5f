//! Requests about the whole server with the instance key: one module receives them, another one
//! carries them out.

use std::net::IpAddr;
use std::pin::Pin;

use bytes::Bytes;
use http::Method;

/// Maximum bytes of the body of a request: see [limits](crate::docs::limits).
pub const MAX_BODY_BYTES: usize = 256 << 10;

/// A request whose key was checked.
pub struct InstanceRequest {
    /// Method.
    pub method: Method,
    /// Path below `/api/overdue/v1`.
    pub path: String,
    /// Query, may be empty.
    pub query: String,
    /// Body, may be empty.
    pub body: Bytes,
    /// Address of the client.
    pub address: IpAddr,
}

/// Reply to such a request.
pub struct InstanceReply {
    /// Status code.
    pub status: u16,
    /// JSON; empty for a reply without a body.
    pub body: Vec<u8>,
    /// Methods of the path, if it does not take that of the request.
    pub allow: Option<String>,
}

/// Module that carries requests out.
pub trait InstanceApi: Send + Sync {
    /// Carries a request out.
    fn respond(
        &self,
        request: InstanceRequest,
    ) -> Pin<Box<dyn Future<Output = InstanceReply> + Send + '_>>;
}
