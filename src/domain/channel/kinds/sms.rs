//! Channels that send a text message to a phone.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Field, Form, Need};

pub(in crate::domain::channel) static SMS: ChannelKind = ChannelKind {
    name: "sms",
    fields: &[Field { key: "to", form: Form::Phone, need: Need::Required, help: "phone number, with + and country code" }],
    rule: |_| Ok(()),
    takes: |_, event| event != Event::Closed,
};
