//! Facts of an alert as gathered, and the alert that is composed from them.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use uuid::Uuid;

use crate::domain::alert::AlertEvent;
use crate::domain::check::{CheckLabels, CheckSettings, Warning, WarningKind};
use crate::domain::flip::{Flip, FlipCause};
use crate::domain::ids::UniqueKey;
use crate::domain::ping::{PingKind, PingScheme};
use crate::domain::ping_address;
use crate::domain::project::PingKey;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;

/// Content of a message, as of the moment of sending.
#[derive(Clone, Debug)]
pub enum AlertFacts {
    /// Event of one check.
    Check(Box<CheckFacts>, CheckEvent),
    /// Events of several checks in one message.
    Digest {
        /// Checks that went down and are down.
        down: Vec<CheckSummary>,
        /// Checks that are up again.
        up: Vec<CheckSummary>,
        /// Checks with warnings, and the time of each.
        warned: Vec<(CheckSummary, WarningKind, Timestamp)>,
    },
    /// Checks that became due while the server accepted no pings, and have not reported since.
    ServerOutage {
        /// Start of the time without pings.
        from: Timestamp,
        /// End of the time without pings.
        until: Timestamp,
        /// Affected checks.
        checks: Vec<CheckSummary>,
    },
    /// Reminder of checks that are still down.
    StillDown(Vec<CheckSummary>),
    /// Problem of the server or of another channel.
    Notice {
        /// Problem in a few words.
        title: String,
        /// Explanation and advice.
        text: String,
        /// True if the problem is resolved.
        is_resolved: bool,
    },
}

/// Event of one check.
#[derive(Clone, Debug)]
pub enum CheckEvent {
    /// The check went down.
    Down {
        /// Status change.
        flip: Flip,
        /// Context of the change.
        context: EventContext,
    },
    /// The check is up again.
    Up {
        /// Status change.
        flip: Flip,
        /// Status change that began the downtime.
        down: Flip,
        /// True if this channel was notified of the downtime.
        was_notified: bool,
        /// Context of the change.
        context: EventContext,
    },
    /// The alert is closed for this channel, though the check is not known to be up.
    Closed {
        /// Time at which it was closed.
        at: Timestamp,
        /// Reason for closing it.
        reason: CloseReason,
    },
    /// The check is late, or a run passed a limit.
    Warning {
        /// Warning as of the time when it was given.
        warning: Warning,
        /// Number of earlier warnings that were not sent.
        skipped: usize,
        /// State of the check since the warning.
        outlook: WarningOutlook,
    },
    /// Test of a channel.
    Test {
        /// Time of the test.
        at: Timestamp,
        /// True for the message that is sent when a check is up again.
        up: bool,
        /// Name of the channel.
        channel: String,
    },
}

/// State of a check after a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarningOutlook {
    /// A run started.
    Started(Timestamp),
    /// A run ended, or the check reported without a start.
    Reported(Timestamp),
    /// It goes down at this time, unless it reports.
    Deadline(Timestamp),
    /// Nothing more is known.
    Unknown,
}

/// Reason to close an alert for a channel, though the check is not known to be up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The check was paused.
    Paused,
    /// The check was deleted.
    Deleted,
    /// Alerts about the check are no longer sent to the channel.
    Unassigned,
}

/// Reason for the delay of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DelayReason {
    /// The receiver did not respond, or refused messages.
    Undelivered,
    /// The channel had quiet hours.
    QuietHours,
    /// The channel had reached its daily limit.
    DailyLimit,
    /// People had reached the limit of messages about the check.
    Flapping,
}

/// Context of a status change.
#[derive(Clone, Default, Debug)]
pub struct EventContext {
    /// Reason for the delay of the message, if known.
    pub delay: Option<DelayReason>,
    /// Time at which it came up before it went down, if that was not sent.
    pub up_since: Option<Timestamp>,
    /// Number of changes since then that were not sent, and the time of the first.
    pub unreported_changes: Option<(u16, Timestamp)>,
    /// Outage of the server in which pings may have been lost.
    pub outage: Option<(Timestamp, Timestamp)>,
    /// Maintenance window in which it went down.
    pub window: Option<String>,
}

