//! Requests of the Terraform provider `kristofferahl/healthchecksio`, in its order and with its
//! members: it decodes strings and numbers strictly, finds a check by the last segment of
//! `update_url`, and reads a check from the list of all.

use serde_json::{Value, json};

use crate::support::server::TestServer;

/// Sends a request of the provider and decodes the answer.
async fn call(server: &TestServer, method: &str, path: &str, body: Option<Value>) -> Value {
    let headers = [
        ("X-Api-Key", server.main.read_write_key.as_str()),
        ("Content-Type", "application/json"),
    ];
    let body = body.map_or_else(String::new, |body| body.to_string());
    let path = format!("/api/v1{path}");
    let answer = server.send(method, &path, &headers, body.as_bytes()).await;
    assert!(answer.status < 300, "{method} {path}: {answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// ID as the provider keeps it in its state.
fn id(check: &Value) -> String {
    let url = check["update_url"].as_str().unwrap();
    url.rsplit('/').next().unwrap().to_owned()
}

/// Asserts that Go decodes the members: strings or null, and whole numbers, or they are missing.
fn assert_decodes(check: &Value) {
    for name in [
        "channels",
        "desc",
        "last_ping",
        "methods",
        "name",
        "slug",
        "next_ping",
        "pause_url",
        "ping_url",
        "schedule",
        "status",
        "tags",
        "tz",
        "update_url",
    ] {
        let value = &check[name];
        assert!(value.is_string() || value.is_null(), "{name}: {check}");
    }
    for name in ["grace", "n_pings", "timeout"] {
        let value = &check[name];
        assert!(value.is_u64() || value.is_null(), "{name}: {check}");
    }
}

#[tokio::test]
async fn a_check_is_created_planned_changed_and_destroyed() {
    let server = TestServer::start().await;
    let resource = json!({
        "channels": "", "desc": "Nightly", "grace": 3600, "methods": "", "name": "backup",
        "schedule": "30 3 * * *", "tags": "prod db", "tz": "Europe/Riga",
    });
    let made = call(&server, "POST", "/checks/", Some(resource)).await;
    let own = id(&made);
    // A plan without a change reads the check back as it is declared.
    let list = call(&server, "GET", "/checks/", None).await;
    let checks = list["checks"].as_array().unwrap();
    checks.iter().for_each(assert_decodes);
    let read = checks.iter().find(|check| id(check) == own).unwrap();
    for (name, declared) in [
        ("name", json!("backup")),
        ("desc", json!("Nightly")),
        ("tags", json!("prod db")),
        ("schedule", json!("30 3 * * *")),
        ("tz", json!("Europe/Riga")),
        ("grace", json!(3600)),
        ("channels", json!("")),
        ("methods", json!("")),
        ("slug", json!("backup")),
    ] {
        assert_eq!(read[name], declared, "{name}");
    }
    let resource = json!({
        "channels": "", "grace": 900, "methods": "POST", "name": "backup", "slug": "nightly",
        "timeout": 600,
    });
    let changed = call(&server, "POST", &format!("/checks/{own}"), Some(resource)).await;
    assert_decodes(&changed);
    assert_eq!(
        [&changed["timeout"], &changed["methods"], &changed["slug"]],
        [&json!(600), &json!("POST"), &json!("nightly")]
    );
    let channels = call(&server, "GET", "/channels/", None).await;
    assert!(channels["channels"].is_array(), "{channels}");
    let removed = call(&server, "DELETE", &format!("/checks/{own}"), None).await;
    assert_decodes(&removed);
    // The state of a check that was deleted elsewhere is dropped: it is not in the list.
    let list = call(&server, "GET", "/checks/", None).await;
    assert!(
        !list["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| id(check) == own)
    );
    server.stop().await;
}
