//! Long responses. They are written in chunks on threads that handle no pings, with one memory
//! limit for all slow clients. Each project or user leaves threads and memory to the others.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use super::connection_state::ConnectionState;
use super::reply::HttpError;
use super::work_owner::WorkOwner;
use crate::runtime::blocking_threads::{BlockingTaskError, BlockingThreads};
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};

/// Maximum number of bytes of all responses that are written but not sent. Short ones do not count:
/// there is at most one per connection.
const MAX_BUFFERED_BYTES: usize = 64 << 20;
/// Maximum number of these bytes of one owner.
const MAX_BUFFERED_BYTES_PER_OWNER: usize = MAX_BUFFERED_BYTES / 4;
/// Maximum number of blocking threads that work for one owner.
const MAX_THREADS_PER_OWNER: usize = 2;
/// Maximum time that work waits for other work of its owner.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of a short response in bytes.
const MAX_SHORT_BYTES: usize = 16 << 10;
/// Approximate length of a chunk of a long list in bytes.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Maximum time that a response waits for budget.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that a further chunk waits for budget: longer than the slowest client may take to
/// read a chunk.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes long responses. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ResponseWriter {
    blocking: Arc<BlockingThreads>,
    buffered_bytes: Arc<KeyedSemaphore<WorkOwner>>,
    turns: Arc<KeyedSemaphore<WorkOwner>>,
    owner: WorkOwner,
}

/// Bytes and their share of the budget, which is released when the last of them is sent.
struct BudgetedBytes {
    bytes: Vec<u8>,
    _permit: KeyedPermit,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends about [`CHUNK_BYTES`] bytes, and returns true if there is more.
pub(crate) trait ChunkWriter:
    FnMut(&mut String) -> Result<bool, HttpError> + Send + 'static
{
}
impl<W: FnMut(&mut String) -> Result<bool, HttpError> + Send + 'static> ChunkWriter for W {}

impl ResponseWriter {
    pub(crate) fn new(blocking: Arc<BlockingThreads>) -> Self {
        let buffered_bytes = KeyedSemaphore::per_key(MAX_BUFFERED_BYTES_PER_OWNER);
        Self {
            blocking,
            buffered_bytes: Arc::new(buffered_bytes.with_total(MAX_BUFFERED_BYTES)),
            turns: Arc::new(KeyedSemaphore::per_key(MAX_THREADS_PER_OWNER)),
            owner: WorkOwner::Other,
        }
    }

    /// Returns a writer whose work counts as that of this owner.
    pub(crate) fn for_owner(&self, owner: WorkOwner) -> Self {
        Self {
            owner,
            ..self.clone()
        }
    }

    /// Response that `make` creates as a whole: on this thread if `is_short`, otherwise on a
    /// blocking thread. If the budget is exhausted, it waits and creates the response a second
    /// time.
    pub(crate) async fn write_whole<M: Into<Vec<u8>>>(
        self,
        is_short: bool,
        make: impl Fn() -> Result<M, HttpError> + Send + Sync + 'static,
    ) -> Result<ResponseBody, HttpError> {
        let make = Arc::new(move || make().map(Into::into));
        let mut permit = None;
        loop {
            let make = Arc::clone(&make);
            let writer = self.clone();
            let held = permit.take();
            let result = self
                .run_if_short(is_short, move || {
                    make().map(|bytes: Vec<u8>| writer.within_budget(bytes, held))
                })
                .await??;
            match result {
                Ok(content) => return Ok(content),
                Err(length) => permit = Some(self.reserve(length, RESERVE_TIMEOUT).await?),
            }
        }
    }

    /// Returns finished bytes as a response once the budget has space for them.
    pub(crate) async fn buffer(&self, bytes: Vec<u8>) -> Result<ResponseBody, HttpError> {
        if bytes.len() <= MAX_SHORT_BYTES {
            return Ok(bytes.into());
        }
        let permit = self.reserve(bytes.len(), RESERVE_TIMEOUT).await?;
        Ok(with_permit(bytes, permit).into())
    }

    /// Response in chunks. The first one is ready when this returns.
    pub(crate) async fn write_chunked(
        self,
        write: impl ChunkWriter,
    ) -> Result<ResponseBody, HttpError> {
        let (first, mut rest) = self.write_chunk(write, RESERVE_TIMEOUT).await?;
        if rest.is_none() {
            return Ok(first.into());
        }
        let (sender, chunks) = mpsc::channel(1);
        // The channel has space for one.
        let _ = sender.try_send(Ok(first));
        tokio::spawn(async move {
            while let Some(write) = rest {
                let chunk = self.write_chunk(write, CHUNK_TIMEOUT).await;
                let (chunk, more) = chunk.map_or((Err(IncompleteBody), None), |(chunk, rest)| {
                    (Ok(chunk), rest)
                });
                // The client may have disconnected.
                rest = sender.send(chunk).await.ok().and(more);
            }
        });
        Ok(ResponseBody {
            kind: ResponseBodyKind::Chunked(chunks),
            guard: None,
        })
    }

