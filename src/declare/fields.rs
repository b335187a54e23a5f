//! Fields of everything that files declare, as tables. Reading, the schema and the messages about
//! unknown keys all use them.

use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::text::{Name, Seconds};

/// A field of an object.
pub(super) struct ConfigField {
    /// Key of the field.
    pub(super) key: &'static str,
    /// Type of the values.
    pub(super) field_type: ConfigFieldType,
    /// Purpose of the field: half a sentence for people.
    pub(super) help: &'static str,
}

/// Type of the values of a field.
#[derive(Clone, Copy)]
pub(super) enum ConfigFieldType {
    /// Text of at most this number of characters.
    Text(usize),
    /// `true` or `false`.
    Bool,
    /// A whole number from the first to the second.
    Number(i64, i64),
    /// Such a number, or `none`.
    Limit(i64, i64),
    /// A number of seconds, or a text such as `15m`; minimum and maximum in seconds.
    Duration(i64, i64),
    /// A list of texts, or one text with a separator between them.
    Words,
    /// A list of channels, or `*`.
    Channels,
    /// A schedule in the syntax of cron or OnCalendar.
    Schedule,
    /// The name of a time zone.
    Timezone,
    /// A UUID in the form 8-4-4-4-12.
    Uuid,
    /// A slug.
    Slug,
    /// A time in the format of RFC 3339.
    Time,
    /// Text that should not be in the file itself: `{ env = … }`, `{ file = … }` or
    /// `{ credential = … }`.
    Secret,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A table with these fields.
    Fields(&'static [ConfigField]),
    /// Projects, and the permissions in each.
    Access,
}

const fn field(key: &'static str, form: ConfigFieldType, help: &'static str) -> ConfigField {
    ConfigField {
        key,
        field_type: form,
        help,
    }
}

const SECONDS_TYPE: ConfigFieldType = ConfigFieldType::Duration(Seconds::MIN, Seconds::MAX);
const UUID_FIELD: ConfigField = field(
    "uuid",
    ConfigFieldType::Uuid,
    "its UUID, if it is to have a certain one",
);

pub(super) const ROOT_FIELDS: &[ConfigField] = &[
    field(
        "version",
        ConfigFieldType::Number(1, 1),
        "the version of the format",
    ),
    field(
        "source",
        ConfigFieldType::Text(100),
        "who owns what the file makes; what it owns and no longer names can be pruned",
    ),
];

pub(super) const PROJECT_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "was",
        ConfigFieldType::Text(100),
        "the name that it had before",
    ),
    field(
        "check-limit",
        ConfigFieldType::Limit(0, u32::MAX as i64),
        "how many checks it may have, or none",
    ),
    field(
        "ping-log-limit",
        ConfigFieldType::Number(0, u32::MAX as i64),
        "how many pings of each check are kept",
    ),
    field(
        "ping-key",
        ConfigFieldType::Secret,
        "the key that stands in ping URLs with slugs",
    ),
];

/// Fields of the defaults of checks; a check itself has more.
pub(super) const CHECK_DEFAULT_FIELDS: &[ConfigField] = &[
    field("every", SECONDS_TYPE, "its period"),
    field(
        "schedule",
        ConfigFieldType::Schedule,
        "when it is expected, in place of a period",
    ),
    field("tz", ConfigFieldType::Timezone, "the zone of the schedule"),
    field("grace", SECONDS_TYPE, "how late it may be"),
    field("tags", ConfigFieldType::Words, "its tags"),
    field("desc", ConfigFieldType::Text(16_384), "its description"),
    field(
        "channels",
        ConfigFieldType::Channels,
        r#"names or UUIDs of those that are told, or "*" for all of the project"#,
    ),
    field(
        "manual-resume",
        ConfigFieldType::Bool,
        "whether a paused check ignores pings",
    ),
    field(
        "methods",
        ConfigFieldType::Choice(&["", "POST"]),
        "POST: only that counts as a ping",
    ),
    field(
        "filter",
        ConfigFieldType::Fields(FILTER_FIELDS),
        "what pings say by words in them",
    ),
    field(
        "alert",
        ConfigFieldType::Fields(ALERT_FIELDS),
        "when it is told that it is down",
    ),
];

pub(super) const CHECK_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "slug",
        ConfigFieldType::Slug,
        "its slug, if the key is a UUID",
    ),
    field("was", ConfigFieldType::Slug, "the slug that it had before"),
    field(
        "name",
        ConfigFieldType::Text(Name::MAX_CHARS),
        "its name; the slug, if it is left out",
    ),
    field(
        "paused",
        ConfigFieldType::Bool,
        "whether it is paused; as it is, if that is left out",
    ),
];

const FILTER_FIELDS: &[ConfigField] = &[
    field(
        "subject",
        ConfigFieldType::Bool,
        "search the subjects of mails",
    ),
    field("body", ConfigFieldType::Bool, "search the bodies of mails"),
    field(
        "http-body",
        ConfigFieldType::Bool,
        "search the bodies of requests",
    ),
    field(
        "default-fail",
        ConfigFieldType::Bool,
        "what has none of the words is a failure; else it is ignored",
    ),
    field("start", ConfigFieldType::Words, "words that mean a start"),
    field("success", ConfigFieldType::Words, "words that mean success"),
    field("failure", ConfigFieldType::Words, "words that mean failure"),
];

const ALERT_FIELDS: &[ConfigField] = &[
    field(
        "after",
        ConfigFieldType::Number(1, 100),
        "how often in a row it has to fail until that is told",
    ),
    field(
        "parents",
        ConfigFieldType::Words,
        "slugs or UUIDs of the checks without which it cannot report",
    ),
];

pub(super) const CHANNEL_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "name",
        ConfigFieldType::Text(100),
        "its name, if the key is a UUID",
    ),
    field(
        "incomplete",
        ConfigFieldType::Bool,
        "true: it lacks settings that its kind needs, as some do that were imported, and cannot \
         deliver",
    ),
];

pub(super) const WINDOW_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "name",
        ConfigFieldType::Text(Name::MAX_CHARS),
        "its name, if the key is a UUID",
    ),
    field(
        "tags",
        ConfigFieldType::Words,
        "tags that a check must have to be meant; all checks, if they are left out",
    ),
    field(
        "at",
        ConfigFieldType::Schedule,
        "when it opens, again and again",
    ),
    field("tz", ConfigFieldType::Timezone, "the zone of that"),
    field("from", ConfigFieldType::Time, "when it opens, once"),
    field("to", ConfigFieldType::Time, "when it closes"),
    field(
        "for",
        ConfigFieldType::Duration(60, MaintenanceWindow::MAX_MINUTES as i64 * 60),
        "for how long it is open",
    ),
];

pub(super) const KEY_FIELDS: &[ConfigField] = &[
    field(
        "access",
        ConfigFieldType::Choice(&["read-write", "read-only", "ping"]),
        "what it opens",
    ),
    field("value", ConfigFieldType::Secret, "the key itself"),
];

pub(super) const USER_FIELDS: &[ConfigField] = &[
    field(
        "owner",
        ConfigFieldType::Bool,
        "whether it may do everything",
    ),
    field(
        "projects",
        ConfigFieldType::Access,
        "projects with member or read-only",
    ),
    field(
        "password-hash",
        ConfigFieldType::Secret,
        "an Argon2 hash of its password (PHC); without one, a link is printed once",
    ),
    field(
        "disabled",
        ConfigFieldType::Bool,
        "whether it may not sign in; as it is, if that is left out",
    ),
];
