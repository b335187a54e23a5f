//! Request bodies, limited in size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyDataStream, BodyExt as _};
use hyper::body::{Body, Frame, Incoming};
use tokio::time::{Sleep, sleep, timeout};

use super::connection_state::ConnectionState;
use super::reply::HttpError;
use super::work_owner::WorkOwner;
use crate::engine::apply::KEYWORD_SEARCH_BYTES;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};

/// A body that has not arrived within this time is answered 408.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a body that is read, kept or not, in bytes. A longer body is answered 413.
const MAX_READ_BYTES: usize = 10 << 20;
/// Bytes of a body that each request may keep outside the shared budget. Most bodies are shorter,
/// and keywords are searched for in fewer bytes.
const UNBUDGETED_BYTES: usize = 16 << 10;
const _: () = assert!(UNBUDGETED_BYTES >= KEYWORD_SEARCH_BYTES);
/// Interval within which a sender that uses the budget must send [`MIN_BYTES_PER_INTERVAL`].
/// Otherwise it loses its share.
const RATE_INTERVAL: Duration = Duration::from_secs(10);
/// 1 kB per second.
const MIN_BYTES_PER_INTERVAL: usize = 10_000;
/// Shared budget in bytes for all arriving bodies, beyond the unbudgeted part of each. Sending a
/// long body needs no key.
const BODY_BUDGET_BYTES: usize = 64 << 20;
/// Maximum number of these bytes of one owner.
const BODY_BUDGET_BYTES_PER_OWNER: usize = BODY_BUDGET_BYTES / 4;

/// Budget of bytes for arriving bodies.
pub(crate) struct BodyBudget(KeyedSemaphore<WorkOwner>);

impl BodyBudget {
    pub(crate) fn new() -> Self {
        let per_owner = KeyedSemaphore::per_key(BODY_BUDGET_BYTES_PER_OWNER);
        Self(per_owner.with_total(BODY_BUDGET_BYTES))
    }

    /// Part of the budget that this owner may use.
    pub(crate) fn of(&self, owner: WorkOwner) -> BodyQuota<'_> {
        BodyQuota {
            budget: self,
            owner,
        }
    }
}

/// Part of the budget that one owner may use.
#[derive(Clone, Copy)]
pub(crate) struct BodyQuota<'a> {
    budget: &'a BodyBudget,
    owner: WorkOwner,
}

impl BodyQuota<'_> {
    fn try_acquire(self, bytes: usize) -> Option<KeyedPermit> {
        let permits = &self.budget.0;
        permits.try_acquire_many(self.owner, bytes).ok()
    }
}

/// Body that is being received. It sets the state of its connection while it waits for more data.
pub(crate) struct IncomingBody<'a> {
    inner: Incoming,
    connection: &'a ConnectionState,
}

impl<'a> IncomingBody<'a> {
    pub(crate) fn new(content: Incoming, connection: &'a ConnectionState) -> Self {
        Self {
            inner: content,
            connection,
        }
    }

    /// Returns the bytes of the body as they arrive. The caller limits their number and the time.
    pub(crate) fn into_bytes_stream(self) -> BodyDataStream<Self> {
        self.into_data_stream()
    }

    /// True if the body may need more than the unbudgeted bytes.
    pub(crate) fn may_be_long(&self) -> bool {
        let most = self.inner.size_hint().upper();
        most.is_none_or(|bytes| bytes > UNBUDGETED_BYTES as u64)
    }

    async fn next_frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await
    }
}

impl Body for IncomingBody<'_> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        self.connection.set_awaiting_body(frame.is_pending());
        frame
    }
}

impl Drop for IncomingBody<'_> {
    fn drop(&mut self) {
        self.connection.set_awaiting_body(false);
    }
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn read_whole(
    body: IncomingBody<'_>,
    most: usize,
    quota: BodyQuota<'_>,
) -> Result<Bytes, HttpError> {
    read_body(
        body,
        BodyLimits {
            max_kept: most,
            max_read: most,
            must_be_whole: true,
        },
        quota,
    )
    .await
}

