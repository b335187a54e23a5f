//! Actions of the buttons of a check.

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::check::Check;
use crate::domain::check_edit::{ChannelSelection, CheckEdit};
use crate::domain::ping::{PingKind, PingMethod, PingOrigin};
use crate::domain::text::{Name, Slug};
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, PingRequest, PingSignal, PingTarget};
use crate::http::common::reply::HttpError;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_handler::PageResponse;
use crate::http::dashboard::page_messages::FlashMessage;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_routes::Page;
use crate::operations::check;

/// User agent logged for pings that are sent from a page.
const DASHBOARD_USER_AGENT: &str = "overdue dashboard";

/// Redirects to the page of the check, with a message.
fn redirect_to_check(check: Uuid, flash_code: &str) -> PageResponse {
    PageResponse::Redirect(Page::Check(check), FlashMessage::from_code(flash_code))
}

pub(crate) async fn pause(request: &PageRequest) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    check::pause(request.handle(), check.id).await?;
    Ok(redirect_to_check(check.uuid, "paused"))
}

pub(crate) async fn resume(request: &PageRequest) -> Result<PageResponse, PageError> {
    let check = request.check()?;
    check::resume(request.handle(), check.id).await?;
    Ok(redirect_to_check(check.uuid, "resumed"))
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
