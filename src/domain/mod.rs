//! What checks, pings, flips and schedules are and how they change: pure, with the time as an argument, unable to wait or to fail on I/O.

mod cron;
pub mod ids;
pub mod keyword;
pub mod moment;
mod oncalendar;
pub mod schedule;
pub mod timezone;
