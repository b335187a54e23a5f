//! Metrics for Prometheus: their content, their format and access to them.

use std::collections::{BTreeMap, BTreeSet};

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, Transports};
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::UniqueKey;
use overdue::domain::project::{ChannelName, SecretHash};
use overdue::domain::text::{Name, Slug, Tags};
use overdue::engine::command::{Command, NewChannel};
use serde_json::json;
use uuid::Uuid;

use crate::support::commands::create_check;
use crate::support::server::{TestResponse, TestServer, new_project};

const TOKEN: &str = "a token of the owner's own";

/// Parses the series of a text by name and labels, and checks the format.
fn series(answer: &TestResponse) -> BTreeMap<String, f64> {
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/plain; version=0.0.4; charset=utf-8")),
        "{answer:?}"
    );
    assert!(answer.text().ends_with('\n'));
    let mut series = BTreeMap::new();
    let mut described = BTreeSet::new();
    let mut kind = ("", "");
    let mut help = "";
    for line in answer.text().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').unwrap();
            assert!(described.insert(name) && words.ends_with('.'), "{line}");
            help = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            kind = rest.split_once(' ').unwrap();
            assert_eq!(kind.0, help);
            assert!(
                ["counter", "gauge", "histogram"].contains(&kind.1)
                    && kind.0.ends_with("_total") >= (kind.1 == "counter"),
                "{line}"
            );
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            let rest = family
                .strip_prefix(kind.0)
                .unwrap_or_else(|| panic!("{line} after {kind:?}"));
            assert!(
                rest.is_empty()
                    || kind.1 == "histogram" && ["_bucket", "_sum", "_count"].contains(&rest),
                "{line}"
            );
            assert_eq!(
                series.insert(name.to_owned(), value.parse().unwrap()),
                None,
                "{line} stands there twice"
            );
        }
    }
    series
}

async fn of_server(server: &TestServer) -> BTreeMap<String, f64> {
    series(
        &server
            .send(
                "GET",
                "/metrics",
                &[("Authorization", &format!("Bearer {TOKEN}"))],
                b"",
            )
            .await,
    )
}

async fn start() -> TestServer {
    TestServer::start_with(|config| config.metrics_token = Some(SecretHash::of(TOKEN.as_bytes())))
        .await
}

#[tokio::test]
async fn server_metrics_require_the_token() {
    let server = start().await;
    for (method, authorization, status) in [
        ("GET", None, 401),
        ("GET", Some("Bearer "), 401),
        ("GET", Some("Bearer nonsense"), 401),
        ("GET", Some("Basic YTpi"), 401),
        ("GET", Some(TOKEN), 401),
        ("POST", Some("Bearer"), 405),
    ] {
        let headers: Vec<_> = authorization
            .map(|value| ("Authorization", value))
            .into_iter()
            .collect();
        let refused = server.send(method, "/metrics", &headers, b"").await;
        assert_eq!(
            (refused.status, refused.json()["error"].is_string()),
            (status, true),
            "{authorization:?}"
        );
    }
    // A project's key does not give access to them.
    let refused = server
        .send(
            "GET",
            "/metrics",
            &[(
                "Authorization",
                &format!("Bearer {}", server.main.read_write_key),
            )],
            b"",
        )
        .await;
    assert_eq!(refused.json()["error"], "wrong api key");
    assert!(of_server(&server).await.contains_key("overdue_writable"));
    let bearer = format!("bEARER {TOKEN}");
    let head = server
        .send("HEAD", "/metrics", &[("Authorization", &bearer)], b"")
        .await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    server.stop().await;
    let none = TestServer::start().await;
    assert_eq!(
        none.send("GET", "/metrics", &[("Authorization", "Bearer ")], b"")
            .await
            .status,
        404,
        "there is no token"
    );
    none.stop().await;
}

