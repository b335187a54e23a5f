//! Why a check changed its status, in one sentence, so that messages and pages give the same answer.

use super::check::{Check, CheckState, Settings};
use super::flip::{Cause, Flip};
use super::moment::Moment;
use super::status::{Status, VisibleStatus};
use super::words::{Times, duration};

/// What is known about a check that went down, beside its settings.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its last success; `None`: there was none, or it is no longer kept.
    pub last_success: Option<Moment>,
    /// Microseconds that the run took that ended in the failure.
    pub took: Option<i64>,
}

/// When a ping was expected that did not come until a flip. `None`: that was not recorded, and the settings are not those of then any more.
pub fn expected(flip: Flip, settings: &Settings, last_success: Option<Moment>) -> Option<Moment> {
    if flip.awaited.is_some() {
        return flip.awaited;
    }
    // A deadline is that much later than what was expected.
    let expected = flip.at.plus_secs(-settings.grace.get());
    let by_success = last_success.and_then(|success| settings.expected_after(success));
    by_success.is_none_or(|at| at == expected).then_some(expected)
}

/// The sentence about a flip: what happened, when, and what was expected.
pub fn sentence(flip: Flip, settings: &Settings, known: Known, times: &Times<'_>) -> String {
    let (at, when, zone, grace) = (times.at(flip.at), times.when(flip.at), times.zone.name(), settings.grace.get());
    let since = || match known.last_success {
        Some(success) => format!("No success signal has come since {}.", times.at(success)),
        None => "No success signal is known.".into(),
    };
    let after = || known.took.map_or_else(String::new, |took| format!(", {} after it started", duration(took)));
    match flip.cause {
        Cause::Late => match expected(flip, settings, known.last_success) {
            Some(expected) => format!("It was expected {} and had until {at} to report ({zone}). {}", times.when(expected), since()),
            None => format!("It had until {at} to report ({zone}). {}", since()),
        },
        Cause::Overrun => {
            let start = flip.awaited.unwrap_or(flip.at.plus_secs(-grace));
            let within = duration(flip.at.micros_since(start));
            format!("It started {} and has not reported an end within {within} ({zone}).", times.when(start))
        }
        Cause::Edited => format!("Its settings were changed, and by the new ones it had until {at} to report ({zone}). {}", since()),
        Cause::Fail => format!("It reported a failure {when} ({zone}){}.", after()),
        Cause::Exit(status) => format!("It reported exit status {status} {when} ({zone}){}.", after()),
        Cause::Keyword => format!("It reported {when} ({zone}){}, and a word that means failure was in it.", after()),
        Cause::NoKeyword => format!("It reported {when} ({zone}){}, and no word that means success was in it.", after()),
        Cause::Success => format!("It reported a success {when} ({zone})."),
        Cause::Operator => format!("Somebody paused or resumed it {when} ({zone})."),
        Cause::Unknown => format!("It changed {when} ({zone}); why was not recorded."),
    }
}

/// What there is to say of a check at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its status.
    pub status: VisibleStatus,
    /// Its status in words, with since when if it is down: `Down since 03:45 (9 h 2 min).`
    pub headline: String,
    /// Why it has it and what will change it: some sentences.
    pub reason: String,
}

/// What there is to say of a check now. `last` is its newest flip; `None`: it is no longer kept, or there was none.
pub fn standing(check: &Check, last: Option<Flip>, known: Known, times: &Times<'_>) -> Standing {
    let (settings, now) = (&*check.settings, times.now);
    // What is overdue, though nobody has noticed yet, is so by the rules of the one who will.
    let (mut state, mut flips) = (check.state, Vec::new());
    state.settle(settings, now, &mut flips);
    let (headline, mut reason) = match state.visible_status(settings, now) {
        VisibleStatus::Down => {
            let stored = Flip { at: state.changed, from: Status::Up, to: Status::Down, cause: Cause::Unknown, awaited: None };
            let flip = flips.last().copied().or(last).filter(|flip| flip.to == Status::Down).unwrap_or(stored);
            let since = format!("Down since {} ({}).", times.at(flip.at), duration(now.micros_since(flip.at)));
            (since, vec![sentence(flip, settings, known, times)])
        }
        VisibleStatus::Grace => {
            ("Late.".into(), state.grace_start.map(|at| format!("It was expected at {}.", times.at(at))).into_iter().collect())
        }
        VisibleStatus::Up => ("Up.".into(), vec![up(&state, times)]),
        VisibleStatus::New => ("New.".into(), vec![new(&state).into()]),
        VisibleStatus::Paused => ("Paused.".into(), vec![paused(settings).into()]),
    };
    if let Some(run) = state.run {
        reason.push(format!("A run began at {} ({}).", times.at_second(run.start), times.relative(run.start)));
    }
    let waits_for_sign = state.run.is_some() || state.visible_status(settings, now) == VisibleStatus::Grace;
    if let Some(deadline) = state.deadline(settings).filter(|_| waits_for_sign) {
        reason.push(format!("Unless it reports, it goes down at {} ({}).", times.at(deadline), times.relative(deadline)));
    }
    if let Some((at, why)) = state.telling.waits() {
        reason.push(format!("Nobody has been told yet: {why}. That is decided at {}.", times.at(at)));
    }
    Standing { status: state.visible_status(settings, now), headline, reason: reason.join(" ") }
}

fn up(state: &CheckState, times: &Times<'_>) -> String {
    let last = state.last_ping.map(|at| format!("Last ping {}", times.relative(at)));
    match (last, state.grace_start) {
        (Some(last), Some(next)) => format!("{last}, next expected {} ({}).", times.at(next), times.relative(next)),
        (Some(last), None) => format!("{last}. The schedule has ended; nothing more is expected."),
        (None, _) => String::new(),
    }
}

fn new(state: &CheckState) -> &'static str {
    match state.n_pings {
        0 => "Waiting for the first ping. Until then nothing can be overdue.",
        _ => "Waiting for the next ping. Until then nothing can be overdue.",
    }
}

fn paused(settings: &Settings) -> &'static str {
    if settings.manual_resume { "Pings are ignored until you resume it." } else { "The next success or failure starts it again." }
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

#[cfg(test)]
mod tests;
