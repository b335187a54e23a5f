//! `/checks/<uuid>/alerting`: when the downtimes of a check are told, and whether the present one is.

use uuid::Uuid;

use super::OwnCall;
use crate::domain::alert::Telling;
use crate::domain::check::Check;
use crate::domain::moment::Moment;
use crate::domain::text::Failures;
use crate::engine::command::{Command, Outcome};
use crate::http::api::json::Object;
use crate::http::reply::{self, Fault, Reply};

pub(super) fn get(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    Ok(reply::json(written(&call.check_of(uuid)?)))
}

pub(super) async fn change(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let check = call.check_of(uuid)?;
    let after = call.document.whole("after")?.map(Failures::parse).transpose();
    let Some(after) = after.map_err(|reason| Fault::BadRequest(format!("after is wrong: {reason}").into()))? else {
        return Ok(reply::json(written(&check)));
    };
    match call.handle().call(Command::SetAlerting { check: check.id, after }).await?? {
        Outcome::Check(check) => Ok(reply::json(written(&check))),
        // That command comes to nothing else.
        _ => Err(Fault::Unavailable),
    }
}

fn written(check: &Check) -> String {
    let (telling, held) = match check.state.telling {
        Telling::Quiet => ("quiet", None),
        Telling::Due { at, held } => ("due", Some((at, held))),
        Telling::Told => ("told", None),
    };
    let mut out = String::new();
    let mut object = Object::begin(&mut out);
    object.number("after", check.settings.after.get()).text("telling", telling);
    object.plain_or_null("until", held.map(|(at, _)| at), Moment::write_seconds);
    object.plain_or_null("why", held.map(|(_, held)| held.name()), |why, out| out.push_str(why));
    object.end();
    out
}
