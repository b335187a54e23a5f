//! Texts of alerts, as a person reads them at night.

use std::sync::Arc;

use super::kinds::{example, minimal_settings, sending_kinds};
use super::sample::{
    alert_at, alert_now, attempt, backup, down, exit, failed, flip, moment, of_check, summary, up,
};
use crate::channels::alert::{
    Alert, AlertFacts, CheckEvent, CheckFacts, CloseReason, DelayReason, EventContext,
};
use crate::channels::render::{
    Dialect, LengthLimit, LengthUnit, TextSections, plain_summary, render_text,
};
use crate::channels::send_step::SendStep;
use crate::channels::{SendAttempt, has_plain_form, prepare};
use crate::domain::check::CheckSettings;
use crate::domain::flip::FlipCause;
use crate::domain::number::Seconds;
use crate::domain::status::Status;

const LONG: LengthLimit = LengthLimit(100_000, LengthUnit::Bytes);

pub(super) fn whole(alert: &Alert) -> String {
    render_text(alert, &attempt(), Dialect::Plain, TextSections::ALL, LONG)
}

fn head(alert: &Alert) -> String {
    format!(
        "{} {}\n{}",
        alert.severity.emoji(),
        alert.title,
        alert.summary
    )
}

#[test]
fn a_message_has_event_cause_start_and_output() {
    assert_eq!(
        whole(&failed()),
        "🔴 Nightly backup failed with exit status 3\n\
         It reported exit status 3 at 03:34 (Europe/Riga), 4 min 12 s after it started.\n\
         \n\
         Runs on nas.\n\
         If it fails: mount /backup.\n\
         \n\
         Project: Home\n\
         Tags: prod, db\n\
         Schedule: every day at 03:30 (Europe/Riga), 15 minutes of grace\n\
         Last ping: 03:34, exit status 3, took 4 min 12 s, from 192.0.2.7\n\
         Last success: yesterday 03:31\n\
         Failures in a row: 2\n\
         Pings: 412\n\
         \n\
         Also down: db-dump and 2 more.\n\
         \n\
         The last lines it sent:\n\
         copying <a>\n\
         error: no space left on device\n\
         \n\
         https://overdue.example.org/cloaked/9e59d6b2a2d9a0d6d2d5d6f8b5bbd6a1f2b3c4d5/"
            .replace("9e59d6b2a2d9a0d6d2d5d6f8b5bbd6a1f2b3c4d5", &backup_key())
    );
}

fn backup_key() -> String {
    crate::domain::ids::UniqueKey::of_check(backup().uuid).to_string()
}

#[test]
fn every_cause_has_a_sentence() {
    let at = "2026-11-20T01:45:00Z";
    for (cause, words) in [
        (
            FlipCause::MissedPing,
            "🔴 Nightly backup is down\nIt was expected at 03:30 and had until 03:45 to report \
             (Europe/Riga). No success signal has come since yesterday 03:31.",
        ),
        (
            FlipCause::Overrun,
            "🔴 Nightly backup does not finish\nIt started at 03:30 and has not reported an \
             end within 15 minutes (Europe/Riga).",
        ),
        (
            FlipCause::Fail,
            "🔴 Nightly backup failed\nIt reported a failure at 03:45 (Europe/Riga), 4 min 12 s \
             after it started.",
        ),
        (
            exit(1),
            "🔴 Nightly backup failed with exit status 1\nIt reported exit status 1 at 03:45 \
             (Europe/Riga), 4 min 12 s after it started.",
        ),
        (
            FlipCause::Keyword,
            "🔴 Nightly backup failed\nIt reported at 03:45 (Europe/Riga), 4 min 12 s after it \
             started, and its report contained a failure keyword.",
        ),
        (
            FlipCause::NoKeyword,
            "🔴 Nightly backup failed\nIt reported at 03:45 (Europe/Riga), 4 min 12 s after it \
             started, and its report contained no success keyword.",
        ),
        (
            FlipCause::SettingsChanged,
            "🔴 Nightly backup is down\nIts settings were changed. With the new settings it had \
             until 03:45 to report (Europe/Riga). No success signal has come since yesterday \
             03:31.",
        ),
        (
            FlipCause::Unknown,
            "🔴 Nightly backup is down\nIt changed at 03:45 (Europe/Riga); the reason was not \
             recorded.",
        ),
    ] {
        assert_eq!(head(&of_check(backup(), down(at, cause))), words);
    }
}

