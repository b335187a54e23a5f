//! Row of a ping, and the stored numbers of kinds, schemes and methods.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::OWN_PAGE_BYTES;
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::ping::{
    Ping, PingKind, PingMethod, PingOrigin, PingScheme, excess_body_bytes_of,
};
use crate::domain::timestamp::Timestamp;
use crate::store::StoreError;
use crate::store::record::{self, Record};

#[derive(Serialize, Deserialize)]
pub(super) struct PingRecord<'a> {
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
    /// Since version 2.
    #[serde(default)]
    pub(super) exit: Option<u8>,
    /// CRC-32 of the body; `None` if there is no body or the row has version 1.
    #[serde(default)]
    pub(super) checksum: Option<u32>,
    /// Since version 3. Upload that is the body, and the number of pings that share it; `None` if
    /// the body has a row of its own.
    #[serde(default)]
    pub(super) upload: Option<(u64, u32)>,
}

impl<'a> Record<'a> for PingRecord<'a> {
    const TABLE: &'static str = "pings";
    const VERSION: u8 = 3;
}

/// Returns the stored number of a kind.
fn kind_number(kind: PingKind) -> u8 {
    match kind {
        PingKind::Success => 0,
        PingKind::Start => 1,
        PingKind::Fail => 2,
        PingKind::Log => 3,
        PingKind::Ignored => 4,
    }
}

/// Returns the kind of a stored number.
fn kind_from_number(number: u8) -> Option<PingKind> {
    Some(match number {
        0 => PingKind::Success,
        1 => PingKind::Start,
        2 => PingKind::Fail,
        3 => PingKind::Log,
        4 => PingKind::Ignored,
        _ => return None,
    })
}

/// Returns the stored number of a scheme.
fn scheme_number(scheme: PingScheme) -> u8 {
    match scheme {
        PingScheme::Http => 0,
        PingScheme::Https => 1,
        PingScheme::Email => 2,
    }
}

/// Returns the scheme of a stored number.
fn scheme_from_number(number: u8) -> Option<PingScheme> {
    Some(match number {
        0 => PingScheme::Http,
        1 => PingScheme::Https,
        2 => PingScheme::Email,
        _ => return None,
    })
}

/// Returns the stored number of a method.
fn method_number(method: PingMethod) -> u8 {
    match method {
        PingMethod::None => 0,
        PingMethod::Get => 1,
        PingMethod::Head => 2,
        PingMethod::Post => 3,
        PingMethod::Put => 4,
        PingMethod::Patch => 5,
        PingMethod::Delete => 6,
        PingMethod::Options => 7,
    }
}

/// Returns the method of a stored number.
fn method_from_number(number: u8) -> Option<PingMethod> {
    Some(match number {
        0 => PingMethod::None,
        1 => PingMethod::Get,
        2 => PingMethod::Head,
        3 => PingMethod::Post,
        4 => PingMethod::Put,
        5 => PingMethod::Patch,
        6 => PingMethod::Delete,
        7 => PingMethod::Options,
        _ => return None,
    })
}

impl<'a> PingRecord<'a> {
    /// Returns the row of a ping. `upload` is the body of every ping that has sharers. Its checksum
    /// is computed once and cached in `upload_checksum`.
    pub(super) fn new(
        ping: &'a Ping,
        body: &[u8],
        upload: Option<u64>,
        upload_checksum: &mut Option<u32>,
    ) -> Self {
        let upload = upload.filter(|_| ping.body_sharers > 0);
        let checksum = || {
            if upload.is_some() {
                *upload_checksum.get_or_insert_with(|| crc32fast::hash(body))
            } else {
                crc32fast::hash(body)
            }
        };
        Self {
            check: ping.check.0,
            n: ping.n,
            previous: ping.previous.0,
            at: ping.at.micros(),
            kind: kind_number(ping.kind),
            scheme: scheme_number(ping.origin.scheme),
            method: method_number(ping.origin.method),
            remote_addr: ping.origin.remote_addr,
            ua: &ping.origin.user_agent,
            rid: ping.rid,
            body_len: ping.body_len,
            exit: ping.exit_status,
            checksum: (!body.is_empty()).then(checksum),
            upload: upload.map(|upload| (upload, ping.body_sharers)),
        }
    }
}

