//! Tests of the state table, row by row, and of related rules.

use super::*;
use crate::domain::alert::HoldReason;
use crate::domain::flip::FlipDirection;
use crate::domain::schedule::Schedule;
use crate::domain::text::Seconds;
use std::num::NonZeroU8;

use proptest::prelude::*;

use crate::domain::timestamp::MICROS_PER_SEC;

const T: i64 = 1_800_000_000;
/// Period and grace of the checks in this file, in seconds.
const PERIOD: i64 = 600;
const GRACE: i64 = 120;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(T + secs)
}

fn rid(number: u128) -> Option<Uuid> {
    Some(Uuid::from_u128(number))
}

/// Check with its settings and all flips so far.
struct TestedCheck {
    settings: CheckSettings,
    state: CheckState,
    flips: Vec<Flip>,
}

impl TestedCheck {
    fn new() -> Self {
        let settings = CheckSettings {
            timeout: Seconds::parse(PERIOD).unwrap(),
            grace: Seconds::parse(GRACE).unwrap(),
            ..CheckSettings::default()
        };
        Self {
            settings,
            state: CheckState::new(at(0)),
            flips: Vec::new(),
        }
    }

    fn ping(&mut self, kind: PingKind, secs: i64) -> &mut Self {
        self.ping_rid(kind, None, secs)
    }

    fn ping_rid(&mut self, kind: PingKind, rid: Option<Uuid>, secs: i64) -> &mut Self {
        self.state
            .apply_ping(&self.settings, kind.into(), rid, at(secs), &mut self.flips);
        self
    }

    fn settle(&mut self, secs: i64) -> &mut Self {
        self.state
            .apply_deadline(&self.settings, at(secs), &mut self.flips);
        self
    }

    fn pause(&mut self, secs: i64) -> &mut Self {
        self.state.pause(&self.settings, at(secs), &mut self.flips);
        self
    }

    fn shown(&self, secs: i64) -> (VisibleStatus, bool) {
        (
            self.state.visible_status(&self.settings, at(secs)),
            self.state.run.is_some(),
        )
    }

    /// Flips that the API shows, as (seconds, up).
    fn shown_flips(&self) -> Vec<(i64, bool)> {
        self.flips
            .iter()
            .filter_map(|flip| Some((flip.at.secs() - T, flip.direction()? == FlipDirection::Up)))
            .collect()
    }
}

/// States of the table, each reached by events that end by second 0.
fn before(name: &str) -> TestedCheck {
    let mut subject = TestedCheck::new();
    let up_at = |subject: &mut TestedCheck, secs| {
        subject.ping(PingKind::Success, secs);
    };
    match name {
        "new" => {}
        "new S" => drop(subject.ping(PingKind::Start, 0)),
        "up" => up_at(&mut subject, 0),
        "up S" => {
            up_at(&mut subject, 0);
            subject.ping(PingKind::Start, 0);
        }
        "grace" => up_at(&mut subject, -PERIOD),
        "grace S" => {
            up_at(&mut subject, -PERIOD);
            subject.ping(PingKind::Start, 0);
        }
        "down" => drop(subject.ping(PingKind::Fail, 0)),
        "down S" => drop(subject.ping(PingKind::Fail, 0).ping(PingKind::Start, 0)),
        "paused" => drop(subject.pause(0)),
        "paused S" => drop(subject.pause(0).ping(PingKind::Start, 0)),
        other => panic!("no state {other}"),
    }
    subject
}

