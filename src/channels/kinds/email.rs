//! Mail: text and HTML, with one thread for each downtime.

use crate::channels::alert::{Alert, CheckFacts};
use crate::channels::kinds::{KindDefinition, SendContext, rate};
use crate::channels::render::sanitize::to_one_line;
use crate::channels::render::{Dialect, LengthLimit, LengthUnit, TextSections, truncate_line};
use crate::channels::send_step::{AlertMail, SendStep, unsubscribe_headers};
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{
    ChannelKind, ChannelPurpose, SettingField, SettingFieldType, Transport,
};

/// Mails may be long; this is more than a person reads.
const TEXT_LIMIT: LengthLimit = LengthLimit(60_000, LengthUnit::Bytes);
/// Maximum number of characters of the job's output.
const MAX_OUTPUT_CHARS: usize = 10_000;
/// Maximum length of the last ping, if it was a mail, to be attached, in bytes.
const MAX_ATTACHMENT_BYTES: usize = 1_000_000;
/// Header fields that the attached mail keeps. Others contain its recipient, and that address pings
/// the check.
const ATTACHED_HEADER_FIELDS: [&str; 5] = ["from", "subject", "date", "mime-version", "content-"];

pub(super) static KIND: KindDefinition = KindDefinition {
    kind: ChannelKind {
        name: "email",
        title: "Mail",
        purpose: ChannelPurpose::Common,
        transport: Transport::Mail,
        fields: &[SettingField::required(
            "to",
            SettingFieldType::MailAddresses(10),
            "mail address, or several separated by commas",
        )],
        guide: "The server sends mail through the relay of --mail-server, from the address of \
                --mail-from.",
        example: &[("to", "ops@example.org")],
        ..ChannelKind::DEFAULTS
    },
    send_rate: |_| rate(30, 2),
    send,
    ..KindDefinition::DEFAULTS
};

fn send(context: &SendContext<'_>) -> Vec<SendStep> {
    let alert = context.alert;
    let attempt = context.attempt;
    let show = TextSections {
        output: MAX_OUTPUT_CHARS,
        ..TextSections::ALL
    };
    let html = context.text(Dialect::Html, show, TEXT_LIMIT);
    let color = alert.severity.color();
    let html = format!(
        "<!DOCTYPE html>\n<html><body style=\"font-family: sans-serif; line-height: 1.5\">\n<div \
         style=\"border-left: 4px solid #{color:06x}; padding-left: \
         12px\">\n{html}\n</div>\n</body></html>\n"
    );
    let facts = alert
        .check
        .as_ref()
        .map(|alerted_check| &alerted_check.facts)
        .filter(|_| !alert.facts.is_empty() && !attempt.plain);
    vec![SendStep::Mail(Box::new(AlertMail {
        to: context.settings.items("to").map(String::from).collect(),
        subject: subject(alert),
        message_id: attempt.mail_id.clone(),
        in_reply_to: attempt.mail_in_reply_to.clone(),
        date: attempt.at,
        headers: headers(context),
        text: context.text(Dialect::Plain, show, TEXT_LIMIT) + "\n",
        html,
        attachment: facts.and_then(last_ping_attachment),
    }))]
}

/// Last ping, if it was a mail, without the header fields that contain its recipient. `None` if an
/// address that pings remains in it.
fn last_ping_attachment(facts: &CheckFacts) -> Option<Vec<u8>> {
    let ping = facts.last_ping.as_ref()?;
    let read = ping
        .mail
        .as_ref()
        .filter(|_| !ping.body.is_empty() && ping.body.len() <= MAX_ATTACHMENT_BYTES)?;
    let mail = filter_header_fields(&ping.body, &ATTACHED_HEADER_FIELDS)?;
    let is_safe = |text: &str| facts.without_ping_addresses(text) == text;
    let all_safe =
        is_safe(&read.subject) && is_safe(&read.text) && is_safe(&String::from_utf8_lossy(&mail));
    all_safe.then_some(mail)
}

/// Keeps only these header fields of a message. Names are in lower case; one that ends in a hyphen
/// is a prefix. `None`: the header has no end.
fn filter_header_fields(message: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let mut filtered = Vec::with_capacity(message.len());
    let mut rest = message;
    let mut keeps = false;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')? + 1;
        let (line, after) = rest.split_at_checked(end)?;
        if line.trim_ascii().is_empty() {
            filtered.extend_from_slice(rest);
            return Some(filtered);
        }
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = line.get(..colon)?.trim_ascii().to_ascii_lowercase();
            let is_match = |pattern: &&str| {
                if pattern.ends_with('-') {
                    name.starts_with(pattern.as_bytes())
                } else {
                    name == pattern.as_bytes()
                }
            };
            keeps = names.iter().any(is_match);
        }
        if keeps {
            filtered.extend_from_slice(line);
        }
        rest = after;
    }
}

/// Subject such as `DOWN | name`: mail filters of users depend on this form.
fn subject(alert: &Alert) -> String {
    let name = alert
        .check
        .as_ref()
        .map(|alerted_check| alerted_check.name.as_str());
    let subject = match (alert.event, name) {
        (AlertEvent::Down, Some(name)) => format!("DOWN | {name}"),
        (AlertEvent::Up, Some(name)) => format!("UP | {name}"),
        _ => alert.title.clone(),
    };
    truncate_line(&subject, LengthLimit(200, LengthUnit::Chars))
}

fn headers(context: &SendContext<'_>) -> Vec<(&'static str, String)> {
    let alert = context.alert;
    let attempt = context.attempt;
    let mut headers = vec![
        ("Auto-Submitted", "auto-generated".to_owned()),
        ("X-Auto-Response-Suppress", "All".to_owned()),
    ];
    if alert.event == AlertEvent::Down {
        headers.push(("Importance", "high".into()));
    }
    headers.push(("X-Overdue-Event", attempt.id.clone()));
    let status = if matches!(alert.event, AlertEvent::Down | AlertEvent::Up) {
        alert.status()
    } else {
        alert.event.name()
    };
    headers.push(("X-Overdue-Status", status.into()));
    headers.extend(unsubscribe_headers(attempt.unsubscribe_url.as_deref()));
    if let Some(alerted_check) = &alert.check {
        let project = to_one_line(&alerted_check.facts.project);
        let list: String = project
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .collect();
        headers.push(("List-Id", format!("<{list}.overdue>")));
        headers.push((
            "X-Overdue-Check",
            alerted_check.facts.unique_key.to_string(),
        ));
        headers.push(("X-Overdue-Project", project));
    }
    headers
}
