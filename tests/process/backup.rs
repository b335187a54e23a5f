//! Backups by the built binary: with and without a server, after a kill, on a full disk, and
//! restored elsewhere.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::client::HttpClient;
use crate::server_process::{
    ProcessOutput, ServerProcess, admin, overdue, run, temp_data_directory,
};

fn command(data: &Path, words: &[&str]) -> ProcessOutput {
    run(overdue(words).arg("--data").arg(data))
}

/// Runs a command and expects its status and a part of its output.
fn expect(data: &Path, words: &[&str], status: i32, part: &str) {
    let done = command(data, words);
    assert_eq!(
        (done.status, done.err.contains(part)),
        (status, true),
        "{words:?}: {}",
        done.err
    );
}

/// Sends pings with bodies to a server. Returns the readable state.
fn fill(server: &ServerProcess, data: &Path, pings: usize) -> String {
    let key = admin(
        data,
        &["key", "create", "--project", "default", "--access", "ping"],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    for number in 0..pings {
        client
            .post(
                &format!("/ping/{key}/job-{}?create=1", number % 5),
                format!("{number} {}", "x".repeat(4000)).as_bytes(),
            )
            .unwrap();
    }
    read_pings(data)
}

fn read_pings(data: &Path) -> String {
    let lists = [
        &["check", "list", "--json"][..],
        &["check", "pings", "job-1", "--json"],
        &["key", "list", "--json"],
    ];
    lists.map(|words| admin(data, words)).join("\n")
}

#[test]
fn a_backup_of_a_running_server_is_restored_elsewhere() {
    let (directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let state = fill(&server, &data, 50);
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let plain = file("a.backup");
    let compressed = file("b.zst");
    expect(&data, &["backup", &plain], 0, "a backup of ");
    expect(&data, &["backup", &compressed], 0, "a backup of ");
    let len = |path: &str| std::fs::metadata(path).unwrap().len();
    assert!(
        len(&plain) > 200_000 && len(&compressed) < len(&plain) / 10,
        "{} {}",
        len(&plain),
        len(&compressed)
    );
    assert_eq!(
        std::fs::metadata(&plain).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let piped = overdue(&["backup", "-"])
        .arg("--data")
        .arg(&data)
        .output()
        .unwrap();
    assert!(piped.status.success() && piped.stdout.starts_with(b"overdue backup 1\n"));
    for path in [&plain, &compressed] {
        expect(
            &data,
            &["verify", path],
            0,
            "50 bodies of pings match their checksums\noverdue: everything can be read, \
             and nothing is damaged",
        );
    }
    expect(
        &data,
        &["verify"],
        0,
        "50 bodies of pings match their checksums",
    );
    // A restore is refused while a server runs, and over an existing database.
    expect(
        &data,
        &["restore", &plain, "--force"],
        1,
        "is in use by another overdue process",
    );
    server.stop();
    expect(&data, &["restore", &plain], 1, "--force replaces it");
    expect(
        &data,
        &["verify"],
        0,
        "50 bodies of pings match their checksums",
    );
    let elsewhere = directory.path().join("elsewhere");
    for (name, path) in [("one", &plain), ("two", &compressed)] {
        let other = elsewhere.join(name);
        expect(
            &other,
            &["restore", path],
            0,
            "was restored from the backup of 2",
        );
        assert_eq!(read_pings(&other), state);
    }
    // Without a server, and from standard input.
    let other = elsewhere.join("three");
    let mut backup = overdue(&["backup", "-"])
        .arg("--data")
        .arg(elsewhere.join("two"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let done = run(overdue(&["restore", "-"])
        .arg("--data")
        .arg(&other)
        .stdin(backup.stdout.take().unwrap()));
    assert_eq!(
        (done.status, backup.wait().unwrap().success()),
        (0, true),
        "{}",
        done.err
    );
    assert_eq!(read_pings(&other), state);
    expect(
        &other,
        &["restore", &compressed, "--force"],
        0,
        "was restored from the backup of 2",
    );
    let server = ServerProcess::start(&other);
    assert_eq!(read_pings(&other), state);
    server.stop();
    let json = admin(&other, &["verify", "--json"]);
    assert!(
        json.contains(r#""sound":true"#) && json.contains(r#""wrong":0"#),
        "{json}"
    );
    // Damage is reported, and no database is created.
    let mut bytes = std::fs::read(&plain).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&plain, &bytes).unwrap();
    let fourth = elsewhere.join("four");
    for words in [&["verify", &plain][..], &["restore", &plain]] {
        expect(
            &fourth,
            words,
            1,
            "it is damaged: the checksum of a frame is wrong",
        );
    }
    assert!(std::fs::read_dir(&fourth).unwrap().next().is_none());
    expect(
        &fourth,
        &["verify", "/etc/passwd"],
        1,
        "/etc/passwd: it is not a backup of overdue",
    );
    expect(&fourth, &["backup", "/nowhere/x"], 1, "/nowhere/x: ");
    expect(
        &fourth,
        &["backup", &file("y")],
        1,
        "there is no database in",
    );
    assert!(!Path::new(&file("y.partial")).exists());
}

#[test]
fn a_kill_or_a_full_disk_leaves_no_file_that_looks_complete() {
    let (directory, data) = temp_data_directory();
    let mut server = ServerProcess::start(&data);
    fill(&server, &data, 400);
    let file = directory.path().join("x.backup");
    let path = file.to_str().unwrap();
    // The command is killed: the server continues, and the next backup starts again.
    for _ in 0..5 {
        let mut backup = overdue(&["backup", path])
            .arg("--data")
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !directory.path().join("x.backup.partial").exists()
            && backup.try_wait().unwrap().is_none()
        {}
        let _ = backup.kill();
        if !backup.wait().unwrap().success() {
            assert!(!file.exists());
        }
        let _ = std::fs::remove_file(&file);
    }
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let done = run(overdue(&["backup", "-"])
        .arg("--data")
        .arg(&data)
        .stdout(full));
    assert_eq!(done.status, 1, "{}", done.err);
    // The server is killed: the database is unchanged, and there is no backup.
    for round in 0..5 {
        let mut backup = overdue(&["backup", path])
            .arg("--data")
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(3 * round));
        server.kill();
        let done = backup.wait().unwrap();
        assert_eq!(
            (
                done.success(),
                directory.path().join("x.backup.partial").exists()
            ),
            (file.exists(), false)
        );
        let _ = std::fs::remove_file(&file);
        server = ServerProcess::start(&data);
    }
    expect(&data, &["backup", path], 0, "a backup of ");
    expect(
        &data,
        &["verify", path],
        0,
        "400 bodies of pings match their checksums",
    );
    server.stop();
}

#[test]
fn a_server_makes_backups_by_itself() {
    let (directory, data) = temp_data_directory();
    let path = directory.path().join("backups");
    std::fs::create_dir(&path).unwrap();
    let mut server = ServerProcess::start_with(
        &data,
        &[
            "--backup-to",
            path.to_str().unwrap(),
            "--backup-every",
            "12h",
            "--backup-keep",
            "2",
            "--auth",
            "none",
        ],
    );
    let line = server.find_or_wait_for("wrote backup ");
    assert!(line.contains(".backup.zst"), "{line}");
    // The page lists it and makes another one.
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut request = |method: &str| {
        let head = format!(
            "{method} /system/backups/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\
             Sec-Fetch-Site: same-origin\r\n\r\n"
        );
        client.send(head.as_bytes()).unwrap();
        client.receive().unwrap()
    };
    let page = request("GET");
    let name = path
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let html = String::from_utf8_lossy(&page.body).into_owned();
    assert_eq!(page.status, 200, "{html}");
    for part in [
        name.to_str().unwrap(),
        path.to_str().unwrap(),
        "every 12 hours, the newest 2",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(request("POST").status, 303);
    server.wait_for("wrote backup ");
    server.stop();
    let made: Vec<_> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    // Two that began in the same second have one name.
    assert!((1..=2).contains(&made.len()), "{made:?}");
    expect(&data, &["verify", made[0].to_str().unwrap()], 0, "made 2");
    let missing = directory.path().join("gone");
    let mut server = ServerProcess::start_with(&data, &["--backup-to", missing.to_str().unwrap()]);
    server.find_or_wait_for("NO BACKUP: writing to");
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    server.stop();
    expect(&data, &["serve", "--backup-keep", "3"], 2, "--backup-to");
}

#[test]
fn a_command_runs_after_each_backup_and_its_failure_is_reported() {
    let (directory, data) = temp_data_directory();
    let [backups, copies] = ["backups", "copies"].map(|name| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    });
    let to = backups.to_str().unwrap();
    let serve = |command: &str| {
        ServerProcess::start_with(&data, &["--backup-to", to, "--backup-command", command])
    };
    let mut server = serve(&format!(
        "cp \"$BACKUP_FILE\" '{}/copy.partial' && mv '{0}/copy.partial' '{0}/copy.zst'",
        copies.display()
    ));
    server.find_or_wait_for("wrote backup ");
    let copy = copies.join("copy.zst");
    for _ in 0..600 {
        if copy.exists() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    expect(&data, &["verify", copy.to_str().unwrap()], 0, "made 2");
    server.stop();
    for entry in std::fs::read_dir(&backups).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let mut server = serve("echo the disk is full >&2; exit 3");
    let line = server.find_or_wait_for("was not processed");
    assert!(
        line.contains("--backup-command failed: it exited with status 3: the disk is full"),
        "{line}"
    );
    assert_eq!(std::fs::read_dir(&backups).unwrap().count(), 1);
    server.stop();
    expect(
        &data,
        &["serve", "--backup-command", "true"],
        2,
        "--backup-to",
    );
}
