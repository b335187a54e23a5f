//! Who has a connection: at most so many at once and from one address, and when all are taken, an idle one ends for a new one.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::accept::{Addresses, Counted, network};

/// A connection that was asked to end ends when no request has come for so long: one that is on its way has arrived by then.
const MOMENT: Duration = Duration::from_millis(100);
/// How long a new connection waits for the end of an idle one before another one is asked.
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
    /// Where the search for an idle one goes on.
    hand: u64,
}

/// What a connection tells, and is told, while it is open.
#[derive(Default)]
pub(super) struct Line {
    /// A request is being answered, or the connection has no place yet.
    busy: AtomicBool,
    /// A request has come since the search for an idle connection came by.
    used: AtomicBool,
    /// It has been asked to end.
    asked: AtomicBool,
    end: Notify,
}

impl Line {
    /// A request has come.
    pub(super) fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
        self.used.store(true, Ordering::Relaxed);
    }

    /// It is answered.
    pub(super) fn rest(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Waits until the connection is to make room for another and has been idle for a moment.
    pub(super) async fn ended(&self) {
        loop {
            self.end.notified().await;
            sleep(MOMENT).await;
            if !self.busy.load(Ordering::Relaxed) && !self.used.load(Ordering::Relaxed) {
                return;
            }
            // A request has come in between. Another time, perhaps.
            self.asked.store(false, Ordering::Relaxed);
        }
    }

    /// Asks the connection to end. False if it is busy or was asked already.
    fn ask(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) || self.asked.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.used.store(false, Ordering::Relaxed);
        self.end.notify_one();
        true
    }
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
        let address = address.map(network);
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
    /// Asks an idle connection to end: one of the address that has the most. If that has none, any other.
    fn ask_an_idle_one(&mut self) -> Option<()> {
        let most = self.lines.iter().filter(|(address, _)| address.is_some()).max_by_key(|(_, lines)| lines.lines.len());
        let most = most.map(|(address, _)| *address);
        let of_most =
            most.and_then(|most| self.lines.get_mut(&most)).and_then(|lines| lines.ask_an_unused_one().or_else(|| lines.ask_any()));
        let unused = of_most.or_else(|| self.lines.values_mut().find_map(Lines::ask_an_unused_one));
        unused.or_else(|| self.lines.values_mut().find_map(Lines::ask_any))
    }
}

impl Lines {
    /// Asks the next one that waits for a request, going round from the oldest to the youngest. One to which a request has come since the
    /// last round is passed over.
    fn ask_an_unused_one(&mut self) -> Option<()> {
        self.ask(|line| !line.used.swap(false, Ordering::Relaxed) && line.ask())
    }

    fn ask_any(&mut self) -> Option<()> {
        self.ask(Line::ask)
    }

    fn ask(&mut self, ask: impl Fn(&Line) -> bool) -> Option<()> {
        let mut round = self.lines.range(self.hand..).chain(self.lines.range(..self.hand));
        let (number, _) = round.find(|(_, line)| ask(line))?;
        self.hand = *number + 1;
        Some(())
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
            self.places.locked().ask_an_idle_one();
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
    use super::*;

    fn place(places: &Arc<Places>, address: &str) -> Option<Guest> {
        let (guest, room) = places.find(Some(address.parse().unwrap()))?;
        // The place itself is never given back here.
        if let Room::Free(place) = room {
            place.forget();
        }
        Some(guest)
    }

    /// The connections that have been asked to end, and for which it is time.
    async fn ended(guests: &[Guest]) -> Vec<usize> {
        let mut ended = Vec::new();
        for (number, guest) in guests.iter().enumerate() {
            if timeout(2 * MOMENT, guest.line.ended()).await.is_ok() {
                ended.push(number);
            }
        }
        ended
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_of_the_largest_address_ends() {
        let places = Arc::new(Places::new(5, 100));
        let guests = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"].map(|address| place(&places, address).unwrap());
        let new = |count: usize| (0..count).map(|_| places.find(None).unwrap().0).collect::<Vec<_>>();
        // Of those of the largest address one is busy, and one was used.
        guests[1].line.begin();
        guests[2].line.begin();
        guests[2].line.rest();
        let mut waiting = new(1);
        assert_eq!(ended(&guests).await, [3]);
        waiting.extend(new(1));
        assert_eq!(ended(&guests).await, [2]);
        waiting.extend(new(2));
        assert_eq!(ended(&guests).await, [0, 4]);
        assert!(places.find(None).is_none(), "nobody is idle");
        guests[1].line.rest();
        assert!(places.find(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_on_its_way_stays_and_another_is_asked() {
        let places = Arc::new(Places::new(2, 100));
        let guests = ["10.0.0.1", "10.0.0.1"].map(|address| place(&places, address).unwrap());
        let (guest, room) = places.find(Some("10.0.0.3".parse().unwrap())).unwrap();
        let asked = usize::from(!guests[0].line.asked.load(Ordering::Relaxed));
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
}
