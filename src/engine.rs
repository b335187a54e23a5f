//! Applies all changes to the database: every change is a [`command::Command`]. A single writer
//! applies commands in one order and replies when they are on disk.
//!
//! The API, the dashboard and the command line hold a [`Handle`]. They submit commands and read,
//! either from the published state (checks, projects, keys, channels) or from snapshots of the file
//! (pings, bodies, flips). Reads never see data that is not in the file yet.

mod api_keys;
pub mod apply;
mod batch_messages;
mod change_feed;
mod channel_test;
mod clock_jump;
pub mod command;
mod command_queue;
pub mod config_plan;
mod deadline_wheel;
mod housekeeping;
#[cfg(all(test, shuttle))]
mod interleavings;
mod load;
mod metrics_query;
mod query;
mod replies;
mod stale_view;
pub mod state;
mod state_read_guard;
mod store_slot;
mod throttle;
mod writer;
mod writer_watchdog;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

use crate::domain::audit::Actor;
use crate::domain::channel::Transports;
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::metrics::Metrics;
use crate::store::{Medium, ProgressReporter, Store, StoreError};
use crate::util::clock::Clock;
use crate::util::random::Random;
use crate::util::sync::atomic::{AtomicBool, Ordering};
use crate::util::sync::{Mutex, RwLock, read};
use api_keys::KeyUpdates;
use change_feed::ChangeFeed;
use channel_test::ChannelTestQueue;
use command::{Command, CommandReply, Unavailable};
use command_queue::CommandQueue;
use replies::ReplyRoutes;
use state::State;
use store_slot::StoreSlot;
use writer_watchdog::WriterActivity;

pub use change_feed::{ChangeSet, ProjectSubscription};
pub use channel_test::{ChannelTest, ChannelTestResult, TestedChannel};
pub use housekeeping::HousekeepingLimits;
pub use replies::ReplyInbox;
pub use stale_view::open_stale_view;
pub use state::UnnotifiedReason;
pub use throttle::{ServerLocation, Throttle};
pub use writer::{Leadership, Writer, WriterExit};

/// Seconds after which a passed deadline that is not processed yet counts as overdue.
const OVERDUE_DEADLINE_SECS: i64 = 60;
/// Maximum number of checks that are read before the writer may take the lock.
const CHECKS_PER_LOCK: usize = 1000;

/// Configuration of the engine, given once at start.
#[derive(Clone)]
pub struct EngineConfig {
    /// Storage of the database: a file or memory.
    pub medium: Medium,
    /// Source of the time.
    pub clock: Clock,
    /// Source of randomness.
    pub random: Random,
    /// Maximum number of bytes stored of an HTTP ping's body.
    pub ping_body_limit: usize,
    /// True if pings are accepted. A command that runs without a server accepts none: it leaves
    /// passed deadlines, and outages of the server, to the next start.
    pub accepts_pings: bool,
    /// True if batches are made durable by the log. Otherwise each of them syncs the
    /// database.
    pub uses_log: bool,
    /// True if alerts are held back after an outage of the server.
    pub holds_alerts_after_outage: bool,
    /// Schedule and portions of housekeeping.
    pub housekeeping: HousekeepingLimits,
    /// Receives the progress of a start or a recovery.
    pub progress: ProgressReporter,
}

impl EngineConfig {
    /// Configuration for this medium, with the machine's clock and randomness. `ping_body_limit` is
    /// the maximum number of bytes stored of an HTTP ping's body.
    pub fn new(medium: Medium, ping_body_limit: usize) -> Self {
        Self {
            medium,
            clock: Clock::System,
            random: Random::System,
            ping_body_limit,
            accepts_pings: true,
            uses_log: true,
            holds_alerts_after_outage: true,
            housekeeping: HousekeepingLimits::default(),
            progress: ProgressReporter::default(),
        }
    }

    /// Configuration for a command that runs without a server.
    pub fn without_pings(medium: Medium) -> Self {
        Self {
            accepts_pings: false,
            uses_log: false,
            ..Self::new(medium, 0)
        }
    }
}

