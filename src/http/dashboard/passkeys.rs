//! Passkeys of the viewer: a page that lists, adds and removes them.

mod authenticator_data;
mod relying_party;
pub(super) mod sign_in;

use std::sync::Arc;

use askama::Template;

use super::account::own_account;
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
use crate::domain::ids::SessionId;
use crate::domain::user::passkey::{MAX_PASSKEYS, PasskeyId, PasskeyName};
use crate::domain::user::{Passkey, User};
use crate::engine::command::user::{PasskeyChange, UserChanges, UserCommandError};
use crate::http::common::request::BaseUrl;
use crate::operations::{self, OperationError};
use relying_party::{PasskeyError, RelyingParty};

#[derive(Template)]
#[template(path = "passkeys.html", config = "src/http/dashboard/askama.toml")]
struct PasskeysPage {
    layout: Layout,
    page_url: String,
    account: String,
    options: String,
    /// Reason why no passkey can be added.
    obstacle: Option<&'static str>,
    passkeys: Vec<PasskeyListRow>,
    /// Submitted name.
    name: String,
    asks_password: bool,
    error: Option<String>,
}

struct PasskeyListRow {
    id: String,
    name: String,
    created: DisplayTime,
    used: Option<DisplayTime>,
}

/// True if users of this address can sign in with passkeys.
pub(super) fn are_supported(base_url: &BaseUrl) -> bool {
    RelyingParty::of(base_url).is_some()
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, "", None)?.into())
}

/// Sends the options for the browser.
pub(super) fn show_options(request: &PageRequest) -> Result<PageResponse, PageError> {
    let (user, _) = own_account_with_session(request)?;
    let party = RelyingParty::of(request.base_url()).ok_or_else(PageError::not_found)?;
    Ok(PageResponse::Json(party.creation_options(
        user,
        &request.dashboard.sign_in_challenges,
        request.handle().random(),
        request.handle().clock().uptime(),
    )))
}

/// Returns the account of the viewer, who signed in here.
fn own_account_with_session(request: &PageRequest) -> Result<(&Arc<User>, SessionId), PageError> {
    let (user, session) = own_account(request)?;
    session
        .map(|session| (user, session))
        .ok_or_else(PageError::not_found)
}

fn render_page(
    request: &PageRequest,
    name: &str,
    error: Option<String>,
) -> Result<HtmlPage, PageError> {
    let (user, session) = own_account(request)?;
    let obstacle = if session.is_none() {
        Some("The proxy signs you in, so passkeys of this server are not used.")
    } else if !are_supported(request.base_url()) {
        Some(
            "Browsers allow passkeys at an HTTPS address with a host name only. An owner can set \
             one with --base-url.",
        )
    } else if user.passkeys.len() >= MAX_PASSKEYS {
        Some("The maximum number of passkeys is reached. Remove one first.")
    } else {
        None
    };
    let is_refused = error.is_some();
    let times = request.time_formatter();
    let row = |passkey: &Passkey| PasskeyListRow {
        id: passkey.id.to_text(),
        name: passkey.name.as_str().into(),
        created: DisplayTime::relative(passkey.created, &times),
        used: passkey
            .last_used
            .map(|used| DisplayTime::relative(used, &times)),
    };
    let html = HtmlPage::from_template(&PasskeysPage {
        layout: request.layout("Passkeys"),
        page_url: request.page_url(&Page::AccountPasskeys()),
        account: request.page_url(&Page::Account()),
        options: request.page_url(&Page::AccountPasskeyOptions()),
        obstacle,
        passkeys: user.passkeys.iter().map(row).collect(),
        name: name.into(),
        asks_password: needs_password(request),
        error,
    });
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

/// Adds or removes a passkey.
pub(super) async fn post(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (user, session) = own_account_with_session(request)?;
    let refused = |reason: String| Ok(render_page(request, form.get("name"), Some(reason))?.into());
    // The password comes first, so that a wrong one does not use up the challenge.
    if !has_confirmed_password(request, form.get("password")).await? {
        return refused("enter your current password".into());
    }
    let (change, flash_code, action) = match form.get("remove") {
        "" => match created_passkey(request, user, form) {
            Ok(passkey) => {
                let change = PasskeyChange::Add(Box::new(passkey));
                (change, "passkey-added", "added a passkey")
            }
            Err(reason) => return refused(reason),
        },
        id => {
            let id = PasskeyId::parse(id).ok_or_else(PageError::not_found)?;
            (
                PasskeyChange::Remove(id),
                "passkey-removed",
                "removed a passkey",
            )
        }
    };
    let changes = UserChanges {
        passkeys: Some(change),
        ..UserChanges::default()
    };
    match operations::user::update(request.handle(), user.id, changes, Some(session)).await {
        Err(
            error @ OperationError::User(
                UserCommandError::TooManyPasskeys | UserCommandError::PasskeyTaken,
            ),
        ) => return refused(error.to_string()),
        changed => changed?,
    };
    tracing::info!(
        user = user.name.as_str(),
        address = %request.origin.client.addr,
        "{action}"
    );
    Ok(PageResponse::Redirect(
        Page::AccountPasskeys(),
        FlashMessage::from_code(flash_code),
    ))
}

/// Verifies the passkey in the form, or returns the reason for refusing it.
fn created_passkey(request: &PageRequest, user: &User, form: &FormData) -> Result<Passkey, String> {
    let name = PasskeyName::parse(form.get("name"))?;
    let party = RelyingParty::of(request.base_url())
        .ok_or("this server needs an HTTPS address with a host name")?;
    let created = party.verify_creation(
        form.get("response"),
        user,
        &request.dashboard.sign_in_challenges,
        request.handle().clock().uptime(),
    );
    match created {
        Ok(created) => Ok(Passkey {
            id: created.id,
            name,
            public_key: created.public_key,
            counter: created.counter,
            created: request.now,
            last_used: None,
        }),
        Err(PasskeyError::Challenge(_)) => Err("this took too long; try again".into()),
        Err(error) => Err(error.to_string()),
    }
}
