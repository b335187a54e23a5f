//! Maintenance windows: planned downtimes, in which alerts about checks are held back.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::ids::{ProjectId, WindowId};
use super::schedule::Schedule;
use super::text::{Name, Tags};
use super::timestamp::Timestamp;
use super::timezone::Timezone;

/// Maintenance window. See [limits](crate::docs::limits).
#[derive(Clone, PartialEq, Debug)]
pub struct MaintenanceWindow {
    /// Number of the window.
    pub id: WindowId,
    /// Public identifier of the window.
    pub uuid: Uuid,
    /// Project of the window.
    pub project: ProjectId,
    /// Name that its owner has chosen.
    pub name: Name,
    /// Tags that a check must all have; none: the window applies to every check.
    pub tags: Tags,
    /// Times at which it is open.
    pub times: WindowTimes,
}

/// State of a window at a time, and the time until which it is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowPhase {
    /// Time at which the window closes; `None`: it is closed.
    pub open_until: Option<Timestamp>,
    /// Time at which the window next opens or closes; `None`: never. A window that opens again
    /// before it closes stays open for longer.
    pub valid_until: Option<Timestamp>,
}

/// Times at which a window is open.
#[derive(Clone, PartialEq, Debug)]
pub enum WindowTimes {
    /// Single period.
    Once {
        /// Start of the period.
        from: Timestamp,
        /// End of the period.
        to: Timestamp,
    },
    /// Recurring periods.
    Recurring {
        /// Times at which it opens.
        schedule: Arc<Schedule>,
        /// Time zone of the schedule.
        tz: Timezone,
        /// Minutes that it stays open: 1 to [`MaintenanceWindow::MAX_RECURRING_MINUTES`].
        minutes: u32,
    },
}

impl MaintenanceWindow {
    /// Name of a window that mutes alerts from now on.
    pub const MUTE_NAME: &str = "mute";
    /// Maximum length of a recurring window in minutes: a week.
    pub const MAX_RECURRING_MINUTES: u64 = 7 * 24 * 60;
    /// Maximum length of a single window in minutes: 366 days.
    pub const MAX_MINUTES: u64 = 366 * 24 * 60;

    /// Time at which the window closes, if it is open at `now`. If several of its periods overlap,
    /// the end of the last one that has begun.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.phase(now).open_until
    }

    /// Returns the state of the window at `now`.
    pub fn phase(&self, now: Timestamp) -> WindowPhase {
        let closed = |valid_until| WindowPhase {
            open_until: None,
            valid_until,
        };
        match &self.times {
            WindowTimes::Once { from, .. } if now < *from => closed(Some(*from)),
            WindowTimes::Once { to, .. } if now < *to => WindowPhase {
                open_until: Some(*to),
                valid_until: Some(*to),
            },
            WindowTimes::Once { .. } => closed(None),
            WindowTimes::Recurring {
                schedule,
                tz,
                minutes,
            } => {
                let length = i64::from(*minutes) * 60;
                let next = schedule.next_after(now, tz);
                last_opening(schedule, tz, length, now).map_or_else(
                    || closed(next),
                    |opened| {
                        let closes = opened.plus_secs(length);
                        WindowPhase {
                            open_until: Some(closes),
                            valid_until: Some(next.map_or(closes, |next| next.min(closes))),
                        }
                    },
                )
            }
        }
    }

    /// True if the window applies to a check with these tags.
    pub fn applies_to(&self, tags: &Tags) -> bool {
        self.tags.iter().all(|tag| tags.contains(tag))
    }

    /// True if the window closed before `time` and never opens again.
    pub fn ended_before(&self, time: Timestamp) -> bool {
        matches!(self.times, WindowTimes::Once { to, .. } if to < time)
    }
}

/// Returns the last time at which a schedule opened a window in the `length` seconds before `now`,
/// or at `now`. A bisection, since a schedule gives only the opening that follows a time.
fn last_opening(
    schedule: &Schedule,
    tz: &Timezone,
    length: i64,
    now: Timestamp,
) -> Option<Timestamp> {
    /// Halves the longest recurring window, a week, to less than a second.
    const MAX_BISECTIONS: u32 = 21;
    let opening_after = |time| {
        schedule
            .next_after(time, tz)
            .filter(|opening| *opening <= now)
    };
    let mut opening = opening_after(now.plus_secs(-length))?;
    // No opening is later than this time.
    let mut none_after = now;
    for _ in 0..MAX_BISECTIONS {
        let Some(next) = opening_after(opening) else {
            break;
        };
        let middle = next.plus_micros(none_after.micros_since(next) / 2);
        opening = opening_after(middle).unwrap_or_else(|| {
            none_after = middle;
            next
        });
    }
    Some(opening)
}

