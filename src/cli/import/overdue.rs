//! `overdue import overdue`: everything that another overdue has, from a file that it has written.

use std::path::PathBuf;

use clap::Args;

use super::super::Failure;
use super::handover::{self, Handover};
use super::how::How;
use super::{bar, told};
use crate::clock::Clock;
use crate::import::overdue::Reading;
use crate::random::Random;

#[derive(Args)]
pub(in crate::cli) struct OverdueArgs {
    /// File to read, as `overdue export --format jsonl` writes it; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    how: How,
}

impl OverdueArgs {
    pub(super) fn run(self, data: impl FnOnce() -> Result<PathBuf, Failure>) -> Result<(), Failure> {
        self.how.check()?;
        let bar = bar();
        let mut tell = told(&bar);
        let now = Clock::System.now();
        let mut reading = Reading::begin(&self.file, &self.how.project, &Random::System, &mut tell).map_err(Failure::usage)?;
        if self.how.is_dry() {
            bar.finish_and_clear();
            let (imported, report) = reading.end(now);
            return self.how.look(data, imported, report, &[]);
        }
        let mut handover = Handover::begin(handover::open(&data()?)?, reading.imported())?;
        reading.logs(&mut tell, &mut |entry| handover.take(entry)).map_err(Failure::usage)?;
        let (imported, report) = reading.end(now);
        bar.finish_and_clear();
        let done = self.how.finish(handover, imported)?;
        self.how.show(&report, &[], &done)
    }
}
