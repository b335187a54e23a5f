//! Creates and deletes maintenance windows, and decides whether one holds an alert.

use std::sync::Arc;

use super::super::command::{CommandError, CommandOutcome, NewWindow};
use super::super::state::Change;
use super::{ApplyResult, WorkingState};
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::Check;
use crate::domain::ids::{ProjectId, WindowId};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::timestamp::Timestamp;

/// Maximum number of maintenance windows of a project: see [limits](crate::docs::limits).
pub(in crate::engine) const MAX_WINDOWS: usize = 200;
/// Seconds for which a window that has ended is kept, so that its name is still known.
const ENDED_WINDOW_KEPT_SECS: i64 = 30 * 86_400;

impl WorkingState {
    /// Creates a window, and deletes windows that ended long ago.
    pub(super) fn create_window(&mut self, request: NewWindow, now: Timestamp) -> ApplyResult {
        let NewWindow {
            uuid,
            project,
            name,
            tags,
            times,
        } = request;
        let windows = &self
            .state
            .project(project)
            .ok_or(CommandError::NotFound)?
            .windows;
        let is_old = |window: &&Arc<MaintenanceWindow>| {
            window.ended_before(now.plus_secs(-ENDED_WINDOW_KEPT_SECS))
        };
        let old: Vec<_> = windows
            .values()
            .filter(is_old)
            .map(|window| window.id)
            .collect();
        if windows.len() - old.len() >= MAX_WINDOWS {
            return Err(CommandError::WindowLimitReached);
        }
        old.into_iter()
            .for_each(|id| self.record_change(Change::WindowDeleted(project, id)));
        let window = Arc::new(MaintenanceWindow {
            id: WindowId(self.next_id()),
            uuid,
            project,
            name,
            tags,
            times,
        });
        self.record_change(Change::Window(Arc::clone(&window)));
        Ok(CommandOutcome::Window(window))
    }

    pub(super) fn delete_window(
        &mut self,
        project: ProjectId,
        id: WindowId,
        now: Timestamp,
    ) -> ApplyResult {
        let windows = &self
            .state
            .project(project)
            .ok_or(CommandError::NotFound)?
            .windows;
        windows.get(&id).ok_or(CommandError::NotFound)?;
        self.record_change(Change::WindowDeleted(project, id));
        self.reconsider_window_holds(project, now);
        Ok(CommandOutcome::Completed)
    }

    /// Changes a window and decides again about the alerts that it held.
    pub(super) fn put_window(&mut self, window: MaintenanceWindow, now: Timestamp) {
        let project = window.project;
        self.record_change(Change::Window(Arc::new(window)));
        self.reconsider_window_holds(project, now);
    }

    /// Decides again about the checks that no window holds any longer. Checks beyond the rows that
    /// a command may add become due now, so that the next batches decide about them.
    fn reconsider_window_holds(&mut self, project: ProjectId, now: Timestamp) {
        let is_held = |check: &&Check| {
            matches!(
                check.state.notification,
                NotificationState::Pending {
                    reason: HoldReason::MaintenanceWindow,
                    ..
                }
            )
        };
        let held: Vec<_> = self
            .state
            .checks_of(project)
            .filter(is_held)
            .map(|check| check.id)
            .collect();
        for id in held {
            let Some(check) = self.state.check(id).cloned() else {
                continue;
            };
            if self.hold_for_window(&check, now).is_some() {
                continue;
            }
            if self.has_alert_rows_left() {
                _ = self
                    .find_check(id)
                    .map(|check| self.put_check(check, &[], now));
            } else {
                let mut check = check;
                check.state.notification = NotificationState::Pending {
                    at: now,
                    reason: HoldReason::MaintenanceWindow,
                };
                self.record_change(Change::Check(Box::new(check)));
            }
        }
    }

    /// Holds the alert for a check that goes down while a maintenance window is open for it. If the
    /// check is still down when the window closes, it is alerted then.
    pub(super) fn hold_for_window(
        &mut self,
        check: &Check,
        now: Timestamp,
    ) -> Option<NotificationState> {
        let until = self
            .state
            .windows_open_until(check.project, &check.settings.tags, now)?;
        Some(NotificationState::Pending {
            at: until.min(now.plus_secs(HoldReason::RECHECK_SECS)),
            reason: HoldReason::MaintenanceWindow,
        })
    }
}

#[cfg(test)]
mod tests;
