//! Explains in one sentence why a check changed its status, so that messages and pages agree.

use super::alert::NotificationState;
use super::check::{Check, CheckSettings, CheckState};
use super::flip::{Flip, FlipCause};
use super::formatting::{TimeFormatter, format_duration};
use super::status::{Status, VisibleStatus};
use super::timestamp::Timestamp;

/// Known facts about a check that went down, besides its settings.
#[derive(Clone, Copy, Debug)]
pub struct FailureContext {
    /// Time of its last success; `None` if there was none, or it is no longer kept.
    pub last_success: Option<Timestamp>,
    /// Duration in microseconds of the run that ended in the failure.
    pub run_duration: Option<i64>,
}

/// Time at which a ping was expected that did not come before the flip. `None` if that was not
/// recorded and the settings have changed since.
pub fn expected_ping_time(
    flip: Flip,
    settings: &CheckSettings,
    last_success: Option<Timestamp>,
) -> Option<Timestamp> {
    if flip.awaited_since.is_some() {
        return flip.awaited_since;
    }
    // A deadline is later than the expected ping by the grace time.
    let expected = flip.at.plus_secs(-settings.grace.get());
    let by_success = last_success.and_then(|success| settings.next_ping_after(success));
    by_success
        .is_none_or(|at| at == expected)
        .then_some(expected)
}

/// Explains a flip in a sentence: what happened, when, and what was expected.
pub fn explain_flip(
    flip: Flip,
    settings: &CheckSettings,
    context: FailureContext,
    times: &TimeFormatter<'_>,
) -> String {
    let at = times.at(flip.at);
    let when = times.at_phrase(flip.at);
    let zone = times.zone.name();
    let grace = settings.grace.get();
    let last_success_sentence = || match context.last_success {
        Some(success) => format!("No success signal has come since {}.", times.at(success)),
        None => "No success signal is known.".into(),
    };
    let duration_clause = || {
        context.run_duration.map_or_else(String::new, |took| {
            format!(", {} after it started", format_duration(took))
        })
    };
    match flip.cause {
        FlipCause::MissedPing => match expected_ping_time(flip, settings, context.last_success) {
            Some(expected) => format!(
                "It was expected {} and had until {at} to report ({zone}). {}",
                times.at_phrase(expected),
                last_success_sentence()
            ),
            None => format!(
                "It had until {at} to report ({zone}). {}",
                last_success_sentence()
            ),
        },
        FlipCause::Overrun => {
            let start = flip.awaited_since.unwrap_or(flip.at.plus_secs(-grace));
            let within = format_duration(flip.at.micros_since(start));
            format!(
                "It started {} and has not reported an end within {within} ({zone}).",
                times.at_phrase(start)
            )
        }
        FlipCause::SettingsChanged => {
            format!(
                "Its settings were changed. With the new settings it had until {at} to report \
                 ({zone}). {}",
                last_success_sentence()
            )
        }
        FlipCause::Fail => format!(
            "It reported a failure {when} ({zone}){}.",
            duration_clause()
        ),
        FlipCause::ExitStatus(status) => format!(
            "It reported exit status {status} {when} ({zone}){}.",
            duration_clause()
        ),
        FlipCause::Keyword => format!(
            "It reported {when} ({zone}){}, and its report contained a failure keyword.",
            duration_clause()
        ),
        FlipCause::NoKeyword => format!(
            "It reported {when} ({zone}){}, and its report contained no success keyword.",
            duration_clause()
        ),
        FlipCause::Success => format!("It reported a success {when} ({zone})."),
        FlipCause::PausedOrResumed => format!("A user paused or resumed it {when} ({zone})."),
        FlipCause::PauseEnded => {
            format!("It was down before a pause, which ended {when} ({zone}).")
        }
        FlipCause::Unknown => format!("It changed {when} ({zone}); the reason was not recorded."),
    }
}

