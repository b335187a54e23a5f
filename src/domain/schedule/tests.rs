mod fuzz;
mod real_time;

use jiff::ToSpan as _;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

fn moment(text: &str) -> Timestamp {
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn zone(name: &str) -> Timezone {
    Timezone::from_database(name).unwrap()
}

fn written(moment: Timestamp) -> String {
    jiff::Timestamp::from_second(moment.secs())
        .unwrap()
        .to_string()
}

/// First times after `start`, as RFC 3339.
fn series(text: &str, tz: &str, start: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    schedule
        .occurrences(moment(start), &zone(tz))
        .take(count)
        .map(written)
        .collect()
}

fn reason(text: &str) -> String {
    Schedule::parse(text).expect_err(text).to_string()
}

/// Compares with `kind | expression | zone start | times`, or `error` for the last two: results of
/// cronsim 2.7 and oncalendar 1.1, which Healthchecks uses, for random expressions.
#[test]
fn times_agree_with_the_reference() {
    for line in include_str!("reference.txt").lines() {
        let columns: Vec<&str> = line.split(" | ").collect();
        let text = columns[1].replace("\\n", "\n").replace("\\t", "\t");
        if columns[2] == "refused" {
            assert!(Schedule::parse(&text).is_err(), "{line}");
            continue;
        }
        let (tz, start) = columns[2].split_once(' ').unwrap();
        let next: Vec<&str> = columns
            .get(3)
            .map_or(Vec::new(), |next| next.split(' ').collect());
        assert_eq!(series(&text, tz, start, 4), next, "{line}");
        let kind = if columns[0] == "cron" {
            ScheduleKind::Cron
        } else {
            ScheduleKind::OnCalendar
        };
        assert_eq!(Schedule::parse(&text).unwrap().kind(), kind, "{line}");
    }
}

#[test]
fn five_words_on_one_line_are_cron_and_everything_else_is_oncalendar() {
    for (text, kind) in [
        ("* * * * *", ScheduleKind::Cron),
        ("\u{1c}0\t0 1\u{a0}1\u{1f}mon\u{2029}\n", ScheduleKind::Cron),
        ("daily", ScheduleKind::OnCalendar),
        ("Mon *-*-* 12:00 Europe/Riga", ScheduleKind::OnCalendar),
        ("Mon\n12:00\n*-1\n13:00\n14:00", ScheduleKind::OnCalendar),
    ] {
        let schedule = Schedule::parse(text).unwrap();
        assert_eq!((schedule.kind(), schedule.text()), (kind, text));
    }
}

#[test]
fn schedules_are_equal_if_their_texts_are() {
    let parse = |text| Schedule::parse(text).unwrap();
    assert_eq!(parse("0 3 * * *"), parse("0 3 * * *"));
    assert_ne!(parse("0 3 * * *"), parse("0 4 * * *"));
}

#[test]
fn length_is_counted_in_code_points() {
    assert!(Schedule::parse(&format!("0 0 1 1 *{}", "\u{2003}".repeat(91))).is_ok());
    assert_eq!(
        Schedule::parse(&format!("0 0 1 1 *{}", "\u{2003}".repeat(92))),
        Err(ScheduleError::TooLong)
    );
    assert_eq!(
        Schedule::parse(&"ā".repeat(101)),
        Err(ScheduleError::TooLong)
    );
}

#[test]
fn errors_name_the_problem() {
    for (text, why) in [
        ("60 * * * *", "minute `60`: 0-59"),
        ("* 24 * * *", "hour `24`: 0-23"),
        ("* * ? * *", "day of month `?`: 1-31, L or LW"),
        ("* * * MRZ *", "month `MRZ`: 1-12 or JAN-DEC"),
        ("* * * * 8", "weekday `8`: 0-7 or SUN-SAT"),
        ("* 22-4 * * *", "hour `22-4`: a range goes from low to high"),
        ("*/0 * * * *", "minute `*/0`: a step must be at least 1"),
        (
            "* * * * friL",
            "weekday `FRIL`: write the last weekday of a month as a digit and an L, as in 5L",
        ),
        (
            "* * * * 5#6",
            "weekday `5#6`: # is followed by 1-5, as in FRI#2",
        ),
        (
            "0 0 30 2 1",
            "day of month `30`: none of these months has such a day",
        ),
        ("0 0 */28 2 MON#2", "no year after 1999 has such a date"),
        (
            "0 */5 * * * *",
            "six fields: overdue accepts five; remove the seconds",
        ),
        (
            "@daily",
            "`@daily`: use an OnCalendar word, such as daily, or five cron fields",
        ),
        ("", "an empty line: give weekdays, a date or a time"),
        (
            "daily\n\nweekly",
            "an empty line: give weekdays, a date or a time",
        ),
        ("25:00", "hour `25`: 0-23, or * alone"),
        ("*:0/0", "minute `0/0`: a step must be at least 1"),
        ("*-13-1", "month `13`: 1-12, or * alone"),
        (
            "*-*~29",
            "day of month `29`: counted from the end of the month, a day is 1-28",
        ),
        (
            "Fri..Mon",
            "weekday `Fri..Mon`: a range goes from low to high, and Monday is the lowest",
        ),
        ("Foo 12:00", "weekday `Foo`: Mon-Sun or Monday-Sunday"),
        (
            "Mon Tue 12:00",
            "`Mon`: an expression is weekdays, a date, a time and a time zone, in this order, \
             each as one word",
        ),
        ("1999-12-31", "no year after 1999 has such a date"),
    ] {
        assert_eq!(reason(text), why, "{text}");
    }
    // Every month has this day.
    assert!(Schedule::parse("*-*~28").is_ok());
}

#[test]
fn a_schedule_of_the_past_is_valid_and_has_ended() {
    assert_eq!(
        series("2000-1-1 0:0:1", "UTC", "1999-01-01T00:00:00Z", 2),
        ["2000-01-01T00:00:01Z"]
    );
    assert!(series("2020-1-1", "UTC", "2020-01-01T00:00:00Z", 2).is_empty());
    assert!(Schedule::parse("2000-1-1").is_err());
}

#[test]
fn no_time_is_too_far() {
    let schedule = Schedule::parse("*/7 3 * * *").unwrap();
    let ended = Schedule::parse("*:*:*").unwrap();
    for micros in [
        i64::MIN,
        i64::MIN + 1,
        -377_705_023_201_000_000,
        253_402_300_799_000_000,
        253_402_207_200_000_000,
        i64::MAX,
    ] {
        for name in ["UTC", "Europe/Riga", "Pacific/Chatham"] {
            let after = Timestamp::from_micros(micros);
            let zone = zone(name);
            assert!(
                schedule
                    .next_after(after, &zone)
                    .is_none_or(|next| next > after)
            );
            assert!(
                ended
                    .next_after(after, &zone)
                    .is_none_or(|next| next > after)
            );
        }
    }
}

/// Clocks in New York go from 02:00 to 03:00 on 2024-03-10, and from 02:00 back to 01:00 on
/// 2024-11-03.
#[test]
fn schedules_follow_changes_of_the_clocks() {
    for (text, tz, start, next) in [
        // By the wall clock: a skipped time comes at the end of the gap, a repeated one comes
        // once.
        (
            "30 2 * * *",
            "America/New_York",
            "2024-03-10T06:00:00Z",
            ["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2024-11-03T05:00:00Z",
            ["2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"],
        ),
        // The first pass is over; the time does not come again in the second.
        (
            "30 1 * * *",
            "America/New_York",
            "2024-11-03T06:10:00Z",
            ["2024-11-04T06:30:00Z", "2024-11-05T06:30:00Z"],
        ),
        (
            "0-59/15 0-3 * * *",
            "America/New_York",
            "2024-11-03T05:45:00Z",
            ["2024-11-03T07:00:00Z", "2024-11-03T07:15:00Z"],
        ),
        // In real time: a skipped time does not come, a repeated one comes twice.
        (
            "30 * * * *",
            "America/New_York",
            "2024-03-10T06:00:00Z",
            ["2024-03-10T06:30:00Z", "2024-03-10T07:30:00Z"],
        ),
        (
            "*/30 2 * * *",
            "America/New_York",
            "2024-03-10T06:00:00Z",
            ["2024-03-11T06:00:00Z", "2024-03-11T06:30:00Z"],
        ),
        (
            "*/30 1 * * *",
            "America/New_York",
            "2024-11-03T05:30:00Z",
            ["2024-11-03T06:00:00Z", "2024-11-03T06:30:00Z"],
        ),
        // OnCalendar: a skipped time does not come, a repeated one comes once.
        (
            "2:30",
            "America/New_York",
            "2024-03-10T06:00:00Z",
            ["2024-03-11T06:30:00Z", "2024-03-12T06:30:00Z"],
        ),
        (
            "*:0/30",
            "America/New_York",
            "2024-11-03T05:30:00Z",
            ["2024-11-03T07:00:00Z", "2024-11-03T07:30:00Z"],
        ),
        (
            "*:0/30",
            "America/New_York",
            "2024-11-03T06:10:00Z",
            ["2024-11-03T07:00:00Z", "2024-11-03T07:30:00Z"],
        ),
        // Samoa skipped 2011-12-30.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T22:00:00Z",
            ["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
        ),
        (
            "*/30 12 * * *",
            "Pacific/Apia",
            "2011-12-29T22:30:00Z",
            ["2011-12-30T22:00:00Z", "2011-12-30T22:30:00Z"],
        ),
        (
            "12:00",
            "Pacific/Apia",
            "2011-12-29T22:00:00Z",
            ["2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"],
        ),
        (
            "*:*:*",
            "Pacific/Apia",
            "2011-12-30T09:59:59Z",
            ["2011-12-30T10:00:00Z", "2011-12-30T10:00:01Z"],
        ),
        // A last change without a yearly rule after it, and then one by the rule.
        (
            "0 7 * * *",
            "America/Metlakatla",
            "2019-01-20T08:00:00Z",
            ["2019-01-20T16:00:00Z", "2019-01-21T16:00:00Z"],
        ),
        (
            "*/5 7 * * *",
            "America/Metlakatla",
            "2019-01-20T08:00:00Z",
            ["2019-01-20T16:00:00Z", "2019-01-20T16:05:00Z"],
        ),
    ] {
        assert_eq!(series(text, tz, start, 2), next, "{text} {tz} {start}");
    }
}

/// If clocks go back at 03:45, the steps of the reference lead from the third hour into itself.
#[test]
fn every_search_ends() {
    let next = [
        "2023-04-01T05:09:00Z",
        "2023-04-01T08:09:00Z",
        "2023-04-01T11:09:00Z",
        "2023-04-01T15:09:00Z",
        "2023-04-01T18:09:00Z",
    ];
    assert_eq!(
        series(
            "54 */3 * 1-6 *",
            "Pacific/Chatham",
            "2023-04-01T02:53:50Z",
            5
        ),
        next
    );
    for (text, tz, start) in [
        ("54 */3 * * *", "Pacific/Chatham", "2023-04-01T11:00:00Z"),
        ("15,45 */3 * * *", "Pacific/Chatham", "2020-04-04T10:45:00Z"),
        ("* * * 10 7", "America/St_Johns", "2006-10-29T00:01:00Z"),
        ("31 * 5-17 * *", "Antarctica/Casey", "2010-02-22T16:12:50Z"),
        (
            "0-20/9 */15 18,*/7 * mon/6",
            "America/Moncton",
            "2005-10-29T23:46:00Z",
        ),
    ] {
        assert!(
            series(text, tz, start, 200).is_sorted_by(|a, b| a < b),
            "{text} {tz} {start}"
        );
    }
}

#[test]
fn several_lines_are_merged_by_the_clock_of_the_check() {
    let next = [
        "2024-07-01T04:00:00Z",
        "2024-07-01T07:00:00Z",
        "2024-07-01T10:00:00Z",
        "2024-07-02T04:00:00Z",
    ];
    assert_eq!(
        series(
            "10:00 UTC\n10:00\n7:00",
            "Europe/Riga",
            "2024-07-01T00:00:00Z",
            4
        ),
        next
    );
    // The same time in two lines comes once, and a line that ends leaves the others.
    let next = ["2024-07-01T10:00:00Z", "2024-07-02T10:00:00Z"];
    assert_eq!(
        series(
            "10:00 UTC\n13:00 Europe/Riga\n2024-7-1 10:00",
            "UTC",
            "2024-07-01T00:00:00Z",
            2
        ),
        next
    );
    // The repeated hour has passed in the zone of the first line, but not in the zone of the
    // second.
    let next = [
        "2024-10-27T01:30:00Z",
        "2024-10-27T02:00:00Z",
        "2024-10-27T02:30:00Z",
    ];
    assert_eq!(
        series(
            "*:0/30\n*:0/30 UTC",
            "Europe/Riga",
            "2024-10-27T01:10:00Z",
            3
        ),
        next
    );
}

/// Sets of minutes, hours, days of the month, months and weekdays, a bit for each value, with their
/// spelling in both kinds of expression.
#[derive(Clone, Debug)]
struct ScheduleModel {
    sets: [u64; 5],
    cron: [String; 5],
    on_calendar: [String; 5],
}

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

impl ScheduleModel {
    fn any() -> impl Strategy<Value = Self> {
        let word = |first: u64, last: u64, last_listed: u64| {
            let every = (2..=last).prop_map(move |step| {
                let set = (first..=last)
                    .step_by(step as usize)
                    .fold(0, |set, value| set | 1 << value);
                (set, format!("*/{step}"), format!("{first}/{step}"))
            });
            let list = prop::collection::btree_set(first..=last_listed, 1..6).prop_map(|set| {
                let text = set.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
                (
                    set.iter().fold(0, |set, value| set | 1 << value),
                    text.clone(),
                    text,
                )
            });
            prop_oneof![
                Just(((2 << last) - (1 << first), "*".to_owned(), "*".to_owned())),
                every,
                list
            ]
        };
        // Every month has the days up to the 28th.
        [
            word(0, 59, 59),
            word(0, 23, 23),
            word(1, 31, 28),
            word(1, 12, 12),
            word(0, 6, 6),
        ]
        .prop_map(|words| Self {
            sets: words.each_ref().map(|(set, _, _)| *set),
            cron: words.each_ref().map(|(_, cron, _)| cron.clone()),
            on_calendar: words.map(|(_, _, on_calendar)| on_calendar),
        })
    }

    /// Expression in which weekday and day of the month must both match.
    fn on_calendar(&self) -> String {
        let [minute, hour, day, month, _] = &self.on_calendar;
        let weekdays = (0..7)
            .filter(|day| self.sets[4] >> day & 1 == 1)
            .map(|day| WEEKDAYS[day])
            .collect::<Vec<_>>()
            .join(",");
        format!("{weekdays} {month}-{day} {hour}:{minute}")
    }

    fn matches(&self, at: DateTime, both: bool) -> bool {
        let [minutes, hours, days, months, weekdays] = self.sets;
        let has = |set: u64, value: i8| set >> value & 1 == 1;
        let day = has(days, at.day());
        let weekday = has(weekdays, at.weekday().to_sunday_zero_offset());
        let date = has(months, at.month()) && if both { day && weekday } else { day || weekday };
        date && has(hours, at.hour()) && has(minutes, at.minute())
    }
}

/// Number of minutes that the naive searches look ahead.
const HORIZON: i64 = 3 * 1440;

/// Steps through the minutes that the wall clock could show.
fn naive_by_wall(
    start: i64,
    zone: &TimeZone,
    matches: impl Fn(DateTime) -> bool,
    skipped_comes_later: bool,
) -> Option<i64> {
    let wall = zone
        .to_datetime(jiff::Timestamp::from_second(start).unwrap())
        .with()
        .second(0)
        .build()
        .unwrap();
    let shown = |wall: DateTime| {
        zone.to_timestamp(wall)
            .ok()
            .filter(|stamp| zone.to_datetime(*stamp) == wall)
    };
    (1..=HORIZON)
        .map(|minutes| wall + minutes.minutes())
        .filter(|wall| matches(*wall))
        .find_map(|wall| {
            let comes = if skipped_comes_later {
                (0..1441_i64).find_map(|more| shown(wall + more.minutes()))
            } else {
                shown(wall)
            };
            comes
                .map(jiff::Timestamp::as_second)
                .filter(|secs| *secs > start)
        })
}

/// Steps through the minutes that pass.
fn naive_in_real_time(
    start: i64,
    zone: &TimeZone,
    matches: impl Fn(DateTime) -> bool,
) -> Option<i64> {
    let minute = start.div_euclid(60) * 60;
    (1..=HORIZON)
        .map(|more| minute + more * 60)
        .find(|secs| matches(zone.to_datetime(jiff::Timestamp::from_second(*secs).unwrap())))
}

/// A zone whose clocks change by an hour after one o'clock at night, or never, and a time within
/// two days of such a change in 2024.
fn nights() -> impl Strategy<Value = (&'static str, i64)> {
    let zones = vec![
        "UTC",
        "Europe/Riga",
        "America/New_York",
        "Australia/Sydney",
        "Asia/Kolkata",
    ];
    let changes = vec![
        1_710_054_000_i64,
        1_711_846_800,
        1_712_419_200,
        1_728_144_000,
        1_729_990_800,
        1_730_613_600,
    ];
    (
        prop::sample::select(zones),
        prop::sample::select(changes),
        -172_800_i64..86_400,
    )
        .prop_map(|(zone, change, later)| (zone, change + later))
}

proptest! {
    #[test]
    fn nothing_between_start_and_next_matches(
        model in ScheduleModel::any(),
        (tz, start) in nights(),
    ) {
        let zone = zone(tz);
        let [minute, hour, day, _, weekday] = &model.cron;
        let both = day.starts_with('*') || weekday.starts_with('*');
        let cron = if minute.starts_with('*') || hour.starts_with('*') {
            naive_in_real_time(start, zone.rules(), |wall| model.matches(wall, both))
        } else {
            naive_by_wall(start, zone.rules(), |wall| model.matches(wall, both), true)
        };
        let matches_both = |wall| model.matches(wall, true);
        let on_calendar = naive_by_wall(start, zone.rules(), matches_both, false);
        for (text, naive) in [(model.cron.join(" "), cron), (model.on_calendar(), on_calendar)] {
            let schedule = Schedule::parse(&text).unwrap();
            let next = schedule.next_after(Timestamp::from_secs(start), &zone).unwrap();
            match naive {
                Some(secs) => prop_assert_eq!(next, Timestamp::from_secs(secs), "{}", text),
                None => prop_assert!(next.secs() > start + (HORIZON - 120) * 60, "{}", text),
            }
        }
    }

    #[test]
    fn each_time_leads_to_the_next_of_the_series(
        model in ScheduleModel::any(),
        (tz, start) in nights(),
        second in "|:0|:\\*|:7/20",
    ) {
        let zone = zone(tz);
        for text in [model.cron.join(" "), model.on_calendar() + &second] {
            let Ok(schedule) = Schedule::parse(&text) else { continue };
            let mut last = Timestamp::from_secs(start);
            for next in schedule.occurrences(last, &zone).take(20) {
                prop_assert!(next > last);
                prop_assert_eq!(schedule.next_after(last, &zone), Some(next));
                last = next;
            }
        }
    }

    #[test]
    fn no_text_panics_or_hangs(
        text in "[0-9*/,~:.L# \n\t@MonTueFRIUTCw-]{0,40}",
        anything in "\\PC{0,30}",
        cron in prop::collection::vec("[0-9*/,L#W-]{1,5}", 5),
        (tz, start) in nights(),
    ) {
        for text in [text, anything, cron.join(" ")] {
            if let Ok(schedule) = Schedule::parse(&text) {
                let after = Timestamp::from_secs(start);
                prop_assert!(schedule.next_after(after, &zone(tz)).is_none_or(|next| next > after));
            }
        }
    }
}
