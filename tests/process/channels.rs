//! Channels at the command line: tests, assignment, disabling, and the delivery log.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::HttpClient;
use crate::server_process::{
    ProcessOutput, ServerProcess, admin, overdue, run, temp_data_directory,
};

/// Maximum time that a test waits for an event.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that answers `/<status>/...` with that status. Returns its address and the request
/// lines as they arrive.
fn receiver() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut request = String::new();
            let mut length = 0;
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                if request.is_empty() {
                    request = line.trim_end().to_owned();
                }
                if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let status = request
                .split(['/', ' '])
                .find(|word| word.len() == 3 && word.parse::<u16>().is_ok())
                .unwrap_or("200")
                .to_owned();
            let answer =
                format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // The test may have ended.
            let _ = stream
                .get_mut()
                .write_all(answer.as_bytes())
                .map(|()| tell.send(request));
        }
    });
    (url, requests)
}

fn test_channel(data: &Path, words: &[&str]) -> ProcessOutput {
    run(overdue(words).arg("--data").arg(data))
}

fn json(data: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&admin(data, words)).unwrap()
}

/// Creates a project and a webhook that accepts alerts for downtimes and refuses those for
/// recoveries.
fn provision(data: &Path, url: &str) {
    admin(data, &["project", "create", "a"]);
    let down = format!("down-url={url}/200/down");
    let up = format!("up-url={url}/503/up");
    admin(
        data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "webhook",
            "--name",
            "hook",
            "--set",
            &down,
            "--set",
            &up,
        ],
    );
}

fn is_delivered(line: &str) -> bool {
    let parts = line
        .strip_prefix("delivered in ")
        .and_then(|rest| rest.strip_suffix(" ms (200)"));
    parts.is_some_and(|millis| millis.parse::<u32>().is_ok())
}

/// Tests a channel, disables it and enables it.
fn test_and_toggle(data: &Path) {
    let (url, requests) = receiver();
    provision(data, &url);
    let line = admin(data, &["channel", "test", "hook"]);
    assert!(is_delivered(&line), "{line}");
    assert_eq!(
        requests.recv_timeout(TEST_TIMEOUT).unwrap(),
        "GET /200/down HTTP/1.1"
    );
    let refused = test_channel(
        data,
        &["channel", "test", "hook", "--event", "up", "--json"],
    );
    let row: Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!(
        (refused.status, &row["delivered"], &row["status"]),
        (1, &json!(false), &json!(503)),
        "{}",
        refused.err
    );
    assert!(
        refused.err.starts_with("overdue: not delivered: ") && refused.err.contains("503"),
        "{}",
        refused.err
    );
    assert_eq!(
        requests.recv_timeout(TEST_TIMEOUT).unwrap(),
        "GET /503/up HTTP/1.1"
    );
    let logged = json(data, &["deliveries", "--channel", "hook", "--json"]);
    let number = logged[0]["number"].to_string();
    let refused = test_channel(data, &["deliveries", "retry", &number]);
    assert_eq!(
        (
            refused.status,
            refused.err.contains("is not about a single check")
        ),
        (1, true),
        "{}",
        refused.err
    );
    let logged: Vec<_> = logged
        .as_array()
        .unwrap()
        .iter()
        .map(|row| [&row["event"], &row["outcome"], &row["status"]])
        .collect();
    assert_eq!(
        logged,
        [
            [&json!("test"), &json!("failed"), &json!(503)],
            [&json!("test"), &json!("delivered"), &json!(200)]
        ]
    );

    let status = || {
        let row = json(data, &["channel", "list", "--json"])[0].clone();
        (
            row["status"].as_str().unwrap().to_owned(),
            row["since"].is_string(),
            row["last_error"].clone(),
        )
    };
    let (kind, since, error) = status();
    assert_eq!((kind.as_str(), since), ("test failed", false));
    assert!(
        error.as_str().is_some_and(|error| error.contains("503")),
        "{error}"
    );
    let table = admin(data, &["channel", "list"]);
    assert!(
        table.contains("  test failed: the answer was 503"),
        "{table}"
    );
    let ok = || ("ok".to_owned(), false, Value::Null);
    admin(data, &["channel", "test", "hook"]);
    requests.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!(status(), ok());
    let disabled = (
        "disabled".to_owned(),
        true,
        json!("it was disabled by the operator"),
    );
    for revive in [
        &["channel", "enable", "hook"][..],
        &["channel", "test", "hook"],
    ] {
        admin(data, &["channel", "disable", "hook"]);
        assert_eq!(status(), disabled);
        let table = admin(data, &["channel", "list"]);
        assert!(
            table.contains("  disabled since 20") && table.contains("  LAST ERROR\n"),
            "{table}"
        );
        admin(data, revive);
        assert_eq!(status(), ok(), "{revive:?}");
    }
    let unknown = test_channel(data, &["channel", "test", "mail"]);
    assert_eq!(
        (
            unknown.status,
            unknown.err.contains("there is no channel \"mail\"")
        ),
        (1, true),
        "{}",
        unknown.err
    );
}

