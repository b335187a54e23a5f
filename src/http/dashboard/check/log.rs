//! Log of a check: its pings and their effects, with the flips between them.

use askama::Template;

use super::log_entries::{self, FLIP_KIND, LogEntry, LoggedRun};
use super::ping_details::first_line;
use super::{CheckHeader, check_time_formatter, recent_flips};
use crate::domain::check::Check;
use crate::domain::explanation;
use crate::domain::flip::Flip;
use crate::domain::formatting::{TimeFormatter, format_count, format_duration, format_size};
use crate::domain::ping::{Ping, PingKind, PingScheme};
use crate::domain::status::Status;
use crate::domain::timezone::Timezone;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::http::dashboard::time_display::DisplayTime;
use crate::http::dashboard::untrusted_text;

/// Maximum number of entries on a page of the log: see [limits](crate::docs::limits).
const ENTRIES_PER_PAGE: usize = 100;
/// Maximum number of pings read for a log: see [limits](crate::docs::limits).
pub(super) const MAX_PINGS_READ: u64 = 10_000;
/// Kinds of entries: name and label.
const ENTRY_KINDS: [(&str, &str); 6] = [
    ("success", "Success"),
    ("start", "Start"),
    ("fail", "Failure"),
    ("log", "Note"),
    ("ign", "Ignored"),
    (FLIP_KIND, "Status"),
];

/// A log entry, formatted.
pub(super) struct LogRow {
    /// Anchor for links to a ping.
    pub(super) id: String,
    pub(super) n: String,
    pub(super) style: &'static str,
    pub(super) word: String,
    pub(super) text: String,
    pub(super) at: DisplayTime,
    /// Further details.
    pub(super) facts: Vec<(&'static str, String)>,
    /// True if the entry is a ping with a body.
    pub(super) has_body: bool,
    /// URL of the page of the ping, and a description of its body.
    pub(super) page: Option<(String, String)>,
}

#[derive(Template)]
#[template(path = "log.html", config = "src/http/dashboard/askama.toml")]
struct CheckLogPage {
    layout: Layout,
    top: CheckHeader,
    path: String,
    kinds: Vec<(&'static str, &'static str, bool)>,
    by_run: bool,
    zone: &'static str,
    zones: Vec<(&'static str, String)>,
    rows: Vec<LogRow>,
    kept: String,
    older: Option<String>,
    newest: Option<String>,
}

pub(crate) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let pings = request.handle().newest_pings(check, MAX_PINGS_READ)?;
    let by_run = request.query.get("group") == "run";
    let before = request.query.get("before").parse().ok();
    let chosen: Vec<_> = ENTRY_KINDS
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| request.query.get_all("kind").any(|wanted| wanted == *kind))
        .collect();
    let (zone, zones) = zone_options(request, check);
    let times = zones.iter().find(|(name, _)| *name == zone).map_or(
        check_time_formatter(check, request),
        |(_, zone)| TimeFormatter {
            now: request.now,
            zone,
        },
    );
    let all = pings.last().is_none_or(|oldest| oldest.n == 1);
    let entries = if by_run {
        log_entries::run_entries(&pings)
    } else {
        log_entries::ping_entries(&pings)
    };
    let entries = log_entries::merge_flips(entries, &recent_flips(request, check)?, all);
    let part = log_entries::slice_log(entries, &chosen, before, ENTRIES_PER_PAGE);
    let path = request.page_url(&Page::Log(check.uuid));
    let at = |before: Option<u64>| {
        let kinds = chosen.iter().map(|kind| format!("kind={kind}"));
        let group = by_run.then(|| "group=run".to_owned());
        let query: Vec<_> = kinds
            .chain(group)
            .chain([format!("zone={zone}")])
            .chain(before.map(|n| format!("before={n}")))
            .collect();
        format!("{path}?{}", query.join("&"))
    };
    let page = CheckLogPage {
        layout: request.layout(format!(
            "Log of {}",
            crate::channels::alert_text::check_display_name(&check.settings)
        )),
        top: CheckHeader::new(request)?,
        kinds: ENTRY_KINDS
            .map(|(kind, word)| (kind, word, chosen.contains(&kind)))
            .to_vec(),
        by_run,
        zone,
        rows: part
            .entries
            .iter()
            .map(|entry| log_row(request, check, entry, &times))
            .collect(),
        kept: kept_text(check, &pings),
        older: part.older.map(|before| at(Some(before))),
        newest: before.map(|_| at(None)),
        zones: zones
            .into_iter()
            .map(|(name, zone)| (name, zone.name().to_owned()))
            .collect(),
        path,
    };
    Ok(HtmlPage::from_template(&page).into())
}

