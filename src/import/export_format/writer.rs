//! Writes all data of a running server as lines.
//!
//! Checks are copied from memory in batches, each at one point in time. Their logs are read
//! afterwards, up to the numbers that they had at that time. No snapshot of the database lasts
//! longer than a few rows, and the export takes turns with incoming pings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::lines::{
    ExportExtraRow, ExportHeader, ExportLineWriter, FORMAT_VERSION, MAX_BODY_CHUNK_BYTES,
};
use crate::domain::alert::{HoldReason, NotificationState};
use crate::domain::check::{Check, CheckSettings};
use crate::domain::declared::ConfigSource;
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::import_contents::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedKeySecret, ImportedProject,
    ImportedSettings, ImportedUser, ImportedWindow,
};
use crate::domain::import_item::{ImportItem, NumberedFlip, NumberedPing};
use crate::domain::maintenance_window::MaintenanceWindow;
use crate::domain::parents::Parents;
use crate::domain::ping::Ping;
use crate::domain::project::{Channel, KeySecret, Project, ProjectKey};
use crate::domain::timestamp::Timestamp;
use crate::domain::user::{Grant, User};
use crate::engine::state::State;
use crate::engine::{Handle, ServerLocation, Throttle};
use crate::import::item_rows::{ImportFlipRow, ImportItemRow, ImportPingRow, encode_bytes};
use crate::store::StoreError;

/// Number of checks that are copied at one point in time.
const CHECKS_PER_BATCH: usize = 16;
/// Number of pings, without their bodies, that are read from one snapshot.
const PINGS_PER_SNAPSHOT: u64 = 256;

/// Error that ends an export.
#[derive(Debug)]
pub enum ExportError {
    /// Error of the database.
    Store(StoreError),
    /// I/O error of the output.
    Io(io::Error),
    /// An object is longer than a line may be. The text is the beginning of the line.
    TooLong(String),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::TooLong(start) => write!(f, "an object is too long for a line: {start}…"),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Exports everything, or one project without users, with or without logs.
///
/// # Errors
/// Returns an error if the database cannot be read or the output cannot be written. The export then
/// has no end line.
pub fn write_export(
    handle: &Handle,
    project: Option<ProjectId>,
    logs: bool,
    out: impl Write,
) -> Result<(), ExportError> {
    let mut lines = ExportLineWriter::new(out);
    lines.write_row(&ExportHeader {
        overdue: FORMAT_VERSION,
        release: env!("CARGO_PKG_VERSION").into(),
        at: handle.now().micros(),
    })?;
    // The secret signs for all projects.
    if let Some(signing) = handle.badge_secret().filter(|_| project.is_none()) {
        lines.write_row(&ExportExtraRow::Signing(encode_bytes(&signing.0)))?;
    }
    let throttle = Throttle::new(ServerLocation::InProcess(handle));
    let mut exporter = Exporter {
        handle,
        with_logs: logs,
        lines,
        throttle,
        next_number: 1,
        written_secrets: Vec::new(),
    };
    let projects: Vec<_> = handle.with_state(|state| {
        state
            .projects()
            .map(|project_state| project_state.project.id)
            .collect()
    });
    for id in projects
        .into_iter()
        .filter(|id| project.is_none_or(|project| project == *id))
    {
        exporter.write_project(id)?;
    }
    if project.is_none() {
        exporter.write_users()?;
    }
    exporter.lines.finish()
}

struct Exporter<'h, W> {
    handle: &'h Handle,
    with_logs: bool,
    lines: ExportLineWriter<W>,
    throttle: Throttle<'h>,
    /// Number of the next object.
    next_number: u64,
    /// Local numbers of the secrets of other servers that have been written, in the order of their
    /// positions.
    written_secrets: Vec<u8>,
}

/// A project and its objects, without checks, at one point in time; each object with the source
/// that manages it.
struct ExportedProject {
    project: Arc<Project>,
    keys: Vec<(Arc<ProjectKey>, Option<ConfigSource>)>,
    channels: Vec<(Arc<Channel>, Option<ConfigSource>)>,
    windows: Vec<(Arc<MaintenanceWindow>, Option<ConfigSource>)>,
}

impl ExportedProject {
    fn new(state: &State, id: ProjectId) -> Option<Self> {
        let project_state = state.project(id)?;
        let source = |number: u64| state.managed.source(number).cloned();
        let keys = project_state.keys().filter_map(|id| state.key(id));
        Some(Self {
            project: Arc::clone(&project_state.project),
            keys: keys
                .map(|key| (Arc::clone(key), source(key.id.0)))
                .collect(),
            channels: project_state
                .channels
                .values()
                .map(|channel| (Arc::clone(channel), source(channel.id.0)))
                .collect(),
            windows: project_state
                .windows
                .values()
                .map(|window| (Arc::clone(window), source(window.id.0)))
                .collect(),
        })
    }
}

