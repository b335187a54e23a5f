//! Meaning of responses: delivered, retry later, message refused for good, or channel unusable.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;

use crate::channels::alert::SendAttempt;
use crate::channels::redaction::{redact_secrets, truncate_error};
use crate::channels::send_step::SendStep;
use crate::domain::channel::ChannelSettings;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Longest delay that a receiver can ask for.
pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(6 * 3600);

/// Number of times that a service must report a channel as unusable, or a mail server must refuse a
/// recipient.
const MIN_ATTEMPTS_TO_DISABLE: u16 = 3;
/// Time for which the channel must fail, in seconds.
const MIN_FAILURE_SECS_TO_DISABLE: i64 = 3_600;

/// Our own words in errors; a number may follow.
const ANSWERED: &str = "the answer was ";
const MAIL_SERVER_SAID: &str = "the mail server said ";
const EXITED: &str = "exit status ";
const KILLED: &str = "ended by signal ";
const TOO_LONG: &str = "it took too long";
const NOT_RUN: &str = "it could not be run";
/// All of our own words that a quotation of the receiver may follow.
const BEFORE_QUOTES: [&str; 6] = [
    ANSWERED,
    MAIL_SERVER_SAID,
    EXITED,
    KILLED,
    TOO_LONG,
    NOT_RUN,
];
/// Precedes recipients that a mail server has refused, each with its code and text.
const NOT_TAKEN: &str = "not taken for ";
/// Separates our own words from the text of a receiver.
const QUOTE: &str = ": ";

/// Numbers from here on are milliseconds since 1970: as seconds they would be in the year 5138.
const MIN_MILLIS_SINCE_EPOCH: i64 = 100_000_000_000;

/// Result of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransportReply {
    /// Response to an HTTP request.
    Http(ChannelResponse),
    /// Reply of a mail server, with the last code.
    Mail {
        /// Reply code; 250: the mail was accepted.
        code: u16,
        /// Stage of the session.
        stage: MailStage,
        /// Reply text; for an accepted mail, the refused recipients with their reasons.
        text: String,
    },
    /// A command ended.
    Command {
        /// Exit of the command.
        end: CommandStatus,
        /// Beginning of its standard error.
        error: String,
    },
    /// No response: an error of name resolution, connection, TLS, or a timeout.
    NoReply {
        /// Sentence that names at most the host.
        error: String,
        /// True if the request was sent, so that it may have arrived.
        may_have_arrived: bool,
    },
}

/// Response to an HTTP request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelResponse {
    /// Status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Body, at most its first 64 kB.
    pub body: Vec<u8>,
}

/// Stage of a session with a mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailStage {
    /// Before the first recipient: greeting, TLS, login, sender.
    Session,
    /// A recipient.
    Recipient,
    /// The message itself.
    Content,
}

/// Exit of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandStatus {
    /// Exited with this status.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Took too long.
    Timeout,
    /// Could not be run: commands are not allowed, or the program is missing.
    NotRun,
}

/// Consequence of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The message has arrived.
    Delivered,
    /// Retry later; not before a given delay if the response asks for one.
    Retry {
        /// Delay that the receiver asks for, at most six hours.
        after: Option<Duration>,
    },
    /// The receiver will never accept this message.
    MessageRejected,
    /// The channel will accept no message until its settings change.
    ChannelRejected,
    /// Not delivered yet: run these steps in place of all that are left.
    Continue(Vec<SendStep>),
    /// A setting must change; then the message is prepared and sent again.
    ChangeSetting {
        /// Key of the setting.
        key: &'static str,
        /// New value of the setting.
        value: String,
    },
}

impl Verdict {
    /// Retry later, without a given delay.
    pub(super) const RETRY: Self = Self::Retry { after: None };
}

/// Verdict with its error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Consequence of the response.
    pub verdict: Verdict,
    /// Error in one line for people, at most 200 characters, without the channel's secrets; empty
    /// on success. Read-only users see its [`public_part`].
    pub error: String,
    /// Status to store: of HTTP, mail or exit; 0: none.
    pub status: u16,
}

