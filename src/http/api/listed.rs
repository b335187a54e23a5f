//! How many checks lists hold copies of at the same time. Whoever reads a long list slowly keeps few others waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::checks::FEW_CHECKS;
use crate::domain::ids::ProjectId;
use crate::wire::reply::Fault;

/// Checks that all long lists which are being written may hold: about 50 MB. Short ones have as many for themselves.
const MOST_LISTED: usize = 200_000;
/// Checks that those of one project may hold of each.
const MOST_OF_PROJECT: usize = MOST_LISTED / 2;
/// How long a list waits for others.
const PATIENCE: Duration = Duration::from_secs(10);

/// What lists hold.
pub(super) struct Listed {
    short: Share,
    long: Share,
}

/// What one list holds.
pub(super) struct Holding {
    _of_project: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Listed {
    pub(super) fn new() -> Self {
        Self { short: Share::new(), long: Share::new() }
    }

    /// Waits until a list of a project may look at so many checks.
    pub(super) async fn take(&self, project: ProjectId, checks: usize) -> Result<Holding, Fault> {
        let share = if checks <= FEW_CHECKS { &self.short } else { &self.long };
        timeout(PATIENCE, share.take(project, checks)).await.map_err(|_| Fault::Unavailable)?
    }
}

/// What is shared by lists of about the same length.
struct Share {
    all: Arc<Semaphore>,
    projects: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
}

impl Share {
    fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(MOST_LISTED)), projects: Mutex::default() }
    }

    async fn take(&self, project: ProjectId, checks: usize) -> Result<Holding, Fault> {
        // What is longer than all of it has it for itself.
        let checks = checks.min(MOST_OF_PROJECT) as u32;
        let of_project = self.of_project(project).acquire_many_owned(checks).await.map_err(|_| Fault::Unavailable)?;
        let of_all = Arc::clone(&self.all).acquire_many_owned(checks).await.map_err(|_| Fault::Unavailable)?;
        Ok(Holding { _of_project: of_project, _of_all: of_all })
    }

    fn of_project(&self, project: ProjectId) -> Arc<Semaphore> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody lists are forgotten. What is held, or waited for, counts as listed.
        projects.retain(|of, share| *of == project || Arc::strong_count(share) > 1);
        Arc::clone(projects.entry(project).or_insert_with(|| Arc::new(Semaphore::new(MOST_OF_PROJECT))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_lists_keep_neither_short_ones_nor_those_of_another_project_waiting() {
        let listed = Listed::new();
        let [one, other, third] = [1, 2, 3].map(ProjectId);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(listed.take(one, 30_000).await.unwrap_or_else(|_| panic!("there is room")));
        }
        let mut waiting = std::pin::pin!(listed.take(one, 30_000));
        assert!(timeout(PATIENCE / 2, waiting.as_mut()).await.is_err(), "half of all is taken");
        for (project, checks) in [(one, 1), (one, FEW_CHECKS), (other, 1), (other, 90_000), (third, 1)] {
            let taken = timeout(Duration::from_secs(1), listed.take(project, checks)).await;
            held.push(taken.ok().and_then(Result::ok).unwrap_or_else(|| panic!("{checks} of {project:?} wait")));
        }
        held.clear();
        assert!(waiting.await.is_ok());
        assert!(listed.take(one, 1_000_000).await.is_ok(), "a list of any length has its turn");
        assert!(listed.long.projects.lock().unwrap().len() <= 1, "nobody lists the others");
    }
}
