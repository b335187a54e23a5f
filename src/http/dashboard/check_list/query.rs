//! Filter, order and page of a list of checks. Pure: the URL is its only input.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use crate::domain::check::{Check, CheckSettings};
use crate::domain::ids::{CheckId, parse_hyphenated_uuid};
use crate::domain::project::Project;
use crate::domain::status::VisibleStatus;
use crate::domain::timestamp::Timestamp;
pub(super) use crate::domain::user::preferences::SortKey;
use crate::domain::user::preferences::{ListPreferences, SortOrder};

/// Maximum number of tags in a filter.
const MAX_TAGS: usize = 20;
/// Maximum number of characters of a search.
const MAX_SEARCH_CHARS: usize = 200;
/// Highest page number. Higher ones are reduced to it.
const LAST_PAGE: usize = 100_000;
/// Characters that are percent-encoded in the query of a list: all except letters, digits, `-`, `_`
/// and `.`.
pub(super) const QUERY_ESCAPE_SET: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Display status of a check, the most urgent first. Each check has one, and is counted once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DisplayStatus {
    /// The check is overdue beyond its grace time, or has failed.
    Down,
    /// The check is overdue, within its grace time.
    Late,
    /// A run is in progress, and the check is neither down nor late.
    Running,
    /// The last run succeeded.
    Up,
    /// The check has never been pinged.
    New,
    /// The check is not monitored.
    Paused,
}

impl DisplayStatus {
    /// All values, the most urgent first.
    pub(crate) const ALL: [Self; 6] = [
        Self::Down,
        Self::Late,
        Self::Running,
        Self::Up,
        Self::New,
        Self::Paused,
    ];

    /// Display status of a check.
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

    /// Name in URLs and styles.
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

    /// Label.
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

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shown| shown.name() == name)
    }
}

/// Property by which the rows of a list are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grouping {
    /// First tag of the check.
    Tag,
    /// Project of the check.
    Project,
}

impl Grouping {
    /// Every grouping.
    pub(crate) const ALL: [Self; 2] = [Self::Tag, Self::Project];

    /// Name in URLs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Project => "project",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// Heading of the group that a check belongs to. Empty for a check without tags.
    pub(super) fn heading(self, item: &CheckListItem) -> &str {
        match self {
            Self::Tag => item.settings.tags.iter().next().unwrap_or_default(),
            Self::Project => item.project.name.as_str(),
        }
    }
}

/// Query of a list in a URL. [`CheckListQuery::parse`] reads the output of
/// [`CheckListQuery::to_query_string`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckListQuery {
    /// Checks that are shown with one of these statuses. Empty: all.
    pub(super) statuses: BTreeSet<DisplayStatus>,
    /// Checks with all of these tags.
    pub(super) tags: Vec<String>,
    /// Checks that contain every word of this search.
    pub(super) search: String,
    /// True to show only checks whose alerts reach no recipient.
    pub(super) only_unnotified: bool,
    /// Groups of rows.
    pub(super) grouping: Option<Grouping>,
    /// Sort order.
    pub(super) order: SortOrder,
    /// Rows per page.
    pub(super) page_size: usize,
    /// Values that apply if the URL does not have them.
    pub(super) defaults: ListPreferences,
    /// Page number, starting at 1.
    pub(super) page: usize,
}

impl CheckListQuery {
    /// Parses the parameters of a URL. Unknown ones are ignored.
    pub(crate) fn parse(pairs: &[(String, String)], defaults: ListPreferences) -> Self {
        let mut query = Self {
            statuses: BTreeSet::new(),
            tags: Vec::new(),
            search: String::new(),
            only_unnotified: false,
            grouping: None,
            order: defaults.order,
            page_size: defaults.page_size,
            defaults,
            page: 1,
        };
        for (name, value) in pairs {
            match name.as_str() {
                "status" => query.statuses.extend(DisplayStatus::parse(value)),
                "tag"
                    if !value.is_empty()
                        && query.tags.len() < MAX_TAGS
                        && !query.tags.contains(value) =>
                {
                    query.tags.push(value.clone());
                }
                "q" => query.search = value.trim().chars().take(MAX_SEARCH_CHARS).collect(),
                "alerts" => query.only_unnotified = value == "none",
                "group" => query.grouping = Grouping::parse(value),
                "sort" => query.order = SortOrder::parse(value).unwrap_or(defaults.order),
                "rows" => {
                    query.page_size =
                        ListPreferences::parse_page_size(value).unwrap_or(defaults.page_size);
                }
                "page" => query.page = value.parse().unwrap_or(1).clamp(1, LAST_PAGE),
                _ => {}
            }
        }
        query
    }

