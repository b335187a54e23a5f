//! Notifier: sends the messages in the outbox and reports the results.
//!
//! `scheduler` selects the next messages, `facts` gathers their content, `sender` sends them
//! through [`Outbound`]. All of it runs on one thread of its own. An attempt is recorded before it
//! begins and after it has ended: after a crash, messages that were in flight are sent again and
//! marked as possible duplicates.

mod delivery_policy;
mod facts;
#[cfg(test)]
mod fixture;
mod heartbeat;
mod message_result;
mod notices;
mod recipients;
mod reminders;
mod resend;
mod scheduler;
mod sender;
mod summary;

use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{self, JoinError, JoinSet, LocalSet};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

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
use message_result::AttemptResult;
use notices::Notices;
use reminders::Reminders;
use scheduler::{CurrentTime, Message, MessageId, ScheduledWork, SendScheduler};
use sender::MessageSender;
use summary::Summaries;

/// Maximum number of secret files that are read at the same time.
const MAX_SECRET_READERS: usize = 4;
/// Maximum time that messages in flight may take when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next attempt if the writer accepts no commands.
const WRITER_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of attempts that begin or end in one command: a digest has thousands, and pings
/// are written in between.
const MAX_ATTEMPTS_PER_COMMAND: usize = 256;
/// Maximum time between two readings of the wall clock, which may be set.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// [`MAX_WAIT`] while alerts of a channel are resent: new alerts wait until the response has
/// arrived.
const MAX_WAIT_WHILE_RESENDING: Duration = Duration::from_millis(100);
/// Maximum number of commands that wait for the writer at the same time. It writes all waiting
/// commands at once.
const MAX_PENDING_COMMANDS: usize = 16;

/// Configuration of the notifier.
pub struct NotifierConfig {
    /// Sender of requests, mails and commands.
    pub outbound: Outbound,
    /// Time zone of times in messages, unless a check or a channel has its own.
    pub zone: Timezone,
    /// Host name of this server in messages.
    pub host: String,
    /// Heartbeat of the server, if there is one.
    pub heartbeat: Option<Heartbeat>,
    /// Uptime at which the last round began, in microseconds, for the watchdog.
    pub last_round: Arc<AtomicU64>,
    /// Renders a check as the API does, for templates that use it.
    pub render_check: Box<dyn Fn(&Check) -> String + Send>,
    /// Base URL of the pages of checks, for links in messages. `None`: there are no pages, or the
    /// public URL of this server is unknown.
    pub pages_url: Option<String>,
    /// Creates unsubscribe links for recipients of mails. `None`: the public URL of this server is
    /// unknown.
    pub unsubscribe_links: Option<UnsubscribeLinks>,
}

/// Creates the unsubscribe link for one recipient.
pub type UnsubscribeLinks = Box<dyn Fn(UnsubscribeTarget, &str) -> Option<String> + Send>;

/// Mails from which a link unsubscribes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnsubscribeTarget {
    /// Alerts of the channel with this UUID.
    Channel(Uuid),
    /// Summaries of the user with this UUID.
    Summary(Uuid),
}

/// Starts the notifier, which runs until `stopped` is true. The receiver resolves when it has
/// ended.
///
/// # Errors
/// If the system cannot start a thread.
pub fn start(
    handle: Handle,
    config: NotifierConfig,
    stopped: watch::Receiver<bool>,
) -> std::io::Result<oneshot::Receiver<()>> {
    handle.set_transports(config.outbound.transports());
    let (ended_sender, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_SECRET_READERS)
        .build()?;
    std::thread::Builder::new()
        .name("notify".into())
        .spawn(move || {
            let notifier = Notifier::new(handle, config);
            LocalSet::new().block_on(&runtime, notifier.run(stopped));
            // A file that is being read may be on a disk that hangs.
            runtime.shutdown_background();
            // The receiver is gone only if the process is about to end.
            let _ = ended_sender.send(());
        })?;
    Ok(ended)
}

