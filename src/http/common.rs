//! HTTP types that the API and the dashboard share: requests and their bodies, replies and errors,
//! and URLs that programs use.

pub(crate) mod badge_link;
pub(crate) mod badge_path;
pub(crate) mod browser_mark;
pub(crate) mod client_address;
pub(crate) mod connection_state;
pub(crate) mod path_segment;
pub(crate) mod ping_path;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod response_body;
pub(crate) mod unsubscribe_link;
pub(crate) mod work_owner;
