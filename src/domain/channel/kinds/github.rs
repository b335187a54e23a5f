//! Channels that open an issue on GitHub.

use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelClass, ChannelKind, FieldType, SettingField};

pub(in crate::domain::channel) static GITHUB: ChannelKind = ChannelKind {
    name: "github",
    title: "GitHub",
    class: ChannelClass::Machine,
    fields: &[
        SettingField::required("repo", FieldType::Line(200), "owner/name"),
        SettingField::required("token", FieldType::Secret(300), "access token"),
        SettingField::optional("labels", FieldType::List(20), "labels of the issue"),
        SettingField::with_default(
            "api",
            FieldType::Url,
            "https://api.github.com",
            "API of a GitHub Enterprise server",
        ),
    ],
    guide: "At https://github.com/settings/personal-access-tokens: Generate new token, choose the \
            repository, and give it Issues: Read and write. An issue is opened when a check goes \
            down. It is not closed automatically.",
    example: &[("repo", "example/ops"), ("token", "github_pat_abc")],
    validate: |settings| {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
                && name != "."
                && name != ".."
        };
        match settings.get("repo").and_then(|repo| repo.split_once('/')) {
            Some((owner, name)) if is_name(owner) && is_name(name) => Ok(()),
            _ => Err("repo is not owner/name; give both with a slash between them"),
        }
    },
    ignores_event: |_, event| event == AlertEvent::Up,
    ..ChannelKind::DEFAULTS
};