#[test]
fn a_channel_is_tested_without_a_server() {
    let (_directory, data) = temp_data_directory();
    test_and_toggle(&data);
}

#[test]
fn a_channel_is_tested_through_a_running_server() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    test_and_toggle(&data);
    server.stop();
}

#[test]
fn without_a_server_a_test_uses_the_flags_of_the_command() {
    let (directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    let mark = directory.path().join("mark");
    let command = format!(
        r#"down-command=echo "$OVERDUE_ALERT_EVENT" > {}"#,
        mark.display()
    );
    admin(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "shell",
            "--name",
            "sh",
            "--set",
            &command,
        ],
    );
    let refused = test_channel(&data, &["channel", "test", "sh"]);
    assert_eq!(
        (refused.status, refused.err.contains("--allow-shell")),
        (1, true),
        "{}",
        refused.err
    );
    assert!(!mark.exists());
    assert!(admin(&data, &["channel", "test", "sh", "--allow-shell"]).starts_with("delivered in "));
    assert!(mark.exists());
    // A file that cannot be read is reported before anything is sent.
    let missing = test_channel(&data, &["channel", "test", "sh", "--ca-file", "/nowhere"]);
    assert_eq!(
        (missing.status, missing.err.contains("/nowhere")),
        (2, true),
        "{}",
        missing.err
    );
}

