//! The list of checks of a project.

mod back;
mod bulk;
mod query;
mod row;

use std::collections::{BTreeMap, HashSet};

use askama::Template;

use super::answer::{Done, Html};
use super::error::Trouble;
use super::frame::Frame;
use super::live::Place;
use super::notice::Note;
use super::route::{Need, Page};
use super::visit::Visit;
use crate::domain::ids::ChannelId;
use crate::domain::project::{Channel, PingKey, Secret};
use crate::domain::text::Slug;
use crate::domain::user::taste::{ListTaste, Order};
use crate::domain::words::count;
use crate::wire::route::creating_ping_url;
pub(super) use back::Back;
use bulk::Given;
pub(super) use bulk::act;
pub(super) use query::Shown;
use query::{By, Filter, Item, Wanted, page};
use row::Row;
pub(super) use row::{Next, took};

/// Tags in the menu. Whoever has more finds the others by searching.
const MOST_TAGS_SHOWN: usize = 200;
/// The slug of the check that whoever has none is shown how to make.
const FIRST_SLUG: &str = "my-first-check";

#[derive(Template)]
#[template(path = "checks.html", config = "src/web/askama.toml")]
struct ListPage {
    frame: Frame,
    list: List,
    live: Option<Place>,
}

/// The tiles and the rows alone, for the script that searches without loading the page anew.
#[derive(Template)]
#[template(path = "_list.html", config = "src/web/askama.toml")]
struct ListAlone {
    list: List,
}

/// What the templates show.
struct List {
    wanted: Wanted,
    here: String,
    tiles: Vec<Tile>,
    tags: Vec<TagBox>,
    rows: Vec<Row>,
    /// The checks of the project, and those of them that are in the list.
    all: usize,
    found: usize,
    /// The URL that makes a first check; `None`: there are some, or the viewer may make none.
    first: Option<String>,
    /// Where ping keys are made.
    keys: String,
    /// The form for a new check, for who may make one.
    add: Option<String>,
    /// What the URLs of pings by UUID begin with.
    ping: String,
    /// Where what is done to many is sent, for who may.
    bulk: Option<String>,
    /// Where it is told how lists are to be shown from now on, for who has an account.
    account: Option<String>,
    /// The channels of the project, by UUID and name.
    channels: Vec<(String, String)>,
    /// What was ticked and typed below the list, where that was not enough to act on.
    given: Option<Given>,
}

/// A status with the number of checks in it. It is a link that takes it into the filter, or out of it.
struct Tile {
    shown: Shown,
    count: usize,
    is_on: bool,
    link: String,
}

/// A tag in the menu.
struct TagBox {
    tag: String,
    worst: Shown,
    is_on: bool,
}

/// What one look at all checks of the project gives.
#[derive(Default)]
struct Seen {
    all: usize,
    untold: usize,
    counts: BTreeMap<Shown, usize>,
    tags: BTreeMap<String, Shown>,
    items: Vec<Item>,
}

/// The page, or its rows alone.
pub(super) fn show(visit: &Visit) -> Result<Done, Trouble> {
    let wanted = Wanted::read(&visit.query.0, visit.viewer.list);
    Ok(page_of(visit, wanted, bulk::told(&visit.query), None)?.into())
}

/// The list that is wanted, below this note.
fn page_of(visit: &Visit, wanted: Wanted, note: Option<Note>, given: Option<Given>) -> Result<Html, Trouble> {
    let (project, live) = (visit.project()?.id, visit.live());
    let channels: HashSet<ChannelId> =
        visit.handle().with_state(|state| state.project(project).into_iter().flat_map(|found| found.channels.keys().copied()).collect());
    let seen = look(visit, &wanted, &channels)?;
    let frame = visit.frame("Checks").alarmed(seen.count(Shown::Late), seen.count(Shown::Down));
    let frame = frame.noted(note).noted(silence(visit, &seen, &wanted, channels.is_empty()));
    let list = List { given, ..List::of(visit, wanted, seen, &channels)? };
    let shows_key = list.first.is_some();
    let html = match &*visit.fragment {
        "list" => Html::of(&ListAlone { list }),
        _ => Html::of(&ListPage { frame, list, live }),
    };
    Ok(if shows_key { html.secret() } else { html })
}

