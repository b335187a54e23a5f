//! Tests of the state table, row by row, and of related rules.

mod deadline;
mod pause;

use super::*;
use crate::domain::alert::HoldReason;
use crate::domain::flip::FlipDirection;
use crate::domain::number::Seconds;
use crate::domain::schedule::Schedule;
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
        self.pause_until(None, secs)
    }

    fn pause_until(&mut self, until: Option<i64>, secs: i64) -> &mut Self {
        let until = until.map(at);
        self.state
            .pause(until, &self.settings, at(secs), &mut self.flips);
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
    use FlipCause::{Fail, MissedPing, Overrun, PausedOrResumed, Success};
    let PingMeaning::Fail(exit) = exit else {
        unreachable!()
    };
    assert_eq!(
        causes(&subject),
        [
            Success,
            MissedPing,
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
