//! Projects, and what belongs to them, on their way into the database.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::check::StagedCheckRow;
use super::user::StagedUserRow;
use super::{bytes, managed, text};
use crate::domain::adopted::{KeyDigest, OldBadge};
use crate::domain::alert::{ChannelHealth, DeliveryProof};
use crate::domain::channel::{ChannelKind, ChannelSettings, GivenSettings};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::imported::{ImportedChannel, ImportedKey, ImportedProject, ImportedSecret, ImportedSettings, ImportedWindow};
use crate::domain::moment::Moment;
use crate::domain::project::{Access, ChannelName, Key, KeyHash, KeyLabel, KeyUse, PingKey, ProjectName, Secret};
use crate::domain::schedule::Schedule;
use crate::domain::staged::Staged;
use crate::domain::text::{Name, Tags};
use crate::domain::timezone::Timezone;
use crate::domain::window::{Window, WindowTimes};

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
        /// In base64.
        old_badge: Option<String>,
        check_limit: Option<u32>,
        ping_log_limit: u32,
    },
    Key {
        id: u64,
        project: u64,
        secret: SecretRow,
        hint: String,
        label: String,
        created: Option<i64>,
        used: Option<(i64, IpAddr)>,
        managed: Option<String>,
    },
    Channel {
        id: u64,
        project: u64,
        uuid: Uuid,
        name: String,
        kind: String,
        pairs: Vec<(String, String)>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lacks: Vec<String>,
        operator: bool,
        /// Since when, and why.
        disabled: Option<(i64, String)>,
        failing: Option<(i64, String)>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unsubscribed: Vec<String>,
        #[serde(default)]
        arrived: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        test_failed: Option<String>,
        managed: Option<String>,
    },
    Window {
        id: u64,
        project: u64,
        uuid: Uuid,
        name: String,
        tags: String,
        times: TimesRow,
        managed: Option<String>,
    },
    Check {
        id: u64,
        project: u64,
        /// The badge of a check that has none; otherwise it need not be said.
        #[serde(default, skip_serializing_if = "Uuid::is_nil")]
        drawn: Uuid,
        check: Box<StagedCheckRow>,
    },
    User {
        id: u64,
        uuid: Uuid,
        user: Box<StagedUserRow>,
    },
}

/// What a key is recognised by: hashes and digests are in base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "see `domain::imported::ImportedSecret`")]
pub enum SecretRow {
    ReadWrite(String),
    ReadOnly(String),
    Ping(String),
    /// What it opens, the place of the secret, and the digest.
    Hashed(String, u8, String),
}

/// Bytes of the segment that names a project in badge URLs; another server's may have 150 characters.
const MOST_BADGE_KEY: usize = 600;

/// When a window is open.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::window::WindowTimes`")]
pub enum TimesRow {
    Once { from: i64, to: i64 },
    Recurring { schedule: String, tz: String, minutes: u32 },
}

impl From<ImportedSecret> for SecretRow {
    fn from(secret: ImportedSecret) -> Self {
        let hashed = |access: Access, secret, digest: &[u8]| Self::Hashed(access.name().into(), secret, text(digest));
        match secret {
            ImportedSecret::Own(Secret::ReadWrite(KeyHash(hash))) => Self::ReadWrite(text(&hash)),
            ImportedSecret::Own(Secret::ReadOnly(KeyHash(hash))) => Self::ReadOnly(text(&hash)),
            ImportedSecret::Own(Secret::Ping(key)) => Self::Ping(key.as_str().into()),
            ImportedSecret::Own(own @ Secret::Hashed(key)) => hashed(own.access(), key.secret, &key.digest.0),
            ImportedSecret::Hashed { access, secret, digest: KeyDigest(digest) } => hashed(access, secret, &digest),
        }
    }
}

impl SecretRow {
    fn secret(self) -> Result<ImportedSecret, &'static str> {
        let hash = |text: &str| bytes(text).map(KeyHash);
        Ok(match self {
            Self::ReadWrite(text) => ImportedSecret::Own(Secret::ReadWrite(hash(&text)?)),
            Self::ReadOnly(text) => ImportedSecret::Own(Secret::ReadOnly(hash(&text)?)),
            Self::Ping(key) => ImportedSecret::Own(Secret::Ping(PingKey::parse(&key).ok_or("not a ping key")?)),
            Self::Hashed(access, secret, digest) => {
                let access = Access::parse(&access).ok_or("no such access")?;
                ImportedSecret::Hashed { access, secret, digest: KeyDigest(bytes(&digest)?) }
            }
        })
    }
}

