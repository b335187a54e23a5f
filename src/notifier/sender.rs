//! Sends one message: composes its text, sends its requests in order, and interprets the responses.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::facts::DownChecksCache;
use super::scheduler::{Message, MessageOutcome, MessageResult};
use super::{NotifierConfig, UnsubscribeLinks};
use crate::channels::alert::{AlertFacts, CheckEvent, CheckFacts, RenderContext};
use crate::channels::transport_reply::{ChannelResponse, CommandStatus, MailStage};
use crate::channels::{self, Alert, Judgement, SendAttempt, SendStep, TransportReply, alert_text};
use crate::domain::alert::{OutboxRow, Recipient, RecipientResult};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::Check;
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, DeliveryReport, SendResult};
use crate::engine::{ChannelTest, ChannelTestResult, Handle};
use crate::outbound::{
    CertificatePin, HttpRequest, HttpResponse, MailError, MailReceipt, MailReply, MailStep,
    Outbound, OutgoingMail, ProcessExit, RedirectPolicy, ReservedSlot, SendError, ShellCommand,
    Trust,
};

/// Maximum time of an HTTP request; the second one is for slow receivers, mails and commands.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const SLOW_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of requests for one message, including joins, cancellations and plain fallbacks.
const MAX_REQUESTS: usize = 12;
/// Maximum length of a file with a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Maximum time to read such a file.
const SECRET_READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that the requester of a test waits.
const CHANNEL_TEST_TIMEOUT: Duration = Duration::from_secs(70);

/// Sends messages. The notifier has a single one.
pub(super) struct MessageSender {
    pub(super) handle: Handle,
    pub(super) zone: Timezone,
    pub(super) render_check: Box<dyn Fn(&Check) -> String + Send>,
    pub(super) down_checks: RefCell<DownChecksCache>,
    pages_url: Option<String>,
    unsubscribe_links: Option<UnsubscribeLinks>,
    pub(super) outbound: Outbound,
    host: String,
    /// Channels in a round of resending. No other message is sent to them meanwhile, since it
    /// might be overtaken.
    pub(super) resending: RefCell<BTreeSet<ChannelId>>,
}

/// Result of the requests of a message.
pub(super) struct MessageExchange {
    pub(super) judgement: Judgement,
    /// True if the last request was sent, so the message may have arrived.
    pub(super) may_have_arrived: bool,
    /// True if no response arrived, or if a mail server refused before it received a recipient.
    pub(super) is_unreachable: bool,
    /// True if some of several recipients have accepted it.
    pub(super) is_partly_delivered: bool,
    /// Results of this attempt for recipients that get a mail each. `None`: there are none.
    pub(super) recipients: Option<Arc<[Recipient]>>,
}

impl MessageExchange {
    /// Result of a message that has certainly not arrived unless it was accepted.
    pub(super) fn from_judgement(judged: Judgement) -> Self {
        Self {
            judgement: judged,
            may_have_arrived: false,
            is_unreachable: false,
            is_partly_delivered: false,
            recipients: None,
        }
    }

    /// Result of a test.
    fn sent_test(&self) -> SendResult {
        let error = &*self.judgement.error;
        if self.judgement.verdict != channels::Verdict::Delivered && !self.is_partly_delivered {
            return SendResult::Failed(
                if error.is_empty() {
                    "the receiver did not accept it"
                } else {
                    error
                }
                .into(),
            );
        }
        if error.is_empty() {
            return SendResult::Delivered;
        }
        let recipients = self.recipients.as_deref().unwrap_or_default();
        let accepted_count = recipients
            .iter()
            .filter(|recipient| recipient.result == RecipientResult::Accepted)
            .count();
        SendResult::PartlyDelivered(
            format!(
                "delivered to {accepted_count} of {}; {error}",
                recipients.len()
            )
            .into(),
        )
    }

    fn retry(error: String, may_have_arrived: bool) -> Self {
        Self {
            may_have_arrived,
            ..Self::from_judgement(Judgement {
                verdict: channels::Verdict::RetryLater { after: None },
                error,
                status: 0,
            })
        }
    }
}

impl MessageSender {
    pub(super) fn new(handle: Handle, config: NotifierConfig) -> Self {
        let NotifierConfig {
            outbound,
            zone,
            host,
            render_check,
            pages_url,
            unsubscribe_links,
            heartbeat: _,
            last_round: _,
        } = config;
        let down_checks = RefCell::default();
        let resending = RefCell::default();
        Self {
            handle,
            zone,
            render_check,
            pages_url,
            unsubscribe_links,
            down_checks,
            outbound,
            host,
            resending,
        }
    }

