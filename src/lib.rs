//! overdue
pub mod domain;
