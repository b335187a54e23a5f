//! What the words of a check would have made of its last pings, shown while they are typed.

use super::fields::Fields;
use crate::domain::check::{Check, Settings};
use crate::domain::edit::Edit;
use crate::domain::ids::path_uuid;
use crate::domain::ping::{Kind, Meaning, Method, Ping, Scheme};
use crate::domain::text::Keywords;
use crate::domain::words::count;
use crate::engine::apply::SEARCHED_BYTES;
use crate::mail::Searchable;
use crate::web::error::Trouble;
use crate::web::route::Need;
use crate::web::visit::Visit;

/// Pings that the words are tried on.
const TRIED: usize = 10;
/// Pings among which they are looked for.
const LOOKED_AT: u64 = 50;
/// Kinds as they are counted, and what people call them.
const KINDS: [(Kind, &str); 4] = [(Kind::Success, "success"), (Kind::Fail, "failure"), (Kind::Start, "start"), (Kind::Ignored, "ignored")];

/// The check whose form this is, if the viewer may change it: that of the page, or the one that the form names.
pub(super) fn edited(visit: &Visit) -> Option<Check> {
    if let Ok(check) = visit.check() {
        return Some(check.clone());
    }
    let check =
        path_uuid(visit.query.get("check")).and_then(|uuid| visit.handle().with_state(|state| state.check_by_uuid(uuid).cloned()))?;
    visit.viewer.may(Need::Write, Some(check.project)).then_some(check)
}

/// What the words that were typed would have made of the last pings of a check, in a sentence; empty: no words are searched for.
pub(super) fn sentence(visit: &Visit, check: &Check, fields: &Fields) -> Result<String, Trouble> {
    let Some(settings) = searching(fields) else { return Ok(String::new()) };
    let filters = settings.filters;
    if !(filters.http_body || filters.subject || filters.body) {
        let has_words = [&settings.start_kw, &settings.success_kw, &settings.failure_kw].iter().any(|words| !words.as_str().is_empty());
        return Ok(if has_words {
            "These words are searched for in nothing: tick below what is to be searched.".into()
        } else {
            String::new()
        });
    }
    let is_searched = |ping: &&Ping| if ping.origin.scheme == Scheme::Email { filters.subject || filters.body } else { filters.http_body };
    let pings = visit.handle().last_pings(check, LOOKED_AT)?;
    let mut kinds = Vec::new();
    for ping in pings.iter().filter(is_searched).take(TRIED) {
        kinds.push(meaning(&settings, ping, &visit.handle().body(check, ping.n)?.unwrap_or_default()).kind());
    }
    if kinds.is_empty() {
        return Ok("No ping has come yet on which these words could be tried.".into());
    }
    let number = |kind| kinds.iter().filter(|own| **own == kind).count();
    let counted = KINDS.iter().map(|(kind, word)| (number(*kind), word)).filter(|(number, _)| *number > 0);
    let counted: Vec<_> = counted.map(|(number, word)| format!("{number} {word}")).collect();
    Ok(format!("Of the last {} that they are searched for in: {}.", count(kinds.len(), "ping"), counted.join(", ")))
}

/// Settings with what was typed, as far as it says what pings mean; `None`: the words are too long.
fn searching(fields: &Fields) -> Option<Settings> {
    let words = |text: &str| Keywords::parse(text).ok();
    let edit = Edit {
        post_only: Some(fields.post_only),
        start_kw: Some(words(&fields.start_kw)?),
        success_kw: Some(words(&fields.success_kw)?),
        failure_kw: Some(words(&fields.failure_kw)?),
        filter_subject: Some(fields.filter_subject),
        filter_body: Some(fields.filter_body),
        filter_http_body: Some(fields.filter_http_body),
        filter_default_fail: Some(fields.default_fail),
        ..Edit::default()
    };
    Some(edit.applied(&Settings::default(), None))
}

/// What a ping that is searched would have meant.
fn meaning(settings: &Settings, ping: &Ping, body: &[u8]) -> Meaning {
    if ping.origin.scheme == Scheme::Email {
        let mail = Searchable::of(body);
        return settings.classify_mail(&mail.subject, &mail.text);
    }
    if settings.post_only && ping.origin.method != Method::Post {
        return Meaning::Ignored;
    }
    settings.classify(&String::from_utf8_lossy(body.get(..SEARCHED_BYTES).unwrap_or(body)))
}
