//! What an import brings: what another program kept, with the UUIDs, keys and times that it had there, and without the numbers that things
//! get here.

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
use super::project::{BadgeSecret, ChannelName, KeyAccess, KeyLabel, KeySecret, KeyUse, ProjectName};
use super::text::{Name, Tags};
use super::timestamp::Timestamp;
use super::user::{Membership, PasswordHash, SecondFactor, UserName, UserPreferences};

/// All that an import brings but for logs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ImportContents {
    /// Projects, oldest first, each with another name.
    pub projects: Vec<ImportedProject>,
    /// Users, oldest first, each with another name.
    pub users: Vec<ImportedUser>,
    /// What [hashed keys](ImportedSecret::Hashed) are recognised with, which name them by their places.
    pub secrets: Vec<LegacySecret>,
    /// What signed badge URLs there, if it was an overdue.
    pub badge_secret: Option<BadgeSecret>,
    /// The latest moment in the source; `None`: nothing ever happened there.
    pub newest: Option<Timestamp>,
}

/// A project.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedProject {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: ProjectName,
    /// The segment that names it in badge URLs.
    pub badge_key: Box<str>,
    /// What signs the badge URLs that it had; `None`: they are no longer known.
    pub legacy_badge: Option<LegacyBadgeKey>,
    /// How many checks the API may create; `None`: no limit.
    pub check_limit: Option<u32>,
    /// How many pings of each check are kept.
    pub ping_log_limit: u32,
    /// Its keys.
    pub keys: Vec<ImportedKey>,
    /// Its channels, oldest first.
    pub channels: Vec<ImportedChannel>,
    /// Its maintenance windows, oldest first.
    pub windows: Vec<ImportedWindow>,
    /// Its checks, oldest first.
    pub checks: Vec<ImportedCheck>,
}

/// A key of a project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedKey {
    /// What it is recognised by.
    pub secret: ImportedKeySecret,
    /// Its first four characters.
    pub hint: Box<str>,
    /// What its owner calls it.
    pub label: KeyLabel,
    /// When it was made; `None`: nobody knows, and it is as if it was made now.
    pub created: Option<Timestamp>,
    /// When and from where it was last used.
    pub last_use: Option<KeyUse>,
    /// What file owns it.
    pub managed_by: Option<ConfigSource>,
}

/// What a key is recognised by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportedKeySecret {
    /// As keys are that were made here.
    Native(KeySecret),
    /// By a digest that only the other program's secret makes of it.
    Legacy {
        /// What it opens.
        access: KeyAccess,
        /// The place of that secret among [those](Imported::secrets) that come along.
        secret_index: u8,
        /// The digest.
        digest: LegacyKeyDigest,
    },
}

/// A notification channel.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedChannel {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: ChannelName,
    /// How it notifies.
    pub settings: ImportedSettings,
    /// Its settings may hold what only the operator may set.
    pub set_by_operator: bool,
    /// What sending to it has shown.
    pub health: ChannelHealth,
    /// What file owns it.
    pub managed_by: Option<ConfigSource>,
}

/// What a channel is set to.
#[derive(Clone, PartialEq, Debug)]
pub enum ImportedSettings {
    /// All that its kind needs.
    Complete(ChannelSettings),
    /// Something is missing: the other program kept it elsewhere. Such a channel is disabled.
    Incomplete {
        /// Its kind.
        kind: &'static ChannelKind,
        /// What is there, each value one that the kind takes.
        settings: SettingsUpdate,
        /// The keys that are missing or were refused. Some may be [patterns](ChannelKind::is_pattern).
        missing: Box<[&'static str]>,
    },
}

impl ImportedSettings {
    /// How the reason begins for which a channel with incomplete settings is disabled.
    pub const DISABLED_REASON_PREFIX: &str = "imported without ";
}

/// A maintenance window.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedWindow {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// A check has to have all of these tags.
    pub tags: Tags,
    /// When it is open.
    pub times: WindowTimes,
    /// What file owns it.
    pub managed_by: Option<ConfigSource>,
}

/// A check.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedCheck {
    /// Its UUID.
    pub uuid: Uuid,
    /// What its badge URLs carry; `None`: it had none, and gets a new one.
    pub badge: Option<Uuid>,
    /// When it was made.
    pub created: Timestamp,
    /// What its owner has set. No channel and no parent stands there.
    pub settings: CheckSettings,
    /// The channels of its project that are assigned to it, oldest first.
    pub channels: Box<[Uuid]>,
    /// The checks of its project that it depends on.
    pub parents: Box<[Uuid]>,
    /// What has become of it. No place in a log stands there, and no parent that hides it.
    pub state: CheckState,
    /// The parent that hides it, if one does.
    pub down_parent: Option<Uuid>,
    /// What file owns it.
    pub managed_by: Option<ConfigSource>,
}

/// A flip of a check, which is named by its UUID or by the number that it is to have here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportedFlip<Check = Uuid> {
    /// Which check.
    pub check: Check,
    /// The flip.
    pub flip: Flip,
}

/// A ping of a check, which is named by its UUID or by the number that it is to have here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedPing<Check = Uuid> {
    /// Which check.
    pub check: Check,
    /// Counts from 1 in each check.
    pub n: u64,
    /// When it was logged.
    pub at: Timestamp,
    /// What it means.
    pub kind: PingKind,
    /// Where it came from.
    pub origin: PingOrigin,
    /// The run it belongs to.
    pub rid: Option<Uuid>,
    /// The exit status that the job reported.
    pub exit_status: Option<u8>,
    /// What was sent with it.
    pub body: Bytes,
}

impl<Check> ImportedPing<Check> {
    /// The same ping of a check that is named otherwise.
    pub fn with_check<Other>(self, check: Other) -> ImportedPing<Other> {
        let Self { n, at, kind, origin, rid, exit_status: exit, body, .. } = self;
        ImportedPing { check, n, at, kind, origin, rid, exit_status: exit, body }
    }
}

/// Somebody who may sign in.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedUser {
    /// Its UUID; `None`: it had none, and gets one.
    pub uuid: Option<Uuid>,
    /// What it is called.
    pub name: UserName,
    /// What its password is checked against; `None`: it needs a link to choose one.
    pub password: Option<PasswordHash>,
    /// What it shows beside its password.
    pub second_factor: Option<SecondFactor>,
    /// It may do everything.
    pub owner: bool,
    /// UUIDs of projects, each once, with what it may do there; of an owner none.
    pub projects: Vec<(Uuid, Membership)>,
    /// How pages look to it.
    pub preferences: UserPreferences,
    /// It may not sign in.
    pub disabled: bool,
    /// When it was made.
    pub created: Timestamp,
    /// What file owns it.
    pub managed_by: Option<ConfigSource>,
}
