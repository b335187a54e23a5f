//! Formats durations, times, counts and shell words, so that messages and pages agree.

use std::borrow::Cow;

use super::timestamp::{MICROS_PER_SEC, Timestamp};
use super::timezone::Timezone;
use super::timezone::wall_time::WallTime;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Formats a number and its unit: `1 check`, `2 checks`.
pub fn format_count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// Quotes a word for a POSIX shell, if it needs quotes.
pub fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Formats microseconds in the two largest units that matter: `40 seconds`, `4 min 12 s`, `9
/// hours`, `2 d 3 h`.
pub fn format_duration(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SEC;
    let units = [
        (86_400, "d", "day"),
        (3_600, "h", "hour"),
        (60, "min", "minute"),
        (1, "s", "second"),
    ];
    let Some(at) = units.iter().position(|(unit, ..)| seconds >= *unit) else {
        return "less than a second".into();
    };
    let whole = |(unit, short, long): (i64, &str, &str), of: i64, alone: bool| match of / unit {
        1 if alone => format!("1 {long}"),
        number if alone => format!("{number} {long}s"),
        number => format!("{number} {short}"),
    };
    let Some((first, second)) = units
        .get(at)
        .map(|first| (*first, units.get(at + 1).copied()))
    else {
        return String::new();
    };
    match second {
        Some(second) if seconds % first.0 >= second.0 => {
            format!(
                "{} {}",
                whole(first, seconds, false),
                whole(second, seconds % first.0, false)
            )
        }
        _ => whole(first, seconds, true),
    }
}

/// Formats seconds as settings and files have them, in the largest unit that divides them: `90s`,
/// `15m`, `2h`, `1d`.
pub fn format_seconds(seconds: i64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let (name, unit) = units
        .into_iter()
        .find(|(_, unit)| seconds % unit == 0)
        .unwrap_or(("s", 1));
    format!("{}{name}", seconds / unit)
}

/// Formats a number of bytes: `98.7 kB`.
pub fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Formats times relative to now, in one time zone.
#[derive(Clone, Copy, Debug)]
pub struct TimeFormatter<'a> {
    /// Time at which the text is written.
    pub now: Timestamp,
    /// Time zone of the text.
    pub zone: &'a Timezone,
}

