//! What can be asked, in domain types that are parsed while a request is read, and what is answered.
//!
//! Requests and replies may hold secrets, so they have no `Debug`.

pub mod channel;
pub mod check;
pub mod declare;
pub mod import;
pub mod user;
pub mod window;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::declare::ExportedObject;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::maintenance_window::WindowTimesInput;
use crate::domain::project::{ChannelName, KeyAccess, KeyLabel, ProjectName};
use crate::domain::text::{FailureThreshold, Name, Tags};
use crate::domain::user::{Membership, PasswordHash, UserName};
use crate::password;
use channel::{ChannelAction, ChannelRow, DeliveryRow, MemberTestRow, TestRow};
use check::{AlertingRow, CheckRow, FlipRow, PingRow};
use declare::{ChangeRow, ConflictRow};
use import::{ImportRequest, ImportRow};
use user::{GrantRow, LinkRow, UserAction, UserRow};
use window::WindowRow;

/// What is asked for. A project is named by its name or UUID, a channel by its UUID or, if it is the only
/// one, its name; a check by its UUID, slug or name.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "fields are named like the flags of the command line, where each is explained")]
pub enum AdminRequest {
    /// Makes a project; answered with its UUID.
    CreateProject {
        #[serde(with = "form::project_name")]
        name: ProjectName,
        check_limit: CheckLimit,
        ping_log_limit: u32,
    },
    /// Changes a project; what is `None` stays.
    SetProject {
        project: String,
        #[serde(default, with = "form::optional_project_name")]
        name: Option<ProjectName>,
        check_limit: Option<CheckLimit>,
        ping_log_limit: Option<u32>,
    },
    /// Removes a project with all that belongs to it.
    DeleteProject { project: String },
    /// Every project, oldest first.
    ListProjects {},
    /// Makes a key; answered with the key itself, which cannot be shown again unless it is a ping key.
    CreateKey {
        project: Option<String>,
        #[serde(with = "form::access")]
        access: KeyAccess,
        #[serde(with = "form::key_label")]
        label: KeyLabel,
    },
    /// Removes a key.
    RevokeKey { id: u64 },
    /// The keys of a project or of all, oldest first.
    ListKeys { project: Option<String>, show_ping_keys: bool },
    /// Makes a channel; answered with its UUID.
    CreateChannel {
        project: Option<String>,
        #[serde(with = "form::channel_name")]
        name: ChannelName,
        #[serde(with = "form::settings")]
        settings: ChannelSettings,
    },
    /// Changes a channel; what is `None` stays. Settings replace all there were, or with `keep` those of the same keys; `***` for a secret
    /// keeps what is stored.
    SetChannel {
        project: Option<String>,
        channel: String,
        #[serde(default, with = "form::optional_channel_name")]
        name: Option<ChannelName>,
        settings: Option<Vec<(String, String)>>,
        #[serde(default)]
        keep: bool,
    },
    /// Removes a channel, from all checks too.
    DeleteChannel { project: Option<String>, channel: String },
    /// The channels of a project or of all, oldest first.
    ListChannels { project: Option<String>, show_settings: bool },
    /// Something about one channel.
    OfChannel { project: Option<String>, channel: String, what: ChannelAction },
    /// The newest deliveries of a project, a channel, a check, or of all three, newest first.
    ListDeliveries { project: Option<String>, channel: Option<String>, check: Option<String>, failed: bool, limit: u32 },
    /// Has sent again what was given up; answered with the number under which it waits.
    RetryDelivery { number: u64 },
    /// The whole database as a stream of bytes: see [`crate::backup`].
    Backup {},
    /// Everything as lines, or one project without users; answered with [pieces](Reply::Piece).
    ExportLines {
        /// Its name or UUID.
        project: Option<String>,
        /// With logs.
        logs: bool,
    },
    /// A part of a document, in base64; [`Request::Declare`] is about all that came before it on the same connection.
    Part(String),
    /// What would change if what a document declares were so; or, unless `dry`, makes it so.
    Declare {
        /// How many objects may be deleted that the source no longer names.
        prune: Option<usize>,
        /// Whether what nobody owns may be changed.
        adopt: bool,
        dry: bool,
    },
    /// What there is of a project, or of all, as files declare it.
    Export { project: Option<String>, secrets: bool },
    /// A step of an import, or the end of a trial.
    Import(ImportRequest),
    /// Makes a maintenance window; answered with its UUID.
    CreateWindow {
        project: Option<String>,
        #[serde(with = "window::name")]
        name: Name,
        #[serde(with = "window::tags")]
        tags: Tags,
        #[serde(with = "window::Times")]
        times: WindowTimesInput,
    },
    /// The maintenance windows of a project or of all, oldest first.
    ListWindows { project: Option<String> },
    /// Removes a maintenance window.
    DeleteWindow { project: Option<String>, window: String },
    /// Makes a check, or changes the one that agrees with it on all of `unique`; answered with its UUID.
    CreateCheck {
        project: Option<String>,
        #[serde(with = "check::edit")]
        edit: Box<CheckEdit>,
        #[serde(with = "check::unique")]
        unique: Vec<UniqueField>,
    },
    /// The checks of a project or of all that have all of these tags and, unless none is named, one of these statuses, oldest first.
    ListChecks { project: Option<String>, tags: Vec<String>, statuses: Option<Vec<String>> },
    /// Something about one check.
    OfCheck { project: Option<String>, check: String, what: CheckAction },
    /// Makes a user; answered with its UUID or, if it has no password, with the link by which it chooses one.
    CreateUser {
        #[serde(with = "form::user_name")]
        name: UserName,
        #[serde(default, with = "form::optional_password_hash")]
        password: Option<PasswordHash>,
        grant: GrantRow,
    },
    /// Every user, oldest first.
    ListUsers {},
    /// Something about one user, by its name or UUID.
    OfUser { user: String, what: UserAction },
    /// The link by which the first owner is made.
    SetupLink {},
}

