//! Administration with and without a server, and every bad state of the socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;

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
            r#""ping_log_limit":20,"trial":false}}"#,
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
    // With a project in the database, this is no first start.
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

    // A file that is no socket is not removed.
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
    // It accepts connections and sends nothing.
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
fn invalid_requests_are_refused_and_limited() {
    let (_directory, data) = temp_data_directory();
    let _server = ServerProcess::start(&data);
    let connect = || UnixStream::connect(data.join("admin.sock")).unwrap();
    let mut stream = connect();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    for (line, part) in [
        ("", "not a line of the admin protocol"),
        ("GET / HTTP/1.1", "not a line of the admin protocol"),
        (
            r#"{"version":2,"message":{"list_projects":{}}}"#,
            "uses version 2",
        ),
        (
            concat!(
                r#"{"version":3,"message":{"create_project":"#,
                r#"{"name":"","check_limit":"none","ping_log_limit":1}}}"#,
            ),
            "cannot be empty",
        ),
        (
            r#"{"version":3,"message":{"list_projects":{}}}"#,
            r#"{"version":3,"message":{"projects":[{"#,
        ),
    ] {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        replies.read_line(&mut reply).unwrap();
        assert!(reply.contains(part), "{line}: {reply}");
    }

    let mut endless = connect();
    endless.write_all(&vec![b' '; 256 << 10]).unwrap();
    let mut reply = String::new();
    endless.read_to_string(&mut reply).unwrap();
    assert!(
        reply.contains("a request has at most 262144 bytes"),
        "{reply}"
    );

    // Idle clients block others only until their timeout.
    let _idle: Vec<_> = (0..20).map(|_| connect()).collect();
    admin(&data, &["project", "list"]);
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
