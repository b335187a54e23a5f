//! Sends an import to the server or the local database, through the admin interface.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use super::super::data_directory::assume_owner;
use super::super::{CliError, new_runtime};
use crate::admin::imports::{
    AbandonImport, AddLogEntries, AddLongPing, AddObjects, BeginImport, FinishImport,
    FinishedImport,
};
use crate::admin::projects::ListProjects;
use crate::admin::{AdminClient, AdminClientError, AdminRequest};
use crate::domain::import_contents::ImportContents;
use crate::domain::import_item::{ImportId, ImportItem, ImportMode, NumberedFlip, NumberedPing};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::engine::apply::MAX_IMPORT_BODY_BYTES;
use crate::engine::command::import::{ImportFinishOptions, LocalChanges};
use crate::import::item_rows::{self, ImportItemRow};
use crate::import::transfer::{ImportTarget, ImportTransfer};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// An import that is being sent.
pub(super) type ImportUpload = ImportTransfer<AdminTarget>;

/// Server or database that takes the steps.
pub(super) struct AdminTarget {
    runtime: Runtime,
    client: AdminClient,
}

/// Connects to the server of this directory or opens its database; creates one if there is none.
pub(super) fn open_target(directory: &Path) -> Result<AdminTarget, CliError> {
    let _owner = assume_owner(directory)?;
    let runtime = new_runtime()?;
    let client = runtime
        .block_on(AdminClient::open(directory, true))
        .map_err(CliError::other)?;
    Ok(AdminTarget { runtime, client })
}

/// Connects to the server of this directory; `None` if none runs.
pub(super) fn connect_to_server(directory: &Path) -> Result<Option<AdminTarget>, CliError> {
    let _owner = assume_owner(directory)?;
    let runtime = new_runtime()?;
    let client = runtime
        .block_on(AdminClient::connect_to_server(directory))
        .map_err(CliError::other)?;
    Ok(client.map(|client| AdminTarget { runtime, client }))
}

/// Begins an import of these contents.
pub(super) fn begin(
    target: AdminTarget,
    imported: &ImportContents,
) -> Result<ImportUpload, CliError> {
    ImportTransfer::begin(target, imported, Clock::System.now(), Random::System)
        .map_err(import_refused)
}

impl AdminTarget {
    fn send<R>(&mut self, request: R) -> Result<R::Output, AdminClientError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        self.runtime.block_on(self.client.send(request))
    }

    fn send_finish(
        &mut self,
        ImportId(import): ImportId,
        options: &ImportFinishOptions,
        is_dry_run: bool,
    ) -> Result<(usize, LocalChanges), AdminClientError> {
        let (live, newest) = match options.mode {
            ImportMode::Trial => (false, None),
            ImportMode::Live { newest } => (true, newest),
        };
        let secrets = options.legacy_secrets.iter();
        let badge_secret = options.badge_secret;
        let FinishedImport {
            replaced,
            checks,
            pings,
        } = self.send(FinishImport {
            look: is_dry_run,
            import,
            live,
            newest: newest.map(Timestamp::micros),
            secrets: secrets.map(|secret| secret.as_str().to_owned()).collect(),
            signing: badge_secret.map(|BadgeSecret(secret)| item_rows::encode_bytes(&secret)),
            expected: options.expected_counts,
            replace: options.replace,
        })?;
        Ok((replaced, LocalChanges { checks, pings }))
    }

    /// True if the project from a first start exists and is empty.
    pub(super) fn has_empty_default(&mut self) -> bool {
        self.send(ListProjects {}).is_ok_and(|rows| {
            rows.iter()
                .any(|row| row.name == "default" && row.checks == 0)
        })
    }
}

impl ImportTarget for AdminTarget {
    type Error = AdminClientError;

    fn begin(&mut self, object_count: u64, check_count: u64) -> Result<ImportId, AdminClientError> {
        let begun = self.send(BeginImport {
            ids: object_count,
            checks: check_count,
        })?;
        Ok(ImportId(begun.import))
    }

    fn add_log_entries(
        &mut self,
        ImportId(import): ImportId,
        mut pings: Vec<NumberedPing>,
        flips: Vec<NumberedFlip>,
    ) -> Result<(), AdminClientError> {
        match &mut *pings {
            // The body is too long for JSON.
            [ping] if ping.body.len() > MAX_IMPORT_BODY_BYTES => {
                let body = std::mem::take(&mut ping.body).into();
                let ping = ping.clone().into();
                self.send(AddLongPing { import, ping, body })
            }
            _ => self.send(AddLogEntries {
                import,
                pings: pings.into_iter().map(Into::into).collect(),
                flips: flips.into_iter().map(Into::into).collect(),
            }),
        }
    }

    fn add_items(
        &mut self,
        ImportId(import): ImportId,
        items: Vec<ImportItem>,
    ) -> Result<(), AdminClientError> {
        let objects = items.into_iter().map(ImportItemRow::from).collect();
        self.send(AddObjects { import, objects })
    }

    fn dry_run(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), AdminClientError> {
        self.send_finish(import, &options, true)
    }

    fn finish(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), AdminClientError> {
        self.send_finish(import, &options, false)
    }

    fn abandon(&mut self, ImportId(import): ImportId) {
        // If this fails, the server abandons it when the connection ends, or at the next start.
        let _ = self.send(AbandonImport { import });
    }
}

/// Finishes an import. Asks for a confirmation before changes made here are lost, unless `yes` is
/// set; without `replace` they are kept, and nothing is imported.
pub(super) fn finish(
    upload: &mut ImportUpload,
    is_live: bool,
    replace: bool,
    yes: bool,
) -> Result<(usize, LocalChanges), CliError> {
    let finished = match upload.finish(is_live, false) {
        Err(AdminClientError::Refused(error)) if error.is_local_change() => {
            let which = error.to_string();
            if !replace {
                return Err(replace_required(&which));
            }
            if !yes && !confirm_replacement(&which)? {
                return Err(CliError::other("nothing was imported"));
            }
            upload.finish(is_live, true)
        }
        finished => finished,
    };
    finished.map_err(import_refused)
}

/// Returns the error of a refused step.
pub(super) fn import_refused(error: AdminClientError) -> CliError {
    match error {
        AdminClientError::Refused(error) => {
            CliError::other(format!("{error}\nnothing was imported"))
        }
        error => CliError::other(error),
    }
}

/// Returns the error that changes made here would be lost.
pub(super) fn replace_required(which: &impl std::fmt::Display) -> CliError {
    CliError::other(format!(
        "{which}; --replace imports anyway, and changes and logs made here are lost"
    ))
}

/// Asks on the terminal for a confirmation.
fn confirm_replacement(which: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "{which}; add --yes to confirm that changes and logs made here are lost"
        )));
    }
    let mut answer = String::new();
    let written = write!(
        io::stderr(),
        "{which}. Changes and logs made here are lost. Continue? [y/N] "
    );
    written
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(CliError::other)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
