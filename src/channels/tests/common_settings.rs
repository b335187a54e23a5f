//! Settings that many kinds share.

use super::kinds::{example, kind_named};
use super::sample::{alert_now, attempt, every_event, failed};
use super::settings::parse;
use crate::channels::alert::AlertFacts;
use crate::channels::{SendStep, prepare};
use crate::domain::alert::AlertEvent;

#[test]
fn common_settings_are_parsed() {
    let plain = parse(kind_named("email"), &[("to", "a@b")]).unwrap();
    let common = plain.common();
    assert_eq!(
        (
            common.alerts_on_down,
            common.alerts_on_up,
            common.all_checks,
            common.group_after,
            common.receives_notices
        ),
        (true, true, false, Some(5), false)
    );
    assert!(
        plain.handles_event(AlertEvent::Down)
            && plain.handles_event(AlertEvent::Up)
            && plain.handles_event(AlertEvent::StillDown)
    );
    assert!(!plain.handles_event(AlertEvent::Notice) && !plain.handles_event(AlertEvent::Closed));
    let set = [
        ("to", "a@b"),
        ("send", "up"),
        ("repeat", "4h"),
        ("repeat-most", "3"),
        ("group-after", "off"),
        ("notices", "on"),
        ("tz", "Europe/Riga"),
        ("quiet", "22:00-07:00"),
    ];
    let set = parse(kind_named("email"), &set).unwrap();
    let common = set.common();
    assert_eq!(
        (
            common.alerts_on_down,
            common.alerts_on_up,
            common.reminder_interval,
            common.max_reminders,
            common.group_after
        ),
        (false, true, Some(14_400), Some(3), None)
    );
    assert_eq!(
        common.tz.as_ref().map(|zone| zone.name()),
        Some("Europe/Riga")
    );
    assert!(
        !set.handles_event(AlertEvent::Down)
            && set.handles_event(AlertEvent::Up)
            && set.handles_event(AlertEvent::Notice)
            && set.handles_event(AlertEvent::Test)
    );
    assert!(
        example("pd").handles_event(AlertEvent::Closed)
            && !example("pd").handles_event(AlertEvent::StillDown)
            && !example("webhook").handles_event(AlertEvent::Closed)
    );
    assert!(
        example("github").handles_event(AlertEvent::Down)
            && !example("github").handles_event(AlertEvent::Up)
    );
    assert_eq!(
        (
            example("sms").common().daily_limit,
            example("ntfy").common().daily_limit
        ),
        (Some(50), None)
    );
    assert_eq!(example("group").members().count(), 0);
    assert!(
        [AlertEvent::Down, AlertEvent::Up, AlertEvent::Test]
            .into_iter()
            .all(|event| !example("group").handles_event(event))
    );
    let silent = example("ntfy").with_value("priority-up", "0").unwrap();
    assert!(
        silent.handles_event(AlertEvent::Down)
            && !silent.handles_event(AlertEvent::Up)
            && silent.handles_event(AlertEvent::Test)
    );
    assert!(
        parse(kind_named("pd"), &[("key", "k"), ("repeat", "4h")])
            .unwrap_err()
            .contains("there is no setting \"repeat\"")
    );
}

