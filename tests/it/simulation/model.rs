//! Model of the engine: each check with its whole history, and plain tables for everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bytes::Bytes;
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check_edit::{ChannelSelection, CheckEdit, UniqueField};
use overdue::domain::maintenance_window::WindowTimes;
use overdue::domain::number::FailureThreshold;
use overdue::domain::parents::ParentsError;
use overdue::domain::project::{self, BadgeSecret, ChannelName, KeySecret};
use overdue::domain::status::Status;
use overdue::domain::status_page::{StatusPage, StatusPageError};
use overdue::domain::text::{Description, Tags};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{
    CheckUuids, Command, CommandError, CommandOutcome, CreateCheckRequest, DeliveryReport,
    PingRequest, PingSignal, PingTarget,
};
use overdue::engine::state::State;
use uuid::Uuid;

use super::imports::ModelImports;
use super::replay::{CLOCK_JUMP, HistoryEvent, LoggedPing, ModelPeriod, ModelRules, ReplayedCheck};
use super::users::ModelUsers;

/// Bytes of an HTTP body that are stored in simulations.
pub(crate) const BODY_LIMIT: usize = 48;

#[derive(Clone)]
pub(crate) struct ModelProject {
    pub(crate) name: String,
    pub(crate) check_limit: Option<u32>,
    pub(crate) log_limit: u64,
    pub(crate) allows_ping_settings: bool,
    /// UUID of the imported project.
    pub(crate) source: Option<Uuid>,
    pub(crate) status_pages: Vec<StatusPage>,
}

#[derive(Clone)]
pub(crate) struct ModelChannel {
    pub(crate) project: u64,
    pub(crate) uuid: Uuid,
    pub(crate) name: ChannelName,
    pub(crate) settings: ChannelSettings,
}

impl ModelChannel {
    /// Returns the stored value of a setting, even one that the kind of channel does not have.
    pub(crate) fn setting(&self, key: &str) -> Option<&str> {
        self.settings
            .pairs()
            .find(|(other, _)| *other == key)
            .map(|(_, value)| value)
    }

    /// True if this is a group with that channel as a member.
    pub(crate) fn has_member(&self, uuid: Uuid) -> bool {
        self.setting("channels").is_some_and(|members| {
            members
                .split(',')
                .any(|member| member.trim() == uuid.to_string())
        })
    }
}

/// A maintenance window.
#[derive(Clone)]
pub(crate) struct ModelWindow {
    pub(crate) tags: Tags,
    times: WindowTimes,
}

impl ModelWindow {
    /// Returns the end of the window that is open at `now`, found by a search through every minute
    /// before it.
    pub(crate) fn closes_at(&self, now: i64) -> Option<i64> {
        const MINUTE: i64 = 60_000_000;
        match &self.times {
            WindowTimes::Once { from, to } => {
                (from.micros() <= now && now < to.micros()).then_some(to.micros())
            }
            WindowTimes::Recurring {
                schedule, minutes, ..
            } => {
                let of_hour = |minute: i64| minute % 60;
                let of_day = |minute: i64| minute % (24 * 60);
                let every = schedule
                    .text()
                    .strip_prefix("*/")
                    .and_then(|text| text.split(' ').next()?.parse::<i64>().ok());
                let opens = |minute: &i64| match every {
                    Some(every) => of_hour(*minute) % every == 0,
                    None => schedule.text() == "0 3 * * *" && of_day(*minute) == 3 * 60,
                };
                let last = (0..i64::from(*minutes))
                    .map(|before| now / MINUTE - before)
                    .find(opens)?;
                Some((last + i64::from(*minutes)) * MINUTE).filter(|end| now < *end)
            }
        }
    }
}

/// Settings of a check that affect neither pings nor deadlines.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CheckLabels {
    pub(crate) name: String,
    pub(crate) slug: String,
    pub(crate) tags: String,
    pub(crate) desc: String,
    pub(crate) channels: BTreeSet<u64>,
}

#[derive(Clone)]
pub(crate) struct ModelCheck {
    pub(crate) uuids: CheckUuids,
    pub(crate) project: u64,
    pub(crate) labels: CheckLabels,
    /// Period in seconds, kept while a schedule is set.
    pub(crate) timeout: i64,
    pub(crate) rules: ModelRules,
    created: i64,
    first_rules: ModelRules,
    /// Pings logged before the import.
    imported: Vec<LoggedPing>,
    history: Vec<(i64, HistoryEvent)>,
    /// True if the failure threshold was once above 1: further missed pings count as failures then.
    pub(crate) had_higher_threshold: bool,
    /// Number of failures before an alert.
    pub(crate) failure_threshold: FailureThreshold,
    /// IDs of parents, including deleted ones.
    pub(crate) parents: BTreeSet<u64>,
    /// Number of the last ping that was once beyond the log limit.
    pub(crate) dropped_up_to: u64,
}

