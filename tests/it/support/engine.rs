//! The one way in which these tests open an engine, and an engine without doors that is stepped by hand.

use std::sync::Arc;

use overdue::clock::{Clock, ManualClock};
use overdue::domain::check::Check;
use overdue::domain::edit::Edit;
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::moment::Moment;
use overdue::engine::command::{Answer, Command, Outcome};
use overdue::engine::{self, Config, Handle, Thresholds, Writer};
use overdue::random::Random;
use overdue::store::{Medium, StoreError};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::build;

/// Opens an engine whose clock moves only when told and whose randomness follows from a seed; `change` sets what else a test needs.
pub(crate) fn open(medium: Medium, clock: &Arc<ManualClock>, change: impl FnOnce(&mut Config)) -> Result<(Handle, Writer), StoreError> {
    let (clock, random) = (Clock::Manual(Arc::clone(clock)), Random::seeded(1));
    let mut config = Config { clock, random, ..Config::new(medium, 100_000) };
    change(&mut config);
    engine::open(config)
}

/// An engine whose writer makes a step when the test says so.
pub(crate) struct Engine {
    pub(crate) handle: Handle,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<ManualClock>,
}

impl Engine {
    pub(crate) fn open(medium: Medium, thresholds: Thresholds) -> Self {
        let clock = ManualClock::at(Moment::from_secs(1_800_000_000));
        let (handle, writer) = open(medium, &clock, |config| config.thresholds = thresholds).expect("the database opens");
        Self { handle, writer, clock }
    }

    /// Submits commands together, lets the writer make one step, or as many as it takes to write large ones, and returns the answers.
    pub(crate) fn batch(&mut self, commands: impl IntoIterator<Item = Command>) -> Vec<Answer> {
        let replies: Vec<_> = commands.into_iter().map(|command| self.handle.submit(command).expect("there is room")).collect();
        assert_eq!(self.writer.step(false), Ok(true));
        let answer = |mut reply: Receiver<Answer>| {
            for _ in 0..200 {
                match reply.try_recv() {
                    Err(TryRecvError::Empty) => assert_eq!(self.writer.step(false), Ok(true)),
                    answer => return answer.expect("an answer"),
                }
            }
            panic!("no answer after 200 steps")
        };
        replies.into_iter().map(answer).collect()
    }

    /// Has a command carried out.
    pub(crate) fn done(&mut self, command: Command) -> Outcome {
        self.batch([command]).remove(0).expect("the disk is sound").expect("nothing is wrong with the command")
    }

    /// Makes a project, which in a new database has the number 1.
    pub(crate) fn project(&mut self, ping_log_limit: u32) {
        let command = build::create_project(self.handle.random(), "default", ping_log_limit);
        self.done(command);
    }

    /// Makes a check of project 1.
    pub(crate) fn check(&mut self, uuid: u128) -> CheckId {
        match self.done(create(uuid)) {
            Outcome::Created(check) => check.id,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// The check as doors see it.
    pub(crate) fn seen(&self, id: CheckId) -> Check {
        self.handle.with_state(|state| state.check(id).expect("the check").clone())
    }
}

/// Makes a check of project 1 whose UUID is this number.
pub(crate) fn create(uuid: u128) -> Command {
    build::create_check(ProjectId(1), uuid, Edit::default())
}

/// The lines with this word in them that are logged meanwhile, in this thread.
pub(crate) fn told(word: &str, of: impl FnOnce()) -> Vec<String> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(Arc::new(log.reopen().unwrap())).finish();
    tracing::subscriber::with_default(subscriber, of);
    let text = std::fs::read_to_string(log.path()).unwrap();
    text.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
}
