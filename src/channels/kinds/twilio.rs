//! Twilio's API, which text messages, calls and WhatsApp share.

use crate::channels::kinds::SendContext;
use crate::channels::send_step::{ChannelRequest, percent_encode};
use crate::channels::transport_reply::{ChannelResponse, Verdict};
use crate::domain::channel::{ChannelSettings, Requirement, SettingField, SettingFieldType};
use crate::domain::timestamp::Timestamp;

/// Domain of Twilio's own servers. Other servers with the same API may have other formats.
pub(super) const DOMAIN: &str = "twilio.com";

/// Server with the API.
pub(super) const API_FIELD: SettingField = SettingField::with_default(
    "api",
    SettingFieldType::Url,
    "https://api.twilio.com",
    "another server with the same API",
);

/// Messaging service, which a channel may have in place of a sender.
pub(super) const SERVICE_FIELD: SettingField = SettingField::optional(
    "service",
    SettingFieldType::Line(64),
    "messaging service, instead of from",
)
.with_format_at(DOMAIN, |text| {
    if is_sid(text, "MG") {
        Ok(())
    } else {
        Err("is not the SID of a Twilio messaging service; give MG and 32 hexadecimal digits")
    }
});

/// Account to send from.
pub(super) const fn account_field(requirement: Requirement) -> SettingField {
    SettingField::new(
        "account",
        SettingFieldType::Line(64),
        requirement,
        "account SID (AC...)",
    )
    .with_format_at(DOMAIN, |text| {
        if is_sid(text, "AC") {
            Ok(())
        } else {
            Err("is not a Twilio account SID; give AC and 32 hexadecimal digits")
        }
    })
}

/// Secret of the account.
pub(super) const fn token_field(requirement: Requirement) -> SettingField {
    SettingField::new(
        "token",
        SettingFieldType::Secret(200),
        requirement,
        "auth token",
    )
}

/// True if the text is an identifier of Twilio with this prefix.
pub(super) fn is_sid(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|digits| {
        digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Rejects settings with both a sender and a messaging service, or with neither.
pub(super) fn check_sender(settings: &ChannelSettings) -> Result<(), &'static str> {
    match (settings.has_key("from"), settings.has_key("service")) {
        (true, true) => Err("both from and service are given; give one of them"),
        (false, false) if settings.missing_setting().is_none() => {
            Err("the sender is missing; give from=TEXT or service=TEXT")
        }
        _ => Ok(()),
    }
}

/// Request that creates a resource: `Messages` or `Calls`.
pub(super) fn twilio_request(
    context: &SendContext<'_>,
    what: &str,
    fields: &[(&str, &str)],
) -> ChannelRequest {
    let account = percent_encode(context.required("account"), "");
    let url = format!(
        "{}/2010-04-01/Accounts/{account}/{what}.json",
        context.base_url("api")
    );
    ChannelRequest::post(url)
        .with_basic_auth(context.required("account"), context.required("token"))
        .with_form(fields)
}

/// Field of the sender, if both a number and a service are possible.
pub(super) fn sender_field<'a>(context: &SendContext<'a>) -> (&'static str, &'a str) {
    match context.get("service") {
        Some(service) => ("MessagingServiceSid", service),
        None => ("From", context.required("from")),
    }
}

pub(super) fn judge(response: &ChannelResponse, now: Timestamp) -> Verdict {
    match (response.status, response.json_at("/code").as_i64()) {
        // The number does not exist; the recipient answered STOP; it is no mobile phone.
        (400, Some(21_211 | 21_610 | 21_614)) => Verdict::ChannelRejected,
        _ => response.default_verdict(now),
    }
}
