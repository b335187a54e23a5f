//! Channels that keep alerts in a Prometheus Alertmanager.

use crate::domain::channel::{ChannelClass, ChannelKind, ChannelSettings, FieldType, SettingField};

pub(in crate::domain::channel) static ALERTMANAGER: ChannelKind = ChannelKind {
    name: "alertmanager",
    title: "Alertmanager",
    class: ChannelClass::Incident,
    fields: &[
        SettingField::required("url", FieldType::Url, "Alertmanager"),
        SettingField::optional("user", FieldType::Line(200), "user name"),
        SettingField::optional("password", FieldType::Secret(200), "password of the user"),
        SettingField::optional(
            "token",
            FieldType::Secret(1_000),
            "bearer token, instead of user and password",
        ),
        SettingField::optional("label.NAME", FieldType::Label, "label of every alert"),
    ],
    guide: "url is the address of Alertmanager, without /api. While a check is down, its alert is \
            sent again every minute. When the check is up, the alert is resolved. An alert keeps \
            the name, slug and tags with which it began, even if the check is renamed. If the \
            project is renamed or the labels of the channel change, it becomes a different alert.",
    example: &[("url", "http://127.0.0.1:9093")],
    validate: rule,
    ..ChannelKind::DEFAULTS
};

fn rule(settings: &ChannelSettings) -> Result<(), &'static str> {
    let user = settings.has_key("user");
    match () {
        () if settings.has_key("token") && user => {
            Err("both token and user are given; give one of them")
        }
        () if user != settings.has_key("password") => {
            Err("user and password belong together; give both or none")
        }
        () => Ok(()),
    }
}
