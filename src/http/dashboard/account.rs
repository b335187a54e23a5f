//! Account page of the signed-in user: preferences, password and sessions. The name cannot be
//! changed here; owners change it on the page of the user.

use std::net::IpAddr;
use std::sync::Arc;

use askama::Template;

use super::account_lists::parse_list_preferences;
use super::external_sign_in::{self, ProviderLink};
use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::Page;
use super::project_settings::needs_password;
use super::sign_in::{has_confirmed_password, redirect_with_new_mark};
use super::time_display::DisplayTime;
use crate::domain::ids::SessionId;
use crate::domain::timezone::Timezone;
use crate::domain::user::preferences::{ListPreferences, SortKey, SortOrder};
use crate::domain::user::session::Session;
use crate::domain::user::{Password, Theme, User, UserPreferences};
use crate::engine::command::user::{SessionSelection, UserChanges};
use crate::http::common::reply::HttpError;
use crate::operations;

#[derive(Template)]
#[template(path = "account.html", config = "src/http/dashboard/askama.toml")]
struct AccountPage {
    layout: Layout,
    page_url: String,
    name: String,
    /// Page on which the name is changed. `None` if the viewer is not an owner.
    user_page: Option<String>,
    zone: String,
    zones: Vec<&'static str>,
    zone_error: Option<String>,
    themes: [(&'static str, bool); 3],
    shortcuts: bool,
    orders: Vec<(String, &'static str, bool)>,
    sizes: [(usize, bool); 3],
    totp: String,
    /// Number of unused recovery codes. `None` if there is no second factor.
    recovery_codes: Option<usize>,
    passkeys_page: String,
    passkeys: usize,
    /// Providers, and true for one that the account is connected with.
    providers: Vec<(ProviderLink, bool)>,
    summary_page: String,
    /// Interval of summaries by mail, if the user gets them.
    summary: Option<&'static str>,
    asks_password: bool,
    password_error: Option<&'static str>,
    has_password: bool,
    sessions: Vec<BrowserSessionRow>,
}

struct BrowserSessionRow {
    id: u64,
    browser: String,
    address: IpAddr,
    seen: DisplayTime,
    is_this: bool,
}

/// Errors of a submitted form, and its fields.
#[derive(Default)]
struct AccountFormErrors<'f> {
    /// Submitted time zone and display preferences.
    submitted: Option<&'f FormData>,
    zone: Option<String>,
    password: Option<&'static str>,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    Ok(render_page(request, AccountFormErrors::default())?.into())
}

/// Returns the account of the viewer, and the session.
pub(super) fn own_account(
    request: &PageRequest,
) -> Result<(&Arc<User>, Option<SessionId>), PageError> {
    let text = "This server runs without sign-in, so it has no accounts. Start it with --auth \
                password to use accounts.";
    let signed_in = request
        .viewer
        .signed_in
        .as_ref()
        .ok_or_else(|| PageError::new(HttpError::NotFound, "No accounts", text))?;
    Ok((
        &signed_in.user,
        signed_in.session.as_ref().map(|session| session.id),
    ))
}

fn render_page(
    request: &PageRequest,
    errors: AccountFormErrors<'_>,
) -> Result<HtmlPage, PageError> {
    let (user, this) = own_account(request)?;
    let is_refused = errors.zone.is_some() || errors.password.is_some();
    let own = |field: &str, stored: &str| {
        errors
            .submitted
            .map_or_else(|| stored.to_owned(), |form| form.get(field).to_owned())
    };
    let preferences = errors.submitted.map_or_else(
        || user.preferences.clone(),
        |form| parse_preferences(form, &user.preferences),
    );
    let mut sessions: Vec<_> = request.handle().with_state(|state| {
        state
            .users
            .sessions_of(user.id, request.now)
            .cloned()
            .collect()
    });
    sessions.sort_unstable_by_key(|session| {
        std::cmp::Reverse((Some(session.id) == this, session.last_used))
    });
    let account = AccountPage {
        layout: request.layout("Account"),
        page_url: request.page_url(&Page::Account()),
        name: user.name.as_str().into(),
        user_page: user
            .grant
            .is_owner()
            .then(|| request.page_url(&Page::User(user.uuid))),
        zone: own("zone", request.viewer.zone.name()),
        zones: Timezone::names().collect(),
        zone_error: errors.zone,
        themes: Theme::ALL.map(|theme| (theme.name(), theme == preferences.theme)),
        shortcuts: preferences.shortcuts,
        orders: sort_options(preferences.list.order),
        sizes: ListPreferences::PAGE_SIZES.map(|size| (size, size == preferences.list.page_size)),
        totp: request.page_url(&Page::AccountTotp()),
        recovery_codes: user
            .second_factor
            .as_ref()
            .map(|second| second.recovery_hashes.len()),
        passkeys_page: request.page_url(&Page::AccountPasskeys()),
        passkeys: user.passkeys.len(),
        providers: external_sign_in::provider_connections(request, user),
        summary_page: request.page_url(&Page::AccountSummary()),
        summary: user
            .summary
            .as_ref()
            .map(|subscription| subscription.settings.interval.name()),
        asks_password: needs_password(request),
        password_error: errors.password,
        has_password: user.password.is_some(),
        sessions: sessions
            .iter()
            .map(|session| session_row(request, session, this))
            .collect(),
    };
    let html = HtmlPage::from_template(&account);
    Ok(if is_refused {
        html.with_invalid_form()
    } else {
        html
    })
}

/// Options for sorting lists: value, label, and true for the selected one.
fn sort_options(chosen: SortOrder) -> Vec<(String, &'static str, bool)> {
    let words = |by| match by {
        SortKey::Status => "status, most urgent first",
        SortKey::Name => "name",
        SortKey::Last => "last ping",
        SortKey::Next => "next ping",
        SortKey::Created => "creation, oldest first",
    };
    let mut orders: Vec<_> = SortKey::ALL
        .map(|key| SortOrder {
            key,
            is_reversed: false,
        })
        .into();
    // A reversed order is chosen in the list itself. It stays an option while it is selected.
    orders.extend(Some(chosen).filter(|order| order.is_reversed));
    let words = |order: SortOrder| {
        if order.is_reversed {
            "current order of the list"
        } else {
            words(order.key)
        }
    };
    orders
        .into_iter()
        .map(|order| (order.name(), words(order), order == chosen))
        .collect()
}

/// Parses the display preferences of a form, without the time zone.
fn parse_preferences(form: &FormData, before: &UserPreferences) -> UserPreferences {
    let theme = Theme::parse(form.get("theme")).unwrap_or(before.theme);
    UserPreferences {
        theme,
        shortcuts: form.has("shortcuts"),
        list: parse_list_preferences(form, before.list),
        ..before.clone()
    }
}

fn session_row(
    request: &PageRequest,
    session: &Session,
    this: Option<SessionId>,
) -> BrowserSessionRow {
    BrowserSessionRow {
        id: session.id.0,
        browser: browser_name(&session.user_agent),
        address: session.address,
        seen: DisplayTime::relative(session.last_used, &request.time_formatter()),
        is_this: this == Some(session.id),
    }
}

/// Returns the common name of a browser and its system, from its `User-Agent`.
fn browser_name(agent: &str) -> String {
    let first = |words: &[(&str, &'static str)]| {
        words
            .iter()
            .find(|(part, _)| agent.contains(part))
            .map(|(_, word)| *word)
    };
    let name = first(&[
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = first(&[
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (name, system) {
        (Some(name), Some(system)) => format!("{name} on {system}"),
        (Some(name), None) => name.into(),
        (None, _) if agent.is_empty() => "unknown browser".into(),
        (None, _) => agent.chars().take(40).collect(),
    }
}

/// Saves the time zone and display preferences. The user name is an identity that proxies and files
/// refer to, so it cannot be changed here.
pub(super) async fn save_preferences(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (user, by) = own_account(request)?;
    let zone = match Timezone::parse(form.get("zone").trim()) {
        Ok(zone) => zone,
        Err(error) => {
            let errors = AccountFormErrors {
                submitted: Some(form),
                zone: Some(error.to_string()),
                ..AccountFormErrors::default()
            };
            return Ok(render_page(request, errors)?.into());
        }
    };
    let preferences = Some(UserPreferences {
        zone: Some(zone),
        ..parse_preferences(form, &user.preferences)
    });
    operations::user::update(
        request.handle(),
        user.id,
        UserChanges {
            preferences,
            ..UserChanges::default()
        },
        by,
    )
    .await?;
    Ok(PageResponse::Redirect(
        Page::Account(),
        FlashMessage::from_code("saved"),
    ))
}

/// Changes the password.
pub(super) async fn set_password(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (user, by) = own_account(request)?;
    let refused = |reason| {
        Ok(render_page(
            request,
            AccountFormErrors {
                password: Some(reason),
                ..AccountFormErrors::default()
            },
        )?
        .into())
    };
    let password = match Password::parse(form.get("new"), &user.name) {
        Ok(password) => password,
        Err(reason) => return refused(reason),
    };
    if !has_confirmed_password(request, form.get("password")).await? {
        return refused("the current password is wrong");
    }
    let password = Some(request.dashboard.password_hasher.hash(password).await?);
    operations::user::update(
        request.handle(),
        user.id,
        UserChanges {
            password,
            ..UserChanges::default()
        },
        by,
    )
    .await?;
    tracing::info!(
        user = user.name.as_str(),
        address = %request.origin.client.addr,
        "changed the password"
    );
    Ok(redirect_with_new_mark(
        request,
        user,
        Page::Account(),
        "password",
    ))
}

/// Ends one session, or all except this one.
pub(super) async fn end_sessions(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (user, this) = own_account(request)?;
    let which = match form.get("session").parse() {
        Ok(id) => SessionSelection::One(SessionId(id)),
        Err(_) => this.map_or(SessionSelection::All, SessionSelection::AllBut),
    };
    operations::user::end_sessions(request.handle(), user.id, which).await?;
    tracing::info!(
        user = user.name.as_str(),
        address = %request.origin.client.addr,
        "ended {}",
        which.description()
    );
    Ok(redirect_with_new_mark(
        request,
        user,
        Page::Account(),
        "signed-out",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_shown_by_their_common_names() {
        for (agent, wanted) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/150.0 Safari/537.36 Edg/150.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 (KHTML, \
                 like Gecko) Version/19 Safari/604.1",
                "Safari on iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/150.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            ("curl/8.5.0", "curl/8.5.0"),
            ("", "unknown browser"),
        ] {
            assert_eq!(browser_name(agent), wanted, "{agent}");
        }
    }
}
