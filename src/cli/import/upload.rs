//! Sends an import to the server or the local database: logs first, then objects, then the commit.

use std::collections::HashMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::super::data_directory::assume_owner;
use super::super::{CliError, new_runtime};
use crate::admin::imports::{
    AbandonImport, AddLogEntries, AddLongPing, AddObjects, BeginImport, FinishImport,
    FinishedImport,
};
use crate::admin::projects::ListProjects;
use crate::admin::{AdminClient, AdminClientError, AdminRequest};
use crate::domain::ids::CheckId;
use crate::domain::import_contents::{ImportContents, ImportedFlip, ImportedPing};
use crate::domain::import_item::{ImportItemCounts, NumberedFlip, NumberedPing};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::engine::apply::{MAX_IMPORT_BODY_BYTES, MAX_IMPORT_ENTRIES};
use crate::engine::command::import::LocalChanges;
use crate::import::item_rows::{self, ImportFlipRow, ImportItemRow, ImportPingRow};
use crate::import::{ImportLogEntry, flip_order, numbering};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// Approximate bytes of pings that are buffered to be sorted before they are sent: see
/// [limits](crate::docs::limits).
const PING_BUFFER_BYTES: usize = 12 << 20;
/// Approximate bytes of a ping without its body.
const PING_OVERHEAD_BYTES: usize = 192;
/// Maximum number of pings in one request. It is low, because many requests follow each other at
/// once, and the pings of others wait for each.
const PINGS_PER_REQUEST: usize = 64;
/// Maximum bytes of bodies in one request, unless one body is longer.
const BODY_BYTES_PER_REQUEST: usize = 256 << 10;
/// Maximum bytes of objects in one request: in JSON each may take six, and a request has 2 MiB.
const OBJECT_BYTES_PER_REQUEST: usize = 256 << 10;
/// Maximum number of objects in one request.
const MAX_OBJECTS_PER_REQUEST: usize = 500;

/// An import that is being sent. It is abandoned if it does not complete.
pub(super) struct ImportUpload {
    runtime: Runtime,
    session: AdminClient,
    import: u64,
    /// Numbers of the checks.
    checks: HashMap<Uuid, CheckId>,
    /// Pings to send, and their approximate size in bytes.
    pings: Vec<NumberedPing>,
    buffered_bytes: usize,
    /// Flips in order.
    next_flips: Vec<ImportFlipRow>,
    /// Flips with their numbers in the source, to be sorted: the flips of a check are sent in
    /// order.
    flips: Vec<(CheckId, i64, ImportedFlip)>,
    counts: ImportItemCounts,
    /// Reason why sending has stopped.
    failure: Option<CliError>,
    is_finished: bool,
}

/// Options for the end of an import.
pub(super) struct ImportFinish {
    pub(super) live: bool,
    /// Latest timestamp in the source.
    pub(super) newest: Option<Timestamp>,
    /// Secrets of old servers, with which hashed keys are verified.
    pub(super) secrets: Vec<LegacySecret>,
    /// Key that signed badge URLs on the source.
    pub(super) badge_secret: Option<BadgeSecret>,
    pub(super) replace: bool,
    pub(super) yes: bool,
}

/// Connects to the server of this directory or opens its database; creates one if there is none.
pub(super) fn open_session(directory: &Path) -> Result<(Runtime, AdminClient), CliError> {
    let _owner = assume_owner(directory)?;
    let runtime = new_runtime()?;
    let session = runtime
        .block_on(AdminClient::open(directory, true))
        .map_err(CliError::other)?;
    Ok((runtime, session))
}

/// Connects to the server of this directory; `None` if none runs.
pub(super) fn connect_to_server(
    directory: &Path,
) -> Result<Option<(Runtime, AdminClient)>, CliError> {
    let _owner = assume_owner(directory)?;
    let runtime = new_runtime()?;
    let session = runtime
        .block_on(AdminClient::connect_to_server(directory))
        .map_err(CliError::other)?;
    Ok(session.map(|session| (runtime, session)))
}