/// Check as of the moment of sending.
#[derive(Clone, Debug)]
pub struct CheckFacts {
    /// UUID. Messages contain it only if a template uses it.
    pub uuid: Uuid,
    /// Identifier for readers that must not be able to ping the check.
    pub unique_key: UniqueKey,
    /// Name of the project.
    pub project: String,
    /// Settings of the check.
    pub settings: Arc<CheckSettings>,
    /// Number of pings ever logged.
    pub n_pings: u64,
    /// Consecutive failures and missed deadlines.
    pub failures: u16,
    /// Last ping at or before the change.
    pub last_ping: Option<PingFacts>,
    /// Time of the last success.
    pub last_success: Option<Timestamp>,
    /// Names of other checks of the project that are down, at most as many as a message names.
    pub other_down_names: Vec<String>,
    /// Number of other checks that are down.
    pub other_down_count: usize,
    /// Ping keys of the project, which messages never contain.
    pub ping_keys: Vec<PingKey>,
    /// Check as the API shows it to a read-write key, if a template uses it: see
    /// [`uses_check_json`].
    pub json: Option<String>,
    /// Names under which the downtime was reported, if the check has been renamed since.
    pub alerted_labels: Option<Arc<CheckLabels>>,
}

/// Ping that a message describes.
#[derive(Clone, Debug)]
pub struct PingFacts {
    /// Time of arrival.
    pub at: Timestamp,
    /// Kind of ping.
    pub kind: PingKind,
    /// Protocol of the ping.
    pub scheme: PingScheme,
    /// Exit status that the job reported.
    pub exit_status: Option<u8>,
    /// Address of the client.
    pub from: Option<IpAddr>,
    /// Run time of the job in microseconds.
    pub run_duration: Option<i64>,
    /// Body, or the end of it.
    pub body: Vec<u8>,
    /// Readable text, if the ping was a mail.
    pub mail: Option<MailText>,
}

/// Readable part of a mail. It has no header but the subject: other headers contain the address
/// that pings the check.
#[derive(Clone, Debug)]
pub struct MailText {
    /// Decoded subject.
    pub subject: String,
    /// Decoded text of its parts.
    pub text: String,
}

/// Check in a list of several.
#[derive(Clone, Debug)]
pub struct CheckSummary {
    /// Name of the check.
    pub name: String,
    /// Name of the project.
    pub project: String,
    /// UUID of the project for URLs of pages.
    pub project_uuid: Option<Uuid>,
    /// Start of the downtime.
    pub since: Timestamp,
    /// Cause of the downtime.
    pub cause: FlipCause,
    /// Time of the last success.
    pub last_success: Option<Timestamp>,
}

/// Time, time zone and server for the text of a message.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    /// Moment of sending.
    pub now: Timestamp,
    /// Time zone for checks that have none of their own.
    pub zone: &'a Timezone,
    /// Base URL of the pages of checks. `None`: messages have no links.
    pub page_base_url: Option<&'a str>,
    /// Host of the base URL.
    pub host: &'a str,
}

/// Alert as text.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Event that the alert reports.
    pub event: AlertEvent,
    /// True for a test of the message that is sent when a check is up again.
    pub tests_recovery: bool,
    /// Time of the event.
    pub at: Timestamp,
    /// Severity of the event.
    pub severity: AlertSeverity,
    /// Event in one line.
    pub title: String,
    /// Event, cause and start, in a few sentences.
    pub summary: String,
    /// Cause in a few words.
    pub reason: String,
    /// Whole alert in one line for a phone.
    pub one_line: String,
    /// Description of the check.
    pub description: String,
    /// Further facts, the most important first.
    pub facts: Vec<LabeledFact>,
    /// Lists of checks with headings.
    pub lists: Vec<AlertList>,
    /// Sentence about other checks.
    pub other_checks: String,
    /// End of the last output of the job.
    pub output: Option<JobOutput>,
    /// URL of the check's page; for several checks, of the list of their project.
    pub link: Option<String>,
    /// Host of the server that sends the alert.
    pub host: String,
    /// Check that the alert is about, if it is a single one.
    pub check: Option<AlertedCheck>,
}

/// Severity of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertSeverity {
    /// A check is down.
    Critical,
    /// The problem is resolved.
    Recovery,
    /// A person should look, though no check is known to be down.
    Warning,
    /// Information only.
    Info,
}

/// Fact with a label.
#[derive(Clone, Debug)]
pub struct LabeledFact {
    /// Label of the fact.
    pub label: &'static str,
    /// Value of the fact.
    pub value: String,
}

/// Checks under a heading.
#[derive(Clone, Debug)]
pub struct AlertList {
    /// Heading of the list.
    pub heading: &'static str,
    /// One line for each check.
    pub items: Vec<String>,
}

/// Last output of a job.
#[derive(Clone, Debug)]
pub struct JobOutput {
    /// Label, such as `The last lines it sent`.
    pub label: &'static str,
    /// Text as valid UTF-8, without control characters and terminal colors.
    pub text: String,
}