impl From<&WindowTimes> for TimesRow {
    fn from(times: &WindowTimes) -> Self {
        match times {
            WindowTimes::Once { from, to } => Self::Once { from: from.micros(), to: to.micros() },
            WindowTimes::Recurring { schedule, tz, minutes } => {
                Self::Recurring { schedule: schedule.text().into(), tz: tz.name().into(), minutes: *minutes }
            }
        }
    }
}

impl TimesRow {
    fn times(self) -> Result<WindowTimes, String> {
        Ok(match self {
            Self::Once { from, to } => {
                let (from, to) = (Moment::from_micros(from), Moment::from_micros(to));
                let longest = from.plus_secs(Window::MOST_MINUTES_ONCE.cast_signed() * 60);
                if to <= from || to > longest {
                    return Err("a window does not end after it begins, or more than 366 days later".into());
                }
                WindowTimes::Once { from, to }
            }
            Self::Recurring { schedule, tz, minutes } => {
                let schedule = Schedule::parse(&schedule).map_err(|error| format!("the schedule of a window: {error}"))?;
                let tz = Timezone::parse(&tz).map_err(|error| format!("the tz of a window: {error}"))?;
                if !(1..=Window::MOST_MINUTES).contains(&minutes.into()) {
                    return Err(format!("a window is open for {minutes} minutes: it may be for 1 to {}", Window::MOST_MINUTES));
                }
                WindowTimes::Recurring { schedule: Arc::new(schedule), tz, minutes }
            }
        })
    }
}

/// Since when something is wrong, and what.
fn trouble(trouble: Option<(Moment, Box<str>)>) -> Option<(i64, String)> {
    trouble.map(|(since, reason)| (since.micros(), reason.into()))
}

fn trouble_of(row: Option<(i64, String)>) -> Option<(Moment, Box<str>)> {
    row.map(|(since, reason)| (Moment::from_micros(since), reason.into()))
}

impl From<Staged> for StagedRow {
    fn from(staged: Staged) -> Self {
        match staged {
            Staged::Project { id, project } => Self::Project {
                id: id.0,
                uuid: project.uuid,
                name: project.name.as_str().into(),
                badge_key: project.badge_key.into(),
                old_badge: project.old_badge.map(|OldBadge(key)| text(&key)),
                check_limit: project.check_limit,
                ping_log_limit: project.ping_log_limit,
            },
            Staged::Key { id, project, key } => Self::Key {
                id: id.0,
                project: project.0,
                secret: key.secret.into(),
                hint: key.hint.into(),
                label: key.label.as_str().into(),
                created: key.created.map(Moment::micros),
                used: key.used.map(|used| (used.at.micros(), used.from)),
                managed: managed(key.managed.as_ref()),
            },
            Staged::Channel { id, project, channel } => Self::channel(id, project, *channel),
            Staged::Window { id, project, window } => Self::Window {
                id: id.0,
                project: project.0,
                uuid: window.uuid,
                name: window.name.as_str().into(),
                tags: window.tags.as_str().into(),
                times: (&window.times).into(),
                managed: managed(window.managed.as_ref()),
            },
            Staged::Check { id, project, badge, check } => {
                let drawn = if check.badge.is_some() { Uuid::nil() } else { badge };
                Self::Check { id: id.0, project: project.0, drawn, check: Box::new((*check).into()) }
            }
            Staged::User { id, uuid, user } => Self::User { id: id.0, uuid, user: Box::new((*user).into()) },
        }
    }
}

impl StagedRow {
    fn channel(id: ChannelId, project: ProjectId, channel: ImportedChannel) -> Self {
        let ImportedChannel { uuid, name, settings, operator, health, managed: source } = channel;
        let owned = |pairs: &mut dyn Iterator<Item = (&str, &str)>| pairs.map(|(key, value)| (key.into(), value.into())).collect();
        let (kind, pairs, lacks) = match settings {
            ImportedSettings::Whole(settings) => (settings.kind().name, owned(&mut settings.pairs()), Vec::new()),
            ImportedSettings::Incomplete { kind, given, lacks } => {
                (kind.name, owned(&mut given.pairs()), lacks.iter().map(|key| (*key).into()).collect())
            }
        };
        let (id, project, name) = (id.0, project.0, name.as_str().into());
        let (disabled, failing, managed) = (trouble(health.disabled), trouble(health.failing), managed(source.as_ref()));
        let unsubscribed = health.unsubscribed.into_iter().map(String::from).collect();
        let arrived = health.proof == DeliveryProof::Arrived;
        let test_failed = if let DeliveryProof::TestFailed(reason) = health.proof { Some(String::from(reason)) } else { None };
        Self::Channel {
            id,
            project,
            uuid,
            name,
            kind: kind.into(),
            pairs,
            lacks,
            operator,
            disabled,
            failing,
            unsubscribed,
            arrived,
            test_failed,
            managed,
        }
    }

