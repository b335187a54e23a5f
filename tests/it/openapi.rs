//! The OpenAPI description against real answers: every operation, its status codes, headers and
//! bodies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use overdue::channels;
use overdue::domain::channel::{ChannelSettings, SettingsAuthor};
use overdue::domain::project::ChannelName;
use overdue::engine::ChannelTestResult;
use overdue::engine::command::{Command, DeliveryReport, SendOutcome};
use overdue::http::ApiRate;
use overdue::operations::channel;
use serde_json::{Value, json};

use crate::support::server::{TestResponse, TestServer, new_project};

/// The description as served, and its operations that have answered with success.
struct OpenApiDocument {
    document: Value,
    seen: BTreeSet<(String, String)>,
}

impl OpenApiDocument {
    async fn of(server: &TestServer) -> Self {
        let document = server.get("/api/v3/openapi.json").await.json();
        assert_eq!(
            document["servers"][0]["url"],
            format!("{}/api/v3", server.base)
        );
        Self {
            document,
            seen: BTreeSet::new(),
        }
    }

    fn resolved<'a>(&'a self, node: &'a Value) -> &'a Value {
        let Some(reference) = node.get("$ref") else {
            return node;
        };
        let pointer = reference.as_str().unwrap().trim_start_matches('#');
        self.document
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}"))
    }

    /// Fails unless the operation describes this answer.
    fn assert_gives(&mut self, method: &str, path: &str, answer: &TestResponse) {
        let operation = &self.document["paths"][path][method.to_lowercase()];
        let status = answer.status.to_string();
        let about = format!(
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(&answer.body)
        );
        let response = self.resolved(
            operation["responses"]
                .get(&status)
                .unwrap_or_else(|| panic!("undescribed: {about}")),
        );
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let value = answer.header(name);
            assert_eq!(
                value.is_some(),
                self.resolved(header)["required"] == true,
                "{name} of {about}"
            );
        }
        match response["content"]
            .as_object()
            .and_then(|content| content.iter().next())
        {
            None => assert!(answer.body.is_empty(), "{about}"),
            Some((media, content)) => {
                assert_eq!(
                    answer.header("content-type"),
                    Some(media.as_str()),
                    "{about}"
                );
                if let Some(schema) = content.get("schema") {
                    self.fits(schema, &answer.json())
                        .unwrap_or_else(|error| panic!("{error} in {about}"));
                }
            }
        }
        if answer.status < 300 {
            self.seen.insert((method.to_owned(), path.to_owned()));
        }
    }

    /// Checks a value against a schema, as far as this description uses JSON Schema; patterns,
    /// formats and lengths are not checked. Returns the members that the schema names.
    fn fits<'a>(&'a self, schema: &'a Value, value: &Value) -> Result<BTreeSet<&'a str>, String> {
        let wrong = |what: &str| Err(format!("{value} {what}"));
        let mut members = BTreeSet::new();
        for (keyword, says) in schema.as_object().unwrap() {
            match keyword.as_str() {
                "$ref" => members.extend(self.fits(self.resolved(schema), value)?),
                "type" if !matches_type(says, value) => return wrong(&format!("is no {says}")),
                "const" if says != value => return wrong(&format!("is not {says}")),
                "enum" if !says.as_array().unwrap().contains(value) => {
                    return wrong(&format!("is not among {says}"));
                }
                "required" => {
                    if let Some(name) = says
                        .as_array()
                        .unwrap()
                        .iter()
                        .find(|name| value.get(name.as_str().unwrap()).is_none())
                    {
                        return wrong(&format!("has no {name}"));
                    }
                }
                "properties" => {
                    for (name, schema) in says.as_object().unwrap() {
                        members.insert(name.as_str());
                        value
                            .get(name)
                            .map(|value| self.fits(schema, value))
                            .transpose()?;
                    }
                }
                "items" => value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .try_for_each(|item| self.fits(says, item).map(drop))?,
                "allOf" => {
                    for schema in says.as_array().unwrap() {
                        members.extend(self.fits(schema, value)?);
                    }
                }
                "oneOf" => {
                    let fitting = says
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|schema| self.fits(schema, value));
                    let (fitting, others): (Vec<_>, Vec<_>) = fitting.partition(Result::is_ok);
                    match <[_; 1]>::try_from(fitting) {
                        Ok([only]) => members.extend(only?),
                        Err(fitting) => {
                            return wrong(&format!("fits {} of {says}: {others:?}", fitting.len()));
                        }
                    }
                }
                _ => {}
            }
        }
        for (name, member) in value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| !members.contains(name.as_str()))
        {
            match (
                schema.get("additionalProperties"),
                schema.get("unevaluatedProperties"),
            ) {
                (Some(Value::Bool(false)), _) | (_, Some(Value::Bool(false))) => {
                    return wrong(&format!("has {name}"));
                }
                (Some(schema), _) => drop(self.fits(schema, member)?),
                _ => {}
            }
        }
        Ok(members)
    }
}

