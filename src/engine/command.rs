//! Everything that can change state, as one closed list, and everything that can come of it.

pub mod apply_config;
mod delivery_report;
pub mod import;
mod reply;
pub mod user;

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::alert::{DeliveryRecord, Outage, OutboxRow};
use crate::domain::channel::{ChannelSettings, SettingsAuthor, SettingsError, SettingsUpdate};
use crate::domain::check::{self, Check};
use crate::domain::check_edit::{CheckEdit, UniqueField};
use crate::domain::declared::ApplyConflict;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, KeyId, ProjectId, WindowId};
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes};
use crate::domain::parents::{Parents, ParentsError};
use crate::domain::ping::{PingKind, PingMeaning, PingOrigin};
use crate::domain::project::{
    BadgeSecret, Channel, ChannelName, KeyHash, KeyLabel, KeySecret, KeyUse, PingKey, Project, ProjectKey, ProjectName,
};
use crate::domain::text::{FailureThreshold, Name, Slug, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::user::{User, session::Session};
use apply_config::{AppliedConfig, ApplyConfigRequest};
pub use delivery_report::{DeliveryReport, SendResult};
use import::{ImportStep, ImportStepError, ImportStepOutcome};
pub use reply::{CommandReply, Unavailable};
use user::{UserCommand, UserCommandError};

/// A change that is asked for. A plain value: what it does depends on it, the state before it and the time alone.
#[derive(Clone, Debug)]
pub enum Command {
    /// A job reports.
    Ping(Box<PingRequest>),
    /// A mail came: one ping of each check that it names, all logged or none, with one body. Those for no check or several are left out.
    Mail(Vec<PingRequest>),
    /// `POST /checks/`
    CreateCheck(Box<CreateCheckRequest>),
    /// `POST /checks/<uuid>`
    UpdateCheck(CheckId, Box<CheckEdit>),
    /// `POST /checks/<uuid>/pause`
    PauseCheck(CheckId),
    /// `POST /checks/<uuid>/resume`
    ResumeCheck(CheckId),
    /// `DELETE /checks/<uuid>`
    DeleteCheck(CheckId),
    /// Deadlines may have passed: look at these checks.
    ExpireChecks(Vec<CheckId>),
    /// The clock was set back: checks among these that wait from a time ahead of it are to wait from now on.
    RearmChecks(Vec<CheckId>),
    /// Remove the rows of some checks whose project is gone.
    RemoveOrphans,
    /// Compare audiences that earlier commands have changed.
    CompareAudiences,
    /// Make a project.
    CreateProject(Box<NewProject>),
    /// Change a project; what is `None` stays.
    UpdateProject {
        /// Which.
        project: ProjectId,
        /// Its new name.
        name: Option<ProjectName>,
        /// Its new check limit, or `Some(None)` for none.
        check_limit: Option<Option<u32>>,
        /// Its new ping log limit.
        ping_log_limit: Option<u32>,
    },
    /// Remove a project with all that belongs to it.
    DeleteProject(ProjectId),
    /// Make a key.
    CreateKey(Box<NewKey>),
    /// Keep when and from where API keys were used; those of keys that are gone are dropped.
    RecordKeyUses(Vec<(KeyId, KeyUse)>),
    /// Recognise a key of another server, which was used for the first time, by its hash; nothing, if it is by one already.
    RehashKey(KeyId, KeyHash),
    /// Forget secrets of other servers that no key needs.
    PruneLegacySecrets,
    /// Call a key something else.
    RenameKey(KeyId, KeyLabel),
    /// Remove a key.
    RevokeKey(KeyId),
    /// Make a channel.
    CreateChannel(Box<NewChannel>),
    /// Change a channel; what is `None` stays.
    UpdateChannel {
        /// Which.
        channel: ChannelId,
        /// Its new name.
        name: Option<ChannelName>,
        /// Its new settings, in place of all it had; a mask in them keeps a secret that it has then.
        settings: Option<SettingsUpdate>,
        /// Who gives the settings.
        maker: SettingsAuthor,
    },
    /// Change a setting of a channel that its receiver asks to change, unless the channel was given other settings meanwhile.
    AdoptSetting {
        /// The channel as it was when something was sent to it.
        sent_to: Arc<Channel>,
        /// Which setting.
        key: &'static str,
        /// Its new value.
        value: Box<str>,
    },
    /// Remove a channel, from all checks too.
    DeleteChannel(ChannelId),
    /// Let a channel be told again, whatever sending to it has shown so far.
    EnableChannel(ChannelId),
    /// Tell a channel nothing more until somebody enables it.
    DisableChannel {
        /// Which.
        channel: ChannelId,
        /// Why, in words.
        reason: Box<str>,
    },
    /// Send nothing more to a recipient of a channel. Without any other recipient the channel is disabled.
    Unsubscribe {
        /// Which channel.
        channel: ChannelId,
        /// The recipient, as the settings name it.
        recipient: Box<str>,
    },
    /// Assign checks to a channel, or no more. Those that are gone or of another project are left out.
    AssignChannel {
        /// Which channel.
        channel: ChannelId,
        /// Which checks.
        checks: Vec<CheckId>,
        /// Whether they are assigned from now on.
        assigned: bool,
    },
    /// No pings could be taken at this time.
    RecordOutage(Outage),
    /// The clock was set back: of the times in which no pings could be taken, what is yet to come is forgotten.
    DropFutureOutages,
    /// Change when the downtimes of a check are told; what is `None` stays.
    SetAlerting {
        /// Which check.
        check: CheckId,
        /// How often in a row it has to fail.
        after: Option<FailureThreshold>,
        /// The checks that it depends on.
        parents: Option<Parents>,
    },
    /// Make a maintenance window. Answered with [`Outcome::MaintenanceWindow`].
    CreateWindow(Box<NewWindow>),
    /// Remove a maintenance window: what it held back is decided on at once.
    DeleteWindow(ProjectId, WindowId),
    /// Remind a channel of the checks that are still down; not while an earlier reminder waits.
    QueueReminder(ChannelId),
    /// Sending these begins. They may be a part of one message, which is sent after the row of this number has begun, too. Answered with
    /// [`Outcome::DeliveriesBegun`].
    BeginDeliveries(Vec<DeliveryNumber>, Option<DeliveryNumber>),
    /// What has come of sending.
    RecordDeliveryReports(Vec<DeliveryReport>),
    /// Send again what was given up, as a new row of the outbox. Answered with [`Outcome::DeliveryQueued`].
    RetryDelivery {
        /// What was logged of it.
        delivery: Box<DeliveryRecord>,
        /// The time of its flip.
        at: Timestamp,
    },
    /// A message that was asked for as a test was sent to a channel.
    RecordChannelTest(DeliveryReport),
    /// Change what there is of users.
    User(Box<UserCommand>),
    /// Make what files declare the real state. Answered with [`Outcome::ConfigApplied`].
    ApplyConfig(Box<ApplyConfigRequest>),
    /// Import something, or end a trial.
    Import(Box<ImportStep>),
    /// Sign badge URLs with this secret from now on.
    SetBadgeSecret(BadgeSecret),
    /// Tell this database from every other one by this number, written as 8 hexadecimal digits, from now on.
    SetInstance([u8; 4]),
}

/// Random names for a check that may be made; `apply_config` itself draws nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckUuids {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its badge UUID.
    pub badge: Uuid,
}

