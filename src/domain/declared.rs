//! Desired state, as declared by configuration files: projects with their channels, checks, windows
//! and keys, and users. Defaults are already filled in.

pub mod object_fields;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::channel::ChannelSettings;
use super::check_edit::CheckEdit;
use super::ids::parse_hyphenated_uuid;
use super::maintenance_window::WindowTimes;
use super::number::FailureThreshold;
use super::project::{ChannelName, KeyLabel, KeySecret, ProjectName};
use super::text::{Name, Slug, Tags};
use super::user::{Membership, PasswordHash, UserName};

/// Configuration source that manages objects: 1 to 100 characters without control characters. A
/// source does not change objects of another source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConfigSource(Arc<str>);

impl ConfigSource {
    /// Rejects empty names, more than 100 characters and control characters. The message says which
    /// values are allowed.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let fits =
            !text.is_empty() && text.chars().count() <= 100 && !text.chars().any(char::is_control);
        if fits {
            Ok(Self(text.into()))
        } else {
            Err("a source has 1 to 100 characters and no control characters")
        }
    }

    /// Name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Identifier of an object within its project, as a file spells it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectName {
    /// Text of the form 8-4-4-4-12.
    Uuid(Uuid),
    /// Any other text: a slug, a name or a label.
    Text(Box<str>),
}

impl ObjectName {
    /// Parses the key of a table in a file.
    pub fn new(text: &str) -> Self {
        parse_hyphenated_uuid(text).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }

    /// Returns the UUID if the name is one. Otherwise returns `declared`, the UUID that the file
    /// gives in addition to the name.
    pub fn uuid_or(&self, declared: Option<Uuid>) -> Option<Uuid> {
        match self {
            Self::Uuid(uuid) => Some(*uuid),
            Self::Text(_) => declared,
        }
    }

    /// Text of the name, unless it is a UUID.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Uuid(_) => None,
            Self::Text(text) => Some(text),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Kinds of objects that files declare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "see the fields of `DeclaredProject`")]
pub enum ObjectKind {
    Project,
    Channel,
    Check,
    Window,
    Key,
    User,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Project,
        Self::Channel,
        Self::Check,
        Self::Window,
        Self::Key,
        Self::User,
    ];

    /// Word for the kind in files and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Channel => "channel",
            Self::Check => "check",
            Self::Window => "window",
            Self::Key => "key",
            Self::User => "user",
        }
    }

    /// Returns the kind with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Contents of all files together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeclaredConfig {
    /// Owner of the objects; `None`: no owner.
    pub source: Option<ConfigSource>,
    /// Projects, each once.
    pub projects: Vec<DeclaredProject>,
    /// Users, each once.
    pub users: Vec<DeclaredUser>,
}

/// Declared project. Several files may declare parts of one project. Project settings that no file
/// names stay.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredProject {
    /// Name of the project.
    pub name: ProjectName,
    /// Previous name of the project, if it was renamed.
    pub previous_name: Option<ProjectName>,
    /// UUID of the project, if the file gives one.
    pub uuid: Option<Uuid>,
    /// Maximum number of checks; `Some(None)`: no limit.
    pub check_limit: Option<Option<u32>>,
    /// Number of pings that are kept for each check.
    pub ping_log_limit: Option<u32>,
    /// True if a ping that creates a check may give its settings in the URL.
    pub allows_ping_settings: Option<bool>,
    /// Channels of the project.
    pub channels: Vec<DeclaredChannel>,
    /// Checks of the project.
    pub checks: Vec<DeclaredCheck>,
    /// Maintenance windows of the project.
    pub windows: Vec<DeclaredWindow>,
    /// Keys of the project.
    pub keys: Vec<DeclaredKey>,
}

impl DeclaredProject {
    /// Creates a project with no declared settings.
    pub fn new(name: ProjectName) -> Self {
        let channels = Vec::new();
        let checks = Vec::new();
        let windows = Vec::new();
        let keys = Vec::new();
        Self {
            name,
            previous_name: None,
            uuid: None,
            check_limit: None,
            ping_log_limit: None,
            allows_ping_settings: None,
            channels,
            checks,
            windows,
            keys,
        }
    }
}

/// Declared channel.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredChannel {
    /// Name or UUID of the channel in the file.
    pub id: ObjectName,
    /// UUID of the channel, if the file gives one.
    pub uuid: Option<Uuid>,
    /// Name of the channel.
    pub name: ChannelName,
    /// Settings of the channel, including secrets.
    pub settings: ChannelSettings,
}

