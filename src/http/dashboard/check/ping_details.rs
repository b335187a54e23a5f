//! Page of one ping with its body, shown as plain text.

use std::borrow::Cow;

use askama::Template;

use super::log::{ping_facts, ping_label};
use super::{CheckHeader, compare_runs};
use crate::domain::check::Check;
use crate::domain::formatting::format_size;
use crate::domain::ping::{Ping, PingScheme};
use crate::domain::ping_address;
use crate::domain::project::KeySecret;
use crate::domain::text::is_visible;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::{Page, RequiredRight};
use crate::http::dashboard::untrusted_text::{
    self, EscapeHandling, MAX_SHOWN_BYTES, PREVIEW_BYTES, SanitizedText,
};
use crate::mail::SearchableMail;
use crate::operations::key;
use crate::store::BodyPart;

/// Maximum number of lines of an excerpt: see [limits](crate::docs::limits).
const EXCERPT_LINES: usize = 10;
/// Maximum size of an excerpt in bytes: see [limits](crate::docs::limits).
const EXCERPT_BYTES: usize = 4_000;
/// Maximum number of bytes of a body that are read for its first line, and for the subject of a
/// mail: see [limits](crate::docs::limits).
const FIRST_LINE_BYTES: (usize, usize) = (300, 4_096);
/// Maximum number of characters of a first line: see [limits](crate::docs::limits).
const MAX_FIRST_LINE_CHARS: usize = 120;

/// Last lines of the body of a ping.
pub(super) struct OutputExcerpt {
    pub(super) text: String,
    /// URL of the page with the whole body.
    pub(super) link: String,
    /// Number of the ping.
    pub(super) n: u64,
}

#[derive(Template)]
#[template(path = "ping.html", config = "src/http/dashboard/askama.toml")]
struct PingPage {
    layout: Layout,
    top: CheckHeader,
    n: u64,
    style: &'static str,
    word: String,
    facts: Vec<(&'static str, String)>,
    log: String,
    /// URL that compares the run with the one before. `None` if the ping ended no run, or none was
    /// before.
    compare: Option<String>,
    earlier: Option<String>,
    later: Option<String>,
    content: Option<PingBody>,
}

/// Body of a ping.
struct PingBody {
    size: String,
    download: String,
    /// Subject of a mail.
    subject: Option<String>,
    /// For a mail: true if its source is shown, and the URL of the other view.
    source: Option<(bool, String)>,
    shown: SanitizedText,
    /// URL and label of a link that shows more of the body. `None` if it is already shown.
    more: Option<(String, String)>,
    /// URL of a view with escape sequences.
    escapes: String,
}

/// Body of a ping without the page, for the script that shows it in a log.
#[derive(Template)]
#[template(path = "_ping_body.html", config = "src/http/dashboard/askama.toml")]
struct PingBodyFragment {
    content: PingBody,
}

pub(crate) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let (check, ping) = find_ping(request)?;
    let body = request
        .handle()
        .body(check, ping.n)?
        .filter(|body| !body.is_empty());
    if &*request.fragment == "body" {
        let body = body.ok_or_else(PageError::not_found)?;
        let content = ping_body(request, check, &ping, &body);
        return Ok(HtmlPage::from_template(&PingBodyFragment { content }).into());
    }
    let (style, word) = ping_label(&ping);
    let mut facts = ping_facts(request, check, &ping);
    if ping.body_len == 0 {
        facts.push(("Body", "none".into()));
    }
    let oldest = request.handle().first_live_ping(check);
    let newest = check.state.n_pings;
    let at = |n: u64| request.page_url(&Page::Ping(check.uuid, n));
    let page = PingPage {
        layout: request.layout(format!(
            "Ping {} of {}",
            ping.n,
            crate::channels::alert_text::check_display_name(&check.settings)
        )),
        top: CheckHeader::new(request)?,
        n: ping.n,
        style,
        word,
        facts,
        log: format!(
            "{}#ping-{}",
            request.page_url(&Page::Log(check.uuid)),
            ping.n
        ),
        compare: compare_runs::has_earlier_run(request, check, &ping)?
            .then(|| request.page_url(&Page::CompareRuns(check.uuid, ping.n))),
        earlier: (ping.n > oldest).then(|| at(ping.n - 1)),
        later: (ping.n < newest).then(|| at(ping.n + 1)),
        content: body.map(|body| ping_body(request, check, &ping, &body)),
    };
    Ok(HtmlPage::from_template(&page).into())
}

