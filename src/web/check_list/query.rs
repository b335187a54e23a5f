//! Which checks a list shows, in which order, and which part of them. Pure: what the URL says is all that it knows.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{CheckId, parse_hyphenated_uuid};
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::Timestamp;
pub(super) use crate::domain::user::preferences::By;
use crate::domain::user::preferences::{ListPreferences, SortOrder};

/// Tags that a list is filtered by at most.
const MAX_TAGS: usize = 20;
/// Characters of a search.
const MAX_SEARCH_CHARS: usize = 200;
/// The last page there can be. Whoever asks for a later one gets this.
const LAST_PAGE: usize = 100_000;
/// What stands in a URL as it is.
pub(super) const URL_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// How a check is shown, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DisplayStatus {
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

impl DisplayStatus {
    /// All of them, the most urgent first.
    pub(crate) const ALL: [Self; 6] = [Self::Down, Self::Late, Self::Running, Self::Up, Self::New, Self::Paused];

    /// How a check is shown.
    pub(crate) fn from_status(status: VisibleStatus, runs: bool) -> Self {
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
    pub(crate) fn includes(self, status: VisibleStatus, runs: bool) -> bool {
        if self == Self::Running { runs } else { self == Self::from_status(status, false) }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shown| shown.name() == name)
    }
}

/// What the URL of a list says. [`Wanted::parse`] reads what [`Wanted::to_query_string`] writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckListQuery {
    /// Those that count as one of these; none: all.
    pub(super) statuses: BTreeSet<DisplayStatus>,
    /// Those that have all of these tags.
    pub(super) tags: Vec<String>,
    /// Those in which every word of this is found.
    pub(super) search: String,
    /// Those that tell nobody.
    pub(super) without_channels: bool,
    /// What they are sorted by.
    pub(super) order: SortOrder,
    /// Rows of a page.
    pub(super) page_size: usize,
    /// What is so where the URL does not say it.
    pub(super) defaults: ListPreferences,
    /// Which page, from 1 on.
    pub(super) page: usize,
}

impl CheckListQuery {
    /// Reads the parameters of a URL. What is not known is as if it were not there.
    pub(crate) fn parse(pairs: &[(String, String)], usual: ListPreferences) -> Self {
        let mut wanted = Self {
            statuses: BTreeSet::new(),
            tags: Vec::new(),
            search: String::new(),
            without_channels: false,
            order: usual.order,
            page_size: usual.page_size,
            defaults: usual,
            page: 1,
        };
        for (name, value) in pairs {
            match name.as_str() {
                "status" => wanted.statuses.extend(DisplayStatus::parse(value)),
                "tag" if !value.is_empty() && wanted.tags.len() < MAX_TAGS && !wanted.tags.contains(value) => {
                    wanted.tags.push(value.clone());
                }
                "q" => wanted.search = value.trim().chars().take(MAX_SEARCH_CHARS).collect(),
                "alerts" => wanted.without_channels = value == "none",
                "sort" => wanted.order = SortOrder::parse(value).unwrap_or(usual.order),
                "rows" => wanted.page_size = ListPreferences::parse_page_size(value).unwrap_or(usual.page_size),
                "page" => wanted.page = value.parse().unwrap_or(1).clamp(1, LAST_PAGE),
                _ => {}
            }
        }
        wanted
    }

    /// Its pairs of a URL, what is usual left out.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        self.pairs_except(Some(self.defaults))
    }

    /// Its pairs of a URL without how the list is shown where that is so.
    fn pairs_except(&self, usual: Option<ListPreferences>) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<_> = self.statuses.iter().map(|shown| ("status", shown.name().to_owned())).collect();
        pairs.extend(self.tags.iter().map(|tag| ("tag", tag.clone())));
        if !self.search.is_empty() {
            pairs.push(("q", self.search.clone()));
        }
        if self.without_channels {
            pairs.push(("alerts", "none".into()));
        }
        if usual.is_none_or(|usual| self.order != usual.order) {
            pairs.push(("sort", self.order.name()));
        }
        if usual.is_none_or(|usual| self.page_size != usual.page_size) {
            pairs.push(("rows", self.page_size.to_string()));
        }
        if self.page != 1 {
            pairs.push(("page", self.page.to_string()));
        }
        pairs
    }

    /// The query of its URL, with its question mark; empty if all is usual.
    pub(crate) fn to_query_string(&self) -> String {
        format_query(self.pairs())
    }

    /// The same with what is usual, for links that change what that is.
    pub(super) fn to_full_query_string(&self) -> String {
        format_query(self.pairs_except(None))
    }

    /// Whether it leaves any checks out.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.statuses.is_empty() || !self.tags.is_empty() || !self.search.is_empty() || self.without_channels
    }

    /// The same with something changed, from its first page on.
    pub(super) fn with_change(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut wanted = Self { page: 1, ..self.clone() };
        change(&mut wanted);
        wanted
    }
}

