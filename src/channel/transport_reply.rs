//! What an answer means: it has arrived, it may arrive later, it never will, or nothing ever will.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;

use crate::channel::alert::SendAttempt;
use crate::channel::redaction::{redacted, redacted_excerpt};
use crate::channel::send_step::SendStep;
use crate::domain::channel::ChannelSettings;
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// The longest pause that an answer can ask for.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(6 * 3600);

/// How often a service has to say that a channel is of no use, and a mail server has to refuse a recipient.
const MIN_ATTEMPTS_TO_DISABLE: u16 = 3;
/// Seconds for which the channel has to fail.
const MIN_FAILURE_SECS_TO_DISABLE: i64 = 3_600;

/// Our own words in errors; a number may follow.
const ANSWERED: &str = "the answer was ";
const MAIL_SERVER_SAID: &str = "the mail server said ";
const EXITED: &str = "exit status ";
const KILLED: &str = "ended by signal ";
const TOO_LONG: &str = "it took too long";
const NOT_RUN: &str = "it could not be run";
/// All of them behind which a receiver is quoted.
const BEFORE_QUOTES: [&str; 6] = [ANSWERED, MAIL_SERVER_SAID, EXITED, KILLED, TOO_LONG, NOT_RUN];
/// Stands before recipients that a mail server has refused, each with its code and text.
const NOT_TAKEN: &str = "not taken for ";
/// Stands between our own words and those of a receiver.
const QUOTE: &str = ": ";

/// From here on a number is taken for milliseconds since 1970: in seconds it would lie in the year 5138.
const MIN_MILLIS_SINCE_EPOCH: i64 = 100_000_000_000;

/// What came of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransportReply {
    /// An answer to an HTTP request.
    Http(ChannelResponse),
    /// An answer of a mail server; the code is the last one that it gave.
    Mail {
        /// The reply code; 250: it took the mail.
        code: u16,
        /// Which part of the conversation it belongs to.
        stage: MailStage,
        /// Its text; of a mail that was taken, for whom it was not, and why.
        text: String,
    },
    /// A command ended.
    Command {
        /// How.
        end: CommandStatus,
        /// The beginning of what it wrote to standard error.
        error: String,
    },
    /// There was no answer: names, connection, TLS or time. The sentence names no more than the host.
    NoReply(String),
}

/// An answer to an HTTP request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelResponse {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body, at most its first 64 kB.
    pub body: Vec<u8>,
}

/// A part of the conversation with a mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailStage {
    /// Before the first recipient: greeting, TLS, login, sender.
    Session,
    /// A recipient.
    Recipient,
    /// The mail itself.
    Content,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandStatus {
    /// With this exit status.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// It took longer than it may.
    Timeout,
    /// It could not be run, because there is none or it may not be.
    NotRun,
}

/// What to do now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has arrived.
    Delivered,
    /// It may arrive later; not before so long, if the answer says so.
    RetryLater {
        /// The pause that the receiver asks for, at most six hours.
        after: Option<Duration>,
    },
    /// This message will never be taken as it is.
    Unsendable,
    /// No message will, until somebody changes the channel.
    ChannelUnusable,
    /// It has not arrived yet: these steps in place of all that were left.
    Continue(Vec<SendStep>),
    /// A setting has to change: then it is prepared and sent anew.
    ChangeSetting {
        /// The key.
        key: &'static str,
        /// Its new value.
        value: String,
    },
}

impl Verdict {
    /// Later, whenever.
    pub(super) const RETRY_LATER: Self = Self::RetryLater { after: None };
}

/// A verdict, and what is told about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// What to do now.
    pub verdict: Verdict,
    /// One line for people, at most 200 characters, without the channel's secrets; empty if all is well. Those who may only read are shown
    /// its [`public_part`].
    pub error: String,
    /// The status that is kept with it: that of HTTP or mail, or the exit status; 0: none.
    pub status: u16,
}

