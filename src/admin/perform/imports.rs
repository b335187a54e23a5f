//! Steps of an import: rows become things, and what comes of them a reply.

use super::written;
use crate::admin::request::Reply;
use crate::admin::request::import::{ImportRequest, ImportRow};
use crate::domain::adopted::ForeignSecret;
use crate::domain::moment::Moment;
use crate::domain::project::BadgeSecret;
use crate::domain::staged::{ImportId, ImportMode, StagedPing};
use crate::engine::Handle;
use crate::engine::command::Refusal;
use crate::engine::command::stage::{Ending, Lost, StageRefusal};
use crate::import::staged::{StagedFlipRow, StagedPingRow, StagedRow, bytes};
use crate::manage::import::{self, Listed};
use crate::manage::{ManageError, project};

/// `document`: the parts that came before the request.
pub(super) async fn answer(handle: &Handle, request: ImportRequest, document: Vec<u8>) -> Result<Reply, ManageError> {
    match request {
        ImportRequest::Begin { ids, checks } => Ok(Reply::ImportBegun(import::begin(handle, ids, checks).await?.0)),
        ImportRequest::Log { import, pings, flips } => {
            let pings = pings.into_iter().map(StagedPingRow::ping).collect::<Result<_, _>>();
            let flips = flips.into_iter().map(StagedFlipRow::flip).collect::<Result<_, _>>();
            match pings.and_then(|pings| Ok((pings, flips?))) {
                Ok((pings, flips)) => import::log(handle, ImportId(import), pings, flips).await.map(|()| Reply::Done),
                Err(problem) => Ok(Reply::Invalid(problem)),
            }
        }
        ImportRequest::LongPing { import, ping, bytes } => match ping.ping() {
            Ok(_) if document.len() != bytes => {
                Ok(Reply::Invalid(format!("{} bytes of a body came that has {bytes}: begin again", document.len())))
            }
            Ok(ping) => {
                let ping = StagedPing { body: document.into(), ..ping };
                import::log(handle, ImportId(import), vec![ping], Vec::new()).await.map(|()| Reply::Done)
            }
            Err(problem) => Ok(Reply::Invalid(problem)),
        },
        ImportRequest::Objects { import, objects } => match objects.into_iter().map(StagedRow::staged).collect() {
            Ok(objects) => import::objects(handle, ImportId(import), objects).await.map(|()| Reply::Done),
            Err(problem) => Ok(Reply::Invalid(problem)),
        },
        ImportRequest::Finish { look, import, live, newest, secrets, signing, expected, replace } => {
            let secrets = secrets.iter().map(|secret| ForeignSecret::parse(secret)).collect::<Result<_, _>>();
            let signing = signing.as_deref().map(|text| bytes(text).map(BadgeSecret)).transpose();
            let (secrets, signing) = match secrets.and_then(|secrets| Ok((secrets, signing?))) {
                Ok(read) => read,
                Err(problem) => return Ok(Reply::Invalid(problem.into())),
            };
            let mode = if live { ImportMode::Live { newest: newest.map(Moment::from_micros) } } else { ImportMode::Trial };
            let ending = Ending { mode, secrets, signing, expected: expected.into(), replace };
            let done = match look {
                true => import::look(handle, ImportId(import), ending).await,
                false => import::finish(handle, ImportId(import), ending).await,
            };
            match done {
                Err(ManageError::Refused(Refusal::Stage(touched @ StageRefusal::Touched { .. }))) => {
                    Ok(Reply::Touched(touched.to_string()))
                }
                finished => finished.map(|(replaced, Lost { checks, pings })| Reply::Imported(replaced, checks, pings)),
            }
        }
        ImportRequest::Abandon { import } => import::abandon(handle, ImportId(import)).await.map(|()| Reply::Done),
        ImportRequest::List => Ok(Reply::Imports(import::list(handle).into_iter().map(row).collect())),
        ImportRequest::Release { project } => import::release(handle, project::find(handle, &project)?.id).await.map(|()| Reply::Done),
    }
}

fn row(listed: Listed) -> ImportRow {
    match listed {
        Listed::Staged(ImportId(import), begun, checks) => {
            ImportRow { state: "staged".into(), name: import.to_string(), checks, begun: Some(written(begun)) }
        }
        Listed::Trial(name, checks) => ImportRow { state: "trial".into(), name, checks, begun: None },
    }
}