#[test]
fn a_warning_is_shown_for_a_variable_between_single_quotes() {
    let (directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    let warning = |key: &str| {
        format!(
            "{key}: $NAME is in single quotes, where the shell does not expand it; write \"$NAME\" \
             in double quotes\n"
        )
    };
    let create = [
        "channel",
        "create",
        "--project",
        "a",
        "--kind",
        "shell",
        "--name",
        "sh",
        "--set",
    ];
    let output = test_channel(
        &data,
        &[&create[..], &["down-command=echo '$NAME'"]].concat(),
    );
    assert_eq!(
        (output.status, output.err),
        (0, format!("overdue: {}", warning("down-command")))
    );
    let set = test_channel(
        &data,
        &[
            "channel",
            "set",
            "sh",
            "--set",
            "up-command=echo 'up: $NAME'",
        ],
    );
    assert_eq!(
        (set.status, set.err),
        (0, format!("overdue: {}", warning("up-command")))
    );
    let set = test_channel(
        &data,
        &["channel", "set", "sh", "--set", "up-command=echo \"$NAME\""],
    );
    assert_eq!((set.status, set.err), (0, String::new()));
    // A value that would be run as code.
    for command in ["eval echo $NAME", "sh -c \"echo '$NAME'\""] {
        let set = test_channel(
            &data,
            &[
                "channel",
                "set",
                "sh",
                "--set",
                &format!("up-command={command}"),
            ],
        );
        let told = "overdue: up-command: the value of $NAME is executed as code, and other people \
                    choose that value";
        assert!(
            set.status == 0 && set.err.starts_with(told),
            "{command}: {}",
            set.err
        );
    }
    let set = test_channel(
        &data,
        &[
            "channel",
            "set",
            "sh",
            "--set",
            "up-command=sh -c 'echo \"$NAME\"'",
        ],
    );
    assert_eq!(
        (set.status, set.err),
        (0, String::new()),
        "a nested shell expands text between single quotes"
    );
    let file = directory.path().join("a.toml");
    std::fs::write(
        &file,
        "version = 1\n\n[project.a.channel.sh]\nkind = \"shell\"\ndown-command = \"echo \
         '$NAME'\"\n",
    )
    .unwrap();
    let applied = test_channel(&data, &["apply", file.to_str().unwrap()]);
    assert_eq!(applied.status, 0, "{}", applied.err);
    assert!(
        applied.err.contains(&format!(
            "overdue: channel \"sh\": {}",
            warning("down-command")
        )),
        "{}",
        applied.err
    );
}

#[test]
fn a_test_without_a_server_leaves_pending_alerts_to_the_next_server() {
    let (_directory, data) = temp_data_directory();
    let (url, requests) = receiver();
    let server = ServerProcess::start(&data);
    let busy = format!("down-url={url}/503/x");
    let free = format!("down-url={url}/200/x");
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
            &busy,
        ],
    );
    let uuid = admin(
        &data,
        &[
            "check",
            "create",
            "--project",
            "default",
            "--slug",
            "backup",
            "--channels",
            "hook",
        ],
    );
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .post(&format!("/ping/{uuid}/fail"), b"")
            .unwrap()
            .status,
        200
    );
    requests.recv_timeout(TEST_TIMEOUT).unwrap();
    server.stop();
    let row = json(&data, &["channel", "list", "--json"])[0].clone();
    assert_eq!(
        [&row["status"], &row["waiting"]],
        [&json!("failing"), &json!(1)],
        "{row}"
    );
    assert!(
        row["last_error"].as_str().unwrap().contains("503") && row["since"].is_string(),
        "{row}"
    );
    admin(&data, &["channel", "set", "hook", "--set", &free]);
    assert!(is_delivered(&admin(&data, &["channel", "test", "hook"])));
    assert_eq!(
        requests.recv_timeout(TEST_TIMEOUT).unwrap(),
        "GET /200/x HTTP/1.1"
    );
    assert!(requests.try_recv().is_err());
    assert!(admin(&data, &["channel", "list"]).contains("  ok      1"));
    let server = ServerProcess::start(&data);
    requests.recv_timeout(TEST_TIMEOUT).unwrap();
    server.stop();
}

