//! The table of each kind, one file for one kind.

pub(super) mod email;
pub(super) mod sms;
pub(super) mod webhook;
