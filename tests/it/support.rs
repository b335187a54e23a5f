//! Helpers of tests: servers of ours and of others, engines, disks, seeded randomness, and builders
//! of commands.

pub(crate) mod authenticator;
pub(crate) mod certificates;
pub(crate) mod commands;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod identity_provider;
pub(crate) mod mail_server;
pub(crate) mod name_server;
pub(crate) mod receiver;
pub(crate) mod seeded_rng;
pub(crate) mod server;