impl TransportReply {
    /// What an answer means that the kind says nothing about.
    pub(super) fn default_verdict(&self, attempt: &SendAttempt, now: Timestamp) -> Verdict {
        match self {
            Self::Http(response) => response.default_verdict(now),
            Self::Mail { code, stage, .. } => match (code, stage) {
                (200..=399, _) => Verdict::Delivered,
                // Some servers refuse for a while whom they do not know yet.
                (550 | 551 | 553, MailStage::Recipient) if is_persistent_failure(attempt, now) => Verdict::ChannelUnusable,
                (552 | 554, MailStage::Content) => Verdict::Unsendable,
                _ => Verdict::RETRY_LATER,
            },
            Self::Command { end, .. } => match end {
                CommandStatus::Exit(0) => Verdict::Delivered,
                // EX_TEMPFAIL of sysexits.h.
                CommandStatus::Exit(75) | CommandStatus::Timeout => Verdict::RETRY_LATER,
                // What `sh` answers when there is no such file, and when it may not be run.
                CommandStatus::Exit(126 | 127) | CommandStatus::NotRun => Verdict::ChannelUnusable,
                CommandStatus::Exit(_) | CommandStatus::Signal(_) => Verdict::Unsendable,
            },
            Self::NoReply(_) => Verdict::RETRY_LATER,
        }
    }

    /// The verdict with the sentence about it: our own words, then what the receiver said, without the secrets of the channel.
    pub(super) fn judgement(&self, verdict: Verdict, settings: &ChannelSettings, step: &SendStep) -> Judgement {
        let (status, what, said) = match self {
            Self::Http(response) => (response.status, format!("{ANSWERED}{}", response.status), response.text()),
            Self::Mail { code, text, .. } => (*code, format!("{MAIL_SERVER_SAID}{code}"), text.clone()),
            Self::Command { end, error } => {
                let (status, what) = match end {
                    CommandStatus::Exit(status) => (u16::try_from(*status).unwrap_or_default(), format!("{EXITED}{status}")),
                    CommandStatus::Signal(signal) => (0, format!("{KILLED}{signal}")),
                    CommandStatus::Timeout => (0, TOO_LONG.to_owned()),
                    CommandStatus::NotRun => (0, NOT_RUN.to_owned()),
                };
                (status, what, error.clone())
            }
            Self::NoReply(sentence) => (0, redacted(sentence, settings, step), String::new()),
        };
        // Secrets may be ordinary words: our own stay as they are, so that their end is found again.
        let said = redacted(&said, settings, step);
        let error = match (&verdict, said.as_str()) {
            // It has arrived at others.
            (Verdict::Delivered, text) if matches!(self, Self::Mail { .. }) && !text.is_empty() => format!("{NOT_TAKEN}{text}"),
            (Verdict::Delivered | Verdict::Continue(_) | Verdict::ChangeSetting { .. }, _) => String::new(),
            (_, "") => what,
            (_, said) => format!("{what}{QUOTE}{said}"),
        };
        Judgement { verdict, error: redacted_excerpt(&error), status }
    }
}

/// Returns what is shown of an error of a delivery: all of it to those who may change the channel, to others its [`public_part`].
pub fn shown(error: &str, may_write: bool) -> &str {
    if may_write { error } else { public_part(error) }
}

/// Returns the part of an error of a delivery that is in our own words. The rest is text of the receiver, which may repeat any secret of the
/// channel in any form: people and keys that may only read are not shown it.
///
/// An error may hold those of several recipients, and stand behind words about a group. All ends at the first text of a receiver.
pub fn public_part(error: &str) -> &str {
    let end_of_number = |at: usize| {
        let rest = error.get(at..).unwrap_or_default();
        at + rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len())
    };
    let quoted = BEFORE_QUOTES.iter().flat_map(|words| error.match_indices(words).map(|(at, words)| end_of_number(at + words.len())));
    let quoted = quoted.filter(|end| error.get(*end..).is_some_and(|rest| rest.starts_with(QUOTE.trim_end()))).min();
    // `not taken for ann@example.org: 550 no such user`: a code stands in the place of our own words.
    let refused = error.find(NOT_TAKEN).and_then(|at| {
        let start = error.get(at..)?.find(QUOTE)? + at + QUOTE.len();
        Some(end_of_number(start)).filter(|end| *end > start)
    });
    let end = quoted.into_iter().chain(refused).min().unwrap_or(error.len());
    error.get(..end).unwrap_or_default()
}

