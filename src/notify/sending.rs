//! Sends one message: its words, its requests one after the other, and what their answers mean.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::facts::OthersDown;
use super::plan::{Job, JobEnd, JobOutcome};
use super::{Config, Unsubscribe};
use crate::channel::alert::{CheckFacts, Facts, News, Scene};
use crate::channel::answer::{CommandEnd, MailStage, Response};
use crate::channel::{self, Alert, Answer, Attempt, Judged, Step, words};
use crate::domain::alert::{OutboxRow, Recipient, RecipientResult};
use crate::domain::channel::ChannelSettings;
use crate::domain::check::Check;
use crate::domain::ids::ChannelId;
use crate::domain::moment::Moment;
use crate::domain::project::Channel;
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, Report, SendOutcome};
use crate::engine::{Handle, Trial, Tried};
use crate::outbound::{
    CertificatePin, HttpAnswer, HttpRequest, MailError, MailReply, MailSent, MailStep, Outbound, OutgoingMail, ProcessEnd, Redirects,
    Reserved, SendError, ShellCommand, Trust,
};

/// How long an HTTP request may take, and one to a receiver that is known to be slow, a mail or a command.
const WITHIN: Duration = Duration::from_secs(15);
const SLOW_WITHIN: Duration = Duration::from_secs(60);
/// Requests for one message: joins, cancellations and plainer forms included.
const MOST_STEPS: usize = 12;
/// Bytes of a file that holds a secret.
const MOST_SECRET: u64 = 64 << 10;
/// How long reading such a file may take.
const READ_TIME: Duration = Duration::from_secs(5);
/// How long whoever asked for a test waits.
const TRIAL_TIME: Duration = Duration::from_secs(70);

/// Sends messages. One for the whole notifier.
pub(super) struct MessageSender {
    pub(super) handle: Handle,
    pub(super) zone: Timezone,
    pub(super) show: Box<dyn Fn(&Check) -> String + Send>,
    pub(super) others: RefCell<OthersDown>,
    pages: Option<String>,
    unsubscribe: Option<Unsubscribe>,
    pub(super) outbound: Outbound,
    host: String,
    /// Channels that are sent alerts again at the moment. Nothing else is sent to them meanwhile: it might be overtaken.
    pub(super) resending: RefCell<BTreeSet<ChannelId>>,
}

/// What has come of the requests of a message.
pub(super) struct Exchange {
    pub(super) judged: Judged,
    /// The last of them had gone out, so it may have arrived.
    pub(super) doubtful: bool,
    /// No answer came, or a mail server refused before it was given a recipient.
    pub(super) is_unreachable: bool,
    /// Of several recipients some have taken it.
    pub(super) is_taken_by_some: bool,
    /// The results for several recipients; `None`: there are none.
    pub(super) recipients: Option<Arc<[Recipient]>>,
}

impl Exchange {
    /// The result of a message that has certainly not arrived unless it was taken.
    pub(super) fn of(judged: Judged) -> Self {
        Self { judged, doubtful: false, is_unreachable: false, is_taken_by_some: false, recipients: None }
    }

    /// The result of a test that came to this.
    fn sent_test(&self) -> SendOutcome {
        let error = &*self.judged.error;
        if self.judged.verdict != channel::Verdict::Delivered && !self.is_taken_by_some {
            return SendOutcome::Failed(if error.is_empty() { "it was not taken" } else { error }.into());
        }
        if error.is_empty() {
            return SendOutcome::Delivered;
        }
        let recipients = self.recipients.as_deref().unwrap_or_default();
        let taken = recipients.iter().filter(|recipient| recipient.result == RecipientResult::Taken).count();
        SendOutcome::DeliveredInPart(format!("delivered to {taken} of {}; {error}", recipients.len()).into())
    }

    fn later(error: String, doubtful: bool) -> Self {
        Self { doubtful, ..Self::of(Judged { verdict: channel::Verdict::Later { after: None }, error, status: 0 }) }
    }
}

