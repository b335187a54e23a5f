//! Why a check changed its status, in one sentence, so that messages and pages give the same answer.

use super::check::Settings;
use super::flip::{Cause, Flip};
use super::moment::Moment;
use super::words::{Times, duration};

/// What is known about a check that went down, beside its settings.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its last success; `None`: there was none, or it is no longer kept.
    pub last_success: Option<Moment>,
    /// Microseconds that the run took that ended in the failure.
    pub took: Option<i64>,
}

/// The sentence about a flip: what happened, when, and what was expected.
pub fn sentence(flip: Flip, settings: &Settings, known: Known, times: &Times<'_>) -> String {
    let (at, zone, grace) = (times.at(flip.at), times.zone.name(), settings.grace.get());
    // A deadline is that much later than what was expected.
    let from = times.at(flip.at.plus_secs(-grace));
    let since = || match known.last_success {
        Some(success) => format!("No success signal has come since {}.", times.at(success)),
        None => "No success signal is known.".into(),
    };
    let after = || known.took.map_or_else(String::new, |took| format!(", {} after it started", duration(took)));
    match flip.cause {
        Cause::Late => format!("It was expected at {from} and had until {at} to report ({zone}). {}", since()),
        Cause::Overrun => format!("It started at {from} and has not reported an end within {} ({zone}).", duration(seconds(grace))),
        Cause::Edited => format!("Its settings were changed, and by the new ones it had until {at} to report ({zone}). {}", since()),
        Cause::Fail => format!("It reported a failure at {at} ({zone}){}.", after()),
        Cause::Exit(status) => format!("It reported exit status {status} at {at} ({zone}){}.", after()),
        Cause::Keyword => format!("It reported at {at} ({zone}){}, and a word that means failure was in it.", after()),
        Cause::NoKeyword => format!("It reported at {at} ({zone}){}, and no word that means success was in it.", after()),
        Cause::Success => format!("It reported a success at {at} ({zone})."),
        Cause::Operator => format!("Somebody paused or resumed it at {at} ({zone})."),
        Cause::Unknown => format!("It changed at {at} ({zone}); why was not recorded."),
    }
}

/// The reason of a flip in a few words, without a time.
pub fn reason(cause: Cause) -> String {
    match cause {
        Cause::Late => "no success signal came in time".into(),
        Cause::Overrun => "the run did not end in time".into(),
        Cause::Edited => "its settings were changed".into(),
        Cause::Fail => "it reported a failure".into(),
        Cause::Exit(status) => format!("it reported exit status {status}"),
        Cause::Keyword => "a word that means failure was in its report".into(),
        Cause::NoKeyword => "no word that means success was in its report".into(),
        Cause::Success => "it reported a success".into(),
        Cause::Operator => "somebody paused or resumed it".into(),
        Cause::Unknown => "not recorded".into(),
    }
}

/// The word of a cause in what programs get.
pub fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Late => "late",
        Cause::Overrun => "overrun",
        Cause::Edited => "edited",
        Cause::Fail => "fail",
        Cause::Exit(_) => "exit",
        Cause::Keyword => "keyword",
        Cause::NoKeyword => "no_keyword",
        Cause::Success => "success",
        Cause::Operator => "operator",
        Cause::Unknown => "unknown",
    }
}

/// Seconds in microseconds.
fn seconds(seconds: i64) -> i64 {
    Moment::from_secs(seconds).micros()
}