impl TimeFormatter<'_> {
    /// Formats a time to the minute: `03:30` today, `yesterday 03:31`, `Fri 13 Nov 03:31` within
    /// half a year, else `13 Nov 2025 03:31`.
    pub fn at(&self, moment: Timestamp) -> String {
        self.format_time(moment, false)
    }

    /// Formats a time for use in a sentence: `at 03:30`, `yesterday at 03:31`, `on Fri 13 Nov at
    /// 03:31`.
    pub fn at_phrase(&self, moment: Timestamp) -> String {
        match self.at(moment).rsplit_once(' ') {
            None => format!("at {}", self.at(moment)),
            Some((day @ ("yesterday" | "tomorrow"), time)) => format!("{day} at {time}"),
            Some((_, word)) if !word.contains(':') => format!("at {}", self.at(moment)),
            Some((day, time)) => format!("on {day} at {time}"),
        }
    }

    /// Formats a time to the second.
    pub fn at_second(&self, moment: Timestamp) -> String {
        self.format_time(moment, true)
    }

    /// Formats the distance of a time from now, in one unit: `just now`, `42 s ago`, `in 15 h`, `7
    /// d ago`; from 14 days on its date. A time that has not come is never `just now`.
    pub fn relative(&self, moment: Timestamp) -> String {
        let distance = moment.micros_since(self.now) / MICROS_PER_SEC;
        let seconds = distance.saturating_abs();
        let far = match seconds {
            0..5 if distance <= 0 => return "just now".into(),
            0..60 => format!("{seconds} s"),
            60..3_600 => format!("{} min", seconds / 60),
            3_600..172_800 => format!("{} h", seconds / 3_600),
            172_800..1_209_600 => format!("{} d", seconds / 86_400),
            _ => return self.date(moment),
        };
        if distance < 0 {
            format!("{far} ago")
        } else {
            format!("in {far}")
        }
    }

    /// Formats the day of a time: `20 Nov 2026`.
    pub fn date(&self, moment: Timestamp) -> String {
        let Some(shown) = self.zone.wall_time_at(moment).and_then(WallTime::to_civil) else {
            return "an unknown time".into();
        };
        format!(
            "{} {} {}",
            shown.day(),
            name_at(&MONTHS, i64::from(shown.month()) - 1),
            shown.year()
        )
    }

    /// Formats the month of a time: `Nov 2026`.
    pub fn month(&self, moment: Timestamp) -> String {
        let date = self.date(moment);
        date.split_once(' ')
            .map_or_else(|| date.clone(), |(_, month)| month.to_owned())
    }

    /// Formats a time to the second with its day and zone: `20 Nov 2026, 12:56:21 (Europe/Riga)`.
    pub fn exact(&self, moment: Timestamp) -> String {
        let Some(shown) = self.zone.wall_time_at(moment).and_then(WallTime::to_civil) else {
            return "an unknown time".into();
        };
        let hour = shown.hour();
        let minute = shown.minute();
        let second = shown.second();
        format!(
            "{}, {hour:02}:{minute:02}:{second:02} ({})",
            self.date(moment),
            self.zone.name()
        )
    }

    /// Formats a time to the minute with its weekday and UTC offset: `Sat 21 Nov 03:30 +02`.
    pub fn with_offset(&self, moment: Timestamp) -> String {
        let Some(wall) = self.zone.wall_time_at(moment) else {
            return "an unknown time".into();
        };
        let Some(shown) = wall.to_civil() else {
            return "an unknown time".into();
        };
        let offset = (wall.secs() - moment.secs()) / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let hours = offset.abs() / 60;
        let minutes = offset.abs() % 60;
        let minutes = if minutes == 0 {
            String::new()
        } else {
            format!(":{minutes:02}")
        };
        let day = weekday(wall);
        let month = name_at(&MONTHS, i64::from(shown.month()) - 1);
        format!(
            "{day} {} {month} {:02}:{:02} {sign}{hours:02}{minutes}",
            shown.day(),
            shown.hour(),
            shown.minute()
        )
    }

    /// Formats the span between two times: `from 03:45 until 08:57`, to the second if it is short.
    pub fn span(&self, from: Timestamp, until: Timestamp) -> String {
        let written = |at| self.format_time(at, until.micros_since(from) < 600 * MICROS_PER_SEC);
        format!("from {} until {}", written(from), written(until))
    }

    fn format_time(&self, moment: Timestamp, seconds: bool) -> String {
        let Some((wall, today)) = self
            .zone
            .wall_time_at(moment)
            .zip(self.zone.wall_time_at(self.now))
        else {
            return "an unknown time".into();
        };
        let Some(shown) = wall.to_civil() else {
            return "an unknown time".into();
        };
        let days = |wall: i64| wall.div_euclid(86_400);
        let ahead = days(wall.secs()) - days(today.secs());
        let day = shown.day();
        let month = name_at(&MONTHS, i64::from(shown.month()) - 1);
        let date: Cow<'_, str> = match ahead {
            0 => "".into(),
            -1 => "yesterday ".into(),
            1 => "tomorrow ".into(),
            -180..=180 => format!("{} {day} {month} ", weekday(wall)).into(),
            _ => format!("{day} {month} {} ", shown.year()).into(),
        };
        let second = if seconds {
            format!(":{:02}", shown.second())
        } else {
            String::new()
        };
        format!("{date}{:02}:{:02}{second}", shown.hour(), shown.minute())
    }
}

/// Weekday that a clock shows.
fn weekday(wall: WallTime) -> &'static str {
    // 1970-01-01 was a Thursday.
    name_at(
        &WEEKDAYS,
        (wall.secs().div_euclid(86_400) + 3).rem_euclid(7),
    )
}

