//! Sign-in at OpenID Connect providers, by the code flow with PKCE. The browser keeps the state of
//! a sign-in in a cookie; PKCE verifier and nonce are derived from it, so nothing is stored here.

mod account;
mod logout;
mod provider;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::HeaderMap;

use super::account::own_account;
use super::challenges::ChallengePurpose;
use super::cookie::CookieJar;
use super::form_data::FormData;
use super::page_error::PageError;
use super::page_messages::FlashMessage;
use super::page_request::PageRequest;
use super::page_response::PageResponse;
use super::page_routes::Page;
use super::sign_in::{self, VerifiedCredentials};
use crate::domain::user::User;
use crate::domain::user::external_identity::{ExternalIdentity, IdentityProvider};
use crate::engine::command::user::{SignInProof, UserChanges, UserCommandError};
use crate::http::common::reply::HttpError;
use crate::operations::{self, OperationError};
use crate::outbound::Outbound;
use crate::util::log_limit::LogLimit;
pub(crate) use logout::respond_to_logout;
use provider::{ConfirmedUser, FlowSecrets, ProviderClient, ProviderError};

static FAILURE_LOG_LIMIT: LogLimit = LogLimit::new();

/// Providers at which users sign in.
pub(super) struct ExternalSignIn {
    providers: Vec<ProviderClient>,
    outbound: Outbound,
}

/// Provider on the sign-in page.
pub(super) struct ProviderLink {
    pub(super) name: String,
    pub(super) url: String,
}

/// Sign-in in progress, as the cookie of the browser has it.
struct PendingFlow {
    /// Number of the provider.
    provider: u64,
    /// State that the provider returns.
    state: String,
    /// True if a signed-in user connects an account.
    connects: bool,
    /// Page to open afterwards.
    next: String,
}

impl PendingFlow {
    fn to_cookie(&self) -> String {
        let kind = if self.connects { "connect" } else { "sign-in" };
        let next = BASE64_URL_SAFE_NO_PAD.encode(&self.next);
        format!("{kind}.{}.{}.{next}", self.provider, self.state)
    }

    fn from_cookie(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut part = || parts.next();
        let connects = match part()? {
            "connect" => true,
            "sign-in" => false,
            _ => return None,
        };
        let provider = part()?.parse().ok()?;
        let state = part()?.to_owned();
        let next = BASE64_URL_SAFE_NO_PAD.decode(part()?).ok()?;
        Some(Self {
            provider,
            state,
            connects,
            next: String::from_utf8(next).ok()?,
        })
    }

    fn purpose(&self, user: Option<&User>) -> Option<ChallengePurpose> {
        if self.connects {
            let user = user?;
            Some(ChallengePurpose::ProviderConnection(self.provider, user.id))
        } else {
            Some(ChallengePurpose::ProviderSignIn(self.provider))
        }
    }
}

impl ExternalSignIn {
    pub(super) fn new(providers: Vec<IdentityProvider>, outbound: Outbound) -> Self {
        Self {
            providers: providers.into_iter().map(ProviderClient::new).collect(),
            outbound,
        }
    }

    fn provider(&self, number: u64) -> Option<&ProviderClient> {
        self.providers.get(usize::try_from(number).ok()?)
    }
}

/// Links of all providers, for the sign-in page.
pub(super) fn provider_links(request: &PageRequest, next: &str) -> Vec<ProviderLink> {
    let next = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
    let query = format!("next={next}");
    numbered_providers(request)
        .map(|(number, provider)| provider_link(request, number, provider, &query))
        .collect()
}

/// Provider at which the viewer may sign out as well, after signing out here.
pub(super) fn left_provider(request: &PageRequest) -> Option<ProviderLink> {
    let left: u64 = request.query.get("left").parse().ok()?;
    let mut providers = numbered_providers(request);
    let (number, provider) = providers.find(|(number, _)| *number == left)?;
    Some(provider_link(request, number, provider, "leave=1"))
}

/// Providers on the account page: link to connect the account, and true if it is connected.
pub(super) fn provider_connections(
    request: &PageRequest,
    user: &User,
) -> Vec<(ProviderLink, bool)> {
    numbered_providers(request)
        .map(|(number, provider)| {
            let link = provider_link(request, number, provider, "connect=1");
            (link, is_connected(user, &provider.config))
        })
        .collect()
}

/// Providers with their numbers, which are in URLs.
fn numbered_providers(request: &PageRequest) -> impl Iterator<Item = (u64, &ProviderClient)> {
    let external = request.dashboard.external_sign_in.iter();
    (0..).zip(external.flat_map(|external| &external.providers))
}

fn provider_link(
    request: &PageRequest,
    number: u64,
    provider: &ProviderClient,
    query: &str,
) -> ProviderLink {
    let url = request.page_url(&Page::LoginProvider(number));
    ProviderLink {
        name: provider.config.name.to_string(),
        url: format!("{url}?{query}"),
    }
}

fn is_connected(user: &User, provider: &IdentityProvider) -> bool {
    let issuer = user.identity.as_ref().map(ExternalIdentity::issuer);
    issuer == Some(&*provider.issuer)
}

