//! Errors that quote responses which repeat the request: they contain no secret, in any encoding,
//! of any kind.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::kinds::{example, minimal_settings, sending_kinds};
use super::sample::{attempt, failed, moment};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::{ChannelResponse, CommandStatus, MailStage, public_part};
use crate::channels::{TransportReply, all_kinds, judge, prepare};
use crate::domain::alert::DeliveryRecord;
use crate::domain::channel::{ChannelKind, ChannelSettings, SettingFieldType};

/// Settings of the example, with secrets that have different encodings in URLs, JSON and HTML, as
/// far as the kind accepts them.
fn with_secrets(kind: &'static ChannelKind) -> ChannelSettings {
    kind.fields
        .iter()
        .filter(|field| field.is_secret() || field.is_url())
        .enumerate()
        .fold(minimal_settings(kind), |settings, (number, field)| {
            let secret = match field.field_type {
                SettingFieldType::Url | SettingFieldType::SecretUrl => format!(
                    "https://h.example/in/Path{number}Secret%2Fpart?key=Query{number}Secret"
                ),
                SettingFieldType::Header => format!(
                    "Basic {}",
                    BASE64_STANDARD.encode(format!("ann:Header{number}&Secret"))
                ),
                _ => format!("Field{number}\"/&+Secret"),
            };
            let key = field.key.replace("NAME", "x-token");
            // If the kind accepts only some characters, the secret of the example is searched for.
            settings.with_value(&key, &secret).unwrap_or(settings)
        })
}

/// Parts of a request that its receiver may repeat in its response.
fn echoes(request: &ChannelRequest) -> Vec<String> {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let mut echoes = vec![
        request.url.clone(),
        percent_encoding::percent_decode_str(&request.url)
            .decode_utf8_lossy()
            .into_owned(),
    ];
    for (_, value) in &request.headers {
        let last = value.rsplit(' ').next().unwrap();
        echoes.extend(
            BASE64_STANDARD
                .decode(last)
                .ok()
                .and_then(|pair| String::from_utf8(pair).ok()),
        );
        echoes.push(value.clone());
    }
    let is_form = request
        .headers
        .iter()
        .any(|(_, value)| value.starts_with("application/x-www"));
    if is_form {
        let decode = |part: &str| {
            percent_encoding::percent_decode_str(&part.replace('+', " "))
                .decode_utf8_lossy()
                .into_owned()
        };
        echoes.extend(
            body.split('&')
                .flat_map(|part| [part.to_owned(), decode(part)]),
        );
    } else {
        echoes.extend(body.split(',').map(str::to_owned));
    }
    echoes
}

#[test]
fn no_error_contains_a_secret_of_any_kind() {
    let mut kinds_with_secrets = Vec::new();
    for kind in sending_kinds() {
        let settings = with_secrets(kind);
        // Part of a URL after the host, and part of a header value after the scheme.
        let part = |secret: &str| match secret.split_once("://") {
            Some((_, rest)) => rest
                .split_once('/')
                .map(|(_, path)| path.to_owned())
                .unwrap_or_default(),
            None => secret.rsplit(' ').next().unwrap_or_default().to_owned(),
        };
        let secrets: Vec<_> = settings
            .secrets()
            .chain(settings.urls())
            .map(part)
            .filter(|secret| secret.len() >= 4)
            .collect();
        for step in prepare(&settings, &failed(), &attempt()).unwrap() {
            let SendStep::Http(request) = &step else {
                continue;
            };
            let mut texts = echoes(request);
            for secret in &secrets {
                texts.extend([
                    secret.clone(),
                    format!(
                        "{{\"error\":{}}}",
                        serde_json::json!(format!("bad {secret}"))
                    ),
                ]);
                texts.push(
                    percent_encoding::utf8_percent_encode(
                        secret,
                        percent_encoding::NON_ALPHANUMERIC,
                    )
                    .to_string(),
                );
                texts.push(format!(
                    "<p>{}</p>",
                    secret.replace('&', "&amp;").replace('"', "&quot;")
                ));
            }
            for text in texts {
                let answer = TransportReply::Http(ChannelResponse {
                    status: 500,
                    headers: Vec::new(),
                    body: text.clone().into_bytes(),
                });
                let judged = judge(
                    &settings,
                    &failed(),
                    &attempt(),
                    &step,
                    &answer,
                    moment("2026-11-20T23:59:00Z"),
                );
                let shown = |secret: &&String| judged.error.contains(secret.as_str());
                assert_eq!(
                    secrets.iter().find(shown),
                    None,
                    "{}: {text} -> {}",
                    kind.name,
                    judged.error
                );
                for word in ["Secret", "U2VjcmV0"] {
                    assert!(
                        !judged.error.contains(word),
                        "{}: {text} -> {}",
                        kind.name,
                        judged.error
                    );
                }
            }
        }
        if !secrets.is_empty() {
            kinds_with_secrets.push(kind.name);
        }
    }
    let expected = all_kinds().filter(|kind| {
        kind.fields
            .iter()
            .any(crate::domain::channel::SettingField::is_secret)
    });
    assert!(
        expected
            .map(|kind| kind.name)
            .all(|name| kinds_with_secrets.contains(&name)),
        "{kinds_with_secrets:?}"
    );
}

