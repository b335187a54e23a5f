//! Requests of the admin API.

use std::time::Duration;

use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::AdminContext;
use super::error::AdminError;
use super::reply::AdminReply;
use crate::operations::instance::MAX_BODY_BYTES;

/// An operation of the admin API: its endpoint, its fields and its handler.
///
/// Fields that [`PATH`](Self::PATH) names are segments of the path. The other fields are the JSON
/// body of a POST or PATCH, and the query of any other method. A project is named by its name or
/// UUID; a channel by its UUID or, if that is unique, its name; a check by its UUID, slug or name.
pub trait AdminRequest: Serialize + DeserializeOwned + Send + 'static {
    /// Method of the endpoint.
    const METHOD: Method;
    /// Path of the endpoint below [`BASE_PATH`](super::BASE_PATH), such as `/projects/{project}`.
    const PATH: &'static str;
    /// Maximum bytes of the body.
    const MAX_BYTES: usize = MAX_BODY_BYTES;
    /// Time in which a server must begin its reply.
    const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
    /// Time in which a client must take a part of the reply.
    const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Result of the operation.
    type Output: AdminReply;

    /// Returns the body of a PUT, which is not JSON but the document itself.
    fn document(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// True if a command without a server creates a missing database for this request.
    fn creates_database(&self) -> bool {
        false
    }

    /// Carries out the operation.
    ///
    /// # Errors
    /// If the request is refused. Nothing was changed then, unless the error says otherwise.
    fn run(
        self,
        context: &AdminContext,
    ) -> impl Future<Output = Result<Self::Output, AdminError>> + Send;
}