    /// Sends a message with all its requests.
    pub(super) async fn send(&self, job: &Message) -> MessageResult {
        let Some(first) = job.items.first().map(|item| &item.row) else {
            return MessageResult::new(MessageOutcome::Skipped, "there is nothing to send", 0);
        };
        let now = self.handle.now();
        let instance = self.instance();
        let facts = self.gather_facts(job);
        if matches!(&facts, AlertFacts::StillDown(down) if down.is_empty()) {
            return MessageResult::new(MessageOutcome::Skipped, "no check is down any longer", 0);
        }
        let alert = self.build_alert(&job.channel, facts, now);
        let mail_id = |flip: u64| format!("{instance}-{}-{flip}", job.channel.id.0);
        let previous = || {
            self.handle
                .flip(first.flip)
                .ok()
                .flatten()
                .map(|logged| mail_id(logged.previous.0))
        };
        // A digest that is composed again may have more items than before, and then is another
        // message.
        let id = match job.items.last().filter(|_| job.items.len() > 1) {
            Some(last) => format!(
                "{instance}-{}-{}-{}",
                first.number.0,
                last.row.number.0,
                job.items.len()
            ),
            None => format!("{instance}-{}", first.number.0),
        };
        let is_up = first.event == crate::domain::alert::AlertEvent::Up;
        let mut attempt = SendAttempt {
            id: id.clone(),
            number: first.attempts,
            at: now,
            failing_since: job.channel.health.failing.as_ref().map(|(since, _)| *since),
            may_be_duplicate: job.items.iter().any(|item| item.row.may_be_duplicate),
            plain: false,
            mail_id: if job.items.len() > 1 || first.flip.0 == 0 {
                id
            } else {
                mail_id(first.flip.0)
            },
            mail_in_reply_to: if is_up && job.items.len() == 1 {
                previous()
            } else {
                None
            },
            unsubscribe_url: None,
        };
        let rows: Vec<_> = job.items.iter().map(|item| Arc::clone(&item.row)).collect();
        let MessageExchange {
            judgement:
                Judgement {
                    verdict,
                    error,
                    status,
                },
            may_have_arrived,
            is_partly_delivered,
            recipients,
            ..
        } = self
            .send_to_channel(
                &job.channel,
                &alert,
                &mut attempt,
                &rows,
                &self.without_alert(job),
            )
            .await;
        let outcome = match verdict {
            channels::Verdict::Delivered => MessageOutcome::Delivered,
            channels::Verdict::Unsendable if status == 0 && error == NOTHING_TO_SAY => {
                MessageOutcome::Skipped
            }
            channels::Verdict::Unsendable => MessageOutcome::Refused,
            channels::Verdict::ChannelUnusable => MessageOutcome::ChannelUnusable,
            channels::Verdict::RetryLater { .. } if is_partly_delivered => {
                MessageOutcome::RetrySomeRecipients
            }
            channels::Verdict::RetryLater { after } => MessageOutcome::Retry {
                retry_after: after,
                may_have_arrived,
            },
            // Continuing steps were followed until [`MAX_REQUESTS`] was reached.
            channels::Verdict::Continue(_) | channels::Verdict::ChangeSetting { .. } => {
                MessageOutcome::Retry {
                    retry_after: None,
                    may_have_arrived,
                }
            }
        };
        if !error.is_empty() {
            tracing::warn!(
                channel = %job.channel.uuid,
                kind = job.channel.settings.kind().name,
                "not delivered: {error}"
            );
        }
        MessageResult {
            recipients,
            ..MessageResult::new(outcome, &error, status)
        }
    }

