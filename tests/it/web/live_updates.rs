//! Live updates of pages: the events behind them.

use std::time::Duration;

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::engine::command::Command;
use overdue::engine::command::user::UserChanges;
use overdue::http::dashboard::AuthMode;
use overdue::operations::user;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::browser::{self, Browser, PASSWORD};
use super::{browse, project_uuid};
use crate::support::server::TestServer;

/// Maximum time to wait for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open stream of events.
struct OpenEventStream {
    stream: TcpStream,
    text: String,
}

impl OpenEventStream {
    async fn open(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = server.connect().await;
        let mut head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: \
             text/event-stream\r\n"
        );
        headers
            .iter()
            .for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        stream
            .write_all(format!("{head}\r\n").as_bytes())
            .await
            .unwrap();
        Self {
            stream,
            text: String::new(),
        }
    }

    /// Opens a stream whose head has been read.
    async fn start(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut events = Self::open(server, path, headers).await;
        events.until("retry: 3000").await;
        events
    }

    async fn read(&mut self) -> usize {
        let mut bytes = [0; 4096];
        let read = timeout(PATIENCE, self.stream.read(&mut bytes))
            .await
            .unwrap_or_else(|_| panic!("nothing more: {}", self.text));
        // Any end of the connection ends the stream.
        let read = read.unwrap_or(0);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        read
    }

    /// Reads until the stream contains `wanted`.
    async fn until(&mut self, expected: &str) {
        // Keep-alive comments arrive repeatedly.
        let arrival = timeout(PATIENCE, async {
            while !self.text.contains(expected) {
                assert!(
                    self.read().await > 0,
                    "it ended before {expected}: {}",
                    self.text
                );
            }
        });
        assert!(
            arrival.await.is_ok(),
            "{expected} does not come: {}",
            self.text
        );
    }

    /// Returns the data of the first event that contains `wanted`.
    async fn event(&mut self, expected: &str) -> Value {
        self.until(expected).await;
        self.until("\n\n").await;
        let event = self
            .text
            .split("\n\n")
            .find(|event| event.contains(expected))
            .unwrap();
        serde_json::from_str(event.split("data: ").nth(1).unwrap()).unwrap()
    }

    /// Returns the ID of the last event.
    fn last_id(&self) -> String {
        self.text
            .rsplit("id: ")
            .next()
            .unwrap()
            .split('\n')
            .next()
            .unwrap()
            .to_owned()
    }

    async fn wait_for_end(&mut self) {
        let ended = timeout(PATIENCE, async { while self.read().await > 0 {} });
        assert!(ended.await.is_ok(), "it does not end: {}", self.text);
    }
}

/// Returns the URL of the main project's events, taken from a new list page.
async fn events_path(server: &TestServer) -> String {
    events_path_on(
        browse(
            server,
            "GET",
            &format!("/projects/{}/checks/", project_uuid(server)),
            &[],
        )
        .await
        .text(),
    )
}

