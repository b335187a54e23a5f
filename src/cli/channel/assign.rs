//! Selection of the checks that a channel is assigned to.

use clap::Args;
use clap::builder::FalseyValueParser;

use crate::operations::channel::CheckSelection;

/// Selection of checks of the channel's project.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct AssignedChecksArgs {
    /// All existing checks of the channel's project
    #[arg(long, env = "OVERDUE_ALL", value_parser = FalseyValueParser::new())]
    all: bool,

    /// All checks with this tag; may be given several times for checks with all of the tags, with
    /// commas in the variable
    #[arg(long, env = "OVERDUE_TAG", value_delimiter = ',')]
    tag: Vec<String>,

    /// UUIDs, slugs or names of checks; may be given several times, the variable holds one
    #[arg(long, env = "OVERDUE_CHECK", num_args = 1..)]
    check: Vec<String>,
}

impl From<AssignedChecksArgs> for CheckSelection {
    fn from(AssignedChecksArgs { all, tag, check }: AssignedChecksArgs) -> Self {
        match () {
            () if all => Self::All,
            () if check.is_empty() => Self::Tagged(tag),
            () => Self::Named(check),
        }
    }
}

/// Parses `all` or `tag:TAG`.
pub(super) fn parse_initial_checks(text: &str) -> Result<CheckSelection, &'static str> {
    match text.strip_prefix("tag:") {
        Some(tag) if !tag.is_empty() => Ok(CheckSelection::Tagged(vec![tag.into()])),
        None if text == "all" => Ok(CheckSelection::All),
        _ => Err("give all or tag:TAG"),
    }
}