    /// Sends a test, replies to the requester, and logs it.
    pub(super) async fn run_channel_test(&self, channel_test: ChannelTest) {
        // The permit ends with this function.
        let ChannelTest {
            channel: id,
            is_up_message: up,
            reply,
            permit: _turn,
        } = channel_test;
        let Some(channel) = self.handle.with_state(|state| state.channel(id).cloned()) else {
            return;
        };
        let now = self.handle.now();
        let start = self.handle.clock().uptime();
        let name = self.handle.with_state(|state| {
            state
                .project(channel.project)
                .map(|project_state| project_state.project.name.as_str().to_owned())
        });
        let check = Box::new(CheckFacts::example(&name.unwrap_or_default()));
        let alert = self.build_alert(
            &channel,
            AlertFacts::Check(
                check,
                CheckEvent::Test {
                    at: now,
                    up,
                    channel: channel.name.as_str().to_owned(),
                },
            ),
            now,
        );
        let id_of_test = format!(
            "{}-test-{}",
            self.instance(),
            self.handle.random().url_safe::<8>()
        );
        let mut attempt = first_attempt(id_of_test, now);
        let exchange_result = timeout(
            CHANNEL_TEST_TIMEOUT,
            self.send_to_channel(&channel, &alert, &mut attempt, &[], &[]),
        )
        .await;
        let exchange = exchange_result
            .unwrap_or_else(|_| MessageExchange::retry("it took too long".into(), true));
        let sent = exchange.sent_test();
        let status = exchange.judgement.status;
        let duration = self.handle.clock().uptime().saturating_sub(start);
        let (error, missed) = match &sent {
            SendResult::Failed(reason) => (Some(reason.to_string()), None),
            SendResult::PartlyDelivered(reason) => (None, Some(reason.to_string())),
            _ => (None, None),
        };
        // First the log, which enables the channel again. A test that is not logged was still sent,
        // and the requester may be gone.
        let report = DeliveryReport::of_test(id, sent, status);
        let log = DeliveryReport {
            sent_to: Some(channel),
            recipients: exchange.recipients,
            ..report
        };
        let _ = self.handle.call(Command::RecordChannelTest(log)).await;
        let _ = reply.send(ChannelTestResult {
            duration,
            status,
            error,
            missed,
        });
    }

    /// Composes the text of an alert.
    pub(super) fn build_alert(
        &self,
        channel: &Channel,
        facts: AlertFacts,
        now: Timestamp,
    ) -> Alert {
        let zone = channel.settings.common().tz.as_ref().unwrap_or(&self.zone);
        alert_text::compose_alert(
            facts,
            RenderContext {
                now,
                zone,
                page_base_url: self.pages_url.as_deref(),
                host: &self.host,
            },
        )
    }

    /// Sends a request that is no alert.
    pub(super) async fn send_request(
        &self,
        request: HttpRequest,
        trust: Trust,
    ) -> Result<HttpResponse, SendError> {
        self.outbound.send_http(request, trust).await
    }

    pub(super) fn instance(&self) -> String {
        self.handle.with_state(|state| {
            state
                .instance_id
                .iter()
                .flatten()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        })
    }

    /// Unsubscribe link of a channel for one recipient.
    pub(super) fn unsubscribe_link(&self, channel: &Channel, recipient: &str) -> Option<String> {
        self.unsubscribe_links
            .as_ref()
            .and_then(|link| link(channel, recipient))
    }

    /// Sends a message with these rows; for a mail channel one mail to each recipient. `without`:
    /// recipients to leave out.
    pub(super) async fn send_to_channel(
        &self,
        channel: &Arc<Channel>,
        alert: &Alert,
        attempt: &mut SendAttempt,
        rows: &[Arc<OutboxRow>],
        without: &[Box<str>],
    ) -> MessageExchange {
        let settings = match load_secrets(&channel.settings).await {
            Ok(settings) => settings,
            Err(error) => return MessageExchange::retry(error, false),
        };
        if let Some(lacks) = settings.missing_setting() {
            return MessageExchange::from_judgement(Judgement {
                verdict: channels::Verdict::ChannelUnusable,
                error: lacks,
                status: 0,
            });
        }
        if settings.recipients().next().is_some() {
            return self
                .mail_recipients(channel, &settings, alert, attempt, rows, without)
                .await;
        }
        self.run_requests(channel, settings, alert, attempt).await
    }

