//! Tests of the library: its server on port 0 with a clock moved by hand, one file per resource and
//! verb; its engine on disks that fail.
//!
//! `support` holds what is no test. `simulation` opens with a tour of itself. `tidy` keeps the
//! rules of the house, `documents` what its documents say.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests, helper functions included"
)]

mod api;
mod backup;
mod badges;
mod change_feed;
mod channel_kinds;
mod chunks;
mod clock_jumps;
mod config;
mod damaged_database;
mod disk_faults;
mod documents;
mod engine;
mod file_growth;
mod hostile_clients;
mod import_api;
mod import_roundtrip;
mod imports;
mod layouts;
mod legacy_keys;
mod metrics;
mod notify;
mod openapi;
mod outbound;
mod outbox;
mod ping;
mod scale;
mod simulation;
mod smtp;
mod support;
mod tidy;
mod tls;
mod unsubscribe;
mod users;
mod web;
