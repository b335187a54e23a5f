//! `/checks/<uuid>/alerting`: when the downtimes of a check are told, and whether the present one is.

use uuid::Uuid;

use super::OwnCall;
use crate::domain::alert::Telling;
use crate::domain::check::Check;
use crate::domain::ids::{hyphenated_uuid, write_uuid};
use crate::domain::moment::Moment;
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::text::Failures;
use crate::engine::command::{Command, Outcome};
use crate::http::api::json::{Object, write_array, write_text};
use crate::manage::channel::unnotified;
use crate::wire::reply::{self, Fault, Reply};

/// UUIDs in a request, some of them repeated.
const MOST_NAMED: usize = 100;

pub(super) fn get(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    Ok(reply::json(written(call, &call.check_of(uuid)?)))
}

pub(super) async fn change(call: &OwnCall<'_>, uuid: Uuid) -> Result<Reply, Fault> {
    let check = call.check_of(uuid)?;
    let after = call.document.whole("after")?.map(Failures::parse).transpose();
    let after = after.map_err(|reason| Fault::BadRequest(format!("after is wrong: {reason}").into()))?;
    let parents = call.document.list("parents")?.map(|uuids| parents(call, &uuids)).transpose();
    let parents = parents.map_err(|reason| Fault::BadRequest(format!("parents is wrong: {reason}").into()))?;
    if after.is_none() && parents.is_none() {
        return Ok(reply::json(written(call, &check)));
    }
    match call.handle().call(Command::SetAlerting { check: check.id, after, parents }).await?? {
        Outcome::Check(check) => Ok(reply::json(written(call, &check))),
        // That command comes to nothing else.
        _ => Err(Fault::Unavailable),
    }
}

/// The checks of these UUIDs. Each is looked up, so there are not many.
fn parents(call: &OwnCall<'_>, uuids: &[String]) -> Result<Parents, ParentsError> {
    if uuids.len() > MOST_NAMED {
        return Err(ParentsError::TooMany);
    }
    call.handle().with_state(|state| {
        let found = uuids.iter().map(|uuid| Some(state.check_by_uuid(hyphenated_uuid(uuid)?)?.id));
        Parents::new(found.collect::<Option<_>>().ok_or(ParentsError::NotFound)?)
    })
}

fn written(call: &OwnCall<'_>, check: &Check) -> String {
    let telling = check.state.telling;
    let held = if let Telling::Due { at, held } = telling { Some((at, held)) } else { None };
    call.handle().with_state(|state| {
        let parents = check.settings.parents.ids().iter().filter_map(|id| state.check(*id));
        let mut out = String::new();
        let mut object = Object::begin(&mut out);
        object.number("after", check.settings.after.get());
        object.with("parents", |out| {
            write_array(out, parents, |parent, out| {
                out.push('"');
                write_uuid(parent.uuid, out);
                out.push('"');
            });
        });
        object.text("telling", telling.name());
        object.plain_or_null("until", held.map(|(at, _)| at), Moment::write_seconds);
        object.plain_or_null("why", held.map(|(_, held)| held.name()), |why, out| out.push_str(why));
        object.with("unnotified", |out| match unnotified(state, check, call.handle().transports()) {
            Some(reason) => write_text(out, reason),
            None => out.push_str("null"),
        });
        object.end();
        out
    })
}
