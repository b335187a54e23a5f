//! Detects that the pings of a check fit its schedule in another time zone: the usual reason why a
//! job that runs seems late.

use super::formatting::format_duration;
use super::schedule::Schedule;
use super::timestamp::{MICROS_PER_SEC, Timestamp};
use super::timezone::Timezone;

/// Minimum number of runs; fewer prove nothing.
pub const MIN_RUNS: usize = 4;
/// Maximum number of runs; more add nothing.
pub const MAX_RUNS: usize = 50;
/// Maximum number of zones that are tried.
const MAX_ZONES: usize = 16;
/// Maximum number of scheduled times that are examined for one zone. With more of them between the
/// runs, no run is far from one.
const MAX_OCCURRENCES: usize = 2_000;
/// Minimum distance of half of the runs from the nearest scheduled time to count as a mismatch, in
/// microseconds.
const MISMATCH_MICROS: i64 = 25 * 60 * MICROS_PER_SEC;
/// Maximum distance of half of the runs to count as a match, in microseconds.
const MATCH_MICROS: i64 = 10 * 60 * MICROS_PER_SEC;
/// Seconds before the first run and after the last in which scheduled times are searched. No two
/// clocks are further apart.
const SEARCH_MARGIN_SECS: i64 = 27 * 3600;

/// Finding about the zone of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimezoneMismatch {
    /// Zone in which the runs fit.
    pub zone: Timezone,
    /// Delay of the runs after the schedule, in microseconds; negative if they come earlier.
    pub offset_micros: i64,
}

impl TimezoneMismatch {
    /// Describes the finding and a possible cause in two sentences.
    pub fn describe(&self) -> String {
        let quarter = 15 * 60 * MICROS_PER_SEC;
        let about = format_duration(
            (self.offset_micros.saturating_abs() + quarter / 2) / quarter * quarter,
        );
        let side = if self.offset_micros < 0 {
            "before"
        } else {
            "after"
        };
        let zone = self.zone.name();
        format!(
            "Pings come about {about} {side} the schedule. They fit if the machine's clock is set \
             to {zone}."
        )
    }
}

/// Returns the zone of `candidates` in which the runs fit the schedule, if they do not fit in the
/// check's own. `runs` are the times at which the last runs began, or ended if only that is known,
/// at most [`MAX_RUNS`], in any order. Of zones that fit equally the first is returned.
pub fn find_matching_timezone(
    schedule: &Schedule,
    check_zone: &Timezone,
    runs: &[Timestamp],
    candidates: &[Timezone],
) -> Option<TimezoneMismatch> {
    if runs.len() < MIN_RUNS || schedule.has_own_zone() {
        return None;
    }
    let offset = median_offset(schedule, check_zone, runs)
        .filter(|offset| offset.abs() >= MISMATCH_MICROS)?;
    let distance_in = |zone: &Timezone| {
        median_offset(schedule, zone, runs)
            .map(i64::abs)
            .filter(|distance| *distance <= MATCH_MICROS && distance * 3 <= offset.abs())
    };
    let fits = candidates
        .iter()
        .take(MAX_ZONES)
        .filter_map(|zone| Some((distance_in(zone)?, zone)));
    fits.min_by_key(|(distance, _)| *distance)
        .map(|(_, zone)| TimezoneMismatch {
            zone: zone.clone(),
            offset_micros: offset,
        })
}