#[test]
fn a_message_includes_the_context_of_the_change() {
    let at = "2026-11-20T01:45:00Z";
    let context = EventContext {
        delay: Some(DelayReason::DailyLimit),
        up_since: Some(moment("2026-11-20T01:40:00Z")),
        unreported_changes: Some((9, moment("2026-11-19T12:05:00Z"))),
        outage: Some((
            moment("2026-11-19T23:10:00Z"),
            moment("2026-11-20T05:42:00Z"),
        )),
        window: Some("updates\n".into()),
    };
    let alert = of_check(
        backup(),
        CheckEvent::Down {
            flip: flip(at, Status::Down, FlipCause::MissedPing),
            context,
        },
    );
    assert!(
        alert.summary.ends_with(
            "Before that it was up for 5 minutes. Its status changed 9 times since yesterday \
             14:05. overdue accepted no pings from 01:10 until 07:42, so its ping may have been \
             lost. It went down within the maintenance window “updates”. This message is late: \
             the channel had reached its daily limit (most-a-day)."
        ),
        "{}",
        alert.summary
    );
}

#[test]
fn unknown_facts_are_omitted() {
    // Its grace time was different when it went down.
    let settings = CheckSettings {
        grace: Seconds::parse(7_200).unwrap(),
        ..CheckSettings::clone(&backup().settings)
    };
    let check = CheckFacts {
        settings: Arc::new(settings),
        last_ping: None,
        ..backup()
    };
    let alert = of_check(check, down("2026-11-20T01:45:00Z", FlipCause::MissedPing));
    assert_eq!(
        alert.summary,
        "It had until 03:45 to report (Europe/Riga). No success signal has come since yesterday \
         03:31."
    );
    assert_eq!(
        alert.one_line,
        "DOWN: Nightly backup. Nothing by 03:45 (Europe/Riga)."
    );
    // Its last ping before that is no longer stored. A check without pings has none.
    assert!(!whole(&alert).contains("Last ping"));
    let alert = of_check(
        CheckFacts {
            last_ping: None,
            n_pings: 0,
            ..backup()
        },
        down("2026-11-20T01:45:00Z", FlipCause::MissedPing),
    );
    assert!(whole(&alert).contains("Last ping: none"));
    let alert = of_check(backup(), down("2026-11-19T06:25:00Z", FlipCause::Fail));
    assert!(
        alert
            .summary
            .starts_with("It reported a failure yesterday at 08:25 (Europe/Riga)"),
        "{}",
        alert.summary
    );
}

#[test]
fn the_end_of_a_downtime_names_its_duration() {
    let from = "2026-11-20T01:45:00Z";
    let until = "2026-11-20T06:57:00Z";
    assert_eq!(
        head(&of_check(
            backup(),
            up(from, until, FlipCause::MissedPing, true)
        )),
        "🟢 Nightly backup is up again\nIt was down for 5 h 12 min, from 03:45 until 08:57 \
         (Europe/Riga). Reason: no success signal came in time."
    );
    for (delay, words) in [
        (None, "this was not sent earlier"),
        (
            Some(DelayReason::Undelivered),
            "this could not be delivered earlier",
        ),
        (
            Some(DelayReason::QuietHours),
            "this channel had quiet hours",
        ),
        (
            Some(DelayReason::DailyLimit),
            "this channel had reached its daily limit (most-a-day)",
        ),
        (
            Some(DelayReason::Flapping),
            "its status changed so often that messages about it were held back",
        ),
    ] {
        let event = match up(
            "2026-11-20T01:45:10Z",
            "2026-11-20T01:45:50Z",
            exit(1),
            false,
        ) {
            CheckEvent::Up {
                flip,
                down,
                was_notified,
                context,
            } => CheckEvent::Up {
                flip,
                down,
                was_notified,
                context: EventContext { delay, ..context },
            },
            event => event,
        };
        assert_eq!(
            head(&of_check(backup(), event)),
            format!(
                "🟢 Nightly backup is up again\nIt was down for 40 seconds, from 03:45:10 until \
                 03:45:50 (Europe/Riga); {words}. Reason: it reported exit status 1."
            )
        );
    }
}

