//! Rows of projects, keys and channels: few, small, read completely at start.

use std::collections::BTreeSet;
use std::net::IpAddr;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record::{self, Record};
use super::{Batch, Snapshot, StoreError};
use crate::channels;
use crate::domain::alert::{ChannelHealth, DeliveryProof, Outage, RefusedRecipient};
use crate::domain::channel::ChannelSettings;
use crate::domain::ids::{ChannelId, KeyId, ProjectId};
use crate::domain::import_item::ProjectImport;
use crate::domain::legacy_keys::{LegacyBadgeKey, LegacyKey, LegacyKeyDigest};
use crate::domain::project::{
    Channel, ChannelName, DEFAULT_PING_LOG_LIMIT, KeyLabel, KeySecret, KeyUse, PingKey, Project,
    ProjectKey, ProjectName, SecretHash, resolve_stored_members,
};
use crate::domain::status_page::{
    StatusPage, StatusPageAddress, StatusPageDomain, StatusPageTitle,
};
use crate::domain::text::Tags;
use crate::domain::timestamp::Timestamp;

/// `projects`: project id -> `ProjectRecord`.
pub(super) const PROJECTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("projects");
/// `keys`: key id -> `KeyRecord`.
pub(super) const KEYS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("keys");
/// `channels`: channel id -> `ChannelRecord`.
pub(super) const CHANNELS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("channels");

#[derive(Serialize, Deserialize)]
struct ProjectRecord<'a> {
    uuid: Uuid,
    name: &'a str,
    check_limit: Option<u32>,
    ping_log_limit: u32,
    badge_key: &'a str,
    /// Since version 2.
    #[serde(default)]
    old_badge: Option<[u8; 20]>,
    /// Since version 3.
    #[serde(default)]
    import: Option<ProjectImportRecord>,
    /// Since version 4.
    #[serde(borrow, default)]
    status_pages: Vec<StatusPageRecord<'a>>,
    /// Since version 4: true if pings may give settings.
    #[serde(default)]
    ping_settings: bool,
}

/// UUID, address, title, tags and domain.
type StatusPageRecord<'a> = (Uuid, &'a str, &'a str, &'a str, Option<&'a str>);

/// First number, number after the last, true if on trial, and the period in which pings went to the
/// other server.
type ProjectImportRecord = (u64, u64, bool, Option<(i64, i64)>);

impl<'a> Record<'a> for ProjectRecord<'a> {
    const TABLE: &'static str = "projects";
    const VERSION: u8 = 4;
}

#[derive(Serialize, Deserialize)]
enum SecretRecord {
    ReadWrite([u8; 32]),
    ReadOnly([u8; 32]),
    Ping(String),
    /// Version 3 of keys: true if read-only, number of the secret, digest.
    Hashed(bool, u8, [u8; 32]),
}

#[derive(Serialize, Deserialize)]
struct KeyRecord<'a> {
    project: u64,
    secret: SecretRecord,
    created: i64,
    /// Since version 2.
    #[serde(default)]
    label: &'a str,
    #[serde(default)]
    hint: &'a str,
    #[serde(default)]
    used: Option<(i64, IpAddr)>,
}

impl<'a> Record<'a> for KeyRecord<'a> {
    const TABLE: &'static str = "keys";
    const VERSION: u8 = 3;
}

#[derive(Serialize, Deserialize)]
struct ChannelRecord<'a> {
    uuid: Uuid,
    project: u64,
    name: &'a str,
    kind: &'a str,
    #[serde(borrow)]
    settings: Vec<(&'a str, &'a str)>,
    /// Since version 2. Before, only operators created channels.
    #[serde(default = "yes")]
    operator: bool,
    #[serde(default)]
    disabled: Option<(i64, &'a str)>,
    #[serde(default)]
    failing: Option<(i64, &'a str)>,
    /// Since version 3. `arrived` is true after a successful delivery; `test_failed` is the reason
    /// of a failed last test.
    #[serde(default)]
    arrived: bool,
    #[serde(default)]
    test_failed: Option<&'a str>,
    #[serde(default)]
    unsubscribed: Vec<&'a str>,
    /// Since version 4. Address, time and reason.
    #[serde(default)]
    refused: Vec<(&'a str, i64, &'a str)>,
}

fn yes() -> bool {
    true
}

impl<'a> Record<'a> for ChannelRecord<'a> {
    const TABLE: &'static str = "channels";
    const VERSION: u8 = 4;
}

