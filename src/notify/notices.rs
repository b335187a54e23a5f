//! Trouble of our own: whoever wants it hears that a channel does not work, or that no pings are taken.
//!
//! Notices are kept in memory alone: most of them tell that nothing can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::plan::{Now, Plan, USED_UP};
use super::rules::Rules;
use super::sending::{MessageSender, first_attempt};
use crate::channel::Attempt;
use crate::channel::alert::Facts;
use crate::channel::answer::public_part;
use crate::domain::alert::{Event, RefusedRecipient};
use crate::domain::ids::{ChannelId, ProjectId};
use crate::domain::moment::{MICROS, Moment};
use crate::domain::project::Channel;

/// How often it is looked whether there is trouble.
const LOOK: Duration = Duration::from_secs(15);
/// Seconds that a channel has failed until that is told.
const FAILING_SECS: i64 = 3600;
/// How long no pings have been taken until that is told.
const UNWRITABLE: Duration = Duration::from_secs(60);
/// Notices that wait to be sent, channel by channel: see [limits](crate::docs::limits).
const MOST_WAITING: usize = 1000;
/// Notices that are sent at the same time: alerts need the places that requests go out by. See [limits](crate::docs::limits).
const MOST_AT_ONCE: usize = 8;
/// How often a notice is tried, and how far apart.
const TRIES: u16 = 5;
const APART: Duration = Duration::from_secs(60);
/// No try takes as long.
const LONGEST_TRY: Duration = Duration::from_secs(600);

/// What there is to be told of. Each is told once, until it is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Trouble {
    Failing(ChannelId),
    /// Some recipients of a channel are refused since then.
    Refused(ChannelId, Moment),
    Disabled(ChannelId),
    /// Alerts of a project are given up, since too much of it waits.
    Full(ProjectId),
    Unwritable,
    /// No backup could be made.
    NoBackup,
}

/// What has been told, and what is still to be.
#[derive(Default)]
pub(super) struct Notices {
    told: BTreeSet<Trouble>,
    looked: Option<Duration>,
    unwritable_since: Option<Duration>,
    /// Channels that fail or have recipients that are refused, with the moment at which the state says that this began: the uptime of that
    /// moment in microseconds.
    lasting: BTreeMap<(ChannelId, Moment), i64>,
    waiting: Vec<Waiting>,
    under_way: JoinSet<Tried>,
}

/// A notice that a channel is still to be sent.
struct Waiting {
    /// The same at every try, so that its receiver can know repeats.
    id: Rc<str>,
    trouble: Trouble,
    project: ProjectId,
    channel: ChannelId,
    facts: Facts,
    tries: u16,
    /// An earlier try may have arrived.
    doubtful: bool,
    /// The next try comes at this uptime, unless it is known before what has come of the one under way.
    next: Duration,
}

/// What has come of a try: the name of its notice, and if that was not taken, whether it may have arrived all the same.
type Tried = (Rc<str>, Result<(), bool>);

