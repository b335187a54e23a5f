//! Cache of open maintenance windows: computed once for each window, and valid until the window
//! opens or closes.

use std::collections::HashMap;

use super::{ProjectState, State};
use crate::domain::ids::{ProjectId, WindowId};
use crate::domain::maintenance_window::{MaintenanceWindow, WindowPhase};
use crate::domain::text::Tags;
use crate::domain::timestamp::Timestamp;

/// Phases of the windows of a project, each with the time at which it was computed.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowPhases {
    phases: HashMap<WindowId, (Timestamp, WindowPhase)>,
    /// Number of phases computed so far.
    computed: u64,
}

impl WindowPhases {
    /// Removes the phase of a window that was changed or deleted.
    pub(super) fn remove(&mut self, id: WindowId) {
        self.phases.remove(&id);
    }

    /// Returns the time at which a window closes, if it is open at `now`.
    fn open_until(&mut self, window: &MaintenanceWindow, now: Timestamp) -> Option<Timestamp> {
        let is_valid = |(from, phase): &(Timestamp, WindowPhase)| {
            *from <= now && phase.valid_until.is_none_or(|until| now < until)
        };
        let cached = self.phases.get(&window.id).copied().filter(is_valid);
        let phase = cached.map_or_else(
            || {
                let phase = window.phase(now);
                self.computed += 1;
                self.phases.insert(window.id, (now, phase));
                phase
            },
            |(_, phase)| phase,
        );
        phase.open_until
    }
}

impl State {
    /// Returns the latest time at which a window closes that is open at `now` for checks with these
    /// tags. `None` if none is open.
    pub fn windows_open_until(
        &mut self,
        project: ProjectId,
        tags: &Tags,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let ProjectState {
            windows,
            window_phases: phases,
            ..
        } = self.projects.get_mut(&project)?;
        windows
            .values()
            .filter(|window| window.applies_to(tags))
            .filter_map(|window| phases.open_until(window, now))
            .max()
    }

    /// Returns the number of phases of windows of a project computed since the start.
    #[cfg(test)]
    pub(in crate::engine) fn computed_phases(&self, project: ProjectId) -> u64 {
        self.project(project)
            .map_or(0, |project_state| project_state.window_phases.computed)
    }
}