impl<W: Write> Exporter<'_, W> {
    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn write_item(&mut self, staged: ImportItem) -> Result<(), ExportError> {
        self.throttle.pause_if_due();
        self.lines.write_row(&ImportItemRow::from(staged))
    }

    /// Writes a project. A project that is removed by now is left out.
    fn write_project(&mut self, project: ProjectId) -> Result<(), ExportError> {
        let found = self
            .handle
            .with_state(|state| ExportedProject::new(state, project));
        let Some(ExportedProject {
            project: found,
            keys,
            channels,
            windows,
        }) = found
        else {
            return Ok(());
        };
        let id = ProjectId(self.take_number());
        let imported = ImportedProject {
            uuid: found.uuid,
            name: found.name.clone(),
            badge_key: found.badge_key.clone(),
            legacy_badge: found.legacy_badge,
            check_limit: found.check_limit,
            ping_log_limit: found.ping_log_limit,
            allows_ping_settings: found.allows_ping_settings,
            status_pages: found.status_pages.clone(),
            keys: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        };
        self.write_item(ImportItem::Project {
            id,
            project: Box::new(imported),
        })?;
        for (key, managed) in keys {
            let Some(secret) = self.exported_secret(&key)? else {
                continue;
            };
            let hint = key.hint.clone();
            let label = key.label.clone();
            let created = Some(key.created);
            let key = ImportedKey {
                secret,
                hint,
                label,
                created,
                last_use: key.last_use,
                managed_by: managed,
            };
            let number = KeyId(self.take_number());
            self.write_item(ImportItem::Key {
                id: number,
                project: id,
                key,
            })?;
        }
        let mut known = BTreeSet::new();
        for (channel, managed) in channels {
            known.insert(channel.id);
            let Channel {
                uuid,
                name,
                settings,
                set_by_operator: operator,
                health,
                ..
            } = Channel::clone(&channel);
            let settings = ImportedSettings::Complete(settings);
            let channel = Box::new(ImportedChannel {
                uuid,
                name,
                settings,
                set_by_operator: operator,
                health,
                managed_by: managed,
            });
            let number = ChannelId(self.take_number());
            self.write_item(ImportItem::Channel {
                id: number,
                project: id,
                channel,
            })?;
        }
        for (window, managed) in windows {
            let MaintenanceWindow {
                uuid,
                name,
                tags,
                times,
                ..
            } = MaintenanceWindow::clone(&window);
            let number = WindowId(self.take_number());
            let window = Box::new(ImportedWindow {
                uuid,
                name,
                tags,
                times,
                managed_by: managed,
            });
            self.write_item(ImportItem::Window {
                id: number,
                project: id,
                window,
            })?;
        }
        self.write_checks(project, id, &known)
    }

    /// Returns the secret of a key for the export. A secret of another server that it needs is
    /// written before. Returns `None` if that secret is already deleted, because the key has been
    /// used or revoked.
    fn exported_secret(
        &mut self,
        key: &ProjectKey,
    ) -> Result<Option<ImportedKeySecret>, ExportError> {
        let KeySecret::Legacy(hashed) = key.secret else {
            return Ok(Some(ImportedKeySecret::Native(key.secret.clone())));
        };
        let index = self
            .written_secrets
            .iter()
            .position(|number| *number == hashed.secret_number);
        if index.is_none() {
            let adopted = self
                .handle
                .with_state(|state| Arc::clone(&state.legacy_secrets));
            let Some((_, secret)) = adopted
                .iter()
                .find(|(number, _)| *number == hashed.secret_number)
            else {
                return Ok(None);
            };
            self.lines
                .write_row(&ExportExtraRow::Secret(secret.as_str().to_owned()))?;
            self.written_secrets.push(hashed.secret_number);
        }
        // There are at most eight secrets.
        let secret = index.unwrap_or(self.written_secrets.len() - 1) as u8;
        Ok(Some(ImportedKeySecret::Legacy {
            access: key.secret.access(),
            secret_index: secret,
            digest: hashed.digest,
        }))
    }

    fn write_checks(
        &mut self,
        project: ProjectId,
        id: ProjectId,
        known: &BTreeSet<ChannelId>,
    ) -> Result<(), ExportError> {
        let mut last = None;
        loop {
            let batch: Vec<_> = self.handle.with_state(|state| {
                let some = state.checks_after(project, last).take(CHECKS_PER_BATCH);
                some.map(|check| (check.clone(), exported_check(state, check, known)))
                    .collect()
            });
            let Some((newest, _)) = batch.last() else {
                return Ok(());
            };
            last = Some(newest.id);
            for (check, imported) in batch {
                let number = CheckId(self.take_number());
                // A check has its own badge.
                self.write_item(ImportItem::Check {
                    id: number,
                    project: id,
                    badge: check.badge,
                    check: Box::new(imported),
                })?;
                if self.with_logs {
                    self.write_flips(number, &check)?;
                    self.write_pings(number, &check)?;
                }
            }
        }
    }

    /// Writes the flips, oldest first. They are read from the newest on: the start of each page is
    /// recorded, and all pages except the oldest are read again.
    fn write_flips(&mut self, number: CheckId, check: &Check) -> Result<(), ExportError> {
        let all = Timestamp::from_micros(i64::MIN);
        let mut starts = Vec::new();
        let mut start = check.state.last_flip;
        let oldest = loop {
            match self.handle.flips_page(check, start, all)? {
                (_, Some(older)) => starts.push(std::mem::replace(&mut start, older)),
                (page, None) => break page,
            }
            self.throttle.pause_if_due();
        };
        self.write_flip_page(number, oldest)?;
        while let Some(start) = starts.pop() {
            let (page, _) = self.handle.flips_page(check, start, all)?;
            self.write_flip_page(number, page)?;
        }
        Ok(())
    }

    fn write_flip_page(&mut self, check: CheckId, page: Vec<Flip>) -> Result<(), ExportError> {
        self.throttle.pause_if_due();
        let mut flips = page
            .into_iter()
            .rev()
            .map(|flip| ExportExtraRow::Flip(ImportFlipRow::from(NumberedFlip { check, flip })));
        flips.try_for_each(|flip| self.lines.write_row(&flip))
    }

    /// Writes the pings, newest first, so that pruning meanwhile affects only the last ones.
    fn write_pings(&mut self, number: CheckId, check: &Check) -> Result<(), ExportError> {
        let mut n = check.state.n_pings;
        let mut arrival = check.state.last_arrival;
        while n > 0 {
            let page = self
                .handle
                .pings_from(check, n, arrival, PINGS_PER_SNAPSHOT)?;
            if page.is_empty() {
                break;
            }
            for ping in page {
                let body = if ping.body_len == 0 {
                    None
                } else {
                    self.handle.body_at(check, ping.n, arrival)?
                };
                (n, arrival) = (ping.n - 1, ping.previous);
                self.write_ping(number, ping, &body.unwrap_or_default())?;
                self.throttle.pause_if_due();
            }
        }
        Ok(())
    }

    fn write_ping(&mut self, check: CheckId, ping: Ping, body: &[u8]) -> Result<(), ExportError> {
        let Ping {
            n,
            at,
            kind,
            origin,
            rid,
            exit_status: exit,
            ..
        } = ping;
        let mut chunks = body.chunks(MAX_BODY_CHUNK_BYTES);
        let body = Bytes::copy_from_slice(chunks.next().unwrap_or_default());
        self.lines
            .write_row(&ExportExtraRow::Ping(ImportPingRow::from(NumberedPing {
                check,
                n,
                at,
                kind,
                origin,
                rid,
                exit_status: exit,
                body,
            })))?;
        chunks.try_for_each(|chunk| {
            self.lines.write_row(&ExportExtraRow::Body {
                check: check.0,
                n,
                body: encode_bytes(chunk),
            })
        })
    }

    fn write_users(&mut self) -> Result<(), ExportError> {
        let (users, projects): (Vec<_>, BTreeMap<_, _>) = self.handle.with_state(|state| {
            let users = state
                .users
                .iter()
                .map(|user| (Arc::clone(user), state.managed.source(user.id.0).cloned()));
            (
                users.collect(),
                state
                    .projects()
                    .map(|project_state| (project_state.project.id, project_state.project.uuid))
                    .collect(),
            )
        });
        for (user, managed) in users {
            let User {
                uuid,
                name,
                password,
                second_factor: second,
                passkeys,
                identity,
                grant,
                preferences,
                summary,
                created,
                disabled,
                ..
            } = User::clone(&user);
            let owner = grant.is_owner();
            let projects = match grant {
                Grant::Owner => Vec::new(),
                Grant::Projects(granted) => granted
                    .iter()
                    .filter_map(|(id, kind)| Some((*projects.get(&id)?, kind)))
                    .collect(),
            };
            let user = ImportedUser {
                uuid: Some(uuid),
                name,
                password,
                second_factor: second,
                passkeys,
                identity,
                owner,
                projects,
                preferences,
                summary,
                disabled,
                created,
                managed_by: managed,
            };
            let id = UserId(self.take_number());
            self.write_item(ImportItem::User {
                id,
                uuid,
                user: Box::new(user),
            })?;
        }
        Ok(())
    }
}

/// Returns a check in the form of an import. `known` are the channels that have been written.
fn exported_check(state: &State, check: &Check, known: &BTreeSet<ChannelId>) -> ImportedCheck {
    let uuid = |id: CheckId| state.check(id).map(|check| check.uuid);
    let down_parent = match check.state.notification {
        NotificationState::Pending {
            reason: HoldReason::ParentDown(parent),
            ..
        } => uuid(parent),
        _ => None,
    };
    let channels = state
        .channels_of(check)
        .filter(|channel| known.contains(&channel.id));
    ImportedCheck {
        uuid: check.uuid,
        badge: Some(check.badge),
        created: check.state.changed,
        channels: channels.map(|channel| channel.uuid).collect(),
        parents: check
            .settings
            .parents
            .ids()
            .iter()
            .filter_map(|parent| uuid(*parent))
            .collect(),
        settings: CheckSettings {
            channels: Box::default(),
            parents: Parents::default(),
            ..CheckSettings::clone(&check.settings)
        },
        state: check.state,
        down_parent,
        managed_by: state.managed.source(check.id.0).cloned(),
    }
}
