//! Page of a user, for owners: sets the name and the rights, disables and deletes the user.

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::super::form_data::FormData;
use super::super::layout::Layout;
use super::super::page_error::PageError;
use super::super::page_messages::FlashMessage;
use super::super::page_request::PageRequest;
use super::super::page_response::{HtmlPage, PageResponse};
use super::super::page_routes::Page;
use super::super::project_settings::needs_password;
use super::super::sign_in::has_confirmed_password;
use super::{
    GrantForm, OWN_PASSWORD_REQUIRED, create_link, grant_form, log_action, parse_grant, user_status,
};
use crate::domain::user::{Grant, User, UserName};
use crate::engine::command::user::{
    PasskeyChange, SessionSelection, UserChanges, UserCommandError,
};
use crate::operations::{self, OperationError};

#[derive(Template)]
#[template(path = "user.html", config = "src/http/dashboard/askama.toml")]
struct UserPage {
    layout: Layout,
    page_url: String,
    title: String,
    name: String,
    status: &'static str,
    errors: UserFormErrors,
    granted: GrantForm,
    sessions: usize,
    new_link: Option<String>,
    is_own_account: bool,
    /// True if the user is a disabled owner: enabling the account makes an owner.
    is_disabled_owner: bool,
    has_second_factor: bool,
    passkeys: usize,
    is_connected: bool,
    asks_password: bool,
}

/// Errors in the submitted form.
#[derive(PartialEq, Eq, Default)]
struct UserFormErrors {
    name: Option<String>,
    /// Error in the password that is required to make a user an owner.
    password: Option<&'static str>,
    /// Error in the password that the buttons require.
    button: Option<&'static str>,
    /// Error in the rights, or of a button.
    grant: Option<String>,
    delete: Option<&'static str>,
}

/// Renders the page of a user.
pub(in crate::http::dashboard) fn show(
    request: &PageRequest,
    uuid: Uuid,
) -> Result<PageResponse, PageError> {
    let user = find_user(request, uuid)?;
    Ok(render_page(
        request,
        &user,
        user.name.as_str(),
        &user.grant,
        UserFormErrors::default(),
    )
    .into())
}