#[test]
fn the_state_table() {
    use VisibleStatus::{Down, Grace, New, Paused, Up};
    // State before; then shown status and whether a run is ongoing, after success, fail, start,
    // log, the deadline, pause, resume (`None`: refused).
    type Row = (
        &'static str,
        [(VisibleStatus, bool); 6],
        Option<(VisibleStatus, bool)>,
    );
    let gone = (Down, false);
    let table: &[Row] = &[
        (
            "new",
            [
                (Up, false),
                gone,
                (New, true),
                (New, false),
                (New, false),
                (Paused, false),
            ],
            None,
        ),
        (
            "new S",
            [
                (Up, false),
                gone,
                (New, true),
                (New, true),
                (Down, true),
                (Paused, false),
            ],
            None,
        ),
        (
            "up",
            [
                (Up, false),
                gone,
                (Up, true),
                (Up, false),
                gone,
                (Paused, false),
            ],
            None,
        ),
        (
            "up S",
            [
                (Up, false),
                gone,
                (Up, true),
                (Up, true),
                (Down, true),
                (Paused, false),
            ],
            None,
        ),
        (
            "grace",
            [
                (Up, false),
                gone,
                (Grace, true),
                (Grace, false),
                gone,
                (Paused, false),
            ],
            None,
        ),
        (
            "grace S",
            [
                (Up, false),
                gone,
                (Grace, true),
                (Grace, true),
                (Down, true),
                (Paused, false),
            ],
            None,
        ),
        (
            "down",
            [
                (Up, false),
                gone,
                (Down, true),
                (Down, false),
                (Down, false),
                (Paused, false),
            ],
            None,
        ),
        (
            "down S",
            [
                (Up, false),
                gone,
                (Down, true),
                (Down, true),
                (Down, true),
                (Paused, false),
            ],
            None,
        ),
        (
            "paused",
            [
                (Up, false),
                gone,
                (Paused, true),
                (Paused, false),
                (Paused, false),
                (Paused, false),
            ],
            Some((New, false)),
        ),
        (
            "paused S",
            [
                (Up, false),
                gone,
                (Paused, true),
                (Paused, true),
                (Down, true),
                (Paused, false),
            ],
            Some((New, false)),
        ),
    ];
    for (name, after, resumed) in table {
        let kinds = [
            PingKind::Success,
            PingKind::Fail,
            PingKind::Start,
            PingKind::Log,
        ];
        for (kind, wanted) in kinds.into_iter().zip(after) {
            assert_eq!(
                before(name).ping(kind, 1).shown(1),
                *wanted,
                "{name}, {kind:?}"
            );
        }
        assert_eq!(
            before(name).ping(PingKind::Ignored, 1).shown(1),
            after[3],
            "{name}, ignored"
        );
        let much_later = PERIOD + 2 * GRACE;
        assert_eq!(
            before(name).settle(much_later).shown(much_later),
            after[4],
            "{name}, deadline"
        );
        assert_eq!(before(name).pause(1).shown(1), after[5], "{name}, pause");
        let mut subject = before(name);
        let accepted = subject
            .state
            .resume(&subject.settings, at(1), &mut subject.flips);
        assert_eq!(
            accepted.then(|| subject.shown(1)),
            *resumed,
            "{name}, resume"
        );
    }
}

#[test]
fn grace_begins_and_ends_to_the_microsecond() {
    let subject = before("up");
    for (secs, shown) in [
        (PERIOD - 1, VisibleStatus::Up),
        (PERIOD, VisibleStatus::Grace),
        (PERIOD + GRACE - 1, VisibleStatus::Grace),
        (PERIOD + GRACE, VisibleStatus::Down),
    ] {
        assert_eq!(subject.shown(secs).0, shown, "{secs}");
    }
    let last = at(PERIOD).plus_micros(-1);
    assert_eq!(
        subject.state.visible_status(&subject.settings, last),
        VisibleStatus::Up
    );
    assert_eq!(
        subject.state.next_change(&subject.settings, last),
        Some(at(PERIOD))
    );
    assert_eq!(
        subject.state.next_change(&subject.settings, at(PERIOD)),
        Some(at(PERIOD + GRACE))
    );
    assert_eq!(
        subject
            .state
            .next_change(&subject.settings, at(PERIOD + GRACE)),
        None
    );
}

#[test]
fn the_flip_to_down_has_the_time_of_the_deadline_and_happens_once() {
    let mut subject = before("up");
    subject.settle(PERIOD + GRACE - 1);
    assert_eq!(subject.shown_flips(), []);
    subject.settle(PERIOD + GRACE + 5000);
    assert_eq!(subject.shown_flips(), [(PERIOD + GRACE, false)]);
    let old = subject.settings.clone();
    subject.settings.timeout = Seconds::parse(31_536_000).unwrap();
    subject
        .state
        .change_settings(&old, &subject.settings, at(9000), &mut subject.flips);
    assert_eq!(subject.shown(9000).0, VisibleStatus::Down);
    assert_eq!(
        subject.ping(PingKind::Success, 9001).shown(9001),
        (VisibleStatus::Up, false)
    );
    assert_eq!(
        subject.shown_flips(),
        [(PERIOD + GRACE, false), (9001, true)]
    );
}

