//! Request bodies, bounded in bytes and in time.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Sleep, sleep, timeout};

use super::reply::Fault;
use crate::engine::apply::SEARCHED_BYTES;

/// A body that has not arrived by then is answered 408.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Bytes of a body that are read at all, kept or not. A longer body is answered 413.
const READ_BYTES: usize = 10 << 20;
/// Bytes of a body that each request may keep without the common budget. Most bodies are shorter. Keywords are searched in fewer.
const SHARE: usize = 16 << 10;
const _: () = assert!(SHARE >= SEARCHED_BYTES);
/// In this time a sender that has some of the budget sends [`LEAST_BYTES`], or loses it.
const LEAST_TIME: Duration = Duration::from_secs(10);
/// 1 kB a second.
const LEAST_BYTES: usize = 10_000;
/// Bytes of all bodies that are coming in which may be kept at the same time, beyond the share of each.
const BUDGET: usize = 64 << 20;

/// The budget that long bodies have in common, so that many at once do not take all memory. It needs no key to send one.
pub(crate) struct BodyBudget(Semaphore);

impl BodyBudget {
    /// A budget of which nothing is taken.
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(BUDGET))
    }
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn whole(body: Incoming, most: usize, budget: &BodyBudget) -> Result<Bytes, Fault> {
    read(body, Wanted { keep: most, most, whole: true }, budget).await
}

/// Reads a body and keeps its first `keep` bytes, or fewer where there is no room for long ones, but never fewer than 10,000 of them.
/// What comes after them is read and dropped, up to 10 MiB in all.
pub(crate) async fn beginning(body: Incoming, keep: usize, budget: &BodyBudget) -> Result<Bytes, Fault> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    read(body, Wanted { keep, most: READ_BYTES.max(keep), whole: false }, budget).await
}

/// What is wanted of a body.
struct Wanted {
    /// Bytes to keep.
    keep: usize,
    /// Bytes to read.
    most: usize,
    /// A beginning is worth nothing.
    whole: bool,
}

async fn read(body: Incoming, wanted: Wanted, budget: &BodyBudget) -> Result<Bytes, Fault> {
    if body.size_hint().lower() > wanted.most as u64 {
        return Err(Fault::TooLarge(wanted.most));
    }
    timeout(BODY_TIME, read_pieces(body, wanted, budget)).await.unwrap_or(Err(Fault::Timeout))
}

/// Takes room as the bytes come, and gives it back if they come too slowly.
async fn read_pieces(mut body: Incoming, wanted: Wanted, budget: &BodyBudget) -> Result<Bytes, Fault> {
    let Wanted { mut keep, most, whole } = wanted;
    let (mut length, mut kept) = (0_usize, Kept::default());
    let mut room: Option<Room<'_>> = None;
    loop {
        let frame = match &mut room {
            Some(room) => tokio::select! {
                frame = body.frame() => Some(frame),
                () = room.slow() => None,
            },
            None => Some(body.frame().await),
        };
        let data = match frame {
            Some(None) => return Ok(kept.into_bytes()),
            Some(Some(frame)) => frame.map_err(|_| Fault::BadRequest("the request body broke off".into()))?.into_data().unwrap_or_default(),
            None if whole => return Err(Fault::Timeout),
            None => {
                (keep, room) = (SHARE, None);
                kept.cut(keep);
                continue;
            }
        };
        let mut piece = keep.saturating_sub(length).min(data.len());
        if piece > 0 && length + piece > SHARE && !Room::take(&mut room, budget, piece) {
            if whole {
                return Err(Fault::NoRoom);
            }
            keep = length.max(SHARE);
            piece = keep.saturating_sub(length).min(data.len());
        }
        kept.push(data.slice(..piece));
        length += data.len();
        if length > most {
            return Err(Fault::TooLarge(most));
        }
    }
}

/// What one body has of the budget.
struct Room<'b> {
    taken: SemaphorePermit<'b>,
    /// When it is looked at next how fast the body comes.
    look: Pin<Box<Sleep>>,
    /// Bytes since the last look.
    came: usize,
}

impl<'b> Room<'b> {
    /// Takes room for a piece, if there is any.
    fn take(room: &mut Option<Self>, budget: &'b BodyBudget, piece: usize) -> bool {
        // A piece is as long as what was read at once, far below 4 GiB.
        let Ok(taken) = budget.0.try_acquire_many(piece as u32) else { return false };
        match room {
            Some(room) => {
                room.came += piece;
                room.taken.merge(taken);
            }
            None => *room = Some(Self { taken, look: Box::pin(sleep(LEAST_TIME)), came: 0 }),
        }
        true
    }

    /// Waits until the body comes too slowly.
    async fn slow(&mut self) {
        loop {
            self.look.as_mut().await;
            if std::mem::take(&mut self.came) < LEAST_BYTES {
                return;
            }
            let next = self.look.deadline() + LEAST_TIME;
            self.look.as_mut().reset(next);
        }
    }
}

/// The beginning of a body. Nearly every body comes in one piece. That piece is not copied.
#[derive(Default)]
struct Kept {
    first: Bytes,
    /// All of it, once there are several pieces.
    all: BytesMut,
}

impl Kept {
    fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            if self.all.is_empty() {
                self.all.extend_from_slice(&self.first);
            }
            self.all.extend_from_slice(&piece);
        }
    }

    /// Keeps so many bytes, and gives the memory of the others back.
    fn cut(&mut self, length: usize) {
        let all = if self.all.is_empty() { &self.first } else { &self.all[..] };
        self.all = all.get(..length).unwrap_or(all).into();
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}