impl ImportUpload {
    /// Begins the import.
    pub(super) fn begin(
        (runtime, session): (Runtime, AdminClient),
        imported: &ImportContents,
    ) -> Result<Self, CliError> {
        let checks = imported
            .projects
            .iter()
            .map(|project| project.checks.len() as u64)
            .sum();
        let mut upload = Self {
            runtime,
            session,
            import: 0,
            checks: HashMap::new(),
            pings: Vec::new(),
            buffered_bytes: 0,
            next_flips: Vec::new(),
            flips: Vec::new(),
            counts: ImportItemCounts::default(),
            failure: None,
            is_finished: true,
        };
        let begun = upload.request(BeginImport {
            ids: numbering::count_ids(imported),
            checks,
        })?;
        upload.import = begun.import;
        upload.is_finished = false;
        upload.checks = numbering::check_ids(imported, upload.import);
        Ok(upload)
    }

    /// Adds a log entry. After a break, [`upload_objects`](Self::upload_objects) returns the
    /// reason.
    pub(super) fn add_log_entry(&mut self, entry: ImportLogEntry) -> ControlFlow<()> {
        let result = match entry {
            ImportLogEntry::Ping(ping) => self.add_ping(ping),
            ImportLogEntry::OrderedFlip(flip) => self.add_next_flip(flip),
            ImportLogEntry::Flip(flip, number) => {
                let numbered_flip = self
                    .checks
                    .get(&flip.check)
                    .map(|check| (*check, number, flip));
                self.flips.extend(numbered_flip);
                Ok(())
            }
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn add_next_flip(
        &mut self,
        ImportedFlip { check, flip }: ImportedFlip,
    ) -> Result<(), CliError> {
        let Some(check) = self.checks.get(&check).copied() else {
            return Ok(());
        };
        self.counts.flips += 1;
        self.next_flips.push(NumberedFlip { check, flip }.into());
        if self.next_flips.len() < MAX_IMPORT_ENTRIES {
            Ok(())
        } else {
            self.send_next_flips()
        }
    }

    fn send_next_flips(&mut self) -> Result<(), CliError> {
        let import = self.import;
        let flips = std::mem::take(&mut self.next_flips);
        if flips.is_empty() {
            Ok(())
        } else {
            self.request(AddLogEntries {
                import,
                pings: Vec::new(),
                flips,
            })
        }
    }

    fn add_ping(&mut self, ping: ImportedPing) -> Result<(), CliError> {
        let Some(check) = self.checks.get(&ping.check).copied() else {
            return Ok(());
        };
        if ping.body.len() > MAX_IMPORT_BODY_BYTES {
            return self.send_long_ping(ping.with_check(check));
        }
        self.buffered_bytes += PING_OVERHEAD_BYTES + ping.body.len();
        self.counts.pings += 1;
        self.pings.push(ping.with_check(check));
        if self.buffered_bytes >= PING_BUFFER_BYTES {
            self.send_pings()
        } else {
            Ok(())
        }
    }

    /// Sends the pings of each check together. They are adjacent in the database, so a request
    /// changes few pages of it.
    fn send_pings(&mut self) -> Result<(), CliError> {
        let mut pings = std::mem::take(&mut self.pings);
        self.buffered_bytes = 0;
        pings.sort_unstable_by_key(|ping| (ping.check, ping.n));
        let mut rows = Vec::new();
        let mut bytes = 0;
        for ping in pings {
            if rows.len() >= PINGS_PER_REQUEST
                || bytes > 0 && bytes + ping.body.len() > BODY_BYTES_PER_REQUEST
            {
                self.send_rows(std::mem::take(&mut rows))?;
                bytes = 0;
            }
            bytes += ping.body.len();
            rows.push(ping.into());
        }
        if rows.is_empty() {
            Ok(())
        } else {
            self.send_rows(rows)
        }
    }

    fn send_rows(&mut self, pings: Vec<ImportPingRow>) -> Result<(), CliError> {
        self.request(AddLogEntries {
            import: self.import,
            pings,
            flips: Vec::new(),
        })
    }

    /// Sends a ping whose body is too long for JSON.
    fn send_long_ping(&mut self, mut ping: NumberedPing) -> Result<(), CliError> {
        self.counts.pings += 1;
        let body = std::mem::take(&mut ping.body);
        self.request(AddLongPing {
            import: self.import,
            ping: ping.into(),
            body: body.into(),
        })
    }

    fn send_flips(&mut self) -> Result<(), CliError> {
        let mut flips = std::mem::take(&mut self.flips);
        flip_order::sort_flips(&mut flips, Clock::System.now());
        self.counts.flips += flips.len() as u64;
        let import = self.import;
        for flips in flips.chunks(MAX_IMPORT_ENTRIES) {
            let flips = flips.iter().map(|(check, .., flip)| {
                ImportFlipRow::from(NumberedFlip {
                    check: *check,
                    flip: flip.flip,
                })
            });
            self.request(AddLogEntries {
                import,
                pings: Vec::new(),
                flips: flips.collect(),
            })?;
        }
        Ok(())
    }

    /// Sends everything except the logs, which are sent already.
    pub(super) fn upload_objects(&mut self, imported: ImportContents) -> Result<(), CliError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.send_pings()?;
        self.send_next_flips()?;
        self.send_flips()?;
        let mut rows = Vec::new();
        let mut bytes = 0;
        for item in numbering::number_items(imported, self.import, &Random::System) {
            self.counts.count(&item);
            bytes += item.approximate_bytes();
            rows.push(ImportItemRow::from(item));
            if bytes >= OBJECT_BYTES_PER_REQUEST || rows.len() >= MAX_OBJECTS_PER_REQUEST {
                self.send_objects(std::mem::take(&mut rows))?;
                bytes = 0;
            }
        }
        if rows.is_empty() {
            Ok(())
        } else {
            self.send_objects(rows)
        }
    }

    fn send_objects(&mut self, objects: Vec<ImportItemRow>) -> Result<(), CliError> {
        self.request(AddObjects {
            import: self.import,
            objects,
        })
    }

    fn finish_request(
        &self,
        options: &ImportFinish,
        is_dry_run: bool,
        replace: bool,
    ) -> FinishImport {
        let secrets = options
            .secrets
            .iter()
            .map(|secret| secret.as_str().to_owned())
            .collect();
        let signing = options
            .badge_secret
            .map(|BadgeSecret(secret)| item_rows::encode_bytes(&secret));
        FinishImport {
            look: is_dry_run,
            import: self.import,
            live: options.live,
            newest: options.newest.map(Timestamp::micros),
            secrets,
            signing,
            expected: self.counts,
            replace,
        }
    }

    /// Dry run of [`finish`](Self::finish); the import stays open.
    pub(super) fn dry_run(
        &mut self,
        options: &ImportFinish,
    ) -> Result<(usize, LocalChanges), CliError> {
        self.request(self.finish_request(options, true, true))
            .map(import_result)
    }

    /// Makes everything visible. Returns the number of projects that it replaced, and the changes
    /// in these that are lost.
    pub(super) fn finish(
        &mut self,
        options: &ImportFinish,
    ) -> Result<(usize, LocalChanges), CliError> {
        let first = self.send(self.finish_request(options, false, false));
        let finished = match first {
            Err(AdminClientError::Refused(error)) if error.is_local_change() => {
                let which = error.to_string();
                if !options.replace {
                    return Err(replace_required(&which));
                }
                if !options.yes && !confirm_replacement(&which)? {
                    return Err(CliError::other("nothing was imported"));
                }
                self.send(self.finish_request(options, false, true))
            }
            finished => finished,
        };
        let finished = finished.map_err(import_refused)?;
        self.is_finished = true;
        Ok(import_result(finished))
    }

    /// True if the project from a first start exists and is empty.
    pub(super) fn has_empty_default(&mut self) -> bool {
        self.send(ListProjects {}).is_ok_and(|rows| {
            rows.iter()
                .any(|row| row.name == "default" && row.checks == 0)
        })
    }

    fn request<R>(&mut self, request: R) -> Result<R::Output, CliError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        self.send(request).map_err(import_refused)
    }

    fn send<R>(&mut self, request: R) -> Result<R::Output, AdminClientError>
    where
        R: AdminRequest<Output: DeserializeOwned>,
    {
        self.runtime.block_on(self.session.send(request))
    }
}

impl Drop for ImportUpload {
    fn drop(&mut self) {
        if !self.is_finished {
            // If this fails, the server abandons it when the connection ends, or at the next start.
            let _ = self.request(AbandonImport {
                import: self.import,
            });
        }
    }
}

fn import_result(finished: FinishedImport) -> (usize, LocalChanges) {
    let FinishedImport {
        replaced,
        checks,
        pings,
    } = finished;
    (replaced, LocalChanges { checks, pings })
}

fn import_refused(error: AdminClientError) -> CliError {
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
