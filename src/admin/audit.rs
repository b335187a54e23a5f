//! Audit logs.

use std::net::IpAddr;

use hyper::Method;
use serde::{Deserialize, Serialize};

use super::context::AdminContext;
use super::error::AdminError;
use super::format_timestamp;
use super::request::AdminRequest;
use crate::domain::audit::{AuditEntry, AuditScope};
use crate::operations::audit;

/// Number of entries in a list unless the request gives another.
pub const DEFAULT_AUDIT_LIMIT: u32 = 50;

fn default_audit_limit() -> u32 {
    DEFAULT_AUDIT_LIMIT
}

/// An entry of an audit log: equal actions of one actor within a minute.
#[derive(Serialize, Deserialize)]
pub struct AuditRow {
    /// Time of the first action, RFC 3339.
    pub time: String,
    /// Project that the actions belong to; `None` for the server.
    pub project: Option<String>,
    /// Author of the actions.
    pub actor: AuditActor,
    /// Action of the actor.
    pub action: String,
    /// Kind of the objects.
    pub object: String,
    /// Names of the objects, at most 10.
    pub names: Vec<String>,
    /// Number of actions.
    pub count: u32,
    /// Description of the actions as text.
    pub description: String,
}

/// Author of the actions of an entry.
#[derive(Serialize, Deserialize)]
pub struct AuditActor {
    /// Way by which the actor reached the server.
    pub kind: String,
    /// Name of the user or of the key; empty if there is none.
    pub name: String,
    /// Address of the client; `None` if it did not come through the network.
    pub address: Option<IpAddr>,
    /// Kind and name as text.
    pub description: String,
}

/// Lists the newest entries of the audit log of a project, or of all logs, newest first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListAudit {
    /// Project to list; `None` for the server and all projects.
    pub project: Option<String>,
    /// Maximum number of entries.
    #[serde(default = "default_audit_limit")]
    pub limit: u32,
}

impl AdminRequest for ListAudit {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/audit";
    type Output = Vec<AuditRow>;

    async fn run(self, context: &AdminContext) -> Result<Vec<AuditRow>, AdminError> {
        let handle = context.handle();
        let project = context.project_filter(self.project.as_deref())?;
        // A u32 fits a usize on every target with sockets.
        let entries = audit::list(handle, project, self.limit as usize).await?;
        let row = |entry: AuditEntry| {
            let project = match entry.scope {
                AuditScope::Server => None,
                AuditScope::Project(id) => handle.with_state(|state| {
                    let found = state.project(id)?;
                    Some(found.project.name.as_str().to_owned())
                }),
            };
            AuditRow {
                time: format_timestamp(entry.at),
                project,
                description: entry.description(),
                action: entry.action.name().into(),
                object: entry.object.name().into(),
                count: entry.count,
                actor: AuditActor {
                    kind: entry.actor.kind.name().into(),
                    description: entry.actor.to_string(),
                    name: entry.actor.name.into(),
                    address: entry.actor.address,
                },
                names: entry.names.into_iter().map(String::from).collect(),
            }
        };
        Ok(entries.into_iter().map(row).collect())
    }
}
