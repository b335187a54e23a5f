//! WhatsApp messages from templates, through Twilio.

use serde_json::json;

use crate::channels::kinds::{KindDefinition, SendContext, rate, twilio};
use crate::channels::render::{LengthLimit, LengthUnit, truncate_line};
use crate::channels::send_step::SendStep;
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, Requirement, SettingField, SettingFieldType, field_value,
};

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "whatsapp",
        title: "WhatsApp",
        purpose: ChannelPurpose::Phone,
        fields: &[
            SettingField::required(
                "to",
                SettingFieldType::PhoneNumber,
                "phone number, with + and country code",
            ),
            twilio::account_field(Requirement::Required),
            twilio::token_field(Requirement::Required),
            SettingField::optional("from", SettingFieldType::Line(40), "sender number")
                .with_format_at(twilio::DOMAIN, field_value::validate_phone_number),
            twilio::SERVICE_FIELD,
            SettingField::required(
                "content-down",
                SettingFieldType::Line(64),
                "template for down (HX...)",
            )
            .with_format_at(twilio::DOMAIN, check_template),
            SettingField::required(
                "content-up",
                SettingFieldType::Line(64),
                "template for up (HX...)",
            )
            .with_format_at(twilio::DOMAIN, check_template),
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
            "Create the templates under Messaging, Content Template Builder",
        ],
        guide: "WhatsApp accepts only approved templates. Each template has one variable, which is \
                replaced by the name of the check.",
        example: &[
            ("to", "+37120000000"),
            ("account", "AC0123456789abcdef0123456789abcdef"),
            ("token", "abc"),
            ("from", "+12025550100"),
            ("content-down", "HX0123456789abcdef0123456789abcdef"),
            ("content-up", "HXfedcba9876543210fedcba9876543210"),
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
    // The templates have one name; for several checks, the first one and a count.
    let listed: Vec<_> = alert.lists.iter().flat_map(|list| &list.items).collect();
    let name = match (&alert.check, listed.as_slice()) {
        (Some(alerted_check), _) => alerted_check.name.clone(),
        (None, [first, others @ ..]) if !others.is_empty() => {
            format!(
                "{} and {} more",
                truncate_line(first, LengthLimit(100, LengthUnit::Chars)),
                others.len()
            )
        }
        (None, [first, ..]) => first.to_string(),
        (None, []) => alert.title.clone(),
    };
    let is_good =
        alert.is_up() || alert.severity == crate::channels::alert::AlertSeverity::Recovery;
    let content = context.required(if is_good {
        "content-up"
    } else {
        "content-down"
    });
    let variables =
        json!({ "1": truncate_line(&name, LengthLimit(200, LengthUnit::Chars)) }).to_string();
    let (key, sender) = twilio::sender_field(context);
    let to = format!("whatsapp:{}", context.required("to"));
    let from = format!("whatsapp:{sender}");
    let from = if key == "From" { &from } else { sender };
    let fields = [
        ("To", to.as_str()),
        (key, from),
        ("ContentSid", content),
        ("ContentVariables", &variables),
    ];
    twilio::twilio_request(context, "Messages", &fields).into_steps()
}

/// Validates the SID of a template.
fn check_template(text: &str) -> Result<(), &'static str> {
    if twilio::is_sid(text, "HX") {
        Ok(())
    } else {
        Err("is not the SID of a Twilio template; give HX and 32 hexadecimal digits")
    }
}
