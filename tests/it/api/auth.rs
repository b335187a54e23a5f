//! Keys: where a request contains them, their permissions, the order of refusals, and rate limits.

use overdue::domain::project::{PingKey, SecretHash};
use overdue::engine::command::Command;
use overdue::http::ApiRate;
use serde_json::json;

use super::{UNKNOWN, path, refused};
use crate::support::server::{START, TestServer, new_project};

const MISSING: &str = "missing api key";
const WRONG: &str = "wrong api key";

#[tokio::test]
async fn a_key_is_read_from_the_header_or_else_from_the_body_of_a_post() {
    let server = TestServer::start().await;
    let rw = server.main.read_write_key.clone();
    let body = |key: serde_json::Value| json!({ "api_key": key }).to_string();
    let cases = [
        (None, String::new(), Some(MISSING)),
        (None, body(json!(null)), Some(MISSING)),
        (None, body(json!([rw])), Some(MISSING)),
        (None, body(json!(true)), Some(MISSING)),
        (None, body(json!(1111)), Some(MISSING)),
        (
            None,
            format!(r#"{{"api_key": {}}}"#, "1".repeat(32)),
            Some(WRONG),
        ),
        (None, body(json!("ž".repeat(32))), Some(WRONG)),
        (None, body(json!("ž".repeat(16))), Some(MISSING)),
        (None, body(json!(rw)), None),
        (Some(""), body(json!(rw)), Some(MISSING)),
        (Some("abc"), body(json!(rw)), Some(MISSING)),
        (Some(&"X".repeat(32)), body(json!(rw)), Some(WRONG)),
        (Some(&rw.to_lowercase()), String::new(), Some(WRONG)),
        (Some(&server.main.ping_key), String::new(), Some(MISSING)),
        (Some(&rw), body(json!("X")), None),
        (Some(&rw), r#"{"api_key": "\ud800"}"#.to_owned(), None),
    ];
    for (header, body, error) in cases {
        let headers: Vec<_> = header.map(|key| ("x-aPi-KEY", key)).into_iter().collect();
        let answer = server
            .send("POST", "/api/v3/checks/", &headers, body.as_bytes())
            .await;
        match error {
            Some(message) => refused(&answer, 401, message),
            None => assert_eq!(answer.status, 201, "{header:?} {body}"),
        }
        // The body of a GET is ignored.
        let answer = server
            .send("GET", "/api/v3/checks/", &headers, body.as_bytes())
            .await;
        assert_eq!(
            answer.status,
            if header == Some(&rw) { 200 } else { 401 },
            "{header:?} {body}"
        );
    }
    let answer = server.get(&format!("/api/v3/checks/?api_key={rw}")).await;
    refused(&answer, 401, MISSING);
    server.stop().await;
}

#[tokio::test]
async fn refusals_have_a_fixed_order() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let foreign = server
        .keyed(&other.read_write_key, "POST", "/api/v3/checks/", "")
        .await
        .json();
    let update = path(&foreign, "");
    let unknown = format!("/checks/{UNKNOWN}");
    let rw = server.main.read_write_key.as_str();
    let bad_field = r#"{"timeout": 1}"#;
    let syntax = "could not parse request body";
    let object = "json validation error: value is not an object";
    for (method, path, key, body, status, message) in [
        ("PUT", "/checks/", "", "{", 405, "method not allowed"),
        ("POST", "/checks/", "", "{", 400, syntax),
        ("POST", "/checks/", "", "[]", 400, object),
        ("POST", unknown.as_str(), "", "{", 400, syntax),
        ("POST", "/checks/", "", bad_field, 401, MISSING),
        ("POST", unknown.as_str(), "", bad_field, 401, MISSING),
        ("POST", unknown.as_str(), rw, bad_field, 404, "not found"),
        ("POST", update.as_str(), rw, bad_field, 403, "access denied"),
        (
            "POST",
            "/checks/",
            rw,
            bad_field,
            400,
            "json validation error: timeout is too small",
        ),
    ] {
        refused(
            &server
                .keyed(key, method, &format!("/api/v3{path}"), body)
                .await,
            status,
            message,
        );
    }
    for action in ["pause", "resume"] {
        let path = format!("/api/v3/checks/{UNKNOWN}/{action}");
        for (body, status) in [("{", 400), ("[null]", 400), ("null", 401), ("", 401)] {
            assert_eq!(
                server.keyed("", "POST", &path, body).await.status,
                status,
                "{action} {body}"
            );
        }
    }
    assert_eq!(
        server
            .keyed(rw, "GET", &format!("/api/v3{update}/flips/?start=x"), "")
            .await
            .status,
        403
    );
    server.stop().await;
}

#[tokio::test]
async fn a_read_only_key_reads_everything_but_secrets() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "name": "a" })).await;
    let unique = {
        let answer = server
            .keyed(
                &server.main.read_only_key,
                "GET",
                &format!("/api/v3{}", path(&check, "")),
                "",
            )
            .await;
        super::text(&answer.json(), "unique_key").to_owned()
    };
    let other = new_project(&server.handle, "other").await;
    for (method, path, read_only, read_write) in [
        ("GET", "/checks/".to_owned(), 200, 200),
        ("GET", path(&check, ""), 200, 200),
        ("GET", path(&check, "/flips/"), 200, 200),
        ("GET", format!("/checks/{unique}"), 200, 200),
        ("HEAD", format!("/checks/{unique}"), 200, 200),
        ("GET", format!("/checks/{unique}/flips/"), 200, 200),
        ("GET", "/badges/".to_owned(), 200, 200),
        ("GET", "/status/".to_owned(), 200, 200),
        ("GET", "/channels/".to_owned(), 401, 200),
        ("GET", path(&check, "/pings/"), 401, 200),
        ("GET", path(&check, "/pings/1/body"), 401, 404),
        ("POST", "/checks/".to_owned(), 401, 201),
        ("POST", path(&check, ""), 401, 200),
        ("POST", path(&check, "/pause"), 401, 200),
        ("POST", path(&check, "/resume"), 401, 200),
        ("POST", format!("/checks/{unique}"), 405, 405),
        ("DELETE", format!("/checks/{unique}"), 405, 405),
        ("GET", format!("/checks/{unique}/pings/"), 404, 404),
        ("POST", format!("/checks/{unique}/pause"), 404, 404),
        (
            "GET",
            format!("/checks/{}", unique.to_uppercase()),
            404,
            404,
        ),
        ("GET", format!("/checks/{}", "0".repeat(40)), 404, 404),
        ("DELETE", path(&check, ""), 401, 200),
    ] {
        for (key, status) in [
            (&server.main.read_only_key, read_only),
            (&server.main.read_write_key, read_write),
        ] {
            let answer = server
                .keyed(key, method, &format!("/api/v3{path}"), "")
                .await;
            assert_eq!(answer.status, status, "{method} {path}");
            if status == 401 {
                refused(&answer, 401, WRONG);
            }
        }
    }
    let check = server.create_check(json!({})).await;
    let answer = server
        .keyed(
            &other.read_only_key,
            "GET",
            &format!("/api/v3{}", path(&check, "")),
            "",
        )
        .await;
    assert_eq!(answer.status, 403);
    refused(
        &server
            .send(
                "POST",
                "/api/v3/checks/",
                &[],
                json!({ "api_key": server.main.read_only_key })
                    .to_string()
                    .as_bytes(),
            )
            .await,
        401,
        WRONG,
    );
    server.stop().await;
}

