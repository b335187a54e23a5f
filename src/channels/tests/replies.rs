//! Meaning of responses, kind by kind.

use std::time::Duration;

use super::kinds::example;
use super::sample::{attempt, failed, moment};
use crate::channels::transport_reply::ChannelResponse;
use crate::channels::{
    Judgement, SendAttempt, SendStep, TransportReply, Verdict, has_plain_form, judge, prepare,
};
use crate::domain::channel::ChannelSettings;

pub(super) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> TransportReply {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    TransportReply::Http(ChannelResponse {
        status,
        headers,
        body: body.into(),
    })
}

pub(super) fn judged_at(
    settings: &ChannelSettings,
    step: usize,
    answer: &TransportReply,
) -> Judgement {
    let steps = prepare(settings, &failed(), &attempt()).unwrap();
    judge(
        settings,
        &failed(),
        &attempt(),
        &steps[step],
        answer,
        moment("2026-11-20T23:59:00Z"),
    )
}

/// Judgement of a response to this attempt while the channel has been failing for this number of
/// seconds.
pub(super) fn judged_after(
    settings: &ChannelSettings,
    number: u16,
    seconds: i64,
    answer: &TransportReply,
) -> Judgement {
    let now = attempt().at;
    let attempt = SendAttempt {
        number,
        failing_since: Some(now.plus_secs(-seconds)),
        ..attempt()
    };
    let steps = prepare(settings, &failed(), &attempt).unwrap();
    judge(settings, &failed(), &attempt, &steps[0], answer, now)
}

fn verdict(kind: &str, status: u16, headers: &[(&str, &str)], body: &str) -> Verdict {
    judged_at(&example(kind), 0, &answer(status, headers, body)).verdict
}

pub(super) fn later(seconds: u64) -> Verdict {
    Verdict::Retry {
        after: Some(Duration::from_secs(seconds)),
    }
}

#[test]
fn common_http_statuses() {
    use Verdict::{Delivered, MessageRejected};
    for (status, expected) in [
        (200, Delivered),
        (204, Delivered),
        (301, Verdict::RETRY),
        (400, MessageRejected),
        (401, Verdict::RETRY),
        (404, Verdict::RETRY),
        (408, Verdict::RETRY),
        (413, MessageRejected),
        (422, MessageRejected),
        (429, Verdict::RETRY),
        (500, Verdict::RETRY),
        (503, Verdict::RETRY),
    ] {
        assert_eq!(verdict("gotify", status, &[], ""), expected, "{status}");
    }
    for (value, expected) in [
        ("30", later(30)),
        (
            "0.5",
            Verdict::Retry {
                after: Some(Duration::from_millis(500)),
            },
        ),
        ("Sat, 21 Nov 2026 00:00:00 GMT", later(60)),
        ("Fri, 20 Nov 2026 00:00:00 GMT", Verdict::RETRY),
        ("99999999999999", later(6 * 3600)),
        ("-1", Verdict::RETRY),
        ("soon", Verdict::RETRY),
        ("NaN", Verdict::RETRY),
    ] {
        assert_eq!(
            verdict("gotify", 503, &[("retry-after", value)], ""),
            expected,
            "{value}"
        );
    }
}

