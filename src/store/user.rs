//! Rows of users, their sessions and links: few, small, read completely at start.

use std::net::IpAddr;

use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::domain::ids::{LinkId, ProjectId, SessionId, UserId};
use crate::domain::mail_address::MailAddress;
use crate::domain::project::SecretHash;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::domain::user::one_time_link::{LinkPurpose, OneTimeLink};
use crate::domain::user::passkey::{Passkey, PasskeyId, PasskeyName, PasskeyPublicKey};
use crate::domain::user::preferences::{ListPreferences, SortOrder};
use crate::domain::user::saved_filters::{SavedFilter, SavedFilters};
use crate::domain::user::second_factor::{SecondFactor, TotpSecret};
use crate::domain::user::session::Session;
use crate::domain::user::summary::{SummaryInterval, SummarySettings, SummarySubscription};
use crate::domain::user::{
    ExternalIdentity, Grant, Membership, PasswordHash, ProjectMemberships, Theme, User, UserName,
    UserPreferences,
};

/// `users`: user id -> `UserRecord`.
pub(super) const USERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("users");
/// `sessions`: session id -> `SessionRecord`.
pub(super) const SESSIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("sessions");
/// `links`: link id -> `LinkRecord`.
pub(super) const LINKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("links");

#[derive(Serialize, Deserialize)]
struct UserRecord<'a> {
    uuid: Uuid,
    name: &'a str,
    password: Option<&'a str>,
    /// `None` for an owner. Otherwise project ids, with `true` for a member and `false` for
    /// read-only access.
    projects: Option<Vec<(u64, bool)>>,
    zone: Option<&'a str>,
    theme: &'a str,
    shortcuts: bool,
    created: i64,
    disabled: bool,
    /// Since version 2.
    #[serde(default)]
    second: Option<SecondFactorRecord>,
    /// Since version 2, like `rows`: sort order of lists, and number of rows on a page. `None` for
    /// the default.
    #[serde(default)]
    sort: Option<Box<str>>,
    #[serde(default)]
    rows: Option<u16>,
    /// Since version 3.
    #[serde(default)]
    browsers_since: i64,
    /// Since version 4.
    #[serde(default)]
    pinned: Vec<Uuid>,
    /// Names and queries of saved filters.
    #[serde(borrow, default)]
    filters: Vec<(&'a str, &'a str)>,
    /// Since version 5, like `summary` and `identity`.
    #[serde(borrow, default)]
    passkeys: Vec<PasskeyRecord<'a>>,
    #[serde(borrow, default)]
    summary: Option<SummaryRecord<'a>>,
    /// Issuer and subject.
    #[serde(borrow, default)]
    identity: Option<(&'a str, &'a str)>,
}

impl<'a> Record<'a> for UserRecord<'a> {
    const TABLE: &'static str = "users";
    const VERSION: u8 = 5;
}

/// A second factor. Its secret is stored in plain form, because codes are computed from it.
/// Recovery codes are hashed.
#[derive(Serialize, Deserialize)]
struct SecondFactorRecord {
    secret: [u8; TotpSecret::LENGTH],
    used: u64,
    recovery: Vec<[u8; 32]>,
}

/// A passkey. Its key is public.
#[derive(Serialize, Deserialize)]
struct PasskeyRecord<'a> {
    id: Vec<u8>,
    name: &'a str,
    key: Vec<u8>,
    counter: u32,
    created: i64,
    used: Option<i64>,
}

/// A subscription to summaries.
#[derive(Serialize, Deserialize)]
struct SummaryRecord<'a> {
    interval: &'a str,
    address: &'a str,
    projects: Vec<Uuid>,
    covered: i64,
    sent: Option<i64>,
    failure: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct SessionRecord<'a> {
    hash: [u8; 32],
    user: u64,
    created: i64,
    seen: i64,
    confirmed: Option<i64>,
    expires: i64,
    agent: &'a str,
    address: IpAddr,
}

impl<'a> Record<'a> for SessionRecord<'a> {
    const TABLE: &'static str = "sessions";
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
struct LinkRecord {
    hash: [u8; 32],
    /// User whose password the link sets; `None` for the setup.
    user: Option<u64>,
    expires: i64,
}

impl<'a> Record<'a> for LinkRecord {
    const TABLE: &'static str = "links";
    const VERSION: u8 = 1;
}

