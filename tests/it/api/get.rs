//! `GET /checks/<uuid>` and `GET /checks/<unique_key>`.

use serde_json::json;

use super::{path, text};
use crate::support::server::TestServer;

#[tokio::test]
async fn a_check_is_shown_with_its_current_status() {
    let server = TestServer::start().await;
    let check = server
        .create_check(json!({ "timeout": 60, "grace": 120 }))
        .await;
    server
        .clock
        .set(crate::support::server::START.plus_micros(999_999));
    server.ping(&check, "/start").await;
    let shown = server.now(&check).await;
    let start = json!("2026-11-20T10:00:00+00:00");
    assert_eq!(
        (&shown["status"], &shown["started"], &shown["next_ping"]),
        (&json!("new"), &json!(true), &start)
    );
    server.clock.advance_secs(2);
    server.ping(&check, "").await;
    let shown = server.now(&check).await;
    assert_eq!(
        (
            &shown["status"],
            &shown["started"],
            &shown["last_duration"],
            &shown["n_pings"]
        ),
        (&json!("up"), &json!(false), &json!(2), &json!(2))
    );
    // Fractions are cut off.
    assert_eq!(
        (&shown["last_ping"], &shown["next_ping"]),
        (
            &json!("2026-11-20T10:00:02+00:00"),
            &json!("2026-11-20T10:01:02+00:00")
        )
    );
    for (seconds, status) in [(59, "up"), (1, "grace"), (119, "grace"), (1, "down")] {
        server.clock.advance_secs(seconds);
        assert_eq!(server.now(&check).await["status"], status);
    }
    server.stop().await;
}

#[tokio::test]
async fn both_kinds_of_api_key_read_by_unique_key() {
    let server = TestServer::start().await;
    let check = server.create_check(json!({ "name": "a" })).await;
    let read_only = server
        .keyed(
            &server.main.read_only_key,
            "GET",
            &format!("/api/v3{}", path(&check, "")),
            "",
        )
        .await
        .json();
    let by_unique = format!("/api/v3/checks/{}", text(&read_only, "unique_key"));
    assert_eq!(
        server
            .keyed(&server.main.read_only_key, "GET", &by_unique, "")
            .await
            .json(),
        read_only
    );
    assert_eq!(
        server
            .keyed(&server.main.read_write_key, "GET", &by_unique, "")
            .await
            .json(),
        server.now(&check).await
    );
    assert!(!read_only.to_string().contains(text(&check, "uuid")));
    server.stop().await;
}
