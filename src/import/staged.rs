//! What is imported, as rows in JSON: typed things are written, and read into the same types at the other end.

mod objects;

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::flip::{Cause, Flip};
use crate::domain::ids::CheckId;
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, Method, Origin, Scheme};
use crate::domain::staged::{StagedFlip, StagedPing};
use crate::domain::status::Status;
pub use objects::{SecretRow, StagedCheckRow, StagedRow, StagedUserRow};

/// A ping of a check that is being imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagedPingRow {
    check: u64,
    n: u64,
    at: i64,
    kind: String,
    scheme: String,
    method: String,
    addr: Option<IpAddr>,
    ua: String,
    rid: Option<Uuid>,
    exit: Option<u8>,
    /// In base64.
    body: String,
}

impl From<StagedPing> for StagedPingRow {
    fn from(ping: StagedPing) -> Self {
        Self {
            check: ping.check.0,
            n: ping.n,
            at: ping.at.micros(),
            kind: ping.kind.name().into(),
            scheme: ping.origin.scheme.name().into(),
            method: ping.origin.method.name().into(),
            addr: ping.origin.remote_addr,
            ua: ping.origin.ua.into(),
            rid: ping.rid,
            exit: ping.exit,
            body: STANDARD.encode(&ping.body),
        }
    }
}

impl StagedPingRow {
    /// The ping, or what is wrong with it.
    ///
    /// # Errors
    /// When a word is unknown, or the body is no base64.
    pub fn ping(self) -> Result<StagedPing, String> {
        let kinds = [Kind::Success, Kind::Start, Kind::Fail, Kind::Log, Kind::Ignored];
        let kind = kinds.into_iter().find(|kind| kind.name() == self.kind).ok_or("no such kind of ping")?;
        let schemes = [Scheme::Http, Scheme::Https, Scheme::Email];
        let scheme = schemes.into_iter().find(|scheme| scheme.name() == self.scheme).ok_or("no such scheme")?;
        let method = Method::ALL.into_iter().find(|method| method.name() == self.method).ok_or("no such method")?;
        let body = STANDARD.decode(self.body).map_err(|_| "a body is no base64")?.into();
        let origin = Origin { scheme, method, remote_addr: self.addr, ua: self.ua.into() };
        let (check, at) = (CheckId(self.check), Moment::from_micros(self.at));
        Ok(StagedPing { check, n: self.n, at, kind, origin, rid: self.rid, exit: self.exit, body })
    }
}

/// A flip of a check that is being imported: its number, when, from, to, and `late`, `fail` or nothing as the cause.
#[derive(Serialize, Deserialize)]
pub struct StagedFlipRow(u64, i64, String, String, String);

impl From<StagedFlip> for StagedFlipRow {
    fn from(StagedFlip { check, flip }: StagedFlip) -> Self {
        let cause = match flip.cause {
            Cause::Late => "late",
            Cause::Fail => "fail",
            // Another program knows no more.
            _ => "",
        };
        Self(check.0, flip.at.micros(), flip.from.name().into(), flip.to.name().into(), cause.into())
    }
}

impl StagedFlipRow {
    /// The flip, or what is wrong with it.
    ///
    /// # Errors
    /// When a word is unknown.
    pub fn flip(self) -> Result<StagedFlip, String> {
        let Self(check, at, from, to, cause) = self;
        let cause = match cause.as_str() {
            "late" => Cause::Late,
            "fail" => Cause::Fail,
            "" => Cause::Unknown,
            _ => return Err("no such cause".into()),
        };
        let flip = Flip { at: Moment::from_micros(at), from: status(&from)?, to: status(&to)?, cause };
        Ok(StagedFlip { check: CheckId(check), flip })
    }
}

fn status(word: &str) -> Result<Status, String> {
    let all = [Status::New, Status::Up, Status::Down, Status::Paused];
    all.into_iter().find(|status| status.name() == word).ok_or_else(|| "no such status".into())
}
