//! Limits for concurrent requests and mails, in total and for each host and port. A project may use
//! at most half of each.

use super::url::HostPort;
use crate::domain::ids::ProjectId;
use crate::util::keyed_semaphore::{KeyedPermit, KeyedSemaphore};

/// Maximum number of concurrent requests and mails.
pub(super) const MAX_CONCURRENT: usize = 64;

pub(super) struct SendLimits {
    /// Each host and port, and the total.
    hosts: KeyedSemaphore<HostPort>,
    /// Each project: at most half of the total.
    projects: KeyedSemaphore<ProjectId>,
    /// Each project at a host and port: at most half of the limit of the host and port.
    hosts_of_projects: KeyedSemaphore<(HostPort, ProjectId)>,
}

/// Permit to send, until dropped.
pub(super) struct SendPermit {
    _of_project: Option<[KeyedPermit; 2]>,
    _of_host: KeyedPermit,
}

impl SendLimits {
    pub(super) fn new(per_host: usize) -> Self {
        Self {
            hosts: KeyedSemaphore::per_key(per_host).with_total(MAX_CONCURRENT),
            projects: KeyedSemaphore::per_key(MAX_CONCURRENT / 2),
            hosts_of_projects: KeyedSemaphore::per_key((per_host / 2).max(1)),
        }
    }

    /// Waits for a permit to send to a host and port, for a project or (`None`) for the server
    /// itself. A request that waits for a busy host takes no permit of other hosts meanwhile.
    pub(super) async fn acquire(
        &self,
        host_port: &HostPort,
        project: Option<ProjectId>,
    ) -> SendPermit {
        let of_project = match project {
            None => None,
            Some(project) => {
                let key = (host_port.clone(), project);
                let of_both = self.hosts_of_projects.acquire(key).await;
                Some([of_both, self.projects.acquire(project).await])
            }
        };
        SendPermit {
            _of_project: of_project,
            _of_host: self.hosts.acquire(host_port.clone()).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::super::url::Host;
    use super::*;

    fn place(port: u16) -> HostPort {
        HostPort {
            host: Host::Name("h".into()),
            port,
        }
    }

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_busy_host_uses_only_its_share() {
        let limits = SendLimits::new(2);
        let mut held = vec![
            limits.acquire(&place(1), None).await,
            limits.acquire(&place(1), None).await,
        ];
        assert!(
            timeout(SOON, limits.acquire(&place(1), None))
                .await
                .is_err()
        );
        // 62 more, two for each port.
        for port in 2..33 {
            held.push(limits.acquire(&place(port), None).await);
            held.push(limits.acquire(&place(port), None).await);
        }
        assert!(
            timeout(SOON, limits.acquire(&place(99), None))
                .await
                .is_err()
        );
        drop(held.swap_remove(0));
        assert!(timeout(SOON, limits.acquire(&place(1), None)).await.is_ok());
    }

    #[tokio::test]
    async fn a_project_uses_half_of_a_host_and_half_of_the_total() {
        let one = Some(ProjectId(1));
        let other = Some(ProjectId(2));
        let limits = SendLimits::new(4);
        let mut held = vec![
            limits.acquire(&place(1), one).await,
            limits.acquire(&place(1), one).await,
        ];
        assert!(timeout(SOON, limits.acquire(&place(1), one)).await.is_err());
        held.push(limits.acquire(&place(1), other).await);
        for port in 2..32 {
            held.push(limits.acquire(&place(port), one).await);
        }
        // These were 32.
        assert!(
            timeout(SOON, limits.acquire(&place(99), one))
                .await
                .is_err()
        );
        held.push(limits.acquire(&place(99), other).await);
        assert!(
            timeout(SOON, limits.acquire(&place(99), None))
                .await
                .is_ok()
        );
        // With a limit of one message for a host, a project may still send it.
        assert!(
            timeout(SOON, SendLimits::new(1).acquire(&place(1), one))
                .await
                .is_ok()
        );
    }
}
