//! `overdue docs`: the documentation as a static site.

use std::path::PathBuf;

use clap::Args;

use super::CliError;
use crate::http::dashboard::write_docs_site;

#[derive(Args)]
pub(super) struct DocsArgs {
    /// Directory for the site; it is created if it does not exist
    directory: PathBuf,
}

impl DocsArgs {
    pub(super) fn run(&self) -> Result<(), CliError> {
        write_docs_site(&self.directory).map_err(|error| {
            CliError::other(format!(
                "cannot write to {}: {error}",
                self.directory.display()
            ))
        })
    }
}
