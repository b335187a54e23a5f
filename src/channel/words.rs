//! Every sentence of an alert.

use crate::channel::alert::{
    Alert, Also, Attempt, Brief, CheckFacts, Closing, Delay, Fact, Facts, List, News, Output, PingFacts, Scene, Severity, Subject,
};
use crate::channel::render::clean::{lines, one_line};
use crate::domain::alert::Event;
use crate::domain::flip::{Cause, Flip};
use crate::domain::moment::Moment;
use crate::domain::ping::Kind;
use crate::domain::why::{self, Known};
use crate::domain::words::{Times, count, duration};

/// Bytes of a body that are worth showing; the widest channel, mail, shows that many.
const OUTPUT_BYTES: usize = 10_000;
/// Bytes of the longest address that pings a check, with room for what stands around it.
const LONGEST_ADDRESS: usize = 1_000;

/// What is said where an earlier try may have arrived.
pub fn repeat_mark(attempt: &Attempt) -> Option<&'static str> {
    attempt.doubtful.then_some("(This may be a repeat: it is not known whether an earlier try arrived.)")
}

/// The alert that tells these facts.
pub fn alert(facts: Facts, scene: Scene<'_>) -> Alert {
    match facts {
        Facts::Check(check, news) => of_check(*check, &news, scene),
        Facts::Digest { down, up } => digest(&down, &up, scene),
        Facts::Away { from, until, checks } => away(from, until, &checks, scene),
        Facts::Still(checks) => still(&checks, scene),
        Facts::Notice { title, text, over } => {
            let severity = if over { Severity::Good } else { Severity::Warning };
            let short = format!("{title}. {text}");
            Alert { lead: lines(&text), reason: title.clone(), short, ..bare(Event::Notice, severity, &title, scene) }
        }
    }
}

/// An alert that says nothing but its title.
fn bare(event: Event, severity: Severity, title: &str, scene: Scene<'_>) -> Alert {
    Alert {
        event,
        as_up: false,
        at: scene.now,
        severity,
        title: one_line(title),
        lead: String::new(),
        reason: String::new(),
        short: String::new(),
        description: String::new(),
        facts: Vec::new(),
        lists: Vec::new(),
        others: String::new(),
        output: None,
        link: None,
        host: scene.host.to_owned(),
        check: None,
    }
}

/// What a check is called.
pub fn name(settings: &crate::domain::check::Settings) -> String {
    let names = [settings.name.as_str(), settings.slug.as_str()].map(one_line);
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "A check without a name".into())
}

/// The title of a check that went down.
fn down_title(name: &str, cause: Cause) -> String {
    match cause {
        Cause::Exit(status) => format!("{name} failed with exit status {status}"),
        Cause::Fail | Cause::Keyword | Cause::NoKeyword => format!("{name} failed"),
        Cause::Overrun => format!("{name} does not finish"),
        Cause::Late | Cause::Edited | Cause::Success | Cause::Operator | Cause::Unknown => format!("{name} is down"),
    }
}

fn of_check(check: CheckFacts, news: &News, scene: Scene<'_>) -> Alert {
    let name = name(&check.settings);
    let zone = if check.settings.schedule.is_some() { &check.settings.tz } else { scene.zone };
    let times = Times { now: scene.now, zone };
    let mut alert = match news {
        News::Down { flip, also } => went_down(&name, &check, *flip, also, &times, scene),
        News::Up { flip, down, told, also } => came_up(&name, *flip, *down, *told, also, &times, scene),
        News::Closed { at, why } => closed(&name, *at, *why, &times, scene),
        News::Test { at, up, channel } => {
            let alert = bare(Event::Test, Severity::Info, "This is a test from overdue", scene);
            let server = if scene.host.is_empty() { String::new() } else { format!(" on {}", scene.host) };
            let place = format!("channel {} of project {}{server}", one_line(channel), one_line(&check.project));
            let lead = format!("Alerts of the {place} arrive here.");
            Alert { at: *at, as_up: *up, short: format!("TEST from overdue: {place}."), reason: "test".into(), lead, ..alert }
        }
    };
    let (cause, downtime) = match news {
        News::Down { flip, .. } => (flip.cause, Some((flip.at, None))),
        News::Up { flip, down, .. } => (down.cause, Some((down.at, Some(flip.at)))),
        News::Closed { .. } => (Cause::Operator, None),
        News::Test { .. } => (Cause::Unknown, None),
    };
    let unique_key = check.unique_key;
    let pages = scene.pages.filter(|_| alert.event != Event::Test);
    alert.link = pages.map(|base| format!("{}/cloaked/{unique_key}/", base.trim_end_matches('/')));
    if matches!(alert.event, Event::Down | Event::Up) {
        alert.facts = facts(&check, &times);
        alert.output = check.last_ping.as_ref().and_then(|ping| output(&check, ping));
        alert.others = others(&check);
    }
    if alert.event == Event::Down {
        alert.description = lines(check.settings.desc.as_str());
    }
    alert.check = Some(Subject { name, facts: check, cause, downtime });
    alert
}

