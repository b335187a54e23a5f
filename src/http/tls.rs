//! TLS for HTTP connections. Handshakes run on threads of their own: each takes milliseconds, and
//! no ping waits for one.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::slow_client::{self, ResponseSink};
use super::{
    AllowedRoutes, ConnectionInfo, FIRST_BYTE_TIMEOUT, HttpServer, IDLE_CLOSE_TIMEOUT, close_unread,
};
use crate::domain::ping::PingScheme;
use crate::http::common::client_address::Peer;
use crate::http::common::connection_state::ConnectionState;
use crate::runtime::accept::wait_for_stop;
use crate::runtime::certificate::Certificate;
use crate::runtime::runtime_threads::{MovableConnection, RuntimeThreads};
use crate::util::sync::{Mutex, MutexGuard, ignore_poison, lock};

/// Protocols within TLS. HTTP/2 would have many requests on one connection, and the limits of a
/// connection would then be needed for each request.
pub const ALPN_PROTOCOLS: &[&[u8]] = &[b"http/1.1"];
/// Maximum time of a handshake, including the wait for its first byte.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// First byte of a TLS handshake: the type of the record (RFC 8446, section 5.1).
pub(crate) const HANDSHAKE_RECORD: u8 = 22;
/// Maximum bytes of a response that are encrypted and not yet accepted by the system.
const MAX_PENDING_CIPHERTEXT: usize = 16 << 10;

/// TLS configuration of connections.
pub struct HttpTls {
    certificate: Certificate,
    threads: RuntimeThreads,
}

/// Detected protocol of a connection, on its way to the thread that handles it.
pub(super) enum DetectedProtocol {
    Plain(std::net::TcpStream),
    Tls(Box<TlsConnection>),
}

impl HttpTls {
    /// Creates a configuration with this certificate. Handshakes run on these threads.
    pub fn new(certificate: Certificate, threads: RuntimeThreads) -> Self {
        Self {
            certificate,
            threads,
        }
    }

    /// Runs the handshake with a client that starts one. Returns `None` if the client closed the
    /// connection, took too long, offered nothing acceptable, or was evicted for another.
    pub(super) async fn negotiate(
        &self,
        stream: TcpStream,
        connection: Arc<ConnectionState>,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<Option<DetectedProtocol>> {
        let certificate = self.certificate.clone();
        let negotiate = move |stream: TcpStream| async move {
            let negotiated = tokio::select! {
                negotiated = timeout(HANDSHAKE_TIMEOUT, handshake(&certificate, stream)) => {
                    negotiated.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                }
                _ = connection.wait_for_close_request() => return None,
                () = async {
                    wait_for_stop(&mut stop).await;
                    sleep(FIRST_BYTE_TIMEOUT).await;
                } => return None,
            };
            connection.cancel_close();
            negotiated
                .inspect_err(|error| {
                    tracing::debug!("the TLS handshake with a client failed: {error}");
                })
                .ok()
        };
        self.threads.run(stream.detach()?, negotiate).await
    }
}

impl HttpServer {
    /// Runs the handshake with a client and handles its connection. A client without TLS gets an
    /// error.
    pub(super) async fn serve_tls(
        self,
        tls: &HttpTls,
        stream: TcpStream,
        (address, is_forwarded): (SocketAddr, bool),
        connection: Arc<ConnectionState>,
        threads: &RuntimeThreads,
        stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        match tls
            .negotiate(stream, Arc::clone(&connection), stop.clone())
            .await?
        {
            None => Ok(()),
            Some(DetectedProtocol::Plain(stream)) => {
                let connection_info = ConnectionInfo {
                    peer: Peer {
                        address,
                        scheme: PingScheme::Http,
                    },
                    allowed_routes: AllowedRoutes::HealthOnly,
                    is_forwarded,
                };
                threads
                    .run(stream, move |stream: TcpStream| {
                        self.serve_connection(stream, connection_info, connection, stop)
                    })
                    .await
            }
            Some(DetectedProtocol::Tls(stream)) => {
                let connection_info = ConnectionInfo {
                    peer: Peer {
                        address,
                        scheme: PingScheme::Https,
                    },
                    allowed_routes: AllowedRoutes::All,
                    is_forwarded,
                };
                threads
                    .run(*stream, move |stream: TlsConnection| {
                        self.serve_connection(stream, connection_info, connection, stop)
                    })
                    .await
            }
        }
    }
}

async fn handshake(certificate: &Certificate, stream: TcpStream) -> io::Result<DetectedProtocol> {
    close_unread(&stream, HANDSHAKE_TIMEOUT);
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
        _ if first != [HANDSHAKE_RECORD] => return stream.detach().map(DetectedProtocol::Plain),
        _ => {}
    }
    let negotiated = certificate
        .acceptor()
        .accept_with(MovableSocket::Attached(stream), |session| {
            session.set_buffer_limit(Some(MAX_PENDING_CIPHERTEXT));
        })
        .await?;
    TlsConnection(Mutex::new(negotiated))
        .detach()
        .map(|stream| DetectedProtocol::Tls(Box::new(stream)))
}

/// A connection that carries HTTP requests.
pub(super) trait HttpConnection: MovableConnection + AsyncRead + Unpin {
    /// Reader of the bytes that the client sends.
    type ReadSide<'a>: AsyncRead + Unpin + Send;
    /// Writer of the bytes that are sent to the client.
    type WriteSide<'a>: ResponseSink + Send;

    fn split(&mut self) -> (Self::ReadSide<'_>, Self::WriteSide<'_>);

    /// Calls `change` with the socket.
    fn with_socket(&mut self, change: impl FnOnce(&TcpStream));

