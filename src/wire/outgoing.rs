//! Long answers on their way out: written piece by piece where no ping waits, within one bound for all clients that read slowly.

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

use super::line::Line;
use super::reply::Fault;
use crate::blocking_threads::{BlockingThreads, NotDone};

/// Bytes of all answers that are written but not sent. Short ones do not count: there are no more of them than connections.
const ROOM: usize = 64 << 20;
/// Bytes of a short answer.
const SHORT: usize = 16 << 10;
/// About how many bytes of a long list are written at once.
pub(crate) const PIECE: usize = 64 << 10;
/// How long an answer waits for room.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the next piece of one does: longer than the slowest client may take for a piece.
const PIECE_PATIENCE: Duration = Duration::from_secs(60);

/// What writes long answers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outgoing {
    blocking: Arc<BlockingThreads>,
    room: Arc<Semaphore>,
}

/// Bytes and the room that they take. It is given back when the last of them is sent.
struct Held {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends about [`PIECE`] bytes, and says whether there is more.
pub(crate) trait Writer: FnMut(&mut String) -> Result<bool, Fault> + Send + 'static {}
impl<W: FnMut(&mut String) -> Result<bool, Fault> + Send + 'static> Writer for W {}

impl Outgoing {
    pub(crate) fn new(blocking: Arc<BlockingThreads>) -> Self {
        Self { blocking, room: Arc::new(Semaphore::new(ROOM)) }
    }

    /// An answer that `make` makes at once, on this thread if that is short work. If there is no room for it, it is made a second time when
    /// there is.
    pub(crate) async fn whole<M: Into<Vec<u8>>>(
        &self,
        is_short: bool,
        make: impl Fn() -> Result<M, Fault> + Send + Sync + 'static,
    ) -> Result<Content, Fault> {
        let make = Arc::new(move || make().map(Into::into));
        let mut room = None;
        loop {
            let (make, all, had) = (Arc::clone(&make), Arc::clone(&self.room), room.take());
            let made = self.short_or_not(is_short, move || make().map(|bytes: Vec<u8>| fit(bytes, had, &all))).await??;
            match made {
                Ok(content) => return Ok(content),
                Err(length) => room = Some(self.room(length, PATIENCE).await?),
            }
        }
    }

    /// An answer that has been made, as soon as there is room for it.
    pub(crate) async fn made(&self, bytes: Vec<u8>) -> Result<Content, Fault> {
        if bytes.len() <= SHORT {
            return Ok(bytes.into());
        }
        let room = self.room(bytes.len(), PATIENCE).await?;
        Ok(Bytes::from_owner(Held { bytes, _room: room }).into())
    }

    /// An answer in pieces. The first of them is there when this returns.
    pub(crate) async fn pieces(self, write: impl Writer) -> Result<Content, Fault> {
        let (first, mut rest) = self.piece(write, PATIENCE).await?;
        if rest.is_none() {
            return Ok(first.into());
        }
        let (sender, pieces) = mpsc::channel(1);
        // There is room for one.
        let _ = sender.try_send(Ok(first));
        tokio::spawn(async move {
            while let Some(write) = rest {
                let piece = self.piece(write, PIECE_PATIENCE).await;
                let (piece, more) = piece.map_or((Err(Broken), None), |(piece, rest)| (Ok(piece), rest));
                // The client may be gone.
                rest = sender.send(piece).await.ok().and(more);
            }
        });
        Ok(Content { kind: Kind::Pieces(pieces), busy: None })
    }

    async fn piece<W: Writer>(&self, mut write: W, patience: Duration) -> Result<(Bytes, Option<W>), Fault> {
        let room = self.room(PIECE, patience).await?;
        self.run(move || {
            let mut out = String::with_capacity(PIECE + PIECE / 4);
            let more = write(&mut out)?;
            Ok((Bytes::from_owner(Held { bytes: out.into(), _room: room }), more.then_some(write)))
        })
        .await?
    }

    /// Waits for room.
    async fn room(&self, bytes: usize, patience: Duration) -> Result<OwnedSemaphorePermit, Fault> {
        // What is longer than all of it has it for itself.
        let room = Arc::clone(&self.room).acquire_many_owned(bytes.min(ROOM) as u32);
        timeout(patience, room).await.map_err(|_| Fault::Unavailable)?.map_err(|_| Fault::Unavailable)
    }

