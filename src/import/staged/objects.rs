//! Projects, and what belongs to them, on their way into the database.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::status;
use crate::domain::adopted::{KeyDigest, OldBadge};
use crate::domain::alert::{Held, Telling};
use crate::domain::channel::{ChannelKind, ChannelSettings, GivenSettings};
use crate::domain::check::{CheckState, Filters, Run, Settings};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId};
use crate::domain::imported::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedProject, ImportedSecret, ImportedSettings, ImportedUser,
};
use crate::domain::moment::Moment;
use crate::domain::project::{Access, ChannelName, KeyHash, PingKey, ProjectName, Secret};
use crate::domain::schedule::Schedule;
use crate::domain::staged::Staged;
use crate::domain::text::{Description, Keywords, Name, Seconds, Slug, Tags};
use crate::domain::timezone::Timezone;
use crate::domain::user::{Membership, PasswordHash, UserName};

/// A thing that is imported. No `Debug`: some are secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::staged::Staged` and `domain::imported`")]
pub enum StagedRow {
    Project {
        id: u64,
        uuid: Uuid,
        name: String,
        badge_key: String,
        old_badge: Option<[u8; 20]>,
        ping_log_limit: u32,
    },
    Key {
        id: u64,
        project: u64,
        secret: SecretRow,
        hint: String,
    },
    Channel {
        id: u64,
        project: u64,
        uuid: Uuid,
        name: String,
        kind: String,
        pairs: Vec<(String, String)>,
        lacks: Vec<String>,
        disabled: Option<String>,
    },
    Check {
        id: u64,
        project: u64,
        drawn: Uuid,
        check: Box<StagedCheckRow>,
    },
    User {
        id: u64,
        uuid: Uuid,
        user: Box<StagedUserRow>,
    },
}

/// What a key is recognised by.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "see `domain::imported::ImportedSecret`")]
pub enum SecretRow {
    ReadWrite([u8; 32]),
    ReadOnly([u8; 32]),
    Ping(String),
    Hashed(String, [u8; 32]),
}

fn access(read_only: bool) -> Access {
    if read_only { Access::ReadOnly } else { Access::ReadWrite }
}

impl From<ImportedSecret> for SecretRow {
    fn from(secret: ImportedSecret) -> Self {
        match secret {
            ImportedSecret::Own(Secret::ReadWrite(KeyHash(hash))) => Self::ReadWrite(hash),
            ImportedSecret::Own(Secret::ReadOnly(KeyHash(hash))) => Self::ReadOnly(hash),
            ImportedSecret::Own(Secret::Ping(key)) => Self::Ping(key.as_str().into()),
            ImportedSecret::Own(Secret::Hashed(hashed)) => Self::Hashed(access(hashed.read_only).name().into(), hashed.digest.0),
            ImportedSecret::Hashed { access, digest: KeyDigest(digest) } => Self::Hashed(access.name().into(), digest),
        }
    }
}

impl SecretRow {
    fn secret(self) -> Result<ImportedSecret, String> {
        Ok(match self {
            Self::ReadWrite(hash) => ImportedSecret::Own(Secret::ReadWrite(KeyHash(hash))),
            Self::ReadOnly(hash) => ImportedSecret::Own(Secret::ReadOnly(KeyHash(hash))),
            Self::Ping(key) => ImportedSecret::Own(Secret::Ping(PingKey::parse(&key).ok_or("not a ping key")?)),
            Self::Hashed(access, digest) => {
                ImportedSecret::Hashed { access: Access::parse(&access).ok_or("no such access")?, digest: KeyDigest(digest) }
            }
        })
    }
}

/// A check that is imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::imported::ImportedCheck`")]
pub struct StagedCheckRow {
    uuid: Uuid,
    badge: Option<Uuid>,
    created: i64,
    channels: Vec<Uuid>,
    name: String,
    slug: String,
    tags: String,
    desc: String,
    timeout: i64,
    grace: i64,
    schedule: Option<String>,
    tz: String,
    manual_resume: bool,
    post_only: bool,
    start_kw: String,
    success_kw: String,
    failure_kw: String,
    /// subject, body, http_body, default_fail
    filters: [bool; 4],
    status: String,
    changed: i64,
    last_ping: Option<i64>,
    run: Option<(i64, Option<Uuid>)>,
    last_duration: Option<i64>,
    n_pings: u64,
    failures: u16,
    /// That it is down was told.
    told: bool,
    /// That it is down is to be told then.
    due: Option<i64>,
}

