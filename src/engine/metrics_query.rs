//! Queries of the engine for metrics. They read a part of the checks at a time, so that the writer
//! does not wait.

use super::{CHECKS_PER_LOCK, Handle, OVERDUE_DEADLINE_SECS};
use crate::domain::ids::ProjectId;
use crate::metrics::MetricsSnapshot;
use crate::store::SCHEMA;

impl Handle {
    /// Current metrics, without the metrics of channels. Visits every check: for threads that may
    /// block.
    pub fn metrics_readings(&self) -> MetricsSnapshot {
        let mut readings = MetricsSnapshot {
            schema: SCHEMA,
            writable: self.is_writable(),
            queue: self.0.queue.depth_and_bytes(),
            ..MetricsSnapshot::default()
        };
        readings.file_bytes = self.file_bytes();
        let projects: Vec<ProjectId> = self.with_state(|state| {
            let now = self.now();
            readings.outbox = state.outbox.len() as u64;
            readings.oldest_message_micros = state
                .outbox
                .rows()
                .next()
                .map_or(0, |row| now.micros_since(row.queued));
            state
                .projects()
                .map(|project_state| project_state.project.id)
                .collect()
        });
        readings.projects = projects.len() as u64;
        for project in projects {
            self.count_checks(project, &mut readings);
        }
        readings
    }

    fn count_checks(&self, project: ProjectId, readings: &mut MetricsSnapshot) {
        let now = self.now().plus_secs(-OVERDUE_DEADLINE_SECS);
        let mut last = None;
        loop {
            let mut count = 0;
            self.with_state(|state| {
                let limit = state.ping_log_limit(project);
                for check in state.checks_after(project, last).take(CHECKS_PER_LOCK) {
                    (last, count) = (Some(check.id), count + 1);
                    readings.pings_within_limits += check.state.n_pings.min(limit);
                    readings.late_deadlines += u64::from(
                        check
                            .state
                            .next_evaluation(&check.settings)
                            .is_some_and(|at| at < now),
                    );
                }
            });
            readings.checks += count as u64;
            if count < CHECKS_PER_LOCK {
                return;
            }
        }
    }
}