    /// Does what takes about a millisecond here: handing it to another thread would take as long. Anything else where no ping waits.
    pub(crate) async fn short_or_not<T: Send + 'static>(
        &self,
        is_short: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        if is_short { Ok(work()) } else { self.run(work).await }
    }

    /// Does what may take long.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        self.blocking.run(work).await.map_err(|NotDone| Fault::Unavailable)
    }
}

/// The content, or its length if there is no room for it.
fn fit(bytes: Vec<u8>, had: Option<OwnedSemaphorePermit>, all: &Arc<Semaphore>) -> Result<Content, usize> {
    let length = bytes.len();
    if length <= SHORT {
        return Ok(bytes.into());
    }
    let wanted = length.min(ROOM);
    let room = had.filter(|had| had.num_permits() >= wanted).or_else(|| Arc::clone(all).try_acquire_many_owned(wanted as u32).ok());
    match room {
        Some(room) => Ok(Bytes::from_owner(Held { bytes, _room: room }).into()),
        None => Err(length),
    }
}

/// The content of an answer.
pub(crate) struct Content {
    kind: Kind,
    /// Dropped when all of it is written.
    busy: Option<Busy>,
}

enum Kind {
    Whole(Full<Bytes>),
    Pieces(mpsc::Receiver<Result<Bytes, Broken>>),
    Endless(Piece),
}

/// The next piece of an answer without an end, and what gives the one after it; `None`: it has ended after all.
pub(crate) type Piece = Pin<Box<dyn Future<Output = Option<(Bytes, Box<dyn Endless>)>> + Send>>;

/// What an answer without an end is made of. A piece is asked for when the client can take it, so nothing waits for a slow one.
pub(crate) trait Endless: Send {
    /// Waits for the next piece.
    fn next(self: Box<Self>) -> Piece;
}

/// Keeps a connection busy.
struct Busy(Arc<Line>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest();
    }
}

/// A piece could not be written. The connection ends, so that nobody takes a part for the whole.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a long answer could not be continued")
    }
}

impl std::error::Error for Broken {}

impl Content {
    /// An answer that goes on until the client has enough of it.
    pub(crate) fn endless(source: Box<dyn Endless>) -> Self {
        Self { kind: Kind::Endless(source.next()), busy: None }
    }

    /// Whether it is one of these.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.kind, Kind::Endless(_))
    }

    /// The connection stays busy until this is written.
    pub(crate) fn keep_busy(&mut self, line: &Arc<Line>) {
        // A short answer is as good as written.
        match self.size_hint().exact() {
            Some(bytes) if bytes <= SHORT as u64 => line.rest(),
            _ => self.busy = Some(Busy(Arc::clone(line))),
        }
    }
}

impl Content {
    /// Pieces that another thread makes. `turn` is held until the last of them is taken.
    pub(crate) fn made_elsewhere<E: Send + 'static>(mut made: mpsc::Receiver<Result<Vec<u8>, E>>, turn: OwnedSemaphorePermit) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(piece) = made.recv().await {
                // The client may be gone.
                if sender.send(piece.map(Bytes::from).map_err(|_| Broken)).await.is_err() {
                    break;
                }
            }
            drop(turn);
        });
        Self { kind: Kind::Pieces(pieces), busy: None }
    }
}

impl<B: Into<Bytes>> From<B> for Content {
    fn from(bytes: B) -> Self {
        Self { kind: Kind::Whole(Full::new(bytes.into())), busy: None }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.kind {
            Kind::Whole(whole) => Pin::new(whole).poll_frame(cx).map_err(|error: Infallible| match error {}),
            Kind::Pieces(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Kind::Endless(next) => next.as_mut().poll(cx).map(|piece| {
                let (piece, source) = piece?;
                *next = source.next();
                Some(Ok(Frame::data(piece)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(whole) => whole.is_end_stream(),
            Kind::Pieces(_) | Kind::Endless(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(whole) => whole.size_hint(),
            Kind::Pieces(_) | Kind::Endless(_) => SizeHint::default(),
        }
    }
}
