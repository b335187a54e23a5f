//! How much is under way at once, in all and to one host and port. A project has at most half of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::url::Place;
use crate::domain::ids::ProjectId;

/// Requests and mails that are under way at once.
pub(super) const MOST_AT_ONCE: usize = 64;
/// Places and projects that are remembered before those that nobody waits for are forgotten.
const REMEMBERED: usize = 512;

pub(super) struct Limits {
    all: Arc<Semaphore>,
    per_place: usize,
    semaphores: Mutex<HashMap<Share, Arc<Semaphore>>>,
}

/// What has a limit of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Share {
    /// What is sent to a place.
    Place(Place),
    /// What is sent for a project: at most half of all.
    Project(ProjectId),
    /// What is sent to a place for a project: at most half of what may be sent there.
    PlaceOfProject(Place, ProjectId),
}

/// Leave to send. It ends when this is dropped.
pub(super) struct Permit {
    _shares: Vec<OwnedSemaphorePermit>,
}

impl Limits {
    pub(super) fn new(per_place: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(MOST_AT_ONCE)), per_place, semaphores: Mutex::default() }
    }

    /// Waits for leave to send to a place, for a project unless it is for the server itself. Whoever waits for a busy place takes nothing
    /// from the others meanwhile.
    pub(super) async fn enter(&self, place: &Place, project: Option<ProjectId>) -> Permit {
        let of_project = project.map(|project| [Share::PlaceOfProject(place.clone(), project), Share::Project(project)]);
        let shares = of_project.into_iter().flatten().chain([Share::Place(place.clone())]);
        let semaphores: Vec<_> = shares.map(|share| self.semaphore(share)).chain([Arc::clone(&self.all)]).collect();
        let mut permits = Vec::with_capacity(semaphores.len());
        for semaphore in semaphores {
            // They are never closed.
            permits.extend(semaphore.acquire_owned().await);
        }
        Permit { _shares: permits }
    }

    fn semaphore(&self, share: Share) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if semaphores.len() >= REMEMBERED {
            // Whoever holds a permit or waits for one holds the semaphore too.
            semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let most = match share {
            Share::Place(_) => self.per_place,
            Share::Project(_) => MOST_AT_ONCE / 2,
            Share::PlaceOfProject(..) => (self.per_place / 2).max(1),
        };
        Arc::clone(semaphores.entry(share).or_insert_with(|| Arc::new(Semaphore::new(most))))
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

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_busy_place_takes_its_share_and_no_more() {
        let limits = Limits::new(2);
        let mut held = vec![limits.enter(&place(1), None).await, limits.enter(&place(1), None).await];
        assert!(timeout(SOON, limits.enter(&place(1), None)).await.is_err());
        // 62 more, two of each.
        for port in 2..33 {
            held.push(limits.enter(&place(port), None).await);
            held.push(limits.enter(&place(port), None).await);
        }
        assert!(timeout(SOON, limits.enter(&place(99), None)).await.is_err());
        drop(held.swap_remove(0));
        assert!(timeout(SOON, limits.enter(&place(1), None)).await.is_ok());
    }

    #[tokio::test]
    async fn a_project_takes_half_of_a_place_and_half_of_all() {
        let (one, other) = (Some(ProjectId(1)), Some(ProjectId(2)));
        let limits = Limits::new(4);
        let mut held = vec![limits.enter(&place(1), one).await, limits.enter(&place(1), one).await];
        assert!(timeout(SOON, limits.enter(&place(1), one)).await.is_err());
        held.push(limits.enter(&place(1), other).await);
        for port in 2..32 {
            held.push(limits.enter(&place(port), one).await);
        }
        // That were 32.
        assert!(timeout(SOON, limits.enter(&place(99), one)).await.is_err());
        held.push(limits.enter(&place(99), other).await);
        assert!(timeout(SOON, limits.enter(&place(99), None)).await.is_ok());
        // Where one message goes at a time, a project may send it.
        assert!(timeout(SOON, Limits::new(1).enter(&place(1), one)).await.is_ok());
    }

    #[tokio::test]
    async fn places_that_nobody_uses_are_forgotten() {
        let limits = Limits::new(1);
        let held = limits.enter(&place(0), None).await;
        for port in 1..1000 {
            drop(limits.enter(&place(port), Some(ProjectId(port.into()))).await);
        }
        assert!(limits.semaphores.lock().unwrap().len() <= REMEMBERED + 2);
        assert!(timeout(SOON, limits.enter(&place(0), None)).await.is_err());
        drop(held);
    }
}
