//! Cost of a regression here: every ping waits while the writer computes the next deadline of a
//! check with a schedule, and every restart compiles the schedule of every check.

#![allow(clippy::unwrap_used, reason = "the texts are known to be right")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use overdue::domain::ids::{ProjectId, WindowId};
use overdue::domain::maintenance_window::{MaintenanceWindow, WindowTimesInput};
use overdue::domain::schedule::Schedule;
use overdue::domain::text::{Name, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::domain::timezone::Timezone;
use uuid::Uuid;

/// Schedules by the wall clock, in real time, rare, and with both day and weekday.
const CRON: [&str; 4] = [
    "30 3 * * 1-5",
    "*/5 * * * *",
    "0 8 29 2 *",
    "17 0-23/4 */2 * SUN#1",
];

const ON_CALENDAR: [&str; 3] = [
    "*:0/15",
    "Mon..Fri *-*-* 10:00",
    "*-02~1 12:00\nSat 10:00 Europe/Riga",
];

/// 2026-08-06T07:08:43Z, far from a change of clocks, and 2026-10-25T00:30:10Z, in the night of
/// one.
const STARTS: [(&str, Timestamp); 2] = [
    ("", Timestamp::from_secs(1_786_000_123)),
    (", clocks put back", Timestamp::from_secs(1_792_888_210)),
];

fn next_after(c: &mut Criterion) {
    let utc = Timezone::utc();
    let riga = Timezone::parse("Europe/Riga").unwrap();
    for (text, zone) in CRON
        .iter()
        .map(|text| (text, &utc))
        .chain(CRON.iter().chain(&ON_CALENDAR).map(|text| (text, &riga)))
    {
        let schedule = Schedule::parse(text).unwrap();
        for (night, start) in STARTS {
            c.bench_function(&format!("next {text:?} in {}{night}", zone.name()), |b| {
                b.iter(|| schedule.next_after(black_box(start), zone));
            });
        }
    }
}

/// Measures the wait of each check that goes down in a project with the maximum number of windows:
/// closed ones, and some that open every minute for a week.
fn windows(c: &mut Criterion) {
    for (text, minutes) in [("0 3 * * *", 120), ("* * * * *", 7 * 24 * 60)] {
        let times = WindowTimesInput {
            schedule: Some(text.into()),
            minutes: Some(minutes),
            tz: Some("Europe/Riga".into()),
            ..WindowTimesInput::default()
        };
        let times = times.parse(STARTS[0].1).unwrap();
        let window = |id| MaintenanceWindow {
            id: WindowId(id),
            uuid: Uuid::nil(),
            project: ProjectId(1),
            name: Name::default(),
            tags: Tags::default(),
            times: times.clone(),
        };
        let windows: Vec<_> = (0..200).map(window).collect();
        c.bench_function(&format!("200 windows {text:?} of {minutes} minutes"), |b| {
            b.iter(|| {
                windows
                    .iter()
                    .filter_map(|window| window.open_until(black_box(STARTS[0].1)))
                    .max()
            });
        });
    }
}

fn parse(c: &mut Criterion) {
    for text in CRON.iter().chain(&ON_CALENDAR) {
        c.bench_function(&format!("parse {text:?}"), |b| {
            b.iter(|| Schedule::parse(black_box(text)));
        });
    }
}

criterion_group!(benches, next_after, windows, parse);
criterion_main!(benches);
