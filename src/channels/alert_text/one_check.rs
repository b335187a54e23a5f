//! Alerts about one check.

use super::check_facts::{job_output, labeled_facts, other_checks_sentence};
use super::warning::warning_alert;
use super::{check_display_name, title_only_alert};
use crate::channels::alert::{
    Alert, AlertSeverity, AlertedCheck, CheckEvent, CheckFacts, CloseReason, DelayReason,
    EventContext, RenderContext,
};
use crate::channels::render::sanitize::{clean_lines, to_one_line};
use crate::domain::alert::AlertEvent;
use crate::domain::explanation::{self, FailureContext};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::timestamp::Timestamp;

/// Title for a check that went down.
fn down_title(name: &str, cause: FlipCause) -> String {
    match cause {
        FlipCause::ExitStatus(status) => format!("{name} failed with exit status {status}"),
        FlipCause::Fail | FlipCause::Keyword | FlipCause::NoKeyword => format!("{name} failed"),
        FlipCause::Overrun => format!("{name} does not finish"),
        FlipCause::MissedPing
        | FlipCause::SettingsChanged
        | FlipCause::Success
        | FlipCause::PausedOrResumed
        | FlipCause::PauseEnded
        | FlipCause::Unknown => {
            format!("{name} is down")
        }
    }
}

pub(super) fn check_alert(
    check: CheckFacts,
    event: &CheckEvent,
    context: RenderContext<'_>,
) -> Alert {
    let name = check_display_name(&check.settings);
    let zone = if check.settings.schedule.is_some() {
        &check.settings.tz
    } else {
        context.zone
    };
    let times = TimeFormatter {
        now: context.now,
        zone,
    };
    let mut alert = match event {
        CheckEvent::Down {
            flip,
            context: event_context,
        } => down_alert(&name, &check, *flip, event_context, &times, context),
        CheckEvent::Up {
            flip,
            down,
            was_notified,
            context: event_context,
        } => up_alert(
            &name,
            *flip,
            *down,
            *was_notified,
            event_context,
            &times,
            context,
        ),
        CheckEvent::Closed { at, reason } => closed_alert(&name, *at, *reason, &times, context),
        CheckEvent::Warning {
            warning,
            skipped,
            outlook,
        } => warning_alert(
            &name,
            &check,
            *warning,
            (*skipped, *outlook),
            &times,
            context,
        ),
        CheckEvent::Test { at, up, channel } => {
            let alert = title_only_alert(
                AlertEvent::Test,
                AlertSeverity::Info,
                "This is a test from overdue",
                context,
            );
            let server = if context.host.is_empty() {
                String::new()
            } else {
                format!(" on {}", context.host)
            };
            let channel_phrase = format!(
                "channel {} of project {}{server}",
                to_one_line(channel),
                to_one_line(&check.project)
            );
            let summary = format!("Alerts from {channel_phrase} arrive here.");
            Alert {
                at: *at,
                tests_recovery: *up,
                one_line: format!("TEST from overdue: {channel_phrase}."),
                reason: "test".into(),
                summary,
                ..alert
            }
        }
    };
    let (cause, downtime) = match event {
        CheckEvent::Down { flip, .. } => (flip.cause, Some((flip.at, None))),
        CheckEvent::Up { flip, down, .. } => (down.cause, Some((down.at, Some(flip.at)))),
        CheckEvent::Closed { .. } => (FlipCause::PausedOrResumed, None),
        CheckEvent::Warning { .. } | CheckEvent::Test { .. } => (FlipCause::Unknown, None),
    };
    let unique_key = check.unique_key;
    let pages = context
        .page_base_url
        .filter(|_| alert.event != AlertEvent::Test);
    alert.link = pages.map(|base| format!("{}/cloaked/{unique_key}/", base.trim_end_matches('/')));
    if matches!(
        alert.event,
        AlertEvent::Down | AlertEvent::Up | AlertEvent::Warning(_)
    ) {
        alert.facts = labeled_facts(&check, &times);
        alert.output = check
            .last_ping
            .as_ref()
            .and_then(|ping| job_output(&check, ping));
        alert.other_checks = other_checks_sentence(&check);
    }
    if alert.event == AlertEvent::Down || alert.event.is_warning() {
        alert.description = clean_lines(check.settings.desc.as_str());
    }
    alert.check = Some(AlertedCheck {
        name,
        facts: check,
        cause,
        downtime,
    });
    alert
}

