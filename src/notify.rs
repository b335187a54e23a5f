//! Whoever should know is told: what waits in the outbox is sent, and what has come of it is reported.
//!
//! `scheduler` says what is sent next, `facts` gathers what there is to say, `sender` sends it through [`Outbound`]. All of it runs
//! on one thread of its own. An attempt is written down before it begins and when it has ended: after a crash what was under way is sent
//! again, and says that it may be a repeat.

mod delivery_policy;
mod facts;
mod heartbeat;
mod recipients;
mod reminders;
mod resend;
mod scheduler;
mod self_alerts;
mod sender;

use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{self, JoinError, JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::domain::check::Check;
use crate::domain::ids::DeliveryNumber;
use crate::domain::project::Channel;
use crate::domain::timezone::Timezone;
use crate::engine::command::{Command, CommandOutcome, DeliveryReport};
use crate::engine::state::State;
use crate::engine::{ChannelTestResult, Handle};
use crate::outbound::Outbound;
use delivery_policy::DeliveryPolicy;
pub use heartbeat::Heartbeat;
use reminders::Reminders;
use scheduler::{CurrentTime, Message, MessageId, MessageResult, ScheduledWork, SendScheduler};
use self_alerts::SelfAlerts;
use sender::MessageSender;

/// Secrets that are read from their files at the same time.
const MAX_SECRET_READERS: usize = 4;
/// How long what is under way may take when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nothing is tried when the writer takes nothing.
const WRITER_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Attempts that begin, or end, in one command: a digest has thousands of them, and pings go in between.
const MAX_ATTEMPTS_PER_COMMAND: usize = 256;
/// The longest wait without looking at the time, since clocks are set.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The same while alerts of a channel are sent again, and what is new waits for the answer.
const MAX_WAIT_WHILE_RESENDING: Duration = Duration::from_millis(100);
/// Commands that wait for the writer at the same time: it writes what waits in one go.
const MAX_PENDING_COMMANDS: usize = 16;

/// What the notifier is told once, at start.
pub struct NotifierConfig {
    /// How it reaches others.
    pub outbound: Outbound,
    /// The zone of times in messages, unless a check or a channel has its own.
    pub zone: Timezone,
    /// The host by which the server is known.
    pub host: String,
    /// Who is told that the server lives.
    pub heartbeat: Option<Heartbeat>,
    /// The uptime at which the last round began, in microseconds, for whoever watches.
    pub last_round: Arc<AtomicU64>,
    /// Shows a check as the API does, for templates that ask for it.
    pub render_check: Box<dyn Fn(&Check) -> String + Send>,
    /// The base URL under which pages of checks are served, for links in messages; `None`: there are none, or it is not known where this
    /// server is reached.
    pub pages_url: Option<String>,
    /// Unsubscribe links for recipients of mails; `None`: it is not known where this server is reached.
    pub unsubscribe_links: Option<UnsubscribeLinks>,
}

/// Makes the unsubscribe link of a channel for one recipient.
pub type UnsubscribeLinks = Box<dyn Fn(&Channel, &str) -> Option<String> + Send>;

/// Starts telling, until `stopped` holds true; the receiver tells when it has ended.
///
/// # Errors
/// When the system gives no thread.
pub fn start(handle: Handle, config: NotifierConfig, stopped: watch::Receiver<bool>) -> std::io::Result<oneshot::Receiver<()>> {
    handle.set_transports(config.outbound.transports());
    let (tell, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(MAX_SECRET_READERS).build()?;
    std::thread::Builder::new().name("notify".into()).spawn(move || {
        let notifier = Notifier::new(handle, config);
        LocalSet::new().block_on(&runtime, notifier.run(stopped));
        // A file that is being read may lie on a disk that hangs.
        runtime.shutdown_background();
        // Nobody listens any more only when the process is about to end.
        let _ = tell.send(());
    })?;
    Ok(ended)
}

/// Carries out the tests that are asked for, one after the other, and sends nothing else: for a command that has the database to itself.
pub async fn run_channel_tests(handle: &Handle, config: NotifierConfig) -> Infallible {
    handle.set_transports(config.outbound.transports());
    let sender = MessageSender::new(handle.clone(), config);
    loop {
        while let Some(trial) = handle.next_channel_test() {
            sender.run_channel_test(trial).await;
        }
        handle.wait_for_outgoing().await;
    }
}

/// A message that was sent, or whose sending panicked.
type SendTaskResult = Result<(task::Id, MessageResult), JoinError>;

struct Notifier {
    handle: Handle,
    sender: Rc<MessageSender>,
    scheduler: SendScheduler,
    in_flight: JoinSet<MessageResult>,
    message_ids: HashMap<task::Id, MessageId>,
    reminders: Reminders,
    self_alerts: SelfAlerts,
    heartbeat: Option<Heartbeat>,
    last_round: Arc<AtomicU64>,
    /// What could not be reported yet.
    unreported: Vec<(MessageId, Vec<DeliveryReport>)>,
}

impl Notifier {
    fn new(handle: Handle, mut config: NotifierConfig) -> Self {
        let heartbeat = config.heartbeat.take();
        let last_round = Arc::clone(&config.last_round);
        let sender = Rc::new(MessageSender::new(handle.clone(), config));
        Self {
            handle,
            sender,
            scheduler: SendScheduler::default(),
            in_flight: JoinSet::new(),
            message_ids: HashMap::new(),
            reminders: Reminders::default(),
            self_alerts: SelfAlerts::default(),
            heartbeat,
            last_round,
            unreported: Vec::new(),
        }
    }

    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut aside = JoinSet::new();
        aside.spawn_local(resend::run(Rc::clone(&self.sender)));
        if let Some(heartbeat) = self.heartbeat.take() {
            aside.spawn_local(heartbeat::run(Rc::clone(&self.sender), heartbeat));
        }
        while !*stopped.borrow() {
            self.record_round();
            let again = self.run_round().await;
            tokio::select! {
                () = self.handle.wait_for_outgoing() => {}
                Some(ended) = self.in_flight.join_next_with_id() => self.finish_message(ended),
                () = sleep(again) => {}
                _ = stopped.changed() => {}
                // Each of them runs for ever, unless it panics: then the server should not look as if all were well.
                Some(_) = aside.join_next() => return,
            }
        }
        aside.abort_all();
        self.submit_unreported().await;
        let finishing = async {
            while let Some(ended) = self.in_flight.join_next_with_id().await {
                self.finish_message(ended);
                self.submit_unreported().await;
            }
        };
        if timeout(STOP_TIMEOUT, finishing).await.is_err() {
            // What is let go of is sent again by the next start, and says so.
            self.abandon_in_flight().await;
        }
    }

    /// Reports that nobody will learn what has come of the messages under way.
    async fn abandon_in_flight(&mut self) {
        let ids: Vec<_> = self.message_ids.drain().map(|(_, id)| id).collect();
        for id in ids {
            if let Some(channel) = self.scheduler.channel_of(id) {
                let now = self.now();
                let rules = DeliveryPolicy::of_channel(&channel, &self.sender.zone, now.wall);
                let reports = self.scheduler.record_result(id, MessageResult::failed(""), &rules, now, self.handle.random());
                self.unreported.push((id, reports));
            }
        }
        self.submit_unreported().await;
    }

    /// Reports, chooses and begins; how long there is nothing to do then.
    async fn run_round(&mut self) -> Duration {
        self.begin_channel_tests();
        while let Some(ended) = self.in_flight.try_join_next_with_id() {
            self.finish_message(ended);
        }
        let now = self.now();
        self.self_alerts.send(&self.sender, &mut self.scheduler, now);
        if !self.submit_unreported().await {
            return WRITER_RETRY_DELAY;
        }
        for channel in self.reminders.due_channels(&self.sender, now) {
            // One that is refused is due again.
            if matches!(self.handle.call(Command::QueueReminder(channel)).await, Ok(Ok(_))) {
                self.reminders.record_reminder(channel, now);
            }
        }
        let ScheduledWork { messages: jobs, reports, wake_at: again, .. } = {
            let resending = self.sender.resending.borrow();
            let rules = |channel: &Channel| {
                let rules = DeliveryPolicy::of_channel(channel, &self.sender.zone, now.wall);
                if resending.contains(&channel.id) { DeliveryPolicy { max_parallel: 0, ..rules } } else { rules }
            };
            self.scheduler.schedule(&self.handle, rules, now)
        };
        if !reports.is_empty() && !self.submit_reports(reports).await {
            jobs.iter().for_each(|job| self.scheduler.settle(job.id));
            return WRITER_RETRY_DELAY;
        }
        if !jobs.is_empty() && !self.begin_messages(jobs).await {
            return WRITER_RETRY_DELAY;
        }
        let longest = if self.sender.resending.borrow().is_empty() { MAX_WAIT } else { MAX_WAIT_WHILE_RESENDING };
        again.map_or(longest, |at| at.saturating_sub(self.now().uptime).min(longest))
    }

    /// Begins the tests whose turn it is. Some kinds cost money, so tests count among the messages of a day.
    fn begin_channel_tests(&mut self) {
        let now = self.now();
        while let Some(trial) = self.handle.next_channel_test() {
            let Some(channel) = self.handle.with_state(|state| state.channel(trial.channel).cloned()) else { continue };
            if self.scheduler.admit_channel_test(&channel, &DeliveryPolicy::of_channel(&channel, &self.sender.zone, now.wall), now) {
                let sender = Rc::clone(&self.sender);
                tokio::task::spawn_local(async move { sender.run_channel_test(trial).await });
            } else {
                let failed = Some("as much was sent within a day as most-a-day allows".into());
                // Whoever asked may be gone.
                let _ = trial.reply.send(ChannelTestResult { duration: Duration::ZERO, status: 0, error: failed, missed: None });
            }
        }
    }

    fn now(&self) -> CurrentTime {
        let reading = self.handle.clock().read();
        CurrentTime { wall: reading.now, uptime: reading.uptime }
    }

    fn finish_message(&mut self, ended: SendTaskResult) {
        let (task, done) = match ended {
            Ok(sent) => sent,
            // The hook has logged the panic.
            Err(error) => (error.id(), MessageResult::failed("sending it failed for a reason of our own, which the log tells")),
        };
        let Some(id) = self.message_ids.remove(&task) else { return };
        let Some(channel) = self.scheduler.channel_of(id) else { return };
        let now = self.now();
        let rules = DeliveryPolicy::of_channel(&channel, &self.sender.zone, now.wall);
        let reports = self.scheduler.record_result(id, done, &rules, now, self.handle.random());
        self.unreported.push((id, reports));
    }

    /// Writes down what has come of messages; `false` if that cannot be written now.
    async fn submit_unreported(&mut self) -> bool {
        let reports = self.unreported.iter().flat_map(|(_, reports)| reports).cloned().collect();
        if !self.submit_reports(reports).await {
            return false;
        }
        for (id, _) in self.unreported.drain(..) {
            self.scheduler.settle(id);
        }
        true
    }

    async fn submit_reports(&self, reports: Vec<DeliveryReport>) -> bool {
        let (mut commands, mut together, mut rows) = (Vec::new(), Vec::new(), 0);
        for report in reports {
            let mut part_of = |part: &[DeliveryNumber]| {
                if rows + part.len() > MAX_ATTEMPTS_PER_COMMAND && !together.is_empty() {
                    commands.push(Command::RecordDeliveryReports(std::mem::take(&mut together)));
                    rows = 0;
                }
                rows += part.len();
                together.push(DeliveryReport { rows: part.to_vec(), ..report.clone() });
            };
            if report.rows.is_empty() {
                // It is about the channel alone.
                part_of(&[]);
            }
            report.rows.chunks(MAX_ATTEMPTS_PER_COMMAND).for_each(&mut part_of);
        }
        if !together.is_empty() {
            commands.push(Command::RecordDeliveryReports(together));
        }
        self.run_commands(commands).await.is_some()
    }

    /// Has commands carried out, in order and several in one go; `None`: the writer did not take one of them.
    async fn run_commands(&self, commands: Vec<Command>) -> Option<Vec<CommandOutcome>> {
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter();
        loop {
            self.record_round();
            let submitted: Vec<_> = commands.by_ref().take(MAX_PENDING_COMMANDS).map(|command| self.handle.submit(command)).collect();
            if submitted.is_empty() {
                return Some(outcomes);
            }
            let mut is_refused = false;
            for answer in submitted {
                match answer {
                    Ok(answer) => match answer.await {
                        Ok(Ok(Ok(outcome))) => outcomes.push(outcome),
                        _ => is_refused = true,
                    },
                    Err(_) => is_refused = true,
                }
            }
            if is_refused {
                return None;
            }
        }
    }

    /// Writes down that these messages are sent, and sends them; `false` if that cannot be written now.
    async fn begin_messages(&mut self, mut jobs: Vec<Message>) -> bool {
        // What is short waits for no digest.
        jobs.sort_by_key(|job| job.items.len());
        let mut jobs = jobs.into_iter().peekable();
        while let Some(job) = jobs.next() {
            let (mut group, mut rows) = (Vec::new(), job.items.len());
            group.push(job);
            while let Some(next) = jobs.next_if(|next| rows + next.items.len() <= MAX_ATTEMPTS_PER_COMMAND) {
                rows += next.items.len();
                group.push(next);
            }
            let numbers: Vec<DeliveryNumber> = group.iter().flat_map(Message::delivery_numbers).collect();
            // More than go into one command are those of one message.
            let last = numbers.last().copied().filter(|_| numbers.len() > MAX_ATTEMPTS_PER_COMMAND);
            let commands = numbers.chunks(MAX_ATTEMPTS_PER_COMMAND).map(|numbers| Command::BeginDeliveries(numbers.to_vec(), last));
            let Some(outcomes) = self.run_commands(commands.collect()).await else {
                // Some of them may have begun, and are not sent.
                self.unreported.extend(group.iter().map(|job| (job.id, job.not_sent_reports())));
                jobs.for_each(|job| self.scheduler.settle(job.id));
                return false;
            };
            let begun = outcomes
                .into_iter()
                .filter_map(|outcome| if let CommandOutcome::DeliveriesBegun(rows) = outcome { Some(rows) } else { None });
            let begun = begun.flatten().map(|row| (row.number, row)).collect();
            for mut job in group {
                job.refresh_rows(&begun);
                if job.items.is_empty() {
                    self.scheduler.settle(job.id);
                    continue;
                }
                let sender = Rc::clone(&self.sender);
                let id = job.id;
                let task = self.in_flight.spawn_local(async move { sender.send(&job).await });
                self.message_ids.insert(task.id(), id);
            }
        }
        true
    }

    /// Tells those who watch that the notifier goes on.
    fn record_round(&self) {
        let uptime = self.now().uptime.as_micros();
        self.last_round.store(u64::try_from(uptime).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl scheduler::StateView for Handle {
    fn read_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.with_state(look)
    }
}