/// Check that an alert is about, for kinds that identify it to programs.
#[derive(Clone, Debug)]
pub struct AlertedCheck {
    /// Display name of the check.
    pub name: String,
    /// Facts of the check.
    pub facts: CheckFacts,
    /// Cause of the change.
    pub cause: FlipCause,
    /// Start of the downtime, and its end if it has ended.
    pub downtime: Option<(Timestamp, Option<Timestamp>)>,
}

/// One attempt to send an alert.
#[derive(Clone, Debug)]
pub struct SendAttempt {
    /// Permanent id of the alert: `<instance>-<number>`. Every attempt has the same.
    pub id: String,
    /// Number of the attempt, from 1.
    pub number: u16,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Start of the current failure of the channel. `None`: it is not failing.
    pub failing_since: Option<Timestamp>,
    /// True if an earlier attempt may have arrived.
    pub may_be_duplicate: bool,
    /// True if the full form was refused, so that only the plainest form is sent.
    pub plain: bool,
    /// Id of the mail: `<instance>-<channel>-<flip>`.
    pub mail_id: String,
    /// Id of the mail that this one answers.
    pub mail_in_reply_to: Option<String>,
    /// Unsubscribe URL for the recipient.
    pub unsubscribe_url: Option<String>,
}

impl AlertSeverity {
    /// Emoji in front of titles.
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

    /// RGB color in 24 bits.
    pub fn color(self) -> u32 {
        match self {
            Self::Critical => 0x00d9_534f,
            Self::Recovery => 0x005c_b85c,
            Self::Warning => 0x00f0_ad4e,
            Self::Info => 0x004a_90d9,
        }
    }
}

impl Alert {
    /// True if channels send the message for a check that is up again.
    pub fn is_up(&self) -> bool {
        self.event == AlertEvent::Up || self.tests_recovery
    }

    /// Text of the link, for people.
    pub fn link_text(&self) -> &'static str {
        if self.check.is_some() {
            "Open the check"
        } else {
            "Open the list of checks"
        }
    }

    /// Status as a word: `down` or `up`; for a warning its name.
    pub fn status(&self) -> &'static str {
        match self.event {
            AlertEvent::Warning(kind) => kind.name(),
            _ if self.is_up() => "up",
            _ => "down",
        }
    }

    /// Id of the incident that the alert belongs to.
    pub fn incident_key(&self, attempt: &SendAttempt) -> String {
        match &self.check {
            Some(alerted_check) if self.event != AlertEvent::Test => {
                alerted_check.facts.unique_key.to_string()
            }
            _ => format!("{}-{}", self.event.name(), attempt.id),
        }
    }
}

impl CheckFacts {
    /// Facts that remain of a deleted check.
    pub fn for_deleted_check(names: CheckLabels, unique_key: UniqueKey, project: &str) -> Self {
        Self {
            unique_key,
            settings: Arc::new(names.into_settings()),
            ..Self::new(project)
        }
    }

    /// Example check, for a test of a channel.
    pub fn example(project: &str) -> Self {
        let name = crate::domain::text::Name::parse("TEST").unwrap_or_default();
        let slug = crate::domain::text::Slug::parse("test").unwrap_or_default();
        Self {
            settings: Arc::new(CheckSettings {
                name,
                slug,
                ..CheckSettings::default()
            }),
            ..Self::new(project)
        }
    }

    /// Facts about a check of this project, all other fields empty.
    pub fn new(project: &str) -> Self {
        Self {
            uuid: Uuid::nil(),
            unique_key: UniqueKey::of_check(Uuid::nil()),
            project: project.into(),
            settings: Arc::default(),
            n_pings: 0,
            failures: 0,
            last_ping: None,
            last_success: None,
            other_down_names: Vec::new(),
            other_down_count: 0,
            ping_keys: Vec::new(),
            json: None,
            alerted_labels: None,
        }
    }

    /// Masks addresses that ping the check in a text that the job sent.
    pub(super) fn without_ping_addresses<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let keys: Vec<_> = self.ping_keys.iter().map(PingKey::as_str).collect();
        ping_address::mask_ping_addresses(text, self.uuid, &keys)
    }
}

/// True if templates of a channel use the check as the API shows it.
pub fn uses_check_json(settings: &crate::domain::channel::ChannelSettings) -> bool {
    settings.kind().name == "webhook" && settings.pairs().any(|(_, value)| value.contains("$JSON"))
}