#[test]
fn a_closed_alert_names_the_reason() {
    for (close_reason, words, reason) in [
        (
            CloseReason::Paused,
            "🔔 Nightly backup was paused\nIt was down when it was paused at 08:57 \
             (Europe/Riga).",
            "it was paused",
        ),
        (
            CloseReason::Deleted,
            "🔔 Nightly backup was deleted\nIt was down when it was deleted at 08:57 \
             (Europe/Riga).",
            "it was deleted",
        ),
        (
            CloseReason::Unassigned,
            "🔔 Alerts about Nightly backup are no longer sent to this channel\nIt was down when \
             alerts about it stopped going to this channel at 08:57 (Europe/Riga).",
            "alerts about it are no longer sent to this channel",
        ),
    ] {
        let alert = of_check(
            backup(),
            CheckEvent::Closed {
                at: moment("2026-11-20T06:57:00Z"),
                reason: close_reason,
            },
        );
        assert_eq!(
            (head(&alert).as_str(), alert.reason.as_str()),
            (words, reason)
        );
        let steps = prepare(&example("alertmanager"), &alert, &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!()
        };
        let sent: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let annotations =
            serde_json::json!({ "summary": alert.title, "description": alert.summary });
        assert_eq!(sent[0]["annotations"], annotations);
    }
}

#[test]
fn one_message_lists_several_checks() {
    let at = "2026-11-20T01:45:00Z";
    let briefs = |count: usize| {
        (0..count)
            .map(|number| summary(&format!("job {number}"), at, FlipCause::MissedPing))
            .collect::<Vec<_>>()
    };
    let digest = alert_now(AlertFacts::Digest {
        down: briefs(2),
        up: briefs(1),
        warned: vec![],
    });
    assert_eq!(
        whole(&digest),
        "🔴 Home: 2 checks went down, 1 is up again\n\
         \n\
         Down:\n\
         • job 0 (no success since yesterday 03:31)\n\
         • job 1 (no success since yesterday 03:31)\n\
         \n\
         Up again:\n\
         • job 0\n\
         \n\
         https://overdue.example.org/projects/00000000-0000-0000-0000-000000000009/checks/"
    );
    assert_eq!(
        alert_now(AlertFacts::Digest {
            down: vec![],
            up: briefs(2),
            warned: vec![]
        })
        .title,
        "Home: 2 checks are up again"
    );
    assert_eq!(
        alert_now(AlertFacts::Digest {
            down: briefs(1),
            up: vec![],
            warned: vec![]
        })
        .title,
        "Home: 1 check went down"
    );
    let from = moment("2026-11-19T23:10:00Z");
    let until = moment("2026-11-20T05:42:00Z");
    assert_eq!(
        whole(&alert_now(AlertFacts::ServerOutage {
            from,
            until,
            checks: briefs(2)
        })),
        "⚠️ Home: 2 checks may have missed their reports\n\
         overdue could not accept pings from 01:10 until 07:42 (Europe/Riga), 6 h 32 min in all. \
         These checks were due in that time and have not reported since. Their pings may have \
         been lost.\n\
         \n\
         Checks:\n\
         • job 0 (no success since yesterday 03:31)\n\
         • job 1 (no success since yesterday 03:31)\n\
         \n\
         https://overdue.example.org/projects/00000000-0000-0000-0000-000000000009/checks/"
    );
    let now = "2026-11-20T10:45:00Z";
    assert_eq!(
        head(&alert_at(AlertFacts::StillDown(briefs(1)), now)),
        "🔴 Home: job 0 is still down, for 9 hours, since 03:45\nReason: no success signal came \
         in time."
    );
    assert_eq!(
        whole(&alert_at(AlertFacts::StillDown(briefs(2)), now)),
        "🔴 Home: 2 checks are still down\n\
         \n\
         Down:\n\
         • job 0 (for 9 hours, since 03:45)\n\
         • job 1 (for 9 hours, since 03:45)\n\
         \n\
         https://overdue.example.org/projects/00000000-0000-0000-0000-000000000009/checks/"
    );
    // As many as fit are named; the rest is counted.
    let many = alert_now(AlertFacts::Digest {
        down: briefs(1_000),
        up: vec![],
        warned: vec![],
    });
    let cut = render_text(
        &many,
        &attempt(),
        Dialect::Plain,
        TextSections::ALL,
        LengthLimit(500, LengthUnit::Chars),
    );
    assert!(
        cut.starts_with("🔴 Home: 1000 checks went down\n")
            && cut.contains("• job 3 (")
            && cut.contains("\nand 99"),
        "{cut}"
    );
}

