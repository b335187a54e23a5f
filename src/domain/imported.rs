//! What an import brings: what another program kept, with the UUIDs, keys and times that it had there, and without the numbers that things
//! get here.

use bytes::Bytes;
use uuid::Uuid;

use super::adopted::{ForeignSecret, KeyDigest, OldBadge};
use super::alert::ChannelHealth;
use super::channel::{ChannelKind, ChannelSettings, GivenSettings};
use super::check::{CheckState, Settings};
use super::flip::Flip;
use super::moment::Moment;
use super::ping::{Kind, Origin};
use super::project::{Access, BadgeSecret, ChannelName, KeyLabel, KeyUse, ProjectName, Secret};
use super::text::{Name, Tags};
use super::user::{Membership, PasswordHash, SecondFactor, Taste, UserName};
use super::wanted::Source;
use super::window::WindowTimes;

/// All that an import brings but for logs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Imported {
    /// Projects, oldest first, each with another name.
    pub projects: Vec<ImportedProject>,
    /// Users, oldest first, each with another name.
    pub users: Vec<ImportedUser>,
    /// What [hashed keys](ImportedSecret::Hashed) are recognised with, which name them by their places.
    pub secrets: Vec<ForeignSecret>,
    /// What signed badge URLs there, if it was an overdue.
    pub signing: Option<BadgeSecret>,
    /// The latest moment in the source; `None`: nothing ever happened there.
    pub newest: Option<Moment>,
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
    pub old_badge: Option<OldBadge>,
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
    pub secret: ImportedSecret,
    /// Its first four characters.
    pub hint: Box<str>,
    /// What its owner calls it.
    pub label: KeyLabel,
    /// When it was made; `None`: nobody knows, and it is as if it was made now.
    pub created: Option<Moment>,
    /// When and from where it was last used.
    pub used: Option<KeyUse>,
    /// What file owns it.
    pub managed: Option<Source>,
}

/// What a key is recognised by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportedSecret {
    /// As keys are that were made here.
    Own(Secret),
    /// By a digest that only the other program's secret makes of it.
    Hashed {
        /// What it opens.
        access: Access,
        /// The place of that secret among [those](Imported::secrets) that come along.
        secret: u8,
        /// The digest.
        digest: KeyDigest,
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
    pub operator: bool,
    /// What sending to it has shown.
    pub health: ChannelHealth,
    /// What file owns it.
    pub managed: Option<Source>,
}

/// What a channel is set to.
#[derive(Clone, PartialEq, Debug)]
pub enum ImportedSettings {
    /// All that its kind needs.
    Whole(ChannelSettings),
    /// Something is missing: the other program kept it elsewhere. Such a channel is disabled.
    Incomplete {
        /// Its kind.
        kind: &'static ChannelKind,
        /// What is there, each value one that the kind takes.
        given: GivenSettings,
        /// The keys that are missing or were refused. Some may be [patterns](ChannelKind::is_pattern).
        lacks: Box<[&'static str]>,
    },
}

impl ImportedSettings {
    /// How the reason begins for which a channel with incomplete settings is disabled.
    pub const IMPORTED_WITHOUT: &str = "imported without ";
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
    pub managed: Option<Source>,
}

/// A check.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportedCheck {
    /// Its UUID.
    pub uuid: Uuid,
    /// What its badge URLs carry; `None`: it had none, and gets a new one.
    pub badge: Option<Uuid>,
    /// When it was made.
    pub created: Moment,
    /// What its owner has set. No channel and no parent stands there.
    pub settings: Settings,
    /// The channels of its project that are assigned to it, oldest first.
    pub channels: Box<[Uuid]>,
    /// The checks of its project that it depends on.
    pub parents: Box<[Uuid]>,
    /// What has become of it. No place in a log stands there, and no parent that hides it.
    pub state: CheckState,
    /// The parent that hides it, if one does.
    pub behind: Option<Uuid>,
    /// What file owns it.
    pub managed: Option<Source>,
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
    pub at: Moment,
    /// What it means.
    pub kind: Kind,
    /// Where it came from.
    pub origin: Origin,
    /// The run it belongs to.
    pub rid: Option<Uuid>,
    /// The exit status that the job reported.
    pub exit: Option<u8>,
    /// What was sent with it.
    pub body: Bytes,
}

impl<Check> ImportedPing<Check> {
    /// The same ping of a check that is named otherwise.
    pub fn of<Other>(self, check: Other) -> ImportedPing<Other> {
        let Self { n, at, kind, origin, rid, exit, body, .. } = self;
        ImportedPing { check, n, at, kind, origin, rid, exit, body }
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
    pub second: Option<SecondFactor>,
    /// It may do everything.
    pub owner: bool,
    /// UUIDs of projects, each once, with what it may do there; of an owner none.
    pub projects: Vec<(Uuid, Membership)>,
    /// How pages look to it.
    pub taste: Taste,
    /// It may not sign in.
    pub disabled: bool,
    /// When it was made.
    pub created: Moment,
    /// What file owns it.
    pub managed: Option<Source>,
}
