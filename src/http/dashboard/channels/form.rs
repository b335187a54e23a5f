//! Form of a channel: for a new one of some kind, and for an existing one.

use std::sync::Arc;

use askama::Template;
use tokio::time::timeout;
use uuid::Uuid;

use super::actions::{assign_checks, test_channel};
use super::form_fields::{ChannelFormError, ChannelFormField, Input, form_fields, parse_pairs};
use super::setting_labels::SettingGroup;
use super::test_result_banners;
use crate::domain::alert::ChannelHealth;
use crate::domain::channel::{ChannelKind, ChannelSettings, SettingsAuthor, SettingsUpdate};
use crate::domain::ids::ChannelId;
use crate::domain::project::{Channel, ChannelName};
use crate::http::common::reply::HttpError;
use crate::http::dashboard::form_data::FormData;
use crate::http::dashboard::layout::Layout;
use crate::http::dashboard::page_error::PageError;
use crate::http::dashboard::page_messages::{Banner, FlashMessage};
use crate::http::dashboard::page_request::{PageRequest, Query};
use crate::http::dashboard::page_response::{HtmlPage, PageResponse};
use crate::http::dashboard::page_routes::Page;
use crate::operations::channel::TEST_TIMEOUT;
use crate::operations::{OperationError, channel};

/// Results of a test that was sent before saving.
#[derive(Template)]
#[template(path = "_test_result.html", config = "src/http/dashboard/askama.toml")]
struct TestResultFragment {
    banners: Vec<Banner>,
}

#[derive(Template)]
#[template(path = "channel.html", config = "src/http/dashboard/askama.toml")]
struct ChannelFormPage {
    layout: Layout,
    /// Results of a test that was sent before saving.
    banners: Vec<Banner>,
    title: String,
    steps: &'static [&'static str],
    guide: &'static str,
    path: String,
    list: String,
    name: String,
    kind_fields: Vec<ChannelFormField>,
    common: Vec<ChannelFormField>,
    /// The reason if this server cannot deliver through this kind, and probable mistakes in the
    /// stored settings.
    warnings: Vec<String>,
    /// Error in the submitted form.
    error: Option<ChannelFormError>,
    /// True if the submitted form had secrets, which the page does not repeat.
    has_lost_secrets: bool,
    /// Configuration source that owns the channel.
    declared_in: Option<String>,
    /// True if only the operator may change its settings.
    is_locked: bool,
    /// Target of the form that assigns checks. `None` for a new channel.
    assign: Option<String>,
    tags: Vec<String>,
    /// Checks selected for a new channel: `all`, `none` or `tag`.
    chosen: String,
    tag: String,
}

impl ChannelFormPage {
    /// Error in the name.
    fn name_error(&self) -> Option<&str> {
        self.error
            .as_ref()
            .filter(|error| error.key == Some("name"))
            .map(|error| error.text.as_str())
    }

    /// Fields that many kinds have, by group: heading and fields.
    fn common_groups(&self) -> Vec<(&'static str, Vec<&ChannelFormField>)> {
        let fields = |group| {
            let of_group = |entry: &&ChannelFormField| SettingGroup::of(entry.key) == group;
            self.common.iter().filter(of_group).collect::<Vec<_>>()
        };
        SettingGroup::ALL
            .into_iter()
            .map(|group| (group.title(), fields(group)))
            .filter(|(_, fields)| !fields.is_empty())
            .collect()
    }

    /// True if there is an error in a field that all kinds have.
    fn has_common_error(&self) -> bool {
        self.common.iter().any(|entry| entry.error.is_some())
    }
}

/// Name of the button that sends a test before saving.
const TRY_BUTTON: &str = "try";
/// Maximum number of tags that the form offers.
const MAX_TAGS: usize = 200;

/// Renders the form for a new channel.
pub(crate) fn show_add(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_form(request, None, None, Vec::new())?.into())
}

/// Renders the form of an existing channel.
pub(crate) fn show_edit(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_form(request, None, None, Vec::new())?.into())
}

