//! Connection limit, in total and for each address. When all slots are taken, a connection that
//! waits for its client is closed for a new one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::common::connection_state::ConnectionState;
use crate::runtime::accept::{AddressLimit, AddressPermit, client_network};
use crate::util::sync::lock;

/// Time for which a new connection waits for the end of another before one more is asked to end.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of connections that are asked to end for it.
const MAX_EVICTION_ATTEMPTS: u32 = 4;

/// All connection slots.
pub(super) struct ConnectionLimit {
    free_slots: Arc<Semaphore>,
    address_limit: AddressLimit,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    /// Connections of each address. Connections of exempt addresses share one entry.
    by_address: HashMap<Option<IpAddr>, AddressConnections>,
    /// Number of the next connection.
    next_number: u64,
}

/// Connections of one address.
#[derive(Default)]
struct AddressConnections {
    /// State of each connection, oldest first.
    connections: BTreeMap<u64, Arc<ConnectionState>>,
    /// Number of the connection at which the next search for one to close begins.
    cursor: u64,
}

/// Permit of a connection, which may be asked to end until this is dropped.
pub(super) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    address: Option<IpAddr>,
    number: u64,
    _address_permit: Option<AddressPermit>,
    pub(super) connection: Arc<ConnectionState>,
}

/// A slot that is free now or later.
pub(super) enum ConnectionSlot {
    Free(OwnedSemaphorePermit),
    /// A connection has been asked to end, and its slot will become free.
    Pending,
}

impl ConnectionLimit {
    /// Creates a limit of `most` slots; one address may use `per_address`.
    pub(super) fn new(max_slots: usize, per_address: usize) -> Self {
        Self {
            free_slots: Arc::new(Semaphore::new(max_slots)),
            address_limit: AddressLimit::new(per_address),
            open: Mutex::default(),
        }
    }

    /// Finds a slot for a connection. Returns `None` if its address has too many, or all are taken
    /// and none can be closed for it. `address` is `None` for an exempt address.
    pub(super) fn admit(
        self: &Arc<Self>,
        address: Option<IpAddr>,
    ) -> Option<(ConnectionPermit, ConnectionSlot)> {
        let address = address.map(client_network);
        let address_permit = match address {
            Some(address) => Some(self.address_limit.admit(address)?),
            None => None,
        };
        let mut connections = self.lock();
        let slot = match Arc::clone(&self.free_slots).try_acquire_owned() {
            Ok(permit) => ConnectionSlot::Free(permit),
            Err(_) => {
                let own_count = connections.count_of(address);
                connections.evict_one(own_count)?;
                ConnectionSlot::Pending
            }
        };
        let number = connections.next_number;
        let line = Arc::<ConnectionState>::default();
        if let ConnectionSlot::Pending = slot {
            line.begin_request();
        }
        connections.next_number += 1;
        connections
            .by_address
            .entry(address)
            .or_default()
            .connections
            .insert(number, Arc::clone(&line));
        Some((
            ConnectionPermit {
                limit: Arc::clone(self),
                address,
                number,
                _address_permit: address_permit,
                connection: line,
            },
            slot,
        ))
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        lock(&self.open)
    }
}

impl OpenConnections {
    /// Returns the number of connections of an address. Each exempt connection counts as if it had
    /// an address of its own.
    fn count_of(&self, address: Option<IpAddr>) -> usize {
        address
            .and_then(|address| self.by_address.get(&Some(address)))
            .map_or(0, |entry| entry.connections.len())
    }

