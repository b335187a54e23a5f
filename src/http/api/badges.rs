//! `/badges/`: badge URLs of every tag of a project, and of the whole project.

use std::collections::BTreeSet;

use super::ApiCall;
use super::etag::{TaggedList, tagged_reply};
use super::json::{JsonObject, write_string};
use crate::domain::ids::ProjectId;
use crate::engine::Handle;
use crate::http::common::badge_link::badge_urls;
use crate::http::common::reply::{HttpError, HttpReply};
use crate::http::common::response_body::CHUNK_BYTES;

/// Name of the entry of the whole project. A tag of this name has no entry of its own.
const WHOLE_PROJECT: &str = "*";

pub(super) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    tagged_reply(call, read_list(call)).await
}

async fn read_list(call: &ApiCall<'_>) -> Result<TaggedList, HttpError> {
    let handle = call.handle().clone();
    let project = call.caller.project;
    let base_url = call.view().base_url;
    // The key may have been revoked with its project.
    let badge_key = handle.with_state(|state| {
        state
            .project(project)
            .map(|project_state| project_state.project.badge_key.clone())
            .ok_or(HttpError::WrongKey)
    })?;
    let secret = handle.badge_secret().ok_or(HttpError::Unavailable)?;
    let tags = call
        .response_writer()
        .run_blocking(move || badge_tags(&handle, project))
        .await?;
    let mut tags = tags.into_iter();
    let mut has_begun = false;
    let write = move |out: &mut String| {
        if !has_begun {
            out.push_str("{\"badges\":{");
        }
        for tag in tags.by_ref() {
            if std::mem::replace(&mut has_begun, true) {
                out.push(',');
            }
            write_string(out, &tag);
            out.push(':');
            let mut object = JsonObject::begin(out);
            let mut urls = badge_urls(
                base_url.as_str(),
                &secret,
                &badge_key,
                Some(tag.as_str()).filter(|tag| *tag != WHOLE_PROJECT),
            );
            urls.sort_unstable();
            for (name, url) in urls {
                object.text(name, &url);
            }
            object.end();
            if out.len() >= CHUNK_BYTES {
                return Ok(true);
            }
        }
        out.push_str("}}");
        Ok(false)
    };
    Ok(TaggedList {
        body: call.response_writer().write_chunked(write).await?,
        valid_until: None,
    })
}

/// Returns every tag of a project, and the name of the whole project, sorted.
fn badge_tags(handle: &Handle, project: ProjectId) -> BTreeSet<String> {
    let mut tags = BTreeSet::from([WHOLE_PROJECT.to_owned()]);
    handle.for_each_check(project, |check| {
        for tag in check.settings.tags.iter() {
            if !tags.contains(tag) {
                tags.insert(tag.to_owned());
            }
        }
    });
    tags
}
