//! `/checks/<uuid>/pings/`: the log of a check and the bodies in it.

use uuid::Uuid;

use super::ApiCall;
use super::endpoints::PingNumber;
use super::etag::{TaggedList, tagged_reply};
use super::json::JsonObject;
use crate::domain::check::Check;
use crate::http::common::reply::{self, HttpError, HttpReply};

pub(super) async fn list(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    // Access is checked before any entity tag.
    let check = call.find_check(uuid).await?;
    tagged_reply(call, read_list(call, check)).await
}

async fn read_list(call: &ApiCall<'_>, check: Check) -> Result<TaggedList, HttpError> {
    let handle = call.handle().clone();
    let view = call.view();
    let body = call.response_writer().write_whole(false, move || {
        let pings = handle.pings(&check)?;
        let mut body = String::new();
        let mut object = JsonObject::begin(&mut body);
        object.member("pings", |out| view.write_pings(out, check.uuid, &pings));
        object.end();
        Ok(body)
    });
    Ok(TaggedList {
        body: body.await?,
        valid_until: None,
    })
}

pub(super) async fn body(
    call: &ApiCall<'_>,
    uuid: Uuid,
    PingNumber(n): PingNumber,
) -> Result<HttpReply, HttpError> {
    let check = call.find_check(uuid).await?;
    let handle = call.handle().clone();
    let body = call.response_writer().write_whole(false, move || {
        handle.body(&check, n)?.ok_or(HttpError::NotFound)
    });
    Ok(reply::content("text/plain", body.await?))
}
