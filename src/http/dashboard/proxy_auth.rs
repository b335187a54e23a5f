//! Sign-in by a trusted proxy, which names the user in a header.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName};

use super::DashboardState;
use super::browser_security::RequestOrigin;
use super::page_error::PageError;
use super::viewer::SignedInUser;
use crate::domain::audit::{Actor, ActorKind};
use crate::domain::project::SecretHash;
use crate::domain::user::{Grant, Membership, ProjectMemberships, User, UserName};
use crate::engine::command::user::UserCommandError;
use crate::http::common::client_address::is_trusted;
use crate::http::common::reply::HttpError;
use crate::operations::{self, OperationError};
use crate::util::log_limit::LogLimit;

/// Header with the shared secret of the proxy.
const SECRET_HEADER: HeaderName = HeaderName::from_static("x-overdue-proxy-secret");

static SIMILAR_NAME_LOG_LIMIT: LogLimit = LogLimit::new();
static DECEPTIVE_NAME_LOG_LIMIT: LogLimit = LogLimit::new();

/// Settings of the sign-in by a proxy.
#[derive(Clone, Debug)]
pub struct ProxyAuth {
    header: HeaderName,
    secret: Option<SecretHash>,
    new_user_membership: Option<Membership>,
    logout_url: Option<LogoutUrl>,
}

/// URL to which signing out redirects.
#[derive(Clone, Debug)]
pub struct LogoutUrl {
    pub(super) url: Box<str>,
    /// Origin of the URL, which forms may redirect to.
    pub(super) origin: Box<str>,
}

impl LogoutUrl {
    /// Parses an absolute URL.
    ///
    /// # Errors
    /// If the text is not an absolute URL with `http` or `https`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const USAGE: &str = "give the full URL, such as https://auth.example.org/logout";
        let uri: Uri = text.parse().map_err(|_| USAGE)?;
        match (uri.scheme_str(), uri.authority()) {
            (Some(scheme @ ("http" | "https")), Some(authority))
                if !authority.as_str().contains('@') =>
            {
                Ok(Self {
                    url: text.into(),
                    origin: format!("{scheme}://{authority}").into(),
                })
            }
            _ => Err(USAGE),
        }
    }
}

impl ProxyAuth {
    /// Creates the settings. `secret`: value that the proxy sends in `X-Overdue-Proxy-Secret`.
    /// `new_users`: membership, in every project, of users who were not invited. `None`: they are
    /// refused.
    ///
    /// # Errors
    /// If `header` is not a valid header name.
    pub fn new(
        header: &str,
        secret: Option<&[u8]>,
        new_users: Option<Membership>,
        logout: Option<LogoutUrl>,
    ) -> Result<Self, &'static str> {
        let header = header
            .parse()
            .map_err(|_| "--auth-header must be the name of a header, such as Remote-User")?;
        Ok(Self {
            header,
            secret: secret.map(SecretHash::of),
            new_user_membership: new_users,
            logout_url: logout,
        })
    }

    /// True if any machine in a range of trusted proxies could name any user.
    pub fn is_spoofable(&self, trusted_proxies: &[ipnet::IpNet]) -> bool {
        self.secret.is_none()
            && trusted_proxies
                .iter()
                .any(|net| net.prefix_len() < net.max_prefix_len() && !net.addr().is_loopback())
    }

    /// URL to which signing out redirects.
    pub(super) fn logout_url(&self) -> Option<&LogoutUrl> {
        self.logout_url.as_ref()
    }
}

