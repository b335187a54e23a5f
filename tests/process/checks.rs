//! `overdue check`, with and without a server, and long lists on the admin socket.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

/// Columns of a table, with single spaces.
fn collapse_spaces(table: &str) -> Vec<String> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Creates, changes and deletes checks.
fn work(data: &Path) {
    admin(data, &["project", "create", "a"]);
    let channel = admin(
        data,
        &[
            "channel",
            "create",
            "--project",
            "a",
            "--kind",
            "ntfy",
            "--set",
            "topic=ops",
            "--name",
            "ops",
        ],
    );
    let create = [
        "check",
        "create",
        "--project",
        "a",
        "--name",
        "Nightly backup",
        "--slug",
        "backup",
        "--unique",
        "slug",
    ];
    let uuid = admin(
        data,
        &[
            &create[..],
            &[
                "--schedule",
                "30 3 * * *",
                "--tz",
                "Europe/Riga",
                "--grace",
                "900",
                "--channels",
                "ops",
            ],
        ]
        .concat(),
    );
    assert_eq!(uuid.len(), 36);
    // The same slug names the same check.
    let again = admin(data, &[&create[..], &["--tags", "x y", "--json"]].concat());
    assert!(
        again.starts_with(&format!("{{\"uuid\":\"{uuid}\",\"ping_url\":\""))
            && again.ends_with(&format!("/ping/{uuid}\"}}")),
        "{again}"
    );
    let other = admin(
        data,
        &[
            "check",
            "create",
            "--project",
            "a",
            "--name",
            "Other",
            "--methods",
            "POST",
            "--manual-resume",
            "yes",
        ],
    );

    let shown = admin(data, &["check", "show", "backup", "--json"]);
    for part in [
        &format!(
            r#""uuid":"{uuid}","project":"a","name":"Nightly backup","slug":"backup","tags":"x y""#
        ),
        r#""status":"new","started":false,"n_pings":0,"last_ping":null"#,
        concat!(
            r#""schedule":"30 3 * * *","tz":"Europe/Riga","grace":900,"#,
            r#""manual_resume":false,"methods":"""#,
        ),
        &format!(r#""channels":"{channel}""#),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(
        collapse_spaces(&admin(data, &["check", "show", "Other"]))
            .contains(&"methods POST".to_owned())
    );
    let rows = [
        "UUID PROJECT NAME SLUG TAGS STATUS",
        &format!("{uuid} a Nightly backup backup x y new"),
        &format!("{other} a Other new"),
    ];
    assert_eq!(collapse_spaces(&admin(data, &["check", "list"])), rows);
    assert_eq!(
        collapse_spaces(&admin(
            data,
            &["check", "list", "--tag", "y", "--project", "a"]
        )),
        rows[..2]
    );

    admin(
        data,
        &[
            "check",
            "set",
            "Other",
            "--name",
            "Renamed",
            "--timeout",
            "60",
            "--success-kw",
            "ok",
            "--filter-body",
            "true",
        ],
    );
    admin(data, &["check", "pause", &other]);
    let changed = admin(data, &["check", "show", "Renamed", "--json"]);
    assert!(
        changed.contains(r#""status":"paused""#) && changed.contains(r#""timeout":60"#),
        "{changed}"
    );
    assert!(
        changed.contains(r#""success_kw":"ok""#) && changed.contains(r#""filter_body":true"#),
        "{changed}"
    );
    // Tables show the most urgent first; JSON is in order of creation.
    let names = |words: &[&str]| {
        let rows: Vec<serde_json::Value> = serde_json::from_str(&admin(
            data,
            &[&["check", "list", "--json"], words].concat(),
        ))
        .unwrap();
        rows.iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["Nightly backup", "Renamed"]);
    assert_eq!(names(&["--status", "paused"]), ["Renamed"]);
    assert_eq!(
        names(&["--status", "paused,new"]),
        ["Nightly backup", "Renamed"]
    );
    assert_eq!(names(&["--status", "down"]), Vec::<String>::new());
    assert!(!changed.contains("paused_until"), "{changed}");
    admin(data, &["check", "pause", "Renamed", "--for", "2h"]);
    let until = admin(data, &["check", "show", "Renamed"]);
    assert!(until.contains("paused_until"), "{until}");
    admin(data, &["check", "resume", "Renamed"]);
    admin(data, &["check", "pause", &uuid]);
    assert!(collapse_spaces(&admin(data, &["check", "list"]))[1].starts_with(&other));
    admin(data, &["check", "resume", &uuid]);
    for (words, status, part) in [
        (
            &[
                "check",
                "pause",
                "Renamed",
                "--until",
                "2020-01-01T00:00:00Z",
            ][..],
            2,
            "until is wrong: the time is in the past",
        ),
        (
            &["check", "resume", "Renamed"],
            1,
            "the check is not paused",
        ),
        (
            &["check", "show", "Other"],
            1,
            r#"there is no check "Other"; `check list` lists"#,
        ),
        (
            &["check", "set", "Renamed", "--channels", "nobody"],
            1,
            "the project has no channel \"nobody\"",
        ),
        (
            &["check", "set", "Renamed", "--timeout", "59"],
            2,
            "give a whole number of seconds from 60 to 31536000",
        ),
        (
            &["check", "set", "Renamed", "--slug", "A b"],
            2,
            "a to z, 0 to 9",
        ),
        (
            &["check", "create", "--project", "a", "--unique", "desc"],
            2,
            "possible values: name, slug, tags, timeout, grace",
        ),
    ] {
        let done = run(overdue(words).arg("--data").arg(data));
        assert_eq!(
            (done.status, done.err.contains(part)),
            (status, true),
            "{words:?}: {}",
            done.err
        );
    }
    let flips = collapse_spaces(&admin(data, &["check", "flips", "Renamed"]));
    let ends = |line: &String| line.split_once(' ').unwrap().1.to_owned();
    assert_eq!(
        flips.iter().map(ends).collect::<Vec<_>>(),
        ["FROM TO", "paused new", "new paused"]
    );
    assert_eq!(
        collapse_spaces(&admin(data, &["check", "pings", "Renamed"])).len(),
        1
    );
    admin(data, &["check", "delete", "Renamed", "--yes"]);
    assert_eq!(collapse_spaces(&admin(data, &["check", "list"])).len(), 2);
}

#[test]
fn checks_are_managed_without_a_server() {
    let (_directory, data) = temp_data_directory();
    work(&data);
}

#[test]
fn checks_are_managed_through_a_running_server() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    work(&data);
    let shown = collapse_spaces(&admin(&data, &["check", "show", "backup"]));
    let url = shown
        .iter()
        .find_map(|line| line.strip_prefix("ping_url "))
        .unwrap();
    let path = url
        .strip_prefix(&format!("http://{}", server.address))
        .unwrap();
    assert_eq!(
        HttpClient::connect(server.address)
            .unwrap()
            .get(path, "")
            .unwrap()
            .status,
        200
    );
    server.stop();
}

#[test]
fn pings_are_listed_with_their_details() {
    let (_directory, data) = temp_data_directory();
    let server = ServerProcess::start(&data);
    let uuid = admin(
        &data,
        &["check", "create", "--project", "default", "--slug", "a"],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    for (action, body) in [("/start", &b""[..]), ("/3", b"out of space"), ("", b"")] {
        assert_eq!(
            client
                .post(&format!("/ping/{uuid}{action}"), body)
                .unwrap()
                .status,
            200
        );
    }
    let pings = admin(&data, &["check", "pings", "a", "--json"]);
    for part in [
        r#"[{"n":3,"type":"success","#,
        r#"{"n":2,"type":"fail","#,
        r#""exit":3,"body_bytes":12}"#,
        r#""remote_addr":"127.0.0.1""#,
    ] {
        assert!(pings.contains(part), "{part}: {pings}");
    }
    assert_eq!(admin(&data, &["check", "pings", "a"]).lines().count(), 4);
    let flips = admin(&data, &["check", "flips", "a", "--json"]);
    assert!(
        flips.contains(r#""from":"down","to":"up"}"#)
            && flips.contains(r#""from":"new","to":"down"}"#),
        "{flips}"
    );
}

#[test]
fn a_long_list_arrives_whole_and_a_client_that_does_not_read_it_does_not_delay_the_stop() {
    let (_directory, data) = temp_data_directory();
    let mut server = ServerProcess::start(&data);
    let key = admin(
        &data,
        &[
            "key",
            "create",
            "--project",
            "default",
            "--access",
            "read-write",
        ],
    );
    let mut client = HttpClient::connect(server.address).unwrap();
    let desc = "d".repeat(16_000);
    for number in 0..300 {
        let body = format!(r#"{{"api_key":"{key}","name":"{number:03}","desc":"{desc}"}}"#);
        assert_eq!(
            client
                .post("/api/v3/checks/", body.as_bytes())
                .unwrap()
                .status,
            201
        );
    }
    let list = admin(&data, &["check", "list", "--json"]);
    let in_order = (0..300).all(|number| list.contains(&format!(r#""name":"{number:03}""#)));
    assert!(list.len() > 300 * desc.len() && in_order);

    let mut stalled = UnixStream::connect(data.join("admin.sock")).unwrap();
    stalled
        .write_all(b"GET /api/overdue/v1/admin/checks HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    server.signal("TERM");
    let ended = server.wait();
    // A connection that delays the stop is closed after a while, which is logged.
    let log = server.log.join("\n");
    assert!(
        ended.success()
            && !log.contains("did not end in time")
            && !log.contains("did not finish in time"),
        "{log}"
    );
}

#[test]
fn every_output_is_available_as_json() {
    let (_directory, data) = temp_data_directory();
    let parsed =
        |words: &[&str]| serde_json::from_str::<serde_json::Value>(&admin(&data, words)).unwrap();
    let uuid = |value: serde_json::Value| value["uuid"].as_str().unwrap().len();
    assert_eq!(uuid(parsed(&["project", "create", "a", "--json"])), 36);
    let key = parsed(&[
        "key",
        "create",
        "--project",
        "a",
        "--access",
        "read-only",
        "--label",
        "CI",
        "--json",
    ]);
    assert_eq!(
        (key["key"].as_str().unwrap().len(), key["id"].is_u64()),
        (32, true)
    );
    let create = [
        "channel",
        "create",
        "--project",
        "a",
        "--kind",
        "email",
        "--name",
        "n",
        "--set",
        "to=a@b.example",
        "--json",
    ];
    assert_eq!(uuid(parsed(&create)), 36);
    assert_eq!(
        uuid(parsed(&["check", "create", "--project", "a", "--json"])),
        36
    );
    for list in [
        &["project", "list"][..],
        &["key", "list"],
        &["channel", "list"],
        &["channel", "kinds"],
        &["check", "list"],
    ] {
        assert!(parsed(&[list, &["--json"]].concat()).is_array(), "{list:?}");
    }
    let moments = [
        "schedule",
        "daily",
        "--tz",
        "UTC",
        "--from",
        "2027-01-31T08:00:00Z",
        "--count",
        "2",
        "--json",
    ];
    assert_eq!(
        parsed(&moments),
        serde_json::json!(["2027-02-01T00:00:00+00:00", "2027-02-02T00:00:00+00:00"])
    );
    assert!(parsed(&["compact", "--json"])["bytes"].is_u64());
}