/// Reads a body and keeps its first `keep` bytes. If the budget for long bodies is exhausted, it
/// keeps fewer, but never fewer than [`UNBUDGETED_BYTES`]. The rest is read and dropped, up to
/// [`MAX_READ_BYTES`] in all.
pub(crate) async fn read_prefix(
    body: IncomingBody<'_>,
    keep: usize,
    quota: BodyQuota<'_>,
) -> Result<Bytes, HttpError> {
    if body.inner.is_end_stream() {
        return Ok(Bytes::new());
    }
    read_body(
        body,
        BodyLimits {
            max_kept: keep,
            max_read: MAX_READ_BYTES.max(keep),
            must_be_whole: false,
        },
        quota,
    )
    .await
}

/// Limits for reading a body.
struct BodyLimits {
    /// Maximum number of bytes to keep.
    max_kept: usize,
    /// Maximum number of bytes to read.
    max_read: usize,
    /// True if the body is rejected when it cannot be kept as a whole.
    must_be_whole: bool,
}

async fn read_body(
    body: IncomingBody<'_>,
    limits: BodyLimits,
    quota: BodyQuota<'_>,
) -> Result<Bytes, HttpError> {
    if body.inner.size_hint().lower() > limits.max_read as u64 {
        return Err(HttpError::BodyTooLarge(limits.max_read));
    }
    timeout(BODY_TIMEOUT, read_frames(body, limits, quota))
        .await
        .unwrap_or(Err(HttpError::BodyTimeout))
}

/// Reserves budget as the bytes arrive, and releases it if they arrive too slowly.
async fn read_frames(
    mut body: IncomingBody<'_>,
    limits: BodyLimits,
    quota: BodyQuota<'_>,
) -> Result<Bytes, HttpError> {
    let BodyLimits {
        max_kept: mut keep,
        max_read: most,
        must_be_whole: whole,
    } = limits;
    // At most `max_read`, or unknown.
    let announced = body
        .inner
        .size_hint()
        .upper()
        .map_or(usize::MAX, |bytes| bytes as usize);
    let mut length = 0_usize;
    let mut kept = Vec::new();
    let mut share: Option<BodyBudgetShare> = None;
    loop {
        let frame = match &mut share {
            Some(share) => tokio::select! {
                frame = body.next_frame() => Some(frame),
                () = share.wait_until_slow() => None,
            },
            None => Some(body.next_frame().await),
        };
        let data = match frame {
            Some(None) => {
                kept.shrink_to_fit();
                return Ok(kept.into());
            }
            Some(Some(frame)) => frame
                .map_err(|_| HttpError::BadRequest("the request body is incomplete".into()))?
                .into_data()
                .unwrap_or_default(),
            None if whole => return Err(HttpError::BodyTimeout),
            None => {
                (keep, share) = (UNBUDGETED_BYTES, None);
                kept.truncate(keep);
                kept.shrink_to_fit();
                continue;
            }
        };
        // Nearly every body arrives in one frame, which is not copied.
        if length == 0 && body.inner.is_end_stream() && data.len() <= UNBUDGETED_BYTES.min(most) {
            return Ok(data.slice(..keep.min(data.len())));
        }
        let mut piece = keep.saturating_sub(length).min(data.len());
        if piece > 0
            && !BodyBudgetShare::reserve(&mut share, quota, &mut kept, piece, keep.min(announced))
        {
            if whole {
                return Err(HttpError::BodyBudgetExhausted);
            }
            keep = length.max(UNBUDGETED_BYTES);
            piece = keep.saturating_sub(length).min(data.len());
        }
        kept.extend_from_slice(data.get(..piece).unwrap_or_default());
        length += data.len();
        if length > most {
            return Err(HttpError::BodyTooLarge(most));
        }
    }
}

