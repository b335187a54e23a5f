//! Phone calls that read the alert, through Twilio.

use crate::channels::kinds::{KindDefinition, SendContext, rate, twilio};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, truncate_line};
use crate::channels::send_step::SendStep;
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, Requirement, SettingField, SettingFieldType,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "call",
        title: "Phone call",
        purpose: ChannelPurpose::Phone,
        fields: &[
            SettingField::required(
                "to",
                SettingFieldType::PhoneNumber,
                "phone number, with + and country code",
            ),
            twilio::account_field(Requirement::Required),
            twilio::token_field(Requirement::Required),
            SettingField::required("from", SettingFieldType::PhoneNumber, "number that calls"),
            twilio::API_FIELD,
            SettingField::optional(
                "most-a-day",
                SettingFieldType::Number(1, 10_000),
                "maximum number of calls per day; 50 if left out",
            ),
        ],
        steps: &[
            "Open https://console.twilio.com",
            "The first page shows Account SID and Auth token",
            "Phone numbers, Manage, Buy a number gives the number for from",
        ],
        example: &[
            ("to", "+37120000000"),
            ("account", "AC0123456789abcdef0123456789abcdef"),
            ("token", "abc"),
            ("from", "+12025550100"),
        ],
        ignores_event: |_, event| event == AlertEvent::Up,
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(1, 10),
    send,
    judge: |_, _, response, now| twilio::judge(response, now),
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let title = truncate_line(&alert.title, LengthLimit(200, LengthUnit::Chars));
    // The title of a test names neither channel nor project.
    let text = if alert.event == AlertEvent::Test {
        format!(
            "{title}. {}",
            truncate_line(&alert.summary, LengthLimit(400, LengthUnit::Chars))
        )
    } else {
        title
    };
    let spoken_text = Dialect::Html.escape(text.trim_end_matches('.'));
    let twiml =
        format!("<Response><Say>Hello. A message from overdue: {spoken_text}.</Say></Response>");
    twilio::twilio_request(
        context,
        "Calls",
        &[
            ("To", context.required("to")),
            ("From", context.required("from")),
            ("Twiml", &twiml),
        ],
    )
    .into_steps()
}
