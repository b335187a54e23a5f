//! The list that somebody came from, as it was: its query goes along in the addresses of a check's pages, and leads back when they are done.

use percent_encoding::utf8_percent_encode;

use super::query::{PLAIN, Wanted};
use crate::domain::user::taste::ListTaste;
use crate::wire::request;

/// The query of a list, with its question mark; empty: there is nothing special about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Back(String);

impl Back {
    /// What the address of a page says (`back=`). Whoever made the address may have something else in mind, so it is written anew from what
    /// a list takes.
    pub(crate) fn read(said: &str, usual: ListTaste) -> Self {
        let pairs: Vec<_> = request::pairs(said).filter_map(|(name, value)| name.zip(value)).collect();
        Self::to(&Wanted::read(&pairs, usual))
    }

    /// Back to this list.
    pub(super) fn to(wanted: &Wanted) -> Self {
        Self(wanted.write())
    }

    /// The address of the list, from that of a list of which nothing is said.
    pub(crate) fn list(&self, list: &str) -> String {
        format!("{list}{}", self.0)
    }

    /// The address of a page of a check from which it goes on to lead back.
    pub(crate) fn along(&self, page: &str) -> String {
        match self.0.strip_prefix('?') {
            Some(query) => format!("{page}?back={}", utf8_percent_encode(query, PLAIN)),
            None => page.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leads_to_lists_and_nowhere_else() {
        let back = |said: &str| Back::read(said, ListTaste::default());
        for (said, list) in [
            ("", ""),
            ("status=down&sort=-name&page=2", "?status=down&sort=-name&page=2"),
            ("q=a%20b%26&tag=n%C3%A4s", "?tag=n%C3%A4s&q=a%20b%26"),
            ("status=nothing&sort=by&rows=7&x=y", ""),
            ("https://evil.example/", ""),
            ("//evil.example/?q=1", ""),
            ("q=//evil.example/%0d%0aSet-Cookie:x", "?q=%2F%2Fevil.example%2F%0D%0ASet-Cookie%3Ax"),
            ("q=%ff&status=down", "?status=down"),
        ] {
            assert_eq!(back(said).list("/list/"), format!("/list/{list}"), "{said}");
            // What goes along is read as the same.
            let along = back(said).along("/check/");
            let query = along.strip_prefix("/check/").unwrap();
            let said_on = request::pairs(query.strip_prefix('?').unwrap_or_default()).find_map(|(_, value)| value).unwrap_or_default();
            assert_eq!(back(&said_on), back(said), "{along}");
        }
    }
}
