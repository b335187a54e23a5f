//! What is imported, as rows in JSON: typed things are written, and read into the same types at the other end.

mod check;
mod objects;
mod user;

use std::net::IpAddr;
use std::num::NonZeroU8;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::flip::{Cause, Flip};
use crate::domain::ids::CheckId;
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, Method, Origin, Scheme, kept_ua};
use crate::domain::staged::{StagedFlip, StagedPing};
use crate::domain::status::Status;
use crate::domain::wanted::Source;
pub use check::StagedCheckRow;
pub use objects::{SecretRow, StagedRow, TimesRow};
pub use user::StagedUserRow;

/// Bytes as a text.
pub fn text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// So many bytes, of which [`text`] made a text.
///
/// # Errors
/// When it is no such text.
pub fn bytes<const N: usize>(text: &str) -> Result<[u8; N], &'static str> {
    STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or("a hash or a secret is not as long as it should be in base64")
}

fn managed(source: Option<&Source>) -> Option<String> {
    source.map(|source| source.as_str().into())
}

fn source(text: Option<&str>) -> Result<Option<Source>, &'static str> {
    text.map(Source::parse).transpose()
}

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
        let origin = Origin { scheme, method, remote_addr: self.addr, ua: kept_ua(&self.ua) };
        let (check, at) = (CheckId(self.check), Moment::from_micros(self.at));
        Ok(StagedPing { check, n: self.n, at, kind, origin, rid: self.rid, exit: self.exit, body })
    }
}

/// A flip of a check that is being imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagedFlipRow {
    check: u64,
    at: i64,
    from: String,
    to: String,
    /// A word, or an exit status; nothing if it is unknown.
    cause: CauseRow,
    /// When the ping was expected, or when the run began; not there if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    awaited: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CauseRow {
    Exit(NonZeroU8),
    Word(String),
}

/// The words for causes.
const CAUSES: [(Cause, &str); 9] = [
    (Cause::Unknown, ""),
    (Cause::Late, "late"),
    (Cause::Overrun, "overrun"),
    (Cause::Edited, "edited"),
    (Cause::Fail, "fail"),
    (Cause::Keyword, "keyword"),
    (Cause::NoKeyword, "no-keyword"),
    (Cause::Success, "success"),
    (Cause::Operator, "operator"),
];

impl From<StagedFlip> for StagedFlipRow {
    fn from(StagedFlip { check, flip }: StagedFlip) -> Self {
        let word = |cause| CAUSES.into_iter().find(|(known, _)| *known == cause).map_or("", |(_, word)| word);
        let cause = match flip.cause {
            Cause::Exit(status) => CauseRow::Exit(status),
            cause => CauseRow::Word(word(cause).into()),
        };
        Self {
            check: check.0,
            at: flip.at.micros(),
            from: flip.from.name().into(),
            to: flip.to.name().into(),
            cause,
            awaited: flip.awaited.map(Moment::micros),
        }
    }
}

impl StagedFlipRow {
    /// The flip, or what is wrong with it.
    ///
    /// # Errors
    /// When a word is unknown.
    pub fn flip(self) -> Result<StagedFlip, String> {
        let cause = match self.cause {
            CauseRow::Exit(status) => Cause::Exit(status),
            CauseRow::Word(word) => CAUSES.into_iter().find(|(_, known)| *known == word).ok_or("no such cause")?.0,
        };
        let (at, awaited) = (Moment::from_micros(self.at), self.awaited.map(Moment::from_micros));
        let flip = Flip { at, from: status(&self.from)?, to: status(&self.to)?, cause, awaited };
        Ok(StagedFlip { check: CheckId(self.check), flip })
    }
}

fn status(word: &str) -> Result<Status, String> {
    let all = [Status::New, Status::Up, Status::Down, Status::Paused];
    all.into_iter().find(|status| status.name() == word).ok_or_else(|| "no such status".into())
}