#[test]
fn a_channel_is_created_assigned_and_tested_in_one_command() {
    let (_directory, data) = temp_data_directory();
    let (url, requests) = receiver();
    admin(&data, &["project", "create", "a"]);
    for (slug, tags) in [("one", "x y"), ("two", "y"), ("three", "")] {
        admin(
            &data,
            &[
                "check",
                "create",
                "--project",
                "a",
                "--slug",
                slug,
                "--tags",
                tags,
            ],
        );
    }
    let create = [
        "channel",
        "create",
        "--project",
        "a",
        "--kind",
        "webhook",
        "--test",
        "--assign",
    ];
    let good = format!("down-url={url}/200/x");
    let output = test_channel(
        &data,
        &[&create[..], &["tag:y", "--name", "good", "--set", &good]].concat(),
    );
    let lines: Vec<_> = output.err.lines().collect();
    assert_eq!(
        (
            output.status,
            output.out.len(),
            lines[0],
            is_delivered(lines[1])
        ),
        (0, 37, "2 checks changed", true),
        "{}",
        output.err
    );
    assert_eq!(
        requests.recv_timeout(TEST_TIMEOUT).unwrap(),
        "GET /200/x HTTP/1.1"
    );
    // A failed test keeps the channel and its UUID.
    let bad = format!("down-url={url}/500/x");
    let output = test_channel(
        &data,
        &[&create[..], &["all", "--name", "bad", "--set", &bad]].concat(),
    );
    assert_eq!(
        (
            output.status,
            output.out.len(),
            output
                .err
                .contains("3 checks changed\noverdue: not delivered: ")
        ),
        (1, 37, true),
        "{}",
        output.err
    );
    assert_eq!(admin(&data, &["channel", "list"]).lines().count(), 3);

    let of = |slug: &str| {
        json(&data, &["check", "show", slug, "--json"])["channels"]
            .as_str()
            .unwrap()
            .split_terminator(',')
            .count()
    };
    assert_eq!([of("one"), of("two"), of("three")], [2, 2, 1]);
    for (words, line, counts) in [
        (
            &["unassign", "bad", "--all"][..],
            "3 checks changed",
            [1, 1, 0],
        ),
        (&["unassign", "bad", "--all"], "0 checks changed", [1, 1, 0]),
        (
            &["assign", "bad", "--tag", "x", "--tag", "y"],
            "1 check changed",
            [2, 1, 0],
        ),
        (
            &["assign", "bad", "--check", "two", "three"],
            "2 checks changed",
            [2, 2, 1],
        ),
        (
            &["unassign", "good", "--check", "one", "--json"],
            r#"{"checks":1}"#,
            [1, 2, 1],
        ),
    ] {
        assert_eq!(
            admin(&data, &[&["channel"], words].concat()),
            line,
            "{words:?}"
        );
        assert_eq!([of("one"), of("two"), of("three")], counts, "{words:?}");
    }
    for (words, status, part) in [
        (
            &["assign", "bad"][..],
            2,
            "<--all|--tag <TAG>|--check <CHECK>...>",
        ),
        (
            &["assign", "bad", "--check", "one", "four"],
            1,
            "there is no check \"four\"",
        ),
        (
            &["assign", "bad", "--all", "--tag", "x"],
            2,
            "cannot be used with",
        ),
    ] {
        let done = test_channel(&data, &[&["channel"], words].concat());
        assert_eq!(
            (done.status, done.err.contains(part)),
            (status, true),
            "{words:?}: {}",
            done.err
        );
    }
}

#[test]
fn a_warning_is_shown_for_a_duplicate_channel() {
    let (_directory, data) = temp_data_directory();
    for project in ["a", "b"] {
        admin(&data, &["project", "create", project]);
    }
    let create = |project: &str, kind: &str, set: &str| {
        let done = test_channel(
            &data,
            &[
                "channel",
                "create",
                "--project",
                project,
                "--kind",
                kind,
                "--name",
                "phone",
                "--set",
                set,
            ],
        );
        assert_eq!((done.status, done.out.len()), (0, 37), "{}", done.err);
        (done.out.trim().to_owned(), done.err)
    };
    let topic = "topic=backups-x7Qm2";
    let (first, quiet) = create("a", "ntfy", topic);
    assert_eq!(
        (
            quiet,
            create("b", "ntfy", topic).1,
            create("a", "email", "to=a@example.org").1
        ),
        Default::default()
    );
    let (_, warning) = create("a", "ntfy", topic);
    let said = format!(
        r#"overdue: the project "a" already has a channel of kind ntfy named "phone" ({first});"#
    );
    assert!(
        warning.starts_with(&said) && warning.lines().count() == 1,
        "{warning}"
    );
}

