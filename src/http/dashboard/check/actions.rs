//! Actions of the buttons of a check.

use askama::Template;
use bytes::Bytes;
use uuid::Uuid;

use crate::channels::alert_text;
use crate::domain::check::Check;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::ping::{PingKind, PingMethod, PingOrigin};
use crate::domain::text::{Name, Slug};
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, PingRequest, PingSignal, PingTarget};
use crate::http::common::reply::HttpError;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_messages::FlashMessage;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::http::dashboard::pause_length::PauseLength;
use crate::http::dashboard::undo::{ResultPage, UndoSteps, with_message};
use crate::operations::check;

/// User agent logged for pings that are sent from a page.
const DASHBOARD_USER_AGENT: &str = "overdue dashboard";

/// Redirects to the page of the check, with a message.
fn redirect_to_check(check: Uuid, flash_code: &str) -> PageResponse {
    PageResponse::Redirect(Page::Check(check), FlashMessage::from_code(flash_code))
}

/// Pauses the check for the chosen time.
pub(crate) async fn pause(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let length = PauseLength::parse(form.get("for"))?;
    let times = length.input(request.now, &request.viewer.zone);
    let before = request.check()?;
    let after = check::pause(request.handle(), before.id, times).await?;
    undoable_response(request, before, &after, "paused")
}

pub(crate) async fn resume(request: &PageRequest) -> Result<PageResponse, PageError> {
    let before = request.check()?;
    let after = check::resume(request.handle(), before.id).await?;
    undoable_response(request, before, &after, "resumed")
}

/// Message for a script about a pause or resumption.
#[derive(Template)]
#[template(path = "_undoable.html", config = "src/http/dashboard/askama.toml")]
struct UndoableMessage {
    text: String,
    undo: Option<String>,
}

/// Response to a pause or resumption, which can be undone.
fn undoable_response(
    request: &PageRequest,
    before: &Check,
    after: &Check,
    flash_code: &str,
) -> Result<PageResponse, PageError> {
    let project = request.project()?.uuid;
    let page = request.page_url_with_return(&Page::Check(before.uuid));
    let is_message = &*request.fragment == "message";
    let shown = if is_message {
        ResultPage::List(request.page_url(&Page::Checks(project)))
    } else {
        ResultPage::Check(page.clone())
    };
    let steps = UndoSteps::Restore(UndoSteps::restoration(before, after).into_iter().collect());
    let number = request.dashboard.undo_history.record(request, steps, shown);
    if is_message {
        let name = alert_text::check_display_name(&after.settings);
        let done = if flash_code == "paused" {
            "Paused"
        } else {
            "Resumed"
        };
        return Ok(HtmlPage::from_template(&UndoableMessage {
            text: format!("{done} {name}."),
            undo: number.map(|number| request.page_url(&Page::Undo(project, number))),
        })
        .into());
    }
    Ok(PageResponse::RedirectToUrl(with_message(
        page, flash_code, number,
    )))
}

/// Sends a ping in the name of the job.
pub(crate) async fn ping(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let kind = match form.get("kind") {
        "success" => PingKind::Success,
        "fail" => PingKind::Fail,
        "start" => PingKind::Start,
        _ => {
            return Err(HttpError::BadRequest("kind must be success, fail or start".into()).into());
        }
    };
    let client = &request.origin.client;
    let origin = PingOrigin {
        scheme: client.scheme,
        method: PingMethod::Post,
        remote_addr: Some(client.addr),
        user_agent: DASHBOARD_USER_AGENT.into(),
    };
    let target = PingTarget::Uuid(check.uuid);
    let signal = PingSignal::Http(kind);
    let ping = PingRequest {
        target,
        signal,
        origin,
        rid: None,
        body: Bytes::new(),
    };
    request
        .handle()
        .call(Command::Ping(Box::new(ping)))
        .await??;
    Ok(redirect_to_check(check.uuid, "pinged"))
}

/// Sets the time zone of the schedule.
pub(crate) async fn set_zone(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let tz = Timezone::parse(form.get("tz"))
        .map_err(|error| HttpError::BadRequest(error.to_string().into()))?;
    let edit = CheckEdit {
        tz: Some(tz),
        ..CheckEdit::default()
    };
    check::update(request.handle(), check.id, edit).await?;
    Ok(redirect_to_check(check.uuid, "saved"))
}

/// Sets the channels that are notified about the check.
pub(crate) async fn set_channels(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let channels = Some(ChannelSelection::Listed(
        form.get_all("channel").map(Box::from).collect(),
    ));
    let edit = CheckEdit {
        channels,
        ..CheckEdit::default()
    };
    check::update(request.handle(), check.id, edit).await?;
    Ok(redirect_to_check(check.uuid, "saved"))
}

/// Creates a check with the settings of this one.
pub(crate) async fn copy(request: &PageRequest) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    let after = check.settings.failure_threshold;
    let parents = check.settings.parents.clone();
    let created = create_check(request, copied_settings(request, check)).await?;
    if (after, &parents)
        != (
            created.settings.failure_threshold,
            &created.settings.parents,
        )
    {
        check::update_alert_settings(request.handle(), created.id, Some(after), Some(parents))
            .await?;
    }
    Ok(redirect_to_check(created.uuid, "copied-check"))
}

/// Creates a check in the project of the page.
pub(super) async fn create_check(
    request: &PageRequest,
    edit: CheckEdit,
) -> Result<Box<Check>, PageError> {
    let project = request.project()?.id;
    let created = check::create(request.handle(), project, edit, Vec::new()).await?;
    Ok(created.check)
}

/// Settings of a check with another name and slug.
fn copied_settings(request: &PageRequest, check: &Check) -> CheckEdit {
    let settings = &check.settings;
    let with = |text: &str, suffix: &str, most: usize| {
        text.chars().take(most - suffix.len()).collect::<String>() + suffix
    };
    let slug = if settings.slug.is_empty() {
        String::new()
    } else {
        with(settings.slug.as_str(), "-copy", Slug::MAX_CHARS)
    };
    let name = with(settings.name.as_str(), " (copy)", Name::MAX_CHARS);
    request.handle().with_state(|state| {
        let channels = state
            .channels_of(check)
            .map(|channel| channel.uuid.to_string().into())
            .collect();
        CheckEdit {
            // Neither can exceed its limit or contain a character that is missing in the original.
            name: Name::parse(&name).ok(),
            slug: Slug::parse(&slug).ok(),
            channels: Some(ChannelSelection::Listed(channels)),
            ..CheckEdit::from_settings(settings)
        }
    })
}
