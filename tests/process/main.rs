//! The built binary: flags, signals, SIGKILL, the admin socket.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "these are tests, helper functions included, and a process has no clock but the real one"
)]

mod admin;
mod alerts;
mod channels;
mod checks;
mod client;
mod damage;
mod first_start;
mod flags;
mod kill;
mod log;
mod mail;
mod process;
#[cfg(target_os = "linux")]
mod resources;
mod shutdown;
mod start;
mod threads;