impl ModelCheck {
    /// Computes the current state from the history.
    pub(crate) fn replay(&self) -> ReplayedCheck {
        ReplayedCheck::replay(
            self.created,
            self.first_rules,
            &self.imported,
            &self.history,
        )
    }

    pub(crate) fn settle(&mut self, now: i64) {
        self.record_event(now, HistoryEvent::Settle);
    }

    pub(crate) fn record_event(&mut self, now: i64, event: HistoryEvent) {
        self.history.push((now, event));
    }

    /// Makes the current rules the ones at creation.
    pub(crate) fn fix_first_rules(&mut self) {
        self.first_rules = self.rules;
    }

    fn resume_after_clock_jump(&mut self, now: i64) {
        let ReplayedCheck {
            last_ping,
            run,
            expected_from,
            ..
        } = self.replay();
        if last_ping
            .into_iter()
            .chain(expected_from)
            .chain(run.map(|(start, _)| start))
            .any(|at| at - now >= CLOCK_JUMP)
        {
            self.history.push((now, HistoryEvent::ResumeAfterClockJump));
        }
    }

    fn drop_oldest_pings(&mut self, log_limit: u64) {
        self.dropped_up_to = self
            .dropped_up_to
            .max(self.pings().saturating_sub(log_limit));
    }

    pub(crate) fn pings(&self) -> u64 {
        self.imported.len() as u64
            + self
                .history
                .iter()
                .filter(|(_, event)| matches!(event, HistoryEvent::Ping { .. }))
                .count() as u64
    }

    /// Creates a check with default settings and the given log.
    pub(crate) fn imported(
        uuids: CheckUuids,
        project: u64,
        created: i64,
        imported: Vec<LoggedPing>,
    ) -> Self {
        let rules = FIRST_RULES;
        Self {
            uuids,
            project,
            labels: CheckLabels::default(),
            timeout: 86_400,
            rules,
            created,
            first_rules: rules,
            imported,
            history: Vec::new(),
            had_higher_threshold: false,
            failure_threshold: FailureThreshold::ONE,
            parents: BTreeSet::new(),
            dropped_up_to: 0,
        }
    }
}

/// Rules of a check that was created without settings.
pub(crate) const FIRST_RULES: ModelRules = ModelRules {
    period: ModelPeriod::Seconds(86_400),
    grace: 3600,
    manual_resume: false,
    post_only: false,
    keywords: false,
    filter_subject: false,
    filter_body: false,
    filter_http_body: false,
    default_fail: false,
};

/// Expected answer to an accepted command, with the IDs of the created or changed objects.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ExpectedAnswer {
    Pinged,
    PingedNew,
    Check(u64),
    Created(u64),
    Project(u64),
    Key(u64),
    Channel(u64),
    User(u64),
    Session(u64),
    Assigned(usize),
    Done,
}

impl From<&CommandOutcome> for ExpectedAnswer {
    fn from(outcome: &CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Pinged => Self::Pinged,
            CommandOutcome::PingedNewCheck => Self::PingedNew,
            CommandOutcome::Check(check) => Self::Check(check.id.0),
            CommandOutcome::CheckCreated(check) => Self::Created(check.id.0),
            CommandOutcome::Project(project) => Self::Project(project.id.0),
            CommandOutcome::Key(key) => Self::Key(key.id.0),
            CommandOutcome::Channel(channel) => Self::Channel(channel.id.0),
            CommandOutcome::User(user) => Self::User(user.id.0),
            CommandOutcome::Session(session) => Self::Session(session.id.0),
            CommandOutcome::ChannelAssigned(count) => Self::Assigned(*count),
            // `delivery_tracker` follows the deliveries.
            CommandOutcome::AttemptsStarted(_)
            | CommandOutcome::DeliveryQueued(_)
            | CommandOutcome::Window(_)
            | CommandOutcome::ConfigApplied(_)
            | CommandOutcome::Completed => Self::Done,
            CommandOutcome::Import(_) => Self::Done,
        }
    }
}

