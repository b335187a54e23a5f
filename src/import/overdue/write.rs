//! Everything that there is, written as lines while it is in use.
//!
//! Of each piece of the checks what is in memory is taken in one moment; their logs are read after it, up to the numbers that they had
//! then. No look at the file lasts longer than some rows, and while pings come it takes turns with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::line::{FORMAT, HeadRow, Lines, MOST_PIECE, OtherRow};
use crate::domain::alert::{Held, Telling};
use crate::domain::check::{Check, Settings};
use crate::domain::flip::Flip;
use crate::domain::ids::{ChannelId, CheckId, KeyId, ProjectId, UserId, WindowId};
use crate::domain::imported::{
    ImportedChannel, ImportedCheck, ImportedKey, ImportedProject, ImportedSecret, ImportedSettings, ImportedUser, ImportedWindow,
};
use crate::domain::moment::Moment;
use crate::domain::parents::Parents;
use crate::domain::ping::Ping;
use crate::domain::project::{Channel, Key, Project, Secret};
use crate::domain::staged::{Staged, StagedFlip, StagedPing};
use crate::domain::user::{Grant, User};
use crate::domain::wanted::Source;
use crate::domain::window::Window;
use crate::engine::state::State;
use crate::engine::{Beside, Handle, Pace};
use crate::import::staged::{StagedFlipRow, StagedPingRow, StagedRow, text};
use crate::store::StoreError;

/// Checks that are looked at in one moment.
const CHECKS_AT_ONCE: usize = 16;
/// Pings, without their bodies, that are read from one snapshot.
const PINGS_AT_ONCE: u64 = 256;

/// Why an export has no end.
#[derive(Debug)]
pub enum ExportError {
    /// The database.
    Store(StoreError),
    /// What it is written to.
    Io(io::Error),
    /// Something is longer than a line may be; this is how the line begins.
    TooLong(String),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::TooLong(start) => write!(f, "something is longer than a line may be: {start}…"),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Writes everything, or one project without users; with logs or without.
///
/// # Errors
/// When the database cannot be read, or the lines cannot be written: they have no end then.
pub fn write(handle: &Handle, project: Option<ProjectId>, logs: bool, out: impl Write) -> Result<(), ExportError> {
    let mut lines = Lines::new(out);
    lines.put(&HeadRow { overdue: FORMAT, release: env!("CARGO_PKG_VERSION").into(), at: handle.now().micros() })?;
    // It signs for all projects.
    if let Some(signing) = handle.badge_secret().filter(|_| project.is_none()) {
        lines.put(&OtherRow::Signing(text(&signing.0)))?;
    }
    let pace = Pace::new(Beside::Server(handle));
    let mut exporter = Exporter { handle, logs, lines, pace, next: 1, secrets: Vec::new() };
    let projects: Vec<_> = handle.with_state(|state| state.projects().map(|project_state| project_state.project.id).collect());
    for id in projects.into_iter().filter(|id| project.is_none_or(|project| project == *id)) {
        exporter.project(id)?;
    }
    if project.is_none() {
        exporter.users()?;
    }
    exporter.lines.end()
}

struct Exporter<'h, W> {
    handle: &'h Handle,
    logs: bool,
    lines: Lines<W>,
    pace: Pace<'h>,
    /// The next number of a thing.
    next: u64,
    /// The numbers here of the secrets of other servers that have been written, in their places.
    secrets: Vec<u8>,
}

/// A project and what belongs to it, but for its checks, as of one moment; each with the file that owns it.
struct Found {
    project: Arc<Project>,
    keys: Vec<(Arc<Key>, Option<Source>)>,
    channels: Vec<(Arc<Channel>, Option<Source>)>,
    windows: Vec<(Arc<Window>, Option<Source>)>,
}

impl Found {
    fn new(state: &State, id: ProjectId) -> Option<Self> {
        let project_state = state.project(id)?;
        let source = |number: u64| state.managed.source(number).cloned();
        let keys = project_state.keys().filter_map(|id| state.key(id));
        Some(Self {
            project: Arc::clone(&project_state.project),
            keys: keys.map(|key| (Arc::clone(key), source(key.id.0))).collect(),
            channels: project_state.channels.values().map(|channel| (Arc::clone(channel), source(channel.id.0))).collect(),
            windows: project_state.windows.values().map(|window| (Arc::clone(window), source(window.id.0))).collect(),
        })
    }
}

