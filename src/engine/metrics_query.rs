//! Queries of the engine for metrics. They read a part of the checks at a time, so that the writer
//! does not wait.

use super::{Handle, OVERDUE_DEADLINE_SECS, was_due_before};
use crate::domain::ids::ProjectId;
use crate::metrics::MetricsSnapshot;
use crate::store::SCHEMA;

impl Handle {
    /// Current metrics, without the metrics of channels. Visits every check: for threads that may
    /// block.
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let mut snapshot = MetricsSnapshot {
            schema: SCHEMA,
            writable: self.is_writable(),
            queue: self.0.queue.depth_and_bytes(),
            ..MetricsSnapshot::default()
        };
        snapshot.file_bytes = self.file_bytes();
        let projects: Vec<ProjectId> = self.with_state(|state| {
            let now = self.now();
            snapshot.outbox = state.outbox.len() as u64;
            snapshot.oldest_message_micros = state
                .outbox
                .rows()
                .next()
                .map_or(0, |row| now.micros_since(row.queued));
            state
                .projects()
                .map(|project_state| project_state.project.id)
                .collect()
        });
        snapshot.projects = projects.len() as u64;
        for project in projects {
            self.count_checks(project, &mut snapshot);
        }
        snapshot
    }

    fn count_checks(&self, project: ProjectId, snapshot: &mut MetricsSnapshot) {
        let latest = self.now().plus_secs(-OVERDUE_DEADLINE_SECS);
        let limit = self.with_state(|state| state.ping_log_limit(project));
        self.visit_published_checks(project, |check| {
            snapshot.checks += 1;
            snapshot.pings_within_limits += check.state.n_pings.min(limit);
            snapshot.late_deadlines += u64::from(was_due_before(check, latest));
            true
        });
    }
}
