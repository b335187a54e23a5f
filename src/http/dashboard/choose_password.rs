//! Pages to choose a password by a link: setup by the first owner, invitation, and password reset.

use askama::Template;

use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{Page, PageLink};
use super::sign_in::{new_browser_mark, new_session};
use crate::domain::ids::UserId;
use crate::domain::timezone::Timezone;
use crate::domain::user::one_time_link::{LinkCode, LinkPurpose};
use crate::domain::user::{Password, UserName, UserPreferences};
use crate::engine::command::user::{FirstUser, LinkRedemption, RedeemedLink, UserCommandError};
use crate::http::common::reply::HttpError;
use crate::operations::{self, OperationError};

#[derive(Template)]
#[template(
    path = "choose_password.html",
    config = "src/http/dashboard/askama.toml"
)]
struct ChoosePasswordPage<'a> {
    layout: Layout,
    /// True for the first owner, who also enters a code and a name.
    is_setup: bool,
    /// True for an invited user, who has no password yet.
    is_first: bool,
    code: &'a str,
    is_code_wrong: bool,
    name: &'a str,
    name_error: Option<&'static str>,
    password_error: Option<&'static str>,
    is_plaintext: bool,
}

/// Errors in the submitted form.
#[derive(Default)]
struct PasswordFormErrors {
    code: bool,
    name: Option<&'static str>,
    password: Option<&'static str>,
}

impl PasswordFormErrors {
    fn has_errors(&self) -> bool {
        self.code || self.name.is_some() || self.password.is_some()
    }
}

/// Renders the form for the first owner. The code may be part of the URL.
pub(super) fn show_setup(
    request: &PageRequest,
    code: Option<&LinkCode>,
) -> Result<PageResponse, PageError> {
    if !request.handle().with_state(|state| state.users.is_empty())
        || !request.viewer.is_anonymous()
    {
        return Ok(PageResponse::Redirect(Page::Login(), None));
    }
    let code = code.map(ToString::to_string).unwrap_or_default();
    Ok(render_setup_form(request, &code, "", &PasswordFormErrors::default()).into())
}

fn render_setup_form(
    request: &PageRequest,
    code: &str,
    name: &str,
    errors: &PasswordFormErrors,
) -> HtmlPage {
    render_form(request, true, true, (code, name), errors)
}

fn render_form(
    request: &PageRequest,
    is_setup: bool,
    is_first: bool,
    (code, name): (&str, &str),
    errors: &PasswordFormErrors,
) -> HtmlPage {
    let title = if is_first { "Welcome" } else { "New password" };
    let choose = ChoosePasswordPage {
        layout: request.layout(title),
        is_setup,
        is_first,
        code,
        is_code_wrong: errors.code,
        name,
        name_error: errors.name,
        password_error: errors.password,
        is_plaintext: request.origin.is_plaintext(&request.dashboard.base_url),
    };
    let html = HtmlPage::from_template(&choose).without_caching();
    if errors.has_errors() {
        html.with_invalid_form()
    } else {
        html
    }
}

/// Creates the first owner.
pub(super) async fn post_setup(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let code = LinkCode::parse(form.get("code"));
    let name = UserName::parse(form.get("name"));
    let is_good = |code: &LinkCode| {
        request.handle().with_state(|state| {
            state
                .users
                .link(&code.hash(), request.now)
                .is_some_and(|link| link.purpose == LinkPurpose::Setup)
        })
    };
    let code = code.filter(is_good);
    // A password is checked against a valid name only.
    let password = name.as_ref().map_or(Ok(None), |name| {
        Password::parse(form.get("password"), name).map(Some)
    });
    let errors = PasswordFormErrors {
        code: code.is_none(),
        name: name.as_ref().err().copied(),
        password: password.as_ref().err().copied(),
    };
    let (Some(code), Ok(name), Ok(Some(password))) = (code, name, password) else {
        return Ok(render_setup_form(request, form.get("code"), form.get("name"), &errors).into());
    };
    // Time zone that the browser reports, if it is known.
    let zone = Timezone::parse(form.get("zone")).ok();
    let first = FirstUser {
        uuid: request.handle().random().uuid(),
        name,
        preferences: UserPreferences {
            zone,
            ..UserPreferences::default()
        },
    };
    redeem_link(request, &code, Some(first), password).await
}

/// Renders the form for an existing user.
pub(super) fn show(request: &PageRequest, code: &LinkCode) -> Result<PageResponse, PageError> {
    let (_, name, is_first) = link_owner(request, code)?;
    Ok(render_form(
        request,
        false,
        is_first,
        ("", name.as_str()),
        &PasswordFormErrors::default(),
    )
    .into())
}

/// Sets the password of the user of a link.
pub(super) async fn post(
    request: &PageRequest,
    code: &LinkCode,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (_, name, is_first) = link_owner(request, code)?;
    match Password::parse(form.get("password"), &name) {
        Ok(password) => redeem_link(request, code, None, password).await,
        Err(reason) => {
            let errors = PasswordFormErrors {
                password: Some(reason),
                ..PasswordFormErrors::default()
            };
            Ok(render_form(request, false, is_first, ("", name.as_str()), &errors).into())
        }
    }
}

/// User of a link, and true if the link is for a first password.
fn link_owner(
    request: &PageRequest,
    code: &LinkCode,
) -> Result<(UserId, UserName, bool), PageError> {
    request.handle().with_state(|state| {
        let of = |purpose| {
            if let LinkPurpose::Password(user) = purpose {
                state.users.get(user)
            } else {
                None
            }
        };
        let user = state
            .users
            .link(&code.hash(), request.now)
            .and_then(|link| of(link.purpose));
        user.map(|user| (user.id, user.name.clone(), user.password.is_none()))
            .ok_or_else(link_spent_error)
    })
}

async fn redeem_link(
    request: &PageRequest,
    code: &LinkCode,
    first_user: Option<FirstUser>,
    password: Password,
) -> Result<PageResponse, PageError> {
    let password = request.dashboard.password_hasher.hash(password).await?;
    let (token, session) = new_session(request);
    let redemption = LinkRedemption {
        hash: code.hash(),
        first_user,
        password,
        session,
    };
    let session = match operations::user::redeem_link(request.handle(), redemption).await {
        // Another request has used the link in the meantime.
        Err(OperationError::User(UserCommandError::LinkInvalid)) => return Err(link_spent_error()),
        Err(error) => return Err(error.into()),
        Ok(RedeemedLink::SignedIn(session)) => session,
        Ok(RedeemedLink::PasswordSet(user)) => {
            tracing::info!(
                user = user.name.as_str(),
                address = %request.origin.client.addr,
                "chose a password with a link"
            );
            return Ok(PageResponse::Redirect(
                Page::Login(),
                FlashMessage::from_code("chosen"),
            ));
        }
    };
    let user = request
        .handle()
        .with_state(|state| state.users.get(session.user).cloned());
    let (name, mark) = user
        .map(|user| (user.name.clone(), new_browser_mark(request, &user)))
        .unzip();
    let address = request.origin.client.addr;
    tracing::info!(
        user = name.as_ref().map(UserName::as_str),
        %address,
        "chose a password with a link, and signed in"
    );
    let to = PageLink {
        base_url: &request.dashboard.base_url,
        page: &Page::Projects(),
    }
    .to_string();
    Ok(PageResponse::SignIn {
        token,
        mark: mark.flatten(),
        to,
    })
}

fn link_spent_error() -> PageError {
    PageError::new(
        HttpError::NotFound,
        "Link no longer valid",
        "This link has been used or has expired. Ask an owner for a new link, or run `overdue user \
         link NAME` on the server.",
    )
}
