//! Who has a connection: at most so many at once and from one address, and when all are taken, one that waits for its client ends for a
//! new one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::accept::{AddressLimit, AddressPermit, client_network};
use crate::wire::connection_state::ConnectionState;

/// How long a new connection waits for the end of another before one more is asked.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(300);
/// How many are asked for it.
const MAX_EVICTION_ATTEMPTS: u32 = 4;

/// All places for connections.
pub(super) struct ConnectionLimit {
    free_slots: Arc<Semaphore>,
    address_limit: AddressLimit,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    /// The connections of each address. Those of exempt addresses are together.
    by_address: HashMap<Option<IpAddr>, AddressConnections>,
    /// The number of the next connection.
    next_number: u64,
}

/// The connections of one address.
#[derive(Default)]
struct AddressConnections {
    /// What is known of each, oldest first.
    connections: BTreeMap<u64, Arc<ConnectionState>>,
    /// Where the search for one that can end goes on.
    cursor: u64,
}

/// A connection that may be asked to end until this is dropped.
pub(super) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    address: Option<IpAddr>,
    number: u64,
    _address_permit: Option<AddressPermit>,
    pub(super) connection: Arc<ConnectionState>,
}

/// A place that is free, or will be.
pub(super) enum ConnectionSlot {
    Free(OwnedSemaphorePermit),
    /// A connection has been asked to end.
    Pending,
}

impl ConnectionLimit {
    /// `most` places, of which one address may have `per_address`.
    pub(super) fn new(most: usize, per_address: usize) -> Self {
        Self { free_slots: Arc::new(Semaphore::new(most)), address_limit: AddressLimit::new(per_address), open: Mutex::default() }
    }

    /// Finds a place for a connection, unless its address has too many, or all are taken and none can end for it. `None` is an exempt
    /// address.
    pub(super) fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<(ConnectionPermit, ConnectionSlot)> {
        let address = address.map(client_network);
        let counted = match address {
            Some(address) => Some(self.address_limit.admit(address)?),
            None => None,
        };
        let mut taken = self.lock();
        let room = match Arc::clone(&self.free_slots).try_acquire_owned() {
            Ok(place) => ConnectionSlot::Free(place),
            Err(_) => {
                let own = taken.count_of(address);
                taken.evict_one(own)?;
                ConnectionSlot::Pending
            }
        };
        let (number, line) = (taken.next_number, Arc::<ConnectionState>::default());
        if let ConnectionSlot::Pending = room {
            line.begin_request();
        }
        taken.next_number += 1;
        taken.by_address.entry(address).or_default().connections.insert(number, Arc::clone(&line));
        Some((ConnectionPermit { limit: Arc::clone(self), address, number, _address_permit: counted, connection: line }, room))
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// How many connections an address has. The exempt ones count as if each had an address of its own.
    fn count_of(&self, address: Option<IpAddr>) -> usize {
        address.and_then(|address| self.by_address.get(&Some(address))).map_or(0, |lines| lines.connections.len())
    }

    /// Asks a connection to end for one more of an address that has `own`: one of an address that has no fewer. So whoever has few keeps
    /// them, however many another opens.
    ///
    /// Those that have at least half as many as the largest come first, exempt ones last. Among each, one on which nothing has moved since
    /// it was looked at goes before one on which something has.
    fn evict_one(&mut self, own: usize) -> Option<()> {
        let mut addresses: Vec<_> = self.by_address.iter().map(|(address, lines)| (*address, lines.connections.len())).collect();
        addresses.retain(|(_, count)| *count >= own);
        addresses.sort_unstable_by_key(|(address, count)| (address.is_none(), Reverse(*count)));
        let half = addresses.first().map_or(0, |(_, most)| most.div_ceil(2));
        let (large, rest) = addresses.split_at(addresses.partition_point(|(address, count)| address.is_some() && *count >= half));
        let (small, exempt) = rest.split_at(rest.partition_point(|(address, _)| address.is_some()));
        for group in [large, small, exempt] {
            for even_if_used in [false, true] {
                for (address, _) in group {
                    if self.by_address.get_mut(address).and_then(|lines| lines.evict_next(even_if_used)).is_some() {
                        return Some(());
                    }
                }
            }
            // These make room already: for those that wait, and soon for others.
            if group.iter().any(|(address, _)| self.by_address.get(address).is_some_and(AddressConnections::is_any_closing)) {
                return Some(());
            }
        }
        None
    }
}

impl AddressConnections {
    /// Asks the next one that waits for its client, going round from the oldest to the youngest.
    fn evict_next(&mut self, even_if_used: bool) -> Option<()> {
        let mut round = self.connections.range(self.cursor..).chain(self.connections.range(..self.cursor));
        let (number, _) = round.find(|(_, line)| line.request_close(even_if_used))?;
        self.cursor = *number + 1;
        Some(())
    }

    fn is_any_closing(&self) -> bool {
        self.connections.values().any(|line| line.is_closing())
    }
}

impl ConnectionPermit {
    /// Waits for the place. `None`: it has not become free in time.
    pub(super) async fn wait_for_slot(&self, room: ConnectionSlot) -> Option<OwnedSemaphorePermit> {
        let place = match room {
            ConnectionSlot::Free(place) => return Some(place),
            ConnectionSlot::Pending => self.wait_for_eviction().await?,
        };
        self.connection.end_request();
        Some(place)
    }