/// Newest entries, for the page of the check.
pub(super) fn newest_rows(
    request: &PageRequest,
    check: &Check,
    pings: &[Ping],
    flips: &[Flip],
    most: usize,
) -> Vec<LogRow> {
    let all = pings.last().is_none_or(|oldest| oldest.n == 1);
    let entries = log_entries::merge_flips(log_entries::ping_entries(pings), flips, all);
    let times = check_time_formatter(check, request);
    log_entries::slice_log(entries, &[], None, most)
        .entries
        .iter()
        .map(|entry| log_row(request, check, entry, &times))
        .collect()
}

/// Time zones to choose from, and the name of the selected one.
fn zone_options(
    request: &PageRequest,
    check: &Check,
) -> (&'static str, Vec<(&'static str, Timezone)>) {
    let mut zones = vec![
        ("yours", request.viewer.zone.clone()),
        ("utc", Timezone::utc()),
    ];
    if check.settings.schedule.is_some() {
        zones.insert(0, ("check", check.settings.tz.clone()));
    }
    let requested_zone = request.query.get("zone");
    let zone = zones
        .iter()
        .find(|(name, _)| *name == requested_zone)
        .or(zones.first())
        .map_or("utc", |(name, _)| name);
    (zone, zones)
}

/// Number of pings that are stored, as text.
fn kept_text(check: &Check, pings: &[Ping]) -> String {
    match (pings.len(), check.state.n_pings) {
        (0, 0) => "No pings yet.".into(),
        (kept, all) if kept as u64 == all => format!("{} in total.", format_count(kept, "ping")),
        (kept, all) => format!("The last {kept} of {all} pings are stored."),
    }
}

fn log_row(
    request: &PageRequest,
    check: &Check,
    entry: &LogEntry<'_>,
    times: &TimeFormatter<'_>,
) -> LogRow {
    match entry {
        LogEntry::Ping(ping, took) => ping_row(request, check, ping, *took, times),
        LogEntry::Flip(flip) => flip_row(*flip, times),
        LogEntry::Run(run) => run_row(request, check, run, times),
    }
}

fn flip_row(flip: Flip, times: &TimeFormatter<'_>) -> LogRow {
    let (verb, style) = match flip.to {
        Status::Down => ("went down", "down"),
        Status::Up => ("came up", "up"),
        Status::Paused => ("was paused", ""),
        Status::New => ("was resumed", ""),
    };
    let text = format!("{verb}: {}", explanation::short_reason(flip.cause));
    let at = DisplayTime::clock_time(flip.at, times);
    LogRow {
        id: String::new(),
        n: String::new(),
        style,
        word: flip.to.name().into(),
        text,
        at,
        facts: Vec::new(),
        has_body: false,
        page: None,
    }
}

