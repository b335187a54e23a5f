//! Who has a connection: at most so many at once and from one address, and when all are taken, one that waits for its client ends for a
//! new one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::accept::{Addresses, Counted, network};
use crate::wire::line::Line;

/// How long a new connection waits for the end of another before one more is asked.
const PATIENCE: Duration = Duration::from_millis(300);
/// How many are asked for it.
const MOST_ASKED: u32 = 4;

/// All places for connections.
pub(super) struct Places {
    free: Arc<Semaphore>,
    addresses: Addresses,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// The connections of each address. Those of exempt addresses are together.
    lines: HashMap<Option<IpAddr>, Lines>,
    /// The number of the next connection.
    next: u64,
}

/// The connections of one address.
#[derive(Default)]
struct Lines {
    /// What is known of each, oldest first.
    lines: BTreeMap<u64, Arc<Line>>,
    /// Where the search for one that can end goes on.
    hand: u64,
}

/// A connection that may be asked to end until this is dropped.
pub(super) struct Guest {
    places: Arc<Places>,
    address: Option<IpAddr>,
    number: u64,
    _counted: Option<Counted>,
    pub(super) line: Arc<Line>,
}

/// A place that is free, or will be.
pub(super) enum Room {
    Free(OwnedSemaphorePermit),
    /// A connection has been asked to end.
    Soon,
}

impl Places {
    /// `most` places, of which one address may have `per_address`.
    pub(super) fn new(most: usize, per_address: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), addresses: Addresses::new(per_address), taken: Mutex::default() }
    }

    /// Finds a place for a connection, unless its address has too many, or all are taken and none can end for it. `None` is an exempt
    /// address.
    pub(super) fn find(self: &Arc<Self>, address: Option<IpAddr>) -> Option<(Guest, Room)> {
        let address = address.map(network);
        let counted = match address {
            Some(address) => Some(self.addresses.count(address)?),
            None => None,
        };
        let mut taken = self.locked();
        let room = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(place) => Room::Free(place),
            Err(_) => {
                let own = taken.count(address);
                taken.ask_one(own)?;
                Room::Soon
            }
        };
        let (number, line) = (taken.next, Arc::<Line>::default());
        if let Room::Soon = room {
            line.begin();
        }
        taken.next += 1;
        taken.lines.entry(address).or_default().lines.insert(number, Arc::clone(&line));
        Some((Guest { places: Arc::clone(self), address, number, _counted: counted, line }, room))
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// How many connections an address has. The exempt ones count as if each had an address of its own.
    fn count(&self, address: Option<IpAddr>) -> usize {
        address.and_then(|address| self.lines.get(&Some(address))).map_or(0, |lines| lines.lines.len())
    }

    /// Asks a connection to end for one more of an address that has `own`: one of an address that has no fewer. So whoever has few keeps
    /// them, however many another opens.
    ///
    /// Those that have at least half as many as the largest come first, exempt ones last. Among each, one on which nothing has moved since
    /// it was looked at goes before one on which something has.
    fn ask_one(&mut self, own: usize) -> Option<()> {
        let mut addresses: Vec<_> = self.lines.iter().map(|(address, lines)| (*address, lines.lines.len())).collect();
        addresses.retain(|(_, count)| *count >= own);
        addresses.sort_unstable_by_key(|(address, count)| (address.is_none(), Reverse(*count)));
        let half = addresses.first().map_or(0, |(_, most)| most.div_ceil(2));
        let (large, rest) = addresses.split_at(addresses.partition_point(|(address, count)| address.is_some() && *count >= half));
        let (small, exempt) = rest.split_at(rest.partition_point(|(address, _)| address.is_some()));
        for group in [large, small, exempt] {
            for even_if_used in [false, true] {
                for (address, _) in group {
                    if self.lines.get_mut(address).and_then(|lines| lines.ask(even_if_used)).is_some() {
                        return Some(());
                    }
                }
            }
            // These make room already: for those that wait, and soon for others.
            if group.iter().any(|(address, _)| self.lines.get(address).is_some_and(Lines::any_ends)) {
                return Some(());
            }
        }
        None
    }
}

impl Lines {
    /// Asks the next one that waits for its client, going round from the oldest to the youngest.
    fn ask(&mut self, even_if_used: bool) -> Option<()> {
        let mut round = self.lines.range(self.hand..).chain(self.lines.range(..self.hand));
        let (number, _) = round.find(|(_, line)| line.ask(even_if_used))?;
        self.hand = *number + 1;
        Some(())
    }

    fn any_ends(&self) -> bool {
        self.lines.values().any(|line| line.is_asked())
    }
}

