//! Kinds of channel, and alerts through channels: facts become text, text becomes requests, and
//! responses become verdicts. All of it is pure: no sockets, clock, files or randomness.
//!
//! [`prepare`] returns the steps to run and [`judge`] the meaning of a response. The caller runs
//! the steps in order, stops at the first one that was not [delivered](Verdict::Delivered), and
//! follows its verdict.

pub mod alert;
pub mod alert_text;
mod kinds;
mod redaction;
pub mod render;
pub mod send_step;
mod template;
pub mod transport_reply;

use std::time::Duration;

pub use alert::{Alert, SendAttempt};
pub use kinds::{all_kinds, find_kind};
pub use send_step::SendStep;
pub use transport_reply::{Judgement, TransportReply, Verdict};

use crate::domain::channel::{ChannelClass, ChannelSettings};
use crate::domain::timestamp::Timestamp;
use kinds::{KindDefinition, SendContext};

/// Rate limit of a kind: a burst, then one message per interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRate {
    /// Maximum number of messages in a burst.
    pub burst: u32,
    /// Time until one more message is allowed.
    pub refill: Duration,
}

/// Returns the steps that send an alert, in order. `None`: the channel does not send this alert, or
/// its settings are incomplete, or the alert is about no single check and the channel is not for
/// people.
///
/// Secrets from files must already be in the settings.
pub fn prepare(
    settings: &ChannelSettings,
    alert: &Alert,
    attempt: &SendAttempt,
) -> Option<Vec<SendStep>> {
    let definition = KindDefinition::of(settings.kind())?;
    // Only people get messages about several checks, or about none.
    let needs_people_channel = alert.check.is_none();
    let is_people_channel = settings.kind().class == ChannelClass::People;
    if settings.missing_setting().is_some()
        || !settings.handles_event(alert.event)
        || (needs_people_channel && !is_people_channel)
    {
        return None;
    }
    let steps = (definition.send)(&SendContext {
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
            verdict: Verdict::MessageRejected,
            error: reason.clone(),
            status: 0,
        };
    }
    let context = SendContext {
        settings,
        alert,
        attempt,
    };
    let verdict = match (step, answer) {
        (SendStep::Http(request), TransportReply::Http(response)) => {
            KindDefinition::of(settings.kind())
                .map(|definition| (definition.judge)(&context, request, response, now))
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
    let prepare = KindDefinition::of(settings.kind()).and_then(|definition| definition.resend);
    prepare.map_or_else(Vec::new, |prepare| prepare(settings, alerts, now))
}

/// True if alerts of this kind expire unless they are resent: see [`prepare_resend`].
pub fn needs_resend(settings: &ChannelSettings) -> bool {
    KindDefinition::of(settings.kind()).is_some_and(|definition| definition.resend.is_some())
}

/// True if a [refused](Verdict::MessageRejected) message can be sent once more in its
/// [plain](SendAttempt::plain) form.
pub fn has_plain_form(settings: &ChannelSettings) -> bool {
    KindDefinition::of(settings.kind()).is_some_and(|definition| definition.has_plain_form)
}

/// Rate limit of a kind for one destination. `None`: as fast as responses arrive.
pub fn send_rate(settings: &ChannelSettings) -> Option<SendRate> {
    KindDefinition::of(settings.kind()).and_then(|definition| (definition.send_rate)(settings))
}

#[cfg(test)]
mod tests;
