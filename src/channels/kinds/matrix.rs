//! Matrix: a message event with a transaction id, so that a duplicate is dropped.

use std::time::Duration;

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{
    ChannelRequest, RequestMethod, SendStep, insert_member, percent_encode,
};
use crate::channels::transport_reply::{ChannelResponse, Verdict, retry_delay};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};
use crate::domain::timestamp::Timestamp;

/// An event has at most 65,536 bytes. It contains the text twice, and JSON escapes take more.
const TEXT_LIMIT: LengthLimit = LengthLimit(12_000, LengthUnit::Bytes);
/// Role of the request that joins the room, which also resolves an alias.
const JOIN_ROLE: &str = "join";
/// Role of the request that sends after joining.
const AFTER_JOIN_ROLE: &str = "joined";

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "matrix",
        title: "Matrix",
        purpose: ChannelPurpose::Chat,
        fields: &[
            SettingField::required("server", SettingFieldType::Url, "homeserver"),
            SettingField::required(
                "token",
                SettingFieldType::Secret(1_000),
                "access token of the account",
            ),
            SettingField::required(
                "room",
                SettingFieldType::Line(255),
                "id (!...) or alias (#...) of the room",
            ),
        ],
        steps: &[
            "Create an account for overdue and sign in once",
            "In Element: All settings, Help & About shows its access token",
            "Invite the account to the room",
            "Copy the room's id from Room settings, Advanced",
        ],
        guide: "Encrypted rooms are not supported.",
        example: &[
            ("server", "https://matrix.example.org"),
            ("token", "syt_abc"),
            ("room", "!abc:example.org"),
        ],
        validate: |settings| match settings.get("room") {
            Some(room) if room.starts_with(['!', '#']) && room.len() > 1 => Ok(()),
            _ => Err(
                "room is neither an id nor an alias; give one like !abc:example.org or \
                 #ops:example.org",
            ),
        },
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(10, 5),
    send,
    judge,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let room = context.required("room");
    if room.starts_with('#') {
        join_steps(context)
    } else {
        message_steps(context, room, "")
    }
}

fn join_steps(context: &SendContext<'_>) -> Vec<SendStep> {
    let room = percent_encode(context.required("room"), "");
    let url = format!(
        "{}/_matrix/client/v3/join/{room}",
        context.base_url("server")
    );
    ChannelRequest::post(url)
        .with_user_url()
        .with_bearer_token(context.required("token"))
        .with_json(&json!({}))
        .with_role(JOIN_ROLE)
        .into_steps()
}

fn message_steps(context: &SendContext<'_>, room: &str, role: &'static str) -> Vec<SendStep> {
    let body = context.text(Dialect::Plain, TextSections::ALL, TEXT_LIMIT);
    let mut content = json!({ "msgtype": "m.text", "body": body });
    if !context.attempt.plain {
        insert_member(&mut content, "format", "org.matrix.custom.html".into());
        insert_member(
            &mut content,
            "formatted_body",
            context
                .text(Dialect::Html, TextSections::ALL, TEXT_LIMIT)
                .into(),
        );
    }
    let path = format!(
        "/_matrix/client/v3/rooms/{}/send/m.room.message/{}",
        percent_encode(room, ""),
        percent_encode(&transaction_id(context), "")
    );
    let url = format!("{}{path}", context.base_url("server"));
    ChannelRequest::new(RequestMethod::Put, url)
        .with_user_url()
        .with_bearer_token(context.required("token"))
        .with_json(&content)
        .with_role(role)
        .into_steps()
}

/// Transaction id. The plainest form is another event than the refused one.
fn transaction_id(context: &SendContext<'_>) -> String {
    let id = &context.attempt.id;
    if context.attempt.plain {
        format!("{id}-plain")
    } else {
        id.clone()
    }
}

fn judge(
    context: &SendContext<'_>,
    request: &ChannelRequest,
    response: &ChannelResponse,
    now: Timestamp,
) -> Verdict {
    match response.status {
        200 if request.role == JOIN_ROLE => match response.json_at("/room_id").as_str() {
            Some(room) => Verdict::Continue(message_steps(context, room, AFTER_JOIN_ROLE)),
            None => Verdict::RETRY,
        },
        401 if response.json_at("/errcode") == "M_UNKNOWN_TOKEN" => Verdict::ChannelRejected,
        // The user may be invited but not have joined yet.
        403 if request.role.is_empty() => Verdict::Continue(join_steps(context)),
        429 => match response
            .json_at("/retry_after_ms")
            .as_f64()
            .and_then(|millis| retry_delay(millis / 1_000.0))
        {
            Some(after) if response.header("retry-after").is_none() => Verdict::Retry {
                after: Some(after.max(Duration::from_secs(1))),
            },
            _ => response.retry_later(now),
        },
        _ => response.default_verdict(now),
    }
}