impl Guest {
    /// Waits for the place. `None`: it has not become free in time.
    pub(super) async fn take(&self, room: Room) -> Option<OwnedSemaphorePermit> {
        let place = match room {
            Room::Free(place) => return Some(place),
            Room::Soon => self.wait().await?,
        };
        self.line.rest();
        Some(place)
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let mut free = std::pin::pin!(Arc::clone(&self.places.free).acquire_owned());
        for _ in 1..MOST_ASKED {
            if let Ok(place) = timeout(PATIENCE, free.as_mut()).await {
                return place.ok();
            }
            // The one that was asked may have had a request to answer.
            let mut taken = self.places.locked();
            // This one is among them.
            let own = taken.count(self.address).saturating_sub(1);
            taken.ask_one(own);
        }
        timeout(PATIENCE, free).await.ok()?.ok()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut taken = self.places.locked();
        if let Some(of_address) = taken.lines.get_mut(&self.address) {
            of_address.lines.remove(&self.number);
            if of_address.lines.is_empty() {
                taken.lines.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::wire::line::MOMENT;

    fn place(places: &Arc<Places>, address: &str) -> Option<Guest> {
        let (guest, room) = places.find(Some(address.parse().unwrap()))?;
        // The place itself is never given back here.
        if let Room::Free(place) = room {
            place.forget();
        }
        Some(guest)
    }

    /// Ends the connections that have been asked to end, and for which it is time.
    async fn ended(guests: &mut BTreeMap<usize, Guest>) -> Vec<usize> {
        let mut ended = Vec::new();
        for (number, guest) in guests.iter() {
            if timeout(2 * MOMENT, guest.line.ended()).await.is_ok() {
                ended.push(*number);
            }
        }
        guests.retain(|number, _| !ended.contains(number));
        ended
    }

    fn all<const N: usize>(places: &Arc<Places>, addresses: [&str; N]) -> BTreeMap<usize, Guest> {
        addresses.map(|address| place(places, address).unwrap()).into_iter().enumerate().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_of_the_largest_address_ends() {
        let places = Arc::new(Places::new(5, 100));
        let mut guests = all(&places, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"]);
        let new = |count: usize| (0..count).map(|_| places.find(None).unwrap().0).collect::<Vec<_>>();
        // Of those of the largest address one is busy, and one was used.
        guests[&1].line.begin();
        guests[&2].line.begin();
        guests[&2].line.rest();
        let mut waiting = new(1);
        assert_eq!(ended(&mut guests).await, [3]);
        waiting.extend(new(1));
        assert_eq!(ended(&mut guests).await, [2]);
        waiting.extend(new(2));
        assert_eq!(ended(&mut guests).await, [0, 4]);
        assert!(places.find(None).is_none(), "nobody is idle");
        guests[&1].line.rest();
        assert!(places.find(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_on_its_way_stays_and_another_is_asked() {
        let places = Arc::new(Places::new(2, 100));
        let guests = ["10.0.0.1", "10.0.0.1"].map(|address| place(&places, address).unwrap());
        let (guest, room) = places.find(Some("10.0.0.3".parse().unwrap())).unwrap();
        let asked = usize::from(!guests[0].line.is_asked());
        let first = async {
            sleep(MOMENT / 2).await;
            guests[asked].line.begin();
            guests[asked].line.rest();
            guests[asked].line.ended().await;
        };
        let other = async {
            guests[1 - asked].line.ended().await;
            places.free.add_permits(1);
        };
        let taken = tokio::select! {
            taken = guest.take(room) => taken,
            () = async { tokio::join!(first, other); } => None,
        };
        assert!(taken.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_for_its_client_makes_room_and_one_that_moves_goes_last() {
        let places = Arc::new(Places::new(4, 100));
        let mut guests = all(&places, ["10.0.0.1"; 4]);
        let new = || places.find(Some("10.0.0.2".parse().unwrap())).map(|(guest, _)| guest);
        for guest in guests.values() {
            guest.line.begin();
        }
        assert!(new().is_none(), "all wait for the server");
        guests[&1].line.awaits_body(true);
        guests[&2].line.is_stuck();
        guests[&3].line.awaits_body(true);
        let mut waiting = Vec::new();
        for wanted in [1, 2, 3] {
            // Bytes of the last one keep coming.
            guests[&3].line.awaits_body(false);
            guests[&3].line.awaits_body(true);
            waiting.push(new().unwrap());
            assert_eq!(ended(&mut guests).await, [wanted]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_loses_a_connection_to_one_that_has_more() {
        let places = Arc::new(Places::new(6, 100));
        let mut guests = all(&places, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.0.0.3"]);
        let new = |address: &str| places.find(Some(address.parse().unwrap())).map(|(guest, _)| guest);
        for guest in guests.values().skip(3) {
            guest.line.begin();
        }
        assert!(new("10.0.0.3").is_none(), "others are idle, but have fewer");
        let _waiting = new("10.0.0.4").unwrap();
        assert_eq!(ended(&mut guests).await, [1]);
    }
}
