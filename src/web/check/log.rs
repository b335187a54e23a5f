//! The log of a check: pings and what they came to, with the changes of its status between them.

use askama::Template;

use super::entries::{self, Entry, FLIPS, Run};
use super::{Top, flips, times_of};
use crate::domain::check::Check;
use crate::domain::flip::Flip;
use crate::domain::ping::{Kind, Ping, Scheme};
use crate::domain::status::Status;
use crate::domain::timezone::Timezone;
use crate::domain::why;
use crate::domain::words::{Times, count, duration, size};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::frame::Frame;
use crate::web::hostile;
use crate::web::route::Page;
use crate::web::visit::Visit;
use crate::web::when::When;

/// Entries of a page of the log: see [limits](crate::docs::limits).
const ENTRIES: usize = 100;
/// Pings that are looked at for a log: see [limits](crate::docs::limits).
pub(super) const LOOKED_AT: u64 = 10_000;
/// The kinds of entries: name, and what people call them.
const KINDS: [(&str, &str); 6] =
    [("success", "Success"), ("start", "Start"), ("fail", "Failure"), ("log", "Note"), ("ign", "Ignored"), (FLIPS, "Status")];

/// An entry as it is shown.
pub(super) struct Row {
    /// What links to a ping point at.
    pub(super) id: String,
    pub(super) n: String,
    pub(super) pill: &'static str,
    pub(super) word: String,
    pub(super) text: String,
    pub(super) at: When,
    /// What is known of it besides.
    pub(super) facts: Vec<(&'static str, String)>,
    /// The page of the ping, and what it says of its body.
    pub(super) page: Option<(String, String)>,
}

#[derive(Template)]
#[template(path = "log.html", config = "src/web/askama.toml")]
struct Log {
    frame: Frame,
    top: Top,
    path: String,
    kinds: Vec<(&'static str, &'static str, bool)>,
    by_run: bool,
    zone: &'static str,
    zones: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    kept: String,
    older: Option<String>,
    newest: Option<String>,
}

/// The page.
pub(crate) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let check = visit.check()?;
    let pings = visit.handle().last_pings(check, LOOKED_AT)?;
    let (by_run, before) = (visit.query.get("group") == "run", visit.query.get("before").parse().ok());
    let chosen: Vec<_> = KINDS.iter().map(|(kind, _)| *kind).filter(|kind| visit.query.all("kind").any(|wanted| wanted == *kind)).collect();
    let (zone, zones) = zones(visit, check);
    let times = zones.iter().find(|(name, _)| *name == zone).map_or(times_of(check, visit), |(_, zone)| Times { now: visit.now, zone });
    let all = pings.last().is_none_or(|oldest| oldest.n == 1);
    let entries = if by_run { entries::runs(&pings) } else { entries::pings(&pings) };
    let entries = entries::with_flips(entries, &flips(visit, check)?, all);
    let part = entries::part(entries, &chosen, before, ENTRIES);
    let path = visit.link(&Page::Log(check.uuid));
    let at = |before: Option<u64>| {
        let kinds = chosen.iter().map(|kind| format!("kind={kind}"));
        let group = by_run.then(|| "group=run".to_owned());
        let query: Vec<_> = kinds.chain(group).chain([format!("zone={zone}")]).chain(before.map(|n| format!("before={n}"))).collect();
        format!("{path}?{}", query.join("&"))
    };
    let page = Log {
        frame: visit.frame(format!("Log of {}", crate::channel::words::name(&check.settings))),
        top: Top::of(visit)?,
        kinds: KINDS.map(|(kind, word)| (kind, word, chosen.contains(&kind))).to_vec(),
        by_run,
        zone,
        rows: part.entries.iter().map(|entry| row(visit, check, entry, &times)).collect(),
        kept: kept(check, &pings),
        older: part.older.map(|before| at(Some(before))),
        newest: before.map(|_| at(None)),
        zones: zones.into_iter().map(|(name, zone)| (name, zone.name().to_owned())).collect(),
        path,
    };
    Ok(Html::of(&page).into())
}

/// The newest entries, for the page of the check.
pub(super) fn newest(visit: &Visit, check: &Check, pings: &[Ping], flips: &[Flip], most: usize) -> Vec<Row> {
    let all = pings.last().is_none_or(|oldest| oldest.n == 1);
    let entries = entries::with_flips(entries::pings(pings), flips, all);
    let times = times_of(check, visit);
    entries::part(entries, &[], None, most).entries.iter().map(|entry| row(visit, check, entry, &times)).collect()
}

/// The zones in which times can be shown, and which of them is asked for.
fn zones(visit: &Visit, check: &Check) -> (&'static str, Vec<(&'static str, Timezone)>) {
    let mut zones = vec![("yours", visit.viewer.zone.clone()), ("utc", Timezone::utc())];
    if check.settings.schedule.is_some() {
        zones.insert(0, ("check", check.settings.tz.clone()));
    }
    let asked = visit.query.get("zone");
    let zone = zones.iter().find(|(name, _)| *name == asked).or(zones.first()).map_or("utc", |(name, _)| name);
    (zone, zones)
}

