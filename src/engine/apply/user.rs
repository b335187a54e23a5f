//! Users, their sessions and links.

use std::sync::Arc;

use super::super::command::user::{Closing, FirstUser, NewSession, NewUser, UserChanges, UserCommand, UserRefusal};
use super::super::command::{Outcome, Refusal};
use super::super::state::{Change, UserChange};
use super::{Applied, WorkingState};
use crate::domain::ids::{LinkId, SessionId, UserId};
use crate::domain::moment::Moment;
use crate::domain::project::KeyHash;
use crate::domain::user::link::{Link, Purpose};
use crate::domain::user::second_factor::Proof;
use crate::domain::user::session::Session;
use crate::domain::user::{Grant, PasswordHash, Taste, User, UserName};

/// The most users: see [limits](crate::docs::limits).
pub(in crate::engine) const MOST_USERS: usize = 10_000;
/// The most sessions of a user; a further one ends the oldest: see [limits](crate::docs::limits).
const MOST_SESSIONS: usize = 50;
/// Rows that are removed in one batch because they are over.
const MOST_EXPIRED: usize = 512;

impl From<UserRefusal> for Refusal {
    fn from(refusal: UserRefusal) -> Self {
        Self::User(refusal)
    }
}

impl WorkingState {
    pub(super) fn user_command(&mut self, command: UserCommand, now: Moment) -> Applied {
        match command {
            UserCommand::Create(request) => self.create_user(request, now),
            UserCommand::Set { user, changes, by } => self.set_user(user, changes, by, now),
            UserCommand::Delete(user) => self.delete_user(user),
            UserCommand::CreateLink { purpose, hash, secs } => self.create_link(purpose, hash, now.plus_secs(secs)),
            UserCommand::RedeemLink { hash, setup, password, session } => self.redeem_link(&hash, setup, password, session, now),
            UserCommand::OpenSession { user, checked, renewed, second, session } => {
                self.sign_in(user, (checked.as_ref(), second.as_ref()), renewed, session, now)
            }
            UserCommand::TouchSession { session, address, idle_secs, checked } => {
                let session = self.state.users.any_session(session).filter(|session| !session.is_over(now)).ok_or(Refusal::NotFound)?;
                if checked.is_some() {
                    self.allowed(session.user, checked.as_ref())?;
                }
                let confirmed = checked.map(|_| now).or(session.confirmed);
                let expires = Session::end(session.created, now, idle_secs);
                let session = Session { seen: now, confirmed, expires, address, ..Session::clone(session) };
                Ok(self.put_session(session))
            }
            UserCommand::CloseSessions { user, which } => {
                self.close_sessions(user, which);
                if let (Closing::All | Closing::AllBut(_), Some(found)) = (which, self.state.users.get(user)) {
                    let mut user = User::clone(found);
                    user.forget_browsers(now);
                    self.put_user(user);
                }
                Ok(Outcome::Done)
            }
            UserCommand::RemoveExpired => {
                let gone: Vec<_> = self.state.users.expired(now).take(MOST_EXPIRED).collect();
                gone.into_iter().for_each(|change| self.change(Change::User(change)));
                Ok(Outcome::Done)
            }
        }
    }

    fn create_user(&mut self, request: NewUser, now: Moment) -> Applied {
        let NewUser { uuid, name, password, grant } = request;
        self.free_user_name(&name)?;
        self.known_projects(&grant)?;
        if self.state.users.len() >= MOST_USERS {
            return Err(UserRefusal::TooMany.into());
        }
        let id = UserId(self.next_id());
        Ok(self.insert_user(id, NewUser { uuid, name, password, grant }, false, now))
    }

    pub(super) fn insert_user(&mut self, id: UserId, request: NewUser, disabled: bool, now: Moment) -> Outcome {
        let NewUser { uuid, name, password, grant } = request;
        self.remove_link(Purpose::Setup);
        self.put_user(User {
            id,
            uuid,
            name,
            password,
            second: None,
            grant,
            taste: Taste::default(),
            created: now,
            disabled,
            browsers_since: now,
        })
    }

