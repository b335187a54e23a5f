//! `GET /checks/`: order, filters, and entity tags that stay valid until the list changes.

use overdue::engine::command::Command;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop, prop_assert_eq, prop_oneof};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{path, refused, text};
use crate::support::server::{TestResponse, TestServer, new_project};

fn names(answer: &TestResponse) -> Vec<String> {
    let list = answer.json();
    list["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| text(check, "name").to_owned())
        .collect()
}

#[tokio::test]
async fn checks_come_oldest_first_and_pass_every_filter() {
    let server = TestServer::start().await;
    for (name, slug, tags) in [
        ("a", "x", " prod  db\t "),
        ("b", "x", "prod"),
        ("c", "y", "db Prod ž#1"),
        ("d", "", ""),
    ] {
        server
            .create_check(json!({ "name": name, "slug": slug, "tags": tags }))
            .await;
        server.clock.advance_secs(-60);
    }
    for (query, expected) in [
        ("", "abcd"),
        ("?", "abcd"),
        ("?unknown=1&slug=&x", "abcd"),
        ("?slug=x", "ab"),
        ("?slug=y&slug=x", "ab"),
        ("?slug=x&slug=", "abcd"),
        ("?slug=X", ""),
        ("?slug=none", ""),
        ("?slug=%ff", ""),
        ("?slug=%ff&slug=x", "ab"),
        ("?tag=prod", "ab"),
        ("?tag=Prod", "c"),
        ("?tag=prod&tag=db", "a"),
        ("?tag=db&tag=db", "ac"),
        ("?tag=", ""),
        ("?tag=prod&tag=", ""),
        ("?tag=prod+db", ""),
        ("?tag=%C5%BE%231", "c"),
        ("?tag=%ff", ""),
        ("?tag=prod&tag=%ff", ""),
        ("?%ff=1", "abcd"),
        ("?tag=%", ""),
        ("?slug=x&tag=db", "a"),
        ("?SLUG=x", "abcd"),
    ] {
        let answer = server.api("GET", &format!("/checks/{query}"), "").await;
        assert_eq!(
            (answer.status, names(&answer).concat()),
            (200, expected.to_owned()),
            "{query}"
        );
    }
    let tags = |count| format!("/checks/?slug=x{}", "&tag=prod".repeat(count));
    assert_eq!(names(&server.api("GET", &tags(20), "").await), ["a", "b"]);
    refused(
        &server.api("GET", &tags(21), "").await,
        400,
        "too many tags",
    );
    let other = new_project(&server.handle, "other").await;
    assert_eq!(
        server
            .keyed(&other.read_write_key, "GET", "/api/v3/checks/", "")
            .await
            .json(),
        json!({ "checks": [] })
    );
    server.stop().await;
}

#[tokio::test]
async fn a_list_shows_the_same_fields_as_get() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "name": "a", "success_kw": "ok", "filter_subject": true }))
        .await;
    let single = server.now(&check).await;
    assert_eq!(
        server.api("GET", "/checks/", "").await.json(),
        json!({ "checks": [single] })
    );
    assert_eq!(
        (single.get("subject"), &single["success_kw"]),
        (None, &json!("ok"))
    );
    server.stop().await;
}

/// Sends a request with a tag. Returns whether nothing has changed, and the tag of the answer.
async fn poll(server: &TestServer, path: &str, key: &str, tag: &str) -> (bool, String) {
    let answer = server
        .send(
            "GET",
            path,
            &[("X-Api-Key", key), ("If-None-Match", tag)],
            b"",
        )
        .await;
    assert_eq!(answer.body.is_empty(), answer.status == 304, "{answer:?}");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
    (
        answer.status == 304,
        answer.header("ETag").unwrap().to_owned(),
    )
}

