//! Contents of an import: data of another server with its UUIDs, keys and times, and without the
//! numbers that objects get on this server.

use bytes::Bytes;
use uuid::Uuid;

use super::alert::ChannelHealth;
use super::channel::{ChannelKind, ChannelSettings, SettingsUpdate};
use super::check::{CheckSettings, CheckState};
use super::declared::ConfigSource;
use super::flip::Flip;
use super::legacy_keys::{LegacyBadgeKey, LegacyKeyDigest, LegacySecret};
use super::maintenance_window::WindowTimes;
use super::ping::{PingKind, PingOrigin};
use super::project::{
    BadgeSecret, ChannelName, KeyAccess, KeyLabel, KeySecret, KeyUse, ProjectName,
};
use super::status_page::StatusPage;
use super::text::{Name, Tags};
use super::timestamp::Timestamp;
use super::user::{
    ExternalIdentity, Membership, Passkey, PasswordHash, SecondFactor, SummarySubscription,
    UserName, UserPreferences,
};

/// Contents of an import except logs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ImportContents {
    /// Projects, oldest first, with unique names.
    pub projects: Vec<ImportedProject>,
    /// Users, oldest first, with unique names.
    pub users: Vec<ImportedUser>,
    /// Secrets of [hashed keys](ImportedKeySecret::Legacy), which refer to them by index.
    pub secrets: Vec<LegacySecret>,
    /// Secret that signed badge URLs on the source server, if it was an overdue server.
    pub badge_secret: Option<BadgeSecret>,
    /// Latest time in the source; `None` if it has no events.
    pub newest: Option<Timestamp>,
}

/// Imported project.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedProject {
    /// UUID of the project.
    pub uuid: Uuid,
    /// Name of the project.
    pub name: ProjectName,
    /// Segment of badge URLs that names the project.
    pub badge_key: Box<str>,
    /// Key that signed its old badge URLs; `None` if they are no longer known.
    pub legacy_badge: Option<LegacyBadgeKey>,
    /// Maximum number of checks that the API may create; `None`: no limit.
    pub check_limit: Option<u32>,
    /// Number of pings that are kept for each check.
    pub ping_log_limit: u32,
    /// True if a ping that creates a check may give its settings in the URL.
    pub allows_ping_settings: bool,
    /// Public status pages, oldest first.
    pub status_pages: Vec<StatusPage>,
    /// Keys of the project.
    pub keys: Vec<ImportedKey>,
    /// Channels of the project, oldest first.
    pub channels: Vec<ImportedChannel>,
    /// Maintenance windows of the project, oldest first.
    pub windows: Vec<ImportedWindow>,
    /// Checks of the project, oldest first.
    pub checks: Vec<ImportedCheck>,
}

/// Imported key of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedKey {
    /// Value by which the key is recognised.
    pub secret: ImportedKeySecret,
    /// First four characters of the key.
    pub hint: Box<str>,
    /// Label of the key.
    pub label: KeyLabel,
    /// Time of creation; `None` if unknown, which counts as the time of the import.
    pub created: Option<Timestamp>,
    /// Time and client address of the last use.
    pub last_use: Option<KeyUse>,
    /// Configuration source that owns the key.
    pub managed_by: Option<ConfigSource>,
}

/// Value by which an imported key is recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportedKeySecret {
    /// Secret in the form of this server.
    Native(KeySecret),
    /// Digest that requires the secret of the other server.
    Legacy {
        /// Access that the key gives.
        access: KeyAccess,
        /// Index of that secret in [`ImportContents::secrets`].
        secret_index: u8,
        /// Digest of the key.
        digest: LegacyKeyDigest,
    },
}

/// Imported notification channel.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedChannel {
    /// UUID of the channel.
    pub uuid: Uuid,
    /// Name of the channel.
    pub name: ChannelName,
    /// Settings of the channel.
    pub settings: ImportedSettings,
    /// True if the settings may contain some that only the operator may give.
    pub set_by_operator: bool,
    /// Health of the channel, as shown by its deliveries.
    pub health: ChannelHealth,
    /// Configuration source that owns the channel.
    pub managed_by: Option<ConfigSource>,
}

