//! Request bodies, bounded in bytes and in time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Sleep, sleep, timeout};

use super::line::Line;
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

/// A body on its way. Its connection tells when it waits for more of it.
pub(crate) struct Arriving<'a> {
    content: Incoming,
    line: &'a Line,
}

impl<'a> Arriving<'a> {
    pub(crate) fn new(content: Incoming, line: &'a Line) -> Self {
        Self { content, line }
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        poll_fn(|cx| {
            let frame = Pin::new(&mut self.content).poll_frame(cx);
            self.line.awaits_body(frame.is_pending());
            frame
        })
        .await
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.line.awaits_body(false);
    }
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn whole(body: Arriving<'_>, most: usize, budget: &BodyBudget) -> Result<Bytes, Fault> {
    read(body, Wanted { keep: most, most, whole: true }, budget).await
}

/// Reads a body and keeps its first `keep` bytes, or fewer where there is no room for long ones, but never fewer than 10,000 of them.
/// What comes after them is read and dropped, up to 10 MiB in all.
pub(crate) async fn beginning(body: Arriving<'_>, keep: usize, budget: &BodyBudget) -> Result<Bytes, Fault> {
    if body.content.is_end_stream() {
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

async fn read(body: Arriving<'_>, wanted: Wanted, budget: &BodyBudget) -> Result<Bytes, Fault> {
    if body.content.size_hint().lower() > wanted.most as u64 {
        return Err(Fault::TooLarge(wanted.most));
    }
    timeout(BODY_TIME, read_pieces(body, wanted, budget)).await.unwrap_or(Err(Fault::Timeout))
}

/// Takes room as the bytes come, and gives it back if they come too slowly.
async fn read_pieces(mut body: Arriving<'_>, wanted: Wanted, budget: &BodyBudget) -> Result<Bytes, Fault> {
    let Wanted { mut keep, most, whole } = wanted;
    // It is not over `most`, or not known.
    let announced = body.content.size_hint().upper().map_or(usize::MAX, |bytes| bytes as usize);
    let (mut length, mut kept) = (0_usize, Vec::new());
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
            Some(None) => {
                kept.shrink_to_fit();
                return Ok(kept.into());
            }
            Some(Some(frame)) => frame.map_err(|_| Fault::BadRequest("the request body broke off".into()))?.into_data().unwrap_or_default(),
            None if whole => return Err(Fault::Timeout),
            None => {
                (keep, room) = (SHARE, None);
                kept.truncate(keep);
                kept.shrink_to_fit();
                continue;
            }
        };
        // Nearly every body comes in one piece. That piece is not copied.
        if length == 0 && body.content.is_end_stream() && data.len() <= SHARE.min(most) {
            return Ok(data.slice(..keep.min(data.len())));
        }
        let mut piece = keep.saturating_sub(length).min(data.len());
        if piece > 0 && !Room::take(&mut room, budget, &mut kept, piece, keep.min(announced)) {
            if whole {
                return Err(Fault::NoRoom);
            }
            keep = length.max(SHARE);
            piece = keep.saturating_sub(length).min(data.len());
        }
        kept.extend_from_slice(data.get(..piece).unwrap_or_default());
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
    /// Makes room in `kept` for a piece, if there is any. There will be at most `most` bytes.
    ///
    /// Pieces are copied: each is a part of what was read at once, and would keep all of that in memory.
    fn take(room: &mut Option<Self>, budget: &'b BodyBudget, kept: &mut Vec<u8>, piece: usize, most: usize) -> bool {
        if let Some(room) = room {
            room.came += piece;
        }
        let length = kept.len() + piece;
        if length <= kept.capacity() {
            return true;
        }
        let capacity = length.max(most.min(if length <= SHARE { SHARE } else { 2 * length }));
        let beyond = capacity.saturating_sub(kept.capacity().max(SHARE));
        if beyond > 0 {
            // No body is as long as 4 GiB.
            let Ok(taken) = budget.0.try_acquire_many(beyond as u32) else { return false };
            match room {
                Some(room) => room.taken.merge(taken),
                None => *room = Some(Self { taken, look: Box::pin(sleep(LEAST_TIME)), came: 0 }),
            }
        }
        kept.reserve_exact(capacity - kept.len());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_memory_of_a_body_is_within_what_is_counted() {
        for (piece, whole) in [(1, 40_000), (7, 95_000), (1000, 100_000), (8191, 95_000), (8191, 1_000_000)] {
            for announced in [whole, usize::MAX] {
                let budget = BodyBudget::new();
                let (mut room, mut kept) = (None, Vec::new());
                while kept.len() < whole {
                    let piece = piece.min(whole - kept.len());
                    assert!(Room::take(&mut room, &budget, &mut kept, piece, announced));
                    kept.resize(kept.len() + piece, 0);
                    let counted = BUDGET - budget.0.available_permits();
                    assert!(kept.capacity() <= SHARE + counted, "{} of {piece} have {}", kept.len(), kept.capacity());
                    assert!(SHARE + counted <= announced.min(2 * kept.len()).max(SHARE), "{} of {piece} take {counted}", kept.len());
                }
                drop(room);
                assert_eq!(budget.0.available_permits(), BUDGET);
            }
        }
    }
}
