//! What can be asked of an import: it is handed over some at a time, held where nobody sees it, and shown all at once or not at all.

use std::fmt;

use crate::domain::adopted::ForeignSecret;
use crate::domain::ids::ProjectId;
use crate::domain::project::BadgeSecret;
use crate::domain::staged::{ImportId, ImportMode, Staged, StagedCounts, StagedFlip, StagedPing};
use crate::domain::words::count;

/// Checks that an import brings to a server that runs: the pings that come while they are shown wait for all of them at once. See
/// [limits](crate::docs::limits).
pub const MOST_SERVED_CHECKS: u64 = 50_000;

/// A step of an import.
#[derive(Clone, Debug)]
pub enum StageCommand {
    /// It begins, and gives out so many numbers. Answered with [`StageOutcome::Begun`].
    Begin {
        /// How many things there are, but for logs.
        ids: u64,
        /// How many of them are checks.
        checks: u64,
    },
    /// Entries of logs, in any order; of flips of one check the older come first. A ping with a long body comes alone.
    Log {
        /// Of which import.
        import: ImportId,
        /// Pings with their bodies.
        pings: Vec<StagedPing>,
        /// Flips.
        flips: Vec<StagedFlip>,
    },
    /// Things, each once.
    Objects {
        /// Of which import.
        import: ImportId,
        /// Projects and what belongs to them.
        objects: Vec<Staged>,
    },
    /// Nothing is shown, nor is it over. Answered as if it were to finish, with what that would come to.
    Look {
        /// Which import.
        import: ImportId,
        /// How it would end.
        ending: Ending,
    },
    /// All of it is shown.
    Finish {
        /// Which import.
        import: ImportId,
        /// How it ends.
        ending: Ending,
    },
    /// It is forgotten.
    Abandon {
        /// Which import.
        import: ImportId,
    },
    /// A project is no longer on trial: what is down and was not told where it came from is told.
    Release(ProjectId),
}

/// How an import ends.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Whether its projects tell from now on.
    pub mode: ImportMode,
    /// The secrets of old servers by which hashed keys are known, in the places that keys name.
    pub secrets: Vec<ForeignSecret>,
    /// What signed badge URLs there. It signs them here from then on if no other project has any.
    pub signing: Option<BadgeSecret>,
    /// How much was handed over.
    pub expected: StagedCounts,
    /// It takes the place of projects whose checks were pinged or changed here, too.
    pub replace: bool,
}

/// What a step of an import came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StageOutcome {
    /// It has begun.
    Begun(ImportId),
    /// All of it is shown.
    Finished {
        /// Projects that it took the place of.
        replaced: usize,
        /// What was done in these and is lost.
        lost: Lost,
    },
}

/// What was done here in projects since they were imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Checks that were pinged or changed.
    pub checks: usize,
    /// Pings that arrived.
    pub pings: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.checks == 1 { "was" } else { "were" };
        let (checks, pings) = (count(self.checks, "check"), count(usize::try_from(self.pings).unwrap_or(usize::MAX), "ping"));
        write!(f, "{checks} {verb} pinged or changed here since the last import, and {pings} arrived here")
    }
}

/// Why a step of an import was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StageRefusal {
    /// There is no such import under way: it was abandoned, or the server was started since.
    Unknown,
    /// As many imports are under way as may be.
    TooMany,
    /// It is larger than an import may be.
    TooLarge,
    /// It has so many checks, more than a server that runs takes at once.
    TooManyChecks(u64),
    /// What was handed over makes no sense; the sentence says how.
    Wrong(Box<str>),
    /// Checks of projects whose place it would take were pinged or changed here since they were imported.
    Touched {
        /// How much was done.
        done: Lost,
        /// The first ten, each with its project.
        names: Vec<Box<str>>,
    },
    /// Names, keys and UUIDs that something else here has; sentences that name both sides, at most ten.
    Taken(Vec<Box<str>>),
    /// The project is not on trial.
    NotHeld,
}

impl fmt::Display for StageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => {
                f.write_str("there is no such import under way: it was abandoned, or the server was started since; begin again")
            }
            Self::TooMany => {
                f.write_str("as many imports are under way as there may be; `import list` shows them, and `import abandon` ends one")
            }
            Self::TooLarge => f.write_str("it is larger than an import may be; take some of its projects at a time, with --project"),
            Self::TooManyChecks(checks) => write!(
                f,
                "there are {checks} checks, and a server that runs takes at most {MOST_SERVED_CHECKS} at once: stop it and import again, or take \
                 some projects at a time with --project"
            ),
            Self::Wrong(problem) => write!(f, "what was to be imported makes no sense: {problem}"),
            Self::Touched { done, names } => {
                let more = done.checks.saturating_sub(names.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "{done}; an import takes the place of all there was: {}{more}", names.join(", "))
            }
            Self::Taken(sentences) => f.write_str(&sentences.join("\n")),
            Self::NotHeld => f.write_str("the project is not on trial"),
        }
    }
}