    /// Sends a last message. It is lost if the client does not accept it almost at once.
    fn send_last(&mut self, last: &str) -> impl Future<Output = ()> + Send;
}

impl HttpConnection for TcpStream {
    type ReadSide<'a> = ReadHalf<'a>;
    type WriteSide<'a> = WriteHalf<'a>;

    fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        self.split()
    }

    fn with_socket(&mut self, change: impl FnOnce(&TcpStream)) {
        change(self);
    }

    async fn send_last(&mut self, last: &str) {
        let _ = self.try_write(last.as_bytes());
    }
}

/// An encrypted connection. Reading and writing both need all of its state, one after the other.
pub(super) struct TlsConnection(Mutex<TlsStream<MovableSocket>>);

/// The reading or the writing half.
pub(super) struct TlsHalf<'a>(&'a Mutex<TlsStream<MovableSocket>>);

impl TlsHalf<'_> {
    fn lock(&self) -> MutexGuard<'_, TlsStream<MovableSocket>> {
        lock(self.0)
    }
}

impl TlsConnection {
    fn stream_mut(&mut self) -> &mut TlsStream<MovableSocket> {
        ignore_poison(self.0.get_mut())
    }
}

impl HttpConnection for TlsConnection {
    type ReadSide<'a> = TlsHalf<'a>;
    type WriteSide<'a> = TlsHalf<'a>;

    fn split(&mut self) -> (TlsHalf<'_>, TlsHalf<'_>) {
        (TlsHalf(&self.0), TlsHalf(&self.0))
    }

    fn with_socket(&mut self, change: impl FnOnce(&TcpStream)) {
        if let Some(stream) = self.stream_mut().get_ref().0.attached() {
            change(stream);
        }
    }

    async fn send_last(&mut self, last: &str) {
        let stream = self.stream_mut();
        let sending = async {
            stream.write_all(last.as_bytes()).await?;
            stream.shutdown().await
        };
        // A client that reads nothing is not waited for.
        let _ = timeout(IDLE_CLOSE_TIMEOUT, sending).await;
    }
}

impl MovableConnection for TlsConnection {
    type Detached = Self;

    fn detach(mut self) -> io::Result<Self> {
        let socket = self.stream_mut().get_mut().0;
        if let MovableSocket::Attached(stream) = std::mem::replace(socket, MovableSocket::Lost) {
            *socket = MovableSocket::Detached(stream.detach()?);
        }
        Ok(self)
    }

    fn attach(mut detached: Self) -> io::Result<Self> {
        let socket = detached.stream_mut().get_mut().0;
        if let MovableSocket::Detached(stream) = std::mem::replace(socket, MovableSocket::Lost) {
            *socket = MovableSocket::Attached(MovableConnection::attach(stream)?);
        }
        Ok(detached)
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.stream_mut()).poll_read(cx, buffer)
    }
}

impl AsyncRead for TlsHalf<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsHalf<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}

impl ResponseSink for TlsHalf<'_> {
    fn limit_unsent(&self) {
        if let Some(stream) = self.lock().get_ref().0.attached() {
            slow_client::limit_unsent(stream);
        }
    }

    fn discard_unsent(&self) {
        if let Some(stream) = self.lock().get_ref().0.attached() {
            slow_client::discard_unsent_on_close(stream);
        }
    }
}

/// Socket below TLS, which moves to another thread after the handshake.
pub(super) enum MovableSocket {
    Attached(TcpStream),
    Detached(std::net::TcpStream),
    /// The system refused to move the socket.
    Lost,
}

impl MovableSocket {
    fn attached(&self) -> Option<&TcpStream> {
        match self {
            Self::Attached(stream) => Some(stream),
            Self::Detached(_) | Self::Lost => None,
        }
    }

    fn poll_attached<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self {
            Self::Attached(stream) => poll(Pin::new(stream)),
            Self::Detached(_) | Self::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for MovableSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_attached(|stream| stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for MovableSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_attached(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_attached(|stream| stream.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_attached(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_attached(|stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn tls() -> (tempfile::TempDir, HttpTls) {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let files = [
            ("chain", made.cert.pem()),
            ("key", made.signing_key.serialize_pem()),
        ]
        .map(|(name, text)| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let certificate = Certificate::read(&files[0], &files[1], ALPN_PROTOCOLS).unwrap();
        (
            directory,
            HttpTls::new(certificate, RuntimeThreads::default()),
        )
    }

    /// Time stands still while a task can run, and jumps when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn an_unfinished_handshake_ends_after_a_timeout() {
        let (_directory, tls) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        // The beginning of a handshake that is not continued.
        client.try_write(&[HANDSHAKE_RECORD, 3, 1, 1, 0]).unwrap();
        let (_stop, stopping) = watch::channel(false);
        let (stream, _) = listener.accept().await.unwrap();
        let mut negotiate = std::pin::pin!(tls.negotiate(stream, Arc::default(), stopping.clone()));
        assert!(
            timeout(HANDSHAKE_TIMEOUT / 2, negotiate.as_mut())
                .await
                .is_err()
        );
        assert!(
            timeout(HANDSHAKE_TIMEOUT, negotiate)
                .await
                .unwrap()
                .unwrap()
                .is_none()
        );

        // An evicted connection ends earlier.
        let _client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let connection = Arc::<ConnectionState>::default();
        assert!(connection.request_close(false));
        assert!(
            timeout(
                HANDSHAKE_TIMEOUT / 2,
                tls.negotiate(stream, connection, stopping)
            )
            .await
            .unwrap()
            .unwrap()
            .is_none()
        );
    }
}
