//! `POST /checks/<uuid>`: only the fields in the request change, all at once or not at all.

use overdue::domain::check_edit::CheckEdit;
use overdue::domain::text::{Description, Tags};
use overdue::engine::command::{CheckUuids, Command, CreateCheckRequest};
use serde_json::json;

use super::{UNKNOWN, path, refused, text};
use crate::support::server::{TestServer, new_project};

#[tokio::test]
async fn fields_that_are_not_named_stay() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({
            "name": "a", "slug": "s", "tags": "t", "desc": "d", "timeout": 60, "grace": 61,
            "success_kw": "k", "manual_resume": true, "methods": "POST", "filter_body": true,
        }))
        .await;
    for body in ["", "{}", r#"{"unknown": 1}"#, r#"{"unique": ["name"]}"#] {
        let answer = server.api("POST", &path(&check, ""), body).await;
        assert_eq!(
            (answer.status, answer.json()),
            (200, check.clone()),
            "{body}"
        );
    }
    let clear = json!({
        "name": "", "slug": "", "tags": "", "desc": "", "success_kw": "", "manual_resume": false,
        "methods": "", "filter_body": false,
    });
    let answer = server
        .api("POST", &path(&check, ""), &clear.to_string())
        .await
        .json();
    for (name, value) in clear.as_object().unwrap() {
        assert_eq!(&answer[name], value, "{name}");
    }
    assert_eq!(
        (&answer["timeout"], &answer["grace"]),
        (&json!(60), &json!(61))
    );
    server.stop().await;
}

#[tokio::test]
async fn stored_values_over_the_limits_stay() {
    let server = TestServer::start().await;
    let tags = "t ".repeat(300);
    let desc = "d".repeat(20_000);
    let edit = CheckEdit {
        tags: Some(Tags::from_stored(&tags)),
        desc: Some(Description::from_stored(&desc)),
        ..CheckEdit::default()
    };
    let names = CheckUuids {
        uuid: server.handle.random().uuid(),
        badge: server.handle.random().uuid(),
    };
    let create = CreateCheckRequest {
        project: server.main.id,
        edit,
        unique: Vec::new(),
        uuids: names,
    };
    server
        .handle
        .call(Command::CreateCheck(Box::new(create)))
        .await
        .unwrap()
        .unwrap();
    let check = server.api("GET", "/checks/", "").await.json()["checks"][0].clone();
    assert_eq!(
        (text(&check, "tags"), text(&check, "desc")),
        (&*tags, &*desc)
    );
    for (body, status) in [
        (json!({ "name": "a" }), 200),
        (json!({ "tags": tags, "desc": desc }), 200),
        (json!({ "tags": format!("{tags}t") }), 400),
        (json!({ "desc": format!("{desc}d") }), 400),
    ] {
        assert_eq!(
            server
                .api("POST", &path(&check, ""), &body.to_string())
                .await
                .status,
            status
        );
        let now = server.now(&check).await;
        assert_eq!(
            (text(&now, "tags"), text(&now, "desc"), text(&now, "name")),
            (&*tags, &*desc, "a")
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn one_invalid_field_refuses_the_whole_request() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "name": "a" })).await;
    let before = server.changes();
    for (body, message) in [
        (
            json!({ "name": "b", "tz": "x" }),
            "json validation error: tz is not a valid timezone",
        ),
        (
            json!({ "name": "b", "unique": "name" }),
            "json validation error: unique is not an array",
        ),
        (
            json!({ "name": "b", "channels": "x" }),
            "invalid channel identifier: x",
        ),
        (
            json!({ "name": "b", "channels": "," }),
            "empty channel identifier",
        ),
        (json!("b"), "json validation error: value is not an object"),
    ] {
        refused(
            &server
                .api("POST", &path(&check, ""), &body.to_string())
                .await,
            400,
            message,
        );
    }
    assert_eq!(
        (server.changes(), &server.now(&check).await["name"]),
        (before, &json!("a"))
    );
    server.stop().await;
}

