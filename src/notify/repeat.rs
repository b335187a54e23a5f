//! Reminders: channels that want them hear now and then what is still down.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::plan::Now;
use super::sending::MessageSender;
use crate::domain::alert::{Delivery, DeliveryOutcome, Event};
use crate::domain::channel::Class;
use crate::domain::ids::{ChannelId, CheckId, DeliveryNumber, ProjectId};
use crate::domain::moment::{MICROS, Moment};
use crate::domain::project::Channel;

/// How often it is looked whether a reminder is due.
const LOOK: Duration = Duration::from_secs(15);
/// Deliveries by which a start knows of what was reminded: see [limits](crate::docs::limits).
const MOST_RECALLED: usize = 10_000;

/// When each channel was reminded.
#[derive(Default)]
pub(super) struct Reminders {
    /// Of channels that were told of something that is down still.
    last: HashMap<ChannelId, Reminded>,
    looked: Option<Duration>,
}

/// When a channel was last reminded, and how often of what is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reminded {
    /// An uptime in microseconds, which may lie before this start: nobody sets that.
    at: i64,
    count: u32,
}

impl Reminders {
    /// The channels that are to be reminded now. Those that are say so by [`reminded`](Self::reminded); the others are due again.
    pub(super) fn due(&mut self, sender: &MessageSender, now: Now) -> Vec<ChannelId> {
        if self.looked.is_some_and(|looked| now.uptime < looked + LOOK) {
            return Vec::new();
        }
        let is_first = self.looked.replace(now.uptime).is_none();
        let channels = wanting(sender);
        let mut projects = BTreeMap::new();
        let down: Vec<_> = channels
            .iter()
            .map(|(channel, _)| projects.entry(channel.project).or_insert_with(|| Down::of(sender, channel.project)).since(sender, channel))
            .collect();
        if is_first {
            let since = channels.iter().zip(&down).filter_map(|((channel, _), since)| Some((channel.id, (*since)?)));
            self.last = recalled(sender, &since.collect(), now);
        }
        self.last.retain(|id, _| channels.iter().any(|(channel, _)| channel.id == *id));
        let mut due = Vec::new();
        for ((channel, interval), since) in channels.into_iter().zip(down) {
            let Some(since) = since else {
                self.last.remove(&channel.id);
                continue;
            };
            let last = self.last.entry(channel.id).or_insert(Reminded { at: now.uptime_of(now.wall), count: 0 });
            if sender.handle.with_state(|state| state.outbox.of_pair(channel.id, CheckId(0)).next().is_some()) {
                // The next one comes so long after this.
                last.at = now.uptime_of(now.wall);
            }
            let is_time = now.uptime_of(now.wall).saturating_sub(last.at) >= interval * MICROS;
            // What has just gone down was told just now; what seems to have gone down in the future did so before the clock was set back.
            let is_old = since > now.wall || now.wall.micros_since(since) >= interval * MICROS / 2;
            let is_enough = channel.settings.common().repeat_most.is_some_and(|most| last.count >= most);
            if is_time && is_old && !is_enough {
                due.push(channel.id);
            }
        }
        due
    }

    /// A channel is being reminded.
    pub(super) fn reminded(&mut self, channel: ChannelId, now: Now) {
        if let Some(last) = self.last.get_mut(&channel) {
            *last = Reminded { at: now.uptime_of(now.wall), count: last.count + 1 };
        }
    }
}

/// The channels that want reminders, and after how many seconds.
fn wanting(sender: &MessageSender) -> Vec<(Arc<Channel>, i64)> {
    sender.handle.with_state(|state| {
        let all = state.projects().flat_map(|project_state| project_state.channels.values());
        all.filter(|channel| channel.settings.kind().class == Class::People && channel.health.disabled.is_none())
            .filter_map(|channel| Some((Arc::clone(channel), channel.settings.common().repeat?)))
            .collect()
    })
}

/// Since when something is down of which somebody was told, in a project.
#[derive(Default)]
struct Down {
    any: Option<Moment>,
    /// By the channels that checks are assigned to.
    assigned: HashMap<ChannelId, Moment>,
}

impl Down {
    fn of(sender: &MessageSender, project: ProjectId) -> Self {
        let mut down = Self::default();
        sender.each_told(project, |check| {
            let since = check.state.changed;
            down.any = Some(down.any.map_or(since, |any| any.min(since)));
            for channel in check.settings.channels.iter() {
                down.assigned.entry(*channel).and_modify(|earliest| *earliest = since.min(*earliest)).or_insert(since);
            }
        });
        down
    }

    /// Since when that one is down which is down for the longest of those of which a channel was told.
    fn since(&self, sender: &MessageSender, channel: &Channel) -> Option<Moment> {
        self.any?;
        let hearing = sender.handle.with_state(|state| state.hearing(channel));
        match hearing.through() {
            Some(channels) => channels.iter().filter_map(|channel| self.assigned.get(channel)).min().copied(),
            None => self.any,
        }
    }
}

/// What the log of deliveries says of reminders before this start: since a moment for each channel. What cannot be read is not known.
fn recalled(sender: &MessageSender, since: &HashMap<ChannelId, Moment>, now: Now) -> HashMap<ChannelId, Reminded> {
    if since.is_empty() {
        return HashMap::new();
    }
    let is_told = |delivery: &Delivery| {
        matches!(delivery.event, Event::Down | Event::Still)
            && matches!(delivery.outcome, DeliveryOutcome::Delivered | DeliveryOutcome::Failed)
            && since.get(&delivery.channel).is_some_and(|since| delivery.queued >= *since)
    };
    let logged = sender.handle.deliveries(DeliveryNumber(u64::MAX), MOST_RECALLED, is_told).unwrap_or_default();
    let waiting: Vec<_> = since
        .keys()
        .flat_map(|id| sender.handle.with_state(|state| state.outbox.of_pair(*id, CheckId(0)).cloned().collect::<Vec<_>>()))
        .collect();
    let logged = logged.iter().map(|delivery| (delivery.channel, delivery.event, delivery.queued));
    let told: Vec<_> = logged.chain(waiting.iter().map(|row| (row.channel, row.event, row.queued))).collect();
    let of_channel = |id: &ChannelId| {
        let of = |event| told.iter().filter(move |(channel, what, _)| (*channel, *what) == (*id, event)).map(|(.., queued)| *queued);
        let at = of(Event::Still).max().or_else(|| of(Event::Down).min())?;
        Some((*id, Reminded { at: now.uptime_of(at), count: u32::try_from(of(Event::Still).count()).unwrap_or(u32::MAX) }))
    };
    since.keys().filter_map(of_channel).collect()
}
