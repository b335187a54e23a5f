//! Limits for slow clients. A client that reads too slowly is cut off. A client that is refused
//! while it still sends may finish, so that it can read the reason.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::time::{Sleep, sleep};

use super::connection_activity::ConnectionActivity;
use crate::http::common::connection_state::ConnectionState;

/// Minimum rate at which a client must read a response, in bytes a second, while it is waited for.
const MIN_BYTES_PER_SECOND: usize = 10_000;
/// Maximum lag behind that rate, in seconds.
const MAX_LAG_SECONDS: usize = 30;
const SECOND: Duration = Duration::from_secs(1);
/// Maximum bytes of a long response that the kernel may hold unsent. It would otherwise buffer
/// megabytes, and hide for minutes that the client does not read.
const MAX_UNSENT_BYTES: u32 = 64 << 10;

/// Time for which the rest of a refused request is read and dropped.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of the rest that is read.
const MAX_LINGER_BYTES: usize = 10 << 20;

/// Reads and drops the rest of a request, within limits, after the last response.
///
/// If a socket is closed with unread bytes in it, the system resets the connection, and the client
/// loses the response that it has not read yet (RFC 9112, section 9.6).
pub(crate) async fn linger(stream: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = vec![0; 16 << 10];
    let mut remaining = MAX_LINGER_BYTES;
    let reading = async {
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            remaining = remaining.saturating_sub(read);
            if remaining == 0 {
                break;
            }
        }
    };
    // The result makes no difference: the connection is closed anyway.
    let _ = tokio::time::timeout(LINGER_TIMEOUT, reading).await;
}

/// Sink to which responses are written.
pub(super) trait ResponseSink: AsyncWrite + Unpin {
    /// Limits unsent bytes in the kernel to [`MAX_UNSENT_BYTES`].
    fn limit_unsent(&self);
    /// Makes the kernel drop unsent bytes when the connection is closed. It would otherwise keep
    /// them until the client has read them.
    fn discard_unsent(&self);
}

/// Makes the kernel reset the connection on close, and drop unsent bytes.
pub(super) fn discard_unsent_on_close(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!("cannot discard unsent data of a connection: {error}");
    }
}

/// Limits unsent bytes in the kernel to [`MAX_UNSENT_BYTES`].
pub(super) fn limit_unsent(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES) {
        tracing::debug!("cannot limit unsent data of a connection: {error}");
    }
}

impl ResponseSink for WriteHalf<'_> {
    fn limit_unsent(&self) {
        limit_unsent(self.as_ref());
    }

    fn discard_unsent(&self) {
        discard_unsent_on_close(self.as_ref());
    }
}

/// Writes to a client that must read fast enough. Time counts only while the client is waited for,
/// and never for an endless response.
pub(super) struct MinRateWriter<'a, W> {
    sink: W,
    activity: &'a ConnectionActivity,
    connection: &'a ConnectionState,
    /// Bytes that the client may still fall behind.
    credit: usize,
    /// Timer for the end of the current second; set while the client is waited for.
    rate_timer: Option<Pin<Box<Sleep>>>,
    is_unsent_limited: bool,
}

impl<'a, W: ResponseSink> MinRateWriter<'a, W> {
    pub(super) fn new(
        sink: W,
        activity: &'a ConnectionActivity,
        connection: &'a ConnectionState,
    ) -> Self {
        Self {
            sink,
            activity,
            connection,
            credit: MAX_LAG_SECONDS * MIN_BYTES_PER_SECOND,
            rate_timer: None,
            is_unsent_limited: false,
        }
    }

