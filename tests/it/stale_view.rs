//! Answers of a machine of a cluster that does not lead, while no other machine leads either.

use std::sync::Arc;

use overdue::domain::timestamp::Timestamp;
use overdue::engine::{self, Handle};
use overdue::http::HttpServer;
use overdue::store::{Medium, Store};
use overdue::util::random::Random;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::server::{
    START, TestResponse, TestServer, blocking_threads, http_config, read_response,
};

/// Server without a writer, on the database of a server that has stopped.
struct StaleServer {
    handle: Handle,
    store: Arc<Store>,
    address: std::net::SocketAddr,
    key: String,
    check: serde_json::Value,
    project: uuid::Uuid,
    _stop: watch::Sender<bool>,
}

impl StaleServer {
    async fn start(medium: Medium, complete_at: Option<Timestamp>) -> Self {
        let server = TestServer::start_on(medium.clone(), |_| {}).await;
        let check = server
            .create_check(serde_json::json!({"name": "nightly", "timeout": 60, "grace": 60}))
            .await;
        let url = check["ping_url"].as_str().unwrap().to_owned();
        let path = url.strip_prefix(&server.base).unwrap();
        let pinged = server.send("POST", path, &[], b"done").await;
        assert_eq!(pinged.status, 200);
        let key = server.main.read_write_key.clone();
        let project = server
            .handle
            .with_state(|state| state.projects().next().unwrap().project.uuid);
        server.stop().await;

        let store = Arc::new(Store::open(&medium).unwrap());
        let times = (complete_at, START.plus_secs(90));
        let opened = engine::open_stale_view(Arc::clone(&store), times, 1000, Random::seeded(1));
        let handle = opened.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let config = http_config(&format!("http://{address}"));
        let http = HttpServer::new(handle.clone(), blocking_threads(), config);
        tokio::spawn(http.serve(listener, None, Arc::default(), stopped));
        Self {
            handle,
            store,
            address,
            key,
            check,
            project,
            _stop: stop,
        }
    }

    async fn send(&self, method: &str, path: &str) -> TestResponse {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let (key, address) = (&self.key, self.address);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nX-Api-Key: {key}\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // Every answer closes its connection, because the next one may reach a leader.
        read_response(stream).await
    }
}

#[tokio::test]
async fn reads_are_answered_with_the_time_of_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().into());
    let server = StaleServer::start(medium, Some(START.plus_secs(30))).await;
    let uuid = server.check["uuid"].as_str().unwrap();
    let log = format!("/checks/{uuid}/details/");
    for (path, part) in [
        ("/api/v3/checks/", "\"nightly\""),
        (&format!("/api/v3/checks/{uuid}"), "\"up\""),
        (&format!("/api/v3/checks/{uuid}/pings/"), "\"success\""),
        (&format!("/api/v3/checks/{uuid}/pings/1/body"), "done"),
        (&log, "No machine of the cluster leads. Shown as of"),
        (&log, "20 Nov 2026, 10:00:30"),
    ] {
        let answer = server.send("GET", path).await;
        assert_eq!(answer.status, 200, "{path} {answer:?}");
        assert!(answer.text().contains(part), "{path} {answer:?}");
        assert_eq!(
            answer.header("overdue-as-of"),
            Some("2026-11-20T10:00:30+00:00"),
            "{path}"
        );
    }
    // The page does not look live.
    let page = server.send("GET", &log).await;
    assert!(!page.text().contains("/events/"), "{page:?}");
}

#[tokio::test]
async fn everything_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().into());
    let server = StaleServer::start(medium, Some(START.plus_secs(30))).await;
    let uuid = server.check["uuid"].as_str().unwrap();
    let project = server.project;
    for (method, path) in [
        ("GET", format!("/ping/{uuid}")),
        ("HEAD", format!("/ping/{uuid}")),
        ("POST", format!("/ping/{uuid}")),
        ("POST", "/api/v3/checks/".to_owned()),
        ("DELETE", format!("/api/v3/checks/{uuid}")),
        ("GET", "/healthz".to_owned()),
        ("GET", format!("/projects/{project}/checks/events/")),
        // Nothing shows the readers of these how old they are.
        (
            "GET",
            server.check["badge_url"].as_str().unwrap().to_owned(),
        ),
        ("GET", "/metrics".to_owned()),
    ] {
        let answer = server.send(method, &path).await;
        assert_eq!(answer.status, 503, "{method} {path} {answer:?}");
        assert!(answer.header("retry-after").is_some(), "{method} {path}");
    }
    let checks = server.send("GET", "/api/v3/checks/").await.json();
    assert_eq!(checks["checks"][0]["n_pings"], 1);
}

#[tokio::test]
async fn the_database_can_be_closed_once_it_is_released() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().into());
    let server = StaleServer::start(medium, Some(START.plus_secs(30))).await;
    let uuid = server.check["uuid"].as_str().unwrap();
    let path = format!("/api/v3/checks/{uuid}/pings/");
    assert_eq!(server.send("GET", &path).await.status, 200);
    assert_eq!(Arc::strong_count(&server.store), 2);
    server.handle.release_store();
    assert_eq!(Arc::strong_count(&server.store), 1);
    assert_eq!(server.send("GET", &path).await.status, 503);
}

#[tokio::test]
async fn after_a_restart_the_data_are_as_old_as_the_last_change() {
    let directory = tempfile::tempdir().unwrap();
    let medium = Medium::Directory(directory.path().into());
    let server = StaleServer::start(medium, None).await;
    let answer = server.send("GET", "/api/v3/checks/").await;
    assert_eq!(
        answer.header("overdue-as-of"),
        Some("2026-11-20T10:00:00+00:00")
    );
}
