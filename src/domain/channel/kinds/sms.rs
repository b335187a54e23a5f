//! Channels that send a text message to a phone.

use crate::domain::channel::{Field, Form, Kind, Need};

pub(in crate::domain::channel) static SMS: Kind = Kind {
    name: "sms",
    fields: &[Field { key: "to", form: Form::Phone, need: Need::Required, help: "phone number, with + and country code" }],
    rule: |_| Ok(()),
};
