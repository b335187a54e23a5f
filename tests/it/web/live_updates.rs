//! Pages that change before one's eyes: the events behind them, over the wire.

use std::time::Duration;

use overdue::domain::user::{Grant, Membership, ProjectMemberships};
use overdue::engine::command::Command;
use overdue::engine::command::user::UserChanges;
use overdue::manage::user;
use overdue::web::AuthMode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::browser::{self, Browser, PASSWORD};
use super::{browse, project_uuid};
use crate::support::server::TestServer;

/// What takes longer never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of events that is open.
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

    /// One that has begun.
    async fn begun(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut events = Self::open(server, path, headers).await;
        events.until("retry: 3000").await;
        events
    }

    async fn read(&mut self) -> usize {
        let mut bytes = [0; 4096];
        let read = timeout(PATIENCE, self.stream.read(&mut bytes))
            .await
            .unwrap_or_else(|_| panic!("nothing more: {}", self.text));
        // Whatever ends the connection ends the stream.
        let read = read.unwrap_or(0);
        self.text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        read
    }

    /// Reads until this has come.
    async fn until(&mut self, wanted: &str) {
        // What keeps the connection open comes again and again.
        let came = timeout(PATIENCE, async {
            while !self.text.contains(wanted) {
                assert!(
                    self.read().await > 0,
                    "it ended before {wanted}: {}",
                    self.text
                );
            }
        });
        assert!(came.await.is_ok(), "{wanted} does not come: {}", self.text);
    }

    /// The data of the first event in which this stands.
    async fn event(&mut self, wanted: &str) -> Value {
        self.until(wanted).await;
        self.until("\n\n").await;
        let event = self
            .text
            .split("\n\n")
            .find(|event| event.contains(wanted))
            .unwrap();
        serde_json::from_str(event.split("data: ").nth(1).unwrap()).unwrap()
    }

    /// The name of the last event.
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

    async fn ended(&mut self) {
        let ended = timeout(PATIENCE, async { while self.read().await > 0 {} });
        assert!(ended.await.is_ok(), "it does not end: {}", self.text);
    }
}

/// Where the events of the main project come from, after the list was made.
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

/// Waits until those who look have been told of what was answered: they are told after whoever
/// asked, and before the next command.
async fn wait_for_broadcast(server: &TestServer) {
    server
        .handle
        .call(Command::ExpireChecks(Vec::new()))
        .await
        .unwrap()
        .unwrap();
}

