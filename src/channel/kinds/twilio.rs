//! What text messages, calls and WhatsApp have in common: Twilio's API.

use crate::channel::answer::{Response, Verdict};
use crate::channel::kinds::Call;
use crate::channel::outgoing::{Request, encoded};
use crate::domain::moment::Moment;

/// A request that makes one of these things: `Messages`, `Calls`.
pub(super) fn request(call: &Call<'_>, what: &str, fields: &[(&str, &str)]) -> Request {
    let account = encoded(call.given("account"), "");
    let url = format!("{}/2010-04-01/Accounts/{account}/{what}.json", call.base("api"));
    Request::post(url).basic(call.given("account"), call.given("token")).form(fields)
}

/// The field that says who sends, where both a number and a service can.
pub(super) fn sender<'a>(call: &Call<'a>) -> (&'static str, &'a str) {
    match call.get("service") {
        Some(service) => ("MessagingServiceSid", service),
        None => ("From", call.given("from")),
    }
}

pub(super) fn judge(response: &Response, now: Moment) -> Verdict {
    match (response.status, response.json_at("/code").as_i64()) {
        // No such number; the receiver said STOP; no mobile phone.
        (400, Some(21_211 | 21_610 | 21_614)) => Verdict::Closed,
        _ => response.usual(now),
    }
}
