//! Tests of the timeline.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::ids::{Arrival, CheckId};
use crate::domain::number::Seconds;
use crate::domain::ping::{PingMethod, PingOrigin, PingScheme};
use crate::domain::timezone::Timezone;

fn at(text: &str) -> Timestamp {
    let at = text.parse::<jiff::Timestamp>().unwrap();
    Timestamp::from_micros(at.as_microsecond())
}

fn ping(n: u64, kind: PingKind, at: Timestamp) -> Ping {
    Ping {
        check: CheckId(1),
        n,
        previous: Arrival(n - 1),
        at,
        kind,
        origin: PingOrigin {
            scheme: PingScheme::Https,
            method: PingMethod::Post,
            remote_addr: None,
            user_agent: "".into(),
        },
        rid: None::<Uuid>,
        exit_status: None,
        body_len: 0,
        body_sharers: 0,
    }
}

fn settings() -> CheckSettings {
    CheckSettings {
        timeout: Seconds::parse(3600).unwrap(),
        grace: Seconds::parse(600).unwrap(),
        ..CheckSettings::default()
    }
}

fn draw(
    pings: &[Ping],
    flips: &[Flip],
    status: Status,
    period: TimelinePeriod,
    now: Timestamp,
) -> Timeline {
    let settings = settings();
    let source = TimelineSource {
        settings: &settings,
        status,
        run: None,
        pings,
        has_older_pings: true,
        flips,
    };
    let zone = Timezone::parse("Europe/Riga").unwrap();
    let times = TimeFormatter { now, zone: &zone };
    draw_timeline(&source, period, &times).unwrap()
}

#[test]
fn runs_gaps_and_statuses_are_at_their_times() {
    let now = at("2026-11-20T10:00:00Z");
    let flips = [
        Flip {
            at: at("2026-11-20T04:00:00Z"),
            from: Status::Down,
            to: Status::Up,
            cause: FlipCause::Success,
            awaited_since: None,
        },
        Flip {
            at: at("2026-11-19T22:00:00Z"),
            from: Status::Up,
            to: Status::Down,
            cause: FlipCause::MissedPing,
            awaited_since: Some(at("2026-11-19T21:00:00Z")),
        },
    ];
    let pings = [
        ping(5, PingKind::Fail, at("2026-11-20T08:00:00Z")),
        ping(4, PingKind::Success, at("2026-11-20T06:00:00Z")),
        // A run of an hour, with a grace of ten minutes.
        ping(3, PingKind::Start, at("2026-11-20T05:00:00Z")),
        ping(2, PingKind::Success, at("2026-11-20T04:00:00Z")),
        ping(1, PingKind::Success, at("2026-11-19T20:00:00Z")),
    ];
    let timeline = draw(&pings, &flips, Status::Up, TimelinePeriod::Day, now);
    let shapes = |marks: &[TimelineMark]| {
        marks
            .iter()
            .map(|mark| (mark.style, mark.x, mark.width))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shapes(&timeline.statuses),
        [("up", 0, 360), ("down", 360, 180), ("up", 540, 180)]
    );
    assert_eq!(
        timeline.statuses[1].title,
        "Down from 00:00 until 06:00 (6 hours): no success signal came in time"
    );
    assert_eq!(
        shapes(&timeline.marks),
        [
            ("up", 300, 3),
            ("missed", 330, 30),
            ("up", 540, 3),
            ("late", 570, 30),
            ("down", 660, 3)
        ]
    );
    assert_eq!(
        timeline.marks[3].title,
        "success after 1 hour, from 07:00 until 08:00, longer than the grace time"
    );
    assert_eq!(timeline.uptime.as_deref(), Some("75.0 %"));
    assert_eq!(timeline.rows.len(), 2);
    assert!(timeline.pings_from.is_some());
    let ticks: Vec<_> = timeline
        .ticks
        .iter()
        .map(|tick| (tick.x, tick.label.as_str()))
        .collect();
    assert_eq!(ticks.len(), 9);
    assert_eq!(ticks[..3], [(0, "12:00"), (90, "15:00"), (180, "18:00")]);
    assert_eq!((ticks[4], ticks[8]), ((360, "Fri 20"), (720, "")));
}

#[test]
fn the_axis_follows_the_clocks_of_the_zone() {
    // Clocks in Riga went back on 25 October 2026.
    let now = at("2026-10-28T10:00:00Z");
    let timeline = draw(&[], &[], Status::New, TimelinePeriod::Week, now);
    let labels: Vec<_> = timeline
        .ticks
        .iter()
        .map(|tick| tick.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "Thu 22", "Fri 23", "Sat 24", "Sun 25", "Mon 26", "Tue 27", "Wed 28"
        ]
    );
    let widths: Vec<_> = timeline
        .ticks
        .windows(2)
        .map(|pair| pair[1].x - pair[0].x)
        .collect();
    assert_eq!(widths[3], 107, "a day of 25 hours: {widths:?}");
    let month = draw(&[], &[], Status::New, TimelinePeriod::Month, now);
    let labels: Vec<_> = month.ticks.iter().map(|tick| tick.label.as_str()).collect();
    assert_eq!(labels, ["28 Sep", "5 Oct", "12 Oct", "19 Oct", "26 Oct"]);
    assert_eq!(month.uptime, None);
}

#[test]
fn the_usual_period_shows_some_tens_of_runs() {
    for (seconds, period) in [
        (60, TimelinePeriod::Day),
        (3600, TimelinePeriod::Day),
        (21_600, TimelinePeriod::Week),
        (86_400, TimelinePeriod::Month),
    ] {
        let settings = CheckSettings {
            timeout: Seconds::parse(seconds).unwrap(),
            ..CheckSettings::default()
        };
        assert_eq!(TimelinePeriod::parse("", &settings), period, "{seconds}");
        assert_eq!(
            TimelinePeriod::parse("quarter", &settings),
            TimelinePeriod::Quarter
        );
    }
}

proptest! {
    #[test]
    fn marks_lie_within_the_picture_and_are_few(
        seconds in prop::collection::vec((0_i64..200_000, 0_usize..4), 0..3000),
    ) {
        let now = at("2026-11-20T10:00:00Z");
        let kinds = [PingKind::Success, PingKind::Fail, PingKind::Start, PingKind::Log];
        let mut seconds = seconds;
        seconds.sort_unstable();
        let newest_first: Vec<_> = seconds
            .iter()
            .enumerate()
            .map(|(index, (ago, kind))| {
                let n = (seconds.len() - index) as u64;
                ping(n, kinds[*kind], now.plus_secs(-ago))
            })
            .collect();
        let timeline = draw(&newest_first, &[], Status::Up, TimelinePeriod::Day, now);
        prop_assert!(timeline.marks.len() <= 241, "{}", timeline.marks.len());
        for mark in &timeline.marks {
            prop_assert!(mark.x >= 0 && mark.width >= MIN_WIDTH, "{mark:?}");
            prop_assert!(mark.x + mark.width <= SIZE.0 + MIN_WIDTH, "{mark:?}");
        }
    }
}
