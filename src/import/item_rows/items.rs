//! Rows of projects and their objects of an import.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::check::ImportCheckRow;
use super::key::KeySecretRow;
use super::status_page::{StatusPageRow, parse_pages};
use super::user::ImportUserRow;
use super::{decode_bytes, encode_bytes, source_text};
use crate::channels;
use crate::domain::alert::{ChannelHealth, DeliveryProof};
use crate::domain::channel::{ChannelKind, ChannelSettings, SettingsUpdate};
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::import_contents::{
    ImportedChannel, ImportedKey, ImportedProject, ImportedSettings, ImportedWindow,
};
use crate::domain::import_item::ImportItem;
use crate::domain::legacy_keys::LegacyBadgeKey;
use crate::domain::maintenance_window::{MaintenanceWindow, WindowTimes};
use crate::domain::project::{ChannelName, KeyLabel, KeyUse, ProjectKey, ProjectName};
use crate::domain::schedule::Schedule;
use crate::domain::text::{Name, Tags};
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// An object that is imported. No `Debug`, because some are secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "see `domain::import_item::ImportItem` and `domain::import_contents`"
)]
pub enum ImportItemRow {
    Project {
        id: u64,
        uuid: Uuid,
        name: String,
        badge_key: String,
        /// Badge key in base64.
        old_badge: Option<String>,
        check_limit: Option<u32>,
        ping_log_limit: u32,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ping_settings: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        status_pages: Vec<StatusPageRow>,
    },
    Key {
        id: u64,
        project: u64,
        secret: KeySecretRow,
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
        /// Time and reason.
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
        times: WindowTimesRow,
        managed: Option<String>,
    },
    Check {
        id: u64,
        project: u64,
        /// Badge for a check that has none; absent otherwise.
        #[serde(default, skip_serializing_if = "Uuid::is_nil")]
        drawn: Uuid,
        check: Box<ImportCheckRow>,
    },
    User {
        id: u64,
        uuid: Uuid,
        user: Box<ImportUserRow>,
    },
}

/// Maximum size in bytes of the segment that names a project in badge URLs. Another server's
/// segment may have 150 characters.
const MAX_BADGE_KEY_BYTES: usize = 600;

/// Times at which a window is open.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "see `domain::maintenance_window::WindowTimes`")]
pub enum WindowTimesRow {
    Once {
        from: i64,
        to: i64,
    },
    Recurring {
        schedule: String,
        tz: String,
        minutes: u32,
    },
}

impl From<&WindowTimes> for WindowTimesRow {
    fn from(times: &WindowTimes) -> Self {
        match times {
            WindowTimes::Once { from, to } => Self::Once {
                from: from.micros(),
                to: to.micros(),
            },
            WindowTimes::Recurring {
                schedule,
                tz,
                minutes,
            } => Self::Recurring {
                schedule: schedule.text().into(),
                tz: tz.name().into(),
                minutes: *minutes,
            },
        }
    }
}

impl WindowTimesRow {
    fn into_times(self) -> Result<WindowTimes, String> {
        Ok(match self {
            Self::Once { from, to } => {
                let from = Timestamp::from_micros(from);
                let to = Timestamp::from_micros(to);
                let longest = from.plus_secs(MaintenanceWindow::MAX_MINUTES.cast_signed() * 60);
                if to <= from || to > longest {
                    return Err(
                        "a window must end after it begins, and at most 366 days later".into(),
                    );
                }
                WindowTimes::Once { from, to }
            }
            Self::Recurring {
                schedule,
                tz,
                minutes,
            } => {
                let schedule = Schedule::parse(&schedule)
                    .map_err(|error| format!("invalid schedule of a window: {error}"))?;
                let tz = Timezone::parse(&tz)
                    .map_err(|error| format!("invalid tz of a window: {error}"))?;
                if !(1..=MaintenanceWindow::MAX_RECURRING_MINUTES).contains(&minutes.into()) {
                    return Err(format!(
                        "a window lasts {minutes} minutes: it must last 1 to {}",
                        MaintenanceWindow::MAX_RECURRING_MINUTES
                    ));
                }
                WindowTimes::Recurring {
                    schedule: Arc::new(schedule),
                    tz,
                    minutes,
                }
            }
        })
    }
}

/// Start time and reason of a problem, as a row has them.
fn issue_row(trouble: Option<(Timestamp, Box<str>)>) -> Option<(i64, String)> {
    trouble.map(|(since, reason)| (since.micros(), reason.into()))
}

