//! Tests of the library: its server on port 0 with a manual clock, one file for each resource and
//! verb; its engine on failing disks.
//!
//! `support` has the helpers. `simulation` begins with a tour of itself. `tidy` checks the rules of
//! the code base, `documents` the statements of its documents.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    unreachable_pub,
    reason = "these are tests, helper functions included"
)]

mod access_matrix;
mod admin_socket;
mod api;
mod audit;
mod backup;
mod badges;
mod change_feed;
mod channel_kinds;
mod chunks;
mod clock_jumps;
mod cluster;
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
mod journal;
mod language;
mod layouts;
mod legacy_keys;
mod metrics;
mod notify;
mod openapi;
mod outbound;
mod outbox;
mod ping;
mod scale;
mod scheduled_backups;
mod simulation;
mod smtp;
mod soak;
mod stale_view;
mod support;
mod terraform;
mod tidy;
mod tls;
mod unsubscribe;
mod users;
mod web;