fn down_alert(
    name: &str,
    check: &CheckFacts,
    flip: Flip,
    event_context: &EventContext,
    times: &TimeFormatter<'_>,
    context: RenderContext<'_>,
) -> Alert {
    let took = check
        .last_ping
        .as_ref()
        .filter(|_| !flip.cause.is_deadline())
        .and_then(|ping| ping.run_duration);
    let why = explanation::explain_flip(
        flip,
        &check.settings,
        FailureContext {
            last_success: check.last_success,
            run_duration: took,
        },
        times,
    );
    let one_line = match flip.cause {
        FlipCause::MissedPing => {
            let expected =
                explanation::expected_ping_time(flip, &check.settings, check.last_success);
            let expected = expected.map_or_else(String::new, |at| {
                format!("Expected {}, nothing by", times.at(at))
            });
            let expected = if expected.is_empty() {
                "Nothing by"
            } else {
                &expected
            };
            format!(
                "DOWN: {name}. {expected} {} ({}).",
                times.at(flip.at),
                times.zone.name()
            )
        }
        _ => format!("DOWN: {name}. {why}"),
    };
    let mut summary = vec![why];
    if let Some(up) = event_context.up_since {
        summary.push(format!(
            "Before that it was up for {}.",
            format_duration(flip.at.micros_since(up))
        ));
    }
    summary.extend(unreported_changes_sentence(event_context, times));
    if let Some((from, until)) = event_context.outage {
        summary.push(format!(
            "overdue accepted no pings {}, so its ping may have been lost.",
            times.span(from, until)
        ));
    }
    if let Some(window) = &event_context.window {
        summary.push(match to_one_line(window) {
            name if name.is_empty() => "It went down within a maintenance window.".to_owned(),
            name => format!("It went down within the maintenance window “{name}”."),
        });
    }
    summary.extend(
        event_context
            .delay
            .map(|delay| delay_sentence(delay).to_owned()),
    );
    let alert = title_only_alert(
        AlertEvent::Down,
        AlertSeverity::Critical,
        &down_title(name, flip.cause),
        context,
    );
    Alert {
        at: flip.at,
        summary: summary.join(" "),
        reason: explanation::short_reason(flip.cause),
        one_line,
        ..alert
    }
}

fn up_alert(
    name: &str,
    flip: Flip,
    down: Flip,
    was_notified: bool,
    event_context: &EventContext,
    times: &TimeFormatter<'_>,
    context: RenderContext<'_>,
) -> Alert {
    let reason = explanation::short_reason(down.cause);
    let was = format!(
        "It was down for {}, {}",
        format_duration(flip.at.micros_since(down.at)),
        times.span(down.at, flip.at)
    );
    let missed_clause = if was_notified {
        ""
    } else {
        missed_notification_clause(event_context.delay)
    };
    let mut summary = vec![format!(
        "{was} ({}){missed_clause}. Reason: {reason}.",
        times.zone.name()
    )];
    summary.extend(unreported_changes_sentence(event_context, times));
    let alert = title_only_alert(
        AlertEvent::Up,
        AlertSeverity::Recovery,
        &format!("{name} is up again"),
        context,
    );
    let one_line = format!("UP: {name}. {was}.");
    Alert {
        at: flip.at,
        summary: summary.join(" "),
        reason,
        one_line,
        ..alert
    }
}

fn closed_alert(
    name: &str,
    at: Timestamp,
    close_reason: CloseReason,
    times: &TimeFormatter<'_>,
    context: RenderContext<'_>,
) -> Alert {
    let at_time = format!("{} ({})", times.at_phrase(at), times.zone.name());
    let (title, summary, reason) = match close_reason {
        CloseReason::Paused => (
            format!("{name} was paused"),
            format!("It was down when it was paused {at_time}."),
            "it was paused",
        ),
        CloseReason::Deleted => (
            format!("{name} was deleted"),
            format!("It was down when it was deleted {at_time}."),
            "it was deleted",
        ),
        CloseReason::Unassigned => {
            let title = format!("Alerts about {name} are no longer sent to this channel");
            // It may have come up since then.
            let summary = format!(
                "It was down when alerts about it stopped going to this channel {at_time}."
            );
            (
                title,
                summary,
                "alerts about it are no longer sent to this channel",
            )
        }
    };
    let alert = title_only_alert(AlertEvent::Closed, AlertSeverity::Info, &title, context);
    Alert {
        at,
        one_line: format!("CLOSED: {name}. {summary}"),
        summary,
        reason: reason.into(),
        ..alert
    }
}

/// Reason why a downtime was not reported before it ended.
fn missed_notification_clause(delay: Option<DelayReason>) -> &'static str {
    match delay {
        Some(DelayReason::Undelivered) => "; this could not be delivered earlier",
        Some(DelayReason::QuietHours) => "; this channel had quiet hours",
        Some(DelayReason::DailyLimit) => "; this channel had reached its daily limit (most-a-day)",
        Some(DelayReason::Flapping) => {
            "; its status changed so often that messages about it were held back"
        }
        None => "; this was not sent earlier",
    }
}

/// Reason why a message about a check that is down is late.
fn delay_sentence(delay: DelayReason) -> &'static str {
    match delay {
        DelayReason::Undelivered => "This message is late: it could not be delivered earlier.",
        DelayReason::QuietHours => "This message waited for the end of the channel's quiet hours.",
        DelayReason::DailyLimit => {
            "This message is late: the channel had reached its daily limit (most-a-day)."
        }
        DelayReason::Flapping => {
            "This message is late: the status of the check changed so often that messages about it \
             were held back."
        }
    }
}

fn unreported_changes_sentence(
    event_context: &EventContext,
    times: &TimeFormatter<'_>,
) -> Option<String> {
    event_context.unreported_changes.map(|(changes, since)| {
        format!(
            "Its status changed {} since {}.",
            format_count(changes.into(), "time"),
            times.at(since)
        )
    })
}
