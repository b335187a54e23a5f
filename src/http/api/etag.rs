//! Entity tags of lists (RFC 9110, section 8.8.3): a client that polls is told that nothing has changed without the list being written.
//!
//! A list changes with the state, and a version counts the changes of the state. It also changes with time, but only at moments that are
//! known when it is written. So a tag holds the version and the span of time in which the list stays the same. Checking a tag needs no
//! look at any check. A tag belongs to one address and one key: of any other it says nothing.

use hyper::header::{ETAG, HeaderMap, IF_NONE_MATCH};

use sha2::{Digest as _, Sha256};

use super::{Call, location};
use crate::domain::moment::Moment;
use crate::wire::outgoing::Content;
use crate::wire::reply::{self, Fault, Reply};

/// A list as it is at the moment of the call.
pub(crate) struct List {
    pub(crate) body: Content,
    /// When it will change by time alone, if ever.
    pub(crate) until: Option<Moment>,
}

/// Answers with a list and its tag, unless the client has it already: then `list` is not even begun.
pub(super) async fn tagged(call: &Call<'_>, list: impl Future<Output = Result<List, Fault>>) -> Result<Reply, Fault> {
    // Taken before the list is read. A change in between makes the tag too old, never too new.
    let seal = Seal::new(call)?;
    if let Some(tag) = seal.current(&call.head.headers, call.now) {
        return Ok(reply::not_modified(tag));
    }
    let List { body, until } = list.await?;
    let mut reply = reply::json(body);
    // A long list is read in parts. If something has changed between them, it is no state that ever was.
    if seal == Seal::new(call)? {
        reply::set(&mut reply, ETAG, &seal.tag(call.now, until));
    }
    Ok(reply)
}

/// Bytes of an address's hash. A client could only deceive itself by two addresses with the same one.
const ADDRESS_BYTES: usize = 8;

/// The part of a tag that depends on the state, the caller's key and the address.
#[derive(PartialEq, Eq)]
struct Seal(String);

impl Seal {
    fn new(call: &Call<'_>) -> Result<Self, Fault> {
        let address = Sha256::digest(location(call.door, call.address.version, call.address.resource, &call.head.uri));
        let address = address.iter().take(ADDRESS_BYTES).fold(0, |address: u64, byte| address << 8 | u64::from(*byte));
        call.handle().with_state(|state| {
            // The key may have been revoked with its project.
            let version = state.project(call.caller.project).ok_or(Fault::WrongKey)?.version;
            Ok(Self(format!("{:x}-{version:x}-{:x}-{address:x}", state.epoch, call.caller.key.0)))
        })
    }

    /// The tag of a list written at `from` that time alone will not change before `until`.
    fn tag(&self, from: Moment, until: Option<Moment>) -> String {
        let until = until.map_or(i64::MAX, Moment::micros);
        format!("\"{}-{:x}-{until:x}\"", self.0, from.micros())
    }

    /// The tag among those that the client has (`If-None-Match`) which is still good at `now`.
    fn current<'h>(&self, headers: &'h HeaderMap, now: Moment) -> Option<&'h str> {
        let values = headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
        let tags = values.flat_map(|value| value.split(',')).map(str::trim);
        // A proxy that compresses makes tags weak. If-None-Match compares weakly anyway.
        let mut tags = tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag));
        tags.find(|tag| self.holds(tag, now.micros()).unwrap_or(false))
    }

    fn holds(&self, tag: &str, now: i64) -> Option<bool> {
        let stretch = tag.strip_prefix('"')?.strip_suffix('"')?.strip_prefix(&*self.0)?.strip_prefix('-')?;
        let (from, until) = stretch.split_once('-')?;
        let moment = |text| i64::from_str_radix(text, 16).ok();
        Some((moment(from)?..moment(until)?).contains(&now))
    }
}
