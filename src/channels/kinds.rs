//! Channel kinds: the requests of each kind and the meaning of responses, one file for each. Their
//! settings are in the tables of the domain.

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

use crate::channels::SendRate;
use crate::channels::alert::{Alert, AlertSeverity, SendAttempt};
use crate::channels::render::{self, Dialect, LengthLimit, TextSections};
use crate::channels::send_step::{ChannelRequest, SendStep};
use crate::channels::transport_reply::{ChannelResponse, Verdict};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::timestamp::Timestamp;

/// Creates the requests that refresh alerts.
type PrepareResend = fn(&ChannelSettings, &[&Alert], Timestamp) -> Vec<SendStep>;

/// Implementation of a kind. Each is in a file of its own.
pub(super) struct ChannelSender {
    name: &'static str,
    /// True if a refused message can be sent in a plainer form.
    pub(super) has_plain_form: bool,
    /// Rate limit for one destination.
    pub(super) send_rate: fn(&ChannelSettings) -> Option<SendRate>,
    /// Creates the steps for an alert; empty if the kind does not send it.
    pub(super) send: fn(&SendContext<'_>) -> Vec<SendStep>,
    /// Creates the requests that refresh alerts, if they expire at the receiver.
    pub(super) resend: Option<PrepareResend>,
    /// Interprets a response.
    pub(super) judge: fn(&SendContext<'_>, &ChannelRequest, &ChannelResponse, Timestamp) -> Verdict,
}

impl ChannelSender {
    /// Defaults for the files of kinds.
    const DEFAULTS: Self = Self {
        name: "",
        has_plain_form: true,
        send_rate: |_| None,
        send: |_| Vec::new(),
        resend: None,
        judge: |_, _, response, now| response.default_verdict(now),
    };
}

/// All kinds by name, except for groups: their members are notified instead.
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

/// Implementation of a kind; `None` for a group.
pub(super) fn sender_for(kind: &ChannelKind) -> Option<&'static ChannelSender> {
    SENDERS.into_iter().find(|sender| sender.name == kind.name)
}

/// Rate limit: a burst, then one message per this number of seconds.
const fn rate(burst: u32, seconds: u64) -> Option<SendRate> {
    Some(SendRate {
        burst,
        refill: Duration::from_secs(seconds),
    })
}

/// Channel, alert and attempt.
pub(super) struct SendContext<'a> {
    pub(super) settings: &'a ChannelSettings,
    pub(super) alert: &'a Alert,
    pub(super) attempt: &'a SendAttempt,
}

impl<'a> SendContext<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.settings.get(key)
    }

    /// Value of a setting that is required for the kind.
    fn required(&self, key: &str) -> &'a str {
        self.get(key).unwrap_or_default()
    }

    /// URL without a trailing slash.
    fn base_url(&self, key: &str) -> &'a str {
        self.required(key).trim_end_matches('/')
    }

    /// Priority for this event: `priority` or `priority-up`.
    fn priority(&self) -> Option<i64> {
        let is_good = self.alert.is_up() || self.alert.severity == AlertSeverity::Recovery;
        self.settings
            .number(if is_good { "priority-up" } else { "priority" })
    }

    fn text(&self, dialect: Dialect, show: TextSections, limit: LengthLimit) -> String {
        render::render_text(self.alert, self.attempt, dialect, show, limit)
    }

    /// Title with its emoji.
    fn title(&self, limit: LengthLimit) -> String {
        render::render_title(self.alert, limit)
    }
}