fn render_page(
    request: &PageRequest,
    user: &User,
    name: &str,
    grant: &Grant,
    errors: UserFormErrors,
) -> HtmlPage {
    let at = Page::User(user.uuid);
    let is_refused = errors != UserFormErrors::default();
    let new_link = request
        .dashboard
        .one_time_texts
        .take(request, &at.to_string());
    let is_secret = new_link.is_some();
    let one = UserPage {
        layout: request.layout(user.name.as_str()),
        page_url: request.page_url(&at),
        title: user.name.as_str().into(),
        name: name.into(),
        status: user_status(user),
        errors,
        granted: grant_form(request, grant),
        sessions: request
            .handle()
            .with_state(|state| state.users.sessions_of(user.id, request.now).count()),
        new_link,
        is_own_account: is_own_account(request, user),
        is_disabled_owner: user.disabled && user.grant.is_owner(),
        has_second_factor: user.second_factor.is_some(),
        passkeys: user.passkeys.len(),
        is_connected: user.identity.is_some(),
        asks_password: needs_password(request),
    };
    let html = HtmlPage::from_template(&one);
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

fn find_user(request: &PageRequest, uuid: Uuid) -> Result<Arc<User>, PageError> {
    request.handle().with_state(|state| {
        state
            .users
            .by_uuid(uuid)
            .cloned()
            .ok_or_else(PageError::not_found)
    })
}

fn is_own_account(request: &PageRequest, user: &User) -> bool {
    request
        .viewer
        .signed_in
        .as_ref()
        .is_some_and(|signed_in| signed_in.user.id == user.id)
}

/// Returns the errors of an action that is refused. Critical actions require the viewer's own
/// password, because an unattended session could otherwise create permanent access. Actions on the
/// viewer's own account are on the account page.
async fn check_confirmation(
    request: &PageRequest,
    user: &User,
    form: &FormData,
) -> Result<Option<UserFormErrors>, PageError> {
    let does = form.get("do");
    let is_button = matches!(
        does,
        "link" | "reset-totp" | "reset-passkeys" | "reset-identity"
    );
    if is_button && is_own_account(request, user) {
        let reason = "change your own password, second factor and passkeys on your account page";
        return Ok(Some(UserFormErrors {
            button: Some(reason),
            ..UserFormErrors::default()
        }));
    }
    let makes_owner = match does {
        "save" => form.get("role") == "owner" && !user.grant.is_owner(),
        "enable" => user.grant.is_owner() && user.disabled,
        _ => false,
    };
    if (!is_button && !makes_owner) || has_confirmed_password(request, form.get("password")).await?
    {
        return Ok(None);
    }
    Ok(Some(match does != "save" {
        true => UserFormErrors {
            button: Some(OWN_PASSWORD_REQUIRED),
            ..UserFormErrors::default()
        },
        false => UserFormErrors {
            password: Some(OWN_PASSWORD_REQUIRED),
            ..UserFormErrors::default()
        },
    }))
}

/// Executes the action of a button.
pub(in crate::http::dashboard) async fn post(
    request: &PageRequest,
    uuid: Uuid,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let user = find_user(request, uuid)?;
    let by = request
        .viewer
        .signed_in
        .as_ref()
        .and_then(|signed_in| signed_in.session.as_ref())
        .map(|session| session.id);
    let at = Page::User(uuid);
    if let Some(errors) = check_confirmation(request, &user, form).await? {
        return Ok(show_errors(request, &user, form, errors));
    }
    let changes = match form.get("do") {
        "link" => {
            create_link(request, &user, &at).await?;
            return Ok(PageResponse::Redirect(at, None));
        }
        "sign-out" => {
            operations::user::end_sessions(request.handle(), user.id, SessionSelection::All)
                .await?;
            log_action(request, "signed out", &user);
            let message = FlashMessage::from_code("signed-out");
            return Ok(PageResponse::Redirect(at, message));
        }
        "delete" => return delete_user(request, &user, form).await,
        _ => submitted_changes(request, &user, form)?,
    };
    let updated = match changes {
        Ok(changes) => operations::user::update(request.handle(), user.id, changes, by).await,
        Err(errors) => return Ok(show_errors(request, &user, form, errors)),
    };
    let errors = match updated {
        Err(error @ OperationError::User(UserCommandError::NameTaken)) => UserFormErrors {
            name: Some(error.to_string()),
            ..UserFormErrors::default()
        },
        Err(error @ OperationError::User(_)) => UserFormErrors {
            grant: Some(error.to_string()),
            ..UserFormErrors::default()
        },
        done => {
            done?;
            log_action(request, action_name(form), &user);
            return Ok(PageResponse::Redirect(at, FlashMessage::from_code("saved")));
        }
    };
    Ok(show_errors(request, &user, form, errors))
}

/// Returns the changes of a button, or the errors of the fields.
fn submitted_changes(
    request: &PageRequest,
    user: &User,
    form: &FormData,
) -> Result<Result<UserChanges, UserFormErrors>, PageError> {
    let changes = match form.get("do") {
        "save" => match UserName::parse(form.get("name")) {
            Ok(name) => UserChanges {
                name: Some(name),
                grant: Some(parse_grant(request, form, &user.grant)),
                ..UserChanges::default()
            },
            Err(reason) => {
                return Ok(Err(UserFormErrors {
                    name: Some(reason.into()),
                    ..UserFormErrors::default()
                }));
            }
        },
        action @ ("enable" | "disable") => UserChanges {
            disabled: Some(action == "disable"),
            ..UserChanges::default()
        },
        "reset-totp" => UserChanges {
            second_factor: Some(None),
            ..UserChanges::default()
        },
        "reset-passkeys" => UserChanges {
            passkeys: Some(PasskeyChange::RemoveAll),
            ..UserChanges::default()
        },
        "reset-identity" => UserChanges {
            identity: Some(None),
            ..UserChanges::default()
        },
        _ => return Err(PageError::not_found()),
    };
    Ok(Ok(changes))
}

/// Words of the log for a change.
fn action_name(form: &FormData) -> &'static str {
    match form.get("do") {
        "reset-totp" => "removed the second factor of",
        "reset-passkeys" => "removed the passkeys of",
        "reset-identity" => "removed the provider of",
        _ => "changed",
    }
}

/// Renders the page again, with the submitted values if they were name and rights.
fn show_errors(
    request: &PageRequest,
    user: &User,
    form: &FormData,
    errors: UserFormErrors,
) -> PageResponse {
    let form = Some(form).filter(|form| form.get("do") == "save");
    let (name, grant) = match form {
        Some(form) => (form.get("name"), parse_grant(request, form, &user.grant)),
        None => (user.name.as_str(), user.grant.clone()),
    };
    render_page(request, user, name, &grant, errors).into()
}

async fn delete_user(
    request: &PageRequest,
    user: &User,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    if !has_confirmed_password(request, form.get("password")).await? {
        return Ok(show_errors(
            request,
            user,
            form,
            UserFormErrors {
                delete: Some(OWN_PASSWORD_REQUIRED),
                ..UserFormErrors::default()
            },
        ));
    }
    match operations::user::delete(request.handle(), user.id).await {
        Err(error @ OperationError::User(_)) => {
            return Ok(show_errors(
                request,
                user,
                form,
                UserFormErrors {
                    grant: Some(error.to_string()),
                    ..UserFormErrors::default()
                },
            ));
        }
        done => done?,
    }
    log_action(request, "deleted", user);
    Ok(PageResponse::Redirect(
        Page::Users(),
        FlashMessage::from_code("user-deleted"),
    ))
}
