//! The admin socket, as programs other than the command line use it.

use std::sync::Arc;
use std::time::Duration;

use overdue::admin::{AdminSocket, BASE_PATH, ServiceUrls};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::server::TestServer;

/// A server with an admin socket.
struct SocketFixture {
    server: TestServer,
    directory: tempfile::TempDir,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl SocketFixture {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let directory = tempfile::tempdir().unwrap();
        let socket = AdminSocket::bind(directory.path()).unwrap();
        let (stop, stopping) = watch::channel(false);
        let urls = ServiceUrls {
            base_url: "https://example.org".into(),
            listen: Box::default(),
            has_pages: true,
        };
        let serving = tokio::spawn(Arc::new(socket).serve(server.handle.clone(), urls, stopping));
        Self {
            server,
            directory,
            stop,
            serving,
        }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("admin.sock"))
            .await
            .unwrap()
    }

    /// Sends a request on a connection of its own, and returns the response.
    async fn send(&self, request: &str, body: &[u8]) -> RawResponse {
        let mut stream = self.connect().await;
        stream.write_all(&message(request, body)).await.unwrap();
        read_response(&mut stream).await
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.serving.await.unwrap();
        self.server.stop().await;
    }
}

/// Returns a request as curl sends it. `request`: method and path with the query.
fn message(request: &str, body: &[u8]) -> Vec<u8> {
    let (method, path) = request.split_once(' ').unwrap();
    let mut message = format!(
        "{method} {BASE_PATH}{path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.5.0\r\n\
         Accept: */*\r\n"
    );
    if !body.is_empty() {
        message += &format!(
            "Content-Length: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            body.len()
        );
    }
    let mut message = (message + "\r\n").into_bytes();
    message.extend(body);
    message
}

