//! Rows of users, their sessions and links: few, small, read whole at start.

use std::net::IpAddr;

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::ids::{LinkId, ProjectId, SessionId, UserId};
use crate::domain::moment::Moment;
use crate::domain::project::KeyHash;
use crate::domain::timezone::Timezone;
use crate::domain::user::link::{Link, Purpose};
use crate::domain::user::second_factor::{SecondFactor, TotpSecret};
use crate::domain::user::session::Session;
use crate::domain::user::taste::{ListTaste, Order};
use crate::domain::user::{Grant, Membership, PasswordHash, Projects, Taste, Theme, User, UserName};

/// `users`: user id -> `UserRow`.
pub(super) const USERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("users");
/// `sessions`: session id -> `SessionRow`.
pub(super) const SESSIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("sessions");
/// `links`: link id -> `LinkRow`.
pub(super) const LINKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("links");

#[derive(Serialize, Deserialize)]
struct UserRow<'a> {
    uuid: Uuid,
    name: &'a str,
    password: Option<&'a str>,
    /// `None`: an owner. Else project ids, with `true` for a member and `false` for one who only reads.
    projects: Option<Vec<(u64, bool)>>,
    zone: Option<&'a str>,
    theme: &'a str,
    shortcuts: bool,
    created: i64,
    disabled: bool,
    /// From version 2 on.
    #[serde(default)]
    second: Option<SecondRow>,
    /// From version 2 on, like `rows`: how lists are sorted, and how many rows a page has. `None`: as is usual.
    #[serde(default)]
    sort: Option<Box<str>>,
    #[serde(default)]
    rows: Option<u16>,
    /// From version 3 on.
    #[serde(default)]
    browsers_since: i64,
}

impl<'a> Record<'a> for UserRow<'a> {
    const TABLE: &'static str = "users";
    const VERSION: u8 = 3;
}

/// A second factor. Its secret stands here as it is, since codes are made of it; the codes for a lost app are hashed.
#[derive(Serialize, Deserialize)]
struct SecondRow {
    secret: [u8; TotpSecret::LENGTH],
    used: u64,
    recovery: Vec<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
struct SessionRow<'a> {
    hash: [u8; 32],
    user: u64,
    created: i64,
    seen: i64,
    confirmed: Option<i64>,
    expires: i64,
    agent: &'a str,
    address: IpAddr,
}

impl<'a> Record<'a> for SessionRow<'a> {
    const TABLE: &'static str = "sessions";
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
struct LinkRow {
    hash: [u8; 32],
    /// Whose password it is for; `None`: the setup.
    user: Option<u64>,
    expires: i64,
}

impl<'a> Record<'a> for LinkRow {
    const TABLE: &'static str = "links";
    const VERSION: u8 = 1;
}

/// Makes the tables, so that readers find them.
pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    for table in [USERS, SESSIONS, LINKS] {
        transaction.open_table(table)?;
    }
    Ok(())
}

impl Batch {
    /// Writes a user.
    pub fn put_user(&self, user: &User) -> Result<(), StoreError> {
        let projects = match &user.grant {
            Grant::Owner => None,
            Grant::Projects(projects) => Some(projects.iter().map(|(id, kind)| (id.0, kind == Membership::Member)).collect()),
        };
        let (list, usual) = (user.taste.list, ListTaste::default());
        let row = UserRow {
            uuid: user.uuid,
            name: user.name.as_str(),
            password: user.password.as_ref().map(PasswordHash::as_str),
            projects,
            zone: user.taste.zone.as_ref().map(Timezone::name),
            theme: user.taste.theme.name(),
            shortcuts: user.taste.shortcuts,
            created: user.created.micros(),
            disabled: user.disabled,
            second: user.second.as_ref().map(|second| SecondRow {
                secret: *second.secret.as_bytes(),
                used: second.used,
                recovery: second.recovery.iter().map(|hash| hash.0).collect(),
            }),
            sort: (list.order != usual.order).then(|| list.order.name().into()),
            rows: u16::try_from(list.rows).ok().filter(|_| list.rows != usual.rows),
            browsers_since: user.browsers_since.micros(),
        };
        self.put(USERS, user.id.0, &row)
    }

    /// Writes a session.
    pub fn put_session(&self, session: &Session) -> Result<(), StoreError> {
        let row = SessionRow {
            hash: session.hash.0,
            user: session.user.0,
            created: session.created.micros(),
            seen: session.seen.micros(),
            confirmed: session.confirmed.map(Moment::micros),
            expires: session.expires.micros(),
            agent: &session.agent,
            address: session.address,
        };
        self.put(SESSIONS, session.id.0, &row)
    }

