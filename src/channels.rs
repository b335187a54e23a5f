//! Alerts through channels: facts become text, text becomes requests, and responses become
//! verdicts. All of it is pure: no sockets, clock, files or randomness.
//!
//! [`prepare`] returns the steps to run and [`judge`] the meaning of a response. The caller runs
//! the steps in order, stops at the first one that was not [delivered](Verdict::Delivered), and
//! follows its verdict.

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

/// Rate limit of a kind: a burst, then one message per interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRate {
    /// Maximum number of messages in a burst.
    pub burst: u32,
    /// Time until one more message is allowed.
    pub refill: Duration,
}

/// Returns the steps that send an alert, in order. `None`: the channel does not send this alert, or
/// its settings are incomplete.
///
/// Secrets from files must already be in the settings.
pub fn prepare(
    settings: &ChannelSettings,
    alert: &Alert,
    attempt: &SendAttempt,
) -> Option<Vec<SendStep>> {
    let sender = kinds::sender_for(settings.kind())?;
    // Only people get messages about several checks, or about none.
    let is_for_people = alert.check.is_none() && settings.kind().class != ChannelClass::People;
    if settings.missing_setting().is_some() || !settings.handles_event(alert.event) || is_for_people
    {
        return None;
    }
    let steps = (sender.send)(&SendContext {
        settings,
        alert,
        attempt,
    });
    (!steps.is_empty()).then_some(steps)
}

/// Interprets the response to one of the steps.
pub fn judge(
    settings: &ChannelSettings,
    alert: &Alert,
    attempt: &SendAttempt,
    step: &SendStep,
    answer: &TransportReply,
    now: Timestamp,
) -> Judgement {
    if let SendStep::Unsendable(reason) = step {
        return Judgement {
            verdict: Verdict::Unsendable,
            error: reason.clone(),
            status: 0,
        };
    }
    let call = SendContext {
        settings,
        alert,
        attempt,
    };
    let verdict = match (step, answer) {
        (SendStep::Http(request), TransportReply::Http(response)) => {
            kinds::sender_for(settings.kind())
                .map(|sender| (sender.judge)(&call, request, response, now))
                .unwrap_or_else(|| response.default_verdict(now))
        }
        (_, answer) => answer.default_verdict(attempt, now),
    };
    answer.judgement(verdict, settings, step)
}

/// Returns requests that refresh alerts at receivers where they expire: one step for all given
/// alerts. The caller passes at most 500. Empty for other kinds.
pub fn prepare_resend(
    settings: &ChannelSettings,
    alerts: &[&Alert],
    now: Timestamp,
) -> Vec<SendStep> {
    let prepare = kinds::sender_for(settings.kind()).and_then(|sender| sender.resend);
    prepare.map_or_else(Vec::new, |prepare| prepare(settings, alerts, now))
}

/// True if alerts of this kind expire unless they are resent: see [`prepare_resend`].
pub fn needs_resend(settings: &ChannelSettings) -> bool {
    kinds::sender_for(settings.kind()).is_some_and(|sender| sender.resend.is_some())
}

/// True if a [refused](Verdict::Unsendable) message can be sent once more in its
/// [plain](SendAttempt::plain) form.
pub fn has_plain_form(settings: &ChannelSettings) -> bool {
    kinds::sender_for(settings.kind()).is_some_and(|sender| sender.has_plain_form)
}

/// Rate limit of a kind for one destination. `None`: as fast as responses arrive.
pub fn send_rate(settings: &ChannelSettings) -> Option<SendRate> {
    kinds::sender_for(settings.kind()).and_then(|sender| (sender.send_rate)(settings))
}

/// True if messages can be sent to this kind.
pub fn has_sender(kind: &ChannelKind) -> bool {
    kinds::sender_for(kind).is_some()
}

#[cfg(test)]
mod tests;
