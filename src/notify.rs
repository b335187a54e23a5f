//! Whoever should know is told: what waits in the outbox is sent, and what has come of it is reported.
//!
//! `plan` says what is sent next, `facts` gathers what there is to say, `sending` sends it through [`Outbound`]. All of it runs
//! on one thread of its own. An attempt is written down before it begins and when it has ended: after a crash what was under way is sent
//! again, and says that it may be a repeat.

mod facts;
mod heartbeat;
mod notices;
mod plan;
mod recipients;
mod repeat;
mod rules;
mod sending;
mod sustain;

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
use crate::engine::command::{Command, Outcome, Report};
use crate::engine::state::State;
use crate::engine::{Handle, Tried};
use crate::outbound::Outbound;
pub use heartbeat::Heartbeat;
use notices::Notices;
use plan::{Job, JobEnd, JobId, Now, Plan, Step};
use repeat::Reminders;
use rules::Rules;
use sending::MessageSender;

/// Secrets that are read from their files at the same time.
const MOST_READERS: usize = 4;
/// How long what is under way may take when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);
/// How long nothing is tried when the writer takes nothing.
const PAUSE: Duration = Duration::from_secs(1);
/// Attempts that begin, or end, in one command: a digest has thousands of them, and pings go in between.
const AT_ONCE: usize = 256;
/// The longest wait without looking at the time, since clocks are set.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same while alerts of a channel are sent again, and what is new waits for the answer.
const RESENDING: Duration = Duration::from_millis(100);
/// Commands that wait for the writer at the same time: it writes what waits in one go.
const TOGETHER: usize = 16;

/// What the notifier is told once, at start.
pub struct Config {
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
    pub show: Box<dyn Fn(&Check) -> String + Send>,
    /// The base URL under which pages of checks are served, for links in messages; `None`: there are none, or it is not known where this
    /// server is reached.
    pub pages: Option<String>,
    /// Unsubscribe links for recipients of mails; `None`: it is not known where this server is reached.
    pub unsubscribe: Option<Unsubscribe>,
}

/// Makes the unsubscribe link of a channel for one recipient.
pub type Unsubscribe = Box<dyn Fn(&Channel, &str) -> Option<String> + Send>;

