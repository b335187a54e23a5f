//! What somebody wants there to be, as files declare it: projects with their channels, checks, windows and keys, and users. What a file does
//! not say has its default here already.

pub mod object_fields;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::channel::ChannelSettings;
use super::check_edit::CheckEdit;
use super::ids::parse_hyphenated_uuid;
use super::maintenance_window::WindowTimes;
use super::project::{ChannelName, KeyLabel, KeySecret, ProjectName};
use super::text::{FailureThreshold, Name, Slug, Tags};
use super::user::{Membership, PasswordHash, UserName};

/// Who owns what a file makes: 1 to 100 characters without control characters. What one source owns another one does not touch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConfigSource(Arc<str>);

impl ConfigSource {
    /// Refuses empty names, more than 100 characters and control characters; the message says what is allowed.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let fits = !text.is_empty() && text.chars().count() <= 100 && !text.chars().any(char::is_control);
        if fits { Ok(Self(text.into())) } else { Err("a source has 1 to 100 characters and no control characters") }
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a file names something within its project.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectName {
    /// A text of the form 8-4-4-4-12.
    Uuid(Uuid),
    /// Any other: a slug, a name or a label.
    Text(Box<str>),
}

impl ObjectName {
    /// The name that a key of a file is.
    pub fn new(text: &str) -> Self {
        parse_hyphenated_uuid(text).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }

    /// The text, unless it is a UUID.
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

/// The kinds of things that files declare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "see the fields of `WantedProject`")]
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
    pub const ALL: [Self; 6] = [Self::Project, Self::Channel, Self::Check, Self::Window, Self::Key, Self::User];

    /// The word for it in files and lists.
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

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// All that files declare together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeclaredConfig {
    /// Who owns it; `None`: nobody.
    pub source: Option<ConfigSource>,
    /// Projects, each once.
    pub projects: Vec<DeclaredProject>,
    /// Users, each once.
    pub users: Vec<DeclaredUser>,
}

/// A project as it is wanted. Several files may say something of one project; what of its settings is not said stays.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredProject {
    /// Its name.
    pub name: ProjectName,
    /// The name that it had before.
    pub previous_name: Option<ProjectName>,
    /// Its UUID, if it is to have a certain one.
    pub uuid: Option<Uuid>,
    /// How many checks it may have; `Some(None)`: as many as one likes.
    pub check_limit: Option<Option<u32>>,
    /// How many pings of each check are kept.
    pub ping_log_limit: Option<u32>,
    /// Its channels.
    pub channels: Vec<DeclaredChannel>,
    /// Its checks.
    pub checks: Vec<DeclaredCheck>,
    /// Its maintenance windows.
    pub windows: Vec<DeclaredWindow>,
    /// Its keys.
    pub keys: Vec<DeclaredKey>,
}

impl DeclaredProject {
    /// A project of which nothing is said.
    pub fn new(name: ProjectName) -> Self {
        let (channels, checks, windows, keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { name, previous_name: None, uuid: None, check_limit: None, ping_log_limit: None, channels, checks, windows, keys }
    }
}

/// A channel as it is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredChannel {
    /// Its name, or its UUID.
    pub id: ObjectName,
    /// Its UUID, if it is to have a certain one.
    pub uuid: Option<Uuid>,
    /// Its name.
    pub name: ChannelName,
    /// How it notifies, secrets included.
    pub settings: ChannelSettings,
}

/// A check as it is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredCheck {
    /// Its slug, or its UUID.
    pub id: ObjectName,
    /// Its UUID, if it is to have a certain one.
    pub uuid: Option<Uuid>,
    /// The slug that it had before.
    pub previous_slug: Option<Slug>,
    /// Every field, but for the period of one with a schedule, and the zone of one without.
    pub edit: CheckEdit,
    /// How often in a row it has to fail until that is told.
    pub failure_threshold: FailureThreshold,
    /// Slugs or UUIDs of the checks that it depends on.
    pub parents: Vec<ObjectName>,
    /// Whether it is paused; `None`: as it is.
    pub paused: Option<bool>,
}

/// A maintenance window as it is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredWindow {
    /// Its name, or its UUID.
    pub id: ObjectName,
    /// Its UUID, if it is to have a certain one.
    pub uuid: Option<Uuid>,
    /// Its name.
    pub name: Name,
    /// The tags of the checks that it is about.
    pub tags: Tags,
    /// When it is open.
    pub times: WindowTimes,
}

/// A key as it is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredKey {
    /// What its owner calls it; empty: the ping key of the project.
    pub label: KeyLabel,
    /// What it is recognised by.
    pub secret: KeySecret,
    /// Its first characters.
    pub hint: Box<str>,
}

/// A user as it is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct DeclaredUser {
    /// Its name.
    pub name: UserName,
    /// What it may do.
    pub grant: DeclaredGrant,
    /// What its password is checked against; `None`: as it is.
    pub password: Option<PasswordHash>,
    /// Whether it may sign in no more; `None`: as it is.
    pub disabled: Option<bool>,
}

/// What a user may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeclaredGrant {
    /// Everything.
    Owner,
    /// This, in these projects.
    Projects(Vec<(ProjectName, Membership)>),
}

/// What is allowed when a wanted state is made the real one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ApplyOptions {
    /// How many objects that the source owns and no longer names may be deleted; `None`: they stay.
    pub prune_limit: Option<usize>,
    /// Whether what nobody owns may be changed by a source that owns it from then on.
    pub adopt_unmanaged: bool,
}

/// Which object a sentence is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectPath {
    /// The name of its project, or its own if it is one; `None` for users.
    pub project: Option<Box<str>>,
    /// What it is.
    pub kind: ObjectKind,
    /// How the file names it.
    pub name: Box<str>,
}

/// Why a wanted state cannot be made the real one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplyConflict {
    /// What it is about.
    pub object: ObjectPath,
    /// Which field, if it is about one.
    pub field: Option<&'static str>,
    /// A sentence: what is wrong, and what to do.
    pub reason: String,
}

/// What becomes of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeOperation {
    /// It is made.
    Add,
    /// It is changed.
    Change,
    /// It is as wanted, and belongs to the source from now on.
    Adopt,
    /// It is deleted.
    Delete,
    /// The source no longer names it, and it stays.
    Keep,
}

impl ChangeOperation {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Add, Self::Change, Self::Adopt, Self::Delete, Self::Keep];

    /// The word for it.
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

/// What becomes of one object, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedChange {
    /// What becomes of it.
    pub operation: ChangeOperation,
    /// Which it is.
    pub object: ObjectPath,
    /// What of it changes: the name of the field, before and after; secrets masked.
    pub fields: Vec<(Box<str>, Option<String>, Option<String>)>,
    /// Its UUID, if it has one by now.
    pub uuid: Option<Uuid>,
    /// It is a user without a password.
    pub needs_password_link: bool,
}
