//! Texts of alerts.

use crate::channels::alert::{
    Alert, AlertFacts, AlertList, AlertSeverity, AlertedCheck, CheckEvent, CheckFacts,
    CheckSummary, Closing, DelayReason, EventContext, JobOutput, LabelledFact, PingFacts,
    RenderContext, SendAttempt,
};
use crate::channels::render::sanitize::{clean_lines, to_one_line};
use crate::domain::alert::AlertEvent;
use crate::domain::explanation::{self, FailureContext};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::ping::PingKind;
use crate::domain::timestamp::Timestamp;

/// Bytes of a body that are worth showing: the limit of mail, which shows the most.
const MAX_OUTPUT_BYTES: usize = 10_000;
/// Upper bound for an address that pings a check, in bytes, with the text around it.
const MAX_ADDRESS_BYTES: usize = 1_000;

/// Note for an alert whose earlier attempt may have arrived.
pub fn duplicate_note(attempt: &SendAttempt) -> Option<&'static str> {
    attempt
        .may_be_duplicate
        .then_some("(This may be a repeat: it is not known whether an earlier try arrived.)")
}

/// Composes the alert for these facts.
pub fn compose_alert(facts: AlertFacts, context: RenderContext<'_>) -> Alert {
    match facts {
        AlertFacts::Check(check, event) => check_alert(*check, &event, context),
        AlertFacts::Digest { down, up } => digest_alert(&down, &up, context),
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
            let short = format!("{title}. {text}");
            Alert {
                lead: clean_lines(&text),
                reason: title.clone(),
                short,
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
        lead: String::new(),
        reason: String::new(),
        short: String::new(),
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
pub fn check_display_name(settings: &crate::domain::check::CheckSettings) -> String {
    let names = [settings.name.as_str(), settings.slug.as_str()].map(to_one_line);
    names
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "Unnamed check".into())
}

/// Title for a check that went down.
fn down_title(name: &str, cause: FlipCause) -> String {
    match cause {
        FlipCause::ExitStatus(status) => format!("{name} failed with exit status {status}"),
        FlipCause::Fail | FlipCause::Keyword | FlipCause::NoKeyword => format!("{name} failed"),
        FlipCause::Overrun => format!("{name} does not finish"),
        FlipCause::Late
        | FlipCause::SettingsChanged
        | FlipCause::Success
        | FlipCause::PausedOrResumed
        | FlipCause::Unknown => {
            format!("{name} is down")
        }
    }
}

fn check_alert(check: CheckFacts, event: &CheckEvent, context: RenderContext<'_>) -> Alert {
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
        CheckEvent::Down { flip, also } => down_alert(&name, &check, *flip, also, &times, context),
        CheckEvent::Up {
            flip,
            down,
            was_notified,
            also,
        } => up_alert(&name, *flip, *down, *was_notified, also, &times, context),
        CheckEvent::Closed { at, why } => closed_alert(&name, *at, *why, &times, context),
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
            let lead = format!("Alerts from {channel_phrase} arrive here.");
            Alert {
                at: *at,
                tests_recovery: *up,
                short: format!("TEST from overdue: {channel_phrase}."),
                reason: "test".into(),
                lead,
                ..alert
            }
        }
    };
    let (cause, downtime) = match event {
        CheckEvent::Down { flip, .. } => (flip.cause, Some((flip.at, None))),
        CheckEvent::Up { flip, down, .. } => (down.cause, Some((down.at, Some(flip.at)))),
        CheckEvent::Closed { .. } => (FlipCause::PausedOrResumed, None),
        CheckEvent::Test { .. } => (FlipCause::Unknown, None),
    };
    let unique_key = check.unique_key;
    let pages = context
        .page_base_url
        .filter(|_| alert.event != AlertEvent::Test);
    alert.link = pages.map(|base| format!("{}/cloaked/{unique_key}/", base.trim_end_matches('/')));
    if matches!(alert.event, AlertEvent::Down | AlertEvent::Up) {
        alert.facts = labelled_facts(&check, &times);
        alert.output = check
            .last_ping
            .as_ref()
            .and_then(|ping| job_output(&check, ping));
        alert.other_checks = other_checks_sentence(&check);
    }
    if alert.event == AlertEvent::Down {
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
    also: &EventContext,
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
    let short = match flip.cause {
        FlipCause::Late => {
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
    let mut lead = vec![why];
    if let Some(up) = also.up_since {
        lead.push(format!(
            "Before that it was up for {}.",
            format_duration(flip.at.micros_since(up))
        ));
    }
    lead.extend(unreported_changes_sentence(also, times));
    if let Some((from, until)) = also.outage {
        lead.push(format!(
            "overdue accepted no pings {}, so its ping may have been lost.",
            times.span(from, until)
        ));
    }
    if let Some(window) = &also.window {
        lead.push(match to_one_line(window) {
            name if name.is_empty() => "It went down within a maintenance window.".to_owned(),
            name => format!("It went down within the maintenance window “{name}”."),
        });
    }
    lead.extend(also.delay.map(|delay| delay_sentence(delay).to_owned()));
    let alert = title_only_alert(
        AlertEvent::Down,
        AlertSeverity::Critical,
        &down_title(name, flip.cause),
        context,
    );
    Alert {
        at: flip.at,
        lead: lead.join(" "),
        reason: explanation::short_reason(flip.cause),
        short,
        ..alert
    }
}

fn up_alert(
    name: &str,
    flip: Flip,
    down: Flip,
    was_notified: bool,
    also: &EventContext,
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
        missed_notification_clause(also.delay)
    };
    let mut lead = vec![format!(
        "{was} ({}){missed_clause}. Reason: {reason}.",
        times.zone.name()
    )];
    lead.extend(unreported_changes_sentence(also, times));
    let alert = title_only_alert(
        AlertEvent::Up,
        AlertSeverity::Recovery,
        &format!("{name} is up again"),
        context,
    );
    let short = format!("UP: {name}. {was}.");
    Alert {
        at: flip.at,
        lead: lead.join(" "),
        reason,
        short,
        ..alert
    }
}

fn closed_alert(
    name: &str,
    at: Timestamp,
    why: Closing,
    times: &TimeFormatter<'_>,
    context: RenderContext<'_>,
) -> Alert {
    let at_time = format!("{} ({})", times.at_phrase(at), times.zone.name());
    let (title, lead, reason) = match why {
        Closing::Paused => (
            format!("{name} was paused"),
            format!("It was down when it was paused {at_time}."),
            "it was paused",
        ),
        Closing::Deleted => (
            format!("{name} was deleted"),
            format!("It was down when it was deleted {at_time}."),
            "it was deleted",
        ),
        Closing::Unassigned => {
            let title = format!("Alerts about {name} are no longer sent to this channel");
            // It may have come up since then.
            let lead = format!(
                "It was down when alerts about it stopped going to this channel {at_time}."
            );
            (
                title,
                lead,
                "alerts about it are no longer sent to this channel",
            )
        }
    };
    let alert = title_only_alert(AlertEvent::Closed, AlertSeverity::Info, &title, context);
    Alert {
        at,
        short: format!("CLOSED: {name}. {lead}"),
        lead,
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

fn unreported_changes_sentence(also: &EventContext, times: &TimeFormatter<'_>) -> Option<String> {
    also.unreported_changes.map(|(changes, since)| {
        format!(
            "Its status changed {} since {}.",
            format_count(changes.into(), "time"),
            times.at(since)
        )
    })
}

fn labelled_facts(check: &CheckFacts, times: &TimeFormatter<'_>) -> Vec<LabelledFact> {
    let settings = &check.settings;
    let grace = format_duration(Timestamp::from_secs(settings.grace.get()).micros());
    let zone = settings
        .schedule
        .as_ref()
        .map_or_else(String::new, |_| format!(" ({})", settings.tz.name()));
    let tags: Vec<_> = settings.tags.iter().map(to_one_line).collect();
    let last_ping = check.last_ping.as_ref();
    let success = check
        .last_success
        .filter(|at| last_ping.is_none_or(|ping| ping.at != *at));
    let mail = last_ping.and_then(|ping| ping.mail.as_ref());
    let subject = mail.map(|mail| {
        check
            .without_ping_addresses(&to_one_line(&mail.subject))
            .into_owned()
    });
    let facts = [
        ("Project", Some(to_one_line(&check.project))),
        ("Tags", (!tags.is_empty()).then(|| tags.join(", "))),
        (
            "Schedule",
            Some(format!(
                "{}{zone}, {grace} of grace",
                settings.describe_schedule()
            )),
        ),
        // Unknown facts are left out.
        (
            "Last ping",
            last_ping
                .map(|ping| describe_ping(ping, times))
                .or_else(|| (check.n_pings == 0).then(|| "none".into())),
        ),
        ("Subject", subject.filter(|subject| !subject.is_empty())),
        ("Last success", success.map(|at| times.at(at))),
        (
            "Failures in a row",
            (check.failures > 1).then(|| check.failures.to_string()),
        ),
        ("Pings", Some(check.n_pings.to_string())),
    ];
    facts
        .into_iter()
        .filter_map(|(label, value)| {
            Some(LabelledFact {
                label,
                value: value.filter(|value| !value.is_empty())?,
            })
        })
        .collect()
}

/// Ping in half a line: time, kind, run time and origin.
fn describe_ping(ping: &PingFacts, times: &TimeFormatter<'_>) -> String {
    let what = match (ping.kind, ping.exit_status) {
        (PingKind::Success, _) => "success".into(),
        (PingKind::Fail, Some(status)) => format!("exit status {status}"),
        (PingKind::Fail, None) => "failure".into(),
        (PingKind::Start, _) => "start".into(),
        (PingKind::Log, _) => "note".into(),
        (PingKind::Ignored, _) => "ignored".to_owned(),
    };
    let took = ping
        .run_duration
        .map(|took| format!("took {}", format_duration(took)));
    let from = ping.from.map(|from| format!("from {from}"));
    [Some(times.at(ping.at)), Some(what), took, from]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// End of what a ping sent; for a mail, the end of its text. Addresses that ping the check are
/// masked before the text is cut, so that no part of one remains.
fn job_output(check: &CheckFacts, ping: &PingFacts) -> Option<JobOutput> {
    let (sent, label) = match &ping.mail {
        Some(mail) => (mail.text.as_bytes(), "The last lines of its mail:"),
        None => (ping.body.as_slice(), "The last lines it sent:"),
    };
    let start = sent
        .len()
        .saturating_sub(MAX_OUTPUT_BYTES + MAX_ADDRESS_BYTES);
    let text = clean_lines(&String::from_utf8_lossy(
        sent.get(start..).unwrap_or_default(),
    ));
    let text = check.without_ping_addresses(&text);
    let cut = text.ceil_char_boundary(text.len().saturating_sub(MAX_OUTPUT_BYTES));
    let text = text.get(cut..).unwrap_or_default();
    let is_cut = start > 0 || cut > 0;
    let text = if is_cut {
        text.trim_start_matches('\u{fffd}')
    } else {
        text
    }
    .trim_end()
    .trim_start_matches('\n')
    .to_owned();
    (!text.is_empty()).then_some(JobOutput { label, text })
}

fn other_checks_sentence(check: &CheckFacts) -> String {
    let names: Vec<_> = check
        .other_down_names
        .iter()
        .map(|name| to_one_line(name))
        .collect();
    let more = check.other_down_count.saturating_sub(names.len());
    match (names.is_empty(), more) {
        (true, 0) => "All other checks of the project are up.".into(),
        (true, more) => format!("Also down: {}.", format_count(more, "check")),
        (false, 0) => format!("Also down: {}.", names.join(", ")),
        (false, more) => format!("Also down: {} and {more} more.", names.join(", ")),
    }
}

/// List item for a check, with the cause of its downtime.
fn list_item(brief: &CheckSummary, times: &TimeFormatter<'_>) -> String {
    let why = match brief.cause {
        FlipCause::Late | FlipCause::SettingsChanged => match brief.last_success {
            Some(success) => format!("no signal since {}", times.at(success)),
            None => "no success signal is known".into(),
        },
        FlipCause::ExitStatus(status) => {
            format!("exit status {status} {}", times.at_phrase(brief.since))
        }
        FlipCause::Overrun => format!("did not finish by {}", times.at(brief.since)),
        cause => format!(
            "{} {}",
            explanation::short_reason(cause),
            times.at_phrase(brief.since)
        ),
    };
    format!("{} ({why})", to_one_line(&brief.name))
}

fn digest_alert(down: &[CheckSummary], up: &[CheckSummary], context: RenderContext<'_>) -> Alert {
    let times = TimeFormatter {
        now: context.now,
        zone: context.zone,
    };
    let (title, severity) = match (down.len(), up.len()) {
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
    let event = if down.is_empty() {
        AlertEvent::Up
    } else {
        AlertEvent::Down
    };
    let list = |heading, items: Vec<String>| AlertList { heading, items };
    let downs = down.iter().map(|brief| list_item(brief, &times)).collect();
    let ups = up.iter().map(|brief| to_one_line(&brief.name)).collect();
    let lists = [list("Down:", downs), list("Up again:", ups)]
        .into_iter()
        .filter(|list| !list.items.is_empty())
        .collect();
    multi_check_alert(
        event,
        severity,
        &title,
        String::new(),
        lists,
        down.first().or(up.first()),
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

fn outage_alert(
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
    let lead = format!(
        "overdue could not accept pings {span} ({}), {} in all. These checks fell due in that time \
         and have not reported since. Their pings may have been lost.",
        times.zone.name(),
        format_duration(until.micros_since(from))
    );
    let items = checks
        .iter()
        .map(|brief| list_item(brief, &times))
        .collect();
    multi_check_alert(
        AlertEvent::Down,
        AlertSeverity::Warning,
        &title,
        lead,
        vec![AlertList {
            heading: "Checks:",
            items,
        }],
        checks.first(),
        context,
    )
}

fn still_down_alert(checks: &[CheckSummary], context: RenderContext<'_>) -> Alert {
    let times = TimeFormatter {
        now: context.now,
        zone: context.zone,
    };
    let since = |brief: &CheckSummary| {
        format!(
            "for {}, since {}",
            format_duration(context.now.micros_since(brief.since)),
            times.at(brief.since)
        )
    };
    if let [brief] = checks {
        let title = format!("{} is still down, {}", brief.name, since(brief));
        let lead = format!("Reason: {}.", explanation::short_reason(brief.cause));
        return multi_check_alert(
            AlertEvent::StillDown,
            AlertSeverity::Critical,
            &title,
            lead,
            Vec::new(),
            Some(brief),
            context,
        );
    }
    let items = checks
        .iter()
        .map(|brief| format!("{} ({})", to_one_line(&brief.name), since(brief)))
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
    lead: String,
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
    let short = if names.is_empty() {
        format!("{title}. {lead}")
    } else {
        format!("{title}: {names}")
    };
    let link = context.page_base_url.and_then(page);
    Alert {
        lead,
        reason: title.clone(),
        short,
        lists,
        link,
        ..title_only_alert(event, severity, &title, context)
    }
}
