//! Users, sessions and links in memory, found by name and by hash.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use crate::domain::ids::{LinkId, SessionId, UserId};
use crate::domain::moment::Moment;
use crate::domain::project::KeyHash;
use crate::domain::user::link::{Link, Purpose};
use crate::domain::user::session::Session;
use crate::domain::user::{User, UserName};

/// One change of them.
#[derive(Clone, Debug)]
pub enum UserChange {
    /// A user is new or was changed.
    User(Arc<User>),
    /// A user is gone. Its sessions and links went before it.
    UserGone(UserId),
    /// A session is new or was used.
    Session(Arc<Session>),
    /// A session is gone.
    SessionGone(SessionId),
    /// A link is new.
    Link(Arc<Link>),
    /// A link is gone.
    LinkGone(LinkId),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Users {
    users: BTreeMap<UserId, Arc<User>>,
    by_name: HashMap<Box<str>, UserId>,
    sessions: BTreeMap<SessionId, Arc<Session>>,
    by_token: HashMap<KeyHash, SessionId>,
    of_user: BTreeSet<(UserId, SessionId)>,
    links: BTreeMap<LinkId, Arc<Link>>,
    by_code: HashMap<KeyHash, LinkId>,
}

impl Users {
    /// Every user, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// A user by its number.
    pub fn get(&self, id: UserId) -> Option<&Arc<User>> {
        self.users.get(&id)
    }

    /// A user by its name, whose case does not count.
    pub fn by_name(&self, name: &UserName) -> Option<&Arc<User>> {
        self.get(*self.by_name.get(&name.folded())?)
    }

    /// A user by its UUID.
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Arc<User>> {
        self.iter().find(|user| user.uuid == uuid)
    }

    /// The session of a cookie, with its user, unless it is over or the user may not sign in.
    pub fn session(&self, token: &KeyHash, now: Moment) -> Option<(&Arc<Session>, &Arc<User>)> {
        let session = self.sessions.get(self.by_token.get(token)?).filter(|session| !session.is_over(now))?;
        let user = self.get(session.user).filter(|user| !user.disabled)?;
        Some((session, user))
    }

    /// The sessions of a user that are not over, oldest first.
    pub fn sessions_of(&self, user: UserId, now: Moment) -> impl Iterator<Item = &Arc<Session>> {
        self.every_session_of(user).filter(move |session| !session.is_over(now))
    }

    /// The link of a code, unless it is over.
    pub fn link(&self, code: &KeyHash, now: Moment) -> Option<&Arc<Link>> {
        self.links.get(self.by_code.get(code)?).filter(|link| !link.is_over(now))
    }

    /// The link for a purpose, whether or not it is over.
    pub fn link_for(&self, purpose: Purpose) -> Option<&Arc<Link>> {
        self.links.values().find(|link| link.purpose == purpose)
    }

    /// A session by its number, whether or not it is over.
    pub(in crate::engine) fn any_session(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.sessions.get(&id)
    }

    /// All sessions of a user, oldest first.
    pub(in crate::engine) fn every_session_of(&self, user: UserId) -> impl Iterator<Item = &Arc<Session>> {
        let range = (user, SessionId(0))..=(user, SessionId(u64::MAX));
        self.of_user.range(range).filter_map(|(_, id)| self.sessions.get(id))
    }

    /// What is over, the oldest first.
    pub(in crate::engine) fn expired(&self, now: Moment) -> impl Iterator<Item = UserChange> {
        let sessions = self.sessions.values().filter(move |session| session.is_over(now));
        let links = self.links.values().filter(move |link| link.is_over(now));
        sessions.map(|session| UserChange::SessionGone(session.id)).chain(links.map(|link| UserChange::LinkGone(link.id)))
    }

    pub(super) fn apply(&mut self, change: &UserChange) {
        match change {
            UserChange::User(user) => {
                if let Some(old) = self.users.insert(user.id, Arc::clone(user)) {
                    self.by_name.remove(&old.name.folded());
                }
                self.by_name.insert(user.name.folded(), user.id);
            }
            UserChange::UserGone(id) => {
                if let Some(user) = self.users.remove(id) {
                    self.by_name.remove(&user.name.folded());
                }
            }
            UserChange::Session(session) => {
                self.by_token.insert(session.hash, session.id);
                self.of_user.insert((session.user, session.id));
                self.sessions.insert(session.id, Arc::clone(session));
            }
            UserChange::SessionGone(id) => {
                if let Some(session) = self.sessions.remove(id) {
                    self.by_token.remove(&session.hash);
                    self.of_user.remove(&(session.user, session.id));
                }
            }
            UserChange::Link(link) => {
                self.by_code.insert(link.hash, link.id);
                self.links.insert(link.id, Arc::clone(link));
            }
            UserChange::LinkGone(id) => {
                if let Some(link) = self.links.remove(id) {
                    self.by_code.remove(&link.hash);
                }
            }
        }
    }
}