    async fn wait_for_eviction(&self) -> Option<OwnedSemaphorePermit> {
        let mut free = std::pin::pin!(Arc::clone(&self.limit.free_slots).acquire_owned());
        for _ in 1..MAX_EVICTION_ATTEMPTS {
            if let Ok(place) = timeout(EVICTION_TIMEOUT, free.as_mut()).await {
                return place.ok();
            }
            // The one that was asked may have had a request to answer.
            let mut taken = self.limit.lock();
            // This one is among them.
            let own = taken.count_of(self.address).saturating_sub(1);
            taken.evict_one(own);
        }
        timeout(EVICTION_TIMEOUT, free).await.ok()?.ok()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.lock();
        if let Some(of_address) = taken.by_address.get_mut(&self.address) {
            of_address.connections.remove(&self.number);
            if of_address.connections.is_empty() {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::wire::connection_state::CLOSE_DELAY;

    fn admit_address(places: &Arc<ConnectionLimit>, address: &str) -> Option<ConnectionPermit> {
        let (guest, room) = places.admit(Some(address.parse().unwrap()))?;
        // The place itself is never given back here.
        if let ConnectionSlot::Free(place) = room {
            place.forget();
        }
        Some(guest)
    }

    /// Ends the connections that have been asked to end, and for which it is time.
    async fn close_evicted(guests: &mut BTreeMap<usize, ConnectionPermit>) -> Vec<usize> {
        let mut ended = Vec::new();
        for (number, guest) in guests.iter() {
            if timeout(2 * CLOSE_DELAY, guest.connection.close_requested()).await.is_ok() {
                ended.push(*number);
            }
        }
        guests.retain(|number, _| !ended.contains(number));
        ended
    }

    fn admit_all<const N: usize>(places: &Arc<ConnectionLimit>, addresses: [&str; N]) -> BTreeMap<usize, ConnectionPermit> {
        addresses.map(|address| admit_address(places, address).unwrap()).into_iter().enumerate().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_of_the_largest_address_ends() {
        let places = Arc::new(ConnectionLimit::new(5, 100));
        let mut guests = admit_all(&places, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"]);
        let new = |count: usize| (0..count).map(|_| places.admit(None).unwrap().0).collect::<Vec<_>>();
        // Of those of the largest address one is busy, and one was used.
        guests[&1].connection.begin_request();
        guests[&2].connection.begin_request();
        guests[&2].connection.end_request();
        let mut waiting = new(1);
        assert_eq!(close_evicted(&mut guests).await, [3]);
        waiting.extend(new(1));
        assert_eq!(close_evicted(&mut guests).await, [2]);
        waiting.extend(new(2));
        assert_eq!(close_evicted(&mut guests).await, [0, 4]);
        assert!(places.admit(None).is_none(), "nobody is idle");
        guests[&1].connection.end_request();
        assert!(places.admit(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_on_its_way_stays_and_another_is_asked() {
        let places = Arc::new(ConnectionLimit::new(2, 100));
        let guests = ["10.0.0.1", "10.0.0.1"].map(|address| admit_address(&places, address).unwrap());
        let (guest, room) = places.admit(Some("10.0.0.3".parse().unwrap())).unwrap();
        let asked = usize::from(!guests[0].connection.is_closing());
        let first = async {
            sleep(CLOSE_DELAY / 2).await;
            guests[asked].connection.begin_request();
            guests[asked].connection.end_request();
            guests[asked].connection.close_requested().await;
        };
        let other = async {
            guests[1 - asked].connection.close_requested().await;
            places.free_slots.add_permits(1);
        };
        let taken = tokio::select! {
            taken = guest.wait_for_slot(room) => taken,
            () = async { tokio::join!(first, other); } => None,
        };
        assert!(taken.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_its_client_makes_room_and_one_that_moves_goes_last() {
        let places = Arc::new(ConnectionLimit::new(4, 100));
        let mut guests = admit_all(&places, ["10.0.0.1"; 4]);
        let new = || places.admit(Some("10.0.0.2".parse().unwrap())).map(|(guest, _)| guest);
        for guest in guests.values() {
            guest.connection.begin_request();
        }
        assert!(new().is_none(), "all wait for the server");
        guests[&1].connection.set_awaiting_body(true);
        guests[&2].connection.set_write_blocked();
        guests[&3].connection.set_awaiting_body(true);
        let mut waiting = Vec::new();
        for wanted in [1, 2, 3] {
            // Bytes of the last one keep coming.
            guests[&3].connection.set_awaiting_body(false);
            guests[&3].connection.set_awaiting_body(true);
            waiting.push(new().unwrap());
            assert_eq!(close_evicted(&mut guests).await, [wanted]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_loses_a_connection_to_one_that_has_more() {
        let places = Arc::new(ConnectionLimit::new(6, 100));
        let mut guests = admit_all(&places, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.0.0.3"]);
        let new = |address: &str| places.admit(Some(address.parse().unwrap())).map(|(guest, _)| guest);
        for guest in guests.values().skip(3) {
            guest.connection.begin_request();
        }
        assert!(new("10.0.0.3").is_none(), "others are idle, but have fewer");
        let _waiting = new("10.0.0.4").unwrap();
        assert_eq!(close_evicted(&mut guests).await, [1]);
    }
}
