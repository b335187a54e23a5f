//! All commands that change the state, as one closed list, with their outcomes and errors.

pub mod apply_config;
mod delivery_report;
pub mod import;
mod outcome;
mod reply;
pub mod user;

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::alert::{DeliveryRecord, Outage, OutboxRow};
use crate::domain::audit::Actor;
use crate::domain::channel::{ChannelSettings, SettingsAuthor, SettingsError, SettingsUpdate};
use crate::domain::check::{self, Check, CheckState};
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::declared::ApplyConflict;
use crate::domain::ids::{
    Arrival, ChannelId, CheckId, DeliveryNumber, FlipNumber, KeyId, ProjectId, WindowId,
};
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes};
use crate::domain::number::FailureThreshold;
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::ping::{PingKind, PingMeaning, PingOrigin};
use crate::domain::project::{
    BadgeSecret, Channel, ChannelName, KeyLabel, KeySecret, KeyUse, PingKey, Project, ProjectKey,
    ProjectName, SecretHash,
};
use crate::domain::status_page::{StatusPage, StatusPageError};
use crate::domain::text::{Name, Slug, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::user::{User, session::Session};
use apply_config::{AppliedConfig, ApplyConfigRequest};
pub use delivery_report::{DeliveryReport, SendOutcome};
use import::{ImportStep, ImportStepError, ImportStepOutcome};
pub use outcome::{SavedCheck, UnexpectedOutcome};
pub use reply::{CommandReply, Unavailable};
use user::{UserCommand, UserCommandError};

/// Requested change. A plain value: its effect depends only on the command, the state before it and
/// the time.
#[derive(Clone, Debug)]
pub enum Command {
    /// A command with its author, which the audit log names.
    Attributed(Arc<Actor>, Box<Self>),
    /// Ping of a job.
    Ping(Box<PingRequest>),
    /// Mail with one body: one ping for each check that it names, all logged or none. Pings for no
    /// check or for several checks are left out.
    Mail(Vec<PingRequest>),
    /// Creates a check: `POST /checks/`
    CreateCheck(Box<CreateCheckRequest>),
    /// Updates a check: `POST /checks/<uuid>`
    UpdateCheck(CheckId, Box<CheckEdit>),
    /// Pauses a check, until this time if there is one: `POST /checks/<uuid>/pause`
    PauseCheck(CheckId, Option<Timestamp>),
    /// Resumes a check: `POST /checks/<uuid>/resume`
    ResumeCheck(CheckId),
    /// Returns a check to the state before a pause or resumption that a user undoes.
    RestoreCheck(Box<CheckRestoration>),
    /// Deletes a check: `DELETE /checks/<uuid>`
    DeleteCheck(CheckId),
    /// Applies passed deadlines of these checks, and decides about their held alerts that are due.
    EvaluateChecks(Vec<CheckId>),
    /// Moves times of these checks that are ahead of the clock to now, after the clock was set
    /// back.
    ClampFutureTimes(Vec<CheckId>),
    /// Removes some rows of deleted projects, and of channels that cannot be sent to.
    RemoveOrphans,
    /// Compares audiences that earlier commands have changed.
    CompareAudiences,
    /// Creates a project.
    CreateProject(Box<NewProject>),
    /// Changes a project. Fields that are `None` stay.
    UpdateProject {
        /// Project to change.
        project: ProjectId,
        /// New name.
        name: Option<ProjectName>,
        /// New check limit, or `Some(None)` for none.
        check_limit: Option<Option<u32>>,
        /// New ping log limit.
        ping_log_limit: Option<u32>,
        /// True to let pings give the settings of checks that they create.
        allows_ping_settings: Option<bool>,
    },
    /// Deletes a project with all that belongs to it.
    DeleteProject(ProjectId),
    /// Creates a key.
    CreateKey(Box<NewKey>),
    /// Records time and address of the use of API keys. Deleted keys are ignored.
    RecordKeyUses(Vec<(KeyId, KeyUse)>),
    /// Stores the hash of a key of another server after its first use. No effect if the key has a
    /// hash.
    RehashKey(KeyId, SecretHash),
    /// Removes legacy secrets that no key needs.
    PruneLegacySecrets,
    /// Renames a key.
    RenameKey(KeyId, KeyLabel),
    /// Revokes a key.
    RevokeKey(KeyId),
    /// Creates a channel.
    CreateChannel(Box<NewChannel>),
    /// Changes a channel. Fields that are `None` stay.
    UpdateChannel {
        /// Channel to change.
        channel: ChannelId,
        /// New name.
        name: Option<ChannelName>,
        /// Update of the settings. A mask keeps the stored secret.
        settings: Option<SettingsUpdate>,
        /// Author of the settings.
        author: SettingsAuthor,
    },
    /// Changes a setting of a channel as its receiver asks, unless the settings have changed in the
    /// meantime.
    AdoptSetting {
        /// Channel as it was when the message was sent.
        sent_to: Arc<Channel>,
        /// Name of the setting.
        key: &'static str,
        /// New value.
        value: Box<str>,
    },
    /// Deletes a channel and removes it from groups. Checks no longer show it.
    DeleteChannel(ChannelId),
    /// Enables a channel, regardless of earlier delivery results.
    EnableChannel(ChannelId),
    /// Disables a channel until a user enables it.
    DisableChannel {
        /// Channel to disable.
        channel: ChannelId,
        /// Reason, as a text for users.
        reason: Box<str>,
    },
    /// Unsubscribes a recipient of a channel. A channel without other recipients is disabled.
    Unsubscribe {
        /// Channel of the recipient.
        channel: ChannelId,
        /// Recipient, as the settings name it.
        recipient: Box<str>,
    },
    /// Assigns a channel to checks, or removes the assignment. Checks that do not exist or belong
    /// to another project are left out.
    AssignChannel {
        /// Channel to assign or remove.
        channel: ChannelId,
        /// Checks to change.
        checks: Vec<CheckId>,
        /// True to assign, false to remove the assignment.
        assigned: bool,
    },
    /// Records an outage of the server, during which no pings could be received.
    RecordOutage(Outage),
    /// Forgets the future part of recorded outages, after the clock was set back.
    DropFutureOutages,
    /// Changes the alert settings of a check. Fields that are `None` stay.
    UpdateAlertSettings {
        /// Check to change.
        check: CheckId,
        /// Number of failures in a row before an alert.
        failure_threshold: Option<FailureThreshold>,
        /// Checks that it depends on.
        parents: Option<Parents>,
    },
    /// Creates a maintenance window. Outcome: [`CommandOutcome::Window`].
    CreateWindow(Box<NewWindow>),
    /// Deletes a maintenance window. Alerts that it held are decided on at once.
    DeleteWindow(ProjectId, WindowId),
    /// Creates a status page of a project, or replaces the one with its UUID.
    PutStatusPage(ProjectId, Box<StatusPage>),
    /// Deletes the status page of a project with this UUID.
    DeleteStatusPage(ProjectId, Uuid),
    /// Queues a reminder of the checks that are still down, unless an earlier reminder of the
    /// channel waits.
    QueueReminder(ChannelId),
    /// Starts attempts to send rows. Outcome: [`CommandOutcome::AttemptsStarted`].
    StartAttempts {
        /// Rows to send.
        rows: Vec<DeliveryNumber>,
        /// Row of the same message that is started last, if the message takes several commands.
        last_row: Option<DeliveryNumber>,
    },
    /// Records the results of attempts.
    RecordDeliveryReports(Vec<DeliveryReport>),
    /// Sends a failed alert again, as a new row of the outbox. Outcome:
    /// [`CommandOutcome::DeliveryQueued`].
    RetryDelivery {
        /// Logged delivery.
        delivery: Box<DeliveryRecord>,
        /// Time of its flip.
        at: Timestamp,
    },
    /// Records the result of a channel test.
    RecordChannelTest(DeliveryReport),
    /// Changes users, sessions or links.
    User(Box<UserCommand>),
    /// Applies declared configuration. Outcome: [`CommandOutcome::ConfigApplied`].
    ApplyConfig(Box<ApplyConfigRequest>),
    /// Takes a step of an import, or ends a trial.
    Import(Box<ImportStep>),
    /// Sets the secret that signs badge URLs.
    SetBadgeSecret(BadgeSecret),
    /// Sets the number that distinguishes this database from others, shown as 8 hexadecimal digits.
    SetInstance([u8; 4]),
}

impl Command {
    /// Returns the command without its author.
    pub fn unattributed(&self) -> &Self {
        match self {
            Self::Attributed(_, command) => command.unattributed(),
            command => command,
        }
    }

    /// Returns the command with its author. Pings and the data of imports stay as they are: they
    /// are not in the audit log.
    #[must_use]
    pub fn attributed_to(self, actor: &Arc<Actor>) -> Self {
        let is_audited = match &self {
            Self::Ping(_) | Self::Mail(_) | Self::Attributed(..) => false,
            Self::Import(step) => {
                matches!(**step, ImportStep::Finish { .. } | ImportStep::EndTrial(_))
            }
            _ => true,
        };
        if is_audited {
            Self::Attributed(Arc::clone(actor), Box::new(self))
        } else {
            self
        }
    }
}

/// Random UUIDs for a check that may be created. Applying a command draws no random numbers itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckUuids {
    /// UUID of the check.
    pub uuid: Uuid,
    /// UUID in its badge URLs.
    pub badge: Uuid,
}

