//! The row of a ping, and the numbers that stand in it for kinds, schemes and methods.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::LARGE_BODY;
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, Method, Origin, Ping, Scheme};
use crate::store::StoreError;
use crate::store::record::{self, Record};

#[derive(Serialize, Deserialize)]
pub(super) struct PingRow<'a> {
    pub(super) check: u64,
    pub(super) n: u64,
    pub(super) previous: u64,
    pub(super) at: i64,
    /// 0 success, 1 start, 2 fail, 3 log, 4 ignored
    pub(super) kind: u8,
    /// 0 http, 1 https, 2 email
    pub(super) scheme: u8,
    /// 0 none, 1 GET, 2 HEAD, 3 POST, 4 PUT, 5 PATCH, 6 DELETE, 7 OPTIONS
    pub(super) method: u8,
    pub(super) remote_addr: Option<IpAddr>,
    pub(super) ua: &'a str,
    pub(super) rid: Option<Uuid>,
    pub(super) body_len: u32,
    /// Version 2 from here on.
    #[serde(default)]
    pub(super) exit: Option<u8>,
    /// The CRC-32 of the body; `None`: there is no body, or the row has version 1.
    #[serde(default)]
    pub(super) checksum: Option<u32>,
}

impl<'a> Record<'a> for PingRow<'a> {
    const TABLE: &'static str = "pings";
    const VERSION: u8 = 2;
}

/// The number that stands for a kind.
fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::Success => 0,
        Kind::Start => 1,
        Kind::Fail => 2,
        Kind::Log => 3,
        Kind::Ignored => 4,
    }
}

/// The kind that a number stands for.
fn kind_of(number: u8) -> Option<Kind> {
    Some(match number {
        0 => Kind::Success,
        1 => Kind::Start,
        2 => Kind::Fail,
        3 => Kind::Log,
        4 => Kind::Ignored,
        _ => return None,
    })
}

/// The number that stands for a scheme.
fn scheme_number(scheme: Scheme) -> u8 {
    match scheme {
        Scheme::Http => 0,
        Scheme::Https => 1,
        Scheme::Email => 2,
    }
}

/// The scheme that a number stands for.
fn scheme_of(number: u8) -> Option<Scheme> {
    Some(match number {
        0 => Scheme::Http,
        1 => Scheme::Https,
        2 => Scheme::Email,
        _ => return None,
    })
}

/// The number that stands for a method.
fn method_number(method: Method) -> u8 {
    match method {
        Method::None => 0,
        Method::Get => 1,
        Method::Head => 2,
        Method::Post => 3,
        Method::Put => 4,
        Method::Patch => 5,
        Method::Delete => 6,
        Method::Options => 7,
    }
}

/// The method that a number stands for.
fn method_of(number: u8) -> Option<Method> {
    Some(match number {
        0 => Method::None,
        1 => Method::Get,
        2 => Method::Head,
        3 => Method::Post,
        4 => Method::Put,
        5 => Method::Patch,
        6 => Method::Delete,
        7 => Method::Options,
        _ => return None,
    })
}

impl<'a> PingRow<'a> {
    pub(super) fn new(ping: &'a Ping, body: &[u8]) -> Self {
        Self {
            check: ping.check.0,
            n: ping.n,
            previous: ping.previous.0,
            at: ping.at.micros(),
            kind: kind_number(ping.kind),
            scheme: scheme_number(ping.origin.scheme),
            method: method_number(ping.origin.method),
            remote_addr: ping.origin.remote_addr,
            ua: &ping.origin.ua,
            rid: ping.rid,
            body_len: ping.body_len,
            exit: ping.exit,
            checksum: (!body.is_empty()).then(|| crc32fast::hash(body)),
        }
    }
}

impl PingRow<'_> {
    pub(super) fn read(bytes: &[u8]) -> Result<Ping, StoreError> {
        let row: PingRow<'_> = record::decode(bytes)?;
        let unknown = |field, number| record::corrupt::<PingRow<'_>>(&format_args!("{field} {number}"));
        Ok(Ping {
            check: CheckId(row.check),
            n: row.n,
            previous: Arrival(row.previous),
            at: Moment::from_micros(row.at),
            kind: kind_of(row.kind).ok_or_else(|| unknown("kind", row.kind))?,
            origin: Origin {
                scheme: scheme_of(row.scheme).ok_or_else(|| unknown("scheme", row.scheme))?,
                method: method_of(row.method).ok_or_else(|| unknown("method", row.method))?,
                remote_addr: row.remote_addr,
                ua: row.ua.into(),
            },
            rid: row.rid,
            exit: row.exit,
            body_len: row.body_len,
        })
    }

    /// The body as it was logged, from its row, if there is one. `None`: it was empty.
    pub(super) fn body(&self, row: Option<&[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        let body = row.unwrap_or_default();
        if body.len() != self.body_len as usize || self.checksum.is_some_and(|checksum| checksum != crc32fast::hash(body)) {
            return Err(record::corrupt::<Self>(&format_args!("the body of ping {} has been altered", self.n)));
        }
        Ok((!body.is_empty()).then(|| copied(body)))
    }
}

/// Bytes of a place that every allocator gives back to the system at once. glibc's keeps places of up to 32 MiB for later once it has
/// seen one go. The system gives memory for as much of a place as is written.
const GIVEN_BACK: usize = 33 << 20;

/// A copy of a body.
fn copied(body: &[u8]) -> Vec<u8> {
    let mut copy = Vec::new();
    if body.len() > LARGE_BODY {
        // Without it, the copy has the place that it needs.
        let _ = copy.try_reserve_exact(body.len().max(GIVEN_BACK));
    }
    copy.extend_from_slice(body);
    copy
}

/// The ping in a row.
pub(in crate::store) fn read(bytes: &[u8]) -> Result<Ping, StoreError> {
    PingRow::read(bytes)
}
