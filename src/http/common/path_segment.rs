//! Variable segments of paths, for the tables of endpoints and of pages.

use uuid::Uuid;

use crate::domain::ids::{UniqueKey, parse_path_uuid, write_uuid};

/// Value of a variable segment. [`parse`](Self::parse) reads what [`write`](Self::write) writes.
pub(crate) trait PathSegment: Sized {
    /// Example for tests of the tables.
    fn example() -> Option<Self>;
    fn parse(text: &str) -> Option<Self>;
    fn write(&self, out: &mut String);
}

impl PathSegment for Uuid {
    fn example() -> Option<Self> {
        Some(Self::nil())
    }

    fn parse(text: &str) -> Option<Self> {
        parse_path_uuid(text)
    }

    fn write(&self, out: &mut String) {
        write_uuid(*self, out);
    }
}

impl PathSegment for UniqueKey {
    fn example() -> Option<Self> {
        Some(Self::NONE)
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn write(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}

impl PathSegment for u64 {
    fn example() -> Option<Self> {
        Some(0)
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}
