//! Limits of receivers. No longer request is sent to them.

use serde_json::Value;

use super::kinds::example;
use super::render::{HOSTILE, named};
use super::sample::{alert_now, attempt, down, of_check, summary};
use crate::channels::alert::{Alert, AlertFacts};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::{SendAttempt, prepare};
use crate::domain::flip::FlipCause;

/// Long names, descriptions and output of one check, and a thousand checks.
fn long() -> [Alert; 3] {
    let at = "2026-11-20T01:34:05Z";
    let hostile = HOSTILE.concat().repeat(30);
    let wide = "🦀ž&<\"\\@*".repeat(500);
    let many = AlertFacts::Digest {
        down: vec![
            summary(
                &wide.chars().take(60).collect::<String>(),
                at,
                FlipCause::Fail
            );
            1_000
        ],
        up: vec![
            summary(
                &hostile.chars().take(60).collect::<String>(),
                at,
                FlipCause::MissedPing
            );
            9
        ],
        warned: vec![],
    };
    [
        of_check(named(&hostile), down(at, FlipCause::Fail)),
        of_check(named(&wide), down(at, FlipCause::MissedPing)),
        alert_now(many),
    ]
}

fn requests(kind: &str) -> Vec<ChannelRequest> {
    let http = |step| match step {
        SendStep::Http(request) => request,
        _ => panic!("{kind}"),
    };
    let settings = example(kind);
    let sent = |alert: &Alert| {
        let doubtful = SendAttempt {
            may_be_duplicate: true,
            ..attempt()
        };
        prepare(&settings, alert, &doubtful)
            .unwrap_or_default()
            .into_iter()
            .map(http)
            .collect::<Vec<_>>()
    };
    let requests: Vec<_> = long().iter().flat_map(sent).collect();
    assert!(requests.len() >= 2, "{kind}");
    requests
}

fn json(request: &ChannelRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

/// Decoded value of a form field.
fn field(request: &ChannelRequest, name: &str) -> String {
    let body = String::from_utf8(request.body.clone()).unwrap();
    let value = body
        .split('&')
        .find_map(|pair| pair.strip_prefix(&format!("{name}=")))
        .unwrap();
    percent_encoding::percent_decode_str(value)
        .decode_utf8()
        .unwrap()
        .into_owned()
}

fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    value
        .pointer(place)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{place}: {value}"))
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}

#[test]
fn no_message_exceeds_the_limit_of_its_receiver() {
    for request in requests("ntfy") {
        let message = json(&request);
        assert!(
            (1_000..=4_096).contains(&text(&message, "/message").len())
                && text(&message, "/title").len() <= 250
        );
    }
    for request in requests("telegram") {
        assert!((1_000..=4_096).contains(&utf16(text(&json(&request), "/text"))));
    }
    for request in requests("discord") {
        let message = json(&request);
        let embed = &message["embeds"][0];
        let fields = embed["fields"].as_array().unwrap();
        assert!(
            fields.len() <= 25
                && fields
                    .iter()
                    .all(|field| utf16(text(field, "/value")) <= 1_024
                        && !text(field, "/value").is_empty())
        );
        let of_fields: usize = fields
            .iter()
            .map(|field| utf16(text(field, "/name")) + utf16(text(field, "/value")))
            .sum();
        let title = utf16(text(embed, "/title"));
        let description = utf16(text(embed, "/description"));
        assert!(title <= 256 && description <= 4_096 && title + description + of_fields <= 6_000);
    }
    for (kind, most) in [
        ("slack", 3_000),
        ("mattermost", 16_383),
        ("rocketchat", 1_000),
    ] {
        for request in requests(kind) {
            let message = json(&request);
            let texts = message["attachments"]
                .as_array()
                .unwrap()
                .iter()
                .map(|attachment| chars(text(attachment, "/text")));
            assert!(texts.max().is_none_or(|longest| longest <= most), "{kind}");
        }
    }
    for (kind, bytes) in [
        ("msteamsw", 28_000),
        ("googlechat", 32_000),
        ("matrix", 60_000),
        ("pd", 512_000),
    ] {
        assert!(
            requests(kind)
                .iter()
                .all(|request| request.body.len() <= bytes),
            "{kind}"
        );
    }
    for request in requests("po") {
        assert!(
            chars(&field(&request, "message")) <= 1_024 && chars(&field(&request, "title")) <= 250
        );
    }
    for request in requests("signal") {
        assert!(text(&json(&request), "/params/message").len() <= 2_000);
    }
    for request in requests("zulip") {
        assert!(
            chars(&field(&request, "content")) <= 10_000 && chars(&field(&request, "topic")) <= 60
        );
    }
    for request in requests("sms") {
        let body = field(&request, "Body");
        assert!(
            utf16(&body) <= 134 || (body.is_ascii() && body.len() <= 306),
            "{body}"
        );
    }
    for request in requests("opsgenie") {
        assert!(chars(text(&json(&request), "/message")) <= 130);
    }
    for request in requests("pd") {
        assert!(chars(text(&json(&request), "/payload/summary")) <= 1_024);
    }
}
