//! Facts about a check below the text of an alert, and the output of its job.

use crate::channels::alert::{CheckFacts, JobOutput, LabeledFact, PingFacts};
use crate::channels::render::sanitize::{clean_lines, to_one_line};
use crate::domain::formatting::{TimeFormatter, format_count, format_duration};
use crate::domain::ping::PingKind;
use crate::domain::timestamp::Timestamp;

/// Bytes of a body that are worth showing: the limit of mail, which shows the most.
const MAX_OUTPUT_BYTES: usize = 10_000;
/// Upper bound for an address that pings a check, in bytes, with the text around it.
const MAX_ADDRESS_BYTES: usize = 1_000;

pub(super) fn labeled_facts(check: &CheckFacts, times: &TimeFormatter<'_>) -> Vec<LabeledFact> {
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
            Some(LabeledFact {
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
pub(super) fn job_output(check: &CheckFacts, ping: &PingFacts) -> Option<JobOutput> {
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

pub(super) fn other_checks_sentence(check: &CheckFacts) -> String {
    let names: Vec<_> = check
        .other_down_names
        .iter()
        .map(|name| to_one_line(name))
        .collect();
    let more = check.other_down_count.saturating_sub(names.len());
    match (names.is_empty(), more) {
        (true, 0) => "No other check of the project is down.".into(),
        (true, more) => format!("Also down: {}.", format_count(more, "check")),
        (false, 0) => format!("Also down: {}.", names.join(", ")),
        (false, more) => format!("Also down: {} and {more} more.", names.join(", ")),
    }
}
