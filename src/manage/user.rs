//! Users: who may sign in to the dashboard, and the links by which they choose their passwords.

use std::sync::Arc;

use super::{OperationError, submit};
use crate::domain::ids::{SessionId, UserId};
use crate::domain::user::one_time_link::{LinkCode, LinkPurpose};
use crate::domain::user::{Grant, PasswordHash, User, UserName};
use crate::engine::Handle;
use crate::engine::command::user::{NewUser, SessionSelection, UserChanges, UserCommand};
use crate::engine::command::{Command, CommandOutcome};

/// Seconds for which a link to set up, or to choose another password, is good: see [limits](crate::docs::limits).
const LINK_LIFETIME_SECS: i64 = 86_400;
/// Seconds for which the link of somebody who is invited is good: see [limits](crate::docs::limits).
const INVITE_LIFETIME_SECS: i64 = 7 * 86_400;

/// A link that was made. It cannot be shown again.
pub struct CreatedLink {
    /// What it is for, and so which page it leads to.
    pub kind: LinkKind,
    /// What stands in it.
    pub code: LinkCode,
    /// Seconds for which it is good.
    pub lifetime_secs: i64,
}

/// What somebody is to do by a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// Become the first owner.
    Setup,
    /// Choose a first password.
    Invite,
    /// Choose another password.
    Reset,
}

impl LinkKind {
    /// The first segment of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Invite => "invite",
            Self::Reset => "reset",
        }
    }
}

impl CreatedLink {
    /// The path of its page.
    pub fn path(&self) -> String {
        format!("/{}/{}/", self.kind.name(), self.code)
    }
}

/// The user of this UUID, or else of this name: a name in the form of a UUID hides nobody.
///
/// # Errors
/// When there is no such user.
pub fn find(handle: &Handle, wanted: &str) -> Result<Arc<User>, OperationError> {
    handle.with_state(|state| {
        let by_uuid = wanted.parse().ok().and_then(|uuid| state.users.by_uuid(uuid));
        let found = by_uuid.or_else(|| state.users.by_name(&UserName::parse(wanted).ok()?)).cloned();
        let names = || state.users.iter().map(|user| user.name.as_str().into()).collect();
        found.ok_or_else(|| OperationError::UnknownUser { requested: wanted.into(), names: names() })
    })
}

/// Makes a user. Without a password it gets one by a [link](link()).
///
/// # Errors
/// When another has the name, a project of the grant is gone, or the writer does not answer.
pub async fn create(handle: &Handle, name: UserName, password: Option<PasswordHash>, grant: Grant) -> Result<Box<User>, OperationError> {
    let user = NewUser { uuid: handle.random().uuid(), name, password, grant };
    submit_change(handle, UserCommand::Create(user)).await
}

/// Changes a user. Another password, or that it is disabled, ends its sessions, but not the one `by` which it is asked for.
///
/// # Errors
/// When another has the new name, no owner would be left, a project of the grant or the user is gone, or the writer does not answer.
pub async fn update(handle: &Handle, user: UserId, changes: UserChanges, by: Option<SessionId>) -> Result<Box<User>, OperationError> {
    let before = handle.with_state(|state| state.users.get(user).map(|user| user.name.clone()));
    let user = submit_change(handle, UserCommand::Update { user, changes, requested_by: by }).await?;
    if let Some(before) = before.filter(|before| *before != user.name) {
        tracing::info!(before = before.as_str(), now = user.name.as_str(), "a user was renamed");
    }
    Ok(user)
}

/// Removes a user.
///
/// # Errors
/// When no owner would be left, it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, user: UserId) -> Result<(), OperationError> {
    submit_command(handle, UserCommand::Delete(user)).await.map(drop)
}

/// Makes the link by which a user chooses its password, or by which the first owner is made. It takes the place of the one before.
///
/// # Errors
/// When the user may not sign in or is gone, there is a user already, or the writer does not answer.
pub async fn create_link(handle: &Handle, user: Option<&User>) -> Result<CreatedLink, OperationError> {
    let (kind, purpose, secs) = match user {
        None => (LinkKind::Setup, LinkPurpose::Setup, LINK_LIFETIME_SECS),
        Some(user) if user.password.is_none() => (LinkKind::Invite, LinkPurpose::Password(user.id), INVITE_LIFETIME_SECS),
        Some(user) => (LinkKind::Reset, LinkPurpose::Password(user.id), LINK_LIFETIME_SECS),
    };
    let code = LinkCode::from_random(handle.random().bytes());
    submit_command(handle, UserCommand::CreateLink { purpose, hash: code.hash(), secs }).await?;
    Ok(CreatedLink { kind, code, lifetime_secs: secs })
}

/// Ends sessions of a user.
///
/// # Errors
/// When the writer does not answer.
pub async fn end_sessions(handle: &Handle, user: UserId, which: SessionSelection) -> Result<(), OperationError> {
    submit_command(handle, UserCommand::CloseSessions { user, selection: which }).await.map(drop)
}

/// Every user, oldest first.
pub fn list(handle: &Handle) -> Vec<Arc<User>> {
    handle.with_state(|state| state.users.iter().cloned().collect())
}

async fn submit_change(handle: &Handle, asked: UserCommand) -> Result<Box<User>, OperationError> {
    match submit_command(handle, asked).await? {
        CommandOutcome::User(user) => Ok(user),
        // Such a command comes to nothing else.
        _ => Err(OperationError::Removed),
    }
}

async fn submit_command(handle: &Handle, command: UserCommand) -> Result<CommandOutcome, OperationError> {
    submit(handle, Command::User(Box::new(command))).await
}