/// Encodings in which redaction does not find a secret, and tricks of a receiver to have more of it
/// shown.
fn unmasked(secret: &str) -> Vec<String> {
    let hex = |form: &dyn Fn(u32) -> String| {
        secret
            .chars()
            .map(|c| form(u32::from(c)))
            .collect::<String>()
    };
    let half = secret
        .split_at(secret.floor_char_boundary(secret.len() / 2))
        .0;
    vec![
        hex(&|c| format!("\\u{c:04x}")),
        hex(&|c| format!("&#{c};")),
        hex(&|c| format!("%{c:02X}")),
        hex(&|c| format!("\\x{c:02x}")),
        half.to_owned(),
        secret.chars().rev().collect(),
        format!("the answer was 200: {half}"),
        format!("not taken for {half}: 550 {half}"),
        format!("; exit status 1; {half}"),
        format!("\n: {half}"),
        ": ".to_owned() + half,
    ]
}

#[test]
fn read_only_users_see_no_text_of_a_receiver() {
    let mut kinds = 0;
    let now = moment("2026-11-20T23:59:00Z");
    for kind in sending_kinds() {
        // Our own words are not masked, even if they are values of the channel: their end must be
        // found.
        let settings = with_secrets(kind);
        let settings = settings
            .with_value(
                "body",
                r#"{"a": "answer", "b": "the answer was 500", "c": "said"}"#,
            )
            .unwrap_or(settings);
        let mut secrets: Vec<_> = settings
            .secrets()
            .chain(settings.urls())
            .map(str::to_owned)
            .collect();
        secrets.push("some text of the receiver".into());
        let texts: Vec<_> = secrets.iter().flat_map(|secret| unmasked(secret)).collect();
        for step in prepare(&settings, &failed(), &attempt()).unwrap() {
            let mut answers = Vec::new();
            for text in &texts {
                for status in [302, 400, 404, 500] {
                    let answer = TransportReply::Http(ChannelResponse {
                        status,
                        headers: Vec::new(),
                        body: text.clone().into_bytes(),
                    });
                    answers.push((answer, format!("the answer was {status}")));
                }
                for (stage, code) in [
                    (MailStage::Session, 421),
                    (MailStage::Recipient, 550),
                    (MailStage::Content, 554),
                ] {
                    answers.push((
                        TransportReply::Mail {
                            code,
                            stage,
                            text: text.clone(),
                        },
                        format!("the mail server said {code}"),
                    ));
                }
                for (end, shown) in [
                    (CommandStatus::Exit(2), "exit status 2"),
                    (CommandStatus::Exit(-1), "exit status -1"),
                    (CommandStatus::Signal(9), "ended by signal 9"),
                    (CommandStatus::Timeout, "it took too long"),
                    (CommandStatus::NotRun, "it could not be run"),
                ] {
                    answers.push((
                        TransportReply::Command {
                            end,
                            error: text.clone(),
                        },
                        shown.into(),
                    ));
                }
                let refused = format!("ann@example.org: 550 {text}; bob@example.org: 551 {text}");
                let answer = TransportReply::Mail {
                    code: 250,
                    stage: MailStage::Content,
                    text: refused,
                };
                answers.push((answer, "not taken for ann@example.org: 550".into()));
            }
            for (answer, shown) in answers {
                let judged = judge(&settings, &failed(), &attempt(), &step, &answer, now);
                // For this kind, some responses mean success or lead to another request.
                let is_told = !judged.error.is_empty();
                assert_eq!(
                    public_part(&judged.error),
                    if is_told { shown.as_str() } else { "" },
                    "{}: {}",
                    kind.name,
                    judged.error
                );
                // As stored, among errors of other recipients, and as the reason of a group.
                for (kept, public) in [
                    (
                        DeliveryRecord::truncate_reason(&judged.error).into_string(),
                        shown.clone(),
                    ),
                    (
                        format!("ann@example.org: {0}; bob@example.org: {0}", judged.error),
                        format!("ann@example.org: {shown}"),
                    ),
                    (
                        format!("none of its channels can deliver: {}", judged.error),
                        format!("none of its channels can deliver: {shown}"),
                    ),
                    (format!("{}; tried 2 times", judged.error), shown.clone()),
                ] {
                    assert!(
                        !is_told || public_part(&kept) == public,
                        "{}: {kept}",
                        kind.name
                    );
                }
            }
        }
        kinds += 1;
    }
    assert!(kinds >= 29, "{kinds}");
}