/// Starts telling, until `stopped` holds true; the receiver tells when it has ended.
///
/// # Errors
/// When the system gives no thread.
pub fn start(handle: Handle, config: Config, stopped: watch::Receiver<bool>) -> std::io::Result<oneshot::Receiver<()>> {
    handle.set_transports(config.outbound.transports());
    let (tell, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(MOST_READERS).build()?;
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
pub async fn try_channels(handle: &Handle, config: Config) -> Infallible {
    handle.set_transports(config.outbound.transports());
    let sender = MessageSender::new(handle.clone(), config);
    loop {
        while let Some(trial) = handle.next_trial() {
            sender.try_channel(trial).await;
        }
        handle.something_to_send().await;
    }
}

/// A message that was sent, or whose sending panicked.
type Joined = Result<(task::Id, JobEnd), JoinError>;

struct Notifier {
    handle: Handle,
    sender: Rc<MessageSender>,
    plan: Plan,
    under_way: JoinSet<JobEnd>,
    jobs: HashMap<task::Id, JobId>,
    reminders: Reminders,
    notices: Notices,
    heartbeat: Option<Heartbeat>,
    last_round: Arc<AtomicU64>,
    /// What could not be reported yet.
    unreported: Vec<(JobId, Vec<Report>)>,
}

impl Notifier {
    fn new(handle: Handle, mut config: Config) -> Self {
        let heartbeat = config.heartbeat.take();
        let last_round = Arc::clone(&config.last_round);
        let sender = Rc::new(MessageSender::new(handle.clone(), config));
        Self {
            handle,
            sender,
            plan: Plan::default(),
            under_way: JoinSet::new(),
            jobs: HashMap::new(),
            reminders: Reminders::default(),
            notices: Notices::default(),
            heartbeat,
            last_round,
            unreported: Vec::new(),
        }
    }

    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut aside = JoinSet::new();
        aside.spawn_local(sustain::run(Rc::clone(&self.sender)));
        if let Some(heartbeat) = self.heartbeat.take() {
            aside.spawn_local(heartbeat::run(Rc::clone(&self.sender), heartbeat));
        }
        while !*stopped.borrow() {
            self.note_round();
            let again = self.round().await;
            tokio::select! {
                () = self.handle.something_to_send() => {}
                Some(ended) = self.under_way.join_next_with_id() => self.ended(ended),
                () = sleep(again) => {}
                _ = stopped.changed() => {}
                // Each of them runs for ever, unless it panics: then the server should not look as if all were well.
                Some(_) = aside.join_next() => return,
            }
        }
        aside.abort_all();
        self.report().await;
        let finishing = async {
            while let Some(ended) = self.under_way.join_next_with_id().await {
                self.ended(ended);
                self.report().await;
            }
        };
        if timeout(STOP_TIME, finishing).await.is_err() {
            // What is let go of is sent again by the next start, and says so.
            self.let_go().await;
        }
    }

    /// Reports that nobody will learn what has come of the messages under way.
    async fn let_go(&mut self) {
        let ids: Vec<_> = self.jobs.drain().map(|(_, id)| id).collect();
        for id in ids {
            if let Some(channel) = self.plan.channel_of(id) {
                let now = self.now();
                let rules = Rules::of(&channel, &self.sender.zone, now.wall);
                let reports = self.plan.done(id, JobEnd::failed(""), &rules, now, self.handle.random());
                self.unreported.push((id, reports));
            }
        }
        self.report().await;
    }

    /// Reports, chooses and begins; how long there is nothing to do then.
    async fn round(&mut self) -> Duration {
        self.try_channels();
        while let Some(ended) = self.under_way.try_join_next_with_id() {
            self.ended(ended);
        }
        let now = self.now();
        self.notices.send(&self.sender, &mut self.plan, now);
        if !self.report().await {
            return PAUSE;
        }
        for channel in self.reminders.due(&self.sender, now) {
            // One that is refused is due again.
            if matches!(self.handle.call(Command::Remind(channel)).await, Ok(Ok(_))) {
                self.reminders.reminded(channel, now);
            }
        }
        let Step { jobs, reports, again, .. } = {
            let resending = self.sender.resending.borrow();
            let rules = |channel: &Channel| {
                let rules = Rules::of(channel, &self.sender.zone, now.wall);
                if resending.contains(&channel.id) { Rules { parallel: 0, ..rules } } else { rules }
            };
            self.plan.step(&self.handle, rules, now)
        };
        if !reports.is_empty() && !self.submit(reports).await {
            jobs.iter().for_each(|job| self.plan.settled(job.id));
            return PAUSE;
        }
        if !jobs.is_empty() && !self.begin(jobs).await {
            return PAUSE;
        }
        let longest = if self.sender.resending.borrow().is_empty() { PATIENCE } else { RESENDING };
        again.map_or(longest, |at| at.saturating_sub(self.now().uptime).min(longest))
    }

    /// Begins the tests whose turn it is. Some kinds cost money, so tests count among the messages of a day.
    fn try_channels(&mut self) {
        let now = self.now();
        while let Some(trial) = self.handle.next_trial() {
            let Some(channel) = self.handle.with_state(|state| state.channel(trial.channel).cloned()) else { continue };
            if self.plan.may_try(&channel, &Rules::of(&channel, &self.sender.zone, now.wall), now) {
                let sender = Rc::clone(&self.sender);
                tokio::task::spawn_local(async move { sender.try_channel(trial).await });
            } else {
                let failed = Some("as much was sent within a day as most-a-day allows".into());
                // Whoever asked may be gone.
                let _ = trial.reply.send(Tried { took: Duration::ZERO, status: 0, failed, missed: None });
            }
        }
    }

    fn now(&self) -> Now {
        let reading = self.handle.clock().reading();
        Now { wall: reading.now, uptime: reading.uptime }
    }

    fn ended(&mut self, ended: Joined) {
        let (task, done) = match ended {
            Ok(sent) => sent,
            // The hook has logged the panic.
            Err(error) => (error.id(), JobEnd::failed("sending it failed for a reason of our own, which the log tells")),
        };
        let Some(id) = self.jobs.remove(&task) else { return };
        let Some(channel) = self.plan.channel_of(id) else { return };
        let now = self.now();
        let rules = Rules::of(&channel, &self.sender.zone, now.wall);
        let reports = self.plan.done(id, done, &rules, now, self.handle.random());
        self.unreported.push((id, reports));
    }

    /// Writes down what has come of messages; `false` if that cannot be written now.
    async fn report(&mut self) -> bool {
        let reports = self.unreported.iter().flat_map(|(_, reports)| reports).cloned().collect();
        if !self.submit(reports).await {
            return false;
        }
        for (id, _) in self.unreported.drain(..) {
            self.plan.settled(id);
        }
        true
    }

    async fn submit(&self, reports: Vec<Report>) -> bool {
        let (mut commands, mut together, mut rows) = (Vec::new(), Vec::new(), 0);
        for report in reports {
            let mut part_of = |part: &[DeliveryNumber]| {
                if rows + part.len() > AT_ONCE && !together.is_empty() {
                    commands.push(Command::ReportDeliveries(std::mem::take(&mut together)));
                    rows = 0;
                }
                rows += part.len();
                together.push(Report { rows: part.to_vec(), ..report.clone() });
            };
            if report.rows.is_empty() {
                // It is about the channel alone.
                part_of(&[]);
            }
            report.rows.chunks(AT_ONCE).for_each(&mut part_of);
        }
        if !together.is_empty() {
            commands.push(Command::ReportDeliveries(together));
        }
        self.carry_out(commands).await.is_some()
    }

    /// Has commands carried out, in order and several in one go; `None`: the writer did not take one of them.
    async fn carry_out(&self, commands: Vec<Command>) -> Option<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter();
        loop {
            self.note_round();
            let submitted: Vec<_> = commands.by_ref().take(TOGETHER).map(|command| self.handle.submit(command)).collect();
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
    async fn begin(&mut self, mut jobs: Vec<Job>) -> bool {
        // What is short waits for no digest.
        jobs.sort_by_key(|job| job.items.len());
        let mut jobs = jobs.into_iter().peekable();
        while let Some(job) = jobs.next() {
            let (mut group, mut rows) = (Vec::new(), job.items.len());
            group.push(job);
            while let Some(next) = jobs.next_if(|next| rows + next.items.len() <= AT_ONCE) {
                rows += next.items.len();
                group.push(next);
            }
            let numbers: Vec<DeliveryNumber> = group.iter().flat_map(Job::numbers).collect();
            // More than go into one command are those of one message.
            let last = numbers.last().copied().filter(|_| numbers.len() > AT_ONCE);
            let commands = numbers.chunks(AT_ONCE).map(|numbers| Command::BeginDeliveries(numbers.to_vec(), last));
            let Some(outcomes) = self.carry_out(commands.collect()).await else {
                // Some of them may have begun, and are not sent.
                self.unreported.extend(group.iter().map(|job| (job.id, job.not_sent())));
                jobs.for_each(|job| self.plan.settled(job.id));
                return false;
            };
            let begun = outcomes.into_iter().filter_map(|outcome| if let Outcome::Begun(rows) = outcome { Some(rows) } else { None });
            let begun = begun.flatten().map(|row| (row.number, row)).collect();
            for mut job in group {
                job.take_over(&begun);
                if job.items.is_empty() {
                    self.plan.settled(job.id);
                    continue;
                }
                let sender = Rc::clone(&self.sender);
                let id = job.id;
                let task = self.under_way.spawn_local(async move { sender.send(&job).await });
                self.jobs.insert(task.id(), id);
            }
        }
        true
    }

    /// Tells those who watch that the notifier goes on.
    fn note_round(&self) {
        let uptime = self.now().uptime.as_micros();
        self.last_round.store(u64::try_from(uptime).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl plan::View for Handle {
    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.with_state(look)
    }
}
