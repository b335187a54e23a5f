//! Whom an alert is for: channels that hear of a check, and what they know of its downtime.

use super::*;

/// Checks of which it was told that they are down, by which flip, and the channels that hear of
/// them.
pub(super) type Audiences = BTreeMap<(u64, usize), BTreeSet<u64>>;

impl AlertModel {
    pub(crate) fn is_disabled(&self, channel: u64) -> bool {
        self.health
            .get(&channel)
            .is_some_and(|health| health.disabled)
    }

    /// Whether a channel is disabled, and whether what was sent to it last was not taken.
    pub(crate) fn health(&self, channel: u64) -> (bool, bool) {
        self.health
            .get(&channel)
            .map_or((false, false), |health| (health.disabled, health.failing))
    }

    /// Whether a channel is assigned to a check, hears of every check, or belongs to a group of
    /// which one of these is true.
    fn is_in_audience(&self, channel: u64, check: u64) -> bool {
        let channels = &self.model.channels;
        let own = &self.model.checks[&check];
        let is_asked = |id: u64| {
            let is_there = channels
                .get(&id)
                .is_some_and(|channel| channel.project == own.project);
            is_there
                && (own.labels.channels.contains(&id)
                    || channels[&id].setting("every") == Some("on"))
        };
        let groups = channels
            .iter()
            .filter(|(_, group)| group.has_member(channels[&channel].uuid));
        is_asked(channel) || groups.map(|(id, _)| *id).any(is_asked)
    }

    pub(super) fn accepts(&self, channel: u64, event: AlertEvent) -> bool {
        let channel = &self.model.channels[&channel];
        let kind = channel.settings.kind().name;
        let sends = |word: &str| {
            channel
                .setting("send")
                .is_none_or(|send| send.split(',').any(|item| item.trim() == word))
        };
        match event {
            _ if kind == "group" => false,
            AlertEvent::Down => sends("down"),
            AlertEvent::Up => sends("up"),
            AlertEvent::Closed => kind == "pd",
            AlertEvent::StillDown => kind == "email" && sends("down"),
            AlertEvent::Test | AlertEvent::Notice => false,
        }
    }

    pub(super) fn audience(&self, check: u64, event: AlertEvent) -> Vec<u64> {
        let all = self.model.channels.keys().copied();
        all.filter(|channel| self.accepts(*channel, event) && self.is_in_audience(*channel, check))
            .collect()
    }

    fn keeps_incidents(&self, channel: u64) -> bool {
        self.model
            .channels
            .get(&channel)
            .is_some_and(|channel| channel.settings.kind().name == "pd")
    }

    /// Whether a channel was not notified of a downtime, so that it is not notified of its end. To
    /// one that keeps incidents a needless end does no harm.
    fn missed_downtime(&self, channel: u64, check: u64, flip: usize) -> bool {
        !self.keeps_incidents(channel)
            && self
                .log
                .last_about_downtime(channel, check, flip)
                .is_some_and(ExpectedMessage::is_unsent)
    }

    /// What waits about a check that is deleted is left out.
    pub(super) fn forget_rows(&mut self, check: u64) {
        let incidents: BTreeSet<_> = self
            .model
            .channels
            .keys()
            .copied()
            .filter(|channel| self.keeps_incidents(*channel))
            .collect();
        self.log
            .forget_check(check, |channel| incidents.contains(&channel));
    }

    /// It is told that a check is down.
    pub(super) fn announce(&mut self, check: u64, before: Option<HoldCause>) {
        let flip = self.flips[&check];
        let audience = self.audience(check, AlertEvent::Down);
        let heard = audience.iter().any(|channel| !self.is_disabled(*channel));
        self.announcements
            .insert(check, AnnouncementState::Announced { heard });
        self.notify(check, AlertEvent::Down, (flip, flip));
        if audience.is_empty() {
            self.count(AlertCase::Nobody);
            self.log.add(
                ExpectedMessage::new(0, check, flip, AlertEvent::Down),
                message_log::NOBODY,
            );
        }
        before
            .into_iter()
            .for_each(|why| self.count(AlertCase::AnnouncedAfter(why.kind())));
    }

    /// Notifies all channels of a check as its flip `of`. Who does not know of the downtime that
    /// began with `down` is not notified of its end.
    pub(super) fn notify(&mut self, check: u64, event: AlertEvent, (down, of): (usize, usize)) {
        for channel in self.audience(check, event) {
            if event != AlertEvent::Down && self.missed_downtime(channel, check, down) {
                self.count(AlertCase::UnawareAtTheEnd);
                continue;
            }
            if event == AlertEvent::Closed {
                self.count(AlertCase::Closed);
            }
            let is_assigned = self.model.checks[&check].labels.channels.contains(&channel);
            if !is_assigned {
                let is_every = self.model.channels[&channel].setting("every") == Some("on");
                self.count(if is_every {
                    AlertCase::EveryCheck
                } else {
                    AlertCase::ThroughAGroup
                });
            }
            self.queue(ExpectedMessage::new(channel, check, of, event));
        }
    }

    fn queue(&mut self, row: ExpectedMessage) {
        if self.is_disabled(row.channel) {
            self.log.add(row, message_log::DISABLED);
        } else if self.log.queue(row) {
            self.count(AlertCase::Superseded);
        }
    }

