//! Rules for alerts, as the chapters on alerts and on operation state them, applied to the history
//! of each check.

mod audiences;
mod holding;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::alert::{AlertEvent, DeliveryResult};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::check::WarningKind;
use overdue::domain::flip::FlipCause;
use overdue::domain::recent_outcomes::RunOutcome;
use overdue::domain::status::Status;
use overdue::engine::command::{Command, CommandError, PingTarget, SendOutcome};

use super::super::model::{ExpectedAnswer, Model, ModelCheck};
use super::super::replay::{ModelPeriod, ReplayedCheck};
use super::message_log::{self, ExpectedMessage, ExpectedOutcome, MessageLog};
use warnings::{WarningModel, WarningObstacle};

const SECOND: i64 = 1_000_000;
/// Interval of decisions whether an alert stays held back, and maximum wait for a parent.
const RECHECK_INTERVAL: i64 = 15 * 60 * SECOND;
/// Wait for a ping that may have been lost in an outage.
const LOST_PING_GRACE: i64 = 15 * 60 * SECOND;
/// Maximum wait for a check whose next ping is not expected within that time.
const SHORT_PARENT_WAIT: i64 = 2 * 60 * SECOND;

/// Reason for holding back an alert about a downtime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HoldCause {
    Outage,
    Failures,
    Window,
    Parent,
    HiddenBehind(u64),
}

/// State of the alert about the current downtime of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnnouncementState {
    Held {
        cause: HoldCause,
        until: i64,
    },
    /// `reached`: as far as known, a channel received the alert or will receive it.
    Announced {
        reached: bool,
    },
}

/// Change of a check that may end the reason for holding its alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckChange {
    Ping,
    /// A deadline, a decision or new settings.
    Settings,
    /// New settings without the parents that the check had.
    ParentsRemoved,
}

/// Problems of a channel.
#[derive(Clone, Copy, Default)]
struct ModelChannelHealth {
    disabled: bool,
    failing: bool,
}

/// A reason without the parent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HoldCauseKind {
    Outage,
    Failures,
    Window,
    Parent,
    HiddenBehind,
}

/// Cases that each test run has to cover.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AlertCase {
    Held(HoldCauseKind),
    Released,
    AnnouncedAfter(HoldCauseKind),
    EndedUnannounced(HoldCauseKind),
    NoRecipient,
    Joined,
    Reopened,
    Left,
    Closed,
    EndWithoutStart,
    ThroughAGroup,
    EveryCheck,
    NoRecipientReached,
    Deleted,
    Reminded,
    Superseded,
    Warned(WarningKind),
    /// Some time after the limit was passed.
    WarnedLater,
    WarningLeftOut(WarningObstacle),
    WarningUnwanted,
    WarningTooOld,
    WarningSuperseded,
    /// A warning that may be given or not.
    UncertainWarning,
}

/// Model of checks and channels, and the alerts that follow from it. Times are in microseconds.
#[derive(Clone, Default)]
pub(crate) struct AlertModel {
    pub(crate) model: Model,
    pub(crate) log: MessageLog,
    /// State of the alert about each check that is down.
    pub(crate) announcements: BTreeMap<u64, AnnouncementState>,
    /// Outages during which no pings could be received, oldest first.
    pub(crate) outages: Vec<(i64, i64)>,
    pub(crate) cases: BTreeMap<AlertCase, u32>,
    health: BTreeMap<u64, ModelChannelHealth>,
    replayed: BTreeMap<u64, ReplayedCheck>,
    /// Number of processed flips of each check.
    flips: BTreeMap<u64, usize>,
    /// Number of missed pings since the last success, counted while the check was down.
    missed: BTreeMap<u64, usize>,
    warnings: WarningModel,
}

impl HoldCause {
    fn kind(self) -> HoldCauseKind {
        match self {
            Self::Outage => HoldCauseKind::Outage,
            Self::Failures => HoldCauseKind::Failures,
            Self::Window => HoldCauseKind::Window,
            Self::Parent => HoldCauseKind::Parent,
            Self::HiddenBehind(_) => HoldCauseKind::HiddenBehind,
        }
    }

    /// A part of the reason in the log for a finished downtime without a notification.
    fn skip_reason(self) -> &'static str {
        match self {
            Self::Outage => "could not receive pings",
            Self::Failures => "failed often enough",
            Self::Window => "maintenance window",
            Self::Parent => "parent",
            Self::HiddenBehind(_) => "was down",
        }
    }
}

impl AlertModel {
    fn count(&mut self, case: AlertCase) {
        *self.cases.entry(case).or_default() += 1;
    }

