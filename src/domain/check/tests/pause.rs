//! Tests of pauses with an end, and of undoing pauses and resumptions.

use super::*;

/// States of the table that a check can have before a pause.
const STATES: [&str; 10] = [
    "new", "new S", "up", "up S", "grace", "grace S", "down", "down S", "paused", "paused S",
];

#[test]
fn a_pause_ends_with_the_former_status() {
    use VisibleStatus::{Down, Grace, New, Paused, Up};
    // State before a pause from second 1 to second 50; then the statuses shown at second 49, 50, at
    // the end of the period that begins then, and at that of its grace.
    for (name, shown) in [
        ("new", [Paused, New, New, New]),
        ("up", [Paused, Up, Grace, Down]),
        // The run is not continued.
        ("up S", [Paused, Up, Grace, Down]),
        ("grace", [Paused, Up, Grace, Down]),
        ("down", [Paused, Down, Down, Down]),
        // The status before the first pause is unknown.
        ("paused", [Paused, New, New, New]),
    ] {
        let mut subject = before(name);
        subject.pause_until(Some(50), 1);
        for (secs, wanted) in [49, 50, 50 + PERIOD, 50 + PERIOD + GRACE]
            .into_iter()
            .zip(shown)
        {
            let predicted = subject.shown(secs).0;
            subject.settle(secs);
            let status = (predicted, subject.shown(secs).0);
            assert_eq!(status, (wanted, wanted), "{name}, second {secs}");
        }
        assert_eq!(subject.state.pause_end, None, "{name}");
    }
}

#[test]
fn the_end_of_a_pause_is_noticed_late_as_at_once() {
    for name in STATES {
        let mut at_once = before(name);
        at_once.pause_until(Some(50), 1).settle(50).settle(5000);
        let mut late = before(name);
        late.pause_until(Some(50), 1).settle(5000);
        assert_eq!(late.state, at_once.state, "{name}");
        assert_eq!(late.flips, at_once.flips, "{name}");
    }
}

#[test]
fn a_ping_or_a_user_ends_a_pause_before_its_end() {
    let mut pinged = before("down");
    pinged.pause_until(Some(50), 1).ping(PingKind::Success, 2);
    assert_eq!(pinged.settle(60).shown(60), (VisibleStatus::Up, false));
    assert_eq!(pinged.state.next_ping(), Some(at(2 + PERIOD)));
    let mut resumed = before("down");
    resumed.pause_until(Some(50), 1);
    assert!(
        resumed
            .state
            .resume(&resumed.settings, at(2), &mut resumed.flips)
    );
    assert_eq!(resumed.settle(60).shown(60), (VisibleStatus::New, false));
    // A run that began during the pause and takes too long.
    let mut overrun = before("up");
    overrun.pause_until(Some(500), 1).ping(PingKind::Start, 2);
    assert_eq!(overrun.settle(600).shown(600).0, VisibleStatus::Down);
    assert_eq!(
        overrun.flips.last().map(|flip| (flip.at, flip.cause)),
        Some((at(2 + GRACE), FlipCause::Overrun))
    );
}

#[test]
fn a_later_pause_replaces_the_end_but_not_the_status_after_it() {
    let mut subject = before("down");
    subject.pause_until(Some(50), 1).pause_until(Some(90), 2);
    assert_eq!(subject.settle(60).shown(60).0, VisibleStatus::Paused);
    assert_eq!(subject.settle(90).shown(90).0, VisibleStatus::Down);
    let mut unlimited = before("down");
    unlimited.pause_until(Some(50), 1).pause(2);
    assert_eq!(unlimited.settle(90).shown(90).0, VisibleStatus::Paused);
}

#[test]
fn an_undone_pause_or_resumption_changes_nothing() {
    for name in STATES {
        for until in [None, Some(900)] {
            let undisturbed = before(name);
            let mut undone = before(name);
            let earlier = undone.state;
            undone.pause_until(until, 1);
            undone
                .state
                .restore(&earlier, &undone.settings, at(20), &mut undone.flips);
            for secs in [20, GRACE, PERIOD, PERIOD + GRACE, 5000] {
                let shown = (undone.shown(secs), undisturbed.shown(secs));
                assert_eq!(shown.0, shown.1, "{name}, paused {until:?}, second {secs}");
            }
            assert_eq!(undone.state.pause_end, None);
        }
    }
    let mut undone = before("down");
    undone.pause_until(Some(900), 1);
    let earlier = undone.state;
    undone
        .state
        .resume(&undone.settings, at(2), &mut undone.flips);
    undone
        .state
        .restore(&earlier, &undone.settings, at(20), &mut undone.flips);
    assert_eq!(undone.settle(899).shown(899).0, VisibleStatus::Paused);
    assert_eq!(undone.settle(900).shown(900).0, VisibleStatus::Down);
}

#[test]
fn an_undone_pause_during_which_the_deadline_passed_ends_down() {
    let mut subject = before("grace");
    let earlier = subject.state;
    subject.pause_until(None, GRACE - 5);
    subject.state.restore(
        &earlier,
        &subject.settings,
        at(GRACE + 5),
        &mut subject.flips,
    );
    assert_eq!(subject.shown(GRACE + 5).0, VisibleStatus::Down);
    let flips = subject.flips.iter().rev().take(2);
    let flips: Vec<_> = flips.map(|flip| (flip.to, flip.cause, flip.at)).collect();
    assert_eq!(
        flips,
        [
            (Status::Down, FlipCause::MissedPing, at(GRACE + 5)),
            (Status::Up, FlipCause::PausedOrResumed, at(GRACE + 5)),
        ]
    );
}

#[test]
fn ends_of_pauses_are_in_the_coming_year() {
    let parse = |until: Option<&str>, minutes: Option<u64>| {
        let input = PauseInput {
            until: until.map(str::to_owned),
            minutes,
        };
        let now = Timestamp::from_secs(1_794_996_400);
        input
            .parse(now)
            .map(|end| end.map(|end| end.secs() - now.secs()))
            .map_err(|error| error.to_string())
    };
    assert_eq!(parse(None, None), Ok(None));
    assert_eq!(parse(None, Some(90)), Ok(Some(5400)));
    assert_eq!(parse(None, Some(366 * 1440)), Ok(Some(366 * 86_400)));
    assert_eq!(
        parse(Some("2026-11-18T12:26:40+02:00"), None),
        Ok(Some(1200))
    );
    for (until, minutes, error) in [
        (
            Some("2026-11-18T10:06:40Z"),
            None,
            "until is wrong: the time is in the past",
        ),
        (
            Some("2028-11-18T10:00:00Z"),
            None,
            "until is wrong: the time is more than 366 days ahead",
        ),
        (
            Some("2026-11-18T10:30:00Z"),
            Some(1),
            "until is wrong: a pause has either minutes or until",
        ),
        (
            None,
            Some(0),
            "minutes is wrong: give a number from 1 to 527040",
        ),
    ] {
        assert_eq!(parse(until, minutes), Err(error.to_owned()));
    }
    assert!(parse(Some("tomorrow"), None).is_err());
}