/// Creates the tables so that readers can open them.
pub(super) fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    for table in [PROJECTS, KEYS, CHANNELS] {
        transaction.open_table(table)?;
    }
    Ok(())
}

impl Batch {
    /// Writes a project.
    pub fn put_project(&self, project: &Project) -> Result<(), StoreError> {
        let row = ProjectRecord {
            uuid: project.uuid,
            name: project.name.as_str(),
            check_limit: project.check_limit,
            ping_log_limit: project.ping_log_limit,
            ping_settings: project.allows_ping_settings,
            badge_key: &project.badge_key,
            old_badge: project.legacy_badge.map(|LegacyBadgeKey(key)| key),
            import: project.import.as_ref().map(|import| {
                let outage = import
                    .outage
                    .map(|Outage { from, to }| (from.micros(), to.micros()));
                (
                    import.id_range.start,
                    import.id_range.end,
                    import.is_on_trial,
                    outage,
                )
            }),
            status_pages: project
                .status_pages
                .iter()
                .map(status_page_record)
                .collect(),
        };
        self.put_record(PROJECTS, project.id.0, &row)
    }

    /// Writes a key.
    pub fn put_key(&self, key: &ProjectKey) -> Result<(), StoreError> {
        let secret = match &key.secret {
            KeySecret::ReadWrite(hash) => SecretRecord::ReadWrite(hash.0),
            KeySecret::ReadOnly(hash) => SecretRecord::ReadOnly(hash.0),
            KeySecret::Ping(ping_key) => SecretRecord::Ping(ping_key.as_str().into()),
            KeySecret::Legacy(LegacyKey {
                read_only,
                secret_number: secret,
                digest,
            }) => SecretRecord::Hashed(*read_only, *secret, digest.0),
        };
        let row = KeyRecord {
            project: key.project.0,
            secret,
            created: key.created.micros(),
            label: key.label.as_str(),
            hint: &key.hint,
            used: key.last_use.map(|used| (used.at.micros(), used.from)),
        };
        self.put_record(KEYS, key.id.0, &row)
    }

    /// Writes a channel.
    pub fn put_channel(&self, channel: &Channel) -> Result<(), StoreError> {
        self.put_record(CHANNELS, channel.id.0, &channel_record(channel))
    }

    /// Removes a project. Its keys, channels and checks are removed separately.
    pub fn remove_project(&self, id: ProjectId) -> Result<(), StoreError> {
        self.table(PROJECTS)?.remove(id.0)?;
        Ok(())
    }

    /// Removes a key.
    pub fn remove_key(&self, id: KeyId) -> Result<(), StoreError> {
        self.table(KEYS)?.remove(id.0)?;
        Ok(())
    }

    /// Removes a channel.
    pub fn remove_channel(&self, id: ChannelId) -> Result<(), StoreError> {
        self.table(CHANNELS)?.remove(id.0)?;
        Ok(())
    }

    /// Writes a row.
    pub(super) fn put_record<'a, R: Record<'a>>(
        &self,
        table: TableDefinition<'static, u64, &'static [u8]>,
        id: u64,
        row: &R,
    ) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        record::encode(row, &mut bytes)?;
        self.table(table)?.insert(id, bytes.as_slice())?;
        Ok(())
    }
}

fn channel_record(channel: &Channel) -> ChannelRecord<'_> {
    let health = &channel.health;
    ChannelRecord {
        uuid: channel.uuid,
        project: channel.project.0,
        name: channel.name.as_str(),
        kind: channel.settings.kind().name,
        settings: channel.settings.pairs().collect(),
        operator: channel.set_by_operator,
        disabled: health_issue(health.disabled.as_ref()),
        failing: health_issue(health.failing.as_ref()),
        arrived: health.proof == DeliveryProof::Delivered,
        test_failed: match &health.proof {
            DeliveryProof::TestFailed(reason) => Some(reason),
            DeliveryProof::None | DeliveryProof::Delivered => None,
        },
        unsubscribed: health
            .unsubscribed
            .iter()
            .map(|recipient| &**recipient)
            .collect(),
        refused: health
            .refused
            .iter()
            .map(|refused| (&*refused.address, refused.since.micros(), &*refused.reason))
            .collect(),
    }
}

