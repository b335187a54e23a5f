//! Channels of an alert, and their knowledge of a downtime.

use overdue::domain::check::WarningKind;

use super::*;

/// Audience of each announced downtime, which is identified by its check and flip.
pub(super) type Audiences = BTreeMap<(u64, usize), BTreeSet<u64>>;

impl AlertModel {
    pub(crate) fn is_disabled(&self, channel: u64) -> bool {
        self.health
            .get(&channel)
            .is_some_and(|health| health.disabled)
    }

    /// Returns whether a channel is disabled and whether its last delivery failed.
    pub(crate) fn health(&self, channel: u64) -> (bool, bool) {
        self.health
            .get(&channel)
            .map_or((false, false), |health| (health.disabled, health.failing))
    }

    /// True if a channel is assigned to a check, is notified of all checks, or belongs to a group
    /// for which one of these is true.
    fn is_in_audience(&self, channel: u64, check: u64) -> bool {
        let channels = &self.model.channels;
        let model_check = &self.model.checks[&check];
        let is_notified = |id: u64| {
            let exists = channels
                .get(&id)
                .is_some_and(|channel| channel.project == model_check.project);
            exists
                && (model_check.labels.channels.contains(&id)
                    || channels[&id].setting("every") == Some("on"))
        };
        let groups = channels
            .iter()
            .filter(|(_, group)| group.has_member(channels[&channel].uuid));
        is_notified(channel) || groups.map(|(id, _)| *id).any(is_notified)
    }