/// A key. The time of its last use is rounded to the hour.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ModelKey {
    pub(crate) project: u64,
    pub(crate) secret: KeySecret,
    label: String,
    hint: String,
    used: Option<(i64, IpAddr)>,
}

impl ModelKey {
    pub(crate) fn of(key: &project::ProjectKey) -> Self {
        let used = key.last_use.map(|used| (hour(used.at.micros()), used.from));
        let label = key.label.as_str().into();
        let hint = key.hint.as_ref().into();
        Self {
            project: key.project.0,
            secret: key.secret.clone(),
            label,
            hint,
            used,
        }
    }

    /// Records a use. Only the first use in an hour counts.
    fn note_use(&mut self, at: i64, from: IpAddr) {
        if self.used.is_none_or(|(noted, _)| noted != hour(at)) {
            self.used = Some((hour(at), from));
        }
    }
}

fn hour(micros: i64) -> i64 {
    micros.div_euclid(3_600_000_000)
}

type ModelResult = Result<ExpectedAnswer, CommandError>;

#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) last_number: u64,
    pub(crate) imports: ModelImports,
    /// Time of the newest logged ping.
    pub(crate) newest_ping: i64,
    pub(crate) projects: BTreeMap<u64, ModelProject>,
    /// Number of pauses by users since the creation of a project, as its audit log counts them.
    pub(crate) pauses: BTreeMap<u64, u64>,
    pub(crate) keys: BTreeMap<u64, ModelKey>,
    /// `None` if the engine has generated the secret.
    pub(crate) badge_secret: Option<BadgeSecret>,
    pub(crate) channels: BTreeMap<u64, ModelChannel>,
    pub(crate) checks: BTreeMap<u64, ModelCheck>,
    pub(crate) users: ModelUsers,
    /// Windows by project and ID.
    pub(crate) windows: BTreeMap<(u64, u64), ModelWindow>,
}

impl Model {
    /// Addresses and domains occur once on the server; a project has at most 20 pages.
    fn put_status_page(&mut self, project: u64, page: &StatusPage) -> ModelResult {
        let others = || self.projects.values().flat_map(|other| &other.status_pages);
        self.projects.get(&project).ok_or(CommandError::NotFound)?;
        for other in others().filter(|other| other.uuid != page.uuid) {
            if other.address == page.address {
                return Err(CommandError::StatusPage(StatusPageError::AddressTaken));
            }
            if other.domain == page.domain && page.domain.is_some() {
                return Err(CommandError::StatusPage(StatusPageError::DomainTaken));
            }
        }
        let pages = &mut self.projects.get_mut(&project).unwrap().status_pages;
        if let Some(at) = pages.iter().position(|other| other.uuid == page.uuid) {
            pages[at] = page.clone();
        } else if pages.len() == 20 {
            return Err(CommandError::StatusPage(StatusPageError::TooMany));
        } else {
            pages.push(page.clone());
        }
        Ok(ExpectedAnswer::Project(project))
    }
}