#[test]
fn errors_without_quotations_are_public() {
    for error in [
        "",
        "the answer was 500",
        "cannot connect to h.example:443: connection refused",
        "the proxy p.example:3128 did not connect to h.example:443: it answered 403",
        "the file of token cannot be read: permission denied",
        "not taken for ann@example.org: the mail server m.example does not answer",
        "it was disabled by the operator",
        "exit status 75",
    ] {
        assert_eq!(public_part(error), error);
    }
    // The text after it was cut off or empty.
    for (error, public) in [
        ("the answer was 500:", "the answer was 500"),
        ("not taken for a@b: 550", "not taken for a@b: 550"),
        (
            "not taken for a@b: 550 no such user",
            "not taken for a@b: 550",
        ),
        (
            "none of its channels can deliver: not taken for a@b: 550 no such user",
            "none of its channels can deliver: not taken for a@b: 550",
        ),
    ] {
        assert_eq!(public_part(error), public);
    }
}

#[test]
fn tokens_in_bodies_and_commands_are_redacted() {
    let body = concat!(
        r#"{"token": "topsecrettoken", "description": "$NAME at $OVERDUE", "#,
        r#""api_key_value":"k3y.of-the_server"}"#
    );
    let webhook = example("webhook")
        .with_value("method", "POST")
        .unwrap()
        .with_value("body", body)
        .unwrap();
    let step = &prepare(&webhook, &failed(), &attempt()).unwrap()[0];
    let said = |text: &str| {
        let answer = TransportReply::Http(ChannelResponse {
            status: 400,
            headers: Vec::new(),
            body: text.into(),
        });
        judge(
            &webhook,
            &failed(),
            &attempt(),
            step,
            &answer,
            moment("2026-11-20T23:59:00Z"),
        )
        .error
    };
    assert_eq!(
        said("invalid token topsecrettoken"),
        "the answer was 400: invalid token ***"
    );
    assert_eq!(
        said("{\\\"api_key_value\\\":\\\"k3y.of-the_server\\\"}"),
        "the answer was 400: {\\\"api_key_value\\\":\\\"***\\\"}"
    );
    // Names of members and placeholders are no secrets.
    assert_eq!(
        said("missing description"),
        "the answer was 400: missing description"
    );

    // Values are masked whole, however short, encoded and decoded.
    let body = concat!(
        r#"{"pin": "4711", "user": "J\u00f6rg A", "note": "$NAME", "code": $CODE, "#,
        r#""list": ["ab\"c d"], "at": "now"}"#
    );
    let webhook = example("webhook")
        .with_value(
            "down-url",
            "https://h.example/in?pin=0815&name=J%C3%B6rg+B&to=h.example",
        )
        .unwrap();
    let webhook = webhook
        .with_value("method", "POST")
        .unwrap()
        .with_value("body", body)
        .unwrap();
    let step = &prepare(&webhook, &failed(), &attempt()).unwrap()[0];
    let said = |text: &str| {
        let answer = TransportReply::Http(ChannelResponse {
            status: 400,
            headers: Vec::new(),
            body: text.into(),
        });
        judge(
            &webhook,
            &failed(),
            &attempt(),
            step,
            &answer,
            moment("2026-11-20T23:59:00Z"),
        )
        .error
    };
    for (text, shown) in [
        ("pin 4711 is wrong", "pin *** is wrong"),
        ("no user J\u{f6}rg A", "no user ***"),
        ("no user J\\u00f6rg A", "no user ***"),
        ("not ab\"c d", "not ***"),
        ("not ab\\\"c d", "not ***"),
        ("not now", "not now"),
        ("pin 0815", "pin ***"),
        ("name J%C3%B6rg+B", "name ***"),
        ("name J\u{f6}rg B", "name ***"),
        ("h.example says no", "h.example says no"),
        ("the note is missing", "the note is missing"),
    ] {
        assert_eq!(said(text), format!("the answer was 400: {shown}"));
    }
    let form = example("webhook")
        .with_value("method", "POST")
        .unwrap()
        .with_value("body", "pin=4711&text=$NAME&name=J%C3%B6rg")
        .unwrap();
    let step = &prepare(&form, &failed(), &attempt()).unwrap()[0];
    let answer = TransportReply::Http(ChannelResponse {
        status: 400,
        headers: Vec::new(),
        body: "pin=4711 name=J\u{f6}rg text=x".into(),
    });
    let judged = judge(
        &form,
        &failed(),
        &attempt(),
        step,
        &answer,
        moment("2026-11-20T23:59:00Z"),
    );
    assert_eq!(judged.error, "the answer was 400: pin=*** name=*** text=x");

    let shell = example("shell")
        .with_value(
            "down-command",
            "notify-all-machines 12345678901234567 -H 'X-Token: 0123456789abcdef' 0123456789abcde \
             \"$NAME",
        )
        .unwrap();
    let step = &prepare(&shell, &failed(), &attempt()).unwrap()[0];
    let error = "sh: 1: notify-all-machines 12345678901234567 -H 'X-Token: 0123456789abcdef' \
                 0123456789abcde : Unterminated quoted string"
        .into();
    let judged = judge(
        &shell,
        &failed(),
        &attempt(),
        step,
        &TransportReply::Command {
            end: CommandStatus::Exit(2),
            error,
        },
        attempt().at,
    );
    assert_eq!(
        judged.error,
        "exit status 2: sh: 1: notify-all-machines 12345678901234567 -H 'X-Token: ***' \
         0123456789abcde : Unterminated quoted string"
    );
}

