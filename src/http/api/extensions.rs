//! `/api/overdue/v1/`: channels and alerts, for which the API of Healthchecks has no endpoints.

mod alerting;
mod channels;
mod deliveries;
mod kinds;
mod windows;

use std::sync::Arc;

use uuid::Uuid;

use super::{ApiCall, Verb};
use crate::domain::channel::SettingsError;
use crate::domain::project::Channel;
use crate::http::common::reply::{HttpError, HttpReply};
use crate::http::common::route::ExtensionResource;
use deliveries::DeliveryScope;

/// A request to such an endpoint.
type ExtensionCall<'a> = ApiCall<'a, ExtensionResource>;

/// Dispatches a request. Every pair of a resource and a verb is listed.
pub(super) async fn dispatch(call: ExtensionCall<'_>, verb: Verb) -> Result<HttpReply, HttpError> {
    match (call.endpoint, verb) {
        (ExtensionResource::Kinds, Verb::Get) => kinds::list(&call).await,
        (ExtensionResource::Channels, Verb::Get) => channels::list(&call).await,
        (ExtensionResource::Channels, Verb::Post) => channels::create(call).await,
        (ExtensionResource::Channel(uuid), Verb::Get) => channels::get(&call, uuid).await,
        (ExtensionResource::Channel(uuid), Verb::Put) => channels::change(call, uuid).await,
        (ExtensionResource::Channel(uuid), Verb::Delete) => channels::delete(&call, uuid).await,
        (ExtensionResource::Test(uuid), Verb::Post) => channels::test(&call, uuid).await,
        (ExtensionResource::Enable(uuid), Verb::Post) => channels::enable(&call, uuid).await,
        (ExtensionResource::ChannelDeliveries(uuid), Verb::Get) => {
            let channel = call.find_channel(uuid)?;
            deliveries::list(&call, DeliveryScope::Channel(channel.id)).await
        }
        (ExtensionResource::CheckDeliveries(uuid), Verb::Get) => {
            let check = call.own_check(uuid)?;
            deliveries::list(&call, DeliveryScope::Check(check.id)).await
        }
        (ExtensionResource::Deliveries, Verb::Get) => {
            deliveries::list(&call, DeliveryScope::Project).await
        }
        (ExtensionResource::Alerting(uuid), Verb::Get) => alerting::get(&call, uuid),
        (ExtensionResource::Alerting(uuid), Verb::Put) => alerting::change(&call, uuid).await,
        (ExtensionResource::Windows, Verb::Get) => Ok(windows::list(&call)),
        (ExtensionResource::Windows, Verb::Post) => windows::create(&call).await,
        (ExtensionResource::Window(uuid), Verb::Get) => windows::get(&call, uuid),
        (ExtensionResource::Window(uuid), Verb::Delete) => windows::delete(&call, uuid).await,
        // These are refused before the body is read.
        (
            resource @ (ExtensionResource::Kinds
            | ExtensionResource::ChannelDeliveries(_)
            | ExtensionResource::CheckDeliveries(_)
            | ExtensionResource::Deliveries),
            Verb::Post | Verb::Put | Verb::Delete,
        )
        | (
            resource @ (ExtensionResource::Channels | ExtensionResource::Windows),
            Verb::Put | Verb::Delete,
        )
        | (resource @ ExtensionResource::Channel(_), Verb::Post)
        | (
            resource @ (ExtensionResource::Test(_) | ExtensionResource::Enable(_)),
            Verb::Get | Verb::Put | Verb::Delete,
        )
        | (resource @ ExtensionResource::Window(_), Verb::Post | Verb::Put)
        | (resource @ ExtensionResource::Alerting(_), Verb::Post | Verb::Delete) => {
            Err(HttpError::MethodNotAllowed(resource.allowed_methods()))
        }
    }
}

impl ExtensionCall<'_> {
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
