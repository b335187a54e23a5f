//! What files declare is made so before the doors open, and again at SIGHUP. A file that is wrong stops nothing: a monitor does not go off
//! for a comma. The server goes on with what the database has, and says so: in the log, to the supervisor, and in a metric.

use std::path::PathBuf;

use sd_notify::NotifyState;

use super::tell_supervisor;
use crate::declare::{self, PrepareError, Secrets};
use crate::domain::wanted::{Manner, Op};
use crate::domain::words::count;
use crate::engine::Handle;
use crate::manage::user::link;

/// Files that declare what there is to be.
#[derive(Clone, Debug)]
pub struct DeclaredFiles {
    /// Files and directories.
    pub files: Vec<PathBuf>,
    /// How many objects may be deleted that their source no longer names; `None`: they stay.
    pub prune: Option<usize>,
}

/// Makes what the files declare so, if it can be. `pages`: what links to pages begin with; `None`: there are none.
pub(super) async fn apply(handle: &Handle, declared: &DeclaredFiles, pages: Option<&str>) {
    let applied = applied(handle, declared, pages).await;
    handle.metrics().applied(applied.is_ok());
    match applied {
        Ok(changes) => {
            tell_supervisor(NotifyState::Status(&format!("what the files of --apply declare is so: {}", count(changes, "change"))));
        }
        Err(told) => {
            // Below each problem stands the line of the file, which is no line of a log.
            for line in told.lines().filter(|line| !line.starts_with(' ')) {
                tracing::error!("--apply: {line}");
            }
            tracing::error!(
                "what --apply names was not applied; the server goes on with what the database has, and SIGHUP reads the files again"
            );
            tell_supervisor(NotifyState::Status("the files of --apply are wrong and were not applied; the log says why"));
        }
    }
}

/// How much was changed, or why nothing was.
async fn applied(handle: &Handle, declared: &DeclaredFiles, pages: Option<&str>) -> Result<usize, String> {
    let files = declared.files.clone();
    let reading = move || declare::prepare(&files, &Secrets { variable: &|name| std::env::var(name).ok() });
    let read: Result<_, PrepareError> = tokio::task::spawn_blocking(reading).await.map_err(|error| error.to_string())?;
    let prepared = read.map_err(|error| error.to_string())?;
    for warning in &prepared.warnings {
        tracing::warn!("--apply: {warning}");
    }
    let prune = declared.prune.filter(|_| prepared.wanted.source.is_some());
    let done = declare::apply(handle, prepared.wanted, Manner { prune, adopts: false }).await;
    let changes = done.map_err(|error| declare::told(&prepared.document, &error))?;
    for change in &changes {
        let (kind, name) = (change.at.kind.name(), &change.at.name);
        match change.op {
            Op::Leave => tracing::info!("--apply: the {kind} {name:?} is no longer declared, and stays"),
            op => tracing::info!("--apply: {} {kind} {name:?}", op.name()),
        }
        if change.needs_link {
            tell_link(handle, name, pages).await;
        }
    }
    Ok(changes.iter().filter(|change| change.op != Op::Leave).count())
}

/// A new user without a password chooses one by a link, which is told once.
async fn tell_link(handle: &Handle, name: &str, pages: Option<&str>) {
    let user =
        crate::domain::user::UserName::parse(name).ok().and_then(|name| handle.with_state(|state| state.users.by_name(&name).cloned()));
    let Some(user) = user else { return };
    let Some(pages) = pages else {
        tracing::info!(
            "--apply: no link for the user {name:?} is made, since no pages are served; `overdue user link` makes one once they are"
        );
        return;
    };
    match link(handle, Some(&user)).await {
        Ok(made) => super::tell(&format!("\nThe user {name:?} is new and chooses a password here:\n\n    {pages}{}\n\n", made.path())),
        Err(error) => tracing::warn!("no link for the user {name:?} could be made: {error}; `overdue user link` makes one"),
    }
}
