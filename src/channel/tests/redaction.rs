//! What errors repeat of answers that repeat what was sent: no secret, in no spelling, of any kind.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::kinds::{example, least};
use super::sample::{attempt, failed, moment};
use crate::channel::answer::{CommandEnd, Response};
use crate::channel::outgoing::{Request, Step};
use crate::channel::{Answer, has_sender, judge, prepare};
use crate::domain::channel::{ChannelKind, ChannelSettings, Form};

/// The settings of the example, with secrets that are spelt differently in URLs, JSON and HTML wherever the kind takes them.
fn with_secrets(kind: &'static ChannelKind) -> ChannelSettings {
    kind.fields.iter().filter(|field| field.is_secret() || field.is_url()).enumerate().fold(least(kind), |settings, (number, field)| {
        let secret = match field.form {
            Form::Url | Form::SecretUrl => format!("https://h.example/in/Path{number}Secret%2Fpart?key=Query{number}Secret"),
            Form::Header => format!("Basic {}", BASE64_STANDARD.encode(format!("ann:Header{number}&Secret"))),
            _ => format!("Field{number}\"/&+Secret"),
        };
        let key = field.key.replace("NAME", "x-token");
        // Where only some characters are taken, the secret of the example is looked for.
        settings.with(&key, &secret).unwrap_or(settings)
    })
}

/// Everything of a request that its receiver may put into its answer.
fn echoes(request: &Request) -> Vec<String> {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let mut echoes = vec![request.url.clone(), percent_encoding::percent_decode_str(&request.url).decode_utf8_lossy().into_owned()];
    for (_, value) in &request.headers {
        let last = value.rsplit(' ').next().unwrap();
        echoes.extend(BASE64_STANDARD.decode(last).ok().and_then(|pair| String::from_utf8(pair).ok()));
        echoes.push(value.clone());
    }
    let is_form = request.headers.iter().any(|(_, value)| value.starts_with("application/x-www"));
    if is_form {
        let decode = |part: &str| percent_encoding::percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
        echoes.extend(body.split('&').flat_map(|part| [part.to_owned(), decode(part)]));
    } else {
        echoes.extend(body.split(',').map(str::to_owned));
    }
    echoes
}

#[test]
fn no_answer_shows_a_secret_of_any_kind() {
    let mut kinds_with_secrets = Vec::new();
    for kind in ChannelKind::ALL.into_iter().filter(|kind| has_sender(kind)) {
        let settings = with_secrets(kind);
        // What follows the host of a URL, and what follows the scheme of a header.
        let part = |secret: &str| match secret.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map(|(_, path)| path.to_owned()).unwrap_or_default(),
            None => secret.rsplit(' ').next().unwrap_or_default().to_owned(),
        };
        let secrets: Vec<_> = settings.secrets().chain(settings.urls()).map(part).filter(|secret| secret.len() >= 4).collect();
        for step in prepare(&settings, &failed(), &attempt()).unwrap() {
            let Step::Http(request) = &step else { continue };
            let mut texts = echoes(request);
            for secret in &secrets {
                texts.extend([secret.clone(), format!("{{\"error\":{}}}", serde_json::json!(format!("bad {secret}")))]);
                texts.push(percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string());
                texts.push(format!("<p>{}</p>", secret.replace('&', "&amp;").replace('"', "&quot;")));
            }
            for text in texts {
                let answer = Answer::Http(Response { status: 500, headers: Vec::new(), body: text.clone().into_bytes() });
                let judged = judge(&settings, &failed(), &attempt(), &step, &answer, moment("2026-11-20T23:59:00Z"));
                let shown = |secret: &&String| judged.error.contains(secret.as_str());
                assert_eq!(secrets.iter().find(shown), None, "{}: {text} -> {}", kind.name, judged.error);
                for word in ["Secret", "U2VjcmV0"] {
                    assert!(!judged.error.contains(word), "{}: {text} -> {}", kind.name, judged.error);
                }
            }
        }
        if !secrets.is_empty() {
            kinds_with_secrets.push(kind.name);
        }
    }
    let expected = ChannelKind::ALL.into_iter().filter(|kind| kind.fields.iter().any(crate::domain::channel::Field::is_secret));
    assert!(expected.map(|kind| kind.name).all(|name| kinds_with_secrets.contains(&name)), "{kinds_with_secrets:?}");
}

#[test]
fn tokens_in_bodies_and_commands_are_not_repeated() {
    let body = r#"{"token": "topsecrettoken", "description": "$NAME at $OVERDUE", "api_key_value":"k3y.of-the_server"}"#;
    let webhook = example("webhook").with("method", "POST").unwrap().with("body", body).unwrap();
    let step = &prepare(&webhook, &failed(), &attempt()).unwrap()[0];
    let said = |text: &str| {
        let answer = Answer::Http(Response { status: 400, headers: Vec::new(), body: text.into() });
        judge(&webhook, &failed(), &attempt(), step, &answer, moment("2026-11-20T23:59:00Z")).error
    };
    assert_eq!(said("invalid token topsecrettoken"), "the answer was 400: invalid token ***");
    assert_eq!(said("{\\\"api_key_value\\\":\\\"k3y.of-the_server\\\"}"), "the answer was 400: {\\\"api_key_value\\\":\\\"***\\\"}");
    // Names of members, and what stands in for values, are no secrets.
    assert_eq!(said("missing description"), "the answer was 400: missing description");

    let shell = example("shell").with("down-command", "curl -H 'X-Token: 0123456789abcdefgh' \"$NAME").unwrap();
    let step = &prepare(&shell, &failed(), &attempt()).unwrap()[0];
    let error = "sh: 1: curl -H 'X-Token: 0123456789abcdefgh' : Unterminated quoted string".into();
    let judged = judge(&shell, &failed(), &attempt(), step, &Answer::Command { end: CommandEnd::Exit(2), error }, attempt().at);
    assert_eq!(judged.error, "exit status 2: sh: 1: curl -H 'X-Token: ***' : Unterminated quoted string");
}
