//! `/checks/`: lists, reads, creates, changes, pauses, resumes and deletes checks.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::Uri;
use uuid::Uuid;

use super::check_fields::CheckFields;
use super::etag::{TaggedList, tagged_reply};
use super::json::{JsonObject, write_array};
use super::view::{ChannelMap, CheckMembers};
use super::{ApiCall, CheckRef};
use crate::domain::check::{Check, PauseInput};
use crate::domain::ids::ProjectId;
use crate::domain::text::Slug;
use crate::domain::timestamp::Timestamp;
use crate::engine::Handle;
use crate::engine::state::State;
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request;
use crate::http::common::response_body::CHUNK_BYTES;
use crate::operations::check;

/// Approximate bytes of a check in a response.
const CHECK_BYTES: usize = 1024;
/// Maximum number of checks in a list that is read and written inline, which takes about a
/// millisecond.
pub(super) const MAX_INLINE_CHECKS: usize = 1200;
/// Maximum number of tags in a filter: each is searched in every check. See
/// [limits](crate::docs::limits).
const MAX_TAGS: usize = 20;

pub(super) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    tagged_reply(call, read_list(call)).await
}

async fn read_list(call: &ApiCall<'_>) -> Result<TaggedList, HttpError> {
    let handle = call.handle().clone();
    let project = call.caller.project;
    let now = call.now;
    let filter = CheckFilter::from_query(&call.parts.uri)?;
    let check_count = handle.with_state(|state| {
        state
            .project(project)
            .map_or(0, |project_state| project_state.checks.len())
    });
    let permit = call
        .server
        .api
        .list_limit
        .acquire(project, check_count)
        .await?;
    let is_short = check_count <= MAX_INLINE_CHECKS;
    let (checks, channels, valid_until) = call
        .response_writer()
        .run_if_short(is_short, move || {
            // Copies, so that no ping waits until the response is written.
            let checks = filter.matching_checks(&handle, project, check_count);
            let valid_until = checks
                .iter()
                .filter_map(|check| check.state.next_change(&check.settings, now))
                .min();
            // Read after the checks, so that every channel that they name is present. A channel
            // deleted in the meantime is left out.
            (
                checks,
                handle.with_state(|state| project_channels(state, project)),
                valid_until,
            )
        })
        .await?;
    let view = call.view();
    // Texts from before the limits may be long.
    let texts: usize = checks
        .iter()
        .map(|check| check.settings.desc.as_str().len() + check.settings.tags.as_str().len())
        .sum();
    let body = if checks.len() + texts / CHECK_BYTES <= MAX_INLINE_CHECKS {
        let write = move || {
            let _permit = &permit;
            let mut out = String::with_capacity(CHECK_BYTES * (checks.len() + 1));
            let mut object = JsonObject::begin(&mut out);
            object.member("checks", |out| {
                write_array(out, &checks, |check, out| {
                    view.write_check(out, check, CheckMembers::Read, &channels, now);
                });
            });
            object.end();
            Ok(out)
        };
        call.response_writer().write_whole(is_short, write).await?
    } else {
        let mut checks = checks.into_iter();
        let mut has_begun = false;
        let write = move |out: &mut String| {
            let _permit = &permit;
            if !has_begun {
                out.push_str("{\"checks\":[");
            }
            for check in checks.by_ref() {
                if std::mem::replace(&mut has_begun, true) {
                    out.push(',');
                }
                view.write_check(out, &check, CheckMembers::Read, &channels, now);
                if out.len() >= CHUNK_BYTES {
                    return Ok(true);
                }
            }
            out.push_str("]}");
            Ok(false)
        };
        call.response_writer().write_chunked(write).await?
    };
    Ok(TaggedList { body, valid_until })
}

/// Filter of a list of checks.
#[derive(Default, PartialEq)]
struct CheckFilter {
    /// `Some(None)` stands for a slug that no check can have.
    slug: Option<Option<Slug>>,
    /// Tags that a check must all have. `None` stands for a tag that no check can have.
    tags: BTreeSet<Option<String>>,
}

