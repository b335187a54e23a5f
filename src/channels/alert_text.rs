//! Texts of alerts.

mod check_facts;
mod one_check;
mod several_checks;
mod warning;

use crate::channels::alert::{Alert, AlertFacts, AlertSeverity, RenderContext, SendAttempt};
use crate::channels::render::sanitize::{clean_lines, to_one_line};
use crate::domain::alert::AlertEvent;
use crate::domain::check::CheckSettings;
use crate::domain::text::is_visible;
use one_check::check_alert;
use several_checks::{digest_alert, outage_alert, still_down_alert};

/// Note for an alert whose earlier attempt may have arrived.
pub fn duplicate_note(attempt: &SendAttempt) -> Option<&'static str> {
    attempt
        .may_be_duplicate
        .then_some("(This may be a repeat: an earlier attempt may have arrived.)")
}

/// Composes the alert for these facts.
pub fn compose_alert(facts: AlertFacts, context: RenderContext<'_>) -> Alert {
    match facts {
        AlertFacts::Check(check, event) => check_alert(*check, &event, context),
        AlertFacts::Digest { down, up, warned } => digest_alert(&down, &up, &warned, context),
        AlertFacts::ServerOutage {
            from,
            until,
            checks,
        } => outage_alert(from, until, &checks, context),
        AlertFacts::StillDown(checks) => still_down_alert(&checks, context),
        AlertFacts::Notice {
            title,
            text,
            is_resolved,
        } => {
            let severity = if is_resolved {
                AlertSeverity::Recovery
            } else {
                AlertSeverity::Warning
            };
            let one_line = format!("{title}. {text}");
            Alert {
                summary: clean_lines(&text),
                reason: title.clone(),
                one_line,
                ..title_only_alert(AlertEvent::Notice, severity, &title, context)
            }
        }
    }
}

/// Alert with nothing but a title.
fn title_only_alert(
    event: AlertEvent,
    severity: AlertSeverity,
    title: &str,
    context: RenderContext<'_>,
) -> Alert {
    Alert {
        event,
        tests_recovery: false,
        at: context.now,
        severity,
        title: to_one_line(title),
        summary: String::new(),
        reason: String::new(),
        one_line: String::new(),
        description: String::new(),
        facts: Vec::new(),
        lists: Vec::new(),
        other_checks: String::new(),
        output: None,
        link: None,
        host: context.host.to_owned(),
        check: None,
    }
}

/// Display name of a check.
pub fn check_display_name(settings: &CheckSettings) -> String {
    let names = [settings.name.as_str(), settings.slug.as_str()].map(to_one_line);
    names
        .into_iter()
        .find(|name| is_visible(name))
        .unwrap_or_else(|| "Unnamed check".into())
}
