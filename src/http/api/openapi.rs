//! `/openapi.json`: description of requests and responses of the API, for tools that generate
//! clients, documentation and tests.

use super::endpoints::ApiVersion;
use crate::http::HttpConfig;
use crate::http::common::request::BaseUrl;

const TEMPLATE: &str = include_str!("openapi.json");

/// Parts of an OpenAPI document, each a JSON object.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiParts {
    /// Members of `paths`.
    pub paths: &'static str,
    /// Members of `components/schemas`.
    pub schemas: &'static str,
    /// Members of `components/responses`.
    pub responses: &'static str,
}

/// Returns the description of the API of a service (OpenAPI 3.1.0), together with that of other
/// endpoints.
pub(super) fn description(config: &HttpConfig) -> String {
    let others = config.other_endpoints;
    let described = description_at(&config.base_url, others);
    match &config.instance {
        Some(access) => insert_members(&described, PATHS_START, &access.described_paths),
        None => described,
    }
}

fn description_at(base_url: &BaseUrl, others: Option<OpenApiParts>) -> String {
    let quoted =
        |base: &str, path: &str| serde_json::Value::from(format!("{base}{path}")).to_string();
    let own = [ApiVersion::V3, ApiVersion::OverdueV1].into_iter().fold(
        TEMPLATE.to_owned(),
        |description, version| {
            let path = version.path();
            description.replace(&quoted("", path), &quoted(base_url.as_str(), path))
        },
    );
    let Some(others) = others else {
        return own;
    };
    [
        (PATHS_START, others.paths),
        ("\n    \"schemas\": {", others.schemas),
        ("\n    \"responses\": {", others.responses),
    ]
    .into_iter()
    .fold(own, |description, (start, object)| {
        insert_members(&description, start, object)
    })
}

/// Start of the member `paths` of the description.
const PATHS_START: &str = "\n  \"paths\": {";

/// Inserts the members of a JSON object after this text.
fn insert_members(description: &str, start: &str, object: &str) -> String {
    let members = object.trim().trim_start_matches('{');
    let members = members.strip_suffix('}').unwrap_or(members).trim_end();
    description.replacen(start, &format!("{start}{members},"), 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::check_fields::{CheckFields, FieldError, FieldProblem, RequestDocument};
    use super::*;
    use crate::domain::check::CheckSettings;
    use crate::http::api::endpoints::ENDPOINTS;

    fn described() -> Value {
        let base_url = "https://example.org/sub".parse().unwrap();
        serde_json::from_str(&description_at(&base_url, None)).unwrap()
    }

    #[test]
    fn the_description_names_this_server() {
        let described = described();
        let server =
            |path| serde_json::json!([{ "url": format!("https://example.org/sub{path}") }]);
        assert_eq!(described["servers"], server("/api/v3"));
        for (path, item) in described["paths"].as_object().unwrap() {
            let is_extension = ENDPOINTS
                .iter()
                .any(|row| row.template == path && row.versions.contains(&ApiVersion::OverdueV1));
            assert_eq!(
                item.get("servers"),
                is_extension
                    .then(|| server(ApiVersion::OverdueV1.path()))
                    .as_ref(),
                "{path}"
            );
        }
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let mut routes = BTreeSet::from([("/openapi.json".to_owned(), "GET".to_owned())]);
        let mut operations = BTreeSet::new();
        for row in ENDPOINTS {
            let methods = row.allow;
            // The description states once that HEAD is allowed with GET, and that OPTIONS is
            // answered.
            assert!(
                methods.ends_with("OPTIONS") && methods.contains("GET") == methods.contains("HEAD"),
                "{methods}"
            );
            let methods = methods
                .split(", ")
                .filter(|method| !["HEAD", "OPTIONS"].contains(method));
            // Paths that differ only in the names of their parameters are one path in OpenAPI.
            routes.extend(methods.map(|method| {
                (
                    row.template.replace("{unique_key}", "{uuid}"),
                    method.to_owned(),
                )
            }));
        }
        for (path, methods) in described()["paths"].as_object().unwrap() {
            let methods = methods
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "servers");
            operations.extend(methods.map(|method| (path.clone(), method.to_uppercase())));
        }
        assert_eq!(routes, operations);
    }

    #[test]
    fn every_field_of_a_request_is_read() {
        for field in described()["components"]["schemas"]["CheckFields"]["properties"]
            .as_object()
            .unwrap()
            .keys()
        {
            let body = format!("{{\"{field}\": {{}}}}");
            let read = CheckFields::parse(
                &RequestDocument::parse(body.as_bytes()).unwrap(),
                ApiVersion::V3,
                &CheckSettings::default(),
            );
            match field.as_str() {
                "api_key" => assert!(read.is_ok(), "it is read with the key"),
                "unique" => assert_eq!(
                    read,
                    Err(FieldError::Field("unique", FieldProblem::NotAnArray))
                ),
                _ => assert!(
                    matches!(read, Err(FieldError::Field(name, _)) if name == field),
                    "{field}: {read:?}"
                ),
            }
        }
    }

    /// Collects the values of all members of this name.
    fn members<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(key, value)| {
                found.extend((key == name).then_some(value));
                members(value, name, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| members(item, name, found)),
            _ => {}
        }
    }

    #[test]
    fn references_lead_to_every_component() {
        let described = described();
        let mut references = Vec::new();
        members(&described, "$ref", &mut references);
        let references = references
            .into_iter()
            .map(|reference| reference.as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>();
        let kinds = described["components"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(kind, _)| *kind != "securitySchemes");
        let components = kinds.flat_map(|(kind, components)| {
            components
                .as_object()
                .unwrap()
                .keys()
                .map(move |name| format!("#/components/{kind}/{name}"))
        });
        assert_eq!(references, components.collect());
    }
}