    /// Asks a connection to end for a new one from an address that has `own`. Only addresses with
    /// at least as many are considered, so that an address with few connections keeps them, however
    /// many another opens.
    ///
    /// Addresses with at least half as many as the largest come first, exempt ones last. Within
    /// each group, a connection without activity since the last search is chosen before one with
    /// activity.
    fn evict_one(&mut self, own_count: usize) -> Option<()> {
        let mut addresses: Vec<_> = self
            .by_address
            .iter()
            .map(|(address, entry)| (*address, entry.connections.len()))
            .collect();
        addresses.retain(|(_, count)| *count >= own_count);
        addresses.sort_unstable_by_key(|(address, count)| (address.is_none(), Reverse(*count)));
        let half = addresses
            .first()
            .map_or(0, |(_, largest)| largest.div_ceil(2));
        let (large, rest) = addresses.split_at(
            addresses.partition_point(|(address, count)| address.is_some() && *count >= half),
        );
        let (small, exempt) = rest.split_at(rest.partition_point(|(address, _)| address.is_some()));
        for group in [large, small, exempt] {
            for even_if_used in [false, true] {
                for (address, _) in group {
                    if self
                        .by_address
                        .get_mut(address)
                        .and_then(|entry| entry.evict_next(even_if_used))
                        .is_some()
                    {
                        return Some(());
                    }
                }
            }
            // A connection of these is closing already. Its slot serves the waiting connections now
            // and others soon.
            if group.iter().any(|(address, _)| {
                self.by_address
                    .get(address)
                    .is_some_and(AddressConnections::is_any_closing)
            }) {
                return Some(());
            }
        }
        None
    }
}

impl AddressConnections {
    /// Asks the next connection that waits for its client to end, in turns from the oldest to the
    /// youngest.
    fn evict_next(&mut self, even_if_used: bool) -> Option<()> {
        let mut round = self
            .connections
            .range(self.cursor..)
            .chain(self.connections.range(..self.cursor));
        let (number, _) = round.find(|(_, line)| line.request_close(even_if_used))?;
        self.cursor = *number + 1;
        Some(())
    }

    fn is_any_closing(&self) -> bool {
        self.connections.values().any(|line| line.is_closing())
    }
}

impl ConnectionPermit {
    /// Waits for the slot. Returns `None` if it does not become free in time.
    pub(super) async fn wait_for_slot(&self, slot: ConnectionSlot) -> Option<OwnedSemaphorePermit> {
        let permit = match slot {
            ConnectionSlot::Free(permit) => return Some(permit),
            ConnectionSlot::Pending => self.wait_for_eviction().await?,
        };
        self.connection.end_request();
        Some(permit)
    }

