//! Sign-in, sign-out, and confirmation by password.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use hyper::Uri;

use super::external_sign_in::ProviderLink;
use super::form_data::FormData;
use super::layout::Layout;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use super::page_routes::{DashboardTarget, Page, PageLink, RequiredRight};
use super::proxy_auth::ProxyAuth;
use super::sign_in_limit::{AttemptSource, SignInAttempt};
use super::viewer::SignedInUser;
use super::{DashboardState, external_sign_in, passkeys, second_step};
use crate::domain::formatting::{TimeFormatter, format_count};
use crate::domain::project::SecretHash;
use crate::domain::user::session::Session;
use crate::domain::user::{Password, PasswordHash, User, UserName};
use crate::engine::command::user::{
    NewSession, SessionSelection, SessionUse, SignIn, SignInProof, UserCommandError,
};
use crate::http::common::browser_mark;
use crate::http::common::reply::HttpError;
use crate::operations::{self, OperationError};
use crate::util::client_network::ClientNetwork;
use crate::util::log_limit::LogLimit;
use crate::util::password::PasswordMatch;

/// Maximum length of the URL of the next page in bytes.
const MAX_NEXT_BYTES: usize = 2000;

static FAILED_SIGN_IN_LOG_LIMIT: LogLimit = LogLimit::new();
static THROTTLED_SIGN_IN_LOG_LIMIT: LogLimit = LogLimit::new();

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/http/dashboard/askama.toml")]
struct SignInPage<'a> {
    layout: Layout,
    /// Submitted name.
    name: &'a str,
    next: &'a str,
    error: Option<&'a str>,
    is_plaintext: bool,
    /// URL of the form for passkeys. `None` if this address allows none.
    passkey: Option<String>,
    providers: Vec<ProviderLink>,
    /// Provider that the user may sign out of, too.
    left: Option<ProviderLink>,
}

/// Renders the form, or redirects a signed-in user.
pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let next = request.query.get("next");
    if !request.viewer.is_anonymous() {
        return Ok(PageResponse::RedirectToUrl(landing_url(
            &request.dashboard,
            next,
        )));
    }
    if request.handle().with_state(|state| state.users.is_empty()) {
        return Ok(PageResponse::Redirect(Page::Setup(), None));
    }
    Ok(render_form(request, "", next, None).into())
}

fn render_form(request: &PageRequest, name: &str, next: &str, error: Option<&str>) -> HtmlPage {
    let next = if parse_next_url(&request.dashboard, next).is_some() {
        next
    } else {
        ""
    };
    let is_plaintext = request.origin.is_plaintext(&request.dashboard.base_url);
    HtmlPage::from_template(&SignInPage {
        layout: request.layout("Sign in"),
        name,
        next,
        error,
        is_plaintext,
        passkey: passkeys::are_supported(request.base_url())
            .then(|| request.page_url(&Page::LoginPasskey())),
        providers: external_sign_in::provider_links(request, next),
        left: external_sign_in::left_provider(request),
    })
    .without_caching()
}

/// Signs in.
pub(super) async fn post(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let dashboard = &request.dashboard;
    let submitted_name = form.get("name");
    let name = UserName::parse(submitted_name).ok();
    let attempt = match begin_attempt(request, name.as_ref()) {
        Ok(attempt) => attempt,
        // The form keeps the name.
        Err(error) => {
            let html = render_form(
                request,
                submitted_name,
                form.get("next"),
                Some(error.text()),
            );
            return Ok(html.with_error(error.http_error().clone()).into());
        }
    };
    let found = name.as_ref().and_then(|name| {
        request
            .handle()
            .with_state(|state| state.users.by_name(name).cloned())
    });
    let user = found.filter(|user| !user.disabled);
    let hash = user.as_ref().and_then(|user| user.password.clone());
    let password_match = dashboard
        .password_hasher
        .verify(form.get("password"), hash.clone())
        .await?;
    let refused = || {
        if let Some(suppressed) = FAILED_SIGN_IN_LOG_LIMIT.admit(request.now) {
            tracing::warn!(
                name = name_for_log(name.as_ref()),
                address = %request.origin.client.addr,
                "a sign-in failed{suppressed}"
            );
        }
        Ok(render_form(
            request,
            submitted_name,
            form.get("next"),
            Some("Wrong name or password."),
        )
        .with_invalid_form()
        .into())
    };
    let (PasswordMatch::Right { needs_rehash }, Some(user), Some(hash)) =
        (password_match, user, hash)
    else {
        return refused();
    };
    let new_hash = if needs_rehash {
        rehash_password(dashboard, form.get("password"), &user).await?
    } else {
        None
    };
    if user.second_factor.is_some() {
        // The attempt counts as failed until the code is correct, too.
        return Ok(second_step::begin_second_step(
            request,
            user.id,
            hash,
            new_hash,
            form.get("next"),
        ));
    }
    let credentials = VerifiedCredentials {
        proof: SignInProof::Password {
            verified: hash,
            rehashed: new_hash,
            second_factor: None,
        },
        is_code_counted: false,
    };
    open_session(request, &user, credentials, attempt, form.get("next"))
        .await?
        .map_or_else(refused, Ok)
}

