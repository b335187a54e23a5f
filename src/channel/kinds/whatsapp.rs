//! WhatsApp messages from templates, by Twilio.

use serde_json::json;

use crate::channel::kinds::{Call, Sender, pace, twilio};
use crate::channel::outgoing::Step;
use crate::channel::render::{Limit, Unit, cut};

pub(super) const WHATSAPP: Sender =
    Sender { name: "whatsapp", pace: |_| pace(1, 1), send, judge: |_, _, response, now| twilio::judge(response, now), ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let alert = call.alert;
    // The templates know one name; of several checks the first stands for all.
    let listed: Vec<_> = alert.lists.iter().flat_map(|list| &list.items).collect();
    let name = match (&alert.check, listed.as_slice()) {
        (Some(subject), _) => subject.name.clone(),
        (None, [first, others @ ..]) if !others.is_empty() => format!("{} and {} more", cut(first, Limit(100, Unit::Chars)), others.len()),
        (None, [first, ..]) => first.to_string(),
        (None, []) => alert.title.clone(),
    };
    let is_good = alert.is_up() || alert.severity == crate::channel::alert::Severity::Good;
    let content = call.given(if is_good { "content-up" } else { "content-down" });
    let variables = json!({ "1": cut(&name, Limit(200, Unit::Chars)) }).to_string();
    let (key, sender) = twilio::sender(call);
    let (to, from) = (format!("whatsapp:{}", call.given("to")), format!("whatsapp:{sender}"));
    let from = if key == "From" { &from } else { sender };
    let fields = [("To", to.as_str()), (key, from), ("ContentSid", content), ("ContentVariables", &variables)];
    twilio::request(call, "Messages", &fields).step()
}
