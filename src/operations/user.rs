//! Users: accounts for the dashboard, and the links by which they choose their passwords.

use std::sync::Arc;

use super::{OperationError, submit};
use crate::domain::ids::{SessionId, UserId};
use crate::domain::user::one_time_link::{LinkCode, LinkPurpose};
use crate::domain::user::session::Session;
use crate::domain::user::summary::SummaryPeriod;
use crate::domain::user::{Grant, PasswordHash, User, UserName};
use crate::engine::Handle;
use crate::engine::command::user::{
    LinkRedemption, NewUser, RedeemedLink, SessionSelection, SessionUse, SignIn, UserChanges,
    UserCommand,
};
use crate::engine::command::{Command, CommandOutcome, UnexpectedOutcome};

/// Lifetime in seconds of a link to set up, or to choose another password: see
/// [limits](crate::docs::limits).
const LINK_LIFETIME_SECS: i64 = 86_400;
/// Lifetime in seconds of an invitation link: see [limits](crate::docs::limits).
const INVITE_LIFETIME_SECS: i64 = 7 * 86_400;

/// A new link. It cannot be shown again.
pub struct CreatedLink {
    /// Purpose of the link, which selects its page.
    pub kind: LinkPage,
    /// Code in the URL.
    pub code: LinkCode,
    /// Lifetime in seconds.
    pub lifetime_secs: i64,
}

/// Purpose of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkPage {
    /// Creates the first owner.
    Setup,
    /// Lets a new user choose a password.
    Invite,
    /// Lets a user choose another password.
    Reset,
}

impl LinkPage {
    /// Returns the first segment of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Invite => "invite",
            Self::Reset => "reset",
        }
    }
}

impl CreatedLink {
    /// Returns the path of its page.
    pub fn path(&self) -> String {
        format!("/{}/{}/", self.kind.name(), self.code)
    }
}

/// Returns the user of this UUID, or else of this name. A name in the form of a UUID hides no user.
///
/// # Errors
/// If there is no such user.
pub fn find(handle: &Handle, requested: &str) -> Result<Arc<User>, OperationError> {
    handle.with_state(|state| {
        let by_uuid = requested
            .parse()
            .ok()
            .and_then(|uuid| state.users.by_uuid(uuid));
        let found = by_uuid
            .or_else(|| state.users.by_name(&UserName::parse(requested).ok()?))
            .cloned();
        let names = || {
            state
                .users
                .iter()
                .map(|user| user.name.as_str().into())
                .collect()
        };
        found.ok_or_else(|| OperationError::UnknownUser {
            requested: requested.into(),
            names: names(),
        })
    })
}

/// Creates a user. Without a password the user chooses one by a [link](create_link()).
///
/// # Errors
/// If another has the name, a project of the grant is gone, or the writer does not answer.
pub async fn create(
    handle: &Handle,
    name: UserName,
    password: Option<PasswordHash>,
    grant: Grant,
) -> Result<Box<User>, OperationError> {
    let user = NewUser {
        uuid: handle.random().uuid(),
        name,
        password,
        grant,
    };
    submit_command(handle, UserCommand::Create(user)).await
}

/// Changes a user. A new password, or disabling the user, ends all sessions except `by`, the one
/// that requested the change.
///
/// # Errors
/// If another has the new name, no owner would be left, a project of the grant or the user is gone,
/// or the writer does not answer.
pub async fn update(
    handle: &Handle,
    user: UserId,
    changes: UserChanges,
    by: Option<SessionId>,
) -> Result<Box<User>, OperationError> {
    let before = handle.with_state(|state| state.users.get(user).map(|user| user.name.clone()));
    let command = UserCommand::Update {
        user,
        changes,
        request_session: by,
    };
    let user: Box<User> = submit_command(handle, command).await?;
    if let Some(before) = before.filter(|before| *before != user.name) {
        tracing::info!(
            before = before.as_str(),
            now = user.name.as_str(),
            "a user was renamed"
        );
    }
    Ok(user)
}