fn ping_row(
    request: &PageRequest,
    check: &Check,
    ping: &Ping,
    took: Option<i64>,
    times: &TimeFormatter<'_>,
) -> LogRow {
    let (style, word) = ping_label(ping);
    let source = ping
        .origin
        .remote_addr
        .map_or_else(String::new, |from| format!("from {from}"));
    let took = took.map(|took| format!("took {}", format_duration(took)));
    let line = first_line(request, check, ping);
    // The origin is among the details. Without a body it tells pings apart.
    let source = if line.is_some() {
        String::new()
    } else {
        source
    };
    let text = took
        .into_iter()
        .chain(line)
        .chain([source])
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    let facts = ping_facts(request, check, ping);
    let body = if ping.body_len == 0 {
        "Details".to_owned()
    } else {
        format!("Body, {}", format_size(ping.body_len.into()))
    };
    let page = Some((request.page_url(&Page::Ping(check.uuid, ping.n)), body));
    LogRow {
        id: format!("ping-{}", ping.n),
        n: ping.n.to_string(),
        style,
        word,
        text,
        at: DisplayTime::clock_time(ping.at, times),
        facts,
        has_body: ping.body_len > 0,
        page,
    }
}

fn run_row(
    request: &PageRequest,
    check: &Check,
    run: &LoggedRun<'_>,
    times: &TimeFormatter<'_>,
) -> LogRow {
    let last = run.end.unwrap_or(run.start);
    let end = run.end.map(|end| times.at_second(end.at));
    let took = run.took.map(format_duration);
    let exit = run
        .end
        .and_then(|end| end.exit_status)
        .map(|exit| format!("exit status {exit}"));
    let notes = (run.notes > 0).then(|| format_count(run.notes, "note"));
    let span = match &end {
        Some(end) => format!("{} – {end}", times.at_second(run.start.at)),
        None => format!("from {}, no end", times.at_second(run.start.at)),
    };
    let text = [Some(span), took, exit, notes]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ");
    let row = ping_row(request, check, last, None, times);
    LogRow { text, ..row }
}

/// Style and label of a ping.
pub(super) fn ping_label(ping: &Ping) -> (&'static str, String) {
    match (ping.kind, ping.exit_status) {
        (PingKind::Success, _) => ("up", "success".into()),
        (PingKind::Start, _) => ("accent", "start".into()),
        (PingKind::Fail, Some(exit)) => ("down", format!("exit {exit}")),
        (PingKind::Fail, None) => ("down", "failure".into()),
        (PingKind::Log, _) => ("", "note".into()),
        (PingKind::Ignored, _) => ("", "ignored".into()),
    }
}

/// Details of a ping besides its kind.
pub(super) fn ping_facts(
    request: &PageRequest,
    check: &Check,
    ping: &Ping,
) -> Vec<(&'static str, String)> {
    let at = |zone: &Timezone| {
        TimeFormatter {
            now: request.now,
            zone,
        }
        .exact(ping.at)
    };
    let own = check
        .settings
        .schedule
        .is_some()
        .then(|| at(&check.settings.tz));
    let yours = at(&request.viewer.zone);
    let utc = at(&Timezone::utc());
    let mut facts = Vec::with_capacity(8);
    facts.extend(
        own.clone()
            .filter(|own| *own != utc)
            .map(|own| ("Check's time", own)),
    );
    facts.extend(
        Some(yours)
            .filter(|yours| Some(yours) != own.as_ref() && *yours != utc)
            .map(|yours| ("Your time", yours)),
    );
    facts.push(("UTC", utc));
    let how = match ping.origin.scheme {
        PingScheme::Email => "mail".into(),
        scheme => format!(
            "{} {}",
            scheme.name().to_uppercase(),
            ping.origin.method.name()
        ),
    };
    let from = ping
        .origin
        .remote_addr
        .map_or_else(|| "an unknown address".into(), |from| from.to_string());
    facts.push(("Received", format!("{how} from {from}")));
    if !ping.origin.user_agent.is_empty() {
        facts.push((
            "Sender",
            untrusted_text::sanitize_line(&ping.origin.user_agent),
        ));
    }
    facts.extend(ping.rid.map(|rid| ("Run id", rid.to_string())));
    facts.extend(
        ping.exit_status
            .map(|exit| ("Exit status", exit.to_string())),
    );
    facts
}
