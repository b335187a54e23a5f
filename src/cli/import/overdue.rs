//! `overdue import overdue`: imports everything of another overdue server, from a file that it
//! exported.

use std::path::PathBuf;

use clap::Args;

use super::super::CliError;
use super::mode_args::ImportModeArgs;
use super::upload;
use super::{progress_bar, progress_callback};
use crate::import::export_format::ExportReader;
use crate::util::clock::Clock;
use crate::util::random::Random;

#[derive(Args)]
pub(in crate::cli) struct ImportOverdueArgs {
    /// File to read, as `overdue export --format jsonl` writes it; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    how: ImportModeArgs,
}

impl ImportOverdueArgs {
    pub(super) fn run(
        self,
        data: impl FnOnce() -> Result<PathBuf, CliError>,
    ) -> Result<(), CliError> {
        self.how.require_mode()?;
        let bar = progress_bar();
        let mut on_progress = progress_callback(&bar);
        let now = Clock::System.now();
        let mut reader = ExportReader::open(
            &self.file,
            &self.how.project,
            &Random::System,
            &mut on_progress,
        )
        .map_err(CliError::usage)?;
        if self.how.is_dry_run() {
            bar.finish_and_clear();
            let (imported, report) = reader.finish(now);
            return self.how.finish_dry_run(data, imported, report, &[]);
        }
        let mut upload = upload::begin(upload::open_target(&data()?)?, reader.contents())?;
        reader
            .read_logs(&mut on_progress, &mut |entry| upload.add_log_entry(entry))
            .map_err(CliError::usage)?;
        let (imported, report) = reader.finish(now);
        bar.finish_and_clear();
        let summary = self.how.finish(upload, imported)?;
        self.how.print_report(&report, &[], &summary)
    }
}
