//! Command that applies declared configuration.

use uuid::Uuid;

use crate::domain::declared::{
    ApplyOptions, DeclaredCheck, DeclaredConfig, DeclaredProject, PlannedChange,
};

/// Approximate bytes of an object without its long texts.
const OBJECT_BYTES: usize = 600;

/// Declared configuration to apply, all of it or nothing.
#[derive(Clone, Debug)]
pub struct ApplyConfigRequest {
    /// Declared objects.
    pub config: DeclaredConfig,
    /// Options that permit or limit changes.
    pub options: ApplyOptions,
    /// Random UUIDs for new objects, as many as
    /// [`ConfigPlan::uuid_count`](crate::engine::config_plan::ConfigPlan::uuid_count).
    pub uuids: Vec<Uuid>,
}

impl ApplyConfigRequest {
    /// Approximate size in bytes.
    pub fn approximate_bytes(&self) -> usize {
        let project = |project: &DeclaredProject| {
            let objects = project.channels.len()
                + project.windows.len()
                + project.keys.len()
                + project.checks.len()
                + 1;
            let long = |check: &DeclaredCheck| {
                check
                    .edit
                    .desc
                    .as_ref()
                    .map_or(0, |desc| desc.as_str().len())
                    + check
                        .edit
                        .tags
                        .as_ref()
                        .map_or(0, |tags| tags.as_str().len())
            };
            objects * OBJECT_BYTES + project.checks.iter().map(long).sum::<usize>()
        };
        self.config.projects.iter().map(project).sum::<usize>()
            + self.config.users.len() * OBJECT_BYTES
            + size_of_val(&*self.uuids)
    }
}

/// Result of applying configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct AppliedConfig {
    /// Changes made.
    pub changes: Vec<PlannedChange>,
}