/// Looks at every check once, and remembers little of those that are in the list.
fn look(visit: &Visit, wanted: &Wanted, channels: &HashSet<ChannelId>) -> Result<Seen, Trouble> {
    let (mut seen, filter) = (Seen::default(), Filter::new(wanted));
    visit.handle().each_check(visit.project()?.id, |check| {
        let (settings, state) = (&check.settings, &check.state);
        let (status, runs) = (state.visible_status(settings, visit.now), state.run.is_some());
        let (shown, is_untold) = (Shown::of(status, runs), !settings.channels.iter().any(|channel| channels.contains(channel)));
        seen.all += 1;
        seen.untold += usize::from(is_untold);
        for counted in Shown::ALL.into_iter().filter(|shown| shown.counts(status, runs)) {
            *seen.counts.entry(counted).or_default() += 1;
        }
        for tag in settings.tags.iter() {
            if let Some(worst) = seen.tags.get_mut(tag) {
                *worst = shown.min(*worst);
            } else if seen.tags.len() < MOST_TAGS_SHOWN {
                seen.tags.insert(tag.to_owned(), shown);
            }
        }
        if filter.fits(&check, status, is_untold) {
            let (last, next) = (state.last_ping, state.next_ping());
            seen.items.push(Item { id: check.id, settings: check.settings, shown, last, next });
        }
    });
    Ok(seen)
}

impl Seen {
    fn count(&self, shown: Shown) -> usize {
        self.counts.get(&shown).copied().unwrap_or_default()
    }
}

/// Says that checks tell nobody.
fn silence(visit: &Visit, seen: &Seen, wanted: &Wanted, nobody: bool) -> Option<Note> {
    if seen.untold == 0 || wanted.is_untold {
        return None;
    }
    if nobody {
        let text = "No alerts are sent. Without an integration overdue shows what is down, but notifies nobody.";
        let link = visit.project().ok().map(|project| visit.link(&Page::Integrations(project.uuid)));
        let note = Note::late(text);
        return Some(match link {
            Some(link) if visit.may(Need::Write) => note.with_link("Add one", link),
            _ => note,
        });
    }
    let verb = if seen.untold == 1 { "tells" } else { "tell" };
    let text = format!("{} {verb} nobody when down.", count(seen.untold, "check"));
    let link = format!("{}{}", visit.link(&visit.page), wanted.with(|wanted| wanted.is_untold = true).write());
    Some(Note::plain(text).with_link("Show them", link))
}

fn channel_names(visit: &Visit) -> Result<Vec<(String, String)>, Trouble> {
    let project = visit.project()?.id;
    visit.handle().with_state(|state| {
        let name = |channel: &Channel| match channel.name.as_str() {
            "" => channel.settings.kind().title.to_owned(),
            name => name.to_owned(),
        };
        let channels = state.project(project).into_iter().flat_map(|project| project.channels.values());
        Ok(channels.map(|channel| (channel.uuid.to_string(), name(channel))).collect())
    })
}

impl List {
    fn of(visit: &Visit, wanted: Wanted, seen: Seen, channels: &HashSet<ChannelId>) -> Result<Self, Trouble> {
        let (here, project) = (visit.link(&visit.page), visit.project()?);
        let tiles = Shown::ALL.into_iter().map(|shown| Tile::of(shown, &seen, &wanted, &here)).collect();
        let tags = seen.tags.iter().map(|(tag, worst)| TagBox { tag: tag.clone(), worst: *worst, is_on: wanted.tags.contains(tag) });
        let (tags, all, found) = (tags.collect(), seen.all, seen.items.len());
        let first = if all == 0 { first_url(visit)? } else { None };
        let times = visit.times();
        // Whoever has deleted the last rows of a list is shown those before them.
        let wanted = Wanted { page: wanted.page.min(found.div_ceil(wanted.size).max(1)), ..wanted };
        let (shown, back) = (page(seen.items, &wanted), Back::to(&wanted));
        let mut rows = Vec::with_capacity(shown.len());
        for id in shown {
            // One that is gone meanwhile is left out. The lock is held for one check at a time.
            let Some(check) = visit.handle().with_state(|state| state.check(id).cloned()) else { continue };
            // Where there is no channel, that stands above all rows.
            let is_untold = !channels.is_empty() && !check.settings.channels.iter().any(|channel| channels.contains(channel));
            rows.push(Row::of(&check, back.along(&visit.link(&Page::Check(check.uuid))), is_untold, &times));
        }
        let keys = visit.link(&Page::Settings(project.uuid));
        let bulk = visit.may(Need::Write).then(|| visit.link(&Page::Bulk(project.uuid)));
        let channels = channel_names(visit)?;
        let add = visit.may(Need::Write).then(|| visit.link(&Page::AddCheck(project.uuid)));
        let account = visit.viewer.person.as_ref().map(|_| visit.link(&Page::AccountList()));
        let ping = format!("{}/ping/", visit.base_url().as_str());
        Ok(Self { wanted, here, tiles, tags, rows, all, found, first, keys, add, bulk, account, channels, ping, given: None })
    }

