use std::num::NonZeroU8;
use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::OngoingRun;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::number::Seconds;
use crate::domain::schedule::Schedule;
use crate::domain::timezone::Timezone;

fn moment(text: &str) -> Timestamp {
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

/// Check with a grace of 15 minutes that is expected each day at 03:30 in Riga.
fn nightly() -> Check {
    let settings = CheckSettings {
        schedule: Some(Arc::new(Schedule::parse("30 3 * * *").unwrap())),
        tz: Timezone::parse("Europe/Riga").unwrap(),
        grace: Seconds::parse(900).unwrap(),
        ..CheckSettings::default()
    };
    let state = CheckState::new(moment("2026-11-01T00:00:00Z"));
    Check {
        id: CheckId(1),
        uuid: Uuid::nil(),
        badge: Uuid::nil(),
        project: ProjectId(1),
        settings: Arc::new(settings),
        state,
        alerted_labels: None,
    }
}

/// The nightly check after a success at 03:41 on 19 November in Riga, and its flips.
fn pinged() -> (Check, Vec<Flip>) {
    let mut check = nightly();
    let mut flips = Vec::new();
    check.state.apply_ping(
        &check.settings,
        crate::domain::ping::PingMeaning::Success,
        None,
        moment("2026-11-19T01:41:00Z"),
        &mut flips,
    );
    (check, flips)
}

fn explanation_text(check: &Check, last: Option<Flip>, now: &str) -> String {
    let times = TimeFormatter {
        now: moment(now),
        zone: &check.settings.tz,
    };
    let standing = explain_status(
        check,
        last,
        FailureContext {
            last_success: check.state.last_ping,
            run_duration: None,
        },
        &times,
    );
    format!("{} {}", standing.headline, standing.reason)
}

#[test]
fn explanations_depend_on_the_time() {
    let (check, _) = pinged();
    for (now, words) in [
        (
            "2026-11-19T09:41:00Z",
            "Up. Last ping 8 h ago, next expected tomorrow 03:30 (in 15 h).",
        ),
        (
            "2026-11-20T01:39:00Z",
            "Late. It was expected at 03:30. Unless it reports, it goes down at 03:45 (in 6 min).",
        ),
        (
            "2026-11-20T01:45:00Z",
            "Down since 03:45 (less than a second). It was expected at 03:30 and had until 03:45 \
             to report (Europe/Riga). No success signal has come since yesterday 03:41.",
        ),
        (
            "2026-11-20T10:47:00Z",
            "Down since 03:45 (9 h 2 min). It was expected at 03:30 and had until 03:45 to report \
             (Europe/Riga). No success signal has come since yesterday 03:41.",
        ),
    ] {
        assert_eq!(explanation_text(&check, None, now), words, "{now}");
    }
}

#[test]
fn each_status_explains_what_will_change_it() {
    let new = nightly();
    let now = "2026-11-20T01:34:02Z";
    assert_eq!(
        explanation_text(&new, None, now),
        "New. Waiting for the first ping. Until then nothing can be overdue."
    );
    let mut paused = nightly();
    paused
        .state
        .pause(None, &paused.settings, moment(now), &mut Vec::new());
    assert_eq!(
        explanation_text(&paused, None, now),
        "Paused. The next success or failure resumes it."
    );
    paused.settings = Arc::new(CheckSettings {
        manual_resume: true,
        ..(*paused.settings).clone()
    });
    assert_eq!(
        explanation_text(&paused, None, now),
        "Paused. Pings are ignored until you resume it."
    );
    paused.state.n_pings = 1;
    paused
        .state
        .resume(&paused.settings, moment(now), &mut Vec::new());
    assert_eq!(
        explanation_text(&paused, None, now),
        "New. Waiting for the next ping. Until then nothing can be overdue."
    );

    let (mut ended, _) = pinged();
    ended.settings = Arc::new(CheckSettings {
        schedule: Some(Arc::new(Schedule::parse("2026-11-01").unwrap())),
        ..(*ended.settings).clone()
    });
    ended.state.update_grace_start(&ended.settings);
    assert_eq!(
        explanation_text(&ended, None, now),
        "Up. Last ping 23 h ago. The schedule has ended; no further ping is expected."
    );

    let (mut running, _) = pinged();
    running.state.run = Some(OngoingRun {
        start: moment("2026-11-20T01:30:02Z"),
        rid: None,
    });
    assert_eq!(
        explanation_text(&running, None, now),
        "Late. It was expected at 03:30. A run began at 03:30:02 (4 min ago). Unless it reports, \
         it goes down at 03:45 (in 10 min)."
    );
}

#[test]
fn a_failure_is_explained_with_its_cause_and_its_held_alert() {
    let (mut check, mut flips) = pinged();
    let exit =
        crate::domain::ping::PingMeaning::Fail(FlipCause::ExitStatus(NonZeroU8::new(3).unwrap()));
    check.state.apply_ping(
        &check.settings,
        exit,
        None,
        moment("2026-11-20T01:40:00Z"),
        &mut flips,
    );
    let now = "2026-11-20T02:00:00Z";
    let words = "Down since 03:40 (20 minutes). It reported exit status 3 at 03:40 (Europe/Riga).";
    assert_eq!(explanation_text(&check, flips.last().copied(), now), words);
    check.state.notification = NotificationState::Pending {
        at: moment("2026-11-21T01:45:00Z"),
        reason: HoldReason::BelowThreshold,
    };
    let held = " No alert has been sent yet: it has not failed often enough in a row. The next \
                decision is tomorrow at 03:45.";
    assert_eq!(
        explanation_text(&check, flips.last().copied(), now),
        format!("{words}{held}")
    );
    check.state.notification = NotificationState::Notified;
    let unknown = "Down since 03:40 (20 minutes). It changed at 03:40 (Europe/Riga); the reason \
                   was not recorded.";
    assert_eq!(explanation_text(&check, None, now), unknown);
}

#[test]
fn a_run_that_does_not_end_is_explained_as_such() {
    let (mut check, _) = pinged();
    check.state.run = Some(OngoingRun {
        start: moment("2026-11-19T10:00:00Z"),
        rid: None,
    });
    assert_eq!(
        explanation_text(&check, None, "2026-11-19T10:20:00Z"),
        "Down since 12:15 (5 minutes). It started at 12:00 and has not reported an end within 15 \
         minutes (Europe/Riga). A run began at 12:00:00 (20 min ago)."
    );
}

#[test]
fn the_explanation_of_a_downtime_survives_a_change_of_settings() {
    let now = moment("2026-11-20T10:47:00Z");
    let (late, _) = pinged();
    let mut overrun = nightly();
    overrun.state.run = Some(OngoingRun {
        start: moment("2026-11-20T09:00:00Z"),
        rid: None,
    });
    for (mut check, part) in [
        (late, "It was expected at 03:30 and had until 03:45"),
        (
            overrun,
            "It started at 11:00 and has not reported an end within 15 min",
        ),
    ] {
        let mut flips = Vec::new();
        check.state.apply_deadline(&check.settings, now, &mut flips);
        check.state.run = None;
        let before = explanation_text(&check, flips.last().copied(), "2026-11-20T10:47:00Z");
        assert!(before.contains(part), "{before}");
        let settings = Arc::make_mut(&mut check.settings);
        settings.grace = Seconds::parse(7200).unwrap();
        settings.schedule = Some(Arc::new(Schedule::parse("0 1 * * *").unwrap()));
        assert_eq!(
            explanation_text(&check, flips.last().copied(), "2026-11-20T10:47:00Z"),
            before
        );
    }
}

/// Summary of a status.
fn summary(reason: &str, since: Option<&str>, goes_down: Option<&str>) -> Option<StatusSummary> {
    Some(StatusSummary {
        reason: reason.into(),
        since: since.map(moment),
        then: goes_down.map(|at| ("down", moment(at))),
        held: None,
    })
}

#[test]
fn a_summary_has_the_reason_and_its_start() {
    let found = |check: &Check, now: &str| summarize_status(check, None, moment(now));
    let (check, _) = pinged();
    assert_eq!(found(&check, "2026-11-19T09:41:00Z"), None);
    let deadline = Some("2026-11-20T01:45:00Z");
    assert_eq!(
        found(&check, "2026-11-20T01:39:00Z"),
        summary("late", Some("2026-11-20T01:30:00Z"), deadline)
    );
    assert_eq!(
        found(&check, "2026-11-20T10:47:00Z"),
        summary("no ping", deadline, None)
    );
    let now = "2026-11-20T01:34:02Z";
    assert_eq!(found(&nightly(), now), summary("no ping yet", None, None));
    let mut paused = nightly();
    paused
        .state
        .pause(None, &paused.settings, moment(now), &mut Vec::new());
    assert_eq!(
        found(&paused, "2026-11-21T00:00:00Z"),
        summary("paused", Some(now), None)
    );
    let (mut running, _) = pinged();
    running.state.run = Some(OngoingRun {
        start: moment("2026-11-19T10:00:00Z"),
        rid: None,
    });
    assert_eq!(
        found(&running, "2026-11-19T10:10:00Z"),
        summary("running", Some("2026-11-19T10:00:00Z"), None)
    );
    assert_eq!(
        found(&running, "2026-11-19T10:20:00Z"),
        summary("run too long", Some("2026-11-19T10:15:00Z"), None)
    );
}

#[test]
fn a_summary_names_the_failure_and_what_holds_its_alert() {
    let now = "2026-11-19T10:00:00Z";
    for (cause, reason) in [
        (FlipCause::Fail, "reported a failure"),
        (
            FlipCause::ExitStatus(NonZeroU8::new(3).unwrap()),
            "exit status 3",
        ),
        (FlipCause::Keyword, "failure keyword"),
        (FlipCause::NoKeyword, "no success keyword"),
    ] {
        let (mut check, mut flips) = pinged();
        let ping = crate::domain::ping::PingMeaning::Fail(cause);
        check
            .state
            .apply_ping(&check.settings, ping, None, moment(now), &mut flips);
        let last = flips.last().copied();
        for (hold, held) in [
            (None, None),
            (
                Some(HoldReason::MaintenanceWindow),
                Some("maintenance window"),
            ),
            (
                Some(HoldReason::ParentDown(CheckId(2))),
                Some("a parent is down"),
            ),
            (Some(HoldReason::ServerOutage), Some("outage of the server")),
        ] {
            check.state.notification = hold.map_or(NotificationState::Notified, |reason| {
                let at = moment("2026-11-19T10:15:00Z");
                NotificationState::Pending { at, reason }
            });
            let wanted =
                summary(reason, Some(now), None).map(|summary| StatusSummary { held, ..summary });
            assert_eq!(
                summarize_status(&check, last, moment("2026-11-19T15:00:00Z")),
                wanted
            );
        }
    }
}
