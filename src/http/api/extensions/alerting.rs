//! `/checks/<uuid>/alerting`: alert settings of a check, and the state of the current alert.

use uuid::Uuid;

use crate::domain::alert::NotificationState;
use crate::domain::check::Check;
use crate::domain::ids::{parse_hyphenated_uuid, write_uuid};
use crate::domain::number::FailureThreshold;
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::timestamp::Timestamp;
use crate::http::api::ApiCall;
use crate::http::api::json::{JsonObject, write_array, write_string};
use crate::http::common::reply::{self, HttpError, HttpReply};
use crate::operations::channel::unnotified_reason;
use crate::operations::check;

/// Maximum number of UUIDs in a request, repeated ones included.
const MAX_UUIDS: usize = 100;

pub(crate) async fn get(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    Ok(reply::json(alerting_json(call, &call.own_check(uuid)?)))
}

pub(crate) async fn change(call: &ApiCall<'_>, uuid: Uuid) -> Result<HttpReply, HttpError> {
    let check = call.own_check(uuid)?;
    let after = call
        .document
        .unsigned("after")?
        .map(FailureThreshold::parse)
        .transpose();
    let after = after
        .map_err(|reason| HttpError::BadRequest(format!("after is wrong: {reason}").into()))?;
    let parents = call
        .document
        .string_list("parents")?
        .map(|uuids| find_parents(call, &uuids))
        .transpose();
    let parents = parents
        .map_err(|reason| HttpError::BadRequest(format!("parents is wrong: {reason}").into()))?;
    if after.is_none() && parents.is_none() {
        return Ok(reply::json(alerting_json(call, &check)));
    }
    let check = check::update_alert_settings(call.handle(), check.id, after, parents).await?;
    Ok(reply::json(alerting_json(call, &check)))
}

/// Returns the checks of these UUIDs. Each needs a search, so their number is limited.
fn find_parents(call: &ApiCall<'_>, uuids: &[String]) -> Result<Parents, ParentsError> {
    if uuids.len() > MAX_UUIDS {
        return Err(ParentsError::TooMany);
    }
    call.handle().with_state(|state| {
        let ids = uuids
            .iter()
            .map(|uuid| Some(state.check_by_uuid(parse_hyphenated_uuid(uuid)?)?.id));
        Parents::new(ids.collect::<Option<_>>().ok_or(ParentsError::NotFound)?)
    })
}

fn alerting_json(call: &ApiCall<'_>, check: &Check) -> String {
    let notification = check.state.notification;
    let pending = if let NotificationState::Pending { at, reason } = notification {
        Some((at, reason))
    } else {
        None
    };
    call.handle().with_state(|state| {
        let parents = check
            .settings
            .parents
            .ids()
            .iter()
            .filter_map(|id| state.check(*id));
        let mut out = String::new();
        let mut object = JsonObject::begin(&mut out);
        object.number("after", check.settings.failure_threshold.get());
        object.unescaped_or_null(
            "paused_until",
            check.state.pause_end.map(|end| end.at),
            Timestamp::write_rfc3339_secs,
        );
        object.member("parents", |out| {
            write_array(out, parents, |parent, out| {
                out.push('"');
                write_uuid(parent.uuid, out);
                out.push('"');
            });
        });
        object.text("telling", notification.name());
        object.unescaped_or_null(
            "until",
            pending.map(|(at, _)| at),
            Timestamp::write_rfc3339_secs,
        );
        object.unescaped_or_null(
            "why",
            pending.map(|(_, reason)| reason.name()),
            |why, out| out.push_str(why),
        );
        object.member("unnotified", |out| {
            match unnotified_reason(state, check, call.handle().transports()) {
                Some(reason) => write_string(out, reason),
                None => out.push_str("null"),
            }
        });
        object.end();
        out
    })
}
