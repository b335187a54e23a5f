//! Reminders: repeated messages about checks that are still down, to channels that request them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::scheduler::CurrentTime;
use super::sender::MessageSender;
use crate::domain::alert::{AlertEvent, DeliveryRecord, DeliveryResult};
use crate::domain::channel::ChannelClass;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId};
use crate::domain::project::Channel;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Time between two searches for due reminders.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Number of deliveries that are read at start to find earlier reminders: see
/// [limits](crate::docs::limits).
const MAX_DELIVERIES_READ: usize = 10_000;

/// Time of the last reminder of each channel.
#[derive(Default)]
pub(super) struct Reminders {
    /// For channels that were notified of a downtime that is ongoing.
    last_reminders: HashMap<ChannelId, LastReminder>,
    last_checked: Option<Duration>,
}

/// Time of the last reminder of a channel, and the number of reminders of this downtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LastReminder {
    /// Uptime in microseconds, which setting the clock does not change. It may be before this
    /// start.
    at: i64,
    count: u32,
}

impl Reminders {
    /// Returns the channels whose reminder is due. The caller confirms each one with
    /// [`record_reminder`](Self::record_reminder); the others remain due.
    pub(super) fn due_channels(
        &mut self,
        sender: &MessageSender,
        now: CurrentTime,
    ) -> Vec<ChannelId> {
        if self
            .last_checked
            .is_some_and(|last| now.uptime < last + CHECK_INTERVAL)
        {
            return Vec::new();
        }
        let is_first = self.last_checked.replace(now.uptime).is_none();
        let channels = channels_with_reminders(sender);
        let mut projects = BTreeMap::new();
        let down: Vec<_> = channels
            .iter()
            .map(|(channel, _)| {
                projects
                    .entry(channel.project)
                    .or_insert_with(|| OngoingDowntimes::of_project(sender, channel.project))
                    .earliest_for(sender, channel)
            })
            .collect();
        if is_first {
            let since = channels
                .iter()
                .zip(&down)
                .filter_map(|((channel, _), since)| Some((channel.id, (*since)?)));
            self.last_reminders = logged_reminders(sender, &since.collect(), now);
        }
        self.last_reminders
            .retain(|id, _| channels.iter().any(|(channel, _)| channel.id == *id));
        let mut due = Vec::new();
        for ((channel, interval), since) in channels.into_iter().zip(down) {
            let Some(since) = since else {
                self.last_reminders.remove(&channel.id);
                continue;
            };
            let last = self
                .last_reminders
                .entry(channel.id)
                .or_insert(LastReminder {
                    at: now.uptime_of(now.wall),
                    count: 0,
                });
            if sender.handle.with_state(|state| {
                state
                    .outbox
                    .rows_of_pair(channel.id, CheckId(0))
                    .next()
                    .is_some()
            }) {
                // The next one is due an interval after now.
                last.at = now.uptime_of(now.wall);
            }
            let is_due =
                now.uptime_of(now.wall).saturating_sub(last.at) >= interval * MICROS_PER_SEC;
            // The alert of a recent downtime was just sent. A downtime in the future began before
            // the clock was set back.
            let is_old =
                since > now.wall || now.wall.micros_since(since) >= interval * MICROS_PER_SEC / 2;
            let is_limit_reached = channel
                .settings
                .common()
                .max_reminders
                .is_some_and(|max| last.count >= max);
            if is_due && is_old && !is_limit_reached {
                due.push(channel.id);
            }
        }
        due
    }

    /// Records that a channel is reminded.
    pub(super) fn record_reminder(&mut self, channel: ChannelId, now: CurrentTime) {
        if let Some(last) = self.last_reminders.get_mut(&channel) {
            *last = LastReminder {
                at: now.uptime_of(now.wall),
                count: last.count + 1,
            };
        }
    }
}

/// Channels with reminders, and their intervals in seconds.
fn channels_with_reminders(sender: &MessageSender) -> Vec<(Arc<Channel>, i64)> {
    sender.handle.with_state(|state| {
        let all = state
            .projects()
            .flat_map(|project_state| project_state.channels.values());
        all.filter(|channel| {
            channel.settings.kind().class == ChannelClass::People
                && channel.health.disabled.is_none()
        })
        .filter_map(|channel| {
            Some((
                Arc::clone(channel),
                channel.settings.common().reminder_interval?,
            ))
        })
        .collect()
    })
}

/// Start of the longest ongoing downtimes in a project that were notified.
#[derive(Default)]
struct OngoingDowntimes {
    earliest: Option<Timestamp>,
    /// By the channels that checks are assigned to.
    earliest_by_channel: HashMap<ChannelId, Timestamp>,
}