#[test]
fn a_resolved_notice_has_the_priority_and_the_template_of_a_recovery() {
    let ntfy = example("ntfy").with_value("priority", "5").unwrap();
    let ntfy = ntfy.with_value("priority-up", "2").unwrap();
    let ntfy = ntfy.with_value("notices", "on").unwrap();
    for (is_resolved, priority) in [(false, 5), (true, 2)] {
        let notice = alert_now(AlertFacts::Notice {
            title: "The channel ops mail".into(),
            text: "See overdue channel list.".into(),
            is_resolved,
        });
        let steps = prepare(&ntfy, &notice, &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        let sent: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(sent["priority"], priority, "{sent}");
        let whatsapp = example("whatsapp").with_value("notices", "on").unwrap();
        let steps = prepare(&whatsapp, &notice, &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        let template = whatsapp.get(if is_resolved {
            "content-up"
        } else {
            "content-down"
        });
        let body = String::from_utf8_lossy(&request.body);
        assert!(body.contains(template.unwrap()), "{body}");
    }
}

#[test]
fn every_priority_of_pushover_that_sends_is_sent() {
    for priority in ["2", "1", "0", "-1", "-2"] {
        let po = example("po").with_value("priority", priority).unwrap();
        let steps = prepare(&po, &failed(), &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        let body = String::from_utf8_lossy(&request.body);
        let field = format!("priority={priority}");
        assert!(body.split('&').any(|part| part == field), "{body}");
    }
}

#[test]
fn a_link_that_pushover_would_refuse_is_left_out() {
    for (len, is_sent) in [(512, true), (513, false)] {
        let mut alert = failed();
        alert.link = Some("x".repeat(len));
        let steps = prepare(&example("po"), &alert, &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        let body = String::from_utf8_lossy(&request.body);
        assert_eq!(body.contains("&url="), is_sent, "{len}");
    }
}

#[test]
fn a_test_with_the_priority_that_sends_nothing_has_the_default_one() {
    let (_, test) = every_event()
        .into_iter()
        .find(|(name, _)| *name == "test")
        .unwrap();
    for (priority, sent) in [("0", None), ("4", Some(4))] {
        let ntfy = example("ntfy").with_value("priority", priority).unwrap();
        let steps = prepare(&ntfy, &test, &attempt()).unwrap();
        let [SendStep::Http(request)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let found = message.get("priority").and_then(serde_json::Value::as_i64);
        assert_eq!(found, sent, "{message}");
    }
}

#[test]
fn only_a_test_runs_the_command_for_the_other_event() {
    let shell = parse(kind_named("shell"), &[("up-command", "true")]).unwrap();
    for (name, alert) in every_event() {
        let commands = prepare(&shell, &alert, &attempt()).unwrap_or_default();
        let is_run = !commands.is_empty();
        assert_eq!(is_run, ["test", "up"].contains(&name), "{name}");
    }
}

#[test]
fn credentials_of_ntfy_are_a_token_or_a_user_with_a_password() {
    let token = ("token", "tk_a");
    let user = ("user", "ann");
    let password = ("password", "secret");
    for (pairs, problem) in [
        (&[token][..], None),
        (&[user, password], None),
        (&[token, user, password], Some("give one of them")),
        (&[user], Some("give both or none")),
        (&[password], Some("give both or none")),
    ] {
        let pairs = [&[("topic", "backups")][..], pairs].concat();
        let refused = parse(kind_named("ntfy"), &pairs).err();
        assert_eq!(refused.is_some(), problem.is_some(), "{pairs:?}");
        assert!(
            refused
                .zip(problem)
                .is_none_or(|(refused, problem)| refused.contains(problem)),
            "{pairs:?}"
        );
    }
}

#[test]
fn quiet_hours_end_at_the_right_time() {
    let riga = crate::domain::timezone::Timezone::parse("Europe/Riga").unwrap();
    let moment = |text: &str| {
        crate::domain::timestamp::Timestamp::from_micros(
            text.parse::<jiff::Timestamp>().unwrap().as_microsecond(),
        )
    };
    // 2026-11-20 is a Friday; the zone is two hours ahead, three until 25 October at 04:00.
    for (quiet, days, now, end) in [
        ("22:00-07:00", "mon-sun", "2026-11-20T19:59:59Z", None),
        (
            "22:00-07:00",
            "mon-sun",
            "2026-11-20T20:00:00Z",
            Some("2026-11-21T05:00:00Z"),
        ),
        (
            "22:00-07:00",
            "mon-sun",
            "2026-11-21T04:59:59Z",
            Some("2026-11-21T05:00:00Z"),
        ),
        ("22:00-07:00", "mon-sun", "2026-11-21T05:00:00Z", None),
        (
            "22:00-07:00",
            "fri",
            "2026-11-21T04:00:00Z",
            Some("2026-11-21T05:00:00Z"),
        ),
        ("22:00-07:00", "sat", "2026-11-21T04:00:00Z", None),
        (
            "12:00-13:00",
            "fri",
            "2026-11-20T10:30:00Z",
            Some("2026-11-20T11:00:00Z"),
        ),
        ("12:00-13:00", "sat,sun", "2026-11-20T10:30:00Z", None),
        (
            "00:00-00:00",
            "fri",
            "2026-11-20T10:30:00Z",
            Some("2026-11-20T22:00:00Z"),
        ),
        // The clocks are put back in the first night and forward in the other.
        (
            "22:00-07:00",
            "mon-sun",
            "2026-10-24T20:00:00Z",
            Some("2026-10-25T05:00:00Z"),
        ),
        (
            "22:00-03:30",
            "mon-sun",
            "2026-03-28T22:00:00Z",
            Some("2026-03-29T01:30:00Z"),
        ),
        (
            "22:00-03:30",
            "mon-sun",
            "2026-10-24T20:00:00Z",
            Some("2026-10-25T01:30:00Z"),
        ),
    ] {
        let settings = parse(
            kind_named("email"),
            &[("to", "a@b"), ("quiet", quiet), ("quiet-days", days)],
        )
        .unwrap();
        assert_eq!(
            settings
                .common()
                .quiet_hours
                .unwrap()
                .end_after(moment(now), &riga),
            end.map(moment),
            "{quiet} {days} {now}"
        );
    }
}
