//! Requests, in domain types that are parsed while a request is read, and replies.
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

use crate::channels;
use crate::config::ExportedObject;
use crate::domain::channel::ChannelSettings;
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::maintenance_window::WindowTimesInput;
use crate::domain::project::{ChannelName, KeyAccess, KeyLabel, ProjectName};
use crate::domain::text::{FailureThreshold, Name, Tags};
use crate::domain::user::{Membership, PasswordHash, UserName};
use crate::util::password;
use channel::{ChannelAction, ChannelRow, DeliveryRow, MemberTestRow, TestRow};
use check::{AlertingRow, CheckRow, FlipRow, PingRow};
use declare::{ChangeRow, ConflictRow};
use import::{ImportRequest, ImportRow};
use user::{GrantRow, LinkRow, UserAction, UserRow};
use window::WindowRow;

/// A request. A project is named by its name or UUID; a channel by its UUID or, if that is unique,
/// its name; a check by its UUID, slug or name.
#[derive(Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    rename_all_fields = "snake_case",
    deny_unknown_fields
)]
#[allow(
    missing_docs,
    reason = "fields are named like the flags of the command line, where each is explained"
)]
pub enum AdminRequest {
    /// Creates a project. The reply is its UUID.
    CreateProject {
        #[serde(with = "form::project_name")]
        name: ProjectName,
        check_limit: CheckLimit,
        ping_log_limit: u32,
    },
    /// Changes a project; `None` leaves a field as it is.
    SetProject {
        project: String,
        #[serde(default, with = "form::optional_project_name")]
        name: Option<ProjectName>,
        check_limit: Option<CheckLimit>,
        ping_log_limit: Option<u32>,
    },
    /// Deletes a project with all that belongs to it.
    DeleteProject { project: String },
    /// Lists all projects, oldest first.
    ListProjects {},
    /// Creates a key. The reply is the key, which cannot be shown again unless it is a ping key.
    CreateKey {
        project: Option<String>,
        #[serde(with = "form::access")]
        access: KeyAccess,
        #[serde(with = "form::key_label")]
        label: KeyLabel,
    },
    /// Deletes a key.
    RevokeKey { id: u64 },
    /// Lists the keys of a project or of all, oldest first.
    ListKeys {
        project: Option<String>,
        show_ping_keys: bool,
    },
    /// Creates a channel. The reply is its UUID.
    CreateChannel {
        project: Option<String>,
        #[serde(with = "form::channel_name")]
        name: ChannelName,
        #[serde(with = "form::settings")]
        settings: ChannelSettings,
    },
    /// Changes a channel; `None` leaves a field as it is. The settings replace all previous ones
    /// or, with `keep`, only those with the same keys; `***` keeps a stored secret.
    SetChannel {
        project: Option<String>,
        channel: String,
        #[serde(default, with = "form::optional_channel_name")]
        name: Option<ChannelName>,
        settings: Option<Vec<(String, String)>>,
        #[serde(default)]
        keep: bool,
    },
    /// Deletes a channel, and unassigns it from all checks.
    DeleteChannel {
        project: Option<String>,
        channel: String,
    },
    /// Lists the channels of a project or of all, oldest first.
    ListChannels {
        project: Option<String>,
        show_settings: bool,
    },
    /// Action on one channel.
    OfChannel {
        project: Option<String>,
        channel: String,
        what: ChannelAction,
    },
    /// Lists the newest deliveries of a project, a channel or a check, or of a combination, newest
    /// first.
    ListDeliveries {
        project: Option<String>,
        channel: Option<String>,
        check: Option<String>,
        failed: bool,
        limit: u32,
    },
    /// Queues a failed delivery again. The reply is its new number.
    RetryDelivery { number: u64 },
    /// Streams the whole database as bytes: see [`crate::backup`].
    Backup {},
    /// Exports everything as lines, or one project without users. The reply comes in
    /// [pieces](AdminReply::Piece).
    ExportLines {
        /// Name or UUID of the project.
        project: Option<String>,
        /// True to include logs.
        logs: bool,
    },
    /// A part of a document, in base64. [`AdminRequest::Declare`] is about all parts that were sent
    /// before it on the same connection.
    Part(String),
    /// Applies a document or, with `dry`, returns the changes that this would make.
    Declare {
        /// Maximum number of objects to delete that the source no longer names.
        prune: Option<usize>,
        /// True to take over objects that no source manages.
        adopt: bool,
        dry: bool,
    },
    /// Exports the configuration of a project, or of all, in the format of declared files.
    Export {
        project: Option<String>,
        secrets: bool,
    },
    /// A step of an import, or the end of a trial.
    Import(ImportRequest),
    /// Creates a maintenance window. The reply is its UUID.
    CreateWindow {
        project: Option<String>,
        #[serde(with = "window::name")]
        name: Name,
        #[serde(with = "window::tags")]
        tags: Tags,
        #[serde(with = "window::Times")]
        times: WindowTimesInput,
    },
    /// Lists the maintenance windows of a project or of all, oldest first.
    ListWindows { project: Option<String> },
    /// Deletes a maintenance window.
    DeleteWindow {
        project: Option<String>,
        window: String,
    },
    /// Creates a check, or changes the one that matches on all fields of `unique`. The reply is its
    /// UUID.
    CreateCheck {
        project: Option<String>,
        #[serde(with = "check::edit")]
        edit: Box<CheckEdit>,
        #[serde(with = "check::unique")]
        unique: Vec<UniqueField>,
    },
    /// Lists the checks of a project or of all that have all of these tags and, if any is given,
    /// one of these statuses, oldest first.
    ListChecks {
        project: Option<String>,
        tags: Vec<String>,
        statuses: Option<Vec<String>>,
    },
    /// Action on one check.
    OfCheck {
        project: Option<String>,
        check: String,
        what: CheckAction,
    },
    /// Creates a user. The reply is its UUID or, without a password, the link by which it chooses
    /// one.
    CreateUser {
        #[serde(with = "form::user_name")]
        name: UserName,
        #[serde(default, with = "form::optional_password_hash")]
        password: Option<PasswordHash>,
        grant: GrantRow,
    },
    /// Lists all users, oldest first.
    ListUsers {},
    /// Action on one user, by its name or UUID.
    OfUser { user: String, what: UserAction },
    /// Creates the link by which the first owner is created.
    SetupLink {},
}

