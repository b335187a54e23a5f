//! Commands about users, their sessions and links.

use std::sync::Arc;

use super::super::command::user::{
    FirstUser, LinkRedemption, NewSession, NewUser, PasskeyChange, SessionSelection, SessionUse,
    SignIn, SignInProof, SummaryResult, UserChanges, UserCommand, UserCommandError,
};
use super::super::command::{CommandError, CommandOutcome};
use super::super::state::{Change, UserChange};
use super::{ApplyResult, WorkingState};
use crate::domain::ids::{LinkId, SessionId, UserId};
use crate::domain::project::SecretHash;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::one_time_link::{LinkPurpose, OneTimeLink};
use crate::domain::user::passkey::{MAX_PASSKEYS, Passkey, PasskeyId};
use crate::domain::user::session::Session;
use crate::domain::user::summary::{SummaryPeriod, SummarySubscription};
use crate::domain::user::{ExternalIdentity, Grant, PasswordHash, User, UserName, UserPreferences};

/// Maximum number of users: see [limits](crate::docs::limits).
pub(in crate::engine) const MAX_USERS: usize = 10_000;
/// Maximum number of sessions of a user. A further one ends the oldest: see
/// [limits](crate::docs::limits).
const MAX_SESSIONS_PER_USER: usize = 50;
/// Maximum number of expired rows that are removed in one batch.
const MAX_EXPIRED_ROWS: usize = 512;

impl From<UserCommandError> for CommandError {
    fn from(refusal: UserCommandError) -> Self {
        Self::User(refusal)
    }
}

impl WorkingState {
    pub(super) fn apply_user_command(
        &mut self,
        command: UserCommand,
        now: Timestamp,
    ) -> ApplyResult {
        match command {
            UserCommand::Create(request) => self.create_user(request, now),
            UserCommand::Update {
                user,
                changes,
                request_session,
            } => self.update_user(user, changes, request_session, now),
            UserCommand::Delete(user) => self.delete_user(user),
            UserCommand::CreateLink {
                purpose,
                hash,
                secs,
            } => self.create_link(purpose, hash, now.plus_secs(secs)),
            UserCommand::RedeemLink(LinkRedemption {
                hash,
                first_user,
                password,
                session,
            }) => self.redeem_link(&hash, first_user, password, session, now),
            UserCommand::SignIn(SignIn {
                user,
                proof,
                session,
            }) => self.sign_in(user, proof, session, now),
            UserCommand::RecordSessionUse(SessionUse {
                session,
                address,
                idle_secs,
                verified_password,
            }) => {
                let session = self
                    .state
                    .users
                    .session_by_id(session)
                    .filter(|session| !session.is_expired(now))
                    .ok_or(CommandError::NotFound)?;
                if verified_password.is_some() {
                    self.ensure_may_sign_in(session.user, verified_password.as_ref())?;
                }
                let confirmed = verified_password.map(|_| now).or(session.confirmed);
                let expires = Session::expiry(session.created, now, idle_secs);
                let session = Session {
                    last_used: now,
                    confirmed,
                    expires,
                    address,
                    ..Session::clone(session)
                };
                Ok(self.put_session(session))
            }
            UserCommand::CloseSessions { user, selection } => {
                self.close_sessions(user, selection);
                if let (SessionSelection::All | SessionSelection::AllBut(_), Some(found)) =
                    (selection, self.state.users.get(user))
                {
                    let mut user = User::clone(found);
                    user.forget_browsers(now);
                    self.put_user(user);
                }
                Ok(CommandOutcome::Completed)
            }
            UserCommand::RecordSummary { user, result } => self.record_summary(user, result),
            UserCommand::RepeatSummary { user, period } => self.repeat_summary(user, period),
            UserCommand::RemoveExpired => {
                let changes: Vec<_> = self
                    .state
                    .users
                    .expired(now)
                    .take(MAX_EXPIRED_ROWS)
                    .collect();
                changes
                    .into_iter()
                    .for_each(|change| self.record_change(Change::User(change)));
                Ok(CommandOutcome::Completed)
            }
        }
    }

    fn create_user(&mut self, request: NewUser, now: Timestamp) -> ApplyResult {
        let NewUser {
            uuid,
            name,
            password,
            grant,
        } = request;
        self.ensure_user_name_free(&name)?;
        self.ensure_projects_exist(&grant)?;
        if self.state.users.len() >= MAX_USERS {
            return Err(UserCommandError::TooManyUsers.into());
        }
        let id = UserId(self.next_id());
        Ok(self.insert_user(
            id,
            NewUser {
                uuid,
                name,
                password,
                grant,
            },
            false,
            now,
        ))
    }

