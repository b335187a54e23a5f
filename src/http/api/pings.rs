//! `/checks/<uuid>/pings/`: the log of a check and the bodies in it.

use uuid::Uuid;

use super::etag::List;
use super::json::Object;
use super::{Call, CheckRef};
use crate::domain::check::Check;
use crate::wire::reply::{self, Fault, Reply};

pub(super) async fn list(call: &Call<'_>, check: Check) -> Result<List, Fault> {
    let (handle, view) = (call.handle().clone(), call.view());
    let body = call.door.outgoing.whole(false, move || {
        let pings = handle.pings(&check)?;
        let mut body = String::new();
        let mut object = Object::begin(&mut body);
        object.with("pings", |out| view.write_pings(out, check.uuid, &pings));
        object.end();
        Ok(body)
    });
    Ok(List { body: body.await?, until: None })
}

pub(super) async fn body(call: &Call<'_>, uuid: Uuid, n: u64) -> Result<Reply, Fault> {
    let check = call.check(CheckRef::Uuid(uuid)).await?;
    let handle = call.handle().clone();
    let body = call.door.outgoing.whole(false, move || handle.body(&check, n)?.ok_or(Fault::NotFound));
    Ok(reply::content("text/plain", body.await?))
}
