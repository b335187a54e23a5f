//! Opens engines for tests, among them an engine without listeners that is stepped by hand.

use std::sync::Arc;

use overdue::domain::check::Check;
use overdue::domain::check_edit::CheckEdit;
use overdue::domain::ids::{CheckId, ProjectId};
use overdue::domain::timestamp::Timestamp;
use overdue::engine::command::{Command, CommandOutcome, CommandReply};
use overdue::engine::{self, EngineConfig, Handle, HousekeepingLimits, Writer};
use overdue::store::{Medium, StoreError};
use overdue::util::clock::{Clock, ManualClock};
use overdue::util::random::Random;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::commands;

/// Opens an engine with a manual clock and seeded randomness. `change` sets the other options.
pub(crate) fn open(
    medium: Medium,
    clock: &Arc<ManualClock>,
    change: impl FnOnce(&mut EngineConfig),
) -> Result<(Handle, Writer), StoreError> {
    let clock = Clock::Manual(Arc::clone(clock));
    let random = Random::seeded(1);
    let mut config = EngineConfig {
        clock,
        random,
        ..EngineConfig::new(medium, 100_000)
    };
    change(&mut config);
    engine::open(config)
}

/// An engine whose writer runs a step when the test calls it.
pub(crate) struct TestEngine {
    pub(crate) handle: Handle,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<ManualClock>,
}

impl TestEngine {
    pub(crate) fn open(medium: Medium, thresholds: HousekeepingLimits) -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(1_800_000_000));
        let (handle, writer) = open(medium, &clock, |config| config.housekeeping = thresholds)
            .expect("the database opens");
        Self {
            handle,
            writer,
            clock,
        }
    }

    /// Submits commands together, runs one writer step, or as many as large commands need, and
    /// returns the answers.
    pub(crate) fn batch(
        &mut self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Vec<CommandReply> {
        let replies: Vec<_> = commands
            .into_iter()
            .map(|command| self.handle.submit(command).expect("the queue has room"))
            .collect();
        assert_eq!(self.writer.step(false), Ok(true));
        let answer = |mut reply: Receiver<CommandReply>| {
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

    /// Executes a command.
    pub(crate) fn execute(&mut self, command: Command) -> CommandOutcome {
        self.batch([command])
            .remove(0)
            .expect("the disk works")
            .expect("the command is valid")
    }

    /// Creates a project. In a new database it has the number 1.
    pub(crate) fn create_project(&mut self, ping_log_limit: u32) {
        let command = commands::create_project(self.handle.random(), "default", ping_log_limit);
        self.execute(command);
    }

    /// Creates a check in project 1.
    pub(crate) fn create_check(&mut self, uuid: u128) -> CheckId {
        match self.execute(create_check_command(uuid)) {
            CommandOutcome::CheckCreated(check) => check.id,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Returns the check as request handlers see it.
    pub(crate) fn read_check(&self, id: CheckId) -> Check {
        self.handle
            .with_state(|state| state.check(id).expect("the check").clone())
    }
}

/// Command that creates a check in project 1 with this number as its UUID.
pub(crate) fn create_check_command(uuid: u128) -> Command {
    commands::create_check(ProjectId(1), uuid, CheckEdit::default())
}

/// Returns the lines containing `word` that this thread logs during `work`.
pub(crate) fn log_lines_with(word: &str, work: impl FnOnce()) -> Vec<String> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_writer(Arc::new(log.reopen().unwrap()))
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = std::fs::read_to_string(log.path()).unwrap();
    text.lines()
        .filter(|line| line.contains(word))
        .map(str::to_owned)
        .collect()
}
