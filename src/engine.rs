//! The only hands that write: every change is a [`command::Command`], applied by one writer in one order, and answered when it is on disk.
//!
//! Doors hold a [`Handle`]: they submit commands and read, from the published state (checks, projects, keys, channels) or from snapshots
//! of the file (pings, bodies, flips). Nothing that is read is ahead of the file.

mod api_keys;
pub mod apply;
mod batch_log;
mod change_feed;
mod channel_test;
mod clock_jump;
pub mod command;
mod command_queue;
pub mod config_plan;
mod deadline_wheel;
mod housekeeping;
mod load;
mod metrics_query;
mod query;
mod replies;
pub mod state;
mod state_read_guard;
mod store_slot;
mod throttle;
mod writer;
mod writer_watchdog;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::domain::channel::Transports;
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::project::BadgeSecret;
use crate::domain::timestamp::Timestamp;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::store::{Medium, ProgressReporter, StoreError};
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
pub use channel_test::{ChannelTest, ChannelTestResult};
pub use housekeeping::HousekeepingLimits;
pub use replies::ReplyInbox;
pub use state::UnnotifiedReason;
pub use throttle::{ServerLocation, Throttle};
pub use writer::{Writer, WriterExit};

/// Seconds after which a deadline should have been noticed.
const OVERDUE_DEADLINE_SECS: i64 = 60;
/// Checks that are looked at before the writer gets its turn.
const CHECKS_PER_LOCK: usize = 1000;

/// What the engine is told once, at start.
#[derive(Clone)]
pub struct EngineConfig {
    /// What the database lies on.
    pub medium: Medium,
    /// Where the time comes from.
    pub clock: Clock,
    /// Where randomness comes from.
    pub random: Random,
    /// Bytes of an HTTP ping's body that are stored.
    pub ping_body_limit: usize,
    /// Whether pings are taken. A command that is carried out while no server runs takes none: it leaves deadlines, and the times in which no
    /// pings could be taken, to the next start.
    pub accepts_pings: bool,
    /// Whether telling waits after a time in which no pings could be taken.
    pub holds_alerts_after_outage: bool,
    /// When and in what portions the file is tidied.
    pub housekeeping: HousekeepingLimits,
    /// Who is told how far a start or a recovery is.
    pub progress: ProgressReporter,
}

impl EngineConfig {
    /// An engine on this medium, with the machine's clock and randomness, that stores so many bytes of an HTTP ping's body.
    pub fn new(medium: Medium, ping_body_limit: usize) -> Self {
        Self {
            medium,
            clock: Clock::System,
            random: Random::System,
            ping_body_limit,
            accepts_pings: true,
            holds_alerts_after_outage: true,
            housekeeping: HousekeepingLimits::default(),
            progress: ProgressReporter::default(),
        }
    }

    /// An engine for a command that is carried out while no server runs.
    pub fn without_pings(medium: Medium) -> Self {
        Self { accepts_pings: false, ..Self::new(medium, 0) }
    }
}

/// What the writer and the doors share.
struct Shared {
    queue: CommandQueue,
    published: RwLock<State>,
    store: StoreSlot,
    writable: AtomicBool,
    writer_activity: WriterActivity,
    /// A page that could not be read can be: the database is to be opened anew.
    is_page_readable_again: AtomicBool,
    /// Checks and tables of which it was told that they cannot be read.
    reported_damage: Mutex<HashSet<(CheckId, &'static str)>>,
    reply_routes: ReplyRoutes,
    key_updates: KeyUpdates,
    channel_tests: ChannelTestQueue,
    feed: Arc<ChangeFeed>,
    clock: Clock,
    random: Random,
    ping_body_limit: usize,
    metrics: Metrics,
    /// Set once, by the part that sends.
    transports: OnceLock<Transports>,
    /// Nothing had ever been made in the database when it was opened.
    was_empty: bool,
}

/// What a door holds of the engine. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

/// Opens the database and reads it into memory. The writer has to be run, on a thread of its own: see [`Writer::run`].
///
/// # Errors
/// When the database cannot be opened or read.
pub fn open(config: EngineConfig) -> Result<(Handle, Writer), StoreError> {
    Writer::open(config)
}

impl Handle {
    /// Hands over a command; the answer comes when it is on disk.
    ///
    /// # Errors
    /// When the queue is full or the service is stopping: the command was not taken.
    pub fn submit(&self, command: Command) -> Result<oneshot::Receiver<CommandReply>, Unavailable> {
        self.0.queue.push(command, self.0.reply_routes.thread_route())
    }

    /// Hands over a command and waits for the answer.
    pub async fn call(&self, command: Command) -> CommandReply {
        // A writer that is gone has not answered: the command may be on disk or not.
        self.submit(command)?.await.unwrap_or(Err(Unavailable::StorageFailed))
    }

    /// Makes an inbox for the answers to what this thread asks. [`ReplyInbox::run`] has to run on the same thread. That is many times
    /// cheaper than an answer from the writer. For threads with a single-threaded runtime.
    pub fn create_reply_inbox(&self) -> ReplyInbox {
        self.0.reply_routes.register_thread()
    }

