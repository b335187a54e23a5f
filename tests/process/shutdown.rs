//! Signals: draining, its time limits, and secrets that the log must not contain.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, temp_data_directory};

/// A server with a project. Returns the ping key too.
fn server(words: &[&str]) -> (tempfile::TempDir, ServerProcess, String) {
    let (directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    let key = admin(
        &data,
        &["key", "create", "--project", "main", "--access", "ping"],
    );
    let server = ServerProcess::start_with(&data, words);
    (directory, server, key)
}

#[test]
fn sigterm_drains_despite_misbehaving_clients() {
    let (_directory, mut server, key) = server(&[]);
    let path = format!("/ping/{key}/a?create=1");
    let connect = || HttpClient::connect(server.address).unwrap();
    let mut idle = connect();
    let mut unfinished = connect();
    let mut finished = connect();
    let mut never_reading = connect();
    let _silent = connect();
    assert_eq!(idle.post(&path, b"").unwrap().status, 201);
    unfinished
        .send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Le").as_bytes())
        .unwrap();
    finished
        .send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab").as_bytes())
        .unwrap();
    // The answers are many times larger than the socket buffers.
    never_reading
        .send(
            "GET /api/v3/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
                .repeat(1000)
                .as_bytes(),
        )
        .unwrap();
    // Everything sent before this answer has been read.
    assert_eq!(connect().post(&path, b"").unwrap().status, 200);

    server.signal("TERM");
    server.wait_for("stopping");
    let begun = Instant::now();
    assert!(idle.is_closed());
    finished.send(b"cd").unwrap();
    assert_eq!(finished.receive().unwrap().status, 200);
    // The other clients never finish their requests or read no answers. They are closed at once,
    // without waiting.
    assert_eq!(server.wait().code(), Some(0), "{:?}", server.log);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        server.log.last().unwrap().contains("stopping"),
        "{:?}",
        server.log
    );
    assert!(unfinished.is_closed());
    assert!(HttpClient::connect(server.address).is_err());
}

#[test]
fn sigterm_waits_a_while_for_an_unfinished_body() {
    let (_directory, mut server, key) = server(&[]);
    let mut begun = HttpClient::connect(server.address).unwrap();
    begun
        .send(
            format!(
                "POST /ping/{key}/a?create=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab"
            )
            .as_bytes(),
        )
        .unwrap();
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{:?}", server.log);
    assert!(
        server
            .log
            .last()
            .unwrap()
            .contains("did not end in time are closed"),
        "{:?}",
        server.log
    );
}

#[test]
fn sigint_stops_an_idle_server_at_once() {
    let (_directory, mut server, _) = server(&[]);
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(0), "{:?}", server.log);
    // A connection that did not end in time would be logged after this line.
    assert!(
        server.log.last().unwrap().contains("stopping"),
        "{:?}",
        server.log
    );
}

/// A supervisor that receives notifications.
struct NotifySocket(UnixDatagram);

impl NotifySocket {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self(socket)
    }

    /// Returns the next notification.
    fn next_message(&self) -> String {
        let mut message = [0; 200];
        let length = self.0.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec())
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Expects the notifications of a reload: its beginning with a time, then its end.
    fn is_told_of_a_reload(&self, status: Option<&str>) {
        let begins = self.next_message();
        let (reloading, at) = begins.split_once('\n').unwrap();
        assert_eq!(
            (
                reloading,
                at.strip_prefix("MONOTONIC_USEC=")
                    .unwrap()
                    .parse::<u64>()
                    .is_ok()
            ),
            ("RELOADING=1", true)
        );
        if let Some(status) = status {
            assert_eq!(self.next_message(), format!("STATUS={status}"));
        }
        assert_eq!(self.next_message(), "READY=1");
    }
}

#[test]
fn a_supervisor_is_notified() {
    let (directory, data) = temp_data_directory();
    let path = directory.path().join("notify");
    let supervisor = NotifySocket::at(&path);
    let mut server = ServerProcess::spawn(
        overdue(&["serve", "--listen", "127.0.0.1:0"])
            .arg("--data")
            .arg(&data)
            .env("NOTIFY_SOCKET", &path),
    );
    assert_eq!(supervisor.next_message(), "READY=1");
    server.signal("HUP");
    supervisor.is_told_of_a_reload(None);
    server.wait_for("SIGHUP changes nothing");
    server.stop();
    assert_eq!(supervisor.next_message(), "STOPPING=1");
}