/// Data that the writer and all handles share.
struct Shared {
    queue: CommandQueue,
    published: RwLock<State>,
    store: StoreSlot,
    writable: AtomicBool,
    writer_activity: WriterActivity,
    /// True if a page that was unreadable is readable again: the database must be reopened.
    is_page_readable_again: AtomicBool,
    /// Checks and tables that were already reported as unreadable.
    reported_damage: Mutex<HashSet<(CheckId, &'static str)>>,
    reply_routes: ReplyRoutes,
    key_updates: KeyUpdates,
    channel_tests: ChannelTestQueue,
    feed: Arc<ChangeFeed>,
    clock: Clock,
    random: Random,
    ping_body_limit: usize,
    metrics: Metrics,
    /// Set once, by the notifier.
    transports: OnceLock<Transports>,
    /// Set once, by a machine that leads a cluster.
    answer_condition: OnceLock<AnswerCondition>,
    /// True if the database was new when it was opened.
    was_empty: bool,
    /// Time of the data, if the engine has no writer.
    as_of: Option<Timestamp>,
}

impl Shared {
    /// Data of an engine whose writer has not started: it is not writable.
    fn new(
        store: Arc<Store>,
        published: State,
        (clock, random): (Clock, Random),
        ping_body_limit: usize,
    ) -> Self {
        Self {
            queue: CommandQueue::new(HousekeepingLimits::default().upload_threshold_bytes),
            published: RwLock::new(published),
            store: StoreSlot::new(store),
            writable: AtomicBool::new(false),
            writer_activity: WriterActivity::default(),
            is_page_readable_again: AtomicBool::new(false),
            reported_damage: Mutex::default(),
            reply_routes: ReplyRoutes::default(),
            key_updates: KeyUpdates::default(),
            channel_tests: ChannelTestQueue::default(),
            feed: Arc::default(),
            metrics: Metrics::new(clock.now()),
            clock,
            random,
            ping_body_limit,
            transports: OnceLock::new(),
            answer_condition: OnceLock::new(),
            was_empty: false,
            as_of: None,
        }
    }
}

/// Condition for answers from memory.
type AnswerCondition = Box<dyn Fn() -> bool + Send + Sync>;

/// Access to the engine for the API, the dashboard and other modules. Cheap to clone. With an
/// actor, its commands are in the audit log.
#[derive(Clone)]
pub struct Handle(Arc<Shared>, Option<Arc<Actor>>);

/// Opens the database and reads it into memory. The caller must run the writer on a thread of its
/// own: see [`Writer::run`].
///
/// # Errors
/// If the database cannot be opened or read.
pub fn open(config: EngineConfig) -> Result<(Handle, Writer), StoreError> {
    Writer::open(config, None)
}

/// Opens the database like [`open`], to lead a cluster. The database must contain all records of
/// the log.
///
/// # Errors
/// If the database cannot be opened or read, or the log cannot be written.
pub fn open_as_leader(
    config: EngineConfig,
    leadership: Leadership,
) -> Result<(Handle, Writer), StoreError> {
    Writer::open(config, Some(leadership))
}

impl Handle {
    /// Returns a handle that submits commands of an actor.
    #[must_use]
    pub fn with_actor(&self, actor: Actor) -> Self {
        Self(Arc::clone(&self.0), Some(Arc::new(actor)))
    }

    /// Queues a command. The reply comes when the change is on disk.
    ///
    /// # Errors
    /// If the queue is full or the service is stopping. The command was not accepted.
    pub fn submit(&self, command: Command) -> Result<oneshot::Receiver<CommandReply>, Unavailable> {
        let command = match &self.1 {
            Some(actor) => command.attributed_to(actor),
            None => command,
        };
        self.0
            .queue
            .push(command, self.0.reply_routes.thread_route())
    }

    /// Queues a command and waits for the reply.
    pub async fn call(&self, command: Command) -> CommandReply {
        // A writer that has stopped has not replied: the command may or may not be on disk.
        self.submit(command)?
            .await
            .unwrap_or(Err(Unavailable::StorageFailed))
    }

    /// Creates an inbox for the replies to commands of this thread. [`ReplyInbox::run`] must run on
    /// the same thread. Replies through it are many times cheaper than replies sent by the writer.
    /// Needs a single-threaded runtime.
    pub fn create_reply_inbox(&self) -> ReplyInbox {
        self.0.reply_routes.register_thread()
    }

    /// Calls `look` with the published state and returns its result. `look` should only look up or
    /// clone, because the writer waits meanwhile.
    ///
    /// `look` must not call this function again, on any handle. The lock admits no new reader while
    /// a writer waits, so a thread that reads twice at the same time would deadlock with the
    /// writer. Debug builds panic instead.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        let _read_guard = state_read_guard::StateReadGuard::begin();
        let state = read(&self.0.published);
        look(&state)
    }

    /// Calls `visit` with every check of a project, oldest first. The writer never waits for
    /// `visit`. Checks that are visited later may show a later state.
    pub fn for_each_check(&self, project: ProjectId, mut visit: impl FnMut(Check)) {
        let mut checks = Vec::new();
        let mut last = None;
        loop {
            self.copy_checks(project, last, CHECKS_PER_LOCK, &mut checks);
            last = checks.last().map(|check| check.id);
            let has_more = checks.len() == CHECKS_PER_LOCK;
            checks.drain(..).for_each(&mut visit);
            if !has_more {
                return;
            }
        }
    }