    /// Parameters for a URL, without default values.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        self.pairs_except(Some(self.defaults))
    }

    /// Parameters for a URL, without list preferences that equal `defaults`.
    fn pairs_except(&self, defaults: Option<ListPreferences>) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<_> = self
            .statuses
            .iter()
            .map(|shown| ("status", shown.name().to_owned()))
            .collect();
        pairs.extend(self.tags.iter().map(|tag| ("tag", tag.clone())));
        if !self.search.is_empty() {
            pairs.push(("q", self.search.clone()));
        }
        if self.only_unnotified {
            pairs.push(("alerts", "none".into()));
        }
        if let Some(grouping) = self.grouping {
            pairs.push(("group", grouping.name().into()));
        }
        if defaults.is_none_or(|defaults| self.order != defaults.order) {
            pairs.push(("sort", self.order.name()));
        }
        if defaults.is_none_or(|defaults| self.page_size != defaults.page_size) {
            pairs.push(("rows", self.page_size.to_string()));
        }
        if self.page != 1 {
            pairs.push(("page", self.page.to_string()));
        }
        pairs
    }

    /// Query for a URL, with its question mark. Empty if it has only default values.
    pub(crate) fn to_query_string(&self) -> String {
        format_query(self.pairs())
    }

    /// Query with default values included, for links that change the defaults.
    pub(super) fn to_full_query_string(&self) -> String {
        format_query(self.pairs_except(None))
    }

    /// True if the filter excludes any checks.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.statuses.is_empty()
            || !self.tags.is_empty()
            || !self.search.is_empty()
            || self.only_unnotified
    }

    /// Copy with a change, back on the first page.
    pub(super) fn with_change(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut query = Self {
            page: 1,
            ..self.clone()
        };
        change(&mut query);
        query
    }
}

fn format_query(pairs: Vec<(&'static str, String)>) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.extend([name, "="]);
        query.extend(utf8_percent_encode(&value, QUERY_ESCAPE_SET));
    }
    query
}

/// Filter for checks, prepared from the query.
pub(crate) struct CheckListFilter<'w> {
    query: &'w CheckListQuery,
    words: Vec<String>,
    uuid: Option<Uuid>,
}

impl<'w> CheckListFilter<'w> {
    pub(crate) fn new(query: &'w CheckListQuery) -> Self {
        let words = query
            .search
            .to_lowercase()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Self {
            query,
            words,
            uuid: parse_hyphenated_uuid(&query.search),
        }
    }

    /// True if a check is in the list.
    pub(crate) fn matches(
        &self,
        check: &Check,
        status: VisibleStatus,
        is_unnotified: bool,
    ) -> bool {
        let CheckListQuery { statuses, tags, .. } = self.query;
        let settings = &check.settings;
        let shown = DisplayStatus::from_status(status, check.state.run.is_some());
        (statuses.is_empty() || statuses.contains(&shown))
            && (!self.query.only_unnotified || is_unnotified)
            && tags.iter().all(|tag| settings.tags.contains(tag))
            && match self.uuid {
                Some(uuid) => check.uuid == uuid,
                None => self.words.is_empty() || self.matches_text(settings),
            }
    }

    /// True if every word occurs in the name, slug, tags or description, ignoring case.
    fn matches_text(&self, settings: &CheckSettings) -> bool {
        let texts = [
            settings.name.as_str(),
            settings.slug.as_str(),
            settings.tags.as_str(),
            settings.desc.as_str(),
        ]
        .map(str::to_lowercase);
        self.words
            .iter()
            .all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }
}