    /// The checks of which it was told that they are down, with the flip, and the channels that
    /// hear of them.
    pub(super) fn audiences(&self) -> Audiences {
        let is_told =
            |told: &AnnouncementState| matches!(told, AnnouncementState::Announced { .. });
        let told: Audiences = self
            .announcements
            .iter()
            .filter(|(_, told)| is_told(told))
            .map(|(id, _)| ((*id, self.flips[id]), BTreeSet::new()))
            .collect();
        let hearing = |check| {
            self.model
                .channels
                .keys()
                .copied()
                .filter(|channel| self.is_in_audience(*channel, check))
                .collect()
        };
        told.into_keys()
            .map(|(check, flip)| ((check, flip), hearing(check)))
            .collect()
    }

    /// A channel that joins the audience of a check that is down is notified neither of that nor of
    /// the end, unless it keeps incidents: then it opens one again that was closed when it
    /// left.
    pub(super) fn update_audiences(&mut self, before: &Audiences) {
        for ((check, flip), after) in self.audiences() {
            let Some(before) = before.get(&(check, flip)) else {
                continue;
            };
            for channel in before
                .difference(&after)
                .copied()
                .filter(|channel| self.model.channels.contains_key(channel))
                .collect::<Vec<_>>()
            {
                if self.missed_downtime(channel, check, flip) {
                    continue;
                }
                self.count(AlertCase::Left);
                if self.accepts(channel, AlertEvent::Closed) {
                    self.queue(ExpectedMessage::new(
                        channel,
                        check,
                        flip,
                        AlertEvent::Closed,
                    ));
                }
            }
            for channel in after
                .difference(before)
                .copied()
                .filter(|channel| self.accepts(*channel, AlertEvent::Down))
                .collect::<Vec<_>>()
            {
                match self
                    .log
                    .last_about_downtime(channel, check, flip)
                    .map(|row| row.event)
                {
                    None => {
                        self.count(AlertCase::Joined);
                        self.log.add(
                            ExpectedMessage::new(channel, check, flip, AlertEvent::Down),
                            message_log::ASSIGNED_WHILE_DOWN,
                        );
                    }
                    Some(AlertEvent::Closed) => {
                        self.count(AlertCase::Reopened);
                        self.queue(ExpectedMessage::new(channel, check, flip, AlertEvent::Down));
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
            Command::DisableChannel { channel, .. } => {
                self.health.entry(channel.0).or_default().disabled = true;
            }
            Command::QueueReminder(channel)
                if self.accepts(channel.0, AlertEvent::StillDown)
                    && !self.is_disabled(channel.0)
                    && !self.log.reminds(channel.0) =>
            {
                self.count(AlertCase::Reminded);
                self.log
                    .queue(ExpectedMessage::new(channel.0, 0, 0, AlertEvent::StillDown));
            }
            Command::BeginDeliveries(numbers, _) => {
                let numbers: Vec<_> = numbers.iter().map(|number| number.0).collect();
                let health = &self.health;
                let Model {
                    checks, channels, ..
                } = &self.model;
                let sendable = |id| {
                    channels.contains_key(&id)
                        && !health.get(&id).is_some_and(|health| health.disabled)
                };
                let given_up = self
                    .log
                    .begin(&numbers, sendable, |check| checks.contains_key(&check));
                given_up.iter().for_each(|row| self.give_up(row, now));
            }
            Command::RecordDeliveryReports(reports) => {
                for report in reports {
                    self.note_reminder(report.rows[0].0, &report.result);
                    let checks = &self.model.checks;
                    let given_up = self.log.report(report.rows[0].0, &report.result, |check| {
                        checks.contains_key(&check)
                    });
                    given_up.iter().for_each(|row| self.give_up(row, now));
                    self.note_health(report.channel.0, &report.result);
                }
            }
            _ => {}
        }
    }

    /// A reminder names all checks that are down, so its channel knows of them.
    fn note_reminder(&mut self, number: u64, sent: &SendOutcome) {
        let reminded = self
            .log
            .rows
            .iter()
            .find(|row| row.check == 0 && row.is_sent_as(number))
            .map(|row| row.channel);
        if let Some(channel) = reminded.filter(|_| *sent == SendOutcome::Delivered) {
            let named = self
                .audiences()
                .into_iter()
                .filter(|(_, hearing)| hearing.contains(&channel));
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
            SendOutcome::Retry { .. } => health.failing = true,
            SendOutcome::ChannelRejected(_) => health.disabled = true,
            _ => {}
        }
    }

    /// Nothing hides behind a check whose alert was given up, unless another channel works that is
    /// told of it.
    fn give_up(&mut self, row: &ExpectedMessage, now: i64) {
        let is_current =
            row.event == AlertEvent::Down && self.flips.get(&row.check) == Some(&row.flip);
        if !is_current
            || self.announcements.get(&row.check)
                != Some(&AnnouncementState::Announced { heard: true })
        {
            return;
        }
        let works = |channel: &u64| {
            *channel != row.channel
                && !self
                    .health
                    .get(channel)
                    .is_some_and(|health| health.disabled || health.failing)
        };
        if !self.audience(row.check, AlertEvent::Down).iter().any(works) {
            self.count(AlertCase::NobodyReached);
            self.announcements
                .insert(row.check, AnnouncementState::Announced { heard: false });
            self.release_children(row.check, now);
        }
    }

    /// What waits for a channel that is gone or disabled is left out.
    pub(crate) fn sweep(&mut self) {
        let health = &self.health;
        let channels = &self.model.channels;
        self.log.skip_waiting(|channel| {
            let is_disabled = health.get(&channel).is_some_and(|health| health.disabled);
            if channels.contains_key(&channel) {
                is_disabled.then_some(message_log::DISABLED)
            } else {
                Some(message_log::CHANNEL_GONE)
            }
        });
    }

    /// The server has ended and started; times without pings are as its file says.
    pub(crate) fn restart(&mut self) {
        self.log.restart();
        self.sweep();
    }
}
