//! Which checks a list shows, in which order, and which part of them. Pure: what the URL says is all that it knows.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use crate::domain::check::{Check, Settings};
use crate::domain::ids::{CheckId, hyphenated_uuid};
use crate::domain::moment::Moment;
use crate::domain::status::VisibleStatus;
pub(super) use crate::domain::user::taste::By;
use crate::domain::user::taste::{ListTaste, Order};

/// Tags that a list is filtered by at most.
const MOST_TAGS: usize = 20;
/// Characters of a search.
const LONGEST_SEARCH: usize = 200;
/// The last page there can be. Whoever asks for a later one gets this.
const LAST_PAGE: usize = 100_000;
/// What stands in a URL as it is.
pub(super) const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// How a check is shown, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shown {
    /// It is overdue or has failed.
    Down,
    /// It is overdue, and its grace is not over.
    Late,
    /// A run is going on, and it is neither of these.
    Running,
    /// Its last run succeeded.
    Up,
    /// It has never been pinged.
    New,
    /// It is not watched.
    Paused,
}

impl Shown {
    /// All of them, the most urgent first.
    pub(crate) const ALL: [Self; 6] = [Self::Down, Self::Late, Self::Running, Self::Up, Self::New, Self::Paused];

    /// How a check is shown.
    pub(crate) fn of(status: VisibleStatus, runs: bool) -> Self {
        match status {
            VisibleStatus::Down => Self::Down,
            VisibleStatus::Grace => Self::Late,
            _ if runs => Self::Running,
            VisibleStatus::Up => Self::Up,
            VisibleStatus::New => Self::New,
            VisibleStatus::Paused => Self::Paused,
        }
    }

    /// Its name in URLs and styles.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Late => "late",
            Self::Running => "running",
            Self::Up => "up",
            Self::New => "new",
            Self::Paused => "paused",
        }
    }

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Down => "Down",
            Self::Late => "Late",
            Self::Running => "Running",
            Self::Up => "Up",
            Self::New => "New",
            Self::Paused => "Paused",
        }
    }

    /// Whether a check counts as this. A check that runs counts twice: as running, and as what it was before.
    pub(crate) fn counts(self, status: VisibleStatus, runs: bool) -> bool {
        if self == Self::Running { runs } else { self == Self::of(status, false) }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shown| shown.name() == name)
    }
}

/// What the URL of a list says. [`Wanted::read`] reads what [`Wanted::write`] writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Those that count as one of these; none: all.
    pub(super) statuses: BTreeSet<Shown>,
    /// Those that have all of these tags.
    pub(super) tags: Vec<String>,
    /// Those in which every word of this is found.
    pub(super) search: String,
    /// Those that tell nobody.
    pub(super) is_untold: bool,
    /// What they are sorted by.
    pub(super) order: Order,
    /// Rows of a page.
    pub(super) size: usize,
    /// What is so where the URL does not say it.
    pub(super) usual: ListTaste,
    /// Which page, from 1 on.
    pub(super) page: usize,
}

impl Wanted {
    /// Reads the parameters of a URL. What is not known is as if it were not there.
    pub(crate) fn read(pairs: &[(String, String)], usual: ListTaste) -> Self {
        let mut wanted = Self {
            statuses: BTreeSet::new(),
            tags: Vec::new(),
            search: String::new(),
            is_untold: false,
            order: usual.order,
            size: usual.rows,
            usual,
            page: 1,
        };
        for (name, value) in pairs {
            match name.as_str() {
                "status" => wanted.statuses.extend(Shown::parse(value)),
                "tag" if !value.is_empty() && wanted.tags.len() < MOST_TAGS && !wanted.tags.contains(value) => {
                    wanted.tags.push(value.clone());
                }
                "q" => wanted.search = value.trim().chars().take(LONGEST_SEARCH).collect(),
                "alerts" => wanted.is_untold = value == "none",
                "sort" => wanted.order = Order::parse(value).unwrap_or(usual.order),
                "rows" => wanted.size = ListTaste::parse_rows(value).unwrap_or(usual.rows),
                "page" => wanted.page = value.parse().unwrap_or(1).clamp(1, LAST_PAGE),
                _ => {}
            }
        }
        wanted
    }

    /// Its pairs of a URL, what is usual left out.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        self.pairs_beside(Some(self.usual))
    }

    /// Its pairs of a URL without how the list is shown where that is so.
    fn pairs_beside(&self, usual: Option<ListTaste>) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<_> = self.statuses.iter().map(|shown| ("status", shown.name().to_owned())).collect();
        pairs.extend(self.tags.iter().map(|tag| ("tag", tag.clone())));
        if !self.search.is_empty() {
            pairs.push(("q", self.search.clone()));
        }
        if self.is_untold {
            pairs.push(("alerts", "none".into()));
        }
        if usual.is_none_or(|usual| self.order != usual.order) {
            pairs.push(("sort", self.order.name()));
        }
        if usual.is_none_or(|usual| self.size != usual.rows) {
            pairs.push(("rows", self.size.to_string()));
        }
        if self.page != 1 {
            pairs.push(("page", self.page.to_string()));
        }
        pairs
    }

    /// The query of its URL, with its question mark; empty if all is usual.
    pub(crate) fn write(&self) -> String {
        written(self.pairs())
    }

    /// The same with what is usual, for links that change what that is.
    pub(super) fn write_in_full(&self) -> String {
        written(self.pairs_beside(None))
    }

    /// Whether it leaves any checks out.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.statuses.is_empty() || !self.tags.is_empty() || !self.search.is_empty() || self.is_untold
    }

    /// The same with something changed, from its first page on.
    pub(super) fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut wanted = Self { page: 1, ..self.clone() };
        change(&mut wanted);
        wanted
    }
}

