//! Sessions of users, which end after a time without use.

use std::net::IpAddr;

use super::super::ids::{SessionId, UserId};
use super::super::project::SecretHash;
use super::super::timestamp::Timestamp;

/// Maximum lifetime of a session in seconds, however often it is used: see
/// [limits](crate::docs::limits).
const MAX_LIFETIME_SECS: i64 = 180 * 86_400;
/// Seconds after which another use of a session is recorded.
const USE_RECORDING_SECS: i64 = 3600;
/// Seconds for which a typed password or a passkey counts for actions that ask for it again.
const CONFIRMATION_SECS: i64 = 15 * 60;

/// Session of a user who is signed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Number of the session.
    pub id: SessionId,
    /// Hash of the token in its cookie.
    pub hash: SecretHash,
    /// User of the session.
    pub user: UserId,
    /// Start of the session.
    pub created: Timestamp,
    /// Time of the last recorded use.
    pub last_used: Timestamp,
    /// Time at which the user last proved to be present, by the password or by a passkey; `None` if
    /// never, since a proxy identified the user.
    pub confirmed: Option<Timestamp>,
    /// Time at which the session ends unless it is used before.
    pub expires: Timestamp,
    /// User agent of the browser, shortened.
    pub user_agent: Box<str>,
    /// Client address of the last recorded use.
    pub address: IpAddr,
}

impl Session {
    /// Number of characters of the token in its cookie.
    pub const TOKEN_LENGTH: usize = 32;
    /// Maximum number of characters of `user_agent`: see [limits](crate::docs::limits).
    pub const MAX_USER_AGENT_CHARS: usize = 200;

    /// Time at which a session that began at `created` ends if it is used at `now` and then not for
    /// `idle_secs` seconds.
    pub fn expiry(created: Timestamp, now: Timestamp, idle_secs: i64) -> Timestamp {
        now.plus_secs(idle_secs)
            .min(created.plus_secs(MAX_LIFETIME_SECS))
    }

    /// True if the session has ended.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires
    }

    /// True if a use at `now` must be recorded: an hour has passed, or the clock was set back.
    pub fn needs_use_recorded(&self, now: Timestamp) -> bool {
        now >= self.last_used.plus_secs(USE_RECORDING_SECS) || self.last_used.is_ahead_of(now)
    }

    /// True if the password was typed, or a passkey used, a short while ago.
    pub fn is_confirmed(&self, now: Timestamp) -> bool {
        self.confirmed
            .is_some_and(|at| !at.is_ahead_of(now) && now < at.plus_secs(CONFIRMATION_SECS))
    }

    /// Shortens a user agent to the stored length, without control characters.
    pub fn truncate_user_agent(text: &str) -> Box<str> {
        text.chars()
            .filter(|c| !c.is_control())
            .take(Self::MAX_USER_AGENT_CHARS)
            .collect::<String>()
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(seen: i64, confirmed: Option<i64>) -> Session {
        let at = Timestamp::from_secs;
        Session {
            id: SessionId(1),
            hash: SecretHash([0; 32]),
            user: UserId(1),
            created: at(0),
            last_used: at(seen),
            confirmed: confirmed.map(at),
            expires: Session::expiry(at(0), at(seen), 100),
            user_agent: Session::truncate_user_agent("a\r\nb"),
            address: [127, 0, 0, 1].into(),
        }
    }

    #[test]
    fn a_session_ends_when_it_is_not_used_and_in_any_case_after_half_a_year() {
        for (now, over) in [(0, false), (149, false), (150, true)] {
            assert_eq!(
                session(50, None).is_expired(Timestamp::from_secs(now)),
                over,
                "{now}"
            );
        }
        let half_a_year = 180 * 86_400;
        let at = Timestamp::from_secs;
        assert_eq!(
            Session::expiry(at(0), at(half_a_year - 10), 100),
            at(half_a_year)
        );
        assert_eq!(
            Session::expiry(at(7), at(10), i64::MAX),
            at(half_a_year + 7)
        );
        assert_eq!(&*session(0, None).user_agent, "ab");
    }

    #[test]
    fn a_use_is_recorded_once_an_hour_and_a_password_counts_for_a_quarter() {
        for (now, stale) in [
            (50, false),
            (3649, false),
            (3650, true),
            (46, false),
            (45, true),
        ] {
            assert_eq!(
                session(50, None).needs_use_recorded(Timestamp::from_secs(now)),
                stale,
                "{now}"
            );
        }
        for (now, confirmed) in [(50, true), (949, true), (950, false), (45, false)] {
            assert_eq!(
                session(50, Some(50)).is_confirmed(Timestamp::from_secs(now)),
                confirmed,
                "{now}"
            );
        }
        assert!(!session(50, None).is_confirmed(Timestamp::from_secs(50)));
    }
}
