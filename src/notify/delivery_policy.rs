//! How a channel wants to be told: one at a time or many, how often, and when.

use std::time::Duration;

use crate::channel;
use crate::domain::channel::ChannelClass;
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::outbound::host_port_of;

/// Events of different checks that are sent to a program at the same time, and to a keeper of incidents. A project has no more places to
/// one receiver.
const MACHINE_PARALLEL: usize = 4;
const INCIDENT_PARALLEL: usize = 4;
/// Messages to people: one after the other, but for mail, which is handed to a server.
const MAIL_PARALLEL: usize = 2;
/// How long something waits until it is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(86_400);
/// People are told what is true when it is sent, which stays true for longer.
const GIVE_UP_PEOPLE_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeliveryPolicy {
    /// Where messages go: a host and port, or the service of the kind.
    pub(super) destination: String,
    pub(super) class: ChannelClass,
    /// Messages that are sent at the same time; 0: none for the moment.
    pub(super) max_parallel: usize,
    /// Of more checks than this people get one message. `None`: never.
    pub(super) digest_above: Option<usize>,
    /// Messages that may be sent at once after a pause, and the time after which there is one more; `None`: as many as there are.
    pub(super) rate_limit: Option<channel::SendRate>,
    /// Messages that may be sent in a day.
    pub(super) daily_limit: Option<u32>,
    /// Nothing is sent before then.
    pub(super) quiet_until: Option<Timestamp>,
    /// When nothing more is tried for a row.
    pub(super) give_up_after: Duration,
}

impl DeliveryPolicy {
    /// Those of a channel at `now`; `zone` is that of the server.
    pub(super) fn of_channel(channel: &Channel, zone: &Timezone, now: Timestamp) -> Self {
        let (kind, common) = (channel.settings.kind(), channel.settings.common());
        let is_people = kind.class == ChannelClass::People;
        let url = channel.settings.urls().next().and_then(|url| host_port_of(url).ok());
        Self {
            destination: url.unwrap_or_else(|| kind.name.to_owned()),
            class: kind.class,
            max_parallel: match kind.class {
                ChannelClass::People if kind.name == "email" => MAIL_PARALLEL,
                ChannelClass::People | ChannelClass::Group => 1,
                ChannelClass::Machine => MACHINE_PARALLEL,
                ChannelClass::Incident => INCIDENT_PARALLEL,
            },
            digest_above: common.group_after.filter(|_| is_people).map(usize::from),
            rate_limit: channel::send_rate(&channel.settings),
            daily_limit: common.daily_limit,
            quiet_until: common.quiet_hours.and_then(|quiet| quiet.end_after(now, common.tz.as_ref().unwrap_or(zone))),
            give_up_after: if is_people { GIVE_UP_PEOPLE_AFTER } else { GIVE_UP_AFTER },
        }
    }
}