/// Check that a ping may create.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckCreation {
    /// UUIDs of the check.
    pub uuids: CheckUuids,
    /// Settings in the URL. They are ignored unless the project allows them.
    pub edit: Option<Box<CheckEdit>>,
}

/// Target of a ping.
#[derive(Clone, PartialEq, Debug)]
pub enum PingTarget {
    /// UUID of a check: `/ping/<uuid>`
    Uuid(Uuid),
    /// Slug of a check: `/ping/<ping key>/<slug>`
    Slug {
        /// Ping key of the project.
        key: PingKey,
        /// Slug, not empty.
        slug: Slug,
        /// With `create=1`: the new check.
        create: Option<CheckCreation>,
    },
}

/// Content of a ping before the rules of the check have classified it.
#[derive(Clone, PartialEq, Debug)]
pub enum PingSignal {
    /// HTTP request with this action in its path.
    Http(PingKind),
    /// HTTP request with an exit status in its path.
    Exit(u8),
    /// Mail.
    Email {
        /// Decoded subject, truncated if it is long.
        subject: Arc<str>,
        /// Text of the plain and HTML parts, truncated if it is long.
        text: Arc<str>,
        /// Meaning of the complete text, determined before the command was queued.
        precomputed: Option<PrecomputedMeaning>,
    },
}