impl MessageSender {
    pub(super) fn new(handle: Handle, config: Config) -> Self {
        let Config { outbound, zone, host, show, pages, unsubscribe, heartbeat: _, last_round: _ } = config;
        let (others, resending) = (RefCell::default(), RefCell::default());
        Self { handle, zone, show, pages, unsubscribe, others, outbound, host, resending }
    }

    /// Sends a message to the end.
    pub(super) async fn send(&self, job: &Job) -> JobEnd {
        let Some(first) = job.items.first().map(|item| &item.row) else {
            return JobEnd::new(JobOutcome::Skipped, "there is nothing to tell", 0);
        };
        let now = self.handle.now();
        let instance = self.instance();
        let facts = self.facts(job);
        if matches!(&facts, Facts::Still(down) if down.is_empty()) {
            return JobEnd::new(JobOutcome::Skipped, "nothing is down any more", 0);
        }
        let alert = self.words(&job.channel, facts, now);
        let mail_id = |flip: u64| format!("{instance}-{}-{flip}", job.channel.id.0);
        let previous = || self.handle.flip(first.flip).ok().flatten().map(|logged| mail_id(logged.previous.0));
        // A digest that is made anew may tell more than before, and is another message then.
        let id = match job.items.last().filter(|_| job.items.len() > 1) {
            Some(last) => format!("{instance}-{}-{}-{}", first.number.0, last.row.number.0, job.items.len()),
            None => format!("{instance}-{}", first.number.0),
        };
        let is_up = first.event == crate::domain::alert::Event::Up;
        let mut attempt = Attempt {
            id: id.clone(),
            number: first.attempts,
            at: now,
            failing_since: job.channel.health.failing.as_ref().map(|(since, _)| *since),
            doubtful: job.items.iter().any(|item| item.row.doubtful),
            plain: false,
            mail_id: if job.items.len() > 1 || first.flip.0 == 0 { id } else { mail_id(first.flip.0) },
            mail_answers: if is_up && job.items.len() == 1 { previous() } else { None },
            unsubscribe: None,
        };
        let rows: Vec<_> = job.items.iter().map(|item| Arc::clone(&item.row)).collect();
        let Exchange { judged: Judged { verdict, error, status }, doubtful, is_taken_by_some, recipients, .. } =
            self.tell(&job.channel, &alert, &mut attempt, &rows, &self.without_alert(job)).await;
        let outcome = match verdict {
            channel::Verdict::Delivered => JobOutcome::Delivered,
            channel::Verdict::Unsendable if status == 0 && error == NOTHING_TO_SAY => JobOutcome::Skipped,
            channel::Verdict::Unsendable => JobOutcome::Refused,
            channel::Verdict::Closed => JobOutcome::Closed,
            channel::Verdict::Later { .. } if is_taken_by_some => JobOutcome::LaterInPart,
            channel::Verdict::Later { after } => JobOutcome::Later { after, doubtful },
            // Steps that lead on were followed until there were too many.
            channel::Verdict::Then(_) | channel::Verdict::Changed { .. } => JobOutcome::Later { after: None, doubtful },
        };
        if !error.is_empty() {
            tracing::warn!(channel = %job.channel.uuid, kind = job.channel.settings.kind().name, "not delivered: {error}");
        }
        JobEnd { recipients, ..JobEnd::new(outcome, &error, status) }
    }

