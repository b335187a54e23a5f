//! Declared configuration: compares, applies and exports it.

use super::users;
use crate::admin::request::AdminReply;
use crate::admin::request::declare::{ChangeRow, ChangedFieldRow, ConflictRow};
use crate::config::{self, ConfigApplyError, ConfigDocument, ConfigProblem, to_problem};
use crate::domain::declared::{ApplyOptions, PlannedChange};
use crate::domain::user::UserName;
use crate::engine::Handle;
use crate::operations::OperationError;

/// Compares a document with the current state, or applies it.
pub(super) async fn handle_request(
    handle: &Handle,
    document: String,
    options: ApplyOptions,
    dry: bool,
) -> Result<AdminReply, OperationError> {
    let reading = tokio::task::spawn_blocking(move || {
        ConfigDocument::from_client(document).and_then(|document| config::read_config(&document))
    });
    let config = match reading.await {
        Ok(Ok(config)) => config,
        Ok(Err(problems)) => {
            return Ok(AdminReply::Conflicts(
                problems.into_iter().map(conflict_row).collect(),
            ));
        }
        Err(_) => {
            return Ok(AdminReply::Refused(
                "the server is stopping; nothing was changed, try again".into(),
            ));
        }
    };
    let done = if dry {
        config::diff_config(handle, &config, options).await
    } else {
        config::apply_config(handle, config, options).await
    };
    let changes = match done {
        Ok(changes) => changes,
        Err(ConfigApplyError::Conflicts(conflicts)) => {
            return Ok(AdminReply::Conflicts(
                conflicts
                    .into_iter()
                    .map(|conflict| conflict_row(to_problem(conflict)))
                    .collect(),
            ));
        }
        Err(error) => return Ok(AdminReply::Refused(error.to_string())),
    };
    let mut rows = Vec::new();
    for change in changes {
        let needs_link = change.needs_password_link && !dry;
        let mut row = change_row(change);
        if needs_link
            && let Some(user) = UserName::parse(&row.id)
                .ok()
                .and_then(|name| handle.with_state(|state| state.users.by_name(&name).cloned()))
        {
            let AdminReply::MadeLink(link) = users::create_link(handle, Some(&user)).await? else {
                continue;
            };
            row.link = Some(link);
        }
        rows.push(row);
    }
    if !dry && rows.iter().any(|row| row.op != "leave") {
        tracing::info!(
            changes = rows.len(),
            "the command line applied configuration files"
        );
    }
    Ok(AdminReply::Changes(rows))
}

fn change_row(change: PlannedChange) -> ChangeRow {
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
    ChangeRow {
        op: op.name().into(),
        project: at.project.map(Into::into),
        kind: at.kind.name().into(),
        id: at.name.into(),
        fields: fields.collect(),
        uuid,
        url: None,
        link: None,
    }
}

fn conflict_row(problem: ConfigProblem) -> ConflictRow {
    ConflictRow {
        path: problem.path,
        reason: problem.reason,
    }
}
