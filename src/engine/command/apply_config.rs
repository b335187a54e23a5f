//! What can be asked when files declare what there is to be.

use uuid::Uuid;

use crate::domain::declared::{ApplyOptions, DeclaredCheck, DeclaredConfig, DeclaredProject, PlannedChange};

/// Bytes of an object without its long texts.
const OBJECT_BYTES: usize = 600;

/// A wanted state that is to become the real one, all of it or nothing.
#[derive(Clone, Debug)]
pub struct ApplyConfigRequest {
    /// What there is to be.
    pub config: DeclaredConfig,
    /// What may be done for it.
    pub options: ApplyOptions,
    /// Random names for what is made: [`Plan::uuids`](crate::engine::config_plan::ConfigPlan::uuids) of them.
    pub uuids: Vec<Uuid>,
}

impl ApplyConfigRequest {
    /// About how many bytes it holds.
    pub fn approximate_bytes(&self) -> usize {
        let project = |project: &DeclaredProject| {
            let objects = project.channels.len() + project.windows.len() + project.keys.len() + project.checks.len() + 1;
            let long = |check: &DeclaredCheck| {
                check.edit.desc.as_ref().map_or(0, |desc| desc.as_str().len())
                    + check.edit.tags.as_ref().map_or(0, |tags| tags.as_str().len())
            };
            objects * OBJECT_BYTES + project.checks.iter().map(long).sum::<usize>()
        };
        self.config.projects.iter().map(project).sum::<usize>() + self.config.users.len() * OBJECT_BYTES + size_of_val(&*self.uuids)
    }
}

/// What has become of it.
#[derive(Clone, PartialEq, Debug)]
pub struct AppliedConfig {
    /// What was changed.
    pub changes: Vec<PlannedChange>,
}