/// Creates the tables so that readers can open them.
pub(super) fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
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
            Grant::Projects(projects) => Some(
                projects
                    .iter()
                    .map(|(id, kind)| (id.0, kind == Membership::Member))
                    .collect(),
            ),
        };
        let list = user.preferences.list;
        let defaults = ListPreferences::default();
        let row = UserRecord {
            uuid: user.uuid,
            name: user.name.as_str(),
            password: user.password.as_ref().map(PasswordHash::as_str),
            projects,
            zone: user.preferences.zone.as_ref().map(Timezone::name),
            theme: user.preferences.theme.name(),
            shortcuts: user.preferences.shortcuts,
            created: user.created.micros(),
            disabled: user.disabled,
            second: user
                .second_factor
                .as_ref()
                .map(|second| SecondFactorRecord {
                    secret: *second.secret.as_bytes(),
                    used: second.last_used_step,
                    recovery: second.recovery_hashes.iter().map(|hash| hash.0).collect(),
                }),
            sort: (list.order != defaults.order).then(|| list.order.name().into()),
            rows: u16::try_from(list.page_size)
                .ok()
                .filter(|_| list.page_size != defaults.page_size),
            browsers_since: user.browsers_trusted_since.micros(),
            pinned: user.preferences.pinned.to_vec(),
            filters: user
                .preferences
                .filters
                .iter()
                .map(|filter| (&*filter.name, &*filter.query))
                .collect(),
            passkeys: user.passkeys.iter().map(PasskeyRecord::from).collect(),
            summary: user.summary.as_ref().map(SummaryRecord::from),
            identity: user
                .identity
                .as_ref()
                .map(|identity| (identity.issuer(), identity.subject())),
        };
        self.put_record(USERS, user.id.0, &row)
    }

    /// Writes a session.
    pub fn put_session(&self, session: &Session) -> Result<(), StoreError> {
        let row = SessionRecord {
            hash: session.hash.0,
            user: session.user.0,
            created: session.created.micros(),
            seen: session.last_used.micros(),
            confirmed: session.confirmed.map(Timestamp::micros),
            expires: session.expires.micros(),
            agent: &session.user_agent,
            address: session.address,
        };
        self.put_record(SESSIONS, session.id.0, &row)
    }

    /// Writes a link.
    pub fn put_link(&self, link: &OneTimeLink) -> Result<(), StoreError> {
        let user = match link.purpose {
            LinkPurpose::Setup => None,
            LinkPurpose::Password(user) => Some(user.0),
        };
        self.put_record(
            LINKS,
            link.id.0,
            &LinkRecord {
                hash: link.hash.0,
                user,
                expires: link.expires.micros(),
            },
        )
    }

    /// Removes a user. Its sessions and links are removed separately.
    pub fn remove_user(&self, id: UserId) -> Result<(), StoreError> {
        self.table(USERS)?.remove(id.0)?;
        Ok(())
    }

    /// Removes a session.
    pub fn remove_session(&self, id: SessionId) -> Result<(), StoreError> {
        self.table(SESSIONS)?.remove(id.0)?;
        Ok(())
    }

    /// Removes all sessions and all links.
    pub(super) fn remove_sessions_and_links(&self) -> Result<(), StoreError> {
        [SESSIONS, LINKS]
            .into_iter()
            .try_for_each(|table| Ok(self.unrecorded().open_table(table)?.retain(|_, _| false)?))
    }

    /// Removes a link.
    pub fn remove_link(&self, id: LinkId) -> Result<(), StoreError> {
        self.table(LINKS)?.remove(id.0)?;
        Ok(())
    }
}

impl<'a> From<&'a Passkey> for PasskeyRecord<'a> {
    fn from(passkey: &'a Passkey) -> Self {
        Self {
            id: passkey.id.as_bytes().into(),
            name: passkey.name.as_str(),
            key: passkey.public_key.as_bytes().into(),
            counter: passkey.counter,
            created: passkey.created.micros(),
            used: passkey.last_used.map(Timestamp::micros),
        }
    }
}

impl PasskeyRecord<'_> {
    fn into_passkey(self) -> Result<Passkey, &'static str> {
        Ok(Passkey {
            id: PasskeyId::new(&self.id).ok_or("not the identifier of a passkey")?,
            name: PasskeyName::parse(self.name)?,
            public_key: PasskeyPublicKey::new(&self.key).ok_or("not the key of a passkey")?,
            counter: self.counter,
            created: Timestamp::from_micros(self.created),
            last_used: self.used.map(Timestamp::from_micros),
        })
    }
}

impl<'a> From<&'a SummarySubscription> for SummaryRecord<'a> {
    fn from(subscription: &'a SummarySubscription) -> Self {
        let SummarySettings {
            interval,
            address,
            projects,
        } = &subscription.settings;
        Self {
            interval: interval.name(),
            address: address.as_str(),
            projects: projects.to_vec(),
            covered: subscription.covered_until.micros(),
            sent: subscription.last_sent.map(Timestamp::micros),
            failure: subscription.failure.as_deref(),
        }
    }
}

impl SummaryRecord<'_> {
    fn into_subscription(self) -> Result<SummarySubscription, &'static str> {
        Ok(SummarySubscription {
            settings: SummarySettings {
                interval: SummaryInterval::parse(self.interval).ok_or("not an interval")?,
                address: MailAddress::parse(self.address)?,
                projects: self.projects.into(),
            },
            covered_until: Timestamp::from_micros(self.covered),
            last_sent: self.sent.map(Timestamp::from_micros),
            failure: self.failure.map(Into::into),
        })
    }
}

