//! Imported objects as JSON rows. One side writes domain types, the other side reads them into the
//! same types.

mod check;
mod items;
mod key;
mod status_page;
mod user;

use std::net::IpAddr;
use std::num::NonZeroU8;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::declared::ConfigSource;
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::ids::CheckId;
use crate::domain::import_item::{NumberedFlip, NumberedPing};
use crate::domain::ping::{PingKind, PingMethod, PingOrigin, PingScheme, truncate_user_agent};
use crate::domain::status::Status;
use crate::domain::timestamp::Timestamp;
pub use check::ImportCheckRow;
pub use items::{ImportItemRow, WindowTimesRow};
pub use key::KeySecretRow;
pub use status_page::StatusPageRow;
pub use user::ImportUserRow;

/// Encodes bytes in base64.
pub fn encode_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a text of [`encode_bytes`] into `N` bytes.
///
/// # Errors
/// Returns an error if the text is not base64 or has another length.
pub fn decode_bytes<const N: usize>(text: &str) -> Result<[u8; N], &'static str> {
    STANDARD
        .decode(text)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("a hash or secret is not valid base64 of the right length")
}

fn source_text(source: Option<&ConfigSource>) -> Option<String> {
    source.map(|source| source.as_str().into())
}

fn parse_source(text: Option<&str>) -> Result<Option<ConfigSource>, &'static str> {
    text.map(ConfigSource::parse).transpose()
}

/// A ping of a check that is being imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportPingRow {
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
    /// Bytes in base64.
    body: String,
}

impl From<NumberedPing> for ImportPingRow {
    fn from(ping: NumberedPing) -> Self {
        Self {
            check: ping.check.0,
            n: ping.n,
            at: ping.at.micros(),
            kind: ping.kind.name().into(),
            scheme: ping.origin.scheme.name().into(),
            method: ping.origin.method.name().into(),
            addr: ping.origin.remote_addr,
            ua: ping.origin.user_agent.into(),
            rid: ping.rid,
            exit: ping.exit_status,
            body: STANDARD.encode(&ping.body),
        }
    }
}

impl ImportPingRow {
    /// Converts the row to a ping.
    ///
    /// # Errors
    /// Returns an error if a word is unknown or the body is not base64.
    pub fn into_ping(self) -> Result<NumberedPing, String> {
        let kinds = [
            PingKind::Success,
            PingKind::Start,
            PingKind::Fail,
            PingKind::Log,
            PingKind::Ignored,
        ];
        let kind = kinds
            .into_iter()
            .find(|kind| kind.name() == self.kind)
            .ok_or("unknown kind of ping")?;
        let schemes = [PingScheme::Http, PingScheme::Https, PingScheme::Email];
        let scheme = schemes
            .into_iter()
            .find(|scheme| scheme.name() == self.scheme)
            .ok_or("unknown scheme")?;
        let method = PingMethod::ALL
            .into_iter()
            .find(|method| method.name() == self.method)
            .ok_or("unknown method")?;
        let body = STANDARD
            .decode(self.body)
            .map_err(|_| "a body is not valid base64")?
            .into();
        let origin = PingOrigin {
            scheme,
            method,
            remote_addr: self.addr,
            user_agent: truncate_user_agent(&self.ua),
        };
        let check = CheckId(self.check);
        let at = Timestamp::from_micros(self.at);
        Ok(NumberedPing {
            check,
            n: self.n,
            at,
            kind,
            origin,
            rid: self.rid,
            exit_status: self.exit,
            body,
        })
    }
}

/// A flip of a check that is being imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportFlipRow {
    check: u64,
    at: i64,
    from: String,
    to: String,
    /// A word, or an exit status; empty if unknown.
    cause: FlipCauseRow,
    /// Time at which the ping was expected or the run began; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    awaited: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FlipCauseRow {
    Exit(NonZeroU8),
    Word(String),
}

/// Words for causes.
const CAUSE_NAMES: [(FlipCause, &str); 10] = [
    (FlipCause::Unknown, ""),
    (FlipCause::MissedPing, "late"),
    (FlipCause::Overrun, "overrun"),
    (FlipCause::SettingsChanged, "edited"),
    (FlipCause::Fail, "fail"),
    (FlipCause::Keyword, "keyword"),
    (FlipCause::NoKeyword, "no-keyword"),
    (FlipCause::Success, "success"),
    (FlipCause::PausedOrResumed, "operator"),
    (FlipCause::PauseEnded, "pause-ended"),
];

impl From<NumberedFlip> for ImportFlipRow {
    fn from(NumberedFlip { check, flip }: NumberedFlip) -> Self {
        let word = |cause| {
            CAUSE_NAMES
                .into_iter()
                .find(|(known, _)| *known == cause)
                .map_or("", |(_, word)| word)
        };
        let cause = match flip.cause {
            FlipCause::ExitStatus(status) => FlipCauseRow::Exit(status),
            cause => FlipCauseRow::Word(word(cause).into()),
        };
        Self {
            check: check.0,
            at: flip.at.micros(),
            from: flip.from.name().into(),
            to: flip.to.name().into(),
            cause,
            awaited: flip.awaited_since.map(Timestamp::micros),
        }
    }
}

impl ImportFlipRow {
    /// Converts the row to a flip.
    ///
    /// # Errors
    /// Returns an error if a word is unknown.
    pub fn into_flip(self) -> Result<NumberedFlip, String> {
        let cause = match self.cause {
            FlipCauseRow::Exit(status) => FlipCause::ExitStatus(status),
            FlipCauseRow::Word(word) => {
                CAUSE_NAMES
                    .into_iter()
                    .find(|(_, known)| *known == word)
                    .ok_or("unknown cause")?
                    .0
            }
        };
        let at = Timestamp::from_micros(self.at);
        let awaited = self.awaited.map(Timestamp::from_micros);
        let flip = Flip {
            at,
            from: parse_status(&self.from)?,
            to: parse_status(&self.to)?,
            cause,
            awaited_since: awaited,
        };
        Ok(NumberedFlip {
            check: CheckId(self.check),
            flip,
        })
    }
}

fn parse_status(word: &str) -> Result<Status, String> {
    let all = [Status::New, Status::Up, Status::Down, Status::Paused];
    all.into_iter()
        .find(|status| status.name() == word)
        .ok_or_else(|| "unknown status".into())
}
