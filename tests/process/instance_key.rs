//! Projects, keys and users over HTTP with the instance key.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::HttpClient;
use crate::server_process::{ServerProcess, admin, overdue, run, temp_data_directory};

const KEY: &str = "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6";

/// A client with a key.
struct Caller {
    client: HttpClient,
    key: String,
}

impl Caller {
    fn connect(server: &ServerProcess, key: &str) -> Self {
        Self {
            client: HttpClient::connect(server.address).unwrap(),
            key: key.into(),
        }
    }

    fn send(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let head = format!(
            "{method} /api/overdue/v1{path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {}\r\n\
             Content-Length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        self.client.send((head + &body).as_bytes()).unwrap();
        let reply = self.client.receive().unwrap();
        let body = serde_json::from_slice(&reply.body).unwrap_or_default();
        (reply.status, body)
    }
}

fn start(data: &Path, key_file: &Path) -> ServerProcess {
    std::fs::write(key_file, format!("{KEY}\n")).unwrap();
    let words = ["--instance-key-file", key_file.to_str().unwrap()];
    ServerProcess::start_with(data, &words)
}

#[test]
fn the_instance_key_manages_projects_keys_limits_and_users() {
    let (directory, data) = temp_data_directory();
    let server = start(&data, &directory.path().join("key"));
    let mut caller = Caller::connect(&server, KEY);
    let shop = json!({ "name": "shop", "check_limit": 1 });
    let (status, created) = caller.send("POST", "/projects", &shop);
    assert_eq!(status, 200, "{created}");
    let (_, projects) = caller.send("GET", "/projects", &Value::Null);
    let found = projects.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&found["name"], &found["check_limit"], &found["uuid"]),
        (&json!("shop"), &json!(1), &created["uuid"])
    );
    let new_key = json!({ "project": "shop", "access": "read-write", "label": "terraform" });
    let (_, key) = caller.send("POST", "/keys", &new_key);
    let mut project = Caller::connect(&server, key["key"].as_str().unwrap());
    let answer = |caller: &mut Caller| {
        let key = caller.key.clone();
        let body = br#"{"name": "a check"}"#;
        let reply = caller.client.post_with("/api/v3/checks/", &key, body);
        reply.unwrap().status
    };
    assert_eq!(answer(&mut project), 201);
    assert_eq!(
        answer(&mut project),
        403,
        "the limit of the project applies"
    );
    let limit = json!({ "check_limit": 2 });
    assert_eq!(caller.send("PATCH", "/projects/shop", &limit).0, 204);
    assert_eq!(answer(&mut project), 201);
    let ann = json!({ "name": "ann", "grant": { "projects": [] } });
    let (status, user) = caller.send("POST", "/users", &ann);
    assert_eq!(status, 200, "{user}");
    assert!(user["link"]["url"].is_string(), "{user}");
    assert_eq!(caller.send("DELETE", "/users/ann", &Value::Null).0, 204);
    let revoked = format!("/keys/{}", key["id"]);
    assert_eq!(caller.send("DELETE", &revoked, &Value::Null).0, 204);
    assert_eq!(answer(&mut project), 401);
    assert_eq!(caller.send("DELETE", "/projects/shop", &Value::Null).0, 204);
    let log = admin(&data, &["audit", "--json"]);
    assert!(
        log.contains("of the instance") && log.contains("api_key"),
        "{log}"
    );
    server.stop();
}

#[test]
fn only_the_instance_key_gives_access_and_to_these_endpoints_only() {
    let (directory, data) = temp_data_directory();
    let key_file = directory.path().join("key");
    let server = start(&data, &key_file);
    let project_key = admin(&data, &["key", "create", "--access", "read-write"]);
    for (key, expected) in [
        (project_key.trim(), json!({ "error": "wrong api key" })),
        ("", json!({ "error": "wrong api key" })),
    ] {
        for method in ["GET", "POST", "PATCH", "DELETE"] {
            let mut caller = Caller::connect(&server, key);
            let reply = caller.send(method, "/projects", &Value::Null);
            assert_eq!(reply, (401, expected.clone()), "{method} {key}");
        }
    }
    let mut caller = Caller::connect(&server, KEY);
    // The instance key is no key of a project.
    assert_eq!(caller.send("GET", "/channels", &Value::Null).0, 401);
    for (method, path) in [
        ("GET", "/admin/projects"),
        ("GET", "/backup"),
        ("POST", "/projects/default/none"),
        ("POST", "/users/ann/password"),
        ("POST", "/users/../channels"),
    ] {
        let (status, _) = caller.send(method, path, &Value::Null);
        assert_eq!(status, 404, "{method} {path}");
    }
    assert_eq!(caller.send("PUT", "/projects", &json!({})).0, 405);
    assert_eq!(caller.send("GET", "/projects/", &Value::Null).0, 200);
    let (status, reply) = caller.send("POST", "/projects", &json!({ "nam": "a" }));
    assert_eq!(status, 400, "{reply}");
    assert!(reply["error"].as_str().unwrap().contains("nam"), "{reply}");
    let described = caller.client.get("/api/v3/openapi.json", "").unwrap();
    let described: Value = serde_json::from_slice(&described.body).unwrap();
    for (method, path) in overdue::admin::instance_endpoints() {
        let operation = &described["paths"][path][method.to_lowercase()];
        assert_eq!(operation["tags"], json!(["instance"]), "{method} {path}");
        let (status, _) = caller.send(method, &path.replace(['{', '}'], ""), &Value::Null);
        assert!(
            ![401, 405, 500].contains(&status),
            "{method} {path}: {status}"
        );
    }
    server.stop();
    let without = ServerProcess::start(&data);
    let mut caller = Caller::connect(&without, KEY);
    assert_eq!(caller.send("GET", "/projects", &Value::Null).0, 404);
    without.stop();
    std::fs::write(&key_file, "short\n").unwrap();
    let words = ["serve", "--instance-key-file", key_file.to_str().unwrap()];
    let refused = run(overdue(&words).arg("--data").arg(&data));
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("at least 22"), "{}", refused.err);
}
