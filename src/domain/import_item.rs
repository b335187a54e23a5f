//! What an import hands over, some at a time, with the numbers that things are to have here. Nothing of it is seen before all of it is there.

use std::ops::Range;

use uuid::Uuid;

use super::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use super::import_contents::{
    ImportedChannel, ImportedCheck, ImportedFlip, ImportedKey, ImportedPing, ImportedProject, ImportedSettings, ImportedUser,
    ImportedWindow,
};
use super::timestamp::Timestamp;

/// The number of an import that is under way: the first of the numbers that it gives out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ImportId(pub u64);

/// A thing with its number. The number of a project stands for it within the import: one that takes the place of a project here gets the
/// number of that.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "numbers and what they number")]
pub enum ImportItem {
    /// A project. No keys, channels, windows and checks stand in it.
    Project { id: ProjectId, project: Box<ImportedProject> },
    /// A key of a project.
    Key { id: KeyId, project: ProjectId, key: ImportedKey },
    /// A channel of a project.
    Channel { id: ChannelId, project: ProjectId, channel: Box<ImportedChannel> },
    /// A maintenance window of a project.
    Window { id: WindowId, project: ProjectId, window: Box<ImportedWindow> },
    /// A check of a project, with the badge UUID that it gets if it has none and takes the place of none.
    Check { id: CheckId, project: ProjectId, badge: Uuid, check: Box<ImportedCheck> },
    /// A user, with the UUID that it gets.
    User { id: UserId, uuid: Uuid, user: Box<ImportedUser> },
}

impl ImportItem {
    /// Its number.
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

    /// About how many bytes it takes.
    pub fn approximate_bytes(&self) -> usize {
        /// Without long texts.
        const ITEM_BYTES: usize = 700;
        /// A UUID in JSON, and one with what may be done there.
        const UUID_BYTES: usize = 40;
        const MEMBERSHIP_BYTES: usize = 60;
        let long = match self {
            Self::Check { check, .. } => {
                let texts = check.settings.desc.as_str().len() + check.settings.tags.as_str().len();
                texts + UUID_BYTES * (check.channels.len() + check.parents.len())
            }
            Self::Channel { channel, .. } => {
                let reasons = [&channel.health.disabled, &channel.health.failing].into_iter().flatten().map(|(_, reason)| reason.len());
                let settings: usize = match &channel.settings {
                    ImportedSettings::Complete(settings) => settings.pairs().map(|(key, value)| key.len() + value.len()).sum(),
                    ImportedSettings::Incomplete { settings: given, .. } => given.pairs().map(|(key, value)| key.len() + value.len()).sum(),
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

/// A ping of a check that is being imported, by the number that the check is to have.
pub type NumberedPing = ImportedPing<CheckId>;

/// A flip of a check that is being imported, by the number that the check is to have.
pub type NumberedFlip = ImportedFlip<CheckId>;

/// How much was handed over.
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
    /// Counts a thing.
    pub fn count(&mut self, staged: &ImportItem) {
        let of = match staged {
            ImportItem::Project { .. } => &mut self.projects,
            ImportItem::Key { .. } => &mut self.keys,
            ImportItem::Channel { .. } => &mut self.channels,
            ImportItem::Window { .. } => &mut self.windows,
            ImportItem::Check { .. } => &mut self.checks,
            ImportItem::User { .. } => &mut self.users,
        };
        *of += 1;
    }
}

/// Whether what is imported tells people from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportMode {
    /// It is served, pinged and goes down, and tells nobody.
    Trial,
    /// It tells, and pings may have been lost between this moment, the latest in the source, and now.
    Live {
        /// `None`: nothing ever happened there.
        newest: Option<Timestamp>,
    },
}

/// What a project keeps of the import that brought it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectImport {
    /// The numbers that the import gave out: keys and channels with others were made here.
    pub id_range: Range<u64>,
    /// It is on trial: nobody is told anything of it.
    pub is_on_trial: bool,
    /// Its pings went elsewhere in this time.
    pub outage: Option<super::alert::Outage>,
}
