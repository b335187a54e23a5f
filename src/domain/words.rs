//! Durations, times and counts in words, so that messages and pages say them alike.

use std::borrow::Cow;

use super::moment::{MICROS, Moment};
use super::timezone::Timezone;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A number and what it counts: `1 check`, `2 checks`.
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// How long microseconds are, in the two largest units that matter: `40 seconds`, `4 min 12 s`, `9 hours`, `2 d 3 h`.
pub fn duration(micros: i64) -> String {
    let seconds = micros / MICROS;
    let units = [(86_400, "d", "day"), (3_600, "h", "hour"), (60, "min", "minute"), (1, "s", "second")];
    let Some(at) = units.iter().position(|(unit, ..)| seconds >= *unit) else { return "less than a second".into() };
    let whole = |(unit, short, long): (i64, &str, &str), of: i64, alone: bool| match of / unit {
        1 if alone => format!("1 {long}"),
        number if alone => format!("{number} {long}s"),
        number => format!("{number} {short}"),
    };
    let Some((first, second)) = units.get(at).map(|first| (*first, units.get(at + 1).copied())) else { return String::new() };
    match second {
        Some(second) if seconds % first.0 >= second.0 => {
            format!("{} {}", whole(first, seconds, false), whole(second, seconds % first.0, false))
        }
        _ => whole(first, seconds, true),
    }
}

/// The clock that a text is read by: times are said as seen from now, in one zone.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    /// The moment at which the text is written.
    pub now: Moment,
    /// The zone of its times.
    pub zone: &'a Timezone,
}

impl Times<'_> {
    /// A moment to the minute: `03:30` today, `yesterday 03:31`, `Fri 13 Nov 03:31` within half a year, else `13 Nov 2025 03:31`.
    pub fn at(&self, moment: Moment) -> String {
        self.written(moment, false)
    }

    /// A moment to the second.
    pub fn at_second(&self, moment: Moment) -> String {
        self.written(moment, true)
    }

    /// A span between two moments: `from 03:45 until 08:57`, to the second when it is short.
    pub fn span(&self, from: Moment, until: Moment) -> String {
        let written = |at| self.written(at, until.micros_since(from) < 600 * MICROS);
        format!("from {} until {}", written(from), written(until))
    }

    fn written(&self, moment: Moment, seconds: bool) -> String {
        let Some((wall, today)) = self.zone.wall(moment).zip(self.zone.wall(self.now)) else { return "an unknown time".into() };
        let Some(shown) = wall.civil() else { return "an unknown time".into() };
        let days = |wall: i64| wall.div_euclid(86_400);
        let ahead = days(wall.secs()) - days(today.secs());
        let named = |names: &[&'static str], at: i64| usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default();
        let (day, month) = (shown.day(), named(&MONTHS, i64::from(shown.month()) - 1));
        let date: Cow<'_, str> = match ahead {
            0 => "".into(),
            -1 => "yesterday ".into(),
            1 => "tomorrow ".into(),
            // 1970-01-01 was a Thursday.
            -180..=180 => format!("{} {day} {month} ", named(&WEEKDAYS, (days(wall.secs()) + 3).rem_euclid(7))).into(),
            _ => format!("{day} {month} {} ", shown.year()).into(),
        };
        let second = if seconds { format!(":{:02}", shown.second()) } else { String::new() };
        format!("{date}{:02}:{:02}{second}", shown.hour(), shown.minute())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Moment {
        Moment::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    #[test]
    fn durations_name_two_units_at_most() {
        for (seconds, words) in [
            (0, "less than a second"),
            (1, "1 second"),
            (40, "40 seconds"),
            (60, "1 minute"),
            (252, "4 min 12 s"),
            (900, "15 minutes"),
            (3_600, "1 hour"),
            (3_601, "1 hour"),
            (18_720, "5 h 12 min"),
            (86_399, "23 h 59 min"),
            (86_400, "1 day"),
            (183_600, "2 d 3 h"),
            (31_536_000, "365 days"),
        ] {
            assert_eq!(duration(seconds * MICROS + 999), words, "{seconds}");
        }
        assert_eq!((count(0, "check"), count(1, "check"), count(2, "check")), ("0 checks".into(), "1 check".into(), "2 checks".into()));
    }

    #[test]
    fn times_are_said_as_seen_from_now() {
        let riga = Timezone::parse("Europe/Riga").unwrap();
        let times = Times { now: moment("2026-11-20T07:00:00Z"), zone: &riga };
        for (at, words) in [
            ("2026-11-20T01:45:59Z", "03:45"),
            ("2026-11-19T22:00:00Z", "00:00"),
            ("2026-11-19T21:59:00Z", "yesterday 23:59"),
            ("2026-11-21T01:30:00Z", "tomorrow 03:30"),
            ("2026-11-13T01:31:00Z", "Fri 13 Nov 03:31"),
            ("2027-01-01T00:00:00Z", "Fri 1 Jan 02:00"),
            ("2025-11-13T01:31:00Z", "13 Nov 2025 03:31"),
        ] {
            assert_eq!(times.at(moment(at)), words, "{at}");
        }
        let (from, until) = (moment("2026-11-20T01:45:10Z"), moment("2026-11-20T01:45:50Z"));
        assert_eq!(times.span(from, until), "from 03:45:10 until 03:45:50");
        assert_eq!(times.span(from, moment("2026-11-20T06:57:00Z")), "from 03:45 until 08:57");
    }
}