/// Verified credentials of a user who is about to sign in.
pub(super) struct VerifiedCredentials {
    /// Proof that it is the user.
    pub(super) proof: SignInProof,
    /// True if the code is counted as wrong so far.
    pub(super) is_code_counted: bool,
}

/// Signs in a user with verified credentials. `None` if the password, the second factor or the
/// passkey has changed since the user was looked up, or if the user was deleted.
pub(super) async fn open_session(
    request: &PageRequest,
    user: &User,
    credentials: VerifiedCredentials,
    attempt: SignInAttempt,
    next: &str,
) -> Result<Option<PageResponse>, PageError> {
    let VerifiedCredentials {
        proof,
        is_code_counted,
    } = credentials;
    let (token, session) = new_session(request);
    let sign_in = SignIn {
        user: user.id,
        proof,
        session,
    };
    let session = match operations::user::sign_in(request.handle(), sign_in).await {
        Err(OperationError::User(UserCommandError::SignInRefused) | OperationError::Removed) => {
            return Ok(None);
        }
        opened => opened?,
    };
    request.dashboard.sign_in_limit.record_success(attempt);
    tracing::info!(user = user.name.as_str(), address = %request.origin.client.addr, "signed in");
    let is_known = known_browser_mark(request, user).is_some();
    if let Some(wrong) =
        request
            .dashboard
            .second_factor_limit
            .record_success(user.id, is_known, is_code_counted)
    {
        let zone = user
            .preferences
            .zone
            .as_ref()
            .unwrap_or(&request.viewer.zone);
        let codes = format_count(wrong.codes as usize, "wrong code");
        let since = TimeFormatter {
            now: request.now,
            zone,
        }
        .at(wrong.since);
        let text = format!(
            "{codes} of your second factor since {since}. A code is asked for only after the right \
             password. If you did not enter these codes, change your password."
        );
        request.dashboard.one_time_texts.store_for_session(
            request,
            (user.id, session.id),
            &Page::SecondStep().to_string(),
            text,
        );
    }
    Ok(Some(PageResponse::SignIn {
        token,
        mark: new_browser_mark(request, user),
        to: landing_url(&request.dashboard, next),
    }))
}

/// Mark of a browser in which a user has just signed in.
pub(super) fn new_browser_mark(request: &PageRequest, user: &User) -> Option<String> {
    let nonce = request
        .handle()
        .random()
        .url_safe::<{ browser_mark::NONCE_LENGTH }>();
    request.handle().badge_secret().map(|secret| {
        browser_mark::new_mark(&secret, user.uuid, user.browsers_trusted_since, &nonce)
    })
}

/// Hash of the mark of the browser, if the user has signed in there before.
pub(super) fn known_browser_mark(request: &PageRequest, user: &User) -> Option<SecretHash> {
    let mark = request.origin.browser_mark.as_deref()?;
    let secret = request.handle().badge_secret()?;
    browser_mark::is_mark_of(&secret, user.uuid, user.browsers_trusted_since, mark)
        .then(|| SecretHash::of(mark.as_bytes()))
}

