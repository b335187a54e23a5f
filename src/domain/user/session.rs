//! Sessions: who has signed in from where, until they have been away for too long.

use std::net::IpAddr;

use super::super::ids::{SessionId, UserId};
use super::super::moment::Moment;
use super::super::project::KeyHash;

/// Seconds after which a session ends, however often it is used: see [limits](crate::docs::limits).
const LONGEST_SECS: i64 = 180 * 86_400;
/// Seconds after which another use of a session is written down.
const TOUCH_SECS: i64 = 3600;
/// Seconds for which a password that was typed counts for what asks for it again.
const CONFIRMED_SECS: i64 = 15 * 60;

/// Somebody is signed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// What its cookie is recognised by.
    pub hash: KeyHash,
    /// Whose it is.
    pub user: UserId,
    /// When it began.
    pub created: Moment,
    /// When it was last used, as far as that is written down.
    pub seen: Moment,
    /// When the password was last typed; `None`: it was never asked for, since a proxy said who it is.
    pub confirmed: Option<Moment>,
    /// When it ends unless it is used before.
    pub expires: Moment,
    /// What the browser calls itself; of a long text the beginning.
    pub agent: Box<str>,
    /// The address that it was last used from.
    pub address: IpAddr,
}

impl Session {
    /// Characters of the token in its cookie.
    pub const TOKEN_LENGTH: usize = 32;
    /// Characters of `agent`: see [limits](crate::docs::limits).
    pub const LONGEST_AGENT: usize = 200;

    /// When a session that began at `created` ends if it is used at `now` and then not for so many seconds.
    pub fn end(created: Moment, now: Moment, idle_secs: i64) -> Moment {
        now.plus_secs(idle_secs).min(created.plus_secs(LONGEST_SECS))
    }

    /// Whether it is over.
    pub fn is_over(&self, now: Moment) -> bool {
        now >= self.expires
    }

    /// Whether a use at `now` is to be written down: an hour has passed, or the clock was set back.
    pub fn is_stale(&self, now: Moment) -> bool {
        now >= self.seen.plus_secs(TOUCH_SECS) || self.seen.is_ahead_of(now)
    }

    /// Whether the password was typed a short while ago.
    pub fn is_confirmed(&self, now: Moment) -> bool {
        self.confirmed.is_some_and(|at| !at.is_ahead_of(now) && now < at.plus_secs(CONFIRMED_SECS))
    }

    /// As much of a browser's own name as is kept, without what cannot stand on a line.
    pub fn agent_of(text: &str) -> Box<str> {
        text.chars().filter(|c| !c.is_control()).take(Self::LONGEST_AGENT).collect::<String>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(seen: i64, confirmed: Option<i64>) -> Session {
        let at = Moment::from_secs;
        Session {
            id: SessionId(1),
            hash: KeyHash([0; 32]),
            user: UserId(1),
            created: at(0),
            seen: at(seen),
            confirmed: confirmed.map(at),
            expires: Session::end(at(0), at(seen), 100),
            agent: Session::agent_of("a\r\nb"),
            address: [127, 0, 0, 1].into(),
        }
    }

    #[test]
    fn a_session_ends_when_it_is_not_used_and_in_any_case_after_half_a_year() {
        for (now, over) in [(0, false), (149, false), (150, true)] {
            assert_eq!(session(50, None).is_over(Moment::from_secs(now)), over, "{now}");
        }
        let (half_a_year, at) = (180 * 86_400, Moment::from_secs);
        assert_eq!(Session::end(at(0), at(half_a_year - 10), 100), at(half_a_year));
        assert_eq!(Session::end(at(7), at(10), i64::MAX), at(half_a_year + 7));
        assert_eq!(&*session(0, None).agent, "ab");
    }

    #[test]
    fn a_use_is_written_once_an_hour_and_a_password_counts_for_a_quarter() {
        for (now, stale) in [(50, false), (3649, false), (3650, true), (46, false), (45, true)] {
            assert_eq!(session(50, None).is_stale(Moment::from_secs(now)), stale, "{now}");
        }
        for (now, confirmed) in [(50, true), (949, true), (950, false), (45, false)] {
            assert_eq!(session(50, Some(50)).is_confirmed(Moment::from_secs(now)), confirmed, "{now}");
        }
        assert!(!session(50, None).is_confirmed(Moment::from_secs(50)));
    }
}
