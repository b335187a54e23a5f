//! Tools that do not depend on checks: clock, randomness, password hashes, timing wheel, locks,
//! limits.

pub mod clock;
pub(crate) mod log_limit;
pub(crate) mod passwd;
pub mod password;
pub mod random;
pub(crate) mod sync;
pub mod wheel;