struct RawResponse {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl RawResponse {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// Reads a response with a known length, or without a body.
async fn read_response(stream: &mut UnixStream) -> RawResponse {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    RawResponse {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head,
        body,
    }
}

#[tokio::test]
async fn requests_of_curl_are_answered_with_json() {
    let socket = SocketFixture::start().await;
    let created = socket
        .send("POST /projects", br#"{"name": "two", "check_limit": 5}"#)
        .await;
    assert_eq!(created.status, 200);
    assert!(created.head.contains("overdue-admin-version: 4\r\n"));
    let listed = socket.send("GET /projects", b"").await;
    assert_eq!(listed.json()[1]["uuid"], created.json()["uuid"]);
    assert_eq!(listed.json()[1]["check_limit"], 5);
    let check = br#"{"edit": {"name": "a b"}}"#;
    let check = socket.send("POST /checks?project=two", check).await.json();
    let paused = socket
        .send("POST /checks/a%20b/pause?project=two", b"")
        .await;
    assert_eq!((paused.status, paused.body.len()), (204, 0));
    let shown = socket.send("GET /checks/a%20b", b"").await.json();
    assert_eq!(shown["status"], "paused");
    assert_eq!(
        shown["ping_url"],
        format!(
            "https://example.org/ping/{}",
            check["uuid"].as_str().unwrap()
        )
    );
    assert_eq!(socket.send("DELETE /checks/a%20b", b"").await.status, 204);
    socket.stop().await;
}

#[tokio::test]
async fn a_connection_takes_several_requests() {
    let socket = SocketFixture::start().await;
    let mut stream = socket.connect().await;
    for _ in 0..3 {
        let request = message("GET /projects", b"");
        stream.write_all(&request).await.unwrap();
        assert_eq!(read_response(&mut stream).await.status, 200);
    }
    // Two at once.
    let requests = [message("GET /projects", b""), message("GET /nothing", b"")].concat();
    stream.write_all(&requests).await.unwrap();
    assert_eq!(read_response(&mut stream).await.status, 200);
    assert_eq!(read_response(&mut stream).await.status, 404);
    socket.stop().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_reason() {
    let socket = SocketFixture::start().await;
    let long = vec![b' '; (256 << 10) + 1];
    for (request, body, status, part) in [
        ("GET /nothing", &b""[..], 404, "there is no such endpoint"),
        (
            "GET /projects/",
            b"",
            405,
            "use one of the methods PATCH, DELETE",
        ),
        (
            "PUT /projects",
            b"",
            405,
            "use one of the methods GET, POST",
        ),
        ("POST /projects", &long, 413, "at most 262144 bytes"),
        ("POST /projects", b"{", 400, "the body is not a JSON object"),
        ("POST /projects", br#"{"name": ""}"#, 400, "name: "),
        (
            "POST /projects",
            br#"{"nmae": "a"}"#,
            400,
            "unknown field `nmae`",
        ),
        ("GET /keys?show_ping_keys=maybe", b"", 400, "show_ping_keys"),
        ("GET /keys?project=none", b"", 404, "there is no project"),
        ("DELETE /keys/first", b"", 400, "id: "),
        ("PUT /config", b"{\"checks\": 1}", 409, "cannot be applied"),
    ] {
        let response = socket.send(request, body).await;
        assert_eq!(response.status, status, "{request}: {}", response.error());
        assert!(response.error().contains(part), "{}", response.error());
    }
    let other = socket.send("PUT /projects", b"").await;
    assert!(
        other.head.contains("allow: GET, POST\r\n"),
        "{}",
        other.head
    );

    let mut stream = socket.connect().await;
    let versioned =
        format!("GET {BASE_PATH}/projects HTTP/1.1\r\nHost: a\r\nOverdue-Admin-Version: 3\r\n\r\n");
    stream.write_all(versioned.as_bytes()).await.unwrap();
    let refused = read_response(&mut stream).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused
            .error()
            .contains("uses version 3 of the admin protocol")
    );

    // A client of an earlier release sends a line of JSON.
    let mut stream = socket.connect().await;
    let line = b"{\"version\":3,\"message\":{\"list_projects\":{}}}\n";
    stream.write_all(line).await.unwrap();
    assert_eq!(read_response(&mut stream).await.status, 400);
    socket.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_no_whole_request_is_disconnected() {
    let socket = SocketFixture::start().await;
    let mut silent = socket.connect().await;
    let mut stalled = socket.connect().await;
    let head =
        format!("POST {BASE_PATH}/projects HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{{");
    stalled.write_all(head.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let early = timeout(Duration::from_secs(4), silent.read_to_end(&mut rest)).await;
    assert!(early.is_err(), "it has five seconds");
    for stream in [&mut silent, &mut stalled] {
        let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok() && rest.is_empty(), "it has five seconds");
    }
    socket.stop().await;
}

#[tokio::test]
async fn a_stop_ends_a_stream_that_is_not_read() {
    let socket = SocketFixture::start().await;
    let desc = "d".repeat(16_000);
    for number in 0..100 {
        let body = format!(r#"{{"name": "{number}", "desc": "{desc}"}}"#);
        assert_eq!(
            socket.server.api("POST", "/checks/", &body).await.status,
            201
        );
    }
    let mut stream = socket.connect().await;
    let request = message("GET /checks", b"");
    stream.write_all(&request).await.unwrap();
    // The stream has begun, and fills the buffers.
    stream.read_u8().await.unwrap();
    let stopped = timeout(Duration::from_secs(4), socket.stop()).await;
    assert!(stopped.is_ok(), "the client delays the stop");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the stream is not complete");
}

#[tokio::test]
async fn a_backup_and_an_export_are_streams() {
    let socket = SocketFixture::start().await;
    for (path, media_type) in [
        ("/backup", "application/octet-stream"),
        ("/export", "application/jsonl"),
    ] {
        let mut stream = socket.connect().await;
        let request =
            format!("GET {BASE_PATH}{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        let head = String::from_utf8_lossy(&response);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains(media_type) && response.ends_with(b"\r\n0\r\n\r\n"));
    }
    socket.stop().await;
}
