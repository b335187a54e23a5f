//! Viewer of a page, and the rights of the viewer.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::header::HeaderMap;

use super::browser_security::RequestOrigin;
use super::cookie::CookieJar;
use super::page_error::PageError;
use super::page_routes::RequiredRight;
use super::{AuthMode, DashboardState, proxy_auth};
use crate::domain::audit::{Actor, ActorKind};
use crate::domain::ids::ProjectId;
use crate::domain::timezone::Timezone;
use crate::domain::user::preferences::ListPreferences;
use crate::domain::user::session::Session;
use crate::domain::user::{Grant, Membership, Theme, User, UserPreferences};
use crate::engine::Handle;
use crate::engine::command::user::SessionUse;
use crate::http::common::client_address::is_trusted;
use crate::operations;

/// Viewer of a page.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// Time zone for displayed times.
    pub(crate) zone: Timezone,
    /// Theme of the pages.
    pub(crate) theme: Theme,
    /// True if keyboard shortcuts are enabled.
    pub(crate) has_shortcuts: bool,
    /// List preferences that apply if a URL does not override them.
    pub(crate) list_preferences: ListPreferences,
    /// Signed-in user. `None` for an anonymous viewer, and if the server runs without sign-in.
    pub(crate) signed_in: Option<SignedInUser>,
    grant: Option<Grant>,
}

/// A signed-in user.
#[derive(Clone, Debug)]
pub(crate) struct SignedInUser {
    /// Signed-in user.
    pub(crate) user: Arc<User>,
    /// Session of the user. `None` if a proxy authenticates the user.
    pub(crate) session: Option<Arc<Session>>,
}

impl Viewer {
    fn new(
        dashboard: &DashboardState,
        preferences: UserPreferences,
        grant: Option<Grant>,
        signed_in: Option<SignedInUser>,
    ) -> Self {
        let zone = preferences
            .zone
            .unwrap_or_else(|| dashboard.config.default_zone.clone());
        Self {
            zone,
            theme: preferences.theme,
            has_shortcuts: preferences.shortcuts,
            list_preferences: preferences.list,
            signed_in,
            grant,
        }
    }

    /// The viewer as an actor of the audit log.
    pub(crate) fn actor(&self, origin: &RequestOrigin) -> Actor {
        let user = self.signed_in.as_ref().map(|signed_in| &signed_in.user);
        Actor {
            kind: ActorKind::User,
            name: user.map_or("", |user| user.name.as_str()).into(),
            address: Some(origin.client.addr),
        }
    }

    /// True if the viewer is not signed in.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.grant.is_none()
    }

    /// True if the viewer has this right for a project. `None` stands for resources outside
    /// projects.
    pub(crate) fn is_allowed(&self, need: RequiredRight, project: Option<ProjectId>) -> bool {
        let Some(grant) = &self.grant else {
            return need == RequiredRight::Public;
        };
        let has_membership = |least| {
            project.map_or(grant.is_owner(), |project| {
                grant.membership_in(project) >= Some(least)
            })
        };
        match need {
            RequiredRight::Public | RequiredRight::SignedIn => true,
            RequiredRight::Read => has_membership(Membership::ReadOnly),
            RequiredRight::Write => has_membership(Membership::Member),
            RequiredRight::Owner => grant.is_owner(),
        }
    }
}

impl Viewer {
    /// True if the viewer may still see a project. Sessions end, memberships are revoked, and
    /// projects are deleted.
    pub(crate) fn can_still_read(&self, handle: &Handle, project: ProjectId) -> bool {
        let now = handle.now();
        handle.with_state(|state| {
            if state.project(project).is_none() {
                return false;
            }
            let Some(SignedInUser { user, session }) = &self.signed_in else {
                return self.is_allowed(RequiredRight::Read, Some(project));
            };
            let user = match session {
                Some(session) => state
                    .users
                    .session(&session.hash, now)
                    .map(|(_, user)| user),
                None => state.users.get(user.id).filter(|user| !user.disabled),
            };
            user.is_some_and(|user| user.grant.membership_in(project) >= Some(Membership::ReadOnly))
        })
    }
}

/// Identifies the viewer of a request.
///
/// # Errors
/// If the server runs without sign-in, and the client is on another machine or the host is unknown.
/// Also if [`proxy_auth::authenticate`] fails.
pub(super) async fn identify_viewer(
    dashboard: &DashboardState,
    origin: &RequestOrigin,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<Viewer, PageError> {
    match dashboard.config.auth {
        AuthMode::Password => {
            // A user that the proxy names takes precedence over a cookie.
            let named = proxy_auth::authenticate(dashboard, origin, headers, peer).await?;
            let signed_in = named.or_else(|| user_by_cookie(dashboard, origin, headers));
            let (preferences, grant) = signed_in
                .as_ref()
                .map(|signed_in| {
                    (
                        signed_in.user.preferences.clone(),
                        signed_in.user.grant.clone(),
                    )
                })
                .unzip();
            Ok(Viewer::new(
                dashboard,
                preferences.unwrap_or_default(),
                grant,
                signed_in,
            ))
        }
        AuthMode::None => {
            let peer = peer.ip().to_canonical();
            if !peer.is_loopback() && !is_trusted(peer, &dashboard.trusted_proxies) {
                return Err(PageError::not_local());
            }
            if !origin.has_known_host(dashboard) {
                return Err(PageError::unknown_host(origin));
            }
            Ok(Viewer::new(
                dashboard,
                UserPreferences::default(),
                Some(Grant::Owner),
                None,
            ))
        }
    }
}

fn user_by_cookie(
    dashboard: &DashboardState,
    origin: &RequestOrigin,
    headers: &HeaderMap,
) -> Option<SignedInUser> {
    let jar = CookieJar {
        is_secure: origin.is_secure(&dashboard.base_url),
        base_path: dashboard.base_url.path(),
    };
    let now = dashboard.handle.now();
    let signed_in = dashboard.handle.with_state(|state| {
        let mut found = jar
            .session_token_hashes(headers)
            .filter_map(|token| state.users.session(&token, now));
        found.next().map(|(session, user)| SignedInUser {
            user: Arc::clone(user),
            session: Some(Arc::clone(session)),
        })
    });
    if let Some(session) = signed_in
        .as_ref()
        .and_then(|signed_in| signed_in.session.as_ref())
        .filter(|session| session.needs_use_recorded(now))
    {
        let session_use = SessionUse {
            session: session.id,
            address: origin.client.addr,
            idle_secs: dashboard.session_idle_secs(),
            verified_password: None,
        };
        operations::user::queue_session_use(&dashboard.handle, session_use);
    }
    signed_in
}