impl TransportReply {
    /// Meaning of a response unless the kind has its own rule.
    pub(super) fn default_verdict(&self, attempt: &SendAttempt, now: Timestamp) -> Verdict {
        match self {
            Self::Http(response) => response.default_verdict(now),
            Self::Mail { code, stage, .. } => match (code, stage) {
                (200..=399, _) => Verdict::Delivered,
                // Some servers temporarily refuse unknown senders.
                (550 | 551 | 553, MailStage::Recipient) if is_persistent_failure(attempt, now) => {
                    Verdict::ChannelRejected
                }
                (552 | 554, MailStage::Content) => Verdict::MessageRejected,
                _ => Verdict::RETRY,
            },
            Self::Command { end, .. } => match end {
                CommandStatus::Exit(0) => Verdict::Delivered,
                // EX_TEMPFAIL of sysexits.h.
                CommandStatus::Exit(75) | CommandStatus::Timeout => Verdict::RETRY,
                // Status of `sh` if the file cannot be executed or does not exist.
                CommandStatus::Exit(126 | 127) | CommandStatus::NotRun => Verdict::ChannelRejected,
                CommandStatus::Exit(_) | CommandStatus::Signal(_) => Verdict::MessageRejected,
            },
            Self::NoReply { .. } => Verdict::RETRY,
        }
    }

    /// True if the message may have arrived although it was not accepted.
    pub fn may_have_arrived(&self) -> bool {
        match self {
            Self::Http(response) => response.may_have_arrived(),
            Self::Mail { .. } => false,
            Self::Command { end, .. } => *end == CommandStatus::Timeout,
            Self::NoReply {
                may_have_arrived, ..
            } => *may_have_arrived,
        }
    }

    /// True if there was no response, or if a mail server refused before it received a recipient.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::NoReply { .. }
                | Self::Mail {
                    stage: MailStage::Session,
                    ..
                }
        )
    }

    /// Verdict with its error: our own words, then the receiver's text, without the secrets of the
    /// channel.
    pub(super) fn judgement(
        &self,
        verdict: Verdict,
        settings: &ChannelSettings,
        step: &SendStep,
    ) -> Judgement {
        let (status, summary, reply_text) = match self {
            Self::Http(response) => (
                response.status,
                format!("{ANSWERED}{}", response.status),
                response.text(),
            ),
            Self::Mail { code, text, .. } => {
                (*code, format!("{MAIL_SERVER_SAID}{code}"), text.clone())
            }
            Self::Command { end, error } => {
                let (status, summary) = match end {
                    CommandStatus::Exit(status) => (
                        u16::try_from(*status).unwrap_or_default(),
                        format!("{EXITED}{status}"),
                    ),
                    CommandStatus::Signal(signal) => (0, format!("{KILLED}{signal}")),
                    CommandStatus::Timeout => (0, TOO_LONG.to_owned()),
                    CommandStatus::NotRun => (0, NOT_RUN.to_owned()),
                };
                (status, summary, error.clone())
            }
            Self::NoReply { error, .. } => {
                (0, redact_secrets(error, settings, step), String::new())
            }
        };
        // Secrets may be ordinary words. Our own words stay unmasked, so that their end can be
        // found.
        let reply_text = redact_secrets(&reply_text, settings, step);
        let error = match (&verdict, reply_text.as_str()) {
            // Others have received it.
            (Verdict::Delivered, text) if matches!(self, Self::Mail { .. }) && !text.is_empty() => {
                format!("{NOT_TAKEN}{text}")
            }
            (Verdict::Delivered | Verdict::Continue(_) | Verdict::ChangeSetting { .. }, _) => {
                String::new()
            }
            (_, "") => summary,
            (_, reply_text) => format!("{summary}{QUOTE}{reply_text}"),
        };
        Judgement {
            verdict,
            error: truncate_error(&error),
            status,
        }
    }
}

/// Returns the visible part of a delivery error: all of it for users who may change the channel,
/// otherwise its [`public_part`].
pub fn visible_error(error: &str, may_write: bool) -> &str {
    if may_write { error } else { public_part(error) }
}