    pub(super) fn set_user(&mut self, id: UserId, changes: UserChanges, by: Option<SessionId>, now: Moment) -> Applied {
        let UserChanges { name, password, second, grant, taste, disabled } = changes;
        let mut user = User::clone(self.state.users.get(id).ok_or(Refusal::NotFound)?);
        if let Some(name) = name {
            if name.folded() != user.name.folded() {
                self.free_user_name(&name)?;
            }
            user.name = name;
        }
        if let Some(grant) = grant {
            self.known_projects(&grant)?;
            user.grant = grant;
        }
        user.disabled = disabled.unwrap_or(user.disabled);
        if !user.grant.is_owner() || user.disabled {
            self.other_owner(id)?;
        }
        user.taste = taste.unwrap_or(user.taste);
        let secret_of = |user: &User| user.second.as_ref().map(|second| second.secret.clone());
        let old_secret = secret_of(&user);
        user.second = second.unwrap_or(user.second);
        // Somebody who knew the password alone may have signed in before.
        let asks_for_more = old_secret.is_none() && user.second.is_some();
        let has_new_password = password.is_some();
        user.password = password.or(user.password);
        if user.disabled {
            self.close_sessions(id, Closing::All);
        } else if has_new_password || asks_for_more {
            self.close_sessions(id, by.map_or(Closing::All, Closing::AllBut));
        }
        if has_new_password || user.disabled || old_secret != secret_of(&user) {
            user.forget_browsers(now);
        }
        if has_new_password || user.disabled {
            self.remove_link(Purpose::Password(id));
        }
        Ok(self.put_user(user))
    }

    pub(super) fn delete_user(&mut self, id: UserId) -> Applied {
        self.state.users.get(id).ok_or(Refusal::NotFound)?;
        self.other_owner(id)?;
        self.close_sessions(id, Closing::All);
        self.remove_link(Purpose::Password(id));
        self.change(Change::User(UserChange::UserGone(id)));
        Ok(Outcome::Done)
    }

    fn create_link(&mut self, purpose: Purpose, hash: KeyHash, expires: Moment) -> Applied {
        match purpose {
            Purpose::Setup if !self.state.users.is_empty() => return Err(UserRefusal::NotEmpty.into()),
            Purpose::Setup => {}
            Purpose::Password(user) => self.allowed(user, None)?,
        }
        self.remove_link(purpose);
        let id = LinkId(self.next_id());
        self.change(Change::User(UserChange::Link(Arc::new(Link { id, hash, purpose, expires }))));
        Ok(Outcome::Done)
    }

    fn redeem_link(
        &mut self,
        hash: &KeyHash,
        setup: Option<FirstUser>,
        password: PasswordHash,
        session: NewSession,
        now: Moment,
    ) -> Applied {
        let purpose = self.state.users.link(hash, now).map(|link| link.purpose).ok_or(UserRefusal::LinkSpent)?;
        let user = match (purpose, setup) {
            (Purpose::Setup, Some(FirstUser { uuid, name, taste })) => {
                let id = UserId(self.next_id());
                let (password, grant) = (Some(password), Grant::Owner);
                User { id, uuid, name, password, second: None, grant, taste, created: now, disabled: false, browsers_since: now }
            }
            (Purpose::Password(id), None) => {
                let mut user = User::clone(self.state.users.get(id).ok_or(UserRefusal::LinkSpent)?);
                user.forget_browsers(now);
                User { password: Some(password), ..user }
            }
            // It is a link, but not of the kind that was asked for.
            _ => return Err(UserRefusal::LinkSpent.into()),
        };
        let id = user.id;
        self.remove_link(purpose);
        self.close_sessions(id, Closing::All);
        let asks_more = user.second.is_some();
        let changed = self.put_user(user);
        Ok(if asks_more { changed } else { self.open_session(id, Some(now), session, now) })
    }

