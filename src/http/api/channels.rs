//! `/channels/`: the integrations of a project.

use super::Call;
use super::etag::List;
use super::json::{Object, write_array};
use super::view::write_channel;
use crate::wire::reply::Fault;

pub(super) async fn list(call: &Call<'_>) -> Result<List, Fault> {
    call.handle().with_state(|state| {
        let channels = state.project(call.caller.project).into_iter().flat_map(|project_state| project_state.channels.values());
        let mut body = String::new();
        let mut object = Object::begin(&mut body);
        object.with("channels", |out| write_array(out, channels, |channel, out| write_channel(out, channel)));
        object.end();
        Ok(List { body: body.into(), until: None })
    })
}
