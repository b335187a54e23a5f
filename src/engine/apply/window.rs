//! Maintenance windows: made and removed, and what they say to telling that a check is down.

use std::sync::Arc;

use super::super::command::{NewWindow, Outcome, Refusal};
use super::super::state::Change;
use super::{Applied, WorkingState};
use crate::domain::alert::{Held, Telling};
use crate::domain::check::Check;
use crate::domain::ids::{ProjectId, WindowId};
use crate::domain::moment::Moment;
use crate::domain::window::Window;

/// Maintenance windows of a project: see [limits](crate::docs::limits).
pub(in crate::engine) const MOST_WINDOWS: usize = 200;
/// Seconds for which one that is over is still known by its name.
const KEPT_SECS: i64 = 30 * 86_400;

impl WorkingState {
    /// Those that have been over for long go when another one is made.
    pub(super) fn create_window(&mut self, request: NewWindow, now: Moment) -> Applied {
        let NewWindow { uuid, project, name, tags, times } = request;
        let windows = &self.state.project(project).ok_or(Refusal::NotFound)?.windows;
        let is_old = |window: &&Arc<Window>| window.is_over_since(now.plus_secs(-KEPT_SECS));
        let old: Vec<_> = windows.values().filter(is_old).map(|window| window.id).collect();
        if windows.len() - old.len() >= MOST_WINDOWS {
            return Err(Refusal::WindowLimit);
        }
        old.into_iter().for_each(|id| self.change(Change::WindowGone(project, id)));
        let window = Arc::new(Window { id: WindowId(self.next_id()), uuid, project, name, tags, times });
        self.change(Change::Window(Arc::clone(&window)));
        Ok(Outcome::Window(window))
    }

    pub(super) fn delete_window(&mut self, project: ProjectId, id: WindowId, now: Moment) -> Applied {
        let windows = &self.state.project(project).ok_or(Refusal::NotFound)?.windows;
        windows.get(&id).ok_or(Refusal::NotFound)?;
        self.change(Change::WindowGone(project, id));
        self.release_held(project, now);
        Ok(Outcome::Done)
    }

    /// Changes a window: what it held back is decided on again.
    pub(super) fn put_window(&mut self, window: Window, now: Moment) {
        let project = window.project;
        self.change(Change::Window(Arc::new(window)));
        self.release_held(project, now);
    }

    /// Decides again on the checks that no window holds back any more. What takes more rows than a command may take is due now, so that
    /// the next batches decide on it.
    fn release_held(&mut self, project: ProjectId, now: Moment) {
        let is_held = |check: &&Check| matches!(check.state.telling, Telling::Due { held: Held::Window, .. });
        let held: Vec<_> = self.state.checks_of(project).filter(is_held).map(|check| check.id).collect();
        for id in held {
            let Some(check) = self.state.check(id).cloned() else { continue };
            if self.held_by_window(&check, now).is_some() {
                continue;
            }
            if self.has_alert_rows_left() {
                _ = self.existing(id).map(|check| self.put_check(check, &[], now));
            } else {
                let mut check = check;
                check.state.telling = Telling::Due { at: now, held: Held::Window };
                self.change(Change::Check(Box::new(check)));
            }
        }
    }

    /// A check goes down while a maintenance window is open for it: that is told if it is still down when that closes.
    pub(super) fn held_by_window(&mut self, check: &Check, now: Moment) -> Option<Telling> {
        let until = self.state.windows_open_until(check.project, &check.settings.tags, now)?;
        Some(Telling::Due { at: until.min(now.plus_secs(Held::LOOK_SECS)), held: Held::Window })
    }
}

#[cfg(test)]
mod tests;
