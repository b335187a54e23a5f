//! TLS for the connections of HTTP. It is agreed on by threads of its own: that is milliseconds of work for each connection, for which no
//! ping waits.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::pace::{self, Sink};
use super::{FIRST_TIME, LEAVE_TIME, Met, Server, Takes, close_unread};
use crate::accept::stopped;
use crate::certificate::Certificate;
use crate::connection_threads::{ConnectionThreads, Moves};
use crate::domain::ping::Scheme;
use crate::wire::client::Peer;
use crate::wire::line::Line;

/// What is spoken within TLS. HTTP/2 would have many requests on one connection, and each of them would need what bounds a connection here.
pub const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];
/// How long agreeing may take, from the first byte that is waited for.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The first byte of whoever wants to agree on TLS: the type of the record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// Bytes of an answer that may be encrypted and not taken by the system yet.
const ENCRYPTED: usize = 16 << 10;

/// How connections are encrypted.
pub struct Tls {
    certificate: Certificate,
    threads: ConnectionThreads,
}

/// What a connection turned out to speak, on its way to the thread that answers it.
pub(super) enum Spoken {
    Clear(std::net::TcpStream),
    Tls(Box<Encrypted>),
}

impl Tls {
    /// TLS with this certificate, agreed on by these threads.
    pub fn new(certificate: Certificate, threads: ConnectionThreads) -> Self {
        Self { certificate, threads }
    }

    /// Agrees on TLS with a client that wants to. `None`: it went, took too long, wanted what cannot be, or had to make room for another.
    pub(super) async fn agree(&self, stream: TcpStream, line: Arc<Line>, mut stop: watch::Receiver<bool>) -> io::Result<Option<Spoken>> {
        let certificate = self.certificate.clone();
        let agreeing = move |stream: TcpStream| async move {
            let agreed = tokio::select! {
                agreed = timeout(HANDSHAKE_TIME, handshake(&certificate, stream)) => agreed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
                _ = line.ended() => return None,
                () = async { stopped(&mut stop).await; sleep(FIRST_TIME).await } => return None,
            };
            line.stays();
            agreed.inspect_err(|error| tracing::debug!("no TLS with a client: {error}")).ok()
        };
        self.threads.run(stream.leave()?, agreeing).await
    }
}

impl Server {
    /// Agrees on TLS with a client, and answers it. One that speaks without TLS is told so.
    pub(super) async fn encrypted(
        self,
        tls: &Tls,
        stream: TcpStream,
        address: SocketAddr,
        line: Arc<Line>,
        threads: &ConnectionThreads,
        stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        match tls.agree(stream, Arc::clone(&line), stop.clone()).await? {
            None => Ok(()),
            Some(Spoken::Clear(stream)) => {
                let met = Met { peer: Peer { address, scheme: Scheme::Http }, takes: Takes::Health };
                threads.run(stream, move |stream: TcpStream| self.connection(stream, met, line, stop)).await
            }
            Some(Spoken::Tls(stream)) => {
                let met = Met { peer: Peer { address, scheme: Scheme::Https }, takes: Takes::All };
                threads.run(*stream, move |stream: Encrypted| self.connection(stream, met, line, stop)).await
            }
        }
    }
}

async fn handshake(certificate: &Certificate, stream: TcpStream) -> io::Result<Spoken> {
    close_unread(&stream, HANDSHAKE_TIME);
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
        _ if first != [HANDSHAKE] => return stream.leave().map(Spoken::Clear),
        _ => {}
    }
    let agreed = certificate.acceptor().accept_with(Socket::Here(stream), |session| session.set_buffer_limit(Some(ENCRYPTED))).await?;
    Encrypted(Mutex::new(agreed)).leave().map(|stream| Spoken::Tls(Box::new(stream)))
}

/// A connection on which requests come.
pub(super) trait Connection: Moves + AsyncRead + Unpin {
    /// Reads what the client sends.
    type Reading<'a>: AsyncRead + Unpin + Send;
    /// Writes what it is sent.
    type Writing<'a>: Sink + Send;

    fn halves(&mut self) -> (Self::Reading<'_>, Self::Writing<'_>);

    /// Changes what the system does with it.
    fn set_up(&mut self, change: impl FnOnce(&TcpStream));

    /// Says a last word, if the client takes it at once or soon.
    fn tell(&mut self, last: &str) -> impl Future<Output = ()> + Send;
}

impl Connection for TcpStream {
    type Reading<'a> = ReadHalf<'a>;
    type Writing<'a> = WriteHalf<'a>;

