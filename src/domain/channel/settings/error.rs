//! The error of settings that are refused.

use std::fmt;

use super::super::{ChannelKind, SettingField};

/// Why settings were refused and what to do. Values are not repeated, since they may be secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsError {
    pub(super) kind: &'static ChannelKind,
    pub(super) problem: String,
}

impl SettingsError {
    /// The field that it is about, if it is about one: such a sentence begins with the key.
    pub fn field(&self) -> Option<&'static SettingField> {
        let key = self.problem.split(' ').next()?.trim_matches('"');
        self.kind.find_field(key).map(|(field, _)| field)
    }

    /// The same without the kind.
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
