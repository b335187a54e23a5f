//! What checks, pings, flips, schedules and kinds of channel are and how they change: pure, with the time as an argument, unable to wait or
//! to fail on I/O.

pub mod adopted;
pub mod alert;
pub mod channel;
pub mod check;
pub mod clock_changes;
pub mod diagnosis;
pub mod edit;
pub mod flip;
pub mod given;
pub mod ids;
pub mod imported;
pub mod keyword;
pub mod moment;
pub mod outcomes;
pub mod parents;
pub mod ping;
pub mod ping_address;
pub mod project;
pub mod schedule;
pub mod staged;
pub mod status;
pub mod text;
pub mod timezone;
pub mod uptime;
pub mod user;
pub mod wanted;
pub mod why;
pub mod window;
pub mod words;
