//! Maintenance windows: times in which it is known that checks go down, so that nobody has to be told at once.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::ids::{ProjectId, WindowId};
use super::schedule::Schedule;
use super::text::{Name, Tags};
use super::timestamp::Timestamp;
use super::timezone::Timezone;

/// A maintenance window. See [limits](crate::docs::limits).
#[derive(Clone, PartialEq, Debug)]
pub struct MaintenanceWindow {
    /// Its number.
    pub id: WindowId,
    /// What names it to others.
    pub uuid: Uuid,
    /// Whose checks it is about.
    pub project: ProjectId,
    /// What its owner calls it.
    pub name: Name,
    /// A check has to have all of these tags; none: it is about every check.
    pub tags: Tags,
    /// When it is open.
    pub times: WindowTimes,
}

/// A time in which a window stays open, or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowPhase {
    /// True if the window is open.
    pub open: bool,
    /// The end; `None`: the window stays closed for ever.
    pub until: Option<Timestamp>,
}

/// When a window is open.
#[derive(Clone, PartialEq, Debug)]
pub enum WindowTimes {
    /// Once.
    Once {
        /// From then on.
        from: Timestamp,
        /// Until then.
        to: Timestamp,
    },
    /// Again and again.
    Recurring {
        /// When it opens.
        schedule: Arc<Schedule>,
        /// The zone of the schedule.
        tz: Timezone,
        /// For how long: 1 to [`Window::MAX_RECURRING_MINUTES`].
        minutes: u32,
    },
}

impl MaintenanceWindow {
    /// How long one that recurs may be open: a week.
    pub const MAX_RECURRING_MINUTES: u64 = 7 * 24 * 60;
    /// How long one may be open that does not: a year.
    pub const MAX_MINUTES: u64 = 366 * 24 * 60;
    /// Openings that are looked at to find the last. With more than that it seems to close earlier, and whoever waits for that looks again
    /// then.
    const MAX_OPENINGS: usize = 8;

    /// When it closes, if it is open at `now`.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let WindowPhase { open, until } = self.phase(now);
        until.filter(|_| open)
    }

    /// Returns whether it is open at `now`, and until when that stays so at least.
    pub fn phase(&self, now: Timestamp) -> WindowPhase {
        let closed = |until| WindowPhase { open: false, until };
        let open = |until| WindowPhase { open: true, until: Some(until) };
        match &self.times {
            WindowTimes::Once { from, .. } if now < *from => closed(Some(*from)),
            WindowTimes::Once { to, .. } if now < *to => open(*to),
            WindowTimes::Once { .. } => closed(None),
            WindowTimes::Recurring { schedule, tz, minutes } => {
                let length = i64::from(*minutes) * 60;
                let first = schedule.next_after(now.plus_secs(-length), tz);
                let openings = std::iter::successors(first, |at| schedule.next_after(*at, tz));
                let last = openings.take(Self::MAX_OPENINGS).take_while(|at| *at <= now).last();
                // The first opening that is not over at `now` lies ahead if none of them has begun.
                last.map_or_else(|| closed(first), |at| open(at.plus_secs(length)))
            }
        }
    }

    /// Whether it is about a check with these tags.
    pub fn applies_to(&self, tags: &Tags) -> bool {
        self.tags.iter().all(|tag| tags.contains(tag))
    }

    /// Whether it closed before then, and never opens again.
    pub fn ended_before(&self, then: Timestamp) -> bool {
        matches!(self.times, WindowTimes::Once { to, .. } if to < then)
    }
}

/// The times of a window as they are given: `new` with `to` or `minutes`, or `schedule` with `minutes` and maybe `tz`, or `minutes` alone,
/// from now on.
#[derive(Clone, Default, Debug)]
pub struct WindowTimesInput {
    /// RFC 3339.
    pub from: Option<String>,
    /// RFC 3339.
    pub to: Option<String>,
    /// Cron or OnCalendar.
    pub schedule: Option<String>,
    /// How long.
    pub minutes: Option<u64>,
    /// The zone of the schedule; UTC if it is left out.
    pub tz: Option<String>,
}

/// Why a window cannot be open at these times: the field, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowError(pub &'static str, pub String);

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is wrong: {}", self.0, self.1)
    }
}

impl std::error::Error for WindowError {}

impl WindowTimesInput {
    /// Reads them at `now`.
    ///
    /// # Errors
    /// When they cannot be read, do not go together, or the window would be open for too long.
    pub fn parse(self, now: Timestamp) -> Result<WindowTimes, WindowError> {
        let Self { from, to, schedule, minutes, tz } = self;
        let error = |field, reason: &str| WindowError(field, reason.to_owned());
        if let Some(schedule) = schedule {
            if from.is_some() || to.is_some() {
                return Err(error("schedule", "a window has either a schedule or from and to"));
            }
            let schedule = Schedule::parse(&schedule).map_err(|reason| WindowError("schedule", reason.to_string()))?;
            let tz = tz.as_deref().map_or(Ok(Timezone::utc()), Timezone::parse).map_err(|reason| WindowError("tz", reason.to_string()))?;
            let minutes = check_minutes(
                minutes.ok_or_else(|| error("minutes", "say how long the window is open"))?,
                MaintenanceWindow::MAX_RECURRING_MINUTES,
            )?;
            return Ok(WindowTimes::Recurring { schedule: Arc::new(schedule), tz, minutes });
        }
        if tz.is_some() {
            return Err(error("tz", "it belongs to a schedule; other times carry their offset"));
        }
        let from = from.map_or(Ok(now), |from| parse_timestamp("from", &from))?;
        let to = match (to, minutes) {
            (Some(_), Some(_)) => return Err(error("minutes", "a window has either minutes or to")),
            (None, None) => return Err(error("minutes", "say how long the window is open")),
            (Some(to), None) => parse_timestamp("to", &to)?,
            (None, Some(minutes)) => from.plus_secs(i64::from(check_minutes(minutes, MaintenanceWindow::MAX_MINUTES)?) * 60),
        };
        let longest = from.plus_secs(MaintenanceWindow::MAX_MINUTES.cast_signed() * 60);
        match () {
            () if to <= from => Err(error("to", "it does not lie after from")),
            () if to <= now => Err(error("to", "it lies in the past")),
            () if to > longest => Err(error("to", "it lies more than 366 days after from")),
            () => Ok(WindowTimes::Once { from, to }),
        }
    }
}