/// Input for the times of a window: `from` with `to` or `minutes`, or `schedule` with `minutes` and
/// optionally `tz`, or `minutes` alone, from now on.
#[derive(Clone, Default, Debug)]
pub struct WindowTimesInput {
    /// Start, as RFC 3339.
    pub from: Option<String>,
    /// End, as RFC 3339.
    pub to: Option<String>,
    /// Cron or OnCalendar expression.
    pub schedule: Option<String>,
    /// Length in minutes.
    pub minutes: Option<u64>,
    /// Time zone of the schedule; UTC if left out.
    pub tz: Option<String>,
}

/// Error in the times of a window or a pause: the field, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimesError(pub &'static str, pub String);

impl fmt::Display for TimesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is wrong: {}", self.0, self.1)
    }
}

impl std::error::Error for TimesError {}

impl WindowTimesInput {
    /// Parses the times at `now`.
    ///
    /// # Errors
    /// If they cannot be parsed, contradict each other, or the window would be open for too long.
    pub fn parse(self, now: Timestamp) -> Result<WindowTimes, TimesError> {
        let Self {
            from,
            to,
            schedule,
            minutes,
            tz,
        } = self;
        let error = |field, reason: &str| TimesError(field, reason.to_owned());
        if let Some(schedule) = schedule {
            if from.is_some() || to.is_some() {
                return Err(error(
                    "schedule",
                    "a window has either a schedule or from and to",
                ));
            }
            let schedule = Schedule::parse(&schedule)
                .map_err(|reason| TimesError("schedule", reason.to_string()))?;
            let tz = tz
                .as_deref()
                .map_or(Ok(Timezone::utc()), Timezone::parse)
                .map_err(|reason| TimesError("tz", reason.to_string()))?;
            let minutes = validate_minutes(
                minutes.ok_or_else(|| {
                    error(
                        "minutes",
                        "give the number of minutes for which the window is open",
                    )
                })?,
                MaintenanceWindow::MAX_RECURRING_MINUTES,
            )?;
            return Ok(WindowTimes::Recurring {
                schedule: Arc::new(schedule),
                tz,
                minutes,
            });
        }
        if tz.is_some() {
            return Err(error(
                "tz",
                "tz applies only to a schedule; other times have their own UTC offset",
            ));
        }
        let from = from.map_or(Ok(now), |from| parse_timestamp("from", &from))?;
        let to = match (to, minutes) {
            (Some(_), Some(_)) => {
                return Err(error("minutes", "a window has either minutes or to"));
            }
            (None, None) => {
                return Err(error(
                    "minutes",
                    "give the number of minutes for which the window is open",
                ));
            }
            (Some(to), None) => parse_timestamp("to", &to)?,
            (None, Some(minutes)) => from.plus_secs(
                i64::from(validate_minutes(minutes, MaintenanceWindow::MAX_MINUTES)?) * 60,
            ),
        };
        let latest = from.plus_secs(MaintenanceWindow::MAX_MINUTES.cast_signed() * 60);
        match () {
            () if to <= from => Err(error("to", "the end is not after from")),
            () if to <= now => Err(error("to", "the end is in the past")),
            () if to > latest => Err(error("to", "the end is more than 366 days after from")),
            () => Ok(WindowTimes::Once { from, to }),
        }
    }
}

/// Checks a number of minutes.
///
/// # Errors
/// If it is 0 or greater than `max`.
pub(super) fn validate_minutes(minutes: u64, max: u64) -> Result<u32, TimesError> {
    let fitting = u32::try_from(minutes)
        .ok()
        .filter(|_| (1..=max).contains(&minutes));
    fitting.ok_or_else(|| TimesError("minutes", format!("give a number from 1 to {max}")))
}

