//! Settings of a project: its name, keys, members and limits, and its deletion.

use std::net::IpAddr;

use askama::Template;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, RequiredRight};
use super::sign_in::has_confirmed_password;
use super::time_display::DisplayTime;
use crate::domain::formatting::format_count;
use crate::domain::ids::KeyId;
use crate::domain::project::{KeyAccess, KeyLabel, KeySecret, Project, ProjectKey, ProjectName};
use crate::operations::{self, OperationError, project::ProjectChanges};

#[derive(Template)]
#[template(path = "settings.html", config = "src/http/dashboard/askama.toml")]
struct ProjectSettingsPage {
    layout: Layout,
    name: String,
    name_error: Option<String>,
    may_write: bool,
    is_owner: bool,
    api_keys: Vec<KeyListRow>,
    ping_keys: Vec<KeyListRow>,
    /// Key that was just created.
    new_key: Option<String>,
    /// Submitted label of a new key, and of a new ping key.
    label: String,
    label_error: Option<&'static str>,
    ping_label: String,
    ping_label_error: Option<&'static str>,
    is_read_only: bool,
    members: Vec<ProjectMemberRow>,
    ping_log_limit: String,
    check_limit: String,
    allows_ping_settings: bool,
    limit_error: Option<&'static str>,
    checks: String,
    asks_password: bool,
    delete_error: Option<&'static str>,
    page_url: String,
}

pub(super) struct KeyListRow {
    id: u64,
    access: &'static str,
    label: String,
    hint: String,
    created: DisplayTime,
    used: Option<(DisplayTime, IpAddr)>,
    is_unused_since_import: bool,
    /// Text of a ping key, which may be shown again.
    text: Option<String>,
}

struct ProjectMemberRow {
    name: String,
    access: &'static str,
}