/// Share of one body in the budget.
struct BodyBudgetShare {
    permit: KeyedPermit,
    /// Time of the next rate check.
    rate_timer: Pin<Box<Sleep>>,
    /// Bytes since the last rate check.
    received: usize,
}

impl BodyBudgetShare {
    /// Reserves space in `kept` for a piece, if the budget allows. The body has at most `most`
    /// bytes.
    ///
    /// Pieces are copied: each is a part of one read buffer, and would keep all of it in memory.
    fn reserve(
        share: &mut Option<Self>,
        quota: BodyQuota<'_>,
        kept: &mut Vec<u8>,
        piece: usize,
        most: usize,
    ) -> bool {
        if let Some(share) = share {
            share.received += piece;
        }
        let length = kept.len() + piece;
        if length <= kept.capacity() {
            return true;
        }
        let capacity = length.max(most.min(if length <= UNBUDGETED_BYTES {
            UNBUDGETED_BYTES
        } else {
            2 * length
        }));
        let beyond = capacity.saturating_sub(kept.capacity().max(UNBUDGETED_BYTES));
        if beyond > 0 {
            let Some(permit) = quota.try_acquire(beyond) else {
                return false;
            };
            match share {
                Some(share) => share.permit.merge(permit),
                None => {
                    *share = Some(Self {
                        permit,
                        rate_timer: Box::pin(sleep(RATE_INTERVAL)),
                        received: 0,
                    });
                }
            }
        }
        kept.reserve_exact(capacity - kept.len());
        true
    }

    /// Waits until the body arrives too slowly.
    async fn wait_until_slow(&mut self) {
        loop {
            self.rate_timer.as_mut().await;
            if std::mem::take(&mut self.received) < MIN_BYTES_PER_INTERVAL {
                return;
            }
            let next = self.rate_timer.deadline() + RATE_INTERVAL;
            self.rate_timer.as_mut().reset(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ProjectId;

    #[test]
    fn one_owner_leaves_memory_to_others() {
        let budget = BodyBudget::new();
        let [one, other] = [1, 2].map(|id| budget.of(WorkOwner::Project(ProjectId(id))));
        let held: Vec<_> = std::iter::from_fn(|| one.try_acquire(1 << 20)).collect();
        assert_eq!(held.len(), BODY_BUDGET_BYTES_PER_OWNER >> 20);
        assert!(other.try_acquire(1 << 20).is_some());
        assert!(budget.of(WorkOwner::Other).try_acquire(1 << 20).is_some());
        drop(held);
        assert!(one.try_acquire(1 << 20).is_some());
    }

    #[tokio::test]
    async fn the_memory_of_a_body_is_within_the_counted_size() {
        for (piece, whole) in [
            (1, 40_000),
            (7, 95_000),
            (1000, 100_000),
            (8191, 95_000),
            (8191, 1_000_000),
        ] {
            for announced in [whole, usize::MAX] {
                let budget = BodyBudget::new();
                let quota = budget.of(WorkOwner::Other);
                let mut share = None;
                let mut kept = Vec::new();
                while kept.len() < whole {
                    let piece = piece.min(whole - kept.len());
                    assert!(BodyBudgetShare::reserve(
                        &mut share, quota, &mut kept, piece, announced
                    ));
                    kept.resize(kept.len() + piece, 0);
                    let counted = budget.0.in_use();
                    assert!(
                        kept.capacity() <= UNBUDGETED_BYTES + counted,
                        "{} of {piece} have {}",
                        kept.len(),
                        kept.capacity()
                    );
                    assert!(
                        UNBUDGETED_BYTES + counted
                            <= announced.min(2 * kept.len()).max(UNBUDGETED_BYTES),
                        "{} of {piece} take {counted}",
                        kept.len()
                    );
                }
                drop(share);
                assert_eq!(budget.0.in_use(), 0);
            }
        }
    }
}
