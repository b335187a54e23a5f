//! Applies configuration files before the listeners open, and again at SIGHUP. An invalid file does
//! not stop the server: a syntax error must not stop the monitoring. The server continues with the
//! state of the database, and reports the error in the log, to the supervisor, and in a metric.

use std::path::PathBuf;

use sd_notify::NotifyState;

use super::notify_supervisor;
use crate::config::{self, ConfigLoadError, SecretResolver};
use crate::domain::audit::Actor;
use crate::domain::declared::{ApplyOptions, ChangeOperation};
use crate::domain::formatting::format_count;
use crate::engine::Handle;
use crate::operations::user::create_link;

/// Files that declare the configuration.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    /// Files and directories.
    pub files: Vec<PathBuf>,
    /// Maximum number of objects to delete that their source no longer names; `None` keeps them.
    pub prune: Option<usize>,
}

/// Applies the files, if they are valid. `pages`: base of links to pages; `None` if there are none.
pub(super) async fn apply_declared(handle: &Handle, declared: &ConfigFiles, pages: Option<&str>) {
    let result = read_and_apply(&handle.with_actor(Actor::server()), declared, pages).await;
    handle.metrics().record_apply(result.is_ok());
    match result {
        Ok(changes) => {
            notify_supervisor(NotifyState::Status(&format!(
                "applied the files of --apply: {}",
                format_count(changes, "change")
            )));
        }
        Err(problem) => {
            // Each problem is followed by the line of the file, which does not go into the log.
            for line in problem.lines().filter(|line| !line.starts_with(' ')) {
                tracing::error!("--apply: {line}");
            }
            tracing::error!(
                "the files of --apply were not applied; the server keeps the configuration in its \
                 database; correct the files and send SIGHUP to read them again"
            );
            notify_supervisor(NotifyState::Status(
                "the files of --apply were not applied; see the log for the reason",
            ));
        }
    }
}

/// Returns the number of changes, or the reason why nothing was changed.
async fn read_and_apply(
    handle: &Handle,
    declared: &ConfigFiles,
    pages: Option<&str>,
) -> Result<usize, String> {
    let files = declared.files.clone();
    let read_files = move || {
        config::load_config(
            &files,
            &SecretResolver {
                read_variable: &|name| std::env::var(name).ok(),
            },
        )
    };
    let loaded: Result<_, ConfigLoadError> = tokio::task::spawn_blocking(read_files)
        .await
        .map_err(|error| error.to_string())?;
    let prepared = loaded.map_err(|error| error.to_string())?;
    for warning in &prepared.warnings {
        tracing::warn!("--apply: {warning}");
    }
    let prune = declared
        .prune
        .filter(|_| prepared.declared.source.is_some());
    let result = config::apply_config(
        handle,
        prepared.declared,
        ApplyOptions {
            prune_limit: prune,
            adopt_unmanaged: false,
        },
    )
    .await;
    let changes = result.map_err(|error| config::error_text(&prepared.document, &error))?;
    for change in &changes {
        let kind = change.object.kind.name();
        let name = &change.object.name;
        match change.operation {
            ChangeOperation::Keep => {
                tracing::info!("--apply: the {kind} {name:?} is no longer declared, but is kept");
            }
            op => tracing::info!("--apply: {} {kind} {name:?}", op.name()),
        }
        if change.needs_password_link {
            print_password_link(handle, name, pages).await;
        }
    }
    Ok(changes
        .iter()
        .filter(|change| change.operation != ChangeOperation::Keep)
        .count())
}

/// Prints the link by which a new user without a password chooses one. It is printed once.
async fn print_password_link(handle: &Handle, name: &str, pages: Option<&str>) {
    let user = crate::domain::user::UserName::parse(name)
        .ok()
        .and_then(|name| handle.with_state(|state| state.users.by_name(&name).cloned()));
    let Some(user) = user else { return };
    let Some(pages) = pages else {
        tracing::info!(
            "--apply: no link was created for the user {name:?}, since the dashboard is off; run \
             `overdue user link` when it is on"
        );
        return;
    };
    match create_link(handle, Some(&user)).await {
        Ok(link) => {
            super::print_to_stderr(&format!(
                "\nThe user {name:?} is new and must choose a password here:\n\n    {pages}{}\n\n",
                link.path()
            ));
        }
        Err(error) => tracing::warn!(
            "cannot create a link for the user {name:?}: {error}; run `overdue user link`"
        ),
    }
}
