//! The only hands that write: every change is a [`command::Command`], applied by one writer in one order, and answered when it is on disk.
//!
//! Doors hold a [`Handle`]: they submit commands and read, from the published state (checks, projects, keys, channels) or from snapshots
//! of the file (pings, bodies, flips). Nothing that is read is ahead of the file.

mod alarm;
pub mod apply;
pub mod command;
mod feed;
mod housekeeping;
mod keys;
mod load;
mod pace;
pub mod plan;
mod query;
mod queue;
mod reading;
mod readings;
mod replies;
mod report;
pub mod state;
mod steps;
mod store_slot;
mod trial;
mod watch;
mod writer;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::domain::channel::Transports;
use crate::domain::check::Check;
use crate::domain::ids::{CheckId, ProjectId};
use crate::domain::moment::Moment;
use crate::domain::project::BadgeSecret;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::store::{Medium, Progress, StoreError};
use command::{Answer, Command, Unavailable};
use feed::Feed;
use keys::KeyNews;
use queue::Queue;
use replies::ReplyRoutes;
use state::State;
use store_slot::StoreSlot;
use trial::Trials;
use watch::Doing;

pub use feed::{Noted, Watch};
pub use housekeeping::Thresholds;
pub use pace::{Beside, Pace};
pub use replies::ReplyInbox;
pub use state::Unnotified;
pub use trial::{Trial, Tried};
pub use writer::{Ended, Writer};

/// Seconds after which a deadline should have been noticed.
const LATE_SECS: i64 = 60;
/// Checks that are looked at before the writer gets its turn.
const VISITED_AT_ONCE: usize = 1000;

/// What the engine is told once, at start.
#[derive(Clone)]
pub struct Config {
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
    pub takes_pings: bool,
    /// Whether telling waits after a time in which no pings could be taken.
    pub holds_after_outage: bool,
    /// When and in what portions the file is tidied.
    pub thresholds: Thresholds,
    /// Who is told how far a start or a recovery is.
    pub progress: Progress,
}

impl Config {
    /// An engine on this medium, with the machine's clock and randomness, that stores so many bytes of an HTTP ping's body.
    pub fn new(medium: Medium, ping_body_limit: usize) -> Self {
        Self {
            medium,
            clock: Clock::System,
            random: Random::System,
            ping_body_limit,
            takes_pings: true,
            holds_after_outage: true,
            thresholds: Thresholds::default(),
            progress: Progress::default(),
        }
    }

    /// An engine for a command that is carried out while no server runs.
    pub fn without_pings(medium: Medium) -> Self {
        Self { takes_pings: false, ..Self::new(medium, 0) }
    }
}

/// What the writer and the doors share.
struct Shared {
    queue: Queue,
    published: RwLock<State>,
    store: StoreSlot,
    writable: AtomicBool,
    doing: Doing,
    /// A page that could not be read can be: the database is to be opened anew.
    healed: AtomicBool,
    /// Checks and tables of which it was told that they cannot be read.
    told_damaged: Mutex<HashSet<(CheckId, &'static str)>>,
    reply_routes: ReplyRoutes,
    key_news: KeyNews,
    trials: Trials,
    feed: Arc<Feed>,
    clock: Clock,
    random: Random,
    ping_body_limit: usize,
    metrics: Metrics,
    /// Set once, by the part that sends.
    transports: OnceLock<Transports>,
    /// Nothing had ever been made in the database when it was opened.
    new: bool,
}

/// What a door holds of the engine. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

/// Opens the database and reads it into memory. The writer has to be run, on a thread of its own: see [`Writer::run`].
///
/// # Errors
/// When the database cannot be opened or read.
pub fn open(config: Config) -> Result<(Handle, Writer), StoreError> {
    Writer::open(config)
}

impl Handle {
    /// Hands over a command; the answer comes when it is on disk.
    ///
    /// # Errors
    /// When the queue is full or the service is stopping: the command was not taken.
    pub fn submit(&self, command: Command) -> Result<oneshot::Receiver<Answer>, Unavailable> {
        self.0.queue.push(command, self.0.reply_routes.here())
    }