    /// Calls `look` with the published state and returns its result. Look something up in it or clone it, no more: the writer waits
    /// meanwhile.
    ///
    /// `look` must not call this function again, of any handle: the lock lets no new reader in while a writer waits, so a thread that
    /// reads twice at a time and the writer would wait for each other for ever. Debug builds panic instead.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        let _once = state_read_guard::StateReadGuard::begin();
        let state = self.0.published.read().unwrap_or_else(PoisonError::into_inner);
        look(&state)
    }

    /// Shows `visit` every check of a project, oldest first, while the writer waits for nothing that `visit` does. What is visited late
    /// may be newer than what was visited early.
    pub fn for_each_check(&self, project: ProjectId, mut visit: impl FnMut(Check)) {
        let mut checks = Vec::new();
        let mut last = None;
        loop {
            self.copy_checks(project, last, CHECKS_PER_LOCK, &mut checks);
            last = checks.last().map(|check| check.id);
            let more = checks.len() == CHECKS_PER_LOCK;
            checks.drain(..).for_each(&mut visit);
            if !more {
                return;
            }
        }
    }

    /// The checks of a project, oldest first, as [`for_each_check`](Self::each_check) shows them; the project has about so many.
    pub fn all_checks(&self, project: ProjectId, about: usize) -> Vec<Check> {
        let mut checks = Vec::with_capacity(about);
        let mut had = 0;
        loop {
            let last = checks.last().map(|check: &Check| check.id);
            self.copy_checks(project, last, CHECKS_PER_LOCK, &mut checks);
            if checks.len() < had + CHECKS_PER_LOCK {
                return checks;
            }
            had = checks.len();
        }
    }

    /// At most so many checks of a project that are younger than this one, oldest first.
    pub fn checks_page(&self, project: ProjectId, older: Option<CheckId>, most: usize) -> Vec<Check> {
        let mut checks = Vec::new();
        self.copy_checks(project, older, most, &mut checks);
        checks
    }

    fn copy_checks(&self, project: ProjectId, older: Option<CheckId>, most: usize, to: &mut Vec<Check>) {
        self.with_state(|state| to.extend(state.checks_after(project, older).take(most).cloned()));
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Where the time comes from.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Where randomness comes from.
    pub fn random(&self) -> &Random {
        &self.0.random
    }

    /// The secret that signs badge URLs; always there once the engine is open.
    pub fn badge_secret(&self) -> Option<BadgeSecret> {
        self.with_state(|state| state.badge_secret)
    }

    /// Bytes of an HTTP ping's body that are stored.
    pub fn ping_body_limit(&self) -> usize {
        self.0.ping_body_limit
    }

    /// Whether the database was new when it was opened: no project, key, channel or check had ever been made in it.
    pub fn is_new(&self) -> bool {
        self.0.was_empty
    }

    /// Whether commands can be carried out at the moment.
    pub fn is_writable(&self) -> bool {
        self.0.writable.load(Ordering::Relaxed) && !self.0.writer_activity.is_stalled()
    }

    /// Whether a deadline has passed for a minute that nobody has looked at.
    pub fn has_overdue_deadlines(&self) -> bool {
        let now = self.now().plus_secs(-OVERDUE_DEADLINE_SECS);
        let is_late = |check: &Check| check.state.next_evaluation(&check.settings).is_some_and(|at| at < now);
        let projects: Vec<_> = self.with_state(|state| state.projects().map(|project_state| project_state.project.id).collect());
        projects.into_iter().any(|project| self.any_check(project, is_late))
    }

    /// True if any check of a project is like that. The writer does not wait until all of them have been looked at.
    fn any_check(&self, project: ProjectId, is_like_that: impl Fn(&Check) -> bool) -> bool {
        let mut last = None;
        loop {
            let (found, more) = self.with_state(|state| {
                let mut seen = 0;
                for check in state.checks_after(project, last).take(CHECKS_PER_LOCK) {
                    if is_like_that(check) {
                        return (true, false);
                    }
                    (last, seen) = (Some(check.id), seen + 1);
                }
                (false, seen == CHECKS_PER_LOCK)
            });
            if !more {
                return found;
            }
        }
    }

    /// The transports that the server was started with; `None`: nothing is sent here, so they are not known.
    pub fn transports(&self) -> Option<Transports> {
        self.0.transports.get().copied()
    }

    /// Notes the transports. Later calls change nothing.
    pub fn set_transports(&self, transports: Transports) {
        let _ = self.0.transports.set(transports);
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// How many commands wait for the writer, and how many may.
    pub fn queue_depth(&self) -> (u64, usize) {
        (self.0.queue.depth_and_bytes().0, command_queue::MAX_COMMANDS)
    }

    /// Bytes of the database file; `None` while it is being opened anew. It may wait for that.
    pub fn file_bytes(&self) -> Option<u64> {
        self.0.store.get().ok().map(|store| store.file_bytes())
    }

    /// Lets no more commands in; the writer carries out what waits and stops.
    pub fn close(&self) {
        self.0.queue.close();
    }
}
