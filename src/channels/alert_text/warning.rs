//! Warnings about a check that is not down.

use super::title_only_alert;
use crate::channels::alert::{Alert, AlertSeverity, CheckFacts, RenderContext, WarningOutlook};
use crate::domain::alert::AlertEvent;
use crate::domain::check::{Warning, WarningKind};
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::timestamp::Timestamp;

/// Composes a warning as of the time of sending. `skipped`: number of earlier warnings that were
/// not sent.
pub(super) fn warning_alert(
    name: &str,
    check: &CheckFacts,
    warning: Warning,
    (skipped, outlook): (usize, WarningOutlook),
    times: &TimeFormatter<'_>,
    context: RenderContext<'_>,
) -> Alert {
    let is_resolved = matches!(
        outlook,
        WarningOutlook::Started(_) | WarningOutlook::Reported(_)
    );
    let what = describe_warning(check, warning, is_resolved, times);
    let outlook = match outlook {
        WarningOutlook::Started(at) => {
            Some(format!("It has started since, {}.", times.at_phrase(at)))
        }
        WarningOutlook::Reported(at) => {
            Some(format!("It has reported since, {}.", times.at_phrase(at)))
        }
        WarningOutlook::Deadline(at) => Some(format!(
            "It goes down {} unless it reports before that.",
            times.at_phrase(at)
        )),
        WarningOutlook::Unknown => None,
    };
    let skipped = (skipped > 0).then(|| {
        let count = format_count(skipped, "earlier warning");
        let verb = if skipped == 1 { "was" } else { "were" };
        format!("{count} about it {verb} not sent.")
    });
    let sentences = [Some(what.clone()), outlook, skipped];
    let title = format!("{name} {}", warning_phrase(warning.kind, is_resolved));
    Alert {
        at: warning.at,
        summary: sentences
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
        reason: short_warning(warning.kind).into(),
        one_line: format!(
            "{}: {name}. {what}",
            short_warning(warning.kind).to_uppercase()
        ),
        ..title_only_alert(
            AlertEvent::Warning(warning.kind),
            AlertSeverity::Warning,
            &title,
            context,
        )
    }
}

/// Predicate of a title.
fn warning_phrase(kind: WarningKind, is_resolved: bool) -> &'static str {
    match (kind, is_resolved) {
        (WarningKind::Late, false) => "is late",
        (WarningKind::Late, true) => "was late",
        (WarningKind::NotStarted, false) => "has not started",
        (WarningKind::NotStarted, true) => "did not start in time",
        (WarningKind::RanLong, false) => "is taking too long",
        (WarningKind::RanLong, true) => "took too long",
        (WarningKind::RanShort, _) => "finished too fast",
    }
}

/// Warning in a few words.
pub(super) fn short_warning(kind: WarningKind) -> &'static str {
    match kind {
        WarningKind::Late => "late",
        WarningKind::NotStarted => "not started in time",
        WarningKind::RanLong => "run too long",
        WarningKind::RanShort => "run too short",
    }
}

/// Warning in a sentence.
fn describe_warning(
    check: &CheckFacts,
    warning: Warning,
    is_resolved: bool,
    times: &TimeFormatter<'_>,
) -> String {
    let zone = times.zone.name();
    let from = times.at_phrase(warning.from);
    let limit = warning.limit.secs().unwrap_or_default();
    let limit = format_duration(Timestamp::from_secs(limit).micros());
    match warning.kind {
        WarningKind::Late => format!("A ping was expected {from} ({zone}), and none arrived."),
        WarningKind::NotStarted => {
            format!("A run was expected {from} ({zone}) and had not started {limit} later.")
        }
        WarningKind::RanLong => {
            let took = if is_resolved { "took" } else { "is taking" };
            format!("Its run that started {from} ({zone}) {took} longer than {limit}.")
        }
        WarningKind::RanShort => {
            let ping = check.last_ping.as_ref();
            let took = ping.and_then(|ping| ping.run_duration);
            let end = times.at_phrase(warning.at);
            took.map_or_else(
                || format!("Its run that ended {end} ({zone}) took less than {limit}."),
                |took| {
                    let took = format_duration(took);
                    format!("Its run that ended {end} ({zone}) took {took}, less than {limit}.")
                },
            )
        }
    }
}
