//! Channels that make an HTTP request.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, ChannelSettings, Class, Field, Form, Need};

pub(in crate::domain::channel) static WEBHOOK: ChannelKind = ChannelKind {
    name: "webhook",
    title: "Webhook",
    class: Class::Machine,
    fields: &[
        Field::optional("down-url", Form::Url, "requested when a check goes down"),
        Field::optional("up-url", Form::Url, "requested when it is up again"),
        Field::new(
            "method",
            Form::Choice(METHODS),
            Need::Derived { value: |settings| if has_body(settings) { "POST" } else { "GET" }, words: "POST with a body, else GET" },
            "method",
        ),
        Field::optional("body", Form::Template(10_000), "body of the request"),
        Field::optional("header.NAME", Form::Header, "a header of the request"),
        Field::optional("down-method", Form::Choice(METHODS), "method when a check goes down, in place of method"),
        Field::optional("down-body", Form::Template(10_000), "body when a check goes down, in place of body"),
        Field::optional("down-header.NAME", Form::Header, "a header when a check goes down"),
        Field::optional("up-method", Form::Choice(METHODS), "method when it is up again, in place of method"),
        Field::optional("up-body", Form::Template(10_000), "body when it is up again, in place of body"),
        Field::optional("up-header.NAME", Form::Header, "a header when it is up again"),
        Field::optional("secret", Form::Secret(200), "what requests are signed with, whsec_ and base64, or any other text"),
    ],
    guide: "Requests to a URL of your own. URL, body and headers may hold placeholders such as $NAME, $STATUS and $REASON; \
        body=$EVENT_JSON sends everything there is to know. With secret= each request is signed as Standard Webhooks (webhook-signature) \
        so that the receiver can tell it from others.",
    example: &[("down-url", "https://example.org/hook"), ("up-url", "https://example.org/hook"), ("body", "$EVENT_JSON")],
    rule,
    off: |settings, event| settings.get(if event == Event::Up { "up-url" } else { "down-url" }).is_none() && event != Event::Test,
    ..ChannelKind::BASE
};

const METHODS: &[&str] = &["GET", "POST", "PUT"];

fn has_body(settings: &ChannelSettings) -> bool {
    ["body", "down-body", "up-body"].into_iter().any(|key| settings.get(key).is_some())
}

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    if settings.get("down-url").or(settings.get("up-url")).is_none() {
        return Err("there is no URL; give down-url=URL, up-url=URL or both");
    }
    let is_get = |key| settings.get(key).or(settings.get("method")) == Some("GET");
    let bodies = [("method", "body"), ("down-method", "down-body"), ("up-method", "up-body")];
    if bodies.into_iter().any(|(method, body)| is_get(method) && settings.get(body).is_some()) {
        return Err("method GET carries no body; give method=POST or method=PUT, or leave body out");
    }
    match settings.get("secret").and_then(|secret| secret.strip_prefix("whsec_")) {
        Some(key) if BASE64_STANDARD.decode(key).is_err() => Err("secret is not base64 after whsec_; give it as the receiver shows it"),
        _ => Ok(()),
    }
}
