//! An import can be exported as a file for `diff` and `apply`, and the server starts with the flags
//! that the report prints.

use super::fixture;
use super::healthchecks::import;
use crate::server_process::{admin, overdue, run, temp_data_directory};

#[test]
fn an_import_is_exported_as_a_file_that_can_be_applied() {
    let (directory, data) = temp_data_directory();
    let done = import(&data, &fixture("hc.json"), &["--live"]);
    assert_eq!(done.status, 0, "{}", done.err);
    let file = directory.path().join("all.toml");
    admin(&data, &["export", "--secrets", file.to_str().unwrap()]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("incomplete = true"),
        "some channels lack what only a SECRET_KEY's file would give:\n{text}"
    );
    let same = run(overdue(&["diff", "--data"]).arg(&data).arg(&file));
    assert_eq!(
        (same.status, same.out.as_str()),
        (0, "nothing to do\n"),
        "{}",
        same.err
    );
    let elsewhere = directory.path().join("elsewhere");
    let output = run(overdue(&["apply", "--data"]).arg(&elsewhere).arg(&file));
    assert_eq!(output.status, 0, "{}", output.err);
    let listed = run(overdue(&["channel", "list", "--data"]).arg(&elsewhere));
    assert!(
        listed.out.contains("cannot deliver: url is missing"),
        "{}",
        listed.out
    );
}

#[test]
fn an_unusual_row_does_not_abort_an_import() {
    let (directory, data) = temp_data_directory();
    let long = "x".repeat(120);
    let uuid = |end: u32| format!("6f3a0f6e-0c9b-4f0e-9b1b-{end:012}");
    let check = |id: u32, name: &str, slug: &str| {
        serde_json::json!({
            "model": "api.check", "pk": id,
            "fields": {
                "code": uuid(id), "project": 1, "name": name, "slug": slug,
                "created": "2026-01-01T00:00:00Z", "kind": "simple", "timeout": "01:00:00",
                "grace": "01:00:00", "tz": "UTC", "status": "new", "n_pings": 2,
                "start_kw": "k".repeat(300),
            },
        })
    };
    let ping = |n: u32, addr: &str, scheme: &str| {
        serde_json::json!({
            "model": "api.ping", "pk": n,
            "fields": {
                "owner": 1, "n": n, "created": "2026-01-01T00:00:00Z", "kind": null,
                "scheme": scheme, "remote_addr": addr, "method": "GET", "ua": "",
            },
        })
    };
    let rows = serde_json::json!([
        {
            "model": "auth.user", "pk": 1,
            "fields": { "email": "ann@example.org", "username": "a" },
        },
        {
            "model": "accounts.project", "pk": 1,
            "fields": { "code": uuid(99), "name": "P", "owner": 1, "badge_key": "bk" },
        },
        check(1, &long, &long), check(2, "Capitals", "BackUp"),
        {
            "model": "api.channel", "pk": 1,
            "fields": {
                "code": uuid(50), "project": 1, "name": "", "kind": "group", "value": "",
                "checks": [2],
            },
        },
        ping(1, "unknown", "https,http"), ping(2, "[2001:db8::1]:80", "wss"),
    ]);
    let file = directory.path().join("hc.json");
    std::fs::write(&file, rows.to_string()).unwrap();
    let done = import(&data, &file, &["--live"]);
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(
        done.out
            .contains(r#"group "" of project "P", for 1 check ("Capitals")"#),
        "{}",
        done.out
    );
    // Imported objects can be read, stored again, and written as a file.
    let listed = admin(&data, &["check", "list", "--project", "P", "--json"]);
    assert!(
        listed.contains(&long) && listed.contains("BackUp"),
        "{listed}"
    );
    let text = admin(&data, &["export"]);
    let exported = directory.path().join("all.toml");
    std::fs::write(&exported, &text).unwrap();
    for data in [&data, &directory.path().join("elsewhere")] {
        let applied = run(overdue(&["apply", "--data"]).arg(data).arg(&exported));
        assert_eq!(applied.status, 0, "{}", applied.err);
    }
}

#[test]
fn an_incomplete_channel_follows_the_source_until_it_is_enabled_here() {
    let (directory, data) = temp_data_directory();
    let uuid = |end: u32| format!("6f3a0f6e-0c9b-4f0e-9b1b-{end:012}");
    let file = directory.path().join("hc.json");
    let bring = |url: &str| {
        let channel = |id: u32, value: &str| {
            let fields = serde_json::json!({
                "code": uuid(id), "project": 1, "name": format!("c{id}"), "kind": "webhook",
                "value": value,
            });
            serde_json::json!({ "model": "api.channel", "pk": id, "fields": fields })
        };
        let value = serde_json::json!({
            "url_down": url, "headers_down": { "Host": "hooks", "X-Kept": "1" },
        });
        let rows = serde_json::json!([
            {
                "model": "auth.user", "pk": 1,
                "fields": { "email": "ann@example.org", "username": "a" },
            },
            {
                "model": "accounts.project", "pk": 1,
                "fields": { "code": uuid(99), "name": "P", "owner": 1, "badge_key": "bk" },
            },
            channel(50, &value.to_string()), channel(51, "unreadable"),
        ]);
        std::fs::write(&file, rows.to_string()).unwrap();
        let done = import(&data, &file, &["--trial"]);
        assert_eq!(done.status, 0, "{}", done.err);
        done.out
    };
    let listed = || admin(&data, &["channel", "list", "--show-settings"]);
    let report = bring("https://a.example/hook");
    // No header is missing: one is refused, and the rest is unchanged.
    assert!(
        report.contains(&format!("overdue channel enable {}\n", uuid(50))),
        "{report}"
    );
    assert!(
        report.contains(
            r#"imported without down-header.NAME: "down-header.Host" is set by overdue itself"#
        ),
        "{report}"
    );
    assert!(
        !report.contains("NAME=…") && report.contains("--set down-url=…"),
        "{report}"
    );
    bring("https://b.example/hook");
    let shown = listed();
    assert!(
        shown.contains("https://b.example")
            && !shown.contains("https://a.example")
            && shown.contains("x-kept"),
        "{shown}"
    );
    for channel in [uuid(50), uuid(51)] {
        admin(&data, &["channel", "enable", &channel]);
    }
    assert!(
        listed().contains("cannot deliver: there is no URL; give down-url=URL, up-url=URL or both"),
        "{}",
        listed()
    );
    bring("https://c.example/hook");
    let shown = listed();
    assert!(
        shown.contains("https://b.example") && shown.contains("untested"),
        "a channel that was enabled here stays enabled: {shown}"
    );
}
