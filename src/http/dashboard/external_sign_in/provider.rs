//! Client of an OpenID Connect provider: discovery, the URL at which a user signs in, and the
//! verification of the result.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdToken, CoreJwsSigningAlgorithm,
};
use openidconnect::{
    AsyncHttpClient, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, CsrfToken,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl, JsonWebTokenType, Nonce,
    NormalizedJsonWebTokenType, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier,
    ProviderMetadataWithLogout, RedirectUrl, Scope, SignatureVerificationError, TokenResponse as _,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::domain::timestamp::Timestamp;
use crate::domain::user::external_identity::{ExternalIdentity, IdentityProvider};
use crate::outbound::{HttpRequest, Outbound, RedirectPolicy, SendError, Trust, describe_error};

/// Time after which the description and the keys of a provider are fetched again.
const METADATA_LIFETIME: Duration = Duration::from_secs(3600);
/// Minimum time between two fetches because of an unknown key.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// Time for which a provider is not asked again after a failure.
const FAILURE_LIFETIME: Duration = Duration::from_secs(10);
/// Event of a logout token.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// Types of a logout token: providers need not name it.
const LOGOUT_TOKEN_TYPES: [&str; 2] = ["logout+jwt", "JWT"];
/// Maximum time of a request to a provider.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum difference of the clocks of the provider and this server, in seconds.
const MAX_CLOCK_SKEW_SECS: i64 = 60;
/// Maximum number of groups of a user; others are ignored. See [limits](crate::docs::limits).
const MAX_GROUPS: usize = 1000;
/// Accepted signature algorithms: all that use a public key.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Client of a provider whose endpoints are known.
type DiscoveredClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Error of a sign-in at a provider.
#[derive(Debug)]
pub(super) enum ProviderError {
    /// The provider does not answer, or not as the protocol demands.
    Unavailable(String),
    /// The result of the sign-in is not valid.
    Invalid(String),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => write!(f, "the provider does not work: {reason}"),
            Self::Invalid(reason) => write!(f, "the result is not valid: {reason}"),
        }
    }
}

/// Secrets that only this server can derive from the state of a sign-in.
pub(super) struct FlowSecrets {
    /// Verifier of PKCE (RFC 7636).
    pub(super) pkce_verifier: String,
    /// Value that the ID token must contain.
    pub(super) nonce: String,
}

/// User that a provider has confirmed.
#[derive(Debug)]
pub(super) struct ConfirmedUser {
    pub(super) identity: ExternalIdentity,
    /// Value of the claim for names.
    pub(super) name: Option<String>,
    pub(super) groups: Vec<String>,
}

/// Description and keys of a provider, and when they were fetched by the uptime.
#[derive(Clone)]
struct FetchedMetadata {
    metadata: Arc<ProviderMetadataWithLogout>,
    at: Duration,
}

/// Result of the latest discovery of a provider.
#[derive(Default)]
struct Discovery {
    fetched: Option<FetchedMetadata>,
    /// Time of the last failure by the uptime, and its reason.
    failure: Option<(Duration, String)>,
}

/// Client of a provider.
pub(super) struct ProviderClient {
    pub(super) config: IdentityProvider,
    discovery: Mutex<Discovery>,
}

impl ProviderClient {
    pub(super) fn new(config: IdentityProvider) -> Self {
        Self {
            config,
            discovery: Mutex::default(),
        }
    }

