//! Declared configuration: compares, applies and exports it.

use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::context::AdminContext;
use super::error::AdminError;
use super::request::AdminRequest;
use super::users::{self, LinkRow};
use crate::config::{
    self, ConfigApplyError, ConfigDocument, ConfigProblem, ExportedObject, to_problem,
};
use crate::domain::declared::{ApplyOptions, ChangeOperation, ObjectKind, PlannedChange};
use crate::domain::user::UserName;
use crate::engine::command::Unavailable;
use crate::operations::OperationError;

/// Time in which a server must answer a request that reads, compares or writes everything.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of a document: the files that it is made of, plus the overhead of JSON.
pub(super) const MAX_DOCUMENT_BYTES: usize = 4 * config::MAX_BYTES;

/// A change of an object.
#[derive(Serialize, Deserialize)]
pub struct ChangeRow {
    /// `add`, `change`, `adopt`, `delete` or `leave`.
    pub op: String,
    /// Name of its project; `None` for users.
    pub project: Option<String>,
    /// Kind of the object: `project`, `channel`, `check`, `window`, `key` or `user`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Identifier of the object in the file.
    pub id: String,
    /// Fields that change.
    pub fields: Vec<ChangedFieldRow>,
    /// UUID of the object, if it has one already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Ping URL of a new check, if a server runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Link by which a new user chooses a password. It cannot be shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkRow>,
}

/// A field that changes; secrets are masked.
#[derive(Serialize, Deserialize)]
pub struct ChangedFieldRow {
    /// Key of the field.
    pub name: String,
    /// Value before; `None` if it had none, or its default.
    pub from: Option<String>,
    /// Value after.
    pub to: Option<String>,
}

/// Reason why the declared configuration cannot be applied.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConflictRow {
    /// Keys that lead to the object or the field in the file.
    pub path: Vec<String>,
    /// A sentence: what is wrong, and what to do.
    pub reason: String,
}

/// Exports the configuration of a project, or of all, in the format of declared files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// Project to export; `None` for all.
    pub project: Option<String>,
    /// True to include secrets; otherwise they are masked.
    #[serde(default)]
    pub secrets: bool,
}

impl AdminRequest for ExportConfig {
    const METHOD: Method = Method::GET;
    const PATH: &'static str = "/config";
    const SERVER_TIMEOUT: Duration = CONFIG_TIMEOUT;
    type Output = Vec<ExportedObject>;

    async fn run(self, context: &AdminContext) -> Result<Vec<ExportedObject>, AdminError> {
        let handle = context.handle().clone();
        let project = context.project_filter(self.project.as_deref())?;
        let export = tokio::task::spawn_blocking(move || {
            config::export_config(&handle, project, self.secrets)
        });
        Ok(export
            .await
            .map_err(|_| OperationError::Unavailable(Unavailable::Stopping))?)
    }
}

/// Applies a JSON document of declared configuration, and returns the changes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyConfig {
    /// JSON text of the document.
    #[serde(skip)]
    pub document: Vec<u8>,
    /// Maximum number of objects to delete that the source no longer names.
    pub prune: Option<usize>,
    /// True to take over objects that no source manages.
    #[serde(default)]
    pub adopt: bool,
    /// True to return the changes without making them.
    #[serde(default)]
    pub dry: bool,
}

impl AdminRequest for ApplyConfig {
    const METHOD: Method = Method::PUT;
    const PATH: &'static str = "/config";
    const MAX_BYTES: usize = MAX_DOCUMENT_BYTES;
    const SERVER_TIMEOUT: Duration = CONFIG_TIMEOUT;
    type Output = Vec<ChangeRow>;

    fn document(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.document)
    }

    fn creates_database(&self) -> bool {
        !self.dry
    }

    async fn run(self, context: &AdminContext) -> Result<Vec<ChangeRow>, AdminError> {
        let handle = context.handle();
        let document = String::from_utf8(self.document)
            .map_err(|_| AdminError::invalid("the document is not UTF-8 text"))?;
        let options = ApplyOptions {
            prune_limit: self.prune,
            adopt_unmanaged: self.adopt,
        };
        let reading = tokio::task::spawn_blocking(move || {
            ConfigDocument::from_client(document)
                .and_then(|document| config::read_config(&document))
        });
        let config = reading
            .await
            .map_err(|_| OperationError::Unavailable(Unavailable::Stopping))?
            .map_err(config_conflicts)?;
        let applied = if self.dry {
            config::diff_config(handle, &config, options).await
        } else {
            config::apply_config(handle, config, options).await
        };
        let changes = applied.map_err(|error| match error {
            ConfigApplyError::Conflicts(conflicts) => {
                config_conflicts(conflicts.into_iter().map(to_problem))
            }
            error => AdminError::conflict(error.to_string()),
        })?;
        let mut rows = Vec::new();
        for change in changes {
            let needs_link = change.needs_password_link && !self.dry;
            let mut row = change_row(context, change);
            if needs_link
                && let Some(user) = UserName::parse(&row.id)
                    .ok()
                    .and_then(|name| handle.with_state(|state| state.users.by_name(&name).cloned()))
            {
                row.link = Some(users::create_link(context, Some(&user)).await?);
            }
            rows.push(row);
        }
        if !self.dry && rows.iter().any(|row| row.op != "leave") {
            tracing::info!(
                changes = rows.len(),
                "the command line applied configuration files"
            );
        }
        Ok(rows)
    }
}

fn change_row(context: &AdminContext, change: PlannedChange) -> ChangeRow {
    let PlannedChange {
        operation: op,
        object: at,
        fields,
        uuid,
        ..
    } = change;
    let fields = fields.into_iter().map(|(name, from, to)| ChangedFieldRow {
        name: name.into(),
        from,
        to,
    });
    let new_check = uuid.filter(|_| op == ChangeOperation::Add && at.kind == ObjectKind::Check);
    ChangeRow {
        op: op.name().into(),
        project: at.project.map(Into::into),
        kind: at.kind.name().into(),
        id: at.name.into(),
        fields: fields.collect(),
        uuid,
        url: new_check.and_then(|uuid| context.service_url(&format!("/ping/{uuid}"))),
        link: None,
    }
}

fn config_conflicts(problems: impl IntoIterator<Item = ConfigProblem>) -> AdminError {
    let row = |problem: ConfigProblem| ConflictRow {
        path: problem.path,
        reason: problem.reason,
    };
    AdminError::conflicts(problems.into_iter().map(row).collect())
}
