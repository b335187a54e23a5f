//! GitHub: an issue for each downtime.

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::{ChannelResponse, Verdict};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelClass, ChannelKind, ChannelPurpose, SettingField, SettingFieldType,
};
use crate::domain::timestamp::Timestamp;

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "github",
        title: "GitHub",
        purpose: ChannelPurpose::Incidents,
        class: ChannelClass::Machine,
        fields: &[
            SettingField::required("repo", SettingFieldType::Line(200), "owner/name"),
            SettingField::required("token", SettingFieldType::Secret(300), "access token"),
            SettingField::optional("labels", SettingFieldType::List(20), "labels of the issue"),
            SettingField::with_default(
                "api",
                SettingFieldType::Url,
                "https://api.github.com",
                "API of a GitHub Enterprise server",
            ),
        ],
        steps: &[
            "At https://github.com/settings/personal-access-tokens, choose Generate new token",
            "Choose the repository",
            "Give the token Issues: Read and write, and copy it",
        ],
        guide: "An issue is opened when a check goes down. It is not closed automatically.",
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
    },
    send_rate: |_| rate(5, 3),
    send,
    judge: |context, _, response, now| judge(context, response, now),
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let labels: Vec<_> = context.settings.items("labels").collect();
    let issue = json!({
        "title": truncate_line(&context.alert.title, LengthLimit(250, LengthUnit::Chars)),
        "body": context.text(
            Dialect::Markdown,
            TextSections::BELOW_TITLE,
            LengthLimit(60_000, LengthUnit::Bytes),
        ),
        "labels": labels,
    });
    ChannelRequest::post(format!(
        "{}/repos/{}/issues",
        context.base_url("api"),
        context.required("repo")
    ))
    .with_bearer_token(context.required("token"))
    .with_header("Accept", "application/vnd.github+json")
    .with_header("X-GitHub-Api-Version", "2022-11-28")
    .with_header("User-Agent", concat!("overdue/", env!("CARGO_PKG_VERSION")))
    .with_json(&issue)
    .into_steps()
}

fn judge(context: &SendContext<'_>, response: &ChannelResponse, now: Timestamp) -> Verdict {
    let is_own = response.has_text_at("/message") && response.has_text_at("/documentation_url");
    match response.status {
        401 | 404 | 410 if is_own => response.rejected_if_persistent(context.attempt, now),
        403 | 429 if response.header("retry-after").is_some() => response.retry_later(now),
        403 | 429 => response.retry_at_header("x-ratelimit-reset", now),
        _ => response.default_verdict(now),
    }
}