    fn sign_in(
        &mut self,
        id: UserId,
        (checked, proof): (Option<&PasswordHash>, Option<&Proof>),
        renewed: Option<PasswordHash>,
        session: NewSession,
        now: Moment,
    ) -> Applied {
        self.allowed(id, checked)?;
        let user = self.state.users.get(id).ok_or(Refusal::NotFound)?;
        // Whom a proxy has signed in is asked for neither.
        let second = match &user.second {
            Some(second) if checked.is_some() => Some(proof.and_then(|proof| second.after(proof)).ok_or(UserRefusal::NotAllowed)?),
            second => second.clone(),
        };
        let password = renewed.filter(|_| checked.is_some()).or_else(|| user.password.clone());
        if (&second, &password) != (&user.second, &user.password) {
            let user = User { second, password, ..User::clone(user) };
            self.put_user(user);
        }
        Ok(self.open_session(id, checked.map(|_| now), session, now))
    }

    fn open_session(&mut self, user: UserId, confirmed: Option<Moment>, request: NewSession, now: Moment) -> Outcome {
        let NewSession { hash, agent, address, idle_secs } = request;
        let open: Vec<_> = self.state.users.every_session_of(user).map(|session| (session.seen, session.id)).collect();
        // Whoever has been away for the longest makes room.
        if open.len() >= MOST_SESSIONS
            && let Some((_, oldest)) = open.into_iter().min()
        {
            self.change(Change::User(UserChange::SessionGone(oldest)));
        }
        let (id, expires) = (SessionId(self.next_id()), Session::end(now, now, idle_secs));
        self.put_session(Session { id, hash, user, created: now, seen: now, confirmed, expires, agent, address })
    }

    /// Whether a user may sign in now, with this password if one was checked.
    fn allowed(&self, user: UserId, checked: Option<&PasswordHash>) -> Result<(), Refusal> {
        let user = self.state.users.get(user).ok_or(Refusal::NotFound)?;
        let is_other = checked.is_some() && user.password.as_ref() != checked;
        if user.disabled || is_other { Err(UserRefusal::NotAllowed.into()) } else { Ok(()) }
    }

    fn close_sessions(&mut self, user: UserId, which: Closing) {
        let ends = |id| match which {
            Closing::One(one) => id == one,
            Closing::AllBut(one) => id != one,
            Closing::All => true,
        };
        let gone: Vec<_> = self.state.users.every_session_of(user).map(|session| session.id).filter(|id| ends(*id)).collect();
        gone.into_iter().for_each(|id| self.change(Change::User(UserChange::SessionGone(id))));
    }

    pub(super) fn remove_link(&mut self, purpose: Purpose) {
        if let Some(link) = self.state.users.link_for(purpose) {
            let gone = UserChange::LinkGone(link.id);
            self.change(Change::User(gone));
        }
    }

    fn free_user_name(&self, name: &UserName) -> Result<(), Refusal> {
        if self.state.users.by_name(name).is_some() { Err(UserRefusal::NameTaken.into()) } else { Ok(()) }
    }

    fn known_projects(&self, grant: &Grant) -> Result<(), Refusal> {
        let Grant::Projects(projects) = grant else { return Ok(()) };
        if projects.iter().all(|(id, _)| self.state.project(id).is_some()) { Ok(()) } else { Err(Refusal::NotFound) }
    }

    /// Refuses what would take the last owner who may sign in.
    fn other_owner(&self, id: UserId) -> Result<(), Refusal> {
        let is_owner = |user: &User| user.grant.is_owner() && !user.disabled;
        let others = self.state.users.iter().any(|user| user.id != id && is_owner(user));
        let was_owner = self.state.users.get(id).is_some_and(|user| is_owner(user));
        if was_owner && !others { Err(UserRefusal::LastOwner.into()) } else { Ok(()) }
    }

    pub(super) fn put_user(&mut self, user: User) -> Outcome {
        self.change(Change::User(UserChange::User(Arc::new(user.clone()))));
        Outcome::User(Box::new(user))
    }

    fn put_session(&mut self, session: Session) -> Outcome {
        self.change(Change::User(UserChange::Session(Arc::new(session.clone()))));
        Outcome::Session(Box::new(session))
    }
}
