//! Channels that open an issue on GitHub.

use crate::domain::alert::Event;
use crate::domain::channel::{ChannelKind, Class, Field, Form};

pub(in crate::domain::channel) static GITHUB: ChannelKind = ChannelKind {
    name: "github",
    title: "GitHub",
    class: Class::Machine,
    fields: &[
        Field::required("repo", Form::Line(200), "owner/name"),
        Field::required("token", Form::Secret(300), "access token"),
        Field::optional("labels", Form::List(20), "labels of the issue"),
        Field::preset("api", Form::Url, "https://api.github.com", "another server of GitHub Enterprise"),
    ],
    guide: "At https://github.com/settings/personal-access-tokens: Generate new token, choose the repository, and give it Issues: Read \
        and write. An issue is opened when a check goes down; nothing closes it.",
    example: &[("repo", "example/ops"), ("token", "github_pat_abc")],
    rule: |settings| {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
                && name != "."
                && name != ".."
        };
        match settings.get("repo").and_then(|repo| repo.split_once('/')) {
            Some((owner, name)) if is_name(owner) && is_name(name) => Ok(()),
            _ => Err("repo is not owner/name; give both with a slash between them"),
        }
    },
    off: |_, event| event == Event::Up,
    ..ChannelKind::BASE
};