fn matches_type(types: &Value, value: &Value) -> bool {
    let types = types
        .as_array()
        .map_or(std::slice::from_ref(types), Vec::as_slice);
    types.iter().any(|name| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    })
}

/// Result that every channel test gets.
fn test_result() -> ChannelTestResult {
    ChannelTestResult {
        duration: Duration::from_millis(212),
        status: 200,
        error: None,
        missed: None,
    }
}

/// A server with checks of every kind and in many states. Returns their names and identifiers.
async fn server_with_examples() -> (TestServer, BTreeMap<&'static str, String>) {
    let server = TestServer::start().await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let busy = server
        .create_check(
            json!({ "name": "busy", "slug": "busy", "tags": "a b", "timeout": 60, "grace": 60 }),
        )
        .await;
    server
        .create_check(json!({ "schedule": "* * * * *", "tz": "Europe/Riga" }))
        .await;
    let uuid = text(&busy["uuid"]);
    for (action, body) in [
        ("/start?rid=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f", ""),
        ("?rid=6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f", "hello"),
    ] {
        server.clock.advance_secs(3);
        assert_eq!(
            server
                .send(
                    "POST",
                    &format!("/ping/{uuid}{action}"),
                    &[],
                    body.as_bytes()
                )
                .await
                .status,
            200
        );
    }
    for action in ["/fail", "/log", "", "/start"] {
        assert_eq!(
            server.get(&format!("/ping/{uuid}{action}")).await.status,
            200
        );
    }
    let other = new_project(&server.handle, "other").await;
    let keys = [("X-Api-Key", other.read_write_key.as_str())];
    let theirs = server
        .send("POST", "/api/v3/checks/", &keys, b"")
        .await
        .json();
    let settings = ChannelSettings::from_stored(
        channels::find_kind("sms").unwrap(),
        [("to", "+37120000000")],
    )
    .unwrap();
    let channel = channel::create(
        &server.handle,
        server.main.id,
        ChannelName::parse("").unwrap(),
        settings,
        SettingsAuthor::Operator,
    )
    .await
    .unwrap();
    server.answer_tests(test_result());
    for sent in [
        SendOutcome::Delivered,
        SendOutcome::Failed("no answer".into()),
    ] {
        server
            .handle
            .call(Command::RecordChannelTest(DeliveryReport::of_test(
                channel.id, sent, 0,
            )))
            .await
            .unwrap()
            .unwrap();
    }
    let window = server
        .send(
            "POST",
            "/api/overdue/v1/windows",
            &[("X-Api-Key", &server.main.read_write_key)],
            br#"{"minutes": 5}"#,
        )
        .await
        .json();
    let shown = server
        .send(
            "GET",
            "/api/v3/checks/",
            &[("X-Api-Key", &server.main.read_only_key)],
            b"",
        )
        .await
        .json();
    let names = BTreeMap::from([
        ("busy", uuid),
        ("theirs", text(&theirs["uuid"])),
        ("unique", text(&shown["checks"][0]["unique_key"])),
        ("channel", channel.uuid.to_string()),
        ("window", text(&window["id"])),
        ("none", "00000000-0000-4000-8000-000000000000".to_owned()),
    ]);
    (server, names)
}

