//! Requests of each kind for each event.

use super::render::{HOSTILE, named};
use super::sample::{attempt, down, every_event, failed, of_check};
use crate::channels::alert::JobOutput;
use crate::channels::send_step::SendStep;
use crate::channels::{
    Alert, SendAttempt, all_kinds, find_kind, prepare, prepare_resend, send_rate,
};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelSettings, SettingField, SettingFieldType,
};
use crate::domain::flip::FlipCause;
use crate::domain::text::Name;

pub(super) fn kind_named(name: &str) -> &'static ChannelKind {
    find_kind(name).unwrap()
}

/// Kinds that send messages themselves.
pub(super) fn sending_kinds() -> impl Iterator<Item = &'static ChannelKind> {
    all_kinds().filter(|kind| kind.class != ChannelClass::Group)
}

pub(super) fn minimal_settings(kind: &'static ChannelKind) -> ChannelSettings {
    ChannelSettings::parse(kind, kind.example.iter().copied()).unwrap()
}

pub(super) fn example(name: &str) -> ChannelSettings {
    minimal_settings(kind_named(name))
}

/// True if such a channel sends alerts about one check, or about several.
fn sends_something(settings: &ChannelSettings, alert: &Alert) -> bool {
    settings.handles_event(alert.event)
        && (alert.check.is_some() || settings.kind().class == ChannelClass::People)
}

/// Settings of the example with as many more as the kind accepts.
pub(super) fn maximal_settings(kind: &'static ChannelKind) -> ChannelSettings {
    kind.fields
        .iter()
        .fold(minimal_settings(kind), |settings, field| {
            let value = match field.field_type {
                SettingFieldType::Choice(words) | SettingFieldType::Words(words) => {
                    words.last().unwrap()
                }
                SettingFieldType::Url | SettingFieldType::SecretUrl => {
                    "https://other.example.org/a"
                }
                SettingFieldType::Flag => "on",
                SettingFieldType::Number(..) => "2",
                SettingFieldType::PhoneNumber => "+12025550123",
                SettingFieldType::MailAddresses(_) => "a@b.example",
                _ => "value",
            };
            settings
                .with_value(&field.key.replace("NAME", "name"), value)
                .unwrap_or(settings)
        })
}

#[test]
fn messages_to_people_have_a_rate_limit() {
    for kind in sending_kinds().filter(|kind| kind.class == ChannelClass::People) {
        assert!(
            send_rate(&minimal_settings(kind))
                .is_some_and(|rate| rate.burst > 0 && !rate.refill.is_zero()),
            "{kind:?}"
        );
    }
}

#[test]
fn a_group_itself_sends_nothing() {
    let group = example("group");
    for (name, alert) in every_event() {
        assert_eq!(prepare(&group, &alert, &attempt()), None, "{name}");
    }
}

#[test]
fn every_kind_sends_every_event_with_the_least_and_with_all_settings() {
    for kind in sending_kinds() {
        for settings in [minimal_settings(kind), maximal_settings(kind)] {
            for (name, alert) in every_event() {
                for plain in [false, true] {
                    let attempt = SendAttempt {
                        plain,
                        may_be_duplicate: plain,
                        ..attempt()
                    };
                    let steps = prepare(&settings, &alert, &attempt);
                    let expected = sends_something(&settings, &alert);
                    assert_eq!(steps.is_some(), expected, "{kind:?} {name}");
                    for step in steps.iter().flatten() {
                        check_step(kind, step);
                    }
                }
            }
        }
        assert!(
            prepare(&minimal_settings(kind), &failed(), &attempt()).is_some(),
            "{kind:?}"
        );
    }
}

fn check_step(kind: &ChannelKind, step: &SendStep) {
    let debug = format!("{step:?}");
    let secrets = kind
        .fields
        .iter()
        .filter(|field: &&SettingField| field.is_secret())
        .map(|field| field.key);
    for secret in kind
        .example
        .iter()
        .filter(|(key, _)| secrets.clone().any(|secret| secret == *key))
    {
        let hidden = secret.1.splitn(4, '/').last().unwrap();
        assert!(!debug.contains(hidden), "{kind:?}: {debug}");
    }
    if let SendStep::Http(request) = step {
        assert!(
            request.url.bytes().all(|byte| byte.is_ascii_graphic()),
            "{}",
            request.url
        );
        for (name, value) in &request.headers {
            assert!(
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && byte != b':'),
                "{name}"
            );
            assert!(
                value
                    .chars()
                    .all(|c| !c.is_control() && u32::from(c) <= 0xff),
                "{kind:?} {name}"
            );
        }
        let mut names: Vec<_> = request
            .headers
            .iter()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), request.headers.len(), "{kind:?}");
        assert!(request.body.len() <= 64 * 1024, "{kind:?}");
    }
}

