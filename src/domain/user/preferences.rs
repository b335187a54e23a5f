//! How pages look to a user.

use super::super::timezone::Timezone;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserPreferences {
    /// The zone of times; `None`: that of the machine.
    pub zone: Option<Timezone>,
    /// Light, dark or as the system says.
    pub theme: Theme,
    /// Single keys do something.
    pub shortcuts: bool,
    /// How lists of checks are shown.
    pub list: ListPreferences,
}

impl Default for UserPreferences {
    fn default() -> Self {
        Self { zone: None, theme: Theme::System, shortcuts: true, list: ListPreferences::default() }
    }
}

/// Colours of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Theme {
    /// As the system says.
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

    /// The word of pages and rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == text)
    }
}

/// How lists of checks are shown where an address does not say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListPreferences {
    /// What they are sorted by.
    pub order: SortOrder,
    /// Rows of a page: one of [`ListTaste::PAGE_SIZES`].
    pub page_size: usize,
}

impl ListPreferences {
    /// How many rows a page may have; the second is usual.
    pub const PAGE_SIZES: [usize; 3] = [100, 250, 1000];

    /// A number of rows, as it stands in addresses.
    pub fn parse_page_size(text: &str) -> Option<usize> {
        Self::PAGE_SIZES.into_iter().find(|size| size.to_string() == text)
    }
}

impl Default for ListPreferences {
    fn default() -> Self {
        Self { order: SortOrder::default(), page_size: Self::PAGE_SIZES[1] }
    }
}

/// What a list is sorted by, and which way round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SortOrder {
    /// What it is sorted by.
    pub by: By,
    /// In the opposite order.
    pub is_reversed: bool,
}

impl SortOrder {
    /// Reads what [`name`](Self::name) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let reversed = text.strip_prefix('-');
        let by = By::ALL.into_iter().find(|by| by.name() == reversed.unwrap_or(text))?;
        Some(Self { by, is_reversed: reversed.is_some() })
    }

    /// The word of addresses and rows: `name`, or `-name` for the opposite order.
    pub fn name(self) -> String {
        format!("{}{}", if self.is_reversed { "-" } else { "" }, self.by.name())
    }
}

/// What a list is sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum By {
    /// The most urgent first.
    #[default]
    Status,
    /// In natural order.
    Name,
    /// The last one to report first.
    Last,
    /// The next one to report first.
    Next,
    /// The oldest first.
    Created,
}

impl By {
    /// Every order.
    pub const ALL: [Self; 5] = [Self::Status, Self::Name, Self::Last, Self::Next, Self::Created];

    /// The word of addresses.
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
    fn words_name_what_they_say() {
        assert!(Theme::ALL.into_iter().all(|theme| Theme::parse(theme.name()) == Some(theme)));
        assert_eq!(Theme::parse(""), None);
        for (by, is_reversed) in By::ALL.into_iter().flat_map(|by| [(by, false), (by, true)]) {
            let order = SortOrder { by, is_reversed };
            assert_eq!(SortOrder::parse(&order.name()), Some(order));
        }
        assert_eq!(["", "-", "--name", "Name"].map(SortOrder::parse), [None; 4]);
        assert_eq!(
            ["100", "250", "1000", "1", "0100", ""].map(ListPreferences::parse_page_size),
            [Some(100), Some(250), Some(1000), None, None, None]
        );
    }
}