#[tokio::test]
async fn kind_follows_what_was_set_last() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "tz": "Europe/Riga", "timeout": 120 }))
        .await;
    let update = |body: serde_json::Value| {
        let path = path(&check, "");
        let server = &server;
        async move {
            let check = server.api("POST", &path, &body.to_string()).await.json();
            [
                check["timeout"].to_string(),
                check["schedule"].to_string(),
                check["tz"].to_string(),
            ]
        }
    };
    let cron = ["null", "\"0 5 * * *\"", "\"Europe/Riga\""];
    assert_eq!(
        update(json!({ "schedule": "0 5 * * *", "timeout": 60 })).await,
        cron,
        "the schedule wins, and the zone was kept"
    );
    assert_eq!(update(json!({ "name": "a" })).await, cron);
    assert_eq!(
        update(json!({ "tz": "UTC" })).await,
        ["null", "\"0 5 * * *\"", "\"UTC\""]
    );
    assert_eq!(
        update(json!({ "timeout": 90 })).await,
        ["90", "null", "null"]
    );
    assert_eq!(
        update(json!({ "schedule": "Mon *-*-* 10:00" })).await,
        ["null", "\"Mon *-*-* 10:00\"", "\"UTC\""]
    );
    server.stop().await;
}

#[tokio::test]
async fn old_names_look_at_both_lists() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "subject_fail": "BAD" })).await;
    let mut seen = Vec::new();
    for body in [
        json!({ "subject": "" }),
        json!({ "subject_fail": "" }),
        json!({ "subject": "OK" }),
        json!({ "failure_kw": "x" }),
    ] {
        let check = server
            .api("POST", &path(&check, ""), &body.to_string())
            .await
            .json();
        seen.push((
            check["filter_subject"].as_bool().unwrap(),
            text(&check, "subject").to_owned(),
            text(&check, "subject_fail").to_owned(),
        ));
    }
    let expected = [
        (true, "", "BAD"),
        (false, "", ""),
        (true, "OK", ""),
        (true, "OK", "x"),
    ];
    assert_eq!(
        seen,
        expected.map(|(on, ok, bad)| (on, ok.to_owned(), bad.to_owned()))
    );
    server.stop().await;
}

#[tokio::test]
async fn periods_take_effect_at_once_but_never_end_a_downtime() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "timeout": 60, "grace": 60 }))
        .await;
    server.ping(&check, "").await;
    server.clock.advance_secs(90);
    assert_eq!(server.now(&check).await["status"], "grace");
    let longer = server
        .api("POST", &path(&check, ""), r#"{"timeout": 120}"#)
        .await
        .json();
    assert_eq!(
        (&longer["status"], &longer["next_ping"]),
        (&json!("up"), &json!("2026-11-20T10:02:00+00:00"))
    );
    server.clock.advance_secs(90);
    let down = server
        .api(
            "POST",
            &path(&check, ""),
            r#"{"timeout": 31536000, "grace": 31536000}"#,
        )
        .await
        .json();
    assert_eq!(
        (&down["status"], &down["next_ping"]),
        (&json!("down"), &json!(null))
    );
    server.stop().await;
}

#[tokio::test]
async fn only_checks_of_the_project_are_found() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    let foreign = server
        .keyed(&other.read_write_key, "POST", "/api/v3/checks/", "")
        .await
        .json();
    for (method, rest) in [
        ("GET", ""),
        ("POST", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/pings/"),
        ("GET", "/pings/1/body"),
        ("GET", "/flips/"),
    ] {
        refused(
            &server.api(method, &path(&foreign, rest), "").await,
            403,
            "access denied",
        );
        refused(
            &server
                .api(method, &format!("/checks/{UNKNOWN}{rest}"), "")
                .await,
            404,
            "not found",
        );
    }
    assert_eq!(
        server
            .keyed(&other.read_write_key, "GET", "/api/v3/checks/", "")
            .await
            .json()["checks"][0]["status"],
        "new"
    );
    server.stop().await;
}
