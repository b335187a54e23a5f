//! Searches in real time near changes of the clocks.

use super::series;

#[test]
fn a_search_in_real_time_finds_the_first_match_near_a_change_of_the_clocks() {
    for (text, tz, start, next) in [
        // The only time of each day is midnight.
        (
            "0 */24 * * *",
            "America/New_York",
            "2024-03-10T05:00:00Z",
            ["2024-03-11T04:00:00Z", "2024-03-12T04:00:00Z"],
        ),
        // Clocks go from 01:00 back to 00:00, an hour later.
        (
            "* * * * *",
            "America/Havana",
            "2020-11-01T04:00:00Z",
            ["2020-11-01T04:01:00Z", "2020-11-01T04:02:00Z"],
        ),
        (
            "* * * * *",
            "America/Havana",
            "2020-11-01T05:00:00Z",
            ["2020-11-01T05:01:00Z", "2020-11-01T05:02:00Z"],
        ),
        // Clocks go from 03:45, which would be in the third hour, back to 02:45 a second later.
        (
            "* */3 * * *",
            "Pacific/Chatham",
            "2023-04-01T13:59:59Z",
            ["2023-04-01T14:15:00Z", "2023-04-01T14:16:00Z"],
        ),
        // Near a change of the clocks, a job at one minute of each hour is not late.
        (
            "54 * * * *",
            "Europe/Riga",
            "2024-03-31T05:40:00Z",
            ["2024-03-31T05:54:00Z", "2024-03-31T06:54:00Z"],
        ),
        (
            "5 * * * *",
            "Europe/Riga",
            "2024-10-27T00:39:30Z",
            ["2024-10-27T01:05:00Z", "2024-10-27T02:05:00Z"],
        ),
    ] {
        assert_eq!(series(text, tz, start, 2), next, "{text} {tz} {start}");
    }
}
