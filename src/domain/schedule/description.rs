//! Describes a schedule in words, for the common shapes of expressions. Other expressions are
//! quoted.

use super::tokens::split_words;

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const SHORT_WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Describes an expression of either kind, such as `every day at 03:30`, or returns it in quotation
/// marks.
pub(super) fn describe(text: &str) -> String {
    let fields: Vec<_> = split_words(text).collect();
    let description = match fields.as_slice() {
        _ if text.trim().contains('\n') => None,
        &[minute, hour, day, month, weekday] => describe_cron(minute, hour, day, month, weekday),
        fields => describe_oncalendar(fields),
    };
    description.unwrap_or_else(|| format!("“{}”", split_words(text).collect::<Vec<_>>().join(" ")))
}

/// Describes the five words of cron.
fn describe_cron(
    minute: &str,
    hour: &str,
    day: &str,
    month: &str,
    weekday: &str,
) -> Option<String> {
    if month != "*" {
        return None;
    }
    let every_day = day == "*" && weekday == "*";
    if hour == "*" && every_day {
        return match (minute, parse_even_step(minute, 60)) {
            ("*", _) => Some("every minute".into()),
            (_, Some(step)) => Some(format!("every {step} minutes")),
            ("0", _) => Some("every hour".into()),
            _ => Some(format!(
                "every hour at minute {}",
                parse_number(minute, 59)?
            )),
        };
    }
    if let Some(step) = parse_even_step(hour, 24).filter(|_| every_day) {
        return match parse_number(minute, 59)? {
            0 => Some(format!("every {step} hours")),
            minute => Some(format!("every {step} hours at minute {minute}")),
        };
    }
    let minute = parse_number(minute, 59)?;
    let hours = hour
        .split(',')
        .map(|hour| parse_number(hour, 23))
        .collect::<Option<Vec<_>>>()?;
    // In an order other than that of the day the list would mislead.
    let times = hours.is_sorted().then(|| {
        join_with_and(
            hours
                .iter()
                .map(|hour| format!("{hour:02}:{minute:02}"))
                .collect(),
        )
    })?;
    match (day, weekday) {
        ("*", "*") => Some(format!("every day at {times}")),
        ("*", weekday) => Some(format!("{} at {times}", describe_weekdays(weekday)?)),
        (day, "*") => {
            let days = day
                .split(',')
                .map(|day| parse_number(day, 31))
                .collect::<Option<Vec<_>>>()?;
            let name = if days.len() == 1 { "day" } else { "days" };
            let days = join_with_and(days.iter().map(u8::to_string).collect());
            Some(format!("on {name} {days} of every month at {times}"))
        }
        _ => None,
    }
}

/// Describes the shortest forms of OnCalendar.
fn describe_oncalendar(fields: &[&str]) -> Option<String> {
    let time = |text: &str| {
        let time = text
            .strip_suffix(":00")
            .filter(|_| text.len() == 8)
            .unwrap_or(text);
        let (hour, minute) = time.split_once(':').filter(|_| time.len() == 5)?;
        Some(format!(
            "{:02}:{:02}",
            parse_number(hour, 23)?,
            parse_number(minute, 59)?
        ))
    };
    match fields {
        ["minutely"] => Some("every minute".into()),
        ["hourly"] => Some("every hour".into()),
        ["daily"] => Some("every day at 00:00".into()),
        ["weekly"] => Some("every Monday at 00:00".into()),
        ["monthly"] => Some("on day 1 of every month at 00:00".into()),
        [at] | ["*-*-*", at] => Some(format!("every day at {}", time(at)?)),
        [days, at] | [days, "*-*-*", at] => Some(format!(
            "{} at {}",
            describe_weekdays(&days.replace("..", "-").to_uppercase())?,
            time(at)?
        )),
        _ => None,
    }
}

/// Parses `*/N` where N divides the whole, so that all steps are equal.
fn parse_even_step(field: &str, whole: u8) -> Option<u8> {
    parse_number(field.strip_prefix("*/")?, whole / 2)
        .filter(|step| *step > 1 && whole.is_multiple_of(*step))
}

fn parse_number(field: &str, most: u8) -> Option<u8> {
    let digits =
        !field.is_empty() && field.len() <= 2 && field.bytes().all(|byte| byte.is_ascii_digit());
    field
        .parse()
        .ok()
        .filter(|number| digits && *number <= most)
}