impl CheckFilter {
    /// Parses the query. An empty slug filters nothing. Of several slugs the last counts. A check
    /// must have every tag.
    ///
    /// # Errors
    /// If there are more tags than [`MAX_TAGS`], repeated ones included.
    fn from_query(uri: &Uri) -> Result<Self, HttpError> {
        let mut filter = Self::default();
        let mut tags = 0;
        for (name, value) in request::query(uri) {
            match name.as_deref() {
                Some("slug") if value.as_deref() == Some("") => filter.slug = None,
                Some("slug") => filter.slug = Some(value.map(|slug| Slug::from_stored(&slug))),
                Some("tag") => {
                    tags += 1;
                    filter.tags.insert(value);
                }
                _ => {}
            }
        }
        if tags > MAX_TAGS {
            Err(HttpError::BadRequest("too many tags".into()))
        } else {
            Ok(filter)
        }
    }

    /// Returns the checks of a project that match, oldest first. The project has about `count`.
    fn matching_checks(&self, handle: &Handle, project: ProjectId, count: usize) -> Vec<Check> {
        if *self == Self::default() {
            // A list that grows fragments memory, and copying each check twice takes a tenth of the
            // time of a list.
            return handle.all_checks(project, count);
        }
        let mut checks = Vec::new();
        // Tags are compared without the lock on the state.
        let mut add_if_tagged = |check: Check| {
            if self.tags.iter().all(|tag| {
                tag.as_ref()
                    .is_some_and(|tag| check.settings.tags.contains(tag))
            }) {
                checks.push(check);
            }
        };
        match &self.slug {
            None => handle.for_each_check(project, add_if_tagged),
            Some(None) => {}
            Some(Some(slug)) => {
                let of_slug: Vec<Check> = handle.with_state(|state| {
                    state
                        .checks_by_slug(project, slug)
                        .iter()
                        .filter_map(|id| state.check(*id))
                        .cloned()
                        .collect()
                });
                of_slug.into_iter().for_each(&mut add_if_tagged);
            }
        }
        checks
    }
}

pub(super) async fn get(
    call: &ApiCall<'_>,
    check: impl Into<CheckRef>,
) -> Result<HttpReply, HttpError> {
    Ok(reply::json(check_json(
        call,
        &call.find_check(check).await?,
        CheckMembers::Read,
        call.now,
    )))
}

pub(super) async fn create(call: &mut ApiCall<'_>) -> Result<HttpReply, HttpError> {
    let CheckFields {
        edit,
        unique_on: unique,
    } = call.parse_fields(None).await?;
    let saved = check::create(call.handle(), call.caller.project, edit, unique).await?;
    let json = changed_check_json(call, &saved.check);
    Ok(if saved.is_new {
        reply::created_json(json)
    } else {
        reply::json(json)
    })
}

pub(super) async fn update(call: &mut ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let check = call.find_check(uuid).await?;
    let CheckFields { edit, .. } = call.parse_fields(Some(Arc::clone(&check.settings))).await?;
    let check = check::update(call.handle(), check.id, edit).await?;
    Ok(reply::json(changed_check_json(call, &check)))
}

pub(super) async fn pause(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let check = call.find_check(uuid).await?;
    let times = PauseInput {
        until: call.document.string("until")?,
        minutes: call.document.unsigned("minutes")?,
    };
    let check = check::pause(call.handle(), check.id, times).await?;
    Ok(reply::json(changed_check_json(call, &check)))
}

pub(super) async fn resume(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let check = call.find_check(uuid).await?;
    let check = check::resume(call.handle(), check.id).await?;
    Ok(reply::json(changed_check_json(call, &check)))
}

pub(super) async fn delete(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let check = call.find_check(uuid).await?;
    let check = check::delete(call.handle(), check.id).await?;
    Ok(reply::json(changed_check_json(call, &check)))
}

/// Returns a check as the reply to its change.
fn changed_check_json(call: &ApiCall<'_>, check: &Check) -> String {
    check_json(call, check, CheckMembers::Changed, call.handle().now())
}

fn check_json(call: &ApiCall<'_>, check: &Check, members: CheckMembers, now: Timestamp) -> String {
    let mut out = String::with_capacity(CHECK_BYTES);
    let channels = call
        .handle()
        .with_state(|state| project_channels(state, check.project));
    call.view()
        .write_check(&mut out, check, members, &channels, now);
    out
}

fn project_channels(state: &State, project: ProjectId) -> ChannelMap {
    state
        .project(project)
        .map(|project_state| project_state.channels.clone())
        .unwrap_or_default()
}