#[test]
fn a_ping_after_an_unnoticed_deadline_finds_the_check_down() {
    let mut subject = before("up");
    subject.ping(PingKind::Success, 5000);
    assert_eq!(
        subject.shown_flips(),
        [(PERIOD + GRACE, false), (5000, true)]
    );
    let mut subject = before("paused S");
    assert!(
        !subject
            .state
            .resume(&subject.settings, at(GRACE), &mut subject.flips)
    );
    assert_eq!(subject.shown(GRACE), (VisibleStatus::Down, true));
}

#[test]
fn an_update_that_shortens_the_period_takes_it_down_at_once_but_flips_do_not_run_backwards() {
    let mut subject = before("up");
    let old = subject.settings.clone();
    subject.settings.timeout = Seconds::parse(60).unwrap();
    subject.settings.grace = Seconds::parse(60).unwrap();
    subject
        .state
        .change_settings(&old, &subject.settings, at(300), &mut subject.flips);
    assert_eq!(subject.shown_flips(), [(120, false)]);

    let mut subject = before("up");
    subject
        .ping_rid(PingKind::Start, rid(1), 10)
        .settle(5000)
        .ping_rid(PingKind::Success, rid(2), 6000);
    // The other run is still overdue: the check goes up and down again at the time of the success.
    assert_eq!(
        subject.shown_flips(),
        [(10 + GRACE, false), (6000, true), (6000, false)]
    );
    assert_eq!(subject.shown(6000), (VisibleStatus::Down, true));
}

#[test]
fn runs_end_and_are_measured_by_their_rid() {
    // Run id of the start, run id of the completion; then the duration and whether the run
    // continues, for success and for fail.
    type Case = (Option<Uuid>, Option<Uuid>, [(Option<i64>, bool); 2]);
    let cases: &[Case] = &[
        (None, None, [(Some(7), false), (Some(7), false)]),
        (rid(1), rid(1), [(Some(7), false), (Some(7), false)]),
        (rid(1), None, [(None, false), (None, false)]),
        (rid(1), rid(2), [(None, true), (None, false)]),
        (None, rid(2), [(None, true), (None, false)]),
    ];
    for (start, end, wanted) in cases {
        for (kind, (duration, goes_on)) in
            [PingKind::Success, PingKind::Fail].into_iter().zip(wanted)
        {
            let mut subject = TestedCheck::new();
            subject.state.last_duration = Some(1);
            subject
                .ping_rid(PingKind::Start, *start, 0)
                .ping_rid(kind, *end, 7);
            assert_eq!(
                subject.state.last_duration,
                duration.map(|secs| secs * MICROS_PER_SEC),
                "{start:?} {end:?} {kind:?}"
            );
            assert_eq!(
                subject.state.run.is_some(),
                *goes_on,
                "{start:?} {end:?} {kind:?}"
            );
        }
    }
    let mut subject = before("up");
    subject.state.last_duration = Some(1);
    assert_eq!(subject.ping(PingKind::Success, 1).state.last_duration, None);
}

#[test]
fn next_ping_is_the_earlier_of_the_run_and_the_expected_ping() {
    for (name, wanted) in [
        ("new", None),
        ("new S", Some(0)),
        ("up", Some(PERIOD)),
        ("up S", Some(0)),
        ("grace", Some(0)),
        ("down", None),
        ("down S", None),
        ("paused", None),
        ("paused S", Some(0)),
    ] {
        assert_eq!(before(name).state.next_ping(), wanted.map(at), "{name}");
    }
}

#[test]
fn pause_and_resume_keep_or_clear_each_field() {
    let mut subject = before("up S");
    subject.state.last_duration = Some(5);
    subject.pause(1);
    assert_eq!(
        (
            subject.state.last_ping,
            subject.state.run,
            subject.state.last_duration
        ),
        (Some(at(0)), None, Some(5))
    );
    assert!(
        subject
            .state
            .resume(&subject.settings, at(2), &mut subject.flips)
    );
    assert_eq!(
        (
            subject.state.last_ping,
            subject.state.last_duration,
            subject.state.n_pings
        ),
        (None, Some(5), 2)
    );
    assert_eq!(subject.shown_flips(), []);
}

