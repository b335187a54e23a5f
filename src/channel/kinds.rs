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

use crate::channel::Pace;
use crate::channel::alert::{Alert, Attempt, Severity};
use crate::channel::answer::{Response, Verdict};
use crate::channel::outgoing::{Request, Step};
use crate::channel::render::{self, Dialect, Limit, Show};
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::moment::Moment;

/// The requests that keep alerts alive.
type Sustain = fn(&ChannelSettings, &[&Alert], Moment) -> Vec<Step>;

/// What a kind does. There is one of each, in a file of its own.
pub(super) struct Sender {
    /// The name of the kind.
    name: &'static str,
    /// Whether what was refused can be sent in a plainer form.
    pub(super) has_plain_form: bool,
    /// How fast it may send to one destination.
    pub(super) pace: fn(&ChannelSettings) -> Option<Pace>,
    /// What is to be sent; nothing: it does nothing about this alert.
    pub(super) send: fn(&Call<'_>) -> Vec<Step>,
    /// What keeps alive what would end by itself.
    pub(super) sustain: Option<Sustain>,
    /// What an answer means.
    pub(super) judge: fn(&Call<'_>, &Request, &Response, Moment) -> Verdict,
}

impl Sender {
    /// What the files of kinds begin with.
    const BASE: Self = Self {
        name: "",
        has_plain_form: true,
        pace: |_| None,
        send: |_| Vec::new(),
        sustain: None,
        judge: |_, _, response, now| response.usual(now),
    };
}

/// Every kind that there is, by name; a group is told by telling its members.
const ALL: [&Sender; 29] = [
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
pub(super) fn sender(kind: &ChannelKind) -> Option<&'static Sender> {
    ALL.into_iter().find(|sender| sender.name == kind.name)
}

/// So many at once, then one in each such number of seconds.
const fn pace(burst: u32, seconds: u64) -> Option<Pace> {
    Some(Pace { burst, refill: Duration::from_secs(seconds) })
}

/// A channel, what it is to tell, and which try it is.
pub(super) struct Call<'a> {
    pub(super) settings: &'a ChannelSettings,
    pub(super) alert: &'a Alert,
    pub(super) attempt: &'a Attempt,
}

impl<'a> Call<'a> {
    /// A setting.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.settings.get(key)
    }

    /// A setting that the table makes sure of.
    fn given(&self, key: &str) -> &'a str {
        self.get(key).unwrap_or_default()
    }

    /// A URL without a slash at its end.
    fn base(&self, key: &str) -> &'a str {
        self.given(key).trim_end_matches('/')
    }

    /// The number that is set for the way it goes: `priority` or `priority-up`.
    fn priority(&self) -> Option<i64> {
        let is_good = self.alert.is_up() || self.alert.severity == Severity::Good;
        self.settings.number(if is_good { "priority-up" } else { "priority" })
    }

    /// The text of the alert.
    fn text(&self, dialect: Dialect, show: Show, limit: Limit) -> String {
        render::text(self.alert, self.attempt, dialect, show, limit)
    }

    /// The title with its sign.
    fn title(&self, limit: Limit) -> String {
        render::title(self.alert, limit)
    }
}