    /// Hands over a command and waits for the answer.
    pub async fn call(&self, command: Command) -> Answer {
        // A writer that is gone has not answered: the command may be on disk or not.
        self.submit(command)?.await.unwrap_or(Err(Unavailable::Storage))
    }

    /// Makes an inbox for the answers to what this thread asks. [`ReplyInbox::run`] has to run on the same thread. That is many times
    /// cheaper than an answer from the writer. For threads with a single-threaded runtime.
    pub fn answer_here(&self) -> ReplyInbox {
        self.0.reply_routes.serve_this_thread()
    }

    /// Calls `look` with the published state and returns its result. Look something up in it or clone it, no more: the writer waits
    /// meanwhile.
    ///
    /// `look` must not call this function again, of any handle: the lock lets no new reader in while a writer waits, so a thread that
    /// reads twice at a time and the writer would wait for each other for ever. Debug builds panic instead.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        let _once = reading::Reading::begin();
        let state = self.0.published.read().unwrap_or_else(PoisonError::into_inner);
        look(&state)
    }

    /// Shows `visit` every check of a project, oldest first, while the writer waits for nothing that `visit` does. What is visited late
    /// may be newer than what was visited early.
    pub fn each_check(&self, project: ProjectId, mut visit: impl FnMut(Check)) {
        let mut checks = Vec::new();
        let mut last = None;
        loop {
            self.copy_checks(project, last, VISITED_AT_ONCE, &mut checks);
            last = checks.last().map(|check| check.id);
            let more = checks.len() == VISITED_AT_ONCE;
            checks.drain(..).for_each(&mut visit);
            if !more {
                return;
            }
        }
    }

    /// The checks of a project, oldest first, as [`each_check`](Self::each_check) shows them; the project has about so many.
    pub fn all_checks(&self, project: ProjectId, about: usize) -> Vec<Check> {
        let mut checks = Vec::with_capacity(about);
        let mut had = 0;
        loop {
            let last = checks.last().map(|check: &Check| check.id);
            self.copy_checks(project, last, VISITED_AT_ONCE, &mut checks);
            if checks.len() < had + VISITED_AT_ONCE {
                return checks;
            }
            had = checks.len();
        }
    }

    /// At most so many checks of a project that are younger than this one, oldest first.
    pub fn some_checks(&self, project: ProjectId, older: Option<CheckId>, most: usize) -> Vec<Check> {
        let mut checks = Vec::new();
        self.copy_checks(project, older, most, &mut checks);
        checks
    }

    fn copy_checks(&self, project: ProjectId, older: Option<CheckId>, most: usize, to: &mut Vec<Check>) {
        self.with_state(|state| to.extend(state.checks_after(project, older).take(most).cloned()));
    }

    /// The time now.
    pub fn now(&self) -> Moment {
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
        self.0.new
    }

    /// Whether commands can be carried out at the moment.
    pub fn is_writable(&self) -> bool {
        self.0.writable.load(Ordering::Relaxed) && !self.0.doing.is_stalled()
    }

    /// Whether a deadline has passed for a minute that nobody has looked at.
    pub fn is_behind(&self) -> bool {
        let now = self.now().plus_secs(-LATE_SECS);
        let is_late = |check: &Check| check.state.next_look(&check.settings).is_some_and(|at| at < now);
        let projects: Vec<_> = self.with_state(|state| state.projects().map(|project_state| project_state.project.id).collect());
        projects.into_iter().any(|project| self.any_check(project, is_late))
    }

    /// True if any check of a project is like that. The writer does not wait until all of them have been looked at.
    fn any_check(&self, project: ProjectId, is_like_that: impl Fn(&Check) -> bool) -> bool {
        let mut last = None;
        loop {
            let (found, more) = self.with_state(|state| {
                let mut seen = 0;
                for check in state.checks_after(project, last).take(VISITED_AT_ONCE) {
                    if is_like_that(check) {
                        return (true, false);
                    }
                    (last, seen) = (Some(check.id), seen + 1);
                }
                (false, seen == VISITED_AT_ONCE)
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
    pub fn waiting(&self) -> (u64, usize) {
        (self.0.queue.waiting().0, queue::MOST_COMMANDS)
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
