//! Users, sessions and links in memory, by name and by hash.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::domain::ids::{LinkId, SessionId, UserId};
use crate::domain::project::SecretHash;
use crate::domain::timestamp::Timestamp;
use crate::domain::user::one_time_link::{LinkPurpose, OneTimeLink};
use crate::domain::user::session::Session;
use crate::domain::user::{ExternalIdentity, User, UserName};

/// Single change of users, sessions or links.
#[derive(Clone, Debug)]
pub enum UserChange {
    /// A user was created or changed.
    User(Arc<User>),
    /// A user was deleted, after its sessions and links.
    UserDeleted(UserId),
    /// A session was opened or used.
    Session(Arc<Session>),
    /// A session was removed.
    SessionDeleted(SessionId),
    /// A link was created.
    Link(Arc<OneTimeLink>),
    /// A link was removed.
    LinkDeleted(LinkId),
}

/// Users, sessions and links.
#[derive(Clone, Debug, Default)]
pub struct UserIndex {
    users: BTreeMap<UserId, Arc<User>>,
    by_name: HashMap<Box<str>, UserId>,
    sessions: BTreeMap<SessionId, Arc<Session>>,
    by_token: HashMap<SecretHash, SessionId>,
    sessions_by_user: BTreeSet<(UserId, SessionId)>,
    links: BTreeMap<LinkId, Arc<OneTimeLink>>,
    by_code: HashMap<SecretHash, LinkId>,
}

impl UserIndex {
    /// All users, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// Number of users.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// True if there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// User with this number.
    pub fn get(&self, id: UserId) -> Option<&Arc<User>> {
        self.users.get(&id)
    }

    /// User with this name, without regard to case.
    pub fn by_name(&self, name: &UserName) -> Option<&Arc<User>> {
        self.get(*self.by_name.get(&name.case_folded())?)
    }

    /// User with this identity at a provider.
    pub fn by_identity(&self, identity: &ExternalIdentity) -> Option<&Arc<User>> {
        self.iter()
            .find(|user| user.identity.as_ref() == Some(identity))
    }

    /// User with this UUID.
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<User>> {
        self.iter().find(|user| user.uuid == uuid)
    }

    /// Session of a cookie, with its user. `None` if it has expired or the user may not sign in.
    pub fn session(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Option<(&Arc<Session>, &Arc<User>)> {
        let session = self
            .sessions
            .get(self.by_token.get(token)?)
            .filter(|session| !session.is_expired(now))?;
        let user = self.get(session.user).filter(|user| !user.disabled)?;
        Some((session, user))
    }

    /// Sessions of a user that have not expired, oldest first.
    pub fn sessions_of(&self, user: UserId, now: Timestamp) -> impl Iterator<Item = &Arc<Session>> {
        self.all_sessions_of(user)
            .filter(move |session| !session.is_expired(now))
    }

    /// Link with this code. `None` if it has expired.
    pub fn link(&self, code: &SecretHash, now: Timestamp) -> Option<&Arc<OneTimeLink>> {
        self.links
            .get(self.by_code.get(code)?)
            .filter(|link| !link.is_expired(now))
    }

    /// Link for a purpose, even if it has expired.
    pub fn link_for(&self, purpose: LinkPurpose) -> Option<&Arc<OneTimeLink>> {
        self.links.values().find(|link| link.purpose == purpose)
    }

    /// Session with this number, even if it has expired.
    pub(in crate::engine) fn session_by_id(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.sessions.get(&id)
    }

    /// All sessions of a user, oldest first.
    pub(in crate::engine) fn all_sessions_of(
        &self,
        user: UserId,
    ) -> impl Iterator<Item = &Arc<Session>> {
        let range = (user, SessionId(0))..=(user, SessionId(u64::MAX));
        self.sessions_by_user
            .range(range)
            .filter_map(|(_, id)| self.sessions.get(id))
    }

    /// Changes that remove expired sessions and links, oldest first.
    pub(in crate::engine) fn expired(&self, now: Timestamp) -> impl Iterator<Item = UserChange> {
        let sessions = self
            .sessions
            .values()
            .filter(move |session| session.is_expired(now));
        let links = self.links.values().filter(move |link| link.is_expired(now));
        sessions
            .map(|session| UserChange::SessionDeleted(session.id))
            .chain(links.map(|link| UserChange::LinkDeleted(link.id)))
    }

    pub(super) fn apply(&mut self, change: &UserChange) {
        match change {
            UserChange::User(user) => {
                if let Some(old) = self.users.insert(user.id, Arc::clone(user)) {
                    self.by_name.remove(&old.name.case_folded());
                }
                self.by_name.insert(user.name.case_folded(), user.id);
            }
            UserChange::UserDeleted(id) => {
                if let Some(user) = self.users.remove(id) {
                    self.by_name.remove(&user.name.case_folded());
                }
            }
            UserChange::Session(session) => {
                self.by_token.insert(session.hash, session.id);
                self.sessions_by_user.insert((session.user, session.id));
                self.sessions.insert(session.id, Arc::clone(session));
            }
            UserChange::SessionDeleted(id) => {
                if let Some(session) = self.sessions.remove(id) {
                    self.by_token.remove(&session.hash);
                    self.sessions_by_user.remove(&(session.user, session.id));
                }
            }
            UserChange::Link(link) => {
                self.by_code.insert(link.hash, link.id);
                self.links.insert(link.id, Arc::clone(link));
            }
            UserChange::LinkDeleted(id) => {
                if let Some(link) = self.links.remove(id) {
                    self.by_code.remove(&link.hash);
                }
            }
        }
    }
}
