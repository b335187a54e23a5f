//! Requests as HTTP messages: fields in the path, in the query and in a JSON body.

use bytes::Bytes;
use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::BASE_PATH;
use super::error::AdminError;
use super::request::AdminRequest;

/// Characters that are encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// A request that has arrived.
pub(super) struct EncodedRequest {
    /// Fields of the path.
    pub(super) parameters: Vec<(&'static str, String)>,
    pub(super) query: String,
    pub(super) body: Bytes,
}

/// True if the fields of such requests are JSON in the body; otherwise they are the query.
fn has_json_body(method: &Method) -> bool {
    *method == Method::POST || *method == Method::PATCH
}

/// Returns the name of the field that a segment of an endpoint's path stands for.
fn parameter_name(segment: &'static str) -> Option<&'static str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Returns the fields in a path, which begins below that of the API; `None` if it is not a path of
/// the endpoint.
pub(super) fn match_path(
    endpoint: &'static str,
    path: &str,
) -> Option<Vec<(&'static str, String)>> {
    if endpoint.split('/').count() != path.split('/').count() {
        return None;
    }
    let mut parameters = Vec::new();
    for (expected, segment) in endpoint.split('/').zip(path.split('/')) {
        match parameter_name(expected) {
            Some(name) => {
                let value = percent_decode_str(segment).decode_utf8().ok()?;
                parameters.push((name, value.into_owned()));
            }
            None if expected == segment => {}
            None => return None,
        }
    }
    Some(parameters)
}

/// Returns the target and the body of a request.
pub(super) fn encode<R: AdminRequest>(mut request: R) -> Result<(String, Vec<u8>), AdminError> {
    let unwritable = |error: &dyn std::error::Error| {
        AdminError::invalid(format!("the request cannot be written: {error}"))
    };
    let document = request.document().map(std::mem::take);
    let value = serde_json::to_value(&request).map_err(|error| unwritable(&error))?;
    let mut fields = match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.retain(|_, value| !value.is_null());
    let mut target = BASE_PATH.to_owned();
    for segment in R::PATH.split('/').skip(1) {
        target.push('/');
        match parameter_name(segment).and_then(|name| fields.remove(name)) {
            Some(Value::String(text)) => target.extend(utf8_percent_encode(&text, SEGMENT)),
            Some(other) => target += &other.to_string(),
            None => target += segment,
        }
    }
    if has_json_body(&R::METHOD) {
        let body = serde_json::to_vec(&fields).map_err(|error| unwritable(&error))?;
        return Ok((target, body));
    }
    let query = serde_html_form::to_string(&fields).map_err(|error| unwritable(&error))?;
    if !query.is_empty() {
        target.push('?');
        target += &query;
    }
    Ok((target, document.unwrap_or_default()))
}

/// Reads a request.
pub(super) fn decode<R: AdminRequest>(request: EncodedRequest) -> Result<R, AdminError> {
    let EncodedRequest {
        parameters,
        query,
        body,
    } = request;
    let mut pairs: Vec<(String, String)> = serde_html_form::from_str(&query)
        .map_err(|error| AdminError::invalid(error.to_string()))?;
    pairs.extend(
        parameters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    if has_json_body(&R::METHOD) {
        return decode_fields(json_fields(pairs, &body)?);
    }
    let text = serde_html_form::to_string(&pairs)
        .map_err(|error| AdminError::invalid(error.to_string()))?;
    let mut request: R = decode_fields(serde_html_form::Deserializer::from_bytes(text.as_bytes()))?;
    match request.document() {
        Some(document) => *document = body.into(),
        None if body.is_empty() => {}
        None => {
            return Err(AdminError::invalid(
                "this request takes no body: give its fields in the query",
            ));
        }
    }
    Ok(request)
}

/// Returns the fields of a JSON body, with the parameters of the path and of the query as text.
fn json_fields(pairs: Vec<(String, String)>, body: &[u8]) -> Result<Value, AdminError> {
    let mut fields: Map<String, Value> = if body.is_empty() {
        Map::new()
    } else {
        serde_json::from_slice(body).map_err(|error| {
            AdminError::invalid(format!("the body is not a JSON object: {error}"))
        })?
    };
    for (name, value) in pairs {
        if fields.contains_key(&name) {
            return Err(AdminError::invalid(format!(
                "the field {name} is given twice"
            )));
        }
        fields.insert(name, Value::String(value));
    }
    Ok(Value::Object(fields))
}

fn decode_fields<'de, R: DeserializeOwned>(
    fields: impl Deserializer<'de>,
) -> Result<R, AdminError> {
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let field = error.path().to_string();
        let reason = error.inner().to_string();
        AdminError::invalid(match field.as_str() {
            "." => reason,
            _ => format!("{field}: {reason}"),
        })
    })
}
