//! Flags that several subcommands have.

use clap::Args;
use clap::builder::FalseyValueParser;

/// The flag of every list.
#[derive(Args)]
pub(super) struct Json {
    /// Print JSON
    #[arg(long, env = "OVERDUE_JSON", value_parser = FalseyValueParser::new())]
    pub(super) json: bool,
}

/// A project that something new will belong to.
#[derive(Args)]
pub(super) struct OneProject {
    /// Name or UUID of its project
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    pub(super) project: String,
}

/// A project to look in.
#[derive(Args)]
pub(super) struct AnyProject {
    /// Name or UUID of the project to look in [default: all]
    #[arg(long, env = "OVERDUE_PROJECT", value_name = "NAME")]
    pub(super) project: Option<String>,
}
