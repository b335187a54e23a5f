//! Tools that do not depend on checks: clock, randomness, password hashes, timing wheel, locks,
//! limits.

pub(crate) mod byte_budget;
pub(crate) mod client_network;
pub mod clock;
#[cfg(test)]
pub(crate) mod fuzzing;
#[cfg(all(test, shuttle))]
pub(crate) mod interleavings;
pub(crate) mod keyed_semaphore;
pub(crate) mod log_limit;
pub mod password;
pub mod random;
mod sweep_map;
pub(crate) mod sync;
pub(crate) mod system_users;
pub(crate) mod token_bucket;
pub mod wheel;
