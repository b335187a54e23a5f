//! Tools that do not depend on checks: clock, randomness, password hashes, timing wheel, limit on
//! log lines.

pub mod clock;
pub(crate) mod log_limit;
pub(crate) mod passwd;
pub mod password;
pub mod random;
pub mod wheel;
