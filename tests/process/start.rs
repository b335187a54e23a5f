//! Files that a start creates or leaves alone, and errors at startup.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

/// Returns the one-line error of a command that fails.
fn refused(words: &[&str], data: &Path) -> String {
    let done = run(overdue(words).arg("--data").arg(data));
    assert_eq!(
        (done.status, done.err.lines().count()),
        (1, 1),
        "{words:?}: {}",
        done.err
    );
    done.err
}

#[test]
fn a_start_on_a_port_in_use_creates_no_database() {
    let (_directory, data) = temp_data_directory();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = refused(&["serve", "--listen", &address], &data);
    let port = taken.local_addr().unwrap().port();
    assert!(
        error.contains(&format!(
            "cannot listen on {address}: another process uses port {port}"
        )),
        "{error}"
    );
    assert!(
        error.contains("or choose another address with --listen"),
        "{error}"
    );
    assert!(!data.exists());
}

#[test]
fn health_names_the_flag_for_another_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let done = run(&mut overdue(&["health", "--listen", &free]));
    assert_eq!(
        (done.status, done.err.lines().count()),
        (1, 1),
        "{}",
        done.err
    );
    assert!(
        done.err.contains(&format!("at {free}: "))
            && done.err.contains("with --listen or OVERDUE_LISTEN"),
        "{}",
        done.err
    );
}

#[test]
fn a_database_without_projects_is_not_new() {
    let (_directory, data) = temp_data_directory();
    ServerProcess::start(&data).stop();
    admin(&data, &["project", "delete", "default", "--yes"]);
    let server = ServerProcess::start(&data);
    assert!(server.log.iter().any(|line| {
        line.contains("the database has no project: create one with `overdue project create NAME`")
    }));
    assert!(
        !server.log.iter().any(|line| line.contains("is new")),
        "{:?}",
        server.log
    );
    assert_eq!(admin(&data, &["project", "list"]).lines().count(), 1);
}

#[test]
fn a_project_is_deleted_only_with_confirmation() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    let done = run(overdue(&["project", "delete", "a"])
        .arg("--data")
        .arg(&data));
    assert_eq!(
        (done.status, done.err.contains("add --yes")),
        (2, true),
        "{}",
        done.err
    );
    for (answer, status, project_count) in [("\n", 1, 2), ("no\n", 1, 2), ("Y\n", 0, 1)] {
        let (terminal, shown) = terminal();
        rustix::io::write(&terminal, answer.as_bytes()).unwrap();
        let done = run(overdue(&["project", "delete", "a"])
            .arg("--data")
            .arg(&data)
            .stdin(shown));
        assert_eq!(done.status, status, "{answer:?}: {}", done.err);
        assert!(
            done.err.starts_with(
                r#"Delete the project "a" with its 0 checks and all keys and channels? [y/N] "#
            ),
            "{}",
            done.err
        );
        assert_eq!(
            admin(&data, &["project", "list"]).lines().count(),
            project_count,
            "{answer:?}"
        );
    }
}

/// A terminal: the end of the user, and the end for a program's standard input.
fn terminal() -> (rustix::fd::OwnedFd, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap();
    (
        keyboard,
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap(),
    )
}

#[test]
fn a_file_as_data_directory_is_reported() {
    let (directory, data) = temp_data_directory();
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for words in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["project", "create", "a"],
        &["project", "list"],
    ] {
        assert!(
            refused(words, &file).contains("it is not a directory; --data must name"),
            "{words:?}"
        );
        assert!(
            refused(words, &file.join("below")).contains("it is not a directory"),
            "{words:?}"
        );
    }
    assert_eq!(
        (std::fs::read(&file).unwrap(), data.exists()),
        (b"mine".to_vec(), false)
    );
}

/// A user that owns nothing here.
const STRANGER: u32 = 65_534;

#[test]
fn files_that_root_creates_in_a_users_directory_belong_to_that_user() {
    let (_directory, data) = temp_data_directory();
    std::fs::create_dir(&data).unwrap();
    if std::os::unix::fs::chown(&data, Some(STRANGER), Some(STRANGER)).is_err() {
        // Only root can create another user's directory, and this rule is about root.
        return;
    }
    admin(&data, &["project", "create", "a"]);
    let metadata = std::fs::metadata(data.join("overdue.redb")).unwrap();
    assert_eq!(
        (
            metadata.uid(),
            metadata.gid(),
            metadata.permissions().mode() & 0o777
        ),
        (STRANGER, STRANGER, 0o600)
    );
}

#[test]
fn a_refusal_names_path_and_owner() {
    use std::os::unix::process::CommandExt as _;
    let (directory, data) = temp_data_directory();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = ServerProcess::start(&data);
    let own_uid = rustix::process::geteuid();
    if !own_uid.is_root() {
        // Without another user: a directory that its owner cannot access.
        server.stop();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o000)).unwrap();
        assert!(
            refused(&["project", "list"], &data)
                .contains(&format!("{} has mode 0000: run chmod 700", data.display()))
        );
        return;
    }
    let binary = directory.path().join("overdue");
    std::fs::copy(env!("CARGO_BIN_EXE_overdue"), &binary).unwrap();
    let as_stranger = |words: &[&str]| {
        let mut command = std::process::Command::new(&binary);
        let done = run(command
            .args(words)
            .arg("--data")
            .arg(&data)
            .env_clear()
            .uid(STRANGER));
        assert_eq!(
            (done.status, done.err.lines().count()),
            (1, 1),
            "{words:?}: {}",
            done.err
        );
        done.err
    };
    let blames = |told: String, path: &Path| {
        assert!(
            told.contains(&format!(
                "{} belongs to root, and this runs as ",
                path.display()
            )),
            "{told}"
        );
        // A change of owner would stop a running service.
        assert!(
            told.contains("run it with sudo") && !told.contains("chown"),
            "{told}"
        );
    };
    blames(as_stranger(&["project", "list"]), &data);
    blames(as_stranger(&["serve", "--listen", "127.0.0.1:0"]), &data);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    blames(as_stranger(&["project", "list"]), &data.join("admin.sock"));
    server.stop();
    blames(
        as_stranger(&["project", "list"]),
        &data.join("overdue.redb"),
    );
    blames(as_stranger(&["compact"]), &data.join("overdue.redb"));
}

#[test]
fn a_wildcard_address_requires_the_base_url() {
    let (_directory, data) = temp_data_directory();
    let warns = |words: &[&str]| {
        let server = ServerProcess::spawn(
            overdue(&["serve", "--listen", "0.0.0.0:0"])
                .args(words)
                .arg("--data")
                .arg(&data),
        );
        server.log.iter().any(|line| {
            line.contains("WARN URLs in responses begin with http://localhost:")
                && line.contains("--base-url")
        })
    };
    assert!(warns(&[]));
    assert!(!warns(&["--base-url", "http://example.org"]));
}