#[test]
fn settings_that_a_command_does_not_name_stay() {
    let (_directory, data) = temp_data_directory();
    let (url, _requests) = receiver();
    provision(&data, &url);
    let settings =
        || json(&data, &["channel", "list", "--show-settings", "--json"])[0]["settings"].clone();
    let before = settings();
    admin(
        &data,
        &[
            "channel",
            "set",
            "hook",
            "--keep",
            "--set",
            "header.X-Key=hidden",
        ],
    );
    admin(
        &data,
        &["channel", "set", "hook", "--keep", "--set", "send=down"],
    );
    let mut after = before;
    after["header.x-key"] = json!("***");
    after["send"] = json!("down");
    assert_eq!(settings(), after);
    // A secret is sent to no server that did not have it before.
    let refusal = test_channel(
        &data,
        &[
            "channel",
            "set",
            "hook",
            "--keep",
            "--set",
            "down-url=http://elsewhere.example/",
        ],
    );
    assert_eq!(
        (refusal.status, refusal.err.contains("names another server")),
        (2, true),
        "{}",
        refusal.err
    );
    admin(
        &data,
        &[
            "channel",
            "set",
            "hook",
            "--set",
            "down-url=http://elsewhere.example/",
        ],
    );
    assert_eq!(
        settings(),
        json!({"down-url": "http://elsewhere.example/", "method": "GET"})
    );
}