#[test]
fn a_test_names_its_channel() {
    let event = CheckEvent::Test {
        at: moment("2026-11-20T06:57:00Z"),
        up: false,
        channel: "ops\nmail".into(),
    };
    let alert = of_check(crate::channels::alert::CheckFacts::example("Home"), event);
    assert_eq!(
        head(&alert),
        "🔔 This is a test from overdue\nAlerts from channel ops mail of project Home on \
         overdue.example.org arrive here."
    );
    assert_eq!(
        alert.one_line,
        "TEST from overdue: channel ops mail of project Home on overdue.example.org."
    );
}

#[test]
fn a_test_names_its_channel_in_its_plainest_form_and_on_the_phone() {
    let event = || CheckEvent::Test {
        at: moment("2026-11-20T06:57:00Z"),
        up: false,
        channel: "pager7".into(),
    };
    let alert = of_check(crate::channels::alert::CheckFacts::example("Home"), event());
    assert_eq!(
        plain_summary(&alert),
        "TEST from overdue: channel pager7 of project Home on overdue.example.org."
    );
    let plain = SendAttempt {
        plain: true,
        ..attempt()
    };
    // WhatsApp sends a template with the name of a check, and a webhook sends its owner's template.
    for kind in sending_kinds().filter(|kind| !["whatsapp", "webhook"].contains(&kind.name)) {
        let settings = minimal_settings(kind);
        for attempt in [attempt(), plain.clone()]
            .iter()
            .filter(|attempt| !attempt.plain || has_plain_form(&settings))
        {
            let step = prepare(&settings, &alert, attempt)
                .into_iter()
                .flatten()
                .next();
            let sent = match step {
                Some(SendStep::Http(request)) => String::from_utf8(request.body).unwrap(),
                Some(SendStep::Mail(mail)) => mail.text,
                // A command or a group.
                _ => continue,
            };
            let sent = percent_encoding::percent_decode_str(&sent)
                .decode_utf8()
                .unwrap()
                .into_owned();
            assert!(
                sent.contains("channel pager7 of project Home"),
                "{kind:?} {} {sent}",
                attempt.plain
            );
        }
    }
}

#[test]
fn a_text_message_contains_only_its_alphabet() {
    let sent = |name: &str| {
        let mut check = backup();
        let name = crate::domain::text::Name::parse(name).unwrap();
        check.settings = crate::domain::check::CheckSettings {
            name,
            ..(*check.settings).clone()
        }
        .into();
        let alert = of_check(check, down("2026-11-20T01:45:00Z", FlipCause::MissedPing));
        let steps = prepare(&example("sms"), &alert, &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!()
        };
        let body = String::from_utf8(request.body.clone()).unwrap();
        let text = body
            .split('&')
            .find_map(|pair| pair.strip_prefix("Body="))
            .unwrap();
        percent_encoding::percent_decode_str(text)
            .decode_utf8()
            .unwrap()
            .into_owned()
    };
    // GSM-7 has no backtick: one would triple the number of segments.
    assert!(
        sent("run `date`").starts_with("DOWN: run 'date'."),
        "{}",
        sent("run `date`")
    );
    // Brackets count twice there: 100 of them and the rest fit into two segments.
    assert!(sent(&"[".repeat(100)).contains(&"[".repeat(100)));
    let wide = sent(&"ž".repeat(100));
    assert!(wide.encode_utf16().count() <= 134, "{wide}");
}

#[test]
fn a_phone_gets_one_line() {
    assert_eq!(
        of_check(
            backup(),
            down("2026-11-20T01:45:00Z", FlipCause::MissedPing)
        )
        .one_line,
        "DOWN: Nightly backup. Expected 03:30, nothing by 03:45 (Europe/Riga)."
    );
    assert_eq!(
        plain_summary(&failed()),
        "Nightly backup failed with exit status 3: it reported exit status 3"
    );
    let up = of_check(
        backup(),
        up(
            "2026-11-20T01:45:00Z",
            "2026-11-20T06:57:00Z",
            FlipCause::MissedPing,
            true,
        ),
    );
    assert_eq!(
        up.one_line,
        "UP: Nightly backup. It was down for 5 h 12 min, from 03:45 until 08:57."
    );
}

#[test]
fn a_possible_duplicate_is_marked() {
    let attempt = SendAttempt {
        may_be_duplicate: true,
        ..attempt()
    };
    let text = render_text(&failed(), &attempt, Dialect::Plain, TextSections::ALL, LONG);
    assert!(
        text.contains("\n\n(This may be a repeat: an earlier attempt may have arrived.)\n\n"),
        "{text}"
    );
}