impl<W: Write> Exporter<'_, W> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn thing(&mut self, staged: Staged) -> Result<(), ExportError> {
        self.pace.rest();
        self.lines.put(&StagedRow::from(staged))
    }

    /// One that is gone by now is left out.
    fn project(&mut self, project: ProjectId) -> Result<(), ExportError> {
        let found = self.handle.with_state(|state| Found::new(state, project));
        let Some(Found { project: found, keys, channels, windows }) = found else { return Ok(()) };
        let id = ProjectId(self.number());
        let imported = ImportedProject {
            uuid: found.uuid,
            name: found.name.clone(),
            badge_key: found.badge_key.clone(),
            old_badge: found.old_badge,
            check_limit: found.check_limit,
            ping_log_limit: found.ping_log_limit,
            keys: Vec::new(),
            channels: Vec::new(),
            windows: Vec::new(),
            checks: Vec::new(),
        };
        self.thing(Staged::Project { id, project: Box::new(imported) })?;
        for (key, managed) in keys {
            let Some(secret) = self.secret(&key)? else { continue };
            let (hint, label, created) = (key.hint.clone(), key.label.clone(), Some(key.created));
            let key = ImportedKey { secret, hint, label, created, used: key.used, managed };
            let number = KeyId(self.number());
            self.thing(Staged::Key { id: number, project: id, key })?;
        }
        let mut known = BTreeSet::new();
        for (channel, managed) in channels {
            known.insert(channel.id);
            let Channel { uuid, name, settings, operator, health, .. } = Channel::clone(&channel);
            let settings = ImportedSettings::Whole(settings);
            let channel = Box::new(ImportedChannel { uuid, name, settings, operator, health, managed });
            let number = ChannelId(self.number());
            self.thing(Staged::Channel { id: number, project: id, channel })?;
        }
        for (window, managed) in windows {
            let Window { uuid, name, tags, times, .. } = Window::clone(&window);
            let number = WindowId(self.number());
            let window = Box::new(ImportedWindow { uuid, name, tags, times, managed });
            self.thing(Staged::Window { id: number, project: id, window })?;
        }
        self.checks(project, id, &known)
    }

    /// What a key is recognised by. The secret of another server that it needs is written before it; if that was forgotten meanwhile, the
    /// key has been used or revoked.
    fn secret(&mut self, key: &Key) -> Result<Option<ImportedSecret>, ExportError> {
        let Secret::Hashed(hashed) = key.secret else { return Ok(Some(ImportedSecret::Own(key.secret.clone()))) };
        let place = self.secrets.iter().position(|number| *number == hashed.secret);
        if place.is_none() {
            let adopted = self.handle.with_state(|state| Arc::clone(&state.adopted));
            let Some((_, secret)) = adopted.iter().find(|(number, _)| *number == hashed.secret) else { return Ok(None) };
            self.lines.put(&OtherRow::Secret(secret.as_str().to_owned()))?;
            self.secrets.push(hashed.secret);
        }
        // There are at most eight.
        let secret = place.unwrap_or(self.secrets.len() - 1) as u8;
        Ok(Some(ImportedSecret::Hashed { access: key.secret.access(), secret, digest: hashed.digest }))
    }

    fn checks(&mut self, project: ProjectId, id: ProjectId, known: &BTreeSet<ChannelId>) -> Result<(), ExportError> {
        let mut last = None;
        loop {
            let piece: Vec<_> = self.handle.with_state(|state| {
                let some = state.checks_after(project, last).take(CHECKS_AT_ONCE);
                some.map(|check| (check.clone(), exported(state, check, known))).collect()
            });
            let Some((newest, _)) = piece.last() else { return Ok(()) };
            last = Some(newest.id);
            for (check, imported) in piece {
                let number = CheckId(self.number());
                // It has a badge of its own.
                self.thing(Staged::Check { id: number, project: id, badge: check.badge, check: Box::new(imported) })?;
                if self.logs {
                    self.flips(number, &check)?;
                    self.pings(number, &check)?;
                }
            }
        }
    }

    /// The oldest first. They are read from the newest on: where pieces begin is noted, and all but the oldest are read again.
    fn flips(&mut self, number: CheckId, check: &Check) -> Result<(), ExportError> {
        let all = Moment::from_micros(i64::MIN);
        let (mut starts, mut start) = (Vec::new(), check.state.last_flip);
        let oldest = loop {
            match self.handle.some_flips(check, start, all)? {
                (_, Some(older)) => starts.push(std::mem::replace(&mut start, older)),
                (page, None) => break page,
            }
            self.pace.rest();
        };
        self.page(number, oldest)?;
        while let Some(start) = starts.pop() {
            let (page, _) = self.handle.some_flips(check, start, all)?;
            self.page(number, page)?;
        }
        Ok(())
    }

    fn page(&mut self, check: CheckId, page: Vec<Flip>) -> Result<(), ExportError> {
        self.pace.rest();
        let mut flips = page.into_iter().rev().map(|flip| OtherRow::Flip(StagedFlipRow::from(StagedFlip { check, flip })));
        flips.try_for_each(|flip| self.lines.put(&flip))
    }

    /// The newest first, so that what is pruned meanwhile is what would have come last.
    fn pings(&mut self, number: CheckId, check: &Check) -> Result<(), ExportError> {
        let (mut n, mut place) = (check.state.n_pings, check.state.last_arrival);
        while n > 0 {
            let page = self.handle.pings_from(check, n, place, PINGS_AT_ONCE)?;
            if page.is_empty() {
                break;
            }
            for ping in page {
                let body = if ping.body_len == 0 { None } else { self.handle.body_at(check, ping.n, place)? };
                (n, place) = (ping.n - 1, ping.previous);
                self.ping(number, ping, &body.unwrap_or_default())?;
                self.pace.rest();
            }
        }
        Ok(())
    }

    fn ping(&mut self, check: CheckId, ping: Ping, body: &[u8]) -> Result<(), ExportError> {
        let Ping { n, at, kind, origin, rid, exit, .. } = ping;
        let mut pieces = body.chunks(MOST_PIECE);
        let body = Bytes::copy_from_slice(pieces.next().unwrap_or_default());
        self.lines.put(&OtherRow::Ping(StagedPingRow::from(StagedPing { check, n, at, kind, origin, rid, exit, body })))?;
        pieces.try_for_each(|piece| self.lines.put(&OtherRow::Body { check: check.0, n, body: text(piece) }))
    }

    fn users(&mut self) -> Result<(), ExportError> {
        let (users, projects): (Vec<_>, BTreeMap<_, _>) = self.handle.with_state(|state| {
            let users = state.users.iter().map(|user| (Arc::clone(user), state.managed.source(user.id.0).cloned()));
            (users.collect(), state.projects().map(|project_state| (project_state.project.id, project_state.project.uuid)).collect())
        });
        for (user, managed) in users {
            let User { uuid, name, password, second, grant, taste, created, disabled, .. } = User::clone(&user);
            let owner = grant.is_owner();
            let projects = match grant {
                Grant::Owner => Vec::new(),
                Grant::Projects(granted) => granted.iter().filter_map(|(id, kind)| Some((*projects.get(&id)?, kind))).collect(),
            };
            let user = ImportedUser { uuid: Some(uuid), name, password, second, owner, projects, taste, disabled, created, managed };
            let id = UserId(self.number());
            self.thing(Staged::User { id, uuid, user: Box::new(user) })?;
        }
        Ok(())
    }
}

/// A check as another server takes it. `known`: the channels that have been written.
fn exported(state: &State, check: &Check, known: &BTreeSet<ChannelId>) -> ImportedCheck {
    let uuid = |id: CheckId| state.check(id).map(|check| check.uuid);
    let behind = match check.state.telling {
        Telling::Due { held: Held::Behind(parent), .. } => uuid(parent),
        _ => None,
    };
    let channels = state.channels_of(check).filter(|channel| known.contains(&channel.id));
    ImportedCheck {
        uuid: check.uuid,
        badge: Some(check.badge),
        created: check.state.changed,
        channels: channels.map(|channel| channel.uuid).collect(),
        parents: check.settings.parents.ids().iter().filter_map(|parent| uuid(*parent)).collect(),
        settings: Settings { channels: Box::default(), parents: Parents::default(), ..Settings::clone(&check.settings) },
        state: check.state,
        behind,
        managed: state.managed.source(check.id.0).cloned(),
    }
}
