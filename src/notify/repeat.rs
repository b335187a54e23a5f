//! Reminders: channels that want them hear now and then what is still down.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::plan::Now;
use super::sending::Sender;
use crate::domain::channel::Class;
use crate::domain::ids::ChannelId;
use crate::domain::moment::{MICROS, Moment};
use crate::domain::project::Channel;

/// How often it is looked whether a reminder is due.
const LOOK: Duration = Duration::from_secs(15);

/// When each channel was reminded.
#[derive(Default)]
pub(super) struct Reminders {
    last: HashMap<ChannelId, Reminded>,
    looked: Option<Duration>,
}

/// When a channel was last reminded, and how often of what is down.
struct Reminded {
    at: Moment,
    count: u32,
}

impl Reminders {
    /// The channels that are to be reminded now.
    pub(super) fn due(&mut self, sender: &Sender, now: Now) -> Vec<ChannelId> {
        if self.looked.is_some_and(|looked| now.uptime < looked + LOOK) {
            return Vec::new();
        }
        self.looked = Some(now.uptime);
        let channels = wanting(sender);
        self.last.retain(|id, _| channels.iter().any(|(channel, _)| channel.id == *id));
        let mut due = Vec::new();
        for (channel, interval) in channels {
            let down = sender.told_down(&channel);
            let Some(longest) = down.iter().map(|check| now.wall.micros_since(check.state.changed)).max() else {
                self.last.remove(&channel.id);
                continue;
            };
            let last = self.last.entry(channel.id).or_insert(Reminded { at: now.wall, count: 0 });
            let is_time = now.wall.micros_since(last.at) >= interval * MICROS;
            // What has just gone down was told just now.
            let is_old = longest >= interval * MICROS / 2;
            let is_enough = channel.settings.common().repeat_most.is_some_and(|most| last.count >= most);
            if is_time && is_old && !is_enough {
                (last.at, last.count) = (now.wall, last.count + 1);
                due.push(channel.id);
            }
        }
        due
    }
}

/// The channels that want reminders, and after how many seconds.
fn wanting(sender: &Sender) -> Vec<(Arc<Channel>, i64)> {
    let state = sender.handle.state();
    let all = state.projects().flat_map(|project_state| project_state.channels.values());
    all.filter(|channel| channel.settings.kind().class == Class::People && channel.health.disabled.is_none())
        .filter_map(|channel| Some((Arc::clone(channel), channel.settings.common().repeat?)))
        .collect()
}
