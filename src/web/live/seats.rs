//! How many pages may be kept up to date by a stream: in all, of one session and from one address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::accept::network;
use crate::domain::ids::SessionId;

/// Streams at the same time: see [limits](crate::docs::limits).
const MOST: usize = 1000;
/// Those of one session.
const MOST_OF_SESSION: usize = 20;
/// Those from one address, an IPv6 network of 64 bits counting as one.
const MOST_OF_ADDRESS: usize = 250;

/// See the module.
#[derive(Default)]
pub(super) struct Seats(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    all: usize,
    sessions: HashMap<SessionId, usize>,
    addresses: HashMap<IpAddr, usize>,
}

/// A stream that counts until this is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    session: Option<SessionId>,
    address: IpAddr,
}

impl Seats {
    /// Counts one more stream, unless there are too many.
    pub(super) fn take(self: &Arc<Self>, session: Option<SessionId>, address: IpAddr) -> Option<Seat> {
        let address = network(address);
        let mut taken = self.locked();
        let of_session = session.and_then(|session| taken.sessions.get(&session)).copied().unwrap_or_default();
        let of_address = taken.addresses.get(&address).copied().unwrap_or_default();
        if taken.all >= MOST || of_session >= MOST_OF_SESSION || of_address >= MOST_OF_ADDRESS {
            return None;
        }
        taken.all += 1;
        if let Some(session) = session {
            *taken.sessions.entry(session).or_default() += 1;
        }
        *taken.addresses.entry(address).or_default() += 1;
        Some(Seat { seats: Arc::clone(self), session, address })
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.locked();
        taken.all -= 1;
        if let Some(session) = self.session {
            leave(&mut taken.sessions, &session);
        }
        leave(&mut taken.addresses, &self.address);
    }
}

fn leave<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_streams_of_a_session_from_an_address_and_in_all() {
        let seats = Arc::<Seats>::default();
        let address = |number: usize| IpAddr::from([10, 0, (number / 256) as u8, (number % 256) as u8]);
        let take = |session: Option<u64>, at: usize| seats.take(session.map(SessionId), address(at));
        let mut held: Vec<_> = (0..MOST_OF_SESSION).map(|at| take(Some(1), at).unwrap()).collect();
        assert!(take(Some(1), 99).is_none() && take(Some(2), 99).is_some());
        held.pop();
        held.push(take(Some(1), 99).unwrap());
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