/// What a ping is addressed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PingTarget {
    /// `/ping/<uuid>`
    Uuid(Uuid),
    /// `/ping/<ping key>/<slug>`
    Slug {
        /// The project's ping key.
        key: PingKey,
        /// The slug, not empty.
        slug: Slug,
        /// With `create=1`: the names that a new check gets.
        create: Option<CheckUuids>,
    },
}

/// What a ping says, before the check's own rules have classified it.
#[derive(Clone, PartialEq, Debug)]
pub enum PingSignal {
    /// An HTTP request with this action in its path.
    Http(PingKind),
    /// An HTTP request with an exit status in its path.
    Exit(u8),
    /// A mail.
    Email {
        /// Its subject, decoded; of a long one the beginning.
        subject: Arc<str>,
        /// The text of its plain and HTML parts; of a long one the beginning.
        text: Arc<str>,
        /// What the whole of it said to the check, before the writer came to it.
        precomputed: Option<PrecomputedMeaning>,
    },
}

/// What a text said to a check whose settings may be others by now.
#[derive(Clone, PartialEq, Debug)]
pub struct PrecomputedMeaning {
    /// What it meant.
    pub meaning: PingMeaning,
    /// By these settings.
    pub settings: Arc<check::CheckSettings>,
}

/// A ping as a door hands it over.
#[derive(Clone, Debug)]
pub struct PingRequest {
    /// Whom it is for.
    pub target: PingTarget,
    /// What it says.
    pub signal: PingSignal,
    /// Where it comes from.
    pub origin: PingOrigin,
    /// The run it belongs to.
    pub rid: Option<Uuid>,
    /// The body; of an HTTP ping what may be stored or searched, of a mail the whole message.
    pub body: Bytes,
}

