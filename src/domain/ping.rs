//! Logged pings, and the pairing of completions with starts.

use std::net::IpAddr;
use std::num::NonZeroU8;

use uuid::Uuid;

use super::flip::FlipCause;
use super::ids::{Arrival, CheckId};
use super::timestamp::{MICROS_PER_SEC, Timestamp};

/// Kind of a logged ping (`type` in the API).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingKind {
    /// The job is done.
    Success,
    /// The job has begun.
    Start,
    /// The job has failed.
    Fail,
    /// Log message that changes nothing.
    Log,
    /// Ignored: method not allowed, no keyword matched, or paused with `manual_resume`.
    Ignored,
}

impl PingKind {
    /// Value of `type` in the ping list.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Start => "start",
            Self::Fail => "fail",
            Self::Log => "log",
            Self::Ignored => "ign",
        }
    }
}

/// Meaning of a ping for its check, with the cause of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingMeaning {
    /// The job is done.
    Success,
    /// The job has begun.
    Start,
    /// The job has failed, for this cause.
    Fail(FlipCause),
    /// Log message that changes nothing.
    Log,
    /// Ignored, see [`PingKind::Ignored`].
    Ignored,
}

impl PingMeaning {
    /// Meaning of an exit status: 0 is success, everything else failure.
    pub fn from_exit_status(status: u8) -> Self {
        NonZeroU8::new(status).map_or(Self::Success, |status| {
            Self::Fail(FlipCause::ExitStatus(status))
        })
    }

    /// Kind that the log shows.
    pub fn kind(self) -> PingKind {
        match self {
            Self::Success => PingKind::Success,
            Self::Start => PingKind::Start,
            Self::Fail(_) => PingKind::Fail,
            Self::Log => PingKind::Log,
            Self::Ignored => PingKind::Ignored,
        }
    }
}

impl From<PingKind> for PingMeaning {
    /// Converts a kind. The cause of a failure is [`FlipCause::Fail`].
    fn from(kind: PingKind) -> Self {
        match kind {
            PingKind::Success => Self::Success,
            PingKind::Start => Self::Start,
            PingKind::Fail => Self::Fail(FlipCause::Fail),
            PingKind::Log => Self::Log,
            PingKind::Ignored => Self::Ignored,
        }
    }
}

/// Protocol of a ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingScheme {
    /// Plain HTTP.
    Http,
    /// HTTPS, according to a trusted proxy.
    Https,
    /// Mail.
    Email,
}

impl PingScheme {
    /// Value of `scheme` in the ping list.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Email => "email",
        }
    }
}

/// HTTP method of a ping; a mail has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the methods of RFC 9110 by their names")]
pub enum PingMethod {
    None,
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl PingMethod {
    /// Every method that the log stores.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
        Self::Options,
    ];

    /// Value of `method` in the ping list.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

/// Maximum number of characters of a user agent that the log stores.
const MAX_USER_AGENT_CHARS: usize = 200;

/// Shortens a user agent to its first 200 characters.
pub fn truncate_user_agent(ua: &str) -> Box<str> {
    ua.char_indices()
        .nth(MAX_USER_AGENT_CHARS)
        .and_then(|(end, _)| ua.get(..end))
        .unwrap_or(ua)
        .into()
}

/// Origin of a ping, as the log shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PingOrigin {
    /// Protocol.
    pub scheme: PingScheme,
    /// HTTP method.
    pub method: PingMethod,
    /// Address of the client; `None` for a ping that was imported without it.
    pub remote_addr: Option<IpAddr>,
    /// User agent, shortened by [`truncate_user_agent`]; for a mail `Email from <sender>`.
    pub user_agent: Box<str>,
}

/// Entry of the arrival log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ping {
    /// Check that was pinged.
    pub check: CheckId,
    /// Number of the ping, from 1 in each check, without gaps.
    pub n: u64,
    /// Position of ping `n - 1` of the same check; 0 for the first.
    pub previous: Arrival,
    /// Time at which it was logged.
    pub at: Timestamp,
    /// Kind of the ping.
    pub kind: PingKind,
    /// Origin of the ping.
    pub origin: PingOrigin,
    /// Run id that the sender gave.
    pub rid: Option<Uuid>,
    /// Exit status that the job reported.
    pub exit_status: Option<u8>,
    /// Stored length of the body in bytes.
    pub body_len: u32,
    /// Number of pings that share the body, which was written before them. 0 if the body was
    /// written with this ping.
    pub body_sharers: u32,
}

impl Ping {
    /// Bytes of its body, or of its part of a shared body, beyond the first 1,024: see
    /// [`excess_body_bytes_of`].
    pub fn excess_body_bytes(&self) -> u64 {
        excess_body_bytes_of(self.body_len.into(), self.body_sharers)
    }
}

/// Maximum length in bytes of a stored body, which is that of a mail: see
/// [limits](crate::docs::limits).
pub const MAX_BODY_BYTES: usize = 32 << 20;

