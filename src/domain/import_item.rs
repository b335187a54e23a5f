//! Items of an import, sent in batches, with the numbers that objects get on this server. They stay
//! invisible until the import is complete.

use std::ops::Range;

use uuid::Uuid;

use super::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use super::import_contents::{
    ImportedChannel, ImportedCheck, ImportedFlip, ImportedKey, ImportedPing, ImportedProject,
    ImportedSettings, ImportedUser, ImportedWindow,
};
use super::timestamp::Timestamp;

/// Number of an import in progress: the first of the numbers that it assigns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ImportId(pub u64);

/// Object with its number. The number of a project identifies it within the import. A project that
/// replaces one of this server gets that one's number.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "numbers and what they number")]
pub enum ImportItem {
    /// Project, without its keys, channels, windows and checks.
    Project {
        id: ProjectId,
        project: Box<ImportedProject>,
    },
    /// Key of a project.
    Key {
        id: KeyId,
        project: ProjectId,
        key: ImportedKey,
    },
    /// Channel of a project.
    Channel {
        id: ChannelId,
        project: ProjectId,
        channel: Box<ImportedChannel>,
    },
    /// Maintenance window of a project.
    Window {
        id: WindowId,
        project: ProjectId,
        window: Box<ImportedWindow>,
    },
    /// Check of a project, with the badge UUID that it gets if it has none and replaces no check.
    Check {
        id: CheckId,
        project: ProjectId,
        badge: Uuid,
        check: Box<ImportedCheck>,
    },
    /// User, with the UUID that it gets.
    User {
        id: UserId,
        uuid: Uuid,
        user: Box<ImportedUser>,
    },
}

impl ImportItem {
    /// Number of the object.
    pub fn number(&self) -> u64 {
        match self {
            Self::Project { id, .. } => id.0,
            Self::Key { id, .. } => id.0,
            Self::Channel { id, .. } => id.0,
            Self::Window { id, .. } => id.0,
            Self::Check { id, .. } => id.0,
            Self::User { id, .. } => id.0,
        }
    }

    /// Approximate size of the item in bytes.
    pub fn approximate_bytes(&self) -> usize {
        /// Size without long texts.
        const ITEM_BYTES: usize = 700;
        /// Size of a UUID in JSON, and of a UUID with a membership.
        const UUID_BYTES: usize = 40;
        const MEMBERSHIP_BYTES: usize = 60;
        let long = match self {
            Self::Check { check, .. } => {
                let texts = check.settings.desc.as_str().len() + check.settings.tags.as_str().len();
                texts + UUID_BYTES * (check.channels.len() + check.parents.len())
            }
            Self::Channel { channel, .. } => {
                let reasons = [&channel.health.disabled, &channel.health.failing]
                    .into_iter()
                    .flatten()
                    .map(|(_, reason)| reason.len());
                let settings: usize = match &channel.settings {
                    ImportedSettings::Complete(settings) => settings
                        .pairs()
                        .map(|(key, value)| key.len() + value.len())
                        .sum(),
                    ImportedSettings::Incomplete { settings, .. } => settings
                        .pairs()
                        .map(|(key, value)| key.len() + value.len())
                        .sum(),
                };
                settings + reasons.sum::<usize>()
            }
            Self::Window { window, .. } => window.tags.as_str().len(),
            Self::User { user, .. } => MEMBERSHIP_BYTES * user.projects.len(),
            Self::Project { .. } | Self::Key { .. } => 0,
        };
        ITEM_BYTES + long
    }
}

/// Ping of a check that is being imported, with the number of the check on this server.
pub type NumberedPing = ImportedPing<CheckId>;

/// Flip of a check that is being imported, with the number of the check on this server.
pub type NumberedFlip = ImportedFlip<CheckId>;

/// Number of items of each kind that were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "how many of each")]
pub struct ImportItemCounts {
    pub projects: u64,
    pub keys: u64,
    pub channels: u64,
    pub windows: u64,
    pub checks: u64,
    pub users: u64,
    pub pings: u64,
    pub flips: u64,
}

impl ImportItemCounts {
    /// Counts an item.
    pub fn count(&mut self, item: &ImportItem) {
        let counter = match item {
            ImportItem::Project { .. } => &mut self.projects,
            ImportItem::Key { .. } => &mut self.keys,
            ImportItem::Channel { .. } => &mut self.channels,
            ImportItem::Window { .. } => &mut self.windows,
            ImportItem::Check { .. } => &mut self.checks,
            ImportItem::User { .. } => &mut self.users,
        };
        *counter += 1;
    }
}

/// Alerting after an import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportMode {
    /// Imported checks are served, can be pinged and go down, but no alerts are sent.
    Trial,
    /// Alerts are sent. Pings between `newest` and now may have been lost.
    Live {
        /// Latest time in the source; `None` if it has no events.
        newest: Option<Timestamp>,
    },
}

/// Data that a project keeps about its import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectImport {
    /// Numbers that the import assigned. Keys and channels with other numbers were created on this
    /// server.
    pub id_range: Range<u64>,
    /// True if the project is on trial: no alerts are sent for it.
    pub is_on_trial: bool,
    /// Period in which its pings went to the other server.
    pub outage: Option<super::alert::Outage>,
}