fn went_down(name: &str, check: &CheckFacts, flip: Flip, also: &Also, times: &Times<'_>, scene: Scene<'_>) -> Alert {
    let took = check.last_ping.as_ref().filter(|_| !flip.cause.is_by_time()).and_then(|ping| ping.took);
    let why = why::sentence(flip, &check.settings, Known { last_success: check.last_success, took }, times);
    let short = match flip.cause {
        Cause::Late => {
            let expected = why::expected(flip, &check.settings, check.last_success);
            let expected = expected.map_or_else(String::new, |at| format!("Expected {}, nothing by", times.at(at)));
            let expected = if expected.is_empty() { "Nothing by" } else { &expected };
            format!("DOWN: {name}. {expected} {} ({}).", times.at(flip.at), times.zone.name())
        }
        _ => format!("DOWN: {name}. {why}"),
    };
    let mut lead = vec![why];
    if let Some(up) = also.up_since {
        lead.push(format!("Before that it was up for {}.", duration(flip.at.micros_since(up))));
    }
    lead.extend(changes(also, times));
    if let Some((from, until)) = also.away {
        lead.push(format!("overdue took no pings {}, so its ping may have been lost.", times.span(from, until)));
    }
    if let Some(window) = &also.window {
        lead.push(match one_line(window) {
            name if name.is_empty() => "It went down within a maintenance window.".to_owned(),
            name => format!("It went down within the maintenance window “{name}”."),
        });
    }
    lead.extend(also.delay.map(|delay| late(delay).to_owned()));
    let alert = bare(Event::Down, Severity::Bad, &down_title(name, flip.cause), scene);
    Alert { at: flip.at, lead: lead.join(" "), reason: why::reason(flip.cause), short, ..alert }
}

fn came_up(name: &str, flip: Flip, down: Flip, told: bool, also: &Also, times: &Times<'_>, scene: Scene<'_>) -> Alert {
    let reason = why::reason(down.cause);
    let was = format!("It was down for {}, {}", duration(flip.at.micros_since(down.at)), times.span(down.at, flip.at));
    let untold = if told { "" } else { not_told(also.delay) };
    let mut lead = vec![format!("{was} ({}){untold}. Reason: {reason}.", times.zone.name())];
    lead.extend(changes(also, times));
    let alert = bare(Event::Up, Severity::Good, &format!("{name} is up again"), scene);
    let short = format!("UP: {name}. {was}.");
    Alert { at: flip.at, lead: lead.join(" "), reason, short, ..alert }
}

fn closed(name: &str, at: Moment, why: Closing, times: &Times<'_>, scene: Scene<'_>) -> Alert {
    let at_time = format!("{} ({})", times.when(at), times.zone.name());
    let (title, lead, reason) = match why {
        Closing::Paused => (format!("{name} was paused"), format!("It was down when it was paused {at_time}."), "it was paused"),
        Closing::Deleted => (format!("{name} was deleted"), format!("It was down when it was deleted {at_time}."), "it was deleted"),
        Closing::Unassigned => {
            let title = format!("Alerts about {name} are no longer sent to this channel");
            // It may have come up since then.
            let lead = format!("It was down when alerts about it stopped going to this channel {at_time}.");
            (title, lead, "alerts about it are no longer sent to this channel")
        }
    };
    let alert = bare(Event::Closed, Severity::Info, &title, scene);
    Alert { at, short: format!("CLOSED: {name}. {lead}"), lead, reason: reason.into(), ..alert }
}

/// Why nobody was told of a downtime before it was over.
fn not_told(delay: Option<Delay>) -> &'static str {
    match delay {
        Some(Delay::Undelivered) => "; this could not be delivered earlier",
        Some(Delay::Quiet) => "; it was in the quiet hours of this channel",
        Some(Delay::DayLimit) => "; this channel had sent as many messages as most-a-day allows",
        Some(Delay::Calm) => "; it changed so often that messages about it were held back",
        None => "; this was not sent earlier",
    }
}