#[test]
fn failed_deliveries_are_shown_and_retried() {
    let (_directory, data) = temp_data_directory();
    let (url, requests) = receiver();
    let server = ServerProcess::start(&data);
    let setting = format!("down-url={url}/410/x");
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
            &setting,
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
            "Backup",
            "--slug",
            "backup",
            "--channels",
            "hook",
        ],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    assert_eq!(
        client
            .post(&format!("/ping/{uuid}/fail"), b"")
            .unwrap()
            .status,
        200
    );
    requests.recv_timeout(TEST_TIMEOUT).unwrap();
    let deliveries = |words: &[&str], enough: usize| {
        let begun = Instant::now();
        loop {
            let mut rows = json(&data, &[&["deliveries", "--json"], words].concat());
            rows.as_array_mut()
                .unwrap()
                .retain(|row| row["outcome"] != "waiting");
            if rows.as_array().unwrap().len() >= enough {
                return rows;
            }
            assert!(begun.elapsed() < TEST_TIMEOUT, "{rows}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let failed = deliveries(
        &["--failed", "--check", "backup", "--project", "default"],
        1,
    )[0]
    .clone();
    let shown = [
        &failed["event"],
        &failed["outcome"],
        &failed["status"],
        &failed["attempts"],
        &failed["check"]["name"],
    ];
    assert_eq!(
        shown,
        [
            &json!("down"),
            &json!("failed"),
            &json!(410),
            &json!(1),
            &json!("Backup")
        ]
    );
    // A permanent refusal disables the channel.
    let number = failed["number"].to_string();
    let refused = test_channel(&data, &["deliveries", "retry", &number]);
    assert_eq!(
        (
            refused.status,
            refused.err.contains("`channel enable` enables it")
        ),
        (1, true),
        "{}",
        refused.err
    );
    assert!(admin(&data, &["channel", "list"]).contains("disabled since 20"));

    let repaired = format!("down-url={url}/200/x");
    admin(&data, &["channel", "set", "hook", "--set", &repaired]);
    admin(&data, &["channel", "enable", "hook"]);
    assert!(admin(&data, &["deliveries", "retry", &number]).starts_with("queued as delivery "));
    assert_eq!(
        requests.recv_timeout(TEST_TIMEOUT).unwrap(),
        "GET /200/x HTTP/1.1"
    );
    let rows = deliveries(&[], 2);
    assert_eq!(
        (
            &rows[0]["outcome"],
            &rows[0]["check"]["uuid"],
            &rows[1]["number"]
        ),
        (&json!("delivered"), &json!(uuid), &failed["number"])
    );
    assert_eq!(
        deliveries(&["--limit", "1"], 1).as_array().unwrap().len(),
        1
    );
    for (words, part) in [
        (
            ["deliveries", "retry", &rows[0]["number"].to_string()],
            "is delivered; only failed deliveries are sent again",
        ),
        (
            ["deliveries", "retry", "999"],
            "there is no delivery 999; `deliveries` lists",
        ),
    ] {
        let done = test_channel(&data, &words);
        assert_eq!(
            (done.status, done.err.contains(part)),
            (1, true),
            "{words:?}: {}",
            done.err
        );
    }
    let table = admin(&data, &["deliveries"]);
    assert!(
        table.starts_with("NUMBER  TIME")
            && table.contains("  Backup  hook     down   failed     1         "),
        "{table}"
    );

    // The log outlives the check that it is about.
    admin(&data, &["check", "delete", "backup"]);
    admin(&data, &["channel", "delete", "hook", "--yes"]);
    let lost = deliveries(&["--failed"], 1)[0].clone();
    let deleted = json!({"uuid": null, "name": "(deleted)"});
    assert_eq!(
        (&lost["number"], &lost["check"], &lost["channel"]),
        (&failed["number"], &deleted, &deleted)
    );
    let done = test_channel(&data, &["deliveries", "retry", &number]);
    assert_eq!(
        (
            done.status,
            done.err.contains("has been deleted in the meantime")
        ),
        (1, true),
        "{}",
        done.err
    );
    server.stop();
}

#[test]
fn a_check_shows_when_its_downtimes_alert() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let uuid = admin(
        &data,
        &[
            "check",
            "create",
            "--project",
            "default",
            "--slug",
            "backup",
        ],
    );
    let shown = || json(&data, &["check", "alerting", "backup", "--json"]);
    assert_eq!(
        shown(),
        json!({
            "after": 1, "parents": "", "failures": 0, "telling": "quiet", "until": null,
            "why": null, "unnotified": "it has no channel",
        })
    );
    let table = admin(&data, &["check", "alerting", "backup", "--after", "3"]);
    assert!(
        table.contains(
            "after     3\nfailures  0\nparents\ntelling   nobody is notified: it has no channel"
        ),
        "{table}"
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut fail = || {
        assert_eq!(
            client
                .post(&format!("/ping/{uuid}/fail"), b"")
                .unwrap()
                .status,
            200
        );
    };
    fail();
    let alerting = shown();
    assert_eq!(
        (
            &alerting["failures"],
            &alerting["telling"],
            alerting["until"].is_string()
        ),
        (&json!(1), &json!("due"), true),
        "{alerting}"
    );
    assert_eq!(
        alerting["why"],
        json!("it has not failed often enough in a row")
    );
    fail();
    fail();
    assert_eq!(
        (&shown()["telling"], &shown()["unnotified"]),
        (&json!("unheard"), &json!("it has no channel"))
    );
    let logged = json(&data, &["deliveries", "--check", "backup", "--json"]);
    let logged: Vec<_> = logged
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            [
                &row["event"],
                &row["outcome"],
                &row["reason"],
                &row["channel"],
            ]
        })
        .collect();
    assert_eq!(
        logged,
        [[
            &json!("down"),
            &json!("skipped"),
            &json!("nobody is notified: it has no channel"),
            &Value::Null
        ]]
    );
    let refused = test_channel(&data, &["check", "alerting", "backup", "--after", "0"]);
    assert_eq!(
        (
            refused.status,
            refused
                .err
                .contains("give a number of failures from 1 to 100")
        ),
        (2, true),
        "{}",
        refused.err
    );
    let router = admin(
        &data,
        &[
            "check",
            "create",
            "--project",
            "default",
            "--slug",
            "router",
        ],
    );
    admin(
        &data,
        &["check", "alerting", "backup", "--parent", "router"],
    );
    assert_eq!(shown()["parents"], json!(router.trim()));
    for (child, parent, words) in [
        ("router", "backup", "would be a parent of itself"),
        ("router", "nothing", "there is no check \"nothing\""),
    ] {
        let refused = test_channel(&data, &["check", "alerting", child, "--parent", parent]);
        assert_eq!(
            (refused.status, refused.err.contains(words)),
            (1, true),
            "{}",
            refused.err
        );
    }
    admin(&data, &["check", "alerting", "backup", "--parent", ""]);
    assert_eq!(shown()["parents"], json!(""));
    server.stop();
}

