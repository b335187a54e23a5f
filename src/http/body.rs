//! Request bodies, bounded in bytes and in time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::Semaphore;

use super::reply::Fault;

/// A body that has not arrived by then is answered 408.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Bytes of a body that are read at all, kept or not. A longer body is answered 413.
const READ_BYTES: usize = 10 << 20;
/// Bytes of a body that each request may keep without the common budget. Most bodies are shorter.
const SHARE: usize = 16 << 10;
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
    if body.size_hint().lower() > most as u64 {
        return Err(Fault::TooLarge(most));
    }
    let (kept, length) = in_time(body, most + 1, most, budget).await?;
    if length > most { Err(Fault::TooLarge(most)) } else { Ok(kept) }
}

/// Reads a body and keeps its first `keep` bytes; what comes after them is read and dropped, up to 10 MiB in all.
pub(crate) async fn beginning(body: Incoming, keep: usize, budget: &BodyBudget) -> Result<Bytes, Fault> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let most = READ_BYTES.max(keep);
    if body.size_hint().lower() > most as u64 {
        return Err(Fault::TooLarge(most));
    }
    let (kept, length) = in_time(body, keep, most, budget).await?;
    if length > most { Err(Fault::TooLarge(most)) } else { Ok(kept) }
}

async fn in_time(body: Incoming, keep: usize, most: usize, budget: &BodyBudget) -> Result<(Bytes, usize), Fault> {
    tokio::time::timeout(BODY_TIME, read(body, keep, most, budget)).await.unwrap_or(Err(Fault::Timeout))
}

/// The first `keep` bytes and the length. Reading stops when the length exceeds `most`, so it is then too small.
async fn read(mut body: Incoming, keep: usize, most: usize, budget: &BodyBudget) -> Result<(Bytes, usize), Fault> {
    let mut length = 0_usize;
    // Nearly every body comes in one piece. That piece is not copied.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut taken = budget.0.try_acquire_many(0).map_err(|_| Fault::Unavailable)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Fault::BadRequest("the request body broke off".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        let kept = keep.saturating_sub(length).min(data.len());
        if kept > 0 && length + kept > SHARE {
            // A piece is as long as what was read at once, far below 4 GiB.
            taken.merge(budget.0.try_acquire_many(kept as u32).map_err(|_| Fault::Unavailable)?);
        }
        if length == 0 {
            first = data.slice(..kept);
        } else if kept > 0 {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data.slice(..kept));
        }
        length += data.len();
        if length > most {
            break;
        }
    }
    Ok((if rest.is_empty() { first } else { rest.freeze() }, length))
}
