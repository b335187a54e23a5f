//! Channels that send a mail.

use crate::domain::channel::{Field, Form, Kind, Need};

pub(in crate::domain::channel) static EMAIL: Kind = Kind {
    name: "email",
    fields: &[Field { key: "to", form: Form::MailAddress, need: Need::Required, help: "mail address to write to" }],
    rule: |_| Ok(()),
};