    pub(super) fn insert_user(
        &mut self,
        id: UserId,
        request: NewUser,
        disabled: bool,
        now: Timestamp,
    ) -> CommandOutcome {
        let NewUser {
            uuid,
            name,
            password,
            grant,
        } = request;
        self.remove_link(LinkPurpose::Setup);
        self.put_user(User {
            id,
            uuid,
            name,
            password,
            second_factor: None,
            passkeys: [].into(),
            identity: None,
            grant,
            preferences: UserPreferences::default(),
            summary: None,
            created: now,
            disabled,
            browsers_trusted_since: now,
        })
    }

    pub(super) fn update_user(
        &mut self,
        id: UserId,
        changes: UserChanges,
        request_session: Option<SessionId>,
        now: Timestamp,
    ) -> ApplyResult {
        let UserChanges {
            name,
            password,
            second_factor,
            passkeys,
            identity,
            grant,
            preferences,
            summary,
            disabled,
        } = changes;
        let mut user = User::clone(self.state.users.get(id).ok_or(CommandError::NotFound)?);
        if let Some(name) = name {
            if name.case_folded() != user.name.case_folded() {
                self.ensure_user_name_free(&name)?;
            }
            user.name = name;
        }
        if let Some(grant) = grant {
            self.ensure_projects_exist(&grant)?;
            user.grant = grant;
        }
        user.disabled = disabled.unwrap_or(user.disabled);
        if !user.grant.is_owner() || user.disabled {
            self.ensure_other_owner(id)?;
        }
        user.preferences = preferences.unwrap_or(user.preferences);
        user.summary = match summary {
            None => user.summary,
            Some(None) => None,
            Some(Some(settings)) => Some(match user.summary {
                Some(before) if before.settings.interval == settings.interval => {
                    SummarySubscription { settings, ..before }
                }
                _ => SummarySubscription::new(settings, now),
            }),
        };
        if let Some(change) = passkeys {
            user.passkeys = self.change_passkeys(user.passkeys, change)?;
        }
        if let Some(identity) = identity {
            self.ensure_identity_free(identity.as_ref(), id)?;
            user.identity = identity;
        }
        let secret_of = |user: &User| {
            user.second_factor
                .as_ref()
                .map(|second_factor| second_factor.secret.clone())
        };
        let old_secret = secret_of(&user);
        user.second_factor = second_factor.unwrap_or(user.second_factor);
        // Sessions that were opened before needed the password only.
        let adds_second_factor = old_secret.is_none() && user.second_factor.is_some();
        let has_new_password = password.is_some();
        user.password = password.or(user.password);
        if user.disabled {
            self.close_sessions(id, SessionSelection::All);
        } else if has_new_password || adds_second_factor {
            self.close_sessions(
                id,
                request_session.map_or(SessionSelection::All, SessionSelection::AllBut),
            );
        }
        if has_new_password || user.disabled || old_secret != secret_of(&user) {
            user.forget_browsers(now);
        }
        if has_new_password || user.disabled {
            self.remove_link(LinkPurpose::Password(id));
        }
        Ok(self.put_user(user))
    }

    /// Records an attempt to send a summary. No effect if the user has unsubscribed since.
    fn record_summary(&mut self, id: UserId, result: SummaryResult) -> ApplyResult {
        let mut user = User::clone(self.state.users.get(id).ok_or(CommandError::NotFound)?);
        let Some(subscription) = &mut user.summary else {
            return Ok(CommandOutcome::Completed);
        };
        let SummaryResult {
            covered_until,
            sent,
            failure,
        } = result;
        if let Some(end) = covered_until {
            subscription.covered_until = end.max(subscription.covered_until);
        }
        subscription.last_sent = sent.or(subscription.last_sent);
        subscription.failure = failure;
        Ok(self.put_user(user))
    }

    /// Makes the summary of a period due again.
    fn repeat_summary(&mut self, id: UserId, period: SummaryPeriod) -> ApplyResult {
        let mut user = User::clone(self.state.users.get(id).ok_or(CommandError::NotFound)?);
        let subscription = user.summary.as_mut().ok_or(CommandError::NotFound)?;
        subscription.covered_until = subscription.covered_until.min(period.start);
        Ok(self.put_user(user))
    }

    fn change_passkeys(
        &self,
        passkeys: Box<[Passkey]>,
        change: PasskeyChange,
    ) -> Result<Box<[Passkey]>, CommandError> {
        match change {
            PasskeyChange::Add(_) if passkeys.len() >= MAX_PASSKEYS => {
                Err(UserCommandError::TooManyPasskeys.into())
            }
            // Web Authentication, section 7.1, step 27.
            PasskeyChange::Add(passkey) if self.has_passkey(&passkey.id) => {
                Err(UserCommandError::PasskeyTaken.into())
            }
            PasskeyChange::Add(passkey) => Ok(passkeys.into_iter().chain([*passkey]).collect()),
            PasskeyChange::Remove(id) => {
                let others = passkeys.into_iter().filter(|passkey| passkey.id != id);
                Ok(others.collect())
            }
            PasskeyChange::RemoveAll => Ok([].into()),
        }
    }