#[test]
fn windows_are_created_listed_and_deleted() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let muted = test_channel(
        &data,
        &["mute", "10m", "--project", "default", "--tag", "db"],
    );
    let warned = "overdue: no check has the tag \"db\", so the window does not apply to any check \
                  yet\n";
    assert_eq!((muted.status, muted.err.as_str()), (0, warned));
    let muted = muted.out;
    let weekly = [
        "--project",
        "default",
        "--at",
        "Sun 03:00",
        "--for",
        "2h",
        "--tz",
        "Europe/Riga",
    ];
    admin(
        &data,
        &[&["window", "create"], &weekly[..], &["updates"]].concat(),
    );
    let listed = json(&data, &["window", "list", "--json"]);
    assert_eq!(
        (
            &listed[0]["uuid"],
            &listed[0]["tags"],
            listed[0]["until"].is_string()
        ),
        (&json!(muted.trim()), &json!("db"), true)
    );
    let second = &listed[1];
    assert_eq!(
        (&second["name"], &second["schedule"], &second["minutes"]),
        (&json!("updates"), &json!("Sun 03:00"), &json!(120))
    );
    let table = admin(&data, &["window", "list", "--project", "default"]);
    assert!(
        table.contains("Sun 03:00 (Europe/Riga), 120 min") && table.contains("open until "),
        "{table}"
    );
    admin(&data, &["window", "delete", "updates"]);
    assert_eq!(
        json(&data, &["window", "list", "--json"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for (words, status, reason) in [
        (
            &["window", "delete", "updates"][..],
            1,
            r#"there is no maintenance window "updates""#,
        ),
        (
            &[
                "window",
                "create",
                "--project",
                "default",
                "--from",
                "x",
                "--for",
                "1h",
                "a",
            ],
            2,
            "from is wrong: give a time with its UTC offset",
        ),
        (
            &[
                "window",
                "create",
                "--project",
                "default",
                "--at",
                "Sun 03:00",
                "--for",
                "8d",
                "a",
            ],
            2,
            "give a number from 1 to 10080",
        ),
        (
            &["mute", "10", "--project", "default"],
            2,
            "give one like 90s, 30m, 4h or 2d",
        ),
    ] {
        let refused = test_channel(&data, words);
        assert_eq!(
            (refused.status, refused.err.contains(reason)),
            (status, true),
            "{}",
            refused.err
        );
    }
    server.stop();
    // Without a server, no other process reads the request.
    let refused = test_channel(
        &data,
        &[
            "mute",
            "1h",
            "--project",
            "default",
            "--tag",
            &"x".repeat(501),
        ],
    );
    assert_eq!(
        (
            refused.status,
            refused
                .err
                .contains("tags is wrong: at most 500 characters")
        ),
        (2, true),
        "{}",
        refused.err
    );
}

/// Returns the statuses of channels by name.
fn statuses(data: &Path) -> Value {
    let rows = json(data, &["channel", "list", "--json"]);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| {
        (
            row["name"].as_str().unwrap().to_owned(),
            json!([row["status"], row["last_error"]]),
        )
    })
    .collect::<serde_json::Map<_, _>>()
    .into()
}

#[test]
fn a_channel_that_cannot_deliver_shows_the_reason() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "a"]);
    for (kind, name, set) in [
        ("email", "mail", "to=ops@example.org"),
        ("shell", "sh", "down-command=true"),
        ("ntfy", "phone", "topic=a"),
    ] {
        admin(
            &data,
            &[
                "channel",
                "create",
                "--project",
                "a",
                "--kind",
                kind,
                "--name",
                name,
                "--set",
                set,
            ],
        );
    }
    admin(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "group",
            "--name",
            "both",
            "--set",
            "channels=mail,sh",
        ],
    );
    let uuid = admin(
        &data,
        &["check", "create", "--project", "a", "--slug", "backup"],
    );
    admin(&data, &["channel", "assign", "both", "--all"]);
    // The flags of a server that is not running are unknown.
    let none = Value::Null;
    let untested = json!(["untested", none]);
    assert_eq!(
        statuses(&data),
        json!({"mail": untested, "sh": untested, "phone": untested, "both": untested})
    );
    let mut server = ServerProcess::start(&data);
    let mail = "no mail server is set (--mail-server)";
    let shell = "--allow-shell is not given";
    let group = format!("none of its channels can deliver: {shell}");
    let shown = statuses(&data);
    assert_eq!(
        (&shown["mail"], &shown["phone"]),
        (&json!(["cannot deliver", mail]), &untested)
    );
    assert_eq!(
        (&shown["sh"], &shown["both"]),
        (
            &json!(["cannot deliver", shell]),
            &json!(["cannot deliver", group])
        )
    );
    assert!(admin(&data, &["channel", "list"]).contains(&format!("  cannot deliver: {mail}")));
    let alerting = admin(&data, &["check", "alerting", "backup"]);
    assert!(
        alerting.contains("telling   nobody is notified: its channels cannot deliver\n"),
        "{alerting}"
    );
    let output = test_channel(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "email",
            "--name",
            "late",
            "--set",
            "to=ops@example.org",
        ],
    );
    assert_eq!(
        (output.status, output.err),
        (0, format!("the channel cannot deliver yet: {mail}\n"))
    );
    // A warning is shown for a group that loses all its channels, and its next alert is logged as
    // skipped.
    let warned = test_channel(&data, &["channel", "delete", "mail"]);
    assert_eq!(
        warned.err,
        "overdue: the group \"both\" will lose this channel and have 1 channel left\n"
    );
    let warned = test_channel(&data, &["channel", "delete", "sh"]);
    assert_eq!(
        warned.err,
        "overdue: the group \"both\" will have no channels left and notify no one\n"
    );
    assert_eq!(
        statuses(&data)["both"],
        json!(["cannot deliver", "it has no channel"])
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    assert_eq!(
        client
            .post(&format!("/ping/{uuid}/fail"), b"")
            .unwrap()
            .status,
        200
    );
    let line = server.wait_for("nobody is notified");
    assert!(
        line.contains("WARN")
            && line.contains(r#""backup" of project "a" is down, and nobody is notified: "#),
        "{line}"
    );
    assert!(line.ends_with("the group has no channel"), "{line}");
    server.stop();
    let refused = test_channel(
        &data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "group",
            "--name",
            "g",
            "--set",
            "channels=typo",
        ],
    );
    assert!(
        refused.status == 2
            && refused
                .err
                .contains(r#"channels names "typo", but the project has no such channel"#),
        "{}",
        refused.err
    );
}

#[test]
fn a_pending_message_is_listed_with_the_reason() {
    let (_directory, data) = temp_data_directory();
    admin(&data, &["project", "create", "default"]);
    let (url, requests) = receiver();
    let set = format!("down-url={url}/503/x");
    admin(
        &data,
        &[
            "channel", "create", "--kind", "webhook", "--name", "hook", "--set", &set,
        ],
    );
    let uuid = admin(
        &data,
        &[
            "check",
            "create",
            "--name",
            "Backup",
            "--slug",
            "backup",
            "--channels",
            "hook",
        ],
    );
    let server = ServerProcess::start(&data);
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .post(&format!("/ping/{uuid}/fail"), b"")
            .unwrap()
            .status,
        200
    );
    requests.recv_timeout(TEST_TIMEOUT).unwrap();
    let begun = Instant::now();
    let row = loop {
        let rows = json(&data, &["deliveries", "--check", "backup", "--json"]);
        match rows.get(0).filter(|row| row["reason"] != "") {
            Some(row) => break row.clone(),
            None => assert!(begun.elapsed() < TEST_TIMEOUT, "{rows}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        (&row["outcome"], &row["event"], &row["channel"]["name"]),
        (&json!("waiting"), &json!("down"), &json!("hook")),
        "{row}"
    );
    assert!(row["reason"].as_str().unwrap().contains("503"), "{row}");
    assert_eq!(
        json(&data, &["deliveries", "--failed", "--json"]),
        json!([])
    );
    server.stop();
}
