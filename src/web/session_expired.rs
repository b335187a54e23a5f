//! A form that came from somebody whose session is over: what they typed waits on a page until they have signed in again.

use askama::Template;

use super::DashboardState;
use super::form_data::FormData;
use super::layout::Layout;
use super::page_handler::HtmlPage;
use crate::wire::reply::HttpError;

/// Fields that are typed again: nobody sends a password back.
const PASSWORD_FIELDS: [&str; 2] = ["password", "new"];

#[derive(Template)]
#[template(path = "again.html", config = "src/web/askama.toml")]
struct SessionExpiredPage<'a> {
    frame: Layout,
    /// Where the form goes.
    path: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

/// The page; `path` is where the form was sent.
pub(super) fn render_page(site: &DashboardState, path: &str, form: &FormData) -> HtmlPage {
    let fields = form.fields().0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = fields.filter(|(name, _)| !PASSWORD_FIELDS.contains(name)).collect();
    HtmlPage::from_template(&SessionExpiredPage { frame: Layout::without_user(site, "Signed out"), path, fields })
        .without_caching()
        .with_error(HttpError::NotSignedIn)
}
