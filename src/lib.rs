//! overdue
pub mod domain;
pub mod wheel;
