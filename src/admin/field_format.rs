//! Forms of domain types in requests: text outside, a type that is always valid inside.

use std::str::FromStr;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::channels;
use crate::domain::channel::ChannelKind;
use crate::domain::check_input::{parse_name, parse_tags};
use crate::domain::number::FailureThreshold;
use crate::domain::project::{ChannelName, KeyAccess, KeyLabel, ProjectName};
use crate::domain::text::{Name, Tags};
use crate::domain::user::{Membership, PasswordHash, UserName};
use crate::import::item_rows::ImportPingRow;
use crate::util::password;

/// Defines a module for `serde(with)`: text in JSON, a domain type in the code.
macro_rules! text {
    ($name:ident, $type:ty, $write:expr, $parse:expr) => {
        pub(super) mod $name {
            use super::*;

            pub(crate) fn serialize<S: serde::Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                Serialize::serialize(&$write(value), to)
            }

            pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
                from: D,
            ) -> Result<$type, D::Error> {
                $parse(Deserialize::deserialize(from)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

text!(
    project_name,
    ProjectName,
    ProjectName::as_str,
    |text: String| ProjectName::parse(&text)
);
text!(
    optional_project_name,
    Option<ProjectName>,
    |name: &Option<ProjectName>| name.as_ref().map(|name| name.as_str().to_owned()),
    |text: Option<String>| { text.map(|text| ProjectName::parse(&text)).transpose() }
);
text!(
    access,
    KeyAccess,
    |access: &KeyAccess| access.name(),
    |text: String| KeyAccess::parse(&text).ok_or("unknown access")
);
text!(key_label, KeyLabel, KeyLabel::as_str, |text: String| {
    KeyLabel::parse(&text)
});
text!(user_name, UserName, UserName::as_str, |text: String| {
    UserName::parse(&text)
});
text!(
    optional_user_name,
    Option<UserName>,
    |name: &Option<UserName>| name.as_ref().map(|name| name.as_str().to_owned()),
    |text: Option<String>| { text.map(|text| UserName::parse(&text)).transpose() }
);
text!(
    membership,
    Membership,
    |kind: &Membership| kind.name(),
    |text: String| Membership::parse(&text).ok_or("give member or read-only")
);
text!(
    password_hash,
    PasswordHash,
    PasswordHash::as_str,
    |text: String| password::parse(&text).ok_or("not a valid password hash")
);
text!(
    optional_password_hash,
    Option<PasswordHash>,
    |hash: &Option<PasswordHash>| hash.as_ref().map(|hash| hash.as_str().to_owned()),
    |text: Option<String>| {
        text.map(|text| password::parse(&text).ok_or("not a valid password hash"))
            .transpose()
    }
);
text!(
    channel_name,
    ChannelName,
    ChannelName::as_str,
    |text: String| ChannelName::parse(&text)
);
text!(
    optional_channel_name,
    Option<ChannelName>,
    |name: &Option<ChannelName>| name.as_ref().map(|name| name.as_str().to_owned()),
    |text: Option<String>| { text.map(|text| ChannelName::parse(&text)).transpose() }
);
text!(
    channel_kind,
    &'static ChannelKind,
    |kind: &&'static ChannelKind| kind.name,
    |name: String| channels::find_kind(&name).ok_or("unknown kind of channel")
);
text!(number, u64, u64::to_string, |text: String| u64::from_str(
    &text
));
text!(name, Name, Name::as_str, |text: String| parse_name(&text));
text!(tags, Tags, Tags::as_str, |text: String| parse_tags(&text));
text!(
    optional_threshold,
    Option<FailureThreshold>,
    |threshold: &Option<FailureThreshold>| threshold.map(FailureThreshold::get),
    |number: Option<u64>| number.map(FailureThreshold::parse).transpose()
);
text!(
    import_ping,
    ImportPingRow,
    |ping: &ImportPingRow| serde_json::to_string(ping).unwrap_or_default(),
    |text: String| serde_json::from_str(&text)
);

/// Settings of a channel by key: an object in JSON. Repeated keys are kept, so that the kind of
/// the channel can refuse them.
pub struct SettingPairs(pub Vec<(String, String)>);

impl Serialize for SettingPairs {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for SettingPairs {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = SettingPairs;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object with text values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SettingPairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(SettingPairs(pairs))
            }
        }

        from.deserialize_map(PairsVisitor)
    }
}
