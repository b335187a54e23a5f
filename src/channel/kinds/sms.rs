//! Text messages, by Twilio.

use crate::channel::kinds::{Call, Sender, pace, twilio};
use crate::channel::outgoing::Step;
use crate::channel::render::{Limit, Unit, cut, plainest};
use crate::channel::words::repeat_mark;

/// Two segments: of 153 characters where all are in the small alphabet, else of 67.
const LIMITS: [usize; 2] = [306, 134];

pub(super) const SMS: Sender =
    Sender { name: "sms", pace: |_| pace(1, 1), send, judge: |_, _, response, now| twilio::judge(response, now), ..Sender::BASE };

fn send(call: &Call<'_>) -> Vec<Step> {
    let (alert, attempt) = (call.alert, call.attempt);
    let mark = repeat_mark(attempt).map_or_else(String::new, |_| "Repeat? ".into());
    let text = if attempt.plain { plainest(alert) } else { format!("{mark}{}", alert.short) };
    // An ellipsis is in neither alphabet of one byte, so what is cut is counted as wide.
    let [narrow, wide] = LIMITS;
    let short = cut(&text, Limit(narrow, Unit::Chars));
    let text = if short.is_ascii() { short } else { cut(&text, Limit(wide, Unit::Utf16)) };
    twilio::request(call, "Messages", &[("To", call.given("to")), twilio::sender(call), ("Body", &text)]).step()
}
