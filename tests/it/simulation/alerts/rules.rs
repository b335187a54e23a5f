//! Who is notified of what: the rules, as the chapters on alerts and on operation state them,
//! applied to the history of each check.

mod audiences;
mod holding;

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::alert::{AlertEvent, DeliveryResult};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::flip::FlipCause;
use overdue::domain::recent_outcomes::RunOutcome;
use overdue::domain::status::Status;
use overdue::engine::command::{Command, CommandError, PingTarget, SendOutcome};

use super::super::model::{ExpectedAnswer, Model, ModelCheck};
use super::super::replay::{ModelPeriod, ReplayedCheck};
use super::message_log::{self, ExpectedMessage, ExpectedOutcome, MessageLog};

const SECOND: i64 = 1_000_000;
/// So soon it is looked again whether what holds an alert back still does, and for so long a parent
/// is waited for.
const RECHECK_INTERVAL: i64 = 15 * 60 * SECOND;
/// For so long after a time without pings, one that may have been lost in it is waited for.
const LOST_PING_GRACE: i64 = 15 * 60 * SECOND;
/// A check that is not expected within that time is waited for no longer than this.
const SHORT_PARENT_WAIT: i64 = 2 * 60 * SECOND;

/// What an alert about a downtime waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HoldCause {
    Outage,
    Failures,
    Window,
    Parent,
    HiddenBehind(u64),
}

/// What has been told of the downtime that a check is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnnouncementState {
    Held {
        why: HoldCause,
        until: i64,
    },
    /// `heard`: for all that is known a channel has got it, or is going to.
    Announced {
        heard: bool,
    },
}

/// What is wrong with a channel.
#[derive(Clone, Copy, Default)]
struct ModelChannelHealth {
    disabled: bool,
    failing: bool,
}

/// The same, whichever parent it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HoldCauseKind {
    Outage,
    Failures,
    Window,
    Parent,
    HiddenBehind,
}

/// What has happened: each case is to occur.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AlertCase {
    Held(HoldCauseKind),
    Released,
    AnnouncedAfter(HoldCauseKind),
    EndedUnannounced(HoldCauseKind),
    Nobody,
    Joined,
    Reopened,
    Left,
    Closed,
    UnawareAtTheEnd,
    ThroughAGroup,
    EveryCheck,
    NobodyReached,
    Deleted,
    Reminded,
    Superseded,
}

/// The model of checks and channels, and what follows from it for alerts. Times are microseconds.
#[derive(Clone, Default)]
pub(crate) struct AlertModel {
    pub(crate) model: Model,
    pub(crate) log: MessageLog,
    /// Of each check that is down.
    pub(crate) announcements: BTreeMap<u64, AnnouncementState>,
    /// Times in which no pings could be taken, oldest first.
    pub(crate) outages: Vec<(i64, i64)>,
    pub(crate) cases: BTreeMap<AlertCase, u32>,
    health: BTreeMap<u64, ModelChannelHealth>,
    replayed: BTreeMap<u64, ReplayedCheck>,
    /// Flips of each check that have been looked at.
    flips: BTreeMap<u64, usize>,
    /// Pings that were missing while the check was down already, since its last success.
    missed: BTreeMap<u64, usize>,
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

    /// Words of the reason why nobody was notified of a downtime that is over.
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

    /// Each check as it is seen here, for whoever looks for a difference.
    pub(crate) fn describe(&self) -> Vec<String> {
        let line = |(id, own): (&u64, &ModelCheck)| {
            let story = self.replayed_check(*id);
            let told = self.announcements.get(id);
            let uuid = own.names.uuid;
            format!(
                "{id} ({uuid:.4}): {:?} since {}, {told:?}, parents {:?}, after {:?}, missed {:?}",
                story.status,
                story.changed,
                own.parents,
                own.failure_threshold,
                self.missed.get(id)
            )
        };
        self.model.checks.iter().map(line).collect()
    }

