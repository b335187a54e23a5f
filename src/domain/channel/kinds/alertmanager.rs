//! Channels that keep alerts in a Prometheus Alertmanager.

use crate::domain::channel::{ChannelClass, ChannelKind, ChannelSettings, FieldType, SettingField};

pub(in crate::domain::channel) static ALERTMANAGER: ChannelKind = ChannelKind {
    name: "alertmanager",
    title: "Alertmanager",
    class: ChannelClass::Incident,
    fields: &[
        SettingField::required("url", FieldType::Url, "Alertmanager"),
        SettingField::optional("user", FieldType::Line(200), "user name"),
        SettingField::optional("password", FieldType::Secret(200), "its password"),
        SettingField::optional(
            "token",
            FieldType::Secret(1_000),
            "bearer token, in place of both",
        ),
        SettingField::optional("label.NAME", FieldType::Label, "a label of every alert"),
    ],
    guide: "url is the address of Alertmanager, without /api. An alert is sent again every minute \
            while a check is down, and resolves when it is up. While it lasts it keeps the name, \
            slug and tags under which it began, whatever the check is called meanwhile; another \
            name of the project or other labels of the channel make it another alert.",
    example: &[("url", "http://127.0.0.1:9093")],
    validate: rule,
    ..ChannelKind::DEFAULTS
};

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    let user = settings.has_key("user");
    match () {
        () if settings.has_key("token") && user => {
            Err("there are a token and a user; give one of them")
        }
        () if user != settings.has_key("password") => {
            Err("user and password belong together; give both or none")
        }
        () => Ok(()),
    }
}