fn check_minutes(minutes: u64, most: u64) -> Result<u32, WindowError> {
    let fitting = u32::try_from(minutes).ok().filter(|_| (1..=most).contains(&minutes));
    fitting.ok_or_else(|| WindowError("minutes", format!("give a number from 1 to {most}")))
}

fn parse_timestamp(field: &'static str, text: &str) -> Result<Timestamp, WindowError> {
    let read = text.parse::<jiff::Timestamp>().map(|at| Timestamp::from_micros(at.as_microsecond()));
    read.map_err(|_| WindowError(field, "give a time with its offset, as in 2026-11-20T10:00:00+00:00".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        parse_timestamp("from", text).unwrap()
    }

    fn window(tags: &str, times: WindowTimes) -> MaintenanceWindow {
        let tags = Tags::from_stored(tags);
        MaintenanceWindow { id: WindowId(1), uuid: Uuid::nil(), project: ProjectId(1), name: Name::default(), tags, times }
    }

    fn given(fields: &[(&str, &str)]) -> WindowTimesInput {
        let field = |name| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| (*value).to_owned());
        let minutes = field("minutes").map(|minutes| minutes.parse().unwrap());
        WindowTimesInput { from: field("from"), to: field("to"), schedule: field("schedule"), minutes, tz: field("tz") }
    }

    #[test]
    fn windows_are_open_from_their_beginning_to_before_their_end() {
        let now = at("2026-11-20T10:00:00Z");
        for (fields, open) in [
            (&[("minutes", "10")][..], vec![("10:00", Some("10:10")), ("10:09", Some("10:10")), ("10:10", None), ("09:59", None)]),
            (&[("from", "2026-11-20T12:00:00+02:00"), ("to", "2026-11-20T11:00:00Z")], vec![("10:00", Some("11:00")), ("11:00", None)]),
            (
                &[("schedule", "0 3 * * *"), ("minutes", "90"), ("tz", "Europe/Riga")],
                vec![("00:59", None), ("01:00", Some("02:30")), ("02:29", Some("02:30")), ("02:30", None), ("03:00", None)],
            ),
            // The next one opens before it closes.
            (&[("schedule", "0 * * * *"), ("minutes", "61")], vec![("10:00", Some("11:01")), ("10:59", Some("11:01"))]),
        ] {
            let window = window("", given(fields).parse(now).unwrap());
            let time = |time: &str| at(&format!("2026-11-20T{time}:00Z"));
            for (when, until) in open {
                assert_eq!(window.open_until(time(when)), until.map(time), "{fields:?} at {when}");
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_its_field() {
        let now = at("2026-11-20T10:00:00Z");
        for (fields, sentence) in [
            (&[][..], "minutes is wrong: say how long the window is open"),
            (&[("minutes", "0")], "minutes is wrong: give a number from 1 to 527040"),
            (&[("minutes", "527041")], "minutes is wrong: give a number from 1 to 527040"),
            (&[("schedule", "0 3 * * *"), ("minutes", "10081")], "minutes is wrong: give a number from 1 to 10080"),
            (&[("schedule", "0 3 * * *")], "minutes is wrong: say how long the window is open"),
            (&[("schedule", "0 3 * * *"), ("from", "x")], "schedule is wrong: a window has either a schedule or from and to"),
            (&[("minutes", "5"), ("tz", "UTC")], "tz is wrong: it belongs to a schedule; other times carry their offset"),
            (&[("minutes", "5"), ("to", "2027-01-01T00:00:00Z")], "minutes is wrong: a window has either minutes or to"),
            (&[("to", "2026-11-20")], "to is wrong: give a time with its offset, as in 2026-11-20T10:00:00+00:00"),
            (&[("from", "2026-11-21T00:00:00Z"), ("to", "2026-11-21T00:00:00Z")], "to is wrong: it does not lie after from"),
            (&[("from", "2026-11-19T00:00:00Z"), ("to", "2026-11-20T10:00:00Z")], "to is wrong: it lies in the past"),
            (&[("to", "2027-11-22T00:00:00Z")], "to is wrong: it lies more than 366 days after from"),
        ] {
            assert_eq!(given(fields).parse(now).unwrap_err().to_string(), sentence, "{fields:?}");
        }
        assert_eq!(given(&[("schedule", "x"), ("minutes", "5")]).parse(now).unwrap_err().0, "schedule");
        assert_eq!(given(&[("schedule", "0 3 * * *"), ("minutes", "5"), ("tz", "Nowhere")]).parse(now).unwrap_err().0, "tz");
    }

    #[test]
    fn a_check_needs_all_tags_of_a_window() {
        let about = |window_tags: &str, tags: &str| {
            window(window_tags, WindowTimes::Once { from: Timestamp::default(), to: Timestamp::default() })
                .applies_to(&Tags::from_stored(tags))
        };
        assert!(about("", "") && about("", "a") && about("a", "b a") && about("a b", "b a c"));
        assert!(!about("a", "") && !about("a b", "a"));
    }
}