/// Returns the part of a delivery error in our own words. The rest is text of the receiver, which
/// may repeat any secret of the channel in any form. Read-only users and keys do not see it.
///
/// An error may list several recipients, and follow words about a group. The public part ends at
/// the first text of a receiver.
pub fn public_part(error: &str) -> &str {
    let end_of_number = |at: usize| {
        let rest = error.get(at..).unwrap_or_default();
        at + rest
            .find(|c: char| !c.is_ascii_digit() && c != '-')
            .unwrap_or(rest.len())
    };
    let quotation_ends = BEFORE_QUOTES.iter().flat_map(|words| {
        error
            .match_indices(words)
            .map(|(at, words)| end_of_number(at + words.len()))
    });
    let quotation_ends = quotation_ends
        .filter(|end| {
            error
                .get(*end..)
                .is_some_and(|rest| rest.starts_with(QUOTE.trim_end()))
        })
        .min();
    // `not taken for ann@example.org: 550 no such user`: here a code takes the place of our own
    // words.
    let refusal_end = error.find(NOT_TAKEN).and_then(|at| {
        let start = error.get(at..)?.find(QUOTE)? + at + QUOTE.len();
        Some(end_of_number(start)).filter(|end| *end > start)
    });
    let end = quotation_ends
        .into_iter()
        .chain(refusal_end)
        .min()
        .unwrap_or(error.len());
    error.get(..end).unwrap_or_default()
}

impl ChannelResponse {
    /// Meaning of a status unless the kind has its own rule.
    pub(super) fn default_verdict(&self, now: Timestamp) -> Verdict {
        match self.status {
            200..=299 => Verdict::Delivered,
            400 | 413 | 422 => Verdict::MessageRejected,
            _ => self.retry_later(now),
        }
    }

    /// Verdict for a service that reports the channel as missing or forbidden: retry, and disable
    /// the channel if that persists.
    pub(super) fn rejected_if_persistent(&self, attempt: &SendAttempt, now: Timestamp) -> Verdict {
        if is_persistent_failure(attempt, now) {
            Verdict::ChannelRejected
        } else {
            self.retry_later(now)
        }
    }

    /// Retry later, not before the time in `Retry-After` (RFC 9110, section 10.2.3).
    pub(super) fn retry_later(&self, now: Timestamp) -> Verdict {
        let pause = self
            .header("retry-after")
            .and_then(|value| match value.parse::<f64>() {
                Ok(seconds) => retry_delay(seconds),
                Err(_) => {
                    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
                    delay_until(date.as_second(), now)
                }
            });
        Verdict::Retry { after: pause }
    }

    /// Retry later, not before the time in a header that contains seconds or milliseconds since
    /// 1970.
    pub(super) fn retry_at_header(&self, header: &str, now: Timestamp) -> Verdict {
        let seconds = |at: i64| {
            if at >= MIN_MILLIS_SINCE_EPOCH {
                at / 1_000
            } else {
                at
            }
        };
        let at = self
            .header(header)
            .and_then(|value| value.parse::<i64>().ok())
            .and_then(|at| delay_until(seconds(at), now));
        at.map_or_else(
            || self.retry_later(now),
            |after| Verdict::Retry { after: Some(after) },
        )
    }

    /// True if the message may have arrived despite the error: gateways use these statuses for
    /// requests that they passed on, and servers for requests that they failed to finish.
    pub(super) fn may_have_arrived(&self) -> bool {
        matches!(self.status, 500 | 502 | 504 | 520 | 522 | 524)
    }

    /// Header with this name, given in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.trim())
    }

    /// Value in a JSON body at a pointer (RFC 6901). Null if the body is no JSON, or has no such
    /// value.
    pub(super) fn json_at(&self, pointer: &str) -> Value {
        let body = serde_json::from_slice::<Value>(&self.body).unwrap_or(Value::Null);
        body.pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    /// True if the body is JSON with a string at a pointer (RFC 6901). A proxy in between does not
    /// answer with the JSON of a service.
    pub(super) fn has_text_at(&self, pointer: &str) -> bool {
        self.json_at(pointer).is_string()
    }

    /// Body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.body.get(..2_000).unwrap_or(&self.body)).into_owned()
    }
}

/// True if enough attempts have failed for long enough to disable the channel.
fn is_persistent_failure(attempt: &SendAttempt, now: Timestamp) -> bool {
    let failed_for = attempt
        .failing_since
        .map_or(0, |since| now.micros_since(since));
    attempt.number >= MIN_ATTEMPTS_TO_DISABLE
        && failed_for >= MIN_FAILURE_SECS_TO_DISABLE * MICROS_PER_SEC
}

/// Delay of this number of seconds, at most six hours.
pub(super) fn retry_delay(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0 && seconds.is_finite())
        .then(|| Duration::from_secs_f64(seconds.min(MAX_RETRY_DELAY.as_secs_f64())))
}

/// Time until a moment given in seconds since 1970.
pub(super) fn delay_until(at: i64, now: Timestamp) -> Option<Duration> {
    let seconds = u64::try_from(at.saturating_sub(now.secs())).ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_DELAY))
}
