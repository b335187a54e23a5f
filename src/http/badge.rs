//! Badge URLs.

use hyper::Request;

use super::Inner;
use super::reply::{Fault, Reply};
use super::route::BadgePath;

pub(super) fn answer<B>(_inner: &Inner, _badge: BadgePath, _request: &Request<B>) -> Reply {
    Fault::NotFound.plain()
}
