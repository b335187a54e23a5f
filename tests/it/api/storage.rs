//! A failing database: unknown data is not reported as missing, and the health check fails.

use serde_json::json;

use super::{path, refused};
use crate::support::disk::Disk;
use crate::support::server::TestServer;

const UNAVAILABLE: &str = "the service cannot do this at the moment, try again later";

#[tokio::test]
async fn a_failed_write_or_read_answers_unavailable_until_the_disk_recovers() {
    let disk = Disk::default();
    let server = TestServer::start_on(disk.medium(), |_| {}).await;
    let check = server.create_check(json!({ "name": "kept" })).await;
    server.ping(&check, "").await;
    assert_eq!(server.api("GET", "/status/", "").await.status, 200);
    disk.power_off();
    for (method, rest, body) in [
        ("POST", "", r#"{"name": "lost"}"#),
        ("POST", "/pause", ""),
        ("DELETE", "", ""),
    ] {
        let answer = server.api(method, &path(&check, rest), body).await;
        refused(&answer, 503, UNAVAILABLE);
        assert_eq!(answer.header("Retry-After"), Some("1"), "{method} {rest}");
    }
    refused(&server.api("POST", "/checks/", "").await, 503, UNAVAILABLE);
    refused(
        &server.api("GET", "/status/", "").await,
        500,
        "the test query of the database failed",
    );
    // Data in memory is still shown, and invalid requests still get their errors.
    assert_eq!(server.now(&check).await["name"], "kept");
    assert_eq!(
        server
            .api("POST", "/checks/", r#"{"timeout": 1}"#)
            .await
            .status,
        400
    );
    // The failed database is closed before it is opened again. Its contents are unknown in between.
    while server.api("GET", &path(&check, "/pings/"), "").await.status == 200 {
        tokio::task::yield_now().await;
    }
    for rest in ["/pings/", "/pings/1/body", "/flips/"] {
        refused(
            &server.api("GET", &path(&check, rest), "").await,
            503,
            UNAVAILABLE,
        );
    }
    disk.heal();
    while server.api("GET", "/status/", "").await.status != 200 {
        tokio::task::yield_now().await;
    }
    let pings = server.api("GET", &path(&check, "/pings/"), "").await.json();
    assert_eq!(
        (
            server.now(&check).await["name"].as_str(),
            pings["pings"].as_array().unwrap().len()
        ),
        (Some("kept"), 1)
    );
    assert_eq!(
        server.api("POST", &path(&check, "/pause"), "").await.status,
        200
    );
    server.stop().await;
}

#[tokio::test]
async fn a_tag_is_invalid_after_the_database_is_reopened() {
    let disk = Disk::default();
    let server = TestServer::start_on(disk.medium(), |_| {}).await;
    let check = server.create_check(json!({ "name": "a" })).await;
    let list = server.api("GET", "/checks/", "").await;
    let tag = list.header("ETag").unwrap().to_owned();
    let version = server.changes();
    disk.power_off();
    assert_eq!(server.api("POST", &path(&check, ""), "").await.status, 503);
    disk.heal();
    while server.api("GET", "/status/", "").await.status != 200 {
        tokio::task::yield_now().await;
    }
    // The same number of changes, but different ones.
    for number in 0..10 {
        if server.changes() == version {
            break;
        }
        let body = json!({ "name": number.to_string() }).to_string();
        assert_eq!(
            server.api("POST", &path(&check, ""), &body).await.status,
            200
        );
    }
    assert_eq!(server.changes(), version);
    let headers = [
        ("X-Api-Key", server.main.read_write_key.as_str()),
        ("If-None-Match", tag.as_str()),
    ];
    assert_eq!(
        server
            .send("GET", "/api/v3/checks/", &headers, b"")
            .await
            .status,
        200
    );
    server.stop().await;
}
