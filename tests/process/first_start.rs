//! A start in an empty directory: its files, its messages, and commands that can be pasted.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_lines_that_a_first_start_shows_can_be_pasted() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let line = |word: &str| {
        server
            .log
            .iter()
            .map(|line| line.trim())
            .find(|line| line.contains(word))
            .unwrap()
    };

    let curl = line("curl ");
    let url = curl
        .strip_prefix("curl '")
        .unwrap()
        .strip_suffix('\'')
        .unwrap();
    let path = url
        .strip_prefix(&format!("http://{}", server.address))
        .unwrap();
    assert!(
        path.starts_with("/ping/") && path.ends_with("?create=1"),
        "{path}"
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    for (status, body) in [(201, "Created"), (200, "OK")] {
        let answer = client.get(path, "").unwrap();
        assert_eq!(
            (
                answer.status,
                String::from_utf8(answer.body).unwrap().trim()
            ),
            (status, body)
        );
    }

    let output = Command::new("sh")
        .arg("-c")
        .arg(line(" key create "))
        .output()
        .unwrap();
    let key = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (key.len(), key.ends_with('\n'), output.stderr.as_slice()),
        (33, true, &b""[..])
    );
    let checks = client.get("/api/v3/checks/", key.trim()).unwrap();
    assert_eq!(
        (
            checks.status,
            String::from_utf8(checks.body)
                .unwrap()
                .contains("\"my-first-check\"")
        ),
        (200, true)
    );
}

#[test]
fn a_data_directory_is_private_and_its_first_project_is_created_once() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    assert_eq!(
        (
            mode(&data),
            mode(&data.join("admin.sock")),
            mode(&data.join("overdue.redb"))
        ),
        (0o700, 0o600, 0o600)
    );
    assert_eq!(admin(&data, &["key", "list"]).lines().count(), 2);
    server.stop();
    assert!(!data.join("admin.sock").exists());

    let server = ServerProcess::start_with(&data, &["--no-web"]);
    assert_eq!(server.log.len(), 2, "{:?}", server.log);
    assert_eq!(admin(&data, &["project", "list"]).lines().count(), 2);
    assert_eq!(admin(&data, &["key", "list"]).lines().count(), 2);
}

#[test]
fn the_mode_of_an_open_directory_is_reported_and_kept() {
    let (_directory, data) = temp_data_directory();
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = ServerProcess::start(&data);
    assert!(
        server
            .log
            .iter()
            .any(|line| line.contains("WARN") && line.contains("chmod 700")),
        "{:?}",
        server.log
    );
    assert_eq!(
        (mode(&data), mode(&data.join("admin.sock"))),
        (0o755, 0o600)
    );
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let second = run(overdue(&["serve", "--listen", "127.0.0.1:0"])
        .arg("--data")
        .arg(&data));
    assert_eq!(
        (second.status, second.err.lines().count()),
        (1, 1),
        "{}",
        second.err
    );
    let expected = format!(
        "{} is in use by another overdue process (pid {}): stop that one",
        data.join("overdue.redb").display(),
        server.id()
    );
    assert!(second.err.contains(&expected), "{}", second.err);
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    admin(&data, &["project", "list"]);
}

#[test]
fn each_start_shows_how_to_begin_until_there_is_a_user() {
    let (_directory, data) = temp_data_directory();
    let link = |server: &ServerProcess| {
        server
            .log
            .iter()
            .find_map(|line| Some(line.trim().split_once("/setup/")?.1.to_owned()))
    };
    let server = ServerProcess::start(&data);
    let first = link(&server).expect("a link");
    assert_eq!(first.len(), 20, "{first}");
    let mut client = HttpClient::connect(server.address).unwrap();
    let page = client.get(&format!("/setup/{first}"), "").unwrap();
    let text = String::from_utf8(page.body).unwrap();
    assert!(
        page.status == 200 && text.contains(first.trim_end_matches('/')),
        "{text}"
    );
    server.stop();

    let server = ServerProcess::start(&data);
    let second = link(&server).expect("a link");
    assert_ne!(first, second);
    server.stop();
    assert_eq!(
        run(overdue(&["user", "create", "ann", "--owner"])
            .arg("--data")
            .arg(&data))
        .status,
        0
    );
    assert_eq!(link(&ServerProcess::start(&data)), None);
}