/// Returns the number of the provider at which a user may sign out as well. `None` if there is
/// none, or if it has no page for that.
pub(super) async fn provider_to_leave(request: &PageRequest, user: &User) -> Option<u64> {
    let mut providers = numbered_providers(request);
    let (number, provider) =
        providers.find(|(_, provider)| is_connected(user, &provider.config))?;
    let back = request.absolute_url(&Page::Login());
    provider.sign_out_url(&back).await.map(|_| number)
}

/// Answers a request for one of the pages of this module.
pub(super) async fn respond(
    request: &PageRequest,
    headers: &HeaderMap,
    jar: CookieJar<'_>,
) -> Result<PageResponse, PageError> {
    let external = request
        .dashboard
        .external_sign_in
        .as_ref()
        .ok_or_else(PageError::not_found)?;
    match request.page {
        Page::LoginProvider(number) if request.query.get("leave") == "1" => {
            let provider = external.provider(number).ok_or_else(PageError::not_found)?;
            let back = request.absolute_url(&Page::Login());
            let url = provider.sign_out_url(&back).await;
            url.map(PageResponse::RedirectToProvider)
                .ok_or_else(PageError::not_found)
        }
        Page::LoginProvider(number) => begin(request, external, number).await,
        _ => match jar
            .pending_sign_in(headers)
            .and_then(PendingFlow::from_cookie)
        {
            Some(flow) => finish(request, external, flow).await,
            None => Ok(timed_out(request)),
        },
    }
}

/// Redirects to the provider.
async fn begin(
    request: &PageRequest,
    external: &ExternalSignIn,
    number: u64,
) -> Result<PageResponse, PageError> {
    let provider = external.provider(number).ok_or_else(PageError::not_found)?;
    let connects = request.query.get("connect") == "1";
    let user = if connects {
        Some(confirmed_user_to_connect(request)?)
    } else if request.viewer.is_anonymous() {
        None
    } else {
        return Ok(PageResponse::Redirect(Page::Projects(), None));
    };
    let mut flow = PendingFlow {
        provider: number,
        state: String::new(),
        connects,
        // A long URL would exceed the limit of a cookie.
        next: sign_in::parse_next_url(&request.dashboard, request.query.get("next"))
            .unwrap_or_default(),
    };
    let purpose = flow.purpose(user).ok_or_else(PageError::not_found)?;
    let uptime = request.handle().clock().uptime();
    let challenges = &request.dashboard.sign_in_challenges;
    let challenge = challenges.create(purpose, request.handle().random(), uptime);
    flow.state = BASE64_URL_SAFE_NO_PAD.encode(&challenge);
    let secrets = flow_secrets(request, &challenge);
    let redirect_url = request.absolute_url(&Page::LoginCallback());
    let url = provider
        .sign_in_url(
            &external.outbound,
            &redirect_url,
            &flow.state,
            &secrets,
            uptime,
        )
        .await;
    match url {
        Ok(url) => Ok(PageResponse::BeginSignIn {
            url,
            flow: flow.to_cookie(),
        }),
        Err(error) => Ok(refuse(request, provider, &error)),
    }
}

/// Returns the signed-in user, if the session was confirmed a short time ago. An older session may
/// be an unattended browser, in which another person would connect their own identity.
fn confirmed_user_to_connect(request: &PageRequest) -> Result<&User, PageError> {
    let (user, _) = own_account(request)?;
    let session = request
        .viewer
        .signed_in
        .as_ref()
        .and_then(|signed_in| signed_in.session.as_ref());
    if session.is_some_and(|session| session.is_confirmed(request.now)) {
        Ok(user)
    } else {
        Err(PageError::new(
            HttpError::Forbidden,
            "Sign in again",
            "Accounts are connected within 15 minutes of signing in. Sign out, sign in again, and \
             connect your account then.",
        ))
    }
}

fn flow_secrets(request: &PageRequest, challenge: &[u8]) -> FlowSecrets {
    let challenges = &request.dashboard.sign_in_challenges;
    FlowSecrets {
        pkce_verifier: challenges.derive(challenge, "pkce"),
        nonce: challenges.derive(challenge, "nonce"),
    }
}