    async fn write_chunk<W: ChunkWriter>(
        &self,
        mut write: W,
        max_wait: Duration,
    ) -> Result<(Bytes, Option<W>), HttpError> {
        let permit = self.reserve(CHUNK_BYTES, max_wait).await?;
        self.run_blocking(move || {
            let mut out = String::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
            let more = write(&mut out)?;
            Ok((with_permit(out.into(), permit), more.then_some(write)))
        })
        .await?
    }

    /// Waits for budget.
    async fn reserve(&self, bytes: usize, max_wait: Duration) -> Result<KeyedPermit, HttpError> {
        let permit = self.buffered_bytes.acquire_many(self.owner, bytes);
        let permit = timeout(max_wait, permit).await;
        permit.map_err(|_| HttpError::Unavailable)
    }

    /// Returns the response, or its length if the budget is exhausted.
    fn within_budget(
        &self,
        bytes: Vec<u8>,
        held: Option<KeyedPermit>,
    ) -> Result<ResponseBody, usize> {
        let length = bytes.len();
        if length <= MAX_SHORT_BYTES {
            return Ok(bytes.into());
        }
        let needed = self.buffered_bytes.limit_permits(length) as usize;
        let permit = match held.filter(|held| held.count() >= needed) {
            Some(held) => held,
            None => self
                .buffered_bytes
                .try_acquire_many(self.owner, length)
                .map_err(|_| length)?,
        };
        Ok(with_permit(bytes, permit).into())
    }

    /// Runs work of about a millisecond on this thread: a switch to another thread would take as
    /// long. Runs anything else on a blocking thread.
    pub(crate) async fn run_if_short<T: Send + 'static>(
        &self,
        is_short: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        if is_short {
            Ok(work())
        } else {
            self.run_blocking(work).await
        }
    }

    /// Runs work like [`run_blocking`](Self::run_blocking) once a permit is free, too. Waits at
    /// most `max_wait`, without the permit while other work of the owner runs.
    pub(crate) async fn run_with_permit<T: Send + 'static>(
        &self,
        permits: &Arc<Semaphore>,
        max_wait: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let turn_and_permit = timeout(max_wait, async {
            let turn = self.turns.acquire(self.owner).await;
            (turn, Arc::clone(permits).acquire_owned().await)
        });
        let held = turn_and_permit.await.map_err(|_| HttpError::Unavailable)?;
        self.run_holding(held, work).await
    }

    /// Runs work that may take long on a blocking thread.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let turn = timeout(TURN_TIMEOUT, self.turns.acquire(self.owner)).await;
        self.run_holding(turn.map_err(|_| HttpError::Unavailable)?, work)
            .await
    }

    /// Runs work that holds permits. It runs even if its caller has left, so they go with it.
    async fn run_holding<T: Send + 'static>(
        &self,
        permits: impl Send + 'static,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let work = move || {
            let _permits = permits;
            work()
        };
        self.blocking
            .run(work)
            .await
            .map_err(|BlockingTaskError| HttpError::Unavailable)
    }
}

/// Bytes that keep their part of the budget until they are sent.
fn with_permit(bytes: Vec<u8>, permit: KeyedPermit) -> Bytes {
    Bytes::from_owner(BudgetedBytes {
        bytes,
        _permit: permit,
    })
}

/// Body of a response.
pub(crate) struct ResponseBody {
    kind: ResponseBodyKind,
    /// Dropped when the body is fully written.
    guard: Option<ResponseGuard>,
}

enum ResponseBodyKind {
    Whole(Full<Bytes>),
    Chunked(mpsc::Receiver<Result<Bytes, IncompleteBody>>),
    Endless(EndlessChunk),
}

/// Future of the next chunk of an endless response and the source of the one after it. `None`: the
/// response has ended.
pub(crate) type EndlessChunk =
    Pin<Box<dyn Future<Output = Option<(Bytes, Box<dyn EndlessSource>)>> + Send>>;

/// Source of an endless response. A chunk is requested when the client can receive it, so no data
/// waits for a slow client.
pub(crate) trait EndlessSource: Send {
    /// Waits for the next chunk.
    fn next(self: Box<Self>) -> EndlessChunk;
}