#[tokio::test]
async fn a_tag_is_valid_until_something_changes() {
    let server = TestServer::start().await;
    let rw = server.main.read_write_key.clone();
    let check = server
        .create_check(json!({ "timeout": 60, "grace": 120 }))
        .await;
    server.ping(&check, "").await;
    let list = "/api/v3/checks/";
    let mut tag = poll(&server, list, &rw, "").await.1;
    let sent_tag = tag.clone();
    for tags in [
        sent_tag.clone(),
        format!("W/{sent_tag}"),
        format!("\"x\", {sent_tag}"),
        format!("{sent_tag},\"y\""),
    ] {
        assert_eq!(
            poll(&server, list, &rw, &tags).await,
            (true, sent_tag.clone())
        );
    }
    for tags in [
        "x",
        "\"\"",
        "\"",
        "W/",
        &sent_tag[1..],
        "\"0-0-0-w-0-7fffffffffffffff\"",
    ] {
        assert!(!poll(&server, list, &rw, tags).await.0, "{tags}");
    }
    assert!(
        !poll(&server, list, &server.main.read_only_key, &sent_tag)
            .await
            .0,
        "another key may see less"
    );
    // Changes by time alone: grace begins and ends, the writer marks the check down a moment later,
    // and the clock may be set back.
    let steps = [
        (59, true),
        (1, false),
        (-1, false),
        (1, false),
        (119, true),
        (1, false),
        (1, false),
        (86_400, true),
        (-90_000, false),
    ];
    for (seconds, unchanged) in steps {
        server.clock.advance_secs(seconds);
        // Everything due is done before the next command.
        server
            .handle
            .call(Command::EvaluateChecks(Vec::new()))
            .await
            .unwrap()
            .unwrap();
        let (same, next) = poll(&server, list, &rw, &tag).await;
        assert_eq!(same, unchanged, "{seconds}");
        tag = next;
    }
    // Changes of every sort.
    let update = path(&check, "");
    for (method, path, body) in [
        ("POST", update.as_str(), r#"{"name": "b"}"#),
        ("POST", "/checks/", "{}"),
        ("POST", &format!("{update}/pause"), ""),
        ("POST", &format!("{update}/resume"), ""),
        ("DELETE", update.as_str(), ""),
    ] {
        let tag = poll(&server, list, &rw, "").await.1;
        assert!(poll(&server, list, &rw, &tag).await.0, "{method} {path}");
        assert!(server.api(method, path, body).await.status < 300);
        assert!(!poll(&server, list, &rw, &tag).await.0, "{method} {path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn pings_and_channels_change_their_lists() {
    let server = TestServer::start().await;
    let rw = server.main.read_write_key.clone();
    let check = server.create_check(json!({})).await;
    let pings = format!("/api/v3{}", path(&check, "/pings/"));
    for list in ["/api/v3/channels/", pings.as_str(), "/api/v3/checks/"] {
        let tag = poll(&server, list, &rw, "").await.1;
        assert!(poll(&server, list, &rw, &tag).await.0, "{list}");
        server.ping(&check, "/log").await;
        let tag = poll(&server, list, &rw, "").await.1;
        server.channel(&server.main, "new").await;
        assert!(!poll(&server, list, &rw, &tag).await.0, "{list}");
    }
    let answer = server.api("GET", &path(&check, ""), "").await;
    assert_eq!(answer.header("ETag"), None);
    server.stop().await;
}

#[tokio::test]
async fn a_tag_belongs_to_its_address_and_key() {
    let server = TestServer::start().await;
    let first = server.create_check(json!({ "slug": "a" })).await;
    let second = server.create_check(json!({ "slug": "b" })).await;
    let lists = [
        "/checks/",
        "/checks/?slug=a",
        "/checks/?slug=nope",
        "/channels/",
        "/badges/",
        &path(&first, "/pings/"),
        &path(&second, "/pings/"),
    ];
    let lists = lists.map(|list| format!("/api/v3{list}"));
    for list in &lists {
        let tag = poll(&server, list, &server.main.read_write_key, "").await.1;
        for other in &lists {
            assert_eq!(
                poll(&server, other, &server.main.read_write_key, &tag)
                    .await
                    .0,
                other == list,
                "{list} {other}"
            );
        }
        let version = list.replace("/v3/", "/v2/");
        assert!(
            !poll(&server, &version, &server.main.read_write_key, &tag)
                .await
                .0,
            "{list}"
        );
    }
    assert!(
        poll(
            &server,
            "/api/v3/checks",
            &server.main.read_write_key,
            &poll(&server, &lists[0], &server.main.read_write_key, "")
                .await
                .1
        )
        .await
        .0
    );
    let other = new_project(&server.handle, "other").await;
    let tag = poll(&server, &lists[5], &server.main.read_write_key, "")
        .await
        .1;
    for (key, list, status) in [
        (other.read_write_key.as_str(), &lists[5], 403),
        ("x", &lists[5], 401),
        (server.main.read_only_key.as_str(), &lists[5], 401),
    ] {
        let answer = server
            .send(
                "GET",
                list,
                &[("X-Api-Key", key), ("If-None-Match", &tag)],
                b"",
            )
            .await;
        assert_eq!(answer.status, status, "access comes first");
    }
    server.stop().await;
}

/// An action that may change a list.
#[derive(Clone, Debug)]
enum ListChange {
    Wait(i64),
    Ping(&'static str),
    Update(&'static str),
    Pause,
    Resume,
    Channel,
}

fn step() -> impl Strategy<Value = ListChange> {
    let pings = vec!["", "", "/start", "/fail", "/log"];
    let updates = vec![
        r#"{"timeout": 60}"#,
        r#"{"grace": 90}"#,
        r#"{"schedule": "* * * * *"}"#,
        r#"{"tags": "t"}"#,
        r#"{"tags": ""}"#,
    ];
    prop_oneof![
        6 => prop::sample::select(vec![-60, -1, 1, 30, 59, 60, 90]).prop_map(ListChange::Wait),
        4 => prop::sample::select(pings).prop_map(ListChange::Ping),
        2 => prop::sample::select(updates).prop_map(ListChange::Update),
        1 => Just(ListChange::Pause),
        1 => Just(ListChange::Resume),
        1 => Just(ListChange::Channel),
    ]
}

impl ListChange {
    async fn apply_change(&self, server: &TestServer, check: &Value) {
        match self {
            Self::Wait(seconds) => server.clock.advance_secs(*seconds),
            Self::Ping(rest) => server.ping(check, rest).await,
            Self::Update(body) => drop(server.api("POST", &path(check, ""), body).await),
            Self::Pause => drop(server.api("POST", &path(check, "/pause"), "").await),
            Self::Resume => drop(server.api("POST", &path(check, "/resume"), "").await),
            Self::Channel => drop(server.channel(&server.main, "new").await),
        }
        // Everything due is done before the next command.
        server
            .handle
            .call(Command::EvaluateChecks(Vec::new()))
            .await
            .unwrap()
            .unwrap();
    }
}

#[test]
fn a_valid_tag_means_that_nothing_has_changed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(TestServer::start());
    let rw = server.main.read_write_key.clone();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
    let outcome = runner.run(&vec(step(), 1..20), |steps| {
        runtime.block_on(async {
            let check = server
                .create_check(json!({ "timeout": 60, "grace": 60 }))
                .await;
            let lists = [
                "/api/v1/checks/",
                "/api/v3/checks/?tag=t",
                "/api/v3/channels/",
                &format!("/api/v3{}", path(&check, "/pings/")),
            ];
            for step in steps {
                let mut had = Vec::new();
                for list in lists {
                    had.push(server.keyed(&rw, "GET", list, "").await);
                }
                step.apply_change(&server, &check).await;
                for (list, had) in lists.into_iter().zip(had) {
                    if poll(&server, list, &rw, had.header("ETag").unwrap())
                        .await
                        .0
                    {
                        let now = server.keyed(&rw, "GET", list, "").await;
                        prop_assert_eq!(now.text(), had.text(), "{} {:?}", list, step);
                    }
                }
            }
            server.api("DELETE", &path(&check, ""), "").await;
            Ok(())
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    runtime.block_on(server.stop());
}
