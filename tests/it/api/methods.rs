//! Common rules of all addresses: methods, requests of browsers, paths with and without a slash,
//! and sub-paths.

use overdue::domain::project::KeyAccess;
use overdue::http::api::{ENDPOINTS, EndpointRow, Verb};
use serde_json::json;

use super::{UNKNOWN, path};
use crate::support::server::{TestResponse, TestServer};

fn is_open_to_browsers(answer: &TestResponse, methods: &str) {
    let header = |name| {
        answer
            .header(name)
            .unwrap_or_else(|| panic!("no {name}: {answer:?}"))
    };
    assert_eq!(
        (
            header("Access-Control-Allow-Origin"),
            header("Access-Control-Allow-Headers")
        ),
        ("*", "X-Api-Key")
    );
    assert_eq!(
        (
            header("Access-Control-Allow-Methods"),
            header("Access-Control-Max-Age")
        ),
        (methods, "600")
    );
    assert_eq!(answer.header("Access-Control-Allow-Credentials"), None);
}

/// Paths of an endpoint in all of its versions; of a check that does not exist.
fn endpoint_paths(row: &EndpointRow) -> impl Iterator<Item = String> {
    let path = row
        .template
        .replace("{uuid}", UNKNOWN)
        .replace("{unique_key}", &"0".repeat(40))
        .replace("{n}", "1");
    row.versions
        .iter()
        .map(move |version| format!("{}{path}", version.path()))
}

#[tokio::test]
async fn every_endpoint_says_which_methods_it_accepts() {
    let server = TestServer::start().await;
    for (path, row) in ENDPOINTS
        .iter()
        .flat_map(|row| endpoint_paths(row).map(move |path| (path, row)))
    {
        for method in [
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY",
        ] {
            let answer = server.send(method, &path, &[], b"").await;
            is_open_to_browsers(&answer, row.allow);
            if row.allow.split(", ").any(|one| one == method) {
                assert_eq!(answer.status, 401, "{method} {path}");
            } else {
                assert_eq!(
                    (answer.status, answer.header("Allow")),
                    (405, Some(row.allow)),
                    "{method} {path}"
                );
                assert!(method == "HEAD" || answer.json()["error"].is_string());
            }
        }
        let answer = server
            .send(
                "OPTIONS",
                &path,
                &[("Access-Control-Request-Method", "POST")],
                b"",
            )
            .await;
        assert_eq!((answer.status, answer.text()), (204, ""));
        is_open_to_browsers(&answer, row.allow);
    }
    server.stop().await;
}

#[tokio::test]
async fn every_endpoint_requires_a_key_with_its_access() {
    let server = TestServer::start().await;
    let wrong_key = "X".repeat(32);
    for (path, rules) in ENDPOINTS.iter().flat_map(|row| {
        endpoint_paths(row).flat_map(|path| row.verbs.iter().map(move |of| (path.clone(), of)))
    }) {
        let methods: &[&str] = match rules.verb {
            Verb::Get => &["GET", "HEAD"],
            Verb::Post => &["POST"],
            Verb::Put => &["PUT"],
            Verb::Delete => &["DELETE"],
        };
        for method in methods {
            for (key, is_allowed) in [
                ("", false),
                (&*wrong_key, false),
                (&*server.main.ping_key, false),
                (
                    &*server.main.read_only_key,
                    rules.access == KeyAccess::ReadOnly,
                ),
                (&*server.main.read_write_key, true),
            ] {
                let answer = server.keyed(key, method, &path, "").await;
                let expected: &[u16] = if is_allowed {
                    &[200, 201, 400, 404]
                } else {
                    &[401]
                };
                assert!(
                    expected.contains(&answer.status),
                    "{method} {path}: {answer:?}"
                );
            }
        }
    }
    server.stop().await;
}