    /// Writes a link.
    pub fn put_link(&self, link: &Link) -> Result<(), StoreError> {
        let user = match link.purpose {
            Purpose::Setup => None,
            Purpose::Password(user) => Some(user.0),
        };
        self.put(LINKS, link.id.0, &LinkRow { hash: link.hash.0, user, expires: link.expires.micros() })
    }

    /// Removes a user. Its sessions and links are removed one by one.
    pub fn remove_user(&self, id: UserId) -> Result<(), StoreError> {
        self.transaction.open_table(USERS)?.remove(id.0)?;
        Ok(())
    }

    /// Removes a session.
    pub fn remove_session(&self, id: SessionId) -> Result<(), StoreError> {
        self.transaction.open_table(SESSIONS)?.remove(id.0)?;
        Ok(())
    }

    /// Removes all sessions and all links.
    pub(super) fn remove_sessions_and_links(&self) -> Result<(), StoreError> {
        [SESSIONS, LINKS].into_iter().try_for_each(|table| Ok(self.transaction.open_table(table)?.retain(|_, _| false)?))
    }

    /// Removes a link.
    pub fn remove_link(&self, id: LinkId) -> Result<(), StoreError> {
        self.transaction.open_table(LINKS)?.remove(id.0)?;
        Ok(())
    }
}

/// The user in a row.
pub(super) fn read_user(id: u64, bytes: &[u8]) -> Result<User, StoreError> {
    let row: UserRow<'_> = record::decode(bytes)?;
    let kind = |member| if member { Membership::Member } else { Membership::ReadOnly };
    let projects = |rows: Vec<_>| Projects::new(rows.into_iter().map(|(id, member)| (ProjectId(id), kind(member))));
    let zone = row.zone.map(|name| Timezone::parse(name).map_err(|error| record::corrupt::<UserRow<'_>>(&error))).transpose()?;
    let theme = Theme::parse(row.theme).ok_or_else(|| record::corrupt::<UserRow<'_>>(&"not a theme"))?;
    let order = row.sort.map(|sort| Order::parse(&sort).ok_or_else(|| record::corrupt::<UserRow<'_>>(&"not an order"))).transpose()?;
    let rows = row
        .rows
        .map(|rows| ListTaste::parse_rows(&rows.to_string()).ok_or_else(|| record::corrupt::<UserRow<'_>>(&"not a number of rows")));
    let usual = ListTaste::default();
    let list = ListTaste { order: order.unwrap_or(usual.order), rows: rows.transpose()?.unwrap_or(usual.rows) };
    let second = |SecondRow { secret, used, recovery }| SecondFactor {
        secret: TotpSecret::new(secret),
        used,
        recovery: recovery.into_iter().map(KeyHash).collect(),
    };
    Ok(User {
        id: UserId(id),
        uuid: row.uuid,
        name: UserName::parse(row.name).map_err(|reason| record::corrupt::<UserRow<'_>>(&reason))?,
        password: row.password.map(PasswordHash::new),
        second: row.second.map(second),
        grant: row.projects.map_or(Grant::Owner, |rows| Grant::Projects(projects(rows))),
        taste: Taste { zone, theme, shortcuts: row.shortcuts, list },
        created: Moment::from_micros(row.created),
        disabled: row.disabled,
        browsers_since: Moment::from_micros(row.browsers_since),
    })
}

/// The session in a row.
pub(super) fn read_session(id: u64, bytes: &[u8]) -> Result<Session, StoreError> {
    let row: SessionRow<'_> = record::decode(bytes)?;
    Ok(Session {
        id: SessionId(id),
        hash: KeyHash(row.hash),
        user: UserId(row.user),
        created: Moment::from_micros(row.created),
        seen: Moment::from_micros(row.seen),
        confirmed: row.confirmed.map(Moment::from_micros),
        expires: Moment::from_micros(row.expires),
        agent: row.agent.into(),
        address: row.address,
    })
}

/// The link in a row.
pub(super) fn read_link(id: u64, bytes: &[u8]) -> Result<Link, StoreError> {
    let row: LinkRow = record::decode(bytes)?;
    let purpose = row.user.map_or(Purpose::Setup, |user| Purpose::Password(UserId(user)));
    Ok(Link { id: LinkId(id), hash: KeyHash(row.hash), purpose, expires: Moment::from_micros(row.expires) })
}

impl Snapshot {
    /// Every user, oldest first.
    pub fn users(&self) -> Result<Vec<User>, StoreError> {
        self.rows(USERS, read_user)
    }

    /// Every session, oldest first.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.rows(SESSIONS, read_session)
    }

    /// Every link, oldest first.
    pub fn links(&self) -> Result<Vec<Link>, StoreError> {
        self.rows(LINKS, read_link)
    }
}