/// Redirects to a page after a change that invalidated the marks of the user's browsers. The
/// current browser gets a new mark if it had one.
pub(super) fn redirect_with_new_mark(
    request: &PageRequest,
    before: &User,
    page: Page,
    flash_code: &'static str,
) -> PageResponse {
    let user = request
        .handle()
        .with_state(|state| state.users.get(before.id).cloned());
    let mark = user
        .filter(|_| known_browser_mark(request, before).is_some())
        .and_then(|user| new_browser_mark(request, &user));
    PageResponse::RedirectWithMark {
        page,
        flash: FlashMessage::from_code(flash_code),
        mark,
    }
}

/// Renders the first step again, with an error.
pub(super) fn restart_sign_in(request: &PageRequest, why: &str) -> PageResponse {
    render_form(request, "", "", Some(why))
        .with_invalid_form()
        .into()
}

async fn rehash_password(
    dashboard: &DashboardState,
    form: &str,
    user: &User,
) -> Result<Option<PasswordHash>, HttpError> {
    match Password::parse(form, &user.name) {
        Ok(password) => dashboard.password_hasher.hash(password).await.map(Some),
        // The password was chosen under other rules.
        Err(_) => Ok(None),
    }
}

/// Signs out.
pub(super) async fn sign_out(request: &PageRequest) -> Result<PageResponse, PageError> {
    if let Some(SignedInUser {
        user,
        session: Some(session),
    }) = &request.viewer.signed_in
    {
        let selection = SessionSelection::One(session.id);
        operations::user::end_sessions(request.handle(), user.id, selection).await?;
        tracing::info!(
            user = user.name.as_str(),
            address = %request.origin.client.addr,
            "signed out"
        );
    }
    let left = match &request.viewer.signed_in {
        Some(SignedInUser {
            user,
            session: Some(_),
        }) => external_sign_in::provider_to_leave(request, user).await,
        _ => None,
    };
    let by_proxy = matches!(
        &request.viewer.signed_in,
        Some(SignedInUser { session: None, .. })
    );
    let logout_url = request
        .dashboard
        .config
        .proxy_auth
        .as_ref()
        .and_then(ProxyAuth::logout_url)
        .filter(|_| by_proxy);
    Ok(PageResponse::SignOut(logout_url.map_or_else(
        || {
            let login = request.page_url(&Page::Login());
            left.map_or_else(|| login.clone(), |number| format!("{login}?left={number}"))
        },
        |logout| logout.url.as_ref().into(),
    )))
}

/// True if a critical action is confirmed: the user has entered the password recently, or `form` is
/// correct.
pub(super) async fn has_confirmed_password(
    request: &PageRequest,
    form: &str,
) -> Result<bool, PageError> {
    let Some(SignedInUser {
        user,
        session: Some(session),
    }) = &request.viewer.signed_in
    else {
        return Ok(true);
    };
    let (false, Some(hash)) = (session.is_confirmed(request.now), user.password.clone()) else {
        return Ok(true);
    };
    if form.is_empty() {
        return Ok(false);
    }
    let attempt = begin_attempt_from(
        request,
        Some(&user.name),
        AttemptSource::Session(session.id),
    )?;
    if request
        .dashboard
        .password_hasher
        .verify(form, Some(hash.clone()))
        .await?
        == PasswordMatch::Wrong
    {
        return Ok(false);
    }
    request.dashboard.sign_in_limit.record_success(attempt);
    let session_use = SessionUse {
        session: session.id,
        address: request.origin.client.addr,
        idle_secs: request.dashboard.session_idle_secs(),
        verified_password: Some(hash),
    };
    operations::user::record_session_use(request.handle(), session_use).await?;
    Ok(true)
}

/// Token of a new session, and the data that is stored for it.
pub(super) fn new_session(request: &PageRequest) -> (String, NewSession) {
    let token = request
        .handle()
        .random()
        .url_safe::<{ Session::TOKEN_LENGTH }>();
    let agent = Session::truncate_user_agent(&request.origin.user_agent);
    let address = request.origin.client.addr;
    let session = NewSession {
        hash: SecretHash::of(token.as_bytes()),
        user_agent: agent,
        address,
        idle_secs: request.dashboard.session_idle_secs(),
    };
    (token, session)
}

/// Counts an attempt, or returns the time to wait as an error.
pub(super) fn begin_attempt(
    request: &PageRequest,
    name: Option<&UserName>,
) -> Result<SignInAttempt, PageError> {
    begin_attempt_from(request, name, attempt_source(request, name))
}