fn events_path_on(page: &str) -> String {
    let attribute = |name: &str| {
        page.split(&format!("{name}=\""))
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    let events = attribute("data-events");
    let since = attribute("data-since");
    let mark = if events.contains('?') { '&' } else { '?' };
    format!("{events}{mark}since={since}")
}

/// Waits until subscribers have received the answered change: the engine notifies them after the
/// client and before the next command.
async fn wait_for_broadcast(server: &TestServer) {
    server
        .handle
        .call(Command::EvaluateChecks(Vec::new()))
        .await
        .unwrap()
        .unwrap();
}

/// Creates a check. Returns its number and UUID.
async fn check(server: &TestServer, name: &str) -> (u64, String) {
    let uuid = server.create_check(json!({ "name": name })).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    wait_for_broadcast(server).await;
    (
        server
            .handle
            .with_state(|state| state.check_by_uuid(uuid.parse().unwrap()).unwrap().id.0),
        uuid,
    )
}

async fn ping(server: &TestServer, uuid: &str) {
    assert_eq!(server.get(&format!("/ping/{uuid}")).await.status, 200);
    wait_for_broadcast(server).await;
}

#[tokio::test]
async fn changes_reach_open_pages_at_once() {
    let server = TestServer::start().await;
    let (id, uuid) = check(&server, "one").await;
    let mut events = OpenEventStream::start(&server, &events_path(&server).await, &[]).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("x-accel-buffering", "no"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert!(
            events.text.contains(&format!("{name}: {value}")),
            "{}",
            events.text
        );
    }
    // The first frame is made after all checks have been read. For changes until then it has only
    // the counts.
    assert_eq!(server.get(&format!("/ping/{uuid}/log")).await.status, 200);
    events.event("event: checks").await;
    events.text.clear();
    ping(&server, &uuid).await;
    let up = events.event("\"up\":1").await;
    assert!(
        up["rows"][0][1] == "up"
            && up["counts"]
                == json!({ "down": 0, "late": 0, "running": 0, "up": 1, "new": 0, "paused": 0 }),
        "{up}"
    );
    // Passing time alone changes the page, one second after the deadline, since deadlines are
    // checked in ticks.
    server.clock.advance_secs(86_401);
    assert_eq!(events.event("\"late\":1").await["rows"][0][0], id);
    server.clock.advance_secs(3600);
    // The check shows as down at once; the missed ping is written a moment later.
    events.until("\"down\":1").await;
    events.until("\"7\"]").await;
    let (other, _) = check(&server, "two").await;
    assert_eq!(events.event("\"new\":1").await["edited"], json!([other]));
    assert_eq!(
        server
            .api("DELETE", &format!("/checks/{uuid}"), "")
            .await
            .status,
        200
    );
    events.event(&format!("\"gone\":[{id}]")).await;
    server.stop().await;
}

#[tokio::test]
async fn missed_changes_are_sent_at_the_next_connection() {
    let server = TestServer::start().await;
    let [(one, first), (two, second)] = [check(&server, "one").await, check(&server, "two").await];
    // The change happens between the page and its first event.
    let path = events_path(&server).await;
    ping(&server, &first).await;
    let mut events = OpenEventStream::start(&server, &path, &[]).await;
    events.until(&format!("\"edited\":[{one}]")).await;
    events.until("\n\n").await;
    let last = events.last_id();
    drop(events);
    ping(&server, &second).await;
    let mut events = OpenEventStream::start(&server, &path, &[("Last-Event-ID", &last)]).await;
    events.until(&format!("[{two},\"up\"")).await;
    // Event IDs from before a restart are unknown to the new server.
    let mut events =
        OpenEventStream::start(&server, &path, &[("Last-Event-ID", "00000000.5")]).await;
    events.until("\"whole\":true").await;
    server.stop().await;
}

#[tokio::test]
async fn the_page_of_a_check_gets_the_changes_of_that_check_only() {
    let server = TestServer::start().await;
    let [(_, first), (_, second)] = [check(&server, "one").await, check(&server, "two").await];
    let page = browse(&server, "GET", &format!("/checks/{first}/details/"), &[]).await;
    let path = events_path_on(page.text());
    let mut events = OpenEventStream::start(&server, &path, &[]).await;
    ping(&server, &second).await;
    ping(&server, &first).await;
    events.until("data: {}").await;
    assert_eq!(
        events.text.matches("event: checks").count(),
        1,
        "{}",
        events.text
    );
    // The content that the page loads then.
    let part = browse(
        &server,
        "GET",
        &format!("/checks/{first}/details/"),
        &[("X-Fragment", "check")],
    )
    .await;
    assert!(
        !part.text().contains("<html")
            && part.text().contains("id=\"standing\"")
            && part.text().contains("id=\"ping-1\""),
        "{part:?}"
    );
    let of_none = path.replace(&first, "6f3a0000-0000-4000-8000-000000000000");
    assert_eq!(
        browse(&server, "GET", &of_none, &[("Accept", "text/event-stream")])
            .await
            .status,
        404
    );
    server.stop().await;
}

#[tokio::test]
async fn a_browser_without_a_stream_polls() {
    let server = TestServer::start().await;
    let (id, uuid) = check(&server, "one").await;
    let path = events_path(&server).await;
    let ask = async |since: &str| {
        browse(
            &server,
            "GET",
            &format!("{}={since}", path.split_once('=').unwrap().0),
            &[],
        )
        .await
        .json()
    };
    let first = ask("").await;
    assert_eq!(first["frames"], json!([]));
    ping(&server, &uuid).await;
    let mut since = first["id"].as_str().unwrap().to_owned();
    let mut found = Value::Null;
    // The answer hardly waits for a change that has just happened.
    while found.is_null() {
        let next = ask(&since).await;
        since = next["id"].as_str().unwrap().to_owned();
        found = next["frames"].get(0).cloned().unwrap_or_default();
    }
    assert_eq!(found["rows"][0][0], id, "{found}");
    assert_eq!(
        ask("12345678.9").await["frames"],
        json!([{ "whole": true }])
    );
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_session_and_with_the_membership() {
    let server = browser::server().await;
    let of_project =
        |membership| Grant::Projects(ProjectMemberships::new([(server.main.id, membership)]));
    for name in ["ann", "bob", "eve"] {
        browser::make(&server, name, of_project(Membership::ReadOnly)).await;
    }
    browser::make(
        &server,
        "mallory",
        Grant::Projects(ProjectMemberships::default()),
    )
    .await;
    let path = format!("/projects/{}/checks/events/", project_uuid(&server));
    let mut cookies = Vec::new();
    for name in ["ann", "bob", "eve", "mallory"] {
        let mut browser = Browser::new(&server);
        browser.sign_in(name, PASSWORD).await;
        cookies.push(browser.cookie.unwrap());
    }
    let mut streams = Vec::new();
    for cookie in &cookies[..3] {
        streams.push(OpenEventStream::start(&server, &path, &[("Cookie", cookie)]).await);
    }
    assert_eq!(
        browse(
            &server,
            "GET",
            &path,
            &[("Cookie", &cookies[3]), ("Accept", "text/event-stream")]
        )
        .await
        .status,
        404
    );
    let refused = browse(
        &server,
        "GET",
        &path,
        &[("Accept", "text/event-stream"), ("X-Fragment", "events")],
    )
    .await;
    assert_eq!(refused.status, 401);
    // A browser that reconnects receives an event.
    let refused = browse(&server, "GET", &path, &[("Accept", "text/event-stream")]).await;
    assert_eq!(
        (refused.status, refused.header("Content-Type")),
        (200, Some("text/event-stream"))
    );
    assert!(
        refused.text().contains("event: over\ndata: "),
        "{refused:?}"
    );

    let mut ann = Browser::new(&server);
    ann.cookie = Some(cookies[0].clone());
    assert_eq!(ann.send("POST", "/logout/", &[]).await.status, 303);
    streams.remove(0).wait_for_end().await;
    let bob = user::find(&server.handle, "bob").unwrap().id;
    let changes = UserChanges {
        grant: Some(Grant::Projects(ProjectMemberships::default())),
        ..UserChanges::default()
    };
    user::update(&server.handle, bob, changes, None)
        .await
        .unwrap();
    streams.remove(0).wait_for_end().await;
    // The third stream continues.
    let (_, uuid) = check(&server, "one").await;
    ping(&server, &uuid).await;
    streams[0].until("\"up\":1").await;
    server.stop().await;
}

#[tokio::test]
async fn the_number_of_streams_of_a_session_is_limited() {
    let server = browser::server().await;
    browser::owner(&server, "ann").await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ann", PASSWORD).await;
    let path = format!("/projects/{}/checks/events/", project_uuid(&server));
    let cookie = browser.cookie.unwrap();
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(OpenEventStream::start(&server, &path, &[("Cookie", &cookie)]).await);
    }
    // A further stream replaces the oldest.
    streams.push(OpenEventStream::start(&server, &path, &[("Cookie", &cookie)]).await);
    streams.remove(0).wait_for_end().await;
    let (_, uuid) = check(&server, "one").await;
    ping(&server, &uuid).await;
    for stream in [0, 19] {
        streams[stream].until("\"up\":1").await;
    }
    // A client that polls gets an answer.
    let asked = browse(
        &server,
        "GET",
        &path,
        &[("Cookie", &cookie), ("Accept", "application/json")],
    )
    .await;
    assert_eq!(asked.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_ends_streams_with_unsent_data_too() {
    let server = TestServer::start_with(|config| config.dashboard.auth = AuthMode::None).await;
    let mut events = OpenEventStream::start(&server, &events_path(&server).await, &[]).await;
    check(&server, "one").await;
    events.until("\"new\":1").await;
    server.stop().await;
    events.wait_for_end().await;
}

#[tokio::test]
async fn a_stream_outlives_the_header_timeout() {
    let server = TestServer::start().await;
    let (_, uuid) = check(&server, "one").await;
    let mut events = OpenEventStream::start(&server, &events_path(&server).await, &[]).await;
    tokio::time::pause();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(13)).await;
    }
    tokio::time::resume();
    // Keep-alives arrived meanwhile.
    events.until("\n:\n\n").await;
    ping(&server, &uuid).await;
    events.until("\"up\":1").await;
    server.stop().await;
}
