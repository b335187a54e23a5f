//! OpenAPI description of the endpoints, as parts of the document that the server publishes. A test
//! compares it with the table of routes and the fields of the requests.

use serde_json::{Map, Value, json};

use super::instance_endpoints;

/// Members of `paths`.
pub const PATHS: &str = include_str!("openapi/paths.json");
/// Members of `components/schemas`.
pub const SCHEMAS: &str = include_str!("openapi/schemas.json");
/// Members of `components/responses`.
pub const RESPONSES: &str = include_str!("openapi/responses.json");

/// Returns the members of `paths` for the endpoints that the instance key gives access to, of
/// the service at this URL.
pub fn instance_paths(base_url: &str) -> String {
    let described: Map<String, Value> = serde_json::from_str(PATHS).unwrap_or_default();
    let api_url = format!("{base_url}/api/overdue/v1");
    let mut paths = Map::new();
    for (method, path) in instance_endpoints() {
        let method = method.to_ascii_lowercase();
        let operation = described
            .get(&format!("/admin{path}"))
            .and_then(|item| item.get(&method));
        let Some(Value::Object(operation)) = operation else {
            continue;
        };
        let item = paths
            .entry(path)
            .or_insert_with(|| json!({ "servers": [{ "url": api_url }] }));
        item[method] = Value::Object(instance_operation(operation.clone()));
    }
    Value::Object(paths).to_string()
}

/// Returns the description of an operation over HTTP.
fn instance_operation(mut operation: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::String(id)) = operation.get_mut("operationId") {
        *id = id.replacen("admin", "instance", 1);
    }
    operation.insert("tags".into(), json!(["instance"]));
    operation.insert("security".into(), json!([{ "X-Api-Key": [] }]));
    if let Some(Value::Object(responses)) = operation.get_mut("responses") {
        let unauthorized = json!({ "$ref": "#/components/responses/Unauthorized" });
        responses.insert("401".into(), unauthorized);
        // That of the socket says that no other address serves its paths.
        let not_found = json!({ "$ref": "#/components/responses/NotFound" });
        responses.insert("404".into(), not_found);
    }
    operation
}