    /// Sends the requests of a message in order, up to the first that is not accepted.
    pub(super) async fn run_requests(
        &self,
        channel: &Arc<Channel>,
        mut settings: ChannelSettings,
        alert: &Alert,
        attempt: &mut SendAttempt,
    ) -> MessageExchange {
        let mut steps = prepare_requests(&settings, alert, attempt);
        let mut last = MessageExchange::from_judgement(nothing_to_say());
        for _ in 0..MAX_REQUESTS {
            let Some(step) = steps.pop_front() else {
                return last;
            };
            let (answer, may_have_arrived) = self.run_request(&step, channel, None).await;
            let judged =
                channels::judge(&settings, alert, attempt, &step, &answer, self.handle.now());
            match &judged.verdict {
                channels::Verdict::Delivered => {}
                channels::Verdict::Continue(next) => steps = next.clone().into(),
                channels::Verdict::ChangeSetting { key, value } => {
                    match settings.with_value(key, value) {
                        Ok(changed) => {
                            self.store_setting(channel, key, value).await;
                            settings = changed;
                            steps = prepare_requests(&settings, alert, attempt);
                        }
                        Err(error) => return MessageExchange::retry(error.to_string(), false),
                    }
                }
                channels::Verdict::Unsendable
                    if !attempt.plain && channels::has_plain_form(&settings) =>
                {
                    attempt.plain = true;
                    steps = prepare_requests(&settings, alert, attempt);
                }
                channels::Verdict::RetryLater { .. }
                | channels::Verdict::Unsendable
                | channels::Verdict::ChannelUnusable => {
                    let is_unreachable = matches!(
                        answer,
                        TransportReply::NoReply(_)
                            | TransportReply::Mail {
                                stage: MailStage::Session,
                                ..
                            }
                    );
                    return MessageExchange {
                        may_have_arrived,
                        is_unreachable,
                        ..MessageExchange::from_judgement(judged)
                    };
                }
            }
            last = MessageExchange {
                may_have_arrived,
                ..MessageExchange::from_judgement(judged)
            };
        }
        if steps.is_empty() {
            last
        } else {
            MessageExchange::retry("the receiver asked for too many requests".into(), true)
        }
    }

    /// Stores a setting that a receiver has changed.
    async fn store_setting(&self, channel: &Arc<Channel>, key: &'static str, value: &str) {
        let command = Command::AdoptSetting {
            sent_to: Arc::clone(channel),
            key,
            value: value.into(),
        };
        if !matches!(self.handle.call(command).await, Ok(Ok(_))) {
            tracing::warn!(channel = %channel.uuid, "the new {key} of the channel could not be \
                                                     stored");
        }
    }

    /// Returns the response or the reason why there is none, and true if the request may have
    /// arrived without a response. `permit`: for an HTTP request, if the caller has one.
    pub(super) async fn run_request(
        &self,
        step: &SendStep,
        channel: &Channel,
        permit: Option<ReservedSlot>,
    ) -> (TransportReply, bool) {
        let outbound = self.outbound.for_project(channel.project);
        let trust = if channel.set_by_operator {
            Trust::Operator
        } else {
            Trust::Api
        };
        match step {
            SendStep::Http(request) => {
                let request = HttpRequest {
                    method: request.method.name().into(),
                    url: request.url.clone(),
                    headers: request.headers.clone(),
                    body: request.body.clone().into(),
                    redirects: if request.is_user_url {
                        RedirectPolicy::Follow
                    } else {
                        RedirectPolicy::None
                    },
                    pin: channel
                        .settings
                        .common()
                        .tls_pin
                        .map(CertificatePin::from_bytes),
                    timeout: if request.is_slow {
                        SLOW_REQUEST_TIMEOUT
                    } else {
                        REQUEST_TIMEOUT
                    },
                };
                let sent = match permit {
                    Some(permit) => outbound.send_http_reserved(permit, request, trust).await,
                    None => outbound.send_http(request, trust).await,
                };
                match sent {
                    Ok(answer) => {
                        let response = ChannelResponse {
                            status: answer.status,
                            headers: answer.headers,
                            body: answer.body,
                        };
                        let may_have_arrived = response.may_have_arrived();
                        (TransportReply::Http(response), may_have_arrived)
                    }
                    Err(error) => answer_of_error(&error),
                }
            }
            SendStep::Mail(mail) => {
                let headers = mail
                    .headers
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone()))
                    .collect();
                let outgoing = OutgoingMail {
                    to: mail.to.clone(),
                    subject: mail.subject.clone(),
                    text: mail.text.clone(),
                    html: Some(mail.html.clone()).filter(|html| !html.is_empty()),
                    id: mail.message_id.clone(),
                    in_reply_to: mail.in_reply_to.clone(),
                    date: mail.date,
                    headers,
                    attachment: mail.attachment.clone(),
                    timeout: SLOW_REQUEST_TIMEOUT,
                };
                match outbound.send_mail(outgoing).await {
                    Ok(MailReceipt { refused }) => {
                        let describe_refusal = |(index, reply): &(usize, MailReply)| {
                            format!(
                                "{}: {} {}",
                                mail.to.get(*index).map_or("", String::as_str),
                                reply.code,
                                reply.text
                            )
                        };
                        let text = refused
                            .iter()
                            .map(describe_refusal)
                            .collect::<Vec<_>>()
                            .join("; ");
                        (
                            TransportReply::Mail {
                                code: 250,
                                stage: MailStage::Content,
                                text,
                            },
                            false,
                        )
                    }
                    Err(MailError::Send(error)) => answer_of_error(&error),
                    Err(MailError::Refused(reply)) => {
                        let stage = match reply.step {
                            MailStep::Greeting | MailStep::Login | MailStep::Sender => {
                                MailStage::Session
                            }
                            MailStep::Recipient => MailStage::Recipient,
                            MailStep::Message => MailStage::Content,
                        };
                        (
                            TransportReply::Mail {
                                code: reply.code,
                                stage,
                                text: reply.text,
                            },
                            false,
                        )
                    }
                }
            }
            SendStep::Command(shell) => {
                let command = ShellCommand {
                    command: shell.command.clone(),
                    environment: shell.environment.clone(),
                    input: shell.input.clone(),
                    timeout: SLOW_REQUEST_TIMEOUT,
                };
                match outbound.run_command(command).await {
                    Ok(end) => {
                        let status = match end.exit {
                            ProcessExit::Exited(status) => CommandStatus::Exit(status),
                            ProcessExit::Killed(signal) => CommandStatus::Signal(signal),
                            ProcessExit::TimedOut => CommandStatus::Timeout,
                        };
                        (
                            TransportReply::Command {
                                end: status,
                                error: end.stderr,
                            },
                            status == CommandStatus::Timeout,
                        )
                    }
                    Err(error) => answer_of_error(&error),
                }
            }
            // The step contains the reason; nothing is sent.
            SendStep::Unsendable(reason) => (TransportReply::NoReply(reason.clone()), false),
        }
    }
}