#[tokio::test]
async fn every_operation_answers_as_described() {
    let (server, names) = server_with_examples().await;
    let mut described = OpenApiDocument::of(&server).await;
    let rw = server.main.read_write_key.as_str();
    let ro = server.main.read_only_key.as_str();
    let tags = format!("?{}", "&tag=a".repeat(21));
    let huge = format!("{{\"desc\": \"{}\"}}", "x".repeat(1 << 20));
    for (method, path, name, query, key, body, status) in [
        ("GET", "/checks/", "", "", rw, "", 200),
        ("GET", "/checks/", "", "?tag=a&slug=busy", ro, "", 200),
        ("GET", "/checks/", "", &tags, rw, "", 400),
        ("GET", "/checks/", "", "", "", "", 401),
        (
            "POST",
            "/checks/",
            "",
            "",
            rw,
            r#"{"name": "new", "unique": ["name"]}"#,
            201,
        ),
        (
            "POST",
            "/checks/",
            "",
            "",
            rw,
            r#"{"name": "new", "unique": ["name"], "schedule": "daily"}"#,
            200,
        ),
        ("POST", "/checks/", "", "", rw, r#"{"name": 1}"#, 400),
        ("POST", "/checks/", "", "", ro, "{}", 401),
        ("POST", "/checks/", "", "", rw, &huge, 413),
        ("GET", "/checks/{uuid}", "busy", "", rw, "", 200),
        ("GET", "/checks/{uuid}", "busy", "", ro, "", 200),
        ("GET", "/checks/{uuid}", "unique", "", ro, "", 200),
        ("GET", "/checks/{uuid}", "theirs", "", rw, "", 403),
        ("GET", "/checks/{uuid}", "none", "", rw, "", 404),
        (
            "POST",
            "/checks/{uuid}",
            "busy",
            "",
            rw,
            r#"{"desc": "text", "timeout": 90}"#,
            200,
        ),
        ("POST", "/checks/{uuid}", "busy", "", rw, "[]", 400),
        ("POST", "/checks/{uuid}", "theirs", "", rw, "", 403),
        ("POST", "/checks/{uuid}", "none", "", rw, "", 404),
        ("POST", "/checks/{uuid}/resume", "busy", "", rw, "", 409),
        ("GET", "/checks/{uuid}/pings/", "busy", "", rw, "", 200),
        ("GET", "/checks/{uuid}/pings/", "busy", "", ro, "", 401),
        ("GET", "/checks/{uuid}/pings/", "theirs", "", rw, "", 403),
        (
            "GET",
            "/checks/{uuid}/pings/{n}/body",
            "busy",
            "",
            rw,
            "",
            200,
        ),
        (
            "GET",
            "/checks/{uuid}/pings/{n}/body",
            "none",
            "",
            rw,
            "",
            404,
        ),
        ("GET", "/checks/{uuid}/flips/", "busy", "", rw, "", 200),
        (
            "GET",
            "/checks/{uuid}/flips/",
            "unique",
            "?seconds=60&start=1&end=9999999999",
            ro,
            "",
            200,
        ),
        (
            "GET",
            "/checks/{uuid}/flips/",
            "busy",
            "?start=x",
            rw,
            "",
            400,
        ),
        ("POST", "/checks/{uuid}/pause", "busy", "", rw, "", 200),
        ("POST", "/checks/{uuid}/pause", "none", "", rw, "null", 404),
        ("POST", "/checks/{uuid}/resume", "busy", "", rw, "", 200),
        (
            "GET",
            "/checks/{uuid}/deliveries",
            "busy",
            "?outcome=failed",
            rw,
            "",
            200,
        ),
        (
            "GET",
            "/checks/{uuid}/deliveries",
            "theirs",
            "",
            rw,
            "",
            403,
        ),
        ("GET", "/checks/{uuid}/alerting", "busy", "", rw, "", 200),
        ("GET", "/checks/{uuid}/alerting", "none", "", rw, "", 404),
        (
            "PUT",
            "/checks/{uuid}/alerting",
            "busy",
            "",
            rw,
            r#"{"after": 3}"#,
            200,
        ),
        (
            "PUT",
            "/checks/{uuid}/alerting",
            "busy",
            "",
            rw,
            r#"{"after": 0}"#,
            400,
        ),
        ("PUT", "/checks/{uuid}/alerting", "theirs", "", rw, "", 403),
        ("DELETE", "/checks/{uuid}", "busy", "", rw, "", 200),
        ("DELETE", "/checks/{uuid}", "busy", "", rw, "", 404),
        ("GET", "/channels/", "", "", rw, "", 200),
        ("GET", "/channels/", "", "", ro, "", 401),
        ("GET", "/kinds", "", "", rw, "", 200),
        ("GET", "/kinds", "", "", ro, "", 401),
        ("GET", "/channels", "", "", rw, "", 200),
        (
            "POST",
            "/channels",
            "",
            "",
            rw,
            r#"{"kind": "ntfy", "name": "phone", "settings": {"topic": "a", "token": "tk_1"}}"#,
            201,
        ),
        ("POST", "/channels", "", "", rw, r#"{"kind": "ntfy"}"#, 400),
        ("POST", "/channels", "", "", rw, &huge, 413),
        ("GET", "/channels/{uuid}", "channel", "", rw, "", 200),
        ("GET", "/channels/{uuid}", "none", "", rw, "", 404),
        (
            "PUT",
            "/channels/{uuid}",
            "channel",
            "",
            rw,
            r#"{"name": "text"}"#,
            200,
        ),
        (
            "PUT",
            "/channels/{uuid}",
            "channel",
            "",
            rw,
            r#"{"settings": {}}"#,
            400,
        ),
        ("PUT", "/channels/{uuid}", "none", "", rw, "", 404),
        (
            "POST",
            "/channels/{uuid}/test",
            "channel",
            "",
            rw,
            r#"{"event": "up"}"#,
            200,
        ),
        (
            "POST",
            "/channels/{uuid}/test",
            "channel",
            "",
            rw,
            r#"{"event": "closed"}"#,
            400,
        ),
        ("POST", "/channels/{uuid}/test", "none", "", rw, "", 404),
        (
            "POST",
            "/channels/{uuid}/enable",
            "channel",
            "",
            rw,
            "",
            200,
        ),
        ("POST", "/channels/{uuid}/enable", "none", "", rw, "", 404),
        (
            "GET",
            "/channels/{uuid}/deliveries",
            "channel",
            "?limit=1",
            rw,
            "",
            200,
        ),
        (
            "GET",
            "/channels/{uuid}/deliveries",
            "none",
            "",
            rw,
            "",
            404,
        ),
        ("GET", "/audit", "", "?limit=1&before=9", rw, "", 200),
        ("GET", "/audit", "", "?limit=0", rw, "", 400),
        ("GET", "/audit", "", "", ro, "", 401),
        ("GET", "/deliveries", "", "", rw, "", 200),
        ("GET", "/deliveries", "", "?limit=501", rw, "", 400),
        ("GET", "/deliveries", "", "", ro, "", 401),
        ("DELETE", "/channels/{uuid}", "channel", "", rw, "", 200),
        ("DELETE", "/channels/{uuid}", "channel", "", rw, "", 404),
        ("GET", "/windows", "", "", rw, "", 200),
        ("GET", "/windows", "", "", ro, "", 401),
        (
            "POST",
            "/windows",
            "",
            "",
            rw,
            r#"{"schedule": "0 3 * * *", "minutes": 60, "tags": "a"}"#,
            201,
        ),
        ("POST", "/windows", "", "", rw, r#"{"minutes": 0}"#, 400),
        ("GET", "/windows/{uuid}", "window", "", rw, "", 200),
        ("GET", "/windows/{uuid}", "none", "", rw, "", 404),
        ("DELETE", "/windows/{uuid}", "window", "", rw, "", 200),
        ("DELETE", "/windows/{uuid}", "window", "", rw, "", 404),
        ("GET", "/badges/", "", "", ro, "", 200),
        ("GET", "/status/", "", "", rw, "", 200),
        ("GET", "/status/", "", "", "", "", 401),
        ("GET", "/openapi.json", "", "", "", "", 200),
    ] {
        let uuid = names.get(name).map_or("", |name| name);
        let server_of_path = described.document["paths"][path]["servers"][0]["url"].as_str();
        let prefix =
            server_of_path.map_or("/api/v3", |url| url.strip_prefix(&server.base).unwrap());
        let address = format!("{prefix}{path}{query}")
            .replace("{uuid}", uuid)
            .replace("{n}", "2");
        let headers = if key.is_empty() {
            vec![]
        } else {
            vec![("X-Api-Key", key)]
        };
        let answer = server
            .send(method, &address, &headers, body.as_bytes())
            .await;
        assert_eq!(answer.status, status, "{method} {address}: {answer:?}");
        described.assert_gives(method, path, &answer);
    }
    let operations = described.document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "servers")
                .map(|method| (method.to_uppercase(), path.clone()))
                .collect::<Vec<_>>()
        });
    let served_here = operations.filter(|(_, path)| !path.starts_with("/admin/"));
    assert_eq!(described.seen, served_here.collect());
    server.stop().await;
}