    fn replayed_check(&self, check: u64) -> &ReplayedCheck {
        &self.replayed[&check]
    }

    fn replay(&mut self, check: u64) {
        match self.model.checks.get(&check) {
            Some(own) => drop(self.replayed.insert(check, own.replay())),
            None => drop(self.replayed.remove(&check)),
        }
    }

    /// When something is to be decided next: a deadline, or whether an alert is held back any
    /// longer; and about which check.
    pub(crate) fn next_due(&self) -> Option<(i64, u64)> {
        self.all_due().min()
    }

    /// The same of each check.
    pub(crate) fn all_due(&self) -> impl Iterator<Item = (i64, u64)> {
        self.model
            .checks
            .keys()
            .filter_map(|check| self.due(*check))
    }

    fn due(&self, check: u64) -> Option<(i64, u64)> {
        let decision =
            if let Some(AnnouncementState::Held { until, .. }) = self.announcements.get(&check) {
                Some(*until)
            } else {
                None
            };
        let deadline = self.replayed.get(&check).and_then(ReplayedCheck::deadline);
        decision
            .into_iter()
            .chain(deadline)
            .min()
            .map(|at| (at, check))
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = i64> {
        self.replayed.values().filter_map(ReplayedCheck::deadline)
    }

    /// When it is decided whether alerts are held back any longer.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = i64> {
        self.announcements.values().filter_map(|told| {
            if let AnnouncementState::Held { until, .. } = told {
                Some(*until)
            } else {
                None
            }
        })
    }

    /// Everything that is due by now happens in order, what is due at the same moment in the order
    /// in which the checks were made.
    pub(crate) fn notice(&mut self, now: i64) {
        while let Some((at, check)) = self.next_due().filter(|(at, _)| *at <= now) {
            self.process_due(check, at, now);
        }
    }