#[test]
fn the_supervisor_and_a_metric_show_if_files_were_applied() {
    let (directory, data) = temp_data_directory();
    let path = directory.path().join("notify");
    let file = directory.path().join("home.toml");
    let supervisor = NotifySocket::at(&path);
    std::fs::write(&file, "version = 2\n").unwrap();
    let mut command = overdue(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
        "--apply",
    ]);
    let mut server = ServerProcess::spawn(
        command
            .arg(&file)
            .arg("--data")
            .arg(&data)
            .env("NOTIFY_SOCKET", &path),
    );
    let line = server.find_or_wait_for("listening for metrics");
    let address = line.split("address=").nth(1).unwrap().parse().unwrap();
    let metric = |value| {
        let answer = HttpClient::connect(address)
            .unwrap()
            .get("/metrics", "")
            .unwrap();
        let text = String::from_utf8(answer.body).unwrap();
        assert!(
            text.contains(&format!("\noverdue_apply_ok {value}\n")),
            "{text}"
        );
    };
    let wrong = "the files of --apply were not applied; see the log for the reason";
    assert_eq!(
        [supervisor.next_message(), supervisor.next_message()],
        [&format!("STATUS={wrong}"), "READY=1"]
    );
    metric(0);
    std::fs::write(&file, "version = 1\n[project.Home]\n").unwrap();
    server.signal("HUP");
    supervisor.is_told_of_a_reload(Some("applied the files of --apply: 1 change"));
    metric(1);
    std::fs::write(&file, "version = 2\n").unwrap();
    server.signal("HUP");
    supervisor.is_told_of_a_reload(Some(wrong));
    metric(0);
    server.stop();
}

#[test]
fn the_watchdog_is_notified_while_the_server_is_healthy() {
    let (directory, data) = temp_data_directory();
    let path = directory.path().join("notify");
    let supervisor = NotifySocket::at(&path);
    let mut command = overdue(&["serve", "--listen", "127.0.0.1:0"]);
    let _server = ServerProcess::spawn(
        command
            .arg("--data")
            .arg(&data)
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "200000"),
    );
    let messages = [(); 4].map(|()| supervisor.next_message());
    assert_eq!(
        messages,
        ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
    );
}

#[test]
fn a_second_signal_ends_the_wait_for_connections() {
    let (_directory, mut server, key) = server(&[]);
    let mut unfinished = HttpClient::connect(server.address).unwrap();
    unfinished
        .send(
            format!("POST /ping/{key}/a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
                .as_bytes(),
        )
        .unwrap();
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    server.signal("TERM");
    server.wait_for("stopping");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(1));
    // If the server had waited for the connection, its closing would be logged between the two.
    let last: Vec<_> = server.log.iter().rev().take(2).rev().collect();
    assert!(
        last[0].contains("stopping") && last[1].contains("a second signal"),
        "{:?}",
        server.log
    );
}

#[test]
fn the_log_holds_no_secrets() {
    let (directory, mut server, ping_key) = server(&["--log", "trace"]);
    let data = directory.path().join("data");
    let api_key = admin(
        &data,
        &[
            "key",
            "create",
            "--project",
            "main",
            "--access",
            "read-write",
        ],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut sent = |path: &str| client.post(path, b"body-secret").unwrap().status;
    assert_eq!(sent(&format!("/ping/{ping_key}/a?create=1")), 201);
    assert_eq!(sent(&format!("/ping/{ping_key}/unknown")), 404);
    sent("/ping/6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f");
    let checks = String::from_utf8(client.get("/api/v3/checks/", &api_key).unwrap().body).unwrap();
    let uuid = checks
        .split("/ping/")
        .nth(1)
        .and_then(|rest| rest.get(..36))
        .unwrap();
    assert_eq!(
        client.post(&format!("/ping/{uuid}"), b"").unwrap().status,
        200
    );
    assert_eq!(
        client
            .get("/api/v3/checks/", "wrong-key-wrong-key-wrong-key-00")
            .unwrap()
            .status,
        401
    );
    client
        .send(format!("GET /ping/{ping_key}\r\n\r\n").as_bytes())
        .unwrap();
    assert!(client.receive().is_ok_and(|answer| answer.status == 400));
    server.signal("TERM");
    server.wait();
    let log = server.log.join("\n");
    for secret in [
        ping_key.as_str(),
        &api_key,
        uuid,
        "body-secret",
        "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f",
        "wrong-key",
    ] {
        assert!(!log.contains(secret), "{secret}:\n{log}");
    }
}

#[test]
fn sighup_is_logged_and_changes_nothing() {
    let (_directory, mut server, key) = server(&[]);
    server.signal("HUP");
    assert!(
        server
            .wait_for("SIGHUP")
            .contains("INFO SIGHUP changes nothing: flags are only read at startup")
    );
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .post(&format!("/ping/{key}/a?create=1"), b"")
            .unwrap()
            .status,
        201
    );
    server.stop();
}
