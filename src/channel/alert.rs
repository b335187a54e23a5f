//! What is to be told: the facts as they were gathered, and the alert that is made of them.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use uuid::Uuid;

use crate::domain::alert::AlertEvent;
use crate::domain::check::{CheckSettings, NameSet};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::ids::UniqueKey;
use crate::domain::ping::{PingKind, PingScheme};
use crate::domain::ping_address;
use crate::domain::project::PingKey;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// What somebody is to be told, as it is at the moment of sending.
#[derive(Clone, Debug)]
pub enum AlertFacts {
    /// News of one check.
    Check(Box<CheckFacts>, CheckEvent),
    /// News of several checks in one message.
    Digest {
        /// Those that went down and are down.
        down: Vec<CheckSummary>,
        /// Those that are up again.
        up: Vec<CheckSummary>,
    },
    /// Checks that fell due while pings could not be taken, and did not report since.
    ServerOutage {
        /// Since when no pings were taken.
        from: Timestamp,
        /// Until when.
        until: Timestamp,
        /// The checks.
        checks: Vec<CheckSummary>,
    },
    /// Checks that are down as they were before.
    StillDown(Vec<CheckSummary>),
    /// Trouble of the server or of another channel.
    Notice {
        /// What it is, in a few words.
        title: String,
        /// What it means and what to do.
        text: String,
        /// Whether it is over.
        is_resolved: bool,
    },
}

/// What happened to one check.
#[derive(Clone, Debug)]
pub enum CheckEvent {
    /// It went down.
    Down {
        /// The change.
        flip: Flip,
        /// What else there is to say of it.
        also: EventContext,
    },
    /// It is up again.
    Up {
        /// The change.
        flip: Flip,
        /// The change that made it go down.
        down: Flip,
        /// Whether this channel was told that it was down.
        was_notified: bool,
        /// What else there is to say of it.
        also: EventContext,
    },
    /// Its alert is over for this channel, though it is not known to be up.
    Closed {
        /// When.
        at: Timestamp,
        /// Why.
        why: Closing,
    },
    /// It is told to try the channel.
    Test {
        /// When.
        at: Timestamp,
        /// Whether to try what is sent when a check is up again.
        up: bool,
        /// The name of the channel.
        channel: String,
    },
}

/// Why the alert of a check is over for a channel, though the check is not known to be up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// The check was paused.
    Paused,
    /// The check was deleted.
    Deleted,
    /// Alerts about the check are no longer sent to the channel.
    Unassigned,
}

/// Why a change was not told earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DelayReason {
    /// The receiver did not answer, or refused messages.
    Undelivered,
    /// The channel had quiet hours.
    QuietHours,
    /// The channel had sent as many messages as it may within a day.
    DailyLimit,
    /// People had been told often enough about the check for a while.
    Flapping,
}

/// What else there is to say of a change.
#[derive(Clone, Default, Debug)]
pub struct EventContext {
    /// Why it was not told earlier, if that is known.
    pub delay: Option<DelayReason>,
    /// When it came up before it went down, if that was not told.
    pub up_since: Option<Timestamp>,
    /// How often it changed since then without being told.
    pub unreported_changes: Option<(u16, Timestamp)>,
    /// A time in which pings may have been lost.
    pub outage: Option<(Timestamp, Timestamp)>,
    /// The maintenance window in which it went down.
    pub window: Option<String>,
}

/// A check as it is at the moment of sending.
#[derive(Clone, Debug)]
pub struct CheckFacts {
    /// Its UUID, which no message names unless a template asks for it.
    pub uuid: Uuid,
    /// What names it to those who must not ping it.
    pub unique_key: UniqueKey,
    /// Its project's name.
    pub project: String,
    /// Its settings.
    pub settings: Arc<CheckSettings>,
    /// Pings ever logged.
    pub n_pings: u64,
    /// Failures and missed deadlines in a row.
    pub failures: u16,
    /// The last ping at or before the change.
    pub last_ping: Option<PingFacts>,
    /// Its last success.
    pub last_success: Option<Timestamp>,
    /// The names of other checks of the project that are down; at most as many as are to be named.
    pub other_down_names: Vec<String>,
    /// How many others are down.
    pub other_down_count: usize,
    /// The ping keys of its project, which no message names.
    pub ping_keys: Vec<PingKey>,
    /// The check as the API shows it to a key that may read and write, if a template asks for it: see [`uses_check_json`].
    pub json: Option<String>,
    /// The names under which the downtime was told, if the check has others by now.
    pub alerted_names: Option<Arc<NameSet>>,
}