/// Renders the form, with the stored or the submitted values.
fn render_form(
    request: &PageRequest,
    form: Option<&Query>,
    error: Option<ChannelFormError>,
    banners: Vec<Banner>,
) -> Result<HtmlPage, PageError> {
    let channel = request.channel().ok();
    let kind = channel_kind(request)?;
    let shown = channel.map(|channel| {
        request
            .handle()
            .with_state(|state| state.display_settings(channel).into_owned())
    });
    let stored = shown.as_ref();
    let [mut kind_fields, mut common] = form_fields(kind, stored, form);
    for entry in kind_fields.iter_mut().chain(&mut common) {
        entry.error = error
            .as_ref()
            .filter(|error| error.key == Some(entry.key))
            .map(|error| error.text.clone());
    }
    let has_lost_secrets = form.is_some_and(|form| {
        let mut entries = kind_fields.iter().chain(&common);
        entries.any(|entry| entry.input == Input::Secret && !form.get(entry.key).is_empty())
    });
    let choice = |name: &str| {
        form.map(|form| form.get(name).to_owned())
            .unwrap_or_default()
    };
    let name = match (form, channel) {
        (Some(form), _) => form.get("name").to_owned(),
        (None, Some(channel)) => channel.name.as_str().to_owned(),
        (None, None) => String::new(),
    };
    let mut tags = std::collections::BTreeSet::new();
    request
        .handle()
        .for_each_check(request.project()?.id, |check| {
            if tags.len() < MAX_TAGS {
                tags.extend(check.settings.tags.iter().map(str::to_owned));
            }
        });
    let what = if channel.is_some() { "Edit" } else { "Add" };
    let obstacle = request
        .handle()
        .transports()
        .and_then(|transports| kind.delivery_obstacle(transports));
    let obstacle = obstacle.map(|obstacle| format!("the channel cannot deliver: {obstacle}"));
    let layout = request.layout(format!("{what} {} channel", kind.title));
    let html = HtmlPage::from_template(&ChannelFormPage {
        layout,
        banners,
        title: format!("{what} channel: {}", kind.title),
        steps: kind.steps,
        guide: kind.guide,
        path: request.page_url(&request.page),
        list: request.page_url(&Page::Channels(request.project()?.uuid)),
        name,
        kind_fields,
        common,
        warnings: obstacle
            .into_iter()
            .chain(
                channel
                    .into_iter()
                    .flat_map(|channel| channel.settings.warnings()),
            )
            .collect(),
        error,
        has_lost_secrets,
        declared_in: channel.and_then(|channel| request.declaring_source(channel.id.0)),
        is_locked: stored
            .is_some_and(|stored| stored.validate_author(SettingsAuthor::Api).is_err()),
        assign: channel.map(|channel| request.page_url(&Page::ChecksOfChannel(channel.uuid))),
        tags: tags.into_iter().take(MAX_TAGS).collect(),
        chosen: Some(choice("checks"))
            .filter(|chosen| !chosen.is_empty())
            .unwrap_or_else(|| "all".into()),
        tag: choice("tag"),
    });
    // The URLs of a channel may be all that a sender needs.
    Ok(if channel.is_some() {
        html.without_caching()
    } else {
        html
    })
}

fn channel_kind(request: &PageRequest) -> Result<&'static ChannelKind, PageError> {
    match &request.page {
        Page::AddChannel(_, kind) if !kind.operator_only => Ok(kind),
        Page::AddChannel(..) => Err(PageError::not_found()),
        _ => Ok(request.channel()?.settings.kind()),
    }
}

/// Parses the submitted name.
fn parse_name(fields: &Query) -> Result<ChannelName, ChannelFormError> {
    ChannelName::parse(fields.get("name").trim()).map_err(|text| ChannelFormError {
        key: Some("name"),
        text: text.to_string(),
    })
}

/// Renders the submitted form again, with the error.
async fn redisplay_form(
    request: PageRequest,
    form: FormData,
    error: ChannelFormError,
) -> Result<PageResponse, PageError> {
    let writer = request.response_writer();
    let html = writer
        .run_blocking(move || render_form(&request, Some(form.fields()), Some(error), Vec::new()))
        .await??;
    Ok(html.with_invalid_form().into())
}

