//! Validation of settings that a user gives, beyond the types of their values.

use super::{ChannelSettings, SettingsError};

impl ChannelSettings {
    /// Rejects values that their service cannot have issued, such as a token with a blank. Stored
    /// values are accepted.
    ///
    /// # Errors
    /// If there is such a value.
    pub fn validate_formats(&self, stored: Option<&Self>) -> Result<(), SettingsError> {
        let is_new =
            |key: &str, value: &str| stored.and_then(|stored| stored.value(key)) != Some(value);
        for (key, value) in self.pairs().filter(|(key, value)| is_new(key, value)) {
            if let Some((field, false)) = self.kind.find_field(key) {
                field
                    .validate_value_format(key, value, self.value("api"))
                    .map_err(|problem| SettingsError {
                        kind: self.kind,
                        problem,
                    })?;
            }
        }
        Ok(())
    }

    /// Returns sentences for the user about settings that are accepted but probably wrong.
    pub fn warnings(&self) -> Vec<String> {
        (self.kind.warnings)(self)
    }
}
