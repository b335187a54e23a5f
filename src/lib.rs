//! overdue
pub mod channel;
pub mod domain;
pub mod wheel;