    /// Returns the URL at which a user signs in.
    pub(super) async fn sign_in_url(
        &self,
        outbound: &Outbound,
        redirect_url: &str,
        state: &str,
        secrets: &FlowSecrets,
        uptime: Duration,
    ) -> Result<String, ProviderError> {
        let metadata = self.metadata(outbound, uptime, METADATA_LIFETIME).await?;
        let client = self.client(&metadata, redirect_url)?;
        let verifier = PkceCodeVerifier::new(secrets.pkce_verifier.clone());
        let state = state.to_owned();
        let nonce = secrets.nonce.clone();
        let mut request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                move || CsrfToken::new(state),
                move || Nonce::new(nonce),
            )
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        for scope in &self.config.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        Ok(request.url().0.to_string())
    }

    /// Exchanges the code of a sign-in for the user.
    pub(super) async fn confirm_user(
        &self,
        outbound: &Outbound,
        redirect_url: &str,
        code: &str,
        secrets: FlowSecrets,
        now: (Timestamp, Duration),
    ) -> Result<ConfirmedUser, ProviderError> {
        let metadata = self.metadata(outbound, now.1, METADATA_LIFETIME).await?;
        let client = self.client(&metadata, redirect_url)?;
        let http_client = LibraryClient(outbound.clone());
        let response = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|error| ProviderError::Unavailable(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(secrets.pkce_verifier))
            .request_async(&http_client)
            .await
            .map_err(|error| ProviderError::Invalid(describe_error(&error)))?;
        let token = response
            .id_token()
            .ok_or_else(|| ProviderError::Invalid("it has no ID token".into()))?;
        let nonce = Nonce::new(secrets.nonce);
        let mut claims = self
            .verified_claims(
                outbound,
                token,
                redirect_url,
                ExpectedToken::Id(&nonce),
                now,
            )
            .await?;
        let subject = text_claim(&claims, "sub").unwrap_or_default();
        if let Some(url) = metadata.userinfo_endpoint() {
            let access_token = response.access_token().secret();
            let more = user_info(outbound, url.as_str(), access_token).await?;
            // OpenID Connect Core, section 5.3.2.
            if text_claim(&more, "sub").as_deref() != Some(&subject) {
                let reason = "the user information is about another user";
                return Err(ProviderError::Invalid(reason.into()));
            }
            for (name, value) in more {
                claims.entry(name).or_insert(value);
            }
        }
        self.confirmed_user(&claims, &subject)
    }

    /// Verifies a logout token (OpenID Connect Back-Channel Logout 1.0, section 2.6). Returns the
    /// user who has signed out.
    pub(super) async fn confirm_logout(
        &self,
        outbound: &Outbound,
        token: &str,
        now: (Timestamp, Duration),
    ) -> Result<ExternalIdentity, ProviderError> {
        let invalid = |reason: &str| ProviderError::Invalid(reason.into());
        let parsed = CoreIdToken::from_str(token)
            .map_err(|_| invalid("it is no token, or has no subject or no times"))?;
        let claims = self
            .verified_claims(
                outbound,
                &parsed,
                &self.config.issuer,
                ExpectedToken::Logout,
                now,
            )
            .await?;
        let event = claims
            .get("events")
            .and_then(|events| events.get(LOGOUT_EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err(invalid("it is not about a logout"));
        }
        let subject = text_claim(&claims, "sub").unwrap_or_default();
        ExternalIdentity::new(&self.config.issuer, &subject)
            .ok_or_else(|| invalid("the subject is too long"))
    }

    /// Verifies a token: see [`verify`]. Fetches the keys again if its key is not known.
    async fn verified_claims(
        &self,
        outbound: &Outbound,
        token: &CoreIdToken,
        redirect_url: &str,
        expected: ExpectedToken<'_>,
        (time, uptime): (Timestamp, Duration),
    ) -> Result<Map<String, Value>, ProviderError> {
        let metadata = self.metadata(outbound, uptime, METADATA_LIFETIME).await?;
        let client = self.client(&metadata, redirect_url)?;
        match verify(&client, token, expected, time) {
            Err(VerifyError::UnknownKey) => {
                let metadata = self
                    .metadata(outbound, uptime, MIN_REFRESH_INTERVAL)
                    .await?;
                let client = self.client(&metadata, redirect_url)?;
                Ok(verify(&client, token, expected, time)?)
            }
            verified => Ok(verified?),
        }
    }

    fn confirmed_user(
        &self,
        claims: &Map<String, Value>,
        subject: &str,
    ) -> Result<ConfirmedUser, ProviderError> {
        let identity = ExternalIdentity::new(&self.config.issuer, subject)
            .ok_or_else(|| ProviderError::Invalid("the subject is too long".into()))?;
        let is_unverified = claims.get("email_verified") == Some(&Value::Bool(false));
        if &*self.config.name_claim == "email" && is_unverified {
            let reason = "the mail address is not verified at the provider";
            return Err(ProviderError::Invalid(reason.into()));
        }
        let groups = match find_claim(claims, &self.config.groups_claim) {
            Some(Value::Array(values)) => values
                .iter()
                .filter_map(|value| value.as_str().map(String::from))
                .take(MAX_GROUPS)
                .collect(),
            Some(Value::String(group)) => vec![group.clone()],
            _ => Vec::new(),
        };
        Ok(ConfirmedUser {
            identity,
            name: text_claim(claims, &self.config.name_claim),
            groups,
        })
    }

    /// URL at which a user signs out of the provider, if it is known already.
    pub(super) async fn sign_out_url(&self, back: &str) -> Option<String> {
        let discovery = self.discovery.lock().await;
        let metadata = &discovery.fetched.as_ref()?.metadata;
        let endpoint = metadata
            .additional_metadata()
            .end_session_endpoint
            .as_ref()?;
        let mut url = endpoint.url().clone();
        url.query_pairs_mut()
            .append_pair("client_id", &self.config.client_id)
            .append_pair("post_logout_redirect_uri", back);
        Some(url.into())
    }

    /// Returns the description of the provider, fetched again if it is older than `max_age`. If
    /// that fails, an older one.
    async fn metadata(
        &self,
        outbound: &Outbound,
        uptime: Duration,
        max_age: Duration,
    ) -> Result<Arc<ProviderMetadataWithLogout>, ProviderError> {
        let mut discovery = self.discovery.lock().await;
        let Discovery { fetched, failure } = &mut *discovery;
        if let Some(known) = fetched.as_ref()
            && uptime < known.at + max_age
        {
            return Ok(Arc::clone(&known.metadata));
        }
        // Many clients do not wait one after the other for a provider that is down.
        if let Some((at, reason)) = failure
            && uptime < *at + FAILURE_LIFETIME
        {
            let known = fetched.as_ref();
            return known
                .map(|known| Arc::clone(&known.metadata))
                .ok_or_else(|| ProviderError::Unavailable(reason.clone()));
        }
        let issuer = IssuerUrl::new(self.config.issuer.to_string())
            .map_err(|error| ProviderError::Unavailable(error.to_string()))?;
        let http_client = LibraryClient(outbound.clone());
        match ProviderMetadataWithLogout::discover_async(issuer, &http_client).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *fetched = Some(FetchedMetadata {
                    metadata: Arc::clone(&metadata),
                    at: uptime,
                });
                Ok(metadata)
            }
            Err(error) => {
                let reason = describe_error(&error);
                *failure = Some((uptime, reason.clone()));
                let known = fetched.as_ref();
                known
                    .map(|known| Arc::clone(&known.metadata))
                    .ok_or(ProviderError::Unavailable(reason))
            }
        }
    }

    fn client(
        &self,
        metadata: &ProviderMetadataWithLogout,
        redirect_url: &str,
    ) -> Result<DiscoveredClient, ProviderError> {
        let redirect_url = RedirectUrl::new(redirect_url.to_owned())
            .map_err(|error| ProviderError::Unavailable(error.to_string()))?;
        let secret = self
            .config
            .client_secret
            .as_ref()
            .map(|secret| openidconnect::ClientSecret::new(secret.0.to_string()));
        let client_id = ClientId::new(self.config.client_id.to_string());
        let client = CoreClient::from_provider_metadata(metadata.clone(), client_id, secret)
            .set_redirect_uri(redirect_url);
        // The default of the protocol is the header.
        let takes_header = metadata
            .token_endpoint_auth_methods_supported()
            .is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
        Ok(if takes_header {
            client
        } else {
            client.set_auth_type(AuthType::RequestBody)
        })
    }
}