/// Describes weekdays: one, a range or a list.
fn describe_weekdays(field: &str) -> Option<String> {
    let day = |text: &str| {
        let number = SHORT_WEEKDAYS
            .iter()
            .position(|short| short.eq_ignore_ascii_case(text));
        let number =
            number.or_else(|| self::parse_number(text, 7).map(|number| usize::from(number % 7)))?;
        WEEKDAYS.get(number).map(|name| (*name).to_owned())
    };
    if let Some((first, last)) = field.split_once('-') {
        return Some(format!("{} to {}", day(first)?, day(last)?));
    }
    let days = field.split(',').map(day).collect::<Option<Vec<_>>>()?;
    Some(format!("every {}", join_with_and(days)))
}

/// Joins names with commas and an `and`.
fn join_with_and(mut names: Vec<String>) -> String {
    match names.pop() {
        Some(last) if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        last => last.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::schedule::Schedule;
    use crate::domain::timestamp::Timestamp;
    use crate::domain::timezone::Timezone;

    /// Description of an expression, and the times that it names after midnight on Friday, 20
    /// November 2026, in UTC.
    #[test]
    fn common_expressions_are_described_in_words() {
        let midnight = Timestamp::from_secs(1_795_132_800 - 1);
        for (text, words, moments) in [
            ("* * * * *", "every minute", ["00:00", "00:01", "00:02"]),
            (
                "*/5 * * * *",
                "every 5 minutes",
                ["00:00", "00:05", "00:10"],
            ),
            ("0 * * * *", "every hour", ["00:00", "01:00", "02:00"]),
            (
                "7 * * * *",
                "every hour at minute 7",
                ["00:07", "01:07", "02:07"],
            ),
            ("0 */6 * * *", "every 6 hours", ["00:00", "06:00", "12:00"]),
            (
                "5 */12 * * *",
                "every 12 hours at minute 5",
                ["00:05", "12:05", "00:05"],
            ),
            (
                "30 3 * * *",
                "every day at 03:30",
                ["03:30", "03:30", "03:30"],
            ),
            (
                "30 3,15 * * *",
                "every day at 03:30 and 15:30",
                ["03:30", "15:30", "03:30"],
            ),
            (
                "0 9 * * 1-5",
                "Monday to Friday at 09:00",
                ["09:00", "09:00", "09:00"],
            ),
            (
                "0 9 * * 5,0",
                "every Friday and Sunday at 09:00",
                ["09:00", "09:00", "09:00"],
            ),
            (
                "0 0 1 * *",
                "on day 1 of every month at 00:00",
                ["00:00", "00:00", "00:00"],
            ),
            (
                "0 0 1,15 * *",
                "on days 1 and 15 of every month at 00:00",
                ["00:00", "00:00", "00:00"],
            ),
            ("daily", "every day at 00:00", ["00:00", "00:00", "00:00"]),
            (
                "*-*-* 04:30:00",
                "every day at 04:30",
                ["04:30", "04:30", "04:30"],
            ),
            (
                "Mon..Fri 10:00",
                "Monday to Friday at 10:00",
                ["10:00", "10:00", "10:00"],
            ),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(schedule.describe(), words, "{text}");
            let named: Vec<_> = schedule
                .occurrences(midnight, &Timezone::utc())
                .take(3)
                .map(|at| at.secs().rem_euclid(86_400) / 60)
                .collect();
            let wanted = moments.map(|time| {
                time.split(':').fold(0, |minutes, part| {
                    minutes * 60 + part.parse::<i64>().unwrap()
                })
            });
            assert_eq!(named, wanted, "{text}");
        }
        for text in [
            "*/7 * * * *",
            "0 9 1 * 1",
            "0 9 * 2 *",
            "15,45 3 * * *",
            "0 9-17 * * *",
            "0 0 L * *",
            "Mon *-*-1..7 10:00",
            "0 9 * * 5#2",
            "005 9 * * *",
        ] {
            assert_eq!(
                Schedule::parse(text).unwrap().describe(),
                format!("“{text}”")
            );
        }
        assert_eq!(
            Schedule::parse("Mon 10:00\nTue 11:00").unwrap().describe(),
            "“Mon 10:00 Tue 11:00”"
        );
    }
}
