//! The page of a check: its status in a sentence, how to ping it, when it is expected, who is told, and how it has been.

use askama::Template;

use super::history::{self, Bar, Month};
use super::log::{self, LOOKED_AT, Row};
use super::plot::{self, Plot};
use super::preview::{Next, next_runs};
use super::told::{self, Sent, Told};
use super::{Top, flips, times_of};
use crate::domain::check::Check;
use crate::domain::clock_changes::surprises;
use crate::domain::diagnosis::{self, Diagnosis, diagnose};
use crate::domain::flip::Flip;
use crate::domain::moment::Moment;
use crate::domain::ping::{Kind, Ping, durations};
use crate::domain::status::{Status, VisibleStatus};
use crate::domain::timezone::Timezone;
use crate::domain::uptime;
use crate::domain::why::{self, Known, Standing};
use crate::domain::words::{Times, count, duration};
use crate::web::answer::{Done, Html};
use crate::web::error::Trouble;
use crate::web::frame::Frame;
use crate::web::hostile::{Piece, pieces};
use crate::web::live::Place;
use crate::web::route::{Need, Page};
use crate::web::snippet::{Address, Snippet, snippets};
use crate::web::visit::Visit;
use crate::web::when::When;

/// Entries of the log on this page; all are on its own.
const FEW_ENTRIES: usize = 20;
/// Runs in the picture of durations: see [limits](crate::docs::limits).
const DRAWN_RUNS: usize = 500;
/// Runs in the table below it.
const LISTED_RUNS: usize = 30;
/// Moments of the schedule that are shown.
const NEXT_RUNS: usize = 5;
/// Checks of the project whose zones are tried for a diagnosis.
const ZONES_LOOKED_AT: usize = 200;

#[derive(Template)]
#[template(path = "check.html", config = "src/web/askama.toml")]
struct Detail {
    frame: Frame,
    top: Top,
    present: Present,
    live: Option<Place>,
    /// The source of files that owns it.
    declared_in: Option<String>,
    /// Nothing has pinged it yet.
    is_fresh: bool,
    url: String,
    other_form: Option<OtherForm>,
    snippets: Vec<Snippet>,
    expected: String,
    next: Vec<Next>,
    surprises: Vec<String>,
    diagnosis: Option<(String, String)>,
    told: Vec<Told>,
    /// What was told of it last.
    deliveries: Vec<Sent>,
    /// Names and pages of what it depends on.
    parents: Vec<(String, String)>,
    after: String,
    tags: Vec<String>,
    description: Vec<Piece>,
    overall: Option<String>,
    bar: Bar,
    months: Vec<Month>,
    cut: Option<String>,
    plot: Option<Plot>,
    runs: Vec<(When, String, bool)>,
}

/// What of it changes as pings come, for the script that shows it.
#[derive(Template)]
#[template(path = "_check.html", config = "src/web/askama.toml")]
struct Alone {
    present: Present,
}

/// What changes as pings come.
struct Present {
    standing: Standing,
    shape: &'static str,
    is_running: bool,
    last: String,
    may_write: bool,
    is_paused: bool,
    links: Links,
    rows: Vec<Row>,
}

impl Present {
    fn of(visit: &Visit, check: &Check, read: &Read) -> Self {
        let times = times_of(check, visit);
        let standing = why::standing(check, read.last_flip, read.known(), &times);
        Self {
            shape: shape(standing.status),
            is_running: check.state.run.is_some(),
            last: last_words(visit, check, &read.pings, &times),
            may_write: visit.may(Need::Write),
            is_paused: check.state.status == Status::Paused,
            links: links(visit, check),
            rows: log::newest(visit, check, &read.pings, &read.flips, FEW_ENTRIES),
            standing,
        }
    }
}

/// The other form of the ping URL.
struct OtherForm {
    /// What it is by.
    by: &'static str,
    /// Where the page shows it.
    link: String,
}

/// Where its forms and buttons lead.
struct Links {
    pause: String,
    resume: String,
    ping: String,
    edit: String,
    copy: String,
    remove: String,
    channels: String,
    zone: String,
    log: String,
    integrations: String,
}

