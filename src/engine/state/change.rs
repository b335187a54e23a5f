//! What changes the state: the writer's own as it works, the published one after the commit.

use std::sync::Arc;

use super::stagings::StagingChange;
use super::users::UserChange;
use crate::domain::adopted::Adopted;
use crate::domain::alert::{Away, OutboxRow};
use crate::domain::check::{Check, CheckState};
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, KeyId, ProjectId, WindowId};
use crate::domain::moment::Moment;
use crate::domain::project::{BadgeSecret, Channel, Key, Project};
use crate::domain::wanted::Source;
use crate::domain::window::Window;

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
        sooner: bool,
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
    Key(Arc<Key>),
    /// A key is gone.
    KeyGone(KeyId),
    /// A channel is new or was changed.
    Channel(Arc<Channel>),
    /// A channel is gone.
    ChannelGone(ChannelId),
    /// A maintenance window is new.
    Window(Arc<Window>),
    /// A maintenance window is gone.
    WindowGone(ProjectId, WindowId),
    /// Somebody else owns the object of this number from now on, or nobody. What is gone nobody owns.
    Managed(u64, Option<Source>),
    /// Something has changed of the imports under way, at that moment. No row says so.
    Staging(StagingChange, Moment),
    /// No pings could be taken at these times, oldest first; these are all that are remembered.
    Away(Arc<[Away]>),
    /// A row of the outbox is new or was changed.
    Queued(Arc<OutboxRow>),
    /// A row of the outbox is gone.
    Unqueued(DeliveryNumber),
    /// Something has changed of users, their sessions and links.
    User(UserChange),
    /// These are the secrets of other servers that keys need.
    Adopted(Arc<Adopted>),
    /// Badge URLs are signed with this secret.
    BadgeSecret(BadgeSecret),
    /// The database is told from every other one by this number.
    Instance([u8; 4]),
}
