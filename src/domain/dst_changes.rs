//! Warnings about the effect of the next changes of the clocks on a schedule.

use super::formatting::{TimeFormatter, format_count};
use super::schedule::Schedule;
use super::timestamp::Timestamp;
use super::timezone::Timezone;
use super::timezone::wall_time::{WallTime, WallTimeResolution};

/// Maximum number of changes of the clocks that are examined.
const MAX_CHANGES: usize = 2;
/// Seconds ahead in which changes are searched.
const LOOKAHEAD_SECS: i64 = 366 * 86_400;
/// Number of runs in a day from which a single run does not matter.
const FREQUENT_RUNS_PER_DAY: usize = 24;

/// Returns a sentence about each of the next two changes of the clocks within a year, if it shifts,
/// skips or repeats a run of the schedule.
pub fn dst_warnings(schedule: &Schedule, zone: &Timezone, now: Timestamp) -> Vec<String> {
    if schedule.has_own_zone() {
        return Vec::new();
    }
    let end = now.plus_secs(LOOKAHEAD_SECS);
    let changes = zone.transitions_after(now).take_while(|(at, _)| *at <= end);
    // Some changes affect only the name of the zone's time.
    let shifts = changes
        .filter_map(|(at, offset)| Some((at, offset - utc_offset_at(zone, at.plus_secs(-1))?)))
        .filter(|(_, by)| *by != 0);
    shifts
        .take(MAX_CHANGES)
        .filter_map(|(at, by)| dst_warning(schedule, zone, now, at, by > 0))
        .collect()
}

/// Offset of the zone from UTC in seconds.
fn utc_offset_at(zone: &Timezone, at: Timestamp) -> Option<i64> {
    Some(zone.wall_time_at(at)?.secs() - at.secs())
}

/// Describes the effect of the change at this time on the runs of the day before, of its day, and
/// of the day after.
fn dst_warning(
    schedule: &Schedule,
    zone: &Timezone,
    now: Timestamp,
    change: Timestamp,
    forward: bool,
) -> Option<String> {
    // In UTC, where the clocks never change, the schedule gives the wall times that it names.
    let midnight = zone.wall_time_at(change)?.midnight();
    let from = midnight.plus_secs(-86_400);
    let to = midnight.plus_secs(2 * 86_400);
    let utc = Timezone::utc();
    let named_times = schedule
        .occurrences(Timestamp::from_secs(from.secs() - 1), &utc)
        .map(|at| WallTime::from_secs(at.secs()));
    let named_times: Vec<_> = named_times
        .take_while(|wall| *wall < to)
        .take(3 * FREQUENT_RUNS_PER_DAY)
        .collect();
    if named_times.len() >= 3 * FREQUENT_RUNS_PER_DAY {
        return None;
    }
    let runs = schedule
        .occurrences(change.plus_secs(-86_400), zone)
        .take_while(|at| *at < change.plus_secs(86_400));
    let runs: Vec<_> = runs.take(2 * FREQUENT_RUNS_PER_DAY).collect();
    let mut skipped = Vec::new();
    let mut repeated = Vec::new();
    for wall in &named_times {
        match zone.resolve(*wall)? {
            WallTimeResolution::Skipped(..) => skipped.push(*wall),
            WallTimeResolution::Twice([first, second], _)
                if runs.contains(&first) && runs.contains(&second) =>
            {
                repeated.push(*wall);
            }
            WallTimeResolution::Twice(..) | WallTimeResolution::Once(_) => {}
        }
    }
    // A skipped run may come right after the change, at a time that the schedule does not name.
    let moved_to = runs.iter().find(|at| {
        **at >= change
            && zone
                .wall_time_at(**at)
                .is_some_and(|wall| !named_times.contains(&wall))
    });
    let moved_to = moved_to.and_then(|at| zone.wall_time_at(*at));
    let effect = match (skipped.as_slice(), repeated.as_slice()) {
        ([], []) => return None,
        ([one], _) => match moved_to {
            Some(new_time) => format!(
                "the run at {} is moved to {}",
                format_wall_time(*one),
                format_wall_time(new_time)
            ),
            None => format!("the run at {} is skipped", format_wall_time(*one)),
        },
        ([], [one]) => format!("the run at {} happens twice", format_wall_time(*one)),
        ([], more) => format!("{} happen twice", format_count(more.len(), "run")),
        (more, _) => match moved_to {
            Some(new_time) => {
                format!(
                    "of {} in the skipped hour, only one happens, at {}",
                    format_count(more.len(), "run"),
                    format_wall_time(new_time)
                )
            }
            None => format!("{} are skipped", format_count(more.len(), "run")),
        },
    };
    let times = TimeFormatter { now, zone };
    let direction = if forward { "forward" } else { "back" };
    Some(format!(
        "Clocks go {direction} on {}: {effect}.",
        times.date(change)
    ))
}

