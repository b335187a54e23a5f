//! Headers on their way in: read in small steps, and long ones within one budget for all connections.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf, Take};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::wire::line::Line;

/// Bytes that are read at once. One more, and hyper would make its buffer larger each time. That buffer is in no budget.
const AT_ONCE: u64 = (8 << 10) - 1;
/// Bytes of a header that each connection may have without the common budget. Nearly every header is shorter.
const SHARE: usize = 16 << 10;
/// Bytes of all headers that are coming in, beyond the share of each.
const BUDGET: usize = 32 << 20;

/// The budget that long headers have in common. It needs no key to send one.
pub(super) struct HeadBudget(Semaphore);

impl HeadBudget {
    /// A budget of which nothing is taken.
    pub(super) fn new() -> Self {
        Self(Semaphore::new(BUDGET))
    }
}

/// The header that is coming in on a connection.
pub(super) struct Head<'a> {
    budget: &'a HeadBudget,
    line: &'a Line,
    /// Bytes that have come of it.
    came: AtomicUsize,
    room: Mutex<Option<SemaphorePermit<'a>>>,
    /// Something has come on the connection.
    has_begun: AtomicBool,
    /// There was no room.
    pub(super) is_refused: AtomicBool,
}

impl<'a> Head<'a> {
    pub(super) fn new(budget: &'a HeadBudget, line: &'a Line) -> Self {
        Self {
            budget,
            line,
            came: AtomicUsize::new(0),
            room: Mutex::default(),
            has_begun: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Whether nothing has come on the connection yet.
    pub(super) fn is_awaited(&self) -> bool {
        !self.has_begun.load(Relaxed)
    }

    /// It has come, and the next one begins.
    pub(super) fn ends(&self) {
        if self.came.load(Relaxed) > SHARE {
            self.room.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.came.store(0, Relaxed);
    }

    /// Counts bytes. False: there is no room for them.
    fn take(&self, bytes: usize) -> bool {
        let before = self.came.fetch_add(bytes, Relaxed);
        let beyond = (before + bytes).saturating_sub(before.max(SHARE));
        if beyond == 0 {
            return true;
        }
        // As many as are read at once.
        let Ok(taken) = self.budget.0.try_acquire_many(beyond as u32) else { return false };
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match room.as_mut() {
            Some(room) => room.merge(taken),
            None => *room = Some(taken),
        }
        true
    }
}

/// Reads from a client.
pub(super) struct Reading<'a, 'b, R> {
    source: Take<R>,
    head: &'a Head<'b>,
}

impl<'a, 'b, R: AsyncRead> Reading<'a, 'b, R> {
    pub(super) fn new(source: R, head: &'a Head<'b>) -> Self {
        Self { source: source.take(AT_ONCE), head }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Reading<'_, '_, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.source.set_limit(AT_ONCE);
        ready!(Pin::new(&mut self.source).poll_read(cx, buffer))?;
        let bytes = AT_ONCE - self.source.limit();
        self.head.has_begun.store(true, Relaxed);
        // What comes during a request is its body, or little of the next header.
        if self.head.line.is_idle() && !self.head.take(bytes as usize) {
            self.head.is_refused.store(true, Relaxed);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, "there is no room for another long header")));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_headers_share_a_budget_and_short_ones_need_none() {
        let (budget, line) = (HeadBudget(Semaphore::new(3 * SHARE)), Line::default());
        let (long, short) = (vec![b'a'; 3 * SHARE], vec![b'a'; SHARE]);
        let heads = [(); 3].map(|()| Head::new(&budget, &line));
        let read = async |head: usize, bytes: &[u8]| tokio::io::copy(&mut Reading::new(bytes, &heads[head]), &mut tokio::io::sink()).await;
        assert_eq!(read(0, &long).await.unwrap(), long.len() as u64);
        assert_eq!(read(1, &long).await.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert!(heads[1].is_refused.load(Relaxed) && !heads[0].is_refused.load(Relaxed));
        assert_eq!(read(2, &short).await.unwrap(), short.len() as u64, "a short one needs no room");
        heads[1].ends();
        heads[2].ends();
        assert!(read(1, &long).await.is_err(), "the first one has the room");
        heads[0].ends();
        heads[1].ends();
        assert_eq!(read(1, &long).await.unwrap(), long.len() as u64, "it has been given back");
        // A body has a budget of its own.
        line.begin();
        assert_eq!(read(2, &long).await.unwrap(), long.len() as u64);
    }

    #[tokio::test]
    async fn little_is_read_at_once() {
        let (budget, line) = (HeadBudget::new(), Line::default());
        let head = Head::new(&budget, &line);
        let (bytes, mut room) = (vec![b'a'; 64 << 10], vec![0; 64 << 10]);
        assert_eq!(Reading::new(&bytes[..], &head).read(&mut room).await.unwrap() as u64, AT_ONCE);
    }
}
