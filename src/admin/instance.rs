//! Requests over HTTP with the instance key: those about projects, keys and users.

use std::future::poll_fn;
use std::pin::Pin;

use super::context::{AdminContext, ServiceUrls};
use super::encoding::EncodedRequest;
use super::error::AdminError;
use super::reply::ReplyBody;
use super::routes::{self, AdminSource, RouteMatch};
use crate::engine::Handle;
use crate::operations::instance::{InstanceApi, InstanceReply, InstanceRequest};

/// Carries out the requests that the instance key gives access to.
pub struct InstanceRequests {
    /// Access to the engine.
    pub handle: Handle,
    /// Addresses of the service.
    pub urls: ServiceUrls,
}

impl InstanceApi for InstanceRequests {
    fn respond(
        &self,
        request: InstanceRequest,
    ) -> Pin<Box<dyn Future<Output = InstanceReply> + Send + '_>> {
        Box::pin(self.respond_to(request))
    }
}

impl InstanceRequests {
    async fn respond_to(&self, request: InstanceRequest) -> InstanceReply {
        let urls = self.urls.clone();
        let context = AdminContext::of_instance_key(&self.handle, urls, request.address);
        let source = AdminSource::InstanceKey;
        let mut allow = None;
        let result = match routes::find(source, &request.method, &request.path) {
            RouteMatch::Found(route, _) if request.body.len() > route.max_bytes => {
                Err(AdminError::too_long(route.max_bytes))
            }
            RouteMatch::Found(route, parameters) => {
                let encoded = EncodedRequest {
                    parameters,
                    query: request.query,
                    body: request.body,
                };
                match (route.run)(&context, encoded).await {
                    Ok(reply) => collect(reply).await,
                    Err(error) => Err(error),
                }
            }
            RouteMatch::OtherMethods(methods) => {
                let error = AdminError::other_methods(&methods);
                allow = Some(methods);
                Err(error)
            }
            RouteMatch::None => Err(AdminError::no_endpoint()),
        };
        let (status, body) = match result {
            Ok(body) if body.is_empty() => (204, body),
            Ok(body) => (200, body),
            Err(error) => (error.status().as_u16(), error.to_json()),
        };
        InstanceReply {
            status,
            body,
            allow,
        }
    }
}

async fn collect(mut reply: ReplyBody) -> Result<Vec<u8>, AdminError> {
    let mut body = Vec::new();
    while let Some(chunk) = poll_fn(|context| reply.poll_chunk(context)).await {
        body.extend_from_slice(&chunk.map_err(AdminError::unavailable)?);
    }
    Ok(body)
}
