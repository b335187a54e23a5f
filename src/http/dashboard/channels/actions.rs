//! Actions of the buttons of a channel.

use std::sync::Arc;

use askama::Template;
use tokio::time::timeout;

use super::{render_page, test_result_banners};
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;
use crate::http::common::reply::HttpError;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_messages::FlashMessage;
use crate::http::dashboard::page_request::PageRequest;
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::operations::OperationError;
use crate::operations::channel::{self, TEST_TIMEOUT};

#[derive(Template)]
#[template(
    path = "delete_channel.html",
    config = "src/http/dashboard/askama.toml"
)]
struct DeleteChannelPage {
    layout: Layout,
    name: String,
    kind: &'static str,
    path: String,
    list: String,
    /// Effects on groups that contain the channel.
    warnings: Vec<String>,
}

/// Sends a test message and shows the result.
pub(crate) async fn send_test(request: PageRequest) -> Result<PageResponse, PageError> {
    let channel = Arc::clone(request.channel()?);
    test_channel(request, &channel).await
}

pub(super) async fn test_channel(
    request: PageRequest,
    channel: &Arc<Channel>,
) -> Result<PageResponse, PageError> {
    let tested = timeout(
        TEST_TIMEOUT,
        channel::test(request.handle(), channel, false),
    )
    .await
    .map_err(|_| HttpError::Unavailable)?;
    let tested = tested.map_err(|error| match error {
        OperationError::EmptyGroup => {
            let text = "No test was sent: the group has no channel. Edit it and add channels.";
            PageError::new(
                HttpError::BadRequest("the group has no channel".into()),
                "Not tested",
                text,
            )
        }
        error => PageError::new(
            HttpError::Unavailable,
            "Not tested",
            format!("No test was sent: {error}."),
        ),
    })?;
    let writer = request.response_writer();
    Ok(writer
        .run_blocking(move || render_page(&request, test_result_banners(&tested)))
        .await??
        .into())
}

/// Enables a disabled channel again.
pub(crate) async fn enable_channel(request: &PageRequest) -> Result<PageResponse, PageError> {
    channel::enable(request.handle(), request.channel()?.id).await?;
    Ok(PageResponse::Redirect(
        Page::Channels(request.project()?.uuid),
        FlashMessage::from_code("integration-enabled"),
    ))
}

/// Assigns checks to a channel, in place of its current checks.
pub(crate) async fn set_checks(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    assign_checks(request, request.channel()?.id, form).await?;
    Ok(PageResponse::Redirect(
        Page::Channels(request.project()?.uuid),
        FlashMessage::from_code("saved"),
    ))
}

/// Assigns exactly the checks that a form selects.
pub(super) async fn assign_checks(
    request: &PageRequest,
    channel: ChannelId,
    form: &FormData,
) -> Result<(), PageError> {
    let choice = form.get("checks");
    let tag = form.get("tag");
    if !matches!(choice, "all" | "none" | "tag") {
        return Err(HttpError::BadRequest("checks must be all, none or tag".into()).into());
    }
    let handle = request.handle().clone();
    let project = request.project()?.id;
    let is_all = choice == "all";
    let tag = (choice == "tag").then(|| tag.to_owned());
    let selection = request.dashboard.run_blocking(request.owner(), move || {
        let mut selected = Vec::new();
        let mut others = Vec::new();
        handle.for_each_check(project, |check| {
            let is_selected = is_all
                || tag
                    .as_ref()
                    .is_some_and(|tag| check.settings.tags.contains(tag));
            if is_selected {
                &mut selected
            } else {
                &mut others
            }
            .push(check.id);
        });
        (selected, others)
    });
    let (selected, others) = selection.await?;
    channel::assign_checks(request.handle(), channel, &selected, true).await?;
    channel::assign_checks(request.handle(), channel, &others, false).await?;
    Ok(())
}

/// Renders the confirmation page.
pub(crate) fn show_delete(request: &PageRequest) -> Result<PageResponse, PageError> {
    let channel = request.channel()?;
    let page = DeleteChannelPage {
        layout: request.layout("Delete a channel"),
        name: channel.name.as_str().into(),
        kind: channel.settings.kind().title,
        path: request.page_url(&request.page),
        list: request.page_url(&Page::Channels(request.project()?.uuid)),
        warnings: request
            .handle()
            .with_state(|state| channel::deletion_warnings(state, channel)),
    };
    Ok(HtmlPage::from_template(&page).into())
}

pub(crate) async fn delete_channel(request: &PageRequest) -> Result<PageResponse, PageError> {
    channel::delete(request.handle(), request.channel()?.id).await?;
    Ok(PageResponse::Redirect(
        Page::Channels(request.project()?.uuid),
        FlashMessage::from_code("integration-deleted"),
    ))
}
