//! What can be asked of an import: it is handed over some at a time, held where nobody sees it, and shown all at once or not at all.

use std::fmt;

use crate::domain::formatting::format_count;
use crate::domain::ids::ProjectId;
use crate::domain::import_item::{ImportId, ImportItem, ImportItemCounts, ImportMode, NumberedFlip, NumberedPing};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::project::BadgeSecret;

/// Checks that an import brings to a server that runs: the pings that come while they are shown wait for all of them at once. See
/// [limits](crate::docs::limits).
pub const MAX_ONLINE_IMPORT_CHECKS: u64 = 50_000;

/// A step of an import.
#[derive(Clone, Debug)]
pub enum ImportStep {
    /// It begins, and gives out so many numbers. Answered with [`StageOutcome::DeliveriesBegun`].
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
        pings: Vec<NumberedPing>,
        /// Flips.
        flips: Vec<NumberedFlip>,
    },
    /// Things, each once.
    Objects {
        /// Of which import.
        import: ImportId,
        /// Projects and what belongs to them.
        objects: Vec<ImportItem>,
    },
    /// Nothing is shown, nor is it over. Answered as if it were to finish, with what that would come to.
    Preview {
        /// Which import.
        import: ImportId,
        /// How it would end.
        ending: ImportFinishOptions,
    },
    /// All of it is shown.
    Finish {
        /// Which import.
        import: ImportId,
        /// How it ends.
        ending: ImportFinishOptions,
    },
    /// It is forgotten.
    Abandon {
        /// Which import.
        import: ImportId,
    },
    /// A project is no longer on trial: what is down and was not told where it came from is told.
    EndTrial(ProjectId),
}

/// How an import ends.
#[derive(Clone, Debug)]
pub struct ImportFinishOptions {
    /// Whether its projects tell from now on.
    pub mode: ImportMode,
    /// The secrets of old servers by which hashed keys are known, in the places that keys name.
    pub legacy_secrets: Vec<LegacySecret>,
    /// What signed badge URLs there. It signs them here from then on if no other project has any.
    pub badge_secret: Option<BadgeSecret>,
    /// How much was handed over.
    pub expected_counts: ImportItemCounts,
    /// It takes the place of projects whose checks were pinged or changed here, too.
    pub replace: bool,
}

/// What a step of an import came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportStepOutcome {
    /// It has begun.
    Begun(ImportId),
    /// All of it is shown.
    Finished {
        /// Projects that it took the place of.
        replaced: usize,
        /// What was done in these and is lost.
        lost_changes: LocalChanges,
    },
}

/// What was done here in projects since they were imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalChanges {
    /// Checks that were pinged or changed.
    pub checks: usize,
    /// Pings that arrived.
    pub pings: u64,
}

impl fmt::Display for LocalChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.checks == 1 { "was" } else { "were" };
        let (checks, pings) = (format_count(self.checks, "check"), format_count(usize::try_from(self.pings).unwrap_or(usize::MAX), "ping"));
        write!(f, "{checks} {verb} pinged or changed here since the last import, and {pings} arrived here")
    }
}

/// Why a step of an import was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportStepError {
    /// There is no such import under way: it was abandoned, or the server was started since.
    UnknownImport,
    /// As many imports are under way as may be.
    TooManyImports,
    /// It is larger than an import may be.
    TooLarge,
    /// It has so many checks, more than a server that runs takes at once.
    TooManyChecks(u64),
    /// What was handed over makes no sense; the sentence says how.
    Invalid(Box<str>),
    /// Checks of projects whose place it would take were pinged or changed here since they were imported.
    ChangedLocally {
        /// How much was done.
        changes: LocalChanges,
        /// The first ten, each with its project.
        names: Vec<Box<str>>,
    },
    /// Names, keys and UUIDs that something else here has; sentences that name both sides, at most ten.
    Conflicts(Vec<Box<str>>),
    /// The project is not on trial.
    NotOnTrial,
}

impl fmt::Display for ImportStepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownImport => {
                f.write_str("there is no such import under way: it was abandoned, or the server was started since; begin again")
            }
            Self::TooManyImports => {
                f.write_str("as many imports are under way as there may be; `import list` shows them, and `import abandon` ends one")
            }
            Self::TooLarge => f.write_str("it is larger than an import may be; take some of its projects at a time, with --project"),
            Self::TooManyChecks(checks) => write!(
                f,
                "there are {checks} checks, and a server that runs takes at most {MAX_ONLINE_IMPORT_CHECKS} at once: stop it and import again, or take \
                 some projects at a time with --project"
            ),
            Self::Invalid(problem) => write!(f, "what was to be imported makes no sense: {problem}"),
            Self::ChangedLocally { changes: done, names } => {
                let more = done.checks.saturating_sub(names.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "{done}; an import takes the place of all there was: {}{more}", names.join(", "))
            }
            Self::Conflicts(sentences) => f.write_str(&sentences.join("\n")),
            Self::NotOnTrial => f.write_str("the project is not on trial"),
        }
    }
}
