//! The library's own server on port 0 with a clock moved by hand, one file per resource and verb; its engine on disks that fail.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests, helper functions included"
)]

mod api;
mod badges;
mod connection;
mod disk;
mod engine;
mod faults;
mod layouts;
mod openapi;
mod ping;
mod server;
mod simulation;
mod smtp;
mod tidy;
