//! overdue
pub mod channel;
pub mod domain;
pub mod smtp;
pub mod wheel;
