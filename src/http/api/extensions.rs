//! `/api/overdue/v1/`: channels and alerts, for which the API of Healthchecks has no endpoints.

pub(super) mod alerting;
pub(super) mod audit;
pub(super) mod channels;
pub(super) mod deliveries;
pub(super) mod kinds;
pub(super) mod windows;

use std::sync::Arc;

use uuid::Uuid;

use super::ApiCall;
use crate::domain::channel::SettingsError;
use crate::domain::project::Channel;
use crate::http::common::reply::HttpError;

impl ApiCall<'_> {
    /// Returns the channel of this UUID in the caller's project. A channel of another project is
    /// unknown.
    fn find_channel(&self, uuid: Uuid) -> Result<Arc<Channel>, HttpError> {
        self.handle().with_state(|state| {
            let channels = state
                .project(self.caller.project)
                .into_iter()
                .flat_map(|project_state| project_state.channels.values());
            channels
                .into_iter()
                .find(|channel| channel.uuid == uuid)
                .map(Arc::clone)
                .ok_or(HttpError::NotFound)
        })
    }
}

impl From<SettingsError> for HttpError {
    fn from(error: SettingsError) -> Self {
        Self::BadRequest(error.to_string().into())
    }
}