/// What was read of the check for the page.
struct Read {
    pings: Vec<Ping>,
    took: Vec<Option<i64>>,
    flips: Vec<Flip>,
    last_flip: Option<Flip>,
}

impl Read {
    fn of(visit: &Visit, check: &Check) -> Result<Self, Trouble> {
        let pings = visit.handle().last_pings(check, LOOKED_AT)?;
        let last_flip = visit.handle().flip(check.state.last_flip)?.filter(|logged| logged.check == check.id);
        Ok(Self { took: durations(&pings), flips: flips(visit, check)?, last_flip: last_flip.map(|logged| logged.flip), pings })
    }

    /// What is known of the change that took the check down.
    fn known(&self) -> Known {
        let at = self.last_flip.map_or(Moment::from_micros(i64::MAX), |flip| flip.at);
        let before = || self.pings.iter().zip(&self.took).filter(|(ping, _)| ping.at <= at);
        let ended = before().find(|(ping, _)| ping.at == at && ping.kind == Kind::Fail);
        Known {
            last_success: before().find(|(ping, _)| ping.kind == Kind::Success).map(|(ping, _)| ping.at),
            took: ended.and_then(|(_, took)| *took),
        }
    }

    /// The runs that were measured, oldest first.
    fn runs(&self) -> Vec<plot::Run> {
        let run = |(ping, took): (&Ping, &Option<i64>)| Some(plot::Run { end: ping.at, took: (*took)?, failed: ping.kind == Kind::Fail });
        let mut runs: Vec<_> = self.pings.iter().zip(&self.took).filter_map(run).take(DRAWN_RUNS).collect();
        runs.reverse();
        runs
    }

    /// When the last runs began, or ended where nothing else is known.
    fn began(&self) -> Vec<Moment> {
        let ends = self.pings.iter().zip(&self.took).filter(|(ping, _)| matches!(ping.kind, Kind::Success | Kind::Fail));
        ends.take(diagnosis::MOST_RUNS).map(|(ping, took)| ping.at.plus_micros(-took.unwrap_or(0))).collect()
    }
}

/// The page.
pub(crate) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let (live, check) = (visit.live(), visit.check()?);
    let read = Read::of(visit, check)?;
    let present = Present::of(visit, check, &read);
    if &*visit.fragment == "check" {
        return Ok(Html::of(&Alone { present }).into());
    }
    let times = times_of(check, visit);
    let yours = Times { now: visit.now, zone: &visit.viewer.zone };
    let history = uptime::history(&read.flips, check.state.status, visit.now, &visit.viewer.zone);
    let schedule = check.settings.schedule.as_ref();
    let runs = read.runs();
    let (url, other_form) = urls(visit, check)?;
    let shows_key = other_form.as_ref().is_some_and(|form| form.by == "UUID");
    let mail = visit.site.mail_address(check.uuid);
    let description = check.settings.desc.as_str();
    let page = Detail {
        frame: visit.frame(crate::channel::words::name(&check.settings)).pictured(present.standing.status),
        top: Top::of(visit)?,
        present,
        live,
        declared_in: visit.declared_in(check.id.0),
        is_fresh: check.state.n_pings == 0,
        snippets: snippets(Address { url: &url, mail: mail.as_deref() }),
        url,
        other_form,
        expected: expected(check),
        next: schedule.map_or_else(Vec::new, |schedule| next_runs(schedule, &check.settings.tz, NEXT_RUNS, &yours)),
        surprises: schedule.map_or_else(Vec::new, |schedule| surprises(schedule, &check.settings.tz, visit.now)),
        diagnosis: wrong_zone(visit, check, &read).map(|found| (found.in_words(), found.zone.name().to_owned())),
        told: told::channels(visit, check),
        deliveries: told::deliveries(visit, check)?,
        parents: told::parents(visit, check),
        after: after(check),
        tags: check.settings.tags.iter().map(str::to_owned).collect(),
        description: if description.trim().is_empty() { Vec::new() } else { pieces(description) },
        overall: history::overall(&history),
        bar: history::bar(&history, &yours),
        months: history::months(&history, &yours),
        cut: history.cut.map(|cut| yours.at(cut)),
        plot: plot::plot(&runs),
        runs: runs.iter().rev().take(LISTED_RUNS).map(|run| (When::clock(run.end, &times), duration(run.took), run.failed)).collect(),
    };
    let html = Html::of(&page);
    Ok(if shows_key { html.secret() } else { html }.into())
}