/// Why a message about a check that is down comes late.
fn late(delay: Delay) -> &'static str {
    match delay {
        Delay::Undelivered => "This message is late: it could not be delivered earlier.",
        Delay::Quiet => "This message waited for the end of the channel's quiet hours.",
        Delay::DayLimit => "This message is late: the channel had sent as many messages as most-a-day allows.",
        Delay::Calm => "This message is late: the check changed so often that messages about it were held back.",
    }
}

fn changes(also: &Also, times: &Times<'_>) -> Option<String> {
    also.changes.map(|(changes, since)| format!("It changed {} since {}.", count(changes.into(), "time"), times.at(since)))
}

fn facts(check: &CheckFacts, times: &Times<'_>) -> Vec<Fact> {
    let settings = &check.settings;
    let grace = duration(Moment::from_secs(settings.grace.get()).micros());
    let zone = settings.schedule.as_ref().map_or_else(String::new, |_| format!(" ({})", settings.tz.name()));
    let tags: Vec<_> = settings.tags.iter().map(one_line).collect();
    let last_ping = check.last_ping.as_ref();
    let success = check.last_success.filter(|at| last_ping.is_none_or(|ping| ping.at != *at));
    let mail = last_ping.and_then(|ping| ping.mail.as_ref());
    let subject = mail.map(|mail| check.without_ping_addresses(&one_line(&mail.subject)).into_owned());
    let known = [
        ("Project", Some(one_line(&check.project))),
        ("Tags", (!tags.is_empty()).then(|| tags.join(", "))),
        ("Schedule", Some(format!("{}{zone}, {grace} of grace", settings.in_words()))),
        // What is not known any more is left out.
        ("Last ping", last_ping.map(|ping| said_of(ping, times)).or_else(|| (check.n_pings == 0).then(|| "none".into()))),
        ("Subject", subject.filter(|subject| !subject.is_empty())),
        ("Last success", success.map(|at| times.at(at))),
        ("Failures in a row", (check.failures > 1).then(|| check.failures.to_string())),
        ("Pings", Some(check.n_pings.to_string())),
    ];
    known.into_iter().filter_map(|(label, value)| Some(Fact { label, value: value.filter(|value| !value.is_empty())? })).collect()
}