fn begin_attempt_from(
    request: &PageRequest,
    name: Option<&UserName>,
    by: AttemptSource,
) -> Result<SignInAttempt, PageError> {
    let folded = name.map(UserName::case_folded).unwrap_or_default();
    let address = request.origin.client.addr;
    let uptime = request.handle().clock().uptime();
    let limit = &request.dashboard.sign_in_limit;
    limit
        .begin_attempt(&folded, address, by, uptime)
        .map_err(|wait| {
            if let Some(suppressed) = THROTTLED_SIGN_IN_LOG_LIMIT.admit(request.now) {
                tracing::warn!(
                    name = name_for_log(name),
                    %address,
                    "sign-in throttled{suppressed}"
                );
            }
            too_many_attempts(wait)
        })
}

/// Source of an attempt to sign in with this name.
fn attempt_source(request: &PageRequest, name: Option<&UserName>) -> AttemptSource {
    let network = ClientNetwork::from(request.origin.client.addr);
    let found = name.and_then(|name| {
        request.handle().with_state(|state| {
            let user = Arc::clone(state.users.by_name(name)?);
            let is_near = state
                .users
                .sessions_of(user.id, request.now)
                .any(|session| ClientNetwork::from(session.address) == network);
            Some((user, is_near))
        })
    });
    let Some((user, is_near)) = found else {
        return AttemptSource::Unknown {
            is_user: false,
            is_near: false,
        };
    };
    known_browser_mark(request, &user).map_or(
        AttemptSource::Unknown {
            is_user: true,
            is_near,
        },
        |mark| AttemptSource::Browser {
            user: user.id,
            mark,
            is_near,
        },
    )
}

fn name_for_log(name: Option<&UserName>) -> &str {
    name.map_or("", UserName::as_str)
}

pub(super) fn too_many_attempts(wait: Duration) -> PageError {
    let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let time = match secs {
        ..60 => format!("{secs} seconds"),
        60..=90 => "a minute".into(),
        _ => format!("{} minutes", secs.div_ceil(60)),
    };
    PageError::new(
        HttpError::too_many_requests(wait),
        "Too many attempts",
        format!("There were too many attempts to sign in. Try again in {time}."),
    )
}

/// URL of the sign-in form, which leads back to the page.
pub(super) fn sign_in_url(dashboard: &DashboardState, page: &Page, query: Option<&str>) -> String {
    let login = PageLink {
        base_url: &dashboard.base_url,
        page: &Page::Login(),
    };
    if page.get().is_none() || *page == Page::Projects() && query.is_none() {
        return login.to_string();
    }
    let page = PageLink {
        base_url: &dashboard.base_url,
        page,
    };
    let next = query.map_or_else(|| page.to_string(), |query| format!("{page}?{query}"));
    let next = percent_encoding::utf8_percent_encode(&next, percent_encoding::NON_ALPHANUMERIC);
    format!("{login}?next={next}")
}

fn landing_url(dashboard: &DashboardState, next: &str) -> String {
    parse_next_url(dashboard, next).unwrap_or_else(|| {
        PageLink {
            base_url: &dashboard.base_url,
            page: &Page::Projects(),
        }
        .to_string()
    })
}

/// URL of a page of this server, if the text is one. The text is untrusted, so the path is rebuilt.
pub(super) fn parse_next_url(dashboard: &DashboardState, next: &str) -> Option<String> {
    let uri: Uri = next.parse().ok().filter(|_| {
        next.starts_with('/') && !next.starts_with("//") && next.len() <= MAX_NEXT_BYTES
    })?;
    if uri.scheme().is_some() || uri.authority().is_some() {
        return None;
    }
    let Some(DashboardTarget::Page(page)) =
        DashboardTarget::parse(dashboard.base_url.strip_base_path(uri.path()))
    else {
        return None;
    };
    page.get().filter(|need| *need != RequiredRight::Public)?;
    let link = PageLink {
        base_url: &dashboard.base_url,
        page: &page,
    };
    Some(
        uri.query()
            .map_or_else(|| link.to_string(), |query| format!("{link}?{query}")),
    )
}
