//! Filters of lists that a user has saved under a name.

/// Maximum number of filters of a user: see [limits](crate::docs::limits).
const MAX_FILTERS: usize = 20;

/// Filters in the order in which they were saved. Each name occurs once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SavedFilters(Vec<SavedFilter>);

/// A filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedFilter {
    /// Name that the user has chosen.
    pub name: Box<str>,
    /// Query of the list in a URL, with its question mark.
    pub query: Box<str>,
}

impl SavedFilter {
    /// Maximum number of characters of a name.
    pub const MAX_NAME_CHARS: usize = 60;
    /// Maximum number of bytes of a query.
    const MAX_QUERY_BYTES: usize = 4_000;

    /// Creates a filter.
    ///
    /// # Errors
    /// If the name is empty or too long or has control characters, or there is nothing to save.
    pub fn new(name: &str, query: &str) -> Result<Self, &'static str> {
        let name = name.trim();
        if name.is_empty() || name.chars().count() > Self::MAX_NAME_CHARS {
            return Err("enter a name of at most 60 characters");
        }
        if name.chars().any(char::is_control) {
            return Err("a name has no control characters");
        }
        if !query.starts_with('?') {
            return Err("the list has no filter: choose statuses, tags or words first");
        }
        if query.len() > Self::MAX_QUERY_BYTES {
            return Err("the filter is too long: choose fewer tags");
        }
        Ok(Self {
            name: name.into(),
            query: query.into(),
        })
    }
}

impl SavedFilters {
    /// Takes stored filters.
    ///
    /// # Errors
    /// If a name occurs twice or there are too many.
    pub fn from_stored(
        filters: impl IntoIterator<Item = SavedFilter>,
    ) -> Result<Self, &'static str> {
        let mut all = Self::default();
        for filter in filters {
            if all.0.iter().any(|other| other.name == filter.name) {
                return Err("a filter occurs twice");
            }
            all.save(filter)?;
        }
        Ok(all)
    }

    /// Iterates over the filters.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SavedFilter> {
        self.0.iter()
    }

    /// Saves a filter. It replaces one of the same name.
    ///
    /// # Errors
    /// If there are too many.
    pub fn save(&mut self, filter: SavedFilter) -> Result<(), &'static str> {
        let count = self.0.len();
        match self.0.iter_mut().find(|other| other.name == filter.name) {
            Some(same) => *same = filter,
            None if count >= MAX_FILTERS => return Err("you have 20 filters; delete one first"),
            None => self.0.push(filter),
        }
        Ok(())
    }

    /// Deletes the filter with this name.
    pub fn delete(&mut self, name: &str) {
        self.0.retain(|filter| &*filter.name != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_distinct_names_and_are_few() {
        let mut filters = SavedFilters::default();
        for number in 0..MAX_FILTERS {
            let filter = SavedFilter::new(&format!(" f{number} "), "?status=down").unwrap();
            filters.save(filter).unwrap();
        }
        assert!(
            filters
                .save(SavedFilter::new("more", "?q=a").unwrap())
                .is_err()
        );
        filters
            .save(SavedFilter::new("f3", "?q=b").unwrap())
            .unwrap();
        assert_eq!(filters.iter().nth(3).unwrap().query.as_ref(), "?q=b");
        filters.delete("f3");
        assert_eq!(filters.iter().len(), MAX_FILTERS - 1);
        let stored = SavedFilters::from_stored(filters.iter().cloned());
        assert_eq!(stored, Ok(filters));
        for (name, query) in [("", "?q=a"), ("a\nb", "?q=a"), ("a", ""), ("a", "x")] {
            assert!(SavedFilter::new(name, query).is_err(), "{name:?} {query:?}");
        }
        for (name_chars, query_bytes, fits) in
            [(60, 4_000, true), (61, 4_000, false), (60, 4_001, false)]
        {
            let query = format!("?{}", "a".repeat(query_bytes - 1));
            let filter = SavedFilter::new(&"ž".repeat(name_chars), &query);
            assert_eq!(filter.is_ok(), fits, "{name_chars} {query_bytes}");
        }
    }
}
