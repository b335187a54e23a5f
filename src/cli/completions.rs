//! `overdue completions`: shell completions, generated from the table of flags.

use std::io::{self, Write as _};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, CliError};

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// Shell that reads the script
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self) -> Result<(), CliError> {
        io::stdout()
            .lock()
            .write_all(&script(self.shell))
            .map_err(CliError::output_failed)
    }
}

/// Returns the script for the shell.
pub(super) fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "overdue", &mut text);
    text
}