impl ChannelResponse {
    /// What a status means that the kind says nothing about.
    pub(super) fn default_verdict(&self, now: Timestamp) -> Verdict {
        match self.status {
            200..=299 => Verdict::Delivered,
            400 | 413 | 422 => Verdict::Unsendable,
            _ => self.retry_later(now),
        }
    }

    /// What it means that the service itself says that the channel does not exist or may not be used: later, and closed once that lasts.
    pub(super) fn unusable_if_persistent(&self, attempt: &SendAttempt, now: Timestamp) -> Verdict {
        if is_persistent_failure(attempt, now) { Verdict::ChannelUnusable } else { self.retry_later(now) }
    }

    /// Later, and not before `Retry-After` says (RFC 9110, section 10.2.3).
    pub(super) fn retry_later(&self, now: Timestamp) -> Verdict {
        let pause = self.header("retry-after").and_then(|value| match value.parse::<f64>() {
            Ok(seconds) => retry_delay(seconds),
            Err(_) => {
                let date = DateTimeParser::new().parse_timestamp(value).ok()?;
                delay_until(date.as_second(), now)
            }
        });
        Verdict::RetryLater { after: pause }
    }

    /// Later, and not before a header says that holds seconds, or milliseconds, since 1970.
    pub(super) fn retry_at_header(&self, header: &str, now: Timestamp) -> Verdict {
        let seconds = |at: i64| if at >= MIN_MILLIS_SINCE_EPOCH { at / 1_000 } else { at };
        let at = self.header(header).and_then(|value| value.parse::<i64>().ok()).and_then(|at| delay_until(seconds(at), now));
        at.map_or_else(|| self.retry_later(now), |after| Verdict::RetryLater { after: Some(after) })
    }

    /// Whether the message may have arrived although the answer is an error: gateways answer so what they have passed on, and servers what
    /// they failed to finish.
    pub fn may_have_arrived(&self) -> bool {
        matches!(self.status, 500 | 502 | 504 | 520 | 522 | 524)
    }

    /// A header, by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.trim())
    }

    /// What the body has at a place (RFC 6901), as JSON; null if it is none, or has nothing there.
    pub(super) fn json_at(&self, place: &str) -> Value {
        let body = serde_json::from_slice::<Value>(&self.body).unwrap_or(Value::Null);
        body.pointer(place).cloned().unwrap_or(Value::Null)
    }

    /// Whether the body is JSON that has a text at a place (RFC 6901). A proxy in between does not answer with the JSON of a service.
    pub(super) fn has_text_at(&self, place: &str) -> bool {
        self.json_at(place).is_string()
    }

    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.body.get(..2_000).unwrap_or(&self.body)).into_owned()
    }
}

/// Whether something was tried often enough, for long enough, to believe an answer that would disable the channel.
fn is_persistent_failure(attempt: &SendAttempt, now: Timestamp) -> bool {
    let failed_for = attempt.failing_since.map_or(0, |since| now.micros_since(since));
    attempt.number >= MIN_ATTEMPTS_TO_DISABLE && failed_for >= MIN_FAILURE_SECS_TO_DISABLE * MICROS_PER_SEC
}

/// So many seconds, at most six hours.
pub(super) fn retry_delay(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0 && seconds.is_finite()).then(|| Duration::from_secs_f64(seconds.min(MAX_RETRY_DELAY.as_secs_f64())))
}

/// The time until a moment in seconds since 1970.
pub(super) fn delay_until(at: i64, now: Timestamp) -> Option<Duration> {
    let seconds = u64::try_from(at.saturating_sub(now.secs())).ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_DELAY))
}
