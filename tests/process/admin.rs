//! Administration with and without a server, and every bad state of the socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

fn provision(data: &Path) {
    let project = admin(
        data,
        &[
            "project",
            "create",
            "main",
            "--check-limit",
            "3",
            "--ping-log-limit",
            "20",
        ],
    );
    assert_eq!(project.len(), 36);
    admin(data, &["project", "create", "gone"]);
    admin(data, &["project", "rename", "gone", "going"]);
    admin(data, &["project", "set", "going", "--check-limit", "none"]);
    admin(data, &["project", "delete", "going", "--yes"]);
    for (access, length) in [("read-write", 32), ("read-only", 32), ("ping", 22)] {
        assert_eq!(
            admin(
                data,
                &["key", "create", "--project", "main", "--access", access]
            )
            .len(),
            length
        );
    }
    let create = [
        "channel",
        "create",
        "--project",
        &project,
        "--kind",
        "ntfy",
        "--set",
        "topic=ops",
        "--name",
    ];
    let channel = admin(data, &[&create[..], &["Žofie ☎"]].concat());
    assert_eq!(
        (
            channel.len(),
            admin(data, &[&create[..], &[""]].concat()).len()
        ),
        (36, 36)
    );
    admin(data, &["channel", "set", "Žofie ☎", "--set", "topic=other"]);
    admin(data, &["channel", "rename", &channel, "Žofie"]);
    admin(data, &["channel", "delete", ""]);
    let channels = admin(
        data,
        &["channel", "list", "--project", "main", "--show-settings"],
    );
    assert_eq!(channels.lines().count(), 2, "{channels}");
    for part in [&channel, "main     ntfy  Žofie  ", r#"topic="other""#] {
        assert!(channels.contains(part), "{part}: {channels}");
    }
    let projects = admin(data, &["project", "list", "--json"]);
    assert!(projects.contains(&format!(
        concat!(
            r#"{{"uuid":"{}","name":"main","checks":0,"check_limit":3,"#,
            r#""ping_log_limit":20,"ping_settings":false,"trial":false}}"#,
        ),
        project
    )));
    assert_eq!(
        admin(data, &["key", "list", "--project", "main"])
            .lines()
            .count(),
        4
    );
}

#[test]
fn administration_needs_no_server() {
    let (_directory, data) = temp_data_directory();
    provision(&data);
    // With a project in the database, this is not a first start.
    let server = ServerProcess::start_with(&data, &["--no-web"]);
    assert_eq!(server.log.len(), 2, "{:?}", server.log);
    assert_eq!(admin(&data, &["key", "list"]).lines().count(), 4);
}

#[test]
fn administration_uses_a_running_server() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    provision(&data);
    server.stop();
    assert_eq!(admin(&data, &["project", "list"]).lines().count(), 3);
}

#[test]
fn only_creating_a_project_creates_a_database() {
    let (_directory, data) = temp_data_directory();
    for words in [
        &["project", "list"][..],
        &["key", "create", "--project", "a", "--access", "ping"],
        &["compact"],
    ] {
        let done = run(overdue(words).arg("--data").arg(&data));
        assert_eq!(
            (done.status, done.err.contains("there is no database")),
            (1, true),
            "{words:?}: {}",
            done.err
        );
    }
    assert!(!data.exists());
}

#[test]
fn commands_wait_for_each_other() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "main"]);
    let create = || {
        overdue(&["key", "create", "--project", "main", "--access", "ping"])
            .arg("--data")
            .arg(&data)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let all: Vec<_> = (0..8).map(|_| create()).collect();
    assert!(
        all.into_iter()
            .all(|mut child| child.wait().unwrap().success())
    );
    assert_eq!(admin(&data, &["key", "list"]).lines().count(), 9);
}

#[test]
fn a_socket_left_behind_does_no_harm() {
    let (_directory, data) = temp_data_directory();
    let mut server = ServerProcess::start(&data);
    server.kill();
    assert!(data.join("admin.sock").exists());
    admin(&data, &["project", "create", "offline"]);
    let server = ServerProcess::start(&data);
    admin(&data, &["project", "create", "online"]);
    server.stop();

    // A file other than a socket is not removed.
    std::fs::write(data.join("admin.sock"), "mine").unwrap();
    let refused = run(overdue(&["serve", "--listen", "127.0.0.1:0"])
        .arg("--data")
        .arg(&data));
    assert_eq!(
        (refused.status, refused.err.contains("is not a socket")),
        (1, true),
        "{}",
        refused.err
    );
    assert_eq!(std::fs::read(data.join("admin.sock")).unwrap(), b"mine");
    admin(&data, &["project", "list"]);
}

