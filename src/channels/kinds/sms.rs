//! Text messages, through Twilio.

use crate::channels::alert_text::duplicate_note;
use crate::channels::kinds::{KindDefinition, SendContext, rate, twilio};
use crate::channels::render::sanitize::to_one_line;
use crate::channels::render::{LengthLimit, LengthUnit, plain_summary, truncate_line};
use crate::channels::send_step::SendStep;
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, Requirement, SettingField, SettingFieldType, field_value,
};

/// Two segments: of 153 characters in GSM-7, otherwise of 67.
const MAX_LENGTHS: [usize; 2] = [306, 134];

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "sms",
        title: "Text message",
        purpose: ChannelPurpose::Phone,
        fields: &[
            SettingField::required(
                "to",
                SettingFieldType::PhoneNumber,
                "phone number, with + and country code",
            ),
            twilio::account_field(Requirement::RequiredToDeliver),
            twilio::token_field(Requirement::RequiredToDeliver),
            SettingField::optional("from", SettingFieldType::Line(40), "sender number or name")
                .with_format_at(twilio::DOMAIN, check_from),
            twilio::SERVICE_FIELD,
            twilio::API_FIELD,
            SettingField::optional(
                "most-a-day",
                SettingFieldType::Number(1, 10_000),
                "maximum number of messages per day; 50 if left out",
            ),
        ],
        steps: &[
            "Open https://console.twilio.com",
            "The first page shows Account SID and Auth token",
            "Phone numbers, Manage, Buy a number gives the number for from",
        ],
        guide: "service is the SID of a messaging service (MG...).",
        example: &[
            ("to", "+37120000000"),
            ("account", "AC0123456789abcdef0123456789abcdef"),
            ("token", "abc"),
            ("from", "+12025550100"),
        ],
        validate: twilio::check_sender,
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(1, 1),
    send,
    judge: |_, _, response, now| twilio::judge(response, now),
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let attempt = context.attempt;
    let mark = duplicate_note(attempt).map_or_else(String::new, |_| "Repeat? ".into());
    let text = if attempt.plain {
        plain_summary(alert)
    } else {
        format!("{mark}{}", alert.one_line)
    };
    // GSM-7 has no backtick, and a single one would halve the maximum length.
    let text = to_one_line(&text).replace('`', "'");
    let [narrow, wide] = MAX_LENGTHS;
    let text = if gsm7_length(&text).is_some_and(|septets| septets <= narrow) {
        text
    } else {
        truncate_line(&text, LengthLimit(wide, LengthUnit::Utf16))
    };
    twilio::twilio_request(
        context,
        "Messages",
        &[
            ("To", context.required("to")),
            twilio::sender_field(context),
            ("Body", &text),
        ],
    )
    .into_steps()
}

/// Validates the sender of a message: a number, a short code, or a name.
fn check_from(text: &str) -> Result<(), &'static str> {
    // Short codes are shorter than any other number.
    let is_long =
        text.starts_with('+') || text.len() > 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_long {
        field_value::validate_phone_number(text)
    } else {
        Ok(())
    }
}

/// Returns the length of a text in GSM-7, where some ASCII characters count twice. `None`: it has
/// other characters.
fn gsm7_length(text: &str) -> Option<usize> {
    let length = |c: char| match c {
        '[' | ']' | '{' | '}' | '\\' | '^' | '~' | '|' => Some(2),
        c if c.is_ascii() && c != '`' && !c.is_ascii_control() => Some(1),
        _ => None,
    };
    text.chars().map(length).sum()
}