/// A ping in half a line: when, what, how long, from where.
fn said_of(ping: &PingFacts, times: &Times<'_>) -> String {
    let what = match (ping.kind, ping.exit) {
        (Kind::Success, _) => "success".into(),
        (Kind::Fail, Some(status)) => format!("exit status {status}"),
        (Kind::Fail, None) => "failure".into(),
        (Kind::Start, _) => "start".into(),
        (Kind::Log, _) => "note".into(),
        (Kind::Ignored, _) => "ignored".to_owned(),
    };
    let took = ping.took.map(|took| format!("took {}", duration(took)));
    let from = ping.from.map(|from| format!("from {from}"));
    [Some(times.at(ping.at)), Some(what), took, from].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The end of what a ping sent; of a mail, the end of its text. What would let its reader ping is masked before it is cut, so that no part
/// of it is left.
fn output(check: &CheckFacts, ping: &PingFacts) -> Option<Output> {
    let (sent, label) = match &ping.mail {
        Some(mail) => (mail.text.as_bytes(), "The last lines of its mail:"),
        None => (ping.body.as_slice(), "The last lines it sent:"),
    };
    let start = sent.len().saturating_sub(OUTPUT_BYTES + LONGEST_ADDRESS);
    let text = lines(&String::from_utf8_lossy(sent.get(start..).unwrap_or_default()));
    let text = check.without_ping_addresses(&text);
    let cut = text.ceil_char_boundary(text.len().saturating_sub(OUTPUT_BYTES));
    let text = text.get(cut..).unwrap_or_default();
    let is_cut = start > 0 || cut > 0;
    let text = if is_cut { text.trim_start_matches('\u{fffd}') } else { text }.trim_end().trim_start_matches('\n').to_owned();
    (!text.is_empty()).then_some(Output { label, text })
}

fn others(check: &CheckFacts) -> String {
    let names: Vec<_> = check.others_down.iter().map(|name| one_line(name)).collect();
    let more = check.others.saturating_sub(names.len());
    match (names.is_empty(), more) {
        (true, 0) => "All other checks of the project are up.".into(),
        (true, more) => format!("Also down: {}.", count(more, "check")),
        (false, 0) => format!("Also down: {}.", names.join(", ")),
        (false, more) => format!("Also down: {} and {more} more.", names.join(", ")),
    }
}

/// A check of a list with why it is down.
fn item(brief: &Brief, times: &Times<'_>) -> String {
    let why = match brief.cause {
        Cause::Late | Cause::Edited => match brief.last_success {
            Some(success) => format!("no signal since {}", times.at(success)),
            None => "no success signal is known".into(),
        },
        Cause::Exit(status) => format!("exit status {status} {}", times.when(brief.since)),
        Cause::Overrun => format!("did not finish by {}", times.at(brief.since)),
        cause => format!("{} {}", why::reason(cause), times.when(brief.since)),
    };
    format!("{} ({why})", one_line(&brief.name))
}

fn digest(down: &[Brief], up: &[Brief], scene: Scene<'_>) -> Alert {
    let times = Times { now: scene.now, zone: scene.zone };
    let (title, severity) = match (down.len(), up.len()) {
        (0, up) => (format!("{} again", are_up(up)), Severity::Good),
        (down, 0) => (format!("{} went down", count(down, "check")), Severity::Bad),
        (down, up) => (format!("{} went down, {up} {} up again", count(down, "check"), if up == 1 { "is" } else { "are" }), Severity::Bad),
    };
    let event = if down.is_empty() { Event::Up } else { Event::Down };
    let list = |heading, items: Vec<String>| List { heading, items };
    let downs = down.iter().map(|brief| item(brief, &times)).collect();
    let ups = up.iter().map(|brief| one_line(&brief.name)).collect();
    let lists = [list("Down:", downs), list("Up again:", ups)].into_iter().filter(|list| !list.items.is_empty()).collect();
    several(event, severity, &title, String::new(), lists, down.first().or(up.first()), scene)
}

fn are_up(number: usize) -> String {
    format!("{} {} up", count(number, "check"), if number == 1 { "is" } else { "are" })
}

fn away(from: Moment, until: Moment, checks: &[Brief], scene: Scene<'_>) -> Alert {
    let times = Times { now: scene.now, zone: scene.zone };
    let own = if checks.len() == 1 { "its" } else { "their" };
    let title = format!("{} may have missed {own} reports", count(checks.len(), "check"));
    let span = times.span(from, until);
    let lead = format!(
        "overdue could take no pings {span} ({}), {} in all. These checks fell due in that time and have not reported since. Their pings may \
         have been lost.",
        times.zone.name(),
        duration(until.micros_since(from))
    );
    let items = checks.iter().map(|brief| item(brief, &times)).collect();
    several(Event::Down, Severity::Warning, &title, lead, vec![List { heading: "Checks:", items }], checks.first(), scene)
}

fn still(checks: &[Brief], scene: Scene<'_>) -> Alert {
    let times = Times { now: scene.now, zone: scene.zone };
    let since = |brief: &Brief| format!("for {}, since {}", duration(scene.now.micros_since(brief.since)), times.at(brief.since));
    if let [brief] = checks {
        let title = format!("{} is still down, {}", brief.name, since(brief));
        let lead = format!("Reason: {}.", why::reason(brief.cause));
        return several(Event::Still, Severity::Bad, &title, lead, Vec::new(), Some(brief), scene);
    }
    let items = checks.iter().map(|brief| format!("{} ({})", one_line(&brief.name), since(brief))).collect();
    let title = format!("{} are still down", count(checks.len(), "check"));
    several(Event::Still, Severity::Bad, &title, String::new(), vec![List { heading: "Down:", items }], checks.first(), scene)
}

/// News of several checks of one project, which `one` of them names.
fn several(event: Event, severity: Severity, title: &str, lead: String, lists: Vec<List>, one: Option<&Brief>, scene: Scene<'_>) -> Alert {
    let project = one.map(|one| one_line(&one.project)).filter(|project| !project.is_empty());
    let title = project.map_or_else(|| title.to_owned(), |project| format!("{project}: {title}"));
    let page = |base: &str| Some(format!("{}/projects/{}/checks/", base.trim_end_matches('/'), one?.project_uuid?));
    let names = lists.iter().flat_map(|list| &list.items).map(String::as_str).collect::<Vec<_>>().join("; ");
    let short = if names.is_empty() { format!("{title}. {lead}") } else { format!("{title}: {names}") };
    let link = scene.pages.and_then(page);
    Alert { lead, reason: title.clone(), short, lists, link, ..bare(event, severity, &title, scene) }
}
