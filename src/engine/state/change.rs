//! Changes of the state: applied by the writer to its own state at once, and to the published one
//! after the commit.

use std::sync::Arc;

use super::imports::ImportChange;
use super::users::UserChange;
use crate::domain::alert::{Outage, OutboxRow};
use crate::domain::audit::AuditEntry;
use crate::domain::check::{Check, CheckState};
use crate::domain::declared::ConfigSource;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, KeyId, ProjectId, WindowId};
use crate::domain::legacy_keys::LegacySecrets;
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::project::{BadgeSecret, Channel, Project, ProjectKey};
use crate::domain::timestamp::Timestamp;

/// Single change of the state.
#[derive(Clone, Debug)]
pub enum Change {
    /// The state of a check has changed, as its log entries say; its row is not written.
    CheckState {
        /// Check with the state.
        id: CheckId,
        /// State after the change.
        state: CheckState,
        /// True if its deadline or its next warning is earlier than before, or is new.
        is_due_earlier: bool,
    },
    /// A check was created or changed: its row is to be written.
    Check(Box<Check>),
    /// A check was deleted.
    CheckDeleted(CheckId),
    /// A project was created or changed.
    Project(Arc<Project>),
    /// A project was deleted, after its keys and channels. Its checks are deleted with it; their
    /// rows are still to be removed.
    ProjectDeleted(ProjectId),
    /// A key was created or used, or its secret has changed.
    Key(Arc<ProjectKey>),
    /// A key was deleted.
    KeyDeleted(KeyId),
    /// A channel was created or changed.
    Channel(Arc<Channel>),
    /// A channel was deleted.
    ChannelDeleted(ChannelId),
    /// A maintenance window was created or changed.
    Window(Arc<MaintenanceWindow>),
    /// A maintenance window was deleted.
    WindowDeleted(ProjectId, WindowId),
    /// The source that manages the object with this number has changed. `None`: no source manages
    /// it. Deleted objects have no source.
    Source(u64, Option<ConfigSource>),
    /// Open imports have changed, at this time. No row is written for it.
    Import(ImportChange, Timestamp),
    /// Outages of the server have changed. These are all that are kept, oldest first.
    Outages(Arc<[Outage]>),
    /// A row of the outbox was created or changed.
    OutboxRow(Arc<OutboxRow>),
    /// A row of the outbox was removed.
    OutboxRowDeleted(DeliveryNumber),
    /// Users, sessions or links have changed.
    User(UserChange),
    /// An entry of an audit log was added, or has got a further action.
    Audit(Arc<AuditEntry>),
    /// Secrets of other servers that keys need have changed.
    LegacySecrets(Arc<LegacySecrets>),
    /// The secret that signs badge URLs has changed.
    BadgeSecret(BadgeSecret),
    /// The number that distinguishes this database from others has changed.
    Instance([u8; 4]),
}
