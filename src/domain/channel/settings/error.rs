//! Error for settings that are rejected.

use std::fmt;

use super::super::{ChannelKind, SettingField};

/// Reason for rejecting settings, and advice. It never repeats values, since they may be secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError {
    pub(super) kind: &'static ChannelKind,
    pub(super) problem: String,
}

impl SettingsError {
    /// Field that the error is about, if any. The sentence then begins with the key.
    pub fn field(&self) -> Option<&'static SettingField> {
        let key = self.problem.split(' ').next()?.trim_matches('"');
        self.kind.find_field(key).map(|(field, _)| field)
    }

    /// Message without the kind.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings of kind {}: {}", self.kind.name, self.problem)
    }
}

impl std::error::Error for SettingsError {}
