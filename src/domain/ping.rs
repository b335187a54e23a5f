//! What a ping is once it is logged, and how completions pair with starts.

use std::net::IpAddr;
use std::num::NonZeroU8;

use uuid::Uuid;

use super::flip::FlipCause;
use super::ids::{Arrival, CheckId};
use super::timestamp::{MICROS_PER_SEC, Timestamp};

/// What a ping means for its check (`type` in the API).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingKind {
    /// The job is done.
    Success,
    /// The job has begun.
    Start,
    /// The job has failed.
    Fail,
    /// A note that changes nothing.
    Log,
    /// Ignored: method not allowed, no keyword matched, or paused with manual_resume.
    Ignored,
}

impl PingKind {
    /// The `type` of the ping list.
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

/// What a ping means for its check, with what is to be said of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingMeaning {
    /// The job is done.
    Success,
    /// The job has begun.
    Start,
    /// The job has failed, and this says so.
    Fail(FlipCause),
    /// A note that changes nothing.
    Log,
    /// Ignored, see [`Kind::Ignored`].
    Ignored,
}

impl PingMeaning {
    /// What an exit status means: 0 success, everything else failure.
    pub fn from_exit_status(status: u8) -> Self {
        NonZeroU8::new(status).map_or(Self::Success, |status| Self::Fail(FlipCause::ExitStatus(status)))
    }

    /// The kind that the log shows.
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
    /// A signal that says no more than its kind.
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

/// How a ping came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PingScheme {
    /// Plain HTTP.
    Http,
    /// HTTPS, as a trusted proxy says.
    Https,
    /// A mail.
    Email,
}

impl PingScheme {
    /// The `scheme` of the ping list.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Email => "email",
        }
    }
}

/// The HTTP method of a ping; a mail has none.
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
    /// Every one that the log keeps.
    pub const ALL: [Self; 8] = [Self::None, Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Options];

    /// The `method` of the ping list.
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

/// Characters of a user agent that the log keeps.
const MAX_USER_AGENT_CHARS: usize = 200;

/// A user agent as the log keeps it: its first 200 characters.
pub fn truncate_user_agent(ua: &str) -> Box<str> {
    ua.char_indices().nth(MAX_USER_AGENT_CHARS).and_then(|(end, _)| ua.get(..end)).unwrap_or(ua).into()
}

/// Where a ping came from, as the log shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PingOrigin {
    /// How it came in.
    pub scheme: PingScheme,
    /// With what method.
    pub method: PingMethod,
    /// From what address; `None` for a ping that was taken over from elsewhere without it.
    pub remote_addr: Option<IpAddr>,
    /// The user agent, cut by [`truncate_user_agent`]; for a mail `Email from <sender>`.
    pub user_agent: Box<str>,
}

/// An entry of the arrival log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ping {
    /// Whose ping it is.
    pub check: CheckId,
    /// Counts from 1 in each check, without gaps.
    pub n: u64,
    /// The place of ping `n - 1` of the same check; 0 for the first.
    pub previous: Arrival,
    /// When it was logged.
    pub at: Timestamp,
    /// What it means.
    pub kind: PingKind,
    /// Where it came from.
    pub origin: PingOrigin,
    /// The run it belongs to, as its sender says.
    pub rid: Option<Uuid>,
    /// The exit status that the job reported.
    pub exit_status: Option<u8>,
    /// Bytes of the body that are kept.
    pub body_len: u32,
    /// How many pings have the body in common, which was written ahead of them; 0: it was written with this one.
    pub body_sharers: u32,
}

impl Ping {
    /// Bytes that count as long, of its body or of its part of a body that it shares: see [`long_bytes`].
    pub fn long_body_bytes(&self) -> u64 {
        long_body_bytes_of(self.body_len.into(), self.body_sharers)
    }
}

/// Bytes of the longest body of a ping that is stored, which is that of a mail: see [limits](crate::docs::limits).
pub const MAX_BODY_BYTES: usize = 32 << 20;

/// Bytes by which a body counts as long. How many short ones there are in the file is bounded by their number already.
const SHORT_BODY_BYTES: u64 = 1024;

/// Of a body of so many bytes those that count as long; if pings share it, of the part of each.
pub fn long_body_bytes_of(body_len: u64, sharers: u32) -> u64 {
    (body_len / u64::from(sharers.max(1))).saturating_sub(SHORT_BODY_BYTES)
}

/// A completion pairs with a start that is less than 72 hours older.
pub const PAIRING_WINDOW_MICROS: i64 = 72 * 3600 * MICROS_PER_SEC;

/// How long each run took, in microseconds, for pings given newest first: a success or fail whose nearest earlier start, success or
/// fail with the same rid (none pairs with none) is a start less than 72 hours older, by a clock that was not set back meanwhile.
pub fn run_durations(newest_first: &[Ping]) -> Vec<Option<i64>> {
    // For each rid the completion that still looks for its start.
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
                    *duration = Some(end.micros_since(ping.at)).filter(|micros| (0..PAIRING_WINDOW_MICROS).contains(micros));
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
    fn completions_pair_with_the_nearest_start_of_their_rid() {
        use PingKind::{Fail, Ignored, Log, Start, Success};
        /// A ping and the seconds that its entry is to show.
        type Logged = (PingKind, Option<u128>, i64, Option<i64>);
        const H: i64 = 3600;
        // Oldest first.
        let cases: &[&[Logged]] = &[
            &[(Start, None, 0, None), (Success, None, 5, Some(5)), (Success, None, 9, None)],
            &[(Start, None, 0, None), (Start, None, 3, None), (Fail, None, 5, Some(2))],
            &[(Start, None, 0, None), (Log, None, 1, None), (Ignored, None, 2, None), (Success, None, 5, Some(5))],
            &[(Start, Some(1), 0, None), (Start, Some(2), 1, None), (Success, Some(1), 4, Some(4)), (Success, Some(2), 6, Some(5))],
            &[(Start, Some(1), 0, None), (Success, None, 4, None), (Success, Some(1), 5, Some(5))],
            &[(Start, None, 0, None), (Success, None, 72 * H - 1, Some(72 * H - 1))],
            &[(Start, None, 0, None), (Success, None, 72 * H, None)],
            &[(Success, None, 1, None), (Start, None, 2, None)],
            &[(Start, None, 2, None), (Success, None, 1, None)],
        ];
        for case in cases {
            let pings: Vec<_> = case.iter().rev().map(|(kind, rid, at, _)| ping(*kind, *rid, *at)).collect();
            let wanted: Vec<_> = case.iter().rev().map(|(.., seconds)| seconds.map(|s| s * MICROS_PER_SEC)).collect();
            assert_eq!(run_durations(&pings), wanted, "{case:?}");
        }
    }
}
