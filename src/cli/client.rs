//! `overdue-run`: a program with the commands `run` and `ping` of `overdue` alone, for machines
//! that only run jobs.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::run_and_ping::{PingArgs, RunArgs};
use super::{CliError, env_variables, parse_failure, print_error};

/// Runs jobs and reports them to a server: the commands `run` and `ping` of `overdue`.
#[derive(Parser)]
#[command(
    name = "overdue-run",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct ClientCli {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Subcommand)]
enum ClientCommand {
    /// Run a job and report its start, its exit status and the end of its output
    Run(RunArgs),
    /// Send a ping
    Ping(PingArgs),
}

/// Runs the command line of `overdue-run` and returns its exit status. The first word is the
/// program's name.
pub fn run_client(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    run_words(&words).unwrap_or_else(|error| print_error(error, &words, None))
}

/// Parses the words and runs their command.
fn run_words(words: &[OsString]) -> Result<ExitCode, CliError> {
    let mut tree =
        env_variables::ignore_empty_variables(ClientCli::command(), |name| std::env::var_os(name));
    let parsed = tree
        .try_get_matches_from_mut(words)
        .and_then(|matches| ClientCli::from_arg_matches(&matches));
    match parsed {
        Ok(client) => match client.command {
            ClientCommand::Run(args) => args.run().map(ExitCode::from),
            ClientCommand::Ping(args) => args.run().map(|()| ExitCode::SUCCESS),
        },
        Err(error) => parse_failure(&error, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    /// Returns the flags and values of a command, with their help and variables.
    fn arguments(tree: &clap::Command, name: &str) -> Vec<String> {
        let command = tree.find_subcommand(name).expect("the command exists");
        let about = command.get_about().map(ToString::to_string);
        let describe = |arg: &clap::Arg| {
            let help = arg.get_help().map(ToString::to_string);
            format!("{:?} {:?} {help:?}", arg.get_id(), arg.get_env())
        };
        std::iter::once(about.unwrap_or_default())
            .chain(command.get_arguments().map(describe))
            .collect()
    }

    #[test]
    fn the_commands_of_the_client_are_those_of_the_program() {
        ClientCli::command().debug_assert();
        for name in ["run", "ping"] {
            assert_eq!(
                arguments(&ClientCli::command(), name),
                arguments(&Cli::command(), name),
                "{name}"
            );
        }
    }
}
