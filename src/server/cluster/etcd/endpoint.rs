//! Calls to one endpoint over a connection that they share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use ::http::uri::PathAndQuery;
use ::http::{Request, Response, Uri};
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::error::{self, EtcdError};
use super::url::{DEFAULT_PORT, EtcdConfigError, EtcdEndpoint};
use crate::outbound::{Http2Body, Http2Connection, Outbound, SendError, SendStage};

/// Maximum length of a reply, in bytes.
const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;

/// Token of a user, as metadata of a call.
pub(super) type Token = MetadataValue<Ascii>;

type Connection = Http2Connection<Body>;

impl Service<Request<Body>> for Connection {
    type Response = Response<Http2Body>;
    type Error = SendError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Http2Body>, SendError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.send(request))
    }
}

/// Endpoint with its connection, which is opened by the first call.
pub(super) struct EndpointClient {
    pub(super) address: EtcdEndpoint,
    origin: Uri,
    tls: Option<Arc<ClientConfig>>,
    outbound: Outbound,
    /// True once a reply came from this endpoint.
    has_answered: AtomicBool,
    /// Locked while a connection is opened, so that concurrent calls share it.
    connection: Mutex<Option<Connection>>,
}

impl EndpointClient {
    pub(super) fn new(
        address: EtcdEndpoint,
        tls: Option<Arc<ClientConfig>>,
        outbound: Outbound,
    ) -> Result<Self, EtcdConfigError> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{address}").parse().map_err(|_| {
            EtcdConfigError(format!(
                "the endpoint {address} of etcd is not a host with a port"
            ))
        })?;
        Ok(Self {
            address,
            origin,
            tls,
            outbound,
            has_answered: AtomicBool::new(false),
            connection: Mutex::default(),
        })
    }

    /// Calls a method once. `sent` is true from when the request may have been sent.
    ///
    /// # Errors
    /// [`EtcdError::Unreachable`] if nothing was sent.
    pub(super) async fn call<Q, R>(
        &self,
        method: &'static str,
        message: &Q,
        token: Option<Token>,
        sent: &AtomicBool,
    ) -> Result<R, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        loop {
            let (connection, is_kept) = self
                .connect()
                .await
                .map_err(|error| EtcdError::Unreachable(self.explain(&error)))?;
            let mut request = tonic::Request::new(message.clone());
            if let Some(token) = &token {
                request.metadata_mut().insert("token", token.clone());
            }
            sent.store(true, Ordering::Relaxed);
            let result = Grpc::with_origin(connection, self.origin.clone())
                .max_decoding_message_size(MAX_REPLY_BYTES)
                .unary(
                    request,
                    PathAndQuery::from_static(method),
                    ProstCodec::<Q, R>::default(),
                )
                .await;
            match result {
                Ok(reply) => {
                    self.has_answered.store(true, Ordering::Relaxed);
                    return Ok(reply.into_inner());
                }
                Err(status) => match error::broken_connection(&status) {
                    None => return Err(EtcdError::from_status(&self.address, &status)),
                    Some(error) if error.may_have_arrived => {
                        return Err(EtcdError::Unknown(self.explain(error)));
                    }
                    // etcd closed the connection before anything was sent on it.
                    Some(error) => {
                        sent.store(false, Ordering::Relaxed);
                        if !is_kept {
                            return Err(EtcdError::Unreachable(self.explain(error)));
                        }
                        self.disconnect();
                    }
                },
            }
        }
    }

    /// Text of an error of the connection. As long as the endpoint has never answered, it names
    /// what may be wrong with the URL.
    fn explain(&self, error: &SendError) -> String {
        let is_new = !self.has_answered.load(Ordering::Relaxed);
        if is_new && self.tls.is_none() && error.stage == SendStage::Exchange {
            return format!(
                "{error}: if etcd uses TLS there, begin the URL with etcds://, and otherwise give \
                 the port for clients, usually {DEFAULT_PORT}"
            );
        }
        error.to_string()
    }

    /// Returns the open connection, or opens one. True if it was open before.
    async fn connect(&self) -> Result<(Connection, bool), SendError> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok((connection.clone(), true));
        }
        *slot = None;
        let EtcdEndpoint { host, port } = &self.address;
        let connection = self
            .outbound
            .open_http2(host, *port, self.tls.as_ref())
            .await?;
        *slot = Some(connection.clone());
        Ok((connection, false))
    }

    /// Makes the next call open a connection. Calls in progress keep theirs.
    pub(super) fn disconnect(&self) {
        // If it is locked, a connection is being opened.
        if let Ok(mut slot) = self.connection.try_lock() {
            *slot = None;
        }
    }
}
