//! Channels that send a mail.

use crate::domain::channel::{ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static EMAIL: ChannelKind = ChannelKind {
    name: "email",
    title: "Mail",
    fields: &[SettingField::required(
        "to",
        FieldType::MailAddresses(10),
        "mail address, or several separated by commas",
    )],
    guide: "The server needs a relay: start it with --mail-server and --mail-from. Until then the \
            channel shows that it cannot deliver.",
    example: &[("to", "ops@example.org")],
    ..ChannelKind::DEFAULTS
};