    /// Returns one line about each check for failure messages.
    pub(crate) fn describe(&self) -> Vec<String> {
        let line = |(id, model_check): (&u64, &ModelCheck)| {
            let replay = self.replayed_check(*id);
            let announcement = self.announcements.get(id);
            let uuid = model_check.uuids.uuid;
            format!(
                "{id} ({uuid:.4}): {:?} since {}, {announcement:?}, parents {:?}, threshold {:?}, \
                 missed {:?}",
                replay.status,
                replay.changed,
                model_check.parents,
                model_check.failure_threshold,
                self.missed.get(id)
            )
        };
        self.model.checks.iter().map(line).collect()
    }

    fn replayed_check(&self, check: u64) -> &ReplayedCheck {
        &self.replayed[&check]
    }

    /// Returns the number of flips of a check so far.
    pub(crate) fn flip_count(&self, check: u64) -> usize {
        self.flips.get(&check).copied().unwrap_or_default()
    }

    fn replay(&mut self, check: u64) {
        match self.model.checks.get(&check) {
            Some(model_check) => drop(self.replayed.insert(check, model_check.replay())),
            None => drop(self.replayed.remove(&check)),
        }
    }

    /// Returns the time of the next deadline, decision or warning, and its check.
    pub(crate) fn next_due(&self) -> Option<(i64, u64)> {
        self.all_due().min()
    }

    /// Returns the next deadline, decision or warning of each check.
    pub(crate) fn all_due(&self) -> impl Iterator<Item = (i64, u64)> {
        let due = |check: &u64| {
            let changes = self.due(*check).map(|(at, _)| at);
            let next = changes.into_iter().chain(self.next_warning(*check)).min();
            next.map(|at| (at, *check))
        };
        self.model.checks.keys().filter_map(due)
    }

    /// Returns what is due for a check at `now`: a deadline or decision, otherwise a warning, which
    /// the flag says.
    fn due_at(&self, check: u64, now: i64) -> Option<(i64, bool, u64)> {
        let change = self.due(check).map(|(at, _)| (at, false, check));
        let warning = || self.next_warning(check).map(|at| (at, true, check));
        let is_due = |(at, ..): &(i64, bool, u64)| *at <= now;
        change.filter(is_due).or_else(|| warning().filter(is_due))
    }

    /// Returns the next deadline or decision of a check.
    fn due(&self, check: u64) -> Option<(i64, u64)> {
        let decision =
            if let Some(AnnouncementState::Held { until, .. }) = self.announcements.get(&check) {
                Some(*until)
            } else {
                None
            };
        let deadline = self
            .replayed
            .get(&check)
            .and_then(ReplayedCheck::next_evaluation);
        decision
            .into_iter()
            .chain(deadline)
            .min()
            .map(|at| (at, check))
    }