fn parse_issue(row: Option<(i64, String)>) -> Option<(Timestamp, Box<str>)> {
    row.map(|(since, reason)| (Timestamp::from_micros(since), reason.into()))
}

impl From<ImportItem> for ImportItemRow {
    fn from(staged: ImportItem) -> Self {
        match staged {
            ImportItem::Project { id, project } => Self::Project {
                id: id.0,
                uuid: project.uuid,
                name: project.name.as_str().into(),
                badge_key: project.badge_key.into(),
                old_badge: project
                    .legacy_badge
                    .map(|LegacyBadgeKey(key)| encode_bytes(&key)),
                check_limit: project.check_limit,
                ping_log_limit: project.ping_log_limit,
                ping_settings: project.allows_ping_settings,
                status_pages: project
                    .status_pages
                    .iter()
                    .map(StatusPageRow::from)
                    .collect(),
            },
            ImportItem::Key { id, project, key } => Self::Key {
                id: id.0,
                project: project.0,
                secret: key.secret.into(),
                hint: key.hint.into(),
                label: key.label.as_str().into(),
                created: key.created.map(Timestamp::micros),
                used: key.last_use.map(|used| (used.at.micros(), used.from)),
                managed: source_text(key.managed_by.as_ref()),
            },
            ImportItem::Channel {
                id,
                project,
                channel,
            } => Self::from_channel(id, project, *channel),
            ImportItem::Window {
                id,
                project,
                window,
            } => Self::Window {
                id: id.0,
                project: project.0,
                uuid: window.uuid,
                name: window.name.as_str().into(),
                tags: window.tags.as_str().into(),
                times: (&window.times).into(),
                managed: source_text(window.managed_by.as_ref()),
            },
            ImportItem::Check {
                id,
                project,
                badge,
                check,
            } => {
                let drawn = if check.badge.is_some() {
                    Uuid::nil()
                } else {
                    badge
                };
                Self::Check {
                    id: id.0,
                    project: project.0,
                    drawn,
                    check: Box::new((*check).into()),
                }
            }
            ImportItem::User { id, uuid, user } => Self::User {
                id: id.0,
                uuid,
                user: Box::new((*user).into()),
            },
        }
    }
}