#[tokio::test]
async fn events_are_counted() {
    let server = start().await;
    let before = of_server(&server).await;
    assert_eq!(
        before[r#"overdue_pings_total{kind="success",scheme="http"}"#],
        0.0
    );
    let check = server
        .create_check(json!({ "timeout": 60, "grace": 60 }))
        .await;
    let url = format!("/ping/{}", check["uuid"].as_str().unwrap());
    for rest in ["", "/start", "/fail", "", "/0", "/log"] {
        assert_eq!(server.get(&format!("{url}{rest}")).await.status, 200);
    }
    assert_eq!(
        server
            .send("GET", &url, &[("X-Forwarded-Proto", "https")], b"")
            .await
            .status,
        200
    );
    assert_eq!(
        server
            .get("/ping/6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f")
            .await
            .status,
        404
    );
    assert_eq!(server.get(&format!("{url}/300")).await.status, 400);
    assert_eq!(server.send("DELETE", &url, &[], b"").await.status, 405);
    // A disabled channel, one that was never used, and a command that this server may not run.
    for (kind, pairs) in [
        ("webhook", [("down-url", "http://a/")]),
        ("webhook", [("down-url", "http://a/")]),
        ("shell", [("down-command", "true")]),
    ] {
        let settings = ChannelSettings::parse(channels::find_kind(kind).unwrap(), pairs).unwrap();
        let uuid = server.handle.random().uuid();
        let name = ChannelName::parse(kind).unwrap();
        let new = NewChannel {
            uuid,
            project: server.main.id,
            name,
            settings,
            set_by_operator: true,
        };
        server
            .handle
            .call(Command::CreateChannel(Box::new(new)))
            .await
            .unwrap()
            .unwrap();
    }
    let first = server.handle.with_state(|state| {
        state
            .project(server.main.id)
            .unwrap()
            .channels
            .keys()
            .copied()
            .min()
            .unwrap()
    });
    server
        .handle
        .call(Command::DisableChannel {
            channel: first,
            reason: "enough".into(),
        })
        .await
        .unwrap()
        .unwrap();
    server.handle.set_transports(Transports {
        mail: true,
        commands: false,
    });
    // A deadline that is noticed 3 s late, before the next ping.
    server.clock.advance_secs(123);
    assert_eq!(server.get(&format!("{url}/log")).await.status, 200);
    let after = of_server(&server).await;
    for (name, expected) in [
        (r#"overdue_pings_total{kind="success",scheme="http"}"#, 3.0),
        (r#"overdue_pings_total{kind="success",scheme="https"}"#, 1.0),
        (r#"overdue_pings_total{kind="start",scheme="http"}"#, 1.0),
        (r#"overdue_pings_total{kind="fail",scheme="http"}"#, 1.0),
        (r#"overdue_pings_total{kind="log",scheme="http"}"#, 2.0),
        (r#"overdue_pings_total{kind="log",scheme="email"}"#, 0.0),
        (r#"overdue_pings_refused_total{reason="not_found"}"#, 1.0),
        (r#"overdue_pings_refused_total{reason="malformed"}"#, 1.0),
        (r#"overdue_pings_refused_total{reason="method"}"#, 1.0),
        ("overdue_flips_total{to=\"up\"}", 2.0),
        ("overdue_flips_total{to=\"down\"}", 2.0),
        ("overdue_deadline_lateness_seconds_count", 1.0),
        ("overdue_deadline_lateness_seconds_sum", 3.0),
        (r#"overdue_deadline_lateness_seconds_bucket{le="2.5"}"#, 0.0),
        ("overdue_deadlines_late", 0.0),
        ("overdue_projects", 1.0),
        ("overdue_checks", 1.0),
        ("overdue_database_pings", 8.0),
        ("overdue_database_dead_pings", 0.0),
        ("overdue_writable", 1.0),
        ("overdue_channels{status=\"ok\"}", 0.0),
        ("overdue_channels{status=\"untested\"}", 1.0),
        (r#"overdue_channels{status="test failed"}"#, 0.0),
        ("overdue_channels{status=\"failing\"}", 0.0),
        (r#"overdue_channels{status="cannot deliver"}"#, 1.0),
        ("overdue_channels{status=\"disabled\"}", 1.0),
        ("overdue_queue_commands", 0.0),
    ] {
        assert_eq!(after[name], expected, "{name}");
    }
    assert!(
        after["overdue_commit_seconds_count"] >= 9.0
            && after["overdue_commit_seconds_count"] == after["overdue_batch_commands_count"]
    );
    assert!(
        after["overdue_connections{door=\"http\"}"] >= 1.0
            && after["overdue_database_file_bytes"] > 0.0
    );
    assert!(
        !after.contains_key("overdue_backup_newest_timestamp_seconds"),
        "there is none"
    );
    assert!(
        before.keys().all(|name| after.contains_key(name)),
        "no series vanishes"
    );
    assert_eq!(
        after["process_start_time_seconds"],
        before["process_start_time_seconds"]
    );
    server.stop().await;
}

#[tokio::test]
async fn project_metrics_are_served_to_its_keys_under_the_usual_names() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let uuid = server
        .handle
        .with_state(|state| state.project(server.main.id).unwrap().project.uuid);
    let ro = &server.main.read_only_key;
    let rw = &server.main.read_write_key;
    let check = server
        .create_check(
            json!({ "name": "Night \"db\"\n\\", "tags": "a b", "timeout": 60, "grace": 3600 }),
        )
        .await;
    let quiet = server
        .create_check(json!({ "name": "quiet", "tags": "b" }))
        .await;
    let down = server
        .create_check(json!({ "name": "down", "tags": "c" }))
        .await;
    server
        .api(
            "POST",
            &format!("/checks/{}/pause", quiet["uuid"].as_str().unwrap()),
            "",
        )
        .await;
    let ping = async |check: &serde_json::Value, rest: &str| {
        assert_eq!(
            server
                .get(&format!("/ping/{}{rest}", check["uuid"].as_str().unwrap()))
                .await
                .status,
            200
        );
    };
    ping(&check, "/start").await;
    server.clock.advance_secs(2);
    ping(&check, "").await;
    ping(&down, "/fail").await;
    server.clock.advance_secs(61);
    ping(&check, "/start").await;

    let bearer = |key: &str| format!("Bearer {key}");
    let metrics = series(&server.get(&format!("/projects/{uuid}/metrics/{ro}")).await);
    let unique = |check: &serde_json::Value| {
        overdue::domain::ids::UniqueKey::of_check(check["uuid"].as_str().unwrap().parse().unwrap())
            .to_string()
    };
    let night = format!(
        "{{name=\"Night \\\"db\\\"\\n\\\\\",tags=\"a b\",unique_key=\"{}\"}}",
        unique(&check)
    );
    let paused = format!(
        r#"{{name="quiet",tags="b",unique_key="{}"}}"#,
        unique(&quiet)
    );
    let failed = format!(r#"{{name="down",tags="c",unique_key="{}"}}"#, unique(&down));
    let start = 1_795_168_800.0;
    for (name, labels, wanted) in [
        ("hc_check_up", &night, Some(1.0)),
        ("hc_check_up", &paused, Some(1.0)),
        ("hc_check_up", &failed, Some(0.0)),
        ("hc_check_started", &night, Some(1.0)),
        ("hc_check_started", &failed, Some(0.0)),
        ("hc_check_grace", &night, Some(1.0)),
        ("hc_check_grace", &failed, Some(0.0)),
        ("hc_check_paused", &night, Some(0.0)),
        ("hc_check_paused", &paused, Some(1.0)),
        (
            "overdue_check_last_ping_timestamp_seconds",
            &night,
            Some(start + 2.0),
        ),
        ("overdue_check_last_ping_timestamp_seconds", &paused, None),
        ("overdue_check_last_duration_seconds", &night, Some(2.0)),
        ("overdue_check_last_duration_seconds", &failed, None),
        (
            "overdue_check_deadline_timestamp_seconds",
            &night,
            Some(start + 2.0 + 60.0 + 3600.0),
        ),
        ("overdue_check_deadline_timestamp_seconds", &failed, None),
        ("hc_tag_up", &"{tag=\"a\"}".to_owned(), Some(1.0)),
        ("hc_tag_up", &"{tag=\"c\"}".to_owned(), Some(0.0)),
        ("hc_checks_total", &String::new(), Some(3.0)),
        ("hc_checks_down_total", &String::new(), Some(1.0)),
    ] {
        assert_eq!(
            metrics.get(&format!("{name}{labels}")).copied(),
            wanted,
            "{name}{labels}"
        );
    }
    let wanted: Vec<_> = metrics.keys().collect();
    for (path, key) in [
        (format!("/projects/{uuid}/checks/metrics/{ro}"), None),
        (format!("/projects/{uuid}/metrics/"), Some(bearer(ro))),
        (format!("/projects/{uuid}/metrics/"), Some(bearer(rw))),
    ] {
        let headers: Vec<_> = key
            .iter()
            .map(|key| ("Authorization", key.as_str()))
            .collect();
        assert_eq!(
            series(&server.send("GET", &path, &headers, b"").await)
                .keys()
                .collect::<Vec<_>>(),
            wanted,
            "{path}"
        );
    }
    let nobody = "x".repeat(32);
    for (path, key, status, expected) in [
        (
            format!("/projects/{uuid}/metrics/{rw}"),
            None,
            401,
            "wrong api key",
        ),
        (
            format!("/projects/{uuid}/metrics/{nobody}"),
            None,
            401,
            "wrong api key",
        ),
        (
            format!("/projects/{uuid}/metrics/short"),
            None,
            401,
            "missing api key",
        ),
        (
            format!("/projects/{uuid}/metrics/"),
            None,
            401,
            "missing api key",
        ),
        (
            format!("/projects/{uuid}/metrics/"),
            Some(bearer("short")),
            401,
            "missing api key",
        ),
        (
            format!("/projects/{uuid}/metrics/{}", other.read_only_key),
            None,
            403,
            "access denied",
        ),
        (
            format!("/projects/{check}/metrics/{ro}", check = uuid::Uuid::nil()),
            None,
            403,
            "access denied",
        ),
    ] {
        let headers: Vec<_> = key
            .iter()
            .map(|key| ("Authorization", key.as_str()))
            .collect();
        let refused = server.send("GET", &path, &headers, b"").await;
        assert_eq!(
            (refused.status, refused.json()["error"].as_str()),
            (status, Some(expected)),
            "{path}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn one_scrape_has_the_checks_of_all_projects() {
    let server = start().await;
    let other = new_project(&server.handle, "Second \"one\"").await;
    let backup = server
        .create_check(json!({ "name": "Backup", "slug": "backup", "tags": "db" }))
        .await;
    server.ping(&backup, "/fail").await;
    for (project, number, name, tags) in [
        (server.main.id, 7, "", "db"),
        (other.id, 8, "Backup", "db web"),
    ] {
        let edit = CheckEdit {
            name: Some(Name::parse(name).unwrap()),
            slug: Some(Slug::parse("s").unwrap()),
            tags: Some(Tags::parse(tags).unwrap()),
            ..CheckEdit::default()
        };
        let command = create_check(project, number, edit);
        server.handle.call(command).await.unwrap().unwrap();
    }
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Authorization", bearer.as_str())];
    let answer = server.send("GET", "/metrics/checks", &headers, b"").await;
    let metrics = series(&answer);
    let main = server.handle.with_state(|state| {
        let project = &state.project(server.main.id).unwrap().project;
        project.name.as_str().to_owned()
    });
    let key = |number| UniqueKey::of_check(Uuid::from_u128(number));
    for (name, value) in [
        (
            format!(
                "hc_check_up{{project=\"{main}\",name=\"Backup\",slug=\"backup\",tags=\"db\",\
                 unique_key=\"{}\"}}",
                UniqueKey::of_check(backup["uuid"].as_str().unwrap().parse().unwrap())
            ),
            0.0,
        ),
        (
            format!(
                "hc_check_up{{project=\"{main}\",name=\"s\",slug=\"s\",tags=\"db\",\
                 unique_key=\"{}\"}}",
                key(7)
            ),
            1.0,
        ),
        (
            format!(
                "hc_check_grace{{project=\"Second \\\"one\\\"\",name=\"Backup\",slug=\"s\",\
                 tags=\"db web\",unique_key=\"{}\"}}",
                key(8)
            ),
            0.0,
        ),
        (format!("hc_tag_up{{project=\"{main}\",tag=\"db\"}}"), 0.0),
        (
            "hc_tag_up{project=\"Second \\\"one\\\"\",tag=\"db\"}".into(),
            1.0,
        ),
        (format!("hc_checks_total{{project=\"{main}\"}}"), 2.0),
        (format!("hc_checks_down_total{{project=\"{main}\"}}"), 1.0),
        (
            "hc_checks_total{project=\"Second \\\"one\\\"\"}".into(),
            1.0,
        ),
    ] {
        assert_eq!(metrics.get(&name), Some(&value), "{name}: {metrics:#?}");
    }
    for (path, headers, status) in [
        ("/metrics/checks", &[][..], 401),
        ("/metrics/checks", &[("Authorization", "Bearer x")], 401),
        ("/metrics/nonsense", &headers, 404),
    ] {
        let refused = server.send("GET", path, headers, b"").await;
        assert_eq!(refused.status, status, "{path} {headers:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn metrics_of_a_large_project_are_sent_in_chunks_and_complete() {
    const CHECKS: u128 = 2500;
    let server = TestServer::start().await;
    for number in 1..=CHECKS {
        let edit = CheckEdit {
            name: Some(Name::parse(&format!("{number} {}", "n".repeat(90))).unwrap()),
            tags: Some(Tags::parse(&format!("t{} all", number % 300)).unwrap()),
            ..CheckEdit::default()
        };
        server
            .handle
            .call(create_check(server.main.id, number, edit))
            .await
            .unwrap()
            .unwrap();
    }
    let uuid = server
        .handle
        .with_state(|state| state.project(server.main.id).unwrap().project.uuid);
    let answer = server
        .get(&format!(
            "/projects/{uuid}/metrics/{}",
            server.main.read_only_key
        ))
        .await;
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let metrics = series(&answer);
    for name in [
        "hc_check_up",
        "hc_check_started",
        "hc_check_grace",
        "hc_check_paused",
    ] {
        assert_eq!(
            metrics
                .keys()
                .filter(|key| key.starts_with(&format!("{name}{{")))
                .count() as u128,
            CHECKS,
            "{name}"
        );
    }
    assert_eq!(
        metrics
            .keys()
            .filter(|key| key.starts_with("hc_tag_up"))
            .count(),
        301
    );
    assert_eq!(
        (metrics["hc_checks_total"], metrics["hc_checks_down_total"]),
        (CHECKS as f64, 0.0)
    );
    server.stop().await;
}