    /// What is due of a check happens. A check goes down after those that depend on it and fall due
    /// at the same moment.
    fn process_due(&mut self, check: u64, at: i64, now: i64) {
        if !self.announcements.contains_key(&check) {
            let below = self.descendants(check);
            while let Some((at, child)) = below
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
        self.process_flips(check, true, now);
    }

    /// The checks that depend on one, or on one that does.
    fn descendants(&self, check: u64) -> BTreeSet<u64> {
        let mut below = BTreeSet::from([check]);
        loop {
            let depends = |own: &ModelCheck| !own.parents.is_disjoint(&below);
            let more: Vec<_> = self
                .model
                .checks
                .iter()
                .filter(|(_, own)| depends(own))
                .map(|(id, _)| *id)
                .collect();
            let count = below.len();
            below.extend(more);
            if below.len() == count {
                below.remove(&check);
                return below;
            }
        }
    }

    pub(crate) fn carry_out(
        &mut self,
        command: &Command,
        now: i64,
    ) -> Result<ExpectedAnswer, CommandError> {
        self.notice(now);
        let audiences = self.audiences();
        let changing = self.changed_checks(command);
        if let Command::DeleteCheck(check) = command {
            self.forget_check(check.0);
        }
        let before = self.given_settings(command);
        if let Command::QueueReminder(channel) = command
            && self.model.channels.contains_key(&channel.0)
            && !self.accepts(channel.0, AlertEvent::StillDown)
        {
            return Err(CommandError::NotFound);
        }
        let answered = self.model.apply(command, now)?;
        if let Command::UpdateChannel { channel, .. } = command
            && before != self.given_settings(command)
        {
            // Other settings may work.
            self.health.remove(&channel.0);
        }
        self.send(command, now);
        let checks: BTreeSet<_> = changing
            .union(&self.changed_checks(command))
            .copied()
            .collect();
        let changes_settings = !matches!(command, Command::Ping(_));
        for check in checks {
            if self.model.checks.contains_key(&check) {
                self.process_flips(check, changes_settings, now);
            } else {
                self.replay(check);
            }
        }
        self.update_audiences(&audiences);
        if let Command::DeleteCheck(check) = command {
            self.release_children(check.0, now);
        }
        self.sweep();
        Ok(answered)
    }

    /// The settings of the channel that a command gives others.
    fn given_settings(&self, command: &Command) -> Option<ChannelSettings> {
        let Command::UpdateChannel { channel, .. } = command else {
            return None;
        };
        self.model
            .channels
            .get(&channel.0)
            .map(|channel| channel.settings.clone())
    }

    /// The checks that a command changes. Of an assignment those are asked for before and after it.
    fn changed_checks(&self, command: &Command) -> BTreeSet<u64> {
        let all = || self.model.checks.iter();
        match command {
            Command::Ping(request) => {
                let is_meant = |target: &PingTarget, uuid| matches!(target, PingTarget::Uuid(meant) if *meant == uuid);
                all()
                    .filter(|(_, check)| is_meant(&request.target, check.names.uuid))
                    .map(|(id, _)| *id)
                    .collect()
            }
            Command::UpdateCheck(id, _)
            | Command::PauseCheck(id)
            | Command::ResumeCheck(id)
            | Command::DeleteCheck(id) => [id.0].into(),
            Command::SetAlerting { check, .. } => [check.0].into(),
            Command::CreateCheck(_) => all()
                .map(|(id, _)| *id)
                .filter(|id| !self.replayed.contains_key(id))
                .collect(),
            // Before it these are those that are about to change; after it nobody is left.
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
                let is_held = |told: &AnnouncementState| {
                    matches!(
                        told,
                        AnnouncementState::Held {
                            why: HoldCause::Window,
                            ..
                        }
                    )
                };
                self.announcements
                    .iter()
                    .filter(|(_, told)| is_held(told))
                    .map(|(id, _)| *id)
                    .collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Looks at what has become of a check by a ping, by time, or by other settings.
    fn process_flips(&mut self, check: u64, changes_settings: bool, now: i64) {
        let rules = |alerts: &Self| alerts.replayed.get(&check).map(|story| *story.rules());
        let old = rules(self);
        self.replay(check);
        if changes_settings {
            // Parents that are gone go with the next change.
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
        let seen = self.flips.get(&check).copied().unwrap_or_default();
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
            why: HoldCause::Failures,
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
                    why: HoldCause::Failures,
                    until: self.next_missing(check, now).unwrap_or(now),
                },
            );
        }
        self.reconsider(check, changes_settings, now);
        if changes_settings || was_held || !flips.is_empty() {
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
            None => self.decide(check, None, now),
        }
    }

    /// A downtime is over: those who know of it are notified, unless the check is paused and they
    /// keep no incidents.
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
            Some(AnnouncementState::Held { why, .. }) => {
                self.count(AlertCase::EndedUnannounced(why.kind()));
                self.log.add(
                    ExpectedMessage::new(0, check, flip - 1, AlertEvent::Down),
                    ExpectedOutcome::Finished(DeliveryResult::Skipped, why.skip_reason()),
                );
            }
            None => {}
        }
    }

    /// A check is deleted.
    fn forget_check(&mut self, check: u64) {
        let flip = self.flips.get(&check).copied().unwrap_or_default();
        if self.model.checks.contains_key(&check) {
            self.forget_rows(check);
        }
        match self.announcements.remove(&check) {
            Some(AnnouncementState::Announced { .. }) => {
                self.count(AlertCase::Deleted);
                let before = self.log.rows.len();
                self.notify(check, AlertEvent::Closed, (flip, flip));
                // An earlier end that is being sent does not say that the check was deleted.
                self.log.rows[before..]
                    .iter_mut()
                    .for_each(|row| *row = (*row).of_deleted_check());
            }
            Some(AnnouncementState::Held { .. }) => {
                self.log.add(
                    ExpectedMessage::new(0, check, flip, AlertEvent::Down),
                    message_log::CHECK_GONE,
                );
            }
            None => {}
        }
    }
}