/// What is asked about one check.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CheckAction {
    /// It with all its fields.
    Show,
    /// A change; what is `None` stays.
    Set(#[serde(with = "check::edit")] Box<CheckEdit>),
    /// That it is paused.
    Pause,
    /// That it is resumed.
    Resume,
    /// That it is removed with all that was logged of it.
    Delete,
    /// Its pings, newest first.
    Pings,
    /// Its flips, newest first.
    Flips,
    /// When it is told that it is down, first with a change; what is `None` stays.
    Alerting {
        /// How often it has to fail until then.
        #[serde(with = "check::failures", default)]
        after: Option<FailureThreshold>,
        /// UUIDs, slugs or names of the checks that it depends on.
        #[serde(default)]
        parents: Option<Vec<String>>,
    },
}

/// How many checks a project may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckLimit {
    /// As many as one likes.
    None,
    /// So many.
    At(u32),
}

impl CheckLimit {
    /// Reads a number or `none`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "none" => Ok(Self::None),
            number => number.parse().map(Self::At).map_err(|_| "give a number of checks, or none for no limit"),
        }
    }

    /// The limit, `None` for no limit.
    pub fn get(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }
}

/// What is answered. Lists are answered in pieces.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminReply {
    /// It is done and there is nothing to tell.
    Done,
    /// The UUID of what was made.
    Made(Uuid),
    /// The key that was made.
    MadeKey(CreatedKeyRow),
    /// See [`Request::ListProjects`].
    Projects(Vec<ProjectRow>),
    /// See [`Request::ListKeys`].
    Keys(Vec<KeyRow>),
    /// See [`OfUser::Link`].
    MadeLink(LinkRow),
    /// See [`Request::ListUsers`].
    Users(Vec<UserRow>),
    /// See [`Request::ListChannels`].
    Channels(Vec<ChannelRow>),
    /// See [`Request::ListChecks`] and [`OfCheck::Show`].
    Checks(Vec<CheckRow>),
    /// See [`OfCheck::Pings`].
    Pings(Vec<PingRow>),
    /// See [`OfCheck::FlipCache`].
    Flips(Vec<FlipRow>),
    /// See [`Request::ListDeliveries`].
    Deliveries(Vec<DeliveryRow>),
    /// See [`Request::ListWindows`].
    Windows(Vec<WindowRow>),
    /// See [`OfCheck::Alerting`].
    Alerting(AlertingRow),
    /// See [`OfChannel::Test`].
    Tested(TestRow),
    /// The same for a group: the result for each of its channels.
    TestedGroup(Vec<MemberTestRow>),
    /// See [`OfChannel::Assign`].
    Assigned(usize),
    /// See [`Request::RetryDelivery`].
    Queued(u64),
    /// See [`Request::Declare`].
    Changes(Vec<ChangeRow>),
    /// Why what a document declares cannot be; nothing was changed.
    Conflicts(Vec<ConflictRow>),
    /// See [`Request::Export`].
    Objects(Vec<ExportedObject>),
    /// The number of an import that has begun.
    ImportBegun(u64),
    /// What was imported is shown; it took the place of so many projects, in which so many checks were pinged or changed and so many pings
    /// arrived.
    Imported(usize, usize, u64),
    /// See [`ImportRequest::List`].
    Imports(Vec<ImportRow>),
    /// Checks whose place an import would take were pinged or changed here; the sentence says which.
    Touched(String),
    /// It was done; what should be known of it.
    Warnings(Vec<String>),
    /// A piece of a stream, in base64. After the last comes [`Reply::Done`].
    Piece(String),
    /// The request can never be right; the reason says what to change in it.
    Invalid(String),
    /// The request does not fit what there is, or cannot be carried out now; the reason says what to do.
    Refused(String),
}