#[test]
fn responses_with_a_special_meaning_for_a_kind() {
    use Verdict::{ChannelRejected, Delivered, MessageRejected};
    let none: &[(&str, &str)] = &[];
    for (kind, status, headers, body, expected) in [
        ("webhook", 410, none, "", ChannelRejected),
        ("webhook", 400, none, "", MessageRejected),
        ("webhook", 404, none, "", Verdict::RETRY),
        (
            "ntfy",
            429,
            none,
            "{\"code\":42908,\"http\":429}",
            later(60),
        ),
        ("ntfy", 429, none, "{\"code\":42901}", later(60)),
        ("ntfy", 403, none, "", Verdict::RETRY),
        (
            "telegram",
            429,
            none,
            r#"{"ok":false,"parameters":{"retry_after":17}}"#,
            later(17),
        ),
        (
            "telegram",
            400,
            none,
            r#"{"ok":false,"parameters":{"migrate_to_chat_id":-1009}}"#,
            Verdict::ChangeSetting {
                key: "chat",
                value: "-1009".into(),
            },
        ),
        (
            "telegram",
            400,
            none,
            r#"{"ok":false,"description":"Bad Request: chat not found"}"#,
            ChannelRejected,
        ),
        (
            "telegram",
            400,
            none,
            r#"{"ok":false,"description":"Bad Request: can't parse entities"}"#,
            MessageRejected,
        ),
        ("telegram", 401, none, "{\"ok\":false}", ChannelRejected),
        ("telegram", 403, none, "{\"ok\":false}", ChannelRejected),
        ("telegram", 403, none, "<html>proxy", Verdict::RETRY),
        ("discord", 204, none, "", Delivered),
        ("discord", 404, none, "", Verdict::RETRY),
        (
            "discord",
            429,
            none,
            "{\"retry_after\":2.5}",
            Verdict::Retry {
                after: Some(Duration::from_millis(2_500)),
            },
        ),
        ("slack", 403, none, "", Verdict::RETRY),
        ("slack", 400, none, "invalid_payload", MessageRejected),
        ("mattermost", 404, none, "", Verdict::RETRY),
        ("rocketchat", 200, none, "{\"success\":true}", Delivered),
        (
            "rocketchat",
            200,
            none,
            "{\"success\":false}",
            MessageRejected,
        ),
        ("msteamsw", 202, none, "", Delivered),
        ("po", 200, none, "{\"status\":1}", Delivered),
        ("po", 200, none, "{\"status\":0}", Verdict::RETRY),
        (
            "po",
            400,
            none,
            "{\"user\":\"invalid\",\"status\":0}",
            ChannelRejected,
        ),
        (
            "po",
            400,
            none,
            r#"{"message":"cannot be blank","status":0}"#,
            MessageRejected,
        ),
        (
            "po",
            429,
            &[("x-limit-app-reset", "1795219200")],
            "",
            later(60),
        ),
        (
            "matrix",
            401,
            none,
            "{\"errcode\":\"M_UNKNOWN_TOKEN\"}",
            ChannelRejected,
        ),
        ("matrix", 401, none, "", Verdict::RETRY),
        ("matrix", 429, none, "{\"retry_after_ms\":4000}", later(4)),
        (
            "signal",
            200,
            none,
            "{\"result\":{\"timestamp\":1}}",
            Delivered,
        ),
        ("signal", 500, none, "{}", Verdict::RETRY),
        (
            "signal",
            200,
            none,
            "{\"error\":{\"code\":-3}}",
            Verdict::RETRY,
        ),
        (
            "signal",
            200,
            none,
            r#"{"error":{"code":-5,"data":{"response":{"results":[{"retryAfterSeconds":90}]}}}}"#,
            later(90),
        ),
        (
            "signal",
            200,
            none,
            "{\"error\":{\"code\":-5}}",
            later(3_600),
        ),
        (
            "signal",
            200,
            none,
            "{\"error\":{\"code\":-4}}",
            ChannelRejected,
        ),
        (
            "signal",
            200,
            none,
            "{\"error\":{\"code\":-6}}",
            ChannelRejected,
        ),
        (
            "signal",
            200,
            none,
            "{\"error\":{\"code\":-1}}",
            MessageRejected,
        ),
        (
            "signal",
            200,
            none,
            concat!(
                r#"{"error":{"code":-1,"data":{"response":"#,
                r#"{"results":[{"type":"UNREGISTERED_FAILURE"}]}}}}"#
            ),
            ChannelRejected,
        ),
        (
            "signal",
            200,
            none,
            r#"{"result":{"results":[{"type":"UNREGISTERED_FAILURE"},{"type":"SUCCESS"}]}}"#,
            Delivered,
        ),
        ("sms", 201, none, "", Delivered),
        ("sms", 400, none, "{\"code\":21211}", ChannelRejected),
        ("sms", 400, none, "{\"code\":21617}", MessageRejected),
        ("apprise", 204, none, "", ChannelRejected),
        ("apprise", 424, none, "", Delivered),
        ("alertmanager", 400, none, "", Verdict::RETRY),
        ("pd", 202, none, "", Delivered),
        ("pd", 403, none, "", Verdict::RETRY),
        (
            "rocketchat",
            429,
            &[("x-ratelimit-reset", "1795219200000")],
            "",
            later(60),
        ),
        ("github", 201, none, "", Delivered),
        ("github", 403, &[("retry-after", "7")], "", later(7)),
        (
            "github",
            403,
            &[("x-ratelimit-reset", "1795219200")],
            "",
            later(60),
        ),
    ] {
        assert_eq!(
            verdict(kind, status, headers, body),
            expected,
            "{kind} {status} {body}"
        );
    }
}

