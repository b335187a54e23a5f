//! `POST …/pause`, `POST …/resume` and `DELETE`.

use serde_json::json;

use super::{path, refused, text};
use crate::support::server::TestServer;

#[tokio::test]
async fn pause_ends_a_run_and_keeps_the_rest() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "success_kw": "ok", "filter_subject": true }))
        .await;
    server.ping(&check, "/start").await;
    server.clock.advance_secs(5);
    server.ping(&check, "").await;
    server.ping(&check, "/start").await;
    for body in [
        "",
        "null",
        " null ",
        "[]",
        " [ ]\n",
        "{}",
        r#"{"name": 1, "timeout": "x"}"#,
    ] {
        let answer = server.api("POST", &path(&check, "/pause"), body).await;
        let paused = answer.json();
        assert_eq!(
            (
                answer.status,
                &paused["status"],
                &paused["started"],
                &paused["next_ping"]
            ),
            (200, &json!("paused"), &json!(false), &json!(null))
        );
        assert_eq!(
            (
                &paused["n_pings"],
                &paused["last_duration"],
                &paused["subject"]
            ),
            (&json!(3), &json!(5), &json!("ok"))
        );
        assert_eq!(paused["last_ping"], "2026-11-20T10:00:05+00:00");
    }
    for body in ["0", "\"null\"", "[null]", "[[]]", "false"] {
        let answer = server.api("POST", &path(&check, "/pause"), body).await;
        refused(
            &answer,
            400,
            "json validation error: value is not an object",
        );
    }
    refused(
        &server.api("POST", &path(&check, "/pause"), "nul").await,
        400,
        "could not parse request body",
    );
    server.stop().await;
}

#[tokio::test]
async fn resume_makes_a_paused_check_new_again() {
    let server = TestServer::start().await;
    for manual in [false, true] {
        let check = server
            .create_check(json!({ "manual_resume": manual }))
            .await;
        refused(
            &server.api("POST", &path(&check, "/resume"), "").await,
            409,
            "check is not paused",
        );
        server.ping(&check, "").await;
        refused(
            &server.api("POST", &path(&check, "/resume"), "").await,
            409,
            "check is not paused",
        );
        server.api("POST", &path(&check, "/pause"), "").await;
        let answer = server
            .api(
                "POST",
                &path(&check, "/resume"),
                if manual { "null" } else { "[]" },
            )
            .await;
        let resumed = answer.json();
        assert_eq!(
            (answer.status, &resumed["status"], &resumed["last_ping"]),
            (200, &json!("new"), &json!(null))
        );
        assert_eq!(
            (&resumed["n_pings"], resumed.get("subject")),
            (&json!(1), Some(&json!("")))
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_paused_check_whose_run_is_overdue_is_down_and_cannot_be_resumed() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "grace": 60 })).await;
    server.api("POST", &path(&check, "/pause"), "").await;
    server.ping(&check, "/start").await;
    server.clock.advance_secs(60);
    refused(
        &server.api("POST", &path(&check, "/resume"), "").await,
        409,
        "check is not paused",
    );
    assert_eq!(server.now(&check).await["status"], "down");
    server.stop().await;
}

#[tokio::test]
async fn deletion_returns_the_check_and_leaves_nothing() {
    let server = TestServer::start().await;
    let channel = server.channel(&server.main, "ops").await;
    let check = server
        .create_check(json!({ "name": "a", "channels": "*", "tags": "t" }))
        .await;
    let ping = server
        .send(
            "POST",
            &format!("/ping/{}", text(&check, "uuid")),
            &[],
            b"body",
        )
        .await;
    assert_eq!(ping.status, 200);
    let before = server.now(&check).await;
    let answer = server.api("DELETE", &path(&check, ""), "{ not read").await;
    let mut deleted = answer.json();
    assert_eq!(
        (answer.status, &deleted["channels"], &deleted["subject"]),
        (200, &json!(channel), &json!(""))
    );
    let members = deleted.as_object_mut().unwrap();
    members.remove("subject");
    members.remove("subject_fail");
    assert_eq!(deleted, before);
    for (method, rest) in [
        ("GET", ""),
        ("POST", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("GET", "/pings/"),
        ("GET", "/pings/1/body"),
        ("GET", "/flips/"),
    ] {
        refused(
            &server.api(method, &path(&check, rest), "").await,
            404,
            "not found",
        );
    }
    assert_eq!(
        server
            .get(&format!("/ping/{}", text(&check, "uuid")))
            .await
            .status,
        404
    );
    assert_eq!(
        server.api("GET", "/checks/", "").await.json(),
        json!({ "checks": [] })
    );
    server.stop().await;
}

#[tokio::test]
async fn a_pause_may_have_an_end_that_is_in_the_coming_year() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "timeout": 3600 })).await;
    let pause = path(&check, "/pause");
    for (body, error) in [
        (
            json!({ "minutes": 5, "until": "2026-11-20T11:00:00Z" }),
            "until is wrong: a pause has either minutes or until",
        ),
        (
            json!({ "until": "2026-11-20T09:00:00Z" }),
            "until is wrong: the time is in the past",
        ),
    ] {
        refused(
            &server.api("POST", &pause, &body.to_string()).await,
            400,
            error,
        );
    }
    let malformed = json!({ "minutes": 5, "until": "\u{b}" }).to_string();
    let answer = server.api("POST", &pause, &malformed).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    for body in [
        json!({ "minutes": 30 }),
        json!({ "until": "2026-11-20T11:00:00Z" }),
    ] {
        let answer = server.api("POST", &pause, &body.to_string()).await;
        assert_eq!(answer.json()["status"], "paused");
        server.clock.advance_secs(1800);
        let shown = server.api("GET", &path(&check, ""), "").await;
        assert_eq!(shown.json()["status"], "new", "{body}");
    }
    server.stop().await;
}