/// Action on one check.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CheckAction {
    /// Returns the check with all its fields.
    Show,
    /// Changes the check; `None` leaves a field as it is.
    Set(#[serde(with = "check::edit")] Box<CheckEdit>),
    /// Pauses the check.
    Pause,
    /// Resumes the check.
    Resume,
    /// Deletes the check with all its log entries.
    Delete,
    /// Lists its pings, newest first.
    Pings,
    /// Lists its flips, newest first.
    Flips,
    /// Returns the alert settings of the check, after a change if any; `None` leaves a field as it
    /// is.
    Alerting {
        /// Number of consecutive failures before an alert.
        #[serde(with = "check::failures", default)]
        after: Option<FailureThreshold>,
        /// UUIDs, slugs or names of the checks that it depends on.
        #[serde(default)]
        parents: Option<Vec<String>>,
    },
}

/// Maximum number of checks in a project.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckLimit {
    /// No limit.
    None,
    /// This maximum.
    At(u32),
}

impl CheckLimit {
    /// Parses a number or `none`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "none" => Ok(Self::None),
            number => number
                .parse()
                .map(Self::At)
                .map_err(|_| "give a number of checks, or none for no limit"),
        }
    }

    /// Returns the limit, `None` for no limit.
    pub fn get(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }
}

