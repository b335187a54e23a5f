//! Versions 1 and 2 of the API.

use serde_json::json;

use super::{path, text};
use crate::support::server::TestServer;

#[tokio::test]
async fn all_versions_see_the_same_checks_under_their_own_addresses() {
    let server = TestServer::start().await;
    for version in ["v1", "v2", "v3"] {
        let created = server
            .keyed(
                &server.main.read_write_key,
                "POST",
                &format!("/api/{version}/checks/"),
                r#"{"name": "My Check!"}"#,
            )
            .await
            .json();
        assert_eq!(
            created["slug"],
            if version == "v3" { "" } else { "my-check" }
        );
        let uuid = text(&created, "uuid");
        for (seen, status) in [("v1", "started"), ("v2", "new"), ("v3", "new")] {
            let prefix = format!("/api/{seen}");
            let check = server
                .keyed(
                    &server.main.read_write_key,
                    "GET",
                    &format!("{prefix}{}", path(&created, "")),
                    "",
                )
                .await
                .json();
            assert_eq!(
                (&check["status"], &check["name"]),
                (&json!("new"), &json!("My Check!"))
            );
            for (member, action) in [
                ("update_url", ""),
                ("pause_url", "/pause"),
                ("resume_url", "/resume"),
            ] {
                assert_eq!(
                    check[member],
                    format!("{}{prefix}/checks/{uuid}{action}", server.base)
                );
            }
            server.ping(&created, "/start").await;
            let list = server
                .keyed(
                    &server.main.read_only_key,
                    "GET",
                    &format!("{prefix}/checks/?slug={}", text(&created, "slug")),
                    "",
                )
                .await
                .json();
            assert_eq!(
                list["checks"].as_array().unwrap().last().unwrap()["status"],
                status
            );
            server.api("POST", &path(&created, "/pause"), "").await;
            server.api("POST", &path(&created, "/resume"), "").await;
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn older_versions_derive_slugs_on_update_too() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "name": "a", "slug": "own" }))
        .await;
    for (body, slug) in [
        (r#"{"tags": "x"}"#, "own"),
        (r#"{"name": "Žofie  B"}"#, "zofie-b"),
        (r#"{"name": "C", "slug": "own"}"#, "own"),
        (r#"{"name": "☎"}"#, ""),
    ] {
        let answer = server
            .keyed(
                &server.main.read_write_key,
                "POST",
                &format!("/api/v2{}", path(&check, "")),
                body,
            )
            .await;
        assert_eq!(
            (answer.status, &answer.json()["slug"]),
            (200, &json!(slug)),
            "{body}"
        );
    }
    server.stop().await;
}
