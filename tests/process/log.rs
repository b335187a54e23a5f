//! Contents of the log: status changes by name, refusals at debug level, and a limit on the number
//! of lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, temp_data_directory};

#[test]
fn status_changes_are_logged_by_name_and_project() {
    let (_directory, data) = temp_data_directory();
    let mut server = ServerProcess::start(&data);
    let uuid = admin(
        &data,
        &[
            "check",
            "create",
            "--project",
            "default",
            "--name",
            "Nightly \"backup\"",
        ],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    for (action, line) in [
        (
            "",
            r#"INFO check "Nightly \"backup\"" of project "default" is up, was new"#,
        ),
        (
            "/fail",
            r#"INFO check "Nightly \"backup\"" of project "default" is down, was up"#,
        ),
    ] {
        assert_eq!(
            client
                .post(&format!("/ping/{uuid}{action}"), b"")
                .unwrap()
                .status,
            200
        );
        server.wait_for(line);
    }
    assert!(!server.log.iter().any(|line| line.contains(&uuid)));
    server.stop();
}

#[test]
fn a_flood_of_changes_does_not_flood_the_log() {
    let (_directory, data) = temp_data_directory();
    let mut server = ServerProcess::start(&data);
    let key = admin(
        &data,
        &["key", "create", "--project", "default", "--access", "ping"],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    for number in 0..500 {
        assert_eq!(
            client
                .post(&format!("/ping/{key}/c-{number}?create=1"), b"")
                .unwrap()
                .status,
            201
        );
    }
    server.signal("TERM");
    server.wait();
    let told = server
        .log
        .iter()
        .filter(|line| line.contains("is up, was new"))
        .count();
    // The flood takes at most a few seconds.
    assert!((1..400).contains(&told), "{told}");
}

#[test]
fn refusals_are_logged_at_debug_without_secrets() {
    let (_directory, data) = temp_data_directory();
    let words = [
        "--log",
        "debug",
        "--smtp-listen",
        "127.0.0.1:0",
        "--ping-email-domain",
        "example.org",
    ];
    let mut server = ServerProcess::start_with(&data, &words);
    let mail: SocketAddr = server
        .wait_for("listening for mail")
        .split("address=")
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let mut client = HttpClient::connect(server.address).unwrap();
    let unknown = "6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f";
    assert_eq!(
        client
            .get("/api/v3/checks/", "wrong-key-wrong-key-wrong-key-00")
            .unwrap()
            .status,
        401
    );
    assert!(
        server
            .wait_for("an unknown API key was rejected")
            .contains("from=127.0.0.1")
    );
    assert_eq!(
        client
            .post(&format!("/ping/{unknown}"), b"")
            .unwrap()
            .status,
        404
    );
    assert!(
        server
            .wait_for("a ping was rejected")
            .contains("status=404")
    );

    let mut stream = TcpStream::connect(mail).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut say = |line: &str, code: &str| {
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let reply = replies.next().unwrap().unwrap();
        assert!(reply.starts_with(code), "{line}: {reply}");
    };
    say("HELO a", "220");
    say("MAIL FROM:<a@example.org>", "250");
    say("RCPT TO:<x@elsewhere.org>", "250");
    say(&format!("RCPT TO:<{unknown}@example.org>"), "550");
    assert!(
        server
            .wait_for("mail command refused")
            .contains("550 5.1.1")
    );
    say("DATA", "250");
    say("Subject: a\r\n\r\nb\r\n.", "354");
    server.wait_for("mail dropped: it names no check");
    assert!(
        !server
            .log
            .iter()
            .any(|line| line.contains(unknown) || line.contains("wrong-key")),
        "{:?}",
        server.log
    );
}

#[test]
fn problems_for_the_operator_are_logged_as_warnings() {
    let (_directory, data) = temp_data_directory();
    let mut command = overdue(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "info",
        "--auth",
        "none",
    ]);
    command
        .env("OVERDUE_LISTENN", "127.0.0.1:1")
        .env("OVERDUE_XYZZY", "1")
        .env("OVERDUE_BACKUP_KEEP", "")
        .arg("--data")
        .arg(&data);
    let mut server = ServerProcess::spawn(&mut command);
    assert!(
        server
            .find_or_wait_for("OVERDUE_LISTENN is unknown")
            .contains("WARN")
            && server
                .find_or_wait_for("did you mean OVERDUE_LISTEN?")
                .contains("WARN")
    );
    let other = server.find_or_wait_for("OVERDUE_XYZZY is unknown");
    assert!(!other.contains("is meant"), "{other}");
    assert!(
        server
            .find_or_wait_for("--auth none: every client on this machine")
            .contains("WARN")
    );
    // An alert that cannot be delivered.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("down-url=http://{closed}/");
    admin(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "default",
            "--kind",
            "webhook",
            "--name",
            "hook",
            "--set",
            &url,
            "--set",
            "every=on",
        ],
    );
    let uuid = admin(
        &data,
        &[
            "check",
            "create",
            "--project",
            "default",
            "--name",
            "job",
            "--grace",
            "15m",
            "--timeout",
            "2h",
        ],
    );
    assert!(admin(&data, &["check", "show", &uuid, "--json"]).contains("\"grace\":900"));
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get(&format!("/ping/{uuid}/fail"), "")
            .unwrap()
            .status,
        200
    );
    assert!(
        server.wait_for("delivery failed: ").contains("WARN"),
        "{:?}",
        server.log
    );
    assert!(
        !server
            .log
            .iter()
            .any(|line| line.contains("OVERDUE_BACKUP_KEEP")),
        "{:?}",
        server.log
    );
    server.stop();
}

