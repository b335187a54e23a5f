//! Settings of summaries by mail, on the account of the signed-in user.

use askama::Template;
use uuid::Uuid;

use super::account::own_account;
use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::time_display::DisplayTime;
use crate::domain::ids::parse_path_uuid;
use crate::domain::mail_address::MailAddress;
use crate::domain::timestamp::MICROS_PER_SEC;
use crate::domain::user::summary::{
    MAX_SUMMARY_PROJECTS, SummaryInterval, SummaryPeriod, SummarySettings,
};
use crate::engine::command::user::UserChanges;
use crate::operations;

/// Minimum time between two summaries that a user requests, in seconds: see
/// [limits](crate::docs::limits).
const MIN_REPEAT_SECS: i64 = 600;

#[derive(Template)]
#[template(path = "summary.html", config = "src/http/dashboard/askama.toml")]
struct SummaryPage {
    layout: Layout,
    page_url: String,
    account: String,
    error: Option<String>,
    sends_mail: bool,
    /// Error of the last attempt to send one.
    failure: Option<String>,
    zone: String,
    /// Value, label, and true for the selected one.
    intervals: [(&'static str, &'static str, bool); 3],
    address: String,
    projects: Vec<ProjectChoice>,
    is_on: bool,
    sent: Option<DisplayTime>,
}

struct ProjectChoice {
    uuid: Uuid,
    name: String,
    is_chosen: bool,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, None, None)?.into())
}

fn render_page(
    request: &PageRequest,
    submitted: Option<&FormData>,
    error: Option<String>,
) -> Result<HtmlPage, PageError> {
    let (user, _) = own_account(request)?;
    let subscription = user.summary.as_ref();
    let settings = subscription.map(|subscription| &subscription.settings);
    let interval = match submitted {
        Some(form) => SummaryInterval::parse(form.get("interval")),
        None => settings.map(|settings| settings.interval),
    };
    // Names of many users are mail addresses.
    let default_address = || {
        MailAddress::parse(user.name.as_str())
            .map(|address| address.as_str().to_owned())
            .unwrap_or_default()
    };
    let address = match (submitted, settings) {
        (Some(form), _) => form.get("address").to_owned(),
        (None, Some(settings)) => settings.address.as_str().to_owned(),
        (None, None) => default_address(),
    };
    let chosen: Vec<Uuid> = match submitted {
        Some(form) => chosen_projects(form),
        None => settings.map_or_else(Vec::new, |settings| settings.projects.to_vec()),
    };
    let is_refused = error.is_some();
    let page = SummaryPage {
        layout: request.layout("Summary by mail"),
        page_url: request.page_url(&Page::AccountSummary()),
        account: request.page_url(&Page::Account()),
        error,
        sends_mail: request
            .handle()
            .transports()
            .is_none_or(|transports| transports.mail),
        failure: subscription
            .and_then(|subscription| subscription.failure.as_deref())
            .map(String::from),
        zone: request.viewer.zone.name().into(),
        intervals: [
            (OFF, "never", interval.is_none()),
            option(SummaryInterval::Weekly, "every week", interval),
            option(SummaryInterval::Monthly, "every month", interval),
        ],
        address,
        projects: request
            .visible_projects()
            .iter()
            .map(|project| ProjectChoice {
                uuid: project.uuid,
                name: project.name.as_str().into(),
                is_chosen: chosen.contains(&project.uuid),
            })
            .collect(),
        is_on: subscription.is_some(),
        sent: subscription
            .and_then(|subscription| subscription.last_sent)
            .map(|sent| DisplayTime::relative(sent, &request.time_formatter())),
    };
    let html = HtmlPage::from_template(&page);
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

/// Value of the form for no summaries.
const OFF: &str = "off";

fn option(
    interval: SummaryInterval,
    label: &'static str,
    chosen: Option<SummaryInterval>,
) -> (&'static str, &'static str, bool) {
    (interval.name(), label, chosen == Some(interval))
}

fn chosen_projects(form: &FormData) -> Vec<Uuid> {
    form.get_all("project")
        .filter_map(parse_path_uuid)
        .collect()
}

/// Saves the settings, or requests the last summary again.
pub(super) async fn save(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    if form.has("repeat") {
        return repeat(request).await;
    }
    let settings = match parse_settings(request, form) {
        Ok(settings) => settings,
        Err(error) => return Ok(render_page(request, Some(form), Some(error))?.into()),
    };
    let (user, session) = own_account(request)?;
    let code = if settings.is_some() {
        "summary-on"
    } else {
        "summary-off"
    };
    let changes = UserChanges {
        summary: Some(settings),
        ..UserChanges::default()
    };
    operations::user::update(request.handle(), user.id, changes, session).await?;
    Ok(PageResponse::Redirect(
        Page::AccountSummary(),
        FlashMessage::from_code(code),
    ))
}

/// Parses the form. `None` for no summaries.
fn parse_settings(
    request: &PageRequest,
    form: &FormData,
) -> Result<Option<SummarySettings>, String> {
    let interval = match form.get("interval") {
        OFF => return Ok(None),
        text => SummaryInterval::parse(text).ok_or("select how often a summary is sent")?,
    };
    let visible = request.visible_projects();
    let mut projects = chosen_projects(form);
    projects.retain(|chosen| visible.iter().any(|project| project.uuid == *chosen));
    projects.dedup();
    if projects.len() > MAX_SUMMARY_PROJECTS {
        return Err("select at most 100 projects, or none for all".into());
    }
    Ok(Some(SummarySettings {
        interval,
        address: MailAddress::parse(form.get("address"))?,
        projects: projects.into(),
    }))
}

async fn repeat(request: &PageRequest) -> Result<PageResponse, PageError> {
    let (user, _) = own_account(request)?;
    let subscription = user.summary.as_ref().ok_or_else(PageError::not_found)?;
    let is_recent = subscription
        .last_sent
        .is_some_and(|sent| request.now.micros_since(sent) < MIN_REPEAT_SECS * MICROS_PER_SEC);
    if is_recent {
        let error = "the last one was sent less than ten minutes ago".into();
        return Ok(render_page(request, None, Some(error))?.into());
    }
    let interval = subscription.settings.interval;
    let period = SummaryPeriod::latest(interval, request.now, &request.viewer.zone)
        .ok_or_else(PageError::not_found)?;
    operations::user::repeat_summary(request.handle(), user.id, period).await?;
    Ok(PageResponse::Redirect(
        Page::AccountSummary(),
        FlashMessage::from_code("summary-sent"),
    ))
}
