//! Trouble of our own: whoever wants it hears that a channel does not work, or that no pings are taken.
//!
//! Notices are kept in memory alone: most of them tell that nothing can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::plan::Now;
use super::sending::Sender;
use crate::channel::alert::Facts;
use crate::domain::alert::Event;
use crate::domain::ids::ChannelId;
use crate::domain::moment::MICROS;
use crate::domain::project::Channel;

/// How often it is looked whether there is trouble.
const LOOK: Duration = Duration::from_secs(15);
/// Seconds that a channel has failed until that is told.
const FAILING_SECS: i64 = 3600;
/// How long no pings have been taken until that is told.
const UNWRITABLE: Duration = Duration::from_secs(60);
/// How often a notice is tried, and how far apart.
const TRIES: u32 = 5;
const APART: Duration = Duration::from_secs(60);

/// What there is to be told of. Each is told once, until it is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Trouble {
    Failing(ChannelId),
    Disabled(ChannelId),
    Unwritable,
}

/// What has been told.
#[derive(Default)]
pub(super) struct Notices {
    told: BTreeSet<Trouble>,
    looked: Option<Duration>,
    unwritable_since: Option<Duration>,
}

/// A notice, and to whom it goes.
pub(super) struct Notice {
    pub(super) facts: Facts,
    pub(super) channels: Vec<Arc<Channel>>,
}

impl Notices {
    /// What is to be told now. What a start finds is no news.
    pub(super) fn due(&mut self, sender: &Sender, now: Now) -> Vec<Notice> {
        if self.looked.is_some_and(|looked| now.uptime < looked + LOOK) {
            return Vec::new();
        }
        let is_first = self.looked.replace(now.uptime).is_none();
        self.unwritable_since = if sender.handle.is_writable() { None } else { self.unwritable_since.or(Some(now.uptime)) };
        let troubles = self.troubles(sender, now);
        let mut notices = Vec::new();
        for (trouble, words) in &troubles {
            if self.told.insert(*trouble) && !is_first {
                notices.extend(notice(sender, *trouble, words, false));
            }
        }
        let over: Vec<_> = self.told.iter().filter(|trouble| !troubles.contains_key(trouble)).copied().collect();
        for trouble in over {
            self.told.remove(&trouble);
            if trouble == Trouble::Unwritable {
                let words = ("overdue takes pings again".into(), "What was sent meanwhile was refused.".into());
                notices.extend(notice(sender, trouble, &words, true));
            }
        }
        notices
    }

    /// All there is, with its title and what to do.
    fn troubles(&self, sender: &Sender, now: Now) -> BTreeMap<Trouble, (String, String)> {
        let mut troubles = BTreeMap::new();
        if self.unwritable_since.is_some_and(|since| now.uptime >= since + UNWRITABLE) {
            let text = "The database cannot be written, so pings are answered 503. The log of the server says why.";
            troubles.insert(Trouble::Unwritable, ("overdue takes no pings".into(), text.into()));
        }
        let state = sender.handle.state();
        for channel in state.projects().flat_map(|project_state| project_state.channels.values()) {
            let name = Some(channel.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(channel.settings.kind().title);
            if let Some((_, reason)) = &channel.health.disabled {
                let text = format!("Nothing is sent to it until somebody enables or changes it. Reason: {reason}");
                troubles.insert(Trouble::Disabled(channel.id), (format!("The channel {name} is disabled"), text));
            } else if let Some((since, reason)) = &channel.health.failing
                && now.wall.micros_since(*since) >= FAILING_SECS * MICROS
            {
                let text = format!("Nothing has arrived there for an hour. The last reason: {reason}");
                troubles.insert(Trouble::Failing(channel.id), (format!("The channel {name} does not work"), text));
            }
        }
        troubles
    }
}

/// `None`: nobody wants to know.
fn notice(sender: &Sender, trouble: Trouble, (title, text): &(String, String), over: bool) -> Option<Notice> {
    let state = sender.handle.state();
    // That of a channel concerns its project, and the channel itself would not hear it.
    let broken = match trouble {
        Trouble::Failing(id) | Trouble::Disabled(id) => Some(state.channel(id)?),
        Trouble::Unwritable => None,
    };
    let all = state.projects().flat_map(|project_state| project_state.channels.values());
    let channels = all.filter(|channel| {
        let concerns = broken.is_none_or(|broken| broken.project == channel.project && broken.id != channel.id);
        concerns && channel.settings.takes(Event::Notice) && channel.health.disabled.is_none()
    });
    let channels: Vec<_> = channels.cloned().collect();
    let facts = Facts::Notice { title: title.clone(), text: text.clone(), over };
    (!channels.is_empty()).then_some(Notice { facts, channels })
}

/// Sends a notice to one channel, a few times if it is not taken.
pub(super) async fn send(sender: Rc<Sender>, channel: Arc<Channel>, facts: Facts) {
    for _ in 0..TRIES {
        if sender.notice(&channel, facts.clone()).await {
            return;
        }
        sleep(APART).await;
    }
}