/// Sends the body of a ping as a file.
pub(crate) fn download_body(request: &PageRequest) -> Result<PageResponse, PageError> {
    let (check, ping) = find_ping(request)?;
    let body = request
        .handle()
        .body(check, ping.n)?
        .ok_or_else(PageError::not_found)?;
    if !request.is_allowed(RequiredRight::Write) {
        let content = mask_ping_addresses(request, check, &readable_body(&ping, &body));
        return Ok(PageResponse::Download {
            name: format!("ping-{}.txt", ping.n),
            content: content.into_bytes(),
        });
    }
    let kind = if ping.origin.scheme == PingScheme::Email {
        "eml"
    } else {
        "txt"
    };
    Ok(PageResponse::Download {
        name: format!("ping-{}.{kind}", ping.n),
        content: body,
    })
}

fn find_ping(request: &PageRequest) -> Result<(&Check, Ping), PageError> {
    let check = request.check()?;
    let (Page::Ping(_, n) | Page::Body(_, n)) = request.page else {
        return Err(PageError::not_found());
    };
    let ping = request.handle().ping(check, n)?;
    ping.map(|ping| (check, ping))
        .ok_or_else(PageError::not_found)
}

/// Text of a ping. For a mail it is the subject and the decoded text, because other header fields
/// contain the ping address.
pub(super) fn readable_body(ping: &Ping, body: &[u8]) -> String {
    match ping.origin.scheme {
        PingScheme::Email => {
            let SearchableMail { subject, text } = SearchableMail::parse(body);
            format!("Subject: {subject}\n\n{text}")
        }
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Last lines of the body of a ping. `None` if it has no text.
pub(super) fn output_excerpt(
    request: &PageRequest,
    check: &Check,
    ping: &Ping,
) -> Result<Option<OutputExcerpt>, PageError> {
    let Some(body) = request.handle().body(check, ping.n)? else {
        return Ok(None);
    };
    let text = match ping.origin.scheme {
        PingScheme::Email => SearchableMail::parse(&body).text,
        _ => String::from_utf8_lossy(&body).into_owned(),
    };
    let text = visible_part(request, check, &text);
    let lines: Vec<_> = text.trim_end().lines().rev().take(EXCERPT_LINES).collect();
    let mut excerpt = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    let excess = excerpt.len().saturating_sub(EXCERPT_BYTES);
    let start = (excess..=excerpt.len()).find(|at| excerpt.is_char_boundary(*at));
    excerpt.drain(..start.unwrap_or_default());
    let shown = untrusted_text::sanitize(excerpt.as_bytes(), EXCERPT_BYTES, EscapeHandling::Strip);
    let text = visible_part(request, check, &shown.text).into_owned();
    Ok((!text.trim().is_empty()).then(|| OutputExcerpt {
        text,
        link: request.page_url_with_return(&Page::Ping(check.uuid, ping.n)),
        n: ping.n,
    }))
}

/// First line of the body of a ping, or the subject of a mail. `None` if there is none, and for a
/// long body if the viewer may only read: a part of it may end within a ping address.
pub(super) fn first_line(request: &PageRequest, check: &Check, ping: &Ping) -> Option<String> {
    let (body_bytes, mail_bytes) = FIRST_LINE_BYTES;
    let is_mail = ping.origin.scheme == PingScheme::Email;
    let most = if is_mail { mail_bytes } else { body_bytes };
    let is_whole = ping.body_len as usize <= most;
    if ping.body_len == 0 || !is_whole && !request.is_allowed(RequiredRight::Write) {
        return None;
    }
    let part = request
        .handle()
        .part_of_body(check, ping.n, BodyPart::First(most));
    // A body that cannot be read is reported where it is shown.
    let body = part.ok().flatten()?;
    let text = if is_mail {
        SearchableMail::parse(&body).subject
    } else {
        String::from_utf8_lossy(&body).into_owned()
    };
    let text = visible_part(request, check, &text);
    let line = text.lines().find(|line| is_visible(line))?;
    let shown = untrusted_text::sanitize_line(line.trim());
    let mut line: String = shown.chars().take(MAX_FIRST_LINE_CHARS).collect();
    if line.len() < shown.len() {
        line.push('…');
    }
    Some(line)
}

/// Text without ping addresses if the viewer may only read.
pub(super) fn visible_part<'t>(
    request: &PageRequest,
    check: &Check,
    text: &'t str,
) -> Cow<'t, str> {
    if request.is_allowed(RequiredRight::Write) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(mask_ping_addresses(request, check, text))
    }
}