/// Settings of an imported channel.
#[derive(Clone, PartialEq, Debug)]
pub enum ImportedSettings {
    /// All settings that its kind needs.
    Complete(ChannelSettings),
    /// Some settings are missing, since the other server stored them elsewhere. Such a channel is
    /// disabled.
    Incomplete {
        /// Kind of the channel.
        kind: &'static ChannelKind,
        /// Known settings, each with a value that the kind accepts.
        settings: SettingsUpdate,
        /// Keys that are missing or were rejected. Some may be
        /// [patterns](ChannelKind::is_key_pattern).
        missing: Box<[&'static str]>,
    },
}

impl ImportedSettings {
    /// Prefix of the reason for which a channel with incomplete settings is disabled.
    pub const DISABLED_REASON_PREFIX: &str = "imported without ";
}

/// Imported maintenance window.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedWindow {
    /// UUID of the window.
    pub uuid: Uuid,
    /// Name of the window.
    pub name: Name,
    /// Tags that a check must all have.
    pub tags: Tags,
    /// Times at which it is open.
    pub times: WindowTimes,
    /// Configuration source that owns the window.
    pub managed_by: Option<ConfigSource>,
}

/// Imported check.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedCheck {
    /// UUID of the check.
    pub uuid: Uuid,
    /// UUID for badge URLs; `None` if it has none and gets a new one.
    pub badge: Option<Uuid>,
    /// Time of creation.
    pub created: Timestamp,
    /// Settings of the check, without channels and parents.
    pub settings: CheckSettings,
    /// UUIDs of the assigned channels of its project, oldest first.
    pub channels: Box<[Uuid]>,
    /// UUIDs of the checks of its project that it depends on.
    pub parents: Box<[Uuid]>,
    /// State of the check, without positions in logs and without the parent that holds back its
    /// alert.
    pub state: CheckState,
    /// Parent that is down and holds back its alert, if any.
    pub down_parent: Option<Uuid>,
    /// Configuration source that owns the check.
    pub managed_by: Option<ConfigSource>,
}

/// Imported flip of a check, which is identified by its UUID or by its number on this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportedFlip<Check = Uuid> {
    /// Check that flipped.
    pub check: Check,
    /// Change of status.
    pub flip: Flip,
}

/// Imported ping of a check, which is identified by its UUID or by its number on this server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedPing<Check = Uuid> {
    /// Check that was pinged.
    pub check: Check,
    /// Number of the ping, from 1 in each check.
    pub n: u64,
    /// Time at which it was logged.
    pub at: Timestamp,
    /// Kind of the ping.
    pub kind: PingKind,
    /// Origin of the ping.
    pub origin: PingOrigin,
    /// Run id of the ping.
    pub rid: Option<Uuid>,
    /// Exit status that the job reported.
    pub exit_status: Option<u8>,
    /// Body of the ping.
    pub body: Bytes,
}

impl<Check> ImportedPing<Check> {
    /// Returns the ping with another identifier of its check.
    pub fn with_check<Other>(self, check: Other) -> ImportedPing<Other> {
        let Self {
            n,
            at,
            kind,
            origin,
            rid,
            exit_status: exit,
            body,
            ..
        } = self;
        ImportedPing {
            check,
            n,
            at,
            kind,
            origin,
            rid,
            exit_status: exit,
            body,
        }
    }
}

/// Imported user.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedUser {
    /// UUID of the user; `None` if it has none and gets a new one.
    pub uuid: Option<Uuid>,
    /// Name of the user.
    pub name: UserName,
    /// Hash of the password; `None` if the user needs a link to choose one.
    pub password: Option<PasswordHash>,
    /// Second factor of the user.
    pub second_factor: Option<SecondFactor>,
    /// Passkeys, at most [`MAX_PASSKEYS`](super::user::passkey::MAX_PASSKEYS).
    pub passkeys: Box<[Passkey]>,
    /// Identity at a provider by which the user signs in.
    pub identity: Option<ExternalIdentity>,
    /// True if the user has all permissions.
    pub owner: bool,
    /// UUIDs of projects, each once, with the membership there. Empty for an owner.
    pub projects: Vec<(Uuid, Membership)>,
    /// Display preferences.
    pub preferences: UserPreferences,
    /// Subscription to summaries by mail.
    pub summary: Option<SummarySubscription>,
    /// True if the user may not sign in.
    pub disabled: bool,
    /// Time of creation.
    pub created: Timestamp,
    /// Configuration source that owns the user.
    pub managed_by: Option<ConfigSource>,
}
