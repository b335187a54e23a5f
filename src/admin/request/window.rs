//! Maintenance windows on the socket.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::domain::check_input;
use crate::domain::maintenance_window::WindowTimesInput;

/// A maintenance window in a list.
#[derive(Serialize, Deserialize)]
pub struct WindowRow {
    /// UUID, which `window delete` takes.
    pub uuid: Uuid,
    /// Name of its project.
    pub project: String,
    /// Name of the window.
    pub name: String,
    /// Tags that a check must have.
    pub tags: String,
    /// Start of a window that does not recur, RFC 3339.
    pub from: Option<String>,
    /// End of a window that does not recur, RFC 3339.
    pub to: Option<String>,
    /// Schedule of a window that recurs.
    pub schedule: Option<String>,
    /// Duration of a window that recurs, in minutes.
    pub minutes: Option<u32>,
    /// Time zone of the schedule.
    pub tz: Option<String>,
    /// Time until which it is open now, RFC 3339.
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

/// JSON form of a name.
pub(super) mod name {
    use super::{Deserialize, Deserializer, Serialize, Serializer, check_input};
    use crate::domain::text::Name;

    pub(crate) fn serialize<S: Serializer>(name: &Name, to: S) -> Result<S::Ok, S::Error> {
        name.as_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        check_input::parse_name(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// JSON form of tags.
pub(super) mod tags {
    use super::{Deserialize, Deserializer, Serialize, Serializer, check_input};
    use crate::domain::text::Tags;

    pub(crate) fn serialize<S: Serializer>(tags: &Tags, to: S) -> Result<S::Ok, S::Error> {
        tags.as_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tags, D::Error> {
        check_input::parse_tags(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