/// Data of a check that is kept until the rows of the page are known.
#[derive(Clone, Debug)]
pub(crate) struct CheckListItem {
    pub(crate) id: CheckId,
    pub(crate) project: Arc<Project>,
    pub(crate) settings: Arc<CheckSettings>,
    pub(crate) status: DisplayStatus,
    pub(crate) last: Option<Timestamp>,
    pub(crate) next: Option<Timestamp>,
    /// True if the viewer has pinned the check.
    pub(crate) is_pinned: bool,
}

/// Checks of the requested page, in order.
pub(crate) fn sort_page(
    mut items: Vec<CheckListItem>,
    query: &CheckListQuery,
) -> Vec<CheckListItem> {
    let from = (query.page - 1).saturating_mul(query.page_size);
    let order = |one: &CheckListItem, other: &CheckListItem| {
        let order = compare_items(one, other, query.order.key);
        let order = if query.order.is_reversed {
            order.reverse()
        } else {
            order
        };
        // Pinned checks come first in each group, in every order.
        compare_groups(one, other, query.grouping)
            .then(other.is_pinned.cmp(&one.is_pinned))
            .then(order)
    };
    if from >= items.len() {
        return Vec::new();
    }
    // Only the page is sorted. Finding its beginning takes linear time.
    if from > 0 {
        items.select_nth_unstable_by(from, order);
        items.drain(..from);
    }
    if items.len() > query.page_size {
        items.select_nth_unstable_by(query.page_size, order);
        items.truncate(query.page_size);
    }
    items.sort_unstable_by(order);
    items
}

/// Order of the groups of two checks. Those without a tag come last.
fn compare_groups(
    one: &CheckListItem,
    other: &CheckListItem,
    grouping: Option<Grouping>,
) -> Ordering {
    let Some(grouping) = grouping else {
        return Ordering::Equal;
    };
    let [one, other] = [one, other].map(|item| grouping.heading(item));
    let by_name = compare_natural(one, other).then(one.cmp(other));
    one.is_empty().cmp(&other.is_empty()).then(by_name)
}

fn compare_items(one: &CheckListItem, other: &CheckListItem, by: SortKey) -> Ordering {
    let name = |item: &'_ CheckListItem| Arc::clone(&item.settings);
    let by_name = || compare_natural(name(one).name.as_str(), name(other).name.as_str());
    // Checks without a time come last.
    let time = |at: Option<Timestamp>| at.map_or(i64::MAX, Timestamp::micros);
    let latest = |at: Option<Timestamp>| at.map_or(i64::MAX, |at| -at.micros());
    let first = match by {
        SortKey::Status => one.status.cmp(&other.status),
        SortKey::Last => latest(one.last).cmp(&latest(other.last)),
        SortKey::Next => time(one.next).cmp(&time(other.next)),
        SortKey::Name | SortKey::Created => Ordering::Equal,
    };
    let second = || {
        if by == SortKey::Created {
            Ordering::Equal
        } else {
            by_name()
        }
    };
    first.then_with(second).then(one.id.cmp(&other.id))
}

/// Natural order of names: case is ignored, and numbers are compared by value (`job 9` before `job
/// 10`).
pub(crate) fn compare_natural(one: &str, other: &str) -> Ordering {
    let mut left = one;
    let mut right = other;
    loop {
        let digits = split_number(left);
        let others = split_number(right);
        if let (Some((first, rest)), Some((second, other_rest))) = (digits, others) {
            let order = first
                .len()
                .cmp(&second.len())
                .then_with(|| first.cmp(second));
            if order.is_ne() {
                return order;
            }
            (left, right) = (rest, other_rest);
            continue;
        }
        let mut letters = left.chars();
        let mut other_letters = right.chars();
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

/// Splits off the digits at the start of a text, without leading zeros.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text
        .split_at_checked(end)
        .filter(|(digits, _)| !digits.is_empty())?;
    Some((digits.trim_start_matches('0'), rest))
}

#[cfg(test)]
mod tests;