/// Marks a connection as busy until dropped.
struct ResponseGuard(Arc<ConnectionState>);

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// A chunk could not be written. The connection is closed, so that the client notices that the
/// response is incomplete.
#[derive(Debug)]
pub(crate) struct IncompleteBody;

impl std::fmt::Display for IncompleteBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a long response could not be continued")
    }
}

impl std::error::Error for IncompleteBody {}

impl ResponseBody {
    /// Response that continues until the client disconnects.
    pub(crate) fn from_endless(source: Box<dyn EndlessSource>) -> Self {
        Self {
            kind: ResponseBodyKind::Endless(source.next()),
            guard: None,
        }
    }

    /// True if the response is endless.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.kind, ResponseBodyKind::Endless(_))
    }

    /// Keeps the connection busy until the response is written.
    pub(crate) fn keep_busy(&mut self, connection: &Arc<ConnectionState>) {
        // A short response counts as written.
        match self.size_hint().exact() {
            Some(bytes) if bytes <= MAX_SHORT_BYTES as u64 => connection.end_request(),
            _ => self.guard = Some(ResponseGuard(Arc::clone(connection))),
        }
    }
}

impl ResponseBody {
    /// Chunks that another thread creates. `permit` is held until the last of them is taken.
    pub(crate) fn from_channel<E: Send + 'static>(
        mut source: mpsc::Receiver<Result<Vec<u8>, E>>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (sender, chunks) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(chunk) = source.recv().await {
                // The client may have disconnected.
                if sender
                    .send(chunk.map(Bytes::from).map_err(|_| IncompleteBody))
                    .await
                    .is_err()
                {
                    break;
                }
            }
            drop(permit);
        });
        Self {
            kind: ResponseBodyKind::Chunked(chunks),
            guard: None,
        }
    }
}

impl<B: Into<Bytes>> From<B> for ResponseBody {
    fn from(bytes: B) -> Self {
        Self {
            kind: ResponseBodyKind::Whole(Full::new(bytes.into())),
            guard: None,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = IncompleteBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncompleteBody>>> {
        match &mut self.kind {
            ResponseBodyKind::Whole(whole) => Pin::new(whole)
                .poll_frame(cx)
                .map_err(|error: Infallible| match error {}),
            ResponseBodyKind::Chunked(chunks) => chunks
                .poll_recv(cx)
                .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data))),
            ResponseBodyKind::Endless(next) => next.as_mut().poll(cx).map(|chunk| {
                let (chunk, source) = chunk?;
                *next = source.next();
                Some(Ok(Frame::data(chunk)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            ResponseBodyKind::Whole(whole) => whole.is_end_stream(),
            ResponseBodyKind::Chunked(_) | ResponseBodyKind::Endless(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ResponseBodyKind::Whole(whole) => whole.size_hint(),
            ResponseBodyKind::Chunked(_) | ResponseBodyKind::Endless(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ProjectId;

    fn writers() -> [ResponseWriter; 3] {
        let all = ResponseWriter::new(Arc::new(BlockingThreads::start(4).unwrap()));
        [1, 2, 3].map(|id| all.for_owner(WorkOwner::Project(ProjectId(id))))
    }

    #[tokio::test]
    async fn one_owner_leaves_memory_to_others() {
        let [one, other, third] = writers();
        let mut unsent = Vec::new();
        for _ in 0..MAX_BUFFERED_BYTES_PER_OWNER >> 20 {
            unsent.push(one.buffer(vec![0; 1 << 20]).await.ok().unwrap());
        }
        let soon = Duration::from_millis(10);
        let mut waiting = std::pin::pin!(one.buffer(vec![0; 1 << 20]));
        assert!(timeout(soon, waiting.as_mut()).await.is_err());
        assert!(other.buffer(vec![0; 16 << 20]).await.is_ok());
        let whole = third.write_whole(true, || Ok(vec![0; 16 << 20])).await;
        assert!(whole.is_ok());
        unsent.clear();
        assert!(waiting.await.is_ok());
    }

    #[tokio::test]
    async fn one_owner_leaves_threads_to_others() {
        let [one, other, third] = writers();
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(crate::util::sync::Mutex::new(gate));
        let slow: Vec<_> = (0..6)
            .map(|_| {
                let one = one.clone();
                let gate = Arc::clone(&gate);
                let wait = move || crate::util::sync::lock(&gate).recv().is_ok();
                tokio::spawn(async move { one.run_blocking(wait).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(other.run_blocking(|| 1).await.ok(), Some(1));
        assert_eq!(third.run_blocking(|| 2).await.ok(), Some(2));
        drop(release);
        for task in slow {
            assert!(task.await.unwrap().is_ok());
        }
    }
}
