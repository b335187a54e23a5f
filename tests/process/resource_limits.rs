//! Limits of the system for a process: file size and open files.

use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, temp_data_directory};

#[test]
fn a_file_size_limit_does_not_end_the_process() {
    let (_directory, data) = temp_data_directory();
    let mut server = ServerProcess::start(&data);
    let key = admin(
        &data,
        &["key", "create", "--project", "default", "--access", "ping"],
    );
    let limit = |bytes| {
        let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
        prlimit(
            pid,
            Resource::Fsize,
            Rlimit {
                current: bytes,
                maximum: None,
            },
        )
        .unwrap();
    };
    let mut client = HttpClient::connect(server.address).unwrap();
    let path = format!("/ping/{key}/a?create=1");
    assert_eq!(client.post(&path, b"").unwrap().status, 201);

    limit(Some(
        std::fs::metadata(data.join("overdue.redb")).unwrap().len() / 2,
    ));
    let mut refused =
        || (0..100).any(|_| client.post(&path, &[b'x'; 90_000]).unwrap().status == 503);
    assert!(refused());
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        503
    );
    limit(None);
    let taken = || {
        HttpClient::connect(server.address)
            .unwrap()
            .post(&path, b"")
            .unwrap()
            .status
            == 200
    };
    assert!((0..100).any(|_| {
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        taken()
    }));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log.join("\n"));
    assert!(server.log.len() < 60, "{}", server.log.join("\n"));
}

#[test]
fn the_open_file_limit_is_raised_or_reported() {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let log = |limit: &str| {
        let (_directory, data) = temp_data_directory();
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &script,
                env!("CARGO_BIN_EXE_overdue"),
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--data",
            ])
            .arg(&data)
            .env_clear();
        let server = ServerProcess::spawn(&mut command);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
        let soft = limits.lines().find_map(|line| {
            line.strip_prefix("Max open files")?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        });
        (server.log.join("\n"), soft.unwrap())
    };
    if most > 5_000 {
        let (warned, soft) = log("-Sn 1024");
        assert!(
            soft > 4_096 && !warned.contains("files may be open"),
            "{soft}: {warned}"
        );
    }
    let (warned, soft) = log("-n 512");
    assert!(
        soft == 512 && warned.contains("only 512 files may be open"),
        "{soft}: {warned}"
    );
}

#[test]
fn connections_beyond_the_open_file_limit_are_logged_once_and_served_later() {
    let (_directory, data) = temp_data_directory();
    let mut command = Command::new("sh");
    let script = "ulimit -n 64 && exec \"$0\" \"$@\"";
    command
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_overdue"),
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(&data)
        .env_clear();
    let mut server = ServerProcess::spawn(&mut command);
    let many: Vec<_> = (0..100)
        .map(|_| HttpClient::connect(server.address).unwrap())
        .collect();
    server.wait_for("cannot accept HTTP connections");
    std::thread::park_timeout(std::time::Duration::from_secs(1));
    drop(many);
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    server.signal("TERM");
    server.wait();
    let lines = server
        .log
        .iter()
        .filter(|line| line.contains("cannot accept HTTP connections"))
        .count();
    assert_eq!(lines, 1, "{}", server.log.join("\n"));
    // The commands still work without a server.
    assert_eq!(
        crate::server_process::run(overdue(&["project", "list"]).arg("--data").arg(&data)).status,
        0
    );
}
