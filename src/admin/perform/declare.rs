//! What files declare: compared, made so, and written.

use super::users;
use crate::admin::request::Reply;
use crate::admin::request::declare::{ChangeRow, ConflictRow, FieldRow};
use crate::declare::{self, DeclareError, Document, Problem, problem_of};
use crate::domain::user::UserName;
use crate::domain::wanted::{Manner, PlannedChange};
use crate::engine::Handle;
use crate::manage::ManageError;

/// Compares what a document declares with what there is, or makes it so.
pub(super) async fn answer(handle: &Handle, document: String, manner: Manner, dry: bool) -> Result<Reply, ManageError> {
    let reading = tokio::task::spawn_blocking(move || Document::sent(document).and_then(|document| declare::read(&document)));
    let wanted = match reading.await {
        Ok(Ok(wanted)) => wanted,
        Ok(Err(problems)) => return Ok(Reply::Conflicts(problems.into_iter().map(told).collect())),
        Err(_) => return Ok(Reply::Refused("the server is stopping; nothing was changed, try again".into())),
    };
    let done = if dry { declare::diff(handle, &wanted, manner).await } else { declare::apply(handle, wanted, manner).await };
    let changes = match done {
        Ok(changes) => changes,
        Err(DeclareError::Conflicts(conflicts)) => {
            return Ok(Reply::Conflicts(conflicts.into_iter().map(|conflict| told(problem_of(conflict))).collect()));
        }
        Err(error) => return Ok(Reply::Refused(error.to_string())),
    };
    let mut rows = Vec::new();
    for change in changes {
        let needs_link = change.needs_link && !dry;
        let mut row = row(change);
        if needs_link
            && let Some(user) =
                UserName::parse(&row.id).ok().and_then(|name| handle.with_state(|state| state.users.by_name(&name).cloned()))
        {
            let Reply::MadeLink(link) = users::link(handle, Some(&user)).await? else { continue };
            row.link = Some(link);
        }
        rows.push(row);
    }
    if !dry && rows.iter().any(|row| row.op != "leave") {
        tracing::info!(changes = rows.len(), "the command line applied what files declare");
    }
    Ok(Reply::Changes(rows))
}

fn row(change: PlannedChange) -> ChangeRow {
    let PlannedChange { op, at, fields, uuid, .. } = change;
    let fields = fields.into_iter().map(|(name, from, to)| FieldRow { name: name.into(), from, to });
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

fn told(problem: Problem) -> ConflictRow {
    ConflictRow { path: problem.path, reason: problem.reason }
}