impl PingRecord<'_> {
    pub(super) fn read(bytes: &[u8]) -> Result<Ping, StoreError> {
        let row: PingRecord<'_> = record::decode(bytes)?;
        let unknown = |field, number| {
            record::invalid_row::<PingRecord<'_>>(&format_args!("{field} {number}"))
        };
        Ok(Ping {
            check: CheckId(row.check),
            n: row.n,
            previous: Arrival(row.previous),
            at: Timestamp::from_micros(row.at),
            kind: kind_from_number(row.kind).ok_or_else(|| unknown("kind", row.kind))?,
            origin: PingOrigin {
                scheme: scheme_from_number(row.scheme)
                    .ok_or_else(|| unknown("scheme", row.scheme))?,
                method: method_from_number(row.method)
                    .ok_or_else(|| unknown("method", row.method))?,
                remote_addr: row.remote_addr,
                user_agent: row.ua.into(),
            },
            rid: row.rid,
            exit_status: row.exit,
            body_len: row.body_len,
            body_sharers: row.sharers(),
        })
    }

    /// Number of pings that share an upload as their body; 0 if the body has a row of its own.
    pub(super) fn sharers(&self) -> u32 {
        self.upload.map_or(0, |(_, sharers)| sharers)
    }

    /// Bytes of the body, or of this ping's share of an upload, beyond the first 1,024.
    pub(super) fn excess_bytes(&self) -> u64 {
        excess_body_bytes_of(self.body_len.into(), self.sharers())
    }

    /// True if the body has a row of its own.
    pub(super) fn has_own_body(&self) -> bool {
        self.body_len > 0 && self.upload.is_none()
    }

    /// Returns the body as it was logged: assembled from chunks by `read_chunks`, or copied from
    /// its own row by `read_row`. `None` if it is empty.
    pub(super) fn body<'b>(
        &self,
        read_chunks: impl FnOnce(u64, usize, &mut Vec<u8>) -> Result<(), StoreError>,
        read_row: impl FnOnce() -> Result<Option<redb::AccessGuard<'b, &'static [u8]>>, StoreError>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut body = allocate_body(self.body_len as usize);
        match self.upload {
            Some((upload, _)) => read_chunks(upload, self.body_len as usize, &mut body)?,
            None => {
                if let Some(row) = read_row()? {
                    body.extend_from_slice(row.value());
                }
            }
        }
        if body.len() != self.body_len as usize
            || self
                .checksum
                .is_some_and(|checksum| checksum != crc32fast::hash(&body))
        {
            return Err(record::invalid_row::<Self>(&format_args!(
                "the body of ping {} has been altered",
                self.n
            )));
        }
        Ok((!body.is_empty()).then_some(body))
    }
}

/// Size in bytes of an allocation that every allocator returns to the system at once. glibc caches
/// allocations of up to 32 MiB after it has freed one. The system provides memory only for the part
/// that is written.
const RELEASED_ALLOCATION_BYTES: usize = 33 << 20;

/// Returns a buffer for a body of this length. A damaged row may claim any length: the buffer is
/// then smaller and grows with the data that exists.
fn allocate_body(len: usize) -> Vec<u8> {
    let mut body = Vec::new();
    if len > OWN_PAGE_BYTES {
        let _ = body
            .try_reserve_exact(len.clamp(RELEASED_ALLOCATION_BYTES, 2 * RELEASED_ALLOCATION_BYTES));
    }
    body
}

/// Reads the ping in a row.
pub(in crate::store) fn read_ping(bytes: &[u8]) -> Result<Ping, StoreError> {
    PingRecord::read(bytes)
}

/// Properties of a body according to the row of its ping.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct LoggedBody {
    check: CheckId,
    n: u64,
    len: u32,
    checksum: Option<u32>,
    /// `None` if the body has a row of its own.
    pub(in crate::store) upload: Option<u64>,
}

impl LoggedBody {
    /// Reads the ping in a row, and its body properties if it has a body.
    pub(in crate::store) fn from_row(bytes: &[u8]) -> Result<(Ping, Option<Self>), StoreError> {
        let ping = PingRecord::read(bytes)?;
        let row: PingRecord<'_> = record::decode(bytes)?;
        let upload = row.upload.map(|(upload, _)| upload);
        let body = Self {
            check: ping.check,
            n: ping.n,
            len: row.body_len,
            checksum: row.checksum,
            upload,
        };
        Ok((ping, (row.body_len > 0).then_some(body)))
    }

    /// Verifies the length and the CRC-32 of the body.
    pub(in crate::store) fn verify(&self, len: usize, found: u32) -> Result<(), StoreError> {
        if len == self.len as usize && self.checksum.is_none_or(|checksum| checksum == found) {
            return Ok(());
        }
        Err(record::invalid_row::<PingRecord<'_>>(&format_args!(
            "the body of ping {} of check {} has been altered",
            self.n, self.check.0
        )))
    }

    /// Message that the body is missing.
    pub(in crate::store) fn missing_message(&self) -> String {
        format!(
            "the body of ping {} of check {} is missing",
            self.n, self.check.0
        )
    }
}
