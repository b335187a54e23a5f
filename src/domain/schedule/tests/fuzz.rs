//! Schedules and their times for any text.

use super::*;

#[test]
fn fuzz_schedules() {
    const EXAMPLES: &[&str] = &[
        "* * * * *",
        "*/5 0-23/2 1,15 JAN-DEC MON#2",
        "0 0 L * *",
        "0 0 * * 5L",
        "0 0 29 2 *",
        "59 23 31 12 7",
        "Mon..Fri *-*-* 9:00:00",
        "*-2~1/7 00:00:00 Europe/Riga",
        "2026..2030-02-29 *:0/5",
        "12-31 23:59:59.5\n*-*-* 0/2:00",
        "hourly",
        "Sat,Sun 2026-*-1..7 18:00 UTC",
    ];
    let zones = [
        "UTC",
        "Europe/Lisbon",
        "Australia/Lord_Howe",
        "Pacific/Apia",
    ]
    .map(zone);
    crate::util::fuzzing::fuzz_text(EXAMPLES, |text| {
        let Ok(schedule) = Schedule::parse(text) else {
            return;
        };
        let again = Schedule::parse(schedule.text()).unwrap();
        let start = moment("2026-03-29T00:59:30Z");
        for zone in &zones {
            let next: Vec<_> = schedule.occurrences(start, zone).take(3).collect();
            assert!(
                next.is_sorted() && next.iter().all(|time| *time > start),
                "{next:?}"
            );
            let mut time = start;
            for next in &next {
                time = again.next_after(time, zone).unwrap();
                assert_eq!(time, *next);
            }
        }
        assert!(!schedule.describe().is_empty());
    });
}