    fn track_write(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
        write: impl FnOnce(Pin<&mut W>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        // Most responses are short.
        let is_endless = self.activity.is_endless();
        if (length >= MAX_UNSENT_BYTES as usize / 2 || is_endless)
            && !std::mem::replace(&mut self.is_unsent_limited, true)
        {
            self.sink.limit_unsent();
        }
        if let Poll::Ready(written) = write(Pin::new(&mut self.sink), cx) {
            let bytes = written.as_ref().map_or(0, |bytes| *bytes);
            // If the client took only a part, it is waited for again at once.
            self.record_progress(bytes == length || written.is_err());
            self.credit = (self.credit + bytes).min(MAX_LAG_SECONDS * MIN_BYTES_PER_SECOND);
            // A usize fits a u64 on every target.
            self.activity
                .bytes_written
                .fetch_add(bytes as u64, Ordering::Relaxed);
            return Poll::Ready(written);
        }
        self.poll_rate_limit(cx).map(Err)
    }

    /// Tracks a flush: the client must read what the sink still holds.
    fn track_flush(
        &mut self,
        finished: Poll<io::Result<()>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if finished.is_ready() {
            self.record_progress(true);
            return finished;
        }
        self.poll_rate_limit(cx).map(Err)
    }

    /// Records that the client has read something: everything, or a part.
    fn record_progress(&mut self, all: bool) {
        if self.rate_timer.is_some() || self.activity.is_endless() {
            self.connection.record_write(all);
        }
        if all {
            self.rate_timer = None;
        }
    }

    /// Waits for the client. Ready when the client has used up its time.
    fn poll_rate_limit(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.connection.set_write_blocked();
        if self.activity.is_endless() {
            // On an endless response, a slow client misses events but occupies no memory.
            return Poll::Pending;
        }
        let waiting = self
            .rate_timer
            .get_or_insert_with(|| Box::pin(sleep(SECOND)));
        while waiting.as_mut().poll(cx).is_ready() {
            let Some(credit) = self.credit.checked_sub(MIN_BYTES_PER_SECOND) else {
                self.sink.discard_unsent();
                return Poll::Ready(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client reads too slowly",
                ));
            };
            self.credit = credit;
            let next = waiting.deadline() + SECOND;
            waiting.as_mut().reset(next);
        }
        Poll::Pending
    }
}

impl<W: ResponseSink> AsyncWrite for MinRateWriter<'_, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.track_write(cx, bytes.len(), |sink, cx| sink.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bytes.iter().map(|bytes| bytes.len()).sum();
        self.track_write(cx, length, |sink, cx| sink.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.sink.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.sink).poll_flush(cx);
        self.track_flush(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.sink).poll_shutdown(cx);
        self.track_flush(shut, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    impl ResponseSink for DuplexStream {
        fn limit_unsent(&self) {}
        fn discard_unsent(&self) {}
    }

    /// Returns the bytes of a response of a megabyte that a client reads if it reads `bytes` every
    /// `millis` milliseconds.
    async fn taken(bytes: usize, millis: u64) -> usize {
        let (sink, mut client) = duplex(1000);
        let reading = tokio::spawn(async move {
            let mut all = 0;
            let mut some = vec![0; bytes];
            loop {
                sleep(Duration::from_millis(millis)).await;
                let mut left = bytes;
                while left > 0 {
                    match client.read(&mut some[..left]).await {
                        Ok(read @ 1..) => (all, left) = (all + read, left - read),
                        _ => return all,
                    }
                }
            }
        });
        let activity = ConnectionActivity::default();
        let connection = ConnectionState::default();
        let mut sink = MinRateWriter::new(sink, &activity, &connection);
        // A response before it that is not waited for, and a long time between them.
        sink.write_all(&[0; 1000]).await.unwrap();
        sleep(Duration::from_secs(600)).await;
        let _ = sink.write_all(&[0; 1_000_000]).await;
        drop(sink);
        reading.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_too_slowly_is_disconnected() {
        for (bytes, millis) in [
            (100_000, 1000),
            (10_001, 1000),
            (5000, 300),
            (100_010, 10_000),
            (290_000, 28_000),
        ] {
            assert_eq!(
                taken(bytes, millis).await,
                1_001_000,
                "{bytes} in {millis} ms"
            );
        }
        for (bytes, millis) in [
            (1, 1000),
            (500, 300),
            (4000, 1000),
            (40_000, 10_000),
            (1, 60_000),
        ] {
            assert!(
                taken(bytes, millis).await < 400_000,
                "{bytes} in {millis} ms"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_response_waits_for_its_client() {
        let (sink, mut client) = duplex(1000);
        let activity = ConnectionActivity::default();
        let connection = ConnectionState::default();
        activity.mark_endless();
        let mut sink = MinRateWriter::new(sink, &activity, &connection);
        let reading = async {
            sleep(Duration::from_secs(600)).await;
            assert!(
                connection.request_close(true),
                "it can be closed for others while its client does not read"
            );
            client.read_exact(&mut [0; 5000]).await.unwrap();
        };
        let (written, ()) = tokio::join!(sink.write_all(&[0; 5000]), reading);
        assert!(written.is_ok());
    }

    #[tokio::test]
    async fn unsent_data_is_discarded() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        while stream.writable().await.is_ok() && stream.try_write(&[0; 65_536]).is_ok() {}
        discard_unsent_on_close(&stream);
        drop(stream);
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut rest))
            .await
            .unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
