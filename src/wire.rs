//! What the HTTP door and the pages have in common, so that neither has a second one: requests and their bodies, answers and their faults,
//! and the URLs that programs use.

pub(crate) mod badge_link;
pub(crate) mod browser_mark;
pub(crate) mod client_address;
pub(crate) mod connection_state;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod response_body;
pub(crate) mod route;
pub(crate) mod unsubscribe_link;
