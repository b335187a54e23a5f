//! What goes out through a channel: news become words, words become requests, and answers are judged. All of it is pure: no socket, no clock,
//! no file, no chance.
//!
//! [`prepare`] says what is to be sent and [`judge`] what came of it. Whoever sends goes through the steps in their order, stops at the first
//! that was not [delivered](Verdict::Delivered), and does what its verdict says.

pub mod alert;
pub mod answer;
pub mod kinds;
pub mod outgoing;
mod redaction;
pub mod render;
mod template;
pub mod words;

use std::time::Duration;

pub use alert::{Alert, Attempt};
pub use answer::{Answer, Judged, Verdict};
pub use outgoing::Step;

use crate::domain::channel::{ChannelKind, ChannelSettings, Class};
use crate::domain::moment::Moment;
use kinds::Call;

/// How fast a kind may send: so many at once, then one in each such time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Messages that may go at once.
    pub burst: u32,
    /// How long it takes until there is room for one more.
    pub refill: Duration,
}

/// What is to be sent, in this order. `None`: such a channel does nothing about this alert, or is not complete.
///
/// The secrets that lie in files must have been put in their places.
pub fn prepare(settings: &ChannelSettings, alert: &Alert, attempt: &Attempt) -> Option<Vec<Step>> {
    let sender = kinds::sender(settings.kind())?;
    // Only people read of several checks, or of none, in one message.
    let is_for_people = alert.check.is_none() && settings.kind().class != Class::People;
    if settings.lacks().is_some() || !settings.takes(alert.event) || is_for_people {
        return None;
    }
    let steps = (sender.send)(&Call { settings, alert, attempt });
    (!steps.is_empty()).then_some(steps)
}

/// What an answer to one of the steps means.
pub fn judge(settings: &ChannelSettings, alert: &Alert, attempt: &Attempt, step: &Step, answer: &Answer, now: Moment) -> Judged {
    if let Step::Unsendable(reason) = step {
        return Judged { verdict: Verdict::Unsendable, error: reason.clone(), status: 0 };
    }
    let call = Call { settings, alert, attempt };
    let verdict = match (step, answer) {
        (Step::Http(request), Answer::Http(response)) => kinds::sender(settings.kind())
            .map(|sender| (sender.judge)(&call, request, response, now))
            .unwrap_or_else(|| response.usual(now)),
        (_, answer) => answer.usual(attempt, now),
    };
    answer.judged(verdict, settings, step)
}

/// What keeps alerts alive that end by themselves unless they are sent again: one step for all checks of a channel that are down, at most
/// 500 at a time. Nothing for kinds that need no such thing.
pub fn sustain(settings: &ChannelSettings, alerts: &[&Alert], now: Moment) -> Vec<Step> {
    let sustain = kinds::sender(settings.kind()).and_then(|sender| sender.sustain);
    sustain.map_or_else(Vec::new, |sustain| sustain(settings, alerts, now))
}

/// Whether a kind needs to be told again and again: see [`sustain`].
pub fn is_sustained(settings: &ChannelSettings) -> bool {
    kinds::sender(settings.kind()).is_some_and(|sender| sender.sustain.is_some())
}

/// Whether what was [refused](Verdict::Unsendable) can be sent once more, [plainly](Attempt::plain).
pub fn has_plain_form(settings: &ChannelSettings) -> bool {
    kinds::sender(settings.kind()).is_some_and(|sender| sender.has_plain_form)
}

/// How fast a kind may send to one destination; `None`: as fast as it gets answers.
pub fn pace(settings: &ChannelSettings) -> Option<Pace> {
    kinds::sender(settings.kind()).and_then(|sender| (sender.pace)(settings))
}

/// Whether a kind can be sent to.
pub fn has_sender(kind: &ChannelKind) -> bool {
    kinds::sender(kind).is_some()
}

#[cfg(test)]
mod tests;
