//! Sends one message: composes its text, sends its requests in order, and interprets the responses.

mod secret_files;
mod transport;

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::facts::DownChecksCache;
use super::message_result::AttemptResult;
use super::scheduler::Message;
use super::{NotifierConfig, UnsubscribeLinks, UnsubscribeTarget};
use crate::channels::alert::{AlertFacts, CheckEvent, CheckFacts, RenderContext};
use crate::channels::{self, Alert, SendAttempt, SendStep, Verdict, alert_text};
use crate::domain::alert::{OutboxRow, RecipientResult};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::Check;
use crate::domain::ids::ChannelId;
use crate::domain::project::Channel;
use crate::domain::timestamp::Timestamp;
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, DeliveryReport, SendOutcome};
use crate::engine::{ChannelTest, ChannelTestResult, Handle, TestedChannel};
use crate::outbound::{HttpRequest, HttpResponse, Outbound, SendError, Trust};
pub(super) use secret_files::load_secrets;

/// Maximum number of requests for one message, including joins, cancellations and plain fallbacks.
const MAX_REQUESTS: usize = 12;
/// Time that the requester of a test waits.
const CHANNEL_TEST_TIMEOUT: Duration = Duration::from_secs(70);

/// Sends messages. The notifier has a single one.
pub(super) struct MessageSender {
    pub(super) handle: Handle,
    pub(super) zone: Timezone,
    pub(super) render_check: Box<dyn Fn(&Check) -> String + Send>,
    pub(super) down_checks: RefCell<DownChecksCache>,
    pub(super) pages_url: Option<String>,
    unsubscribe_links: Option<UnsubscribeLinks>,
    pub(super) outbound: Outbound,
    host: String,
    /// Channels in a round of resending. No other message is sent to them meanwhile, since it
    /// might be overtaken.
    pub(super) channels_being_resent: RefCell<BTreeSet<ChannelId>>,
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
        let channels_being_resent = RefCell::default();
        Self {
            handle,
            zone,
            render_check,
            pages_url,
            unsubscribe_links,
            down_checks,
            outbound,
            host,
            channels_being_resent,
        }
    }

    /// Sends a message with all its requests.
    pub(super) async fn send(&self, message: &Message) -> AttemptResult {
        let Some(first) = message.items.first().map(|item| &item.row) else {
            let reason = "there is nothing to send".into();
            return AttemptResult::new(SendOutcome::Skipped(reason), 0);
        };
        let now = self.handle.now();
        let instance = self.instance();
        let facts = self.gather_facts(message);
        if matches!(&facts, AlertFacts::StillDown(down) if down.is_empty()) {
            let reason = "no check is down any longer".into();
            return AttemptResult::new(SendOutcome::Skipped(reason), 0);
        }
        let alert = self.build_alert(&message.channel, facts, now);
        let mail_id = |flip: u64| format!("{instance}-{}-{flip}", message.channel.id.0);
        let previous = || {
            self.handle
                .flip(first.flip)
                .ok()
                .flatten()
                .map(|logged| mail_id(logged.previous.0))
        };
        // A digest that is composed again may have more items than before, and then is another
        // message.
        let id = match message.items.last().filter(|_| message.items.len() > 1) {
            Some(last) => format!(
                "{instance}-{}-{}-{}",
                first.number.0,
                last.row.number.0,
                message.items.len()
            ),
            None => format!("{instance}-{}", first.number.0),
        };
        let is_up = first.event == crate::domain::alert::AlertEvent::Up;
        let mut attempt = SendAttempt {
            id: id.clone(),
            number: first.attempts,
            at: now,
            failing_since: message
                .channel
                .health
                .failing
                .as_ref()
                .map(|(since, _)| *since),
            may_be_duplicate: message.items.iter().any(|item| item.row.may_be_duplicate),
            plain: false,
            mail_id: if message.items.len() > 1 || first.flip.0 == 0 || first.event.is_warning() {
                id
            } else {
                mail_id(first.flip.0)
            },
            mail_in_reply_to: if is_up && message.items.len() == 1 {
                previous()
            } else {
                None
            },
            unsubscribe_url: None,
        };
        let rows: Vec<_> = message
            .items
            .iter()
            .map(|item| Arc::clone(&item.row))
            .collect();
        let attempt_result = self
            .send_to_channel(
                &message.channel,
                &alert,
                &mut attempt,
                &rows,
                &self.recipients_without_alert(message),
            )
            .await;
        let error = attempt_result.result.reason();
        if !error.is_empty() {
            tracing::warn!(
                channel = %message.channel.uuid,
                kind = message.channel.settings.kind().name,
                "delivery failed: {error}"
            );
        }
        attempt_result
    }

    /// Sends a test, replies to the requester, and logs it.
    pub(super) async fn run_channel_test(&self, channel_test: ChannelTest) {
        // The permit ends with this function.
        let ChannelTest {
            channel: tested,
            is_up_message: up,
            reply,
            permit: _turn,
        } = channel_test;
        let Some(channel) = tested.find(&self.handle) else {
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
        let sent = timeout(
            CHANNEL_TEST_TIMEOUT,
            self.send_to_channel(&channel, &alert, &mut attempt, &[], &[]),
        )
        .await;
        let attempt_result =
            sent.unwrap_or_else(|_| AttemptResult::retry("it took too long", true));
        let sent = test_result(&attempt_result);
        let status = attempt_result.status;
        let duration = self.handle.clock().uptime().saturating_sub(start);
        let (error, missed) = match &sent {
            SendOutcome::Failed(reason) => (Some(reason.to_string()), None),
            SendOutcome::PartlyDelivered(reason) => (None, Some(reason.to_string())),
            _ => (None, None),
        };
        // First the log, which enables the channel again. A test that is not logged was still sent,
        // and the requester may be gone.
        if let TestedChannel::Stored(id) = tested {
            let report = DeliveryReport::of_test(id, sent, status);
            let log = DeliveryReport {
                sent_to: Some(channel),
                recipients: attempt_result.recipients,
                ..report
            };
            let _ = self.handle.call(Command::RecordChannelTest(log)).await;
        }
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

    /// Unsubscribe link for one recipient.
    pub(super) fn unsubscribe_link(
        &self,
        target: UnsubscribeTarget,
        recipient: &str,
    ) -> Option<String> {
        self.unsubscribe_links
            .as_ref()
            .and_then(|link| link(target, recipient))
    }

    /// Sends a message with these rows; for a mail channel one mail to each recipient. `excluded`:
    /// recipients to leave out.
    pub(super) async fn send_to_channel(
        &self,
        channel: &Arc<Channel>,
        alert: &Alert,
        attempt: &mut SendAttempt,
        rows: &[Arc<OutboxRow>],
        excluded: &[Box<str>],
    ) -> AttemptResult {
        let settings = match load_secrets(&channel.settings).await {
            Ok(settings) => settings,
            Err(error) => return AttemptResult::retry(&error, false),
        };
        if let Some(lacks) = settings.missing_setting() {
            return AttemptResult::new(SendOutcome::ChannelRejected(lacks.into()), 0);
        }
        if settings.recipients().next().is_some() {
            return self
                .mail_recipients(channel, &settings, alert, attempt, rows, excluded)
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
    ) -> AttemptResult {
        let mut steps = prepare_requests(&settings, alert, attempt);
        let mut last = AttemptResult::new(SendOutcome::Skipped(UNSUPPORTED_EVENT_ERROR.into()), 0);
        for _ in 0..MAX_REQUESTS {
            let Some(step) = steps.pop_front() else {
                return last;
            };
            let reply = self.run_request(&step, channel, None).await;
            let judged =
                channels::judge(&settings, alert, attempt, &step, &reply, self.handle.now());
            match &judged.verdict {
                Verdict::Delivered => {}
                Verdict::Continue(next) => steps = next.clone().into(),
                Verdict::ChangeSetting { key, value } => match settings.with_value(key, value) {
                    Ok(changed) => {
                        self.store_setting(channel, key, value).await;
                        settings = changed;
                        steps = prepare_requests(&settings, alert, attempt);
                    }
                    Err(error) => return AttemptResult::retry(&error.to_string(), false),
                },
                Verdict::MessageRejected
                    if !attempt.plain && channels::has_plain_form(&settings) =>
                {
                    attempt.plain = true;
                    steps = prepare_requests(&settings, alert, attempt);
                }
                Verdict::Retry { .. } | Verdict::MessageRejected | Verdict::ChannelRejected => {
                    return AttemptResult {
                        is_unreachable: reply.is_unreachable(),
                        ..AttemptResult::from_judgement(judged, reply.may_have_arrived())
                    };
                }
            }
            last = AttemptResult::from_judgement(judged, reply.may_have_arrived());
        }
        if steps.is_empty() {
            last
        } else {
            AttemptResult::retry("the receiver asked for too many requests", true)
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
const UNSUPPORTED_EVENT_ERROR: &str = "this channel does not send alerts of this type";

/// Result of a test. If only some recipients accepted it, their number precedes the error.
fn test_result(attempt_result: &AttemptResult) -> SendOutcome {
    let error = attempt_result.result.reason();
    if !attempt_result.is_delivered() && !attempt_result.is_partly_delivered {
        let reason = if error.is_empty() {
            "the receiver did not accept it"
        } else {
            error
        };
        return SendOutcome::Failed(reason.into());
    }
    if error.is_empty() {
        return SendOutcome::Delivered;
    }
    let recipients = attempt_result.recipients.as_deref().unwrap_or_default();
    let accepted_count = recipients
        .iter()
        .filter(|recipient| recipient.result == RecipientResult::Accepted)
        .count();
    let reason = format!(
        "delivered to {accepted_count} of {}; {error}",
        recipients.len()
    );
    SendOutcome::PartlyDelivered(reason.into())
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
