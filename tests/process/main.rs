//! Tests of the built binary: flags, signals, SIGKILL, the admin socket.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "these are tests, helper functions included, and a process has no clock but the real \
              one"
)]

mod admin;
mod alerts;
mod backup;
#[path = "../it/support/certificates.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod certificates;
mod channels;
mod checks;
mod client;
mod cluster;
mod cluster_operation;
mod config;
mod damaged_database;
mod first_start;
mod flags;
mod groups;
#[cfg(feature = "sqlite")]
mod import;
mod instance_key;
mod legacy_keys;
mod log;
mod mail;
mod metrics;
mod owner;
#[path = "../it/support/receiver.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod receiver;
#[cfg(target_os = "linux")]
mod resource_limits;
mod run;
mod server_process;
mod shutdown;
mod sigkill;
mod start;
mod thread_count;
mod tls;
mod upgrade;
mod users;
