//! Who has a connection: at most so many at once and from one address, and when all are taken, an idle one ends for a new one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::accept::{Addresses, Counted};

/// How long a new connection waits for the end of an idle one.
const PATIENCE: Duration = Duration::from_secs(1);

/// All places for connections.
pub(super) struct Places {
    free: Arc<Semaphore>,
    addresses: Addresses,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// What is known of each connection, oldest first.
    lines: BTreeMap<u64, Arc<Line>>,
    /// The number of the next connection.
    next: u64,
    /// Where the search for an idle connection goes on.
    hand: u64,
}

/// What a connection tells, and is told, while it is open.
#[derive(Default)]
pub(super) struct Line {
    /// A request is being answered.
    pub(super) busy: AtomicBool,
    /// It has been asked to end.
    asked: AtomicBool,
    end: Notify,
}

impl Line {
    /// Waits until the connection is to make room for another and is idle.
    pub(super) async fn ended(&self) {
        loop {
            self.end.notified().await;
            if !self.busy.load(Ordering::Relaxed) {
                return;
            }
            // A request came in between. Another time, perhaps.
            self.asked.store(false, Ordering::Relaxed);
        }
    }
}

/// A connection that may be asked to end until this is dropped.
pub(super) struct Guest {
    places: Arc<Places>,
    number: u64,
    _counted: Option<Counted>,
    pub(super) line: Arc<Line>,
}

/// A place that is free, or will be.
pub(super) enum Room {
    Free(OwnedSemaphorePermit),
    /// An idle connection was asked to end.
    Soon,
}

impl Places {
    /// `most` places, of which one address may have `per_address`.
    pub(super) fn new(most: usize, per_address: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), addresses: Addresses::new(per_address), taken: Mutex::default() }
    }

    /// Finds a place for a connection, unless its address has too many, or all are taken and none is idle. `None` is an exempt address.
    pub(super) fn find(self: &Arc<Self>, address: Option<IpAddr>) -> Option<(Guest, Room)> {
        let counted = match address {
            Some(address) => Some(self.addresses.count(address)?),
            None => None,
        };
        let mut taken = self.locked();
        let room = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(place) => Room::Free(place),
            Err(_) => {
                taken.ask_an_idle_one()?;
                Room::Soon
            }
        };
        let (number, line) = (taken.next, Arc::<Line>::default());
        taken.next += 1;
        taken.lines.insert(number, Arc::clone(&line));
        Some((Guest { places: Arc::clone(self), number, _counted: counted, line }, room))
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Asks the next connection that waits for a request to end, going round from the oldest to the youngest.
    fn ask_an_idle_one(&mut self) -> Option<()> {
        let idle = |(_, line): &(&u64, &Arc<Line>)| !line.busy.load(Ordering::Relaxed) && !line.asked.swap(true, Ordering::Relaxed);
        let (number, line) = self.lines.range(self.hand..).find(idle).or_else(|| self.lines.range(..self.hand).find(idle))?;
        line.end.notify_one();
        self.hand = *number + 1;
        Some(())
    }
}

impl Guest {
    /// Waits for the place. `None`: it has not become free in time.
    pub(super) async fn take(&self, room: Room) -> Option<OwnedSemaphorePermit> {
        match room {
            Room::Free(place) => Some(place),
            Room::Soon => timeout(PATIENCE, Arc::clone(&self.places.free).acquire_owned()).await.ok()?.ok(),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.places.locked().lines.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(places: &Arc<Places>, address: &str) -> Option<Guest> {
        let (guest, room) = places.find(Some(address.parse().unwrap()))?;
        // The place itself is never given back here.
        if let Room::Free(place) = room {
            place.forget();
        }
        Some(guest)
    }

    #[tokio::test]
    async fn the_longest_idle_connection_ends_for_a_new_one() {
        let places = Arc::new(Places::new(3, 100));
        let [first, second, third] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|address| place(&places, address).unwrap());
        first.line.busy.store(true, Ordering::Relaxed);
        let (_fourth, room) = places.find(None).unwrap();
        assert!(matches!(room, Room::Soon));
        second.line.ended().await;
        let fifth = places.find(None).unwrap().0;
        third.line.ended().await;
        // The fourth has no place yet, but could be asked. The fifth was.
        let sixth = places.find(None).unwrap().0;
        let seventh = places.find(None).unwrap().0;
        for busy in [&first, &fifth, &sixth, &seventh] {
            busy.line.busy.store(true, Ordering::Relaxed);
        }
        assert!(places.find(None).is_none(), "nobody is idle");
    }
}