    /// Sends a test, tells whoever asked, and logs it.
    pub(super) async fn try_channel(&self, trial: Trial) {
        // Its turn ends with this.
        let Trial { channel: id, up, reply, turn: _turn } = trial;
        let Some(channel) = self.handle.with_state(|state| state.channel(id).cloned()) else { return };
        let (now, began) = (self.handle.now(), self.handle.clock().uptime());
        let name = self
            .handle
            .with_state(|state| state.project(channel.project).map(|project_state| project_state.project.name.as_str().to_owned()));
        let check = Box::new(CheckFacts::example(&name.unwrap_or_default()));
        let alert = self.words(&channel, Facts::Check(check, News::Test { at: now, up, channel: channel.name.as_str().to_owned() }), now);
        let id_of_test = format!("{}-test-{}", self.instance(), self.handle.random().url_safe::<8>());
        let mut attempt = first_attempt(id_of_test, now);
        let told = timeout(TRIAL_TIME, self.tell(&channel, &alert, &mut attempt, &[], &[])).await;
        let exchange = told.unwrap_or_else(|_| Exchange::later("it took too long".into(), true));
        let (sent, status) = (exchange.sent_test(), exchange.judged.status);
        let took = self.handle.clock().uptime().saturating_sub(began);
        let (failed, missed) = match &sent {
            SendOutcome::Failed(reason) => (Some(reason.to_string()), None),
            SendOutcome::DeliveredInPart(reason) => (None, Some(reason.to_string())),
            _ => (None, None),
        };
        // First the log, which enables the channel again. A test that is not logged was made all the same, and whoever asked may be gone.
        let log = Report { recipients: exchange.recipients, ..Report::of_test(id, sent, status) };
        let _ = self.handle.call(Command::LogTest(log)).await;
        let _ = reply.send(Tried { took, status, failed, missed });
    }

    /// What is told, in words.
    pub(super) fn words(&self, channel: &Channel, facts: Facts, now: Moment) -> Alert {
        let zone = channel.settings.common().tz.as_ref().unwrap_or(&self.zone);
        words::alert(facts, Scene { now, zone, pages: self.pages.as_deref(), host: &self.host })
    }

    /// Sends a notice to a channel: whether it was taken, or else whether it may have arrived all the same.
    pub(super) async fn notice(&self, channel: &Arc<Channel>, facts: Facts, mut attempt: Attempt) -> Result<(), bool> {
        let alert = self.words(channel, facts, attempt.at);
        let Exchange { judged, doubtful, .. } = self.tell(channel, &alert, &mut attempt, &[], &[]).await;
        if judged.verdict == channel::Verdict::Delivered { Ok(()) } else { Err(doubtful) }
    }

    /// The name of a notice, by which its receiver knows repeats.
    pub(super) fn notice_id(&self) -> String {
        format!("{}-notice-{}", self.instance(), self.handle.random().url_safe::<8>())
    }

    /// Sends a request that is no alert.
    pub(super) async fn fetch(&self, request: HttpRequest, trust: Trust) -> Result<HttpAnswer, SendError> {
        self.outbound.http(request, trust).await
    }