/// First and only attempt to send the message with this id.
pub(super) fn first_attempt(id: String, at: Timestamp) -> SendAttempt {
    let number = 1;
    let failing_since = None;
    let may_be_duplicate = false;
    let plain = false;
    let mail_id = id.clone();
    SendAttempt {
        id,
        number,
        at,
        failing_since,
        may_be_duplicate,
        plain,
        mail_id,
        mail_in_reply_to: None,
        unsubscribe_url: None,
    }
}

/// Error of a message that its channel does not send.
const NOTHING_TO_SAY: &str = "this channel does not send alerts of this type";

fn nothing_to_say() -> Judgement {
    Judgement {
        verdict: channels::Verdict::Unsendable,
        error: NOTHING_TO_SAY.into(),
        status: 0,
    }
}

fn prepare_requests(
    settings: &ChannelSettings,
    alert: &Alert,
    attempt: &SendAttempt,
) -> VecDeque<SendStep> {
    channels::prepare(settings, alert, attempt)
        .unwrap_or_default()
        .into()
}

fn answer_of_error(error: &SendError) -> (TransportReply, bool) {
    (
        TransportReply::NoReply(error.to_string()),
        error.may_have_arrived,
    )
}

/// Settings with the secrets from files. The files are read each time, since they may be replaced.
/// A file on a disk that hangs blocks only this message.
pub(super) async fn load_secrets(settings: &ChannelSettings) -> Result<ChannelSettings, String> {
    let mut settings_with_secrets = settings.clone();
    for (key, path) in settings.secret_files() {
        let path = path.to_owned();
        let read = timeout(
            SECRET_READ_TIMEOUT,
            spawn_blocking(move || read_secret(&path)),
        )
        .await;
        let secret = match read {
            Ok(Ok(Ok(secret))) => secret,
            Ok(Ok(Err(error))) => return Err(format!("the file of {key} cannot be read: {error}")),
            Ok(Err(_)) => return Err(format!("the file of {key} cannot be read")),
            Err(_) => {
                return Err(format!(
                    "the file of {key} cannot be read within {} s",
                    SECRET_READ_TIMEOUT.as_secs()
                ));
            }
        };
        settings_with_secrets = settings_with_secrets
            .with_value(key, secret.trim_end())
            .map_err(|error| error.to_string())?;
    }
    Ok(settings_with_secrets)
}

fn read_secret(path: &str) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut secret = String::new();
    std::fs::File::open(path)?
        .take(MAX_SECRET_BYTES)
        .read_to_string(&mut secret)?;
    Ok(secret)
}