/// Errors in one of the submitted forms.
#[derive(Default)]
struct SettingsFormErrors {
    name: Option<(String, String)>,
    label: Option<(String, KeyAccess, &'static str)>,
    /// Submitted limits and permission, and the reason for refusing them.
    limits: Option<(String, String, bool, &'static str)>,
    delete: Option<&'static str>,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, SettingsFormErrors::default())?.into())
}

fn render_page(request: &PageRequest, errors: SettingsFormErrors) -> Result<HtmlPage, PageError> {
    let project = request.project()?;
    let may_write = request.is_allowed(RequiredRight::Write);
    let is_owner = request.is_allowed(RequiredRight::Owner);
    let path = Page::Settings(project.uuid).to_string();
    let new_key = if may_write {
        request.dashboard.one_time_texts.take(request, &path)
    } else {
        None
    };
    let keys: Vec<_> = if may_write {
        operations::key::list(request.handle(), Some(project.id))
    } else {
        Vec::new()
    };
    let (ping_keys, api_keys): (Vec<_>, Vec<_>) = keys
        .iter()
        .map(|(_, key)| key_row(request, key))
        .partition(|row| row.text.is_some());
    let is_secret = new_key.is_some() || !ping_keys.is_empty();
    let limit = project
        .check_limit
        .map(|limit| limit.to_string())
        .unwrap_or_default();
    let is_refused = errors.name.is_some()
        || errors.label.is_some()
        || errors.limits.is_some()
        || errors.delete.is_some();
    let (name, name_error) = errors.name.unzip();
    let access = errors.label.as_ref().map(|(_, access, _)| *access);
    let (ping, own): (Vec<_>, Vec<_>) = errors
        .label
        .into_iter()
        .partition(|(_, access, _)| *access == KeyAccess::Ping);
    let of = |label: Vec<(String, KeyAccess, &'static str)>| {
        label
            .into_iter()
            .next()
            .map(|(label, _, reason)| (label, reason))
            .unzip()
    };
    let (label, label_error): (Option<String>, _) = of(own);
    let (ping_label, ping_label_error): (Option<String>, _) = of(ping);
    let (pings, checks, allows_ping_settings, limit_error) = errors.limits.map_or_else(
        || {
            let pings = project.ping_log_limit.to_string();
            (pings, limit, project.allows_ping_settings, None)
        },
        |(pings, checks, is_allowed, reason)| (pings, checks, is_allowed, Some(reason)),
    );
    let settings = ProjectSettingsPage {
        layout: request.layout("Settings"),
        name: name.unwrap_or_else(|| project.name.as_str().into()),
        name_error,
        may_write,
        is_owner,
        api_keys,
        ping_keys,
        new_key,
        label: label.unwrap_or_default(),
        label_error,
        ping_label: ping_label.unwrap_or_default(),
        ping_label_error,
        is_read_only: access == Some(KeyAccess::ReadOnly),
        members: project_members(request, project),
        ping_log_limit: pings,
        check_limit: checks,
        allows_ping_settings,
        limit_error,
        checks: format_count(
            request.handle().with_state(|state| {
                state
                    .project(project.id)
                    .map_or(0, |found| found.checks.len())
            }),
            "check",
        ),
        asks_password: needs_password(request),
        delete_error: errors.delete,
        page_url: request.page_url(&Page::Settings(project.uuid)),
    };
    let html = HtmlPage::from_template(&settings);
    let html = if is_secret {
        html.without_caching()
    } else {
        html
    };
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

/// True if a critical action requires the password.
pub(super) fn needs_password(request: &PageRequest) -> bool {
    let signed_in = request.viewer.signed_in.as_ref();
    let session = signed_in
        .filter(|signed_in| signed_in.user.password.is_some())
        .and_then(|signed_in| signed_in.session.as_ref());
    session.is_some_and(|session| !session.is_confirmed(request.now))
}

fn key_row(request: &PageRequest, key: &ProjectKey) -> KeyListRow {
    KeyListRow {
        id: key.id.0,
        access: match key.secret.access() {
            KeyAccess::ReadWrite => "Read-write",
            KeyAccess::ReadOnly => "Read-only",
            KeyAccess::Ping => "Ping",
        },
        label: key.label.as_str().into(),
        hint: key.hint.as_ref().into(),
        created: DisplayTime::relative(key.created, &request.time_formatter()),
        used: key.last_use.map(|used| {
            (
                DisplayTime::relative(used.at, &request.time_formatter()),
                used.from,
            )
        }),
        is_unused_since_import: key.is_unused_since_import(),
        text: if let KeySecret::Ping(key) = &key.secret {
            Some(key.as_str().into())
        } else {
            None
        },
    }
}

fn project_members(request: &PageRequest, project: &Project) -> Vec<ProjectMemberRow> {
    request.handle().with_state(|state| {
        let mut members: Vec<_> = state
            .users
            .iter()
            .filter(|user| !user.disabled)
            .filter_map(|user| {
                let access = if user.grant.is_owner() {
                    "owner"
                } else {
                    user.grant.membership_in(project.id)?.name()
                };
                Some(ProjectMemberRow {
                    name: user.name.as_str().into(),
                    access,
                })
            })
            .collect();
        members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        members
    })
}

/// Renames the project.
pub(super) async fn rename_project(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let form = form.get("name");
    let refused = |reason: &str| {
        Ok(render_page(
            request,
            SettingsFormErrors {
                name: Some((form.into(), reason.into())),
                ..SettingsFormErrors::default()
            },
        )?
        .into())
    };
    let name = match ProjectName::parse(form) {
        Ok(name) => Some(name),
        Err(reason) => return refused(reason),
    };
    match operations::project::update(
        request.handle(),
        project.id,
        ProjectChanges {
            name,
            ..ProjectChanges::default()
        },
    )
    .await
    {
        Err(error @ OperationError::ProjectNameTaken) => refused(&error.to_string()),
        done => redirect_after_save(request, done),
    }
}

/// Sets the limits of the project.
pub(super) async fn set_limits(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let pings = form.get("pings").trim();
    let checks = form.get("checks").trim();
    let allows_ping_settings = form.has("ping-settings");
    let check_limit = if checks.is_empty() {
        Some(None)
    } else {
        checks.parse().ok().map(Some)
    };
    let (Ok(ping_log_limit), Some(check_limit)) = (pings.parse(), check_limit) else {
        let reason = if pings.parse::<u32>().is_err() {
            "enter the number of pings to keep for each check, such as 100"
        } else {
            "enter a number of checks, or leave the field empty for no limit"
        };
        return Ok(render_page(
            request,
            SettingsFormErrors {
                limits: Some((pings.into(), checks.into(), allows_ping_settings, reason)),
                ..SettingsFormErrors::default()
            },
        )?
        .into());
    };
    let changes = ProjectChanges {
        check_limit: Some(check_limit),
        ping_log_limit: Some(ping_log_limit),
        allows_ping_settings: Some(allows_ping_settings),
        ..ProjectChanges::default()
    };
    redirect_after_save(
        request,
        operations::project::update(request.handle(), request.project()?.id, changes).await,
    )
}

fn redirect_after_save(
    request: &PageRequest,
    done: Result<(), OperationError>,
) -> Result<PageResponse, PageError> {
    done?;
    Ok(PageResponse::Redirect(
        Page::Settings(request.project()?.uuid),
        FlashMessage::from_code("saved"),
    ))
}

/// Creates a key.
pub(super) async fn create_key(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let label = form.get("label");
    let access = KeyAccess::parse(form.get("access")).ok_or_else(PageError::not_found)?;
    let label = match KeyLabel::parse(label.trim()) {
        Ok(label) => label,
        Err(reason) => {
            return Ok(render_page(
                request,
                SettingsFormErrors {
                    label: Some((label.into(), access, reason)),
                    ..SettingsFormErrors::default()
                },
            )?
            .into());
        }
    };
    let (id, key) = operations::key::create(request.handle(), project.id, access, label).await?;
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        key = id.0,
        "created a key"
    );
    let settings = Page::Settings(project.uuid);
    if access == KeyAccess::Ping {
        return Ok(PageResponse::Redirect(
            settings,
            FlashMessage::from_code("ping-key-made"),
        ));
    }
    request
        .dashboard
        .one_time_texts
        .store(request, &settings.to_string(), key);
    Ok(PageResponse::Redirect(settings, None))
}

#[derive(Template)]
#[template(path = "key.html", config = "src/http/dashboard/askama.toml")]
struct KeyPage {
    layout: Layout,
    key: KeyListRow,
    label: String,
    label_error: Option<&'static str>,
    page_url: String,
    back: String,
}

/// Renders the page of a key, which renames or revokes it.
pub(super) fn show_key(request: &PageRequest, id: u64) -> Result<PageResponse, PageError> {
    let key = key_row(request, &find_key(request, id)?);
    let label = key.label.clone();
    Ok(render_key_page(request, id, key, label, None)?.into())
}

fn render_key_page(
    request: &PageRequest,
    id: u64,
    key: KeyListRow,
    label: String,
    label_error: Option<&'static str>,
) -> Result<HtmlPage, PageError> {
    let project = request.project()?.uuid;
    let page_url = request.page_url(&Page::Key(project, id));
    let back = request.page_url(&Page::Settings(project));
    Ok(HtmlPage::from_template(&KeyPage {
        layout: request.layout("Key"),
        key,
        label,
        label_error,
        page_url,
        back,
    }))
}

/// Revokes or renames the key.
pub(super) async fn post_key(
    request: &PageRequest,
    id: u64,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let key = find_key(request, id)?;
    if form.has("label") {
        let form = form.get("label").trim();
        let label = match KeyLabel::parse(form) {
            Ok(label) => label,
            Err(reason) => {
                return Ok(render_key_page(
                    request,
                    id,
                    key_row(request, &key),
                    form.into(),
                    Some(reason),
                )?
                .with_invalid_form()
                .into());
            }
        };
        operations::key::rename(request.handle(), key.id, label).await?;
        return Ok(PageResponse::Redirect(
            Page::Settings(request.project()?.uuid),
            FlashMessage::from_code("saved"),
        ));
    }
    operations::key::revoke(request.handle(), id).await?;
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        key = id,
        "revoked a key"
    );
    Ok(PageResponse::Redirect(
        Page::Settings(request.project()?.uuid),
        FlashMessage::from_code("key-revoked"),
    ))
}

/// Finds a key of this project.
fn find_key(request: &PageRequest, id: u64) -> Result<ProjectKey, PageError> {
    let project = request.project()?.id;
    request.handle().with_state(|state| {
        state
            .key(KeyId(id))
            .filter(|key| key.project == project)
            .map(|key| ProjectKey::clone(key))
            .ok_or_else(PageError::not_found)
    })
}

/// Deletes the project.
pub(super) async fn delete_project(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let project = request.project()?;
    let refused = |reason| {
        Ok(render_page(
            request,
            SettingsFormErrors {
                delete: Some(reason),
                ..SettingsFormErrors::default()
            },
        )?
        .into())
    };
    if form.get("name") != project.name.as_str() {
        return refused("enter the exact name of the project");
    }
    if !has_confirmed_password(request, form.get("password")).await? {
        return refused("enter your password");
    }
    operations::project::delete(request.handle(), project.id).await?;
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        project = project.name.as_str(),
        "deleted a project"
    );
    Ok(PageResponse::Redirect(
        Page::Projects(),
        FlashMessage::from_code("project-deleted"),
    ))
}