/// Rewrites channels of earlier versions: groups list their members by UUID, and channels in
/// `reached_channels` get a successful delivery. A row that this release cannot read stays
/// unchanged.
pub(super) fn rewrite_channels(
    transaction: &WriteTransaction,
    reached_channels: &BTreeSet<ChannelId>,
) -> Result<(), StoreError> {
    let mut table = transaction.open_table(CHANNELS)?;
    let mut channels = Vec::new();
    for row in table.iter()? {
        let (id, bytes) = row?;
        channels.extend(read_channel(id.value(), bytes.value()));
    }
    resolve_stored_members(&mut channels);
    for mut channel in channels {
        for name in channel.settings.unresolved_members() {
            let group = channel.name.as_str();
            tracing::warn!(
                channel = %channel.uuid,
                "the group \"{group}\" lists \"{name}\", which is not a channel: it has no \
                effect there"
            );
        }
        if reached_channels.contains(&channel.id) {
            channel.health.proof = DeliveryProof::Delivered;
        }
        let mut bytes = Vec::new();
        record::encode(&channel_record(&channel), &mut bytes)?;
        table.insert(channel.id.0, bytes.as_slice())?;
    }
    Ok(())
}

/// Start time and reason of a problem, as stored.
fn health_issue(issue: Option<&(Timestamp, Box<str>)>) -> Option<(i64, &str)> {
    issue.map(|(since, reason)| (since.micros(), &**reason))
}

fn read_health_issue((since, reason): (i64, &str)) -> (Timestamp, Box<str>) {
    (Timestamp::from_micros(since), reason.into())
}

fn refused_from_stored((address, since, reason): (&str, i64, &str)) -> RefusedRecipient {
    RefusedRecipient {
        address: address.into(),
        since: Timestamp::from_micros(since),
        reason: reason.into(),
    }
}

