//! Imports at the command line, with and without a server: the state that the API shows afterwards,
//! and after the client or the server was killed.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{FILES, fixture};
use crate::client::HttpClient;
use crate::server_process::{
    ProcessOutput, ServerProcess, admin, kill_count, overdue, run, temp_data_directory,
};

/// Key of the project "Home" in the fixtures.
const KEY: &str = "AAAAAAAAAAAAAAAAplain-key_123456";
const BACKUP: &str = "ac167e8f-9731-4501-9202-e291ebc5ae9f";
/// Number of kills in a run, unless `OVERDUE_KILLS` sets it.
const KILLS: u32 = 10;

pub(super) fn import(data: &Path, source: &Path, words: &[&str]) -> ProcessOutput {
    run(overdue(&["import", "healthchecks", "--data"])
        .arg(data)
        .arg(source)
        .args(words))
}

fn get(client: &mut HttpClient, path: &str, key: &str) -> Value {
    let answer = client.get(path, key).unwrap();
    assert_eq!(answer.status, 200, "{path}");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Every answer of the API for a reader of the project with this key.
fn answers(server: &ServerProcess, key: &str) -> Vec<(String, Value)> {
    let mut client = HttpClient::connect(server.address).unwrap();
    let mut all = Vec::new();
    let mut ask = |path: String| {
        let answer = get(&mut client, &path, key);
        all.push((path, answer.clone()));
        answer
    };
    let checks = ask("/api/v3/checks/".into());
    ask("/api/v3/channels/".into());
    for uuid in checks["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["uuid"].as_str().unwrap().to_owned())
    {
        ask(format!("/api/v3/checks/{uuid}"));
        ask(format!("/api/v3/checks/{uuid}/flips/"));
        let pings = ask(format!("/api/v3/checks/{uuid}/pings/"));
        for ping in pings["pings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|ping| !ping["body_url"].is_null())
        {
            ask(format!("/api/v3/checks/{uuid}/pings/{}/body", ping["n"]));
        }
    }
    all
}

/// Waits until the server has noticed all passed deadlines.
fn wait_until_settled(server: &ServerProcess) {
    let give_up = Instant::now() + Duration::from_secs(60);
    let mut client = HttpClient::connect(server.address).unwrap();
    while !get(&mut client, &format!("/api/v3/checks/{BACKUP}"), KEY)["next_ping"].is_null() {
        assert!(
            Instant::now() < give_up,
            "a check that is late does not go down"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Normalises answers: no flips, because the fixtures have only old ones; no server address;
/// times cut to milliseconds as `dumpdata` does. All times in the fixtures end in .123.
fn comparable(answers: Vec<(String, Value)>, address: &str) -> Vec<String> {
    let line = |(path, answer): (String, Value)| {
        let text = format!("{path} {answer}").replace(address, "ADDRESS");
        text.split(".123")
            .map(cut_micros)
            .collect::<Vec<_>>()
            .join(".123")
    };
    answers
        .into_iter()
        .filter(|(path, _)| !path.ends_with("/flips/"))
        .map(line)
        .collect()
}

/// Removes three more digits of a fraction at the beginning.
fn cut_micros(text: &str) -> &str {
    match text.get(..3) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => &text[3..],
        _ => text,
    }
}

#[test]
fn every_answer_of_the_api_equals_that_of_the_old_server() {
    let mut found = Vec::new();
    for (place, (file, _)) in FILES.into_iter().enumerate() {
        let (_directory, data) = temp_data_directory();
        // With and without a server on the database.
        let running = (place == 1).then(|| ServerProcess::start(&data));
        let done = import(
            &data,
            &fixture(file),
            &[
                "--trial",
                "--project",
                "91c1bbb0-ad72-4e9a-b98c-06d289da5ad9=Old home",
                "--json",
            ],
        );
        assert_eq!((done.status, done.err.as_str()), (0, ""), "{file}");
        let report: Value = serde_json::from_str(&done.out).unwrap();
        assert!(report["counts"]["pings"]["carried"].as_u64().unwrap() > 100);
        let server =
            running.unwrap_or_else(|| ServerProcess::start_with(&data, &["--api-rate", "0"]));
        wait_until_settled(&server);
        let all = answers(&server, KEY);
        if place == 0 {
            expect_backup(&all);
        }
        found.push(comparable(all, &server.address.to_string()));
    }
    assert!(
        found[0] == found[1] && found[0] == found[2],
        "{:#?}\n{:#?}\n{:#?}",
        found[0],
        found[1],
        found[2]
    );
}

fn expect_backup(all: &[(String, Value)]) {
    let of = |path: &str| &all.iter().find(|(name, _)| name == path).unwrap().1;
    let check = of(&format!("/api/v3/checks/{BACKUP}"));
    for (field, value) in [
        ("name", json!("Backup")),
        ("slug", json!("backup")),
        ("tags", json!("prod db")),
        ("desc", json!("Nightly,\twith \"quotes\"\nand ž")),
        ("grace", json!(3600)),
        ("n_pings", json!(150)),
        ("schedule", json!("30 3 * * *")),
        ("tz", json!("Europe/Riga")),
        ("methods", json!("POST")),
        ("start_kw", json!("begin")),
        ("success_kw", json!("ok, fine")),
        ("failure_kw", json!("error")),
        ("filter_subject", json!(true)),
        ("filter_body", json!(false)),
        ("filter_http_body", json!(true)),
        ("manual_resume", json!(false)),
        ("last_ping", json!("2024-06-07T18:00:00+00:00")),
        // The old server would have marked the check as down by now.
        ("status", json!("down")),
    ] {
        assert_eq!(check[field], value, "{field}");
    }
    let pings = of(&format!("/api/v3/checks/{BACKUP}/pings/"))["pings"]
        .as_array()
        .unwrap();
    assert_eq!(
        (pings.len(), &pings[0]["n"], &pings[99]["n"]),
        (100, &json!(150), &json!(51))
    );
    let ping = &pings[0];
    assert_eq!(
        (&ping["scheme"], &ping["remote_addr"], &ping["ua"]),
        (&json!("https"), &json!("192.0.2.7"), &json!("curl/8.0"))
    );
    let names = of("/api/v3/checks/")["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["Backup", "Router", "Unheard", "Running", "Paused"]
    );
    let channels = of("/api/v3/channels/")["channels"].as_array().unwrap();
    assert_eq!(
        (&channels[0]["id"], &channels[0]["name"]),
        (
            &json!("77486d0d-1ef2-48c5-b5c0-34e8067c273a"),
            &json!("my email")
        )
    );
    let channel_uuids: Vec<_> = check["channels"].as_str().unwrap().split(',').collect();
    assert!(
        channel_uuids.contains(&"bd11389b-4147-45df-a549-324a2de0ab58")
            && !channel_uuids.contains(&"77486d0d-1ef2-48c5-b5c0-34e8067c273a")
    );
}

#[test]
fn the_command_line_lists_releases_and_imports_again() {
    let (_directory, data) = temp_data_directory();
    let source = fixture("hc.sqlite");
    let only = ["--project", "91c1bbb0-ad72-4e9a-b98c-06d289da5ad9=Old home"];
    let done = import(&data, &source, &[&["--trial"], &only[..]].concat());
    let expected = "overdue: 1 project imported: the project is on trial and sends no alerts \
                until `overdue project release`\n";
    assert_eq!((done.status, done.err.as_str()), (0, expected));
    assert!(
        done.out.starts_with("           source  carried"),
        "{}",
        done.out
    );
    let list: Value = serde_json::from_str(&admin(&data, &["import", "list", "--json"])).unwrap();
    assert_eq!(
        list,
        json!([{ "state": "trial", "name": "Old home", "checks": 5, "begun": null }])
    );
    assert!(
        admin(&data, &["project", "list"])
            .lines()
            .next()
            .unwrap()
            .ends_with("TRIAL")
    );
    // The local database is unchanged.
    let done = import(&data, &source, &[&["--trial"], &only[..]].concat());
    assert!(
        done.err.contains("1 of them in place of an earlier import"),
        "{}",
        done.err
    );
    let dry = |words: &[&str]| {
        let server = ServerProcess::start(&data);
        let done = import(&data, &source, &[&["--dry-run"], words].concat());
        server.stop();
        done
    };
    let here =
        |done: &ProcessOutput| serde_json::from_str::<Value>(&done.out).unwrap()["here"].clone();
    assert_eq!(
        here(&dry(&[&["--json"], &only[..]].concat())),
        json!({ "replaced": 1, "lost_checks": 0, "lost_pings": 0 })
    );
    admin(&data, &["check", "pause", BACKUP]);
    assert_eq!(
        here(&dry(&[&["--json"], &only[..]].concat())),
        json!({ "replaced": 1, "lost_checks": 1, "lost_pings": 0 })
    );
    let lost = "it would replace 1 project of an earlier import; this would be lost: 1 check was \
                pinged or changed here since the last import, and 0 pings arrived here";
    for (words, status) in [(&[][..], 1), (&["--replace"], 0)] {
        let done = dry(&[words, &only[..]].concat());
        assert!(
            done.status == status && done.out.lines().any(|line| line == lost),
            "{}{}",
            done.out,
            done.err
        );
        let last = done.err.lines().last().unwrap();
        assert_eq!(
            last.contains("0 pings arrived here; --replace imports anyway"),
            status == 1,
            "{}",
            done.err
        );
        // There is no next step before the error is corrected.
        assert_eq!(
            done.out.contains("next steps:"),
            status == 0,
            "{}",
            done.out
        );
    }
    let done = import(&data, &source, &[&["--live"], &only[..]].concat());
    assert_eq!((done.status, done.out.as_str()), (1, ""));
    let lost = "overdue: 1 check was pinged or changed here since the last import, and 0 pings \
                arrived here";
    assert!(done.err.starts_with(lost), "{}", done.err);
    let done = import(
        &data,
        &source,
        &[&["--live", "--replace"], &only[..]].concat(),
    );
    assert_eq!(done.status, 2, "{}", done.err);
    assert!(done.err.contains("add --yes"), "{}", done.err);
    let done = import(
        &data,
        &source,
        &[&["--trial", "--replace", "--yes"], &only[..]].concat(),
    );
    let lost = "; 1 check was pinged or changed here since the last import, and 0 pings arrived \
                here: these changes are lost\n";
    assert!(done.status == 0 && done.err.ends_with(lost), "{}", done.err);
    assert_eq!(admin(&data, &["project", "release", "Old home"]), "");
    assert_eq!(admin(&data, &["import", "list", "--json"]), "[]");
    for (words, status, part) in [
        (
            &["project", "release", "Old home"][..],
            1,
            "the project is not on trial",
        ),
        (&["import", "abandon", "7"], 1, "no such import is open"),
    ] {
        let done = run(overdue(words).arg("--data").arg(&data));
        assert_eq!(done.status, status);
        assert!(done.err.contains(part), "{}", done.err);
    }
    // Another project has the name. The failed attempt changes nothing.
    admin(&data, &["project", "create", "Taken"]);
    let taken = ["--project", "72b33a1c-b0bf-49cd-93db-0102962414c7=Taken"];
    let done = import(&data, &source, &[&["--live"], &taken[..]].concat());
    for (done, shown) in [(done, false), (dry(&taken), true)] {
        assert_eq!(
            (
                done.status,
                done.out.starts_with("           source  carried")
            ),
            (1, shown),
            "{}",
            done.err
        );
        let expected = [
            r#"a project "Taken" with another UUID exists"#,
            "with --project 72b33a1c-b0bf-49cd-93db-0102962414c7=NEW",
            "nothing was imported",
        ];
        assert!(
            expected.iter().all(|part| done.err.contains(part)),
            "{}",
            done.err
        );
    }
    assert_eq!(admin(&data, &["import", "list", "--json"]), "[]");
}

const CHECKS: u64 = 30;
const PINGS: u64 = 60;

/// A Healthchecks dump of one project. All its checks contain the version number of the dump.
fn dump(version: u32) -> String {
    let at = "2024-06-01T12:00:00.123Z";
    let user = json!({
        "password": "!", "is_superuser": false, "username": "a", "email": "a@example.org",
        "is_active": true, "date_joined": at,
    });
    let mut rows = vec![
        json!({ "model": "auth.user", "pk": 1, "fields": user }),
        json!({
            "model": "accounts.profile", "pk": 1, "fields": { "ping_log_limit": 1000, "user": 1 },
        }),
        json!({
            "model": "accounts.project", "pk": 1,
            "fields": {
                "code": "91c1bbb0-ad72-4e9a-b98c-06d289da5ad9", "name": "Home", "owner": 1,
                "api_key": KEY, "api_key_readonly": "", "badge_key": "b", "ping_key": null,
                "show_slugs": false,
            },
        }),
    ];
    for check in 1..=CHECKS {
        rows.push(json!({
            "model": "api.check", "pk": check,
            "fields": {
                "name": format!("check {check}"), "slug": "", "tags": "",
                "code": format!("00000000-0000-4000-8000-{check:012}"), "desc": version.to_string(),
                "project": 1, "created": at, "kind": "simple", "timeout": "1 00:00:00",
                "grace": "01:00:00", "schedule": "", "tz": "UTC", "filter_subject": false,
                "filter_body": false, "filter_http_body": false, "filter_default_fail": false,
                "start_kw": "", "success_kw": "", "failure_kw": "", "methods": "",
                "manual_resume": false, "badge_key": format!("00000000-0000-4000-9000-{check:012}"),
                "n_pings": PINGS, "last_ping": null, "last_start": null, "last_start_rid": null,
                "last_duration": null, "status": "paused",
            },
        }));
        for n in 1..=PINGS {
            rows.push(json!({
                "model": "api.ping", "pk": check * PINGS + n,
                "fields": {
                    "n": n, "owner": check, "created": at, "kind": "", "scheme": "http",
                    "remote_addr": null, "method": "GET", "ua": "", "body_raw": "Ym9keQ==",
                    "object_size": null, "exitstatus": null, "rid": null,
                },
            }));
        }
    }
    Value::Array(rows).to_string()
}

/// Returns the version that is visible. All checks must agree. `None`: no import is visible.
fn version(server: &ServerProcess) -> Option<u32> {
    let mut client = HttpClient::connect(server.address).unwrap();
    let answer = client.get("/api/v3/checks/", KEY).unwrap();
    if answer.status == 401 {
        return None;
    }
    let checks: Value = serde_json::from_slice(&answer.body).unwrap();
    let checks = checks["checks"].as_array().unwrap();
    assert_eq!(checks.len() as u64, CHECKS);
    let version = checks[0]["desc"].as_str().unwrap();
    for check in checks {
        assert_eq!(check["desc"], version);
        let pings = get(
            &mut client,
            &format!("/api/v3/checks/{}/pings/", check["uuid"].as_str().unwrap()),
            KEY,
        );
        assert_eq!(pings["pings"].as_array().unwrap().len() as u64, PINGS);
    }
    Some(version.parse().unwrap())
}

#[test]
fn an_import_that_is_killed_anywhere_is_visible_completely_or_not_at_all() {
    let (directory, data) = temp_data_directory();
    let source = directory.path().join("hc.json");
    let kills = kill_count(KILLS);
    let rate = ["--api-rate", "0"];
    let mut server = ServerProcess::start_with(&data, &rate);
    // Measures the duration of one import, over which the kills are spread.
    std::fs::write(&source, dump(0)).unwrap();
    let begun = Instant::now();
    assert_eq!(import(&data, &source, &["--trial"]).status, 0);
    let whole = begun.elapsed();
    assert_eq!(version(&server), Some(0));
    let mut before = 0;
    let mut random = 1_u64;
    for round in 1..=kills {
        std::fs::write(&source, dump(round)).unwrap();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let point = whole.mul_f64((random >> 40) as f64 / (1_u64 << 24) as f64);
        let mut client = overdue(&["import", "healthchecks", "--trial", "--data"]);
        let mut client = client
            .arg(&data)
            .arg(&source)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(point);
        if round % 2 == 0 {
            client.kill().unwrap();
            client.wait().unwrap();
        } else {
            server.kill();
            // The client ends when the server is gone; otherwise it works without a server.
            client.wait().unwrap();
            server = ServerProcess::start_with(&data, &rate);
        }
        // The import of a killed client ends, committed or not.
        let give_up = Instant::now() + Duration::from_secs(60);
        while admin(&data, &["import", "list", "--json"]).contains("staged") {
            assert!(
                Instant::now() < give_up,
                "an import without a client continues"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let found = version(&server).unwrap();
        assert!(
            found == before || found == round,
            "round {round}: {found} is visible after {before}"
        );
        before = found;
    }
    assert_eq!(import(&data, &source, &["--trial"]).status, 0);
    assert_eq!(version(&server), Some(kills));
    server.stop();
    let done = run(overdue(&["verify", "--data"]).arg(&data));
    assert_eq!(done.status, 0, "{}{}", done.out, done.err);
}