#[test]
fn long_words_of_a_body_are_redacted_except_names_and_placeholders() {
    let webhook = example("webhook")
        .with_value("method", "POST")
        .unwrap()
        .with_value(
            "body",
            "greet servers tenletters nineword9 of $OVERDUE_ALERT_NAME some_member_name: x",
        )
        .unwrap();
    let step = &prepare(&webhook, &failed(), &attempt()).unwrap()[0];
    let answer = TransportReply::Http(ChannelResponse {
        status: 400,
        headers: Vec::new(),
        body: "servers tenletters nineword9 OVERDUE_ALERT_NAME some_member_name".into(),
    });
    let now = moment("2026-11-20T23:59:00Z");
    assert_eq!(
        judge(&webhook, &failed(), &attempt(), step, &answer, now).error,
        "the answer was 400: servers *** nineword9 OVERDUE_ALERT_NAME some_member_name"
    );
}

#[test]
fn a_url_is_redacted_only_if_its_path_can_be_a_secret() {
    let pieces = "https://h.example/$NAME-of-check/0123456789/012345678";
    for (url, said, shown) in [
        ("https://h.example/in", "see https://h.example/in", None),
        (
            "https://h.example/hook",
            "see https://h.example/hook",
            Some("see ***"),
        ),
        (pieces, "no 0123456789/012345678", Some("no ***/012345678")),
        (pieces, "no $NAME-of-check", None),
    ] {
        let webhook = example("webhook").with_value("down-url", url).unwrap();
        let step = &prepare(&webhook, &failed(), &attempt()).unwrap()[0];
        let answer = TransportReply::Http(ChannelResponse {
            status: 400,
            headers: Vec::new(),
            body: said.into(),
        });
        let now = moment("2026-11-20T23:59:00Z");
        assert_eq!(
            judge(&webhook, &failed(), &attempt(), step, &answer, now).error,
            format!("the answer was 400: {}", shown.unwrap_or(said))
        );
    }
}

#[test]
fn a_long_topic_is_redacted_and_ordinary_settings_are_not() {
    for (topic, shown) in [("topic-5678", "***"), ("topic-567", "topic-567")] {
        let ntfy = example("ntfy")
            .with_value("topic", topic)
            .unwrap()
            .with_value("tz", "Europe/Riga")
            .unwrap();
        let step = &prepare(&ntfy, &failed(), &attempt()).unwrap()[0];
        let answer = TransportReply::Http(ChannelResponse {
            status: 403,
            headers: Vec::new(),
            body: format!("no access to {topic} from Europe/Riga").into(),
        });
        let now = moment("2026-11-20T23:59:00Z");
        assert_eq!(
            judge(&ntfy, &failed(), &attempt(), step, &answer, now).error,
            format!("the answer was 403: no access to {shown} from Europe/Riga")
        );
    }
}