    fn instance(&self) -> String {
        self.handle.with_state(|state| state.instance.iter().flatten().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The unsubscribe link of a channel for one recipient.
    pub(super) fn unsubscribe_link(&self, channel: &Channel, recipient: &str) -> Option<String> {
        self.unsubscribe.as_ref().and_then(|link| link(channel, recipient))
    }

    /// Sends a message that tells these rows: to a mail channel as one mail for each recipient.
    /// `without`: recipients that are left out.
    async fn tell(
        &self,
        channel: &Arc<Channel>,
        alert: &Alert,
        attempt: &mut Attempt,
        rows: &[Arc<OutboxRow>],
        without: &[Box<str>],
    ) -> Exchange {
        let settings = match with_secrets(&channel.settings).await {
            Ok(settings) => settings,
            Err(error) => return Exchange::later(error, false),
        };
        if let Some(lacks) = settings.lacks() {
            return Exchange::of(Judged { verdict: channel::Verdict::Closed, error: lacks, status: 0 });
        }
        if settings.recipients().next().is_some() {
            return self.mail_each(channel, &settings, alert, attempt, rows, without).await;
        }
        self.tell_one(channel, settings, alert, attempt).await
    }

    /// Carries out the requests of a message in their order, up to the first that is not taken.
    pub(super) async fn tell_one(
        &self,
        channel: &Arc<Channel>,
        mut settings: ChannelSettings,
        alert: &Alert,
        attempt: &mut Attempt,
    ) -> Exchange {
        let mut steps = prepared(&settings, alert, attempt);
        let mut last = Exchange::of(nothing());
        for _ in 0..MOST_STEPS {
            let Some(step) = steps.pop_front() else { return last };
            let (answer, doubtful) = self.carry_out(&step, channel, None).await;
            let judged = channel::judge(&settings, alert, attempt, &step, &answer, self.handle.now());
            match &judged.verdict {
                channel::Verdict::Delivered => {}
                channel::Verdict::Then(next) => steps = next.clone().into(),
                channel::Verdict::Changed { key, value } => match settings.with(key, value) {
                    Ok(changed) => {
                        self.keep(channel, key, value).await;
                        settings = changed;
                        steps = prepared(&settings, alert, attempt);
                    }
                    Err(error) => return Exchange::later(error.to_string(), false),
                },
                channel::Verdict::Unsendable if !attempt.plain && channel::has_plain_form(&settings) => {
                    attempt.plain = true;
                    steps = prepared(&settings, alert, attempt);
                }
                channel::Verdict::Later { .. } | channel::Verdict::Unsendable | channel::Verdict::Closed => {
                    let is_unreachable = matches!(answer, Answer::Nothing(_) | Answer::Mail { stage: MailStage::Session, .. });
                    return Exchange { doubtful, is_unreachable, ..Exchange::of(judged) };
                }
            }
            last = Exchange { doubtful, ..Exchange::of(judged) };
        }
        if steps.is_empty() { last } else { Exchange::later("it answered with ever more to do".into(), true) }
    }

    /// Keeps a setting that a receiver has changed.
    async fn keep(&self, channel: &Arc<Channel>, key: &'static str, value: &str) {
        let command = Command::AdoptSetting { sent_to: Arc::clone(channel), key, value: value.into() };
        if !matches!(self.handle.call(command).await, Ok(Ok(_))) {
            tracing::warn!(channel = %channel.uuid, "its new {key} could not be kept");
        }
    }

    /// The answer, or why there is none; and whether it may have arrived although nobody said so.
    /// `place`: where an HTTP request is sent, if that was waited for.
    pub(super) async fn carry_out(&self, step: &Step, channel: &Channel, place: Option<Reserved>) -> (Answer, bool) {
        let outbound = self.outbound.for_project(channel.project);
        let trust = if channel.operator { Trust::Operator } else { Trust::Api };
        match step {
            Step::Http(request) => {
                let request = HttpRequest {
                    method: request.method.name().into(),
                    url: request.url.clone(),
                    headers: request.headers.clone(),
                    body: request.body.clone().into(),
                    redirects: if request.own_url { Redirects::Own } else { Redirects::None },
                    pin: channel.settings.common().tls_pin.map(CertificatePin::from_bytes),
                    within: if request.slow { SLOW_WITHIN } else { WITHIN },
                };
                let sent = match place {
                    Some(place) => outbound.http_in(place, request, trust).await,
                    None => outbound.http(request, trust).await,
                };
                match sent {
                    Ok(answer) => {
                        let response = Response { status: answer.status, headers: answer.headers, body: answer.body };
                        let doubtful = response.may_have_arrived();
                        (Answer::Http(response), doubtful)
                    }
                    Err(error) => unanswered(&error),
                }
            }
            Step::Mail(mail) => {
                let headers = mail.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
                let outgoing = OutgoingMail {
                    to: mail.to.clone(),
                    subject: mail.subject.clone(),
                    text: mail.text.clone(),
                    html: Some(mail.html.clone()).filter(|html| !html.is_empty()),
                    id: mail.id.clone(),
                    answers: mail.answers.clone(),
                    date: mail.date,
                    headers,
                    attached: mail.attached.clone(),
                    within: SLOW_WITHIN,
                };
                match outbound.mail(outgoing).await {
                    Ok(MailSent { refused }) => {
                        let who = |(place, reply): &(usize, MailReply)| {
                            format!("{}: {} {}", mail.to.get(*place).map_or("", String::as_str), reply.code, reply.text)
                        };
                        let text = refused.iter().map(who).collect::<Vec<_>>().join("; ");
                        (Answer::Mail { code: 250, stage: MailStage::Content, text }, false)
                    }
                    Err(MailError::Send(error)) => unanswered(&error),
                    Err(MailError::Refused(reply)) => {
                        let stage = match reply.step {
                            MailStep::Greeting | MailStep::Login | MailStep::Sender => MailStage::Session,
                            MailStep::Recipient => MailStage::Recipient,
                            MailStep::Message => MailStage::Content,
                        };
                        (Answer::Mail { code: reply.code, stage, text: reply.text }, false)
                    }
                }
            }
            Step::Command(shell) => {
                let command = ShellCommand {
                    command: shell.command.clone(),
                    environment: shell.environment.clone(),
                    input: shell.input.clone(),
                    within: SLOW_WITHIN,
                };
                match outbound.command(command).await {
                    Ok(end) => {
                        let how = match end.how {
                            ProcessEnd::Exited(status) => CommandEnd::Exit(status),
                            ProcessEnd::Killed(signal) => CommandEnd::Signal(signal),
                            ProcessEnd::TimedOut => CommandEnd::Timeout,
                        };
                        (Answer::Command { end: how, error: end.stderr }, how == CommandEnd::Timeout)
                    }
                    Err(error) => unanswered(&error),
                }
            }
            // The step itself says why: nothing is sent.
            Step::Unsendable(reason) => (Answer::Nothing(reason.clone()), false),
        }
    }
}

/// The first and only attempt to send something of this id.
pub(super) fn first_attempt(id: String, at: Moment) -> Attempt {
    let (number, failing_since, doubtful, plain) = (1, None, false, false);
    let mail_id = id.clone();
    Attempt { id, number, at, failing_since, doubtful, plain, mail_id, mail_answers: None, unsubscribe: None }
}

/// What is said of a message that its channel has no words for.
const NOTHING_TO_SAY: &str = "this channel says nothing about it";

fn nothing() -> Judged {
    Judged { verdict: channel::Verdict::Unsendable, error: NOTHING_TO_SAY.into(), status: 0 }
}

fn prepared(settings: &ChannelSettings, alert: &Alert, attempt: &Attempt) -> VecDeque<Step> {
    channel::prepare(settings, alert, attempt).unwrap_or_default().into()
}

fn unanswered(error: &SendError) -> (Answer, bool) {
    (Answer::Nothing(error.to_string()), error.doubtful)
}

/// The settings with the secrets that lie in files, which are read each time: they may be replaced. A file on a disk that hangs holds up
/// nobody else.
pub(super) async fn with_secrets(settings: &ChannelSettings) -> Result<ChannelSettings, String> {
    let mut whole = settings.clone();
    for (key, path) in settings.secret_files() {
        let path = path.to_owned();
        let read = timeout(READ_TIME, spawn_blocking(move || read_secret(&path))).await;
        let secret = match read {
            Ok(Ok(Ok(secret))) => secret,
            Ok(Ok(Err(error))) => return Err(format!("the file of {key} cannot be read: {error}")),
            Ok(Err(_)) => return Err(format!("the file of {key} cannot be read")),
            Err(_) => return Err(format!("the file of {key} cannot be read within {} s", READ_TIME.as_secs())),
        };
        whole = whole.with(key, secret.trim_end()).map_err(|error| error.to_string())?;
    }
    Ok(whole)
}

fn read_secret(path: &str) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut secret = String::new();
    std::fs::File::open(path)?.take(MOST_SECRET).read_to_string(&mut secret)?;
    Ok(secret)
}
