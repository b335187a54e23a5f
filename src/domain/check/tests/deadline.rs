//! Tests of deadlines: the times at which they pass, and clocks that are set.

use super::*;

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
