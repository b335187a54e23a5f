//! Limits of the open streams: in total, for a session and for an address. A session that has
//! reached its limit gets a new stream in place of its oldest one, so that the page in front of the
//! user has one.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::domain::ids::SessionId;
use crate::util::client_network::ClientNetwork;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};
use crate::util::sync::{Mutex, lock};

/// Maximum number of streams: see [limits](crate::docs::limits).
const MAX_STREAMS: usize = 1000;
/// Maximum number of streams of a session. A browser that goes from page to page leaves streams
/// behind, which end when something is written to them.
const MAX_STREAMS_PER_SESSION: usize = 20;
/// Maximum number of streams from an address. An IPv6 network of 64 bits counts as one address.
const MAX_STREAMS_PER_ADDRESS: usize = 250;

/// Limits of the open streams.
pub(super) struct StreamLimit {
    streams: KeyedSemaphore<ClientNetwork>,
    /// Handles that end the streams of each session, the oldest first.
    sessions: Mutex<HashMap<SessionId, VecDeque<Arc<Notify>>>>,
}

/// Permit of a stream, which counts as open until the permit is dropped.
pub(super) struct StreamPermit {
    limit: Arc<StreamLimit>,
    session: Option<SessionId>,
    revocation: Arc<Notify>,
    _permit: KeyedPermit,
}

impl Default for StreamLimit {
    fn default() -> Self {
        Self {
            streams: KeyedSemaphore::per_key(MAX_STREAMS_PER_ADDRESS).with_total(MAX_STREAMS),
            sessions: Mutex::default(),
        }
    }
}

impl StreamLimit {
    /// Counts another stream. `None` if there are too many. If the session has reached its limit,
    /// its oldest stream ends.
    pub(super) fn acquire(
        self: &Arc<Self>,
        session: Option<SessionId>,
        address: IpAddr,
    ) -> Option<StreamPermit> {
        let permit = self.streams.try_acquire(address.into()).ok()?;
        let end = Arc::<Notify>::default();
        if let Some(session) = session {
            let mut sessions = lock(&self.sessions);
            let streams = sessions.entry(session).or_default();
            if streams.len() >= MAX_STREAMS_PER_SESSION
                && let Some(oldest) = streams.pop_front()
            {
                oldest.notify_one();
            }
            streams.push_back(Arc::clone(&end));
        }
        Some(StreamPermit {
            limit: Arc::clone(self),
            session,
            revocation: end,
            _permit: permit,
        })
    }

    /// Number of open streams.
    pub(super) fn open_streams(&self) -> usize {
        self.streams.in_use()
    }
}

impl StreamPermit {
    /// Waits until another stream takes this place.
    pub(super) async fn wait_for_revocation(&self) {
        self.revocation.notified().await;
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let Some(session) = self.session else {
            return;
        };
        let mut sessions = lock(&self.limit.sessions);
        if let Some(streams) = sessions.get_mut(&session) {
            streams.retain(|end| !Arc::ptr_eq(end, &self.revocation));
            if streams.is_empty() {
                sessions.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn streams_are_limited_by_session_by_address_and_in_total() {
        let seats = Arc::<StreamLimit>::default();
        let address =
            |number: usize| IpAddr::from([10, 0, (number / 256) as u8, (number % 256) as u8]);
        let take =
            |session: Option<u64>, at: usize| seats.acquire(session.map(SessionId), address(at));
        let mut held: Vec<_> = (0..MAX_STREAMS_PER_SESSION)
            .map(|at| take(Some(1), at).unwrap())
            .collect();
        // Another stream ends the oldest one, which counts until it has ended.
        held.push(take(Some(1), 99).unwrap());
        held[0].wait_for_revocation().await;
        assert_eq!(seats.open_streams(), MAX_STREAMS_PER_SESSION + 1);
        held.remove(0);
        held.push(take(Some(2), 99).unwrap());
        held.extend((0..MAX_STREAMS_PER_ADDRESS).map(|_| take(None, 500).unwrap()));
        assert!(take(None, 500).is_none());
        let free = held.len()..MAX_STREAMS;
        held.extend(free.map(|at| take(None, 1000 + at).unwrap()));
        assert!(take(Some(3), 2000).is_none());
        held.clear();
        assert_eq!(seats.open_streams(), 0);
        assert!(lock(&seats.sessions).is_empty());
    }
}
