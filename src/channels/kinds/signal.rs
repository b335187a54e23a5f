//! Signal, through signal-cli or signal-cli-rest-api.

use serde_json::{Value, json};

use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::{self, Dialect, LengthLimit, LengthUnit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep, insert_member};
use crate::channels::transport_reply::{ChannelResponse, Verdict, retry_delay};
use crate::domain::channel::{ChannelKind, ChannelPurpose, SettingField, SettingFieldType};
use crate::domain::timestamp::Timestamp;

/// A longer message would become an attachment.
const TEXT_LIMIT: LengthLimit = LengthLimit(1_900, LengthUnit::Bytes);
const HOUR: f64 = 3_600.0;

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "signal",
        title: "Signal",
        purpose: ChannelPurpose::Phone,
        fields: &[
            SettingField::required(
                "url",
                SettingFieldType::Url,
                "address at which signal-cli listens",
            ),
            SettingField::optional(
                "account",
                SettingFieldType::PhoneNumber,
                "sender number, if signal-cli has several",
            ),
            SettingField::required(
                "to",
                SettingFieldType::List(20),
                "phone numbers, user names or the id of one group",
            ),
            SettingField::with_default(
                "api",
                SettingFieldType::Choice(&["rpc", "rest"]),
                "rpc",
                "rpc: signal-cli itself; rest: signal-cli-rest-api",
            ),
        ],
        steps: &[
            "Run signal-cli with an account of its own: signal-cli -a +37120000000 daemon --http \
             127.0.0.1:8080",
            "Give its address as url",
        ],
        guide: "to takes phone numbers, user names (u:name.01) and group ids (signal-cli \
                listGroups). api=rest is for signal-cli-rest-api, which needs account.",
        example: &[("url", "http://127.0.0.1:8080"), ("to", "+37120000000")],
        validate: |settings| match (settings.get("api"), settings.get("account")) {
            (Some("rest"), None) => {
                Err("account is missing, but api=rest needs it; give account=NUMBER")
            }
            _ => Ok(()),
        },
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(6, 10),
    send,
    judge,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let rendered = render::render_styled_text(
        context.alert,
        context.attempt,
        Dialect::Signal,
        TextSections {
            output: 800,
            ..TextSections::ALL
        },
        TEXT_LIMIT,
    );
    let to: Vec<_> = context.settings.items("to").collect();
    if context.get("api") == Some("rest") {
        let message =
            json!({ "message": rendered.text, "number": context.get("account"), "recipients": to });
        return ChannelRequest::post(format!("{}/v2/send", context.base_url("url")))
            .with_user_url()
            .allow_slow()
            .with_json(&message)
            .into_steps();
    }
    let is_number = |to: &str| to.starts_with('+') || to.starts_with("u:");
    let groups: Vec<_> = to.iter().filter(|to| !is_number(to)).collect();
    let people: Vec<_> = to.iter().filter(|to| is_number(to)).collect();
    let styles: Vec<_> = rendered
        .styles
        .iter()
        .map(|style| format!("{}:{}:{}", style.start, style.length, style.name))
        .collect();
    let mut params = json!({ "message": rendered.text, "textStyle": styles });
    if let Some(account) = context.get("account") {
        insert_member(&mut params, "account", account.into());
    }
    if !people.is_empty() {
        insert_member(&mut params, "recipient", json!(people));
    }
    if !groups.is_empty() {
        insert_member(&mut params, "groupId", json!(groups));
    }
    let request =
        json!({ "jsonrpc": "2.0", "method": "send", "id": context.attempt.id, "params": params });
    ChannelRequest::post(format!("{}/api/v1/rpc", context.base_url("url")))
        .with_user_url()
        .allow_slow()
        .with_json(&request)
        .into_steps()
}

fn judge(
    context: &SendContext<'_>,
    _: &ChannelRequest,
    response: &ChannelResponse,
    now: Timestamp,
) -> Verdict {
    if context.get("api") == Some("rest") || response.status != 200 {
        return response.default_verdict(now);
    }
    if response.json_at("/error").is_null() {
        let has_no_recipient = is_unregistered(&response.json_at("/result/results"));
        return if has_no_recipient {
            Verdict::ChannelRejected
        } else {
            Verdict::Delivered
        };
    }
    match response.json_at("/error/code").as_i64() {
        Some(-5) => {
            let seconds = response
                .json_at("/error/data/response/results/0/retryAfterSeconds")
                .as_f64();
            Verdict::Retry {
                after: retry_delay(seconds.unwrap_or(HOUR)),
            }
        }
        Some(-4 | -6) => Verdict::ChannelRejected,
        Some(-1) if is_unregistered(&response.json_at("/error/data/response/results")) => {
            Verdict::ChannelRejected
        }
        Some(-1) => Verdict::MessageRejected,
        _ => Verdict::RETRY,
    }
}

/// True if none of the recipients has Signal.
fn is_unregistered(results: &Value) -> bool {
    let is_one = |one: &Value| {
        one.get("type")
            .is_some_and(|name| name == "UNREGISTERED_FAILURE")
    };
    results
        .as_array()
        .is_some_and(|results| !results.is_empty() && results.iter().all(is_one))
}
