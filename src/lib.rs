//! overdue

pub mod channel;
pub mod clock;
pub mod domain;
pub mod engine;
pub mod http;
pub mod random;
pub mod smtp;
pub mod store;
pub mod wheel;
