//! Limits for concurrent requests and mails, in total and for each host and port. A project may use
//! at most half of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::url::HostPort;
use crate::domain::ids::ProjectId;
use crate::util::sync::lock;

/// Maximum number of concurrent requests and mails.
pub(super) const MAX_CONCURRENT: usize = 64;
/// Number of semaphores above which unused ones are dropped.
const MAX_SEMAPHORES: usize = 512;

pub(super) struct SendLimits {
    total: Arc<Semaphore>,
    per_host: usize,
    semaphores: Mutex<HashMap<SendLimitKey, Arc<Semaphore>>>,
}

/// Object with a limit of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum SendLimitKey {
    /// Host and port.
    Host(HostPort),
    /// Project: at most half of the total.
    Project(ProjectId),
    /// Host and port for a project: at most half of the limit of the host and port.
    HostOfProject(HostPort, ProjectId),
}

/// Permit to send, until dropped.
pub(super) struct SendPermit {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl SendLimits {
    pub(super) fn new(per_place: usize) -> Self {
        Self {
            total: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            per_host: per_place,
            semaphores: Mutex::default(),
        }
    }

    /// Waits for a permit to send to a host and port, for a project or (`None`) for the server
    /// itself. A request that waits for a busy host takes no permit of other hosts meanwhile.
    pub(super) async fn acquire(
        &self,
        host_port: &HostPort,
        project: Option<ProjectId>,
    ) -> SendPermit {
        let of_project = project.map(|project| {
            [
                SendLimitKey::HostOfProject(host_port.clone(), project),
                SendLimitKey::Project(project),
            ]
        });
        let shares = of_project
            .into_iter()
            .flatten()
            .chain([SendLimitKey::Host(host_port.clone())]);
        let semaphores: Vec<_> = shares
            .map(|share| self.semaphore(share))
            .chain([Arc::clone(&self.total)])
            .collect();
        let mut permits = Vec::with_capacity(semaphores.len());
        for semaphore in semaphores {
            // The semaphores are never closed.
            permits.extend(semaphore.acquire_owned().await);
        }
        SendPermit { _permits: permits }
    }

    fn semaphore(&self, share: SendLimitKey) -> Arc<Semaphore> {
        let mut semaphores = lock(&self.semaphores);
        if semaphores.len() >= MAX_SEMAPHORES {
            // Holders of a permit and waiting tasks hold the semaphore too.
            semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let most = match share {
            SendLimitKey::Host(_) => self.per_host,
            SendLimitKey::Project(_) => MAX_CONCURRENT / 2,
            SendLimitKey::HostOfProject(..) => (self.per_host / 2).max(1),
        };
        Arc::clone(
            semaphores
                .entry(share)
                .or_insert_with(|| Arc::new(Semaphore::new(most))),
        )
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

    #[tokio::test]
    async fn unused_hosts_are_forgotten() {
        let limits = SendLimits::new(1);
        let held = limits.acquire(&place(0), None).await;
        for port in 1..1000 {
            drop(
                limits
                    .acquire(&place(port), Some(ProjectId(port.into())))
                    .await,
            );
        }
        assert!(limits.semaphores.lock().unwrap().len() <= MAX_SEMAPHORES + 2);
        assert!(
            timeout(SOON, limits.acquire(&place(0), None))
                .await
                .is_err()
        );
        drop(held);
    }
}
