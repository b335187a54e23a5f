//! Calls that say what is down, by Twilio.

use crate::channel::kinds::{Call, Sender, pace, twilio};
use crate::channel::outgoing::Step;
use crate::channel::render::{Dialect, Limit, Unit, cut};

pub(super) const CALL: Sender =
    Sender { name: "call", pace: |_| pace(1, 10), send, judge: |_, _, response, now| twilio::judge(response, now), ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let said = Dialect::Html.escaped(&cut(&call.alert.title, Limit(200, Unit::Chars)));
    let twiml = format!("<Response><Say>Hello. A message from overdue: {said}.</Say></Response>");
    twilio::request(call, "Calls", &[("To", call.given("to")), ("From", call.given("from")), ("Twiml", &twiml)]).step()
}
