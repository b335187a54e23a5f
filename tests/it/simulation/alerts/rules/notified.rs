//! Whom an alert is for: channels that hear of a check, and what they know of its downtime.

use super::*;

/// Checks of which it was told that they are down, by which flip, and the channels that hear of them.
pub(super) type Audiences = BTreeMap<(u64, usize), BTreeSet<u64>>;

impl Alerts {
    pub(crate) fn is_disabled(&self, channel: u64) -> bool {
        self.health.get(&channel).is_some_and(|health| health.disabled)
    }

    /// Whether a channel is disabled, and whether what was sent to it last was not taken.
    pub(crate) fn health(&self, channel: u64) -> (bool, bool) {
        self.health.get(&channel).map_or((false, false), |health| (health.disabled, health.failing))
    }

    /// Whether a channel is assigned to a check, hears of every check, or belongs to a group of which one of these is true.
    fn hears(&self, channel: u64, check: u64) -> bool {
        let (channels, own) = (&self.model.channels, &self.model.checks[&check]);
        let is_asked = |id: u64| {
            let is_there = channels.get(&id).is_some_and(|channel| channel.project == own.project);
            is_there && (own.labels.channels.contains(&id) || channels[&id].setting("every") == Some("on"))
        };
        let groups = channels.iter().filter(|(_, group)| group.has_member(channels[&channel].uuid));
        is_asked(channel) || groups.map(|(id, _)| *id).any(is_asked)
    }

    pub(super) fn takes(&self, channel: u64, event: Event) -> bool {
        let channel = &self.model.channels[&channel];
        let kind = channel.settings.kind().name;
        let sends = |word: &str| channel.setting("send").is_none_or(|send| send.split(',').any(|item| item.trim() == word));
        match event {
            _ if kind == "group" => false,
            Event::Down => sends("down"),
            Event::Up => sends("up"),
            Event::Closed => kind == "pd",
            Event::Still => kind == "email" && sends("down"),
            Event::Test | Event::Notice => false,
        }
    }

    pub(super) fn audience(&self, check: u64, event: Event) -> Vec<u64> {
        let all = self.model.channels.keys().copied();
        all.filter(|channel| self.takes(*channel, event) && self.hears(*channel, check)).collect()
    }

    fn keeps_incidents(&self, channel: u64) -> bool {
        self.model.channels.get(&channel).is_some_and(|channel| channel.settings.kind().name == "pd")
    }

    /// Whether a channel was not notified of a downtime, so that it is not notified of its end. To one that keeps incidents a needless end
    /// does no harm.
    fn is_unaware(&self, channel: u64, check: u64, flip: usize) -> bool {
        !self.keeps_incidents(channel) && self.log.last(channel, check, flip).is_some_and(Row::is_unsent)
    }

    /// What waits about a check that is deleted is left out.
    pub(super) fn forget_rows(&mut self, check: u64) {
        let incidents: BTreeSet<_> = self.model.channels.keys().copied().filter(|channel| self.keeps_incidents(*channel)).collect();
        self.log.forget_check(check, |channel| incidents.contains(&channel));
    }

    /// It is told that a check is down.
    pub(super) fn tell(&mut self, check: u64, before: Option<Why>) {
        let flip = self.flips[&check];
        let audience = self.audience(check, Event::Down);
        let heard = audience.iter().any(|channel| !self.is_disabled(*channel));
        self.told.insert(check, Told::Yes { heard });
        self.notify(check, Event::Down, (flip, flip));
        if audience.is_empty() {
            self.count(Case::Nobody);
            self.log.add(Row::new(0, check, flip, Event::Down), log::NOBODY);
        }
        before.into_iter().for_each(|why| self.count(Case::ToldAfter(why.reason())));
    }

    /// Notifies all channels of a check as its flip `of`. Who does not know of the downtime that began with `down` is not notified of its
    /// end.
    pub(super) fn notify(&mut self, check: u64, event: Event, (down, of): (usize, usize)) {
        for channel in self.audience(check, event) {
            if event != Event::Down && self.is_unaware(channel, check, down) {
                self.count(Case::UnawareAtTheEnd);
                continue;
            }
            if event == Event::Closed {
                self.count(Case::Closed);
            }
            let is_assigned = self.model.checks[&check].labels.channels.contains(&channel);
            if !is_assigned {
                let is_every = self.model.channels[&channel].setting("every") == Some("on");
                self.count(if is_every { Case::EveryCheck } else { Case::ThroughAGroup });
            }
            self.queue(Row::new(channel, check, of, event));
        }
    }

    fn queue(&mut self, row: Row) {
        if self.is_disabled(row.channel) {
            self.log.add(row, log::DISABLED);
        } else if self.log.queue(row) {
            self.count(Case::Superseded);
        }
    }

    /// The checks of which it was told that they are down, with the flip, and the channels that hear of them.
    pub(super) fn audiences(&self) -> Audiences {
        let is_told = |told: &Told| matches!(told, Told::Yes { .. });
        let told: Audiences =
            self.told.iter().filter(|(_, told)| is_told(told)).map(|(id, _)| ((*id, self.flips[id]), BTreeSet::new())).collect();
        let hearing = |check| self.model.channels.keys().copied().filter(|channel| self.hears(*channel, check)).collect();
        told.into_keys().map(|(check, flip)| ((check, flip), hearing(check))).collect()
    }