/// Median distance of the runs from the nearest scheduled time, with its sign: negative for runs
/// that come before it. `None` if the schedule names too many times between the runs, or none.
fn median_offset(schedule: &Schedule, zone: &Timezone, runs: &[Timestamp]) -> Option<i64> {
    let first = runs.iter().min()?.plus_secs(-SEARCH_MARGIN_SECS);
    let last = runs.iter().max()?.plus_secs(SEARCH_MARGIN_SECS);
    let mut moments: Vec<_> = schedule
        .occurrences(first, zone)
        .take_while(|at| *at <= last)
        .take(MAX_OCCURRENCES)
        .collect();
    if moments.len() == MAX_OCCURRENCES {
        return None;
    }
    moments.sort_unstable();
    let mut offsets = Vec::with_capacity(runs.len());
    for run in runs {
        let next = moments.partition_point(|at| at < run);
        let around = moments.get(next.saturating_sub(1)..moments.len().min(next + 1))?;
        offsets.push(
            around
                .iter()
                .map(|at| run.micros_since(*at))
                .min_by_key(|offset| offset.abs())?,
        );
    }
    offsets.sort_unstable_by_key(|offset| offset.abs());
    offsets.get(offsets.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moment(text: &str) -> Timestamp {
        Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    fn zone(name: &str) -> Timezone {
        Timezone::parse(name).unwrap()
    }

    /// First times of a schedule for a clock in a zone, each this many seconds late.
    fn runs(schedule: &str, clock: &str, late: i64, count: usize) -> Vec<Timestamp> {
        let schedule = Schedule::parse(schedule).unwrap();
        let clock = zone(clock);
        let series = schedule.occurrences(moment("2026-11-01T00:00:00Z"), &clock);
        series.take(count).map(|at| at.plus_secs(late)).collect()
    }

    #[test]
    fn a_clock_in_another_zone_is_recognised() {
        let zones = ["Europe/Riga", "UTC", "America/New_York", "Asia/Kolkata"].map(zone);
        let found = |schedule: &str, own: &str, runs: &[Timestamp]| {
            find_matching_timezone(
                &Schedule::parse(schedule).unwrap(),
                &zone(own),
                runs,
                &zones,
            )
            .map(|found| found.describe())
        };
        let fits = |about: &str, zone: &str| {
            Some(format!(
                "Pings come about {about} the schedule. They fit if the machine's clock is set to \
                 {zone}."
            ))
        };
        for (schedule, own, clock, late, count, words) in [
            (
                "30 3 * * *",
                "Europe/Riga",
                "UTC",
                20,
                10,
                fits("2 hours after", "UTC"),
            ),
            (
                "30 3 * * *",
                "UTC",
                "Europe/Riga",
                20,
                10,
                fits("2 hours before", "Europe/Riga"),
            ),
            (
                "30 3 * * *",
                "UTC",
                "Asia/Kolkata",
                0,
                4,
                fits("5 h 30 min before", "Asia/Kolkata"),
            ),
            (
                "Mon *-*-* 10:00",
                "UTC",
                "America/New_York",
                60,
                15,
                fits("5 hours after", "America/New_York"),
            ),
            // Too few runs.
            ("30 3 * * *", "Europe/Riga", "UTC", 20, 3, None),
            // The runs fit as they are, or in no zone.
            ("30 3 * * *", "Europe/Riga", "Europe/Riga", 20, 10, None),
            ("30 3 * * *", "Europe/Riga", "UTC", 45 * 60, 10, None),
            ("30 3 * * *", "Europe/Riga", "Asia/Tokyo", 0, 10, None),
            // With a run every hour or more often, no run is far from the schedule.
            ("0 * * * *", "Europe/Riga", "UTC", 0, 20, None),
            ("* * * * *", "Europe/Riga", "UTC", 0, 50, None),
            // The zone of the check does not affect this schedule.
            (
                "*-*-* 03:30 Europe/Riga",
                "Europe/Riga",
                "UTC",
                7_200,
                10,
                None,
            ),
        ] {
            assert_eq!(
                found(schedule, own, &runs(schedule, clock, late, count)),
                words,
                "{schedule} {own} {clock} {late}"
            );
        }
    }

    #[test]
    fn a_few_manual_runs_do_not_hide_a_mismatch() {
        let mut runs = runs("30 3 * * *", "UTC", 20, 10);
        runs.extend([
            moment("2026-11-05T12:00:00Z"),
            moment("2026-11-06T17:00:00Z"),
        ]);
        let found = find_matching_timezone(
            &Schedule::parse("30 3 * * *").unwrap(),
            &zone("Europe/Riga"),
            &runs,
            &[zone("UTC")],
        );
        assert_eq!(found.unwrap().zone, zone("UTC"));
    }

    #[test]
    fn a_mismatch_is_far_from_the_schedule_and_three_times_as_far_as_in_another_zone() {
        // Clocks in Sao Paulo are three hours behind UTC, so the first time is at 13:00.
        for (second_time, run, is_reported) in [
            ("12:40", "13:04:59", false),
            ("12:40", "13:05:00", true),
            ("12:40", "13:10:00", true),
            ("12:41", "13:10:00", false),
            ("12:30", "13:10:00", true),
            ("12:30", "13:10:01", false),
        ] {
            let schedule = format!("*-*-* 10:00\n*-*-* {second_time}");
            let runs: Vec<_> = (10..14)
                .map(|day| moment(&format!("2026-11-{day}T{run}Z")))
                .collect();
            let found = find_matching_timezone(
                &Schedule::parse(&schedule).unwrap(),
                &zone("UTC"),
                &runs,
                &[zone("America/Sao_Paulo")],
            );
            assert_eq!(found.is_some(), is_reported, "{second_time} {run}");
        }
    }

    proptest! {
        /// A job that runs within ten minutes of its schedule is never reported.
        #[test]
        fn punctual_jobs_are_not_reported(
            hour in 0..24,
            minute in 0..60,
            own in 0_usize..4,
            late in prop::collection::vec(-600_i64..=600, 4..50),
        ) {
            let zones = ["Europe/Riga", "UTC", "America/St_Johns", "Australia/Lord_Howe"].map(zone);
            let schedule = Schedule::parse(&format!("{minute} {hour} * * *")).unwrap();
            let series = schedule.occurrences(moment("2026-09-20T00:00:00Z"), &zones[own]);
            let runs: Vec<_> = series.zip(&late).map(|(at, late)| at.plus_secs(*late)).collect();
            prop_assert_eq!(find_matching_timezone(&schedule, &zones[own], &runs, &zones), None);
        }
    }
}