/// Runs the requested channel tests one after the other and sends nothing else: for a command that
/// has exclusive access to the database.
pub async fn run_channel_tests(handle: &Handle, config: NotifierConfig) -> Infallible {
    handle.set_transports(config.outbound.transports());
    let sender = MessageSender::new(handle.clone(), config);
    loop {
        while let Some(channel_test) = handle.next_channel_test() {
            sender.run_channel_test(channel_test).await;
        }
        handle.wait_for_outgoing().await;
    }
}

/// Result of a task that sends a message, or its panic.
type SendTaskResult = Result<(task::Id, AttemptResult), JoinError>;

struct Notifier {
    handle: Handle,
    sender: Rc<MessageSender>,
    scheduler: SendScheduler,
    in_flight: JoinSet<AttemptResult>,
    message_ids: HashMap<task::Id, MessageId>,
    reminders: Reminders,
    notices: Notices,
    summaries: Summaries,
    heartbeat: Option<Heartbeat>,
    last_round: Arc<AtomicU64>,
    /// Reports that could not be submitted yet.
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
            notices: Notices::default(),
            summaries: Summaries::default(),
            heartbeat,
            last_round,
            unreported: Vec::new(),
        }
    }

    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut background_tasks = JoinSet::new();
        background_tasks.spawn_local(resend::run(Rc::clone(&self.sender)));
        if let Some(heartbeat) = self.heartbeat.take() {
            background_tasks.spawn_local(heartbeat::run(Rc::clone(&self.sender), heartbeat));
        }
        while !*stopped.borrow() {
            self.record_round();
            let wait = self.run_round().await;
            tokio::select! {
                () = self.handle.wait_for_outgoing() => {}
                Some(ended) = self.in_flight.join_next_with_id() => self.finish_message(ended),
                () = self.summaries.wait_for_end() => {}
                () = sleep(wait) => {}
                _ = stopped.changed() => {}
                // Each of these tasks runs forever unless it panics. Then the whole notifier stops,
                // so that the server does not look healthy.
                Some(_) = background_tasks.join_next() => return,
            }
        }
        background_tasks.abort_all();
        self.submit_unreported().await;
        let finishing = async {
            while let Some(ended) = self.in_flight.join_next_with_id().await {
                self.finish_message(ended);
                self.submit_unreported().await;
            }
        };
        if timeout(STOP_TIMEOUT, finishing).await.is_err() {
            // Abandoned messages are sent again after the next start, marked as possible
            // duplicates.
            self.abandon_in_flight().await;
        }
    }

    /// Reports messages in flight as failed with an unknown result.
    async fn abandon_in_flight(&mut self) {
        let ids: Vec<_> = self.message_ids.drain().map(|(_, id)| id).collect();
        for id in ids {
            if let Some(channel) = self.scheduler.channel_of(id) {
                let now = self.now();
                let policy = DeliveryPolicy::of_channel(&channel, &self.sender.zone, now.wall);
                let reports = self.scheduler.record_result(
                    id,
                    AttemptResult::retry("", true),
                    &policy,
                    now,
                    self.handle.random(),
                );
                self.unreported.push((id, reports));
            }
        }
        self.submit_unreported().await;
    }

    /// Runs one round: reports results, selects messages and begins them. Returns the time until
    /// the next round.
    async fn run_round(&mut self) -> Duration {
        self.begin_channel_tests();
        while let Some(ended) = self.in_flight.try_join_next_with_id() {
            self.finish_message(ended);
        }
        let now = self.now();
        self.notices.send(&self.sender, &mut self.scheduler, now);
        self.summaries.send(&self.sender, now);
        if !self.submit_unreported().await {
            return WRITER_RETRY_DELAY;
        }
        for channel in self.reminders.due_channels(&self.sender, now) {
            // A rejected reminder is due again.
            if matches!(
                self.handle.call(Command::QueueReminder(channel)).await,
                Ok(Ok(_))
            ) {
                self.reminders.record_reminder(channel, now);
            }
        }
        let ScheduledWork {
            messages,
            reports,
            wake_at,
            ..
        } = {
            let channels_being_resent = self.sender.channels_being_resent.borrow();
            let policy = |channel: &Channel| {
                let policy = DeliveryPolicy::of_channel(channel, &self.sender.zone, now.wall);
                if channels_being_resent.contains(&channel.id) {
                    DeliveryPolicy {
                        max_parallel: 0,
                        ..policy
                    }
                } else {
                    policy
                }
            };
            self.scheduler.schedule(&self.handle, policy, now)
        };
        if !reports.is_empty() && !self.submit_reports(reports).await {
            messages
                .iter()
                .for_each(|message| self.scheduler.settle(message.id));
            return WRITER_RETRY_DELAY;
        }
        if !messages.is_empty() && !self.begin_messages(messages).await {
            return WRITER_RETRY_DELAY;
        }
        let max_wait = if self.sender.channels_being_resent.borrow().is_empty() {
            MAX_WAIT
        } else {
            MAX_WAIT_WHILE_RESENDING
        };
        wake_at.map_or(max_wait, |at| {
            at.saturating_sub(self.now().uptime).min(max_wait)
        })
    }

    /// Starts the next channel tests. Some kinds cost money, so tests count towards the daily
    /// limit.
    fn begin_channel_tests(&mut self) {
        let now = self.now();
        while let Some(channel_test) = self.handle.next_channel_test() {
            let Some(channel) = channel_test.channel.find(&self.handle) else {
                continue;
            };
            // All new channels have the same number: counted, the tests of one project would use up
            // the daily limit of another.
            let is_admitted = channel_test.channel.is_new(&self.handle)
                || self.scheduler.admit_channel_test(
                    &channel,
                    &DeliveryPolicy::of_channel(&channel, &self.sender.zone, now.wall),
                    now,
                );
            if is_admitted {
                let sender = Rc::clone(&self.sender);
                tokio::task::spawn_local(
                    async move { sender.run_channel_test(channel_test).await },
                );
            } else {
                let error = Some("the daily limit most-a-day is reached".into());
                // The requester may be gone.
                let _ = channel_test.reply.send(ChannelTestResult {
                    duration: Duration::ZERO,
                    status: 0,
                    error,
                    missed: None,
                });
            }
        }
    }

    fn now(&self) -> CurrentTime {
        let reading = self.handle.clock().read();
        CurrentTime {
            wall: reading.now,
            uptime: reading.uptime,
        }
    }

    fn finish_message(&mut self, ended: SendTaskResult) {
        let (task, result) = match ended {
            Ok(finished) => finished,
            // The panic hook has logged it.
            Err(error) => (
                error.id(),
                AttemptResult::retry(
                    "sending failed because of an internal error; see the server log",
                    true,
                ),
            ),
        };
        let Some(id) = self.message_ids.remove(&task) else {
            return;
        };
        let Some(channel) = self.scheduler.channel_of(id) else {
            return;
        };
        let now = self.now();
        let policy = DeliveryPolicy::of_channel(&channel, &self.sender.zone, now.wall);
        let reports = self
            .scheduler
            .record_result(id, result, &policy, now, self.handle.random());
        self.unreported.push((id, reports));
    }

    /// Submits the results of messages. False if they cannot be written now.
    async fn submit_unreported(&mut self) -> bool {
        let reports = self
            .unreported
            .iter()
            .flat_map(|(_, reports)| reports)
            .cloned()
            .collect();
        if !self.submit_reports(reports).await {
            return false;
        }
        for (id, _) in self.unreported.drain(..) {
            self.scheduler.settle(id);
        }
        true
    }

    async fn submit_reports(&self, reports: Vec<DeliveryReport>) -> bool {
        let mut commands = Vec::new();
        let mut batch = Vec::new();
        let mut rows = 0;
        for report in reports {
            let mut add_part = |part: &[DeliveryNumber]| {
                if rows + part.len() > MAX_ATTEMPTS_PER_COMMAND && !batch.is_empty() {
                    commands.push(Command::RecordDeliveryReports(std::mem::take(&mut batch)));
                    rows = 0;
                }
                rows += part.len();
                batch.push(DeliveryReport {
                    rows: part.to_vec(),
                    ..report.clone()
                });
            };
            if report.rows.is_empty() {
                // It concerns the channel only.
                add_part(&[]);
            }
            report
                .rows
                .chunks(MAX_ATTEMPTS_PER_COMMAND)
                .for_each(&mut add_part);
        }
        if !batch.is_empty() {
            commands.push(Command::RecordDeliveryReports(batch));
        }
        self.run_commands(commands).await.is_some()
    }

    /// Runs commands in order, several in one write. `None`: the writer rejected one of them.
    async fn run_commands(&self, commands: Vec<Command>) -> Option<Vec<CommandOutcome>> {
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter();
        loop {
            self.record_round();
            let submitted: Vec<_> = commands
                .by_ref()
                .take(MAX_PENDING_COMMANDS)
                .map(|command| self.handle.submit(command))
                .collect();
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

    /// Records the attempts of these messages and sends them. False if the attempts cannot be
    /// written now.
    async fn begin_messages(&mut self, mut messages: Vec<Message>) -> bool {
        // Short messages do not wait for a digest.
        messages.sort_by_key(|message| message.items.len());
        let mut messages = messages.into_iter().peekable();
        while let Some(message) = messages.next() {
            let mut group = Vec::new();
            let mut rows = message.items.len();
            group.push(message);
            while let Some(next) =
                messages.next_if(|next| rows + next.items.len() <= MAX_ATTEMPTS_PER_COMMAND)
            {
                rows += next.items.len();
                group.push(next);
            }
            let numbers: Vec<DeliveryNumber> =
                group.iter().flat_map(Message::delivery_numbers).collect();
            // If there are more than fit into one command, all belong to one message.
            let last = numbers
                .last()
                .copied()
                .filter(|_| numbers.len() > MAX_ATTEMPTS_PER_COMMAND);
            let commands =
                numbers
                    .chunks(MAX_ATTEMPTS_PER_COMMAND)
                    .map(|numbers| Command::StartAttempts {
                        rows: numbers.to_vec(),
                        last_row: last,
                    });
            let Some(outcomes) = self.run_commands(commands.collect()).await else {
                // Some of them may have begun, but they are not sent.
                self.unreported.extend(
                    group
                        .iter()
                        .map(|message| (message.id, message.not_sent_reports())),
                );
                messages.for_each(|message| self.scheduler.settle(message.id));
                return false;
            };
            let begun = outcomes.into_iter().filter_map(|outcome| {
                if let CommandOutcome::AttemptsStarted(rows) = outcome {
                    Some(rows)
                } else {
                    None
                }
            });
            let begun = begun.flatten().map(|row| (row.number, row)).collect();
            for mut message in group {
                message.refresh_rows(&begun);
                if message.items.is_empty() {
                    self.scheduler.settle(message.id);
                    continue;
                }
                let sender = Rc::clone(&self.sender);
                let id = message.id;
                let task = self
                    .in_flight
                    .spawn_local(async move { sender.send(&message).await });
                self.message_ids.insert(task.id(), id);
            }
        }
        true
    }

    /// Records for the watchdog that the notifier makes progress.
    fn record_round(&self) {
        let uptime = self.now().uptime.as_micros();
        self.last_round
            .store(u64::try_from(uptime).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl scheduler::StateView for Handle {
    fn read_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.with_state(read)
    }
}
