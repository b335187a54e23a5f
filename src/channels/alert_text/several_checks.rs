//! Alerts about several checks of one project.

use super::title_only_alert;
use super::warning::short_warning;
use crate::channels::alert::{Alert, AlertList, AlertSeverity, CheckSummary, RenderContext};
use crate::channels::render::sanitize::to_one_line;
use crate::domain::alert::AlertEvent;
use crate::domain::check::WarningKind;
use crate::domain::explanation;
use crate::domain::flip::FlipCause;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::timestamp::Timestamp;

/// List item for a check, with the cause of its downtime.
fn list_item(check: &CheckSummary, times: &TimeFormatter<'_>) -> String {
    let why = match check.cause {
        FlipCause::MissedPing | FlipCause::SettingsChanged => match check.last_success {
            Some(success) => format!("no success since {}", times.at(success)),
            None => "no success recorded".into(),
        },
        FlipCause::ExitStatus(status) => {
            format!("exit status {status} {}", times.at_phrase(check.since))
        }
        FlipCause::Overrun => format!("did not finish by {}", times.at(check.since)),
        cause => format!(
            "{} {}",
            explanation::short_reason(cause),
            times.at_phrase(check.since)
        ),
    };
    format!("{} ({why})", to_one_line(&check.name))
}

pub(super) fn digest_alert(
    down: &[CheckSummary],
    up: &[CheckSummary],
    warned: &[(CheckSummary, WarningKind, Timestamp)],
    context: RenderContext<'_>,
) -> Alert {
    let times = TimeFormatter {
        now: context.now,
        zone: context.zone,
    };
    let (title, severity) = match (down.len(), up.len()) {
        (0, 0) => (
            format!("Warnings about {}", format_count(warned.len(), "check")),
            AlertSeverity::Warning,
        ),
        (0, up) => (
            format!("{} again", up_count_phrase(up)),
            AlertSeverity::Recovery,
        ),
        (down, 0) => (
            format!("{} went down", format_count(down, "check")),
            AlertSeverity::Critical,
        ),
        (down, up) => (
            format!(
                "{} went down, {up} {} up again",
                format_count(down, "check"),
                if up == 1 { "is" } else { "are" }
            ),
            AlertSeverity::Critical,
        ),
    };
    let event = match (down, up, warned) {
        ([], [], [(_, kind, _), ..]) => AlertEvent::Warning(*kind),
        ([], ..) => AlertEvent::Up,
        _ => AlertEvent::Down,
    };
    let list = |heading, items: Vec<String>| AlertList { heading, items };
    let downs = down.iter().map(|check| list_item(check, &times)).collect();
    let ups = up.iter().map(|check| to_one_line(&check.name)).collect();
    let warnings = warned.iter().map(|(check, kind, at)| {
        let name = to_one_line(&check.name);
        let what = short_warning(*kind);
        format!("{name} ({what} {})", times.at_phrase(*at))
    });
    let warnings = warnings.collect();
    let lists = [
        list("Down:", downs),
        list("Up again:", ups),
        list("Warnings:", warnings),
    ];
    let lists = lists
        .into_iter()
        .filter(|list| !list.items.is_empty())
        .collect();
    multi_check_alert(
        event,
        severity,
        &title,
        String::new(),
        lists,
        down.first()
            .or(up.first())
            .or(warned.first().map(|(check, ..)| check)),
        context,
    )
}

fn up_count_phrase(number: usize) -> String {
    format!(
        "{} {} up",
        format_count(number, "check"),
        if number == 1 { "is" } else { "are" }
    )
}

pub(super) fn outage_alert(
    from: Timestamp,
    until: Timestamp,
    checks: &[CheckSummary],
    context: RenderContext<'_>,
) -> Alert {
    let times = TimeFormatter {
        now: context.now,
        zone: context.zone,
    };
    let pronoun = if checks.len() == 1 { "its" } else { "their" };
    let title = format!(
        "{} may have missed {pronoun} reports",
        format_count(checks.len(), "check")
    );
    let span = times.span(from, until);
    let summary = format!(
        "overdue could not accept pings {span} ({}), {} in all. These checks were due in that time \
         and have not reported since. Their pings may have been lost.",
        times.zone.name(),
        format_duration(until.micros_since(from))
    );
    let items = checks
        .iter()
        .map(|check| list_item(check, &times))
        .collect();
    multi_check_alert(
        AlertEvent::Down,
        AlertSeverity::Warning,
        &title,
        summary,
        vec![AlertList {
            heading: "Checks:",
            items,
        }],
        checks.first(),
        context,
    )
}

pub(super) fn still_down_alert(checks: &[CheckSummary], context: RenderContext<'_>) -> Alert {
    let times = TimeFormatter {
        now: context.now,
        zone: context.zone,
    };
    let since = |check: &CheckSummary| {
        format!(
            "for {}, since {}",
            format_duration(context.now.micros_since(check.since)),
            times.at(check.since)
        )
    };
    if let [check] = checks {
        let title = format!("{} is still down, {}", check.name, since(check));
        let summary = format!("Reason: {}.", explanation::short_reason(check.cause));
        return multi_check_alert(
            AlertEvent::StillDown,
            AlertSeverity::Critical,
            &title,
            summary,
            Vec::new(),
            Some(check),
            context,
        );
    }
    let items = checks
        .iter()
        .map(|check| format!("{} ({})", to_one_line(&check.name), since(check)))
        .collect();
    let title = format!("{} are still down", format_count(checks.len(), "check"));
    multi_check_alert(
        AlertEvent::StillDown,
        AlertSeverity::Critical,
        &title,
        String::new(),
        vec![AlertList {
            heading: "Down:",
            items,
        }],
        checks.first(),
        context,
    )
}

/// Alert about several checks of one project. `one` is any of them; it names the project.
fn multi_check_alert(
    event: AlertEvent,
    severity: AlertSeverity,
    title: &str,
    summary: String,
    lists: Vec<AlertList>,
    one: Option<&CheckSummary>,
    context: RenderContext<'_>,
) -> Alert {
    let project = one
        .map(|one| to_one_line(&one.project))
        .filter(|project| !project.is_empty());
    let title = project.map_or_else(|| title.to_owned(), |project| format!("{project}: {title}"));
    let page = |base: &str| {
        Some(format!(
            "{}/projects/{}/checks/",
            base.trim_end_matches('/'),
            one?.project_uuid?
        ))
    };
    let names = lists
        .iter()
        .flat_map(|list| &list.items)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("; ");
    let one_line = if names.is_empty() {
        format!("{title}. {summary}")
    } else {
        format!("{title}: {names}")
    };
    let link = context.page_base_url.and_then(page);
    Alert {
        summary,
        reason: title.clone(),
        one_line,
        lists,
        link,
        ..title_only_alert(event, severity, &title, context)
    }
}