    async fn wait_for_eviction(&self) -> Option<OwnedSemaphorePermit> {
        let mut free = std::pin::pin!(Arc::clone(&self.limit.free_slots).acquire_owned());
        for _ in 1..MAX_EVICTION_ATTEMPTS {
            if let Ok(permit) = timeout(EVICTION_TIMEOUT, free.as_mut()).await {
                return permit.ok();
            }
            // The connection that was asked to end may have had a request to answer.
            let mut connections = self.limit.lock();
            // This connection is counted too.
            let own_count = connections.count_of(self.address).saturating_sub(1);
            connections.evict_one(own_count);
        }
        timeout(EVICTION_TIMEOUT, free).await.ok()?.ok()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut connections = self.limit.lock();
        if let Some(of_address) = connections.by_address.get_mut(&self.address) {
            of_address.connections.remove(&self.number);
            if of_address.connections.is_empty() {
                connections.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::http::common::connection_state::CLOSE_DELAY;

    fn admit_address(limit: &Arc<ConnectionLimit>, address: &str) -> Option<ConnectionPermit> {
        let (permit, slot) = limit.admit(Some(address.parse().unwrap()))?;
        // The slot itself is never released here.
        if let ConnectionSlot::Free(permit) = slot {
            permit.forget();
        }
        Some(permit)
    }

    /// Ends the connections that have been asked to end and are due.
    async fn close_evicted(permits: &mut BTreeMap<usize, ConnectionPermit>) -> Vec<usize> {
        let mut ended = Vec::new();
        for (number, permit) in permits.iter() {
            if timeout(2 * CLOSE_DELAY, permit.connection.close_requested())
                .await
                .is_ok()
            {
                ended.push(*number);
            }
        }
        permits.retain(|number, _| !ended.contains(number));
        ended
    }

    fn admit_all<const N: usize>(
        limit: &Arc<ConnectionLimit>,
        addresses: [&str; N],
    ) -> BTreeMap<usize, ConnectionPermit> {
        addresses
            .map(|address| admit_address(limit, address).unwrap())
            .into_iter()
            .enumerate()
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_of_the_largest_address_ends() {
        let limit = Arc::new(ConnectionLimit::new(5, 100));
        let mut permits = admit_all(
            &limit,
            ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"],
        );
        let new = |count: usize| {
            (0..count)
                .map(|_| limit.admit(None).unwrap().0)
                .collect::<Vec<_>>()
        };
        // In the largest address, one connection is busy, and one had activity.
        permits[&1].connection.begin_request();
        permits[&2].connection.begin_request();
        permits[&2].connection.end_request();
        let mut waiting = new(1);
        assert_eq!(close_evicted(&mut permits).await, [3]);
        waiting.extend(new(1));
        assert_eq!(close_evicted(&mut permits).await, [2]);
        waiting.extend(new(2));
        assert_eq!(close_evicted(&mut permits).await, [0, 4]);
        assert!(limit.admit(None).is_none(), "no connection is idle");
        permits[&1].connection.end_request();
        assert!(limit.admit(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_an_arriving_request_stays_and_another_is_closed() {
        let limit = Arc::new(ConnectionLimit::new(2, 100));
        let permits =
            ["10.0.0.1", "10.0.0.1"].map(|address| admit_address(&limit, address).unwrap());
        let (permit, slot) = limit.admit(Some("10.0.0.3".parse().unwrap())).unwrap();
        let asked = usize::from(!permits[0].connection.is_closing());
        let first = async {
            sleep(CLOSE_DELAY / 2).await;
            permits[asked].connection.begin_request();
            permits[asked].connection.end_request();
            permits[asked].connection.close_requested().await;
        };
        let other = async {
            permits[1 - asked].connection.close_requested().await;
            limit.free_slots.add_permits(1);
        };
        let result = tokio::select! {
            result = permit.wait_for_slot(slot) => result,
            () = async { tokio::join!(first, other); } => None,
        };
        assert!(result.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_its_client_is_closed_and_an_active_one_last() {
        let limit = Arc::new(ConnectionLimit::new(4, 100));
        let mut permits = admit_all(&limit, ["10.0.0.1"; 4]);
        let new = || {
            limit
                .admit(Some("10.0.0.2".parse().unwrap()))
                .map(|(permit, _)| permit)
        };
        for permit in permits.values() {
            permit.connection.begin_request();
        }
        assert!(new().is_none(), "all wait for the server");
        permits[&1].connection.set_awaiting_body(true);
        permits[&2].connection.set_write_blocked();
        permits[&3].connection.set_awaiting_body(true);
        let mut waiting = Vec::new();
        for wanted in [1, 2, 3] {
            // The last one still receives bytes.
            permits[&3].connection.set_awaiting_body(false);
            permits[&3].connection.set_awaiting_body(true);
            waiting.push(new().unwrap());
            assert_eq!(close_evicted(&mut permits).await, [wanted]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_address_loses_a_connection_to_one_with_more() {
        let limit = Arc::new(ConnectionLimit::new(6, 100));
        let mut permits = admit_all(
            &limit,
            [
                "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.0.0.3",
            ],
        );
        let new = |address: &str| {
            limit
                .admit(Some(address.parse().unwrap()))
                .map(|(permit, _)| permit)
        };
        for permit in permits.values().skip(3) {
            permit.connection.begin_request();
        }
        assert!(new("10.0.0.3").is_none(), "others are idle, but have fewer");
        let _waiting = new("10.0.0.4").unwrap();
        assert_eq!(close_evicted(&mut permits).await, [1]);
    }
}
