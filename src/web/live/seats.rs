//! How many pages may be kept up to date by a stream: in all, of one session and from one address.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::accept::network;
use crate::domain::ids::SessionId;

/// Streams at the same time: see [limits](crate::docs::limits).
const MOST: usize = 1000;
/// Those of one session. A browser that goes from page to page leaves streams behind, which end when something is written to them.
const MOST_OF_SESSION: usize = 20;
/// Those from one address, an IPv6 network of 64 bits counting as one.
const MOST_OF_ADDRESS: usize = 250;

/// See the module.
#[derive(Default)]
pub(super) struct Seats(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: usize,
    /// What ends the streams of each session, the oldest first.
    sessions: HashMap<SessionId, VecDeque<Arc<Notify>>>,
    addresses: HashMap<IpAddr, usize>,
}

/// A stream that counts until this is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    session: Option<SessionId>,
    address: IpAddr,
    end: Arc<Notify>,
}

impl Seats {
    /// Counts one more stream, unless there are too many. The oldest of a session that has enough ends for it.
    pub(super) fn take(self: &Arc<Self>, session: Option<SessionId>, address: IpAddr) -> Option<Seat> {
        let (address, end) = (network(address), Arc::<Notify>::default());
        let mut taken = self.locked();
        let of_address = taken.addresses.get(&address).copied().unwrap_or_default();
        if taken.all >= MOST || of_address >= MOST_OF_ADDRESS {
            return None;
        }
        taken.all += 1;
        if let Some(session) = session {
            let streams = taken.sessions.entry(session).or_default();
            if streams.len() >= MOST_OF_SESSION
                && let Some(oldest) = streams.pop_front()
            {
                oldest.notify_one();
            }
            streams.push_back(Arc::clone(&end));
        }
        *taken.addresses.entry(address).or_default() += 1;
        Some(Seat { seats: Arc::clone(self), session, address, end })
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.locked().all
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until it is given to another stream.
    pub(super) async fn lost(&self) {
        self.end.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.locked();
        taken.all -= 1;
        if let Some(session) = self.session
            && let Some(streams) = taken.sessions.get_mut(&session)
        {
            streams.retain(|end| !Arc::ptr_eq(end, &self.end));
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
    async fn so_many_streams_of_a_session_from_an_address_and_in_all() {
        let seats = Arc::<Seats>::default();
        let address = |number: usize| IpAddr::from([10, 0, (number / 256) as u8, (number % 256) as u8]);
        let take = |session: Option<u64>, at: usize| seats.take(session.map(SessionId), address(at));
        let mut held: Vec<_> = (0..MOST_OF_SESSION).map(|at| take(Some(1), at).unwrap()).collect();
        // One more ends the oldest, which counts until it has ended.
        held.push(take(Some(1), 99).unwrap());
        held[0].lost().await;
        assert_eq!(seats.taken(), MOST_OF_SESSION + 1);
        held.remove(0);
        held.push(take(Some(2), 99).unwrap());
        held.extend((0..MOST_OF_ADDRESS).map(|_| take(None, 500).unwrap()));
        assert!(take(None, 500).is_none());
        let free = held.len()..MOST;
        held.extend(free.map(|at| take(None, 1000 + at).unwrap()));
        assert!(take(Some(3), 2000).is_none());
        held.clear();
        let taken = seats.locked();
        assert!(taken.all == 0 && taken.sessions.is_empty() && taken.addresses.is_empty());
    }
}
