//! Maintenance windows as they stand on the socket.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::check;
use crate::domain::maintenance_window::WindowTimesInput;

/// A maintenance window in a list.
#[derive(Serialize, Deserialize)]
pub struct WindowRow {
    /// What `window delete` takes.
    pub uuid: Uuid,
    /// The name of its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// The tags that a check has to have.
    pub tags: String,
    /// When one that does not recur opens, RFC 3339.
    pub from: Option<String>,
    /// When it closes, RFC 3339.
    pub to: Option<String>,
    /// When one that recurs opens.
    pub schedule: Option<String>,
    /// For how long.
    pub minutes: Option<u32>,
    /// The zone of the schedule.
    pub tz: Option<String>,
    /// Until when it is open now, RFC 3339.
    pub until: Option<String>,
}

/// [`WindowTimesInput`] in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "WindowTimesInput", deny_unknown_fields)]
pub(super) struct Times {
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    schedule: Option<String>,
    #[serde(default)]
    minutes: Option<u64>,
    #[serde(default)]
    tz: Option<String>,
}

/// How a name stands in JSON.
pub(super) mod name {
    use super::{Deserialize, Deserializer, Serialize, Serializer, check};
    use crate::domain::text::Name;

    pub(crate) fn serialize<S: Serializer>(name: &Name, to: S) -> Result<S::Ok, S::Error> {
        name.as_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        check::parse_name(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// How tags stand in JSON.
pub(super) mod tags {
    use super::{Deserialize, Deserializer, Serialize, Serializer, check};
    use crate::domain::text::Tags;

    pub(crate) fn serialize<S: Serializer>(tags: &Tags, to: S) -> Result<S::Ok, S::Error> {
        tags.as_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tags, D::Error> {
        check::parse_tags(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
