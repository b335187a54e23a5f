//! Phone calls that read the alert, through Twilio.

use crate::channels::kinds::{ChannelSender, SendContext, rate, twilio};
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, truncate_line};
use crate::channels::send_step::SendStep;
use crate::domain::alert::AlertEvent;

pub(super) const CALL: ChannelSender = ChannelSender {
    name: "call",
    send_rate: |_| rate(1, 10),
    send,
    judge: |_, _, response, now| twilio::judge(response, now),
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    let title = truncate_line(&alert.title, LengthLimit(200, LengthUnit::Chars));
    // The title of a test names neither channel nor project.
    let text = if alert.event == AlertEvent::Test {
        format!(
            "{title}. {}",
            truncate_line(&alert.lead, LengthLimit(400, LengthUnit::Chars))
        )
    } else {
        title
    };
    let spoken_text = Dialect::Html.escape(text.trim_end_matches('.'));
    let twiml =
        format!("<Response><Say>Hello. A message from overdue: {spoken_text}.</Say></Response>");
    twilio::twilio_request(
        call,
        "Calls",
        &[
            ("To", call.required("to")),
            ("From", call.required("from")),
            ("Twiml", &twiml),
        ],
    )
    .into_steps()
}