    /// Returns the times of the next deadlines and warnings.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = i64> {
        let deadlines = self.replayed.values();
        let warnings = self.replayed.keys();
        deadlines
            .filter_map(ReplayedCheck::next_evaluation)
            .chain(warnings.filter_map(|check| self.next_warning(*check)))
    }

    /// Returns the times of the next decisions about held alerts.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = i64> {
        self.announcements.values().filter_map(|announcement| {
            if let AnnouncementState::Held { until, .. } = announcement {
                Some(*until)
            } else {
                None
            }
        })
    }

    /// Processes everything that is due, by time. At the same time, warnings are last: the parent
    /// of a check may go down. Otherwise the oldest check is first.
    pub(crate) fn process_all_due(&mut self, now: i64) {
        let next = |alerts: &Self| {
            let checks = alerts.model.checks.keys();
            checks.filter_map(|check| alerts.due_at(*check, now)).min()
        };
        while let Some((at, _, check)) = next(self) {
            self.process_due(check, at, now);
        }
    }

    /// Processes one deadline, decision or warning. Checks that depend on this one and whose
    /// deadline or decision is due at the same time come first.
    fn process_due(&mut self, check: u64, at: i64, now: i64) {
        if self.due(check).is_none_or(|(at, _)| at > now) {
            return self.give_due_warnings(check, at, now);
        }
        if !self.announcements.contains_key(&check) {
            let descendants = self.descendants(check);
            while let Some((at, child)) = descendants
                .iter()
                .filter_map(|child| self.due(*child))
                .filter(|(due, _)| *due <= at)
                .min()
            {
                self.process_due(child, at, now);
            }
        }
        self.model
            .checks
            .get_mut(&check)
            .expect("a check that is due")
            .settle(now);
        self.process_flips(check, CheckChange::Settings, now);
        self.pass_over_warnings(check, now);
    }

    /// Returns all checks below a check.
    fn descendants(&self, check: u64) -> BTreeSet<u64> {
        let mut descendants = BTreeSet::from([check]);
        loop {
            let is_child =
                |model_check: &ModelCheck| !model_check.parents.is_disjoint(&descendants);
            let children: Vec<_> = self
                .model
                .checks
                .iter()
                .filter(|(_, model_check)| is_child(model_check))
                .map(|(id, _)| *id)
                .collect();
            let count = descendants.len();
            descendants.extend(children);
            if descendants.len() == count {
                descendants.remove(&check);
                return descendants;
            }
        }
    }

    pub(crate) fn execute(
        &mut self,
        command: &Command,
        now: i64,
    ) -> Result<ExpectedAnswer, CommandError> {
        self.process_all_due(now);
        self.allow_uncertain_warnings(now);
        let audiences = self.audiences();
        let changed_before = self.changed_checks(command);
        let change = self.change_by(command);
        if let Command::DeleteCheck(check) = command {
            self.forget_check(check.0);
        }
        let before = self.settings_of_updated_channel(command);
        if let Command::QueueReminder(channel) = command
            && self.model.channels.contains_key(&channel.0)
            && !self.accepts(channel.0, AlertEvent::StillDown)
        {
            return Err(CommandError::NotFound);
        }
        let answer = self.model.apply(command, now)?;
        if let Command::UpdateChannel { channel, .. } = command
            && before != self.settings_of_updated_channel(command)
        {
            // The new settings may work.
            self.health.remove(&channel.0);
        }
        self.set_limits(command, &answer);
        self.send(command, now);
        let checks: BTreeSet<_> = changed_before
            .union(&self.changed_checks(command))
            .copied()
            .collect();
        for check in checks {
            if self.model.checks.contains_key(&check) {
                self.process_flips(check, change, now);
                self.warn_of_short_run(check, command, now);
                self.pass_over_warnings(check, now);
            } else {
                self.replay(check);
            }
        }
        self.update_audiences(&audiences);
        if let Command::DeleteCheck(check) = command {
            self.release_children(check.0, now);
        }
        self.allow_uncertain_warnings(now);
        self.sweep();
        Ok(answer)
    }

    /// Returns the settings of the channel that a command updates.
    fn settings_of_updated_channel(&self, command: &Command) -> Option<ChannelSettings> {
        let Command::UpdateChannel { channel, .. } = command else {
            return None;
        };
        self.model
            .channels
            .get(&channel.0)
            .map(|channel| channel.settings.clone())
    }

    /// Returns how a command changes its checks. It is called before the command.
    fn change_by(&self, command: &Command) -> CheckChange {
        match command {
            Command::Ping(_) => CheckChange::Ping,
            Command::UpdateAlertSettings {
                check,
                parents: Some(parents),
                ..
            } if parents.ids().is_empty()
                && self.model.checks.get(&check.0).is_some_and(|check| {
                    let mut old = check.parents.iter();
                    old.any(|parent| self.model.checks.contains_key(parent))
                }) =>
            {
                CheckChange::ParentsRemoved
            }
            _ => CheckChange::Settings,
        }
    }

    /// Returns the checks that a command changes. It is called before and after each command.
    fn changed_checks(&self, command: &Command) -> BTreeSet<u64> {
        let all = || self.model.checks.iter();
        match command {
            Command::Ping(request) => {
                let is_addressed = |target: &PingTarget, uuid| matches!(target, PingTarget::Uuid(addressed) if *addressed == uuid);
                all()
                    .filter(|(_, check)| is_addressed(&request.target, check.uuids.uuid))
                    .map(|(id, _)| *id)
                    .collect()
            }
            Command::UpdateCheck(id, _)
            | Command::PauseCheck(id, _)
            | Command::ResumeCheck(id)
            | Command::DeleteCheck(id) => [id.0].into(),
            Command::UpdateAlertSettings { check, .. } => [check.0].into(),
            Command::CreateCheck(_) => all()
                .map(|(id, _)| *id)
                .filter(|id| !self.replayed.contains_key(id))
                .collect(),
            // Before the command these are the checks to be changed, after it there are none.
            Command::AssignChannel {
                channel,
                checks,
                assigned,
            } => {
                let differs = |id: &u64| {
                    self.model.checks.get(id).is_some_and(|check| {
                        check.labels.channels.contains(&channel.0) != *assigned
                    })
                };
                checks.iter().map(|id| id.0).filter(differs).collect()
            }
            Command::DeleteWindow(..) => {
                let is_held = |announcement: &AnnouncementState| {
                    matches!(
                        announcement,
                        AnnouncementState::Held {
                            cause: HoldCause::Window,
                            ..
                        }
                    )
                };
                self.announcements
                    .iter()
                    .filter(|(_, announcement)| is_held(announcement))
                    .map(|(id, _)| *id)
                    .collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Processes the new flips of a check after a ping, a deadline or a change of settings.
    fn process_flips(&mut self, check: u64, change: CheckChange, now: i64) {
        let rules = |alerts: &Self| alerts.replayed.get(&check).map(|replay| *replay.rules());
        let old = rules(self);
        self.replay(check);
        if change != CheckChange::Ping {
            // IDs of deleted parents are removed at the next change.
            let ids: BTreeSet<_> = self.model.checks.keys().copied().collect();
            self.model
                .checks
                .get_mut(&check)
                .expect("the check")
                .parents
                .retain(|parent| ids.contains(parent));
        }
        let was_held = matches!(
            self.announcements.get(&check),
            Some(AnnouncementState::Held { .. })
        );
        let seen = self.flip_count(check);
        let flips = self.replayed_check(check).flips[seen..].to_vec();
        for (at, _, to, cause) in &flips {
            *self.flips.entry(check).or_default() += 1;
            if *to == Status::Down {
                self.begin_downtime(check, *at, *cause, now);
            } else {
                self.end_downtime(check, *to);
            }
        }
        if let Some(AnnouncementState::Held {
            cause: HoldCause::Failures,
            until,
        }) = self.announcements.get(&check).copied()
            && until > now
            && old.is_some_and(|old| {
                Some((old.period, old.grace)) != rules(self).map(|new| (new.period, new.grace))
            })
        {
            self.announcements.insert(
                check,
                AnnouncementState::Held {
                    cause: HoldCause::Failures,
                    until: self.next_missing(check, now).unwrap_or(now),
                },
            );
        }
        if let Some(AnnouncementState::Held {
            cause: HoldCause::Parent,
            until,
        }) = self.announcements.get(&check).copied()
            && old.map(|old| old.grace) != rules(self).map(|new| new.grace)
        {
            self.limit_wait(check, until, now);
        }
        self.reconsider(check, change, now);
        if change != CheckChange::Ping || was_held || !flips.is_empty() {
            self.release_children(check, now);
        }
    }

    fn begin_downtime(&mut self, check: u64, at: i64, cause: FlipCause, now: i64) {
        let is_silent = matches!(
            cause,
            FlipCause::MissedPing | FlipCause::Overrun | FlipCause::SettingsChanged
        );
        let chance = is_silent
            .then(|| self.outage(check, at, now))
            .flatten()
            .and_then(|until| self.lost_ping_deadline(check, until, now));
        match chance {
            Some(at) => self.hold(check, HoldCause::Outage, at.max(now)),
            None => {
                // New settings expect no pings in the past.
                let misses_from = if cause == FlipCause::SettingsChanged {
                    now
                } else {
                    at
                };
                self.decide(check, None, misses_from, now);
            }
        }
    }

    /// Ends a downtime: notifies the channels that know of it. If the check was paused, only
    /// channels that keep incidents are notified.
    fn end_downtime(&mut self, check: u64, to: Status) {
        let flip = self.flips[&check];
        if to == Status::Up {
            self.missed.remove(&check);
        }
        match self.announcements.remove(&check) {
            Some(AnnouncementState::Announced { .. }) => {
                self.notify(
                    check,
                    if to == Status::Up {
                        AlertEvent::Up
                    } else {
                        AlertEvent::Closed
                    },
                    (flip - 1, flip),
                );
            }
            Some(AnnouncementState::Held { cause, .. }) => {
                self.count(AlertCase::EndedUnannounced(cause.kind()));
                self.log.add(
                    ExpectedMessage::new(0, check, flip - 1, AlertEvent::Down),
                    ExpectedOutcome::Finished(DeliveryResult::Skipped, cause.skip_reason()),
                );
            }
            None => {}
        }
    }

    /// Applies the deletion of a check.
    fn forget_check(&mut self, check: u64) {
        let flip = self.flip_count(check);
        if self.model.checks.contains_key(&check) {
            self.skip_rows_of_deleted_check(check);
        }
        match self.announcements.remove(&check) {
            Some(AnnouncementState::Announced { .. }) => {
                self.count(AlertCase::Deleted);
                let before = self.log.rows.len();
                self.notify(check, AlertEvent::Closed, (flip, flip));
                // The end of an earlier downtime that is being sent does not announce the deletion.
                self.log.rows[before..]
                    .iter_mut()
                    .for_each(|row| *row = (*row).of_deleted_check());
            }
            Some(AnnouncementState::Held { .. }) => {
                self.log.add(
                    ExpectedMessage::new(0, check, flip, AlertEvent::Down),
                    message_log::CHECK_DELETED,
                );
            }
            None => {}
        }
    }
}
