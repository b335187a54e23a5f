//! Channels that send a mail.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Field, Form, Need};

pub(in crate::domain::channel) static EMAIL: ChannelKind = ChannelKind {
    name: "email",
    fields: &[Field { key: "to", form: Form::MailAddress, need: Need::Required, help: "mail address to write to" }],
    rule: |_| Ok(()),
    takes: |_, event| event != Event::Closed,
};