fn written(pairs: Vec<(&'static str, String)>) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.extend([name, "="]);
        query.extend(utf8_percent_encode(&value, PLAIN));
    }
    query
}

/// What checks are looked at by.
pub(crate) struct Filter<'w> {
    wanted: &'w Wanted,
    words: Vec<String>,
    uuid: Option<Uuid>,
}

impl<'w> Filter<'w> {
    pub(crate) fn new(wanted: &'w Wanted) -> Self {
        let words = wanted.search.to_lowercase().split_whitespace().map(str::to_owned).collect();
        Self { wanted, words, uuid: hyphenated_uuid(&wanted.search) }
    }

    /// Whether a check is in the list.
    pub(crate) fn fits(&self, check: &Check, status: VisibleStatus, is_untold: bool) -> bool {
        let Wanted { statuses, tags, .. } = self.wanted;
        let (settings, runs) = (&check.settings, check.state.run.is_some());
        (statuses.is_empty() || statuses.iter().any(|shown| shown.counts(status, runs)))
            && (!self.wanted.is_untold || is_untold)
            && tags.iter().all(|tag| settings.tags.contains(tag))
            && match self.uuid {
                Some(uuid) => check.uuid == uuid,
                None => self.words.is_empty() || self.finds(settings),
            }
    }

    /// Whether every word stands in its name, slug, tags or description, whatever the case.
    fn finds(&self, settings: &Settings) -> bool {
        let texts = [settings.name.as_str(), settings.slug.as_str(), settings.tags.as_str(), settings.desc.as_str()].map(str::to_lowercase);
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }
}

/// What a list remembers of a check until it is known which rows are shown.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: CheckId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) shown: Shown,
    pub(crate) last: Option<Moment>,
    pub(crate) next: Option<Moment>,
}

/// The checks of the wanted page, in order.
pub(crate) fn page(mut items: Vec<Item>, wanted: &Wanted) -> Vec<CheckId> {
    let from = (wanted.page - 1).saturating_mul(wanted.size);
    let order = |one: &Item, other: &Item| {
        let order = compare(one, other, wanted.order.by);
        if wanted.order.is_reversed { order.reverse() } else { order }
    };
    if from >= items.len() {
        return Vec::new();
    }
    // Only the page is put in order; it is found in the time of one look at all of them.
    if from > 0 {
        items.select_nth_unstable_by(from, order);
        items.drain(..from);
    }
    if items.len() > wanted.size {
        items.select_nth_unstable_by(wanted.size, order);
        items.truncate(wanted.size);
    }
    items.sort_unstable_by(order);
    items.into_iter().map(|item| item.id).collect()
}

fn compare(one: &Item, other: &Item, by: By) -> Ordering {
    let name = |item: &'_ Item| Arc::clone(&item.settings);
    let by_name = || natural(name(one).name.as_str(), name(other).name.as_str());
    // What has no time comes last.
    let time = |at: Option<Moment>| at.map_or(i64::MAX, Moment::micros);
    let latest = |at: Option<Moment>| at.map_or(i64::MAX, |at| -at.micros());
    let first = match by {
        By::Status => one.shown.cmp(&other.shown),
        By::Last => latest(one.last).cmp(&latest(other.last)),
        By::Next => time(one.next).cmp(&time(other.next)),
        By::Name | By::Created => Ordering::Equal,
    };
    let second = || if by == By::Created { Ordering::Equal } else { by_name() };
    first.then_with(second).then(one.id.cmp(&other.id))
}

/// The order of names as people expect it: whatever the case, and numbers by what they count (`job 9` before `job 10`).
pub(super) fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let (digits, others) = (number(left), number(right));
        if let (Some((first, rest)), Some((second, other_rest))) = (digits, others) {
            let order = first.len().cmp(&second.len()).then_with(|| first.cmp(second));
            if order.is_ne() {
                return order;
            }
            (left, right) = (rest, other_rest);
            continue;
        }
        let (mut letters, mut other_letters) = (left.chars(), right.chars());
        match (letters.next(), other_letters.next()) {
            (Some(first), Some(second)) => {
                let order = first.to_lowercase().cmp(second.to_lowercase());
                if order.is_ne() {
                    return order;
                }
                (left, right) = (letters.as_str(), other_letters.as_str());
            }
            (first, second) => return first.is_some().cmp(&second.is_some()),
        }
    }
}

/// The digits that a text begins with, without zeros in front, and what comes after them.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())?;
    Some((digits.trim_start_matches('0'), rest))
}

#[cfg(test)]
mod tests;