/// Creates a channel and assigns the selected checks.
pub(crate) async fn create_channel(
    request: PageRequest,
    form: FormData,
) -> Result<PageResponse, PageError> {
    let kind = channel_kind(&request)?;
    let fields = form.fields();
    let read = || {
        let name = parse_name(fields)?;
        let settings = ChannelSettings::parse(kind, parse_pairs(kind, None, fields)?)?;
        settings.validate_author(SettingsAuthor::Api)?;
        Ok::<_, ChannelFormError>((name, settings))
    };
    let (name, settings) = match read() {
        Ok(read) => read,
        Err(error) => return redisplay_form(request, form, error).await,
    };
    let project = request.project()?.id;
    if form.has(TRY_BUTTON) {
        let draft = Channel {
            id: ChannelId(0),
            uuid: Uuid::nil(),
            project,
            name,
            settings,
            health: ChannelHealth::default(),
            set_by_operator: false,
        };
        return try_draft(request, form, draft).await;
    }
    let author = SettingsAuthor::Api;
    let created = channel::create(request.handle(), project, name, settings, author).await;
    let channel = match created {
        Err(OperationError::Settings(error)) => {
            return redisplay_form(request, form, error.into()).await;
        }
        created => created?,
    };
    assign_checks(&request, channel.id, &form).await?;
    respond_or_test(request, Arc::from(channel), &form, "integration-made").await
}

/// Updates a channel. Unchanged settings are not submitted, so settings of the operator remain.
pub(crate) async fn update_channel(
    request: PageRequest,
    form: FormData,
) -> Result<PageResponse, PageError> {
    let channel = Arc::clone(request.channel()?);
    let stored = &channel.settings;
    let fields = form.fields();
    let read = || {
        let name = parse_name(fields)?;
        if stored.validate_author(SettingsAuthor::Api).is_err() {
            return Ok((name, None));
        }
        let update = SettingsUpdate::replace_all(parse_pairs(stored.kind(), Some(stored), fields)?);
        let applied = update.apply_to(stored)?;
        let update = (applied != *stored).then_some((update, applied));
        Ok::<_, ChannelFormError>((name, update))
    };
    let (name, settings) = match read() {
        Ok(read) => read,
        Err(error) => return redisplay_form(request, form, error).await,
    };
    if form.has(TRY_BUTTON) {
        let draft = Channel {
            name,
            settings: settings.map_or_else(|| stored.clone(), |(_, applied)| applied),
            set_by_operator: false,
            ..Channel::clone(&channel)
        };
        return try_draft(request, form, draft).await;
    }
    let settings = settings.map(|(update, _)| update);
    let author = SettingsAuthor::Api;
    let updated = channel::update(request.handle(), channel.id, Some(name), settings, author).await;
    match updated {
        Err(OperationError::Settings(error)) => redisplay_form(request, form, error.into()).await,
        updated => respond_or_test(request, Arc::from(updated?), &form, "saved").await,
    }
}

/// Sends a test with the settings of a form, which stay in the form and are not saved. A script
/// gets the result alone.
async fn try_draft(
    request: PageRequest,
    form: FormData,
    draft: Channel,
) -> Result<PageResponse, PageError> {
    let draft = Arc::new(draft);
    let tested = timeout(TEST_TIMEOUT, channel::test_draft(request.handle(), &draft))
        .await
        .map_err(|_| HttpError::Unavailable)?;
    let banners = match &tested {
        Ok(tested) => test_result_banners(tested),
        Err(error) => vec![Banner::error(format!("No test was sent: {error}."))],
    };
    if &*request.fragment == "test" {
        return Ok(HtmlPage::from_template(&TestResultFragment { banners }).into());
    }
    let writer = request.response_writer();
    let html = writer
        .run_blocking(move || render_form(&request, Some(form.fields()), None, banners))
        .await??;
    Ok(html.into())
}

/// Redirects to the list, after a test if the form asks for one.
async fn respond_or_test(
    request: PageRequest,
    channel: Arc<Channel>,
    form: &FormData,
    flash_code: &str,
) -> Result<PageResponse, PageError> {
    if form.has("test") {
        return test_channel(request, &channel).await;
    }
    Ok(PageResponse::Redirect(
        Page::Channels(request.project()?.uuid),
        FlashMessage::from_code(flash_code),
    ))
}