/// Collects the values of all references.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref"));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn endpoints_of_the_admin_socket_are_described_and_not_served_over_tcp() {
    let server = TestServer::start().await;
    let described = OpenApiDocument::of(&server).await;
    let mut operations = BTreeSet::new();
    for (path, item) in described.document["paths"].as_object().unwrap() {
        let Some(admin_path) = path.strip_prefix("/admin") else {
            continue;
        };
        let url = item["servers"][0]["url"].as_str().unwrap();
        assert_eq!(
            format!("{url}/admin"),
            format!("http://localhost{}", overdue::admin::BASE_PATH)
        );
        for (method, operation) in item.as_object().unwrap() {
            if method == "servers" {
                continue;
            }
            let method = method.to_uppercase();
            assert_eq!(operation["tags"], json!(["admin"]), "{method} {path}");
            assert!(operation["responses"]["404"].is_object(), "{method} {path}");
            let address =
                format!("{}{admin_path}", overdue::admin::BASE_PATH).replace(['{', '}'], "");
            let answer = server.send(&method, &address, &[], b"").await;
            assert_eq!(answer.status, 404, "{method} {path}");
            operations.insert((method, admin_path.to_owned()));
        }
    }
    let routes = overdue::admin::endpoints();
    assert_eq!(
        operations,
        routes
            .map(|(method, path)| (method.to_owned(), path.to_owned()))
            .collect()
    );
    let mut found = Vec::new();
    references(&described.document, &mut found);
    for reference in found {
        let pointer = reference.as_str().unwrap().trim_start_matches('#');
        assert!(described.document.pointer(pointer).is_some(), "{pointer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn limits_and_entity_tags_are_described() {
    let server = TestServer::start_with(|config| {
        config.api_rate = ApiRate {
            per_minute: 1,
            burst: 2,
        }
    })
    .await;
    let mut described = OpenApiDocument::of(&server).await;
    let list = server.api("GET", "/badges/", "").await;
    let headers = [
        ("X-Api-Key", server.main.read_write_key.as_str()),
        ("If-None-Match", list.header("etag").unwrap()),
    ];
    for status in [304, 429] {
        let answer = server.send("GET", "/api/v3/badges/", &headers, b"").await;
        assert_eq!(answer.status, status);
        described.assert_gives("GET", "/badges/", &answer);
    }
    let long = server
        .api("GET", &format!("/badges/?{}", "x".repeat(10_000)), "")
        .await;
    assert_eq!(long.status, 414);
    described.assert_gives("GET", "/badges/", &long);
    server.stop().await;
}
