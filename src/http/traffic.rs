//! What moves on a connection, so that a stop waits for answers that are taken and for nothing else.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection on which no request is carried out and no byte has gone out for so long is quiet.
const QUIET: Duration = Duration::from_millis(250);

/// What has moved so far.
#[derive(Default)]
pub(super) struct Traffic {
    /// A request is being carried out.
    busy: AtomicBool,
    /// Bytes that have gone out.
    written: AtomicU64,
}

impl Traffic {
    /// Carries out a request.
    pub(super) async fn during<T>(&self, request: impl Future<Output = T>) -> T {
        self.busy.store(true, Ordering::Relaxed);
        let answer = request.await;
        self.busy.store(false, Ordering::Relaxed);
        answer
    }

    /// Waits until the connection is quiet: its client is idle, sends a header too slowly, or takes nothing of an answer.
    pub(super) async fn quiet(&self) {
        let mut before = None;
        loop {
            let now = (!self.busy.load(Ordering::Relaxed)).then(|| self.written.load(Ordering::Relaxed));
            if now.is_some() && now == before {
                return;
            }
            before = now;
            tokio::time::sleep(QUIET).await;
        }
    }
}

/// A stream that counts.
pub(super) struct Counted<'a>(pub(super) TcpStream, pub(super) &'a Traffic);

impl Counted<'_> {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            // A usize fits a u64 on every target.
            self.1.written.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Counted<'_> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted<'_> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write_vectored(context, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
