//! Limit of the checks that lists hold copies of at the same time. A client that reads a long list
//! slowly delays few others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::checks::MAX_INLINE_CHECKS;
use crate::domain::ids::ProjectId;
use crate::http::common::reply::HttpError;
use crate::util::sync::lock;

/// Maximum number of checks in all long lists that are being written: about 50 MB. Short lists have
/// a second quota of this size.
const MAX_LISTED_CHECKS: usize = 200_000;
/// Maximum number of checks in the lists of one project, in each quota.
const MAX_LISTED_PER_PROJECT: usize = MAX_LISTED_CHECKS / 2;
/// Time for which a list waits for others.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Quotas for short and for long lists.
pub(super) struct ListLimit {
    short: ListQuota,
    long: ListQuota,
}

/// Permit of one list.
pub(super) struct ListPermit {
    _project_permit: OwnedSemaphorePermit,
    _total_permit: OwnedSemaphorePermit,
}

impl ListLimit {
    pub(super) fn new() -> Self {
        Self {
            short: ListQuota::new(),
            long: ListQuota::new(),
        }
    }

    /// Waits until a list of a project may copy this number of checks.
    pub(super) async fn acquire(
        &self,
        project: ProjectId,
        checks: usize,
    ) -> Result<ListPermit, HttpError> {
        let share = if checks <= MAX_INLINE_CHECKS {
            &self.short
        } else {
            &self.long
        };
        timeout(LIST_TIMEOUT, share.acquire(project, checks))
            .await
            .map_err(|_| HttpError::Unavailable)?
    }
}

/// Quota shared by lists of about the same length.
struct ListQuota {
    all: Arc<Semaphore>,
    projects: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
}

impl ListQuota {
    fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_LISTED_CHECKS)),
            projects: Mutex::default(),
        }
    }

    async fn acquire(&self, project: ProjectId, checks: usize) -> Result<ListPermit, HttpError> {
        // A list that exceeds the quota of its project takes all of that quota.
        let checks = checks.min(MAX_LISTED_PER_PROJECT) as u32;
        let of_project = self
            .project_semaphore(project)
            .acquire_many_owned(checks)
            .await
            .map_err(|_| HttpError::Unavailable)?;
        let of_all = Arc::clone(&self.all)
            .acquire_many_owned(checks)
            .await
            .map_err(|_| HttpError::Unavailable)?;
        Ok(ListPermit {
            _project_permit: of_project,
            _total_permit: of_all,
        })
    }

    fn project_semaphore(&self, project: ProjectId) -> Arc<Semaphore> {
        let mut projects = lock(&self.projects);
        // Projects without an active list are removed. A permit that is held or waited for counts
        // as active.
        projects.retain(|of, share| *of == project || Arc::strong_count(share) > 1);
        Arc::clone(
            projects
                .entry(project)
                .or_insert_with(|| Arc::new(Semaphore::new(MAX_LISTED_PER_PROJECT))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_lists_do_not_delay_short_ones_or_other_projects() {
        let listed = ListLimit::new();
        let [one, other, third] = [1, 2, 3].map(ProjectId);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(
                listed
                    .acquire(one, 30_000)
                    .await
                    .unwrap_or_else(|_| panic!("there is room")),
            );
        }
        let mut waiting = std::pin::pin!(listed.acquire(one, 30_000));
        assert!(
            timeout(LIST_TIMEOUT / 2, waiting.as_mut()).await.is_err(),
            "half of all is taken"
        );
        for (project, checks) in [
            (one, 1),
            (one, MAX_INLINE_CHECKS),
            (other, 1),
            (other, 90_000),
            (third, 1),
        ] {
            let taken = timeout(Duration::from_secs(1), listed.acquire(project, checks)).await;
            held.push(
                taken
                    .ok()
                    .and_then(Result::ok)
                    .unwrap_or_else(|| panic!("{checks} of {project:?} wait")),
            );
        }
        held.clear();
        assert!(waiting.await.is_ok());
        assert!(
            listed.acquire(one, 1_000_000).await.is_ok(),
            "a list of any length has its turn"
        );
        assert!(
            listed.long.projects.lock().unwrap().len() <= 1,
            "the other projects are not listed"
        );
    }
}
