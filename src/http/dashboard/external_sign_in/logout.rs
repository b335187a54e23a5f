//! Requests of providers that say that a user has signed out there (OpenID Connect Back-Channel
//! Logout 1.0). No browser takes part: the signature of the token authorizes.

use std::collections::BTreeMap;

use hyper::{Method, Request};

use super::{ExternalSignIn, FAILURE_LOG_LIMIT};
use crate::domain::audit::{Actor, ActorKind};
use crate::engine::command::user::SessionSelection;
use crate::http::common::client_address::{Client, Peer};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::http::common::request_body::{self, BodyQuota, IncomingBody};
use crate::http::dashboard::DashboardState;
use crate::operations;

/// Maximum bytes of a request body: see [limits](crate::docs::limits).
const MAX_BODY_BYTES: usize = 16 << 10;

/// Ends the sessions of the user whom a provider names.
pub(crate) async fn respond_to_logout(
    dashboard: &DashboardState,
    quota: BodyQuota<'_>,
    provider: u64,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> HttpReply {
    let answer = match &dashboard.external_sign_in {
        None => Err(HttpError::NotFound),
        Some(_) if *request.method() != Method::POST => Err(HttpError::MethodNotAllowed("POST")),
        Some(external) => end_sessions(dashboard, external, quota, provider, request, peer).await,
    };
    let answer = answer.map_or_else(|error| error.to_json(), |()| reply::text("OK"));
    reply::with_no_store(answer)
}

async fn end_sessions(
    dashboard: &DashboardState,
    external: &ExternalSignIn,
    quota: BodyQuota<'_>,
    provider: u64,
    request: Request<IncomingBody<'_>>,
    peer: Peer,
) -> Result<(), HttpError> {
    let provider = external.provider(provider).ok_or(HttpError::NotFound)?;
    let (head, body) = request.into_parts();
    let address = Client::from_headers(&head.headers, peer, &dashboard.trusted_proxies).addr;
    let body = request_body::read_whole(body, MAX_BODY_BYTES, quota).await?;
    let form: BTreeMap<String, String> = serde_html_form::from_bytes(&body).unwrap_or_default();
    let token = form
        .get("logout_token")
        .ok_or(HttpError::BadRequest("logout_token is missing".into()))?;
    let handle = &dashboard.handle;
    let now = (handle.now(), handle.clock().uptime());
    let identity = provider
        .confirm_logout(&external.outbound, token, now)
        .await
        .map_err(|error| {
            if let Some(suppressed) = FAILURE_LOG_LIMIT.admit(handle.now()) {
                tracing::warn!(
                    issuer = &*provider.config.issuer,
                    from = %address,
                    "a logout of a provider was refused: {error}{suppressed}"
                );
            }
            HttpError::BadRequest(error.to_string().into())
        })?;
    // A user without an account here has no session to end.
    let Some(user) = handle.with_state(|state| state.users.by_identity(&identity).cloned()) else {
        return Ok(());
    };
    let handle = handle.with_actor(Actor {
        kind: ActorKind::User,
        name: user.name.as_str().into(),
        address: Some(address),
    });
    operations::user::end_sessions(&handle, user.id, SessionSelection::All)
        .await
        .map_err(|_| HttpError::Unavailable)?;
    tracing::info!(
        user = user.name.as_str(),
        issuer = &*provider.config.issuer,
        "ended the sessions of a user who signed out at the provider"
    );
    Ok(())
}
