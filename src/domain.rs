//! Checks, pings, flips, schedules and kinds of channel, and the rules by which they change. All
//! functions are pure: the time is an argument, and none of them waits or does I/O.

pub mod alert;
pub mod audit;
pub mod channel;
pub mod check;
pub mod check_edit;
pub mod check_input;
pub mod declared;
pub mod dst_changes;
pub mod explanation;
pub mod flip;
pub mod formatting;
pub mod ids;
pub mod import_contents;
pub mod import_item;
pub mod keyword;
pub mod legacy_keys;
pub mod mail_address;
pub mod maintenance_window;
pub mod number;
pub mod parents;
pub mod ping;
pub mod ping_address;
pub mod project;
pub mod recent_outcomes;
pub mod schedule;
pub mod slowdown;
pub mod status;
pub mod status_page;
pub mod text;
pub mod timestamp;
pub mod timezone;
pub mod timezone_mismatch;
pub mod uptime;
pub mod user;
