//! Who is notified of what: the rules, as the chapters on alerts and on operation state them, applied to the history of each check.

mod held;
mod notified;

use std::collections::{BTreeMap, BTreeSet};

use overdue::domain::alert::{DeliveryOutcome, Event};
use overdue::domain::channel::ChannelSettings;
use overdue::domain::flip::Cause;
use overdue::domain::outcomes::RunOutcome;
use overdue::domain::status::Status;
use overdue::engine::command::{Command, Refusal, SendOutcome, Target};

use super::super::model::{Answered, Check, Model};
use super::super::story::{Period, Story};
use super::log::{self, Fate, Log, Row};

const SECOND: i64 = 1_000_000;
/// So soon it is looked again whether what holds an alert back still does, and for so long a parent is waited for.
const LOOK: i64 = 15 * 60 * SECOND;
/// For so long after a time without pings, one that may have been lost in it is waited for.
const CHANCE: i64 = 15 * 60 * SECOND;
/// A check that is not expected within that time is waited for no longer than this.
const AT_ONCE: i64 = 2 * 60 * SECOND;

/// What an alert about a downtime waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    Away,
    Failures,
    Window,
    Parent,
    Behind(u64),
}

/// What has been told of the downtime that a check is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    NotYet {
        why: Why,
        until: i64,
    },
    /// `heard`: for all that is known a channel has got it, or is going to.
    Yes {
        heard: bool,
    },
}

/// What is wrong with a channel.
#[derive(Clone, Copy, Default)]
struct Health {
    disabled: bool,
    failing: bool,
}

/// The same, whichever parent it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reason {
    Away,
    Failures,
    Window,
    Parent,
    Behind,
}

/// What has happened: each case is to occur.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Case {
    Held(Reason),
    Released,
    ToldAfter(Reason),
    OverUntold(Reason),
    Nobody,
    Joined,
    Reopened,
    Left,
    Closed,
    UnawareAtTheEnd,
    ThroughAGroup,
    EveryCheck,
    Unheard,
    Deleted,
    Reminded,
    Superseded,
}

/// The model of checks and channels, and what follows from it for alerts. Times are microseconds.
#[derive(Clone, Default)]
pub(crate) struct Alerts {
    pub(crate) model: Model,
    pub(crate) log: Log,
    /// Of each check that is down.
    pub(crate) told: BTreeMap<u64, Told>,
    /// Times in which no pings could be taken, oldest first.
    pub(crate) outages: Vec<(i64, i64)>,
    pub(crate) cases: BTreeMap<Case, u32>,
    health: BTreeMap<u64, Health>,
    stories: BTreeMap<u64, Story>,
    /// Flips of each check that have been looked at.
    flips: BTreeMap<u64, usize>,
    /// Pings that were missing while the check was down already, since its last success.
    missed: BTreeMap<u64, usize>,
}

impl Why {
    fn reason(self) -> Reason {
        match self {
            Self::Away => Reason::Away,
            Self::Failures => Reason::Failures,
            Self::Window => Reason::Window,
            Self::Parent => Reason::Parent,
            Self::Behind(_) => Reason::Behind,
        }
    }

    /// Words of the reason why nobody was notified of a downtime that is over.
    fn words(self) -> &'static str {
        match self {
            Self::Away => "no pings could be taken",
            Self::Failures => "failed often enough",
            Self::Window => "maintenance window",
            Self::Parent => "parent",
            Self::Behind(_) => "a parent was",
        }
    }
}

impl Alerts {
    fn count(&mut self, case: Case) {
        *self.cases.entry(case).or_default() += 1;
    }