#[test]
fn a_server_that_does_not_answer_is_reported() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    // This server accepts connections and sends nothing.
    let _silent = UnixListener::bind(data.join("admin.sock")).unwrap();
    let done = run(overdue(&["project", "list"]).arg("--data").arg(&data));
    assert_eq!(
        (done.status, done.err.lines().count()),
        (1, 1),
        "{}",
        done.err
    );
    assert!(
        done.err.contains("a server is running on") && done.err.contains("but does not respond"),
        "{}",
        done.err
    );
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_reported() {
    let (directory, _) = temp_data_directory();
    let data = directory.path().join("x".repeat(100));
    let done = run(overdue(&["serve", "--listen", "127.0.0.1:0"])
        .arg("--data")
        .arg(&data));
    assert_eq!(
        (
            done.status,
            done.err
                .contains("is too long for a socket: choose a shorter data directory")
        ),
        (1, true),
        "{}",
        done.err
    );
    // No server can run there, so the command works without one.
    admin(&data, &["project", "create", "a"]);
}

#[test]
fn idle_clients_block_others_only_until_their_timeout() {
    let (_directory, data) = temp_data_directory();
    let _server = ServerProcess::start(&data);
    let _idle: Vec<_> = (0..20)
        .map(|_| UnixStream::connect(data.join("admin.sock")).unwrap())
        .collect();
    admin(&data, &["project", "list"]);
}

#[test]
fn another_release_is_reported() {
    for (reply, part) in [
        (
            "HTTP/1.1 200 OK\r\noverdue-admin-version: 5\r\ncontent-length: 2\r\n\r\n[]",
            "the other program uses version 5 of the admin protocol",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
            "the other program uses version 1 to 3 of the admin protocol",
        ),
        (
            "{\"version\":3,\"message\":{\"invalid\":\"not a line\"}}\n",
            "the server does not speak HTTP on its admin socket",
        ),
        ("", "the server stopped before it responded"),
    ] {
        let (_directory, data) = temp_data_directory();
        admin(&data, &["project", "create", "a"]);
        let listener = UnixListener::bind(data.join("admin.sock")).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The whole header, so that the client sees an orderly end.
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            stream.write_all(reply.as_bytes()).unwrap();
        });
        let done = run(overdue(&["project", "list"]).arg("--data").arg(&data));
        server.join().unwrap();
        assert_eq!((done.status, done.out.as_str()), (1, ""), "{}", done.err);
        assert!(done.err.contains(part), "{}", done.err);
    }
}

#[test]
fn compaction_needs_exclusive_access_to_the_database() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let refused = run(overdue(&["compact"]).arg("--data").arg(&data));
    assert_eq!(
        (
            refused.status,
            refused.err.contains("in use by another overdue process")
        ),
        (1, true),
        "{}",
        refused.err
    );
    server.stop();
    let done = run(overdue(&["compact"]).arg("--data").arg(&data));
    assert_eq!(
        (
            done.status,
            done.out.as_str(),
            done.err.contains("less than before")
        ),
        (0, "", true),
        "{}",
        done.err
    );
    assert_eq!(admin(&data, &["project", "list"]).lines().count(), 2);
}

#[test]
fn the_status_shows_what_needs_attention_and_sets_the_exit_status() {
    let (_directory, data) = temp_data_directory();
    let data = data.as_path();
    admin(data, &["project", "create", "main"]);
    let show = |words: &[&str]| {
        run(overdue(&[&["status"], words].concat())
            .arg("--data")
            .arg(data))
    };
    let stopped = show(&[]);
    assert_eq!(stopped.status, 3, "{}", stopped.err);
    assert!(stopped.out.contains("NOT RUNNING"), "{}", stopped.out);

    let server = ServerProcess::start(data);
    let quiet = show(&[]);
    assert_eq!(quiet.status, 0, "{}{}", quiet.out, quiet.err);
    assert!(
        quiet.out.contains("listening on 127.0.0.1:") && quiet.out.contains("none in 1 project"),
        "{}",
        quiet.out
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    for name in ["dump", "sync"] {
        let uuid = admin(data, &["check", "create", "--name", name]);
        let answer = client.post(&format!("/ping/{uuid}/3"), b"").unwrap();
        assert_eq!(answer.status, 200);
    }
    admin(data, &["check", "create", "--name", "new \u{1b}one"]);
    let failed = show(&[]);
    assert_eq!(failed.status, 3);
    for part in [
        "2 down, 1 new in 1 project",
        "3 checks without a working channel",
        "down    dump   main     exit status 3, just now",
    ] {
        assert!(failed.out.contains(part), "{part}: {}", failed.out);
    }
    let json: serde_json::Value = serde_json::from_str(&show(&["--json"]).out).unwrap();
    assert_eq!(
        [
            &json["counts"]["down"],
            &json["counts"]["new"],
            &json["projects"]
        ],
        [2, 1, 1]
    );
    let names: Vec<_> = json["checks"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0]["name"], "sync", "the newest downtime is first");
    let other = show(&["--project", "none"]);
    assert_eq!((other.status, other.out.as_str()), (1, ""), "{}", other.err);
    server.stop();
}