/// Explanation of the status of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusExplanation {
    /// Status of the check.
    pub status: VisibleStatus,
    /// Status in words, with the start of a downtime: `Down since 03:45 (9 h 2 min).`
    pub headline: String,
    /// Reason for the status and what will change it: some sentences.
    pub reason: String,
}

/// Explains the present status of a check. `last` is its newest flip; `None` if it is no longer
/// kept or there was none.
pub fn explain_status(
    check: &Check,
    last: Option<Flip>,
    context: FailureContext,
    times: &TimeFormatter<'_>,
) -> StatusExplanation {
    let settings = &*check.settings;
    let now = times.now;
    // A deadline that has passed but is not applied yet counts as applied.
    let mut state = check.state;
    let mut flips = Vec::new();
    state.apply_deadline(settings, now, &mut flips);
    let (headline, mut reason) = match state.visible_status(settings, now) {
        VisibleStatus::Down => {
            let flip = latest_downtime(&state, &flips, last);
            let since = format!(
                "Down since {} ({}).",
                times.at(flip.at),
                format_duration(now.micros_since(flip.at))
            );
            (since, vec![explain_flip(flip, settings, context, times)])
        }
        VisibleStatus::Grace => (
            "Late.".into(),
            state
                .grace_start
                .map(|at| format!("It was expected {}.", times.at_phrase(at)))
                .into_iter()
                .collect(),
        ),
        VisibleStatus::Up => ("Up.".into(), vec![explain_up(&state, times)]),
        VisibleStatus::New => ("New.".into(), vec![explain_new(&state).into()]),
        VisibleStatus::Paused => {
            let reason = explain_paused(settings);
            let until = state.pause_end.map(|end| {
                format!(
                    "Monitoring continues {} ({}).",
                    times.at_phrase(end.at),
                    times.relative(end.at)
                )
            });
            let sentences = until.into_iter().chain([reason.into()]).collect();
            ("Paused.".into(), sentences)
        }
    };
    if let Some(run) = state.run {
        reason.push(format!(
            "A run began at {} ({}).",
            times.at_second(run.start),
            times.relative(run.start)
        ));
    }
    let waits_for_report =
        state.run.is_some() || state.visible_status(settings, now) == VisibleStatus::Grace;
    if let Some(deadline) = state.deadline(settings).filter(|_| waits_for_report) {
        reason.push(format!(
            "Unless it reports, it goes down {} ({}).",
            times.at_phrase(deadline),
            times.relative(deadline)
        ));
    }
    if let Some((at, why)) = state.notification.pending_decision() {
        reason.push(format!(
            "No alert has been sent yet: {why}. The next decision is {}.",
            times.at_phrase(at)
        ));
    }
    StatusExplanation {
        status: state.visible_status(settings, now),
        headline,
        reason: reason.join(" "),
    }
}

/// Flip that began the downtime of a check that is down. `flips`: flips that are not stored yet.
fn latest_downtime(state: &CheckState, flips: &[Flip], last: Option<Flip>) -> Flip {
    let unknown = Flip {
        at: state.changed,
        from: Status::Up,
        to: Status::Down,
        cause: FlipCause::Unknown,
        awaited_since: None,
    };
    flips
        .last()
        .copied()
        .or(last)
        .filter(|flip| flip.to == Status::Down)
        .unwrap_or(unknown)
}

/// Status of a check that is not up in a few words, for a row of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusSummary {
    /// Reason: `exit status 3`, `no ping`.
    pub reason: String,
    /// Time since which it applies.
    pub since: Option<Timestamp>,
    /// Next change without a report, and its time: `down`, `monitored again`.
    pub then: Option<(&'static str, Timestamp)>,
    /// Reason for holding back the alert.
    pub held: Option<&'static str>,
}