/// Reads the user in a row.
pub(super) fn read_user(id: u64, bytes: &[u8]) -> Result<User, StoreError> {
    let row: UserRecord<'_> = record::decode(bytes)?;
    let kind = |member| {
        if member {
            Membership::Member
        } else {
            Membership::ReadOnly
        }
    };
    let projects = |rows: Vec<_>| {
        ProjectMemberships::new(
            rows.into_iter()
                .map(|(id, member)| (ProjectId(id), kind(member))),
        )
    };
    let zone = row
        .zone
        .map(|name| {
            Timezone::parse(name).map_err(|error| record::invalid_row::<UserRecord<'_>>(&error))
        })
        .transpose()?;
    let theme = Theme::parse(row.theme)
        .ok_or_else(|| record::invalid_row::<UserRecord<'_>>(&"not a theme"))?;
    let order = row
        .sort
        .map(|sort| {
            SortOrder::parse(&sort)
                .ok_or_else(|| record::invalid_row::<UserRecord<'_>>(&"not a sort order"))
        })
        .transpose()?;
    let rows = row.rows.map(|rows| {
        ListPreferences::parse_page_size(&rows.to_string())
            .ok_or_else(|| record::invalid_row::<UserRecord<'_>>(&"not a page size"))
    });
    let defaults = ListPreferences::default();
    let list = ListPreferences {
        order: order.unwrap_or(defaults.order),
        page_size: rows.transpose()?.unwrap_or(defaults.page_size),
    };
    let filters = row
        .filters
        .into_iter()
        .map(|(name, query)| SavedFilter::new(name, query))
        .collect::<Result<Vec<_>, _>>()
        .and_then(SavedFilters::from_stored)
        .map_err(|reason| record::invalid_row::<UserRecord<'_>>(&reason))?;
    let second = |SecondFactorRecord {
                      secret,
                      used,
                      recovery,
                  }| SecondFactor {
        secret: TotpSecret::new(secret),
        last_used_step: used,
        recovery_hashes: recovery.into_iter().map(SecretHash).collect(),
    };
    Ok(User {
        id: UserId(id),
        uuid: row.uuid,
        name: UserName::parse(row.name)
            .map_err(|reason| record::invalid_row::<UserRecord<'_>>(&reason))?,
        password: row.password.map(PasswordHash::new),
        second_factor: row.second.map(second),
        passkeys: row
            .passkeys
            .into_iter()
            .map(PasskeyRecord::into_passkey)
            .collect::<Result<_, _>>()
            .map_err(|reason| record::invalid_row::<UserRecord<'_>>(&reason))?,
        identity: row
            .identity
            .map(|(issuer, subject)| {
                ExternalIdentity::new(issuer, subject)
                    .ok_or_else(|| record::invalid_row::<UserRecord<'_>>(&"not an identity"))
            })
            .transpose()?,
        grant: row
            .projects
            .map_or(Grant::Owner, |rows| Grant::Projects(projects(rows))),
        preferences: UserPreferences {
            zone,
            theme,
            shortcuts: row.shortcuts,
            list,
            pinned: row.pinned.into(),
            filters,
        },
        summary: row
            .summary
            .map(SummaryRecord::into_subscription)
            .transpose()
            .map_err(|reason| record::invalid_row::<UserRecord<'_>>(&reason))?,
        created: Timestamp::from_micros(row.created),
        disabled: row.disabled,
        browsers_trusted_since: Timestamp::from_micros(row.browsers_since),
    })
}

/// Reads the session in a row.
pub(super) fn read_session(id: u64, bytes: &[u8]) -> Result<Session, StoreError> {
    let row: SessionRecord<'_> = record::decode(bytes)?;
    Ok(Session {
        id: SessionId(id),
        hash: SecretHash(row.hash),
        user: UserId(row.user),
        created: Timestamp::from_micros(row.created),
        last_used: Timestamp::from_micros(row.seen),
        confirmed: row.confirmed.map(Timestamp::from_micros),
        expires: Timestamp::from_micros(row.expires),
        user_agent: row.agent.into(),
        address: row.address,
    })
}

/// Reads the link in a row.
pub(super) fn read_link(id: u64, bytes: &[u8]) -> Result<OneTimeLink, StoreError> {
    let row: LinkRecord = record::decode(bytes)?;
    let purpose = row.user.map_or(LinkPurpose::Setup, |user| {
        LinkPurpose::Password(UserId(user))
    });
    Ok(OneTimeLink {
        id: LinkId(id),
        hash: SecretHash(row.hash),
        purpose,
        expires: Timestamp::from_micros(row.expires),
    })
}

impl Snapshot {
    /// Returns every user, oldest first.
    pub fn users(&self) -> Result<Vec<User>, StoreError> {
        self.rows(USERS, read_user)
    }

    /// Returns every session, oldest first.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.rows(SESSIONS, read_session)
    }

    /// Returns every link, oldest first.
    pub fn links(&self) -> Result<Vec<OneTimeLink>, StoreError> {
        self.rows(LINKS, read_link)
    }
}
