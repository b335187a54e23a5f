//! How much is under way at once: so many in all, and so many to one host and port.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::url::Place;

/// Requests and mails that are under way at once.
pub(super) const MOST_AT_ONCE: usize = 64;
/// Places that are remembered before those that nobody waits for are forgotten.
const PLACES: usize = 256;

pub(super) struct Limits {
    all: Arc<Semaphore>,
    per_place: usize,
    places: Mutex<HashMap<Place, Arc<Semaphore>>>,
}

/// Leave to send. It ends when this is dropped.
pub(super) struct Permit {
    _place: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Limits {
    pub(super) fn new(per_place: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(MOST_AT_ONCE)), per_place, places: Mutex::default() }
    }

    /// Waits for leave to send to a place. Whoever waits for a busy place takes nothing from the others meanwhile.
    pub(super) async fn enter(&self, place: &Place) -> Permit {
        let semaphore = self.semaphore(place);
        loop {
            // They are never closed: a second try is never made.
            let Ok(of_place) = Arc::clone(&semaphore).acquire_owned().await else { continue };
            let Ok(of_all) = Arc::clone(&self.all).acquire_owned().await else { continue };
            return Permit { _place: of_place, _all: of_all };
        }
    }

    fn semaphore(&self, place: &Place) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= PLACES {
            // Whoever holds a permit or waits for one holds the semaphore too.
            places.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        Arc::clone(places.entry(place.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_place))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::super::url::Host;
    use super::*;

    fn place(port: u16) -> Place {
        Place { host: Host::Name("h".into()), port }
    }

    #[tokio::test]
    async fn a_busy_place_takes_its_share_and_no_more() {
        let limits = Limits::new(2);
        let mut held = vec![limits.enter(&place(1)).await, limits.enter(&place(1)).await];
        let soon = Duration::from_millis(10);
        assert!(timeout(soon, limits.enter(&place(1))).await.is_err());
        // 62 more, two of each.
        for port in 2..33 {
            held.push(limits.enter(&place(port)).await);
            held.push(limits.enter(&place(port)).await);
        }
        assert!(timeout(soon, limits.enter(&place(99))).await.is_err());
        drop(held.swap_remove(0));
        assert!(timeout(soon, limits.enter(&place(1))).await.is_ok());
    }

    #[tokio::test]
    async fn places_that_nobody_uses_are_forgotten() {
        let limits = Limits::new(1);
        let held = limits.enter(&place(0)).await;
        for port in 1..1000 {
            drop(limits.enter(&place(port)).await);
        }
        assert!(limits.places.lock().unwrap().len() <= PLACES);
        assert!(timeout(Duration::from_millis(10), limits.enter(&place(0))).await.is_err());
        drop(held);
    }
}
