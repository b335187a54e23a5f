//! How a channel wants to be told: one at a time or many, how often, and when.

use std::time::Duration;

use crate::channel;
use crate::domain::channel::Class;
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::domain::timezone::Timezone;
use crate::outbound::place_of;

/// Events of different checks that are sent to a program at the same time, and to a keeper of incidents. A project has no more places to
/// one receiver.
const MACHINE_PARALLEL: usize = 4;
const INCIDENT_PARALLEL: usize = 4;
/// Messages to people: one after the other, but for mail, which is handed to a server.
const MAIL_PARALLEL: usize = 2;
/// How long something waits until it is given up.
const GIVE_UP: Duration = Duration::from_secs(86_400);
/// People are told what is true when it is sent, which stays true for longer.
const GIVE_UP_PEOPLE: Duration = Duration::from_secs(7 * 86_400);

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// Where messages go: a host and port, or the service of the kind.
    pub(super) place: String,
    pub(super) class: Class,
    /// Messages that are sent at the same time; 0: none for the moment.
    pub(super) parallel: usize,
    /// Of more checks than this people get one message. `None`: never.
    pub(super) group_after: Option<usize>,
    /// Messages that may be sent at once after a pause, and the time after which there is one more; `None`: as many as there are.
    pub(super) pace: Option<channel::Pace>,
    /// Messages that may be sent in a day.
    pub(super) most_a_day: Option<u32>,
    /// Nothing is sent before then.
    pub(super) quiet_until: Option<Moment>,
    /// When nothing more is tried for a row.
    pub(super) give_up: Duration,
}

impl Rules {
    /// Those of a channel at `now`; `zone` is that of the server.
    pub(super) fn of(channel: &Channel, zone: &Timezone, now: Moment) -> Self {
        let (kind, common) = (channel.settings.kind(), channel.settings.common());
        let is_people = kind.class == Class::People;
        let url = channel.settings.urls().next().and_then(|url| place_of(url).ok());
        Self {
            place: url.unwrap_or_else(|| kind.name.to_owned()),
            class: kind.class,
            parallel: match kind.class {
                Class::People if kind.name == "email" => MAIL_PARALLEL,
                Class::People | Class::Group => 1,
                Class::Machine => MACHINE_PARALLEL,
                Class::Incident => INCIDENT_PARALLEL,
            },
            group_after: common.group_after.filter(|_| is_people).map(usize::from),
            pace: channel::pace(&channel.settings),
            most_a_day: common.most_a_day,
            quiet_until: common.quiet.and_then(|quiet| quiet.until(now, common.tz.as_ref().unwrap_or(zone))),
            give_up: if is_people { GIVE_UP_PEOPLE } else { GIVE_UP },
        }
    }
}