#[test]
fn a_schedule_replaces_the_period() {
    let mut subject = TestedCheck::new();
    subject.settings.schedule = Some(Arc::new(Schedule::parse("0 * * * *").unwrap()));
    subject.ping(PingKind::Success, 0);
    let next = Timestamp::from_secs((T / 3600 + 1) * 3600);
    assert_eq!(subject.state.next_ping(), Some(next));
    assert_eq!(
        subject.state.deadline(&subject.settings),
        Some(next.plus_secs(GRACE))
    );
    // A schedule that has ended expects nothing, so nothing can be late.
    subject.settings.schedule = Some(Arc::new(Schedule::parse("2001-01-01 00:00").unwrap()));
    subject.ping(PingKind::Success, 1);
    assert_eq!(
        (
            subject.state.deadline(&subject.settings),
            subject.shown(i64::from(u32::MAX)).0
        ),
        (None, VisibleStatus::Up)
    );
}

#[test]
fn flips_record_their_cause() {
    let causes = |subject: &TestedCheck| {
        subject
            .flips
            .iter()
            .map(|flip| flip.cause)
            .collect::<Vec<_>>()
    };
    let mut subject = TestedCheck::new();
    subject
        .ping(PingKind::Success, 0)
        .settle(PERIOD + GRACE)
        .ping(PingKind::Success, 1000);
    subject
        .ping(PingKind::Start, 1001)
        .settle(1001 + GRACE)
        .ping(PingKind::Success, 2000)
        .ping(PingKind::Fail, 2001);
    subject.state.apply_ping(
        &subject.settings,
        PingMeaning::Success,
        None,
        at(2002),
        &mut subject.flips,
    );
    subject.state.apply_ping(
        &subject.settings,
        PingMeaning::from_exit_status(3),
        None,
        at(2003),
        &mut subject.flips,
    );
    subject.pause(2004);
    let exit = PingMeaning::from_exit_status(3);
    assert_eq!(
        exit,
        PingMeaning::Fail(FlipCause::ExitStatus(NonZeroU8::new(3).unwrap()))
    );
    use FlipCause::{Fail, Late, Overrun, PausedOrResumed, Success};
    let PingMeaning::Fail(exit) = exit else {
        unreachable!()
    };
    assert_eq!(
        causes(&subject),
        [
            Success,
            Late,
            Success,
            Overrun,
            Success,
            Fail,
            Success,
            exit,
            PausedOrResumed
        ]
    );
    let newest: Vec<_> = subject.state.outcomes.newest_first().collect();
    let [s, f, m] = [RunOutcome::Success, RunOutcome::Fail, RunOutcome::Missed];
    assert_eq!(newest, [f, s, f, s, m, s, m, s]);
    assert_eq!(subject.state.failures, 1);

    let mut edited = TestedCheck::new();
    edited.ping(PingKind::Success, 0);
    let shorter = CheckSettings {
        timeout: Seconds::parse(60).unwrap(),
        grace: Seconds::parse(60).unwrap(),
        ..CheckSettings::default()
    };
    edited
        .state
        .change_settings(&edited.settings, &shorter, at(300), &mut edited.flips);
    assert_eq!(
        (causes(&edited), edited.state.failures),
        (vec![Success, FlipCause::SettingsChanged], 1)
    );
}

proptest! {
    #[test]
    fn replaying_the_log_gives_the_same_state(
        history in prop::collection::vec(
            (0..5_usize, prop::option::of(0..2_u128), 0..900_i64),
            1..60,
        ),
        shorter in any::<bool>(),
    ) {
        let kinds = [
            PingKind::Success,
            PingKind::Start,
            PingKind::Fail,
            PingKind::Log,
            PingKind::Ignored,
        ];
        let mut subject = TestedCheck::new();
        let mut replayed = subject.state;
        let mut secs = 0;
        for (kind, run, pause) in history {
            secs += pause;
            let kind = kinds[kind];
            let before = subject.flips.len();
            subject.ping_rid(kind, run.and_then(rid), secs);
            replayed.replay(kind, run.and_then(rid), at(secs), &subject.flips[before..]);
        }
        // Replay ignores settings that have changed since.
        if shorter {
            subject.settings.timeout = Seconds::parse(60).unwrap();
        }
        subject.state.update_grace_start(&subject.settings);
        replayed.update_grace_start(&subject.settings);
        prop_assert_eq!(replayed, subject.state);
    }
}

