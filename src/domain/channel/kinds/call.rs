//! Channels that call a phone and say what is down, by Twilio.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Field, Form, Need, shape};

pub(in crate::domain::channel) static CALL: ChannelKind = ChannelKind {
    name: "call",
    title: "Phone call",
    fields: &[
        Field::required("to", Form::Phone, "phone number, with + and country code"),
        Field::new("account", Form::Line(64), Need::Required, "account SID (AC...)").shaped_at(shape::TWILIO, shape::twilio_account),
        Field::new("token", Form::Secret(200), Need::Required, "auth token"),
        Field::required("from", Form::Phone, "number it comes from"),
        Field::preset("api", Form::Url, "https://api.twilio.com", "another server with the same API"),
        Field::optional("most-a-day", Form::Number(1, 10_000), "calls it may make in a day; 50 if left out"),
    ],
    guide: "At https://console.twilio.com: Account SID and Auth token are on the first page; Phone numbers, Manage, Buy a number gives \
        from.",
    example: &[("to", "+37120000000"), ("account", "AC0123456789abcdef0123456789abcdef"), ("token", "abc"), ("from", "+12025550100")],
    off: |_, event| event == Event::Up,
    ..ChannelKind::BASE
};
