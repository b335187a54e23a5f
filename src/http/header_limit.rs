//! Limits for incoming headers: they are read in small steps, and long ones share one budget over
//! all connections.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf, Take};

use crate::http::common::connection_state::ConnectionState;
use crate::util::byte_budget::{ByteBudget, BytePermit};
use crate::util::sync::{Mutex, lock};

/// Bytes that are read at once. With one more, hyper would enlarge its buffer each time, and no
/// budget counts that buffer.
const READ_BYTES: u64 = (8 << 10) - 1;
/// Bytes of a header that each connection may have without the common budget. Nearly every header
/// is shorter.
const UNBUDGETED_BYTES: usize = 16 << 10;
/// Maximum bytes of all incoming headers together, beyond [`UNBUDGETED_BYTES`] of each connection.
/// A client needs no key to send a long header.
pub(super) const HEADER_BUDGET_BYTES: usize = 32 << 20;

/// State of the header that is being received on a connection.
pub(super) struct HeaderLimit<'a> {
    budget: &'a ByteBudget,
    connection: &'a ConnectionState,
    /// Bytes received of the header.
    received: AtomicUsize,
    budget_permit: Mutex<Option<BytePermit>>,
    /// True if any byte has arrived on the connection.
    has_received: AtomicBool,
    /// True if the budget was exhausted.
    pub(super) is_over_budget: AtomicBool,
}

impl<'a> HeaderLimit<'a> {
    pub(super) fn new(budget: &'a ByteBudget, connection: &'a ConnectionState) -> Self {
        Self {
            budget,
            connection,
            received: AtomicUsize::new(0),
            budget_permit: Mutex::default(),
            has_received: AtomicBool::new(false),
            is_over_budget: AtomicBool::new(false),
        }
    }

    /// True if no byte has arrived on the connection yet.
    pub(super) fn is_awaiting_first_byte(&self) -> bool {
        !self.has_received.load(Relaxed)
    }

    /// Marks the header as complete; the next one begins.
    pub(super) fn finish_header(&self) {
        if self.received.load(Relaxed) > UNBUDGETED_BYTES {
            lock(&self.budget_permit).take();
        }
        self.received.store(0, Relaxed);
    }

    /// Counts bytes. Returns false if the budget does not suffice.
    fn reserve(&self, bytes: usize) -> bool {
        let before = self.received.fetch_add(bytes, Relaxed);
        let beyond = (before + bytes).saturating_sub(before.max(UNBUDGETED_BYTES));
        if beyond == 0 {
            return true;
        }
        let Some(permit) = self.budget.try_acquire(beyond) else {
            return false;
        };
        permit.add_to(&mut lock(&self.budget_permit));
        true
    }
}

/// Reader of a client that counts the bytes of headers.
pub(super) struct HeaderReader<'a, 'b, R> {
    source: Take<R>,
    limit: &'a HeaderLimit<'b>,
}

impl<'a, 'b, R: AsyncRead> HeaderReader<'a, 'b, R> {
    pub(super) fn new(source: R, header_limit: &'a HeaderLimit<'b>) -> Self {
        Self {
            source: source.take(READ_BYTES),
            limit: header_limit,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for HeaderReader<'_, '_, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.source.set_limit(READ_BYTES);
        ready!(Pin::new(&mut self.source).poll_read(cx, buffer))?;
        let bytes = READ_BYTES - self.source.limit();
        self.limit.has_received.store(true, Relaxed);
        // Bytes that arrive during a request are its body, or little of the next header.
        if self.limit.connection.is_idle() && !self.limit.reserve(bytes as usize) {
            self.limit.is_over_budget.store(true, Relaxed);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the memory limit for long headers is reached",
            )));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_headers_share_a_budget_and_short_ones_need_none() {
        let budget = ByteBudget::new(3 * UNBUDGETED_BYTES);
        let connection = ConnectionState::default();
        let long = vec![b'a'; 3 * UNBUDGETED_BYTES];
        let short = vec![b'a'; UNBUDGETED_BYTES];
        let heads = [(); 3].map(|()| HeaderLimit::new(&budget, &connection));
        let read = async |head: usize, bytes: &[u8]| {
            tokio::io::copy(
                &mut HeaderReader::new(bytes, &heads[head]),
                &mut tokio::io::sink(),
            )
            .await
        };
        assert_eq!(read(0, &long).await.unwrap(), long.len() as u64);
        assert_eq!(
            read(1, &long).await.unwrap_err().kind(),
            io::ErrorKind::OutOfMemory
        );
        assert!(heads[1].is_over_budget.load(Relaxed) && !heads[0].is_over_budget.load(Relaxed));
        assert_eq!(
            read(2, &short).await.unwrap(),
            short.len() as u64,
            "a short one needs no room"
        );
        heads[1].finish_header();
        heads[2].finish_header();
        assert!(read(1, &long).await.is_err(), "the first one has the room");
        heads[0].finish_header();
        heads[1].finish_header();
        assert_eq!(
            read(1, &long).await.unwrap(),
            long.len() as u64,
            "it has been given back"
        );
        // A body has a separate budget.
        connection.begin_request();
        assert_eq!(read(2, &long).await.unwrap(), long.len() as u64);
    }

    #[tokio::test]
    async fn each_read_is_limited() {
        let budget = ByteBudget::new(HEADER_BUDGET_BYTES);
        let connection = ConnectionState::default();
        let head = HeaderLimit::new(&budget, &connection);
        let bytes = vec![b'a'; 64 << 10];
        let mut room = vec![0; 64 << 10];
        assert_eq!(
            HeaderReader::new(&bytes[..], &head)
                .read(&mut room)
                .await
                .unwrap() as u64,
            READ_BYTES
        );
    }
}
