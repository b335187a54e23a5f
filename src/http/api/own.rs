//! `/api/overdue/v1/`: channels and alerts, which the API of Healthchecks has no addresses for.

mod alerting;
mod channels;
mod deliveries;
mod kinds;
mod windows;

use std::sync::Arc;

use uuid::Uuid;

use super::{Call, Verb};
use crate::domain::channel::SettingsError;
use crate::domain::project::Channel;
use crate::wire::reply::{Fault, Reply};
use crate::wire::route::OwnResource;
use deliveries::Of;

/// A request to such an address.
type OwnCall<'a> = Call<'a, OwnResource>;

/// Which function answers which request. Every pair of a resource and a verb stands here.
pub(super) async fn dispatch(call: OwnCall<'_>, verb: Verb) -> Result<Reply, Fault> {
    match (call.address, verb) {
        (OwnResource::Kinds, Verb::Get) => kinds::list(&call).await,
        (OwnResource::Channels, Verb::Get) => channels::list(&call).await,
        (OwnResource::Channels, Verb::Post) => channels::create(call).await,
        (OwnResource::Channel(uuid), Verb::Get) => channels::get(&call, uuid).await,
        (OwnResource::Channel(uuid), Verb::Put) => channels::change(call, uuid).await,
        (OwnResource::Channel(uuid), Verb::Delete) => channels::delete(&call, uuid).await,
        (OwnResource::Test(uuid), Verb::Post) => channels::test(&call, uuid).await,
        (OwnResource::Enable(uuid), Verb::Post) => channels::enable(&call, uuid).await,
        (OwnResource::ChannelDeliveries(uuid), Verb::Get) => {
            let channel = call.channel(uuid)?;
            deliveries::list(&call, Of::Channel(channel.id)).await
        }
        (OwnResource::CheckDeliveries(uuid), Verb::Get) => {
            let check = call.check_of(uuid)?;
            deliveries::list(&call, Of::Check(check.id)).await
        }
        (OwnResource::Deliveries, Verb::Get) => deliveries::list(&call, Of::Project).await,
        (OwnResource::Alerting(uuid), Verb::Get) => alerting::get(&call, uuid),
        (OwnResource::Alerting(uuid), Verb::Put) => alerting::change(&call, uuid).await,
        (OwnResource::Windows, Verb::Get) => Ok(windows::list(&call)),
        (OwnResource::Windows, Verb::Post) => windows::create(&call).await,
        (OwnResource::Window(uuid), Verb::Get) => windows::get(&call, uuid),
        (OwnResource::Window(uuid), Verb::Delete) => windows::delete(&call, uuid).await,
        // These are refused before the body is read.
        (
            resource @ (OwnResource::Kinds | OwnResource::ChannelDeliveries(_) | OwnResource::CheckDeliveries(_) | OwnResource::Deliveries),
            Verb::Post | Verb::Put | Verb::Delete,
        )
        | (resource @ (OwnResource::Channels | OwnResource::Windows), Verb::Put | Verb::Delete)
        | (resource @ OwnResource::Channel(_), Verb::Post)
        | (resource @ (OwnResource::Test(_) | OwnResource::Enable(_)), Verb::Get | Verb::Put | Verb::Delete)
        | (resource @ OwnResource::Window(_), Verb::Post | Verb::Put)
        | (resource @ OwnResource::Alerting(_), Verb::Post | Verb::Delete) => Err(Fault::MethodNotAllowed(resource.methods())),
    }
}

impl OwnCall<'_> {
    /// The channel of this UUID in the caller's project. One of another project is unknown.
    fn channel(&self, uuid: Uuid) -> Result<Arc<Channel>, Fault> {
        self.handle().with_state(|state| {
            let channels = state.project(self.caller.project).into_iter().flat_map(|project_state| project_state.channels.values());
            channels.into_iter().find(|channel| channel.uuid == uuid).map(Arc::clone).ok_or(Fault::NotFound)
        })
    }
}

impl From<SettingsError> for Fault {
    fn from(error: SettingsError) -> Self {
        Self::BadRequest(error.to_string().into())
    }
}
