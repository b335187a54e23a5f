//! `/checks/<uuid>/pings/`: the log of a check and the bodies in it.

use uuid::Uuid;

use super::etag::List;
use super::json::Object;
use super::{Call, CheckRef};
use crate::domain::check::Check;
use crate::http::reply::{self, Fault, Reply};

pub(super) async fn list(call: &Call<'_>, check: Check) -> Result<List, Fault> {
    let uuid = check.uuid;
    let pings = call.read(move |handle| handle.pings(&check)).await?;
    let mut body = String::new();
    let mut object = Object::begin(&mut body);
    object.with("pings", |out| call.view().write_pings(out, uuid, &pings));
    object.end();
    Ok(List { body, until: None })
}

pub(super) async fn body(call: &Call<'_>, uuid: Uuid, n: u64) -> Result<Reply, Fault> {
    let check = call.check(CheckRef::Uuid(uuid))?;
    let body = call.read(move |handle| handle.body(&check, n)).await?.ok_or(Fault::NotFound)?;
    Ok(reply::content("text/plain", body))
}