/// Bytes at the beginning of a body that are not counted. The number of short bodies in the file is
/// limited by the number of pings.
const FREE_BODY_BYTES: u64 = 1024;

/// Bytes of a body of this length beyond the first 1,024. If pings share it, of the part of each.
pub fn excess_body_bytes_of(body_len: u64, sharers: u32) -> u64 {
    (body_len / u64::from(sharers.max(1))).saturating_sub(FREE_BODY_BYTES)
}

/// Maximum age, in microseconds, of a start that a completion pairs with: 72 hours.
pub const PAIRING_WINDOW_MICROS: i64 = 72 * 3600 * MICROS_PER_SEC;

/// Computes the duration of each run, in microseconds, for pings given newest first. A run is a
/// success or fail whose nearest earlier start, success or fail with the same run id (no id pairs
/// with no id) is a start less than 72 hours older. A run has no duration if the clock was set back
/// during it.
pub fn run_durations(newest_first: &[Ping]) -> Vec<Option<i64>> {
    // For each run id, the completion that still needs its start.
    let mut open = std::collections::HashMap::<Option<Uuid>, (usize, Timestamp)>::new();
    let mut durations = vec![None; newest_first.len()];
    for (at, ping) in newest_first.iter().enumerate() {
        match ping.kind {
            PingKind::Success | PingKind::Fail => {
                open.insert(ping.rid, (at, ping.at));
            }
            PingKind::Start => {
                if let Some((completion, end)) = open.remove(&ping.rid)
                    && let Some(duration) = durations.get_mut(completion)
                {
                    *duration = Some(end.micros_since(ping.at))
                        .filter(|micros| (0..PAIRING_WINDOW_MICROS).contains(micros));
                }
            }
            PingKind::Log | PingKind::Ignored => {}
        }
    }
    durations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(kind: PingKind, rid: Option<u128>, secs: i64) -> Ping {
        Ping {
            check: CheckId(1),
            n: 1,
            previous: Arrival(0),
            at: Timestamp::from_secs(secs),
            kind,
            origin: PingOrigin {
                scheme: PingScheme::Http,
                method: PingMethod::Get,
                remote_addr: Some([127, 0, 0, 1].into()),
                user_agent: "".into(),
            },
            rid: rid.map(Uuid::from_u128),
            exit_status: None,
            body_len: 0,
            body_sharers: 0,
        }
    }

    #[test]
    fn bytes_beyond_the_first_1024_are_counted_for_each_ping_that_shares_a_body() {
        for (body_len, sharers, excess) in [
            (0, 0, 0),
            (1_024, 0, 0),
            (1_025, 0, 1),
            (10_000, 1, 8_976),
            (10_000, 4, 1_476),
            (10_000, 20, 0),
        ] {
            assert_eq!(
                excess_body_bytes_of(body_len, sharers),
                excess,
                "{body_len} {sharers}"
            );
        }
    }

    #[test]
    fn completions_pair_with_the_nearest_start_of_their_rid() {
        use PingKind::{Fail, Ignored, Log, Start, Success};
        /// Ping and the expected duration in seconds.
        type Logged = (PingKind, Option<u128>, i64, Option<i64>);
        const H: i64 = 3600;
        // Oldest first.
        let cases: &[&[Logged]] = &[
            &[
                (Start, None, 0, None),
                (Success, None, 5, Some(5)),
                (Success, None, 9, None),
            ],
            &[
                (Start, None, 0, None),
                (Start, None, 3, None),
                (Fail, None, 5, Some(2)),
            ],
            &[
                (Start, None, 0, None),
                (Log, None, 1, None),
                (Ignored, None, 2, None),
                (Success, None, 5, Some(5)),
            ],
            &[
                (Start, Some(1), 0, None),
                (Start, Some(2), 1, None),
                (Success, Some(1), 4, Some(4)),
                (Success, Some(2), 6, Some(5)),
            ],
            &[
                (Start, Some(1), 0, None),
                (Success, None, 4, None),
                (Success, Some(1), 5, Some(5)),
            ],
            &[
                (Start, None, 0, None),
                (Success, None, 72 * H - 1, Some(72 * H - 1)),
            ],
            &[(Start, None, 0, None), (Success, None, 72 * H, None)],
            &[(Success, None, 1, None), (Start, None, 2, None)],
            &[(Start, None, 2, None), (Success, None, 1, None)],
        ];
        for case in cases {
            let pings: Vec<_> = case
                .iter()
                .rev()
                .map(|(kind, rid, at, _)| ping(*kind, *rid, *at))
                .collect();
            let wanted: Vec<_> = case
                .iter()
                .rev()
                .map(|(.., seconds)| seconds.map(|s| s * MICROS_PER_SEC))
                .collect();
            assert_eq!(run_durations(&pings), wanted, "{case:?}");
        }
    }
}
