//! `/status/`: whether the database answers.

use super::Call;
use crate::wire::reply::{self, Fault, Reply};

pub(super) async fn probe(call: &Call<'_>) -> Result<Reply, Fault> {
    if call.door.is_healthy().await { Ok(reply::json(r#"{"status":"ok"}"#)) } else { Err(Fault::ProbeFailed) }
}