impl AdminReply {
    /// Adds the next piece of a list to the first; a piece of something else is given back.
    pub(super) fn append(&mut self, next: Self) -> Result<(), Self> {
        match (self, next) {
            (Self::Projects(rows), Self::Projects(more)) => rows.extend(more),
            (Self::Keys(rows), Self::Keys(more)) => rows.extend(more),
            (Self::Users(rows), Self::Users(more)) => rows.extend(more),
            (Self::Channels(rows), Self::Channels(more)) => rows.extend(more),
            (Self::TestedGroup(rows), Self::TestedGroup(more)) => rows.extend(more),
            (Self::Checks(rows), Self::Checks(more)) => rows.extend(more),
            (Self::Pings(rows), Self::Pings(more)) => rows.extend(more),
            (Self::Flips(rows), Self::Flips(more)) => rows.extend(more),
            (Self::Deliveries(rows), Self::Deliveries(more)) => rows.extend(more),
            (Self::Windows(rows), Self::Windows(more)) => rows.extend(more),
            (Self::Changes(rows), Self::Changes(more)) => rows.extend(more),
            (Self::Conflicts(rows), Self::Conflicts(more)) => rows.extend(more),
            (Self::Objects(rows), Self::Objects(more)) => rows.extend(more),
            (Self::Imports(rows), Self::Imports(more)) => rows.extend(more),
            (_, next) => return Err(next),
        }
        Ok(())
    }

    /// Takes away the second half of a list of more than one row.
    pub(super) fn split_off(&mut self) -> Option<Self> {
        fn half<T>(rows: &mut Vec<T>) -> Option<Vec<T>> {
            (rows.len() > 1).then(|| rows.split_off(rows.len() / 2))
        }
        match self {
            Self::Projects(rows) => half(rows).map(Self::Projects),
            Self::Keys(rows) => half(rows).map(Self::Keys),
            Self::Users(rows) => half(rows).map(Self::Users),
            Self::Channels(rows) => half(rows).map(Self::Channels),
            Self::TestedGroup(rows) => half(rows).map(Self::TestedGroup),
            Self::Checks(rows) => half(rows).map(Self::Checks),
            Self::Pings(rows) => half(rows).map(Self::Pings),
            Self::Flips(rows) => half(rows).map(Self::Flips),
            Self::Deliveries(rows) => half(rows).map(Self::Deliveries),
            Self::Windows(rows) => half(rows).map(Self::Windows),
            Self::Changes(rows) => half(rows).map(Self::Changes),
            Self::Conflicts(rows) => half(rows).map(Self::Conflicts),
            Self::Objects(rows) => half(rows).map(Self::Objects),
            Self::Imports(rows) => half(rows).map(Self::Imports),
            Self::Done | Self::Made(_) | Self::MadeKey(_) | Self::MadeLink(_) | Self::Alerting(_) | Self::Tested(_) => None,
            Self::ImportBegun(_) | Self::Imported(..) | Self::Touched(_) | Self::Warnings(_) => None,
            Self::Assigned(_) | Self::Queued(_) | Self::Piece(_) | Self::Invalid(_) | Self::Refused(_) => None,
        }
    }
}

