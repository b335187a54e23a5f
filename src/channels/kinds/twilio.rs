//! Twilio's API, which text messages, calls and WhatsApp share.

use crate::channels::kinds::SendContext;
use crate::channels::send_step::{ChannelRequest, percent_encode};
use crate::channels::transport_reply::{ChannelResponse, Verdict};
use crate::domain::timestamp::Timestamp;

/// Request that creates a resource: `Messages` or `Calls`.
pub(super) fn twilio_request(
    call: &SendContext<'_>,
    what: &str,
    fields: &[(&str, &str)],
) -> ChannelRequest {
    let account = percent_encode(call.required("account"), "");
    let url = format!(
        "{}/2010-04-01/Accounts/{account}/{what}.json",
        call.base_url("api")
    );
    ChannelRequest::post(url)
        .with_basic_auth(call.required("account"), call.required("token"))
        .with_form(fields)
}

/// Field of the sender, if both a number and a service are possible.
pub(super) fn sender_field<'a>(call: &SendContext<'a>) -> (&'static str, &'a str) {
    match call.get("service") {
        Some(service) => ("MessagingServiceSid", service),
        None => ("From", call.required("from")),
    }
}

pub(super) fn judge(response: &ChannelResponse, now: Timestamp) -> Verdict {
    match (response.status, response.json_at("/code").as_i64()) {
        // The number does not exist; the recipient answered STOP; it is no mobile phone.
        (400, Some(21_211 | 21_610 | 21_614)) => Verdict::ChannelUnusable,
        _ => response.default_verdict(now),
    }
}