#[test]
fn only_persistent_errors_of_the_service_itself_disable_a_channel() {
    let json = r#"{"message":"Unknown Webhook","code":10015}"#;
    let google = r#"{"error":{"code":404,"message":"Space not found","status":"NOT_FOUND"}}"#;
    let teams = r#"{"error":{"code":"WorkflowNotFound","message":"It is gone."}}"#;
    let pushbullet = concat!(
        r#"{"error":{"code":"invalid_access_token","#,
        r#""message":"Access token is missing or invalid."}}"#
    );
    let github = r#"{"message":"Not Found","documentation_url":"https://docs.github.com/rest"}"#;
    let block_page = "<!DOCTYPE html><html><title>Blocked</title></html>";
    for (kind, status, body) in [
        ("discord", 401, json),
        ("discord", 403, json),
        ("discord", 404, json),
        ("googlechat", 403, google),
        ("googlechat", 404, google),
        ("msteamsw", 404, teams),
        ("msteamsw", 410, teams),
        ("slack", 404, "no_service"),
        ("slack", 410, "channel_is_archived"),
        ("slack", 403, "action_prohibited"),
        ("pushbullet", 401, pushbullet),
        ("pushbullet", 403, pushbullet),
        ("github", 401, github),
        ("github", 404, github),
        ("github", 410, github),
        ("trello", 401, "invalid key"),
        ("trello", 404, "The requested resource was not found."),
        (
            "victorops",
            404,
            r#"{"result":"failure","message":"Unknown key"}"#,
        ),
    ] {
        let settings = example(kind);
        let judged = |number, seconds, body| {
            judged_after(&settings, number, seconds, &answer(status, &[], body)).verdict
        };
        assert_eq!(
            judged(3, 3_600, body),
            Verdict::ChannelRejected,
            "{kind} {status} {body}"
        );
        for (number, seconds, body) in [
            (1, 0, body),
            (2, 3_600, body),
            (9, 3_599, body),
            (9, 86_400, block_page),
            (9, 86_400, if kind == "github" { json } else { block_page }),
            (9, 86_400, ""),
        ] {
            assert_eq!(
                judged(number, seconds, body),
                Verdict::RETRY,
                "{kind} {status} {number} {seconds} {body}"
            );
        }
    }
}

#[test]
fn a_matrix_room_is_joined_if_necessary() {
    let matrix = example("matrix");
    let url = |steps: &[SendStep]| match steps {
        [SendStep::Http(request)] => format!("{} {}", request.method.name(), request.url),
        _ => panic!("{steps:?}"),
    };
    let judged = |settings: &ChannelSettings, step: &SendStep, answer: &TransportReply| {
        let now = attempt().at;
        match judge(settings, &failed(), &attempt(), step, answer, now).verdict {
            Verdict::Continue(steps) => steps,
            verdict => panic!("{verdict:?}"),
        }
    };
    let steps = prepare(&matrix, &failed(), &attempt()).unwrap();
    let send = "PUT https://matrix.example.org/_matrix/client/v3/rooms/%21abc%3Aexample.org/send/\
                m.room.message/0a1b2c3d-1042";
    assert_eq!(url(&steps), send);
    let forbidden = answer(403, &[], "{\"errcode\":\"M_FORBIDDEN\"}");
    let joining = judged(&matrix, &steps[0], &forbidden);
    assert_eq!(
        url(&joining),
        "POST https://matrix.example.org/_matrix/client/v3/join/%21abc%3Aexample.org"
    );
    let again = judged(
        &matrix,
        &joining[0],
        &answer(200, &[], "{\"room_id\":\"!abc:example.org\"}"),
    );
    assert_eq!(url(&again), send);
    // It joins only once.
    assert_eq!(
        judge(
            &matrix,
            &failed(),
            &attempt(),
            &again[0],
            &forbidden,
            attempt().at
        )
        .verdict,
        Verdict::RETRY
    );
    // Joining resolves an alias.
    let alias = matrix.with_value("room", "#ops:example.org").unwrap();
    let steps = prepare(&alias, &failed(), &attempt()).unwrap();
    assert_eq!(
        url(&steps),
        "POST https://matrix.example.org/_matrix/client/v3/join/%23ops%3Aexample.org"
    );
    assert_eq!(
        url(&judged(
            &alias,
            &steps[0],
            &answer(200, &[], "{\"room_id\":\"!abc:example.org\"}")
        )),
        send
    );
    // The plainest form is another event.
    let plain = SendAttempt {
        plain: true,
        ..attempt()
    };
    assert!(url(&prepare(&matrix, &failed(), &plain).unwrap()).ends_with("/0a1b2c3d-1042-plain"));
}

#[test]
fn an_emergency_of_pushover_is_cancelled_before_the_next_message() {
    let po = example("po").with_value("priority", "2").unwrap();
    let (_, up) = super::sample::every_event()
        .into_iter()
        .find(|(name, _)| *name == "up")
        .unwrap();
    let steps = prepare(&po, &up, &attempt()).unwrap();
    assert_eq!(steps.len(), 2);
    // The message is sent whatever the result.
    let judged = judge(
        &po,
        &up,
        &attempt(),
        &steps[0],
        &answer(404, &[], ""),
        attempt().at,
    );
    assert_eq!(judged.verdict, Verdict::Delivered);
    assert_eq!(prepare(&example("po"), &up, &attempt()).unwrap().len(), 1);
}

