//! Exports a project of a soak and imports it again, which replaces it by its equal.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use overdue::domain::ids::ProjectId;
use overdue::domain::import_item::{ImportId, ImportItem, NumberedFlip, NumberedPing};
use overdue::engine::command::import::{
    ImportFinishOptions, ImportStep, ImportStepOutcome, LocalChanges,
};
use overdue::engine::command::{Command, CommandOutcome};
use overdue::import::export_format::{ExportReader, write_export};
use overdue::import::transfer::{ImportTarget, ImportTransfer};

use crate::support::engine::TestEngine;

/// Takes the steps of an import. A refused step ends the test.
struct EngineTarget<'a>(&'a mut TestEngine);

impl EngineTarget<'_> {
    fn step(&mut self, step: ImportStep) -> CommandOutcome {
        self.0.execute(Command::Import(Box::new(step)))
    }
}

impl ImportTarget for EngineTarget<'_> {
    type Error = String;

    fn begin(&mut self, object_count: u64, check_count: u64) -> Result<ImportId, String> {
        match self.step(ImportStep::Begin {
            object_count,
            check_count,
        }) {
            CommandOutcome::Import(ImportStepOutcome::Begun(import)) => Ok(import),
            outcome => Err(format!("{outcome:?}")),
        }
    }

    fn add_log_entries(
        &mut self,
        import: ImportId,
        pings: Vec<NumberedPing>,
        flips: Vec<NumberedFlip>,
    ) -> Result<(), String> {
        self.step(ImportStep::Log {
            import,
            pings,
            flips,
        });
        Ok(())
    }

    fn add_items(&mut self, import: ImportId, objects: Vec<ImportItem>) -> Result<(), String> {
        self.step(ImportStep::Items { import, objects });
        Ok(())
    }

    fn dry_run(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), String> {
        finished(&self.step(ImportStep::DryRun { import, options }))
    }

    fn finish(
        &mut self,
        import: ImportId,
        options: ImportFinishOptions,
    ) -> Result<(usize, LocalChanges), String> {
        finished(&self.step(ImportStep::Finish { import, options }))
    }

    fn abandon(&mut self, import: ImportId) {
        self.step(ImportStep::Abandon { import });
    }
}

fn finished(outcome: &CommandOutcome) -> Result<(usize, LocalChanges), String> {
    match outcome {
        CommandOutcome::Import(ImportStepOutcome::Finished {
            replaced,
            lost_changes,
        }) => Ok((*replaced, *lost_changes)),
        outcome => Err(format!("{outcome:?}")),
    }
}

/// Exports a project with its logs to a file, and replaces the project by the contents of the file.
/// A project that was not imported is deleted first, since an import replaces only imported ones.
pub(super) fn replace_by_export(engine: &mut TestEngine, project: ProjectId, file: &Path) {
    let mut lines = BufWriter::new(std::fs::File::create(file).unwrap());
    write_export(&engine.handle, Some(project), true, &mut lines).unwrap();
    lines.flush().unwrap();
    drop(lines);
    let was_imported = engine.handle.with_state(|state| {
        let found = state.project(project).expect("the project exists");
        found.project.import.is_some()
    });
    if !was_imported {
        engine.execute(Command::DeleteProject(project));
    }
    let random = engine.handle.random().clone();
    let now = engine.handle.now();
    let mut reader = ExportReader::open(file, &[], &random, &mut |_| {}).unwrap();
    let target = EngineTarget(engine);
    let mut transfer =
        ImportTransfer::begin(target, reader.contents(), now, random).expect("it begins");
    reader
        .read_logs(&mut |_| {}, &mut |entry| transfer.add_log_entry(entry))
        .unwrap();
    transfer.send_objects(reader.finish(now).0).unwrap();
    let (replaced, _) = transfer.finish(true, true).unwrap();
    assert_eq!(replaced, usize::from(was_imported), "replaced projects");
    std::fs::remove_file(file).unwrap();
}