#[test]
fn a_log_that_is_not_read_blocks_nothing() {
    let (_directory, data) = temp_data_directory();
    let mut child = overdue(&["serve", "--listen", "127.0.0.1:0", "--log", "debug"])
        .arg("--data")
        .arg(&data)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0);
        if let Some(address) = line.split("address=").nth(1) {
            break address.trim().parse().unwrap();
        }
    };
    // From here on, nothing reads the pipe. It holds 64 kB, and each ping writes a line.
    for _ in 0..1_500 {
        let mut client = HttpClient::connect(address).unwrap();
        client.send(b"GET /\r\n\r\n").unwrap();
        assert_eq!(client.receive().unwrap().status, 400);
    }
    assert_eq!(
        HttpClient::connect(address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_start_logs_one_line_with_its_addresses() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    admin(&data, &["check", "create", "--project", "a", "--name", "c"]);
    let server = ServerProcess::start_with(&data, &["--base-url", "https://example.org/checks"]);
    let line = server
        .log
        .iter()
        .find(|line| line.contains("starting"))
        .unwrap();
    let address = format!("listen=\"{}\"", server.address);
    for part in [
        "version=\"",
        "schema=",
        &address,
        r#"base_url="https://example.org/checks""#,
        "projects=1 checks=1 channels=0",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn logs_are_json_on_request_and_have_no_dates_in_the_journal() {
    let (directory, data) = temp_data_directory();
    let mut server = overdue(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log-format",
        "json",
        "--access-log",
        "--data",
    ]);
    let mut child = server
        .arg(&data)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    // A first start logs more, for people.
    let mut lines = lines
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    let starting = lines.next().unwrap();
    assert_eq!(
        (
            &starting["level"],
            &starting["message"],
            &starting["projects"]
        ),
        (&"INFO".into(), &"starting".into(), &1.into())
    );
    assert!(
        starting["timestamp"].as_str().unwrap().ends_with('Z'),
        "{starting}"
    );
    let listening = lines.next().unwrap();
    assert_eq!(listening["message"], "listening for HTTP");
    let address = listening["address"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        HttpClient::connect(address)
            .unwrap()
            .get("/healthz", "")
            .unwrap()
            .status,
        200
    );
    let access = lines
        .find(|line| line["message"] == "GET /healthz")
        .unwrap();
    assert!(
        access["status"] == 200 && access["micros"].is_u64(),
        "{access}"
    );
    assert!(
        access["method"] == "GET" && access["path"] == "/healthz",
        "{access}"
    );
    child.kill().unwrap();
    child.wait().unwrap();

    // A file replaces the socket of the journal: only its device and inode numbers matter.
    use std::os::unix::fs::MetadataExt as _;
    for (is_journal, expected) in [(true, true), (false, false)] {
        let path = directory.path().join(format!("journal-{is_journal}"));
        let journal = std::fs::File::create(&path).unwrap();
        let metadata = journal.metadata().unwrap();
        let stream = format!(
            "{}:{}",
            metadata.dev(),
            metadata.ino() + u64::from(!is_journal)
        );
        let mut server = overdue(&["serve", "--listen", "127.0.0.1:0", "--data"]);
        let mut child = server
            .arg(&data)
            .env("JOURNAL_STREAM", stream)
            .stderr(journal)
            .spawn()
            .unwrap();
        let read = || std::fs::read_to_string(&path).unwrap();
        let begun = std::time::Instant::now();
        while !read().contains("listening for HTTP") && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let line = read()
            .lines()
            .find(|line| line.contains("listening for HTTP"))
            .unwrap()
            .to_owned();
        assert_eq!(line.trim_start().starts_with("INFO"), expected, "{line}");
    }
}

#[test]
fn requests_are_logged_on_request_without_secrets() {
    let (_directory, data) = temp_data_directory();
    let mut server =
        ServerProcess::start_with(&data, &["--access-log", "--trusted-proxy", "127.0.0.1"]);
    let key = admin(
        &data,
        &["key", "create", "--project", "default", "--access", "ping"],
    );
    let uuid = admin(
        &data,
        &["check", "create", "--project", "default", "--name", "c"],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut post = |path: &str| client.post(path, b"").unwrap().status;
    assert_eq!(
        post(&format!("/ping/{key}/nightly/start?create=1&rid={uuid}")),
        201
    );
    assert!(
        server
            .wait_for("INFO POST /ping/***/***/start")
            .contains("status=201 from=127.0.0.1 micros=")
    );
    assert_eq!(post(&format!("/ping/{uuid}/7")), 200);
    server.wait_for("INFO POST /ping/***/7");
    assert_eq!(post("/api/v3/checks/?api_key=x"), 401);
    assert!(
        server
            .wait_for("INFO POST /api/v3/checks/ ")
            .contains("status=401")
    );
    client
        .send(
            format!(
                "GET /api/v3/checks/{uuid} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: \
                 192.0.2.7\r\n\r\n"
            )
            .as_bytes(),
        )
        .unwrap();
    assert!(
        server
            .wait_for("INFO GET /api/v3/checks/***")
            .contains("from=192.0.2.7")
    );
    server.signal("TERM");
    server.wait();
    assert!(
        !server
            .log
            .iter()
            .any(|line| line.contains(&key) || line.contains(&uuid) || line.contains("nightly")),
        "{:?}",
        server.log
    );
    // No access log without the flag.
    let mut server = ServerProcess::start(&data);
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
    assert!(
        !server.log.iter().any(|line| line.contains("healthz")),
        "{:?}",
        server.log
    );
}
