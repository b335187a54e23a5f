//! Page that asks for confirmation of a bulk action.

use askama::Template;

use super::bulk::BulkAction;
use super::query::CheckListQuery;
use crate::channels::alert_text;
use crate::domain::check::Check;
use crate::domain::formatting::format_count;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::HtmlPage;

/// Maximum number of names shown on the page.
const NAMES_SHOWN: usize = 50;

#[derive(Template)]
#[template(
    path = "bulk_confirmation.html",
    config = "src/http/dashboard/askama.toml"
)]
struct BulkConfirmationPage {
    layout: Layout,
    path: String,
    list: String,
    /// Inputs that are sent again.
    inputs: Vec<(&'static str, String)>,
    names: Vec<String>,
    more: usize,
    /// The action, as a heading and as the label of the button: `Pause 300 checks`.
    action: String,
    consequence: &'static str,
    is_deletion: bool,
    /// Text that confirms the action for this number of checks. A deletion requires entering it.
    confirmation: String,
    is_wrong: bool,
}

/// Returns the page that asks for confirmation of an action. `None`: it needs none, or the form
/// contains it.
pub(super) fn confirmation_page(
    request: &PageRequest,
    form: &FormData,
    action: &BulkAction,
    checks: &[Check],
    query: &CheckListQuery,
) -> Result<Option<HtmlPage>, PageError> {
    let is_deletion = matches!(action, BulkAction::Delete);
    let confirmation = format!("{} {}", action.name(), checks.len());
    let needs_confirmation = is_deletion || checks.len() > query.page_size;
    if !needs_confirmation || form.get("confirm").trim() == confirmation {
        return Ok(None);
    }
    let is_wrong = is_deletion && form.has("confirm");
    let mut inputs = query.pairs();
    inputs.extend(
        ["action", "for", "new_tag", "channel"]
            .into_iter()
            .filter(|name| form.has(name))
            .map(|name| (name, form.get(name).to_owned())),
    );
    if form.has("all") && !is_deletion {
        inputs.push(("all", "1".into()));
    } else {
        inputs.extend(checks.iter().map(|check| ("check", check.id.0.to_string())));
    }
    let page = HtmlPage::from_template(&BulkConfirmationPage {
        layout: request.layout("Confirm the action"),
        path: request.page_url(&super::bulk_page(request)),
        list: format!(
            "{}{}",
            request.page_url(&super::list_page(request)),
            query.to_query_string()
        ),
        inputs,
        names: checks
            .iter()
            .take(NAMES_SHOWN)
            .map(|check| alert_text::check_display_name(&check.settings))
            .collect(),
        more: checks.len().saturating_sub(NAMES_SHOWN),
        action: action.phrase(&format_count(checks.len(), "check")),
        consequence: action.consequence(),
        is_deletion,
        confirmation,
        is_wrong,
    });
    Ok(Some(if is_wrong {
        page.with_invalid_form()
    } else {
        page
    }))
}
