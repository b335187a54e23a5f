//! Audit logs: entries of one or of all.

use std::cmp::Reverse;

use super::{OperationError, read_blocking};
use crate::domain::audit::{AuditEntry, AuditScope};
use crate::domain::ids::ProjectId;
use crate::engine::Handle;

/// Returns the newest entries of a project's log, or of all logs, newest first, at most `limit`.
///
/// # Errors
/// If the file cannot be read.
pub async fn list(
    handle: &Handle,
    project: Option<ProjectId>,
    limit: usize,
) -> Result<Vec<AuditEntry>, OperationError> {
    let scopes: Vec<_> = match project {
        Some(project) => vec![AuditScope::Project(project)],
        None => handle.with_state(|state| {
            let projects = state
                .projects()
                .map(|found| AuditScope::Project(found.project.id));
            std::iter::once(AuditScope::Server)
                .chain(projects)
                .collect()
        }),
    };
    read_blocking(handle, move |handle| {
        let mut newest = Vec::new();
        for scope in scopes {
            newest.extend(handle.audit_entries(scope, u64::MAX, limit)?);
            // Stable, so that entries of one log keep their order.
            newest.sort_by_key(|entry: &AuditEntry| Reverse(entry.at));
            newest.truncate(limit);
        }
        Ok(newest)
    })
    .await
}
