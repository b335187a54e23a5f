//! `/status/`: responds with success if the database answers.

use super::ApiCall;
use crate::http::common::reply::{self, HttpError, HttpReply};

pub(super) async fn probe(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    if call.server.is_healthy().await {
        Ok(reply::json(r#"{"status":"ok"}"#))
    } else {
        Err(HttpError::ProbeFailed)
    }
}