/// A reply. Lists are sent in pieces.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminReply {
    /// Success without a result.
    Done,
    /// UUID of the created object.
    Made(Uuid),
    /// Created key.
    MadeKey(CreatedKeyRow),
    /// See [`AdminRequest::ListProjects`].
    Projects(Vec<ProjectRow>),
    /// See [`AdminRequest::ListKeys`].
    Keys(Vec<KeyRow>),
    /// See [`UserAction::Link`].
    MadeLink(LinkRow),
    /// See [`AdminRequest::ListUsers`].
    Users(Vec<UserRow>),
    /// See [`AdminRequest::ListChannels`].
    Channels(Vec<ChannelRow>),
    /// See [`AdminRequest::ListChecks`] and [`CheckAction::Show`].
    Checks(Vec<CheckRow>),
    /// See [`CheckAction::Pings`].
    Pings(Vec<PingRow>),
    /// See [`CheckAction::Flips`].
    Flips(Vec<FlipRow>),
    /// See [`AdminRequest::ListDeliveries`].
    Deliveries(Vec<DeliveryRow>),
    /// See [`AdminRequest::ListWindows`].
    Windows(Vec<WindowRow>),
    /// See [`CheckAction::Alerting`].
    Alerting(AlertingRow),
    /// See [`ChannelAction::Test`].
    ChannelTestResults(TestRow),
    /// Result of the test of a group, for each of its channels.
    TestedGroup(Vec<MemberTestRow>),
    /// See [`ChannelAction::Assign`].
    Assigned(usize),
    /// See [`AdminRequest::RetryDelivery`].
    Queued(u64),
    /// See [`AdminRequest::Declare`].
    Changes(Vec<ChangeRow>),
    /// Reasons why a document cannot be applied. Nothing was changed.
    Conflicts(Vec<ConflictRow>),
    /// See [`AdminRequest::Export`].
    Objects(Vec<ExportedObject>),
    /// Number of the import that was begun.
    ImportBegun(u64),
    /// A finished import: number of projects that it replaced, number of their checks that were
    /// pinged or changed, and number of pings that had arrived in them.
    Imported(usize, usize, u64),
    /// See [`ImportRequest::List`].
    Imports(Vec<ImportRow>),
    /// Checks that an import would replace were pinged or changed here. The sentence names them.
    Touched(String),
    /// Success, with warnings.
    Warnings(Vec<String>),
    /// A piece of a stream, in base64. [`AdminReply::Done`] follows the last one.
    Piece(String),
    /// The request is invalid. The reason says how to correct it.
    Invalid(String),
    /// The request conflicts with the current state, or cannot be carried out now. The reason says
    /// what to do.
    Refused(String),
}

impl AdminReply {
    /// Appends the next piece of a list to the first. Returns a piece of another kind as an error.
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

    /// Splits off the second half of a list of more than one row.
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
            Self::Done
            | Self::Made(_)
            | Self::MadeKey(_)
            | Self::MadeLink(_)
            | Self::Alerting(_)
            | Self::ChannelTestResults(_) => None,
            Self::ImportBegun(_) | Self::Imported(..) | Self::Touched(_) | Self::Warnings(_) => {
                None
            }
            Self::Assigned(_)
            | Self::Queued(_)
            | Self::Piece(_)
            | Self::Invalid(_)
            | Self::Refused(_) => None,
        }
    }
}

/// A new key. An API key cannot be shown again.
#[derive(Serialize, Deserialize)]
pub struct CreatedKeyRow {
    /// Number that `key revoke` takes.
    pub id: u64,
    /// The key in clear text.
    pub key: String,
}

/// A project in a list.
#[derive(Serialize, Deserialize)]
#[allow(missing_docs, reason = "see `domain::project::Project`")]
pub struct ProjectRow {
    pub uuid: Uuid,
    pub name: String,
    /// Number of checks in the project.
    pub checks: usize,
    pub check_limit: Option<u32>,
    pub ping_log_limit: u32,
    /// True if it is on trial: no alerts are sent.
    #[serde(default)]
    pub trial: bool,
}

/// A key in a list.
#[derive(Serialize, Deserialize)]
pub struct KeyRow {
    /// Number that `key revoke` takes.
    pub id: u64,
    /// Name of its project.
    pub project: String,
    /// Access, as the command line writes it.
    pub access: String,
    /// Label, may be empty.
    pub label: String,
    /// First characters of the key; empty for a key of release 0.1.
    pub hint: String,
    /// Creation time, RFC 3339.
    pub created: String,
    /// Time of the last use, RFC 3339. Updated at most once an hour.
    pub used: Option<String>,
    /// Note about the key: it was imported from another server and has not been used since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Address from which it was used then.
    pub used_from: Option<IpAddr>,
    /// The key itself, if it is a ping key and the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// JSON forms of domain types.
mod form {
    /// Defines a module for `serde(with)`: text in JSON, a domain type in the code.
    macro_rules! text {
        ($name:ident, $type:ty, $write:expr, $parse:expr) => {
            pub(super) mod $name {
                use super::super::*;

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
        settings,
        ChannelSettings,
        |settings: &ChannelSettings| (
            settings.kind().name,
            settings
                .pairs()
                .map(|(key, value)| (key.into(), value.into()))
                .collect::<Vec<(String, String)>>()
        ),
        |(kind, pairs): (String, Vec<(String, String)>)| {
            let kind = channels::find_kind(&kind).ok_or("unknown kind of channel")?;
            ChannelSettings::parse(kind, pairs).map_err(|error| error.to_string())
        }
    );
}
