//! Channel kinds, one file for each: its settings, its requests for an alert, and the meaning of
//! responses.

mod alertmanager;
mod apprise;
mod call;
mod discord;
mod email;
mod github;
mod googlechat;
mod gotify;
mod group;
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
mod shell_lint;
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
use crate::domain::alert::AlertEvent;
use crate::domain::channel::{ChannelKind, ChannelSettings};
use crate::domain::timestamp::Timestamp;

/// Every kind, by name.
static REGISTRY: [&KindDefinition; 30] = [
    &alertmanager::KIND,
    &apprise::KIND,
    &call::KIND,
    &discord::KIND,
    &email::KIND,
    &github::KIND,
    &googlechat::KIND,
    &gotify::KIND,
    &group::KIND,
    &matrix::KIND,
    &mattermost::KIND,
    &msteamsw::KIND,
    &ntfy::KIND,
    &opsgenie::KIND,
    &pagertree::KIND,
    &pd::KIND,
    &po::KIND,
    &pushbullet::KIND,
    &rocketchat::KIND,
    &shell::KIND,
    &signal::KIND,
    &slack::KIND,
    &sms::KIND,
    &spike::KIND,
    &telegram::KIND,
    &trello::KIND,
    &victorops::KIND,
    &webhook::KIND,
    &whatsapp::KIND,
    &zulip::KIND,
];

/// Creates the requests that refresh alerts.
type PrepareResend = fn(&ChannelSettings, &[&Alert], Timestamp) -> Vec<SendStep>;

/// Description of a kind, and the way in which it sends.
pub(super) struct KindDefinition {
    kind: ChannelKind,
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

impl KindDefinition {
    /// Defaults for the files of kinds.
    const DEFAULTS: Self = Self {
        kind: ChannelKind::DEFAULTS,
        has_plain_form: true,
        send_rate: |_| None,
        send: |_| Vec::new(),
        resend: None,
        judge: |_, _, response, now| response.default_verdict(now),
    };

    /// Returns the definition of a kind.
    pub(super) fn of(kind: &ChannelKind) -> Option<&'static Self> {
        REGISTRY
            .into_iter()
            .find(|definition| definition.kind == *kind)
    }
}

/// Every kind, by name.
pub fn all_kinds() -> impl ExactSizeIterator<Item = &'static ChannelKind> {
    REGISTRY.iter().map(|definition| &definition.kind)
}

/// Returns the kind with this name or alias.
pub fn find_kind(name: &str) -> Option<&'static ChannelKind> {
    all_kinds().find(|kind| kind.name == name || kind.aliases.contains(&name))
}

/// Rate limit: a burst, then one message per this number of seconds.
const fn rate(burst: u32, seconds: u64) -> Option<SendRate> {
    Some(SendRate {
        burst,
        refill: Duration::from_secs(seconds),
    })
}

/// True if the priority for this event is the one that suppresses alerts. False for tests.
fn is_suppressed(settings: &ChannelSettings, event: AlertEvent, silent_priority: i64) -> bool {
    let key = match event {
        AlertEvent::Test | AlertEvent::Warning(_) => return false,
        AlertEvent::Up => "priority-up",
        _ => "priority",
    };
    settings.number(key) == Some(silent_priority)
}

/// Rejects a token together with a user, and a user or a password alone.
fn check_credentials(settings: &ChannelSettings) -> Result<(), &'static str> {
    let has_user = settings.has_key("user");
    if settings.has_key("token") && has_user {
        Err("both token and user are given; give one of them")
    } else if has_user != settings.has_key("password") {
        Err("user and password belong together; give both or none")
    } else {
        Ok(())
    }
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

    /// Priority for this event: `priority` or `priority-up`. A warning has that of the service.
    fn priority(&self) -> Option<i64> {
        if self.alert.event.is_warning() {
            return None;
        }
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