fn name_at(names: &[&'static str], at: i64) -> &'static str {
    usize::try_from(at)
        .ok()
        .and_then(|at| names.get(at).copied())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_unit() {
        for (bytes, words) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (98_765, "98.7 kB"),
            (1_250_000, "1.2 MB"),
        ] {
            assert_eq!(format_size(bytes), words);
        }
    }

    #[test]
    fn quoted_words_survive_a_shell() {
        for (word, wanted) in [
            ("/var/lib/x", "/var/lib/x"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("?a=1", "'?a=1'"),
        ] {
            assert_eq!(shell_word(word), wanted);
        }
    }

    fn moment(text: &str) -> Timestamp {
        Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
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
            assert_eq!(
                format_duration(seconds * MICROS_PER_SEC + 999),
                words,
                "{seconds}"
            );
        }
        assert_eq!(
            (
                format_count(0, "check"),
                format_count(1, "check"),
                format_count(2, "check")
            ),
            ("0 checks".into(), "1 check".into(), "2 checks".into())
        );
    }

    #[test]
    fn times_are_formatted_relative_to_now() {
        let riga = Timezone::parse("Europe/Riga").unwrap();
        let times = TimeFormatter {
            now: moment("2026-11-20T07:00:00Z"),
            zone: &riga,
        };
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
        for (at, words) in [
            ("2026-11-20T01:45:59Z", "at 03:45"),
            ("2026-11-19T21:59:00Z", "yesterday at 23:59"),
            ("2026-11-13T01:31:00Z", "on Fri 13 Nov at 03:31"),
            ("2025-11-13T01:31:00Z", "on 13 Nov 2025 at 03:31"),
        ] {
            assert_eq!(times.at_phrase(moment(at)), words, "{at}");
        }
        let from = moment("2026-11-20T01:45:10Z");
        let until = moment("2026-11-20T01:45:50Z");
        assert_eq!(times.span(from, until), "from 03:45:10 until 03:45:50");
        assert_eq!(
            times.span(from, moment("2026-11-20T06:57:00Z")),
            "from 03:45 until 08:57"
        );
    }

    #[test]
    fn distances_have_one_unit() {
        let riga = Timezone::parse("Europe/Riga").unwrap();
        let times = TimeFormatter {
            now: moment("2026-11-20T10:56:21Z"),
            zone: &riga,
        };
        for (seconds, words) in [
            (0, "just now"),
            (-4, "just now"),
            (1, "in 1 s"),
            (4, "in 4 s"),
            (-5, "5 s ago"),
            (59, "in 59 s"),
            (-60, "1 min ago"),
            (3_599, "in 59 min"),
            (-3_600, "1 h ago"),
            (172_799, "in 47 h"),
            (-172_800, "2 d ago"),
            (1_209_599, "in 13 d"),
            (-1_209_600, "6 Nov 2026"),
            (5_000_000, "17 Jan 2027"),
        ] {
            assert_eq!(
                times.relative(times.now.plus_secs(seconds)),
                words,
                "{seconds}"
            );
        }
    }

    #[test]
    fn exact_times_name_their_zone() {
        for (zone, exact, offset, month) in [
            (
                "Europe/Riga",
                "1 Jan 2027, 00:30:05 (Europe/Riga)",
                "Fri 1 Jan 00:30 +02",
                "Jan 2027",
            ),
            (
                "UTC",
                "31 Dec 2026, 22:30:05 (UTC)",
                "Thu 31 Dec 22:30 +00",
                "Dec 2026",
            ),
            (
                "America/St_Johns",
                "31 Dec 2026, 19:00:05 (America/St_Johns)",
                "Thu 31 Dec 19:00 -03:30",
                "Dec 2026",
            ),
        ] {
            let zone = Timezone::parse(zone).unwrap();
            let at = moment("2026-12-31T22:30:05Z");
            let times = TimeFormatter {
                now: at,
                zone: &zone,
            };
            assert_eq!(
                (times.exact(at), times.with_offset(at), times.month(at)),
                (exact.into(), offset.into(), month.into())
            );
        }
    }
}