/// A key that was made. An API key cannot be shown again.
#[derive(Serialize, Deserialize)]
pub struct CreatedKeyRow {
    /// What `key revoke` takes.
    pub id: u64,
    /// The key.
    pub key: String,
}

/// A project in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "see `domain::project::Project`")]
pub struct ProjectRow {
    pub uuid: Uuid,
    pub name: String,
    /// How many it has.
    pub checks: usize,
    pub check_limit: Option<u32>,
    pub ping_log_limit: u32,
    /// It is on trial: nobody is told anything of it.
    #[serde(default)]
    pub trial: bool,
}

/// A key in a list.
#[derive(Serialize, Deserialize)]
pub struct KeyRow {
    /// What `key revoke` takes.
    pub id: u64,
    /// The name of its project.
    pub project: String,
    /// The word of the command line.
    pub access: String,
    /// What its owner calls it; may be empty.
    pub label: String,
    /// Its first characters; empty for a key of release 0.1.
    pub hint: String,
    /// When it was made, RFC 3339.
    pub created: String,
    /// When it was last used, RFC 3339, told once in every hour.
    pub used: Option<String>,
    /// Something to know of it: that it came from another server and nobody has used it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// From where it was used then.
    pub used_from: Option<IpAddr>,
    /// The key itself, if it is a ping key and was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How domain types stand in JSON.
mod form {
    /// A module for `serde(with)`: text on the wire, a domain type in hand.
    macro_rules! text {
        ($name:ident, $type:ty, $write:expr, $parse:expr) => {
            pub(super) mod $name {
                use super::super::*;

                pub(crate) fn serialize<S: serde::Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                    Serialize::serialize(&$write(value), to)
                }

                pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                    $parse(Deserialize::deserialize(from)?).map_err(serde::de::Error::custom)
                }
            }
        };
    }

    text!(project_name, ProjectName, ProjectName::as_str, |text: String| ProjectName::parse(&text));
    text!(
        optional_project_name,
        Option<ProjectName>,
        |name: &Option<ProjectName>| name.as_ref().map(|name| name.as_str().to_owned()),
        |text: Option<String>| { text.map(|text| ProjectName::parse(&text)).transpose() }
    );
    text!(access, KeyAccess, |access: &KeyAccess| access.name(), |text: String| KeyAccess::parse(&text).ok_or("no such access"));
    text!(key_label, KeyLabel, KeyLabel::as_str, |text: String| KeyLabel::parse(&text));
    text!(user_name, UserName, UserName::as_str, |text: String| UserName::parse(&text));
    text!(
        optional_user_name,
        Option<UserName>,
        |name: &Option<UserName>| name.as_ref().map(|name| name.as_str().to_owned()),
        |text: Option<String>| { text.map(|text| UserName::parse(&text)).transpose() }
    );
    text!(membership, Membership, |kind: &Membership| kind.name(), |text: String| Membership::parse(&text)
        .ok_or("give member or read-only"));
    text!(password_hash, PasswordHash, PasswordHash::as_str, |text: String| password::parse(&text).ok_or("not the hash of a password"));
    text!(
        optional_password_hash,
        Option<PasswordHash>,
        |hash: &Option<PasswordHash>| hash.as_ref().map(|hash| hash.as_str().to_owned()),
        |text: Option<String>| { text.map(|text| password::parse(&text).ok_or("not the hash of a password")).transpose() }
    );
    text!(channel_name, ChannelName, ChannelName::as_str, |text: String| ChannelName::parse(&text));
    text!(
        optional_channel_name,
        Option<ChannelName>,
        |name: &Option<ChannelName>| name.as_ref().map(|name| name.as_str().to_owned()),
        |text: Option<String>| { text.map(|text| ChannelName::parse(&text)).transpose() }
    );
    text!(
        settings,
        ChannelSettings,
        |settings: &ChannelSettings| (
            settings.kind().name,
            settings.pairs().map(|(key, value)| (key.into(), value.into())).collect::<Vec<(String, String)>>()
        ),
        |(kind, pairs): (String, Vec<(String, String)>)| {
            let kind = ChannelKind::from_name(&kind).ok_or("no such kind of channel")?;
            ChannelSettings::parse(kind, pairs).map_err(|error| error.to_string())
        }
    );
}