fn format_query(pairs: Vec<(&'static str, String)>) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.extend([name, "="]);
        query.extend(utf8_percent_encode(&value, URL_ESCAPES));
    }
    query
}

/// What checks are looked at by.
pub(crate) struct CheckListFilter<'w> {
    query: &'w CheckListQuery,
    words: Vec<String>,
    uuid: Option<Uuid>,
}

impl<'w> CheckListFilter<'w> {
    pub(crate) fn new(wanted: &'w CheckListQuery) -> Self {
        let words = wanted.search.to_lowercase().split_whitespace().map(str::to_owned).collect();
        Self { query: wanted, words, uuid: parse_hyphenated_uuid(&wanted.search) }
    }

    /// Whether a check is in the list.
    pub(crate) fn matches(&self, check: &Check, status: VisibleStatus, is_untold: bool) -> bool {
        let CheckListQuery { statuses, tags, .. } = self.query;
        let (settings, runs) = (&check.settings, check.state.run.is_some());
        (statuses.is_empty() || statuses.iter().any(|shown| shown.includes(status, runs)))
            && (!self.query.without_channels || is_untold)
            && tags.iter().all(|tag| settings.tags.contains(tag))
            && match self.uuid {
                Some(uuid) => check.uuid == uuid,
                None => self.words.is_empty() || self.matches_text(settings),
            }
    }

    /// Whether every word stands in its name, slug, tags or description, whatever the case.
    fn matches_text(&self, settings: &CheckSettings) -> bool {
        let texts = [settings.name.as_str(), settings.slug.as_str(), settings.tags.as_str(), settings.desc.as_str()].map(str::to_lowercase);
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }
}

/// What a list remembers of a check until it is known which rows are shown.
#[derive(Clone, Debug)]
pub(crate) struct CheckListItem {
    pub(crate) id: CheckId,
    pub(crate) settings: Arc<CheckSettings>,
    pub(crate) status: DisplayStatus,
    pub(crate) last: Option<Timestamp>,
    pub(crate) next: Option<Timestamp>,
}

/// The checks of the wanted page, in order.
pub(crate) fn sort_page(mut items: Vec<CheckListItem>, wanted: &CheckListQuery) -> Vec<CheckId> {
    let from = (wanted.page - 1).saturating_mul(wanted.page_size);
    let order = |one: &CheckListItem, other: &CheckListItem| {
        let order = compare_items(one, other, wanted.order.by);
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
    if items.len() > wanted.page_size {
        items.select_nth_unstable_by(wanted.page_size, order);
        items.truncate(wanted.page_size);
    }
    items.sort_unstable_by(order);
    items.into_iter().map(|item| item.id).collect()
}

fn compare_items(one: &CheckListItem, other: &CheckListItem, by: By) -> Ordering {
    let name = |item: &'_ CheckListItem| Arc::clone(&item.settings);
    let by_name = || compare_natural(name(one).name.as_str(), name(other).name.as_str());
    // What has no time comes last.
    let time = |at: Option<Timestamp>| at.map_or(i64::MAX, Timestamp::micros);
    let latest = |at: Option<Timestamp>| at.map_or(i64::MAX, |at| -at.micros());
    let first = match by {
        By::Status => one.status.cmp(&other.status),
        By::Last => latest(one.last).cmp(&latest(other.last)),
        By::Next => time(one.next).cmp(&time(other.next)),
        By::Name | By::Created => Ordering::Equal,
    };
    let second = || if by == By::Created { Ordering::Equal } else { by_name() };
    first.then_with(second).then(one.id.cmp(&other.id))
}

/// The order of names as people expect it: whatever the case, and numbers by what they count (`job 9` before `job 10`).
pub(super) fn compare_natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let (digits, others) = (split_number(left), split_number(right));
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
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())?;
    Some((digits.trim_start_matches('0'), rest))
}

#[cfg(test)]
mod tests;
