//! The fields of everything that files declare, as tables: reading, the schema and what is said of unknown keys all follow them.

use crate::domain::text::{Name, Seconds};
use crate::domain::window::Window;

/// A field of an object.
pub(super) struct Field {
    /// Its key.
    pub(super) key: &'static str,
    /// What values it takes.
    pub(super) form: Form,
    /// What it is for: half a sentence for people.
    pub(super) help: &'static str,
}

/// What values a field takes.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Text of at most so many characters.
    Text(usize),
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second.
    Number(i64, i64),
    /// Such a number, or `none`.
    Limit(i64, i64),
    /// A number of seconds, or a text such as `15m`; the least and the most in seconds.
    Duration(i64, i64),
    /// Texts, or one text with a separator between them.
    Words,
    /// Such a list, or `*`.
    Channels,
    /// Cron or OnCalendar.
    Schedule,
    /// The name of a time zone.
    Zone,
    /// 8-4-4-4-12.
    Uuid,
    /// A slug.
    Slug,
    /// RFC 3339.
    Time,
    /// Text that should not stand in the file: `{ env = … }`, `{ file = … }` or `{ credential = … }`.
    Secret,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Fields of their own.
    Fields(&'static [Field]),
    /// Projects, and what is allowed in each.
    Access,
}

const fn field(key: &'static str, form: Form, help: &'static str) -> Field {
    Field { key, form, help }
}

const SECONDS: Form = Form::Duration(Seconds::LEAST, Seconds::MOST);
const UUID: Field = field("uuid", Form::Uuid, "its UUID, if it is to have a certain one");

pub(super) const ROOT: &[Field] = &[
    field("version", Form::Number(1, 1), "the version of the format"),
    field("source", Form::Text(100), "who owns what the file makes; what it owns and no longer names can be pruned"),
];

pub(super) const PROJECT: &[Field] = &[
    UUID,
    field("was", Form::Text(100), "the name that it had before"),
    field("check-limit", Form::Limit(0, u32::MAX as i64), "how many checks it may have, or none"),
    field("ping-log-limit", Form::Number(0, u32::MAX as i64), "how many pings of each check are kept"),
    field("ping-key", Form::Secret, "the key that stands in ping URLs with slugs"),
];

/// What defaults may say of checks; one check says more.
pub(super) const CHECK_DEFAULTS: &[Field] = &[
    field("every", SECONDS, "its period"),
    field("schedule", Form::Schedule, "when it is expected, in place of a period"),
    field("tz", Form::Zone, "the zone of the schedule"),
    field("grace", SECONDS, "how late it may be"),
    field("tags", Form::Words, "its tags"),
    field("desc", Form::Text(16_384), "its description"),
    field("channels", Form::Channels, "names or UUIDs of those that are told, or \"*\" for all of the project"),
    field("manual-resume", Form::Flag, "whether a paused check ignores pings"),
    field("methods", Form::Choice(&["", "POST"]), "POST: only that counts as a ping"),
    field("filter", Form::Fields(FILTER), "what pings say by words in them"),
    field("alert", Form::Fields(ALERT), "when it is told that it is down"),
];

pub(super) const CHECK: &[Field] = &[
    UUID,
    field("slug", Form::Slug, "its slug, if the key is a UUID"),
    field("was", Form::Slug, "the slug that it had before"),
    field("name", Form::Text(Name::MOST_CHARS), "its name; the slug, if it is left out"),
    field("paused", Form::Flag, "whether it is paused; as it is, if that is left out"),
];

const FILTER: &[Field] = &[
    field("subject", Form::Flag, "search the subjects of mails"),
    field("body", Form::Flag, "search the bodies of mails"),
    field("http-body", Form::Flag, "search the bodies of requests"),
    field("default-fail", Form::Flag, "what has none of the words is a failure; else it is ignored"),
    field("start", Form::Words, "words that mean a start"),
    field("success", Form::Words, "words that mean success"),
    field("failure", Form::Words, "words that mean failure"),
];

const ALERT: &[Field] = &[
    field("after", Form::Number(1, 100), "how often in a row it has to fail until that is told"),
    field("parents", Form::Words, "slugs or UUIDs of the checks without which it cannot report"),
];

pub(super) const CHANNEL: &[Field] = &[
    UUID,
    field("name", Form::Text(100), "its name, if the key is a UUID"),
    field("incomplete", Form::Flag, "true: it lacks settings that its kind needs, as some do that were imported, and cannot deliver"),
];

pub(super) const WINDOW: &[Field] = &[
    UUID,
    field("name", Form::Text(Name::MOST_CHARS), "its name, if the key is a UUID"),
    field("tags", Form::Words, "tags that a check must have to be meant; all checks, if they are left out"),
    field("at", Form::Schedule, "when it opens, again and again"),
    field("tz", Form::Zone, "the zone of that"),
    field("from", Form::Time, "when it opens, once"),
    field("to", Form::Time, "when it closes"),
    field("for", Form::Duration(60, Window::MOST_MINUTES_ONCE as i64 * 60), "for how long it is open"),
];

pub(super) const KEY: &[Field] =
    &[field("access", Form::Choice(&["read-write", "read-only", "ping"]), "what it opens"), field("value", Form::Secret, "the key itself")];

pub(super) const USER: &[Field] = &[
    field("owner", Form::Flag, "whether it may do everything"),
    field("projects", Form::Access, "projects with member or read-only"),
    field("password-hash", Form::Secret, "an Argon2 hash of its password (PHC); without one, a link is printed once"),
    field("disabled", Form::Flag, "whether it may not sign in; as it is, if that is left out"),
];