impl ImportItemRow {
    fn from_channel(id: ChannelId, project: ProjectId, channel: ImportedChannel) -> Self {
        let ImportedChannel {
            uuid,
            name,
            settings,
            set_by_operator: operator,
            health,
            managed_by: source,
        } = channel;
        let owned = |pairs: &mut dyn Iterator<Item = (&str, &str)>| {
            pairs
                .map(|(key, value)| (key.into(), value.into()))
                .collect()
        };
        let (kind, pairs, lacks) = match settings {
            ImportedSettings::Complete(settings) => (
                settings.kind().name,
                owned(&mut settings.pairs()),
                Vec::new(),
            ),
            ImportedSettings::Incomplete {
                kind,
                settings: given,
                missing: lacks,
            } => (
                kind.name,
                owned(&mut given.pairs()),
                lacks.iter().map(|key| (*key).into()).collect(),
            ),
        };
        let id = id.0;
        let project = project.0;
        let name = name.as_str().into();
        let disabled = issue_row(health.disabled);
        let failing = issue_row(health.failing);
        let managed = source_text(source.as_ref());
        let unsubscribed = health.unsubscribed.into_iter().map(String::from).collect();
        let arrived = health.proof == DeliveryProof::Delivered;
        let test_failed = if let DeliveryProof::TestFailed(reason) = health.proof {
            Some(String::from(reason))
        } else {
            None
        };
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

    /// Converts the row to an object.
    ///
    /// # Errors
    /// Returns an error if a value is invalid.
    pub fn into_item(self) -> Result<ImportItem, String> {
        let source = |text: Option<String>| super::parse_source(text.as_deref());
        Ok(match self {
            Self::Project {
                id,
                uuid,
                name,
                badge_key,
                old_badge,
                check_limit,
                ping_log_limit,
                ping_settings,
                status_pages,
            } => {
                if badge_key.is_empty()
                    || badge_key.len() > MAX_BADGE_KEY_BYTES
                    || badge_key.contains('/')
                {
                    return Err(format!(
                        "a badge key has 1 to {MAX_BADGE_KEY_BYTES} bytes without slashes"
                    ));
                }
                let project = ImportedProject {
                    uuid,
                    name: ProjectName::parse(&name)?,
                    badge_key: badge_key.into(),
                    legacy_badge: old_badge
                        .map(|text| decode_bytes(&text).map(LegacyBadgeKey))
                        .transpose()?,
                    check_limit,
                    ping_log_limit,
                    allows_ping_settings: ping_settings,
                    status_pages: parse_pages(status_pages)?,
                    keys: Vec::new(),
                    channels: Vec::new(),
                    windows: Vec::new(),
                    checks: Vec::new(),
                };
                ImportItem::Project {
                    id: ProjectId(id),
                    project: Box::new(project),
                }
            }
            Self::Key {
                id,
                project,
                secret,
                hint,
                label,
                created,
                used,
                managed,
            } => {
                let key = ImportedKey {
                    secret: secret.into_secret()?,
                    hint: hint
                        .chars()
                        .take(ProjectKey::MAX_IMPORTED_HINT_LENGTH)
                        .collect::<String>()
                        .into(),
                    label: KeyLabel::parse(&label)?,
                    created: created.map(Timestamp::from_micros),
                    last_use: used.map(|(at, from)| KeyUse {
                        at: Timestamp::from_micros(at),
                        from,
                    }),
                    managed_by: source(managed)?,
                };
                ImportItem::Key {
                    id: KeyId(id),
                    project: ProjectId(project),
                    key,
                }
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
                let kind = channels::find_kind(&kind).ok_or("unknown kind of channel")?;
                let health = ChannelHealth {
                    disabled: parse_issue(disabled),
                    failing: parse_issue(failing),
                    proof: match test_failed {
                        _ if arrived => DeliveryProof::Delivered,
                        Some(reason) => DeliveryProof::TestFailed(reason.into()),
                        None => DeliveryProof::None,
                    },
                    unsubscribed: unsubscribed.into_iter().map(Into::into).collect(),
                    // The next mail detects them again.
                    refused: Vec::new(),
                };
                let name = ChannelName::parse(&name)?;
                let settings = parse_settings(kind, pairs, &lacks)?;
                let managed = source(managed)?;
                let channel = Box::new(ImportedChannel {
                    uuid,
                    name,
                    settings,
                    set_by_operator: operator,
                    health,
                    managed_by: managed,
                });
                ImportItem::Channel {
                    id: ChannelId(id),
                    project: ProjectId(project),
                    channel,
                }
            }
            Self::Window {
                id,
                project,
                uuid,
                name,
                tags,
                times,
                managed,
            } => {
                let name = Name::parse(&name).map_err(|_| "invalid name of a window")?;
                let tags = Tags::from_stored(&tags);
                let times = times.into_times()?;
                let managed = source(managed)?;
                let window = Box::new(ImportedWindow {
                    uuid,
                    name,
                    tags,
                    times,
                    managed_by: managed,
                });
                ImportItem::Window {
                    id: WindowId(id),
                    project: ProjectId(project),
                    window,
                }
            }
            Self::Check {
                id,
                project,
                drawn,
                check,
            } => {
                let check = check
                    .into_check()
                    .map_err(|field| format!("invalid {field} of a check"))?;
                if check.badge.is_none() && drawn.is_nil() {
                    return Err("a check has no badge".into());
                }
                ImportItem::Check {
                    id: CheckId(id),
                    project: ProjectId(project),
                    badge: drawn,
                    check: Box::new(check),
                }
            }
            Self::User { id, uuid, user } => ImportItem::User {
                id: UserId(id),
                uuid,
                user: Box::new(user.into_user(uuid)?),
            },
        })
    }
}

/// Parses the settings of a channel: complete if no setting is listed as missing.
fn parse_settings(
    kind: &'static ChannelKind,
    pairs: Vec<(String, String)>,
    lacks: &[String],
) -> Result<ImportedSettings, String> {
    if lacks.is_empty() {
        // A channel from before a setting became mandatory may lack it.
        return Ok(ImportedSettings::Complete(
            ChannelSettings::from_incomplete(kind, pairs).map_err(|error| error.to_string())?,
        ));
    }
    let known = |key: &String| {
        kind.fields
            .iter()
            .map(|field| field.key)
            .find(|known| known == key)
    };
    let lacks = lacks
        .iter()
        .map(known)
        .collect::<Option<_>>()
        .ok_or("a missing setting of a channel is unknown for its kind")?;
    Ok(ImportedSettings::Incomplete {
        kind,
        settings: SettingsUpdate::replace_all(pairs),
        missing: lacks,
    })
}
