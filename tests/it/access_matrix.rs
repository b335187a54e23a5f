//! Access of every kind of client to every route: the API, the endpoints of the instance key, the
//! pages, and all other URLs.
//!
//! The routes come from the tables of the server, so a new one is tested without a change here.
//! The list of URLs outside the tables is compared with the variants of `Route`.

mod api;
mod other_urls;
mod pages;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use overdue::domain::project::SecretHash;
use overdue::engine::ChannelTestResult;
use overdue::http::InstanceAccess;
use overdue::http::dashboard::AuthMode;
use overdue::operations::instance::{InstanceApi, InstanceReply, InstanceRequest};
use serde_json::json;

use crate::support::server::{TestProject, TestResponse, TestServer, new_project};
use crate::web::browser::{PASSWORD, owner, signed_in};
use crate::web::project_uuid;

const INSTANCE_KEY: &str = "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6";
const METRICS_TOKEN: &str = "a token for the metrics of this server";
/// Name of all objects of the main project. A client without access must not see it.
const PRIVATE_NAME: &str = "payroll-of-main";

/// Credential of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Credential {
    Nothing,
    WrongKey,
    PingKey,
    InstanceKey,
    MetricsToken,
    /// Cookie of an owner of the server.
    OwnerCookie,
    /// Name and password of an owner (`Authorization: Basic`).
    OwnerPassword,
    /// Name of an owner in a header for proxies, which this server does not read.
    ProxyHeader,
    OtherProjectReadOnly,
    OtherProjectReadWrite,
    ReadOnly,
    ReadWrite,
}

const CREDENTIALS: [Credential; 12] = [
    Credential::Nothing,
    Credential::WrongKey,
    Credential::PingKey,
    Credential::InstanceKey,
    Credential::MetricsToken,
    Credential::OwnerCookie,
    Credential::OwnerPassword,
    Credential::ProxyHeader,
    Credential::OtherProjectReadOnly,
    Credential::OtherProjectReadWrite,
    Credential::ReadOnly,
    Credential::ReadWrite,
];

/// Counts the requests that the server accepts with the instance key.
#[derive(Default)]
struct AcceptedInstanceRequests(AtomicU32);

impl InstanceApi for AcceptedInstanceRequests {
    fn respond(
        &self,
        _request: InstanceRequest,
    ) -> Pin<Box<dyn Future<Output = InstanceReply> + Send + '_>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let reply = InstanceReply {
            status: 204,
            body: Vec::new(),
            allow: None,
        };
        Box::pin(std::future::ready(reply))
    }
}

/// A server with two projects, an owner, and keys of all kinds.
struct Fixture {
    server: TestServer,
    other: TestProject,
    owner_cookie: String,
    instance_requests: Arc<AcceptedInstanceRequests>,
}

/// Identifiers of the objects of the main project, in place of the variable segments of paths.
struct Objects {
    project: String,
    check: String,
    unique_key: String,
    channel: String,
    window: String,
}

impl Fixture {
    async fn start() -> Self {
        let instance_requests = Arc::new(AcceptedInstanceRequests::default());
        let server = TestServer::start_with(|config| {
            config.dashboard.auth = AuthMode::Password;
            config.metrics_token = Some(SecretHash::of(METRICS_TOKEN.as_bytes()));
            config.instance = Some(InstanceAccess {
                key: SecretHash::of(INSTANCE_KEY.as_bytes()),
                api: instance_requests.clone(),
                described_paths: String::new(),
            });
        })
        .await;
        server.answer_tests(ChannelTestResult {
            duration: Duration::ZERO,
            status: 200,
            error: None,
            missed: None,
        });
        let other = new_project(&server.handle, "other").await;
        owner(&server, "first").await;
        let owner_cookie = signed_in(&server, "first").await.cookie.unwrap();
        Self {
            server,
            other,
            owner_cookie,
            instance_requests,
        }
    }

