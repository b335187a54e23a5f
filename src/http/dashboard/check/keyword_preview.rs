//! Preview of the keyword filters on the last pings, shown while a user edits them.

use super::form_fields::CheckFormFields;
use crate::domain::check::{Check, CheckSettings};
use crate::domain::formatting::format_count;
use crate::domain::ids::parse_path_uuid;
use crate::domain::ping::{Ping, PingKind, PingMeaning, PingMethod, PingScheme};
use crate::engine::apply::KEYWORD_SEARCH_BYTES;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_routes::RequiredRight;
use crate::mail::SearchableMail;

/// Maximum number of pings that the keywords are tried on.
const MAX_PINGS_TRIED: usize = 10;
/// Maximum number of pings that are searched for them.
const MAX_PINGS_READ: u64 = 50;
/// Counted kinds with their labels.
const COUNTED_KINDS: [(PingKind, &str); 4] = [
    (PingKind::Success, "success"),
    (PingKind::Fail, "failure"),
    (PingKind::Start, "start"),
    (PingKind::Ignored, "ignored"),
];

/// Check that the form belongs to, if the viewer may change it: the check of the page, or the one
/// that the form names.
pub(super) fn edited_check(request: &PageRequest) -> Option<Check> {
    if let Ok(check) = request.check() {
        return Some(check.clone());
    }
    let check = parse_path_uuid(request.query.get("check")).and_then(|uuid| {
        request
            .handle()
            .with_state(|state| state.check_by_uuid(uuid).cloned())
    })?;
    request
        .viewer
        .is_allowed(RequiredRight::Write, Some(check.project))
        .then_some(check)
}

/// Sentence with the results that the entered keywords would give for the last pings. Empty if
/// there are no keyword filters.
pub(super) fn keyword_summary(
    request: &PageRequest,
    check: &Check,
    fields: &CheckFormFields,
) -> Result<String, PageError> {
    let Some(settings) = keyword_settings(fields) else {
        return Ok(String::new());
    };
    let filters = settings.filters;
    if !(filters.http_body || filters.subject || filters.body) {
        let has_words = [
            &settings.start_kw,
            &settings.success_kw,
            &settings.failure_kw,
        ]
        .iter()
        .any(|words| !words.as_str().is_empty());
        return Ok(if has_words {
            "These keywords have no effect: select below which texts to search.".into()
        } else {
            String::new()
        });
    }
    let is_searched = |ping: &&Ping| {
        if ping.origin.scheme == PingScheme::Email {
            filters.subject || filters.body
        } else {
            filters.http_body
        }
    };
    let pings = request.handle().newest_pings(check, MAX_PINGS_READ)?;
    let mut kinds = Vec::new();
    for ping in pings.iter().filter(is_searched).take(MAX_PINGS_TRIED) {
        kinds.push(
            classify_ping(
                &settings,
                ping,
                &request.handle().body(check, ping.n)?.unwrap_or_default(),
            )
            .kind(),
        );
    }
    if kinds.is_empty() {
        return Ok("No ping has arrived yet to try these keywords on.".into());
    }
    let number = |kind| kinds.iter().filter(|own| **own == kind).count();
    let counted = COUNTED_KINDS
        .iter()
        .map(|(kind, word)| (number(*kind), word))
        .filter(|(number, _)| *number > 0);
    let counted: Vec<_> = counted
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    Ok(format!(
        "Result for the last {} that are searched: {}.",
        format_count(kinds.len(), "ping"),
        counted.join(", ")
    ))
}

/// Settings with the entered keywords. `None` if the keywords are too long.
fn keyword_settings(fields: &CheckFormFields) -> Option<CheckSettings> {
    Some(
        fields
            .to_rule_edit()?
            .apply_to(&CheckSettings::default(), None),
    )
}

/// Meaning of a ping under these settings.
fn classify_ping(settings: &CheckSettings, ping: &Ping, body: &[u8]) -> PingMeaning {
    if ping.origin.scheme == PingScheme::Email {
        let mail = SearchableMail::parse(body);
        return settings.classify_mail(&mail.subject, &mail.text);
    }
    if settings.post_only && ping.origin.method != PingMethod::Post {
        return PingMeaning::Ignored;
    }
    settings.classify(&String::from_utf8_lossy(
        body.get(..KEYWORD_SEARCH_BYTES).unwrap_or(body),
    ))
}