impl Notices {
    /// Looks for trouble, and sends what may be sent by now: no faster than other messages to the channel, and not in its quiet hours.
    pub(super) fn send(&mut self, sender: &Rc<MessageSender>, plan: &mut Plan, now: Now) {
        self.look(sender, now);
        while let Some(tried) = self.under_way.try_join_next() {
            // The hook has logged the panic.
            let Ok((id, outcome)) = tried else { continue };
            let Some(place) = self.waiting.iter().position(|waiting| waiting.id == id) else { continue };
            match (outcome, self.waiting.get_mut(place)) {
                (Err(doubtful), Some(waiting)) if waiting.tries < TRIES => {
                    waiting.doubtful |= doubtful;
                    waiting.next = now.uptime + APART;
                }
                _ => drop(self.waiting.swap_remove(place)),
            }
        }
        let is_left = |waiting: &Waiting| waiting.tries < TRIES || waiting.next > now.uptime;
        self.waiting.retain(|waiting| is_left(waiting) && sender.handle.with_state(|state| state.is_sendable(waiting.channel)));
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.next <= now.uptime) {
            if self.under_way.len() >= MOST_AT_ONCE {
                break;
            }
            let Some(channel) = sender.handle.with_state(|state| state.channel(waiting.channel).cloned()) else { continue };
            if !plan.may_notify(&channel, &Rules::of(&channel, &sender.zone, now.wall), now) {
                continue;
            }
            (waiting.tries, waiting.next) = (waiting.tries + 1, now.uptime + LONGEST_TRY);
            let (id, facts) = (Rc::clone(&waiting.id), waiting.facts.clone());
            let (number, doubtful) = (waiting.tries, waiting.doubtful);
            let attempt = Attempt { number, doubtful, ..first_attempt((*id).into(), now.wall) };
            let sender = Rc::clone(sender);
            self.under_way.spawn_local(async move { (id, sender.notice(&channel, facts, attempt).await) });
        }
    }

    /// Notes what is to be told. What a start finds is no news, but for backups: whether they can be made shows after a start only.
    fn look(&mut self, sender: &MessageSender, now: Now) {
        if self.looked.is_some_and(|looked| now.uptime < looked + LOOK) {
            return;
        }
        let is_first = self.looked.replace(now.uptime).is_none();
        self.unwritable_since = if sender.handle.is_writable() { None } else { self.unwritable_since.or(Some(now.uptime)) };
        self.note_lasting(sender, now);
        let troubles = self.troubles(sender, now);
        for (trouble, words) in &troubles {
            if self.told.insert(*trouble) && (!is_first || *trouble == Trouble::NoBackup) {
                self.note(sender, *trouble, words, false, now);
            }
        }
        let over: Vec<_> = self.told.iter().filter(|trouble| !troubles.contains_key(trouble)).copied().collect();
        for trouble in over {
            self.told.remove(&trouble);
            // What nobody was told yet is over.
            self.waiting.retain(|waiting| waiting.trouble != trouble);
            let words = match trouble {
                Trouble::Unwritable => ("overdue takes pings again".into(), "What was sent meanwhile was refused.".into()),
                Trouble::NoBackup => ("overdue makes backups again".into(), "The last one was made and read again.".into()),
                Trouble::Failing(_) | Trouble::Refused(..) | Trouble::Disabled(_) | Trouble::Full(_) => continue,
            };
            self.note(sender, trouble, &words, true, now);
        }
    }

    /// Notes which channels fail and which have recipients that are refused. The clock may be set while they do.
    fn note_lasting(&mut self, sender: &MessageSender, now: Now) {
        let lasting: BTreeSet<_> = sender.handle.with_state(|state| {
            let channels = state.projects().flat_map(|project_state| project_state.channels.values());
            let began = |channel: &Arc<Channel>| {
                let (id, health) = (channel.id, &channel.health);
                let failing = health.failing.iter().map(|(since, _)| *since);
                failing.chain(health.refused.iter().map(|refused| refused.since)).map(|since| (id, since)).collect::<Vec<_>>()
            };
            channels.flat_map(began).collect()
        });
        self.lasting.retain(|began, _| lasting.contains(began));
        for (id, since) in lasting {
            self.lasting.entry((id, since)).or_insert_with(|| now.uptime_of(since));
        }
    }

    /// True if what began in a channel at that moment has lasted long enough to be told.
    fn is_lasting(&self, id: ChannelId, since: Moment, now: Now) -> bool {
        let began = self.lasting.get(&(id, since));
        began.is_some_and(|began| now.uptime_of(now.wall).saturating_sub(*began) >= FAILING_SECS * MICROS)
    }

    /// All there is, with its title and what to do.
    fn troubles(&self, sender: &MessageSender, now: Now) -> BTreeMap<Trouble, (String, String)> {
        let mut troubles = BTreeMap::new();
        if self.unwritable_since.is_some_and(|since| now.uptime >= since + UNWRITABLE) {
            let text = "The database cannot be written, so pings are answered 503. The log of the server says why.";
            troubles.insert(Trouble::Unwritable, ("overdue takes no pings".into(), text.into()));
        }
        if let Some((_, reason)) = sender.handle.metrics().backups().and_then(|backups| backups.failing) {
            let text = format!("The server tries again every ten minutes. The last reason: {reason}");
            troubles.insert(Trouble::NoBackup, ("overdue makes no backups".into(), text));
        }
        sender.handle.with_state(|state| {
            for project in state.projects().map(|found| &found.project).filter(|project| state.outbox.is_full_for(project.id)) {
                let text = "Too much waits for its channels, so alerts that are new are given up: overdue deliveries shows which.";
                troubles.insert(Trouble::Full(project.id), (format!("Alerts of {} are given up", project.name.as_str()), text.into()));
            }
            for channel in state.projects().flat_map(|project_state| project_state.channels.values()) {
                let name = Some(channel.name.as_str()).filter(|name| !name.is_empty()).unwrap_or(channel.settings.kind().title);
                if let Some((_, reason)) = &channel.health.disabled {
                    let text = format!("Nothing is sent to it until somebody enables or changes it. Reason: {}", public_part(reason));
                    troubles.insert(Trouble::Disabled(channel.id), (format!("The channel {name} is disabled"), text));
                } else if let Some((_, reason)) = &channel.health.failing
                    && **reason == *USED_UP
                {
                    let text = format!("{}{}.", USED_UP.get(..1).unwrap_or_default().to_uppercase(), USED_UP.get(1..).unwrap_or_default());
                    troubles.insert(Trouble::Failing(channel.id), (format!("The channel {name} sends no more today"), text));
                } else if let Some((since, reason)) = &channel.health.failing
                    && self.is_lasting(channel.id, *since, now)
                {
                    let text = format!("Nothing has arrived there for an hour. The last reason: {}", public_part(reason));
                    troubles.insert(Trouble::Failing(channel.id), (format!("The channel {name} does not work"), text));
                }
                troubles.extend(self.refused(channel, name, now));
            }
            troubles
        })
    }

    /// The troubles of a channel with some of its recipients.
    fn refused(&self, channel: &Channel, name: &str, now: Now) -> BTreeMap<Trouble, (String, String)> {
        let mut troubles = BTreeMap::<_, (String, String)>::new();
        for RefusedRecipient { address, since, reason } in &channel.health.refused {
            if !self.is_lasting(channel.id, *since, now) {
                continue;
            }
            let title = || (format!("The channel {name} does not reach all of its recipients"), String::new());
            let (_, text) = troubles.entry(Trouble::Refused(channel.id, *since)).or_insert_with(title);
            let reason = public_part(reason);
            text.push_str(&format!("No mail has been taken for {address} for an hour. The last reason: {reason}. "));
        }
        troubles.values_mut().for_each(|(_, text)| text.truncate(text.trim_end().len()));
        troubles
    }

    /// Has those told who want to know.
    fn note(&mut self, sender: &MessageSender, trouble: Trouble, (title, text): &(String, String), over: bool, now: Now) {
        for (project, channel) in concerned(sender, trouble) {
            // There is room for every other project.
            let own = self.waiting.iter().filter(|waiting| waiting.project == project).count();
            if own >= MOST_WAITING.saturating_sub(self.waiting.len()) {
                continue;
            }
            let facts = Facts::Notice { title: title.clone(), text: text.clone(), over };
            let (id, next) = (sender.notice_id().into(), now.uptime);
            self.waiting.push(Waiting { id, trouble, project, channel, facts, tries: 0, doubtful: false, next });
        }
    }
}

/// The channels that want to know of trouble: that of a channel concerns its project, and a channel that does not work would not hear of
/// itself.
fn concerned(sender: &MessageSender, trouble: Trouble) -> Vec<(ProjectId, ChannelId)> {
    sender.handle.with_state(|state| {
        let concerns = |channel: &Channel| match trouble {
            Trouble::Failing(id) | Trouble::Disabled(id) => {
                channel.id != id && state.channel(id).is_some_and(|broken| broken.project == channel.project)
            }
            // It works for the others.
            Trouble::Refused(id, _) => state.channel(id).is_some_and(|refusing| refusing.project == channel.project),
            Trouble::Full(project) => channel.project == project,
            Trouble::Unwritable | Trouble::NoBackup => true,
        };
        let all = state
            .projects()
            .filter(|project_state| !project_state.project.is_held())
            .flat_map(|project_state| project_state.channels.values());
        let channels =
            all.filter(|channel| channel.settings.takes(Event::Notice) && channel.health.disabled.is_none() && concerns(channel));
        channels.map(|channel| (channel.project, channel.id)).collect()
    })
}