#[test]
fn an_error_is_short_and_contains_no_secret() {
    let body = format!(
        "<h1>No\r\n/services/T0/B0/abc</h1> and https://hooks.slack.com/services/T0/B0/abc {}",
        "x".repeat(5_000)
    );
    let judged = judged_at(&example("slack"), 0, &answer(500, &[], &body));
    assert!(
        judged
            .error
            .starts_with("the answer was 500: <h1>No /***</h1> and *** xxx"),
        "{}",
        judged.error
    );
    assert_eq!(judged.error.chars().count(), 200);
    let webhook = example("webhook")
        .with_value("header.authorization", "Bearer s3cret")
        .unwrap();
    let judged = judged_at(&webhook, 0, &answer(500, &[], "bad token s3cret"));
    assert_eq!(judged.error, "the answer was 500: bad token ***");
    assert_eq!(
        judged_at(&example("slack"), 0, &answer(200, &[], "ok")).error,
        ""
    );
    // The URL of a webhook may be all that a sender needs.
    for (url, said) in [
        (
            "http://h/v1/SECRETTOKEN?key=topsecret",
            "no http://h/v1/SECRETTOKEN?key=topsecret, nor /v1/SECRETTOKEN?key=topsecret",
        ),
        (
            "http://h/SECRETTOKEN/$NAME",
            "no /SECRETTOKEN/Nightly%20backup",
        ),
    ] {
        let judged = judged_at(
            &example("webhook").with_value("down-url", url).unwrap(),
            0,
            &answer(404, &[], said),
        );
        assert!(
            !judged.error.contains("SECRETTOKEN") && judged.error.contains("***"),
            "{}",
            judged.error
        );
    }
    let webhook = example("webhook")
        .with_value("down-url", "http://alerts.example.org/alerts.example.org")
        .unwrap();
    let judged = judged_at(
        &webhook,
        0,
        &TransportReply::NoReply {
            error: "no address is known for alerts.example.org".into(),
            may_have_arrived: false,
        },
    );
    assert_eq!(judged.error, "no address is known for alerts.example.org");
}

#[test]
fn a_message_may_have_arrived_after_some_errors() {
    for (status, may_have_arrived) in [
        (500, true),
        (502, true),
        (504, true),
        (503, false),
        (429, false),
        (404, false),
        (400, false),
    ] {
        assert_eq!(
            ChannelResponse {
                status,
                ..ChannelResponse::default()
            }
            .may_have_arrived(),
            may_have_arrived,
            "{status}"
        );
    }
}

#[test]
fn some_kinds_have_a_plain_form() {
    assert!(!has_plain_form(&example("webhook")) && has_plain_form(&example("ntfy")));
}

/// Inputs begin with the name of a kind. One with an unknown name is for the first kind.
#[test]
fn fuzz_replies_of_receivers() {
    const REPLIES: &[&str] = &[
        "429 retry-after: 120\n{\"ok\": false, \"parameters\": {\"retry_after\": 35}}",
        "400 x: y\n{\"error\": \"invalid_auth\", \"status\": 0, \"errors\": [\"user identifier\"]}",
        "503 retry-after: Fri, 20 Nov 2026 10:00:00 GMT\n<html>busy</html>",
        "200 x-ratelimit-reset: 1795168800\n{\"status\": 1, \"dedup_key\": \"a\"}",
    ];
    let kinds: Vec<_> = crate::channels::all_kinds()
        .filter_map(|kind| {
            let settings = example(kind.name);
            let steps = prepare(&settings, &failed(), &attempt())?;
            Some((kind.name, settings, steps))
        })
        .collect();
    let examples: Vec<_> = kinds
        .iter()
        .flat_map(|(name, ..)| REPLIES.iter().map(move |reply| format!("{name} {reply}")))
        .collect();
    let event = failed();
    let attempt = attempt();
    let now = moment("2026-11-20T23:59:00Z");
    crate::util::fuzzing::fuzz_text(&examples, |text| {
        let (name, reply) = text.split_once(' ').unwrap_or(("", text));
        let (_, settings, steps) = kinds
            .iter()
            .find(|(kind, ..)| *kind == name)
            .unwrap_or(&kinds[0]);
        let (head, body) = reply.split_once('\n').unwrap_or((reply, ""));
        let (status, header) = head.split_once(' ').unwrap_or((head, ""));
        let status = status.parse().unwrap_or(500);
        let headers: Vec<_> = header.split_once(": ").into_iter().collect();
        let reply = answer(status, &headers, body);
        let Judgement { verdict, .. } = judge(settings, &event, &attempt, &steps[0], &reply, now);
        if let Verdict::Retry { after: Some(after) } = verdict {
            assert!(after <= crate::channels::transport_reply::MAX_RETRY_DELAY);
        }
    });
}
