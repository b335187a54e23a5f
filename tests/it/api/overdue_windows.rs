//! `/api/overdue/v1/windows`: maintenance windows of the key's project.

use serde_json::{Value, json};

use super::{UNKNOWN, refused};
use crate::support::server::{TestServer, new_project};

#[tokio::test]
async fn windows_are_created_shown_and_deleted() {
    let server = TestServer::start().await;
    let other = new_project(&server.handle, "other").await;
    assert_eq!(
        server.extension_api("GET", "/windows", "").await.json(),
        json!({ "windows": [] })
    );
    let mut windows = Vec::new();
    for (body, shown) in [
        (
            json!({ "minutes": 10 }),
            json!({
                "name": "", "tags": "", "from": "2026-11-20T10:00:00+00:00",
                "to": "2026-11-20T10:10:00+00:00", "schedule": null, "minutes": null, "tz": null,
                "until": "2026-11-20T10:10:00+00:00",
            }),
        ),
        (
            json!({
                "name": "\"move\"", "tags": "db prod", "from": "2026-11-21T02:00:00+02:00",
                "to": "2026-11-21T04:00:00Z",
            }),
            json!({
                "name": "\"move\"", "tags": "db prod", "from": "2026-11-21T00:00:00+00:00",
                "to": "2026-11-21T04:00:00+00:00", "schedule": null, "minutes": null, "tz": null,
                "until": null,
            }),
        ),
        (
            json!({ "schedule": "0 12 * * *", "minutes": 90, "tz": "Europe/Riga" }),
            json!({
                "name": "", "tags": "", "from": null, "to": null, "schedule": "0 12 * * *",
                "minutes": 90, "tz": "Europe/Riga", "until": "2026-11-20T11:30:00+00:00",
            }),
        ),
    ] {
        let answer = server
            .extension_api("POST", "/windows", &body.to_string())
            .await;
        assert_eq!(answer.status, 201, "{body}: {answer:?}");
        let mut window = answer.json();
        windows.push(window.clone());
        window.as_object_mut().unwrap().remove("id");
        assert_eq!(window, shown);
    }
    assert_eq!(
        server.extension_api("GET", "/windows", "").await.json(),
        json!({ "windows": windows })
    );
    let address = |window: &Value| format!("/windows/{}", window["id"].as_str().unwrap());
    assert_eq!(
        server
            .extension_api("GET", &address(&windows[1]), "")
            .await
            .json(),
        windows[1]
    );
    let foreign = server
        .keyed(
            &other.read_write_key,
            "GET",
            &format!("/api/overdue/v1{}", address(&windows[1])),
            "",
        )
        .await;
    assert_eq!(foreign.status, 404);
    let deleted = server
        .extension_api("DELETE", &address(&windows[1]), "")
        .await;
    assert_eq!((deleted.status, deleted.json()), (200, windows[1].clone()));
    assert_eq!(
        server
            .extension_api("DELETE", &address(&windows[1]), "")
            .await
            .status,
        404
    );
    server.stop().await;
}

#[tokio::test]
async fn invalid_windows_are_refused_and_the_field_is_named() {
    let server = TestServer::start().await;
    for (body, message) in [
        (
            "",
            "minutes is wrong: give the number of minutes for which the window is open",
        ),
        (
            r#"{"minutes": 0}"#,
            "minutes is wrong: give a number from 1 to 527040",
        ),
        (
            r#"{"minutes": "5"}"#,
            "json validation error: minutes is not a number",
        ),
        (
            r#"{"minutes": 5, "name": 5}"#,
            "json validation error: name is not a string",
        ),
        (
            r#"{"schedule": "x y", "minutes": 5, "from": "x"}"#,
            "schedule is wrong: a window has either a schedule or from and to",
        ),
        (
            r#"{"to": "2026-11-20T09:00:00Z"}"#,
            "to is wrong: the end is not after from",
        ),
    ] {
        refused(
            &server.extension_api("POST", "/windows", body).await,
            400,
            message,
        );
    }
    assert_eq!(
        server
            .extension_api("GET", &format!("/windows/{UNKNOWN}"), "")
            .await
            .status,
        404
    );
    server.stop().await;
}