/// Makes the summary of a period due again.
///
/// # Errors
/// If the user is gone or gets no summaries, or the writer does not answer.
pub async fn repeat_summary(
    handle: &Handle,
    user: UserId,
    period: SummaryPeriod,
) -> Result<(), OperationError> {
    let command = UserCommand::RepeatSummary { user, period };
    submit_command::<Box<User>>(handle, command).await.map(drop)
}

/// Deletes a user.
///
/// # Errors
/// If no owner would be left, it is gone, or the writer does not answer.
pub async fn delete(handle: &Handle, user: UserId) -> Result<(), OperationError> {
    submit_command(handle, UserCommand::Delete(user)).await
}

/// Creates the link by which a user chooses its password, or by which the first owner is created.
/// It replaces the previous one.
///
/// # Errors
/// If the user is disabled or gone, there is a user already, or the writer does not answer.
pub async fn create_link(
    handle: &Handle,
    user: Option<&User>,
) -> Result<CreatedLink, OperationError> {
    let (kind, purpose, secs) = match user {
        None => (LinkPage::Setup, LinkPurpose::Setup, LINK_LIFETIME_SECS),
        Some(user) if user.password.is_none() => (
            LinkPage::Invite,
            LinkPurpose::Password(user.id),
            INVITE_LIFETIME_SECS,
        ),
        Some(user) => (
            LinkPage::Reset,
            LinkPurpose::Password(user.id),
            LINK_LIFETIME_SECS,
        ),
    };
    let code = LinkCode::from_random(handle.random().bytes());
    let command = UserCommand::CreateLink {
        purpose,
        hash: code.hash(),
        secs,
    };
    submit_command::<()>(handle, command).await?;
    Ok(CreatedLink {
        kind,
        code,
        lifetime_secs: secs,
    })
}

/// Redeems a link: sets the password of its user, and signs in unless a second factor is required.
///
/// # Errors
/// If the link was used or has expired, or the writer does not answer.
pub async fn redeem_link(
    handle: &Handle,
    redemption: LinkRedemption,
) -> Result<RedeemedLink, OperationError> {
    submit_command(handle, UserCommand::RedeemLink(redemption)).await
}

/// Opens a session.
///
/// # Errors
/// If the user is gone, may not sign in or has another password or second factor by now, or the
/// writer does not answer.
pub async fn sign_in(handle: &Handle, sign_in: SignIn) -> Result<Box<Session>, OperationError> {
    submit_command(handle, UserCommand::SignIn(sign_in)).await
}

/// Records the use of a session.
///
/// # Errors
/// If the session has ended, its user has another password by now, or the writer does not answer.
pub async fn record_session_use(
    handle: &Handle,
    session_use: SessionUse,
) -> Result<(), OperationError> {
    submit_command(handle, UserCommand::RecordSessionUse(session_use)).await
}

/// Queues the recording of the use of a session. If the write fails, a later request records it.
pub fn queue_session_use(handle: &Handle, session_use: SessionUse) {
    let command = UserCommand::RecordSessionUse(session_use);
    drop(handle.submit(Command::User(Box::new(command))));
}

/// Ends sessions of a user.
///
/// # Errors
/// If the writer does not answer.
pub async fn end_sessions(
    handle: &Handle,
    user: UserId,
    which: SessionSelection,
) -> Result<(), OperationError> {
    let command = UserCommand::CloseSessions {
        user,
        selection: which,
    };
    submit_command(handle, command).await
}

/// Returns all users, oldest first.
pub fn list(handle: &Handle) -> Vec<Arc<User>> {
    handle.with_state(|state| state.users.iter().cloned().collect())
}

async fn submit_command<T>(handle: &Handle, command: UserCommand) -> Result<T, OperationError>
where
    T: TryFrom<CommandOutcome, Error = UnexpectedOutcome>,
{
    submit(handle, Command::User(Box::new(command))).await
}