/// Removes everything from a text that would let a read-only viewer ping.
fn mask_ping_addresses(request: &PageRequest, check: &Check, text: &str) -> String {
    let keys = key::list(request.handle(), Some(check.project));
    let keys = keys.iter().filter_map(|(_, key)| {
        if let KeySecret::Ping(key) = &key.secret {
            Some(key.as_str())
        } else {
            None
        }
    });
    ping_address::mask_ping_addresses(text, check.uuid, &keys.collect::<Vec<_>>()).into_owned()
}

fn ping_body(request: &PageRequest, check: &Check, ping: &Ping, body: &[u8]) -> PingBody {
    let has = |name: &str| request.query.get(name) == "1";
    let may_write = request.is_allowed(RequiredRight::Write);
    let all = has("all");
    let shows_escapes = has("escapes");
    let source = has("source") && may_write;
    let escapes = if shows_escapes {
        EscapeHandling::Show
    } else {
        EscapeHandling::Strip
    };
    let most = if all { MAX_SHOWN_BYTES } else { PREVIEW_BYTES };
    let at = |all: bool, escapes: bool, source: bool| {
        let set = [("all", all), ("escapes", escapes), ("source", source)];
        let set: Vec<_> = set
            .iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| format!("{name}=1"))
            .collect();
        format!(
            "{}?{}",
            request.page_url(&Page::Ping(check.uuid, ping.n)),
            set.join("&")
        )
    };
    let mail = (ping.origin.scheme == PingScheme::Email).then(|| SearchableMail::parse(body));
    let masked = |text: &str| mask_ping_addresses(request, check, text);
    let subject = mail
        .as_ref()
        .map(|mail| untrusted_text::sanitize_line(&mail.subject))
        .map(|line| if may_write { line } else { masked(&line) });
    let text = mail
        .as_ref()
        .filter(|_| !source)
        .map_or(body, |mail| mail.text.as_bytes());
    let text = if may_write {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(masked(&String::from_utf8_lossy(text)).into_bytes())
    };
    let mut shown = untrusted_text::sanitize(&text, most, escapes);
    if !may_write {
        // Removed control characters may have split an address.
        shown.text = masked(&shown.text);
    }
    let all_of_it = if text.len() > MAX_SHOWN_BYTES {
        format!("the first {}", format_size(MAX_SHOWN_BYTES as u64))
    } else {
        "all".into()
    };
    PingBody {
        size: format_size(body.len() as u64),
        download: request.page_url(&Page::Body(check.uuid, ping.n)),
        source: (subject.is_some() && may_write)
            .then(|| (source, at(false, shows_escapes, !source))),
        subject,
        shown,
        more: (!all).then(|| (at(true, shows_escapes, source), format!("Show {all_of_it}"))),
        escapes: at(all, true, source),
    }
}
