//! Entity tags of lists (RFC 9110, section 8.8.3). If nothing has changed, a client that polls gets
//! a 304, and the list is not written.
//!
//! A list changes with the state, and a version counts the changes of the state. It also changes
//! with time, but only at times that are known when it is written. So a tag holds the version and
//! the time range in which the list stays the same. Validating a tag examines no check. A tag is
//! valid for one URL and one key only.

use hyper::header::{ETAG, HeaderMap};

use sha2::{Digest as _, Sha256};

use super::{ApiCall, request_path};
use crate::domain::timestamp::Timestamp;
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request::known_tags;
use crate::http::common::response_body::ResponseBody;

/// A list at the time of the call.
pub(crate) struct TaggedList {
    pub(crate) body: ResponseBody,
    /// Time at which it changes without an event, if any.
    pub(crate) valid_until: Option<Timestamp>,
}

/// Responds with a list and its tag. If the client has the current version already, `list` is not
/// started.
pub(super) async fn tagged_reply(
    call: &ApiCall<'_>,
    list: impl Future<Output = Result<TaggedList, HttpError>>,
) -> Result<HttpReply, HttpError> {
    // Computed before the list is read. After a change in between, the tag is older than the list,
    // never newer.
    let prefix = EtagPrefix::new(call)?;
    if let Some(tag) = prefix.current(&call.parts.headers, call.now) {
        return Ok(reply::not_modified(tag));
    }
    let TaggedList {
        body,
        valid_until: until,
    } = list.await?;
    let mut reply = reply::json(body);
    // A long list is read in parts. If something changed between them, it matches no actual state.
    if prefix == EtagPrefix::new(call)? {
        reply::set_header(&mut reply, ETAG, &prefix.tag(call.now, until));
    }
    Ok(reply)
}

/// Bytes of the hash of the URL. If two URLs have the same hash, only a client that constructed
/// them can get a wrong 304.
const ADDRESS_HASH_BYTES: usize = 8;

/// Part of a tag that depends on the state, the caller's key and the URL.
#[derive(PartialEq, Eq)]
struct EtagPrefix(String);

impl EtagPrefix {
    fn new(call: &ApiCall<'_>) -> Result<Self, HttpError> {
        let address = Sha256::digest(request_path(call.server, &call.endpoint, &call.parts.uri));
        let address = address
            .iter()
            .take(ADDRESS_HASH_BYTES)
            .fold(0, |address: u64, byte| address << 8 | u64::from(*byte));
        call.handle().with_state(|state| {
            // The key may have been revoked with its project.
            let version = state
                .project(call.caller.project)
                .ok_or(HttpError::WrongKey)?
                .version;
            Ok(Self(format!(
                "{:x}-{version:x}-{:x}-{address:x}",
                state.epoch, call.caller.key.0
            )))
        })
    }

    /// Returns the tag of a list written at `from` that does not change by time alone before
    /// `until`.
    fn tag(&self, from: Timestamp, until: Option<Timestamp>) -> String {
        let until = until.map_or(i64::MAX, Timestamp::micros);
        format!("\"{}-{:x}-{until:x}\"", self.0, from.micros())
    }

    /// Returns the tag in `If-None-Match` that is still valid at `now`, if any.
    fn current<'h>(&self, headers: &'h HeaderMap, now: Timestamp) -> Option<&'h str> {
        known_tags(headers).find(|tag| self.is_valid_at(tag, now.micros()).unwrap_or(false))
    }

    fn is_valid_at(&self, tag: &str, now: i64) -> Option<bool> {
        let range = tag
            .strip_prefix('"')?
            .strip_suffix('"')?
            .strip_prefix(&*self.0)?
            .strip_prefix('-')?;
        let (from, until) = range.split_once('-')?;
        let parse_micros = |text| i64::from_str_radix(text, 16).ok();
        Some((parse_micros(from)?..parse_micros(until)?).contains(&now))
    }
}
