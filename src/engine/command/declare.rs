//! What can be asked when files declare what there is to be.

use uuid::Uuid;

use crate::domain::wanted::{Manner, PlannedChange, Wanted, WantedCheck, WantedProject};

/// Bytes of an object without its long texts.
const OBJECT: usize = 600;

/// A wanted state that is to become the real one, all of it or nothing.
#[derive(Clone, Debug)]
pub struct Declare {
    /// What there is to be.
    pub wanted: Wanted,
    /// What may be done for it.
    pub manner: Manner,
    /// Random names for what is made: [`Plan::names`](crate::engine::plan::Plan::names) of them.
    pub names: Vec<Uuid>,
}

impl Declare {
    /// About how many bytes it holds.
    pub fn weight(&self) -> usize {
        let project = |project: &WantedProject| {
            let objects = project.channels.len() + project.windows.len() + project.keys.len() + project.checks.len() + 1;
            let long = |check: &WantedCheck| {
                check.edit.desc.as_ref().map_or(0, |desc| desc.as_str().len())
                    + check.edit.tags.as_ref().map_or(0, |tags| tags.as_str().len())
            };
            objects * OBJECT + project.checks.iter().map(long).sum::<usize>()
        };
        self.wanted.projects.iter().map(project).sum::<usize>() + self.wanted.users.len() * OBJECT + size_of_val(&*self.names)
    }
}

/// What has become of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Declared {
    /// What was changed.
    pub changes: Vec<PlannedChange>,
}