/// Summarizes the present status of a check. `None` if it is up. `last` as for [`explain_status`].
pub fn summarize_status(
    check: &Check,
    last: Option<Flip>,
    now: Timestamp,
) -> Option<StatusSummary> {
    let settings = &*check.settings;
    let mut state = check.state;
    let mut flips = Vec::new();
    state.apply_deadline(settings, now, &mut flips);
    let (reason, since) = match (state.visible_status(settings, now), state.run) {
        (VisibleStatus::Down, _) => {
            let flip = latest_downtime(&state, &flips, last);
            (failure_reason(flip.cause), Some(flip.at))
        }
        (VisibleStatus::Grace, _) => ("late".into(), state.grace_start),
        (VisibleStatus::Paused, None) => ("paused".into(), Some(state.changed)),
        (_, Some(run)) => ("running".into(), Some(run.start)),
        (VisibleStatus::New, None) => ("no ping yet".into(), None),
        (VisibleStatus::Up, None) => return None,
    };
    let deadline = state.deadline(settings);
    let held = match state.notification {
        NotificationState::Pending { reason, .. } => Some(reason.short_text()),
        _ => None,
    };
    Some(StatusSummary {
        reason,
        since,
        then: match state.visible_status(settings, now) {
            VisibleStatus::Grace => deadline.map(|at| ("down", at)),
            VisibleStatus::Paused => state.pause_end.map(|end| ("monitored again", end.at)),
            VisibleStatus::New | VisibleStatus::Up | VisibleStatus::Down => None,
        },
        held,
    })
}

/// Reason for which a check is down, in a few words.
fn failure_reason(cause: FlipCause) -> String {
    match cause {
        FlipCause::MissedPing | FlipCause::SettingsChanged => "no ping".into(),
        FlipCause::Overrun => "run too long".into(),
        FlipCause::Fail => "reported a failure".into(),
        FlipCause::ExitStatus(status) => format!("exit status {status}"),
        FlipCause::Keyword => "failure keyword".into(),
        FlipCause::NoKeyword => "no success keyword".into(),
        FlipCause::PauseEnded => "down before the pause".into(),
        FlipCause::Success | FlipCause::PausedOrResumed | FlipCause::Unknown => "down".into(),
    }
}

fn explain_up(state: &CheckState, times: &TimeFormatter<'_>) -> String {
    let last = state
        .last_ping
        .map(|at| format!("Last ping {}", times.relative(at)));
    match (last, state.grace_start) {
        (Some(last), Some(next)) => format!(
            "{last}, next expected {} ({}).",
            times.at(next),
            times.relative(next)
        ),
        (Some(last), None) => {
            format!("{last}. The schedule has ended; no further ping is expected.")
        }
        (None, _) => String::new(),
    }
}

fn explain_new(state: &CheckState) -> &'static str {
    match state.n_pings {
        0 => "Waiting for the first ping. Until then nothing can be overdue.",
        _ => "Waiting for the next ping. Until then nothing can be overdue.",
    }
}

fn explain_paused(settings: &CheckSettings) -> &'static str {
    if settings.manual_resume {
        "Pings are ignored until you resume it."
    } else {
        "The next success or failure resumes it."
    }
}

/// Reason of a flip in a few words, without a time.
pub fn short_reason(cause: FlipCause) -> String {
    match cause {
        FlipCause::MissedPing => "no success signal came in time".into(),
        FlipCause::Overrun => "the run did not end in time".into(),
        FlipCause::SettingsChanged => "its settings were changed".into(),
        FlipCause::Fail => "it reported a failure".into(),
        FlipCause::ExitStatus(status) => format!("it reported exit status {status}"),
        FlipCause::Keyword => "its report contained a failure keyword".into(),
        FlipCause::NoKeyword => "its report contained no success keyword".into(),
        FlipCause::Success => "it reported a success".into(),
        FlipCause::PausedOrResumed => "a user paused or resumed it".into(),
        FlipCause::PauseEnded => "its pause ended".into(),
        FlipCause::Unknown => "not recorded".into(),
    }
}

#[cfg(test)]
mod tests;
