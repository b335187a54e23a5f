//! HTTP/2 connections to servers of the operator, each for concurrent requests. They use no proxy,
//! and the caller keeps them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Outbound;
use super::address_guard::Trust;
use super::dial::{self, ByteStream, Dialer};
use super::error::{SendError, SendStage};
use super::tls;
use super::url::{Host, HostPort};

/// Time without data from the server after which a request in progress makes the connection send a
/// ping. gRPC servers close connections with pings in intervals of less than five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(6);
/// Maximum time until the server answers a ping. Then the connection is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of bytes that the server may send ahead, in one response and in all of them.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// Body of a response.
pub(crate) type Http2Body = Incoming;

/// HTTP/2 connection. It is closed when its last clone is dropped and no request is in progress.
pub(crate) struct Http2Connection<B> {
    requests: SendRequest<B>,
    host_port: HostPort,
}

impl<B> Clone for Http2Connection<B> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            host_port: self.host_port.clone(),
        }
    }
}

impl<B> Http2Connection<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// True if the connection takes no further request.
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends a request and waits for the head of the response. `may_have_arrived` of the error is
    /// false only if no part of the request was sent.
    ///
    /// # Errors
    /// If the connection is closed or breaks.
    pub(crate) fn send(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Http2Body>, SendError>> + Send + use<B> {
        let mut requests = self.requests.clone();
        let host_port = self.host_port.clone();
        async move {
            let sent = requests.try_send_request(request).await;
            sent.map_err(|mut error| {
                let text = format!("the connection to {host_port} broke before the response");
                SendError::new(SendStage::Exchange, text)
                    .with_may_have_arrived(error.take_message().is_none())
            })
        }
    }
}

impl Outbound {
    /// Opens an HTTP/2 connection to a server that the operator named, with TLS if `tls` is given.
    ///
    /// # Errors
    /// If the host is invalid or cannot be resolved, or if there is no connection to it.
    pub(crate) async fn open_http2<B>(
        &self,
        host: &str,
        port: u16,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Http2Connection<B>, SendError>
    where
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let host = Host::parse(host).ok_or_else(|| {
            let text = format!("{host:?} is neither an address nor a name of a host");
            SendError::new(SendStage::Request, text)
        })?;
        let host_port = HostPort { host, port };
        let stream = open_stream(&self.inner.dialer, &host_port, tls).await?;
        let begun = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await;
        let (requests, connection) = begun.map_err(|_| {
            let text = format!("the connection to {host_port} broke");
            SendError::new(SendStage::Exchange, text)
        })?;
        // Errors reach the callers that wait for a response.
        tokio::spawn(async {
            let _ = connection.await;
        });
        Ok(Http2Connection {
            requests,
            host_port,
        })
    }
}

/// Opens a connection for bytes, with TLS if `tls` is given.
async fn open_stream(
    dialer: &Dialer,
    host_port: &HostPort,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Box<dyn ByteStream>, SendError> {
    let stream = dialer.connect_directly(host_port, Trust::Operator).await?;
    let Some(config) = tls else {
        return Ok(Box::new(stream));
    };
    let host = &host_port.host;
    let name = dial::certificate_name(host)?;
    let handshake = TlsConnector::from(Arc::clone(config)).connect(name, stream);
    match timeout(dial::TLS_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) if tls::is_unknown_issuer(&error) => {
            let text = format!(
                "the certificate of {host} is not signed by a trusted authority: give the \
                 certificate of its authority"
            );
            Err(SendError::new(SendStage::Tls, text))
        }
        Ok(Err(error)) if tls::is_without_tls(&error) => {
            let text = format!(
                "{host_port} does not use TLS: give its URL without TLS, or the port that uses it"
            );
            Err(SendError::new(SendStage::Tls, text))
        }
        Ok(Err(error)) => Err(tls::handshake_error(host, &error, false)),
        Err(_) => Err(dial::tls_timeout_error(host)),
    }
}
