//! What is no test: servers, engines, disks and dice for tests to use, and builders of what they submit.

pub(crate) mod build;
pub(crate) mod dice;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod server;