    fn halves(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        self.split()
    }

    fn set_up(&mut self, change: impl FnOnce(&TcpStream)) {
        change(self);
    }

    async fn tell(&mut self, last: &str) {
        let _ = self.try_write(last.as_bytes());
    }
}

/// A connection that is encrypted. Both halves of it need all of its state, one after the other.
pub(super) struct Encrypted(Mutex<TlsStream<Socket>>);

/// One of both halves.
pub(super) struct Half<'a>(&'a Mutex<TlsStream<Socket>>);

impl Half<'_> {
    fn locked(&self) -> MutexGuard<'_, TlsStream<Socket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encrypted {
    fn whole(&mut self) -> &mut TlsStream<Socket> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection for Encrypted {
    type Reading<'a> = Half<'a>;
    type Writing<'a> = Half<'a>;

    fn halves(&mut self) -> (Half<'_>, Half<'_>) {
        (Half(&self.0), Half(&self.0))
    }

    fn set_up(&mut self, change: impl FnOnce(&TcpStream)) {
        if let Some(stream) = self.whole().get_ref().0.here() {
            change(stream);
        }
    }

    async fn tell(&mut self, last: &str) {
        let stream = self.whole();
        let telling = async {
            stream.write_all(last.as_bytes()).await?;
            stream.shutdown().await
        };
        // Whoever takes nothing is not waited for.
        let _ = timeout(LEAVE_TIME, telling).await;
    }
}

impl Moves for Encrypted {
    type Moving = Self;

    fn leave(mut self) -> io::Result<Self> {
        let socket = self.whole().get_mut().0;
        if let Socket::Here(stream) = std::mem::replace(socket, Socket::Lost) {
            *socket = Socket::Moving(stream.leave()?);
        }
        Ok(self)
    }

    fn arrive(mut moving: Self) -> io::Result<Self> {
        let socket = moving.whole().get_mut().0;
        if let Socket::Moving(stream) = std::mem::replace(socket, Socket::Lost) {
            *socket = Socket::Here(Moves::arrive(stream)?);
        }
        Ok(moving)
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.whole()).poll_read(cx, buffer)
    }
}

impl AsyncRead for Half<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.locked()).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Half<'_> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.locked()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.locked()).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.locked()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.locked()).poll_shutdown(cx)
    }
}

impl Sink for Half<'_> {
    fn limit_unsent(&self) {
        if let Some(stream) = self.locked().get_ref().0.here() {
            pace::limit_unsent(stream);
        }
    }

    fn forget_unsent(&self) {
        if let Some(stream) = self.locked().get_ref().0.here() {
            pace::forget_unsent(stream);
        }
    }
}

/// The socket below TLS, which changes threads when TLS is agreed on.
pub(super) enum Socket {
    Here(TcpStream),
    Moving(std::net::TcpStream),
    /// The system refused to move it.
    Lost,
}

impl Socket {
    fn here(&self) -> Option<&TcpStream> {
        match self {
            Self::Here(stream) => Some(stream),
            Self::Moving(_) | Self::Lost => None,
        }
    }

    fn poll<T>(&mut self, poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match self {
            Self::Here(stream) => poll(Pin::new(stream)),
            Self::Moving(_) | Self::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn tls() -> (tempfile::TempDir, Tls) {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let files = [("chain", made.cert.pem()), ("key", made.signing_key.serialize_pem())].map(|(name, text)| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let certificate = Certificate::read(&files[0], &files[1], PROTOCOLS).unwrap();
        (directory, Tls::new(certificate, ConnectionThreads::default()))
    }

    /// The time stands while anything can be done, and leaps when all wait.
    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_agree_is_not_waited_for() {
        let (_directory, tls) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // The beginning of a handshake that does not go on.
        client.try_write(&[HANDSHAKE, 3, 1, 1, 0]).unwrap();
        let (_stop, stopping) = watch::channel(false);
        let (stream, _) = listener.accept().await.unwrap();
        let mut agreeing = std::pin::pin!(tls.agree(stream, Arc::default(), stopping.clone()));
        assert!(timeout(HANDSHAKE_TIME / 2, agreeing.as_mut()).await.is_err());
        assert!(timeout(HANDSHAKE_TIME, agreeing).await.unwrap().unwrap().is_none());

        // One that has to make room for another ends before.
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let line = Arc::<Line>::default();
        assert!(line.ask(false));
        assert!(timeout(HANDSHAKE_TIME / 2, tls.agree(stream, line, stopping)).await.unwrap().unwrap().is_none());
    }
}
