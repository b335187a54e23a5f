//! What is said of settings that somebody gives, beyond their forms.

use super::{ChannelSettings, SettingsError};

impl ChannelSettings {
    /// Refuses values that their service cannot have given, such as a token with a blank; those that are stored stay.
    ///
    /// # Errors
    /// When there is such a value.
    pub fn check_formats(&self, stored: Option<&Self>) -> Result<(), SettingsError> {
        let is_new = |key: &str, value: &str| stored.and_then(|stored| stored.value(key)) != Some(value);
        for (key, value) in self.pairs().filter(|(key, value)| is_new(key, value)) {
            if let Some((field, false)) = self.kind.find_field(key) {
                field.check_value_format(key, value, self.value("api")).map_err(|problem| SettingsError { kind: self.kind, problem })?;
            }
        }
        Ok(())
    }

    /// Sentences about settings that are accepted but probably not what was meant, for the person who gives them.
    pub fn warnings(&self) -> Vec<String> {
        (self.kind.warnings)(self)
    }
}