    pub(super) fn accepts(&self, channel: u64, event: AlertEvent) -> bool {
        let channel = &self.model.channels[&channel];
        let kind = channel.settings.kind().name;
        let sends = |word: &str| {
            let send = channel.setting("send").unwrap_or("down,up");
            send.split(',').any(|item| item.trim() == word)
        };
        match event {
            _ if kind == "group" => false,
            AlertEvent::Down => sends("down"),
            AlertEvent::Up => sends("up"),
            AlertEvent::Closed => kind == "pd",
            AlertEvent::Warning(warning) => {
                let word = if warning == WarningKind::Late {
                    "late"
                } else {
                    "limits"
                };
                kind != "pd" && sends(word)
            }
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

    /// True if a channel was not notified of a downtime, so that it is not notified of its end. For
    /// a channel that keeps incidents, a superfluous end does no harm.
    fn missed_downtime(&self, channel: u64, check: u64, flip: usize) -> bool {
        !self.keeps_incidents(channel)
            && self
                .log
                .last_about_downtime(channel, check, flip)
                .is_some_and(ExpectedMessage::is_unsent)
    }

    /// Skips the waiting rows about a deleted check.
    pub(super) fn skip_rows_of_deleted_check(&mut self, check: u64) {
        let incidents: BTreeSet<_> = self
            .model
            .channels
            .keys()
            .copied()
            .filter(|channel| self.keeps_incidents(*channel))
            .collect();
        self.log
            .skip_rows_of_deleted_check(check, |channel| incidents.contains(&channel));
    }

    /// Announces a downtime.
    pub(super) fn announce(&mut self, check: u64, before: Option<HoldCause>) {
        let flip = self.flips[&check];
        let audience = self.audience(check, AlertEvent::Down);
        let reached = audience.iter().any(|channel| !self.is_disabled(*channel));
        self.announcements
            .insert(check, AnnouncementState::Announced { reached });
        self.notify(check, AlertEvent::Down, (flip, flip));
        if audience.is_empty() {
            self.count(AlertCase::NoRecipient);
            self.log.add(
                ExpectedMessage::new(0, check, flip, AlertEvent::Down),
                message_log::NO_RECIPIENT,
            );
        }
        before
            .into_iter()
            .for_each(|cause| self.count(AlertCase::AnnouncedAfter(cause.kind())));
    }

    /// Notifies all channels of a check about `flip`. A channel that was not notified of the
    /// downtime that began with the flip `down` is not notified of its end.
    pub(super) fn notify(&mut self, check: u64, event: AlertEvent, (down, flip): (usize, usize)) {
        for channel in self.audience(check, event) {
            if event != AlertEvent::Down && self.missed_downtime(channel, check, down) {
                self.count(AlertCase::EndWithoutStart);
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
            self.queue(ExpectedMessage::new(channel, check, flip, event));
        }
    }

    pub(super) fn queue(&mut self, row: ExpectedMessage) {
        if self.is_disabled(row.channel) {
            self.log.add(row, message_log::DISABLED);
        } else if self.log.queue(row) {
            self.count(if row.event.is_warning() {
                AlertCase::WarningSuperseded
            } else {
                AlertCase::Superseded
            });
        }
    }

    /// Returns the announced downtimes with their channels.
    pub(super) fn audiences(&self) -> Audiences {
        let is_announced = |announcement: &AnnouncementState| {
            matches!(announcement, AnnouncementState::Announced { .. })
        };
        let announced: Audiences = self
            .announcements
            .iter()
            .filter(|(_, announcement)| is_announced(announcement))
            .map(|(id, _)| ((*id, self.flips[id]), BTreeSet::new()))
            .collect();
        let audience_of = |check| {
            self.model
                .channels
                .keys()
                .copied()
                .filter(|channel| self.is_in_audience(*channel, check))
                .collect()
        };
        announced
            .into_keys()
            .map(|(check, flip)| ((check, flip), audience_of(check)))
            .collect()
    }

    /// A channel that joins the audience of a check that is down is notified neither of that nor of
    /// the end. A channel that keeps incidents reopens an incident that was closed when it left.
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

    /// Applies reminders and the reports of the sender.
    pub(super) fn send(&mut self, command: &Command, now: i64) {
        match command {
            Command::EnableChannel(channel) => drop(self.health.remove(&channel.0)),
            Command::DisableChannel { channel, .. } => {
                self.health.entry(channel.0).or_default().disabled = true;
            }
            Command::QueueReminder(channel)
                if self.accepts(channel.0, AlertEvent::StillDown)
                    && !self.is_disabled(channel.0)
                    && !self.log.has_waiting_reminder(channel.0) =>
            {
                self.count(AlertCase::Reminded);
                self.log
                    .queue(ExpectedMessage::new(channel.0, 0, 0, AlertEvent::StillDown));
            }
            Command::StartAttempts { rows: numbers, .. } => {
                let numbers: Vec<_> = numbers.iter().map(|number| number.0).collect();
                let health = &self.health;
                let Model {
                    checks, channels, ..
                } = &self.model;
                let sendable = |id| {
                    channels.contains_key(&id)
                        && !health.get(&id).is_some_and(|health| health.disabled)
                };
                let failed = self
                    .log
                    .begin(&numbers, sendable, |check| checks.contains_key(&check));
                failed
                    .iter()
                    .for_each(|row| self.handle_failed_alert(row, now));
            }
            Command::RecordDeliveryReports(reports) => {
                for report in reports {
                    self.record_reminder(report.rows[0].0, &report.result);
                    let checks = &self.model.checks;
                    let failed = self.log.report(report.rows[0].0, &report.result, |check| {
                        checks.contains_key(&check)
                    });
                    failed
                        .iter()
                        .for_each(|row| self.handle_failed_alert(row, now));
                    self.record_health(report.channel.0, &report.result);
                }
            }
            _ => {}
        }
    }

    /// Records a delivered reminder: it names all checks that are down.
    fn record_reminder(&mut self, number: u64, result: &SendOutcome) {
        let reminded_channel = self
            .log
            .rows
            .iter()
            .find(|row| row.check == 0 && row.is_sent_as(number))
            .map(|row| row.channel);
        if let Some(channel) = reminded_channel.filter(|_| *result == SendOutcome::Delivered) {
            let announced = self
                .audiences()
                .into_iter()
                .filter(|(_, audience)| audience.contains(&channel));
            let announced: Vec<_> = announced.map(|(downtime, _)| downtime).collect();
            self.log.record_reminder(channel, &announced);
        }
    }

    fn record_health(&mut self, channel: u64, result: &SendOutcome) {
        if !self.model.channels.contains_key(&channel) {
            return;
        }
        let health = self.health.entry(channel).or_default();
        match result {
            SendOutcome::Delivered => health.failing = false,
            SendOutcome::Retry { .. } => health.failing = true,
            SendOutcome::ChannelRejected(_) => health.disabled = true,
            _ => {}
        }
    }

    /// Applies the failure of an alert: no check stays hidden behind its check, unless another
    /// channel of that check works.
    fn handle_failed_alert(&mut self, row: &ExpectedMessage, now: i64) {
        let is_current =
            row.event == AlertEvent::Down && self.flips.get(&row.check) == Some(&row.flip);
        if !is_current
            || self.announcements.get(&row.check)
                != Some(&AnnouncementState::Announced { reached: true })
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
            self.count(AlertCase::NoRecipientReached);
            self.announcements
                .insert(row.check, AnnouncementState::Announced { reached: false });
            self.release_children(row.check, now);
        }
    }

    /// Skips rows that wait for a deleted or disabled channel.
    pub(crate) fn sweep(&mut self) {
        let health = &self.health;
        let channels = &self.model.channels;
        self.log.skip_waiting(|channel| {
            let is_disabled = health.get(&channel).is_some_and(|health| health.disabled);
            if channels.contains_key(&channel) {
                is_disabled.then_some(message_log::DISABLED)
            } else {
                Some(message_log::CHANNEL_DELETED)
            }
        });
    }

    /// Applies a restart of the server. The caller reads the outages from the file.
    pub(crate) fn restart(&mut self) {
        self.log.restart();
        self.sweep();
    }
}