/// Formats a wall time to the minute.
fn format_wall_time(wall: WallTime) -> String {
    let minutes = wall.second_of_day() / 60;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn warnings(schedule: &str, zone: &str) -> Vec<String> {
        let now = Timestamp::from_micros(
            "2026-11-20T10:00:00Z"
                .parse::<jiff::Timestamp>()
                .unwrap()
                .as_microsecond(),
        );
        dst_warnings(
            &Schedule::parse(schedule).unwrap(),
            &Timezone::parse(zone).unwrap(),
            now,
        )
    }

    #[test]
    fn warnings_are_correct_in_twenty_zones() {
        let forward = |date: &str, what: &str| format!("Clocks go forward on {date}: {what}.");
        let back = |date: &str, what: &str| format!("Clocks go back on {date}: {what}.");
        for (zone, hour, words) in [
            (
                "Europe/Riga",
                3,
                vec![forward("28 Mar 2027", "the run at 03:30 is moved to 04:00")],
            ),
            (
                "Europe/London",
                1,
                vec![forward("28 Mar 2027", "the run at 01:30 is moved to 02:00")],
            ),
            (
                "Europe/Lisbon",
                1,
                vec![forward("28 Mar 2027", "the run at 01:30 is moved to 02:00")],
            ),
            (
                "Europe/Berlin",
                2,
                vec![forward("28 Mar 2027", "the run at 02:30 is moved to 03:00")],
            ),
            ("Europe/Berlin", 4, vec![]),
            (
                "America/New_York",
                2,
                vec![forward("14 Mar 2027", "the run at 02:30 is moved to 03:00")],
            ),
            (
                "America/Los_Angeles",
                2,
                vec![forward("14 Mar 2027", "the run at 02:30 is moved to 03:00")],
            ),
            (
                "America/St_Johns",
                2,
                vec![forward("14 Mar 2027", "the run at 02:30 is moved to 03:00")],
            ),
            (
                "America/Havana",
                0,
                vec![forward("14 Mar 2027", "the run at 00:30 is moved to 01:00")],
            ),
            (
                "America/Santiago",
                0,
                vec![forward("5 Sep 2027", "the run at 00:30 is moved to 01:00")],
            ),
            (
                "Atlantic/Azores",
                0,
                vec![forward("28 Mar 2027", "the run at 00:30 is moved to 01:00")],
            ),
            (
                "Africa/Cairo",
                0,
                vec![forward("30 Apr 2027", "the run at 00:30 is moved to 01:00")],
            ),
            (
                "Asia/Beirut",
                0,
                vec![forward("28 Mar 2027", "the run at 00:30 is moved to 01:00")],
            ),
            (
                "Asia/Jerusalem",
                2,
                vec![forward("26 Mar 2027", "the run at 02:30 is moved to 03:00")],
            ),
            (
                "Australia/Sydney",
                2,
                vec![forward("3 Oct 2027", "the run at 02:30 is moved to 03:00")],
            ),
            ("Australia/Lord_Howe", 2, vec![]),
            (
                "Pacific/Auckland",
                2,
                vec![forward("26 Sep 2027", "the run at 02:30 is moved to 03:00")],
            ),
            (
                "Antarctica/Troll",
                1,
                vec![forward("28 Mar 2027", "the run at 01:30 is moved to 03:00")],
            ),
            ("America/Asuncion", 0, vec![]),
            ("Asia/Tokyo", 2, vec![]),
            ("UTC", 2, vec![]),
        ] {
            assert_eq!(
                warnings(&format!("30 {hour} * * *"), zone),
                words,
                "{zone} {hour}"
            );
        }
        assert_eq!(
            warnings("*-*-* 03:30", "Europe/Riga"),
            [forward("28 Mar 2027", "the run at 03:30 is skipped")]
        );
        let both = [
            forward("28 Mar 2027", "4 runs are skipped"),
            back("31 Oct 2027", "4 runs happen twice"),
        ];
        assert_eq!(warnings("*/15 3 * * *", "Europe/Riga"), both);
        let one = forward(
            "28 Mar 2027",
            "of 2 runs in the skipped hour, only one happens, at 04:00",
        );
        assert_eq!(warnings("15,45 3 * * *", "Europe/Riga"), [one]);
        for calm in [
            "* * * * *",
            "*/5 * * * *",
            "0 * * * *",
            "0 12 * * *",
            "*-*-* 03:30 UTC",
            "2026-01-01",
        ] {
            assert_eq!(
                warnings(calm, "Europe/Riga"),
                Vec::<String>::new(),
                "{calm}"
            );
        }
    }

    #[test]
    fn a_change_is_announced_up_to_366_days_before() {
        let schedule = Schedule::parse("*/15 3 * * *").unwrap();
        let riga = Timezone::parse("Europe/Riga").unwrap();
        // 31 October 2027, 01:00 in UTC, less 366 days.
        let now = Timestamp::from_secs(1_793_322_000);
        for (early, count) in [(0, 2), (1, 1)] {
            let warnings = dst_warnings(&schedule, &riga, now.plus_secs(-early));
            assert_eq!(warnings.len(), count, "{warnings:?}");
        }
    }

    #[test]
    fn the_run_of_the_next_night_is_not_the_skipped_run() {
        for (zone, date) in [
            ("America/Havana", "14 Mar 2027"),
            ("Asia/Beirut", "28 Mar 2027"),
        ] {
            assert_eq!(
                warnings("*-*-* 00:30", zone),
                [format!(
                    "Clocks go forward on {date}: the run at 00:30 is skipped."
                )]
            );
        }
    }

    proptest! {
        /// A job away from midnight and the hours of the night is never affected.
        #[test]
        fn daytime_jobs_cause_no_warning(
            hour in 5..22,
            minute in 0..60,
            zone in prop::sample::select(vec![
                "Europe/Riga",
                "America/New_York",
                "America/St_Johns",
                "Asia/Beirut",
                "Pacific/Auckland",
                "Australia/Lord_Howe",
            ]),
        ) {
            let warnings = warnings(&format!("{minute} {hour} * * *"), zone);
            prop_assert_eq!(warnings, Vec::<String>::new());
        }
    }
}