/// Methods of the endpoints, as clients of Healthchecks rely on them.
#[test]
fn methods_of_the_checks_stay_the_same() {
    let allow = |template: &str| {
        let row = ENDPOINTS.iter().find(|row| row.template == template);
        row.unwrap().allow
    };
    assert_eq!(allow("/checks/"), "GET, HEAD, POST, OPTIONS");
    assert_eq!(allow("/checks/{uuid}"), "GET, HEAD, POST, DELETE, OPTIONS");
    assert_eq!(allow("/checks/{uuid}/pause"), "POST, OPTIONS");
    assert_eq!(allow("/channels/{uuid}"), "GET, HEAD, PUT, DELETE, OPTIONS");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "name": "a" })).await;
    for path in [
        "/checks/",
        &path(&check, ""),
        &path(&check, "/pings/"),
        "/channels",
        &path(&check, "/flips"),
        "/status/",
        "/checks/x",
    ] {
        let head = server.api("HEAD", path, "").await;
        let get = server.api("GET", path, "").await;
        assert_eq!((head.status, head.text()), (get.status, ""), "{path}");
        let sorts = |answer: &TestResponse| {
            answer
                .headers
                .iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (sorts(&head), head.header("Content-Length")),
            (sorts(&get), get.header("Content-Length")),
            "{path}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_where_none_belongs_does_not_end_the_connection() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    let key = &server.main.read_write_key;
    let path = path(&check, "");
    let request = |method: &str, body: &str, rest: &str| {
        let length = body.len();
        format!(
            "{method} /api/v3{path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: \
             {key}\r\n{rest}Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let requests = [
        request("GET", &"{".repeat(300_000), ""),
        request("DELETE", "\0", ""),
        request("GET", "x", "Connection: close\r\n"),
    ];
    let answers = server.raw(requests.concat().as_bytes()).await;
    let rest = String::from_utf8_lossy(&answers.body);
    let statuses: Vec<_> = rest
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| &answer[..3])
        .collect();
    assert_eq!((answers.status, statuses), (200, vec!["200", "404"]));
    server.stop().await;
}

#[tokio::test]
async fn lists_are_found_without_their_slash() {
    let server = TestServer::start_with(|config| {
        config.base_url = "http://example.org/sub".parse().unwrap();
    })
    .await;
    let check = server.create_check(json!({})).await;
    for path in [
        "/checks".to_owned(),
        "/channels".to_owned(),
        "/badges".to_owned(),
        "/status".to_owned(),
        path(&check, "/pings"),
        path(&check, "/flips"),
    ] {
        for (method, status) in [("GET", 200), ("HEAD", 200), ("OPTIONS", 204)] {
            assert_eq!(
                server.api(method, &path, "").await.status,
                status,
                "{method} {path}"
            );
        }
        for method in ["POST", "PUT", "DELETE", "TRACE"] {
            for prefix in ["", "/sub"] {
                let answer = server
                    .send(method, &format!("{prefix}/api/v2{path}?a=%20&b"), &[], b"{")
                    .await;
                let location = format!("/sub/api/v2{path}/?a=%20&b");
                assert_eq!(
                    (answer.status, answer.header("Location")),
                    (301, Some(location.as_str())),
                    "{method} {path}"
                );
            }
        }
    }
    assert_eq!(
        server
            .send("POST", "/api/v3/checks", &[], b"")
            .await
            .header("Location"),
        Some("/sub/api/v3/checks/")
    );
    server.stop().await;
}

#[tokio::test]
async fn other_forms_of_a_path_are_unknown() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({})).await;
    let uuid = super::text(&check, "uuid");
    for path in [
        "/api/".to_owned(),
        "/api/v3".to_owned(),
        "/api/v3/".to_owned(),
        "/api/v4/checks/".to_owned(),
        "/api/v3/nothing/".to_owned(),
        format!("/api/v3/checks/{uuid}/"),
        format!("/api/v3/checks/{uuid}/pause/"),
        format!("/api/v3/checks/{}", uuid.to_uppercase()),
        format!("/api/v3/checks/{}", uuid.replace('-', "")),
        format!("/api/v3/checks/{{{uuid}}}"),
        format!("/api/v3/checks/urn:uuid:{uuid}"),
        format!("/api/v3/checks/{uuid}%2Fpause"),
        format!("/api/v3/checks%2F{uuid}"),
        format!("/api/v3/checks/{uuid}/pings/x/body"),
        format!("/api/v3/checks/{uuid}/pings/-1/body"),
        format!("/api/v3/checks/{uuid}/pings/1.0/body"),
        format!("/api/v3/checks/{uuid}/pings/1"),
        "/api/v3/checks/not-a-uuid".to_owned(),
        format!("/api/v3/checks/{UNKNOWN}"),
        "/api/v3/checks/%00".to_owned(),
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = server
                .keyed(&server.main.read_write_key, method, &path, "")
                .await;
            assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
            assert!(
                answer.json()["error"].is_string(),
                "{method} {path}: {answer:?}"
            );
        }
    }
    let answer = server
        .keyed(
            &server.main.read_write_key,
            "GET",
            &format!("/api/v3/checks/?{}", "x".repeat(9000)),
            "",
        )
        .await;
    assert_eq!(answer.status, 414);
    assert!(answer.json()["error"].is_string());
    assert_eq!(server.now(&check).await["status"], "new");
    server.stop().await;
}

#[tokio::test]
async fn addresses_in_answers_begin_with_the_base_url() {
    let server = TestServer::start_with(|config| {
        config.base_url = "https://example.org/sub/".parse().unwrap();
    })
    .await;
    for prefix in ["", "/sub"] {
        let answer = server
            .keyed(
                &server.main.read_write_key,
                "POST",
                &format!("{prefix}/api/v3/checks/"),
                "",
            )
            .await;
        assert_eq!(answer.status, 201);
        let check = answer.json();
        let uuid = super::text(&check, "uuid");
        assert_eq!(
            check["ping_url"],
            format!("https://example.org/sub/ping/{uuid}")
        );
        assert_eq!(
            check["pause_url"],
            format!("https://example.org/sub/api/v3/checks/{uuid}/pause")
        );
    }
    server.stop().await;
}