/// Declared check.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredCheck {
    /// Slug or UUID of the check in the file.
    pub id: ObjectName,
    /// UUID of the check, if the file gives one.
    pub uuid: Option<Uuid>,
    /// Previous slug of the check, if it was renamed.
    pub previous_slug: Option<Slug>,
    /// Every field, except the period of a check with a schedule, and the zone of a check without
    /// one.
    pub edit: CheckEdit,
    /// Number of failures in a row before channels are notified.
    pub failure_threshold: FailureThreshold,
    /// Slugs or UUIDs of the checks that it depends on.
    pub parents: Vec<ObjectName>,
    /// True if the check is paused; `None`: unchanged.
    pub paused: Option<bool>,
}

/// Declared maintenance window.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredWindow {
    /// Name or UUID of the window in the file.
    pub id: ObjectName,
    /// UUID of the window, if the file gives one.
    pub uuid: Option<Uuid>,
    /// Name of the window.
    pub name: Name,
    /// Tags of the checks that it applies to.
    pub tags: Tags,
    /// Times at which it is open.
    pub times: WindowTimes,
}

/// Declared key.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredKey {
    /// Label of the key; empty: the ping key of the project.
    pub label: KeyLabel,
    /// Value by which the key is recognised.
    pub secret: KeySecret,
    /// First characters of the key.
    pub hint: Box<str>,
}

/// Declared user.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredUser {
    /// Name of the user.
    pub name: UserName,
    /// Permissions of the user.
    pub grant: DeclaredGrant,
    /// Hash of the password; `None`: unchanged.
    pub password: Option<PasswordHash>,
    /// True if the user may not sign in; `None`: unchanged.
    pub disabled: Option<bool>,
}

/// Declared permissions of a user, with projects by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeclaredGrant {
    /// All permissions.
    Owner,
    /// These memberships, in these projects.
    Projects(Vec<(ProjectName, Membership)>),
}

/// Options for applying declared objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ApplyOptions {
    /// Maximum number of objects that may be deleted because their source no longer names them;
    /// `None`: they stay.
    pub prune_limit: Option<usize>,
    /// True if the source may take over and change objects that no source manages.
    pub adopt_unmanaged: bool,
}

/// Object that a message is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectPath {
    /// Name of its project, or its own name if it is a project; `None` for users.
    pub project: Option<Box<str>>,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Name of the object in the file.
    pub name: Box<str>,
}

/// Reason for which declared objects cannot be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplyConflict {
    /// Object that the conflict is about.
    pub object: ObjectPath,
    /// Field that the conflict is about, if any.
    pub field: Option<&'static str>,
    /// Sentence that says what is wrong and what to do.
    pub reason: String,
}

/// Change to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeOperation {
    /// The object is created.
    Add,
    /// The object is changed.
    Change,
    /// The object is as declared, and belongs to the source from now on.
    Adopt,
    /// The object is deleted.
    Delete,
    /// The source no longer names the object, but it stays.
    Keep,
}

impl ChangeOperation {
    /// Every operation.
    pub const ALL: [Self; 5] = [
        Self::Add,
        Self::Change,
        Self::Adopt,
        Self::Delete,
        Self::Keep,
    ];

    /// Word for the operation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Change => "change",
            Self::Adopt => "adopt",
            Self::Delete => "delete",
            Self::Keep => "leave",
        }
    }
}

/// Planned change to one object, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedChange {
    /// Operation on the object.
    pub operation: ChangeOperation,
    /// Object that changes.
    pub object: ObjectPath,
    /// Changed fields: the name of the field, before and after; secrets masked.
    pub fields: Vec<(Box<str>, Option<String>, Option<String>)>,
    /// UUID of the object. `None` if it has none, or gets a random one that is not drawn yet.
    pub uuid: Option<Uuid>,
    /// True for a user without a password.
    pub needs_password_link: bool,
}

#[cfg(test)]
mod tests {
    use super::ConfigSource;
    use super::object_fields::{ObjectValue, tags_value};
    use crate::domain::text::Tags;

    #[test]
    fn tags_are_a_list() {
        let list = ObjectValue::List(vec!["home".into(), "nas".into()]);
        assert_eq!(tags_value(&Tags::parse("home nas").unwrap()), list);
    }

    #[test]
    fn an_invisible_text_is_quoted_in_a_difference() {
        for (text, shown) in [
            ("a \"b\"", "a \"b\""),
            ("", "\"\""),
            ("a\nb", "\"a\\nb\""),
            ("\u{7f}", "\"\\u{7f}\""),
        ] {
            assert_eq!(ObjectValue::Text(text.into()).display_text(), shown);
        }
    }

    #[test]
    fn a_source_has_1_to_100_characters() {
        let longest = "ü".repeat(100);
        assert!(ConfigSource::parse(&longest).is_ok());
        for wrong in ["", "a\nb", &format!("{longest}x")] {
            assert!(ConfigSource::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