impl From<ImportedCheck> for StagedCheckRow {
    fn from(check: ImportedCheck) -> Self {
        let ImportedCheck { uuid, badge, created, settings, channels, state } = check;
        let filters = settings.filters;
        Self {
            uuid,
            badge,
            created: created.micros(),
            channels: channels.into(),
            name: settings.name.as_str().into(),
            slug: settings.slug.as_str().into(),
            tags: settings.tags.as_str().into(),
            desc: settings.desc.as_str().into(),
            timeout: settings.timeout.get(),
            grace: settings.grace.get(),
            schedule: settings.schedule.as_ref().map(|schedule| schedule.text().into()),
            tz: settings.tz.name().into(),
            manual_resume: settings.manual_resume,
            post_only: settings.post_only,
            start_kw: settings.start_kw.as_str().into(),
            success_kw: settings.success_kw.as_str().into(),
            failure_kw: settings.failure_kw.as_str().into(),
            filters: [filters.subject, filters.body, filters.http_body, filters.default_fail],
            status: state.status.name().into(),
            changed: state.changed.micros(),
            last_ping: state.last_ping.map(Moment::micros),
            run: state.run.map(|run| (run.start.micros(), run.rid)),
            last_duration: state.last_duration,
            n_pings: state.n_pings,
            failures: state.failures,
            told: state.telling.is_told(),
            due: state.telling.waits().map(|(at, _)| at.micros()),
        }
    }
}

impl StagedCheckRow {
    /// The check, or the name of the field that is wrong.
    fn check(self) -> Result<ImportedCheck, &'static str> {
        let [subject, body, http_body, default_fail] = self.filters;
        let settings = Settings {
            name: Name::parse(&self.name).map_err(|_| "name")?,
            slug: Slug::parse(&self.slug).map_err(|_| "slug")?,
            tags: Tags::stored(&self.tags),
            desc: Description::stored(&self.desc),
            timeout: Seconds::parse(self.timeout).map_err(|_| "timeout")?,
            grace: Seconds::parse(self.grace).map_err(|_| "grace")?,
            schedule: self.schedule.map(|text| Schedule::parse(&text)).transpose().map_err(|_| "schedule")?.map(Arc::new),
            tz: Timezone::parse(&self.tz).map_err(|_| "tz")?,
            manual_resume: self.manual_resume,
            post_only: self.post_only,
            start_kw: Keywords::parse(&self.start_kw).map_err(|_| "start_kw")?,
            success_kw: Keywords::parse(&self.success_kw).map_err(|_| "success_kw")?,
            failure_kw: Keywords::parse(&self.failure_kw).map_err(|_| "failure_kw")?,
            filters: Filters { subject, body, http_body, default_fail },
            ..Settings::default()
        };
        let moment = Moment::from_micros;
        let telling = match self.due {
            Some(at) => Telling::Due { at: moment(at), held: Held::Away },
            None if self.told => Telling::Told,
            None => Telling::Quiet,
        };
        let state = CheckState {
            status: status(&self.status).map_err(|_| "status")?,
            changed: moment(self.changed),
            last_ping: self.last_ping.map(moment),
            run: self.run.map(|(start, rid)| Run { start: moment(start), rid }),
            last_duration: self.last_duration,
            n_pings: self.n_pings,
            failures: self.failures,
            telling,
            ..CheckState::new(moment(self.created))
        };
        let (uuid, badge, created) = (self.uuid, self.badge, moment(self.created));
        Ok(ImportedCheck { uuid, badge, created, settings, channels: self.channels.into(), state })
    }
}

/// A user that is imported.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::imported::ImportedUser`")]
pub struct StagedUserRow {
    name: String,
    password: Option<String>,
    owner: bool,
    projects: Vec<(Uuid, String)>,
    disabled: bool,
    created: i64,
}

impl From<ImportedUser> for StagedUserRow {
    fn from(user: ImportedUser) -> Self {
        Self {
            name: user.name.as_str().into(),
            password: user.password.as_ref().map(|password| password.as_str().into()),
            owner: user.owner,
            projects: user.projects.into_iter().map(|(uuid, membership)| (uuid, membership.name().into())).collect(),
            disabled: user.disabled,
            created: user.created.micros(),
        }
    }
}

impl StagedUserRow {
    fn user(self) -> Result<ImportedUser, String> {
        let membership = |(uuid, word): (Uuid, String)| Ok((uuid, Membership::parse(&word).ok_or("no such membership")?));
        Ok(ImportedUser {
            name: UserName::parse(&self.name)?,
            password: self.password.as_deref().map(PasswordHash::new),
            owner: self.owner,
            projects: self.projects.into_iter().map(membership).collect::<Result<_, &str>>()?,
            disabled: self.disabled,
            created: Moment::from_micros(self.created),
        })
    }
}