    /// The thing, or what is wrong with it.
    ///
    /// # Errors
    /// When something in it is none of what it has to be.
    pub fn staged(self) -> Result<Staged, String> {
        let source = |text: Option<String>| super::source(text.as_deref());
        Ok(match self {
            Self::Project { id, uuid, name, badge_key, old_badge, check_limit, ping_log_limit } => {
                if badge_key.is_empty() || badge_key.len() > MOST_BADGE_KEY || badge_key.contains('/') {
                    return Err(format!("a badge key has 1 to {MOST_BADGE_KEY} bytes, none of them a slash"));
                }
                let project = ImportedProject {
                    uuid,
                    name: ProjectName::parse(&name)?,
                    badge_key: badge_key.into(),
                    old_badge: old_badge.map(|text| bytes(&text).map(OldBadge)).transpose()?,
                    check_limit,
                    ping_log_limit,
                    keys: Vec::new(),
                    channels: Vec::new(),
                    windows: Vec::new(),
                    checks: Vec::new(),
                };
                Staged::Project { id: ProjectId(id), project: Box::new(project) }
            }
            Self::Key { id, project, secret, hint, label, created, used, managed } => {
                let key = ImportedKey {
                    secret: secret.secret()?,
                    hint: hint.chars().take(Key::LONGEST_HINT).collect::<String>().into(),
                    label: KeyLabel::parse(&label)?,
                    created: created.map(Moment::from_micros),
                    used: used.map(|(at, from)| KeyUse { at: Moment::from_micros(at), from }),
                    managed: source(managed)?,
                };
                Staged::Key { id: KeyId(id), project: ProjectId(project), key }
            }
            Self::Channel {
                id,
                project,
                uuid,
                name,
                kind,
                pairs,
                lacks,
                operator,
                disabled,
                failing,
                unsubscribed,
                arrived,
                test_failed,
                managed,
            } => {
                let kind = ChannelKind::named(&kind).ok_or("no such kind of channel")?;
                let health = ChannelHealth {
                    disabled: trouble_of(disabled),
                    failing: trouble_of(failing),
                    proof: match test_failed {
                        _ if arrived => DeliveryProof::Arrived,
                        Some(reason) => DeliveryProof::TestFailed(reason.into()),
                        None => DeliveryProof::None,
                    },
                    unsubscribed: unsubscribed.into_iter().map(Into::into).collect(),
                    // The next mail shows it.
                    refused: Vec::new(),
                };
                let (name, settings, managed) = (ChannelName::parse(&name)?, settings(kind, pairs, &lacks)?, source(managed)?);
                let channel = Box::new(ImportedChannel { uuid, name, settings, operator, health, managed });
                Staged::Channel { id: ChannelId(id), project: ProjectId(project), channel }
            }
            Self::Window { id, project, uuid, name, tags, times, managed } => {
                let name = Name::parse(&name).map_err(|_| "the name of a window")?;
                let (tags, times, managed) = (Tags::stored(&tags), times.times()?, source(managed)?);
                let window = Box::new(ImportedWindow { uuid, name, tags, times, managed });
                Staged::Window { id: WindowId(id), project: ProjectId(project), window }
            }
            Self::Check { id, project, drawn, check } => {
                let check = check.check().map_err(|field| format!("the {field} of a check"))?;
                if check.badge.is_none() && drawn.is_nil() {
                    return Err("a check has no badge".into());
                }
                Staged::Check { id: CheckId(id), project: ProjectId(project), badge: drawn, check: Box::new(check) }
            }
            Self::User { id, uuid, user } => Staged::User { id: UserId(id), uuid, user: Box::new(user.user(uuid)?) },
        })
    }
}

/// What a channel is set to: whole, if nothing is said to be missing.
fn settings(kind: &'static ChannelKind, pairs: Vec<(String, String)>, lacks: &[String]) -> Result<ImportedSettings, String> {
    if lacks.is_empty() {
        // One that was made before more was asked may lack something.
        return Ok(ImportedSettings::Whole(ChannelSettings::stored(kind, pairs).map_err(|error| error.to_string())?));
    }
    let known = |key: &String| kind.fields.iter().map(|field| field.key).find(|known| known == key);
    let lacks = lacks.iter().map(known).collect::<Option<_>>().ok_or("a channel lacks a setting that its kind does not have")?;
    Ok(ImportedSettings::Incomplete { kind, given: GivenSettings::new(pairs), lacks })
}
