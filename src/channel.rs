//! What goes out through a channel: news become words, words become requests, and answers are judged. All of it is pure: no socket, no clock,
//! no file, no chance.
//!
//! [`prepare`] says what is to be sent and [`judge`] what came of it. Whoever sends goes through the steps in their order, stops at the first
//! that was not [delivered](Verdict::Delivered), and does what its verdict says.

pub mod alert;
pub mod alert_text;
pub mod kinds;
mod redaction;
pub mod render;
pub mod send_step;
mod template;
pub mod transport_reply;

use std::time::Duration;

pub use alert::{Alert, SendAttempt};
pub use send_step::SendStep;
pub use transport_reply::{Judgement, TransportReply, Verdict};

use crate::domain::channel::{ChannelClass, ChannelKind, ChannelSettings};
use crate::domain::timestamp::Timestamp;
use kinds::SendContext;

/// How fast a kind may send: so many at once, then one in each such time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRate {
    /// Messages that may go at once.
    pub burst: u32,
    /// How long it takes until there is room for one more.
    pub refill: Duration,
}

/// What is to be sent, in this order. `None`: such a channel does nothing about this alert, or is not complete.
///
/// The secrets that lie in files must have been put in their places.
pub fn prepare(settings: &ChannelSettings, alert: &Alert, attempt: &SendAttempt) -> Option<Vec<SendStep>> {
    let sender = kinds::sender_for(settings.kind())?;
    // Only people read of several checks, or of none, in one message.
    let is_for_people = alert.check.is_none() && settings.kind().class != ChannelClass::People;
    if settings.missing_setting().is_some() || !settings.handles_event(alert.event) || is_for_people {
        return None;
    }
    let steps = (sender.send)(&SendContext { settings, alert, attempt });
    (!steps.is_empty()).then_some(steps)
}

/// What an answer to one of the steps means.
pub fn judge(
    settings: &ChannelSettings,
    alert: &Alert,
    attempt: &SendAttempt,
    step: &SendStep,
    answer: &TransportReply,
    now: Timestamp,
) -> Judgement {
    if let SendStep::Unsendable(reason) = step {
        return Judgement { verdict: Verdict::Unsendable, error: reason.clone(), status: 0 };
    }
    let call = SendContext { settings, alert, attempt };
    let verdict = match (step, answer) {
        (SendStep::Http(request), TransportReply::Http(response)) => kinds::sender_for(settings.kind())
            .map(|sender| (sender.judge)(&call, request, response, now))
            .unwrap_or_else(|| response.default_verdict(now)),
        (_, answer) => answer.default_verdict(attempt, now),
    };
    answer.judgement(verdict, settings, step)
}

/// What keeps alerts alive that end by themselves unless they are sent again: one step for all checks of a channel that are down, at most
/// 500 at a time. Nothing for kinds that need no such thing.
pub fn prepare_resend(settings: &ChannelSettings, alerts: &[&Alert], now: Timestamp) -> Vec<SendStep> {
    let prepare = kinds::sender_for(settings.kind()).and_then(|sender| sender.resend);
    prepare.map_or_else(Vec::new, |prepare| prepare(settings, alerts, now))
}

/// Whether a kind needs to be told again and again: see [`prepare_resend`].
pub fn needs_resend(settings: &ChannelSettings) -> bool {
    kinds::sender_for(settings.kind()).is_some_and(|sender| sender.resend.is_some())
}

/// Whether what was [refused](Verdict::Unsendable) can be sent once more, [plainly](Attempt::plain).
pub fn has_plain_form(settings: &ChannelSettings) -> bool {
    kinds::sender_for(settings.kind()).is_some_and(|sender| sender.has_plain_form)
}

/// How fast a kind may send to one destination; `None`: as fast as it gets answers.
pub fn send_rate(settings: &ChannelSettings) -> Option<SendRate> {
    kinds::sender_for(settings.kind()).and_then(|sender| (sender.send_rate)(settings))
}

/// Whether a kind can be sent to.
pub fn has_sender(kind: &ChannelKind) -> bool {
    kinds::sender_for(kind).is_some()
}

#[cfg(test)]
mod tests;