    /// Creates the objects of the main project.
    async fn create_objects(&self) -> Objects {
        let server = &self.server;
        let check = json!({ "name": PRIVATE_NAME, "slug": PRIVATE_NAME, "tags": PRIVATE_NAME });
        let uuid = server.create_check(check).await["uuid"].clone();
        let uuid = uuid.as_str().unwrap();
        let path = format!("/ping/{uuid}");
        let ping = server.send("POST", &path, &[], PRIVATE_NAME.as_bytes());
        assert_eq!(ping.await.status, 200);
        let channel = json!({
            "kind": "webhook", "name": PRIVATE_NAME, "settings": { "down-url": "http://127.0.0.1:1/" },
        });
        let window = json!({
            "title": PRIVATE_NAME, "start": "2026-11-21T00:00:00+00:00", "minutes": 60,
        });
        let create = async |path: &str, body: serde_json::Value| {
            let answer = server.extension_api("POST", path, &body.to_string()).await;
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.json()["id"].as_str().unwrap().to_owned()
        };
        let read_only = [("X-Api-Key", server.main.read_only_key.as_str())];
        let path = format!("/api/v3/checks/{uuid}");
        let shown = server.send("GET", &path, &read_only, b"").await.json();
        Objects {
            project: project_uuid(server),
            check: uuid.to_owned(),
            unique_key: shown["unique_key"].as_str().unwrap().to_owned(),
            channel: create("/channels", channel).await,
            window: create("/windows", window).await,
        }
    }

    /// Creates the objects again, after a request may have changed or removed them.
    async fn replace_objects(&self, objects: Objects) -> Objects {
        let channel = format!("/api/overdue/v1/channels/{}", objects.channel);
        let check = format!("/api/v3/checks/{}", objects.check);
        let window = format!("/api/overdue/v1/windows/{}", objects.window);
        for path in [channel, check, window] {
            let answer = self.send(Credential::ReadWrite, "DELETE", &path).await;
            assert!(
                [200, 204, 404].contains(&answer.status),
                "{path}: {answer:?}"
            );
        }
        self.create_objects().await
    }

    /// Header that presents a credential.
    fn header(&self, credential: Credential) -> Option<(&'static str, String)> {
        let main = &self.server.main;
        let api_key = |key: &str| Some(("X-Api-Key", key.to_owned()));
        match credential {
            Credential::Nothing => None,
            Credential::WrongKey => api_key(&"X".repeat(32)),
            Credential::PingKey => api_key(&main.ping_key),
            Credential::InstanceKey => api_key(INSTANCE_KEY),
            Credential::MetricsToken => Some(("Authorization", format!("Bearer {METRICS_TOKEN}"))),
            Credential::OwnerCookie => Some(("Cookie", self.owner_cookie.clone())),
            Credential::OwnerPassword => {
                use base64::Engine as _;
                let pair = format!("first:{PASSWORD}");
                let text = base64::engine::general_purpose::STANDARD.encode(pair);
                Some(("Authorization", format!("Basic {text}")))
            }
            Credential::ProxyHeader => Some(("Remote-User", "first".to_owned())),
            Credential::OtherProjectReadOnly => api_key(&self.other.read_only_key),
            Credential::OtherProjectReadWrite => api_key(&self.other.read_write_key),
            Credential::ReadOnly => api_key(&main.read_only_key),
            Credential::ReadWrite => api_key(&main.read_write_key),
        }
    }

    /// Sends a request with a credential.
    async fn send(&self, credential: Credential, method: &str, path: &str) -> TestResponse {
        let header = self.header(credential);
        let headers: Vec<_> = header
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        self.server.send(method, path, &headers, b"").await
    }

    /// Returns the checks, channels and windows, which clients without access must not change.
    async fn state(&self) -> String {
        let mut state = String::new();
        for path in [
            "/api/v3/checks/",
            "/api/overdue/v1/channels",
            "/api/overdue/v1/windows",
        ] {
            let answer = self.send(Credential::ReadWrite, "GET", path).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            state.push_str(answer.text());
        }
        state
    }
}

/// Panics if a client without access sees an object of the main project.
fn assert_hides_objects(answer: &TestResponse, request: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert!(!body.contains(PRIVATE_NAME), "{request}: {answer:?}");
}
