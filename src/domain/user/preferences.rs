//! Display preferences of a user.

use uuid::Uuid;

use super::super::timezone::Timezone;
use super::saved_filters::SavedFilters;

/// Display preferences of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserPreferences {
    /// Time zone of displayed times; `None`: that of the machine.
    pub zone: Option<Timezone>,
    /// Colour theme.
    pub theme: Theme,
    /// True if keyboard shortcuts are enabled.
    pub shortcuts: bool,
    /// Display of check lists.
    pub list: ListPreferences,
    /// UUIDs of checks that are at the top of lists.
    pub pinned: Box<[Uuid]>,
    /// Saved filters of lists.
    pub filters: SavedFilters,
}

impl Default for UserPreferences {
    fn default() -> Self {
        Self {
            zone: None,
            theme: Theme::System,
            shortcuts: true,
            list: ListPreferences::default(),
            pinned: Box::default(),
            filters: SavedFilters::default(),
        }
    }
}

/// Colours of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Theme {
    /// Theme of the operating system.
    #[default]
    System,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// Every theme.
    pub const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// Word of pages and rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Returns the theme with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == text)
    }
}

/// Default display of check lists, if the URL does not say otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListPreferences {
    /// Sort order.
    pub order: SortOrder,
    /// Rows of a page: one of [`ListPreferences::PAGE_SIZES`].
    pub page_size: usize,
}

impl ListPreferences {
    /// Allowed numbers of rows on a page; the second is the default.
    pub const PAGE_SIZES: [usize; 3] = [100, 250, 1000];

    /// Parses a number of rows from a URL.
    pub fn parse_page_size(text: &str) -> Option<usize> {
        Self::PAGE_SIZES
            .into_iter()
            .find(|size| size.to_string() == text)
    }
}

impl Default for ListPreferences {
    fn default() -> Self {
        Self {
            order: SortOrder::default(),
            page_size: Self::PAGE_SIZES[1],
        }
    }
}

/// Sort key and direction of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SortOrder {
    /// Sort key.
    pub key: SortKey,
    /// True for the opposite order.
    pub is_reversed: bool,
}

impl SortOrder {
    /// Parses the output of [`name`](Self::name).
    pub fn parse(text: &str) -> Option<Self> {
        let reversed = text.strip_prefix('-');
        let key = SortKey::ALL
            .into_iter()
            .find(|key| key.name() == reversed.unwrap_or(text))?;
        Some(Self {
            key,
            is_reversed: reversed.is_some(),
        })
    }

    /// Word of URLs and rows: `name`, or `-name` for the opposite order.
    pub fn name(self) -> String {
        format!(
            "{}{}",
            if self.is_reversed { "-" } else { "" },
            self.key.name()
        )
    }
}

/// Sort key of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortKey {
    /// Most urgent first.
    #[default]
    Status,
    /// Natural order of names.
    Name,
    /// Latest report first.
    Last,
    /// Next expected report first.
    Next,
    /// Oldest first.
    Created,
}

impl SortKey {
    /// Every sort key.
    pub const ALL: [Self; 5] = [
        Self::Status,
        Self::Name,
        Self::Last,
        Self::Next,
        Self::Created,
    ];

    /// Word of URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Name => "name",
            Self::Last => "last",
            Self::Next => "next",
            Self::Created => "created",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_parsed_back() {
        assert!(
            Theme::ALL
                .into_iter()
                .all(|theme| Theme::parse(theme.name()) == Some(theme))
        );
        assert_eq!(Theme::parse(""), None);
        for (key, is_reversed) in SortKey::ALL
            .into_iter()
            .flat_map(|key| [(key, false), (key, true)])
        {
            let order = SortOrder { key, is_reversed };
            assert_eq!(SortOrder::parse(&order.name()), Some(order));
        }
        assert_eq!(["", "-", "--name", "Name"].map(SortOrder::parse), [None; 4]);
        assert_eq!(
            ["100", "250", "1000", "1", "0100", ""].map(ListPreferences::parse_page_size),
            [Some(100), Some(250), Some(1000), None, None, None]
        );
    }
}