    /// Each check as it is seen here, for whoever looks for a difference.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let line = |(id, own): (&u64, &Check)| {
            let (story, told, uuid) = (self.story(*id), self.told.get(id), own.names.uuid);
            format!(
                "{id} ({uuid:.4}): {:?} since {}, {told:?}, parents {:?}, after {:?}, missed {:?}",
                story.status,
                story.changed,
                own.parents,
                own.after,
                self.missed.get(id)
            )
        };
        self.model.checks.iter().map(line).collect()
    }

    fn story(&self, check: u64) -> &Story {
        &self.stories[&check]
    }

    fn read(&mut self, check: u64) {
        match self.model.checks.get(&check) {
            Some(own) => drop(self.stories.insert(check, own.story())),
            None => drop(self.stories.remove(&check)),
        }
    }

    /// When something is to be decided next: a deadline, or whether an alert is held back any longer; and about which check.
    pub(crate) fn next_due(&self) -> Option<(i64, u64)> {
        self.all_due().min()
    }

    /// The same of each check.
    pub(crate) fn all_due(&self) -> impl Iterator<Item = (i64, u64)> {
        self.model.checks.keys().filter_map(|check| self.due(*check))
    }

    fn due(&self, check: u64) -> Option<(i64, u64)> {
        let decision = if let Some(Told::NotYet { until, .. }) = self.told.get(&check) { Some(*until) } else { None };
        let deadline = self.stories.get(&check).and_then(Story::deadline);
        decision.into_iter().chain(deadline).min().map(|at| (at, check))
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = i64> {
        self.stories.values().filter_map(Story::deadline)
    }

    /// When it is decided whether alerts are held back any longer.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = i64> {
        self.told.values().filter_map(|told| if let Told::NotYet { until, .. } = told { Some(*until) } else { None })
    }

    /// Everything that is due by now happens in order, what is due at the same moment in the order in which the checks were made.
    pub(crate) fn notice(&mut self, now: i64) {
        while let Some((at, check)) = self.next_due().filter(|(at, _)| *at <= now) {
            self.happen(check, at, now);
        }
    }

    /// What is due of a check happens. A check goes down after those that depend on it and fall due at the same moment.
    fn happen(&mut self, check: u64, at: i64, now: i64) {
        if !self.told.contains_key(&check) {
            let below = self.below(check);
            while let Some((at, child)) = below.iter().filter_map(|child| self.due(*child)).filter(|(due, _)| *due <= at).min() {
                self.happen(child, at, now);
            }
        }
        self.model.checks.get_mut(&check).expect("a check that is due").settle(now);
        self.meet(check, true, now);
    }

    /// The checks that depend on one, or on one that does.
    fn below(&self, check: u64) -> BTreeSet<u64> {
        let mut below = BTreeSet::from([check]);
        loop {
            let depends = |own: &Check| !own.parents.is_disjoint(&below);
            let more: Vec<_> = self.model.checks.iter().filter(|(_, own)| depends(own)).map(|(id, _)| *id).collect();
            let count = below.len();
            below.extend(more);
            if below.len() == count {
                below.remove(&check);
                return below;
            }
        }
    }

    pub(crate) fn carry_out(&mut self, command: &Command, now: i64) -> Result<Answered, Refusal> {
        self.notice(now);
        let (audiences, changing) = (self.audiences(), self.changing(command));
        if let Command::DeleteCheck(check) = command {
            self.forget(check.0);
        }
        let before = self.given_settings(command);
        if let Command::Remind(channel) = command
            && self.model.channels.contains_key(&channel.0)
            && !self.takes(channel.0, Event::Still)
        {
            return Err(Refusal::NotFound);
        }
        let answered = self.model.apply(command, now)?;
        if let Command::SetChannel { channel, .. } = command
            && before != self.given_settings(command)
        {
            // Other settings may work.
            self.health.remove(&channel.0);
        }
        self.send(command, now);
        let checks: BTreeSet<_> = changing.union(&self.changing(command)).copied().collect();
        let changes_settings = !matches!(command, Command::Ping(_));
        for check in checks {
            if self.model.checks.contains_key(&check) {
                self.meet(check, changes_settings, now);
            } else {
                self.read(check);
            }
        }
        self.move_audiences(&audiences);
        if let Command::DeleteCheck(check) = command {
            self.release(check.0, now);
        }
        self.sweep();
        Ok(answered)
    }

    /// The settings of the channel that a command gives others.
    fn given_settings(&self, command: &Command) -> Option<ChannelSettings> {
        let Command::SetChannel { channel, .. } = command else { return None };
        self.model.channels.get(&channel.0).map(|channel| channel.settings.clone())
    }

    /// The checks that a command changes. Of an assignment those are asked for before and after it.
    fn changing(&self, command: &Command) -> BTreeSet<u64> {
        let all = || self.model.checks.iter();
        match command {
            Command::Ping(request) => {
                let is_meant = |target: &Target, uuid| matches!(target, Target::Uuid(meant) if *meant == uuid);
                all().filter(|(_, check)| is_meant(&request.target, check.names.uuid)).map(|(id, _)| *id).collect()
            }
            Command::UpdateCheck(id, _) | Command::Pause(id) | Command::Resume(id) | Command::DeleteCheck(id) => [id.0].into(),
            Command::SetAlerting { check, .. } => [check.0].into(),
            Command::CreateCheck(_) => all().map(|(id, _)| *id).filter(|id| !self.stories.contains_key(id)).collect(),
            // Before it these are those that are about to change; after it nobody is left.
            Command::AssignChannel { channel, checks, assigned } => {
                let differs =
                    |id: &u64| self.model.checks.get(id).is_some_and(|check| check.labels.channels.contains(&channel.0) != *assigned);
                checks.iter().map(|id| id.0).filter(differs).collect()
            }
            Command::DeleteWindow(..) => {
                let is_held = |told: &Told| matches!(told, Told::NotYet { why: Why::Window, .. });
                self.told.iter().filter(|(_, told)| is_held(told)).map(|(id, _)| *id).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Looks at what has become of a check by a ping, by time, or by other settings.
    fn meet(&mut self, check: u64, changes_settings: bool, now: i64) {
        let rules = |alerts: &Self| alerts.stories.get(&check).map(|story| *story.rules());
        let old = rules(self);
        self.read(check);
        if changes_settings {
            // Parents that are gone go with the next change.
            let ids: BTreeSet<_> = self.model.checks.keys().copied().collect();
            self.model.checks.get_mut(&check).expect("the check").parents.retain(|parent| ids.contains(parent));
        }
        let was_held = matches!(self.told.get(&check), Some(Told::NotYet { .. }));
        let seen = self.flips.get(&check).copied().unwrap_or_default();
        let flips = self.story(check).flips[seen..].to_vec();
        for (at, _, to, cause) in &flips {
            *self.flips.entry(check).or_default() += 1;
            if *to == Status::Down { self.begins(check, *at, *cause, now) } else { self.ends(check, *to) }
        }
        if let Some(Told::NotYet { why: Why::Failures, until }) = self.told.get(&check).copied()
            && until > now
            && old.is_some_and(|old| Some((old.period, old.grace)) != rules(self).map(|new| (new.period, new.grace)))
        {
            self.told.insert(check, Told::NotYet { why: Why::Failures, until: self.next_missing(check, now).unwrap_or(now) });
        }
        self.reconsider(check, changes_settings, now);
        if changes_settings || was_held || !flips.is_empty() {
            self.release(check, now);
        }
    }

    fn begins(&mut self, check: u64, at: i64, cause: Cause, now: i64) {
        let is_silent = matches!(cause, Cause::Late | Cause::Overrun | Cause::Edited);
        let chance = is_silent.then(|| self.outage(check, at, now)).flatten().and_then(|until| self.chance(check, until, now));
        match chance {
            Some(at) => self.hold(check, Why::Away, at.max(now)),
            None => self.decide(check, None, now),
        }
    }

    /// A downtime is over: those who know of it are notified, unless the check is paused and they keep no incidents.
    fn ends(&mut self, check: u64, to: Status) {
        let flip = self.flips[&check];
        if to == Status::Up {
            self.missed.remove(&check);
        }
        match self.told.remove(&check) {
            Some(Told::Yes { .. }) => {
                self.notify(check, if to == Status::Up { Event::Up } else { Event::Closed }, (flip - 1, flip));
            }
            Some(Told::NotYet { why, .. }) => {
                self.count(Case::OverUntold(why.reason()));
                self.log.add(Row::new(0, check, flip - 1, Event::Down), Fate::Over(DeliveryOutcome::Skipped, why.words()));
            }
            None => {}
        }
    }

    /// A check is deleted.
    fn forget(&mut self, check: u64) {
        let flip = self.flips.get(&check).copied().unwrap_or_default();
        if self.model.checks.contains_key(&check) {
            self.forget_rows(check);
        }
        match self.told.remove(&check) {
            Some(Told::Yes { .. }) => {
                self.count(Case::Deleted);
                self.notify(check, Event::Closed, (flip, flip));
                let closed = self.log.rows.iter_mut().rev().take_while(|row| (row.check, row.event) == (check, Event::Closed));
                closed.for_each(|row| *row = (*row).of_gone());
            }
            Some(Told::NotYet { .. }) => self.log.add(Row::new(0, check, flip, Event::Down), log::CHECK_GONE),
            None => {}
        }
    }
}