/// A ping that is told about.
#[derive(Clone, Debug)]
pub struct PingFacts {
    /// When it came.
    pub at: Timestamp,
    /// What it meant.
    pub kind: PingKind,
    /// How it came.
    pub scheme: PingScheme,
    /// The exit status that it reported.
    pub exit_status: Option<u8>,
    /// Where it came from.
    pub from: Option<IpAddr>,
    /// Microseconds that its run took.
    pub run_duration: Option<i64>,
    /// Its body, or the end of it.
    pub body: Vec<u8>,
    /// What a reader sees of it if it was a mail.
    pub mail: Option<MailText>,
}

/// A mail as its reader sees it: no header but the subject, since others hold the address that pings the check.
#[derive(Clone, Debug)]
pub struct MailText {
    /// Its subject, decoded.
    pub subject: String,
    /// The text of its parts, decoded.
    pub text: String,
}

/// A check in a list of several.
#[derive(Clone, Debug)]
pub struct CheckSummary {
    /// Its name.
    pub name: String,
    /// Its project's name.
    pub project: String,
    /// What names the project in addresses of pages.
    pub project_uuid: Option<Uuid>,
    /// Since when it has been down.
    pub since: Timestamp,
    /// Why.
    pub cause: FlipCause,
    /// Its last success.
    pub last_success: Option<Timestamp>,
}

/// Where and when a message is written.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    /// The moment of sending.
    pub now: Timestamp,
    /// The zone of times of checks that have none of their own.
    pub zone: &'a Timezone,
    /// The base URL under which pages of checks are served; `None`: messages have no links.
    pub page_base_url: Option<&'a str>,
    /// The host of the base URL.
    pub host: &'a str,
}

/// What is to be told, in words.
#[derive(Clone, Debug)]
pub struct Alert {
    /// What kind of news it is.
    pub event: AlertEvent,
    /// Whether a test is made with what is sent when a check is up again.
    pub tests_recovery: bool,
    /// When it happened.
    pub at: Timestamp,
    /// How bad it is.
    pub severity: AlertSeverity,
    /// What happened, in one line.
    pub title: String,
    /// What, why and since when: a few sentences.
    pub lead: String,
    /// The reason in a few words.
    pub reason: String,
    /// All of it in one line for a phone.
    pub short: String,
    /// The check's description.
    pub description: String,
    /// What else is known, the most important first.
    pub facts: Vec<LabelledFact>,
    /// Checks, under headings.
    pub lists: Vec<AlertList>,
    /// What is to be said of other checks.
    pub other_checks: String,
    /// The end of what the job sent last.
    pub output: Option<JobOutput>,
    /// The page of the check, or of several the list of their project.
    pub link: Option<String>,
    /// The host of the server that tells it.
    pub host: String,
    /// The one check that it is about.
    pub check: Option<AlertedCheck>,
}

/// How bad news are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertSeverity {
    /// Something is down.
    Critical,
    /// It is over.
    Recovery,
    /// Somebody should look, though nothing is known to be down.
    Warning,
    /// Nothing happened.
    Info,
}

/// Something that is known.
#[derive(Clone, Debug)]
pub struct LabelledFact {
    /// What it is.
    pub label: &'static str,
    /// The value.
    pub value: String,
}

/// Checks under a heading.
#[derive(Clone, Debug)]
pub struct AlertList {
    /// The heading.
    pub heading: &'static str,
    /// A line for each check.
    pub items: Vec<String>,
}

/// What the job sent last.
#[derive(Clone, Debug)]
pub struct JobOutput {
    /// What it is: `The last lines it sent`.
    pub label: &'static str,
    /// The text, as UTF-8 with replacements, control characters and colours taken out.
    pub text: String,
}

/// The check that an alert is about, for kinds that name it to programs.
#[derive(Clone, Debug)]
pub struct AlertedCheck {
    /// Its name, or what stands for it.
    pub name: String,
    /// The facts.
    pub facts: CheckFacts,
    /// What caused the change.
    pub cause: FlipCause,
    /// When its downtime began, and when it ended if it did.
    pub downtime: Option<(Timestamp, Option<Timestamp>)>,
}

