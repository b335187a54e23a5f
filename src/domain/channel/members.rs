//! Members of a group. They are stored as UUIDs, so that a group survives renaming of its channels.
//! Users give and see them by name.

use std::borrow::Cow;

use uuid::Uuid;

use super::{ChannelClass, ChannelSettings, SettingsError, Transport, field_value};
use crate::domain::ids::parse_hyphenated_uuid;

/// Setting that lists the members.
const MEMBERS_KEY: &str = "channels";

impl ChannelSettings {
    /// UUIDs of the channels of a group; empty for every other kind.
    pub fn members(&self) -> impl Iterator<Item = Uuid> {
        self.member_entries().filter_map(parse_hyphenated_uuid)
    }

    /// Recipients of a mail channel; empty for every other kind.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        self.value("to")
            .filter(|_| self.kind().transport == Transport::Mail)
            .into_iter()
            .flat_map(field_value::split_list)
    }

    /// Members as they are written; empty for every other kind.
    fn member_entries(&self) -> impl Iterator<Item = &str> {
        self.value(MEMBERS_KEY)
            .filter(|_| self.kind().class == ChannelClass::Group)
            .into_iter()
            .flat_map(field_value::split_list)
    }

    /// Replaces the names of members by the UUIDs that `find` returns. Members that `stored` lists
    /// are kept as they are.
    ///
    /// # Errors
    /// The error of `find` for a text that names no channel.
    pub fn with_resolved_members(
        &self,
        stored: Option<&Self>,
        find: impl Fn(&str) -> Result<Uuid, String>,
    ) -> Result<Cow<'_, Self>, SettingsError> {
        let is_stored = |text: &str| {
            stored.is_some_and(|stored| stored.member_entries().any(|member| member == text))
        };
        let found = self.member_entries().map(|text| {
            if is_stored(text) {
                Ok(text.to_owned())
            } else {
                find(text).map(|uuid| uuid.to_string())
            }
        });
        let found = found
            .collect::<Result<Vec<_>, _>>()
            .map_err(|problem| self.error(format!("{MEMBERS_KEY} {problem}")))?;
        Ok(self.with_member_list(found))
    }

    /// Replaces each name of a member by the UUIDs of all channels that have it, for settings that
    /// an earlier release stored. UUIDs, and names without a channel, are kept.
    #[must_use]
    pub fn with_member_uuids(&self, find: impl Fn(&str) -> Vec<Uuid>) -> Cow<'_, Self> {
        let uuids = |text: &str| match find(text) {
            found if found.is_empty() || parse_hyphenated_uuid(text).is_some() => {
                vec![text.to_owned()]
            }
            found => found.iter().map(Uuid::to_string).collect(),
        };
        self.with_member_list(self.member_entries().flat_map(uuids).collect())
    }

    /// Returns the members that are listed by name. After
    /// [`with_member_uuids`](Self::with_member_uuids) these names belong to no channel.
    pub fn unresolved_members(&self) -> impl Iterator<Item = &str> {
        self.member_entries()
            .filter(|text| parse_hyphenated_uuid(text).is_none())
    }

    /// Replaces the UUIDs of members by their names. A member without a usable name keeps its UUID.
    #[must_use]
    pub fn with_member_names(&self, name: impl Fn(Uuid) -> Option<String>) -> Cow<'_, Self> {
        let shown = self.member_entries().map(|text| {
            parse_hyphenated_uuid(text)
                .and_then(&name)
                .unwrap_or_else(|| text.to_owned())
        });
        self.with_member_list(shown.collect())
    }

    /// Returns the settings with only the members for which `is_kept` is true.
    #[must_use]
    pub fn with_retained_members(&self, is_kept: impl Fn(Uuid) -> bool) -> Cow<'_, Self> {
        let kept = self
            .member_entries()
            .filter(|text| parse_hyphenated_uuid(text).is_none_or(&is_kept));
        self.with_member_list(kept.map(str::to_owned).collect())
    }

    /// Returns the settings with this list of members, without duplicates. It must be empty for
    /// every kind except a group.
    fn with_member_list(&self, mut members: Vec<String>) -> Cow<'_, Self> {
        let mut seen = std::collections::BTreeSet::new();
        members.retain(|member| seen.insert(member.clone()));
        if self.member_entries().eq(members.iter().map(String::as_str)) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.with_list(MEMBERS_KEY, &members))
    }
}

/// True if a group can list a channel by this name, provided that no other channel of the project
/// has it.
pub fn is_usable_member_name(name: &str) -> bool {
    let is_item = !name.contains(',') && name.trim_matches(' ') == name;
    !name.is_empty() && is_item && parse_hyphenated_uuid(name).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_named_by_an_item_of_a_list_that_is_no_uuid() {
        for (name, is_usable) in [
            ("phone", true),
            ("the phone", true),
            ("", false),
            (" phone", false),
            ("phone ", false),
            ("phone,mail", false),
            ("6f3a0f6e-0c9b-4f0e-9b1b-0a1b2c3d4e5f", false),
        ] {
            assert_eq!(is_usable_member_name(name), is_usable, "{name:?}");
        }
    }
}