impl Model {
    pub(crate) fn apply(&mut self, command: &Command, now: i64) -> ModelResult {
        match command {
            Command::Attributed(_, command) => self.apply(command, now),
            Command::Ping(request) => self.ping(request, now),
            Command::Mail(pings) => {
                let mut pinged = BTreeSet::new();
                for ping in pings {
                    if self
                        .mail_recipient(&ping.target)
                        .is_some_and(|check| pinged.insert(check))
                    {
                        self.ping(ping, now)?;
                    }
                }
                Ok(ExpectedAnswer::Done)
            }
            Command::CreateCheck(request) => self.create(request, now),
            Command::UpdateCheck(id, edit) => self.update(id.0, edit, now),
            Command::PauseCheck(id, until) => {
                let event = HistoryEvent::Pause(until.map(Timestamp::micros));
                let check = self.check(id.0)?;
                check.history.push((now, event));
                let project = check.project;
                *self.pauses.entry(project).or_default() += 1;
                Ok(ExpectedAnswer::Check(id.0))
            }
            Command::ResumeCheck(id) => {
                let check = self.check(id.0)?;
                check.settle(now);
                if check.replay().status != Status::Paused {
                    return Err(CommandError::NotPaused);
                }
                check.history.push((now, HistoryEvent::Resume));
                Ok(ExpectedAnswer::Check(id.0))
            }
            Command::DeleteCheck(id) => {
                self.checks.remove(&id.0).ok_or(CommandError::NotFound)?;
                for check in self.checks.values_mut() {
                    check.parents.remove(&id.0);
                }
                Ok(ExpectedAnswer::Check(id.0))
            }
            Command::EvaluateChecks(ids) | Command::ClampFutureTimes(ids) => {
                for id in ids {
                    let Some(check) = self.checks.get_mut(&id.0) else {
                        continue;
                    };
                    if let Command::EvaluateChecks(_) = command {
                        check.settle(now);
                    } else {
                        check.resume_after_clock_jump(now);
                    }
                }
                Ok(ExpectedAnswer::Done)
            }
            Command::RemoveOrphans | Command::CompareAudiences => Ok(ExpectedAnswer::Done),
            Command::CreateProject(request) => {
                self.expect_free_name(request.name.as_str())?;
                let log_limit = u64::from(request.ping_log_limit);
                let name = request.name.as_str().into();
                let check_limit = request.check_limit;
                let project = ModelProject {
                    name,
                    check_limit,
                    log_limit,
                    allows_ping_settings: false,
                    source: None,
                    status_pages: Vec::new(),
                };
                let id = self.next_number();
                self.projects.insert(id, project);
                Ok(ExpectedAnswer::Project(id))
            }
            Command::UpdateProject {
                project,
                name,
                check_limit,
                ping_log_limit,
                allows_ping_settings,
            } => {
                let mut changed = self
                    .projects
                    .get(&project.0)
                    .ok_or(CommandError::NotFound)?
                    .clone();
                if let Some(name) = name.as_ref().filter(|name| name.as_str() != changed.name) {
                    self.expect_free_name(name.as_str())?;
                    changed.name = name.as_str().into();
                }
                let old_limit = changed.log_limit;
                changed.check_limit = check_limit.unwrap_or(changed.check_limit);
                changed.log_limit = ping_log_limit.map_or(old_limit, u64::from);
                changed.allows_ping_settings =
                    allows_ping_settings.unwrap_or(changed.allows_ping_settings);
                for check in self
                    .checks
                    .values_mut()
                    .filter(|check| check.project == project.0)
                {
                    check.drop_oldest_pings(old_limit.min(changed.log_limit));
                }
                self.projects.insert(project.0, changed);
                Ok(ExpectedAnswer::Project(project.0))
            }
            Command::DeleteProject(id) => {
                self.projects.remove(&id.0).ok_or(CommandError::NotFound)?;
                self.pauses.remove(&id.0);
                self.checks.retain(|_, check| check.project != id.0);
                self.channels.retain(|_, channel| channel.project != id.0);
                self.keys.retain(|_, key| key.project != id.0);
                self.windows.retain(|(project, _), _| *project != id.0);
                Ok(ExpectedAnswer::Done)
            }
            Command::CreateKey(request) => {
                let project = request.project.0;
                self.projects.get(&project).ok_or(CommandError::NotFound)?;
                let secret = request.secret.clone();
                let label = request.label.as_str().into();
                let hint = request.hint.as_ref().into();
                let id = self.next_number();
                self.keys.insert(
                    id,
                    ModelKey {
                        project,
                        secret,
                        label,
                        hint,
                        used: None,
                    },
                );
                Ok(ExpectedAnswer::Key(id))
            }
            Command::RecordKeyUses(uses) => {
                for (id, used) in uses {
                    if let Some(key) = self.keys.get_mut(&id.0) {
                        key.note_use(used.at.micros(), used.from);
                    }
                }
                Ok(ExpectedAnswer::Done)
            }
            // No key in simulations comes from another server.
            Command::RehashKey(..) | Command::PruneLegacySecrets => Ok(ExpectedAnswer::Done),
            Command::SetBadgeSecret(secret) => {
                self.badge_secret = Some(*secret);
                Ok(ExpectedAnswer::Done)
            }
            // Only the writer itself submits this command.
            Command::SetInstance(_) => Ok(ExpectedAnswer::Done),
            Command::RestoreCheck(_) => panic!("`domain::check` tests restorations"),
            Command::RenameKey(id, label) => {
                self.keys
                    .get_mut(&id.0)
                    .ok_or(CommandError::NotFound)?
                    .label = label.as_str().into();
                Ok(ExpectedAnswer::Key(id.0))
            }
            Command::User(command) => {
                let projects = self.projects.keys().copied().collect();
                self.users
                    .apply(command, now, &projects, &mut self.last_number)
            }
            Command::RevokeKey(id) => self
                .keys
                .remove(&id.0)
                .map(|_| ExpectedAnswer::Done)
                .ok_or(CommandError::NotFound),
            Command::CreateChannel(request) => {
                self.projects
                    .get(&request.project.0)
                    .ok_or(CommandError::NotFound)?;
                let project = request.project.0;
                let uuid = request.uuid;
                let settings = request.settings.clone();
                let channel = ModelChannel {
                    project,
                    uuid,
                    name: request.name.clone(),
                    settings,
                };
                let id = self.next_number();
                self.channels.insert(id, channel);
                Ok(ExpectedAnswer::Channel(id))
            }
            Command::UpdateChannel {
                channel: id,
                name,
                settings,
                ..
            } => {
                let channel = self.channels.get_mut(&id.0).ok_or(CommandError::NotFound)?;
                if let Some(update) = settings {
                    channel.settings = channel
                        .settings
                        .replace_with(update.pairs())
                        .map_err(CommandError::InvalidSettings)?;
                }
                if let Some(name) = name {
                    channel.name.clone_from(name);
                }
                Ok(ExpectedAnswer::Channel(id.0))
            }
            Command::EnableChannel(id) | Command::DisableChannel { channel: id, .. } => self
                .channels
                .get(&id.0)
                .map(|_| ExpectedAnswer::Channel(id.0))
                .ok_or(CommandError::NotFound),
            Command::Unsubscribe {
                channel: id,
                recipient,
            } => {
                let channel = self.channels.get(&id.0).ok_or(CommandError::NotFound)?;
                let is_recipient = channel
                    .settings
                    .recipients()
                    .any(|other| *other == **recipient);
                is_recipient
                    .then_some(ExpectedAnswer::Channel(id.0))
                    .ok_or(CommandError::NotFound)
            }
            Command::QueueReminder(channel)
            | Command::RecordChannelTest(DeliveryReport { channel, .. }) => self
                .channels
                .get(&channel.0)
                .map(|_| ExpectedAnswer::Done)
                .ok_or(CommandError::NotFound),
            Command::AssignChannel {
                channel,
                checks,
                assigned,
            } => {
                let project = self
                    .channels
                    .get(&channel.0)
                    .ok_or(CommandError::NotFound)?
                    .project;
                let mut count = 0;
                for id in checks {
                    let Some(check) = self
                        .checks
                        .get_mut(&id.0)
                        .filter(|check| check.project == project)
                    else {
                        continue;
                    };
                    let channels = &mut check.labels.channels;
                    if if *assigned {
                        channels.insert(channel.0)
                    } else {
                        channels.remove(&channel.0)
                    } {
                        check.settle(now);
                        count += 1;
                    }
                }
                Ok(ExpectedAnswer::Assigned(count))
            }
            Command::Import(command) => self.stage(command, now),
            Command::ApplyConfig(request) => self.declare(request, now),
            Command::StartAttempts { .. }
            | Command::RecordDeliveryReports(_)
            | Command::AdoptSetting { .. }
            | Command::RetryDelivery { .. }
            | Command::RecordOutage(_)
            | Command::DropFutureOutages => Ok(ExpectedAnswer::Done),
            Command::UpdateAlertSettings {
                check: id,
                failure_threshold: after,
                parents,
            } => {
                let project = self.check(id.0)?.project;
                if let Some(parents) = parents {
                    let mut ancestors = BTreeSet::new();
                    let mut next: Vec<_> = parents.ids().iter().map(|parent| parent.0).collect();
                    if next.iter().any(|parent| {
                        self.checks
                            .get(parent)
                            .is_none_or(|parent| parent.project != project)
                    }) {
                        return Err(CommandError::InvalidParents(ParentsError::NotFound));
                    }
                    while let Some(parent) = next.pop() {
                        if let Some(check) = self
                            .checks
                            .get(&parent)
                            .filter(|_| ancestors.insert(parent))
                        {
                            next.extend(&check.parents);
                        }
                    }
                    if ancestors.contains(&id.0) {
                        return Err(CommandError::InvalidParents(ParentsError::Cycle));
                    }
                }
                let check = self.check(id.0)?;
                check.settle(now);
                check.had_higher_threshold |=
                    after.is_some_and(|after| after != FailureThreshold::ONE);
                check.failure_threshold = after.unwrap_or(check.failure_threshold);
                if let Some(parents) = parents {
                    check.parents = parents.ids().iter().map(|parent| parent.0).collect();
                }
                Ok(ExpectedAnswer::Check(id.0))
            }
            Command::CreateWindow(request) => {
                self.projects
                    .get(&request.project.0)
                    .ok_or(CommandError::NotFound)?;
                let id = self.next_number();
                self.windows.insert(
                    (request.project.0, id),
                    ModelWindow {
                        tags: request.tags.clone(),
                        times: request.times.clone(),
                    },
                );
                Ok(ExpectedAnswer::Done)
            }
            Command::PutStatusPage(project, page) => self.put_status_page(project.0, page),
            Command::DeleteStatusPage(project, uuid) => {
                let found = self
                    .projects
                    .get_mut(&project.0)
                    .ok_or(CommandError::NotFound)?;
                let pages = &mut found.status_pages;
                let at = pages.iter().position(|page| page.uuid == *uuid);
                pages.remove(at.ok_or(CommandError::NotFound)?);
                Ok(ExpectedAnswer::Project(project.0))
            }
            Command::DeleteWindow(project, id) => {
                if self.windows.remove(&(project.0, id.0)).is_some() {
                    Ok(ExpectedAnswer::Done)
                } else {
                    Err(CommandError::NotFound)
                }
            }
            Command::DeleteChannel(id) => {
                let deleted = self.channels.remove(&id.0).ok_or(CommandError::NotFound)?;
                for group in self
                    .channels
                    .values_mut()
                    .filter(|group| group.has_member(deleted.uuid))
                {
                    group.settings = group
                        .settings
                        .with_retained_members(|member| member != deleted.uuid)
                        .into_owned();
                }
                for check in self.checks.values_mut() {
                    check.labels.channels.remove(&id.0);
                }
                Ok(ExpectedAnswer::Done)
            }
        }
    }

