//! Channels that send a WhatsApp message from a template, by Twilio.

use crate::domain::channel::{ChannelKind, Field, Form, Need};

pub(in crate::domain::channel) static WHATSAPP: ChannelKind = ChannelKind {
    name: "whatsapp",
    title: "WhatsApp",
    fields: &[
        Field::required("to", Form::Phone, "phone number, with + and country code"),
        Field::new("account", Form::Line(64), Need::Required, "account SID (AC...)"),
        Field::new("token", Form::Secret(200), Need::Required, "auth token"),
        Field::optional("from", Form::Line(40), "number it comes from"),
        Field::optional("service", Form::Line(64), "messaging service, in place of from"),
        Field::required("content-down", Form::Line(64), "template for down (HX...)"),
        Field::required("content-up", Form::Line(64), "template for up (HX...)"),
        Field::preset("api", Form::Url, "https://api.twilio.com", "another server with the same API"),
        Field::optional("most-a-day", Form::Number(1, 10_000), "messages it may send in a day; 50 if left out"),
    ],
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; Phone numbers, Manage, Buy a number gives \
        from. WhatsApp takes only approved templates: Messaging, Content Template Builder; each has one variable, which becomes the name \
        of the check.",
    example: &[
        ("to", "+37120000000"),
        ("account", "AC0123456789"),
        ("token", "abc"),
        ("from", "+12025550100"),
        ("content-down", "HX01"),
        ("content-up", "HX02"),
    ],
    rule: |settings| match (settings.has_key("from"), settings.has_key("service")) {
        (true, true) => Err("there are a number and a service to send from; give one of them"),
        (false, false) if settings.lacks().is_none() => Err("there is nothing to send from; give from=TEXT or service=TEXT"),
        _ => Ok(()),
    },
    ..ChannelKind::BASE
};
