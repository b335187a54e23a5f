//! Text messages, through Twilio.

use crate::channels::alert_text::duplicate_note;
use crate::channels::kinds::{ChannelSender, SendContext, rate, twilio};
use crate::channels::render::sanitize::to_one_line;
use crate::channels::render::{LengthLimit, LengthUnit, plain_summary, truncate_line};
use crate::channels::send_step::SendStep;

/// Returns the length of a text in GSM-7, where some ASCII characters count twice. `None`: it has
/// other characters.
fn gsm7_length(text: &str) -> Option<usize> {
    let length = |c: char| match c {
        '[' | ']' | '{' | '}' | '\\' | '^' | '~' | '|' => Some(2),
        c if c.is_ascii() && c != '`' && !c.is_ascii_control() => Some(1),
        _ => None,
    };
    text.chars().map(length).sum()
}

/// Two segments: of 153 characters in GSM-7, otherwise of 67.
const MAX_LENGTHS: [usize; 2] = [306, 134];

pub(super) const SMS: ChannelSender = ChannelSender {
    name: "sms",
    send_rate: |_| rate(1, 1),
    send,
    judge: |_, _, response, now| twilio::judge(response, now),
    ..ChannelSender::DEFAULTS
};

fn send(call: &SendContext<'_>) -> Vec<SendStep> {
    let alert = call.alert;
    let attempt = call.attempt;
    let mark = duplicate_note(attempt).map_or_else(String::new, |_| "Repeat? ".into());
    let text = if attempt.plain {
        plain_summary(alert)
    } else {
        format!("{mark}{}", alert.short)
    };
    // GSM-7 has no backtick, and a single one would halve the maximum length.
    let text = to_one_line(&text).replace('`', "'");
    let [narrow, wide] = MAX_LENGTHS;
    let text = if gsm7_length(&text).is_some_and(|septets| septets <= narrow) {
        text
    } else {
        truncate_line(&text, LengthLimit(wide, LengthUnit::Utf16))
    };
    twilio::twilio_request(
        call,
        "Messages",
        &[
            ("To", call.required("to")),
            twilio::sender_field(call),
            ("Body", &text),
        ],
    )
    .into_steps()
}
