//! Commands of an import: its objects are staged invisibly in several steps, then published all at
//! once or not at all.

use std::fmt;

use crate::domain::formatting::format_count;
use crate::domain::ids::ProjectId;
use crate::domain::import_item::{
    ImportId, ImportItem, ImportItemCounts, ImportMode, NumberedFlip, NumberedPing,
};
use crate::domain::legacy_keys::LegacySecret;
use crate::domain::project::BadgeSecret;

/// Maximum number of checks in an import to a running server, since pings that arrive during the
/// publication wait for all of them. See [limits](crate::docs::limits).
pub const MAX_ONLINE_IMPORT_CHECKS: u64 = 50_000;

/// Step of an import.
#[derive(Clone, Debug)]
pub enum ImportStep {
    /// Begins an import and reserves a number for each object. Outcome:
    /// [`ImportStepOutcome::Begun`].
    Begin {
        /// Number of objects, without logs.
        object_count: u64,
        /// Number of checks among them.
        check_count: u64,
    },
    /// Adds log entries, in any order. Only the flips of one check must be ordered by time. A ping
    /// with a long body comes alone.
    Log {
        /// Import that they belong to.
        import: ImportId,
        /// Pings with their bodies.
        pings: Vec<NumberedPing>,
        /// Flips of checks.
        flips: Vec<NumberedFlip>,
    },
    /// Adds objects, each once.
    Items {
        /// Import that they belong to.
        import: ImportId,
        /// Projects and the objects that belong to them.
        objects: Vec<ImportItem>,
    },
    /// Dry run of `Finish`, with the same outcome. The import stays open.
    DryRun {
        /// Import to preview.
        import: ImportId,
        /// Options as for `Finish`.
        options: ImportFinishOptions,
    },
    /// Finishes the import: publishes all of it.
    Finish {
        /// Import to finish.
        import: ImportId,
        /// Options.
        options: ImportFinishOptions,
    },
    /// Abandons the import.
    Abandon {
        /// Import to abandon.
        import: ImportId,
    },
    /// Ends the trial of a project. Checks that are down are alerted, unless the other server has
    /// alerted them.
    EndTrial(ProjectId),
}

/// Options for the end of an import.
#[derive(Clone, Debug)]
pub struct ImportFinishOptions {
    /// Mode of the imported projects: on trial, or alerting from now on.
    pub mode: ImportMode,
    /// Secrets of other servers by which hashed keys are known. Keys refer to them by index.
    pub legacy_secrets: Vec<LegacySecret>,
    /// Secret that signed badge URLs on the other server. It is adopted if no other project has
    /// checks.
    pub badge_secret: Option<BadgeSecret>,
    /// Number of items that were sent.
    pub expected_counts: ImportItemCounts,
    /// True to replace projects even if their checks were pinged or changed here.
    pub replace: bool,
}

/// Outcome of a step of an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportStepOutcome {
    /// The import has begun.
    Begun(ImportId),
    /// The import is published.
    Finished {
        /// Number of projects that it replaced.
        replaced: usize,
        /// Local changes in these projects, which are lost.
        lost_changes: LocalChanges,
    },
}

/// Local changes in projects since they were imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalChanges {
    /// Number of checks that were pinged or changed.
    pub checks: usize,
    /// Number of pings that arrived.
    pub pings: u64,
}

impl fmt::Display for LocalChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.checks == 1 { "was" } else { "were" };
        let checks = format_count(self.checks, "check");
        let pings = format_count(usize::try_from(self.pings).unwrap_or(usize::MAX), "ping");
        write!(
            f,
            "{checks} {verb} pinged or changed here since the last import, and {pings} arrived \
             here"
        )
    }
}

/// Reason for refusing a step of an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportStepError {
    /// The import does not exist: it was abandoned, or the server was restarted.
    UnknownImport,
    /// The maximum number of open imports is reached.
    TooManyImports,
    /// The import exceeds its maximum size.
    TooLarge,
    /// The import has this number of checks, more than a running server accepts at once.
    TooManyChecks(u64),
    /// The import is inconsistent; the text says how.
    Invalid(Box<str>),
    /// Checks of projects that it would replace were pinged or changed here since they were
    /// imported.
    ChangedLocally {
        /// Extent of the changes.
        changes: LocalChanges,
        /// Names of the first ten checks, each with its project.
        names: Vec<Box<str>>,
    },
    /// Names, keys and UUIDs that another object has. Sentences that name both objects, at most
    /// ten.
    Conflicts(Vec<Box<str>>),
    /// The project is not on trial.
    NotOnTrial,
}

impl fmt::Display for ImportStepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownImport => f.write_str(
                "no such import is open: it was abandoned, or the server was restarted; begin \
                again",
            ),
            Self::TooManyImports => f.write_str(
                "too many imports are open; list them with `import list`, and end one with `import \
                abandon`",
            ),
            Self::TooLarge => f.write_str(
                "the import is too large; import some of its projects at a time with --project",
            ),
            Self::TooManyChecks(checks) => write!(
                f,
                "the import has {checks} checks, and a running server accepts at most \
                {MAX_ONLINE_IMPORT_CHECKS} at once: stop the server and import again, or import \
                some projects at a time with --project"
            ),
            Self::Invalid(problem) => {
                write!(f, "the import is invalid: {problem}")
            }
            Self::ChangedLocally { changes, names } => {
                let more = changes.checks.saturating_sub(names.len());
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                write!(
                    f,
                    "{changes}; the import would replace these checks: {}{more}",
                    names.join(", ")
                )
            }
            Self::Conflicts(sentences) => f.write_str(&sentences.join("\n")),
            Self::NotOnTrial => f.write_str("the project is not on trial"),
        }
    }
}