/// How much of the log there is.
fn kept(check: &Check, pings: &[Ping]) -> String {
    match (pings.len(), check.state.n_pings) {
        (0, 0) => "No pings yet.".into(),
        (kept, all) if kept as u64 == all => format!("{} in all.", count(kept, "ping")),
        (kept, all) => format!("The last {kept} of {all} pings are here."),
    }
}

fn row(visit: &Visit, check: &Check, entry: &Entry<'_>, times: &Times<'_>) -> Row {
    match entry {
        Entry::Ping(ping, took) => ping_row(visit, check, ping, *took, times),
        Entry::Flip(flip) => flip_row(*flip, times),
        Entry::Run(run) => run_row(visit, check, run, times),
    }
}

fn flip_row(flip: Flip, times: &Times<'_>) -> Row {
    let (verb, pill) = match flip.to {
        Status::Down => ("went down", "down"),
        Status::Up => ("came up", "up"),
        Status::Paused => ("was paused", ""),
        Status::New => ("was resumed", ""),
    };
    let text = format!("{verb}: {}", why::reason(flip.cause));
    let at = When::clock(flip.at, times);
    Row { id: String::new(), n: String::new(), pill, word: flip.to.name().into(), text, at, facts: Vec::new(), page: None }
}

fn ping_row(visit: &Visit, check: &Check, ping: &Ping, took: Option<i64>, times: &Times<'_>) -> Row {
    let (pill, word) = said(ping);
    let source = ping.origin.remote_addr.map_or_else(String::new, |from| format!("from {from}"));
    let took = took.map(|took| format!("took {}", duration(took)));
    let text = took.into_iter().chain([source]).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let facts = facts(visit, check, ping);
    let body = if ping.body_len == 0 { "All about it".to_owned() } else { format!("Body, {}", size(ping.body_len.into())) };
    let page = Some((visit.link(&Page::Ping(check.uuid, ping.n)), body));
    Row { id: format!("ping-{}", ping.n), n: ping.n.to_string(), pill, word, text, at: When::clock(ping.at, times), facts, page }
}

fn run_row(visit: &Visit, check: &Check, run: &Run<'_>, times: &Times<'_>) -> Row {
    let last = run.end.unwrap_or(run.start);
    let end = run.end.map(|end| times.at_second(end.at));
    let took = run.took.map(duration);
    let exit = run.end.and_then(|end| end.exit).map(|exit| format!("exit status {exit}"));
    let notes = (run.notes > 0).then(|| count(run.notes, "note"));
    let span = match &end {
        Some(end) => format!("{} – {end}", times.at_second(run.start.at)),
        None => format!("from {}, no end", times.at_second(run.start.at)),
    };
    let text = [Some(span), took, exit, notes].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let row = ping_row(visit, check, last, None, times);
    Row { text, ..row }
}

/// The pill and the word of a ping.
pub(super) fn said(ping: &Ping) -> (&'static str, String) {
    match (ping.kind, ping.exit) {
        (Kind::Success, _) => ("up", "success".into()),
        (Kind::Start, _) => ("accent", "start".into()),
        (Kind::Fail, Some(exit)) => ("down", format!("exit {exit}")),
        (Kind::Fail, None) => ("down", "failure".into()),
        (Kind::Log, _) => ("", "note".into()),
        (Kind::Ignored, _) => ("", "ignored".into()),
    }
}

/// What is known of a ping besides its kind.
pub(super) fn facts(visit: &Visit, check: &Check, ping: &Ping) -> Vec<(&'static str, String)> {
    let at = |zone: &Timezone| Times { now: visit.now, zone }.exact(ping.at);
    let own = check.settings.schedule.is_some().then(|| at(&check.settings.tz));
    let (yours, utc) = (at(&visit.viewer.zone), at(&Timezone::utc()));
    let mut facts = Vec::with_capacity(8);
    facts.extend(own.clone().filter(|own| *own != utc).map(|own| ("Check's time", own)));
    facts.extend(Some(yours).filter(|yours| Some(yours) != own.as_ref() && *yours != utc).map(|yours| ("Your time", yours)));
    facts.push(("UTC", utc));
    let how = match ping.origin.scheme {
        Scheme::Email => "mail".into(),
        scheme => format!("{} {}", scheme.name().to_uppercase(), ping.origin.method.name()),
    };
    let from = ping.origin.remote_addr.map_or_else(|| "an unknown address".into(), |from| from.to_string());
    facts.push(("Came by", format!("{how} from {from}")));
    if !ping.origin.ua.is_empty() {
        facts.push(("Sender", hostile::line(&ping.origin.ua)));
    }
    facts.extend(ping.rid.map(|rid| ("Run id", rid.to_string())));
    facts.extend(ping.exit.map(|exit| ("Exit status", exit.to_string())));
    facts
}