/// Error of the verification of an ID token.
enum VerifyError {
    /// It is signed with a key that is not known.
    UnknownKey,
    Invalid(String),
}

impl From<VerifyError> for ProviderError {
    fn from(error: VerifyError) -> Self {
        Self::Invalid(match error {
            VerifyError::UnknownKey => "it is signed with an unknown key".into(),
            VerifyError::Invalid(reason) => reason,
        })
    }
}

/// Kind of token that is expected.
#[derive(Clone, Copy)]
enum ExpectedToken<'n> {
    /// ID token with this nonce.
    Id(&'n Nonce),
    /// Logout token.
    Logout,
}

/// Verifies a token: signature, issuer, audience, nonce and times. Returns all claims.
fn verify(
    client: &DiscoveredClient,
    token: &CoreIdToken,
    expected: ExpectedToken<'_>,
    now: Timestamp,
) -> Result<Map<String, Value>, VerifyError> {
    let moment = |offset: i64| -> DateTime<Utc> {
        DateTime::from_timestamp(now.secs() + offset, 0).unwrap_or_default()
    };
    let latest = moment(MAX_CLOCK_SKEW_SECS);
    let verifier = client
        .id_token_verifier()
        .set_allowed_algs(ALGORITHMS)
        .set_time_fn(move || moment(-MAX_CLOCK_SKEW_SECS))
        .set_issue_time_verifier_fn(move |issued| {
            if issued > latest {
                Err("it was issued in the future".into())
            } else {
                Ok(())
            }
        });
    let claims = match expected {
        ExpectedToken::Id(nonce) => token.claims(&verifier, nonce),
        ExpectedToken::Logout => {
            let types = LOGOUT_TOKEN_TYPES.map(|name| JsonWebTokenType::new(name.into()));
            let normalized = types.iter().flat_map(NormalizedJsonWebTokenType::try_from);
            let verifier = verifier.set_allowed_jose_types(normalized);
            // An ID token has a nonce, so that none passes for a logout token.
            token.claims(&verifier, |nonce: Option<&Nonce>| match nonce {
                None => Ok(()),
                Some(_) => Err("it has a nonce".into()),
            })
        }
    };
    match claims {
        Ok(_) => {}
        Err(ClaimsVerificationError::SignatureVerification(
            SignatureVerificationError::NoMatchingKey,
        )) => return Err(VerifyError::UnknownKey),
        Err(error) => return Err(VerifyError::Invalid(describe_error(&error))),
    }
    // The library gives only the claims that it knows.
    let invalid = || VerifyError::Invalid("the ID token cannot be read".into());
    let text = token.to_string();
    let payload = text.split('.').nth(1).ok_or_else(invalid)?;
    let bytes = BASE64_URL_SAFE_NO_PAD
        .decode(payload)
        .map_err(|_| invalid())?;
    serde_json::from_slice(&bytes).map_err(|_| invalid())
}