/// The word for a status that picks its shape.
pub(super) fn shape(status: VisibleStatus) -> &'static str {
    if status == VisibleStatus::Grace { "late" } else { status.name() }
}

/// What came last and what comes next, where the banner does not say it.
fn last_words(visit: &Visit, check: &Check, pings: &[Ping], times: &Times<'_>) -> String {
    let last = pings.first().map(|ping| format!("Last ping {}, {}.", times.at(ping.at), log::said(ping).1));
    let is_down = check.state.visible_status(&check.settings, visit.now) == VisibleStatus::Down;
    let next = check.settings.schedule.as_ref().filter(|_| is_down).and_then(|schedule| schedule.next_after(visit.now, &check.settings.tz));
    let next = next.map(|at| format!("Next run: {} ({}).", times.at(at), times.relative(at)));
    [last, next].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// When it is expected, in words.
fn expected(check: &Check) -> String {
    let settings = &check.settings;
    let zone = settings.schedule.as_ref().map_or_else(String::new, |_| format!(" in {}", settings.tz.name()));
    format!("{}{zone}, {} of grace", settings.in_words(), duration(Moment::from_secs(settings.grace.get()).micros()))
}

fn after(check: &Check) -> String {
    match check.settings.after.get() {
        1 => String::new(),
        after => format!("Told after {} in a row.", count(after.into(), "failure")),
    }
}

fn links(visit: &Visit, check: &Check) -> Links {
    let uuid = check.uuid;
    Links {
        pause: visit.onward(&Page::PauseCheck(uuid)),
        resume: visit.onward(&Page::ResumeCheck(uuid)),
        ping: visit.onward(&Page::PingCheck(uuid)),
        edit: visit.onward(&Page::EditCheck(uuid)),
        copy: visit.onward(&Page::CopyCheck(uuid)),
        remove: visit.onward(&Page::RemoveCheck(uuid)),
        channels: visit.onward(&Page::ChannelsOfCheck(uuid)),
        zone: visit.onward(&Page::ZoneOfCheck(uuid)),
        log: visit.onward(&Page::Log(uuid)),
        integrations: visit.project().map_or_else(|_| String::new(), |project| visit.link(&Page::Integrations(project.uuid))),
    }
}

/// The ping URL in the form that is asked for, and the other form if there are two. That by slug holds the ping key of the project, which
/// makes checks, so only those who may change the project see it.
fn urls(visit: &Visit, check: &Check) -> Result<(String, Option<OtherForm>), Trouble> {
    let by_uuid = visit.site.ping_url(check.uuid);
    let by_slug = if visit.may(Need::Write) { visit.site.slug_url(visit.project()?.id, &check.settings.slug) } else { None };
    let here = visit.onward(&Page::Check(check.uuid));
    let mark = if here.contains('?') { '&' } else { '?' };
    Ok(match by_slug {
        Some(by_slug) if visit.query.get("by") == "slug" => (by_slug, Some(OtherForm { by: "UUID", link: here })),
        Some(_) => (by_uuid, Some(OtherForm { by: "slug", link: format!("{here}{mark}by=slug") })),
        None => (by_uuid, None),
    })
}

/// That the pings of a check come as if its zone were another one, in words.
pub(super) fn diagnosed(visit: &Visit, check: &Check) -> Result<Option<String>, Trouble> {
    Ok(wrong_zone(visit, check, &Read::of(visit, check)?).map(|found| found.in_words()))
}

/// The zone in which the pings of a check would fit its schedule, if they do not in its own.
fn wrong_zone(visit: &Visit, check: &Check, read: &Read) -> Option<Diagnosis> {
    let schedule = check.settings.schedule.as_ref()?;
    let mut zones = vec![visit.viewer.zone.clone(), Timezone::utc()];
    visit.handle().with_state(|state| {
        for other in state.checks_of(check.project).take(ZONES_LOOKED_AT) {
            if !zones.contains(&other.settings.tz) {
                zones.push(other.settings.tz.clone());
            }
        }
    });
    diagnose(schedule, &check.settings.tz, &read.began(), &zones)
}
