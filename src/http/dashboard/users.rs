//! Page of all users, for owners, which invites users.

pub(super) mod user_page;

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::project_settings::needs_password;
use super::sign_in::has_confirmed_password;
use super::time_display::DisplayTime;
use crate::domain::user::{Grant, Membership, ProjectMemberships, User, UserName};
use crate::engine::command::user::UserCommandError;
use crate::operations::{self, OperationError};

/// Error for a critical action without the viewer's own password.
const OWN_PASSWORD_REQUIRED: &str = "enter your own password";
/// Maximum number of users listed, and of projects to choose from.
const MAX_LISTED: usize = 1000;

#[derive(Template)]
#[template(path = "users.html", config = "src/http/dashboard/askama.toml")]
struct UserListPage {
    layout: Layout,
    users: Vec<UserListRow>,
    /// True if there are more users.
    are_more: bool,
    /// Link that was just created.
    new_link: Option<String>,
    name: String,
    name_error: Option<String>,
    granted: GrantForm,
    asks_password: bool,
    password_error: Option<&'static str>,
}

struct UserListRow {
    name: String,
    link: String,
    access: String,
    status: &'static str,
    seen: Option<DisplayTime>,
}

/// Rights that a form offers.
struct GrantForm {
    is_owner: bool,
    projects: Vec<ProjectGrantOption>,
}

/// Membership of a user in a project.
struct ProjectGrantOption {
    uuid: Uuid,
    name: String,
    access: &'static str,
}

/// Renders the list of users.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(
        request,
        "",
        InviteFormErrors::default(),
        &Grant::Projects(ProjectMemberships::default()),
    )
    .into())
}

/// Errors in the form that invites a user.
#[derive(Default)]
struct InviteFormErrors {
    name: Option<String>,
    password: Option<&'static str>,
}

fn render_page(
    request: &PageRequest,
    name: &str,
    errors: InviteFormErrors,
    grant: &Grant,
) -> HtmlPage {
    let new_link = request
        .dashboard
        .one_time_texts
        .take(request, &Page::Users().to_string());
    let is_secret = new_link.is_some();
    let all: Vec<_> = request
        .handle()
        .with_state(|state| state.users.iter().take(MAX_LISTED + 1).cloned().collect());
    let is_refused = errors.name.is_some() || errors.password.is_some();
    let users = UserListPage {
        layout: request.layout("Users"),
        are_more: all.len() > MAX_LISTED,
        users: all
            .iter()
            .take(MAX_LISTED)
            .map(|user| user_row(request, user))
            .collect(),
        new_link,
        name: name.into(),
        name_error: errors.name,
        granted: grant_form(request, grant),
        asks_password: needs_password(request),
        password_error: errors.password,
    };
    let html = HtmlPage::from_template(&users);
    let html = if is_secret {
        html.without_caching()
    } else {
        html
    };
    if is_refused {
        html.with_invalid_form()
    } else {
        html
    }
}

fn user_row(request: &PageRequest, user: &User) -> UserListRow {
    request.handle().with_state(|state| {
        let access = match &user.grant {
            Grant::Owner => "owner".into(),
            Grant::Projects(projects) => {
                let one = |(id, kind): (_, Membership)| {
                    Some(format!(
                        "{}: {}",
                        state.project(id)?.project.name.as_str(),
                        kind.name()
                    ))
                };
                let all: Vec<_> = projects.iter().filter_map(one).collect();
                if all.is_empty() {
                    "no project".into()
                } else {
                    all.join(", ")
                }
            }
        };
        let seen = state
            .users
            .sessions_of(user.id, request.now)
            .map(|session| session.last_used)
            .max();
        UserListRow {
            name: user.name.as_str().into(),
            link: request.page_url(&Page::User(user.uuid)),
            access,
            status: user_status(user),
            seen: seen.map(|seen| DisplayTime::relative(seen, &request.time_formatter())),
        }
    })
}

fn user_status(user: &User) -> &'static str {
    match user {
        User { disabled: true, .. } => "disabled",
        User { password: None, .. } => "invited",
        _ => "active",
    }
}

fn grant_form(request: &PageRequest, grant: &Grant) -> GrantForm {
    request.handle().with_state(|state| {
        let projects = state
            .projects()
            .take(MAX_LISTED)
            .map(|found| &found.project);
        let membership = |id| {
            if grant.is_owner() {
                None
            } else {
                grant.membership_in(id)
            }
        };
        let choice = |project: &Arc<crate::domain::project::Project>| ProjectGrantOption {
            uuid: project.uuid,
            name: project.name.as_str().into(),
            access: membership(project.id).map_or("", Membership::name),
        };
        GrantForm {
            is_owner: grant.is_owner(),
            projects: projects.map(choice).collect(),
        }
    })
}

/// Parses the rights of a form: `role`, and a field for each project, named by its UUID.
fn parse_grant(request: &PageRequest, form: &FormData, before: &Grant) -> Grant {
    if form.get("role") == "owner" {
        return Grant::Owner;
    }
    request.handle().with_state(|state| {
        // Projects that the form did not show keep their membership.
        let not_shown = state
            .projects()
            .skip(MAX_LISTED)
            .filter(|_| !before.is_owner());
        let not_shown = not_shown
            .filter_map(|found| Some((found.project.id, before.membership_in(found.project.id)?)));
        let submitted = state.projects().take(MAX_LISTED);
        let submitted = submitted.filter_map(|found| {
            Some((
                found.project.id,
                Membership::parse(form.get(&found.project.uuid.to_string()))?,
            ))
        });
        Grant::Projects(ProjectMemberships::new(submitted.chain(not_shown)))
    })
}

/// Invites a user.
pub(super) async fn invite_user(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let text = form.get("name");
    let grant = parse_grant(request, form, &Grant::Owner);
    let name = match UserName::parse(text) {
        Ok(name) => name,
        Err(reason) => {
            return Ok(render_page(
                request,
                text,
                InviteFormErrors {
                    name: Some(reason.into()),
                    ..InviteFormErrors::default()
                },
                &grant,
            )
            .into());
        }
    };
    if grant.is_owner() && !has_confirmed_password(request, form.get("password")).await? {
        return Ok(render_page(
            request,
            text,
            InviteFormErrors {
                password: Some(OWN_PASSWORD_REQUIRED),
                ..InviteFormErrors::default()
            },
            &grant,
        )
        .into());
    }
    let user = match operations::user::create(request.handle(), name, None, grant.clone()).await {
        Err(
            error @ OperationError::User(
                UserCommandError::NameTaken | UserCommandError::TooManyUsers,
            ),
        ) => {
            return Ok(render_page(
                request,
                text,
                InviteFormErrors {
                    name: Some(error.to_string()),
                    ..InviteFormErrors::default()
                },
                &grant,
            )
            .into());
        }
        result => result?,
    };
    log_action(request, "invited", &user);
    create_link(request, &user, &Page::Users()).await?;
    Ok(PageResponse::Redirect(
        Page::Users(),
        FlashMessage::from_code("invited"),
    ))
}

async fn create_link(request: &PageRequest, user: &User, at: &Page) -> Result<(), PageError> {
    let link = operations::user::create_link(request.handle(), Some(user)).await?;
    log_action(request, "created a link for", user);
    request.dashboard.one_time_texts.store(
        request,
        &at.to_string(),
        format!("{}{}", request.base_url().as_str(), link.path()),
    );
    Ok(())
}

fn log_action(request: &PageRequest, action: &str, whom: &User) {
    tracing::info!(
        user = request.user_name(),
        address = %request.origin.client.addr,
        whom = whom.name.as_str(),
        "{action} a user"
    );
}