/// Reads the project in a row.
pub(super) fn read_project(id: u64, bytes: &[u8]) -> Result<Project, StoreError> {
    let row: ProjectRecord<'_> = record::decode(bytes)?;
    Ok(Project {
        id: ProjectId(id),
        uuid: row.uuid,
        name: ProjectName::parse(row.name)
            .map_err(|reason| record::invalid_row::<ProjectRecord<'_>>(&reason))?,
        check_limit: row.check_limit,
        ping_log_limit: row.ping_log_limit,
        allows_ping_settings: row.ping_settings,
        badge_key: row.badge_key.into(),
        legacy_badge: row.old_badge.map(LegacyBadgeKey),
        import: row.import.map(|(first, end, is_on_trial, outage)| {
            let outage = outage.map(|(from, to)| Outage {
                from: Timestamp::from_micros(from),
                to: Timestamp::from_micros(to),
            });
            ProjectImport {
                id_range: first..end,
                is_on_trial,
                outage,
            }
        }),
        status_pages: row
            .status_pages
            .into_iter()
            .map(read_status_page)
            .collect::<Result<_, _>>()
            .map_err(|reason| record::invalid_row::<ProjectRecord<'_>>(&reason))?,
    })
}

fn status_page_record(page: &StatusPage) -> StatusPageRecord<'_> {
    (
        page.uuid,
        page.address.as_str(),
        page.title.as_str(),
        page.tags.as_str(),
        page.domain.as_ref().map(StatusPageDomain::as_str),
    )
}

fn read_status_page(row: StatusPageRecord<'_>) -> Result<StatusPage, &'static str> {
    let (uuid, address, title, tags, domain) = row;
    Ok(StatusPage {
        uuid,
        address: StatusPageAddress::parse(address)?,
        title: StatusPageTitle::parse(title)?,
        tags: Tags::from_stored(tags),
        domain: domain.map(StatusPageDomain::parse).transpose()?,
    })
}

/// Reads the key in a row.
pub(super) fn read_key(id: u64, bytes: &[u8]) -> Result<ProjectKey, StoreError> {
    let row: KeyRecord<'_> = record::decode(bytes)?;
    let secret = match row.secret {
        SecretRecord::ReadWrite(hash) => KeySecret::ReadWrite(SecretHash(hash)),
        SecretRecord::ReadOnly(hash) => KeySecret::ReadOnly(SecretHash(hash)),
        SecretRecord::Hashed(read_only, secret, digest) => KeySecret::Legacy(LegacyKey {
            read_only,
            secret_number: secret,
            digest: LegacyKeyDigest(digest),
        }),
        SecretRecord::Ping(text) => KeySecret::Ping(
            PingKey::parse(&text)
                .ok_or_else(|| record::invalid_row::<KeyRecord<'_>>(&"not a ping key"))?,
        ),
    };
    Ok(ProjectKey {
        id: KeyId(id),
        project: ProjectId(row.project),
        secret,
        label: KeyLabel::parse(row.label)
            .map_err(|reason| record::invalid_row::<KeyRecord<'_>>(&reason))?,
        hint: row.hint.into(),
        created: Timestamp::from_micros(row.created),
        last_use: row.used.map(|(at, from)| KeyUse {
            at: Timestamp::from_micros(at),
            from,
        }),
    })
}

/// Reads the channel in a row.
pub(super) fn read_channel(id: u64, bytes: &[u8]) -> Result<Channel, StoreError> {
    let row: ChannelRecord<'_> = record::decode(bytes)?;
    let kind = channels::find_kind(row.kind)
        .ok_or_else(|| record::invalid_row::<ChannelRecord<'_>>(&"not a kind of channel"))?;
    Ok(Channel {
        id: ChannelId(id),
        uuid: row.uuid,
        project: ProjectId(row.project),
        name: ChannelName::parse(row.name)
            .map_err(|reason| record::invalid_row::<ChannelRecord<'_>>(&reason))?,
        settings: ChannelSettings::from_incomplete(kind, row.settings)
            .map_err(|error| record::invalid_row::<ChannelRecord<'_>>(&error))?,
        set_by_operator: row.operator,
        health: ChannelHealth {
            disabled: row.disabled.map(read_health_issue),
            failing: row.failing.map(read_health_issue),
            proof: match row.test_failed {
                _ if row.arrived => DeliveryProof::Delivered,
                Some(reason) => DeliveryProof::TestFailed(reason.into()),
                None => DeliveryProof::None,
            },
            unsubscribed: row.unsubscribed.into_iter().map(Into::into).collect(),
            refused: row.refused.into_iter().map(refused_from_stored).collect(),
        },
    })
}

/// Returns the reason why a project's row cannot be read, and a replacement row for its checks and
/// keys.
pub(super) fn unreadable_project_row(
    id: u64,
    bytes: &[u8],
) -> Option<(StoreError, Option<Vec<u8>>)> {
    let error = read_project(id, bytes).err()?;
    let name = format!("project {id}, which this release cannot read");
    let badge_key = format!("aside-{id}");
    let uuid = Uuid::from_u128(u128::from(id));
    let badge_key = badge_key.as_str();
    let ping_log_limit = DEFAULT_PING_LOG_LIMIT;
    let row = ProjectRecord {
        uuid,
        name: &name,
        check_limit: None,
        ping_log_limit,
        badge_key,
        old_badge: None,
        import: None,
        status_pages: Vec::new(),
        ping_settings: false,
    };
    let mut replacement = Vec::new();
    let encoded = record::encode(&row, &mut replacement);
    Some((error, encoded.ok().map(|()| replacement)))
}

impl Snapshot {
    /// Returns every project, oldest first.
    pub fn projects(&self) -> Result<Vec<Project>, StoreError> {
        self.rows(PROJECTS, read_project)
    }

    /// Returns every key, oldest first.
    pub fn keys(&self) -> Result<Vec<ProjectKey>, StoreError> {
        self.rows(KEYS, read_key)
    }

    /// Returns every channel, oldest first.
    pub fn channels(&self) -> Result<Vec<Channel>, StoreError> {
        self.rows(CHANNELS, read_channel)
    }

    /// Returns every row of a table, in order of keys.
    pub(super) fn rows<T>(
        &self,
        table: TableDefinition<'_, u64, &[u8]>,
        read: impl Fn(u64, &[u8]) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.transaction
            .open_table(table)?
            .iter()?
            .map(|row| {
                let (id, bytes) = row?;
                read(id.value(), bytes.value())
            })
            .collect()
    }
}