/// Fetches the claims that are not in the ID token. Empty if the provider gives them in another
/// form than JSON.
async fn user_info(
    outbound: &Outbound,
    url: &str,
    access_token: &str,
) -> Result<Map<String, Value>, ProviderError> {
    let request = HttpRequest {
        method: "GET".into(),
        url: url.into(),
        headers: vec![
            ("Authorization".into(), format!("Bearer {access_token}")),
            ("Accept".into(), "application/json".into()),
        ],
        body: Vec::new().into(),
        redirects: RedirectPolicy::None,
        pin: None,
        timeout: REQUEST_TIMEOUT,
    };
    let response = outbound
        .send_http(request, Trust::Operator)
        .await
        .map_err(|error| ProviderError::Unavailable(error.to_string()))?;
    if response.status != 200 || !response.is_complete {
        return Err(ProviderError::Unavailable(format!(
            "the answer for the user information was {}",
            response.status
        )));
    }
    serde_json::from_slice(&response.body)
        .map_err(|_| ProviderError::Unavailable("the user information is not a JSON object".into()))
}

/// Sender of the requests of the library.
struct LibraryClient(Outbound);

impl<'c> AsyncHttpClient<'c> for LibraryClient {
    type Error = SendError;
    type Future =
        Pin<Box<dyn Future<Output = Result<openidconnect::HttpResponse, SendError>> + Send + 'c>>;

    fn call(&'c self, request: openidconnect::HttpRequest) -> Self::Future {
        Box::pin(send(&self.0, request))
    }
}

/// Sends a request of the library.
async fn send(
    outbound: &Outbound,
    request: openidconnect::HttpRequest,
) -> Result<openidconnect::HttpResponse, SendError> {
    let response = outbound
        .send_typed(request.map(Into::into), REQUEST_TIMEOUT)
        .await?;
    Ok(response.map(Vec::from))
}

/// A claim by its name, or by a path such as `realm_access.roles`.
fn find_claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })
}

fn text_claim(claims: &Map<String, Value>, name: &str) -> Option<String> {
    find_claim(claims, name)?.as_str().map(String::from)
}
