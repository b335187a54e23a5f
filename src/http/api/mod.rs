//! The Management API.

mod rate;

use hyper::Request;
use hyper::body::Incoming;

use super::reply::{Fault, Reply};
use super::route::Endpoint;
use super::{Config, Inner};

/// What the API keeps beside the engine.
pub(crate) struct Api {
    limiter: rate::Limiter,
}

impl Api {
    pub(super) fn new(config: &Config) -> Self {
        Self { limiter: rate::Limiter::new(config.api_rate, config.api_burst) }
    }
}

/// Answers a request to an address of the API.
pub(super) async fn answer(inner: &Inner, endpoint: Endpoint, request: Request<Incoming>) -> Reply {
    let _ = (&inner.api.limiter, endpoint, request);
    Fault::NotFound.json()
}
