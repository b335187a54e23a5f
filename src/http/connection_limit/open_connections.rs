//! Open connections of each client, and the choice of one to end for a new connection.
//!
//! No client loses a connection to one that has more, so that a client with few connections keeps
//! them, however many another opens. Clients with many lose theirs first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::http::common::connection_state::ConnectionState;
use crate::util::client_network::ClientNetwork;

/// Open connections, by client. Connections of exempt clients share one entry.
#[derive(Default)]
pub(super) struct OpenConnections {
    by_network: HashMap<Option<ClientNetwork>, NetworkConnections>,
    /// Number of the next connection.
    next_number: u64,
}

/// Connections of one client.
#[derive(Default)]
struct NetworkConnections {
    /// State of each connection, oldest first.
    connections: BTreeMap<u64, Arc<ConnectionState>>,
    /// Number of the connection at which the next search for one to end begins.
    cursor: u64,
}

/// Order in which clients lose connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    /// At least half as many connections as the client with the most.
    Large,
    Small,
    Exempt,
}

impl OpenConnections {
    /// Adds a connection and returns its number.
    pub(super) fn insert(
        &mut self,
        network: Option<ClientNetwork>,
        connection: Arc<ConnectionState>,
    ) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let of_network = self.by_network.entry(network).or_default();
        of_network.connections.insert(number, connection);
        number
    }

    pub(super) fn remove(&mut self, network: Option<ClientNetwork>, number: u64) {
        if let Some(of_network) = self.by_network.get_mut(&network) {
            of_network.connections.remove(&number);
            if of_network.connections.is_empty() {
                self.by_network.remove(&network);
            }
        }
    }

    /// Returns the number of connections of a client. Each exempt connection counts as if it had a
    /// client of its own.
    pub(super) fn count_of(&self, network: Option<ClientNetwork>) -> usize {
        network
            .and_then(|network| self.by_network.get(&Some(network)))
            .map_or(0, |of_network| of_network.connections.len())
    }

    /// Asks a connection to end for a new one from a client that has `own_count`. Returns false if
    /// there is none: only clients with at least as many are considered. One with activity since
    /// the last search is chosen only if `even_if_used`.
    pub(super) fn evict_one(&mut self, own_count: usize, even_if_used: bool) -> bool {
        let mut candidates = self.candidates();
        candidates.retain(|candidate| candidate.count() >= own_count);
        candidates.sort_unstable_by_key(|candidate| (candidate.rank, Reverse(candidate.count())));
        candidates
            .chunk_by_mut(|one, other| one.rank == other.rank)
            .any(|candidates| evict_from(candidates, even_if_used))
    }

    fn candidates(&mut self) -> Vec<EvictionCandidate<'_>> {
        let networks = self.by_network.iter().filter(|(key, _)| key.is_some());
        let counts = networks.map(|(_, of_network)| of_network.connections.len());
        let half = counts.max().unwrap_or_default().div_ceil(2);
        let candidate = |(network, of_network): (&Option<_>, _)| {
            let mut candidate = EvictionCandidate {
                rank: EvictionRank::Small,
                of_network,
            };
            if network.is_none() {
                candidate.rank = EvictionRank::Exempt;
            } else if candidate.count() >= half {
                candidate.rank = EvictionRank::Large;
            }
            candidate
        };
        self.by_network.iter_mut().map(candidate).collect()
    }
}

/// Client that may lose a connection.
struct EvictionCandidate<'c> {
    rank: EvictionRank,
    of_network: &'c mut NetworkConnections,
}

impl EvictionCandidate<'_> {
    fn count(&self) -> usize {
        self.of_network.connections.len()
    }
}

/// Asks a connection of these clients to end. One without activity since the last search is chosen
/// before one with activity, which is chosen only if `even_if_used`.
fn evict_from(candidates: &mut [EvictionCandidate<'_>], even_if_used: bool) -> bool {
    let rounds: &[bool] = if even_if_used {
        &[false, true]
    } else {
        &[false]
    };
    for even_if_used in rounds.iter().copied() {
        for candidate in &mut *candidates {
            if candidate.of_network.evict_next(even_if_used) {
                return true;
            }
        }
    }
    // One that is closing already serves the waiting connections now and others soon.
    candidates
        .iter()
        .any(|candidate| candidate.of_network.is_any_closing())
}

impl NetworkConnections {
    /// Asks the next connection that waits for its client to end, in turns from the oldest to the
    /// youngest. One with activity since the last search counts only if `even_if_used`.
    fn evict_next(&mut self, even_if_used: bool) -> bool {
        let mut round = self
            .connections
            .range(self.cursor..)
            .chain(self.connections.range(..self.cursor));
        let next = round.find(|(_, connection)| connection.request_close(even_if_used));
        if let Some((number, _)) = next {
            self.cursor = *number + 1;
        }
        next.is_some()
    }

    fn is_any_closing(&self) -> bool {
        self.connections
            .values()
            .any(|connection| connection.is_closing())
    }
}
