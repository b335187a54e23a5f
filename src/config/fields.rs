//! Fields of everything that files declare, as tables. Reading, the schema and the messages about
//! unknown keys all use them.

use std::sync::LazyLock;

use crate::domain::check_edit::field_value::{CheckFieldType, TextRules};
use crate::domain::check_edit::fields::{self as check_fields, CheckField};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::text::{Name, Slug};

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
    /// Text that meets these rules.
    Text(TextRules),
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
    /// A UUID in the form 8-4-4-4-12.
    Uuid,
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

const fn field(key: &'static str, field_type: ConfigFieldType, help: &'static str) -> ConfigField {
    ConfigField {
        key,
        field_type,
        help,
    }
}

const UUID_FIELD: ConfigField = field("uuid", ConfigFieldType::Uuid, "UUID; generated if omitted");

pub(super) const ROOT_FIELDS: &[ConfigField] = &[
    field(
        "version",
        ConfigFieldType::Number(1, 1),
        "version of the format",
    ),
    field(
        "source",
        ConfigFieldType::Text(TextRules::limited(100)),
        "owner of the objects in the file; --prune deletes its objects that the file no longer \
         contains",
    ),
];

pub(super) const PROJECT_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "was",
        ConfigFieldType::Text(TextRules::limited(100)),
        "previous name, for a rename",
    ),
    field(
        "check-limit",
        ConfigFieldType::Limit(0, u32::MAX as i64),
        "maximum number of checks, or none",
    ),
    field(
        "ping-log-limit",
        ConfigFieldType::Number(0, u32::MAX as i64),
        "number of pings kept for each check",
    ),
    field(
        "ping-settings",
        ConfigFieldType::Bool,
        "true: a ping that creates a check may give its settings in the URL",
    ),
    field(
        "ping-key",
        ConfigFieldType::Secret,
        "key in ping URLs with slugs",
    ),
];

impl From<&CheckField> for ConfigField {
    fn from(check_field: &CheckField) -> Self {
        let field_type = match check_field.field_type {
            CheckFieldType::Text(rules) => ConfigFieldType::Text(rules),
            CheckFieldType::Words { .. } => ConfigFieldType::Words,
            CheckFieldType::Duration { min, max } => ConfigFieldType::Duration(min, max),
            CheckFieldType::Choice { words, .. } => ConfigFieldType::Choice(words),
            CheckFieldType::Flag => ConfigFieldType::Bool,
            CheckFieldType::Channels => ConfigFieldType::Channels,
        };
        field(check_field.config_key, field_type, check_field.config_help)
    }
}

/// Fields of the defaults of checks; a check itself has more.
pub(super) static CHECK_DEFAULT_FIELDS: LazyLock<Vec<ConfigField>> = LazyLock::new(|| {
    let tables = [
        field(
            "filter",
            ConfigFieldType::Fields(&FILTER_FIELDS),
            "keywords that determine the meaning of a ping",
        ),
        field(
            "alert",
            ConfigFieldType::Fields(ALERT_FIELDS),
            "when alerts are sent",
        ),
    ];
    let own = check_fields::CONFIG_FIELDS.map(ConfigField::from);
    own.into_iter().chain(tables).collect()
});

static FILTER_FIELDS: LazyLock<Vec<ConfigField>> = LazyLock::new(|| {
    check_fields::CONFIG_FILTER_FIELDS
        .map(ConfigField::from)
        .into()
});

pub(super) const CHECK_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "slug",
        ConfigFieldType::Text(Slug::RULES),
        check_fields::SLUG.config_help,
    ),
    field(
        "was",
        ConfigFieldType::Text(Slug::RULES),
        "previous slug, for a rename",
    ),
    field(
        "name",
        ConfigFieldType::Text(TextRules::limited(Name::MAX_CHARS)),
        check_fields::NAME.config_help,
    ),
    field(
        "paused",
        ConfigFieldType::Bool,
        "true: paused; unchanged if omitted",
    ),
];

const ALERT_FIELDS: &[ConfigField] = &[
    field(
        "after",
        ConfigFieldType::Number(1, 100),
        "number of consecutive failures before an alert is sent",
    ),
    field(
        "parents",
        ConfigFieldType::Words,
        "slugs or UUIDs of the checks that it depends on",
    ),
];

pub(super) const CHANNEL_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "name",
        ConfigFieldType::Text(TextRules::limited(100)),
        "name, if the key is a UUID",
    ),
    field(
        "incomplete",
        ConfigFieldType::Bool,
        "true: required settings are missing, as in some imported channels; it cannot deliver",
    ),
];

pub(super) const WINDOW_FIELDS: &[ConfigField] = &[
    UUID_FIELD,
    field(
        "name",
        ConfigFieldType::Text(TextRules::limited(Name::MAX_CHARS)),
        "name, if the key is a UUID",
    ),
    field(
        "tags",
        ConfigFieldType::Words,
        "tags that a check must have for the window to apply; all checks if omitted",
    ),
    field(
        "at",
        ConfigFieldType::Text(TextRules::ANY),
        "schedule of a recurring window",
    ),
    field(
        "tz",
        ConfigFieldType::Text(TextRules::ANY),
        "time zone of the schedule",
    ),
    field(
        "from",
        ConfigFieldType::Text(TextRules::ANY),
        "start of a single window",
    ),
    field(
        "to",
        ConfigFieldType::Text(TextRules::ANY),
        "end of a single window",
    ),
    field(
        "for",
        ConfigFieldType::Duration(60, MaintenanceWindow::MAX_MINUTES as i64 * 60),
        "duration",
    ),
];

pub(super) const KEY_FIELDS: &[ConfigField] = &[
    field(
        "access",
        ConfigFieldType::Choice(&["read-write", "read-only", "ping"]),
        "what the key permits",
    ),
    field("value", ConfigFieldType::Secret, "the key"),
];

pub(super) const USER_FIELDS: &[ConfigField] = &[
    field(
        "owner",
        ConfigFieldType::Bool,
        "true: the user may do everything",
    ),
    field(
        "projects",
        ConfigFieldType::Access,
        "permission in each project: member or read-only",
    ),
    field(
        "password-hash",
        ConfigFieldType::Secret,
        "Argon2 hash of the password (PHC); without it, a link to choose a password is printed \
         once",
    ),
    field(
        "disabled",
        ConfigFieldType::Bool,
        "true: the user cannot sign in; unchanged if omitted",
    ),
];