/// A request to create a check.
#[derive(Clone, Debug)]
pub struct CreateCheckRequest {
    /// The key's project.
    pub project: ProjectId,
    /// The fields sent. With `unique`, tags and a description may be over their limits, as those of the check that is found may be.
    pub edit: CheckEdit,
    /// An existing check equal on all of these is updated instead; empty: always create.
    pub unique: Vec<UniqueField>,
    /// Random names for it.
    pub uuids: CheckUuids,
}

/// A project to be made.
#[derive(Clone, Debug)]
pub struct NewProject {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: ProjectName,
    /// Its check limit.
    pub check_limit: Option<u32>,
    /// Its ping log limit.
    pub ping_log_limit: u32,
    /// Its segment in badge URLs.
    pub badge_key: Box<str>,
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Whose it is.
    pub project: ProjectId,
    /// What it is recognised by.
    pub secret: KeySecret,
    /// What its owner calls it.
    pub label: KeyLabel,
    /// Its first four characters.
    pub hint: Box<str>,
}

/// A channel to be made.
#[derive(Clone, Debug)]
pub struct NewChannel {
    /// Its UUID.
    pub uuid: Uuid,
    /// Whose it is.
    pub project: ProjectId,
    /// Its name.
    pub name: ChannelName,
    /// How it notifies.
    pub settings: ChannelSettings,
    /// Whether whoever administers the service makes it.
    pub is_by_operator: bool,
}

/// A maintenance window to be made.
#[derive(Clone, Debug)]
pub struct NewWindow {
    /// Its UUID.
    pub uuid: Uuid,
    /// Whose it is.
    pub project: ProjectId,
    /// Its name.
    pub name: Name,
    /// The tags of the checks that it is about.
    pub tags: Tags,
    /// When it is open.
    pub times: WindowTimes,
}

/// What a command came to, once it is on disk.
#[derive(Clone, PartialEq, Debug)]
pub enum CommandOutcome {
    /// The ping is logged.
    Pinged,
    /// The check was made and the ping is logged.
    PingedNewCheck,
    /// The check as it is now; after a deletion as it was just before.
    Check(Box<Check>),
    /// The check as it was made.
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
    /// The maintenance window as it was made.
    Window(Arc<MaintenanceWindow>),
    /// Attempts have begun to send these, as they are now.
    DeliveriesBegun(Vec<Arc<OutboxRow>>),
    /// So many checks are assigned to the channel that were not, or the other way round.
    ChannelAssigned(usize),
    /// It waits to be sent under this number.
    DeliveryQueued(DeliveryNumber),
    /// What files declared is so now.
    ConfigApplied(AppliedConfig),
    /// What a step of an import came to, if there is something to tell.
    Import(ImportStepOutcome),
    /// It is done and there is nothing to tell.
    Completed,
}

/// Why a command was refused; nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// What it names does not exist (any more).
    NotFound,
    /// Several checks have that slug.
    AmbiguousSlug,
    /// The project has as many checks as it may.
    CheckLimitReached,
    /// The project has as many channels as the API makes.
    ChannelLimitReached,
    /// The project has as many keys as it may.
    KeyLimitReached,
    /// The project has as many maintenance windows as it may.
    WindowLimitReached,
    /// Resume of a check that is not paused.
    NotPaused,
    /// A project of that name exists.
    ProjectNameTaken,
    /// This text is over its limit, and the check that would be changed has another.
    FieldTooLong(&'static str),
    /// The check cannot have these parents.
    InvalidParents(ParentsError),
    /// The channel does not take these settings in place of its own.
    InvalidSettings(SettingsError),
    /// An empty item in a list of channels.
    EmptyChannel,
    /// No channel of the project fits.
    InvalidChannel(Box<str>),
    /// Several channels of the project fit.
    AmbiguousChannel(Box<str>),
    /// The channel is disabled.
    ChannelDisabled,
    /// What files declare cannot be.
    ConfigConflicts(Vec<ApplyConflict>),
    /// It is about users.
    User(UserCommandError),
    /// It is about an import.
    Import(ImportStepError),
    /// The check has changed since, and who gets this is told what is true now.
    Outdated,
}
