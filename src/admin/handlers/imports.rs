//! Steps of an import: converts rows to items, and results to replies.

use super::format_timestamp;
use crate::admin::request::AdminReply;
use crate::admin::request::import::{ImportRequest, ImportRow};
use crate::domain::import_item::{ImportId, ImportMode, NumberedPing};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::command::CommandError;
use crate::engine::command::import::{ImportFinishOptions, ImportStepError, LocalChanges};
use crate::import::item_rows::{ImportFlipRow, ImportItemRow, ImportPingRow, decode_bytes};
use crate::operations::import::{self, ImportListEntry};
use crate::operations::{OperationError, project};

/// Handles one step. `document`: parts that were sent before the request.
pub(super) async fn handle_request(
    handle: &Handle,
    request: ImportRequest,
    document: Vec<u8>,
) -> Result<AdminReply, OperationError> {
    match request {
        ImportRequest::Begin { ids, checks } => Ok(AdminReply::ImportBegun(
            import::begin(handle, ids, checks).await?.0,
        )),
        ImportRequest::Log {
            import,
            pings,
            flips,
        } => {
            let pings = pings
                .into_iter()
                .map(ImportPingRow::into_ping)
                .collect::<Result<_, _>>();
            let flips = flips
                .into_iter()
                .map(ImportFlipRow::into_flip)
                .collect::<Result<_, _>>();
            match pings.and_then(|pings| Ok((pings, flips?))) {
                Ok((pings, flips)) => {
                    import::add_log_entries(handle, ImportId(import), pings, flips)
                        .await
                        .map(|()| AdminReply::Done)
                }
                Err(problem) => Ok(AdminReply::Invalid(problem)),
            }
        }
        ImportRequest::LongPing {
            import,
            ping,
            bytes,
        } => match ping.into_ping() {
            Ok(_) if document.len() != bytes => Ok(AdminReply::Invalid(format!(
                "received {} bytes of a body of {bytes} bytes: start the import again",
                document.len()
            ))),
            Ok(ping) => {
                let ping = NumberedPing {
                    body: document.into(),
                    ..ping
                };
                import::add_log_entries(handle, ImportId(import), vec![ping], Vec::new())
                    .await
                    .map(|()| AdminReply::Done)
            }
            Err(problem) => Ok(AdminReply::Invalid(problem)),
        },
        ImportRequest::Objects { import, objects } => {
            match objects.into_iter().map(ImportItemRow::into_item).collect() {
                Ok(objects) => import::add_items(handle, ImportId(import), objects)
                    .await
                    .map(|()| AdminReply::Done),
                Err(problem) => Ok(AdminReply::Invalid(problem)),
            }
        }
        ImportRequest::Finish {
            look,
            import,
            live,
            newest,
            secrets,
            signing,
            expected,
            replace,
        } => {
            let secrets = secrets
                .iter()
                .map(|secret| LegacySecret::parse(secret))
                .collect::<Result<_, _>>();
            let signing = signing
                .as_deref()
                .map(|text| decode_bytes(text).map(BadgeSecret))
                .transpose();
            let (secrets, signing) = match secrets.and_then(|secrets| Ok((secrets, signing?))) {
                Ok(read) => read,
                Err(problem) => return Ok(AdminReply::Invalid(problem.into())),
            };
            let mode = if live {
                ImportMode::Live {
                    newest: newest.map(Timestamp::from_micros),
                }
            } else {
                ImportMode::Trial
            };
            let ending = ImportFinishOptions {
                mode,
                legacy_secrets: secrets,
                badge_secret: signing,
                expected_counts: expected.into(),
                replace,
            };
            let done = match look {
                true => import::dry_run(handle, ImportId(import), ending).await,
                false => import::finish(handle, ImportId(import), ending).await,
            };
            match done {
                Err(OperationError::Command(CommandError::Import(
                    touched @ ImportStepError::ChangedLocally { .. },
                ))) => Ok(AdminReply::Touched(touched.to_string())),
                finished => finished.map(|(replaced, LocalChanges { checks, pings })| {
                    AdminReply::Imported(replaced, checks, pings)
                }),
            }
        }
        ImportRequest::Abandon { import } => import::abandon(handle, ImportId(import))
            .await
            .map(|()| AdminReply::Done),
        ImportRequest::List => Ok(AdminReply::Imports(
            import::list(handle).into_iter().map(import_row).collect(),
        )),
        ImportRequest::Release { project } => {
            import::end_trial(handle, project::find(handle, &project)?.id)
                .await
                .map(|()| AdminReply::Done)
        }
    }
}

fn import_row(listed: ImportListEntry) -> ImportRow {
    match listed {
        ImportListEntry::Open(ImportId(import), begun, checks) => ImportRow {
            state: "staged".into(),
            name: import.to_string(),
            checks,
            begun: Some(format_timestamp(begun)),
        },
        ImportListEntry::Trial(name, checks) => ImportRow {
            state: "trial".into(),
            name,
            checks,
            begun: None,
        },
    }
}