/// Meaning of a text for a check, together with the settings that it was classified by, since they
/// may have changed.
#[derive(Clone, PartialEq, Debug)]
pub struct PrecomputedMeaning {
    /// Meaning of the text.
    pub meaning: PingMeaning,
    /// Settings that it was classified by.
    pub settings: Arc<check::CheckSettings>,
}

/// Ping as received by HTTP or SMTP.
#[derive(Clone, Debug)]
pub struct PingRequest {
    /// Check that it is for.
    pub target: PingTarget,
    /// Content of the ping.
    pub signal: PingSignal,
    /// Origin of the ping.
    pub origin: PingOrigin,
    /// Id of the run it belongs to.
    pub rid: Option<Uuid>,
    /// Body: of an HTTP ping the part that may be stored or searched, of a mail the whole message.
    pub body: Bytes,
}

/// Request to create a check.
#[derive(Clone, Debug)]
pub struct CreateCheckRequest {
    /// Project of the check.
    pub project: ProjectId,
    /// Fields in the request. With `unique`, tags and a description may exceed their limits, since
    /// an existing check may have such texts.
    pub edit: CheckEdit,
    /// Fields that identify an existing check, which is then updated instead. Empty: always
    /// create.
    pub unique: Vec<UniqueField>,
    /// Random UUIDs for a new check.
    pub uuids: CheckUuids,
}

/// Return of a check to an earlier state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckRestoration {
    /// Check to change.
    pub check: CheckId,
    /// State to return to.
    pub earlier: CheckState,
    /// Newest ping and flip that the check may have. With others it has changed since.
    pub newest: (Arrival, FlipNumber),
}