#[test]
fn after_the_clock_is_set_back_flips_have_the_new_deadlines() {
    const AHEAD: i64 = 10_000_000;
    let pinged_at = |secs| {
        let mut subject = TestedCheck::new();
        subject
            .ping(PingKind::Success, AHEAD)
            .ping(PingKind::Success, secs);
        subject
    };
    let last_flip = |subject: &TestedCheck| subject.flips.last().map(|flip| (flip.at, flip.to));
    // Noticed before or after the clock reaches the time of the last change again.
    for noticed in [PERIOD + GRACE, AHEAD + 1] {
        let mut subject = pinged_at(0);
        subject.settle(PERIOD + GRACE - 1);
        assert_eq!(last_flip(&subject), Some((at(AHEAD), Status::Up)));
        subject.settle(noticed);
        assert_eq!(
            last_flip(&subject),
            Some((at(PERIOD + GRACE), Status::Down)),
            "{noticed}"
        );
    }
    // The same if new settings move the deadline into the past, where normally the time of the last
    // change counts.
    let mut subject = pinged_at(0);
    let shorter = CheckSettings {
        timeout: Seconds::parse(60).unwrap(),
        ..subject.settings.clone()
    };
    subject
        .state
        .change_settings(&subject.settings, &shorter, at(500), &mut subject.flips);
    assert_eq!(last_flip(&subject), Some((at(60 + GRACE), Status::Down)));
}

#[test]
fn times_ahead_of_the_clock_can_be_moved_to_now() {
    // Times of the ping and of the start, and the times from which each counts after clamping at 0.
    for (pinged, started, counted) in [
        (0, -60, [0, -60]),
        (4, 4, [4, 4]),
        (5, 4, [0, 4]),
        (4, 5, [4, 0]),
        (99_999, 99_999, [0, 0]),
    ] {
        let mut subject = TestedCheck::new();
        subject
            .ping(PingKind::Success, pinged)
            .ping_rid(PingKind::Start, rid(1), started);
        assert_eq!(
            subject.state.has_future_times(&subject.settings, at(0)),
            pinged.max(started) >= 5
        );
        subject
            .state
            .clamp_future_times(&subject.settings, at(0), &mut subject.flips);
        let run = subject.state.run.unwrap();
        assert_eq!(
            [subject.state.last_ping.unwrap(), run.start],
            counted.map(at),
            "{pinged} {started}"
        );
        assert_eq!(
            (run.rid, subject.state.status, subject.state.n_pings),
            (rid(1), Status::Up, 2)
        );
        assert!(!subject.state.has_future_times(&subject.settings, at(0)));
        let deadline = counted[1].min(counted[0] + PERIOD) + GRACE;
        assert_eq!(
            subject.state.deadline(&subject.settings),
            Some(at(deadline))
        );
    }
    // Whether a downtime that began ahead of the clock is notified is decided when the next ping is
    // overdue.
    let mut subject = TestedCheck::new();
    subject.ping(PingKind::Fail, 99).state.notification = NotificationState::Pending {
        at: at(99_999),
        reason: HoldReason::BelowThreshold,
    };
    subject.state.last_ping = Some(at(0));
    assert!(subject.state.has_future_times(&subject.settings, at(0)));
    subject
        .state
        .clamp_future_times(&subject.settings, at(0), &mut subject.flips);
    assert_eq!(
        subject.state.notification,
        NotificationState::Pending {
            at: at(PERIOD + GRACE),
            reason: HoldReason::BelowThreshold
        }
    );
    // A deadline that has passed is applied first.
    let mut subject = TestedCheck::new();
    subject
        .ping_rid(PingKind::Start, rid(1), -GRACE)
        .state
        .last_ping = Some(at(99));
    subject
        .state
        .clamp_future_times(&subject.settings, at(0), &mut subject.flips);
    assert_eq!(
        (
            subject.state.status,
            subject.flips[0].at,
            subject.state.last_ping
        ),
        (Status::Down, at(0), Some(at(0)))
    );
}