/// One try to send an alert.
#[derive(Clone, Debug)]
pub struct SendAttempt {
    /// What names the alert for good: `<instance>-<number>`. Every try has the same.
    pub id: String,
    /// Which try it is, from 1.
    pub number: u16,
    /// When it is made.
    pub at: Timestamp,
    /// Since when the channel has failed; `None`: it did not.
    pub failing_since: Option<Timestamp>,
    /// Whether an earlier try may have arrived.
    pub may_be_duplicate: bool,
    /// Whether it was refused as it was, so that only the plainest form is sent.
    pub plain: bool,
    /// What names a mail: `<instance>-<channel>-<flip>`.
    pub mail_id: String,
    /// What names the mail that this one answers.
    pub mail_in_reply_to: Option<String>,
    /// Where whoever gets it ends that.
    pub unsubscribe_url: Option<String>,
}

impl AlertSeverity {
    /// The sign in front of titles.
    pub fn emoji(self) -> &'static str {
        match self {
            Self::Critical => "🔴",
            Self::Recovery => "🟢",
            Self::Warning => "⚠️",
            Self::Info => "🔔",
        }
    }

    /// The same as a short code of ntfy, Gotify and others.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Critical => "red_circle",
            Self::Recovery => "green_circle",
            Self::Warning => "warning",
            Self::Info => "bell",
        }
    }

    /// A colour, as 24 bits.
    pub fn colour(self) -> u32 {
        match self {
            Self::Critical => 0x00d9_534f,
            Self::Recovery => 0x005c_b85c,
            Self::Warning => 0x00f0_ad4e,
            Self::Info => 0x004a_90d9,
        }
    }
}

impl Alert {
    /// Whether channels send what they send when a check is up again.
    pub fn is_up(&self) -> bool {
        self.event == AlertEvent::Up || self.tests_recovery
    }

    /// What its link leads to, for people.
    pub fn link_text(&self) -> &'static str {
        if self.check.is_some() { "Open the check" } else { "Open the list of checks" }
    }

    /// The word for its status: `down` or `up`.
    pub fn status(&self) -> &'static str {
        if self.is_up() { "up" } else { "down" }
    }

    /// What names the incident that it belongs to.
    pub fn incident_key(&self, attempt: &SendAttempt) -> String {
        match &self.check {
            Some(subject) if self.event != AlertEvent::Test => subject.facts.unique_key.to_string(),
            _ => format!("{}-{}", self.event.name(), attempt.id),
        }
    }
}

impl CheckFacts {
    /// What is left of a check that is gone.
    pub fn for_deleted_check(names: NameSet, unique_key: UniqueKey, project: &str) -> Self {
        Self { unique_key, settings: Arc::new(names.into_settings()), ..Self::example(project) }
    }

    /// A made-up check, for a test of a channel that is about no check.
    pub fn example(project: &str) -> Self {
        let name = crate::domain::text::Name::parse("TEST").unwrap_or_default();
        let slug = crate::domain::text::Slug::parse("test").unwrap_or_default();
        Self {
            uuid: Uuid::nil(),
            unique_key: UniqueKey::of_check(Uuid::nil()),
            project: project.into(),
            settings: Arc::new(CheckSettings { name, slug, ..CheckSettings::default() }),
            n_pings: 0,
            failures: 0,
            last_ping: None,
            last_success: None,
            other_down_names: Vec::new(),
            other_down_count: 0,
            ping_keys: Vec::new(),
            json: None,
            alerted_names: None,
        }
    }

    /// Returns a text that the job sent without what would let its reader ping.
    pub(super) fn without_ping_addresses<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let keys: Vec<_> = self.ping_keys.iter().map(PingKey::as_str).collect();
        ping_address::mask_ping_addresses(text, self.uuid, &keys)
    }
}

/// Whether a channel's templates ask for the check as the API shows it.
pub fn uses_check_json(settings: &crate::domain::channel::ChannelSettings) -> bool {
    settings.kind().name == "webhook" && settings.pairs().any(|(_, value)| value.contains("$JSON"))
}