    /// Refuses an identity of another user.
    fn ensure_identity_free(
        &self,
        identity: Option<&ExternalIdentity>,
        id: UserId,
    ) -> Result<(), CommandError> {
        let owner = identity.and_then(|identity| self.state.users.by_identity(identity));
        if owner.is_some_and(|owner| owner.id != id) {
            Err(UserCommandError::IdentityTaken.into())
        } else {
            Ok(())
        }
    }

    /// True if a user has this passkey.
    fn has_passkey(&self, id: &PasskeyId) -> bool {
        let mut passkeys = self.state.users.iter().flat_map(|user| &user.passkeys);
        passkeys.any(|passkey| passkey.id == *id)
    }

    pub(super) fn delete_user(&mut self, id: UserId) -> ApplyResult {
        self.state.users.get(id).ok_or(CommandError::NotFound)?;
        self.ensure_other_owner(id)?;
        self.close_sessions(id, SessionSelection::All);
        self.remove_link(LinkPurpose::Password(id));
        self.record_change(Change::User(UserChange::UserDeleted(id)));
        Ok(CommandOutcome::Completed)
    }

    fn create_link(
        &mut self,
        purpose: LinkPurpose,
        hash: SecretHash,
        expires: Timestamp,
    ) -> ApplyResult {
        match purpose {
            LinkPurpose::Setup if !self.state.users.is_empty() => {
                return Err(UserCommandError::UserExists.into());
            }
            LinkPurpose::Setup => {}
            LinkPurpose::Password(user) => self.ensure_may_sign_in(user, None)?,
        }
        self.remove_link(purpose);
        let id = LinkId(self.next_id());
        self.record_change(Change::User(UserChange::Link(Arc::new(OneTimeLink {
            id,
            hash,
            purpose,
            expires,
        }))));
        Ok(CommandOutcome::Completed)
    }

    fn redeem_link(
        &mut self,
        hash: &SecretHash,
        first_user: Option<FirstUser>,
        password: PasswordHash,
        session: NewSession,
        now: Timestamp,
    ) -> ApplyResult {
        let purpose = self
            .state
            .users
            .link(hash, now)
            .map(|link| link.purpose)
            .ok_or(UserCommandError::LinkInvalid)?;
        let user = match (purpose, first_user) {
            (
                LinkPurpose::Setup,
                Some(FirstUser {
                    uuid,
                    name,
                    preferences,
                }),
            ) => {
                let id = UserId(self.next_id());
                let password = Some(password);
                let grant = Grant::Owner;
                User {
                    id,
                    uuid,
                    name,
                    password,
                    second_factor: None,
                    passkeys: [].into(),
                    identity: None,
                    grant,
                    preferences,
                    summary: None,
                    created: now,
                    disabled: false,
                    browsers_trusted_since: now,
                }
            }
            (LinkPurpose::Password(id), None) => {
                let mut user = User::clone(
                    self.state
                        .users
                        .get(id)
                        .ok_or(UserCommandError::LinkInvalid)?,
                );
                user.forget_browsers(now);
                User {
                    password: Some(password),
                    ..user
                }
            }
            // The link exists, but has another purpose.
            _ => return Err(UserCommandError::LinkInvalid.into()),
        };
        let id = user.id;
        self.remove_link(purpose);
        self.close_sessions(id, SessionSelection::All);
        let needs_second_factor = user.second_factor.is_some();
        let changed = self.put_user(user);
        Ok(if needs_second_factor {
            changed
        } else {
            self.open_session(id, now, session)
        })
    }

