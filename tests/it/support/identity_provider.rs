//! An OpenID Connect provider in software: its answers, right or wrong.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::server::START;

pub const CLIENT_ID: &str = "overdue";
pub const CLIENT_SECRET: &str = "s3cret/with:signs";

/// A provider that listens on a port of this machine.
pub struct FakeProvider {
    state: Arc<Mutex<ProviderState>>,
}

struct ProviderState {
    issuer: String,
    /// Key of new tokens, and its identifier.
    key: (KeyPair, &'static str),
    /// Key that the provider publishes; another one than `key` if that one is stolen or new.
    published: Option<Value>,
    codes: BTreeMap<String, Grant>,
    /// Claims of the user information.
    user_info: Value,
    is_down: bool,
    /// Number of requests for each path.
    requests: BTreeMap<String, usize>,
}

/// What a code is exchanged for.
struct Grant {
    challenge: String,
    redirect_uri: String,
    claims: Value,
}

/// Parameters of the URL to which a browser is sent.
pub type SignInParams = BTreeMap<String, String>;

impl FakeProvider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(ProviderState {
            issuer: format!("http://{address}/realm"),
            key: (new_key(), "first"),
            published: None,
            codes: BTreeMap::new(),
            user_info: json!({}),
            is_down: false,
            requests: BTreeMap::new(),
        }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { state }
    }

    pub fn issuer(&self) -> String {
        self.state.lock().unwrap().issuer.clone()
    }

    /// Signs a user in as a browser would: returns the query with which the browser returns.
    /// `change` changes the claims of the ID token.
    pub fn sign_in(
        &self,
        location: &str,
        subject: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> String {
        let params = params_of(location);
        let mut state = self.state.lock().unwrap();
        assert!(
            location.starts_with(&format!("{}/auth?", state.issuer)),
            "{location}"
        );
        assert_eq!(
            [
                &params["response_type"],
                &params["client_id"],
                &params["code_challenge_method"]
            ],
            ["code", CLIENT_ID, "S256"]
        );
        let now = START.secs();
        let mut claims = json!({
            "iss": state.issuer, "sub": subject, "aud": CLIENT_ID, "nonce": params["nonce"],
            "iat": now, "exp": now + 300, "preferred_username": subject,
        });
        change(claims.as_object_mut().unwrap());
        let code = format!("code-{}", state.codes.len());
        state.user_info = json!({ "sub": claims["sub"], "groups": claims["groups"] });
        state.codes.insert(
            code.clone(),
            Grant {
                challenge: params["code_challenge"].clone(),
                redirect_uri: params["redirect_uri"].clone(),
                claims,
            },
        );
        format!("code={code}&state={}", params["state"])
    }

    /// Token about a user who signs out. `change` changes its claims.
    pub fn logout_token(
        &self,
        subject: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> String {
        let state = self.state.lock().unwrap();
        let now = START.secs();
        let mut claims = json!({
            "iss": state.issuer, "sub": subject, "aud": CLIENT_ID, "iat": now, "exp": now + 120,
            "jti": "a", "sid": "b",
            "events": { "http://schemas.openid.net/event/backchannel-logout": {} },
        });
        change(claims.as_object_mut().unwrap());
        state.sign("logout+jwt", &claims)
    }

    /// Signs tokens with a new key from now on, which is published or not.
    pub fn change_key(&self, id: &'static str, is_published: bool) {
        let mut state = self.state.lock().unwrap();
        let old = jwk(&state.key);
        state.key = (new_key(), id);
        state.published = (!is_published).then_some(old);
    }

    pub fn set_user_info(&self, claims: Value) {
        self.state.lock().unwrap().user_info = claims;
    }

    pub fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    /// Number of requests for a path below the issuer.
    pub fn requests(&self, path: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.requests.get(path).copied().unwrap_or_default()
    }
}

/// Parameters of a URL.
pub fn params_of(url: &str) -> SignInParams {
    let query = url.split_once('?').unwrap().1;
    serde_html_form::from_str::<Vec<(String, String)>>(query)
        .unwrap()
        .into_iter()
        .collect()
}

fn new_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ED25519).unwrap()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn jwk((key, id): &(KeyPair, &'static str)) -> Value {
    json!({
        "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": id, "alg": "EdDSA",
        "x": encode(key.der_bytes()),
    })
}

async fn answer(
    state: Arc<Mutex<ProviderState>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut state = state.lock().unwrap();
    let path = head
        .uri
        .path()
        .strip_prefix("/realm")
        .unwrap_or_default()
        .to_owned();
    *state.requests.entry(path.clone()).or_default() += 1;
    let (status, value) = match path.as_str() {
        _ if state.is_down => (503, json!({})),
        "/.well-known/openid-configuration" => (200, description(&state.issuer)),
        "/keys" => {
            let published = state.published.clone();
            let key = published.unwrap_or_else(|| jwk(&state.key));
            (200, json!({ "keys": [key] }))
        }
        "/token" => state.exchange(&head.headers, &body),
        "/me" => (200, state.user_info.clone()),
        _ => (404, json!({})),
    };
    let response = Response::builder()
        .status(status)
        .header("Content-Type", "application/json")
        .body(Full::new(value.to_string().into()))
        .unwrap();
    Ok(response)
}

fn description(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"),
        "userinfo_endpoint": format!("{issuer}/me"),
        "jwks_uri": format!("{issuer}/keys"),
        "end_session_endpoint": format!("{issuer}/end"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA"],
    })
}

impl ProviderState {
    fn sign(&self, kind: &str, claims: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "typ": kind, "kid": self.key.1 });
        let signed = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims.to_string())
        );
        let signature = self.key.0.sign(signed.as_bytes()).unwrap();
        format!("{signed}.{}", encode(signature))
    }

    /// Answers a request with a code (RFC 6749, section 4.1.3; RFC 7636, section 4.6).
    fn exchange(&mut self, headers: &hyper::HeaderMap, body: &[u8]) -> (u16, Value) {
        let params: SignInParams = serde_html_form::from_bytes::<Vec<(String, String)>>(body)
            .unwrap()
            .into_iter()
            .collect();
        let secret = percent_encoding::utf8_percent_encode(
            CLIENT_SECRET,
            percent_encoding::NON_ALPHANUMERIC,
        );
        let credentials = base64::prelude::BASE64_STANDARD.encode(format!("{CLIENT_ID}:{secret}"));
        let is_client = headers
            .get("authorization")
            .is_some_and(|value| value.to_str().unwrap() == format!("Basic {credentials}"));
        if !is_client {
            return (401, json!({ "error": "invalid_client" }));
        }
        // Once.
        let grant = params.get("code").and_then(|code| self.codes.remove(code));
        let verifier = params.get("code_verifier").map_or("", String::as_str);
        let Some(grant) = grant.filter(|grant| {
            grant.challenge == encode(Sha256::digest(verifier))
                && params.get("redirect_uri") == Some(&grant.redirect_uri)
        }) else {
            return (400, json!({ "error": "invalid_grant" }));
        };
        let token = self.sign("JWT", &grant.claims);
        (
            200,
            json!({ "access_token": "a", "token_type": "Bearer", "id_token": token }),
        )
    }
}