/// Returns the user that a trusted proxy names. `None` if it names none, or if the peer is not
/// trusted.
///
/// # Errors
/// If the header has several values, the secret is missing or wrong, the user has no access, or the
/// request is for an unknown host.
pub(super) async fn authenticate(
    dashboard: &DashboardState,
    origin: &RequestOrigin,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<Option<SignedInUser>, PageError> {
    let Some(proxy_auth) = &dashboard.config.proxy_auth else {
        return Ok(None);
    };
    if !is_trusted(peer.ip(), &dashboard.trusted_proxies)
        || !headers.contains_key(&proxy_auth.header)
    {
        return Ok(None);
    }
    // The first user becomes owner by the link that the server logs at its start. Before that a
    // proxy cannot sign in, or the server would have no owner.
    if dashboard.handle.with_state(|state| state.users.is_empty()) {
        return Ok(None);
    }
    let mut values = headers.get_all(&proxy_auth.header).into_iter();
    let name_in_header = match (
        values
            .next()
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok()),
        values.next(),
    ) {
        (Some(value), None) => value,
        _ => {
            return Err(invalid_header_error(
                proxy_auth,
                "it must occur exactly once",
            ));
        }
    };
    let name = UserName::parse(name_in_header)
        .map_err(|reason| invalid_header_error(proxy_auth, reason))?;
    let sent_secret_hash = headers
        .get(&SECRET_HEADER)
        .map(|value| SecretHash::of(value.as_bytes()));
    if proxy_auth.secret.is_some() && sent_secret_hash != proxy_auth.secret {
        tracing::warn!(peer = %peer.ip(), "a proxy named a user without sending the right secret");
        return Err(PageError::new(
            HttpError::Forbidden,
            "Proxy not authenticated",
            "The proxy did not send the secret from the file of --auth-header-secret-file.",
        ));
    }
    // Another site may point its name to the proxy, and the proxy may recognize the browser by
    // other means than a cookie.
    if let Some(host) = origin.unknown_host(dashboard) {
        return Err(PageError::unknown_host_behind_proxy(host));
    }
    let known = dashboard
        .handle
        .with_state(|state| state.users.by_name(&name).cloned());
    let user = match (known, proxy_auth.new_user_membership) {
        (Some(user), _) => user,
        (None, Some(kind)) if name.as_str() == name_in_header => {
            create_user(dashboard, name, kind, peer.ip()).await?
        }
        (None, _) => return Err(unknown_user_error(name_in_header)),
    };
    // Names chosen here are compared after folding. Another system may have distinguished them.
    if user.name.as_str() != name_in_header {
        if let Some(suppressed) = SIMILAR_NAME_LOG_LIMIT.admit(dashboard.handle.now()) {
            tracing::warn!(
                name = name_in_header,
                user = user.name.as_str(),
                "a proxy named a user whose name is spelled differently here{suppressed}"
            );
        }
        return Err(unknown_user_error(name_in_header));
    }
    if user.disabled {
        Err(unknown_user_error(name_in_header))
    } else {
        Ok(Some(SignedInUser {
            user,
            session: None,
        }))
    }
}

/// Creates a user at the first sign-in. A name that can be mistaken for the name of another user is
/// refused; an owner has to create that user.
async fn create_user(
    dashboard: &DashboardState,
    name: UserName,
    kind: Membership,
    peer: IpAddr,
) -> Result<Arc<User>, PageError> {
    if let Some(reason) = find_confusable_name(dashboard, &name) {
        if let Some(suppressed) = DECEPTIVE_NAME_LOG_LIMIT.admit(dashboard.handle.now()) {
            tracing::warn!(
                name = name.as_str(),
                %peer,
                reason,
                "a proxy named an unknown user whose name can be mistaken for another{suppressed}"
            );
        }
        let text = format!(
            "User {name} has no access, and no user is created with this name: {reason}. Ask an \
             owner.",
            name = name.as_str()
        );
        return Err(PageError::new(HttpError::Forbidden, "Unknown user", text));
    }
    let projects: Vec<_> = dashboard.handle.with_state(|state| {
        state
            .projects()
            .map(|found| (found.project.id, kind))
            .collect()
    });
    let grant = Grant::Projects(ProjectMemberships::new(projects));
    let handle = dashboard.handle.with_actor(Actor {
        kind: ActorKind::Proxy,
        name: "".into(),
        address: Some(peer),
    });
    match operations::user::create(&handle, name.clone(), None, grant).await {
        Ok(user) => {
            tracing::info!(user = name.as_str(), %peer, "created a user that a proxy named");
            Ok(Arc::new(*user))
        }
        // A parallel request of the same user was faster.
        Err(OperationError::User(UserCommandError::NameTaken)) => {
            dashboard.handle.with_state(|state| {
                state
                    .users
                    .by_name(&name)
                    .cloned()
                    .ok_or_else(|| unknown_user_error(name.as_str()))
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the reason why a name can be mistaken for another one.
pub(super) fn find_confusable_name(dashboard: &DashboardState, name: &UserName) -> Option<String> {
    name.lookalike_reason()
        .map(|deception| deception.to_string())
        .or_else(|| {
            let is_like_another = dashboard
                .handle
                .with_state(|state| name.looks_like_any(state.users.iter().map(|user| &user.name)));
            is_like_another.then(|| "it looks like the name of another user".into())
        })
}

fn unknown_user_error(name: &str) -> PageError {
    PageError::new(
        HttpError::Forbidden,
        "Unknown user",
        format!("User {name} has no access. Ask an owner."),
    )
}

fn invalid_header_error(proxy_auth: &ProxyAuth, reason: &str) -> PageError {
    let text = format!(
        "The header {} does not name one user: {reason}.",
        proxy_auth.header
    );
    PageError::new(
        HttpError::BadRequest("the proxy does not name exactly one user".into()),
        "Invalid user header",
        text,
    )
}
