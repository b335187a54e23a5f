//! Limit of the checks that lists hold copies of at the same time. A client that reads a long list
//! slowly delays few others.

use std::time::Duration;

use tokio::time::timeout;

use super::checks::MAX_INLINE_CHECKS;
use crate::domain::ids::ProjectId;
use crate::http::common::reply::HttpError;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};

/// Maximum number of checks in all long lists that are being written: about 50 MB. Short lists have
/// a second quota of this size.
const MAX_LISTED_CHECKS: usize = 200_000;
/// Maximum number of checks in the lists of one project, in each quota.
const MAX_LISTED_PER_PROJECT: usize = MAX_LISTED_CHECKS / 2;
/// Maximum time that a list waits for its quota.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Quotas of checks for short and for long lists.
pub(super) struct ListLimit {
    short: KeyedSemaphore<ProjectId>,
    long: KeyedSemaphore<ProjectId>,
}

impl ListLimit {
    pub(super) fn new() -> Self {
        let quota =
            || KeyedSemaphore::per_key(MAX_LISTED_PER_PROJECT).with_total(MAX_LISTED_CHECKS);
        Self {
            short: quota(),
            long: quota(),
        }
    }

    /// Waits until a list of a project may copy this number of checks. A list that exceeds the
    /// quota of its project takes all of that quota.
    pub(super) async fn acquire(
        &self,
        project: ProjectId,
        checks: usize,
    ) -> Result<KeyedPermit, HttpError> {
        let quota = if checks <= MAX_INLINE_CHECKS {
            &self.short
        } else {
            &self.long
        };
        timeout(LIST_TIMEOUT, quota.acquire_many(project, checks))
            .await
            .map_err(|_| HttpError::Unavailable)
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
    }
}
