//! How each kind sends and what its answers mean, one file for one kind. Their settings are in the tables of the domain.

mod alertmanager;
mod apprise;
mod call;
mod discord;
mod email;
mod github;
mod googlechat;
mod gotify;
mod matrix;
mod mattermost;
mod msteamsw;
mod ntfy;
mod opsgenie;
mod pagertree;
mod pd;
mod po;
mod pushbullet;
mod rocketchat;
mod shell;
mod signal;
mod slack;
mod sms;
mod spike;
mod telegram;
mod trello;
mod twilio;
mod victorops;
mod webhook;
mod whatsapp;
mod zulip;

use std::time::Duration;

use crate::channel::SendRate;
use crate::channel::alert::{Alert, AlertSeverity, SendAttempt};
use crate::channel::render::{self, Dialect, LengthLimit, TextSections};
use crate::channel::send_step::{ChannelRequest, SendStep};
use crate::channel::transport_reply::{ChannelResponse, Verdict};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::timestamp::Timestamp;

/// The requests that keep alerts alive.
type PrepareResend = fn(&ChannelSettings, &[&Alert], Timestamp) -> Vec<SendStep>;

/// What a kind does. There is one of each, in a file of its own.
pub(super) struct ChannelSender {
    /// The name of the kind.
    name: &'static str,
    /// Whether what was refused can be sent in a plainer form.
    pub(super) has_plain_form: bool,
    /// How fast it may send to one destination.
    pub(super) send_rate: fn(&ChannelSettings) -> Option<SendRate>,
    /// What is to be sent; nothing: it does nothing about this alert.
    pub(super) send: fn(&SendContext<'_>) -> Vec<SendStep>,
    /// What keeps alive what would end by itself.
    pub(super) resend: Option<PrepareResend>,
    /// What an answer means.
    pub(super) judge: fn(&SendContext<'_>, &ChannelRequest, &ChannelResponse, Timestamp) -> Verdict,
}

impl ChannelSender {
    /// What the files of kinds begin with.
    const DEFAULTS: Self = Self {
        name: "",
        has_plain_form: true,
        send_rate: |_| None,
        send: |_| Vec::new(),
        resend: None,
        judge: |_, _, response, now| response.default_verdict(now),
    };
}

/// Every kind that there is, by name; a group is told by telling its members.
const SENDERS: [&ChannelSender; 29] = [
    &alertmanager::ALERTMANAGER,
    &apprise::APPRISE,
    &call::CALL,
    &discord::DISCORD,
    &email::EMAIL,
    &github::GITHUB,
    &googlechat::GOOGLECHAT,
    &gotify::GOTIFY,
    &matrix::MATRIX,
    &mattermost::MATTERMOST,
    &msteamsw::MSTEAMSW,
    &ntfy::NTFY,
    &opsgenie::OPSGENIE,
    &pagertree::PAGERTREE,
    &pd::PD,
    &po::PO,
    &pushbullet::PUSHBULLET,
    &rocketchat::ROCKETCHAT,
    &shell::SHELL,
    &signal::SIGNAL,
    &slack::SLACK,
    &sms::SMS,
    &spike::SPIKE,
    &telegram::TELEGRAM,
    &trello::TRELLO,
    &victorops::VICTOROPS,
    &webhook::WEBHOOK,
    &whatsapp::WHATSAPP,
    &zulip::ZULIP,
];

/// What a kind does; `None` for a group.
pub(super) fn sender_for(kind: &ChannelKind) -> Option<&'static ChannelSender> {
    SENDERS.into_iter().find(|sender| sender.name == kind.name)
}

/// So many at once, then one in each such number of seconds.
const fn rate(burst: u32, seconds: u64) -> Option<SendRate> {
    Some(SendRate { burst, refill: Duration::from_secs(seconds) })
}

/// A channel, what it is to tell, and which try it is.
pub(super) struct SendContext<'a> {
    pub(super) settings: &'a ChannelSettings,
    pub(super) alert: &'a Alert,
    pub(super) attempt: &'a SendAttempt,
}

impl<'a> SendContext<'a> {
    /// A setting.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.settings.get(key)
    }

    /// A setting that the table makes sure of.
    fn required(&self, key: &str) -> &'a str {
        self.get(key).unwrap_or_default()
    }

    /// A URL without a slash at its end.
    fn base_url(&self, key: &str) -> &'a str {
        self.required(key).trim_end_matches('/')
    }

    /// The number that is set for the way it goes: `priority` or `priority-up`.
    fn priority(&self) -> Option<i64> {
        let is_good = self.alert.is_up() || self.alert.severity == AlertSeverity::Recovery;
        self.settings.number(if is_good { "priority-up" } else { "priority" })
    }

    /// The text of the alert.
    fn text(&self, dialect: Dialect, show: TextSections, limit: LengthLimit) -> String {
        render::render_text(self.alert, self.attempt, dialect, show, limit)
    }

    /// The title with its sign.
    fn title(&self, limit: LengthLimit) -> String {
        render::render_title(self.alert, limit)
    }
}