impl OngoingDowntimes {
    fn of_project(sender: &MessageSender, project: ProjectId) -> Self {
        let mut down = Self::default();
        sender.for_each_notified_in(project, |check| {
            let since = check.state.changed;
            down.earliest = Some(down.earliest.map_or(since, |any| any.min(since)));
            for channel in check.settings.channels.iter() {
                down.earliest_by_channel
                    .entry(*channel)
                    .and_modify(|earliest| *earliest = since.min(*earliest))
                    .or_insert(since);
            }
        });
        down
    }

    /// Start of the longest ongoing downtime that this channel was notified about.
    fn earliest_for(&self, sender: &MessageSender, channel: &Channel) -> Option<Timestamp> {
        self.earliest?;
        let membership = sender
            .handle
            .with_state(|state| state.audience_membership(channel));
        match membership.via_channels() {
            Some(channels) => channels
                .iter()
                .filter_map(|channel| self.earliest_by_channel.get(channel))
                .min()
                .copied(),
            None => self.earliest,
        }
    }
}

/// Reminders before this start, read from the log of deliveries. `since`: start of the relevant
/// period for each channel. Unreadable entries are skipped.
fn logged_reminders(
    sender: &MessageSender,
    since: &HashMap<ChannelId, Timestamp>,
    now: CurrentTime,
) -> HashMap<ChannelId, LastReminder> {
    if since.is_empty() {
        return HashMap::new();
    }
    let is_alert_since = |delivery: &DeliveryRecord| {
        matches!(delivery.event, AlertEvent::Down | AlertEvent::StillDown)
            && matches!(
                delivery.result,
                DeliveryResult::Delivered | DeliveryResult::Failed
            )
            && since
                .get(&delivery.channel)
                .is_some_and(|since| delivery.queued >= *since)
    };
    let logged = sender
        .handle
        .deliveries(
            DeliveryNumber(u64::MAX),
            MAX_DELIVERIES_READ,
            is_alert_since,
        )
        .unwrap_or_default();
    let waiting: Vec<_> = since
        .keys()
        .flat_map(|id| {
            sender.handle.with_state(|state| {
                state
                    .outbox
                    .rows_of_pair(*id, CheckId(0))
                    .cloned()
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let logged = logged
        .iter()
        .map(|delivery| (delivery.channel, delivery.event, delivery.queued));
    let events: Vec<_> = logged
        .chain(
            waiting
                .iter()
                .map(|row| (row.channel, row.event, row.queued)),
        )
        .collect();
    let of_channel = |id: &ChannelId| {
        let times_of = |event| {
            events
                .iter()
                .filter(move |(channel, other, _)| (*channel, *other) == (*id, event))
                .map(|(.., queued)| *queued)
        };
        let at = times_of(AlertEvent::StillDown)
            .max()
            .or_else(|| times_of(AlertEvent::Down).min())?;
        Some((
            *id,
            LastReminder {
                at: now.uptime_of(at),
                count: u32::try_from(times_of(AlertEvent::StillDown).count()).unwrap_or(u32::MAX),
            },
        ))
    };
    since.keys().filter_map(of_channel).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{START, SenderFixture};
    use super::*;
    use crate::domain::ping::PingKind;

    const INTERVAL: i64 = 3_600;

    /// True if a reminder is due when these seconds have passed on the clock and of the uptime
    /// since a check went down and a first round began.
    fn is_due_after(wall_secs: i64, uptime_secs: u64) -> bool {
        let mut fixture = SenderFixture::new();
        let settings = [("topic", "home"), ("repeat", "1h")];
        let channel = fixture.add_channel("ntfy", &settings);
        fixture.add_check(7);
        fixture.send_ping(7, PingKind::Fail);
        let mut reminders = Reminders::default();
        let started = Duration::from_secs(100);
        let first = CurrentTime {
            wall: START,
            uptime: started,
        };
        assert_eq!(reminders.due_channels(&fixture.sender, first), []);
        let later = CurrentTime {
            wall: START.plus_secs(wall_secs),
            uptime: started + Duration::from_secs(uptime_secs),
        };
        let due = reminders.due_channels(&fixture.sender, later);
        assert!(due.is_empty() || due == [channel], "{due:?}");
        !due.is_empty()
    }

    #[test]
    fn a_reminder_is_due_after_its_interval_if_the_downtime_is_half_as_long_or_in_the_future() {
        for (wall_secs, uptime_secs, is_due) in [
            (INTERVAL, INTERVAL - 1, false),
            (INTERVAL, INTERVAL, true),
            (INTERVAL / 2, INTERVAL, true),
            (INTERVAL / 2 - 1, INTERVAL, false),
            // The clock was set back.
            (0, INTERVAL, false),
            (-1, INTERVAL, true),
        ] {
            assert_eq!(
                is_due_after(wall_secs, uptime_secs.unsigned_abs()),
                is_due,
                "{wall_secs} {uptime_secs}"
            );
        }
    }
}
