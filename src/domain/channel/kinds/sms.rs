//! Channels that send a text message to a phone, by Twilio.

use crate::domain::channel::{ChannelKind, Field, Form, Need, shape};

pub(in crate::domain::channel) static SMS: ChannelKind = ChannelKind {
    name: "sms",
    title: "Text message",
    fields: &[
        Field::required("to", Form::Phone, "phone number, with + and country code"),
        Field::new("account", Form::Line(64), Need::ToDeliver, "account SID (AC...)").shaped_at(shape::TWILIO, shape::twilio_account),
        Field::new("token", Form::Secret(200), Need::ToDeliver, "auth token"),
        Field::optional("from", Form::Line(40), "number or name it comes from").shaped_at(shape::TWILIO, shape::twilio_sender),
        Field::optional("service", Form::Line(64), "messaging service, in place of from").shaped_at(shape::TWILIO, shape::twilio_service),
        Field::preset("api", Form::Url, "https://api.twilio.com", "another server with the same API"),
        Field::optional("most-a-day", Form::Number(1, 10_000), "messages it may send in a day; 50 if left out"),
    ],
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; Phone numbers, Manage, Buy a number gives \
        from. service is the SID of a messaging service (MG...).",
    example: &[("to", "+37120000000"), ("account", "AC0123456789abcdef0123456789abcdef"), ("token", "abc"), ("from", "+12025550100")],
    rule: |settings| match (settings.has_key("from"), settings.has_key("service")) {
        (true, true) => Err("there are a number and a service to send from; give one of them"),
        (false, false) if settings.lacks().is_none() => Err("there is nothing to send from; give from=TEXT or service=TEXT"),
        _ => Ok(()),
    },
    ..ChannelKind::BASE
};
