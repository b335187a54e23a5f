//! `/channels/`: channels of a project, in the format of Healthchecks.

use super::ApiCall;
use super::etag::{TaggedList, tagged_reply};
use super::json::{JsonObject, write_array};
use super::view::write_channel;
use crate::http::common::reply::{HttpError, HttpReply};

pub(super) async fn list(call: &ApiCall<'_>) -> Result<HttpReply, HttpError> {
    tagged_reply(call, read_list(call)).await
}

async fn read_list(call: &ApiCall<'_>) -> Result<TaggedList, HttpError> {
    call.handle().with_state(|state| {
        let channels = state
            .project(call.caller.project)
            .into_iter()
            .flat_map(|project_state| project_state.channels.values());
        let mut body = String::new();
        let mut object = JsonObject::begin(&mut body);
        object.member("channels", |out| {
            write_array(out, channels, |channel, out| write_channel(out, channel));
        });
        object.end();
        Ok(TaggedList {
            body: body.into(),
            valid_until: None,
        })
    })
}