#[test]
fn untrusted_names_break_no_request() {
    for text in HOSTILE
        .into_iter()
        .map(String::from)
        .chain([HOSTILE.concat().repeat(20)])
    {
        let alert = of_check(named(&text), down("2026-11-20T01:34:05Z", FlipCause::Fail));
        for kind in sending_kinds() {
            for step in prepare(&minimal_settings(kind), &alert, &attempt()).unwrap() {
                check_step(kind, &step);
                match step {
                    SendStep::Mail(mail) => {
                        let lines = mail
                            .headers
                            .iter()
                            .map(|(_, value)| value)
                            .chain([&mail.subject]);
                        lines.for_each(|line| {
                            assert!(!line.chars().any(char::is_control), "{line:?}");
                        });
                    }
                    SendStep::Command(shell) => {
                        assert!(
                            !shell.command.contains('\0')
                                && shell
                                    .environment
                                    .iter()
                                    .all(|(_, value)| !value.contains('\0'))
                        );
                    }
                    SendStep::Unsendable(reason) => panic!("{reason}"),
                    SendStep::Http(request) => {
                        // Bodies that look like JSON are valid JSON.
                        if matches!(request.body.first(), Some(b'{' | b'[')) {
                            serde_json::from_slice::<serde_json::Value>(&request.body).unwrap();
                        }
                        String::from_utf8(request.body).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn no_name_mentions_a_user() {
    for text in HOSTILE {
        // Blocks contain no mentions.
        let alert = Alert {
            output: None,
            ..of_check(named(text), down("2026-11-20T01:34:05Z", FlipCause::Fail))
        };
        for (kind, calls) in [
            ("slack", &["<!channel>", "<@U1>"][..]),
            ("mattermost", &["@everyone", "@all", "<!channel>", "<@U1>"]),
            ("rocketchat", &["@everyone", "@all"]),
            ("zulip", &[" @**all**", "\\n@**all**"]),
        ] {
            let SendStep::Http(request) = prepare(&example(kind), &alert, &attempt())
                .unwrap()
                .remove(0)
            else {
                panic!()
            };
            let body = percent_encoding::percent_decode(&request.body)
                .decode_utf8()
                .unwrap()
                .replace('+', " ");
            // A topic of Zulip is plain text.
            let body = body
                .split_once("content=")
                .map_or(body.as_str(), |(_, content)| content);
            assert!(
                !calls.iter().any(|call| body.contains(call)),
                "{kind} {text}: {body}"
            );
        }
    }
}

#[test]
fn slack_parses_marks_only_in_the_output() {
    let output = "*o* `x`";
    let alert = of_check(
        named("*x* _y_ ~z~"),
        down("2026-11-20T01:34:05Z", FlipCause::Fail),
    );
    let alert = Alert {
        output: alert.output.map(|own| JobOutput {
            text: output.into(),
            ..own
        }),
        ..alert
    };
    let sent = |attempt: &SendAttempt| {
        let SendStep::Http(request) = prepare(&example("slack"), &alert, attempt)
            .unwrap()
            .remove(0)
        else {
            panic!()
        };
        serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()
    };
    let message = sent(&attempt());
    let [own, block] = message["attachments"].as_array().unwrap().as_slice() else {
        panic!("{message}")
    };
    assert_eq!(
        (&own["mrkdwn_in"], &block["mrkdwn_in"]),
        (&serde_json::json!([]), &serde_json::json!(["text"]))
    );
    assert!(
        own["title"].as_str().unwrap().contains("*x* _y_ ~z~")
            && !own["text"].as_str().unwrap().contains(output),
        "{message}"
    );
    assert_eq!(
        block["text"].as_str().unwrap().trim(),
        "```\n*o* `x`\u{2060}\n```",
        "{message}"
    );
    // The plainest form is the text of the message itself, which is parsed for marks unless the
    // request turns that off.
    let plainest = sent(&SendAttempt {
        plain: true,
        ..attempt()
    });
    assert_eq!(plainest["mrkdwn"], serde_json::json!(false), "{plainest}");
}

#[test]
fn a_webhook_is_signed_as_standard_webhooks() {
    let webhook = example("webhook")
        .with_value("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .unwrap();
    let webhook = webhook
        .with_value("body", "{\"test\": 2432232314}")
        .unwrap();
    let attempt = SendAttempt {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek".into(),
        at: crate::domain::timestamp::Timestamp::from_secs(1_614_265_330),
        may_be_duplicate: true,
        ..attempt()
    };
    let SendStep::Http(request) = prepare(&webhook, &failed(), &attempt).unwrap().remove(0) else {
        panic!()
    };
    let header = |name: &str| {
        request
            .headers
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };
    assert_eq!(header("webhook-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_eq!(header("webhook-timestamp"), "1614265330");
    assert_eq!(
        header("webhook-signature"),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
    assert_eq!(
        (
            header("Overdue-Possible-Duplicate"),
            header("Overdue-Attempt")
        ),
        ("true".into(), "1".into())
    );
}

#[test]
fn a_webhook_may_have_a_request_for_each_event() {
    let kind = kind_named("webhook");
    let settings = ChannelSettings::parse(
        kind,
        [
            ("down-url", "http://a/$NAME"),
            ("body", "$STATUS"),
            ("up-url", "http://b/"),
            ("up-method", "GET"),
            ("header.x", "1"),
            ("down-header.x", "$NAME"),
            ("down-header.content-type", "text/plain"),
        ],
    )
    .unwrap();
    let sent = |name: &str| {
        let (_, alert) = every_event()
            .into_iter()
            .find(|(own, _)| *own == name)
            .unwrap();
        let SendStep::Http(request) = prepare(&settings, &alert, &attempt()).unwrap().remove(0)
        else {
            panic!()
        };
        let x = request
            .headers
            .iter()
            .filter(|(name, _)| name == "x")
            .map(|(_, value)| value.clone());
        (
            request.method.name(),
            request.url.clone(),
            String::from_utf8(request.body.clone()).unwrap(),
            x.collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        sent("down"),
        (
            "POST",
            "http://a/Nightly%20backup".into(),
            "down".into(),
            vec!["Nightly backup".into()]
        )
    );
    assert_eq!(
        sent("up"),
        ("GET", "http://b/".into(), String::new(), vec!["1".into()])
    );
    // A channel with one event ignores the other one, but can be tested.
    let only_up = ChannelSettings::parse(kind, [("up-url", "http://b/")]).unwrap();
    assert!(
        prepare(&only_up, &failed(), &attempt()).is_none()
            && only_up.handles_event(AlertEvent::Test)
    );
    let (_, test) = every_event()
        .into_iter()
        .find(|(name, _)| *name == "test")
        .unwrap();
    assert!(prepare(&only_up, &test, &attempt()).is_some());
}

#[test]
fn alerts_that_expire_are_resent() {
    let now = attempt().at;
    let alert = failed();
    let other = failed();
    let steps = prepare_resend(&example("alertmanager"), &[&alert, &other], now);
    let [SendStep::Http(request)] = steps.as_slice() else {
        panic!()
    };
    let alerts: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(alerts.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&alerts[0]["startsAt"], &alerts[0]["endsAt"]),
        (
            &"2026-11-20T01:34:05+00:00".into(),
            &"2026-11-20T07:02:00+00:00".into()
        )
    );
    assert!(prepare_resend(&example("pd"), &[&alert], now).is_empty());
}

#[test]
fn the_incident_of_a_deleted_check_is_closed() {
    let unique_key = crate::domain::ids::UniqueKey::of_check(uuid::Uuid::from_u128(7));
    let names = crate::domain::check::CheckLabels {
        name: Name::parse("Nightly backup").unwrap(),
        ..Default::default()
    };
    let deleted = crate::channels::alert::CheckFacts::for_deleted_check(names, unique_key, "Home");
    let alert = of_check(
        deleted,
        crate::channels::alert::CheckEvent::Closed {
            at: attempt().at,
            reason: crate::channels::alert::CloseReason::Deleted,
        },
    );
    let steps = prepare(&example("pd"), &alert, &attempt()).unwrap();
    let [SendStep::Http(request)] = steps.as_slice() else {
        panic!()
    };
    let event: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        (&event["event_action"], &event["dedup_key"]),
        (&"resolve".into(), &unique_key.to_string().into())
    );
    assert!(prepare(&example("ntfy"), &alert, &attempt()).is_none());
}

#[test]
fn a_webhook_that_becomes_too_long_is_unsendable_and_names_the_template() {
    let body = "$BODY".repeat(2_000);
    let kind = kind_named("webhook");
    let url = "http://a/";
    for (pairs, reason) in [
        (
            vec![("down-url", url), ("body", &*body)],
            "down-body has more than 1048576 bytes with its placeholders filled in; use fewer \
             placeholders",
        ),
        (
            vec![("down-url", "http://a/$JSON")],
            "down-url has more than 8192 bytes with its placeholders filled in; use fewer \
             placeholders",
        ),
        (
            vec![("down-url", url), ("header.x", "$JSON")],
            "the header x has more than 8192 bytes with its placeholders filled in",
        ),
    ] {
        let settings = ChannelSettings::parse(kind, pairs).unwrap();
        let mut check = super::sample::backup();
        check.last_ping = Some(super::sample::ping(
            crate::domain::ping::PingKind::Fail,
            "2026-11-20T01:34:05Z",
            None,
            &vec![b'x'; 100_000],
        ));
        check.json = Some("j".repeat(60_000));
        let alert = of_check(check, down("2026-11-20T01:34:05Z", FlipCause::Fail));
        let steps = prepare(&settings, &alert, &attempt()).unwrap();
        assert_eq!(steps, [SendStep::Unsendable(reason.into())]);
        let judged = crate::channels::judge(
            &settings,
            &alert,
            &attempt(),
            &steps[0],
            &crate::channels::TransportReply::NoReply {
                error: String::new(),
                may_have_arrived: false,
            },
            attempt().at,
        );
        assert_eq!(
            (judged.verdict, judged.error.as_str()),
            (crate::channels::Verdict::MessageRejected, reason)
        );
    }
}

/// As in the documentation of PagerTree and Spike.sh for the integration that the help names, and
/// as Healthchecks sends it.
#[test]
fn pagertree_and_spike_open_and_close_one_incident() {
    let bodies = |kind: &str, integration: &str, name: &str| {
        let (_, alert) = every_event()
            .into_iter()
            .find(|(own, _)| *own == name)
            .unwrap();
        let settings = example(kind)
            .with_value("integration", integration)
            .unwrap();
        let body = |step: &SendStep| match step {
            SendStep::Http(request) => {
                serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()
            }
            step => panic!("{step:?}"),
        };
        prepare(&settings, &alert, &attempt())
            .unwrap()
            .iter()
            .map(body)
            .collect::<Vec<_>>()
    };
    let open = &bodies("pagertree", "webhook", "down")[0];
    assert_eq!(
        (&open["event_type"], &open["Tags"]),
        (&"create".into(), &serde_json::json!(["prod", "db"]))
    );
    assert!(
        open["Title"] == "Nightly backup failed with exit status 3"
            && !open["Description"].as_str().unwrap().is_empty(),
        "{open}"
    );
    for end in ["up", "closed"] {
        let close = &bodies("pagertree", "webhook", end)[0];
        assert_eq!(
            (&close["event_type"], &close["Id"]),
            (&"resolve".into(), &open["Id"]),
            "{end}"
        );
    }
    let open = &bodies("spike", "webhook", "down")[0];
    assert!(
        open.get("status").is_none()
            && open["title"]
                .as_str()
                .unwrap()
                .starts_with("Nightly backup is down (Home, "),
        "{open}"
    );
    assert!(
        open["body"].as_str().unwrap().contains("exit status 3"),
        "{open}"
    );
    for end in ["up", "closed"] {
        let close = &bodies("spike", "webhook", end)[0];
        assert_eq!(
            (&close["status"], &close["title"]),
            (&"resolve".into(), &open["title"]),
            "{end}"
        );
    }
    // A test is closed, under an id of its own.
    let tried = bodies("spike", "webhook", "test");
    assert!(
        tried.len() == 2
            && tried[0]["title"] == tried[1]["title"]
            && tried[1]["status"] == "resolve"
            && tried[0]["title"] != open["title"]
    );
    let types = |kind, key: &str| {
        bodies(kind, "healthchecks", "test")
            .iter()
            .map(|body| body[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(types("pagertree", "event_type"), ["trigger", "resolve"]);
    assert_eq!(types("spike", "status"), ["down", "up"]);
}
