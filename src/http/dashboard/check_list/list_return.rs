//! Link back to the list of checks: the URLs of the pages of a check carry the query of the list.

use percent_encoding::utf8_percent_encode;

use super::query::{CheckListQuery, QUERY_ESCAPE_SET};
use crate::domain::user::preferences::ListPreferences;
use crate::http::common::request;

/// Query of a list, with its question mark. Empty for the default list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ListReturn(String);

impl ListReturn {
    /// Parses the `back` parameter of a page. It is untrusted, so it is rebuilt from the parameters
    /// that a list accepts.
    pub(crate) fn parse(query: &str, defaults: ListPreferences) -> Self {
        let pairs: Vec<_> = request::form_pairs(query)
            .filter_map(|(name, value)| name.zip(value))
            .collect();
        Self::from_query(&CheckListQuery::parse(&pairs, defaults))
    }

    /// Link back to this list.
    pub(super) fn from_query(query: &CheckListQuery) -> Self {
        Self(query.to_query_string())
    }

    /// URL of the list, from the URL of the default list.
    pub(crate) fn list_url(&self, list: &str) -> String {
        format!("{list}{}", self.0)
    }

    /// URL of a page of a check that carries this link.
    pub(crate) fn url_with_return(&self, page: &str) -> String {
        match self.0.strip_prefix('?') {
            Some(query) => format!(
                "{page}?back={}",
                utf8_percent_encode(query, QUERY_ESCAPE_SET)
            ),
            None => page.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_url_leads_only_to_lists() {
        let back = |said: &str| ListReturn::parse(said, ListPreferences::default());
        for (said, list) in [
            ("", ""),
            (
                "status=down&sort=-name&page=2",
                "?status=down&sort=-name&page=2",
            ),
            ("q=a%20b%26&tag=n%C3%A4s", "?tag=n%C3%A4s&q=a%20b%26"),
            ("status=nothing&sort=by&rows=7&x=y", ""),
            ("https://evil.example/", ""),
            ("//evil.example/?q=1", ""),
            (
                "q=//evil.example/%0d%0aSet-Cookie:x",
                "?q=%2F%2Fevil.example%2F%0D%0ASet-Cookie%3Ax",
            ),
            ("q=%ff&status=down", "?status=down"),
        ] {
            assert_eq!(
                back(said).list_url("/list/"),
                format!("/list/{list}"),
                "{said}"
            );
            // The query survives the round trip.
            let along = back(said).url_with_return("/check/");
            let query = along.strip_prefix("/check/").unwrap();
            let said_on = request::form_pairs(query.strip_prefix('?').unwrap_or_default())
                .find_map(|(_, value)| value)
                .unwrap_or_default();
            assert_eq!(back(&said_on), back(said), "{along}");
        }
    }
}