impl From<Staged> for StagedRow {
    fn from(staged: Staged) -> Self {
        match staged {
            Staged::Project { id, project } => Self::Project {
                id: id.0,
                uuid: project.uuid,
                name: project.name.as_str().into(),
                badge_key: project.badge_key.into(),
                old_badge: project.old_badge.map(|OldBadge(key)| key),
                ping_log_limit: project.ping_log_limit,
            },
            Staged::Key { id, project, key } => {
                Self::Key { id: id.0, project: project.0, secret: key.secret.into(), hint: key.hint.into() }
            }
            Staged::Channel { id, project, channel } => {
                let ImportedChannel { uuid, name, settings, disabled } = *channel;
                let owned = |pairs: &mut dyn Iterator<Item = (&str, &str)>| pairs.map(|(key, value)| (key.into(), value.into())).collect();
                let (kind, pairs, lacks) = match settings {
                    ImportedSettings::Whole(settings) => (settings.kind().name, owned(&mut settings.pairs()), Vec::new()),
                    ImportedSettings::Incomplete { kind, given, lacks } => {
                        (kind.name, owned(&mut given.pairs()), lacks.iter().map(|key| (*key).into()).collect())
                    }
                };
                let (id, project, name) = (id.0, project.0, name.as_str().into());
                Self::Channel { id, project, uuid, name, kind: kind.into(), pairs, lacks, disabled: disabled.map(Into::into) }
            }
            Staged::Check { id, project, badge, check } => {
                Self::Check { id: id.0, project: project.0, drawn: badge, check: Box::new((*check).into()) }
            }
            Staged::User { id, uuid, user } => Self::User { id: id.0, uuid, user: Box::new((*user).into()) },
        }
    }
}

impl StagedRow {
    /// The thing, or what is wrong with it.
    ///
    /// # Errors
    /// When something in it is none of what it has to be.
    pub fn staged(self) -> Result<Staged, String> {
        Ok(match self {
            Self::Project { id, uuid, name, badge_key, old_badge, ping_log_limit } => {
                let project = ImportedProject {
                    uuid,
                    name: ProjectName::parse(&name)?,
                    badge_key: badge_key.into(),
                    old_badge: old_badge.map(OldBadge),
                    ping_log_limit,
                    keys: Vec::new(),
                    channels: Vec::new(),
                    checks: Vec::new(),
                };
                Staged::Project { id: ProjectId(id), project: Box::new(project) }
            }
            Self::Key { id, project, secret, hint } => {
                let key = ImportedKey { secret: secret.secret()?, hint: hint.into() };
                Staged::Key { id: KeyId(id), project: ProjectId(project), key }
            }
            Self::Channel { id, project, uuid, name, kind, pairs, lacks, disabled } => {
                let kind = ChannelKind::named(&kind).ok_or("no such kind of channel")?;
                let settings = settings(kind, pairs, &lacks)?;
                let channel = ImportedChannel { uuid, name: ChannelName::parse(&name)?, settings, disabled: disabled.map(Into::into) };
                Staged::Channel { id: ChannelId(id), project: ProjectId(project), channel: Box::new(channel) }
            }
            Self::Check { id, project, drawn, check } => {
                let check = check.check().map_err(|field| format!("the {field} of a check"))?;
                Staged::Check { id: CheckId(id), project: ProjectId(project), badge: drawn, check: Box::new(check) }
            }
            Self::User { id, uuid, user } => Staged::User { id: UserId(id), uuid, user: Box::new(user.user()?) },
        })
    }
}

/// What a channel is set to: whole, if nothing is said to be missing.
fn settings(kind: &'static ChannelKind, pairs: Vec<(String, String)>, lacks: &[String]) -> Result<ImportedSettings, String> {
    if lacks.is_empty() {
        return Ok(ImportedSettings::Whole(ChannelSettings::parse(kind, pairs).map_err(|error| error.to_string())?));
    }
    let known = |key: &String| kind.fields.iter().map(|field| field.key).find(|known| known == key);
    let lacks = lacks.iter().map(known).collect::<Option<_>>().ok_or("a channel lacks a setting that its kind does not have")?;
    Ok(ImportedSettings::Incomplete { kind, given: GivenSettings::new(pairs), lacks })
}
