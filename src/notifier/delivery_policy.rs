//! Delivery policy of a channel: digests, rate limits and quiet hours.

use std::time::Duration;

use crate::channels;
use crate::domain::channel::{ChannelClass, Transport};
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::outbound::host_port_of;

/// Maximum number of concurrent events of different checks for a program, and for an incident
/// manager. A project has only this many slots for one receiver.
const MACHINE_PARALLEL: usize = 4;
const INCIDENT_PARALLEL: usize = 4;
/// Maximum number of concurrent mails, which a mail server queues. Other messages to people are
/// sent one after the other.
const MAIL_PARALLEL: usize = 2;
/// Time after which a waiting row is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(86_400);
/// The same for people: they are notified of the status at the time of sending, which stays
/// relevant for longer.
const GIVE_UP_PEOPLE_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// Limits for messages to one channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DeliveryPolicy {
    /// Destination of messages: a host and port, or the name of the kind.
    pub(super) destination: String,
    pub(super) class: ChannelClass,
    /// Maximum number of concurrent messages; 0: none at the moment.
    pub(super) max_parallel: usize,
    /// Number of checks above which people get one digest. `None`: never.
    pub(super) digest_above: Option<usize>,
    /// Maximum burst after a pause, and the time until one more message is allowed. `None`:
    /// unlimited.
    pub(super) rate_limit: Option<channels::SendRate>,
    /// Maximum number of messages in a day.
    pub(super) daily_limit: Option<u32>,
    /// End of the quiet hours. No message is sent before.
    pub(super) quiet_until: Option<Timestamp>,
    /// Time after which a row is no longer tried.
    pub(super) give_up_after: Duration,
}

impl DeliveryPolicy {
    /// Policy of a channel at `now`. `zone`: time zone of the server.
    pub(super) fn of_channel(channel: &Channel, zone: &Timezone, now: Timestamp) -> Self {
        let kind = channel.settings.kind();
        let common = channel.settings.common();
        let is_people = kind.class == ChannelClass::People;
        let url = channel
            .settings
            .urls()
            .next()
            .and_then(|url| host_port_of(url).ok());
        Self {
            destination: url.unwrap_or_else(|| kind.name.to_owned()),
            class: kind.class,
            max_parallel: match kind.class {
                ChannelClass::People if kind.transport == Transport::Mail => MAIL_PARALLEL,
                ChannelClass::People | ChannelClass::Group => 1,
                ChannelClass::Machine => MACHINE_PARALLEL,
                ChannelClass::Incident => INCIDENT_PARALLEL,
            },
            digest_above: common.group_after.filter(|_| is_people).map(usize::from),
            rate_limit: channels::send_rate(&channel.settings),
            daily_limit: common.daily_limit,
            quiet_until: common
                .quiet_hours
                .and_then(|quiet| quiet.end_after(now, common.tz.as_ref().unwrap_or(zone))),
            give_up_after: if is_people {
                GIVE_UP_PEOPLE_AFTER
            } else {
                GIVE_UP_AFTER
            },
        }
    }
}