/// Makes a check; its number and UUID.
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
async fn what_changes_reaches_whoever_looks_at_once() {
    let server = TestServer::start().await;
    let (id, uuid) = check(&server, "one").await;
    let mut events = OpenEventStream::begun(&server, &events_path(&server).await, &[]).await;
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
    // The first frame is made when all checks have been read. Of what changed until then it has the
    // numbers alone.
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
    // By time alone, a second later than the moment, since deadlines are looked at in ticks.
    server.clock.advance_secs(86_401);
    assert_eq!(events.event("\"late\":1").await["rows"][0][0], id);
    server.clock.advance_secs(3600);
    // It is down as soon as it is; that it missed a ping is written a moment later.
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
async fn what_was_missed_comes_with_the_next_connection() {
    let server = TestServer::start().await;
    let [(one, first), (two, second)] = [check(&server, "one").await, check(&server, "two").await];
    // Between the page and its first event.
    let path = events_path(&server).await;
    ping(&server, &first).await;
    let mut events = OpenEventStream::begun(&server, &path, &[]).await;
    events.until(&format!("\"edited\":[{one}]")).await;
    events.until("\n\n").await;
    let last = events.last_id();
    drop(events);
    ping(&server, &second).await;
    let mut events = OpenEventStream::begun(&server, &path, &[("Last-Event-ID", &last)]).await;
    events.until(&format!("[{two},\"up\"")).await;
    // What was sent before the server was started anew is not known to this one.
    let mut events =
        OpenEventStream::begun(&server, &path, &[("Last-Event-ID", "00000000.5")]).await;
    events.until("\"whole\":true").await;
    server.stop().await;
}

#[tokio::test]
async fn the_page_of_a_check_is_told_of_that_check_alone() {
    let server = TestServer::start().await;
    let [(_, first), (_, second)] = [check(&server, "one").await, check(&server, "two").await];
    let page = browse(&server, "GET", &format!("/checks/{first}/details/"), &[]).await;
    let path = events_path_on(page.text());
    let mut events = OpenEventStream::begun(&server, &path, &[]).await;
    ping(&server, &second).await;
    ping(&server, &first).await;
    events.until("data: {}").await;
    assert_eq!(
        events.text.matches("event: checks").count(),
        1,
        "{}",
        events.text
    );
    // What it shows then.
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
async fn who_takes_no_stream_asks_now_and_then() {
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
    // The answer does not wait for long for what has just happened.
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
        streams.push(OpenEventStream::begun(&server, &path, &[("Cookie", cookie)]).await);
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
    let nobody = browse(
        &server,
        "GET",
        &path,
        &[("Accept", "text/event-stream"), ("X-Fragment", "events")],
    )
    .await;
    assert_eq!(nobody.status, 401);
    // A browser that connects again is told by an event.
    let nobody = browse(&server, "GET", &path, &[("Accept", "text/event-stream")]).await;
    assert_eq!(
        (nobody.status, nobody.header("Content-Type")),
        (200, Some("text/event-stream"))
    );
    assert!(nobody.text().contains("event: over\ndata: "), "{nobody:?}");

    let mut ann = Browser::new(&server);
    ann.cookie = Some(cookies[0].clone());
    assert_eq!(ann.send("POST", "/logout/", &[]).await.status, 303);
    streams.remove(0).ended().await;
    let bob = user::find(&server.handle, "bob").unwrap().id;
    let changes = UserChanges {
        grant: Some(Grant::Projects(ProjectMemberships::default())),
        ..UserChanges::default()
    };
    user::update(&server.handle, bob, changes, None)
        .await
        .unwrap();
    streams.remove(0).ended().await;
    // The third goes on.
    let (_, uuid) = check(&server, "one").await;
    ping(&server, &uuid).await;
    streams[0].until("\"up\":1").await;
    server.stop().await;
}

#[tokio::test]
async fn a_session_has_so_many_streams() {
    let server = browser::server().await;
    browser::owner(&server, "ann").await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ann", PASSWORD).await;
    let path = format!("/projects/{}/checks/events/", project_uuid(&server));
    let cookie = browser.cookie.unwrap();
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(OpenEventStream::begun(&server, &path, &[("Cookie", &cookie)]).await);
    }
    // One more takes the place of the oldest.
    streams.push(OpenEventStream::begun(&server, &path, &[("Cookie", &cookie)]).await);
    streams.remove(0).ended().await;
    let (_, uuid) = check(&server, "one").await;
    ping(&server, &uuid).await;
    for stream in [0, 19] {
        streams[stream].until("\"up\":1").await;
    }
    // Whoever asks now and then is answered.
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
async fn a_stop_ends_streams_however_much_they_have_to_say() {
    let server = TestServer::start_with(|config| config.web.auth = AuthMode::None).await;
    let mut events = OpenEventStream::begun(&server, &events_path(&server).await, &[]).await;
    check(&server, "one").await;
    events.until("\"new\":1").await;
    server.stop().await;
    events.ended().await;
}

#[tokio::test]
async fn a_stream_outlives_the_time_for_a_header() {
    let server = TestServer::start().await;
    let (_, uuid) = check(&server, "one").await;
    let mut events = OpenEventStream::begun(&server, &events_path(&server).await, &[]).await;
    tokio::time::pause();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(13)).await;
    }
    tokio::time::resume();
    // Meanwhile it gave signs of life.
    events.until("\n:\n\n").await;
    ping(&server, &uuid).await;
    events.until("\"up\":1").await;
    server.stop().await;
}
