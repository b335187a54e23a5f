//! `overdue man`: the manual pages, from the one table of flags.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};

use super::{Cli, Failure};

#[derive(Args)]
pub(super) struct ManArgs {
    /// The directory, which is made if it is not there
    directory: PathBuf,
}

impl ManArgs {
    pub(super) fn run(&self) -> Result<(), Failure> {
        write(&self.directory).map_err(|error| Failure::other(format!("cannot write to {}: {error}", self.directory.display())))
    }
}

/// Writes a page for each subcommand.
pub(super) fn write(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    // The commit is not in the pages, so that they are the same for the same flags.
    clap_mangen::generate_to(Cli::command().version(env!("CARGO_PKG_VERSION")), directory)
}
