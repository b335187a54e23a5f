//! `/badges/`: the badge URLs of every tag of a project, and of the whole project.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::Call;
use super::etag::List;
use crate::http::badge;
use crate::http::reply::Fault;

/// The entry of the whole project; a tag of this name has none of its own.
const WHOLE_PROJECT: &str = "*";

pub(super) async fn list(call: &Call<'_>) -> Result<List, Fault> {
    let (handle, project, base_url) = (call.handle(), call.caller.project, call.view().base_url);
    // The key may have been revoked with its project.
    let badge_key = handle.state().project(project).map(|project_state| project_state.project.badge_key.clone()).ok_or(Fault::WrongKey)?;
    let mut tags = BTreeSet::from([WHOLE_PROJECT.to_owned()]);
    handle.each_check(project, |check| {
        for tag in check.settings.tags.iter() {
            if !tags.contains(tag) {
                tags.insert(tag.to_owned());
            }
        }
    });
    let secret = handle.badge_secret().ok_or(Fault::Unavailable)?;
    let links = |tag: &str| badge::links(base_url, &secret, &badge_key, Some(tag).filter(|tag| *tag != WHOLE_PROJECT));
    let badges: BTreeMap<_, _> = tags.iter().map(|tag| (tag, BTreeMap::from(links(tag)))).collect();
    Ok(List { body: json!({ "badges": badges }).to_string(), until: None })
}
