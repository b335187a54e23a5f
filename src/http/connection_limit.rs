//! Connection limit: a number of connections in total, and of each client.
//!
//! A connection needs a slot. If all are taken, one that waits for its client (for a request, the
//! rest of a body, or to take a response) is asked to end, and the new connection waits for its
//! slot. `OpenConnections` chooses that connection; `ConnectionState` decides if it waits for its
//! client, and ends it unless data arrives in the next moment. So that a new connection seldom
//! waits for that, one is asked to end already when few slots are free.

mod open_connections;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::common::connection_state::ConnectionState;
use crate::util::client_network::ClientNetwork;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};
use crate::util::sync::{Mutex, lock};
use open_connections::OpenConnections;

/// Time for which a new connection waits for the end of another before one more is asked to end.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of connections that are asked to end for one new connection.
const MAX_EVICTION_ATTEMPTS: u32 = 4;
/// Part of the slots that is kept free for new connections while others can be asked to end.
const RESERVED_PART: usize = 64;

/// All connection slots.
pub(super) struct ConnectionLimit {
    slots: Arc<Semaphore>,
    /// Number of free slots below which a new connection asks another one to end.
    reserve: usize,
    networks: KeyedSemaphore<ClientNetwork>,
    open: Mutex<OpenConnections>,
}

/// Permit of a connection. Until it is dropped, the connection counts and may be asked to end.
pub(super) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    /// `None` for an exempt client.
    network: Option<ClientNetwork>,
    /// Number in [`OpenConnections`].
    number: u64,
    pub(super) connection: Arc<ConnectionState>,
    /// `None` until another connection has ended.
    slot: Option<OwnedSemaphorePermit>,
    _of_network: Option<KeyedPermit>,
}

impl ConnectionLimit {
    /// Creates a limit of `max_slots`; one client may use `per_network`.
    pub(super) fn new(max_slots: usize, per_network: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(max_slots)),
            reserve: max_slots / RESERVED_PART,
            networks: KeyedSemaphore::per_key(per_network),
            open: Mutex::default(),
        }
    }

    /// Finds a slot for a connection, which may have to [wait](ConnectionPermit::wait_for_slot) for
    /// it. Returns `None` if its client has too many, or all are taken and no connection can be
    /// asked to end. `address` is `None` for an exempt client.
    pub(super) fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<ConnectionPermit> {
        let network = address.map(ClientNetwork::from);
        let of_network = network.map(|network| self.networks.try_acquire(network));
        let of_network = of_network.transpose().ok()?;
        let mut open = lock(&self.open);
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok();
        let connection = Arc::<ConnectionState>::default();
        if slot.is_none() || self.slots.available_permits() < self.reserve {
            let own_count = open.count_of(network);
            let has_evicted = open.evict_one(own_count, slot.is_none());
            // Busy until it has a slot, so that it is not asked to end meanwhile.
            connection.begin_request();
            if slot.is_some() {
                // Recently used: others that are idle are asked to end first.
                connection.end_request();
            } else if !has_evicted {
                return None;
            }
        }
        Some(ConnectionPermit {
            limit: Arc::clone(self),
            network,
            number: open.insert(network, Arc::clone(&connection)),
            connection,
            slot,
            _of_network: of_network,
        })
    }
}

impl ConnectionPermit {
    /// Waits for the slot. Returns false if it does not become free in time.
    pub(super) async fn wait_for_slot(&mut self) -> bool {
        if self.slot.is_none() {
            self.slot = self.wait_for_eviction().await;
            if self.slot.is_none() {
                return false;
            }
            self.connection.end_request();
        }
        true
    }