    /// The address of the list, where this page stands at another one.
    fn address(&self) -> Option<String> {
        self.given.is_some().then(|| self.at(&self.wanted))
    }

    /// The numbers of the rows that are shown: `1–250`.
    fn span(&self) -> String {
        let first = (self.wanted.page - 1) * self.wanted.size + 1;
        format!("{first}–{}", first + self.rows.len().max(1) - 1)
    }

    /// The page before this one, and the one after it.
    fn earlier(&self) -> Option<String> {
        (self.wanted.page > 1).then(|| self.at(&Wanted { page: self.wanted.page - 1, ..self.wanted.clone() }))
    }

    fn later(&self) -> Option<String> {
        let more = self.wanted.page * self.wanted.size < self.found;
        more.then(|| self.at(&Wanted { page: self.wanted.page + 1, ..self.wanted.clone() }))
    }

    /// What was ticked and typed below the list.
    fn is_ticked(&self, row: &Row) -> bool {
        self.given.as_ref().is_some_and(|given| given.ticked.contains(&row.id))
    }

    fn is_all(&self) -> bool {
        self.given.as_ref().is_some_and(|given| given.is_all)
    }

    fn tag(&self) -> &str {
        self.given.as_ref().map_or("", |given| &given.tag)
    }

    fn is_chosen(&self, channel: &str) -> bool {
        self.given.as_ref().is_some_and(|given| given.channel == channel)
    }

    fn at(&self, wanted: &Wanted) -> String {
        format!("{}{}", self.here, wanted.write())
    }

    /// The URL of the same list sorted by this, or the other way round if it is already.
    fn sorted(&self, by: By) -> String {
        let is_reversed = self.wanted.order.by == by && !self.wanted.order.is_reversed;
        self.in_full(&self.wanted.with(|wanted| wanted.order = Order { by, is_reversed }))
    }

    fn in_full(&self, wanted: &Wanted) -> String {
        format!("{}{}", self.here, wanted.write_in_full())
    }

    /// The value of `aria-sort` of a column.
    fn order(&self, by: By) -> &'static str {
        match (self.wanted.order.by == by, self.wanted.order.is_reversed) {
            (false, _) => "none",
            (true, false) => "ascending",
            (true, true) => "descending",
        }
    }

    /// How many rows a page may have, with links.
    fn sizes(&self) -> Vec<(usize, bool, String)> {
        let size = |size| (size, size == self.wanted.size, self.in_full(&self.wanted.with(|wanted| wanted.size = size)));
        ListTaste::SIZES.into_iter().map(size).collect()
    }

    /// What a form that searches keeps of the filter: everything but the search and the tags.
    fn kept(&self) -> Vec<(&'static str, String)> {
        let wanted = self.wanted.with(|wanted| {
            wanted.search.clear();
            wanted.tags.clear();
        });
        wanted.pairs()
    }
}

impl Tile {
    fn of(shown: Shown, seen: &Seen, wanted: &Wanted, here: &str) -> Self {
        let is_on = wanted.statuses.contains(&shown);
        let toggled = wanted.with(|wanted| {
            if !wanted.statuses.remove(&shown) {
                wanted.statuses.insert(shown);
            }
        });
        Self { shown, count: seen.count(shown), is_on, link: format!("{here}{}", toggled.write()) }
    }
}

/// The URL whose first ping makes a check.
fn first_url(visit: &Visit) -> Result<Option<String>, Trouble> {
    if !visit.may(Need::Write) {
        return Ok(None);
    }
    let project = visit.project()?.id;
    visit.handle().with_state(|state| {
        let keys = state.project(project).into_iter().flat_map(|found| found.keys()).filter_map(|id| state.key(id));
        let ping_key = |secret: &Secret| match secret {
            Secret::Ping(key) => Some(PingKey::clone(key)),
            Secret::ReadWrite(_) | Secret::ReadOnly(_) | Secret::Hashed(_) => None,
        };
        let key = keys.filter_map(|key| ping_key(&key.secret)).next();
        Ok(key.zip(Slug::parse(FIRST_SLUG).ok()).map(|(key, slug)| creating_ping_url(visit.base_url(), key, slug)))
    })
}