    /// Applies the engine's work before each batch: it looks for deadlines and may resume checks
    /// after a clock jump.
    pub(crate) fn tick(&mut self, now: i64, resumes_checks: bool) {
        self.users.tick(now);
        self.imports.abandon_idle(now);
        for check in self.checks.values_mut() {
            check.history.push((now, HistoryEvent::CheckDeadlines));
            if resumes_checks {
                check.resume_after_clock_jump(now);
            }
        }
    }

    /// Adopts the engine's decision about deadlines that had passed less than a tick before a look:
    /// the model cannot know whether they were noticed. The clock may have been set back between
    /// the latest two looks.
    pub(crate) fn accept_noticed_deadlines(&mut self, state: &State) {
        for check in self.checks.values_mut() {
            let Some(found) = state
                .check_by_uuid(check.uuids.uuid)
                .map(|found| found.state)
            else {
                continue;
            };
            let ticks = check
                .history
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, (_, event))| matches!(event, HistoryEvent::CheckDeadlines));
            let ticks: Vec<_> = ticks.map(|(index, _)| index).take(2).collect();
            let variants = (0..1 << ticks.len()).map(|noticed| {
                let mut variant = check.clone();
                for (_, index) in ticks
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| noticed >> bit & 1 == 1)
                {
                    variant.history[*index].1 = HistoryEvent::Settle;
                }
                variant
            });
            let fits = |variant: &ModelCheck| {
                let replay = variant.replay();
                (replay.status, replay.changed) == (found.status, found.changed.micros())
            };
            if let Some(variant) = variants.into_iter().find(fits) {
                *check = variant;
            }
        }
    }

    /// Returns the latest time of the newest ping and the last status changes, apart from those
    /// ahead of `now`.
    pub(crate) fn latest(&self, now: i64) -> i64 {
        let changes = self.checks.values().map(|check| check.replay().changed);
        changes
            .chain([self.newest_ping])
            .filter(|at| at - now < CLOCK_JUMP)
            .max()
            .unwrap_or_default()
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn check(&mut self, id: u64) -> Result<&mut ModelCheck, CommandError> {
        self.checks.get_mut(&id).ok_or(CommandError::NotFound)
    }

    fn expect_free_name(&self, name: &str) -> Result<(), CommandError> {
        if self.projects.values().any(|project| project.name == name) {
            Err(CommandError::ProjectNameTaken)
        } else {
            Ok(())
        }
    }

    fn is_full(&self, project: u64, factor: usize) -> bool {
        let count = self
            .checks
            .values()
            .filter(|check| check.project == project)
            .count();
        self.projects[&project]
            .check_limit
            .is_some_and(|limit| count >= factor * limit as usize)
    }

    /// Returns the only check that a mail's ping addresses.
    fn mail_recipient(&self, target: &PingTarget) -> Option<u64> {
        let is_addressed = |check: &ModelCheck| match target {
            PingTarget::Uuid(uuid) => check.uuids.uuid == *uuid,
            PingTarget::Slug { key, slug, .. } => {
                let owner = self
                    .keys
                    .values()
                    .find(|own| own.secret == KeySecret::Ping(key.clone()));
                owner.is_some_and(|key| key.project == check.project)
                    && check.labels.slug == slug.as_str()
            }
        };
        let mut addressed = self
            .checks
            .iter()
            .filter(|(_, check)| is_addressed(check))
            .map(|(id, _)| *id);
        addressed.next().filter(|_| addressed.next().is_none())
    }

    fn ping(&mut self, request: &PingRequest, now: i64) -> ModelResult {
        let mut used = None;
        let (id, answered) = match &request.target {
            PingTarget::Uuid(uuid) => {
                let found = self
                    .checks
                    .iter()
                    .find(|(_, check)| check.uuids.uuid == *uuid);
                (
                    *found.ok_or(CommandError::NotFound)?.0,
                    ExpectedAnswer::Pinged,
                )
            }
            PingTarget::Slug { key, slug, create } => {
                let owner = self
                    .keys
                    .iter()
                    .find(|(_, own)| own.secret == KeySecret::Ping(key.clone()));
                let (key, project) = owner
                    .map(|(id, key)| (*id, key.project))
                    .ok_or(CommandError::NotFound)?;
                used = Some(key);
                let has_slug = |check: &ModelCheck| {
                    check.project == project && check.labels.slug == slug.as_str()
                };
                let found: Vec<_> = self
                    .checks
                    .iter()
                    .filter(|(_, check)| has_slug(check))
                    .map(|(id, _)| *id)
                    .collect();
                match (found.as_slice(), create) {
                    ([id], _) => (*id, ExpectedAnswer::Pinged),
                    ([], Some(creation)) if !self.is_full(project, 2) => {
                        let is_allowed = self.projects[&project].allows_ping_settings;
                        let requested = creation.edit.as_deref().filter(|_| is_allowed);
                        let mut edit = requested.cloned().unwrap_or_default();
                        edit.channels.get_or_insert(ChannelSelection::All);
                        let id = self.insert(project, creation.uuids, &edit, now)?;
                        let labels = &mut self.check(id)?.labels;
                        (labels.name, labels.slug) = (slug.as_str().into(), slug.as_str().into());
                        (id, ExpectedAnswer::PingedNew)
                    }
                    ([], _) => return Err(CommandError::NotFound),
                    _ => return Err(CommandError::AmbiguousSlug),
                }
            }
        };
        let stored = match &request.signal {
            PingSignal::Http(_) | PingSignal::Exit(_) => {
                request.body.slice(..request.body.len().min(BODY_LIMIT))
            }
            PingSignal::Email { .. } => request.body.clone(),
        };
        let PingRequest {
            signal,
            origin,
            rid,
            ..
        } = request.clone();
        let sent = Bytes::clone(&request.body);
        if let (Some(key), Some(from)) = (
            used.and_then(|key| self.keys.get_mut(&key)),
            origin.remote_addr,
        ) {
            key.note_use(now, from);
        }
        self.check(id)?.history.push((
            now,
            HistoryEvent::Ping {
                signal,
                method: origin.method,
                rid,
                sent,
                stored,
            },
        ));
        self.newest_ping = now;
        Ok(answered)
    }

    fn create(&mut self, request: &CreateCheckRequest, now: i64) -> ModelResult {
        let project = request.project.0;
        self.projects.get(&project).ok_or(CommandError::NotFound)?;
        let matches = |check: &ModelCheck| {
            let labels = &check.labels;
            let edit = &request.edit;
            check.project == project
                && request.unique.iter().all(|field| match field {
                    UniqueField::Name => edit
                        .name
                        .as_ref()
                        .is_some_and(|name| name.as_str() == labels.name),
                    UniqueField::Slug => edit
                        .slug
                        .as_ref()
                        .is_some_and(|slug| slug.as_str() == labels.slug),
                    UniqueField::Tags => edit
                        .tags
                        .as_ref()
                        .is_some_and(|tags| tags.as_str() == labels.tags),
                    UniqueField::Timeout => edit
                        .timeout
                        .is_some_and(|timeout| timeout.get() == check.timeout),
                    UniqueField::Grace => edit
                        .grace
                        .is_some_and(|grace| grace.get() == check.rules.grace),
                })
        };
        let oldest = self
            .checks
            .iter()
            .find(|(_, check)| !request.unique.is_empty() && matches(check));
        if let Some((id, _)) = oldest {
            return self.update(*id, &request.edit, now);
        }
        if self.is_full(project, 1) {
            return Err(CommandError::CheckLimitReached);
        }
        self.insert(project, request.uuids, &request.edit, now)
            .map(ExpectedAnswer::Created)
    }

    fn insert(
        &mut self,
        project: u64,
        uuids: CheckUuids,
        edit: &CheckEdit,
        now: i64,
    ) -> Result<u64, CommandError> {
        let mut check = ModelCheck::imported(uuids, project, now, Vec::new());
        self.edit(&mut check, edit)?;
        check.first_rules = check.rules;
        let id = self.next_number();
        self.checks.insert(id, check);
        Ok(id)
    }

    fn update(&mut self, id: u64, edit: &CheckEdit, now: i64) -> ModelResult {
        let mut check = self.check(id)?.clone();
        self.edit(&mut check, edit)?;
        check
            .history
            .push((now, HistoryEvent::NewRules(check.rules)));
        self.checks.insert(id, check);
        Ok(ExpectedAnswer::Check(id))
    }

    pub(super) fn edit(
        &self,
        check: &mut ModelCheck,
        edit: &CheckEdit,
    ) -> Result<(), CommandError> {
        let ModelCheck {
            labels,
            rules,
            project,
            timeout,
            ..
        } = check;
        let own: Vec<_> = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.project == *project)
            .collect();
        match &edit.channels {
            None => {}
            Some(ChannelSelection::All) => {
                labels.channels = own.iter().map(|(id, _)| **id).collect();
            }
            Some(ChannelSelection::Listed(items)) => {
                let mut chosen = BTreeSet::new();
                for item in items {
                    if item.is_empty() {
                        return Err(CommandError::EmptyChannel);
                    }
                    let matches_item = |channel: &ModelChannel| {
                        channel.name.as_str() == &**item || channel.uuid.to_string() == **item
                    };
                    match own
                        .iter()
                        .filter(|(_, channel)| matches_item(channel))
                        .collect::<Vec<_>>()
                        .as_slice()
                    {
                        [] => return Err(CommandError::InvalidChannel(item.clone())),
                        [(id, _)] => chosen.insert(**id),
                        _ => return Err(CommandError::AmbiguousChannel(item.clone())),
                    };
                }
                labels.channels = chosen;
            }
        }
        let texts = [
            (
                edit.name.as_ref().map(|name| name.as_str()),
                &mut labels.name,
            ),
            (
                edit.slug.as_ref().map(|slug| slug.as_str()),
                &mut labels.slug,
            ),
            (
                edit.tags.as_ref().map(|tags| tags.as_str()),
                &mut labels.tags,
            ),
            (
                edit.desc.as_ref().map(Description::as_str),
                &mut labels.desc,
            ),
        ];
        for (new, old) in texts {
            if let Some(new) = new {
                *old = new.into();
            }
        }
        if let Some(schedule) = &edit.schedule {
            rules.period = match schedule.text() {
                "*/5 * * * *" => ModelPeriod::EveryFiveMinutes,
                "0 3 * * *" => ModelPeriod::AtThree,
                _ => ModelPeriod::Ended,
            };
        } else if let Some(seconds) = edit.timeout {
            *timeout = seconds.get();
            rules.period = ModelPeriod::Seconds(*timeout);
        }
        rules.grace = edit.grace.map_or(rules.grace, |grace| grace.get());
        rules.keywords |= edit.start_kw.is_some();
        let switches = [
            (edit.manual_resume, &mut rules.manual_resume),
            (edit.post_only, &mut rules.post_only),
            (edit.filter_subject, &mut rules.filter_subject),
            (edit.filter_body, &mut rules.filter_body),
            (edit.filter_http_body, &mut rules.filter_http_body),
            (edit.filter_default_fail, &mut rules.default_fail),
        ];
        for (new, old) in switches {
            *old = new.unwrap_or(*old);
        }
        Ok(())
    }
}
