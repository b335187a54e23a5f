//! Channels that make an HTTP request.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, ChannelSettings, Field, Form, Need};

pub(in crate::domain::channel) static WEBHOOK: ChannelKind = ChannelKind {
    name: "webhook",
    fields: &[
        Field { key: "down-url", form: Form::Url, need: Need::Optional, help: "requested when a check goes down" },
        Field { key: "up-url", form: Form::Url, need: Need::Optional, help: "requested when it is up again" },
        Field {
            key: "method",
            form: Form::Choice(&["GET", "POST", "PUT"]),
            need: Need::Default {
                value: |settings| if settings.get("body").is_some() { "POST" } else { "GET" },
                words: "POST with a body, else GET",
            },
            help: "method",
        },
        Field { key: "body", form: Form::Text(10_000), need: Need::Optional, help: "body of the request" },
        Field { key: "header.NAME", form: Form::Header, need: Need::Optional, help: "a header of the request" },
    ],
    rule,
    takes,
};

fn takes(settings: &ChannelSettings, event: Event) -> bool {
    match event {
        Event::Down => settings.get("down-url").is_some(),
        Event::Up => settings.get("up-url").is_some(),
        Event::Test => true,
        Event::Closed => false,
    }
}

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    if settings.get("down-url").or(settings.get("up-url")).is_none() {
        return Err("there is no URL; give down-url=URL, up-url=URL or both");
    }
    if settings.get("method") == Some("GET") && settings.get("body").is_some() {
        return Err("method GET carries no body; give method=POST or method=PUT, or leave body out");
    }
    Ok(())
}