/// Project to create.
#[derive(Clone, Debug)]
pub struct NewProject {
    /// UUID of the project.
    pub uuid: Uuid,
    /// Name of the project.
    pub name: ProjectName,
    /// Maximum number of checks, or `None` for no limit.
    pub check_limit: Option<u32>,
    /// Maximum number of pings kept for each check.
    pub ping_log_limit: u32,
    /// Segment of the project in badge URLs.
    pub badge_key: Box<str>,
}

/// Key to create.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Project of the key.
    pub project: ProjectId,
    /// Secret that the key is recognised by.
    pub secret: KeySecret,
    /// Label given by the user.
    pub label: KeyLabel,
    /// First four characters of the key.
    pub hint: Box<str>,
}

/// Channel to create.
#[derive(Clone, Debug)]
pub struct NewChannel {
    /// UUID of the channel.
    pub uuid: Uuid,
    /// Project of the channel.
    pub project: ProjectId,
    /// Name of the channel.
    pub name: ChannelName,
    /// Kind and settings of the channel.
    pub settings: ChannelSettings,
    /// True if the operator creates it.
    pub set_by_operator: bool,
}

/// Maintenance window to create.
#[derive(Clone, Debug)]
pub struct NewWindow {
    /// UUID of the window.
    pub uuid: Uuid,
    /// Project of the window.
    pub project: ProjectId,
    /// Name of the window.
    pub name: Name,
    /// Tags of the checks that it applies to.
    pub tags: Tags,
    /// Times at which it is open.
    pub times: WindowTimes,
}

/// Outcome of a command, once it is on disk.
#[derive(Clone, PartialEq, Debug)]
pub enum CommandOutcome {
    /// The ping is logged.
    Pinged,
    /// A check was created and the ping is logged.
    PingedNewCheck,
    /// The check as it is now, or as it was just before its deletion.
    Check(Box<Check>),
    /// The check as it was created.
    CheckCreated(Box<Check>),
    /// The project as it is now.
    Project(Box<Project>),
    /// The key as it is now.
    Key(Box<ProjectKey>),
    /// The user as it is now.
    User(Box<User>),
    /// The session as it is now.
    Session(Box<Session>),
    /// The channel as it is now.
    Channel(Box<Channel>),
    /// The maintenance window as it was created.
    Window(Arc<MaintenanceWindow>),
    /// Rows whose attempts were started, as they are now.
    AttemptsStarted(Vec<Arc<OutboxRow>>),
    /// Number of checks whose assignment to the channel has changed.
    ChannelAssigned(usize),
    /// The alert is queued under this number.
    DeliveryQueued(DeliveryNumber),
    /// The declared configuration is applied.
    ConfigApplied(AppliedConfig),
    /// Outcome of a step of an import, if it has one.
    Import(ImportStepOutcome),
    /// The command is done and has no other outcome.
    Completed,
}

/// Reason for refusing a command. The state is unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// An object that the command names does not exist.
    NotFound,
    /// Several checks have that slug.
    AmbiguousSlug,
    /// The project has reached its check limit.
    CheckLimitReached,
    /// The project has reached the number of channels that the API allows.
    ChannelLimitReached,
    /// The project has reached the maximum number of keys.
    KeyLimitReached,
    /// The project has reached the maximum number of maintenance windows.
    WindowLimitReached,
    /// The status page is not possible.
    StatusPage(StatusPageError),
    /// The check cannot be resumed, since it is not paused.
    NotPaused,
    /// A project of that name exists.
    ProjectNameTaken,
    /// The text is over its limit, and differs from that of the existing check.
    FieldTooLong(&'static str),
    /// The check cannot have these parents.
    InvalidParents(ParentsError),
    /// The channel does not accept these settings.
    InvalidSettings(SettingsError),
    /// A list of channels has an empty item.
    EmptyChannel,
    /// No channel of the project matches.
    InvalidChannel(Box<str>),
    /// Several channels of the project match.
    AmbiguousChannel(Box<str>),
    /// The channel is disabled.
    ChannelDisabled,
    /// The declared configuration has conflicts.
    ConfigConflicts(Vec<ApplyConflict>),
    /// Error of a command about users.
    User(UserCommandError),
    /// Error of a step of an import.
    Import(ImportStepError),
    /// The object has changed since the request was prepared.
    Outdated,
}