/// Handles the return of a browser from the provider.
async fn finish(
    request: &PageRequest,
    external: &ExternalSignIn,
    flow: PendingFlow,
) -> Result<PageResponse, PageError> {
    let provider = external
        .provider(flow.provider)
        .ok_or_else(PageError::not_found)?;
    let user = request
        .viewer
        .signed_in
        .as_ref()
        .map(|signed_in| &*signed_in.user);
    let challenge = BASE64_URL_SAFE_NO_PAD.decode(&flow.state).ok();
    let purpose = flow.purpose(user);
    let (Some(challenge), Some(purpose)) = (challenge, purpose) else {
        return Ok(timed_out(request));
    };
    let uptime = request.handle().clock().uptime();
    let is_ours = request.query.get("state") == flow.state
        && request
            .dashboard
            .sign_in_challenges
            .consume(purpose, &challenge, uptime)
            .is_ok();
    if !is_ours {
        return Ok(timed_out(request));
    }
    let refused = |reason: String| Ok(refuse(request, provider, &ProviderError::Invalid(reason)));
    // Another provider may answer with a code of this one (RFC 9207).
    let issuer = request.query.get("iss");
    if !issuer.is_empty() && issuer != &*provider.config.issuer {
        return refused("the answer comes from another provider".into());
    }
    let error = request.query.get("error");
    if !error.is_empty() {
        let is_code = |c: char| c.is_ascii_lowercase() || c == '_';
        let code: String = error.chars().filter(|c| is_code(*c)).take(40).collect();
        return refused(format!("the provider answered {code}"));
    }
    let attempt = sign_in::begin_attempt(request, None)?;
    let secrets = flow_secrets(request, &challenge);
    let redirect_url = request.absolute_url(&Page::LoginCallback());
    let code = request.query.get("code");
    let now = (request.now, uptime);
    let confirmed = provider
        .confirm_user(&external.outbound, &redirect_url, code, secrets, now)
        .await;
    let confirmed = match confirmed {
        Ok(confirmed) => confirmed,
        Err(error) => return Ok(refuse(request, provider, &error)),
    };
    if let (true, Some(user)) = (flow.connects, user) {
        request.dashboard.sign_in_limit.record_success(attempt);
        return connect(request, user, confirmed).await;
    }
    let user = match account::find_or_create(request, &provider.config, &confirmed).await? {
        Ok(user) => user,
        Err(reason) => return Ok(sign_in::restart_sign_in(request, &reason)),
    };
    let credentials = VerifiedCredentials {
        proof: SignInProof::Provider(confirmed.identity),
        is_code_counted: false,
    };
    let opened = sign_in::open_session(request, &user, credentials, attempt, &flow.next).await?;
    Ok(opened.unwrap_or_else(|| {
        sign_in::restart_sign_in(
            request,
            "Your account was changed in the meantime. Sign in again.",
        )
    }))
}

/// Connects the account of the viewer with an identity.
async fn connect(
    request: &PageRequest,
    user: &User,
    confirmed: ConfirmedUser,
) -> Result<PageResponse, PageError> {
    let changes = UserChanges {
        identity: Some(Some(confirmed.identity)),
        ..UserChanges::default()
    };
    match operations::user::update(request.handle(), user.id, changes, None).await {
        Ok(_) => {
            tracing::info!(
                user = user.name.as_str(),
                "connected an account with a provider"
            );
            Ok(PageResponse::Redirect(
                Page::Account(),
                FlashMessage::from_code("connected"),
            ))
        }
        Err(OperationError::User(UserCommandError::IdentityTaken)) => Err(PageError::new(
            HttpError::Forbidden,
            "Not connected",
            "Another account of this server is connected with this user of the provider.",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Disconnects the account of the viewer from its provider.
pub(super) async fn disconnect(
    request: &PageRequest,
    form: &FormData,
) -> Result<PageResponse, PageError> {
    let (user, session) = own_account(request)?;
    if user.password.is_none() && user.passkeys.is_empty() {
        return Err(PageError::bad_request(
            "you would have no way to sign in; set a password first",
        ));
    }
    if !sign_in::has_confirmed_password(request, form.get("password")).await? {
        return Err(PageError::bad_request(
            "signing in was too long ago; sign in again to disconnect the account",
        ));
    }
    let changes = UserChanges {
        identity: Some(None),
        ..UserChanges::default()
    };
    operations::user::update(request.handle(), user.id, changes, session).await?;
    Ok(PageResponse::Redirect(
        Page::Account(),
        FlashMessage::from_code("disconnected"),
    ))
}

fn timed_out(request: &PageRequest) -> PageResponse {
    sign_in::restart_sign_in(request, "The sign-in has timed out. Try again.")
}

/// Renders the sign-in form with an error. The log has the reason.
fn refuse(request: &PageRequest, provider: &ProviderClient, error: &ProviderError) -> PageResponse {
    let name = &provider.config.name;
    if let Some(suppressed) = FAILURE_LOG_LIMIT.admit(request.now) {
        tracing::warn!(
            address = %request.origin.client.addr,
            "a sign-in at {name} failed: {error}{suppressed}"
        );
    }
    let text = match error {
        ProviderError::Unavailable(_) => format!("{name} does not answer. Try again later."),
        ProviderError::Invalid(_) => format!("{name} did not sign you in. Try again."),
    };
    sign_in::restart_sign_in(request, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_of_a_sign_in_is_parsed_back_and_others_are_not() {
        let flow = PendingFlow {
            provider: 3,
            state: "abc-_".into(),
            connects: true,
            next: "/checks/?q=a.b".into(),
        };
        let read = PendingFlow::from_cookie(&flow.to_cookie()).unwrap();
        assert_eq!(
            (read.provider, read.state, read.connects, read.next),
            (3, "abc-_".into(), true, "/checks/?q=a.b".into())
        );
        for text in ["", "connect", "connect.x.a.", "other.1.a.", "sign-in.1.a.%"] {
            assert!(PendingFlow::from_cookie(text).is_none(), "{text}");
        }
    }
}
