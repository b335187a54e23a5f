//! What changes the state: the writer's own as it works, the published one after the commit.

use std::sync::Arc;

use super::imports::ImportChange;
use super::users::UserChange;
use crate::domain::alert::{Outage, OutboxRow};
use crate::domain::check::{Check, CheckState};
use crate::domain::declared::ConfigSource;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, KeyId, ProjectId, WindowId};
use crate::domain::legacy_keys::LegacySecrets;
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{BadgeSecret, Channel, Project, ProjectKey};
use crate::domain::timestamp::Timestamp;

/// One change of the state.
#[derive(Clone, Debug)]
pub enum Change {
    /// A ping moved the check; the log entry says so, its row need not be written.
    Pinged {
        /// Which check.
        id: CheckId,
        /// What has become of it.
        state: CheckState,
        /// Its deadline is earlier than before, or there was none.
        is_earlier_deadline: bool,
    },
    /// A check is new or was changed: its row is to be written.
    Check(Box<Check>),
    /// A check is gone.
    CheckGone(CheckId),
    /// A project is new or was changed.
    Project(Arc<Project>),
    /// A project is gone. Its keys and channels went before it; its checks are gone with it, their rows are still to be removed.
    ProjectGone(ProjectId),
    /// A key is new, was used, or is recognised by something else.
    Key(Arc<ProjectKey>),
    /// A key is gone.
    KeyGone(KeyId),
    /// A channel is new or was changed.
    Channel(Arc<Channel>),
    /// A channel is gone.
    ChannelGone(ChannelId),
    /// A maintenance window is new.
    Window(Arc<MaintenanceWindow>),
    /// A maintenance window is gone.
    WindowGone(ProjectId, WindowId),
    /// Somebody else owns the object of this number from now on, or nobody. What is gone nobody owns.
    Source(u64, Option<ConfigSource>),
    /// Something has changed of the imports under way, at that moment. No row says so.
    Import(ImportChange, Timestamp),
    /// No pings could be taken at these times, oldest first; these are all that are remembered.
    Outages(Arc<[Outage]>),
    /// A row of the outbox is new or was changed.
    Queued(Arc<OutboxRow>),
    /// A row of the outbox is gone.
    Unqueued(DeliveryNumber),
    /// Something has changed of users, their sessions and links.
    User(UserChange),
    /// These are the secrets of other servers that keys need.
    LegacySecrets(Arc<LegacySecrets>),
    /// Badge URLs are signed with this secret.
    BadgeSecret(BadgeSecret),
    /// The database is told from every other one by this number.
    Instance([u8; 4]),
}