    /// Checks of a project, oldest first, as in [`for_each_check`](Self::for_each_check).
    /// `expected_count` is the approximate number of checks.
    pub fn all_checks(&self, project: ProjectId, expected_count: usize) -> Vec<Check> {
        let mut checks = Vec::with_capacity(expected_count);
        let mut previous_len = 0;
        loop {
            let last = checks.last().map(|check: &Check| check.id);
            self.copy_checks(project, last, CHECKS_PER_LOCK, &mut checks);
            if checks.len() < previous_len + CHECKS_PER_LOCK {
                return checks;
            }
            previous_len = checks.len();
        }
    }

    fn copy_checks(
        &self,
        project: ProjectId,
        after: Option<CheckId>,
        limit: usize,
        checks: &mut Vec<Check>,
    ) {
        self.with_state(|state| {
            checks.extend(state.checks_after(project, after).take(limit).cloned());
        });
    }

    /// Current time.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Source of the time.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Source of randomness.
    pub fn random(&self) -> &Random {
        &self.0.random
    }

    /// Secret that signs badge URLs. Always present once the engine is open.
    pub fn badge_secret(&self) -> Option<BadgeSecret> {
        self.with_state(|state| state.badge_secret)
    }

    /// Maximum number of bytes stored of an HTTP ping's body.
    pub fn ping_body_limit(&self) -> usize {
        self.0.ping_body_limit
    }

    /// True if the database was new when it was opened: it never had a project, key, channel or
    /// check.
    pub fn is_new(&self) -> bool {
        self.0.was_empty
    }

    /// True if commands can currently be applied, and pings are not refused.
    pub fn is_writable(&self) -> bool {
        self.0.writable.load(Ordering::Relaxed)
            && !self.0.writer_activity.is_stalled()
            && !self.refuses_pings()
    }

    /// Refuses pings from now on, or accepts them again. Other commands are accepted as before. The
    /// caller records the outage.
    pub fn refuse_pings(&self, refuses_pings: bool) {
        self.0.queue.set_refuses_pings(refuses_pings);
    }

    /// True if pings are refused.
    pub fn refuses_pings(&self) -> bool {
        self.0.queue.refuses_pings()
    }

    /// True if a deadline passed at least a minute ago and was not processed.
    pub fn has_overdue_deadlines(&self) -> bool {
        let latest = self.now().plus_secs(-OVERDUE_DEADLINE_SECS);
        let projects: Vec<_> = self.with_state(|state| {
            state
                .projects()
                .map(|project_state| project_state.project.id)
                .collect()
        });
        projects.into_iter().any(|project| {
            !self.visit_published_checks(project, |check| !was_due_before(check, latest))
        })
    }

    /// Calls `visit` with the published checks of a project, oldest first, until it returns false.
    /// Returns true if all were visited. The writer may take the lock in between, but waits for
    /// `visit`, which should only look up.
    fn visit_published_checks(
        &self,
        project: ProjectId,
        mut visit: impl FnMut(&Check) -> bool,
    ) -> bool {
        let mut last = None;
        loop {
            let mut count = 0;
            let is_complete = self.with_state(|state| {
                let mut checks = state.checks_after(project, last).take(CHECKS_PER_LOCK);
                checks.all(|check| {
                    (last, count) = (Some(check.id), count + 1);
                    visit(check)
                })
            });
            if !is_complete || count < CHECKS_PER_LOCK {
                return is_complete;
            }
        }
    }

    /// Transports that the server was started with. `None` if they are unknown, because this
    /// process sends nothing.
    pub fn transports(&self) -> Option<Transports> {
        self.0.transports.get().copied()
    }

    /// True if answers may be given from memory. False on a machine of a cluster that may have been
    /// replaced as its leader.
    pub fn may_answer(&self) -> bool {
        let condition = self.0.answer_condition.get();
        condition.is_none_or(|condition| condition())
    }

    /// Sets the condition for answers. Later calls have no effect.
    pub fn set_answer_condition(&self, condition: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.0.answer_condition.set(Box::new(condition));
    }

    /// Sets the transports. Later calls have no effect.
    pub fn set_transports(&self, transports: Transports) {
        let _ = self.0.transports.set(transports);
    }

    /// Metrics of this process.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Number of commands that wait for the writer, and its maximum.
    pub fn queue_depth(&self) -> (u64, usize) {
        (
            self.0.queue.depth_and_bytes().0,
            command_queue::MAX_COMMANDS,
        )
    }

    /// Size of the database file in bytes. `None` while it is being reopened. May wait for that.
    pub fn file_bytes(&self) -> Option<u64> {
        self.0.store.get().ok().map(|store| store.file_bytes())
    }

    /// Stops accepting commands. The writer applies the queued ones and stops.
    pub fn close(&self) {
        self.0.queue.close();
    }
}

/// True if a deadline or a decision of a check was due before `time`.
fn was_due_before(check: &Check, time: Timestamp) -> bool {
    check
        .state
        .next_evaluation(&check.settings)
        .is_some_and(|at| at < time)
}
