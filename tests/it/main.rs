//! Tests of the library: its server on port 0 with a clock moved by hand, one file per resource and verb; its engine on disks that fail.
//!
//! `support` holds what is no test. `simulation` opens with a tour of itself. `tidy` keeps the rules of the house, `documents` what its
//! documents say.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests, helper functions included"
)]

mod adopted;
mod api;
mod backup;
mod badges;
mod channel_kinds;
mod clock;
mod connection;
mod damage;
mod declare;
mod documents;
mod engine;
mod faults;
mod feed;
mod growth;
mod import_api;
mod imports;
mod layouts;
mod metrics;
mod moved;
mod notify;
mod openapi;
mod outbound;
mod outbox;
mod pieces;
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
