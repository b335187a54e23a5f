//! WhatsApp messages from templates, through Twilio.

use serde_json::json;

use crate::channels::kinds::{ChannelSender, SendContext, rate, twilio};
use crate::channels::render::{LengthLimit, LengthUnit, truncate_line};
use crate::channels::send_step::SendStep;

pub(super) const WHATSAPP: ChannelSender = ChannelSender {
    name: "whatsapp",
    send_rate: |_| rate(1, 1),
    send,
    judge: |_, _, response, now| twilio::judge(response, now),
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    // The templates have one name; for several checks, the first one and a count.
    let listed: Vec<_> = alert.lists.iter().flat_map(|list| &list.items).collect();
    let name = match (&alert.check, listed.as_slice()) {
        (Some(subject), _) => subject.name.clone(),
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
    let content = call.required(if is_good {
        "content-up"
    } else {
        "content-down"
    });
    let variables =
        json!({ "1": truncate_line(&name, LengthLimit(200, LengthUnit::Chars)) }).to_string();
    let (key, sender) = twilio::sender_field(call);
    let to = format!("whatsapp:{}", call.required("to"));
    let from = format!("whatsapp:{sender}");
    let from = if key == "From" { &from } else { sender };
    let fields = [
        ("To", to.as_str()),
        (key, from),
        ("ContentSid", content),
        ("ContentVariables", &variables),
    ];
    twilio::twilio_request(call, "Messages", &fields).into_steps()
}
