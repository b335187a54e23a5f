//! Channels that send a WhatsApp message from a template, by Twilio.

use crate::domain::channel::{ChannelKind, Field, Form, Need, shape, value};

pub(in crate::domain::channel) static WHATSAPP: ChannelKind = ChannelKind {
    name: "whatsapp",
    title: "WhatsApp",
    fields: &[
        Field::required("to", Form::Phone, "phone number, with + and country code"),
        Field::new("account", Form::Line(64), Need::Required, "account SID (AC...)").shaped_at(shape::TWILIO, shape::twilio_account),
        Field::new("token", Form::Secret(200), Need::Required, "auth token"),
        Field::optional("from", Form::Line(40), "number it comes from").shaped_at(shape::TWILIO, value::phone),
        Field::optional("service", Form::Line(64), "messaging service, in place of from").shaped_at(shape::TWILIO, shape::twilio_service),
        Field::required("content-down", Form::Line(64), "template for down (HX...)").shaped_at(shape::TWILIO, shape::twilio_content),
        Field::required("content-up", Form::Line(64), "template for up (HX...)").shaped_at(shape::TWILIO, shape::twilio_content),
        Field::preset("api", Form::Url, "https://api.twilio.com", "another server with the same API"),
        Field::optional("most-a-day", Form::Number(1, 10_000), "messages it may send in a day; 50 if left out"),
    ],
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; Phone numbers, Manage, Buy a number gives \
        from. WhatsApp takes only approved templates: Messaging, Content Template Builder; each has one variable, which becomes the name \
        of the check.",
    example: &[
        ("to", "+37120000000"),
        ("account", "AC0123456789abcdef0123456789abcdef"),
        ("token", "abc"),
        ("from", "+12025550100"),
        ("content-down", "HX0123456789abcdef0123456789abcdef"),
        ("content-up", "HXfedcba9876543210fedcba9876543210"),
    ],
    rule: |settings| match (settings.has_key("from"), settings.has_key("service")) {
        (true, true) => Err("there are a number and a service to send from; give one of them"),
        (false, false) if settings.lacks().is_none() => Err("there is nothing to send from; give from=TEXT or service=TEXT"),
        _ => Ok(()),
    },
    ..ChannelKind::BASE
};