/// Parses a time with its UTC offset.
///
/// # Errors
/// If the text is something else.
pub(super) fn parse_timestamp(field: &'static str, text: &str) -> Result<Timestamp, TimesError> {
    let read = text
        .parse::<jiff::Timestamp>()
        .map(|at| Timestamp::from_micros(at.as_microsecond()));
    read.map_err(|_| {
        TimesError(
            field,
            "give a time with its UTC offset, as in 2026-11-20T10:00:00+00:00".to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        parse_timestamp("from", text).unwrap()
    }

    fn window(tags: &str, times: WindowTimes) -> MaintenanceWindow {
        let tags = Tags::from_stored(tags);
        MaintenanceWindow {
            id: WindowId(1),
            uuid: Uuid::nil(),
            project: ProjectId(1),
            name: Name::default(),
            tags,
            times,
        }
    }

    fn given(fields: &[(&str, &str)]) -> WindowTimesInput {
        let field = |name| {
            fields
                .iter()
                .find(|(field, _)| *field == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let minutes = field("minutes").map(|minutes| minutes.parse().unwrap());
        WindowTimesInput {
            from: field("from"),
            to: field("to"),
            schedule: field("schedule"),
            minutes,
            tz: field("tz"),
        }
    }

    #[test]
    fn windows_are_open_from_their_beginning_to_before_their_end() {
        let now = at("2026-11-20T10:00:00Z");
        for (fields, open) in [
            (
                &[("minutes", "10")][..],
                vec![
                    ("10:00", Some("10:10")),
                    ("10:09", Some("10:10")),
                    ("10:10", None),
                    ("09:59", None),
                ],
            ),
            (
                &[
                    ("from", "2026-11-20T12:00:00+02:00"),
                    ("to", "2026-11-20T11:00:00Z"),
                ],
                vec![("10:00", Some("11:00")), ("11:00", None)],
            ),
            (
                &[
                    ("schedule", "0 3 * * *"),
                    ("minutes", "90"),
                    ("tz", "Europe/Riga"),
                ],
                vec![
                    ("00:59", None),
                    ("01:00", Some("02:30")),
                    ("02:29", Some("02:30")),
                    ("02:30", None),
                    ("03:00", None),
                ],
            ),
            // The next one opens before it closes.
            (
                &[("schedule", "0 * * * *"), ("minutes", "61")],
                vec![
                    ("10:00", Some("11:01")),
                    ("10:59", Some("11:01")),
                    ("11:00", Some("12:01")),
                ],
            ),
            // Ten thousand overlap.
            (
                &[("schedule", "0-29 * * * *"), ("minutes", "10080")],
                vec![
                    ("10:00", Some("27T10:00")),
                    ("10:17", Some("27T10:17")),
                    ("10:59", Some("27T10:29")),
                ],
            ),
        ] {
            let window = window("", given(fields).parse(now).unwrap());
            let time = |time: &str| {
                let (day, time) = time.split_once('T').unwrap_or(("20", time));
                at(&format!("2026-11-{day}T{time}:00Z"))
            };
            for (when, until) in open {
                assert_eq!(
                    window.open_until(time(when)),
                    until.map(time),
                    "{fields:?} at {when}"
                );
            }
        }
    }

    #[test]
    fn contradictory_times_are_rejected_with_their_field() {
        let now = at("2026-11-20T10:00:00Z");
        for (fields, sentence) in [
            (
                &[][..],
                "minutes is wrong: give the number of minutes for which the window is open",
            ),
            (
                &[("minutes", "0")],
                "minutes is wrong: give a number from 1 to 527040",
            ),
            (
                &[("minutes", "527041")],
                "minutes is wrong: give a number from 1 to 527040",
            ),
            (
                &[("schedule", "0 3 * * *"), ("minutes", "10081")],
                "minutes is wrong: give a number from 1 to 10080",
            ),
            (
                &[("schedule", "0 3 * * *")],
                "minutes is wrong: give the number of minutes for which the window is open",
            ),
            (
                &[("schedule", "0 3 * * *"), ("from", "x")],
                "schedule is wrong: a window has either a schedule or from and to",
            ),
            (
                &[("minutes", "5"), ("tz", "UTC")],
                "tz is wrong: tz applies only to a schedule; other times have their own UTC offset",
            ),
            (
                &[("minutes", "5"), ("to", "2027-01-01T00:00:00Z")],
                "minutes is wrong: a window has either minutes or to",
            ),
            (
                &[("to", "2026-11-20")],
                "to is wrong: give a time with its UTC offset, as in 2026-11-20T10:00:00+00:00",
            ),
            (
                &[
                    ("from", "2026-11-21T00:00:00Z"),
                    ("to", "2026-11-21T00:00:00Z"),
                ],
                "to is wrong: the end is not after from",
            ),
            (
                &[
                    ("from", "2026-11-19T00:00:00Z"),
                    ("to", "2026-11-20T10:00:00Z"),
                ],
                "to is wrong: the end is in the past",
            ),
            (
                &[("to", "2027-11-21T10:00:01Z")],
                "to is wrong: the end is more than 366 days after from",
            ),
        ] {
            assert_eq!(
                given(fields).parse(now).unwrap_err().to_string(),
                sentence,
                "{fields:?}"
            );
        }
        assert!(given(&[("to", "2027-11-21T10:00:00Z")]).parse(now).is_ok());
        assert_eq!(
            given(&[("schedule", "x"), ("minutes", "5")])
                .parse(now)
                .unwrap_err()
                .0,
            "schedule"
        );
        assert_eq!(
            given(&[
                ("schedule", "0 3 * * *"),
                ("minutes", "5"),
                ("tz", "Nowhere")
            ])
            .parse(now)
            .unwrap_err()
            .0,
            "tz"
        );
    }

    #[test]
    fn a_check_needs_all_tags_of_a_window() {
        let about = |window_tags: &str, tags: &str| {
            window(
                window_tags,
                WindowTimes::Once {
                    from: Timestamp::default(),
                    to: Timestamp::default(),
                },
            )
            .applies_to(&Tags::from_stored(tags))
        };
        assert!(about("", "") && about("", "a") && about("a", "b a") && about("a b", "b a c"));
        assert!(!about("a", "") && !about("a b", "a"));
    }
}
