//! Text messages, by Twilio.

use crate::channel::kinds::{Call, Sender, pace, twilio};
use crate::channel::outgoing::Step;
use crate::channel::render::clean::one_line;
use crate::channel::render::{Limit, Unit, cut, plainest};
use crate::channel::words::repeat_mark;

/// Returns the length of a text in GSM-7, where some characters of ASCII count twice; `None`: it has others.
fn septets(text: &str) -> Option<usize> {
    let length = |c: char| match c {
        '[' | ']' | '{' | '}' | '\\' | '^' | '~' | '|' => Some(2),
        c if c.is_ascii() && c != '`' && !c.is_ascii_control() => Some(1),
        _ => None,
    };
    text.chars().map(length).sum()
}

/// Two segments: of 153 characters where all are in the small alphabet, else of 67.
const LIMITS: [usize; 2] = [306, 134];

pub(super) const SMS: Sender =
    Sender { name: "sms", pace: |_| pace(1, 1), send, judge: |_, _, response, now| twilio::judge(response, now), ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let (alert, attempt) = (call.alert, call.attempt);
    let mark = repeat_mark(attempt).map_or_else(String::new, |_| "Repeat? ".into());
    let text = if attempt.plain { plainest(alert) } else { format!("{mark}{}", alert.short) };
    // The small alphabet has no backtick, and one would halve the room for all.
    let text = one_line(&text).replace('`', "'");
    let [narrow, wide] = LIMITS;
    let text = if septets(&text).is_some_and(|septets| septets <= narrow) { text } else { cut(&text, Limit(wide, Unit::Utf16)) };
    twilio::request(call, "Messages", &[("To", call.given("to")), twilio::sender(call), ("Body", &text)]).step()
}
