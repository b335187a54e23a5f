//! OpenAPI description of the endpoints, as parts of the document that the server publishes. A test
//! compares it with the table of routes and the fields of the requests.

/// Members of `paths`.
pub const PATHS: &str = include_str!("openapi/paths.json");
/// Members of `components/schemas`.
pub const SCHEMAS: &str = include_str!("openapi/schemas.json");
/// Members of `components/responses`.
pub const RESPONSES: &str = include_str!("openapi/responses.json");
