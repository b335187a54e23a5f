//! One ping with what it sent, shown as the text that it is.

use std::borrow::Cow;

use askama::Template;

use super::Top;
use super::log::{facts, said};
use crate::domain::check::Check;
use crate::domain::ping::{Ping, Scheme};
use crate::domain::ping_address;
use crate::domain::project::Secret;
use crate::domain::words::size;
use crate::mail::Searchable;
use crate::manage::key;
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::frame::Frame;
use crate::web::hostile::{self, Escapes, MOST_SHOWN_BYTES, SHOWN_BYTES, Shown};
use crate::web::route::{Need, Page};
use crate::web::visit::Visit;

#[derive(Template)]
#[template(path = "ping.html", config = "src/web/askama.toml")]
struct OnePing {
    frame: Frame,
    top: Top,
    n: u64,
    pill: &'static str,
    word: String,
    facts: Vec<(&'static str, String)>,
    log: String,
    earlier: Option<String>,
    later: Option<String>,
    content: Option<Content>,
}

/// What a ping sent.
struct Content {
    size: String,
    download: String,
    /// Of a mail: its subject.
    subject: Option<String>,
    /// Of a mail: whether its source is shown, and where the other is.
    source: Option<(bool, String)>,
    shown: Shown,
    /// Where more of it is shown, and how much; `None`: nowhere.
    more: Option<(String, String)>,
    /// Where escape sequences are shown.
    escapes: String,
}

/// The page.
pub(crate) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let (check, ping) = found(visit)?;
    let body = visit.handle().body(check, ping.n)?.filter(|body| !body.is_empty());
    let (pill, word) = said(&ping);
    let mut facts = facts(visit, check, &ping);
    if ping.body_len == 0 {
        facts.push(("Body", "none".into()));
    }
    let (oldest, newest) = (visit.handle().first_kept_ping(check), check.state.n_pings);
    let at = |n: u64| visit.link(&Page::Ping(check.uuid, n));
    let page = OnePing {
        frame: visit.frame(format!("Ping {} of {}", ping.n, crate::channel::words::name(&check.settings))),
        top: Top::of(visit)?,
        n: ping.n,
        pill,
        word,
        facts,
        log: format!("{}#ping-{}", visit.link(&Page::Log(check.uuid)), ping.n),
        earlier: (ping.n > oldest).then(|| at(ping.n - 1)),
        later: (ping.n < newest).then(|| at(ping.n + 1)),
        content: body.map(|body| content(visit, check, &ping, &body)),
    };
    Ok(Html::of(&page).into())
}

/// What a ping sent, for a browser to keep.
pub(crate) fn body(visit: &Visit) -> Result<Done, Trouble> {
    let (check, ping) = found(visit)?;
    let body = visit.handle().body(check, ping.n)?.ok_or_else(Trouble::nothing_here)?;
    if !visit.may(Need::Write) {
        let content = without_ping_addresses(visit, check, &readable(&ping, &body));
        return Ok(Done::Download { name: format!("ping-{}.txt", ping.n), content: content.into_bytes() });
    }
    let kind = if ping.origin.scheme == Scheme::Email { "eml" } else { "txt" };
    Ok(Done::Download { name: format!("ping-{}.{kind}", ping.n), content: body })
}

fn found(visit: &Visit) -> Result<(&Check, Ping), Trouble> {
    let check = visit.check()?;
    let (Page::Ping(_, n) | Page::Body(_, n)) = visit.page else { return Err(Trouble::nothing_here()) };
    let ping = visit.handle().ping(check, n)?;
    ping.map(|ping| (check, ping)).ok_or_else(Trouble::nothing_here)
}

/// Returns the text of a ping. Of a mail that is its subject and its decoded text: other fields of its header hold the address that pings.
fn readable(ping: &Ping, body: &[u8]) -> String {
    match ping.origin.scheme {
        Scheme::Email => {
            let Searchable { subject, text } = Searchable::of(body);
            format!("Subject: {subject}\n\n{text}")
        }
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Returns a text without what would let people ping who may only read.
fn without_ping_addresses(visit: &Visit, check: &Check, text: &str) -> String {
    let keys = key::list(visit.handle(), Some(check.project));
    let keys = keys.iter().filter_map(|(_, key)| if let Secret::Ping(key) = &key.secret { Some(key.as_str()) } else { None });
    ping_address::masked(text, check.uuid, &keys.collect::<Vec<_>>()).into_owned()
}

fn content(visit: &Visit, check: &Check, ping: &Ping, body: &[u8]) -> Content {
    let has = |name: &str| visit.query.get(name) == "1";
    let may_write = visit.may(Need::Write);
    let (all, shows_escapes, source) = (has("all"), has("escapes"), has("source") && may_write);
    let escapes = if shows_escapes { Escapes::Shown } else { Escapes::TakenOut };
    let most = if all { MOST_SHOWN_BYTES } else { SHOWN_BYTES };
    let at = |all: bool, escapes: bool, source: bool| {
        let set = [("all", all), ("escapes", escapes), ("source", source)];
        let set: Vec<_> = set.iter().filter(|(_, on)| *on).map(|(name, _)| format!("{name}=1")).collect();
        format!("{}?{}", visit.link(&Page::Ping(check.uuid, ping.n)), set.join("&"))
    };
    let mail = (ping.origin.scheme == Scheme::Email).then(|| Searchable::of(body));
    let masked = |text: &str| without_ping_addresses(visit, check, text);
    let subject = mail.as_ref().map(|mail| hostile::line(&mail.subject)).map(|line| if may_write { line } else { masked(&line) });
    let text = mail.as_ref().filter(|_| !source).map_or(body, |mail| mail.text.as_bytes());
    let text = if may_write { Cow::Borrowed(text) } else { Cow::Owned(masked(&String::from_utf8_lossy(text)).into_bytes()) };
    let mut shown = hostile::shown(&text, most, escapes);
    if !may_write {
        // What was taken out may have divided an address.
        shown.text = masked(&shown.text);
    }
    let all_of_it = if text.len() > MOST_SHOWN_BYTES { format!("the first {}", size(MOST_SHOWN_BYTES as u64)) } else { "all".into() };
    Content {
        size: size(body.len() as u64),
        download: visit.link(&Page::Body(check.uuid, ping.n)),
        source: (subject.is_some() && may_write).then(|| (source, at(false, shows_escapes, !source))),
        subject,
        shown,
        more: (!all).then(|| (at(true, shows_escapes, source), format!("Show {all_of_it}"))),
        escapes: at(all, true, source),
    }
}