    fn sign_in(
        &mut self,
        id: UserId,
        proof: SignInProof,
        session: NewSession,
        now: Timestamp,
    ) -> ApplyResult {
        let verified_password = match &proof {
            SignInProof::Password { verified, .. } => Some(verified),
            SignInProof::Passkey { .. } | SignInProof::Provider(_) => None,
        };
        self.ensure_may_sign_in(id, verified_password)?;
        let before = self.state.users.get(id).ok_or(CommandError::NotFound)?;
        let mut user = User::clone(before);
        match proof {
            SignInProof::Password {
                rehashed,
                second_factor: proof,
                ..
            } => {
                if let Some(second_factor) = &user.second_factor {
                    let used = proof.and_then(|proof| second_factor.consume_proof(&proof));
                    user.second_factor = Some(used.ok_or(UserCommandError::SignInRefused)?);
                }
                user.password = rehashed.or(user.password);
            }
            SignInProof::Passkey { id, counter } => {
                let passkey = user
                    .passkeys
                    .iter_mut()
                    .find(|passkey| passkey.id == id && passkey.accepts_counter(counter))
                    .ok_or(UserCommandError::SignInRefused)?;
                passkey.counter = counter;
                passkey.last_used = Some(now);
            }
            SignInProof::Provider(identity) => {
                if user.identity.as_ref() != Some(&identity) {
                    return Err(UserCommandError::SignInRefused.into());
                }
            }
        }
        if user != **before {
            self.put_user(user);
        }
        Ok(self.open_session(id, now, session))
    }

    fn open_session(
        &mut self,
        user: UserId,
        now: Timestamp,
        request: NewSession,
    ) -> CommandOutcome {
        let NewSession {
            hash,
            user_agent,
            address,
            idle_secs,
        } = request;
        let open: Vec<_> = self
            .state
            .users
            .all_sessions_of(user)
            .map(|session| (session.last_used, session.id))
            .collect();
        // The session that was idle for the longest ends.
        if open.len() >= MAX_SESSIONS_PER_USER
            && let Some((_, oldest)) = open.into_iter().min()
        {
            self.record_change(Change::User(UserChange::SessionDeleted(oldest)));
        }
        let id = SessionId(self.next_id());
        let expires = Session::expiry(now, now, idle_secs);
        self.put_session(Session {
            id,
            hash,
            user,
            created: now,
            last_used: now,
            confirmed: Some(now),
            expires,
            user_agent,
            address,
        })
    }

    /// Refuses a user whose sign-in is disabled, or whose password is no longer the checked one.
    fn ensure_may_sign_in(
        &self,
        user: UserId,
        verified_password: Option<&PasswordHash>,
    ) -> Result<(), CommandError> {
        let user = self.state.users.get(user).ok_or(CommandError::NotFound)?;
        let has_other_password =
            verified_password.is_some() && user.password.as_ref() != verified_password;
        if user.disabled || has_other_password {
            Err(UserCommandError::SignInRefused.into())
        } else {
            Ok(())
        }
    }

    fn close_sessions(&mut self, user: UserId, selection: SessionSelection) {
        let ends = |id| match selection {
            SessionSelection::One(one) => id == one,
            SessionSelection::AllBut(one) => id != one,
            SessionSelection::All => true,
        };
        let ids: Vec<_> = self
            .state
            .users
            .all_sessions_of(user)
            .map(|session| session.id)
            .filter(|id| ends(*id))
            .collect();
        ids.into_iter()
            .for_each(|id| self.record_change(Change::User(UserChange::SessionDeleted(id))));
    }

    pub(super) fn remove_link(&mut self, purpose: LinkPurpose) {
        if let Some(link) = self.state.users.link_for(purpose) {
            let change = UserChange::LinkDeleted(link.id);
            self.record_change(Change::User(change));
        }
    }

    fn ensure_user_name_free(&self, name: &UserName) -> Result<(), CommandError> {
        if self.state.users.by_name(name).is_some() {
            Err(UserCommandError::NameTaken.into())
        } else {
            Ok(())
        }
    }

    fn ensure_projects_exist(&self, grant: &Grant) -> Result<(), CommandError> {
        let Grant::Projects(projects) = grant else {
            return Ok(());
        };
        if projects
            .iter()
            .all(|(id, _)| self.state.project(id).is_some())
        {
            Ok(())
        } else {
            Err(CommandError::NotFound)
        }
    }

    /// Refuses a change that would leave no owner with permission to sign in.
    fn ensure_other_owner(&self, id: UserId) -> Result<(), CommandError> {
        let is_owner = |user: &User| user.grant.is_owner() && !user.disabled;
        let others = self
            .state
            .users
            .iter()
            .any(|user| user.id != id && is_owner(user));
        let was_owner = self.state.users.get(id).is_some_and(|user| is_owner(user));
        if was_owner && !others {
            Err(UserCommandError::LastOwner.into())
        } else {
            Ok(())
        }
    }

    pub(super) fn put_user(&mut self, user: User) -> CommandOutcome {
        self.record_change(Change::User(UserChange::User(Arc::new(user.clone()))));
        CommandOutcome::User(Box::new(user))
    }

    fn put_session(&mut self, session: Session) -> CommandOutcome {
        self.record_change(Change::User(UserChange::Session(Arc::new(session.clone()))));
        CommandOutcome::Session(Box::new(session))
    }
}
