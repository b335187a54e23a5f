//! Calls that say what is down, by Twilio.

use crate::channel::kinds::{Call, Sender, pace, twilio};
use crate::channel::outgoing::Step;
use crate::channel::render::{Dialect, Limit, Unit, cut};
use crate::domain::alert::Event;

pub(super) const CALL: Sender =
    Sender { name: "call", pace: |_| pace(1, 10), send, judge: |_, _, response, now| twilio::judge(response, now), ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    let title = cut(&alert.title, Limit(200, Unit::Chars));
    // The title of a test names neither channel nor project.
    let text = if alert.event == Event::Test { format!("{title}. {}", cut(&alert.lead, Limit(400, Unit::Chars))) } else { title };
    let said = Dialect::Html.escaped(text.trim_end_matches('.'));
    let twiml = format!("<Response><Say>Hello. A message from overdue: {said}.</Say></Response>");
    twilio::request(call, "Calls", &[("To", call.given("to")), ("From", call.given("from")), ("Twiml", &twiml)]).step()
}
