//! Page for a form whose session has ended: it keeps the fields until the user has signed in again.

use askama::Template;

use super::DashboardState;
use super::form_data::FormData;
use super::layout::Layout;
use super::page_response::HtmlPage;
use crate::http::common::reply::HttpError;

/// Fields that have to be entered again, because passwords are never sent back.
const PASSWORD_FIELDS: [&str; 2] = ["password", "new"];

#[derive(Template)]
#[template(
    path = "session_expired.html",
    config = "src/http/dashboard/askama.toml"
)]
struct SessionExpiredPage<'a> {
    layout: Layout,
    /// Target of the form.
    path: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

/// Renders the page. `path`: target of the form.
pub(super) fn render_page(dashboard: &DashboardState, path: &str, form: &FormData) -> HtmlPage {
    let fields = form
        .fields()
        .0
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = fields
        .filter(|(name, _)| !PASSWORD_FIELDS.contains(name))
        .collect();
    HtmlPage::from_template(&SessionExpiredPage {
        layout: Layout::without_user(dashboard, "Signed out"),
        path,
        fields,
    })
    .without_caching()
    .with_error(HttpError::NotSignedIn)
}
