//! Limits of the open streams: in total, for a session and for an address.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::domain::ids::SessionId;
use crate::runtime::accept::client_network;
use crate::util::sync::lock;

/// Maximum number of streams: see [limits](crate::docs::limits).
const MAX_STREAMS: usize = 1000;
/// Maximum number of streams of a session. A browser that goes from page to page leaves streams
/// behind, which end when something is written to them.
const MAX_STREAMS_PER_SESSION: usize = 20;
/// Maximum number of streams from an address. An IPv6 network of 64 bits counts as one address.
const MAX_STREAMS_PER_ADDRESS: usize = 250;

/// Limits of the open streams.
#[derive(Default)]
pub(super) struct StreamLimit(Mutex<StreamCounts>);

#[derive(Default)]
struct StreamCounts {
    total: usize,
    /// Handles that end the streams of each session, the oldest first.
    sessions: HashMap<SessionId, VecDeque<Arc<Notify>>>,
    addresses: HashMap<IpAddr, usize>,
}

/// Counts a stream as open until it is dropped.
pub(super) struct StreamPermit {
    limit: Arc<StreamLimit>,
    session: Option<SessionId>,
    address: IpAddr,
    revocation: Arc<Notify>,
}

impl StreamLimit {
    /// Counts another stream. `None` if there are too many. If the session has reached its limit,
    /// its oldest stream ends.
    pub(super) fn acquire(
        self: &Arc<Self>,
        session: Option<SessionId>,
        address: IpAddr,
    ) -> Option<StreamPermit> {
        let address = client_network(address);
        let end = Arc::<Notify>::default();
        let mut taken = self.lock();
        let of_address = taken.addresses.get(&address).copied().unwrap_or_default();
        if taken.total >= MAX_STREAMS || of_address >= MAX_STREAMS_PER_ADDRESS {
            return None;
        }
        taken.total += 1;
        if let Some(session) = session {
            let streams = taken.sessions.entry(session).or_default();
            if streams.len() >= MAX_STREAMS_PER_SESSION
                && let Some(oldest) = streams.pop_front()
            {
                oldest.notify_one();
            }
            streams.push_back(Arc::clone(&end));
        }
        *taken.addresses.entry(address).or_default() += 1;
        Some(StreamPermit {
            limit: Arc::clone(self),
            session,
            address,
            revocation: end,
        })
    }

    /// Number of open streams.
    pub(super) fn open_streams(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, StreamCounts> {
        lock(&self.0)
    }
}

impl StreamPermit {
    /// Waits until another stream takes this place.
    pub(super) async fn revoked(&self) {
        self.revocation.notified().await;
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.lock();
        taken.total -= 1;
        if let Some(session) = self.session
            && let Some(streams) = taken.sessions.get_mut(&session)
        {
            streams.retain(|end| !Arc::ptr_eq(end, &self.revocation));
            if streams.is_empty() {
                taken.sessions.remove(&session);
            }
        }
        if let Some(count) = taken.addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.addresses.remove(&self.address);
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
        held[0].revoked().await;
        assert_eq!(seats.open_streams(), MAX_STREAMS_PER_SESSION + 1);
        held.remove(0);
        held.push(take(Some(2), 99).unwrap());
        held.extend((0..MAX_STREAMS_PER_ADDRESS).map(|_| take(None, 500).unwrap()));
        assert!(take(None, 500).is_none());
        let free = held.len()..MAX_STREAMS;
        held.extend(free.map(|at| take(None, 1000 + at).unwrap()));
        assert!(take(Some(3), 2000).is_none());
        held.clear();
        let taken = seats.lock();
        assert!(taken.total == 0 && taken.sessions.is_empty() && taken.addresses.is_empty());
    }
}
