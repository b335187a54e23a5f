//! `POST /checks/`: stored fields, answers, and refusals that change nothing.

use overdue::engine::command::Command;
use serde_json::json;

use super::{refused, text};
use crate::support::server::TestServer;

#[tokio::test]
async fn a_check_without_fields_has_the_defaults() {
    let server = TestServer::start().await;
    server.channel(&server.main, "ops").await;
    for body in [
        "",
        "{}",
        r#"{"unknown": null, "id": 7, "uuid": "x", "status": "up", "n_pings": 5}"#,
    ] {
        let answer = server.api("POST", "/checks/", body).await;
        assert_eq!(
            (answer.status, answer.header("Content-Type")),
            (201, Some("application/json"))
        );
        let mut check = answer.json();
        let uuid = text(&check, "uuid").to_owned();
        let base = &server.base;
        let badge = text(&check, "badge_url")
            .strip_prefix(&format!("{base}/b/2/"))
            .unwrap()
            .strip_suffix(".svg")
            .unwrap()
            .to_owned();
        assert!(badge.len() == 36 && badge != uuid);
        let expected = json!({
            "name": "", "slug": "", "tags": "", "desc": "", "grace": 3600, "n_pings": 0,
            "status": "new", "started": false, "last_ping": null, "next_ping": null,
            "manual_resume": false, "methods": "", "subject": "", "subject_fail": "",
            "start_kw": "", "success_kw": "", "failure_kw": "", "filter_subject": false,
            "filter_body": false, "filter_http_body": false, "filter_default_fail": false,
            "badge_url": format!("{base}/b/2/{badge}.svg"), "uuid": uuid,
            "ping_url": format!("{base}/ping/{uuid}"),
            "update_url": format!("{base}/api/v3/checks/{uuid}"),
            "pause_url": format!("{base}/api/v3/checks/{uuid}/pause"),
            "resume_url": format!("{base}/api/v3/checks/{uuid}/resume"), "channels": "",
            "timeout": 86400,
        });
        assert_eq!(check, expected);
        let members = check.as_object_mut().unwrap();
        members.remove("subject");
        members.remove("subject_fail");
        assert_eq!(
            server.now(&expected).await,
            check,
            "a later GET lacks only the subjects"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn every_field_is_stored() {
    let server = TestServer::start().await;
    let body = json!({
        "name": "Žofie's \"backup\"\n\u{1f600}", "slug": "a-b_1", "tags": " t".repeat(64),
        "desc": "ž".repeat(16_384), "grace": 60, "timeout": 31_536_000, "manual_resume": true,
        "methods": "POST", "start_kw": "a,b", "success_kw": "c", "failure_kw": "d",
        "filter_subject": true, "filter_body": true, "filter_http_body": true,
        "filter_default_fail": true,
    });
    let check = server.create_check(body.clone()).await;
    let read = server.now(&check).await;
    for (name, value) in body.as_object().unwrap() {
        assert_eq!((&check[name], &read[name]), (value, value), "{name}");
    }
    assert_eq!(
        (&check["subject"], &check["subject_fail"]),
        (&json!("c"), &json!("d"))
    );
    let check = server
        .create_check(json!({ "schedule": " 0 5 * * * ", "tz": "Europe/Kiev", "timeout": 60 }))
        .await;
    assert_eq!(
        (&check["schedule"], &check["tz"], check.get("timeout")),
        (&json!(" 0 5 * * * "), &json!("Europe/Kyiv"), None)
    );
    let check = server.create_check(json!({ "tz": "Europe/Riga" })).await;
    assert_eq!(
        (check.get("tz"), check.get("schedule"), &check["timeout"]),
        (None, None, &json!(86400))
    );
    server.stop().await;
}

#[tokio::test]
async fn the_old_names_of_keywords_turn_the_search_of_subjects_on() {
    let server = TestServer::start().await;
    for (body, success, failure, searched) in [
        (json!({ "subject": "OK" }), "OK", "", true),
        (json!({ "subject_fail": "BAD" }), "", "BAD", true),
        (json!({ "subject": "", "subject_fail": "" }), "", "", false),
        (
            json!({ "subject": "OK", "success_kw": "done" }),
            "done",
            "",
            true,
        ),
        (
            json!({ "subject": "OK", "filter_subject": false }),
            "OK",
            "",
            false,
        ),
        (
            json!({ "subject": "", "filter_subject": true }),
            "",
            "",
            true,
        ),
        (json!({ "success_kw": "done" }), "done", "", false),
    ] {
        let check = server.create_check(body.clone()).await;
        let seen = (
            &check["success_kw"],
            &check["failure_kw"],
            &check["filter_subject"],
        );
        assert_eq!(
            seen,
            (&json!(success), &json!(failure), &json!(searched)),
            "{body}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_refused_creation_stores_nothing() {
    let server = TestServer::start().await;
    let before = server.changes();
    for (body, message) in [
        (
            json!({ "name": null, "slug": "A" }),
            "json validation error: name is not a string",
        ),
        (
            json!({ "timeout": 59 }),
            "json validation error: timeout is too small",
        ),
        (
            json!({ "grace": 60.0 }),
            "json validation error: grace is not a number",
        ),
        (
            json!({ "methods": "GET" }),
            "json validation error: methods has unexpected value",
        ),
        (
            json!({ "schedule": "0 0 30 2 *" }),
            "json validation error: schedule is not a valid cron or OnCalendar expression",
        ),
        (
            json!({ "tz": "utc" }),
            "json validation error: tz is not a valid timezone",
        ),
        (
            json!({ "unique": ["nme"] }),
            "json validation error: an item in 'unique' has unexpected value",
        ),
        (
            json!({ "channels": "none" }),
            "invalid channel identifier: none",
        ),
        (
            json!({ "tags": "t".repeat(501) }),
            "json validation error: tags is too long",
        ),
        (
            json!({ "tags": "t ".repeat(65) }),
            "json validation error: tags is too long",
        ),
        (
            json!({ "desc": "ž".repeat(16_385) }),
            "json validation error: desc is too long",
        ),
        (json!([]), "json validation error: value is not an object"),
        (json!([1]), "json validation error: value is not an object"),
        (json!(null), "json validation error: value is not an object"),
    ] {
        refused(
            &server.api("POST", "/checks/", &body.to_string()).await,
            400,
            message,
        );
    }
    for body in [
        "{",
        "{} x",
        " ",
        "{\"name\": NaN}",
        "\u{feff}{}",
        "{\"name\": \"\\ud800\"}",
    ] {
        refused(
            &server.api("POST", "/checks/", body).await,
            400,
            "could not parse request body",
        );
    }
    let answer = server
        .send(
            "POST",
            "/api/v3/checks/",
            &[("X-Api-Key", &server.main.read_write_key)],
            b"{\"name\": \"\xff\"}",
        )
        .await;
    refused(&answer, 400, "could not parse request body");
    assert_eq!(
        (
            server.changes(),
            server.api("GET", "/checks/", "").await.json()
        ),
        (before, json!({ "checks": [] }))
    );
    server.stop().await;
}

#[tokio::test]
async fn bodies_of_every_coding_are_accepted_up_to_a_limit() {
    let server = TestServer::start().await;
    let key = &server.main.read_write_key;
    let head = format!(
        "POST /api/v3/checks/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: {key}\r\n"
    );
    for (rest, name) in [
        (
            "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"name\"\r\n6\r\n: \"a\"}\r\n0\r\n\r\n",
            "a",
        ),
        (
            "Content-Type: multipart/form-data\r\nContent-Length: 13\r\n\r\n{\"name\": \"b\"}",
            "b",
        ),
    ] {
        let answer = server.raw(format!("{head}{rest}").as_bytes()).await;
        assert_eq!((answer.status, &answer.json()["name"]), (201, &json!(name)));
    }
    let long = |length: usize| format!(r#"{{"x": "{}"}}"#, "x".repeat(length - 9));
    assert_eq!(
        server.api("POST", "/checks/", &long(1 << 20)).await.status,
        201
    );
    let answer = server.api("POST", "/checks/", &long((1 << 20) + 1)).await;
    assert_eq!(answer.status, 413);
    assert!(answer.json()["error"].is_string());
    let answer = server.api("POST", "/checks/", &"[".repeat(1 << 20)).await;
    refused(&answer, 400, "could not parse request body");
    let nested = format!(r#"{{"x": {}{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    refused(
        &server.api("POST", "/checks/", &nested).await,
        400,
        "could not parse request body",
    );
    server.stop().await;
}

#[tokio::test]
async fn a_full_project_accepts_no_further_checks() {
    let server = TestServer::start().await;
    let limit = |limit| Command::UpdateProject {
        project: server.main.id,
        name: None,
        check_limit: Some(limit),
        ping_log_limit: None,
        allows_ping_settings: None,
    };
    server.handle.call(limit(Some(2))).await.unwrap().unwrap();
    for name in ["a", "b"] {
        server.create_check(json!({ "name": name })).await;
    }
    for (body, status) in [
        (json!({ "name": "c" }), 403),
        // The limit is checked before channels and after validation.
        (json!({ "channels": "none" }), 403),
        (json!({ "timeout": 1 }), 400),
        (json!({ "name": "b", "unique": ["name"] }), 200),
        (
            json!({ "name": "b", "unique": ["name"], "channels": "none" }),
            400,
        ),
    ] {
        let answer = server.api("POST", "/checks/", &body.to_string()).await;
        assert_eq!(answer.status, status, "{body}");
    }
    server.handle.call(limit(None)).await.unwrap().unwrap();
    assert_eq!(server.api("POST", "/checks/", "").await.status, 201);
    server.stop().await;
}
