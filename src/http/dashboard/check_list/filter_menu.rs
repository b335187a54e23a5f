//! Menu of the filters that the viewer has saved.

use super::query::CheckListQuery;
use crate::domain::user::saved_filters::SavedFilter;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_routes::Page;

/// Saved filters, and the form that changes them.
pub(super) struct FilterMenu {
    /// Target of the form.
    pub(super) target: String,
    /// URL of the list.
    pub(super) list: String,
    /// Query of the filter that is shown.
    pub(super) query: String,
    pub(super) filters: Vec<FilterLink>,
    /// Maximum number of characters of a name.
    pub(super) max_name: usize,
}

/// Saved filter.
pub(super) struct FilterLink {
    pub(super) name: String,
    pub(super) url: String,
    /// True if the list shows this filter.
    pub(super) is_on: bool,
}

impl FilterMenu {
    /// Menu of a list. `None` if the viewer has no account.
    pub(super) fn new(request: &PageRequest, query: &CheckListQuery) -> Option<Self> {
        let signed_in = request.viewer.signed_in.as_ref()?;
        let list = request.page_url(&request.page);
        let query = query.with_change(|_| ()).to_query_string();
        let link = |filter: &SavedFilter| FilterLink {
            name: filter.name.to_string(),
            url: format!("{list}{}", filter.query),
            is_on: *filter.query == *query,
        };
        Some(Self {
            target: request.page_url(&Page::AccountFilters()),
            filters: signed_in
                .user
                .preferences
                .filters
                .iter()
                .map(link)
                .collect(),
            max_name: SavedFilter::MAX_NAME_CHARS,
            list,
            query,
        })
    }
}