    /// A channel that joins the audience of a check that is down is notified neither of that nor of the end, unless it keeps incidents: then
    /// it opens one again that was closed when it left.
    pub(super) fn move_audiences(&mut self, before: &Audiences) {
        for ((check, flip), after) in self.audiences() {
            let Some(before) = before.get(&(check, flip)) else { continue };
            for channel in
                before.difference(&after).copied().filter(|channel| self.model.channels.contains_key(channel)).collect::<Vec<_>>()
            {
                if self.is_unaware(channel, check, flip) {
                    continue;
                }
                self.count(Case::Left);
                if self.takes(channel, Event::Closed) {
                    self.queue(Row::new(channel, check, flip, Event::Closed));
                }
            }
            for channel in after.difference(before).copied().filter(|channel| self.takes(*channel, Event::Down)).collect::<Vec<_>>() {
                match self.log.last(channel, check, flip).map(|row| row.event) {
                    None => {
                        self.count(Case::Joined);
                        self.log.add(Row::new(channel, check, flip, Event::Down), log::JOINED_LATE);
                    }
                    Some(Event::Closed) => {
                        self.count(Case::Reopened);
                        self.queue(Row::new(channel, check, flip, Event::Down));
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Reminders, and what those report who send.
    pub(super) fn send(&mut self, command: &Command, now: i64) {
        match command {
            Command::EnableChannel(channel) => drop(self.health.remove(&channel.0)),
            Command::DisableChannel { channel, .. } => self.health.entry(channel.0).or_default().disabled = true,
            Command::Remind(channel)
                if self.takes(channel.0, Event::Still) && !self.is_disabled(channel.0) && !self.log.reminds(channel.0) =>
            {
                self.count(Case::Reminded);
                self.log.queue(Row::new(channel.0, 0, 0, Event::Still));
            }
            Command::BeginDeliveries(numbers, _) => {
                let numbers: Vec<_> = numbers.iter().map(|number| number.0).collect();
                let (health, Model { checks, channels, .. }) = (&self.health, &self.model);
                let sendable = |id| channels.contains_key(&id) && !health.get(&id).is_some_and(|health| health.disabled);
                let given_up = self.log.begin(&numbers, sendable, |check| checks.contains_key(&check));
                given_up.iter().for_each(|row| self.give_up(row, now));
            }
            Command::ReportDeliveries(reports) => {
                for report in reports {
                    self.note_reminder(report.rows[0].0, &report.sent);
                    let checks = &self.model.checks;
                    let given_up = self.log.report(report.rows[0].0, &report.sent, |check| checks.contains_key(&check));
                    given_up.iter().for_each(|row| self.give_up(row, now));
                    self.note_health(report.channel.0, &report.sent);
                }
            }
            _ => {}
        }
    }

    /// A reminder names all checks that are down, so its channel knows of them.
    fn note_reminder(&mut self, number: u64, sent: &SendOutcome) {
        let reminded = self.log.rows.iter().find(|row| row.check == 0 && row.is_sent_as(number)).map(|row| row.channel);
        if let Some(channel) = reminded.filter(|_| *sent == SendOutcome::Delivered) {
            let named = self.audiences().into_iter().filter(|(_, hearing)| hearing.contains(&channel));
            let named: Vec<_> = named.map(|(downtime, _)| downtime).collect();
            self.log.note_reminded(channel, &named);
        }
    }

    fn note_health(&mut self, channel: u64, sent: &SendOutcome) {
        if !self.model.channels.contains_key(&channel) {
            return;
        }
        let health = self.health.entry(channel).or_default();
        match sent {
            SendOutcome::Delivered => health.failing = false,
            SendOutcome::Later { .. } => health.failing = true,
            SendOutcome::Closed(_) => health.disabled = true,
            _ => {}
        }
    }

    /// Nothing hides behind a check whose alert was given up, unless another channel works that is told of it.
    fn give_up(&mut self, row: &Row, now: i64) {
        let is_current = row.event == Event::Down && self.flips.get(&row.check) == Some(&row.flip);
        if !is_current || self.told.get(&row.check) != Some(&Told::Yes { heard: true }) {
            return;
        }
        let works =
            |channel: &u64| *channel != row.channel && !self.health.get(channel).is_some_and(|health| health.disabled || health.failing);
        if !self.audience(row.check, Event::Down).iter().any(works) {
            self.count(Case::Unheard);
            self.told.insert(row.check, Told::Yes { heard: false });
            self.release(row.check, now);
        }
    }

    /// What waits for a channel that is gone or disabled is left out.
    pub(crate) fn sweep(&mut self) {
        let (health, channels) = (&self.health, &self.model.channels);
        self.log.sweep(|channel| {
            let is_disabled = health.get(&channel).is_some_and(|health| health.disabled);
            if channels.contains_key(&channel) { is_disabled.then_some(log::DISABLED) } else { Some(log::CHANNEL_GONE) }
        });
    }

    /// The server has ended and started; times without pings are as its file says.
    pub(crate) fn restart(&mut self) {
        self.log.restart();
        self.sweep();
    }
}