#[tokio::test]
async fn a_unique_key_gives_no_access_in_another_project() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let check = server.create_check(json!({})).await;
    let seen = server
        .keyed(
            &server.main.read_only_key,
            "GET",
            &format!("/api/v3{}", path(&check, "")),
            "",
        )
        .await
        .json();
    for rest in ["", "/flips/"] {
        let path = format!("/api/v3/checks/{}{rest}", super::text(&seen, "unique_key"));
        for key in [&other.read_write_key, &other.read_only_key] {
            assert_eq!(server.keyed(key, "GET", &path, "").await.status, 404);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_revoked_key_gives_no_access() {
    let server = TestServer::start().await;
    let key = server.handle.with_state(|state| {
        state
            .keys()
            .find(|key| key.project == server.main.id)
            .unwrap()
            .id
    });
    assert_eq!(server.api("GET", "/checks/", "").await.status, 200);
    server
        .handle
        .call(Command::RevokeKey(key))
        .await
        .unwrap()
        .unwrap();
    refused(&server.api("GET", "/checks/", "").await, 401, WRONG);
    server.stop().await;
}

#[tokio::test]
async fn requests_of_a_key_are_rate_limited() {
    let server = TestServer::start_with(|config| {
        config.api_rate = ApiRate {
            per_minute: 60,
            burst: 3,
        }
    })
    .await;
    for status in [201, 201, 201, 429, 429] {
        assert_eq!(server.api("POST", "/checks/", "").await.status, status);
    }
    let answer = server.api("POST", "/checks/", "{").await;
    assert_eq!(
        (answer.status, answer.header("Retry-After")),
        (429, Some("1"))
    );
    assert!(answer.json()["error"].is_string());
    let body = json!({ "api_key": server.main.read_write_key }).to_string();
    assert_eq!(
        server
            .send("POST", "/api/v3/checks/", &[], body.as_bytes())
            .await
            .status,
        429,
        "the key is the same in the body"
    );
    assert_eq!(
        server
            .keyed(&server.main.read_only_key, "GET", "/api/v3/checks/", "")
            .await
            .status,
        200,
        "other keys have their own"
    );
    assert_eq!(
        server
            .send(
                "OPTIONS",
                "/api/v3/checks/",
                &[("X-Api-Key", &server.main.read_write_key)],
                b""
            )
            .await
            .status,
        204
    );
    for _ in 0..5 {
        assert_eq!(server.get("/healthz").await.status, 200);
        assert_eq!(
            server
                .get(&format!("/ping/{}/a?create=1", server.main.ping_key))
                .await
                .status
                / 100,
            2
        );
    }
    server.clock.advance_secs(1);
    assert_eq!(server.api("GET", "/checks/", "").await.status, 200);
    assert_eq!(server.api("GET", "/checks/", "").await.status, 429);
    server.stop().await;
}

#[tokio::test]
async fn the_first_use_of_a_key_in_an_hour_is_stored_with_its_address() {
    let server = TestServer::start().await;
    let used = |server: &TestServer, key: &str| {
        server.handle.with_state(|state| {
            let key = state.key_by_hash(&SecretHash::of(key.as_bytes())).unwrap();
            key.last_use.map(|used| (used.at, used.from.to_string()))
        })
    };
    let ping_key_used = |server: &TestServer| {
        server.handle.with_state(|state| {
            state
                .key_by_ping_key(&PingKey::parse(&server.main.ping_key).unwrap())
                .unwrap()
                .last_use
                .map(|used| used.from.to_string())
        })
    };
    assert_eq!(
        (
            used(&server, &server.main.read_only_key),
            ping_key_used(&server)
        ),
        (None, None)
    );
    // The writer stores key uses by itself, without a request.
    let noted_from = async |from: &str, at| {
        let headers = [
            ("X-Api-Key", server.main.read_only_key.as_str()),
            ("X-Forwarded-For", from),
        ];
        assert_eq!(
            server
                .send("GET", "/api/v3/checks/", &headers, b"")
                .await
                .status,
            200
        );
        server.clock.advance_secs(1);
        while used(&server, &server.main.read_only_key).is_none_or(|(noted, _)| noted < at) {
            tokio::task::yield_now().await;
        }
        used(&server, &server.main.read_only_key).unwrap()
    };
    assert_eq!(
        noted_from("192.0.2.1", START).await,
        (START, "192.0.2.1".into())
    );
    assert_eq!(
        noted_from("192.0.2.2", START).await,
        (START, "192.0.2.1".into())
    );
    server.clock.advance_secs(3600);
    let later = server.handle.now();
    assert_eq!(
        noted_from("192.0.2.3", later).await,
        (later, "192.0.2.3".into())
    );
    assert_eq!(used(&server, &server.main.read_write_key), None);
    server
        .get(&format!("/ping/{}/backup?create=1", server.main.ping_key))
        .await;
    assert_eq!(ping_key_used(&server).as_deref(), Some("127.0.0.1"));
    // A refused ping stores nothing.
    server.clock.advance_secs(3600);
    server
        .send(
            "GET",
            &format!("/ping/{}/nope", server.main.ping_key),
            &[("X-Forwarded-For", "192.0.2.9")],
            b"",
        )
        .await;
    assert_eq!(ping_key_used(&server).as_deref(), Some("127.0.0.1"));
    server.stop().await;
}