    async fn wait_for_eviction(&self) -> Option<OwnedSemaphorePermit> {
        let mut slot = std::pin::pin!(Arc::clone(&self.limit.slots).acquire_owned());
        for _ in 1..MAX_EVICTION_ATTEMPTS {
            if let Ok(slot) = timeout(EVICTION_TIMEOUT, slot.as_mut()).await {
                return slot.ok();
            }
            // The connection that was asked to end may have had a request to answer.
            let mut open = lock(&self.limit.open);
            // This connection is counted too.
            let own_count = open.count_of(self.network).saturating_sub(1);
            open.evict_one(own_count, true);
        }
        timeout(EVICTION_TIMEOUT, slot).await.ok()?.ok()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        lock(&self.limit.open).remove(self.network, self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::time::sleep;

    use super::*;
    use crate::http::common::connection_state::CLOSE_DELAY;

    fn admit_address(limit: &Arc<ConnectionLimit>, address: &str) -> Option<ConnectionPermit> {
        let mut permit = limit.admit(Some(address.parse().unwrap()))?;
        // The slot itself is never released here.
        if let Some(slot) = permit.slot.take() {
            slot.forget();
        }
        Some(permit)
    }

    /// Ends the connections that have been asked to end and are due.
    async fn close_evicted(permits: &mut BTreeMap<usize, ConnectionPermit>) -> Vec<usize> {
        let mut ended = Vec::new();
        for (number, permit) in permits.iter() {
            if timeout(2 * CLOSE_DELAY, permit.connection.wait_for_close_request())
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
                .map(|_| limit.admit(None).unwrap())
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
    async fn idle_connections_end_before_a_new_one_has_to_wait() {
        let slots = 2 * RESERVED_PART;
        let limit = Arc::new(ConnectionLimit::new(slots, slots));
        let admit = |address: &str| limit.admit(Some(address.parse().unwrap())).unwrap();
        let mut permits = BTreeMap::new();
        for number in 0..slots {
            permits.insert(number, admit("10.0.0.1"));
            assert!(permits[&number].slot.is_some());
        }
        // The last ones, which left fewer than two free slots, ended an idle one each.
        assert_eq!(close_evicted(&mut permits).await.len(), 2);
        for number in slots..slots + 3 {
            permits.insert(number, admit("10.0.0.2"));
            assert!(permits[&number].slot.is_some(), "it does not wait");
            assert_eq!(close_evicted(&mut permits).await.len(), 1);
        }
        // Only idle ones end for it.
        for permit in permits.values() {
            permit.connection.begin_request();
            permit.connection.set_awaiting_body(true);
        }
        permits.insert(2 * slots, admit("10.0.0.3"));
        assert!(close_evicted(&mut permits).await.is_empty());
        // No connection is asked to end while enough slots are free.
        permits.retain(|number, _| *number < slots / 2);
        permits.insert(3 * slots, admit("10.0.0.2"));
        assert!(close_evicted(&mut permits).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_an_arriving_request_stays_and_another_is_closed() {
        let limit = Arc::new(ConnectionLimit::new(2, 100));
        let permits =
            ["10.0.0.1", "10.0.0.1"].map(|address| admit_address(&limit, address).unwrap());
        let mut permit = limit.admit(Some("10.0.0.3".parse().unwrap())).unwrap();
        let asked = usize::from(!permits[0].connection.is_closing());
        let first = async {
            sleep(CLOSE_DELAY / 2).await;
            permits[asked].connection.begin_request();
            permits[asked].connection.end_request();
            permits[asked].connection.wait_for_close_request().await;
        };
        let other = async {
            permits[1 - asked].connection.wait_for_close_request().await;
            limit.slots.add_permits(1);
        };
        let result = tokio::select! {
            result = permit.wait_for_slot() => result,
            () = async { tokio::join!(first, other); } => false,
        };
        assert!(result);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_its_client_is_closed_and_an_active_one_last() {
        let limit = Arc::new(ConnectionLimit::new(4, 100));
        let mut permits = admit_all(&limit, ["10.0.0.1"; 4]);
        let new = || limit.admit(Some("10.0.0.2".parse().unwrap()));
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
        let new = |address: &str| limit.admit(Some(address.parse().unwrap()));
        for permit in permits.values().skip(3) {
            permit.connection.begin_request();
        }
        assert!(new("10.0.0.3").is_none(), "others are idle, but have fewer");
        let _waiting = new("10.0.0.4").unwrap();
        assert_eq!(close_evicted(&mut permits).await, [1]);
    }
}

#[cfg(all(test, shuttle))]
mod interleavings {
    use shuttle::future::block_on;

    use super::*;
    use crate::util::interleavings::check;
    use crate::util::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use crate::util::sync::thread;

    const SLOTS: usize = 2;

    #[test]
    fn each_admitted_connection_gets_a_slot_and_no_slot_is_lost() {
        check(|| {
            let limit = Arc::new(ConnectionLimit::new(SLOTS, 2));
            let in_use = Arc::new(AtomicUsize::new(0));
            let clients = [1, 1, 1, 2].map(|client| {
                let limit = Arc::clone(&limit);
                let in_use = Arc::clone(&in_use);
                thread::spawn(move || {
                    let address = IpAddr::from([10, 0, 0, client]);
                    let Some(mut permit) = limit.admit(Some(address)) else {
                        return;
                    };
                    assert!(block_on(permit.wait_for_slot()), "a connection has ended");
                    assert!(in_use.fetch_add(1, Relaxed) < SLOTS);
                    permit.connection.begin_request();
                    permit.connection.end_request();
                    in_use.fetch_sub(1, Relaxed);
                })
            });
            for client in clients {
                client.join().unwrap();
            }
            assert_eq!(limit.slots.available_permits(), SLOTS);
            assert_eq!(limit.networks.in_use(), 0);
            let network = ClientNetwork::from(IpAddr::from([10, 0, 0, 1]));
            assert_eq!(lock(&limit.open).count_of(Some(network)), 0);
        });
    }
}
